//! What answers in a location: a pool, or files.

use super::answering;
use super::caching;
use super::compression;
use super::context::Context;
use super::errors;
use super::files;
use super::finite;
use super::headers;
use super::limits;
use super::logs;
use super::mirror;
use super::redirects;
use super::requests;
use super::rewriting::Rewriting;
use super::scripts;
use super::selectors::{Location, Modifier, Selector, is_php};
use super::settings::Settings;
use super::spot::{HANDLERS, Spot};
use super::tries;
use super::upstreams::{self, Destination};
use super::variables;
use crate::drafts::{Header, How, Route, Target};
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::report::Kind;

/// The routes of a location's content; several, if some paths are rewritten.
pub(crate) fn content<'a>(
    cx: &Context<'a>,
    spot: &Spot<'_, 'a>,
    selector: &Selector,
    rewriting: &Rewriting<'a>,
) -> Vec<Route> {
    if let Some(all) = finite::divided(cx, spot, selector) {
        return all.iter().flat_map(|(selector, there)| content(cx, there, selector, rewriting)).collect();
    }
    caching::apart(cx, passing(spot, spot.own(&["try_files"])), plain(cx, spot, selector, rewriting))
}

/// The same, where no request passes a cache by.
fn plain<'a>(
    cx: &Context<'a>,
    spot: &Spot<'_, 'a>,
    selector: &Selector,
    rewriting: &Rewriting<'a>,
) -> Vec<Route> {
    let mut routes = Vec::new();
    for (directive, narrow, to) in &rewriting.within {
        let mut route = one(cx, spot, narrow.clone(), rewriting);
        match &mut route.target {
            Target::Pool { strip, rewrite, .. } => (*strip, *rewrite) = (None, Some(to.clone())),
            Target::Files(files) => (files.strip, files.rewrite) = (None, Some(to.clone())),
            _ => {}
        }
        route.origin = (directive.place.clone(), directive.shown());
        let all = route.takes_all() || narrow == selector;
        routes.push(route);
        if all {
            return routes;
        }
    }
    let route = one(cx, spot, selector.clone(), rewriting);
    let make = |there: &Spot<'_, 'a>, narrow: Selector| one(cx, there, narrow, rewriting);
    routes.extend(answering::of_directories(cx, spot, selector, &route, &make));
    routes.extend(scripts::behind(cx, spot, selector, &route));
    routes.push(route);
    routes
}

fn one<'a>(
    cx: &Context<'a>,
    spot: &Spot<'_, 'a>,
    mut selector: Selector,
    rewriting: &Rewriting<'a>,
) -> Route {
    let handler = spot.own(HANDLERS);
    let given = spot.own(&["try_files"]);
    let tries = given.filter(|directive| !is_check_of_script(directive, handler));
    if let (Some(directive), None) = (given, tries) {
        cx.not_needed(directive, "a script that is not there is never run");
    }
    let both = handler.zip(tries).is_some_and(|both| tries::passes_all(cx, spot, both));
    let tries = tries.filter(|_| !both);
    let mut end = tries::End::default();
    let target = match (handler, tries) {
        (Some(handler), None) => handled(cx, spot, handler, &mut selector, &mut end.request),
        _ => tries::target(cx, spot, (&mut selector, tries, rewriting), &mut end),
    };
    let mut route = selector.route(spot.directive, target);
    (route.request, route.scripts, route.front_controller) = (end.request, end.scripts, end.front);
    finish(cx, &spot.scope, &mut route);
    if let Some(ending) = &end.ending {
        answering::settle(cx, spot, ending, &mut route);
    }
    if route.goes_to_pool() {
        route.cache = caching::of(cx, passing(spot, tries));
        route.mirror = mirror::of(cx, &spot.scope);
    }
    route
}

/// Where the directive stands that passes requests on: in the location, or in the one that the end of `try_files` leads to.
fn passing<'s, 'a>(spot: &'s Spot<'_, 'a>, tries: Option<&Directive>) -> &'s Scope<'a> {
    let last = tries.and_then(|tries| tries.args.last()).map_or("", String::as_str);
    let php = last.split('?').next().is_some_and(|path| path.ends_with(".php"));
    let leads = |location: &&Location<'a>| match last.strip_prefix('@') {
        Some(name) => location.modifier == Modifier::Named && location.pattern == name,
        None => php && is_php(location) && location.scope.own().iter().any(|own| own.name == "fastcgi_pass"),
    };
    spot.server.locations.iter().find(leads).map_or(&spot.scope, |location| &location.scope)
}

/// Whether a `try_files` only looks whether the script is there.
fn is_check_of_script(directive: &Directive, handler: Option<&Directive>) -> bool {
    let checks = ["$fastcgi_script_name", "$document_root$fastcgi_script_name", "$1"];
    let runs = handler.is_some_and(|handler| handler.name == "fastcgi_pass");
    directive.args.len() == 2
        && directive.arg(1).starts_with('=')
        && (checks.contains(&directive.arg(0)) || (runs && directive.arg(0) == "$uri"))
}

/// Header fields, limits and compression of a route.
fn finish(cx: &Context<'_>, scope: &Scope<'_>, route: &mut Route) {
    let responses = headers::of_responses(cx, scope);
    route.response.extend(responses.rules);
    route.expires = responses.expires;
    match &mut route.target {
        Target::Files(files) => files.headers.extend(responses.files),
        _ => {
            let set = |(name, value)| Header { how: How::Set, name, value };
            route.response.extend(responses.files.into_iter().map(set));
        }
    }
    if let Some((directive, bytes)) = (Settings { cx, scope }).size("client_max_body_size") {
        cx.translated(directive);
        route.body_max = Some(if bytes == 0 { 64 << 30 } else { bytes });
    }
    if scope.own().iter().any(|own| own.name == "error_page") {
        route.error_pages = errors::of(cx, scope);
    }
    for name in ["proxy_request_buffering", "fastcgi_request_buffering"] {
        match scope.last(name).map(|given| (given, given.arg(0))) {
            Some((given, "off")) => {
                cx.translated(given);
                route.streamed = true;
            }
            Some((given, _)) => {
                cx.not_needed(given, "only what is too long for memory goes on while it comes")
            }
            None => {}
        }
    }
    route.times = times(cx, scope);
    route.rates = rates(cx, scope);
    route.limits = limits::of(cx, scope);
    logs::decorate(cx, scope, route);
    route.compress = compression::of(cx, scope);
}

/// `client_body_timeout` and `send_timeout`, where they are not as in nginx without them, and the `keepalive_timeout` of a server
/// or a location; that of `http` is in `[limits]`.
fn times(cx: &Context<'_>, scope: &Scope<'_>) -> Vec<(&'static str, u64)> {
    let settings = Settings { cx, scope };
    let keys = [("client_body_timeout", "body_timeout", 30_000), ("send_timeout", "write_timeout", 60_000)];
    let one = |(name, key, default): (&str, &'static str, u64)| {
        let (directive, millis) = settings.time(name)?;
        cx.translated(directive);
        (millis != default).then(|| (key, millis.clamp(1, 86_400_000)))
    };
    let idle = || {
        let (directive, millis) = settings.time("keepalive_timeout")?;
        if millis == 0 {
            cx.say(directive, Kind::Choice, "connections of HTTP/1.1 stay open for a while");
            return None;
        }
        cx.translated(directive);
        Some(("keep_alive_timeout", millis.min(86_400_000)))
    };
    let idle = if scope.outermost("keepalive_timeout") { None } else { idle() };
    keys.into_iter().filter_map(one).chain(idle).collect()
}

/// `limit_rate`: bytes in a second of one response, after its first ones.
fn rates(cx: &Context<'_>, scope: &Scope<'_>) -> Vec<(&'static str, u64)> {
    let settings = Settings { cx, scope };
    let keys =
        [("limit_rate", "response_bytes_per_second_max"), ("limit_rate_after", "response_burst_bytes")];
    let one = |(name, key): (&str, &'static str)| {
        let (directive, bytes) = settings.size(name)?;
        cx.translated(directive);
        (bytes > 0).then_some((key, bytes))
    };
    let found: Vec<_> = keys.into_iter().filter_map(one).collect();
    // What may come at once means nothing without a rate.
    if found.iter().any(|(key, _)| *key == keys[0].1) { found } else { Vec::new() }
}

pub(super) fn handled<'a>(
    cx: &Context<'a>,
    spot: &Spot<'_, 'a>,
    handler: &'a Directive,
    selector: &mut Selector,
    request: &mut Vec<Header>,
) -> Target {
    let nothing = Target::Respond { status: 502, body: None };
    let why = match handler.name.as_str() {
        "proxy_pass" => match proxy(cx, spot, handler, selector, request) {
            Ok(target) => return target,
            Err(why) => why,
        },
        "fastcgi_pass" => match fastcgi(cx, spot, handler, spot.server.front.is_some()) {
            Ok(target) => {
                *request = variables::fields(cx, &spot.scope);
                return target;
            }
            Err(why) => why,
        },
        "grpc_pass" => match grpc(cx, spot, handler, request) {
            Ok(target) => return target,
            Err(why) => why,
        },
        "uwsgi_pass" => {
            "pools do not speak uwsgi: `command` in a pool runs the application (docs/applications.md)"
                .to_owned()
        }
        name => format!("pools do not speak {}", name.trim_end_matches("_pass")),
    };
    cx.not_possible(handler, why);
    nothing
}

/// A route to servers of gRPC, which get the path as it is.
fn grpc<'a>(
    cx: &Context<'a>,
    spot: &Spot<'_, 'a>,
    handler: &'a Directive,
    request: &mut Vec<Header>,
) -> Result<Target, String> {
    let servers = upstreams::grpc(cx, &spot.scope, handler)?;
    cx.translated(handler);
    let (fields, host) = requests::of(cx, &spot.scope, "grpc_set_header");
    *request = fields;
    let mut block = upstreams::block(cx, &spot.scope, &servers, handler, "grpc");
    upstreams::push_host(cx, &servers, host, &mut block);
    let pool = cx.pool(&servers.name, block);
    Ok(Target::Pool { name: pool, strip: None, rewrite: None })
}

fn proxy<'a>(
    cx: &Context<'a>,
    spot: &Spot<'_, 'a>,
    handler: &'a Directive,
    selector: &mut Selector,
    request: &mut Vec<Header>,
) -> Result<Target, String> {
    let destination = upstreams::proxy(cx, &spot.scope, handler)?;
    cx.translated(handler);
    let (fields, host) = requests::of(cx, &spot.scope, "proxy_set_header");
    *request = fields;
    intercepted(cx, &spot.scope, "proxy_intercept_errors");
    not_passed(cx, spot);
    let mut block = upstreams::block(cx, &spot.scope, &destination.servers, handler, "proxy");
    upstreams::push_host(cx, &destination.servers, host, &mut block);
    if destination.as_sent {
        block.push("target", "as_sent", None);
    }
    redirects::map(cx, &spot.scope, &mut block);
    let name = cx.pool(&destination.servers.name, block);
    path(name, &destination, selector)
}

/// Requests that go on without a part of them.
fn not_passed(cx: &Context<'_>, spot: &Spot<'_, '_>) {
    let path = spot.directive.args.last().map_or("", String::as_str);
    for name in ["proxy_pass_request_body", "proxy_pass_request_headers"] {
        match spot.scope.last(name).map(|given| (given, given.arg(0))) {
            Some((given, "off")) if name.ends_with("body") && asks(spot.server.scope.own(), path) => {
                cx.say(
                    given,
                    Kind::Choice,
                    "a client that asks for this path itself is passed on with its body",
                );
            }
            Some((given, "off")) => cx.not_possible(given, "requests go on with their fields and bodies"),
            Some((given, _)) => cx.not_needed(given, "requests go on with their fields and bodies"),
            None => {}
        }
    }
}

/// Whether an `auth_request` names a path.
fn asks(directives: &[Directive], path: &str) -> bool {
    directives
        .iter()
        .any(|one| (one.name == "auth_request" && one.arg(0).starts_with(path)) || asks(one.inside(), path))
}

fn intercepted(cx: &Context<'_>, scope: &Scope<'_>, name: &str) {
    let Some(directive) = scope.last(name).filter(|directive| directive.arg(0) == "on") else { return };
    match scope.last("error_page") {
        None => cx.not_needed(directive, "there are no pages for errors"),
        Some(_) => cx.not_possible(directive, "errors of an application are passed on as they are"),
    }
}

/// The path that a server gets instead of the request's.
fn path(name: String, destination: &Destination, selector: &mut Selector) -> Result<Target, String> {
    if let Some(rewrite) = &destination.rewrite {
        return Ok(Target::Pool { name, strip: None, rewrite: Some(rewrite.clone()) });
    }
    let Some(to) = &destination.path else { return Ok(Target::Pool { name, strip: None, rewrite: None }) };
    if to.contains(['{', '}', '#', '?']) {
        return Err("the path of the address has signs that mean something else here".into());
    }
    let Some(prefix) = selector.prefix.clone() else {
        let exact =
            selector.regex.is_none() && matches!(selector.paths.as_slice(), [one] if !one.contains('*'));
        return match exact {
            true => Ok(Target::Pool { name, strip: None, rewrite: Some(to.clone()) }),
            false => {
                Err("the address has a path, and the location no prefix that it takes the place of".into())
            }
        };
    };
    if prefix == *to {
        return Ok(Target::Pool { name, strip: None, rewrite: None });
    }
    if prefix.ends_with('/') && to.ends_with('/') && selector.regex.is_none() {
        return Ok(Target::Pool { name, strip: Some((prefix, to.clone())), rewrite: None });
    }
    if selector.regex.is_some() {
        return Err("a route has one regular expression, and the path needs one".into());
    }
    selector.regex = Some(format!("^{}(.*)$", super::conditions::escaped(&prefix)));
    Ok(Target::Pool { name, strip: None, rewrite: Some(format!("{to}{{capture.1}}")) })
}

/// `front`: whatever is neither a file nor a script goes to the front controller.
pub(super) fn fastcgi<'a>(
    cx: &Context<'a>,
    spot: &Spot<'_, 'a>,
    handler: &'a Directive,
    front: bool,
) -> Result<Target, String> {
    let scope = &spot.scope;
    let servers = upstreams::fastcgi(cx, scope, handler)?;
    cx.translated(handler);
    let mut block = upstreams::block(cx, scope, &servers, handler, "fastcgi");
    let given = variables::of(cx, scope, front);
    intercepted(cx, scope, "fastcgi_intercept_errors");
    let scripts = is_script(spot) || front;
    if given.script.is_some() || !scripts {
        given.program(&mut block);
        let name = cx.pool(&servers.name, block);
        return Ok(Target::Pool { name, strip: None, rewrite: None });
    }
    let Some(files) = files::root(cx, scope) else {
        return Err("the directory of its scripts is not fixed".into());
    };
    let missing = "the directory is there".to_owned();
    let mut keys: Vec<(&str, crate::model::Value)> = vec![("root", files.root.as_str().into())];
    let elsewhere = given.script_root.as_ref().map(|root| root.trim_end_matches('/'));
    if let Some(elsewhere) = elsewhere.filter(|root| root.starts_with('/') && *root != files.root) {
        keys.push(("script_root", elsewhere.into()));
    }
    let named = scope.last("fastcgi_index").inspect(|given| cx.translated(given));
    let index = spot.server.front.clone().filter(|_| front);
    let index = index.or_else(|| named.map(|given| given.arg(0).to_owned()));
    if let Some(index) = index.filter(|index| index != "index.php") {
        keys.push(("index", index.into()));
    }
    if front {
        keys.push(("php", true.into()));
    }
    for (key, value) in keys {
        match files.missing {
            true => block.push_off(key, value, files.place.as_ref(), &missing),
            false => block.push(key, value, if key == "root" { files.place.as_ref() } else { None }),
        }
    }
    given.push(&mut block);
    let name = cx.pool(&servers.name, block);
    Ok(Target::Pool { name, strip: None, rewrite: None })
}

fn is_script(spot: &Spot<'_, '_>) -> bool {
    let Some(pattern) = spot.directive.args.last() else { return false };
    pattern.contains("php") || spot.scope.last("fastcgi_param").is_some()
}
