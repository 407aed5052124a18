//! `forward_auth`: another server says whether a request may be answered, and who its client is.

use std::time::Duration;

use crate::config::{AuthCache, ForwardAuth};

/// What is asked, and what is taken from the answer.
#[derive(Debug)]
pub struct Forward {
    /// Index of the pool that answers.
    pub pool: usize,
    /// The target of the question.
    pub path: Box<str>,
    /// How long the answer may take.
    pub timeout: Duration,
    /// How answers are kept, if they are.
    pub cache: Option<AuthCache>,
    /// The fields of the answer that the request's own pool gets, in lower case.
    copied: Vec<Box<str>>,
}

/// What an answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// The request may be answered.
    Admitted,
    /// The client gets the answer itself: it is sent to a page where it can sign in, or is asked for credentials.
    PassedOn,
    /// Nothing that a client could use.
    Failed,
}

impl Meaning {
    /// As Caddy and Traefik have it: 2xx admits. Of others, errors of the server itself are no answers.
    pub fn of(status: u16) -> Meaning {
        match status {
            200..300 => Meaning::Admitted,
            300..500 => Meaning::PassedOn,
            _ => Meaning::Failed,
        }
    }
}

impl Forward {
    /// Compiles it.
    pub fn new(settings: &ForwardAuth) -> Forward {
        let copied = settings.copy_headers.iter().map(|name| name.to_ascii_lowercase().into()).collect();
        let (pool, path) = (settings.pool, settings.path.as_str().into());
        Forward { pool, path, timeout: settings.timeout, cache: settings.cache.clone(), copied }
    }

    /// The name by which a field of an answer is copied, if it is.
    pub fn copies(&self, name: &[u8]) -> Option<&str> {
        let mut copied = self.copied.iter().map(|copied| &**copied);
        copied.find(|copied| copied.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Whether the value of this field is the user's name: the first one that is copied and called so.
    pub fn names_user(&self, name: &str) -> bool {
        self.copied.iter().find(|copied| copied.ends_with("user")).is_some_and(|copied| **copied == *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_admit_are_passed_on_or_fail() {
        for (status, meaning) in [
            (200, Meaning::Admitted),
            (204, Meaning::Admitted),
            (302, Meaning::PassedOn),
            (401, Meaning::PassedOn),
            (403, Meaning::PassedOn),
            (500, Meaning::Failed),
            (0, Meaning::Failed),
        ] {
            assert_eq!(Meaning::of(status), meaning, "{status}");
        }
    }

    #[test]
    fn fields_are_copied_by_name() {
        let forward = Forward::new(&ForwardAuth {
            pool: 0,
            path: "/verify".to_owned(),
            copy_headers: ["Remote-Groups", "Remote-User", "X-Forwarded-User"].map(str::to_owned).to_vec(),
            timeout: Duration::from_secs(1),
            cache: None,
        });
        assert_eq!(forward.copies(b"REMOTE-user"), Some("remote-user"));
        assert_eq!(forward.copies(b"remote-email"), None);
        assert!(forward.names_user("remote-user") && !forward.names_user("x-forwarded-user"));
    }
}
