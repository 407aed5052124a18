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
    silent: BTreeMap<Box<str>, Instant>,
    pending: Vec<String>,
}

impl Wanted {
    /// A client asks for a name without a certificate.
    pub fn note(&self, name: &str, now: Instant) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.silent.get(name).is_some_and(|until| *until > now) || inner.pending.len() >= PENDING_MAX {
            return;
        }
        if inner.keep(name, now + AGAIN, now) {
            inner.pending.push(name.to_owned());
            self.pending.store(inner.pending.len(), Relaxed);
        }
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
        inner.keep(name, now + long, now);
    }
}

impl Inner {
    /// False if there is no room for another name.
    fn keep(&mut self, name: &str, until: Instant, now: Instant) -> bool {
        if self.silent.len() >= NAMES_MAX && !self.silent.contains_key(name) {
            self.silent.retain(|_, until| *until > now);
        }
        let room = self.silent.len() < NAMES_MAX || self.silent.contains_key(name);
        if room {
            self.silent.insert(name.into(), until);
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
        wanted.note("a.example", now);
        wanted.note("a.example", now);
        wanted.note("b.example", now);
        assert_eq!(wanted.take(), ["a.example", "b.example"]);
        wanted.note("a.example", now + AGAIN / 2);
        assert!(wanted.take().is_empty());
        wanted.refused("b.example", 3 * AGAIN, now);
        for name in ["a.example", "b.example"] {
            wanted.note(name, now + 2 * AGAIN);
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
        wanted.note("more", now);
        assert!(wanted.take().is_empty(), "there is no room");
        wanted.note("more", now + 2 * AGAIN);
        assert_eq!(wanted.take(), ["more"]);
    }
}
