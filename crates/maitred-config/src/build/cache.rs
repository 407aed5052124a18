//! `[cache]`, and `cache` of sites and routes.

use std::time::Duration;

use super::super::cache::{CacheRules, CacheStore, Caching, QueryKey};
use super::super::finding::At;
use super::super::meaning::{Site, Target, TryItem};
use super::super::reader::{Section, shorten};
use super::super::values::{duration, is_token};
use super::claims::{self, Decides};
use super::common::given_time;

/// `[cache]`
pub(super) fn store(root: &Section<'_>) -> CacheStore {
    let section = root.section("cache");
    CacheStore {
        directory: super::path(&section, "directory").unwrap_or_else(|| root.cx.lookup.cache_directory()),
        bytes_max: section.number("bytes_max").value,
        entries_max: section.number("entries_max").value,
        memory_bytes_max: section.number("memory_bytes_max").value,
    }
}

/// `cache`; `None` where it is not given.
pub(super) fn of(section: &Section<'_>) -> Option<Caching> {
    section.given("cache")?;
    if !section.is_table("cache") {
        return Some(match section.flag_or_choice("cache") {
            Ok(true) => Caching::On(Box::default()),
            Ok(false) => Caching::Off,
            Err(_) => Caching::On(Box::new(CacheRules::micro())),
        });
    }
    let section = section.section("cache");
    let given = |name| given_time(&section, name);
    let names = |name| {
        let texts = section.texts(name).into_iter();
        texts.map(|text| lower(&section, name, &text)).collect::<Vec<_>>()
    };
    let texts = |name| section.texts(name).into_iter().map(|text| text.value).collect::<Vec<_>>();
    for name in section.texts("key_headers") {
        claims::check(&section, &name.span, ("key_headers", &name.value), Decides::Cached);
    }
    let has_lifetime = section.given("ttl").or(section.given("ttl_by_status")).is_some();
    let both = section.given("query_only").and(section.given("query_ignore"));
    if let Some(span) = both {
        section.cx.error(&span, "`query_ignore` has no effect beside `query_only`");
    }
    Some(Caching::On(Box::new(CacheRules {
        ttl: given("ttl"),
        ttl_by_status: by_status(&section),
        heuristic: section.flag("heuristic"),
        stale_while_revalidate: given("stale_while_revalidate"),
        stale_if_error: given("stale_if_error"),
        set_cookie: section.flag("set_cookie"),
        authorization: section.flag("authorization"),
        response_control: section.flag("response_control"),
        request_control: section.flag("request_control"),
        targeted: names("targeted"),
        query: match section.choice("query") {
            Some("sorted") => QueryKey::Sorted,
            Some("none") => QueryKey::Without,
            _ => QueryKey::AsSent,
        },
        query_only: texts("query_only"),
        query_ignore: texts("query_ignore"),
        key_headers: names("key_headers"),
        key_cookies: texts("key_cookies"),
        cookies: match section.given("cookies") {
            Some(_) => section.flag("cookies"),
            None => !has_lifetime || section.given("key_cookies").is_some(),
        },
        object_bytes_max: section.number("object_bytes_max").value,
        collapse_timeout: section.time("collapse_timeout"),
        cache_status: section.flag("cache_status"),
    })))
}

/// The name of a field, in small letters.
fn lower(section: &Section<'_>, key: &str, text: &At<String>) -> String {
    if !is_token(&text.value) {
        let message = format!("`{key}`: \"{}\" is not the name of a field", shorten(&text.value));
        section.cx.error(&text.span, message);
    }
    text.value.to_ascii_lowercase()
}

/// `ttl_by_status`
fn by_status(section: &Section<'_>) -> Vec<(u16, Duration)> {
    let mut found: Vec<(u16, Duration)> = Vec::new();
    for (status, time) in section.map("ttl_by_status") {
        let number = status.value.parse().ok().filter(|status| (200..600).contains(status));
        if number.is_none_or(|number| number == 206 || number == 304) {
            let message =
                format!("`ttl_by_status`: \"{}\" is no status of a whole response", shorten(&status.value));
            section.cx.error(&status.span, message);
        }
        let what = format!("`ttl_by_status`: \"{}\" is no time", shorten(&time.value));
        let time = section.cx.accept(&time.span, &what, duration(&time.value));
        if let (Some(number), Some(time)) = (number, time) {
            found.push((number, time));
        }
    }
    found
}

/// `cache` of a route: only a pool has responses that could be kept.
pub(super) fn of_route(section: &Section<'_>, target: &Target) -> Option<Caching> {
    let caching = of(section)?;
    let from_pool = match target {
        Target::Pool(_) => true,
        Target::Files(files) => matches!(files.try_files.last(), Some(TryItem::Pool(_))),
        _ => false,
    };
    if let (Caching::On(_), false, Some(span)) = (&caching, from_pool, section.key_span("cache")) {
        section.cx.error_with(
            &span,
            "`cache` keeps responses of pools, and this route has none",
            "files and fixed responses are as fast as what is kept",
        );
    }
    Some(caching)
}

/// `[cache]`, if it is given, or a site or a route keeps responses.
pub(super) fn needed(root: &Section<'_>, sites: &[Site]) -> Option<CacheStore> {
    let is_on = |caching: &Option<Caching>| matches!(caching, Some(Caching::On(_)));
    let wanted =
        || sites.iter().any(|site| is_on(&site.cache) || site.routes.iter().any(|route| is_on(&route.cache)));
    let given = root.key_span("cache").is_some();
    let store = store(root);
    (given || wanted()).then_some(store)
}
