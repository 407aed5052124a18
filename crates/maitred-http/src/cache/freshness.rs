//! How long a response is fresh (9111-4.2.1, 4.2.2).

use super::directives::{Directives, SECONDS_MAX};
use super::{Rules, age};
use crate::date;
use crate::etag::EntityTag;
use crate::response::ResponseHead;

/// The most seconds that a guessed lifetime has: a day.
pub const HEURISTIC_SECS_MAX: u32 = 86_400;

/// Whether a response of this status may be stored without a word of its own about that (9110-15.1), and by a lifetime of the
/// operator's. 206 is not among them: partial responses are not stored here.
pub fn is_heuristically_cacheable(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// What the rules look at in the fields of a response, found in one pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    pub(super) directives: Directives,
    /// The targeted field that they are from, if they are not those of `Cache-Control`.
    pub(super) target: Option<usize>,
    /// `Date`, if it is one.
    pub(super) date: Option<u64>,
    /// `Expires`, if it is there; `Some(None)` if it is no date.
    expires: Option<Option<u64>>,
    last_modified: Option<u64>,
    pub(super) age: Option<u32>,
    /// Whether the response can be validated: by an entity tag, or a date of its last modification.
    pub(super) validator: bool,
    pub(super) set_cookie: bool,
    /// `Pragma: no-cache`, without `Cache-Control`.
    pragma: bool,
}

impl Facts {
    /// `now` decides about years with two digits.
    pub(super) fn of(head: &ResponseHead<'_>, rules: &Rules, now: u64) -> Facts {
        let (directives, target) = match rules.ignore_response_directives {
            true => (Directives::default(), None),
            false => Directives::of(head, rules),
        };
        let mut facts = Facts {
            directives,
            target,
            date: None,
            expires: None,
            last_modified: None,
            age: None,
            validator: false,
            set_cookie: false,
            pragma: false,
        };
        let (mut dates, mut ages, mut controlled) = (0, 0, target.is_some());
        head.for_each(|name, value| {
            let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
            // Of a field that stands twice the first counts (9111-4.2.1, 5.1).
            if is("date") {
                dates += 1;
                facts.date = if dates == 1 { date::parse(value, now) } else { facts.date };
            } else if is("expires") {
                facts.expires.get_or_insert_with(|| date::parse(value, now));
            } else if is("age") {
                ages += 1;
                facts.age = if ages == 1 { age::parse(value) } else { facts.age };
            } else if is("last-modified") {
                facts.last_modified = facts.last_modified.or_else(|| date::parse(value, now));
                facts.validator |= facts.last_modified.is_some();
            } else if is("etag") {
                facts.validator |= EntityTag::parse(value).is_some();
            } else if is("set-cookie") {
                facts.set_cookie = true;
            } else if is("cache-control") {
                controlled = true;
            } else if is("pragma") {
                facts.pragma |= value.eq_ignore_ascii_case(b"no-cache");
            }
        });
        facts.pragma &= !controlled && !rules.ignore_response_directives;
        facts
    }

    /// The lifetime that the response says itself, in seconds.
    pub(super) fn explicit(&self, rules: &Rules, response_time: u64) -> Option<u32> {
        if rules.ignore_response_directives {
            return None;
        }
        let said = self.directives.s_maxage.or(self.directives.max_age);
        // A targeted field stands for `Expires`, too (9213-2.1).
        let expires = if self.target.is_some() { None } else { self.expires };
        said.or_else(|| {
            expires.map(|expires| {
                // What is no date has passed (9111-5.3).
                let after = expires.unwrap_or(0).saturating_sub(self.date.unwrap_or(response_time));
                after.min(u64::from(SECONDS_MAX)) as u32
            })
        })
    }

    /// The lifetime in seconds, and whether it is a guess. `None` if nothing says one.
    pub(super) fn lifetime(&self, status: u16, rules: &Rules, response_time: u64) -> Option<(u32, bool)> {
        let explicit = self.explicit(rules, response_time);
        // `public` makes any status one that may be guessed about (9111-3).
        let cacheable = is_heuristically_cacheable(status) || self.directives.public;
        let by_status = rules.ttl_by_status.iter().find(|ttl| (ttl.from..=ttl.to).contains(&status));
        if let Some(ttl) = rules.override_ttl
            && (explicit.is_some() || cacheable || by_status.is_some())
        {
            return Some((ttl.min(SECONDS_MAX), false));
        }
        let by_operator = || {
            let default = rules.default_ttl.filter(|_| cacheable);
            let ttl = by_status.map(|by_status| by_status.ttl).or(default);
            ttl.filter(|_| !self.pragma).map(|ttl| (ttl.min(SECONDS_MAX), false))
        };
        explicit.map(|ttl| (ttl, false)).or_else(by_operator).or_else(|| {
            let guesses = rules.heuristic && cacheable && !self.pragma;
            let since = self.date.unwrap_or(response_time).checked_sub(self.last_modified?)?;
            guesses.then_some(((since / 10).min(u64::from(HEURISTIC_SECS_MAX)) as u32, true))
        })
    }
}
