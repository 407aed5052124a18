//! Which connections an application process can write to.

use std::collections::VecDeque;

/// Descriptors that one application process keeps. Below the usual soft limit of 1,024 open files, with room for its own.
pub(super) const DESCRIPTORS_KEPT_MAX: usize = 900;

/// Which connections' descriptors an application process keeps, in the order in which it got them.
#[derive(Debug, Default)]
pub struct Known {
    bits: Vec<u64>,
    pub(super) order: VecDeque<u32>,
}

impl Known {
    /// Whether the descriptor of `connection` is kept there.
    pub fn has(&self, connection: u32) -> bool {
        let word = self.bits.get(connection as usize / 64).copied().unwrap_or(0);
        word & (1 << (connection % 64)) != 0
    }

    /// Notes that it is kept from now on.
    pub fn insert(&mut self, connection: u32) {
        let word = connection as usize / 64;
        if word >= self.bits.len() {
            self.bits.resize(word + 1, 0);
        }
        self.bits[word] |= 1 << (connection % 64);
        self.order.push_back(connection);
    }

    /// Notes that it is not; false if it was not kept anyway.
    pub fn remove(&mut self, connection: u32) -> bool {
        if !self.has(connection) {
            return false;
        }
        self.bits[connection as usize / 64] &= !(1 << (connection % 64));
        self.order.retain(|other| *other != connection);
        true
    }

    /// The one that was passed longest ago and that `spare` allows to let go, once there are too many.
    pub(super) fn surplus(&self, spare: impl Fn(u32) -> bool) -> Option<u32> {
        if self.order.len() < DESCRIPTORS_KEPT_MAX {
            return None;
        }
        self.order.iter().copied().find(|connection| spare(*connection))
    }
}
