//! Locations that nginx looks up again: for the index of a directory, for the end of `try_files`, for a page of an error. Header
//! fields, access and the directory are those of the location that answers in the end.

use regex::bytes::RegexBuilder;

use super::access::{self, Access};
use super::context::Context;
use super::headers::{self, Responses};
use super::selectors::{self, Location, Modifier, Selector};
use super::spot::{Server, Spot};
use crate::drafts::{Files, Header, How, Route, Target};
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::nginx::values;
use crate::report::Kind;

/// The location that answers for a path; `None`: the server itself.
///
/// # Errors
/// It cannot be told, because of an expression that is not one here.
pub(super) fn location<'s, 'a>(
    server: &'s Server<'a>,
    path: &str,
) -> Result<Option<&'s Location<'a>>, String> {
    let all = &server.locations;
    let exact = all.iter().find(|one| one.modifier == Modifier::Exact && one.pattern == path);
    if exact.is_some() {
        return Ok(exact);
    }
    let prefixes = all.iter().filter(|one| {
        matches!(one.modifier, Modifier::Prefix | Modifier::Forced) && path.starts_with(&one.pattern)
    });
    let longest = prefixes.max_by_key(|one| one.pattern.len());
    let is_regex = |one: &&Location<'_>| matches!(one.modifier, Modifier::Regex | Modifier::AnyCase);
    // Those within the longest prefix come first.
    let around = longest.map(|one| &one.pattern);
    let inside =
        all.iter().filter(is_regex).filter(|one| one.parent.is_some() && one.parent.as_ref() == around);
    let outside = all.iter().filter(is_regex).filter(|one| one.parent.is_none());
    let forced = longest.is_some_and(|one| one.modifier == Modifier::Forced);
    for one in inside.chain(outside.filter(|_| !forced)) {
        if matches(one, path)? {
            return Ok(Some(one));
        }
    }
    Ok(longest)
}

/// Whether a path matches the regular expression of a location.
pub(super) fn matches(location: &Location<'_>, path: &str) -> Result<bool, String> {
    let any_case = location.modifier == Modifier::AnyCase;
    let compiled = |text: &str| {
        let text = values::regex(text, any_case)?;
        // As routes match: bytes, and only letters of ASCII without case.
        let built = RegexBuilder::new(&text).unicode(false).build();
        built.map_err(|_| format!("`{}` is no expression here", location.directive.shown()))
    };
    if !location.pattern.contains("(?!") {
        return Ok(compiled(&location.pattern)?.is_match(path.as_bytes()));
    }
    // What the expression leaves out is apart from it, as in a route.
    let selector = selectors::regex(&location.pattern, any_case)?;
    let is_of = |patterns: &[String]| {
        let is = |pattern: &String| {
            let parts: Vec<String> = pattern.split('*').map(regex::escape).collect();
            compiled(&format!("^{}$", parts.join(".*"))).map(|one| one.is_match(path.as_bytes()))
        };
        patterns.iter().map(is).collect::<Result<Vec<bool>, String>>().map(|all| all.contains(&true))
    };
    let rest = match &selector.regex {
        Some(rest) => {
            RegexBuilder::new(rest).unicode(false).build().is_ok_and(|rest| rest.is_match(path.as_bytes()))
        }
        None => true,
    };
    Ok(rest && (selector.paths.is_empty() || is_of(&selector.paths)?) && !is_of(&selector.except)?)
}

/// What answers where a `try_files` ends.
pub(super) enum Ending<'a> {
    /// A file, in the scope of its location, with that location's directive; without one, the server's.
    File(String, Scope<'a>, Option<&'a Directive>),
    /// An application.
    Pool(Scope<'a>),
}

/// Has a route whose files end in something else give both what their own locations say.
pub(super) fn settle(cx: &Context<'_>, spot: &Spot<'_, '_>, ending: &Ending<'_>, route: &mut Route) {
    let scope = match ending {
        Ending::File(_, scope, _) | Ending::Pool(scope) => scope,
    };
    protect(cx, &spot.scope, scope, route);
    let (ours, theirs) = (headers::of_responses(cx, &spot.scope), headers::of_responses(cx, scope));
    match ending {
        Ending::Pool(_) => beside_pool(cx, (&spot.scope, &ours), (scope, &theirs), route),
        Ending::File(path, _, directive) => {
            last_file(cx, (spot, &ours), (path.as_str(), *directive, &theirs), route)
        }
    }
}

/// Whether two locations say the same of responses, and of who gets them.
pub(super) fn says_the_same(cx: &Context<'_>, own: &Scope<'_>, there: &Scope<'_>) -> bool {
    let (ours, theirs) = (headers::of_responses(cx, own), headers::of_responses(cx, there));
    let fields = (&ours.rules, &ours.files, &ours.expires) == (&theirs.rules, &theirs.files, &theirs.expires);
    let asked = access::of(cx, there);
    fields && (asked == Access::Open || asked == access::of(cx, own))
}

/// The second location asks who may, too: what only one of both protects is protected as a whole.
fn protect(cx: &Context<'_>, own: &Scope<'_>, there: &Scope<'_>, route: &mut Route) {
    let (ours, theirs) = (access::of(cx, own), access::of(cx, there));
    if theirs == Access::Open || theirs == ours {
        return;
    }
    let guards = ["auth_basic", "auth_request", "auth_jwt", "allow", "deny"];
    let said = there.all_of(&guards);
    let guard = match (&ours, &theirs) {
        (Access::Open, Access::Gated(_)) => {
            for directive in said {
                cx.say(
                    directive,
                    Kind::Choice,
                    "the files in front of what this protects are protected as well",
                );
            }
            theirs.clone()
        }
        _ => {
            for directive in said {
                cx.not_possible(
                    directive,
                    "two locations protect the same in different ways: it answers 403 instead",
                );
            }
            Access::Unknown("two locations protect it in different ways".to_owned())
        }
    };
    if let Some(guarded) = access::guard(&guard, vec![route.clone()]).pop() {
        *route = guarded;
    }
}

/// The fields that both have, and that the one has alone.
fn split(ours: &[Header], theirs: &[Header]) -> (Vec<Header>, Vec<Header>, Vec<Header>) {
    let (both, own): (Vec<Header>, Vec<Header>) =
        ours.iter().cloned().partition(|rule| theirs.contains(rule));
    let other = theirs.iter().filter(|rule| !ours.contains(rule)).cloned().collect();
    (both, own, other)
}

/// The files of `location / { try_files $uri @app; expires max; }` have its fields, and the application's responses have those of
/// `@app`.
fn beside_pool(
    cx: &Context<'_>,
    (own, ours): (&Scope<'_>, &Responses),
    (there, theirs): (&Scope<'_>, &Responses),
    route: &mut Route,
) {
    let (both, alone, other) = split(&ours.rules, &theirs.rules);
    let Target::Files(files) = &mut route.target else { return };
    let mut set: Vec<(String, String)> = alone
        .into_iter()
        .filter(|rule| rule.how != How::Remove)
        .map(|rule| (rule.name, rule.value))
        .collect();
    set.extend(ours.files.iter().filter(|field| !theirs.files.contains(field)).cloned());
    let (mut kept, mut lost) = (both, Vec::new());
    for rule in other {
        let named = set.iter().any(|(name, _)| name.eq_ignore_ascii_case(&rule.name));
        match rule.how {
            How::Remove => kept.push(rule),
            _ if named => kept.push(Header { how: How::IfAbsent, ..rule }),
            _ => {
                lost.push(rule.name.clone());
                kept.push(rule);
            }
        }
    }
    for (name, value) in &theirs.files {
        if !ours.files.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)) {
            lost.push(name.clone());
        }
        kept.push(Header { how: How::IfAbsent, name: name.clone(), value: value.clone() });
    }
    route.response = kept;
    say_fields(cx, there, &lost, "files that are found in front of the application have this field, too");
    if ours.expires != theirs.expires {
        match ours.expires.as_slice() {
            [] => say_expires(cx, there, "files that are found in front of the application have it, too"),
            [(kind, value)] if kind == "default" => {
                if value != "off" {
                    set.push(("Cache-Control".into(), headers::directives(value)));
                }
            }
            _ => say_expires(
                cx,
                own,
                "files in front of an application have one time here, whatever their types are: they have none",
            ),
        }
        route.expires.clone_from(&theirs.expires);
    }
    for field in set {
        if !files.headers.contains(&field) {
            files.headers.push(field);
        }
    }
}

/// A single-page application: `try_files $uri /index.html` ends in another location than that of the files.
fn last_file(
    cx: &Context<'_>,
    (spot, ours): (&Spot<'_, '_>, &Responses),
    (path, directive, theirs): (&str, Option<&Directive>, &Responses),
    route: &mut Route,
) {
    if directive.is_some_and(|directive| std::ptr::eq(directive, spot.directive)) {
        return;
    }
    by_name(cx, path, (&spot.scope, ours), theirs, route);
    let exact = directive.filter(|one| one.args.first().is_some_and(|sign| sign.starts_with('=')));
    if let Some(exact) = exact.filter(|_| ours.expires != theirs.expires) {
        let why = "what it says of caches holds for files of this name in every directory of that location";
        cx.say(exact, Kind::Choice, why);
    }
    let (_, alone, other) = split(&ours.rules, &theirs.rules);
    let tries = spot.scope.own().iter().rfind(|one| one.name == "try_files");
    let shown = directive.map_or("the server".to_owned(), Directive::shown);
    if let (Some(tries), false) = (tries, other.is_empty()) {
        let names: Vec<&str> = other.iter().map(|rule| rule.name.as_str()).collect();
        let why = format!("the file at its end is without {} of `{shown}`", names.join(", "));
        cx.say(tries, Kind::Worse, why);
    } else if let (Some(tries), false) = (tries, alone.is_empty()) {
        let why =
            format!("the file at its end has the fields of this location as well as those of `{shown}`");
        cx.say(tries, Kind::Choice, why);
    }
}

/// `expires` of a file of this name.
fn by_name(
    cx: &Context<'_>,
    path: &str,
    (own, ours): (&Scope<'_>, &Responses),
    theirs: &Responses,
    route: &mut Route,
) {
    if ours.expires == theirs.expires {
        return;
    }
    let name = path.rsplit('/').next().unwrap_or(path).to_owned();
    let value = match theirs.expires.as_slice() {
        [] => Some("off".to_owned()),
        [(kind, value)] if kind == "default" => Some(value.clone()),
        several => several.iter().find(|(kind, _)| kind == "text/html").map(|(_, value)| value.clone()),
    };
    match value {
        Some(value) => route.expires.insert(0, (name, value)),
        None => say_expires(cx, own, "the file that another location answers with has this time, too"),
    }
}

fn say_fields(cx: &Context<'_>, scope: &Scope<'_>, names: &[String], why: &str) {
    for directive in scope.all_of(&["add_header", "more_set_headers"]) {
        if names.iter().any(|name| {
            directive.args.iter().any(|arg| arg.to_ascii_lowercase().starts_with(&name.to_ascii_lowercase()))
        }) {
            cx.say(directive, Kind::Choice, why);
        }
    }
}

fn say_expires(cx: &Context<'_>, scope: &Scope<'_>, why: &str) {
    for directive in scope.last("expires").into_iter().chain(scope.all("add_header")) {
        let about_caches =
            directive.name == "expires" || directive.arg(0).eq_ignore_ascii_case("cache-control");
        if about_caches {
            cx.say(directive, Kind::Worse, why);
        }
    }
}

/// The directory that the paths of a location are in.
fn directory(selector: &Selector) -> Option<String> {
    let plain = selector.regex.is_none() && selector.condition.is_empty();
    match (&selector.prefix, selector.paths.as_slice()) {
        (Some(prefix), _) if prefix.ends_with('/') => Some(prefix.clone()),
        (None, [path]) if path.ends_with('/') && !path.contains('*') => Some(path.clone()),
        _ => None,
    }
    .filter(|_| plain)
}

/// Routes for directories whose index another location answers for: `location ~ \.html$` does for `/` as well.
pub(super) fn of_directories<'a>(
    cx: &Context<'a>,
    spot: &Spot<'_, 'a>,
    selector: &Selector,
    main: &Route,
    make: &dyn Fn(&Spot<'_, 'a>, Selector) -> Route,
) -> Vec<Route> {
    let Target::Files(files) = &main.target else { return Vec::new() };
    let Some(base) = directory(selector).filter(|_| !files.no_index && files.rewrite.is_none()) else {
        return Vec::new();
    };
    // An index that is a script is left to its pool.
    let name = files.index.iter().find(|name| !name.ends_with(".php")).map_or("index.html", String::as_str);
    let mut routes: Vec<Route> = Vec::new();
    let deeper = selector.prefix.is_some();
    // Of the directory itself, and of those below it; two names that no expression is about stand for all others.
    for (path, paths) in [
        (format!("{base}{name}"), vec![base.clone()]),
        (format!("{base}some/other/{name}"), vec![format!("{base}*/")]),
    ] {
        let below = paths.first().is_some_and(|path| path.contains('*'));
        let Ok(Some(found)) = location(spot.server, &path) else { continue };
        let same = std::ptr::eq(found.directive, spot.directive);
        if same || (below && !deeper) {
            continue;
        }
        if found.modifier == Modifier::Prefix || found.modifier == Modifier::Forced {
            continue;
        }
        if !serves(found, &spot.scope) {
            let why = format!("an index of `{}` is not answered by it", spot.directive.shown());
            cx.say(found.directive, Kind::Worse, why);
            continue;
        }
        let there = Spot {
            server: spot.server,
            directive: found.directive,
            modifier: spot.modifier,
            scope: found.scope.with_values_of(&spot.scope),
            blocks: spot.blocks.clone(),
        };
        let narrow = Selector { paths, prefix: None, ..selector.clone() };
        let mut route = make(&there, narrow);
        route.target = match route.target {
            // The directory, its index and what comes after it are those of the location that was asked for.
            Target::Files(own) => Target::Files(Files { headers: own.headers, ..files.clone() }),
            closed => closed,
        };
        route.origin = (found.directive.place.clone(), format!("{}, for an index", found.directive.shown()));
        protect(cx, &spot.scope, &found.scope, &mut route);
        if is_covered(main, &route, name) {
            continue;
        }
        match routes.last_mut().filter(|last| last.origin == route.origin) {
            Some(last) => last.paths.extend(route.paths),
            None => routes.push(route),
        }
    }
    routes
}

/// Whether the route of all other paths says the same of an index of this name.
fn is_covered(main: &Route, route: &Route, name: &str) -> bool {
    let by_name = main.expires.iter().find(|(kind, _)| kind == name).map(|(_, value)| value.as_str());
    let expires = match (by_name, route.expires.as_slice()) {
        (_, expires) if expires == main.expires => true,
        (Some(told), []) => told == "off",
        (Some(told), [(kind, value)]) => kind == "default" && told == value,
        _ => false,
    };
    let alike = Route {
        paths: main.paths.clone(),
        origin: main.origin.clone(),
        condition: main.condition.clone(),
        expires: main.expires.clone(),
        ..route.clone()
    };
    expires && alike == *main
}

/// Whether a location serves a file that is there, from the directory that holds in the scope.
fn serves(location: &Location<'_>, scope: &Scope<'_>) -> bool {
    let own = location.scope.own();
    let other = |one: &Directive| {
        one.name.ends_with("_pass")
            || ["return", "rewrite", "if", "alias", "internal"].contains(&one.name.as_str())
    };
    let root = |scope: &Scope<'_>| scope.last("root").map(|root| root.args.clone());
    !own.iter().any(other) && root(&location.scope) == root(scope)
}
