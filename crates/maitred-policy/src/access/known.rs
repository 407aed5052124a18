//! What is known of credentials that were checked, by a keyed hash of them.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use rustix::rand::{GetRandomFlags, getrandom};

/// A keyed hash, which only this process can make.
pub type Digest = [u8; 32];

/// Makes keyed hashes: HMAC-SHA256, by a random key that is nowhere else.
#[derive(Debug, Clone)]
pub struct KeyedHash(hmac::Key);

impl KeyedHash {
    /// With a new key; `None` where the kernel gives no random bytes.
    pub fn random() -> Option<KeyedHash> {
        let mut bytes = [0; 32];
        // The library's own generator collects entropy for 16 ms of CPU time when it is first used: each worker process would be
        // ready that much later. 32 bytes come at once, or not at all (getrandom(2)).
        let got = getrandom(&mut bytes, GetRandomFlags::empty()).ok()?;
        if got < bytes.len() {
            return None;
        }
        Some(KeyedHash(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    /// Of parts, which cannot run into one another.
    pub fn begin(&self) -> Parts {
        Parts(hmac::Context::with_key(&self.0))
    }
}

/// A keyed hash that is being made.
pub struct Parts(hmac::Context);

impl Parts {
    /// One more part.
    pub fn add(&mut self, part: &[u8]) {
        self.0.update(&part.len().to_be_bytes());
        self.0.update(part);
    }

    /// The hash of them.
    pub fn digest(self) -> Digest {
        let mut digest = [0; 32];
        digest.iter_mut().zip(self.0.sign().as_ref()).for_each(|(to, from)| *to = *from);
        digest
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Parts")
    }
}

/// Entries that are kept: each is a user on a site. What is beyond it is checked again.
pub const RIGHT_MAX: usize = 4096;
/// Credentials that were wrong: apart, so that trying passwords does not displace those that are right.
pub const WRONG_MAX: usize = 1024;
/// How long wrong credentials are refused without another look: clients that repeat them cost nothing, and a user who is added at
/// a reload comes to another process anyway.
pub const WRONG_FOR: Duration = Duration::from_secs(10);

/// A bounded memory of verdicts.
#[derive(Debug, Default)]
pub struct Known {
    right: HashMap<Digest, Instant>,
    wrong: HashMap<Digest, Instant>,
}

impl Known {
    /// What is known.
    pub fn verdict(&self, of: &Digest, now: Instant) -> Option<bool> {
        let holds = |known: &HashMap<Digest, Instant>| known.get(of).is_some_and(|until| now < *until);
        match (holds(&self.right), holds(&self.wrong)) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        }
    }

    /// Notes a verdict; a right one for this time.
    pub fn note(&mut self, of: Digest, right: bool, time: Duration, now: Instant) {
        let (known, most, time) = match right {
            true => (&mut self.right, RIGHT_MAX, time),
            false => (&mut self.wrong, WRONG_MAX, time.min(WRONG_FOR)),
        };
        if time.is_zero() {
            return;
        }
        if known.len() >= most {
            known.retain(|_, until| now < *until);
        }
        if known.len() >= most
            && let Some(any) = known.keys().next().copied()
        {
            // In the order of a hash with a random key: which one it is cannot be chosen.
            known.remove(&any);
        }
        known.insert(of, now + time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: usize) -> Digest {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&number.to_be_bytes());
        digest
    }

    #[test]
    fn verdicts_hold_for_a_time() {
        let (mut known, now, minute) = (Known::default(), Instant::now(), Duration::from_secs(60));
        known.note(digest(1), true, minute, now);
        known.note(digest(2), false, minute, now);
        known.note(digest(3), true, Duration::ZERO, now);
        let verdicts = |at| [1, 2, 3].map(|number| known.verdict(&digest(number), now + at));
        assert_eq!(verdicts(Duration::ZERO), [Some(true), Some(false), None]);
        assert_eq!(verdicts(WRONG_FOR), [Some(true), None, None]);
        assert_eq!(verdicts(minute), [None; 3]);
    }

    #[test]
    fn it_is_bounded_and_wrong_ones_displace_no_right_ones() {
        let (mut known, now, minute) = (Known::default(), Instant::now(), Duration::from_secs(60));
        for number in 0..RIGHT_MAX + 100 {
            known.note(digest(number), true, minute, now);
            known.note(digest(number), false, minute, now);
        }
        assert_eq!((known.right.len(), known.wrong.len()), (RIGHT_MAX, WRONG_MAX));
        assert_eq!(known.verdict(&digest(RIGHT_MAX + 99), now), Some(true), "what came last is there");
        known.note(digest(0), true, minute, now + minute);
        assert_eq!(known.right.len(), 1, "what does not hold any more goes first");
    }
}
