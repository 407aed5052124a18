//! `match` of a route.

use super::super::conditions::{ArrivalCondition, ConditionSet, Conditions, Share, ShareKey, ValuePattern};
use super::super::finding::At;
use super::super::reader::{Section, shorten};
use super::super::template;
use super::super::values::is_token;
use super::claims::{self, Decides};
use super::{arrivals, paths};

/// `match`
pub(super) fn of_route(route: &Section<'_>) -> Conditions {
    let section = route.section("match");
    let set = |section: &Section<'_>| {
        let found = ConditionSet { paths: paths::paths(section, "path"), ..set(section) };
        if found == ConditionSet::default() {
            section.cx.error_with(
                &section.span,
                "this table has no condition, so that it would hold for every request",
                "add one, or take the table out",
            );
        }
        found
    };
    Conditions {
        any: section.sections("any").iter().map(set).collect(),
        not: section.sections("not").iter().map(set).collect(),
        users: section.texts("user").into_iter().map(|user| user.value).collect(),
        all: self::set(&section),
    }
}

fn set(section: &Section<'_>) -> ConditionSet {
    for (name, _) in section.map("header") {
        claims::check(section, &name.span, ("header", &name.value), Decides::Condition);
    }
    ConditionSet {
        paths: Vec::new(),
        headers: values(section, "header", |name| match is_token(name) {
            true => Ok(name.to_ascii_lowercase()),
            false => Err("a name has letters, digits and `-`"),
        }),
        query: values(section, "query", |name| Ok(name.to_owned())),
        cookies: values(section, "cookie", |name| match is_token(name) {
            true => Ok(name.to_owned()),
            false => Err("a name has letters, digits, `-` and `_`"),
        }),
        https: section.choice("scheme").map(|scheme| scheme == "https"),
        clients: super::networks(section, "client"),
        arrival: arrival(section),
        share: share(section),
    }
}

/// `listener`, `local_port`, `tls`, `client_certificate`
fn arrival(section: &Section<'_>) -> ArrivalCondition {
    if let Some(span) = section.empty_array("listener") {
        section.cx.error_with(
            &span,
            "`listener` is empty, so that it never holds",
            "name one, or take it out",
        );
    }
    let flag = |key| section.given(key).map(|_| section.flag(key));
    ArrivalCondition {
        listeners: section.given("listener").map(|_| arrivals::named(section, "listener")),
        port: section.given("local_port").map(|_| section.number("local_port").value),
        tls: flag("tls"),
        certificate: flag("client_certificate"),
    }
}

/// `share`, `share_by`, `share_name`
fn share(section: &Section<'_>) -> Option<Share> {
    let Some(text) = section.text("share") else {
        for key in ["share_by", "share_name"] {
            if let Some(given) = section.text(key).filter(|_| section.given(key).is_some()) {
                let what = format!("`{key}` without `share` has no effect");
                section.cx.error_with(&given.span, what, "add `share`, such as \"10%\"");
            }
        }
        return None;
    };
    let what = format!("`share`: \"{}\" is no percentage", shorten(&text.value));
    let parts = section.cx.accept(&text.span, &what, percentage(&text.value))?;
    let by = match section.text("share_by") {
        None => ShareKey::Client,
        Some(text) => {
            let what =
                format!("`share_by`: \"{}\" is nothing to tell clients apart by", shorten(&text.value));
            let by = section.cx.accept(&text.span, &what, share_key(&text.value))?;
            if let ShareKey::Header(name) = &by {
                claims::check(section, &text.span, ("share_by", name), Decides::Spread("client"));
            }
            by
        }
    };
    let name = section.text("share_name").map(|name| name.value).unwrap_or_default();
    Some(Share { parts, by, name })
}

fn share_key(text: &str) -> Result<ShareKey, String> {
    match text.split_once(':') {
        None if text == "client" => Ok(ShareKey::Client),
        Some(("header", name)) if is_token(name) => Ok(ShareKey::Header(name.to_ascii_lowercase())),
        Some(("cookie", name)) if is_token(name) => Ok(ShareKey::Cookie(name.to_owned())),
        _ => Err("it takes \"client\", \"header:NAME\" or \"cookie:NAME\"".to_owned()),
    }
}

/// Hundredths of a percent: `"10%"`, `"0.25%"`.
pub(super) fn percentage(text: &str) -> Result<u16, String> {
    let wrong = || "it takes 0% to 100%, with two decimals at the most".to_owned();
    let number = text.strip_suffix('%').ok_or_else(wrong)?.trim_end();
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let digits =
        |text: &str, most| (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole, 3) || !digits(decimals, 2) {
        return Err(wrong());
    }
    let parts = format!("{whole}{decimals:0<2}").parse().map_err(|_| wrong())?;
    if parts > Share::WHOLE { Err(wrong()) } else { Ok(parts) }
}

fn values(
    section: &Section<'_>,
    key: &'static str,
    name_of: impl Fn(&str) -> Result<String, &'static str>,
) -> Vec<(String, ValuePattern)> {
    let mut values = Vec::new();
    for (name, value) in section.map(key) {
        let what = format!("`{key}`: \"{}\" cannot be a name", shorten(&name.value));
        let name = section.cx.accept(&name.span, &what, name_of(&name.value).map_err(str::to_owned));
        let value = pattern(section, key, &value);
        if let (Some(name), Some(value)) = (name, value) {
            values.push((name, value));
        }
    }
    values
}

fn pattern(section: &Section<'_>, key: &str, text: &At<String>) -> Option<ValuePattern> {
    match text.value.strip_prefix('~') {
        Some(regex) => {
            let what = format!("`{key}`: \"{}\" is not a regular expression", shorten(regex));
            section.cx.accept(&text.span, &what, template::regex(regex))?;
            Some(ValuePattern::Regex(regex.to_owned()))
        }
        None => Some(ValuePattern::Glob(text.value.split('*').map(str::to_owned).collect())),
    }
}
