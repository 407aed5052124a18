//! `proxy_cache` and its relatives: `cache` of a route, and `[cache]`.

use super::conditions::{self, Condition};
use super::context::Context;
use super::settings::Settings;
use crate::drafts::{Match, Route};
use crate::model::{Block, Value};
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::nginx::values::{self, Part};
use crate::report::Kind;
use crate::write::time;

/// What directives about a cache begin with, by the directive that passes requests on.
const DIALECTS: [(&str, &str); 2] = [("proxy_pass", "proxy"), ("fastcgi_pass", "fastcgi")];
/// Keys that a megabyte of a zone holds.
const KEYS_PER_MEGABYTE: u64 = 8000;
/// How long stale responses are given, where there is no bound to it.
const STALE_MILLIS: u64 = 24 * 3_600_000;
/// The longest lifetime that can be said.
const LIFETIME_MILLIS_MAX: u64 = 365 * 24 * 3_600_000;

/// `cache` of a location, if it has responses cached.
pub(super) fn of(cx: &Context<'_>, scope: &Scope<'_>) -> Option<Vec<(String, Value)>> {
    let passes = |(pass, _): &&(&str, &str)| scope.own().iter().any(|own| own.name == *pass);
    let (_, dialect) = DIALECTS.iter().find(passes)?;
    let named = |rest: &str| format!("{dialect}_{rest}");
    let zone = scope.last(&named("cache")).filter(|zone| zone.arg(0) != "off")?;
    if zone.arg(0).contains('$') {
        cx.not_possible(zone, "the name of the zone depends on the request");
        return None;
    }
    let Some(mut entries) = key(cx, scope.last(&named("cache_key"))) else {
        // With another key, one client would get what is for another one.
        cx.not_possible(zone, "its key has something else than the URL, fields and cookies");
        return None;
    };
    cx.translated(zone);
    let lives = lifetimes(cx, scope, &scope.all(&named("cache_valid")), &mut entries);
    stale(cx, scope, dialect, &mut entries);
    ignored(cx, scope.last(&named("ignore_headers")), &mut entries);
    if let Some((directive, millis)) =
        (Settings { cx, scope }).time(&named("cache_lock_timeout")).filter(|(_, millis)| *millis > 0)
    {
        cx.translated(directive);
        entries.push(("collapse_timeout".to_owned(), time(millis.min(3_600_000)).into()));
    }
    let bypasses = ["cache_bypass", "no_cache"].map(named);
    let bypassed = bypasses.iter().any(|name| scope.last(name).is_some());
    // Clients with cookies share what is kept, unless the file says which do not: that is a route of its own here.
    if lives && !bypassed {
        entries.push(("cookies".to_owned(), true.into()));
    }
    not_needed(cx, scope, dialect);
    Some(entries)
}

/// The routes, with one before each for requests that pass the cache by: `…_cache_bypass` and `…_no_cache`. Where that cannot be
/// said, nothing is kept.
pub(super) fn apart(cx: &Context<'_>, scope: &Scope<'_>, routes: Vec<Route>) -> Vec<Route> {
    let named: Vec<&Directive> = DIALECTS
        .iter()
        .filter(|(pass, _)| scope.own().iter().any(|own| own.name == *pass))
        .flat_map(|(_, dialect)| {
            ["cache_bypass", "no_cache"].map(|rest| scope.last(&format!("{dialect}_{rest}")))
        })
        .flatten()
        .collect();
    if named.is_empty() || !routes.iter().any(|route| route.cache.is_some()) {
        return routes;
    }
    let (conditions, mut wrong) = asked(cx, scope, &named);
    let mut all = Vec::new();
    for mut route in routes {
        let found = match (&route.cache, &wrong) {
            (None, _) => Some(Vec::new()),
            (Some(_), Some(_)) => None,
            (Some(_), None) => passing_by(&route, &conditions),
        };
        match found {
            Some(found) => {
                if let Some(entries) =
                    route.cache.as_mut().filter(|_| !found.is_empty() || conditions.is_empty())
                {
                    let lives = entries.iter().any(|(key, _)| key == "ttl" || key == "ttl_by_status");
                    // Clients with other cookies share what is kept.
                    if lives && !entries.iter().any(|(key, _)| key == "cookies") {
                        entries.push(("cookies".to_owned(), true.into()));
                    }
                }
                all.extend(found);
            }
            None => {
                wrong.get_or_insert_with(|| "one route cannot say both".to_owned());
                route.cache = None;
            }
        }
        all.push(route);
    }
    for directive in named {
        match &wrong {
            Some(why) => cx.not_possible(directive, format!("{why}: nothing is kept there")),
            None => cx.translated(directive),
        }
    }
    all
}

/// What these directives ask, and why not all of it can be said.
fn asked(cx: &Context<'_>, scope: &Scope<'_>, named: &[&Directive]) -> (Vec<Condition>, Option<String>) {
    let mut conditions: Vec<Condition> = Vec::new();
    let mut wrong = None;
    for directive in named {
        for arg in &directive.args {
            match conditions::of_value(cx, scope, arg) {
                Ok(found) => found.into_iter().for_each(|one| {
                    if !conditions.contains(&one) {
                        conditions.push(one);
                    }
                }),
                Err(why) => wrong = wrong.or(Some(why)),
            }
        }
    }
    (conditions, wrong)
}

/// A route for each condition, without the cache.
fn passing_by(route: &Route, conditions: &[Condition]) -> Option<Vec<Route>> {
    let mut all = Vec::new();
    for condition in conditions {
        let plain = |table: &Match| {
            let condition = route.condition.and(table)?;
            Some(Route { condition, cache: None, ..route.clone() })
        };
        match condition {
            Condition::Match(table) => all.push(plain(table)?),
            Condition::Several(tables) => {
                for table in tables {
                    all.push(plain(table)?);
                }
            }
            // Nothing else is kept than answers to these.
            Condition::Methods(methods)
                if !methods.iter().any(|method| method == "GET" || method == "HEAD") => {}
            Condition::Path(_, Some(regex)) if route.regex.is_none() => {
                all.push(Route { regex: Some(regex.clone()), cache: None, ..route.clone() });
            }
            Condition::Path(paths, None) => {
                let set = Match { paths: paths.clone(), ..Match::default() };
                all.push(plain(&Match { any: vec![set], ..Match::default() })?);
            }
            _ => return None,
        }
    }
    Some(all)
}

/// What needs no key here, or has none.
fn not_needed(cx: &Context<'_>, scope: &Scope<'_>, dialect: &str) {
    let last = |rest: &str| scope.last(&format!("{dialect}_{rest}"));
    for (name, why) in [
        ("cache_lock", "requests for the same wait for one of them"),
        ("cache_lock_age", "requests for the same wait for one of them"),
        ("cache_revalidate", "what is stale is asked for with its validators"),
        ("cache_convert_head", "HEAD is answered with what GET has left"),
    ] {
        last(name).into_iter().for_each(|directive| cx.not_needed(directive, why));
    }
    if let Some(directive) = last("cache_min_uses") {
        match directive.arg(0) {
            "1" => cx.not_needed(directive, "the first response is kept"),
            _ => cx.say(
                directive,
                Kind::Choice,
                "the first response is kept; what is not asked for again gives way",
            ),
        }
    }
    if let Some(directive) = last("cache_methods") {
        match directive.args.iter().any(|method| method.eq_ignore_ascii_case("POST")) {
            true => cx.not_possible(directive, "responses to POST are not kept"),
            false => cx.not_needed(directive, "GET and HEAD are"),
        }
    }
}

/// `…_cache_valid`: whether a lifetime was said.
fn lifetimes(
    cx: &Context<'_>,
    scope: &Scope<'_>,
    all: &[&Directive],
    entries: &mut Vec<(String, Value)>,
) -> bool {
    let mut by_status: Vec<(String, Value)> = Vec::new();
    let mut any = None;
    for directive in all {
        let Some((last, statuses)) = directive.args.split_last() else { continue };
        let millis = values::fixed(last, scope).and_then(|text| values::millis(&text));
        let Some(millis) = millis else {
            cx.not_possible(directive, "this is no time that is known beforehand");
            continue;
        };
        cx.translated(directive);
        let lifetime: Value = time(millis.min(LIFETIME_MILLIS_MAX)).into();
        let usual = ["200", "301", "302"].map(str::to_owned);
        for status in if statuses.is_empty() { &usual[..] } else { statuses } {
            match status.as_str() {
                "any" => any = Some(lifetime.clone()),
                status if !by_status.iter().any(|(known, _)| known == status) => {
                    by_status.push((status.to_owned(), lifetime.clone()));
                }
                _ => {}
            }
        }
    }
    let lives = any.is_some() || !by_status.is_empty();
    entries.extend(any.map(|lifetime| ("ttl".to_owned(), lifetime)));
    if !by_status.is_empty() {
        entries.push(("ttl_by_status".to_owned(), Value::Table(by_status)));
    }
    lives
}

/// `…_cache_use_stale` and `…_cache_background_update`
fn stale(cx: &Context<'_>, scope: &Scope<'_>, dialect: &str, entries: &mut Vec<(String, Value)>) {
    let Some(directive) = scope.last(&format!("{dialect}_cache_use_stale")) else { return };
    let has = |word: &str| directive.args.iter().any(|arg| arg == word);
    if has("off") {
        return cx.not_needed(directive, "stale responses are not given unless told so");
    }
    cx.translated(directive);
    if directive.args.iter().any(|arg| arg != "updating") {
        entries.push(("stale_if_error".to_owned(), time(STALE_MILLIS).into()));
    }
    let update = scope.last(&format!("{dialect}_cache_background_update"));
    if let Some(update) = update {
        match has("updating") && update.arg(0) == "on" {
            true => cx.translated(update),
            false => cx.not_needed(update, "it is what a stale response that is being updated needs"),
        }
    }
    if has("updating") {
        entries.push(("stale_while_revalidate".to_owned(), time(STALE_MILLIS).into()));
    }
}

/// `…_ignore_headers`
fn ignored(cx: &Context<'_>, directive: Option<&Directive>, entries: &mut Vec<(String, Value)>) {
    let Some(directive) = directive else { return };
    let has = |name: &str| directive.args.iter().any(|arg| arg.eq_ignore_ascii_case(name));
    if has("Vary") {
        return cx.not_possible(directive, "`Vary` of responses always counts");
    }
    cx.translated(directive);
    if has("Cache-Control") || has("Expires") {
        entries.push(("response_control".to_owned(), false.into()));
    }
    if has("Set-Cookie") {
        entries.push(("set_cookie".to_owned(), true.into()));
    }
}

/// `…_cache_key`: the URL, and fields and cookies besides. `None` for anything else.
fn key(cx: &Context<'_>, directive: Option<&Directive>) -> Option<Vec<(String, Value)>> {
    let Some(directive) = directive else { return Some(Vec::new()) };
    let (mut headers, mut cookies) = (Vec::new(), Vec::new());
    let (mut query, mut unknown) = (false, false);
    for part in values::parts(&directive.args.join(" "), &Scope::default()) {
        let Part::Variable(name) = part else { continue };
        match name.as_str() {
            "request_uri" | "args" | "query_string" => query = true,
            "scheme" | "host" | "http_host" | "proxy_host" | "server_name" | "server_port" | "proxy_port"
            | "request_method" | "uri" | "document_uri" | "is_args" | "https" => {}
            "http_accept_encoding" => {}
            name => match (name.strip_prefix("cookie_"), name.strip_prefix("http_")) {
                (Some(cookie), _) => cookies.push(cookie.to_owned()),
                (None, Some(field)) if maitred_config::is_claim(&values::field_name(field)) => unknown = true,
                (None, Some(field)) => headers.push(values::field_name(field)),
                (None, None) => unknown = true,
            },
        }
    }
    if unknown {
        cx.not_possible(directive, "keys are made of the URL, fields and cookies");
        return None;
    }
    cx.translated(directive);
    let mut entries = Vec::new();
    if !query {
        entries.push(("query".to_owned(), "none".into()));
    }
    for (name, list) in [("key_headers", headers), ("key_cookies", cookies)] {
        if !list.is_empty() {
            entries.push((name.to_owned(), Value::texts(&list)));
        }
    }
    Some(entries)
}

/// `[cache]`: there is one store. The directory is its own: what lies in nginx's is of another format.
pub(super) fn store(cx: &Context<'_>, scope: &Scope<'_>) -> Block {
    let mut block = Block::new("[cache]");
    for directive in DIALECTS.iter().flat_map(|(_, dialect)| scope.all(&format!("{dialect}_cache_path"))) {
        if !cx.caches {
            continue;
        }
        if block.origin.is_some() {
            cx.not_needed(directive, "all responses are kept in one store, with the bounds of the first");
            continue;
        }
        cx.translated(directive);
        block = block.from(&directive.place, &directive.shown());
        let value =
            |name: &str| directive.args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='));
        if let Some(bytes) = value("max_size").and_then(values::size).filter(|bytes| *bytes > 0) {
            block.push("bytes_max", bytes, None);
        }
        let zone = value("keys_zone").and_then(|zone| values::size(zone.rsplit(':').next()?));
        if let Some(bytes) = zone {
            let entries = (bytes >> 20).max(1).saturating_mul(KEYS_PER_MEGABYTE);
            block.push("entries_max", entries, None);
        }
    }
    block
}
