//! `[cache]`, and `cache` of sites and routes.

use std::time::Duration;

use super::super::cache::{CacheRules, CacheStore, Caching, QueryKey};
use super::super::finding::At;
use super::super::listen::{ClientAuth, Listen};
use super::super::meaning::{Route, Site, Target, TryItem};
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
        key_identity: section.flag("key_identity"),
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

fn leads_to_pool(target: &Target) -> bool {
    match target {
        Target::Pool(_) => true,
        Target::Files(files) => matches!(files.try_files.last(), Some(TryItem::Pool(_))),
        _ => false,
    }
}

/// `cache` of a route: only a pool has responses that could be kept.
pub(super) fn of_route(section: &Section<'_>, target: &Target) -> Option<Caching> {
    let caching = of(section)?;
    let from_pool = leads_to_pool(target);
    if let (Caching::On(_), false, Some(span)) = (&caching, from_pool, section.key_span("cache")) {
        section.cx.error_with(
            &span,
            "`cache` keeps responses of pools, and this route has none",
            "files and fixed responses are as fast as what is kept",
        );
    }
    Some(caching)
}

/// Warns of what is legal and gives one client's responses to others, where that may not be what was meant.
pub(super) fn check(section: &Section<'_>, of_site: &Section<'_>, route: &Route) {
    let of_site_alone = || of(of_site).zip(of_site.key_span("cache"));
    let own = route.cache.clone().zip(section.key_span("cache"));
    let Some((Caching::On(rules), span)) = own.or_else(of_site_alone) else { return };
    if !leads_to_pool(&route.target) {
        return;
    }
    let cx = section.cx;
    let is_on = |gate: &&str| match section.given(gate) {
        Some(_) => section.is_table(gate),
        None => of_site.is_table(gate),
    };
    let gate = ["basic_auth", "jwt", "forward_auth"].into_iter().find(is_on);
    let module = || section.given("module").or(of_site.given("module")).map(|_| "module");
    match gate {
        Some(gate) if rules.authorization => cx.warn(
            &span,
            format!("`cache` with `authorization = true` gives all whom `{gate}` admits what one of them has got"),
            "leave `authorization` out, or write key_identity = true for responses of each client's own",
        ),
        Some(gate) if !rules.key_identity => cx.warn(
            &span,
            format!(
                "`cache` behind `{gate}` keeps only what says `public`, `s-maxage` or `must-revalidate`, for all whom that \
                 admits"
            ),
            "write key_identity = true for responses of each client's own, or cache = false",
        ),
        None if rules.key_identity && module().is_some() => cx.warn(
            &span,
            "`key_identity` has no effect behind `module`, which names no user",
            "what says `public`, `s-maxage` or `must-revalidate` is kept, for all whom the module admits",
        ),
        _ => {}
    }
    if rules.set_cookie {
        let hint = "an application that tells clients apart by it takes them all for one";
        cx.warn(&span, "`set_cookie = true` gives every client the cookie that the first one has got", hint);
    }
    if !rules.response_control && rules.cookies && rules.key_cookies.is_empty() && has_lifetime(&rules) {
        cx.warn(
            &span,
            "`response_control = false` with `cookies = true` gives every client what one with a session has got, even if it \
             says `private`",
            "leave `cookies` out, or name the cookies that distinguish responses in `key_cookies`",
        );
    }
}

fn has_lifetime(rules: &CacheRules) -> bool {
    rules.ttl.is_some() || !rules.ttl_by_status.is_empty()
}

/// The same for certificates of clients, which are asked for at addresses, and not by sites.
pub(super) fn check_certificates(root: &Section<'_>, listens: &[Listen]) {
    let asks =
        |listen: &Listen| listen.tls.as_ref().is_some_and(|tls| !matches!(tls.client_auth, ClientAuth::Off));
    if !listens.iter().any(asks) {
        return;
    }
    for site in root.sections("site") {
        for section in std::iter::once(&site).chain(&site.sections("route")) {
            let keeps = |caching: &Caching| matches!(caching, Caching::On(rules) if !rules.key_identity && !rules.authorization);
            if let (Some(span), Some(true)) = (section.key_span("cache"), of(section).as_ref().map(keeps)) {
                section.cx.warn(
                    &span,
                    "of what clients with a certificate get, `cache` keeps only what says `public`, `s-maxage` or \
                     `must-revalidate`, for all of them",
                    "write key_identity = true for responses of each client's own, or cache = false",
                );
            }
        }
    }
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
