//! `ProxyPass` and what is said of the servers behind: pools.

use super::context::{Cx, Scope};
use super::tree::Directive;
use crate::drafts::Target;
use crate::model::{Block, Value};
use crate::report::Kind;
use crate::write;

/// A server of a URL.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Server {
    /// As `connect` has it.
    pub(crate) connect: String,
    /// The path in the URL, with what stands behind it.
    pub(crate) path: String,
    /// Whether it speaks FastCGI.
    pub(crate) fastcgi: bool,
    /// The name of a `<Proxy balancer://…>`.
    pub(crate) balancer: Option<String>,
    /// The name that has no address here.
    pub(crate) unknown: Option<String>,
}

/// Where nothing listens, as long as a name has no address.
const NOWHERE: &str = "127.0.0.1:9";

/// The server and the path of a URL of httpd.
///
/// # Errors
/// Pools do not speak that.
pub(crate) fn server(cx: &Cx<'_>, url: &str) -> Result<Server, String> {
    if let Some(rest) = url.strip_prefix("unix:") {
        let (path, behind) = rest.split_once('|').unwrap_or((rest, "http://localhost"));
        let (scheme, after) = behind.split_once("://").unwrap_or((behind.trim_end_matches(':'), ""));
        let after = after.find('/').and_then(|at| after.get(at..)).unwrap_or_default();
        return match scheme {
            "http" | "ws" => Ok(Server { connect: format!("http+unix:{path}"), ..plain(after, false) }),
            "fcgi" => Ok(Server { connect: format!("fastcgi+unix:{path}"), ..plain(after, true) }),
            _ => Err(format!("pools do not speak {scheme}")),
        };
    }
    let (scheme, rest) = url.split_once("://").ok_or("it names no server")?;
    let scheme = scheme.to_ascii_lowercase();
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = (rest.get(..at).unwrap_or_default(), rest.get(at..).unwrap_or_default());
    if scheme == "balancer" {
        return Ok(Server { balancer: Some(authority.to_owned()), ..plain(path, false) });
    }
    if authority.is_empty() || authority.contains(['$', '%', '@', ' ', '{']) {
        return Err("the server is fixed here, without variables".into());
    }
    let (name, default, fastcgi) = match scheme.as_str() {
        "http" | "ws" => ("http", 80, false),
        "https" | "wss" => ("https", 443, false),
        "h2c" => ("h2", 80, false),
        "h2" => ("https", 443, false),
        "fcgi" => ("fastcgi", 8000, true),
        other => return Err(format!("pools do not speak {other}")),
    };
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => host,
        Some((_, port)) if !port.contains(']') => return Err("the port is no number".into()),
        _ => authority,
    };
    let port = if host == authority { format!(":{default}") } else { String::new() };
    let unknown = (!cx.shared.machine.has_address(host)).then(|| host.to_owned());
    Ok(Server { connect: format!("{name}://{authority}{port}"), unknown, ..plain(path, fastcgi) })
}

fn plain(path: &str, fastcgi: bool) -> Server {
    Server { connect: String::new(), path: path.to_owned(), fastcgi, balancer: None, unknown: None }
}

/// What stands behind the URL: `timeout=60 retry=0`.
fn parameters(directive: &Directive) -> Vec<(String, String)> {
    let pair = |word: &String| {
        word.split_once('=').map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
    };
    directive.args.iter().filter(|word| !word.contains("://")).filter_map(pair).collect()
}

/// Seconds, or `500ms`, in milliseconds.
pub(crate) fn millis(text: &str) -> Option<u64> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number = text.get(..end)?.parse::<u64>().ok()?;
    let factor = match text.get(end..)?.to_ascii_lowercase().as_str() {
        "" | "s" => 1000,
        "ms" => 1,
        "m" | "mi" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// Parameters that only say how httpd keeps its connections.
const OF_CONNECTIONS: &[&str] = &[
    "keepalive",
    "max",
    "min",
    "smax",
    "ttl",
    "acquire",
    "disablereuse",
    "enablereuse",
    "flushpackets",
    "flushwait",
    "iobuffersize",
    "receivebuffersize",
    "retry",
    "upgrade",
    "nocanon",
    "status",
    "responsefieldsize",
    "lbset",
    "redirect",
    "addressttl",
];

/// The pool of a server, by name.
///
/// # Errors
/// A pool cannot be that.
pub(crate) fn pool(
    cx: &Cx<'_>,
    scope: &Scope<'_, '_>,
    directive: &Directive,
    found: &Server,
    more: Vec<(&'static str, Value)>,
) -> Result<String, String> {
    let mut settings = more;
    let (connect, wanted, unknown) = match &found.balancer {
        Some(name) => {
            let (servers, unknown) = members(cx, scope, name, &mut settings)?;
            (servers, name.clone(), unknown)
        }
        None => (vec![Value::from(found.connect.as_str())], name_of(&found.connect), found.unknown.clone()),
    };
    let urls: Vec<String> = connect.iter().filter_map(url_of).collect();
    let given = if directive.name.starts_with("proxy") { parameters(directive) } else { Vec::new() };
    for (name, value) in given {
        of_parameter(cx, directive, (&name, &value), &mut settings);
    }
    common(cx, scope, &urls, found.fastcgi, &mut settings);
    let mut block = Block::new("").from(&directive.place, &directive.shown);
    let connect = match connect.as_slice() {
        [one] => one.clone(),
        several => Value::List(several.to_vec()),
    };
    match unknown {
        None => block.push("connect", connect, None),
        Some(name) => {
            block.push_off(
                "connect",
                connect,
                None,
                &format!("the name {name} has an address on this machine"),
            );
            let scheme = urls.first().and_then(|url| url.split(':').next()).unwrap_or("http");
            block.push("connect", format!("{scheme}://{NOWHERE}"), None);
            let why = format!("but {name} has no address on this machine: see the comment at the pool");
            cx.say(directive, Kind::Translated, why);
        }
    }
    let mut known: Vec<&str> = Vec::new();
    for (key, value) in settings.into_iter().rev() {
        if !known.contains(&key) {
            known.push(key);
            match key {
                "+root" => block.push_off("root", value, None, "this directory is there on this machine"),
                "+php" => block.push_off("php", value, None, "this directory is there on this machine"),
                key => block.push(key, value, None),
            }
        }
    }
    Ok(cx.shared.pool(&wanted, block))
}

/// The URL in an item of `connect`.
fn url_of(item: &Value) -> Option<String> {
    match item {
        Value::Text(text) => Some(text.clone()),
        Value::Table(entries) => {
            entries.iter().find(|(key, _)| key == "url").and_then(|(_, value)| url_of(value))
        }
        _ => None,
    }
}

fn of_parameter(
    cx: &Cx<'_>,
    directive: &Directive,
    (name, value): (&str, &str),
    settings: &mut Vec<(&'static str, Value)>,
) {
    match (name, millis(value)) {
        ("timeout", Some(millis)) => {
            settings.push(("request_timeout", write::time(millis.clamp(1, 86_400_000)).into()))
        }
        ("connectiontimeout", Some(millis)) => {
            settings.push(("connect_timeout", write::time(millis.clamp(1, 3_600_000)).into()));
        }
        ("loadfactor" | "lbmethod" | "stickysession" | "nofailover" | "maxattempts" | "route", _) => {}
        (name, _) if OF_CONNECTIONS.contains(&name) => {}
        (name, _) => cx.not_possible(directive, format!("a pool has nothing for `{name}`")),
    }
}

/// The members of a `<Proxy balancer://NAME>`, and a name among them that has no address.
fn members(
    cx: &Cx<'_>,
    scope: &Scope<'_, '_>,
    name: &str,
    settings: &mut Vec<(&'static str, Value)>,
) -> Result<(Vec<Value>, Option<String>), String> {
    let sections = scope.all(&["proxy"]);
    let url = format!("balancer://{name}");
    let section =
        sections.iter().rev().find(|one| one.arg(0).trim_end_matches('/').eq_ignore_ascii_case(&url));
    let section = section.ok_or("there is no such balancer")?;
    cx.translated(*section);
    let (mut servers, mut unknown) = (Vec::new(), None);
    for one in section.inside() {
        match one.name.as_str() {
            "balancermember" => {
                let found = server(cx, one.arg(0))?;
                cx.translated(one);
                unknown = unknown.or(found.unknown);
                let given = parameters(one);
                let of = |wanted: &str| {
                    given.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
                };
                let weight =
                    of("loadfactor").and_then(|value| value.parse::<f64>().ok()).map(|value| value as u64);
                let mut table = vec![("url".to_owned(), Value::from(found.connect.as_str()))];
                table.extend(
                    weight
                        .filter(|weight| *weight > 1)
                        .map(|weight| ("weight".to_owned(), weight.min(1000).into())),
                );
                if of("status").is_some_and(|status| status.contains(['H', 'R'])) {
                    table.push(("backup".to_owned(), true.into()));
                }
                if of("status").is_some_and(|status| status.contains('D')) {
                    cx.say(one, Kind::NotNeeded, "the server is disabled there");
                    continue;
                }
                for (name, value) in given
                    .iter()
                    .filter(|(name, _)| !["loadfactor", "status", "route"].contains(&name.as_str()))
                {
                    of_parameter(cx, one, (name, value), settings);
                }
                servers.push(if table.len() == 1 { found.connect.into() } else { Value::Table(table) });
            }
            "proxyset" => balancing(cx, one, settings),
            _ => {}
        }
    }
    if servers.is_empty() {
        return Err("the balancer has no server".into());
    }
    Ok((servers, unknown))
}

fn balancing(cx: &Cx<'_>, one: &Directive, settings: &mut Vec<(&'static str, Value)>) {
    cx.translated(one);
    for (name, value) in parameters(one) {
        match (name.as_str(), value.as_str()) {
            ("lbmethod", "byrequests") => settings.push(("balance", "round_robin".into())),
            ("lbmethod", "bybusyness" | "bytraffic") => settings.push(("balance", "least_requests".into())),
            ("stickysession", _) => {
                let why = "a client stays at its server by a cookie of Maitred's, and not by the end of the \
                 application's";
                cx.say(one, Kind::Choice, why);
                settings.push(("sticky", "cookie".into()));
            }
            (name, value) => of_parameter(cx, one, (name, value), settings),
        }
    }
}

/// What the place says of all its servers.
fn common(
    cx: &Cx<'_>,
    scope: &Scope<'_, '_>,
    urls: &[String],
    fastcgi: bool,
    settings: &mut Vec<(&'static str, Value)>,
) {
    let has = |settings: &[(&str, Value)], wanted: &str| settings.iter().any(|(key, _)| *key == wanted);
    if let Some(one) = scope.last("proxytimeout").or_else(|| scope.last("timeout")) {
        cx.translated(one);
        match millis(one.arg(0)) {
            Some(millis) if !has(settings, "request_timeout") && millis != 60_000 => {
                settings.push(("request_timeout", write::time(millis.clamp(1, 86_400_000)).into()));
            }
            _ => {}
        }
    }
    if fastcgi {
        return;
    }
    if let Some(one) = scope.last("proxypreservehost") {
        cx.translated(one);
    }
    if !scope.is_on("proxypreservehost") && !urls.iter().all(|url| url.contains("+unix:")) {
        settings.push(("host", "server".into()));
    }
    redirects(cx, scope, urls, settings);
    cookies(cx, scope, settings);
    if urls.iter().any(|url| url.starts_with("https")) {
        let verify = scope.last("sslproxyverify");
        for one in scope.all(&[
            "sslproxyengine",
            "sslproxyverify",
            "sslproxycheckpeername",
            "sslproxycheckpeercn",
            "sslproxycheckpeerexpire",
        ]) {
            cx.translated(one);
        }
        if verify.is_none_or(|one| !one.arg(0).eq_ignore_ascii_case("require")) {
            settings.push(("tls", Value::Table(vec![("verify".into(), false.into())])));
        } else if let Some(ca) = scope.last("sslproxycacertificatefile") {
            cx.translated(ca);
            settings.push(("tls", Value::Table(vec![("ca".into(), cx.loader.absolute(ca.arg(0)).into())])));
        }
    }
}

/// `ProxyPassReverse`: what names the pool's own servers is mapped anyway.
fn redirects(cx: &Cx<'_>, scope: &Scope<'_, '_>, urls: &[String], settings: &mut Vec<(&'static str, Value)>) {
    let mut pairs = Vec::new();
    for one in scope.all(&["proxypassreverse"]) {
        let (path, url) = if one.args.len() > 1 { (one.arg(0), one.arg(1)) } else { ("/", one.arg(0)) };
        let bare = |url: &str| {
            url.trim_start_matches("ws")
                .trim_start_matches("http")
                .trim_start_matches("s://")
                .trim_start_matches("://")
                .to_owned()
        };
        let own = urls.iter().any(|known| {
            bare(url).starts_with(&bare(known))
                || bare(known).starts_with(bare(url).split('/').next().unwrap_or_default())
        });
        match own
            || url.starts_with("balancer:")
            || url.starts_with("unix:")
            || url.starts_with("fcgi:")
            || url.starts_with('/')
        {
            true => {
                cx.say(one, Kind::NotNeeded, "redirects to the server itself are mapped (`map_redirects`)")
            }
            false if url.contains("://") => pairs.push((one, url.to_owned(), Value::from(path))),
            false => cx.not_possible(one, "it names no server"),
        }
    }
    // Those of other pools are said there; a row keeps the worst that was said, so that they say nothing here.
    pairs.retain(|(one, _, _)| !cx.shared.report.borrow().has(&one.place, &one.shown));
    if !pairs.is_empty() {
        let only_pool = scope.all(&["proxypass", "proxypassmatch"]).len() < 2;
        if only_pool {
            pairs.iter().for_each(|(one, _, _)| cx.translated(*one));
            let table = pairs.into_iter().map(|(_, url, path)| (url, path)).collect();
            settings.push(("redirects", Value::Table(table)));
        }
    }
}

fn cookies(cx: &Cx<'_>, scope: &Scope<'_, '_>, settings: &mut Vec<(&'static str, Value)>) {
    let mut table = Vec::new();
    for (name, key) in [("proxypassreversecookiedomain", "domain"), ("proxypassreversecookiepath", "path")] {
        let pairs: Vec<(String, Value)> = scope
            .all(&[name])
            .into_iter()
            .map(|one| {
                cx.translated(one);
                (one.arg(0).to_owned(), one.arg(1).into())
            })
            .collect();
        if !pairs.is_empty() {
            table.push((key.to_owned(), Value::Table(pairs)));
        }
    }
    if !table.is_empty() {
        settings.push(("cookies", Value::Table(table)));
    }
}

/// A name for the pool of a server.
fn name_of(connect: &str) -> String {
    if let Some((_, path)) = connect.split_once("+unix:") {
        return path.rsplit('/').next().and_then(|file| file.split('.').next()).unwrap_or("app").to_owned();
    }
    let address = connect.rsplit("://").next().unwrap_or(connect);
    match address.rsplit_once(':') {
        Some(("localhost" | "127.0.0.1" | "[::1]", port)) => format!("app-{port}"),
        Some((host, _)) => host.replace('.', "-"),
        None => address.replace('.', "-"),
    }
}

/// What of a path goes to a server: `ProxyPass FROM URL`, for the paths below `from`.
pub(crate) fn target(name: String, from: &str, to: &str) -> Target {
    let (from_slash, to_slash) = (with_slash(from), with_slash(if to.is_empty() { "/" } else { to }));
    let strip = (from_slash != to_slash).then_some((from_slash, to_slash));
    Target::Pool { name, strip, rewrite: None }
}

pub(crate) fn with_slash(path: &str) -> String {
    format!("{}/", path.trim_end_matches('/'))
}
