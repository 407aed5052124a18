//! Whether a stored response is given (9111-4).

use super::{Lifetime, Wanted};

/// What becomes of a stored response that a request has selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// The response is given.
    Fresh {
        /// The response's `Age`, in seconds.
        age: u32,
    },
    /// The response is given, though stale.
    Stale {
        /// The response's `Age`, in seconds.
        age: u32,
        /// Whether the response is to be validated behind the client's back (5861-3). If not, the client has asked for it
        /// (`max-stale`).
        refresh: bool,
    },
    /// The response is validated first.
    Validate,
    /// The response would have to be validated, and the client does not want that: 504 (9111-5.2.1.7).
    OnlyIfCached504,
}

/// Decides about a stored response. `now` is in seconds since 1970.
pub fn judge(lifetime: &Lifetime, wanted: &Wanted, now: u64) -> Use {
    let (age, ttl, asked) = (lifetime.age(now), lifetime.ttl(now), &wanted.control);
    let young_enough = asked.max_age.is_none_or(|max_age| age <= max_age);
    let validates = lifetime.no_cache || asked.no_cache || !young_enough;
    let min_fresh = i64::from(asked.min_fresh.unwrap_or(0));
    if !validates && ttl > 0 && ttl >= min_fresh {
        return Use::Fresh { age };
    }
    let stale_for = ttl.saturating_neg();
    if !validates && ttl <= 0 && min_fresh == 0 {
        let bears = asked.max_stale.is_some_and(|max_stale| stale_for <= i64::from(max_stale));
        if bears && !lifetime.must_revalidate {
            return Use::Stale { age, refresh: false };
        }
        // With `max-age` alone the client does not take what is stale (9111-5.2.1.1). Of a response without a lifetime nothing
        // is given: that is one to validate.
        let grace = lifetime.stale_while_revalidate;
        if asked.max_age.is_none() && grace > 0 && stale_for <= i64::from(grace) {
            return Use::Stale { age, refresh: true };
        }
    }
    if asked.only_if_cached { Use::OnlyIfCached504 } else { Use::Validate }
}

/// Whether a stored response is given because its server has failed: it gave no answer, or one that [`is_error`]. What is fresh,
/// and was to be validated because the client wants that, is not. `now` is in seconds since 1970.
pub fn may_serve_on_error(lifetime: &Lifetime, wanted: &Wanted, now: u64) -> bool {
    let asked = &wanted.control;
    // The client's own word counts unless the response forbids it; the response's own is 0 where something forbids it.
    let clients = asked.stale_if_error.filter(|_| !lifetime.must_revalidate).unwrap_or(0);
    let grace = i64::from(lifetime.stale_if_error.max(clients));
    let stale_for = lifetime.ttl(now).saturating_neg();
    let old = asked.max_age.is_some_and(|max_age| lifetime.age(now) > max_age);
    grace > 0 && stale_for <= grace && !lifetime.no_cache && !asked.no_cache && !old
}

/// Whether a status is an error in the sense of `stale-if-error` (5861-4).
pub fn is_error(status: u16) -> bool {
    matches!(status, 500 | 502 | 503 | 504)
}
