//! The rules of a shared HTTP cache (RFC 9111), as pure functions: what may be stored and for how long, which stored response
//! answers which request, how one is validated, updated and invalidated. Times come in as seconds since 1970; the store, the
//! clock, and the collapsing of requests are the server's. Sections cited as "9111-x" are those of RFC 9111, and likewise
//! RFC 9110 (semantics), 9211 (`Cache-Status`), 9213 (targeted fields), 9875 (`Cache-Groups`) and 5861 (stale responses).
//!
//! A request goes through it in this order:
//!
//! 1. [`Wanted::of`] and [`Wanted::consult`]: does the cache have a say at all?
//! 2. [`put_key`], the stored [`Vary`]'s names, and [`put_variant_key`]: which stored response is it?
//! 3. [`judge`]: is that one given, with or without a request behind it, or validated by [`put_conditions`]?
//! 4. [`answer()`]: what is given of it: 200, 304, 206 or 416.
//! 5. The upstream's response: [`storable()`] and [`put_stored_fields`]; with 304 [`updates`] and [`freshen`]; with an error
//!    [`may_serve_on_error`]; behind an unsafe method [`invalidates`] and [`for_each_invalidated`].
//! 6. [`put_cache_status`] says what was done.
//!
//! | module | what |
//! |---|---|
//! | [`age`] | how old a response is |
//! | [`answer`](mod@answer) | what of a stored response answers a request |
//! | [`directives`] | `Cache-Control`, its targeted forms, and `Pragma` |
//! | [`freshness`] | how long a response is fresh |
//! | [`invalidate`] | what an unsafe request makes invalid |
//! | [`key`] | the key of a request |
//! | [`lifetime`] | what is remembered of a response's times |
//! | [`reuse`] | whether a stored response is given |
//! | [`rules`] | what the operator says |
//! | [`status`] | `Cache-Status` |
//! | [`storable`](mod@storable) | whether a response is stored, and which of its fields |
//! | [`structured`] | values of RFC 9651 |
//! | [`tags`] | names that responses are purged by |
//! | [`target`] | what a request is for |
//! | [`update`] | validation |
//! | [`vary`](mod@vary) | variants of one key |
//! | [`why`] | reasons |

mod age;
mod answer;
mod directives;
mod freshness;
mod invalidate;
mod key;
mod lifetime;
mod reuse;
mod rules;
mod status;
mod storable;
mod structured;
mod tags;
mod target;
#[cfg(test)]
mod tests;
mod update;
mod vary;
mod why;

pub use answer::{Answer, answer, put_not_modified_fields};
pub use directives::SECONDS_MAX;
pub use freshness::{HEURISTIC_SECS_MAX, is_heuristically_cacheable};
pub use invalidate::{for_each_invalidated, for_each_invalidated_group, invalidates, names_itself};
pub use key::{KeyRules, PARAMETERS_MAX, QueryRule, Reduced, canonical_authority, put_key, reduced};
pub use lifetime::{LIFETIME_BYTES, Lifetime};
pub use reuse::{Use, is_error, judge, may_serve_on_error};
pub use rules::{Rules, StatusTtl};
pub use status::{CacheStatus, Fwd, Outcome, put_cache_status};
pub use storable::{put_stored_fields, storable};
pub(crate) use structured::members;
pub use tags::{TAG_BYTES_MAX, TAGS_MAX, Tag, for_each_tag};
pub use target::Target;
pub use update::{
    Asked, CONDITIONAL_FIELDS, HeadUpdate, freshen, head_updates, merge, put_conditions, split_fields,
    updates,
};
pub use vary::{VARIANT_VALUES_MAX, VARY_NAMES_MAX, Vary, put_variant_key, vary};
pub use why::Why;

use directives::RequestDirectives;

use crate::request::{Framing, Method, Request};

/// When a request went out, and when the head of its response was there, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// When the request was sent.
    pub request_time: u64,
    /// When the response was received: by the wall clock, as the dates in responses are.
    pub response_time: u64,
    /// The same by a clock that is never set back. From it on, ages are counted: [`Lifetime::response_time`].
    pub kept_at: u64,
}

impl Times {
    /// Times of one clock.
    pub fn new(request_time: u64, response_time: u64) -> Times {
        Times { request_time, response_time, kept_at: response_time }
    }
}

/// What of a request the rules look at. The value borrows nothing, so that it can wait with the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The method.
    pub method: Method,
    /// Whether the request has an `Authorization`.
    pub authorization: bool,
    /// Whether the request is a GET with a `Range`.
    pub range: bool,
    /// Whether the request has an `If-Match` or `If-Unmodified-Since`, which only an origin server evaluates (9111-4.3.2).
    pub precondition: bool,
    /// Whether the request has content.
    pub content: bool,
    /// Whether the request asks for another protocol.
    pub upgrade: bool,
    /// Whether the request asks its application to take it for one of another method ([`overridden`]).
    pub overridden: bool,
    /// Whether the request was a POST, whose response may answer later GETs ([`Wanted::as_get`]).
    pub by_post: bool,
    pub(crate) control: RequestDirectives,
}

/// Whether the cache has a say about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consult {
    /// A stored response may answer it, and its response may be stored.
    Use,
    /// Neither.
    Bypass(Why),
}

impl Wanted {
    /// Reads a request.
    pub fn of(request: &Request<'_, '_>, rules: &Rules) -> Wanted {
        let named = |name: &str| request.fields.iter().any(|field| field.name.eq_ignore_ascii_case(name));
        let control = match rules.ignore_request_directives {
            true => RequestDirectives::default(),
            false => {
                RequestDirectives::of(request.fields.iter().map(|field| (field.name.as_bytes(), field.value)))
            }
        };
        Wanted {
            method: request.method,
            authorization: named("authorization"),
            range: request.method == Method::Get && request.known.range.is_some(),
            precondition: request.known.if_match.is_some() || request.known.if_unmodified_since.is_some(),
            content: request.framing != Framing::None,
            upgrade: request.upgrade,
            overridden: overridden(request).is_some(),
            by_post: false,
            control,
        }
    }

    /// A plain GET, as the server sends by itself to refresh a response.
    pub fn get() -> Wanted {
        Wanted {
            method: Method::Get,
            authorization: false,
            range: false,
            precondition: false,
            content: false,
            upgrade: false,
            overridden: false,
            by_post: false,
            control: RequestDirectives::default(),
        }
    }

    /// Whether the cache has a say.
    pub fn consult(&self) -> Consult {
        let why = match self.method {
            Method::Get | Method::Head => match () {
                () if self.upgrade => Why::Upgrade,
                () if self.overridden => Why::Override,
                () if self.content => Why::RequestContent,
                () if self.precondition => Why::Precondition,
                () if self.control.no_store => Why::RequestNoStore,
                () => return Consult::Use,
            },
            _ => Why::Method,
        };
        Consult::Bypass(why)
    }

    /// The POST as a GET that its response may answer, if that response [names itself](names_itself): to be given to
    /// [`storable()`]. `None` for other methods, and if nothing of the exchange may be stored (9110-9.3.3).
    pub fn as_get(&self) -> Option<Wanted> {
        let stores = self.method == Method::Post && !self.upgrade && !self.control.no_store;
        stores.then_some(Wanted { method: Method::Get, content: false, by_post: true, ..*self })
    }

    /// The client wants what is stored, or nothing (`only-if-cached`, 9111-5.2.1.7): without a stored response the answer is 504.
    pub fn only_if_cached(&self) -> bool {
        self.control.only_if_cached
    }
}

/// Fields by which applications take a request for one of another method, in small letters: Rack and Rails, Django and Symfony
/// with their middleware, Express' method-override, ASP.NET, Google's and Microsoft's APIs.
const OVERRIDES: [&str; 3] = ["x-http-method-override", "x-http-method", "x-method-override"];

/// The method that a request asks its application to take it for. Names with `_` or `.` count, too: an application that gets
/// fields as variables knows no difference (RFC 3875 section 4.1.18).
pub fn overridden(request: &Request<'_, '_>) -> Option<Method> {
    let alike = |name: &str, other: &str| {
        let plain = |byte: u8| if matches!(byte, b'_' | b'.') { b'-' } else { byte.to_ascii_lowercase() };
        name.len() == other.len() && name.bytes().map(plain).eq(other.bytes())
    };
    // For most fields, the first letter and the length are enough.
    let may_be = |name: &str| {
        name.len() >= 13
            && name.len() <= 22
            && name.as_bytes().first().is_some_and(|first| first | 0x20 == b'x')
    };
    let named = |name: &str| may_be(name) && OVERRIDES.iter().any(|other| alike(name, other));
    let field = request.fields.iter().find(|field| named(field.name))?;
    let token = String::from_utf8_lossy(field.value.trim_ascii()).to_ascii_uppercase();
    Some(Method::from_token(&token))
}
