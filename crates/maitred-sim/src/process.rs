//! Processes as they stand at a moment, and what a policy sees of them.

use std::collections::VecDeque;

use crate::Micros;

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// The slot has no process.
    #[default]
    Empty,
    /// Not ready.
    Starting,
    /// Takes requests.
    Serving,
    /// Takes no more, and ends with its last one.
    Draining,
}

/// A process, or a slot for one.
#[derive(Debug, Clone, Default)]
pub struct Process {
    /// What the process does.
    pub state: State,
    /// Since when; for one that serves, since when it has had no request, or has had one.
    pub since: Micros,
    /// When it was started.
    pub started: Micros,
    /// Threads that exist.
    pub ready: u32,
    /// Threads with a request.
    pub busy: u32,
    /// Requests that it has had.
    pub handled: u64,
    /// Accepted, and no thread has them.
    pub(crate) pending: VecDeque<Request>,
    /// Tells a process from earlier ones in its slot.
    pub(crate) epoch: u32,
}

impl Process {
    /// Whether it serves, and has nothing to do.
    pub fn is_idle(&self) -> bool {
        self.state == State::Serving && self.busy == 0
    }
}

/// What a policy sees.
pub struct View<'a> {
    /// The time.
    pub now: Micros,
    /// Slots of each bucket.
    pub buckets: &'a [Vec<Process>],
    /// Requests in the accept queue of each bucket.
    pub queued: &'a [u32],
}

impl View<'_> {
    /// All slots.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        self.buckets.iter().flatten()
    }

    /// How many slots are such.
    pub fn count(&self, such: impl Fn(&Process) -> bool) -> u32 {
        self.processes().map(|process| u32::from(such(process))).sum()
    }

    /// The last slot that is such, in the bucket that has the most of them.
    pub fn find_last(&self, such: impl Fn(&Process) -> bool) -> Option<(usize, usize)> {
        let count = |slots: &[Process]| slots.iter().filter(|process| such(process)).count();
        let (bucket, slots) = self.buckets.iter().enumerate().max_by_key(|(_, slots)| count(slots))?;
        slots.iter().rposition(&such).map(|slot| (bucket, slot))
    }
}

/// A request that has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) arrived: Micros,
    pub(crate) service: Micros,
    /// Whether its client sends another one after it.
    pub(crate) returns: bool,
}
