//! The keys that tokens are checked by, which all threads share. They can be replaced while requests are checked.

use std::sync::{Arc, PoisonError, RwLock};

use crate::config::JwtKeys;
use crate::jwt::keys::Ring;

/// One ring for each set of the configuration, by its index.
#[derive(Debug)]
pub(super) struct KeyRings(Vec<RwLock<Arc<Ring>>>);

impl KeyRings {
    /// With the keys that were there when the configuration was read.
    pub(super) fn new(sets: &[JwtKeys]) -> KeyRings {
        KeyRings(sets.iter().map(|set| RwLock::new(Arc::new(Ring::new(&set.keys)))).collect())
    }

    /// The keys of one set, as they are now; none if there is no such set.
    pub(super) fn get(&self, set: usize) -> Arc<Ring> {
        let ring =
            self.0.get(set).map(|ring| Arc::clone(&ring.read().unwrap_or_else(PoisonError::into_inner)));
        ring.unwrap_or_default()
    }
}
