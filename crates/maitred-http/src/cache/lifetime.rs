//! What is remembered of a response's times.

use super::directives::SECONDS_MAX;

/// Bytes of an encoded [`Lifetime`].
pub const LIFETIME_BYTES: usize = 40;

/// By so many seconds the clock of a thread may be behind that of another one, which has received a response.
const AHEAD_SECS_MAX: u64 = 5;

const MUST_REVALIDATE: u32 = 1;
const NO_CACHE: u32 = 2;
const HEURISTIC: u32 = 4;
const ALL: u32 = MUST_REVALIDATE | NO_CACHE | HEURISTIC;

/// How long a stored response is good, and what for. All that is asked of its directives later is decided when it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    /// The response's `Date`, or when it was received without one, in seconds since 1970.
    pub date: u64,
    /// When the response was received, or validated last, in seconds since 1970, by a clock that is never set back.
    pub response_time: u64,
    /// The response's age when it was received (9111-4.2.3), in seconds.
    pub initial_age: u32,
    /// The freshness lifetime (9111-4.2.1), in seconds; 0 if the response is only good for validation.
    pub fresh_for: u32,
    /// For how many seconds the response is given stale while it is validated (5861-3); 0 if that is forbidden.
    pub stale_while_revalidate: u32,
    /// For how many seconds the response is given stale if its server fails (5861-4); 0 if that is forbidden.
    pub stale_if_error: u32,
    /// Whether the response is never given stale, even if the client asks for it: `must-revalidate`,
    /// `proxy-revalidate` or `s-maxage`.
    pub must_revalidate: bool,
    /// Whether the response is never given without validation: `no-cache`.
    pub no_cache: bool,
    /// Whether the lifetime is a guess (9111-4.2.2).
    pub heuristic: bool,
}

impl Lifetime {
    /// The response's age (9111-4.2.3), in seconds; at most [`SECONDS_MAX`], as in `Age`. A response that was received later
    /// than now is as old as can be: between two processes the clock was set back, and nothing says for how long it has been
    /// there.
    pub fn age(&self, now: u64) -> u32 {
        self.whole_age(now).min(u64::from(SECONDS_MAX)) as u32
    }

    fn whole_age(&self, now: u64) -> u64 {
        match self.response_time.saturating_sub(now) {
            0..=AHEAD_SECS_MAX => {
                now.saturating_sub(self.response_time).saturating_add(self.initial_age.into())
            }
            _ => u64::from(SECONDS_MAX),
        }
    }

    /// How many seconds it is fresh from now on; negative if it has not been for so many.
    pub fn ttl(&self, now: u64) -> i64 {
        i64::from(self.fresh_for).saturating_sub_unsigned(self.whole_age(now))
    }

    /// Whether it is fresh: its lifetime is greater than its age (9111-4.2).
    pub fn is_fresh(&self, now: u64) -> bool {
        self.ttl(now) > 0
    }

    /// When it becomes good for nothing but validation, in seconds since 1970: what a store may forget first.
    pub fn useful_until(&self) -> u64 {
        let grace = self.stale_while_revalidate.max(self.stale_if_error);
        let seconds = u64::from(self.fresh_for) + u64::from(grace);
        self.response_time.saturating_add(seconds.saturating_sub(u64::from(self.initial_age)))
    }

    /// The same, stale from now on: what a HEAD has shown to be out of date (9111-4.3.5), or a purge that keeps what it can.
    #[must_use]
    pub fn outdated(&self) -> Lifetime {
        Lifetime { fresh_for: 0, stale_while_revalidate: 0, ..*self }
    }

    /// As bytes: the fields in their order, little-endian, then a word of flags (1 must_revalidate, 2 no_cache, 4 heuristic)
    /// and a word of zeros.
    pub fn encode(&self) -> [u8; LIFETIME_BYTES] {
        let mut bytes = [0; LIFETIME_BYTES];
        let flag = |set: bool, bit: u32| if set { bit } else { 0 };
        let flags = flag(self.must_revalidate, MUST_REVALIDATE)
            | flag(self.no_cache, NO_CACHE)
            | flag(self.heuristic, HEURISTIC);
        bytes[0..8].copy_from_slice(&self.date.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.response_time.to_le_bytes());
        let words =
            [self.initial_age, self.fresh_for, self.stale_while_revalidate, self.stale_if_error, flags, 0];
        for (place, word) in bytes[16..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Of such bytes; `None` if they are none.
    pub fn decode(bytes: &[u8; LIFETIME_BYTES]) -> Option<Lifetime> {
        let (longs, words) = bytes.split_at(16);
        let long = |at: usize| longs.as_chunks::<8>().0.get(at).map(|bytes| u64::from_le_bytes(*bytes));
        let word = |at: usize| words.as_chunks::<4>().0.get(at).map(|bytes| u32::from_le_bytes(*bytes));
        let flags = word(4)?;
        if flags & !ALL != 0 || word(5)? != 0 {
            return None;
        }
        Some(Lifetime {
            date: long(0)?,
            response_time: long(1)?,
            initial_age: word(0)?,
            fresh_for: word(1)?,
            stale_while_revalidate: word(2)?,
            stale_if_error: word(3)?,
            must_revalidate: flags & MUST_REVALIDATE != 0,
            no_cache: flags & NO_CACHE != 0,
            heuristic: flags & HEURISTIC != 0,
        })
    }
}
