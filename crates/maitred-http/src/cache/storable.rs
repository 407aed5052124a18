//! Whether a response is stored (9111-3), and which of its fields (9111-3.1).

use super::directives::{SECONDS_MAX, for_each_named_field};
use super::freshness::Facts;
use super::lifetime::Lifetime;
use super::vary::{Vary, vary};
use super::{Rules, Times, Wanted, Why, age};
use crate::date;
use crate::fields::FieldLines;
use crate::request::Method;
use crate::response::ResponseHead;
use crate::status;

/// Whether the response to a request is stored, and how long it is good.
///
/// # Errors
///
/// Why it is not.
pub fn storable(
    wanted: &Wanted,
    head: &ResponseHead<'_>,
    times: Times,
    rules: &Rules,
) -> Result<Lifetime, Why> {
    if let super::Consult::Bypass(why) = wanted.consult() {
        return Err(why);
    }
    if wanted.method == Method::Head {
        return Err(Why::Head);
    }
    judge_status(wanted, head.status)?;
    let facts = Facts::of(head, rules, times.response_time);
    store_by(&facts, wanted, head, times, rules)
}

/// Statuses whose responses are never stored, or not behind this request.
fn judge_status(wanted: &Wanted, status: u16) -> Result<(), Why> {
    match status {
        ..200 => Err(Why::Interim),
        206 => Err(Why::Partial),
        304 => Err(Why::NotModified),
        // Clients take it for an error of the server, and what it means only those know who made it up (9110-15).
        status::BEYOND.. => Err(Why::Beyond),
        // 416 and others are about the range; a whole response is one to keep.
        _ if wanted.range && status != 200 => Err(Why::Range),
        _ => Ok(()),
    }
}

/// The same for a response whose facts are known, and whose status may be stored.
pub(super) fn store_by(
    facts: &Facts,
    wanted: &Wanted,
    head: &ResponseHead<'_>,
    times: Times,
    rules: &Rules,
) -> Result<Lifetime, Why> {
    judge_directives(facts, wanted, head, rules)?;
    if wanted.by_post && facts.explicit(rules, times.response_time).is_none() {
        return Err(Why::NoLifetime);
    }
    let said = &facts.directives;
    let (fresh_for, heuristic) = match facts.lifetime(head.status, rules, times.response_time) {
        Some(lifetime) => lifetime,
        // To be validated each time; a lifetime means nothing then.
        None if said.no_cache => (0, false),
        None => return Err(Why::NoLifetime),
    };
    let must_revalidate = said.must_revalidate || said.proxy_revalidate;
    // What a response says itself counts even beside `s-maxage`, which by the letter forbids all stale responses
    // (9111-5.2.2.10); those who write both mean both.
    let grace = |own: Option<u32>, rule: Option<u32>| match own {
        _ if must_revalidate || said.no_cache => 0,
        Some(own) => own,
        None if said.s_maxage.is_some() => 0,
        None => rule.unwrap_or(0).min(SECONDS_MAX),
    };
    let date = facts.date.unwrap_or(times.response_time);
    let lifetime = Lifetime {
        date,
        response_time: times.kept_at,
        initial_age: age::initial(facts.age, date, times),
        fresh_for,
        stale_while_revalidate: grace(said.stale_while_revalidate, rules.stale_while_revalidate),
        stale_if_error: grace(said.stale_if_error, rules.stale_if_error),
        must_revalidate: must_revalidate || said.s_maxage.is_some(),
        no_cache: said.no_cache,
        heuristic,
    };
    let reusable = !lifetime.no_cache && lifetime.useful_until() > times.kept_at;
    if reusable || facts.validator { Ok(lifetime) } else { Err(Why::Stale) }
}

/// What a response says about being stored at all, by a shared cache, behind this request.
fn judge_directives(
    facts: &Facts,
    wanted: &Wanted,
    head: &ResponseHead<'_>,
    rules: &Rules,
) -> Result<(), Why> {
    let said = &facts.directives;
    let allows = said.public || said.must_revalidate || said.s_maxage.is_some();
    match () {
        // Where the status is known `must-understand` stands above `no-store` (9111-5.2.2.3).
        () if said.must_understand && !status::is_understood(head.status) => Err(Why::NotUnderstood),
        () if said.no_store && !said.must_understand => Err(Why::NoStore),
        () if said.private => Err(Why::Private),
        () if wanted.authorization && !rules.store_authorization && !allows => Err(Why::Authorization),
        () if facts.set_cookie && !rules.store_set_cookie && !names_set_cookie(facts, head, rules) => {
            Err(Why::SetCookie)
        }
        () if vary(head) == Vary::Any => Err(Why::Vary),
        () => Ok(()),
    }
}

/// Whether `Set-Cookie` is left out of what is stored, by `no-cache` or `private`.
fn names_set_cookie(facts: &Facts, head: &ResponseHead<'_>, rules: &Rules) -> bool {
    let mut named = false;
    if facts.directives.names_fields {
        let is = |name: &[u8]| named |= name.eq_ignore_ascii_case(b"set-cookie");
        for_each_named_field(head, rules, facts.target, is);
    }
    named
}

/// Fields that are about one hop (9110-7.6.1), or about one proxy (9111-3.1); and `Age`, which is a part of the [`Lifetime`].
const NOT_STORED: [&str; 11] = [
    "age",
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Whether a field is among them.
pub(super) fn is_never_stored(name: &[u8]) -> bool {
    NOT_STORED.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
}

/// Appends the fields of a response that are stored: all but those of one hop, those that `Connection` names, those that
/// `no-cache` or `private` name, and `Age`. A response without `Date` gets one (9110-6.6.1).
pub fn put_stored_fields(head: &ResponseHead<'_>, lifetime: &Lifetime, rules: &Rules, out: &mut FieldLines) {
    let left_out = left_out(head, rules, lifetime.response_time);
    let mut dated = false;
    head.for_each(|name, value| {
        if !is_never_stored(name) && !left_out.iter().any(|other| other.eq_ignore_ascii_case(name)) {
            dated |= name.eq_ignore_ascii_case(b"date");
            out.push(name, value);
        }
    });
    if !dated {
        out.push(b"Date", &date::format(lifetime.date));
    }
}

/// The names of fields that the response itself leaves out.
pub(super) fn left_out(head: &ResponseHead<'_>, rules: &Rules, now: u64) -> Vec<Box<[u8]>> {
    let mut names: Vec<Box<[u8]>> = Vec::new();
    head.for_each(|name, value| {
        if name.eq_ignore_ascii_case(b"connection") {
            let options = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            names.extend(options.filter(|option| !option.is_empty()).map(Box::from));
        }
    });
    let facts = Facts::of(head, rules, now);
    if facts.directives.names_fields {
        for_each_named_field(head, rules, facts.target, |name| names.push(name.into()));
    }
    if !rules.store_set_cookie {
        names.push(Box::from(b"set-cookie".as_slice()));
    }
    names
}
