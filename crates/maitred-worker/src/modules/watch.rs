//! Event loops that a module does not give back: seen once a second, by the control thread.

use std::time::{Duration, Instant};

use maitred_sys::module::calls::Call;

/// A module that holds an event loop for longer is the end of its worker process. The clients of that process have given up by
/// then, as have those of all other connections of the thread.
pub(crate) const HANGS: Duration = Duration::from_secs(10);

/// What the threads were seen to be in.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    threads: Vec<Option<Held>>,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    call: Call,
    since: Instant,
    told: bool,
}

/// What is to be said of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    /// A module has held it since the last look.
    Holds {
        /// Which thread.
        thread: usize,
        /// Which module.
        module: u16,
    },
    /// A module has held it for too long.
    Hangs {
        /// Which module.
        module: u16,
    },
}

impl Watch {
    /// Looks at what the threads' cells say; one call of a module is spoken of once.
    pub(crate) fn look(&mut self, cells: impl Iterator<Item = u64>, now: Instant) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (thread, value) in cells.enumerate() {
            if self.threads.len() <= thread {
                self.threads.push(None);
            }
            let Some(seen) = self.threads.get_mut(thread) else { break };
            let call = Call::of(value);
            let before = seen.filter(|held| Some(held.call) == call);
            *seen = call.map(|call| before.unwrap_or(Held { call, since: now, told: false }));
            let Some(held) = seen.as_mut().filter(|_| before.is_some()) else { continue };
            let module = held.call.module;
            if now.saturating_duration_since(held.since) >= HANGS {
                findings.push(Finding::Hangs { module });
            } else if !std::mem::replace(&mut held.told, true) {
                findings.push(Finding::Holds { thread, module });
            }
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_lasts_is_named_once_and_is_the_end_after_ten_seconds() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        // The first call of module 6, and the second one of module 0.
        let (six, zero) = (1 << 16 | 7, 2 << 16 | 1);
        let mut watch = Watch::default();
        assert_eq!(watch.look([0, six].into_iter(), at(0)), []);
        assert_eq!(watch.look([0, six].into_iter(), at(1)), [Finding::Holds { thread: 1, module: 6 }]);
        assert_eq!(watch.look([0, six].into_iter(), at(9)), []);
        assert_eq!(watch.look([0, six].into_iter(), at(10)), [Finding::Hangs { module: 6 }]);
        assert_eq!(watch.look([zero, 2 << 16 | 7].into_iter(), at(11)), [], "another call");
        assert_eq!(watch.look([2 << 16, 2 << 16].into_iter(), at(12)), [], "both are back");
        assert_eq!(watch.look([3 << 16 | 1, 2 << 16 | 7].into_iter(), at(13)), []);
    }
}
