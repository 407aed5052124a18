//! Names that clients have asked for, and that have no certificate yet: what threads find in handshakes, on its way to the agent
//! that gets certificates. All threads share it. What is kept has bounds, since any client can ask for any name.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Names that are remembered: about 300 bytes each, so 1 MiB.
const NAMES_MAX: usize = 4096;
/// Names on their way to the master; it is asked in the same turn of a thread.
const PENDING_MAX: usize = 64;
/// How long nothing is said about a name after it was: an order takes a few seconds.
const AGAIN: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug, Default)]
pub struct Wanted {
    inner: Mutex<Inner>,
    /// How many names are pending, so that the lock is only taken if there are any.
    pending: AtomicUsize,
}

#[derive(Debug, Default)]
struct Inner {
    /// Until when nothing is said of a name.
    silent: BTreeMap<Box<str>, Silence>,
    pending: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
struct Silence {
    until: Instant,
    /// There will be no certificate in that time.
    refused: bool,
}

impl Wanted {
    /// A client asks for a name without a certificate. Whether one is going to be asked for, or was: then the handshake can wait.
    pub fn note(&self, name: &str, now: Instant) -> bool {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(silence) = inner.silent.get(name).filter(|silence| silence.until > now) {
            return !silence.refused;
        }
        let room = inner.pending.len() < PENDING_MAX
            && inner.keep(name, Silence { until: now + AGAIN, refused: false }, now);
        if room {
            inner.pending.push(name.to_owned());
            self.pending.store(inner.pending.len(), Relaxed);
        }
        room
    }

    /// The names of which something is to be said now; none most of the time, at the price of one load.
    pub fn take(&self) -> Vec<String> {
        if self.pending.load(Relaxed) == 0 {
            return Vec::new();
        }
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        self.pending.store(0, Relaxed);
        std::mem::take(&mut inner.pending)
    }

    /// There will be no certificate for this name; it is not wanted again for so long.
    pub fn refused(&self, name: &str, long: Duration, now: Instant) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.keep(name, Silence { until: now + long, refused: true }, now);
    }

    /// There will be none for now, but it may be asked for again.
    pub fn later(&self, name: &str, now: Instant) {
        self.refused(name, AGAIN, now);
    }
}

impl Inner {
    /// False if there is no room for another name.
    fn keep(&mut self, name: &str, silence: Silence, now: Instant) -> bool {
        if self.silent.len() >= NAMES_MAX && !self.silent.contains_key(name) {
            self.silent.retain(|_, silence| silence.until > now);
        }
        let room = self.silent.len() < NAMES_MAX || self.silent.contains_key(name);
        if room {
            self.silent.insert(name.into(), silence);
        }
        room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_wanted_once_and_then_for_a_while_not() {
        let (wanted, now) = (Wanted::default(), Instant::now());
        for name in ["a.example", "a.example", "b.example"] {
            assert!(wanted.note(name, now), "a handshake can wait");
        }
        assert_eq!(wanted.take(), ["a.example", "b.example"]);
        assert!(wanted.note("a.example", now + AGAIN / 2), "it was asked for");
        assert!(wanted.take().is_empty());
        wanted.refused("b.example", 3 * AGAIN, now);
        wanted.later("c.example", now);
        assert!(!wanted.note("c.example", now), "there will be none for now");
        for (name, waits) in [("a.example", true), ("b.example", false)] {
            assert_eq!(wanted.note(name, now + 2 * AGAIN), waits);
        }
        assert_eq!(wanted.take(), ["a.example"]);
    }

    #[test]
    fn names_have_a_bound_and_make_room_when_their_time_is_over() {
        let (wanted, now) = (Wanted::default(), Instant::now());
        for number in 0..2 * NAMES_MAX {
            wanted.note(&number.to_string(), now);
            assert!(wanted.inner.lock().unwrap().pending.len() <= PENDING_MAX);
            if number % PENDING_MAX == 0 {
                wanted.take();
            }
        }
        wanted.take();
        assert_eq!(wanted.inner.lock().unwrap().silent.len(), NAMES_MAX);
        assert!(!wanted.note("more", now));
        assert!(wanted.take().is_empty(), "there is no room");
        wanted.note("more", now + 2 * AGAIN);
        assert_eq!(wanted.take(), ["more"]);
    }
}
