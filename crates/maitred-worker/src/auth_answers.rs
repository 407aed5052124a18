//! Answers of `forward_auth` that are kept, which all threads share.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use maitred_http::fields::FieldLines;

use maitred_policy::access::answers::Answers;
use maitred_policy::access::known::{Digest, KeyedHash, Parts};

/// What is kept of an answer.
#[derive(Debug)]
pub(super) struct Kept {
    /// The status of the answer.
    pub(super) status: u16,
    /// The fields of the answer: of one that admits, those that are copied.
    pub(super) fields: FieldLines,
    /// The content of the answer, which the client of a request that is refused gets.
    pub(super) content: Vec<u8>,
}

/// The kept answers of the server.
#[derive(Debug)]
pub(super) struct AuthAnswers {
    hash: Option<KeyedHash>,
    caches: Vec<RwLock<Answers<Kept>>>,
}

impl AuthAnswers {
    /// A cache for each of these numbers of entries ([`Config::auth_caches`](maitred_config::Config::auth_caches)).
    pub(super) fn new(entries: &[u32]) -> AuthAnswers {
        let cache = |max: &u32| RwLock::new(Answers::new(*max as usize));
        let hash = if entries.is_empty() { None } else { KeyedHash::random() };
        AuthAnswers { hash, caches: entries.iter().map(cache).collect() }
    }

    /// Begins the hash that a question is found by. `None`: nothing can be kept, as the kernel gives no random bytes.
    pub(super) fn begin(&self) -> Option<Parts> {
        self.hash.as_ref().map(KeyedHash::begin)
    }

    /// What was answered, while that holds.
    pub(super) fn get(&self, cache: usize, of: &Digest, now: Instant) -> Option<Arc<Kept>> {
        self.caches.get(cache)?.read().unwrap_or_else(PoisonError::into_inner).get(of, now)
    }

    /// Keeps an answer.
    pub(super) fn keep(&self, cache: usize, of: Digest, kept: Kept, time: Duration, now: Instant) {
        if let Some(cache) = self.caches.get(cache) {
            cache.write().unwrap_or_else(PoisonError::into_inner).keep(of, kept, time, now);
        }
    }
}
