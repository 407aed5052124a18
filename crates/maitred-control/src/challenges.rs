//! What the worker process answers to HTTP-01 while an authority looks. All threads share it. Handshakes of TLS-ALPN-01 are
//! answered with the certificates of `maitred_tls::material::Material::challenges`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use super::{Answer, Challenge};

/// Where the answers of HTTP-01 are looked for (RFC 8555 section 8.3).
pub const PATH: &str = "/.well-known/acme-challenge/";

/// The answers, empty most of the time.
#[derive(Debug, Default)]
pub struct Challenges {
    table: Mutex<BTreeMap<u64, Challenge>>,
    /// How many there are, so that the lock is only taken if there are any.
    count: AtomicUsize,
}

impl Challenges {
    /// With what was under way when this process was started.
    pub fn new(challenges: &[Challenge]) -> Challenges {
        let all = Challenges::default();
        challenges.iter().cloned().for_each(|challenge| all.set(challenge));
        all
    }

    /// Answers a challenge from now on.
    pub fn set(&self, challenge: Challenge) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.insert(challenge.serial, challenge);
        self.count.store(table.len(), Relaxed);
    }

    /// No longer answers the challenge of this number.
    pub fn over(&self, serial: u64) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.remove(&serial);
        self.count.store(table.len(), Relaxed);
    }

    /// What a request for this path gets, whatever the host: the token is the secret. `None` most of the time, at the price of
    /// comparing the begin of the path.
    pub fn answer(&self, path: &[u8]) -> Option<String> {
        let wanted = path.strip_prefix(PATH.as_bytes()).filter(|_| self.count.load(Relaxed) > 0)?;
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.values().find_map(|challenge| match &challenge.answer {
            Answer::Http { token, key_authorization } if token.as_bytes() == wanted => {
                Some(key_authorization.clone())
            }
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(serial: u64, token: &str, text: &str) -> Challenge {
        let answer = Answer::Http { token: token.into(), key_authorization: text.into() };
        Challenge { serial, name: "a.example".into(), answer }
    }

    #[test]
    fn a_token_is_answered_until_it_is_over() {
        let challenges = Challenges::new(&[http(1, "one", "one.key")]);
        challenges.set(http(2, "two", "two.key"));
        let answer = |token: &str| challenges.answer(format!("{PATH}{token}").as_bytes());
        assert_eq!(answer("one").as_deref(), Some("one.key"));
        assert_eq!(answer("two").as_deref(), Some("two.key"));
        assert_eq!(answer("three"), None);
        assert_eq!(answer(""), None);
        assert_eq!(challenges.answer(b"/one"), None);
        challenges.over(1);
        assert_eq!((answer("one"), answer("two").as_deref()), (None, Some("two.key")));
    }
}
