//! The keys that tokens are checked by, which all threads share. The keys can be replaced while requests are checked.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use maitred_base::jwt::keys::{Key, Ring};
use maitred_config::{JwtKeys, KeySource};

/// The rings of the configuration, one for each set, by its index.
#[derive(Debug)]
pub(super) struct KeyRings {
    rings: Vec<Shared>,
}

#[derive(Debug)]
struct Shared {
    ring: RwLock<Arc<Ring>>,
    can_be_fetched: bool,
    /// When the master was last told that a key is missing, in seconds of Unix time.
    asked_at: AtomicU64,
}

impl KeyRings {
    /// With the keys that were there when the configuration was read.
    pub(super) fn new(sets: &[JwtKeys]) -> KeyRings {
        let shared = |set: &JwtKeys| Shared {
            ring: RwLock::new(Arc::new(Ring::new(&set.keys))),
            can_be_fetched: matches!(set.source, KeySource::Url(_)),
            asked_at: AtomicU64::new(0),
        };
        KeyRings { rings: sets.iter().map(shared).collect() }
    }

    /// The keys of one set, as they are now; none if there is no such set.
    pub(super) fn get(&self, set: usize) -> Arc<Ring> {
        let ring = self.rings.get(set).map(|set| set.ring.read().unwrap_or_else(PoisonError::into_inner));
        ring.map(|ring| Arc::clone(&ring)).unwrap_or_default()
    }

    /// Replaces the keys of one set.
    pub(super) fn replace(&self, set: usize, keys: &[Key]) {
        let new = Arc::new(Ring::new(keys));
        if let Some(ring) = self.rings.get(set) {
            *ring.ring.write().unwrap_or_else(PoisonError::into_inner) = new;
        }
    }

    /// Whether the master is to be told that a set lacks a key: where it can be fetched, and at most once a second.
    pub(super) fn asks(&self, set: usize, unix_secs: u64) -> bool {
        let set = self.rings.get(set).filter(|set| set.can_be_fetched);
        set.is_some_and(|set| set.asked_at.swap(unix_secs, Relaxed) != unix_secs)
    }
}
