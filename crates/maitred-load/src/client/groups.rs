//! Clients of the log with open connections or waiting requests, and which of them need a connection.

use std::collections::VecDeque;

use hashbrown::HashMap;
use slab::Slab;

use super::Request;

/// One client.
#[derive(Debug, Default)]
pub(super) struct Group {
    client: u64,
    /// Connections that are open or being opened.
    pub(super) open: usize,
    /// Open connections that are idle.
    pub(super) idle: Vec<u32>,
    /// Requests that wait for a connection.
    pub(super) waiting: VecDeque<Box<Request>>,
    is_hungry: bool,
}

#[derive(Debug, Default)]
pub(super) struct Groups {
    slab: Slab<Group>,
    by_client: HashMap<u64, u32>,
    /// Most often the next request is of the same client.
    last: Option<(u64, u32)>,
    /// Groups with waiting requests that may open a connection, once there is room for one.
    hungry: VecDeque<u32>,
}

impl Groups {
    /// The group of a client, new if need be.
    pub(super) fn of(&mut self, client: u64) -> u32 {
        if let Some((_, index)) = self.last.filter(|(last, _)| *last == client) {
            return index;
        }
        let slab = &mut self.slab;
        let index = *self
            .by_client
            .entry(client)
            .or_insert_with(|| slab.insert(Group { client, ..Group::default() }) as u32);
        self.last = Some((client, index));
        index
    }

    pub(super) fn get(&mut self, index: u32) -> Option<&mut Group> {
        self.slab.get_mut(index as usize)
    }

    /// Notes that the group needs a connection.
    pub(super) fn set_hungry(&mut self, index: u32) {
        let Some(group) = self.slab.get_mut(index as usize) else { return };
        if !std::mem::replace(&mut group.is_hungry, true) {
            self.hungry.push_back(index);
        }
    }

    pub(super) fn has_hungry(&self) -> bool {
        !self.hungry.is_empty()
    }

    /// A group that still needs a connection: has waiting requests, and fewer than `per_client_max` connections.
    pub(super) fn next_hungry(&mut self, per_client_max: usize) -> Option<u32> {
        while let Some(index) = self.hungry.pop_front() {
            let Some(group) = self.slab.get_mut(index as usize) else { continue };
            group.is_hungry = false;
            if !group.waiting.is_empty() && group.open < per_client_max {
                return Some(index);
            }
            self.forget_if_done(index);
        }
        None
    }

    /// Puts back what [`Groups::next_hungry`] gave, at the front.
    pub(super) fn put_back(&mut self, index: u32) {
        if let Some(group) = self.slab.get_mut(index as usize) {
            group.is_hungry = true;
            self.hungry.push_front(index);
        }
    }

    /// Drops a group that has nothing any more.
    pub(super) fn forget_if_done(&mut self, index: u32) {
        let is_done = |group: &Group| group.open == 0 && group.waiting.is_empty() && !group.is_hungry;
        if self.slab.get(index as usize).is_some_and(is_done) {
            let group = self.slab.remove(index as usize);
            self.by_client.remove(&group.client);
            self.last = None;
        }
    }

    /// Takes all waiting requests away.
    #[expect(clippy::vec_box, reason = "they are boxed already")]
    pub(super) fn drain_waiting(&mut self) -> Vec<Box<Request>> {
        self.slab.iter_mut().flat_map(|(_, group)| group.waiting.drain(..)).collect()
    }
}
