//! Servers become sites: nginx chooses by address and name, Maitred by name alone.

use super::context::{Context, in_conf};
use super::errors;
use super::listens::{self, Class, Listen};
use super::logs;
use super::routes;
use crate::drafts::{Match, Route, Site, Target};
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::report::Kind;

/// A server block.
pub(crate) struct Server<'a> {
    /// The directive.
    pub(crate) directive: &'a Directive,
    /// What holds in it.
    pub(crate) scope: Scope<'a>,
    /// The addresses of the server.
    pub(crate) listens: Vec<Listen<'a>>,
    /// The names of the server.
    pub(crate) names: Vec<String>,
    /// The server's names that only a condition can say.
    pub(crate) patterns: Vec<String>,
    /// Whether the server does no more than to redirect to https, at the same host.
    pub(crate) redirects: bool,
}

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
        let same = ["https://$host", "https://$http_host", "https://$server_name"];
        let rest = same.iter().find_map(|same| to.strip_prefix(same));
        let hosts = !to.contains("$server_name") || scope.server_name().is_some();
        let path = ["$request_uri", "$uri", "$uri$is_args$args", "$1", "/$1"];
        ["301", "302", "307", "308"].contains(&code) && hosts && rest.is_some_and(|rest| path.contains(&rest))
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

/// The servers of one site, each with what its requests have in common.
struct Group<'s, 'a> {
    hosts: Vec<String>,
    by_class: Vec<Option<&'s Server<'a>>>,
}

/// A condition about addresses is met by no client of a Unix socket.
fn say_unmatched(cx: &Context<'_>, server: &Server<'_>) {
    for directive in server.listens.iter().filter(|one| one.is_unix()).filter_map(|one| one.directive) {
        let why =
            "sites are not chosen by the socket of a client: this one is for clients of loopback addresses";
        cx.not_possible(directive, why);
    }
}

/// The sites of these servers, the one that takes all other hosts first.
pub(crate) fn sites<'a>(cx: &Context<'a>, servers: &[Server<'a>]) -> Vec<Site> {
    let tls_there = servers.iter().any(|server| server.listens.iter().any(|listen| listen.tls));
    let mut classes: Vec<Class> = Vec::new();
    for class in servers.iter().flat_map(|server| &server.listens).map(Listen::class) {
        if !classes.contains(&class) && !is_redirected(servers, class, tls_there) {
            classes.push(class);
        }
    }
    for server in servers.iter().filter(|server| {
        server.listens.iter().all(|listen| is_redirected(servers, listen.class(), tls_there))
    }) {
        redirected(cx, server);
    }
    let groups = groups(servers, &classes);
    let by_pattern = by_pattern(cx, servers, groups.first());
    let outside = servers.iter().flat_map(|server| &server.listens).any(|listen| !listen.is_loopback());
    let mut sites: Vec<Site> = groups.iter().filter_map(|group| site(cx, group, &classes, outside)).collect();
    if let Some(first) = sites.first_mut() {
        first.routes.splice(0..0, by_pattern);
    }
    sites
}

/// The routes of servers with names such as `app.*`: the first site takes requests for them, as for all names that no site has.
fn by_pattern(cx: &Context<'_>, servers: &[Server<'_>], first: Option<&Group<'_, '_>>) -> Vec<Route> {
    let is_default = |server: &Server<'_>| {
        first.is_some_and(|group| group.by_class.iter().flatten().all(|other| std::ptr::eq(*other, server)))
    };
    let mut all = Vec::new();
    for server in servers
        .iter()
        .filter(|server| !server.patterns.is_empty() && !server.redirects && !is_default(server))
    {
        cx.translated(server.directive);
        let host =
            |pattern: &String| Match { header: vec![("Host".into(), pattern.clone())], ..Match::default() };
        let condition = match server.patterns.as_slice() {
            [one] => host(one),
            several => Match { any: several.iter().map(host).collect(), ..Match::default() },
        };
        let mut routes = routes::of(cx, &server.scope, server.directive);
        if !routes.last().is_some_and(Route::takes_all) {
            let nothing = Target::Respond { status: 404, body: None };
            routes.push(Route::new(&server.directive.place, "what this server does not answer", nothing));
        }
        all.extend(conditional(cx, server, routes, &condition));
    }
    all
}

/// Whether all servers of an address do no more than to redirect to https.
pub(crate) fn is_redirected(servers: &[Server<'_>], class: Class, tls_there: bool) -> bool {
    let mut there = servers
        .iter()
        .filter(|server| server.listens.iter().any(|listen| listen.class() == class))
        .peekable();
    tls_there && !class.1 && there.peek().is_some() && there.all(|server| server.redirects)
}

fn redirected(cx: &Context<'_>, server: &Server<'_>) {
    cx.say(server.directive, Kind::Translated, "`redirect_http = true` at the address");
    fn all(cx: &Context<'_>, directives: &[Directive]) {
        for directive in directives {
            let moved = ["return", "rewrite"].contains(&directive.name.as_str());
            if moved
                && directive
                    .args
                    .iter()
                    .any(|arg| ["301", "302", "permanent", "redirect"].contains(&arg.as_str()))
            {
                cx.say(directive, Kind::Choice, "its status is 308 here, which keeps method and body");
            } else if moved || ["location", "if", "root", "index"].contains(&directive.name.as_str()) {
                cx.translated(directive);
            }
            all(cx, directive.inside());
        }
    }
    all(cx, server.directive.inside());
}

fn groups<'s, 'a>(servers: &'s [Server<'a>], classes: &[Class]) -> Vec<Group<'s, 'a>> {
    let at = |class: &Class| {
        let class = *class;
        servers.iter().filter(move |server| server.listens.iter().any(|listen| listen.class() == class))
    };
    let default_of = |class: &Class| {
        let marked = |server: &&Server<'_>| {
            server.listens.iter().any(|listen| listen.class() == *class && listen.default)
        };
        at(class).find(marked).or_else(|| at(class).next())
    };
    let mut groups: Vec<Group<'_, '_>> =
        vec![Group { hosts: Vec::new(), by_class: classes.iter().map(default_of).collect() }];
    let mut seen: Vec<&str> = Vec::new();
    for name in servers.iter().flat_map(|server| &server.names) {
        if seen.contains(&name.as_str()) {
            continue;
        }
        seen.push(name);
        let by_class: Vec<Option<&Server<'_>>> =
            classes.iter().map(|class| at(class).find(|server| server.names.contains(name))).collect();
        let compatible = |group: &&mut Group<'_, '_>| {
            let mut pairs = group.by_class.iter().zip(&by_class);
            // The site of all other hosts can be that of a name, where nothing else is said of the name.
            let first = group.hosts.is_empty();
            pairs.all(|pair| match pair {
                (Some(ours), Some(theirs)) => std::ptr::eq(*ours, *theirs),
                (_, None) => first || pair.0.is_none(),
                (None, Some(_)) => false,
            }) && by_class.iter().any(Option::is_some)
        };
        match groups.iter_mut().find(compatible) {
            Some(group) => group.hosts.push(name.clone()),
            None if by_class.iter().all(Option::is_none) => {}
            None => groups.push(Group { hosts: vec![name.clone()], by_class }),
        }
    }
    groups
}

fn site<'a>(cx: &Context<'a>, group: &Group<'_, 'a>, classes: &[Class], outside: bool) -> Option<Site> {
    // Servers with the addresses at which they answer.
    let mut members: Vec<(&Server<'a>, Vec<Class>)> = Vec::new();
    for (class, server) in
        classes.iter().zip(&group.by_class).filter_map(|(class, server)| Some((*class, (*server)?)))
    {
        match members.iter_mut().find(|(known, _)| std::ptr::eq(*known, server)) {
            Some((_, classes)) => classes.push(class),
            None => members.push((server, vec![class])),
        }
    }
    // The one with most to say comes last, without a condition.
    members.sort_by_key(|(server, classes)| {
        (classes.iter().any(|(_, tls)| *tls), server.directive.inside().len())
    });
    let main = members.last()?.0;
    let mut routes = Vec::new();
    let count = members.len();
    for (at, (server, own)) in members.iter().enumerate() {
        cx.translated(server.directive);
        let mut found = routes::of(cx, &server.scope, server.directive);
        if outside && server.listens.iter().all(Listen::is_loopback) {
            say_unmatched(cx, server);
            let here = Match { client: vec!["127.0.0.0/8".into(), "::1/128".into()], ..Match::default() };
            found = conditional(cx, server, found, &here);
        }
        if at + 1 < count {
            let condition = apart(
                own,
                &members[at + 1..].iter().flat_map(|(_, classes)| classes).copied().collect::<Vec<_>>(),
            );
            if !found.last().is_some_and(Route::takes_all) {
                let nothing = Target::Respond { status: 404, body: None };
                found.push(Route::new(&server.directive.place, "what this server does not answer", nothing));
            }
            found = conditional(cx, server, found, &condition);
        }
        routes.extend(found);
    }
    let names = if group.hosts.is_empty() { String::new() } else { format!(" {}", group.hosts.join(" ")) };
    let mut all = Vec::new();
    for certificate in members.iter().flat_map(|(server, _)| certificates(cx, &server.scope)) {
        if !all.contains(&certificate) {
            all.push(certificate);
        }
    }
    Some(Site {
        origin: (main.directive.place.clone(), format!("server{names}")),
        notes: Vec::new(),
        hosts: group.hosts.clone(),
        certificates: all,
        error_pages: errors::of(cx, &main.scope),
        error_root: errors::root(cx, &main.scope).map(|(root, place)| {
            let missing = !cx.machine.has_directory(&root);
            (root, place, missing)
        }),
        log: logs::of_site(cx, &main.scope),
        routes,
    })
}

/// What requests for one server have that those for the others have not.
fn apart(own: &[Class], others: &[Class]) -> Match {
    let all_plain = own.iter().all(|(_, tls)| !tls) && others.iter().all(|(_, tls)| *tls);
    let all_tls = own.iter().all(|(_, tls)| *tls) && others.iter().all(|(_, tls)| !tls);
    match (all_plain, all_tls) {
        (true, _) => Match { scheme: Some("http"), ..Match::default() },
        (_, true) => Match { scheme: Some("https"), ..Match::default() },
        _ => {
            let port = |class: &Class| Match {
                header: vec![("Host".into(), format!("*:{}", class.0))],
                ..Match::default()
            };
            let sets: Vec<Match> =
                own.iter().filter(|(port, _)| *port != 80 && *port != 443).map(port).collect();
            match sets.as_slice() {
                [one] => one.clone(),
                // The port that no `Host` names: none of those of the others.
                [] => Match { not: others.iter().map(port).collect(), ..Match::default() },
                _ => Match { any: sets, ..Match::default() },
            }
        }
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
