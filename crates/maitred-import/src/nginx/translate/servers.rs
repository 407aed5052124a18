//! Servers become sites: both choose by the address that a connection has come in by, and then by name.

use super::context::{Context, in_conf};
use super::errors;
use super::listeners::Listener;
use super::listens::{self, Server};
use super::logs;
use super::routes;
use super::shown;
use crate::drafts::{Match, Route, Site, Target};
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::report::Kind;

/// Reads a server block.
pub(crate) fn read<'a>(cx: &Context<'a>, http: &Scope<'a>, directive: &'a Directive) -> Server<'a> {
    let scope = http.within(directive.inside());
    let listens = listens::of(cx, &scope);
    let (names, patterns) = listens::names(cx, &scope);
    let scope = scope.named(names.first().map(String::as_str));
    let redirects = redirects(&scope);
    Server { directive, scope, listens, names, patterns, redirects }
}

/// Directives that say nothing in a server that redirects.
const SILENT: &[&str] = &[
    "listen",
    "server_name",
    "access_log",
    "error_log",
    "server_tokens",
    "return",
    "root",
    "index",
    "rewrite",
    "location",
    "charset",
    "http2",
    "add_header",
    "keepalive_timeout",
    "client_max_body_size",
    "limit_req",
    "limit_conn",
    "if",
];

fn redirects(scope: &Scope<'_>) -> bool {
    let own = scope.own();
    if !own.iter().all(|directive| SILENT.contains(&directive.name.as_str())) {
        return false;
    }
    let to_https = |directive: &Directive| {
        let (code, to) = match directive.name.as_str() {
            "return" => (directive.arg(0), directive.arg(1)),
            "rewrite" if ["^", "^(.*)$", "^(.*)", "^/(.*)$", ".*", "^.*$"].contains(&directive.arg(0)) => {
                (if directive.arg(2) == "permanent" { "301" } else { "302" }, directive.arg(1))
            }
            _ => return false,
        };
        let to = to.trim_end_matches('?').replace("${", "$").replace('}', "");
        let same = ["https://$host", "https://$http_host"];
        let rest = same.iter().find_map(|same| to.strip_prefix(same));
        let path = ["$request_uri", "$uri", "$uri$is_args$args", "$1", "/$1"];
        ["301", "302", "307", "308"].contains(&code) && rest.is_some_and(|rest| path.contains(&rest))
    };
    let whole = |directive: &Directive| {
        let inside = directive.inside();
        directive.args.last().is_some_and(|path| path == "/")
            && inside.len() == 1
            && inside.iter().all(to_https)
    };
    let locations: Vec<&Directive> = own.iter().filter(|directive| directive.name == "location").collect();
    let direct = own.iter().any(to_https);
    // certbot writes `if ($host = name) { return 301 … } return 404;`.
    let ifs: Vec<&Directive> = own.iter().filter(|directive| directive.name == "if").collect();
    let certbot = !ifs.is_empty()
        && ifs.iter().all(|directive| {
            directive.args.join(" ").contains("$host") && directive.inside().iter().all(to_https)
        });
    let others = own.iter().filter(|directive| directive.name == "return" || directive.name == "rewrite");
    let only = others.clone().all(|directive| to_https(directive) || (certbot && directive.arg(0) == "404"));
    only && (if ifs.is_empty() { true } else { certbot })
        && match locations.as_slice() {
            [] => direct || certbot,
            all => !direct && !certbot && all.iter().all(|directive| whole(directive)),
        }
}

/// Names of a server, and the addresses at which it answers for them.
#[derive(Clone)]
struct Part<'s, 'a> {
    server: &'s Server<'a>,
    hosts: Vec<String>,
    at: Vec<usize>,
}

/// The sites of these servers. The first one of an address takes what no other one there names.
pub(crate) fn sites<'a>(
    cx: &Context<'a>,
    servers: &[Server<'a>],
    listeners: &mut [Listener<'_, 'a>],
) -> Vec<Site> {
    let certified = is_certified(cx, servers);
    let mut open = open(listeners);
    let mut all = parts(cx, servers, listeners, &open);
    let are_everywhere =
        |all: &[Part<'_, '_>], open: &[usize]| all.iter().all(|part| part.at.len() == open.len());
    if !certified && !are_everywhere(&all, &open) {
        // Without certificates nothing is redirected, and each site stays at its own addresses.
        listeners.iter_mut().for_each(|listener| listener.redirects = false);
        open = self::open(listeners);
        all = parts(cx, servers, listeners, &open);
    }
    let bound = !are_everywhere(&all, &open);
    let listeners = &*listeners;
    for server in servers {
        let mut at = listeners.iter().filter(|listener| has(listener, server)).peekable();
        if at.peek().is_some() && at.all(|listener| listener.redirects) {
            redirected(cx, server);
        }
    }
    let mut sites: Vec<Site> = all.iter().map(|part| site(cx, part, listeners)).collect();
    for (part, site) in all.iter().zip(&mut sites).filter(|_| bound) {
        let there = |at: &&usize| listeners.get(**at).is_some_and(|listener| !listener.tls || certified);
        let address = |at: &usize| listeners.get(*at).map(|listener| listener.address.clone());
        site.listen = part.at.iter().filter(there).filter_map(address).collect();
        if site.listen.is_empty() {
            site.off = Some("its addresses need a certificate, and none is there on this machine".into());
        }
    }
    for server in servers.iter().filter(|server| !server.patterns.is_empty() && !server.redirects) {
        by_pattern(cx, server, listeners, &all, &mut sites);
    }
    sites
}

/// The listeners that need sites.
fn open(listeners: &[Listener<'_, '_>]) -> Vec<usize> {
    (0..listeners.len()).filter(|at| listeners.get(*at).is_some_and(|listener| !listener.redirects)).collect()
}

fn has(listener: &Listener<'_, '_>, server: &Server<'_>) -> bool {
    listener.servers.iter().any(|known| is_same(known, server))
}

fn is_same(one: &Server<'_>, other: &Server<'_>) -> bool {
    std::ptr::eq(one.directive, other.directive)
}

/// Whether a certificate of some server is there.
pub(crate) fn is_certified(cx: &Context<'_>, servers: &[Server<'_>]) -> bool {
    servers.iter().any(|server| {
        let (all, keys) = (server.scope.all("ssl_certificate"), server.scope.all("ssl_certificate_key"));
        let there = |directive: &Directive| cx.machine.has_file(&in_conf(directive.arg(0)));
        all.iter().zip(&keys).any(|(certificate, key)| there(certificate) && there(key))
    })
}

/// The parts, in an order in which the first one of each address is its default.
fn parts<'s, 'a>(
    cx: &Context<'a>,
    servers: &'s [Server<'a>],
    listeners: &[Listener<'_, 'a>],
    open: &[usize],
) -> Vec<Part<'s, 'a>> {
    let mut left: Vec<Part<'s, 'a>> =
        servers.iter().flat_map(|server| of_server(cx, server, listeners, open)).collect();
    let same = |server: &Server<'a>| servers.iter().find(|known| is_same(known, server));
    let (mut ordered, mut opened): (Vec<Part<'s, 'a>>, Vec<usize>) = (Vec::new(), Vec::new());
    while !left.is_empty() || open.iter().any(|at| !opened.contains(at)) {
        let is_default = |part: &Part<'_, '_>, at: &usize| {
            listeners.get(*at).is_some_and(|one| is_same(one.default, part.server))
        };
        let next =
            left.iter().position(|part| part.at.iter().all(|at| opened.contains(at) || is_default(part, at)));
        let part = match next {
            Some(next) => left.remove(next),
            None => {
                // Another server is the default there: it has a site for that alone.
                let Some(at) = open.iter().copied().find(|at| !opened.contains(at)) else { break };
                let Some(server) = listeners.get(at).and_then(|listener| same(listener.default)) else {
                    break;
                };
                Part { server, hosts: Vec::new(), at: vec![at] }
            }
        };
        opened.extend(&part.at);
        ordered.push(part);
    }
    ordered
}

/// The names of a server, by the addresses at which no server before it has them.
fn of_server<'s, 'a>(
    cx: &Context<'a>,
    server: &'s Server<'a>,
    listeners: &[Listener<'_, 'a>],
    open: &[usize],
) -> Vec<Part<'s, 'a>> {
    let here: Vec<usize> =
        open.iter().copied().filter(|at| listeners.get(*at).is_some_and(|one| has(one, server))).collect();
    let mut all: Vec<Part<'s, 'a>> = Vec::new();
    for name in &server.names {
        let first = |at: &usize| {
            let mut own = listeners.get(*at).into_iter().flat_map(|listener| &listener.servers);
            own.find(|other| other.names.contains(name)).is_some_and(|other| is_same(other, server))
        };
        let at: Vec<usize> = here.iter().copied().filter(first).collect();
        match all.iter_mut().find(|part| part.at == at) {
            _ if at.is_empty() => {}
            Some(part) => part.hosts.push(name.clone()),
            None => all.push(Part { server, hosts: vec![name.clone()], at }),
        }
    }
    if server.names.is_empty() {
        let is_default =
            |at: &usize| listeners.get(*at).is_some_and(|listener| is_same(listener.default, server));
        let at: Vec<usize> = here.iter().copied().filter(is_default).collect();
        match at.is_empty() {
            false => all.push(Part { server, hosts: Vec::new(), at }),
            true if !here.is_empty() && server.patterns.is_empty() => {
                cx.not_needed(server.directive, "another server of its address takes what has no name");
            }
            true => {}
        }
    }
    all
}

/// The routes of a server with names such as `app.*`: the first site of an address takes requests for them, as for all names that
/// no site has.
fn by_pattern<'a>(
    cx: &Context<'a>,
    server: &Server<'a>,
    listeners: &[Listener<'_, 'a>],
    parts: &[Part<'_, 'a>],
    sites: &mut [Site],
) {
    let host =
        |pattern: &String| Match { header: vec![("Host".into(), pattern.clone())], ..Match::default() };
    let named = match server.patterns.as_slice() {
        [one] => host(one),
        several => Match { any: several.iter().map(host).collect(), ..Match::default() },
    };
    let mut seen: Vec<usize> = Vec::new();
    for (part, site) in parts.iter().zip(sites) {
        let opens: Vec<usize> = part.at.iter().copied().filter(|at| !seen.contains(at)).collect();
        seen.extend(&opens);
        let of_server = |at: &&usize| listeners.get(**at).is_some_and(|listener| has(listener, server));
        let here: Vec<usize> = opens.iter().filter(of_server).copied().collect();
        if here.is_empty() || is_same(part.server, server) {
            continue;
        }
        cx.translated(server.directive);
        same_certificates(cx, server, part.server);
        let mut condition = named.clone();
        if here.len() < part.at.len() {
            let address = |at: &usize| listeners.get(*at).map(|listener| listener.address.clone());
            condition.listener = here.iter().filter_map(address).collect();
        }
        let mut routes = guarded(cx, server, listeners, &here);
        if !routes.last().is_some_and(Route::takes_all) {
            let nothing = Target::Respond { status: 404, body: None };
            routes.push(Route::new(&server.directive.place, "what this server does not answer", nothing));
        }
        site.routes.splice(0..0, conditional(cx, server, routes, &condition));
    }
}

/// A server whose requests another one's site takes: clients get that one's certificates, which may be the same.
fn same_certificates(cx: &Context<'_>, server: &Server<'_>, other: &Server<'_>) {
    const NAMES: [&str; 2] = ["ssl_certificate", "ssl_certificate_key"];
    let files = |server: &Server<'_>| {
        NAMES.map(|name| -> Vec<String> {
            server.scope.all(name).iter().map(|given| given.arg(0).to_owned()).collect()
        })
    };
    if files(server) == files(other) {
        NAMES.iter().flat_map(|name| server.scope.all(name)).for_each(|given| cx.translated(given));
    }
}

/// The routes of a server at these addresses.
fn guarded<'a>(
    cx: &Context<'a>,
    server: &Server<'a>,
    listeners: &[Listener<'_, 'a>],
    at: &[usize],
) -> Vec<Route> {
    let own: Vec<&Listener<'_, '_>> = at.iter().filter_map(|at| listeners.get(*at)).collect();
    shown::guard(cx, server, &own, routes::of(cx, &server.scope, server.directive))
}

fn redirected(cx: &Context<'_>, server: &Server<'_>) {
    cx.translated(server.directive);
    fn all(cx: &Context<'_>, directives: &[Directive]) {
        for directive in directives {
            let name = directive.name.as_str();
            if name == "return" && directive.arg(0) == "404" {
                cx.say(directive, Kind::Choice, "at this address all hosts are redirected");
            } else if ["return", "rewrite", "location", "if", "root", "index"].contains(&name) {
                cx.translated(directive);
            }
            all(cx, directive.inside());
        }
    }
    all(cx, server.directive.inside());
}

fn site<'a>(cx: &Context<'a>, part: &Part<'_, 'a>, listeners: &[Listener<'_, 'a>]) -> Site {
    let Part { server, hosts, at } = part;
    cx.translated(server.directive);
    let names = if hosts.is_empty() { String::new() } else { format!(" {}", hosts.join(" ")) };
    Site {
        origin: (server.directive.place.clone(), format!("server{names}")),
        notes: Vec::new(),
        hosts: hosts.clone(),
        listen: Vec::new(),
        off: None,
        certificates: certificates(cx, &server.scope),
        error_pages: errors::of(cx, &server.scope),
        error_root: errors::root(cx, &server.scope).map(|(root, place)| {
            let missing = !cx.machine.has_directory(&root);
            (root, place, missing)
        }),
        log: logs::of_site(cx, &server.scope),
        routes: guarded(cx, server, listeners, at),
    }
}

fn conditional(cx: &Context<'_>, server: &Server<'_>, routes: Vec<Route>, condition: &Match) -> Vec<Route> {
    let mut all = Vec::new();
    for mut route in routes {
        match route.condition.and(condition) {
            Some(both) => {
                route.condition = both;
                all.push(route);
            }
            None => cx.not_possible(
                server.directive,
                "its routes cannot be kept apart from those of another address",
            ),
        }
    }
    all
}

fn certificates(cx: &Context<'_>, scope: &Scope<'_>) -> Vec<(String, String, bool, crate::report::Place)> {
    let (certificates, keys) = (scope.all("ssl_certificate"), scope.all("ssl_certificate_key"));
    let mut found = Vec::new();
    for (certificate, key) in certificates.iter().zip(&keys) {
        if certificate.arg(0).contains(['$', ':']) || key.arg(0).contains(['$', ':']) {
            cx.not_possible(certificate, "a certificate is a file with a fixed name");
            continue;
        }
        let (file, key_file) = (in_conf(certificate.arg(0)), in_conf(key.arg(0)));
        let there = cx.machine.has_file(&file) && cx.machine.has_file(&key_file);
        for directive in [certificate, key] {
            match there {
                true => cx.translated(directive),
                false => {
                    cx.say(directive, Kind::Translated, "as a comment: the file is not there on this machine")
                }
            }
        }
        found.push((file, key_file, there, certificate.place.clone()));
    }
    found
}
