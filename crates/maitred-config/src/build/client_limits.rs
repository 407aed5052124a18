//! `[limit.NAME]`, and `limit` of sites and routes.

use std::time::Duration;

use super::super::client_limits::{ClientLimit, HTTP2_RESETS, KEYS_MAX, LimitKey, Rate, TLS_HANDSHAKES};
use super::super::finding::At;
use super::super::listen::Listen;
use super::super::meaning::{Limits, Pool};
use super::super::reader::{Section, shorten};
use super::super::suggest::nearest;
use super::super::values::{self, is_token};
use super::claims::{self, Decides};
use super::networks;
use maitred_base::bounds::CLIENT_LIMITS_MAX;
use maitred_base::rates::Gcra;

/// How many seconds' worth an address may do at once of what `[limits]` limits by the second.
const BURST_SECONDS: u32 = 10;
const RATE_FORM: &str = "it looks like \"10/s\", \"30/min\", \"1000/h\" or \"5/10s\"";

/// All of them, in the order of the file.
pub(super) fn limits(root: &Section<'_>) -> Vec<ClientLimit> {
    let named = root.named("limit");
    if let Some((name, _)) = named.get(CLIENT_LIMITS_MAX) {
        root.cx.error(&name.span, format!("there are more than {CLIENT_LIMITS_MAX} limits"));
    }
    *root.cx.limits.borrow_mut() = named.iter().map(|(name, _)| name.value.clone()).collect();
    named.iter().map(|(name, section)| limit(name, section)).collect()
}

/// The limits of addresses that `[limits]` has, where a listener has what they are about.
pub(super) fn of_addresses(limits: &Limits, listens: &[Listen]) -> Vec<ClientLimit> {
    let tls = listens.iter().any(|listen| listen.tls.is_some());
    let http2 = listens.iter().any(|listen| listen.http2);
    let both = [
        (TLS_HANDSHAKES, tls, limits.tls_handshakes_per_address_per_second_max),
        (HTTP2_RESETS, http2, limits.http2_resets_per_address_per_second_max),
    ];
    let of = |(name, is_there, count): (&str, bool, u32)| {
        let burst = count.saturating_mul(BURST_SECONDS).saturating_sub(1);
        (is_there && count > 0).then(|| ClientLimit {
            name: name.to_owned(),
            rate: Some(Rate { count, period: Duration::from_secs(1), burst }),
            concurrent: None,
            status: 429,
            key: LimitKey::Address,
            keys_max: KEYS_MAX as u32,
            exempt: limits.connections_per_address_exempt.clone(),
            dry_run: false,
        })
    };
    both.into_iter().filter_map(of).collect()
}

/// What `limit` of a site or a route names: indexes into the list of limits. `None` where it is not given.
pub(super) fn of(section: &Section<'_>) -> Option<Vec<usize>> {
    let known = section.cx.limits.borrow();
    let mut found = Vec::new();
    for name in section.texts("limit") {
        let shown = shorten(&name.value);
        match known.iter().position(|other| *other == name.value) {
            Some(index) if found.contains(&index) => {
                section.cx.error(&name.span, format!("`limit` names \"{shown}\" twice"));
            }
            Some(index) => found.push(index),
            None => {
                let hint = match nearest(&name.value, known.iter().map(String::as_str)) {
                    Some(meant) => format!("did you mean \"{}\"?", shorten(meant)),
                    None => format!("add [limit.{shown}] with a `rate` or `concurrent`"),
                };
                section.cx.missing(&name.span, format!("there is no limit \"{shown}\""), hint);
            }
        }
    }
    section.given("limit").map(|_| found)
}

fn limit(name: &At<String>, section: &Section<'_>) -> ClientLimit {
    if !Pool::is_name(&name.value) {
        let message = format!("\"{}\" cannot be the name of a limit", shorten(&name.value));
        section.cx.error_with(&name.span, message, "it takes 1 to 64 letters, digits, `-` and `_`");
    }
    if [TLS_HANDSHAKES, HTTP2_RESETS].contains(&name.value.as_str()) {
        let message = format!("\"{}\" is a limit of the server's own", name.value);
        section.cx.error_with(
            &name.span,
            message,
            format!("`{}_per_address_per_second_max` in [limits]", name.value),
        );
    }
    let (rate, concurrent) = (rate(section), section.given("concurrent"));
    if let (None, None, None) = (rate, &concurrent, section.given("rate")) {
        let message = format!("[limit.{}] has neither `rate` nor `concurrent`", shorten(&name.value));
        section.cx.missing(&name.span, message, "add a `rate` such as \"10/s\", or `concurrent` such as 10");
    }
    ClientLimit {
        name: name.value.clone(),
        rate,
        concurrent: concurrent.map(|_| section.number("concurrent").value),
        status: status(section),
        key: key(section),
        keys_max: section.number("keys_max").value,
        exempt: networks(section, "exempt"),
        dry_run: section.flag("dry_run"),
    }
}

fn status(section: &Section<'_>) -> u16 {
    let status = section.number::<u16>("status");
    let parsed = match status.value {
        status @ (429 | 503) => Ok(status),
        _ => Err("it is 429 or 503".to_owned()),
    };
    section.cx.accept(&status.span, "`status` of a limit", parsed).unwrap_or(429)
}

fn rate(section: &Section<'_>) -> Option<Rate> {
    let burst = section.number::<u32>("burst");
    let Some(text) = section.text("rate") else {
        if let Some(span) = section.given("burst") {
            section.cx.error_with(&span, "`burst` goes with `rate`", "add a `rate`");
        }
        return None;
    };
    let what = format!("`rate`: \"{}\" is not a rate", shorten(&text.value));
    let (count, period) = section.cx.accept(&text.span, &what, rate_of(&text.value))?;
    let burst = match section.given("burst") {
        Some(_) => burst.value,
        None => count - 1,
    };
    let longest = period.checked_mul(burst).map(|all| all / count);
    if longest.is_none_or(|longest| longest > Gcra::TOLERANCE_MAX) {
        let span = section.given("burst").unwrap_or(text.span);
        section.cx.error_with(
            &span,
            "`burst` takes more than a year to be made up for",
            "make it smaller, or `rate` larger",
        );
    }
    Some(Rate { count, period, burst })
}

/// `"10/s"`: how many, and in what time.
fn rate_of(text: &str) -> Result<(u32, Duration), String> {
    let bad = || RATE_FORM.to_owned();
    let (count, period) = text.split_once('/').ok_or_else(bad)?;
    let count: u32 = count.trim().parse().map_err(|_| bad())?;
    let period = match period.trim() {
        "s" | "sec" | "second" => Duration::from_secs(1),
        "m" | "min" | "minute" => Duration::from_secs(60),
        "h" | "hour" => Duration::from_secs(60 * 60),
        "d" | "day" => Duration::from_secs(24 * 60 * 60),
        period => values::duration(period).map_err(|_| bad())?,
    };
    if !(1..=1_000_000).contains(&count) {
        return Err("the number is 1 to 1000000".into());
    }
    if period < Duration::from_millis(1) || period > Duration::from_secs(24 * 60 * 60) {
        return Err("the period is 1ms to 24h".into());
    }
    Ok((count, period))
}

fn key(section: &Section<'_>) -> LimitKey {
    let Some(text) = section.text("key") else { return LimitKey::Address };
    let named = |name: &str| match is_token(name) {
        true => Ok(name.to_owned()),
        false => Err("a name has letters, digits and `-`".to_owned()),
    };
    let parsed = match text.value.split_once(':') {
        None if text.value == "address" => Ok(LimitKey::Address),
        None if text.value == "route" => Ok(LimitKey::Route),
        Some(("header", name)) => named(name).map(|name| LimitKey::Header(name.to_ascii_lowercase())),
        Some(("cookie", name)) => named(name).map(LimitKey::Cookie),
        _ => Err("it takes \"address\", \"header:NAME\", \"cookie:NAME\" or \"route\"".to_owned()),
    };
    let what = format!("`key`: \"{}\" is nothing to count by", shorten(&text.value));
    let key = section.cx.accept(&text.span, &what, parsed).unwrap_or(LimitKey::Address);
    if let LimitKey::Header(name) = &key {
        claims::check(section, &text.span, ("key", name), Decides::Client("address"));
    }
    key
}
