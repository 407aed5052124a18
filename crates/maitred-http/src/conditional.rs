//! Conditional requests (9110-13).

use crate::date;
use crate::etag::{Comparison, EntityTag, list_names};
use crate::request::{Known, List, Method};

/// The validators of the representation that a request selects.
#[derive(Debug, Default, Clone, Copy)]
pub struct Validators<'a> {
    /// The entity tag.
    pub etag: Option<EntityTag<'a>>,
    /// When it was modified last, in seconds since 1970.
    pub last_modified: Option<u64>,
}

/// What the conditions of a request come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Do what the method says.
    Proceed,
    /// Answer 304.
    NotModified,
    /// Answer 412.
    PreconditionFailed,
}

/// Evaluates the conditions of a request in the order of 9110-13.2.2. To be called only if the answer without
/// conditions were a 2xx (9110-13.2.1); `exists` is `None` if nothing is there yet, which only a method that
/// creates it can meet.
///
/// `now` is in seconds since 1970; it decides about years with two digits.
pub fn evaluate(known: &Known<'_>, method: Method, exists: Option<&Validators<'_>>, now: u64) -> Outcome {
    // CONNECT, OPTIONS and TRACE do not select a representation (9110-13.2.1).
    if matches!(method, Method::Connect | Method::Options | Method::Trace) {
        return Outcome::Proceed;
    }
    let etag = exists.and_then(|exists| exists.etag);
    let last_modified = exists.and_then(|exists| exists.last_modified);
    let names = |list: List<'_>, comparison| exists.is_some() && list_names(&list.joined(), etag, comparison);

    if let Some(list) = known.if_match {
        if !names(list, Comparison::Strong) {
            return Outcome::PreconditionFailed;
        }
    } else if let (Some(date), Some(modified)) = (known.if_unmodified_since, last_modified)
        && date::parse(date, now).is_some_and(|date| modified > date)
    {
        return Outcome::PreconditionFailed;
    }

    let reads = matches!(method, Method::Get | Method::Head);
    if let Some(list) = known.if_none_match {
        if names(list, Comparison::Weak) {
            return if reads { Outcome::NotModified } else { Outcome::PreconditionFailed };
        }
    } else if reads
        && let (Some(date), Some(modified)) = (known.if_modified_since, last_modified)
        && date::parse(date, now).is_some_and(|date| modified <= date)
    {
        return Outcome::NotModified;
    }
    Outcome::Proceed
}

/// Whether the `Range` of a request is to be looked at: it has one, it is a GET (9110-14.2), and `If-Range`,
/// if there, names exactly the representation that is there now (9110-13.1.5). To be asked after [`evaluate`]
/// said to proceed.
///
/// A date only counts if it is a strong validator: a representation that was modified within the current
/// second can change again without changing its date (9110-8.8.2.2).
pub fn range_applies(known: &Known<'_>, method: Method, current: &Validators<'_>, now: u64) -> bool {
    if method != Method::Get || known.range.is_none() {
        return false;
    }
    let Some(condition) = known.if_range else { return true };
    match EntityTag::parse(condition) {
        Some(tag) => current.etag.is_some_and(|etag| tag.matches(etag, Comparison::Strong)),
        None => match (date::parse(condition, now), current.last_modified) {
            (Some(date), Some(modified)) => date == modified && modified < now,
            _ => false,
        },
    }
}

#[cfg(test)]
mod tests;
