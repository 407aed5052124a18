//! The routes of a server, in an order in which the first that matches is the one that nginx chooses.

use super::access::{self, Access};
use super::answering;
use super::context::Context;
use super::files::{self, Last};
use super::finite;
use super::headers;
use super::rewriting::{self, Rewriting};
use super::selectors::{self, Location, Modifier, Selector, is_php};
use super::spot::{Server, Spot};
use super::targets;
use crate::drafts::{Route, Target};
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::report::Kind;

/// The routes of a server block.
pub(crate) fn of<'a>(cx: &Context<'a>, scope: &Scope<'a>, directive: &'a Directive) -> Vec<Route> {
    let all = Selector::default();
    let before = rewriting::of(cx, scope, &all, true);
    let mut routes = before.routes.clone();
    if before.ended {
        return routes;
    }
    let locations = selectors::locations(cx, scope, None);
    let front = front(scope, &locations);
    let server = Server { scope: scope.clone(), locations, front };
    let prefixes: Vec<String> = server
        .locations
        .iter()
        .filter(|location| is_prefix(location))
        .map(|location| location.pattern.clone())
        .collect();
    for (branch, _) in &before.branches {
        cx.not_possible(branch, "what it changes would change every route of the server");
    }
    let ordered = ordered(&server.locations);
    // The redirect to a slash comes before regular expressions.
    for location in &ordered {
        routes.extend(slash(cx, &server, location));
    }
    for location in &ordered {
        cx.translated(location.directive);
        if let Some(taken) = taken(&server, location) {
            unreached(cx, location.directive, &taken.directive.shown());
            continue;
        }
        if selectors::leaves_any_case(location) {
            let why = "paths that it leaves out are left out as they are written, and not in other cases";
            cx.say(location.directive, Kind::Choice, why);
        }
        match selectors::of(location, &prefixes) {
            Ok(selector) => routes.extend(of_location(cx, &server, location, &selector, &before)),
            Err(why) => cx.not_possible(location.directive, why),
        }
    }
    if !prefixes.iter().any(|prefix| prefix == "/") {
        routes.extend(rest(cx, &server, directive, &before));
    }
    simplified(routes)
}

/// The location with a regular expression that takes all paths of a prefix: one that begins where paths do, and looks at no end,
/// takes whatever begins with what it takes.
fn taken<'s, 'a>(server: &'s Server<'a>, location: &Location<'a>) -> Option<&'s Location<'a>> {
    let nests = location.scope.own().iter().any(|one| one.name == "location");
    if location.modifier != Modifier::Prefix || nests {
        return None;
    }
    let takes = |other: &&Location<'_>| {
        let regex = &other.pattern;
        let is_regex =
            matches!(other.modifier, Modifier::Regex | Modifier::AnyCase) && other.parent.is_none();
        let open = regex.starts_with('^')
            && !["$", "(?", r"\z", r"\Z", r"\b", r"\B", r"\G"].iter().any(|sign| regex.contains(sign));
        is_regex && open && answering::matches(other, &location.pattern) == Ok(true)
    };
    server.locations.iter().find(takes)
}

/// A location that gets no request.
fn unreached(cx: &Context<'_>, directive: &Directive, by: &str) {
    cx.not_needed(directive, &format!("`{by}` takes all its paths"));
    directive.inside().iter().for_each(|inside| unreached(cx, inside, by));
}

fn is_prefix(location: &Location<'_>) -> bool {
    matches!(location.modifier, Modifier::Prefix | Modifier::Forced)
}

/// Exact paths first, then the prefixes that forbid regular expressions, then these, then the other prefixes; longer ones before
/// shorter ones.
fn ordered<'l, 'a>(locations: &'l [Location<'a>]) -> Vec<&'l Location<'a>> {
    let mut all: Vec<&Location<'_>> =
        locations.iter().filter(|location| location.modifier != Modifier::Named).collect();
    let longest_first = |location: &Location<'_>| usize::MAX - location.pattern.len();
    all.sort_by_key(|location| match location.modifier {
        Modifier::Exact => (0, 0),
        Modifier::Forced => (1, longest_first(location)),
        Modifier::Regex | Modifier::AnyCase if location.parent.is_some() => (2, 0),
        Modifier::Regex | Modifier::AnyCase => (3, 0),
        Modifier::Prefix | Modifier::Named => (4, longest_first(location)),
    });
    all
}

/// The script that takes what is no file: the end of a `try_files`, or of an `if (!-e …)`.
fn front(scope: &Scope<'_>, locations: &[Location<'_>]) -> Option<String> {
    let runs = |location: &Location<'_>| {
        is_php(location) && location.scope.own().iter().any(|directive| directive.name == "fastcgi_pass")
    };
    if !locations.iter().any(runs) {
        return None;
    }
    let root = locations.iter().find(|location| is_prefix(location) && location.pattern == "/");
    let own = root.map_or(scope.own(), |location| location.scope.own());
    let script = |text: &str| {
        let path = text.split(['?', '$']).next()?.strip_prefix('/')?;
        (path.ends_with(".php") && !path.contains('/')).then(|| path.to_owned())
    };
    let asks = |one: &&Directive| one.name == "if" && one.args.join(" ").contains("!-");
    let ifs = own.iter().chain(scope.own()).filter(asks);
    let mut rewrites = ifs.flat_map(|directive| directive.inside()).filter(|inside| inside.name == "rewrite");
    // The rewrite phase comes first.
    if let Some(script) = rewrites.find_map(|rewrite| script(rewrite.arg(1))) {
        return Some(script);
    }
    let tries = own.iter().rfind(|directive| directive.name == "try_files");
    let last = tries.and_then(|directive| files::tries(directive, scope).ok()).map(|tries| tries.last);
    let page = || files::missing_page(root.map_or(scope, |location| &location.scope)).map(|(_, last)| last);
    let last = match last {
        None | Some(Last::Status(404)) => page(),
        last => last,
    };
    match last {
        Some(Last::Path(path)) => script(&path),
        Some(Last::Named(name)) => {
            let named = locations
                .iter()
                .find(|location| location.modifier == Modifier::Named && location.pattern == name)?;
            let rewrite = named.scope.own().iter().find(|directive| directive.name == "rewrite")?;
            script(rewrite.arg(1))
        }
        Some(Last::Status(_)) | None => None,
    }
}

fn of_location<'a>(
    cx: &Context<'a>,
    server: &Server<'a>,
    location: &Location<'a>,
    selector: &Selector,
    before: &Rewriting<'a>,
) -> Vec<Route> {
    let own = location.scope.own();
    if own.iter().any(|directive| directive.name == "stub_status") {
        cx.say(location.directive, Kind::Choice, "`maitred status` and the address `admin` show this");
        return vec![selector.route(location.directive, Target::Respond { status: 404, body: None })];
    }
    if own.iter().any(|directive| directive.name == "internal") {
        return internal(cx, server, location, selector);
    }
    let mut rewriting = rewriting::of(cx, &location.scope, selector, false);
    if rewriting.missing.is_none() {
        rewriting.missing = before.missing.filter(|missing| may_be_missing(cx, server, location, missing));
    }
    let mut routes = std::mem::take(&mut rewriting.routes);
    let access = access::of(cx, &location.scope);
    let answer = rewriting.answer.take();
    if rewriting.ended && rewriting.within.is_empty() {
        return routes;
    }
    let spot = |directive: &'a Directive, scope: Scope<'a>, blocks| Spot {
        server,
        directive,
        modifier: location.modifier,
        scope,
        blocks,
    };
    for (branch, narrow) in &rewriting.branches {
        let there = spot(branch, location.scope.within(branch.inside()), vec![branch.inside(), own]);
        routes.extend(access::guard(&access, targets::content(cx, &there, narrow, &Rewriting::default())));
    }
    let here = spot(location.directive, location.scope.clone(), vec![own]);
    let mut content = targets::content(cx, &here, selector, &rewriting);
    if let Some(answer) = answer.filter(|_| content.len() > rewriting.within.len()) {
        content.truncate(rewriting.within.len());
        content.push(answer);
    }
    match access::limit_except(cx, &location.scope) {
        Some((methods, others)) => {
            let with_methods = |route: &Route| Route { methods: methods.clone(), ..route.clone() };
            routes.extend(access::guard(&access, content.iter().map(with_methods).collect()));
            let others = if others == Access::Open { Access::Closed } else { others };
            routes.extend(access::guard(&others, content));
        }
        None => routes.extend(access::guard(&access, content)),
    }
    routes
}

/// Whether an `if (!-e $request_filename)` of the server can be asked by this location's own files.
fn may_be_missing(
    cx: &Context<'_>,
    server: &Server<'_>,
    location: &Location<'_>,
    missing: &Directive,
) -> bool {
    let own = location.scope.own();
    let has = |name: &str| own.iter().any(|one| one.name == name);
    let root = |scope: &Scope<'_>| scope.last("root").map(|root| root.args.clone());
    if own.iter().any(|one| one.name.ends_with("_pass")) {
        let why = match is_php(location) {
            true => "a script that is not there is 404, and does not go to what it names",
            false => {
                "it is asked before a location passes the request on, and files are looked for by locations of files"
            }
        };
        cx.say(missing, if is_php(location) { Kind::Worse } else { Kind::NotPossible }, why);
        return false;
    }
    let elsewhere = has("alias") || root(&location.scope) != root(&server.scope);
    if elsewhere && !has("return") {
        cx.not_possible(missing, "it looks below the server's directory, and a location has another one");
    }
    !elsewhere
}

/// Only other locations lead there: clients get 404.
fn internal(
    cx: &Context<'_>,
    server: &Server<'_>,
    location: &Location<'_>,
    selector: &Selector,
) -> Vec<Route> {
    for directive in location.scope.own().iter().filter(|directive| directive.name == "internal") {
        cx.translated(directive);
    }
    let handler = location.scope.own().iter().find(|directive| directive.name.ends_with("_pass"));
    let script = is_php(location);
    if let Some(handler) = handler.filter(|_| !script && !is_asked(server.scope.own(), &location.pattern)) {
        cx.not_possible(
            handler,
            "responses of an application can name files (`named_files`), and no other server",
        );
    }
    let mut route = selector.route(location.directive, Target::Respond { status: 404, body: None });
    rewriting::decorate(cx, &location.scope, &mut route);
    route.expires = Vec::new();
    route.response.retain(headers::is_of_errors);
    vec![route]
}

/// Whether an `auth_request`, a `mirror` or an `error_page` names a path.
fn is_asked(directives: &[Directive], path: &str) -> bool {
    directives.iter().any(|directive| {
        let names = match directive.name.as_str() {
            "auth_request" | "mirror" => directive.arg(0) == path,
            "error_page" => directive.args.last().is_some_and(|page| page == path),
            _ => false,
        };
        names || is_asked(directive.inside(), path)
    })
}

/// nginx redirects `/x` to `/x/`, if the location `/x/` leads to another server.
fn slash<'a>(cx: &Context<'a>, server: &Server<'a>, location: &Location<'a>) -> Vec<Route> {
    let odd = location.pattern.contains(['*', '?', '#', '{', '}']);
    let prefix = Some(&location.pattern).filter(|_| is_prefix(location) && !odd);
    let Some(without) = prefix.and_then(|prefix| prefix.strip_suffix('/')).filter(|path| !path.is_empty())
    else {
        return Vec::new();
    };
    let own = location.scope.own();
    let proxied =
        own.iter().any(|one| one.name.ends_with("_pass")) && !own.iter().any(|one| one.name == "internal");
    let other = server.locations.iter().any(|other| {
        other.pattern == without
            && matches!(other.modifier, Modifier::Exact | Modifier::Prefix | Modifier::Forced)
    });
    if !proxied || other {
        return Vec::new();
    }
    let exact = Selector { paths: vec![without.to_owned()], ..Selector::default() };
    let one = |(exact, scope): &(Selector, Scope<'a>)| {
        let target = Target::Redirect { to: format!("{without}/"), status: 301 };
        let mut route = exact.route(location.directive, target);
        route.origin.1 = format!("{}, without the slash", location.directive.shown());
        route.response = headers::of_responses(cx, scope).rules;
        route
    };
    finite::by_fields(cx, &location.scope, &exact).iter().map(one).collect()
}

/// What no location takes.
fn rest<'a>(
    cx: &Context<'a>,
    server: &Server<'a>,
    directive: &'a Directive,
    before: &Rewriting<'a>,
) -> Vec<Route> {
    let has = |name: &str| server.scope.own().iter().any(|directive| directive.name == name);
    if server.scope.last("root").is_none() && !has("try_files") && !has("proxy_pass") {
        return Vec::new();
    }
    let spot = Spot {
        server,
        directive,
        modifier: Modifier::Prefix,
        scope: server.scope.clone(),
        blocks: vec![server.scope.own()],
    };
    let all = Selector { prefix: Some("/".into()), ..Selector::default() };
    let mut content = Rewriting { missing: before.missing, ..Rewriting::default() };
    content.within.clone_from(&before.within);
    access::guard(&access::of(cx, &server.scope), targets::content(cx, &spot, &all, &content))
}

/// Without routes that say what a later one says as well: those of scripts, where the usual rules of PHP hold for all paths.
fn simplified(mut routes: Vec<Route>) -> Vec<Route> {
    let Some(last) = routes.last().filter(|last| last.takes_all()).cloned() else { return routes };
    let is_script = |route: &Route| route.paths.iter().any(|path| path.starts_with("*.php"));
    let same = |route: &Route| {
        let bare = route.regex.is_none() && route.condition.is_empty() && route.methods.is_empty();
        bare && route.target == last.target
            && route.response == last.response
            && route.request == last.request
            && route.body_max == last.body_max
            && (&route.gates, &route.limits) == (&last.gates, &last.limits)
            && route.later == last.later
    };
    let Some(at) = routes.iter().position(|route| is_script(route) && same(route)) else { return routes };
    // What stands between them is taken from fewer paths then; files that are scripts are withheld anyway.
    let between = routes.get(at + 1..routes.len() - 1).unwrap_or_default();
    let names_scripts = |route: &Route| {
        let named = route.regex.iter().chain(&route.paths).any(|pattern| pattern.contains("php"));
        named && matches!(route.target, Target::Respond { .. })
    };
    let leaves = |route: &Route| {
        let others = matches!(route.target, Target::Respond { .. } | Target::Files(_));
        !names_scripts(route) && (others || route.front_controller.is_some())
    };
    if between.iter().all(leaves) {
        routes.remove(at);
    }
    routes
}
