//! Which connections an application process can write to, and how many descriptors it can have of what it is given.

use crate::keys::{ConnKey, Key};
use std::collections::VecDeque;

/// Open files that a process is taken to be allowed, if neither it nor the configuration says so: the usual soft limit.
pub(crate) const OPEN_FILES_DEFAULT: u32 = 1_024;
/// Of more than that no use is made: forgetting a connection looks through those that are kept.
const OPEN_FILES_MAX: u32 = 8_192;
/// Descriptors that a process has at least for itself: channel, output, what its interpreter and its database have open.
const OWN_MIN: u32 = 32;
/// Descriptors that it is given at all events, however few it may have.
const GIVEN_MIN: usize = 4;

/// How many descriptors a process may have of what it is given: connections, relays, files of bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// Descriptors that the process keeps. Before it gets one more, the longest unused is forgotten.
    pub given: usize,
    /// Descriptors that the process was asked to forget, and of which it is not known whether it has. A descriptor arrives
    /// before the process has seen what stands before it.
    pub forgotten: usize,
}

impl Allowance {
    /// What a process may have that can open so many files: an eighth, but at least [`OWN_MIN`], is its own.
    pub(crate) fn of(open_files: u32) -> Allowance {
        let open_files = open_files.min(OPEN_FILES_MAX);
        let own = (open_files / 8).max(OWN_MIN);
        let given = (open_files.saturating_sub(own) as usize).max(GIVEN_MIN);
        Allowance { given, forgotten: (own / 3) as usize }
    }
}

/// Which connections' descriptors an application process keeps, those about first that were unused for longest.
#[derive(Debug, Default)]
pub(crate) struct Known {
    bits: Vec<u64>,
    /// Used since it was last looked for one to forget.
    used: Vec<u64>,
    pub(in crate::handoff) order: VecDeque<ConnKey>,
}

impl Known {
    /// Whether the descriptor of `connection` is kept there.
    pub(crate) fn has(&self, connection: ConnKey) -> bool {
        has(&self.bits, connection)
    }

    /// How many are.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether none is.
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Notes that it is kept from now on.
    pub(crate) fn insert(&mut self, connection: ConnKey) {
        let word = connection.place() / 64;
        if word >= self.bits.len() {
            self.bits.resize(word + 1, 0);
            self.used.resize(word + 1, 0);
        }
        self.bits[word] |= bit(connection);
        self.used[word] &= !(bit(connection));
        self.order.push_back(connection);
    }

    /// Notes that the one that is kept is used again.
    pub(crate) fn touch(&mut self, connection: ConnKey) {
        if let Some(word) = self.used.get_mut(connection.place() / 64) {
            *word |= bit(connection);
        }
    }

    /// Notes that it is not; false if it was not kept anyway.
    pub(crate) fn remove(&mut self, connection: ConnKey) -> bool {
        if !self.has(connection) {
            return false;
        }
        self.bits[connection.place() / 64] &= !(bit(connection));
        self.order.retain(|other| *other != connection);
        true
    }

    /// A descriptor that was not used for long and that `spare` allows to forget: the first that was not used since the last
    /// time, as CLOCK does it for pages.
    pub(super) fn unused(&mut self, spare: impl Fn(ConnKey) -> bool) -> Option<ConnKey> {
        for _ in 0..2 * self.order.len() {
            let connection = self.order.pop_front()?;
            let used = has(&self.used, connection);
            if !used && spare(connection) {
                self.order.push_front(connection);
                return Some(connection);
            }
            self.order.push_back(connection);
            if let Some(word) = self.used.get_mut(connection.place() / 64) {
                *word &= !(bit(connection));
            }
        }
        None
    }
}

fn bit(connection: ConnKey) -> u64 {
    1 << (connection.place() % 64)
}

fn has(bits: &[u64], connection: ConnKey) -> bool {
    bits.get(connection.place() / 64).copied().unwrap_or(0) & (bit(connection)) != 0
}
