//! The order of the requests that wait for a server of a pool: of each, the thread that has it.
//!
//! A place at a server becomes free in one thread, and the request that has waited longest may be in another one. So the thread
//! of that one gets a message, and takes the place if it is still free. Requests that come meanwhile go to the end of the line,
//! so that none is passed over.
//!
//! No wake-up is lost: a thread enters the line before it looks for a place the last time, and one that frees a place looks at
//! the line afterwards. The two steps are in one order ([`SeqCst`]), so at least one of them sees what the other has done.

use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The threads of the waiting requests, in order. The length is bounded by what bounds the requests (`queue.max`).
#[derive(Debug, Default)]
pub struct Line {
    threads: Mutex<VecDeque<u16>>,
    /// The number of the requests.
    length: AtomicUsize,
}

impl Line {
    /// Whether no request waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.length.load(SeqCst) == 0
    }

    /// The thread whose request is the next.
    pub(crate) fn front(&self) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        self.lock().front().map(|thread| usize::from(*thread))
    }

    /// A request of this thread waits now; `again`: it has waited longest, and the place that it was to get is taken.
    pub(crate) fn join(&self, thread: usize, again: bool) {
        let Ok(thread) = u16::try_from(thread) else { return };
        let mut threads = self.lock();
        match again {
            true => threads.push_front(thread),
            false => threads.push_back(thread),
        }
        self.length.store(threads.len(), SeqCst);
    }

    /// Takes out the first of the requests of this thread, which waits no more.
    pub(crate) fn leave(&self, thread: usize) {
        let mut threads = self.lock();
        if let Some(at) = threads.iter().position(|other| usize::from(*other) == thread) {
            threads.remove(at);
        }
        self.length.store(threads.len(), SeqCst);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<u16>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_come_in_the_order_of_their_requests() {
        let line = Line::default();
        assert!(line.is_empty() && line.front().is_none());
        for thread in [3, 1, 3] {
            line.join(thread, false);
        }
        line.join(2, true);
        let mut seen = Vec::new();
        while let Some(thread) = line.front() {
            seen.push(thread);
            line.leave(thread);
        }
        assert_eq!(seen, [2, 3, 1, 3]);
        assert!(line.is_empty());
    }

    #[test]
    fn a_request_that_leaves_is_of_its_thread_or_of_none() {
        let line = Line::default();
        line.join(1, false);
        line.leave(2);
        assert_eq!(line.front(), Some(1));
        line.leave(1);
        line.leave(1);
        assert!(line.is_empty());
    }
}
