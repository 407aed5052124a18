//! `reverse_proxy` and `php_fastcgi`: pools.

use super::tree::Directive;
use super::values::{self, Known};
use crate::drafts::{Header, How};
use crate::model::{Block, Value};
use crate::report::Kind;
use crate::shared::Shared;
use crate::variables;
use crate::write;
use maitred_config::Health;

/// What a variable that is not set stands for: a server where nothing listens, so that there is 502, or such a port.
const NOWHERE: (&str, &str) = ("127.0.0.1:9", "9");

/// A pool, and what goes with it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Proxy {
    /// The name of the pool.
    pub(crate) pool: String,
    /// `header_up`
    pub(crate) request: Vec<Header>,
    /// `header_down`
    pub(crate) response: Vec<Header>,
    /// `rewrite`
    pub(crate) rewrite: Option<String>,
    /// Whether all clients come by TLS.
    secure: bool,
}

/// What `reverse_proxy` names; `words` stand behind its matcher.
///
/// # Errors
/// Why it is not possible.
pub(crate) fn reverse(
    cx: &Shared,
    directive: &Directive,
    words: &[String],
    known: Known<'_>,
) -> Result<Proxy, String> {
    let found = of_pool(cx, directive, (words, known.secure), "http")?;
    let rewrite = directive.inside().iter().find(|line| line.name() == "rewrite");
    let rewrite = match rewrite {
        Some(line) => {
            let to = values::template(line.word(1), known)?;
            cx.translated(line);
            Some(to)
        }
        None => None,
    };
    cx.translated(directive);
    if found.own_host {
        let why = "servers over TLS get their own name as `Host`, as from Caddy 2.11; older versions pass on the client's";
        cx.say(directive, Kind::Choice, why);
    }
    let pool = cx.pool(&name_of(&found.upstreams), found.block);
    Ok(Proxy { pool, request: found.request, response: found.response, rewrite, secure: known.secure })
}

/// A pool before it has a name, and what goes with it.
pub(crate) struct Found {
    /// The keys of the pool.
    pub(crate) block: Block,
    /// `header_up`
    pub(crate) request: Vec<Header>,
    /// `header_down`
    pub(crate) response: Vec<Header>,
    upstreams: Vec<String>,
    own_host: bool,
}

/// Lines of `php_fastcgi` that are no lines of `reverse_proxy`.
const OF_PHP: &[&str] =
    &["root", "index", "split", "env", "try_files", "resolve_root_symlink", "capture_stderr"];

/// How long Caddy waits for a server: without end.
const TIMEOUT: &str = "24h";

/// The keys of a pool.
///
/// # Errors
/// Why it is not possible.
pub(crate) fn of_pool(
    cx: &Shared,
    directive: &Directive,
    (words, secure): (&[String], bool),
    scheme: &'static str,
) -> Result<Found, String> {
    let mut upstreams: Vec<String> = words.to_vec();
    let mut proxy = Proxy { secure, ..Proxy::default() };
    let mut settings: Vec<(&'static str, Value)> = Vec::new();
    let mut health: Vec<(String, Value)> = Vec::new();
    let php = scheme == "fastcgi";
    for line in directive.inside() {
        of_line(cx, (directive, line), php, &mut upstreams, &mut proxy, (&mut settings, &mut health))?;
    }
    // Without a path, Caddy checks nothing.
    if health.iter().any(|(key, _)| key == "path") {
        settings.push(("health", Value::Table(with_defaults(health))));
    }
    if is_ejected(directive) {
        settings.push(("outliers", Value::Table(outliers(directive))));
    }
    let upstreams = with_ranges(&upstreams)?;
    let scheme = match (php, speaks_tls(directive), speaks_http2(directive, "h2c")) {
        (false, true, _) => "https",
        (false, false, true) => "h2",
        _ => scheme,
    };
    let tls = scheme == "https" || upstreams.iter().any(|upstream| upstream.starts_with("https://"));
    let names_host = directive.inside().iter().any(|line| {
        line.name() == "header_up" && line.word(1).trim_end_matches(':').eq_ignore_ascii_case("host")
    });
    let own_host = tls && !names_host;
    if own_host {
        settings.push(("host", "server".into()));
    }
    if !settings.iter().any(|(key, _)| *key == "request_timeout") {
        settings.push(("request_timeout", TIMEOUT.into()));
    }
    if !php {
        settings.push(("target", "as_sent".into()));
    }
    let block = block(directive, &upstreams, scheme, settings)?;
    Ok(Found { block, request: proxy.request, response: proxy.response, upstreams, own_host })
}

type Settings = Vec<(&'static str, Value)>;

/// A line of `reverse_proxy`.
fn of_line(
    cx: &Shared,
    (directive, line): (&Directive, &Directive),
    php: bool,
    upstreams: &mut Vec<String>,
    proxy: &mut Proxy,
    (settings, health): (&mut Settings, &mut Vec<(String, Value)>),
) -> Result<(), String> {
    match line.name() {
        name if php && OF_PHP.contains(&name) => {}
        "dynamic" => upstreams.push(dynamic(cx, line)?),
        "to" => {
            upstreams.extend(line.args().iter().cloned());
            cx.translated(line);
        }
        "header_up" if is_servers_host(line) => {
            cx.translated(line);
            settings.push(("host", "server".into()));
        }
        "header_up" | "header_down" => fields(cx, line, proxy),
        "rewrite" if !php => {}
        "transport" if line.word(1) == "http" && !php => transport(cx, line, settings)?,
        "dial_timeout" | "read_timeout" | "write_timeout" if php => timeouts(cx, line, settings),
        "lb_policy" | "lb_retries" => balancing(cx, line, settings),
        "lb_try_duration"
        | "lb_try_interval"
        | "fail_duration"
        | "max_fails"
        | "unhealthy_latency"
        | "unhealthy_status"
        | "unhealthy_request_count" => failures(cx, directive, line),
        name if name.starts_with("health_") => match check(name, line.word(1)) {
            Some(entry) => {
                cx.translated(line);
                health.push(entry);
            }
            None => cx.not_possible(line, "`health` of a pool has no such key"),
        },
        name => passing(cx, line, name)?,
    }
    Ok(())
}

/// Lines about what passes between clients and servers.
///
/// # Errors
/// Without the line, something else would answer.
fn passing(cx: &Shared, line: &Directive, name: &str) -> Result<(), String> {
    match name {
        "flush_interval" => cx.not_needed(line, "each piece of a response goes on as it comes"),
        "buffers" | "request_buffers" | "response_buffers" | "buffer_requests" | "buffer_responses"
        | "max_buffer_size" => {
            let why = "`request_buffering` and `response_buffering` say what is kept, and where";
            cx.say(line, Kind::Choice, why);
        }
        "stream_close_delay" => cx.say(line, Kind::Better, "a reload closes no connection of a WebSocket"),
        "stream_timeout" => cx.say(line, Kind::Worse, "connections of WebSockets have no longest time"),
        "verbose_logs" => cx.say(line, Kind::Choice, "the error log names the server that failed"),
        "trusted_proxies" => {
            cx.say(line, Kind::Worse, "`trusted_proxies` of [server] says that, for all pools alike");
        }
        name => return Err(format!("there is no counterpart of `{name}`")),
    }
    Ok(())
}

/// Times of `php_fastcgi`, and of a transport.
fn timeouts(cx: &Shared, line: &Directive, settings: &mut Vec<(&'static str, Value)>) {
    let time = values::millis(line.word(1)).map(|millis| millis.clamp(1, 86_400_000));
    match (line.name(), time) {
        (_, None) => cx.not_possible(line, "this is no time"),
        ("dial_timeout", Some(millis)) => {
            cx.translated(line);
            settings.push(("connect_timeout", write::time(millis.min(3_600_000)).into()));
        }
        ("write_timeout", Some(_)) => {
            cx.say(line, Kind::Choice, "`request_timeout` bounds how long a server takes nothing as well");
        }
        (_, Some(millis)) => {
            cx.say(line, Kind::Choice, "how long a server may be silent, before and behind the head");
            settings.retain(|(key, _)| *key != "request_timeout");
            settings.push(("request_timeout", write::time(millis).into()));
        }
    }
}

/// Servers, each port of a range for itself.
fn with_ranges(upstreams: &[String]) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for upstream in upstreams {
        let range = upstream.rsplit_once(':').and_then(|(host, ports)| {
            let (first, last) = ports.split_once('-')?;
            Some((host, first.parse::<u16>().ok()?, last.parse::<u16>().ok()?))
        });
        match range {
            None => all.push(upstream.clone()),
            Some((host, first, last)) if first <= last && last - first < 64 => {
                all.extend((first..=last).map(|port| format!("{host}:{port}")));
            }
            Some(_) => return Err("the range of ports is too large".into()),
        }
    }
    Ok(all)
}

/// The word behind a directive in the block.
fn said<'d>(directive: &'d Directive, name: &str) -> Option<&'d str> {
    directive.inside().iter().find(|line| line.name() == name).map(|line| line.word(1))
}

/// What is said of servers that fail.
fn failures(cx: &Shared, directive: &Directive, line: &Directive) {
    let said_of = |name: &str| said(directive, name).is_some();
    match line.name() {
        "lb_try_duration" if values::millis(line.word(1)) == Some(0) => {
            cx.not_needed(line, "this is what it is without the line");
        }
        "lb_try_duration" => {
            let why = "another server is tried at once, as often as `attempts` of `retry` says, and none is waited for";
            cx.say(line, Kind::Worse, why);
        }
        "lb_try_interval" if !said_of("lb_try_duration") => {
            cx.not_needed(line, "without `lb_try_duration` nothing is tried again");
        }
        "lb_try_interval" => cx.say(line, Kind::Choice, "another server is tried at once"),
        "fail_duration" | "max_fails" | "unhealthy_status" if is_ejected(directive) => cx.translated(line),
        _ if !said_of("fail_duration") => {
            cx.not_needed(line, "without `fail_duration` nothing is remembered of failures");
        }
        "fail_duration" | "max_fails" => {
            cx.say(
                line,
                Kind::Better,
                "a server that cannot be reached is left out for a while, and requests go to others",
            );
        }
        _ => cx.say(
            line,
            Kind::Worse,
            "servers are left out for a while for what they answer, if `outliers` says so",
        ),
    }
}

/// Whether statuses put a server out for a while.
fn is_ejected(directive: &Directive) -> bool {
    let time = said(directive, "fail_duration").and_then(values::millis);
    time.is_some_and(|millis| millis > 0)
        && said(directive, "unhealthy_status").is_some_and(|word| word.starts_with('5'))
}

/// `outliers` for `fail_duration` and `max_fails`.
fn outliers(directive: &Directive) -> Vec<(String, Value)> {
    let fails = said(directive, "max_fails").and_then(|word| word.parse::<u64>().ok()).unwrap_or(1);
    let millis = said(directive, "fail_duration").and_then(values::millis).unwrap_or(30_000);
    vec![
        ("errors".to_owned(), fails.clamp(1, 10_000).into()),
        ("time".to_owned(), write::time(millis.clamp(1_000, 300_000)).into()),
    ]
}

/// Whether `versions` of a transport leave nothing but this version of HTTP/2.
fn speaks_http2(directive: &Directive, version: &str) -> bool {
    let transports =
        directive.inside().iter().filter(|line| line.name() == "transport" && line.word(1) == "http");
    let mut versions = transports.flat_map(Directive::inside).filter(|inside| inside.name() == "versions");
    versions.any(|given| {
        let all: Vec<&str> = given.args().iter().map(String::as_str).collect();
        all.contains(&version) && !all.contains(&"1.1")
    })
}

/// Whether the transport uses TLS.
fn speaks_tls(directive: &Directive) -> bool {
    let transports =
        directive.inside().iter().filter(|line| line.name() == "transport" && line.word(1) == "http");
    transports.flat_map(Directive::inside).any(|line| line.name() == "tls" || line.name().starts_with("tls_"))
}

/// The names of `dynamic a` and `dynamic srv`, which are resolved again and again.
///
/// # Errors
/// Why it is not possible.
fn dynamic(cx: &Shared, line: &Directive) -> Result<String, String> {
    let found = source(cx, line)?;
    cx.translated(line);
    Ok(found)
}

/// # Errors
/// Why it is not possible.
fn source(cx: &Shared, line: &Directive) -> Result<String, String> {
    if !["a", "srv"].contains(&line.word(1)) {
        return Err("one source of servers is named at a time: `a` or `srv`".into());
    }
    let of = |name: &str, at: usize| {
        let inside = said(line, name).or_else(|| Some(line.word(at)).filter(|word| !word.is_empty()));
        inside.and_then(values::fixed)
    };
    for inside in line.inside() {
        match inside.name() {
            "resolvers" => cx.say(inside, Kind::Choice, "`resolver` of [server] says that for all pools"),
            "refresh" | "grace_period" => {
                cx.say(inside, Kind::Choice, "names are resolved again when their records end");
            }
            "dial_timeout" | "dial_fallback_delay" => {
                cx.say(inside, Kind::Choice, "`resolver` of [server] has times of its own");
            }
            "versions"
                if inside.args().iter().all(|version| ["ipv4", "ipv6"].contains(&version.as_str())) =>
            {
                cx.say(inside, Kind::Choice, "servers are asked at their addresses of both families");
            }
            "name" | "port" | "service" | "proto" => cx.translated(inside),
            name => return Err(format!("there is no counterpart of `{name}`")),
        }
    }
    match line.word(1) {
        "a" => {
            let (name, port) = (of("name", 2), of("port", 3).unwrap_or_else(|| "80".to_owned()));
            let name = name.ok_or("it names no host")?;
            let is_port = port.parse::<u16>().is_ok_and(|port| port != 0);
            if is_port { Ok(format!("{RESOLVED}{name}:{port}")) } else { Err("it names no port".into()) }
        }
        _ => match (said(line, "service"), said(line, "proto"), said(line, "name")) {
            (Some(service), Some(proto), Some(name)) => Ok(format!("{SERVICE}_{service}._{proto}.{name}")),
            _ => Ok(format!("{SERVICE}{}", of("name", 2).ok_or("it names no service")?)),
        },
    }
}

/// How servers of `dynamic` begin between here and [`block`].
const RESOLVED: &str = "dynamic a://";
const SERVICE: &str = "dynamic srv://";

/// `lb_policy` and `lb_retries`.
fn balancing(cx: &Shared, line: &Directive, settings: &mut Vec<(&'static str, Value)>) {
    if line.name() == "lb_retries" {
        let Ok(retries) = line.word(1).parse::<u64>() else {
            return cx.not_possible(line, "this is not a number");
        };
        cx.translated(line);
        let attempts = retries.saturating_add(1).clamp(1, 16).into();
        return settings.push(("retry", Value::Table(vec![("attempts".to_owned(), attempts)])));
    }
    match policy(line.word(1), line.word(2)) {
        Some(found) => {
            cx.translated(line);
            settings.extend(found);
        }
        None if line.word(1) == "least_conn" => {
            cx.not_needed(line, "the server with the fewest requests gets the next one, as without it");
        }
        None if ["random", "random_choose"].contains(&line.word(1)) => {
            cx.say(line, Kind::Better, "the server with the fewest requests gets the next one");
        }
        None => cx.say(
            line,
            Kind::Worse,
            "there is no such `balance`: the server with the fewest requests gets the next one",
        ),
    }
}

/// `balance` and `hash_key` for a policy of Caddy.
fn policy(word: &str, of: &str) -> Option<Vec<(&'static str, Value)>> {
    let hash = |key: String| Some(vec![("balance", "hash".into()), ("hash_key", key.into())]);
    match word {
        "round_robin" => Some(vec![("balance", "round_robin".into())]),
        "ip_hash" | "client_ip_hash" => Some(vec![("balance", "hash".into())]),
        "uri_hash" => hash("uri".to_owned()),
        "header" if !of.is_empty() => hash(format!("header:{of}")),
        "query" if !of.is_empty() => hash(format!("query:{of}")),
        "cookie" if of.is_empty() => Some(vec![("sticky", "cookie".into())]),
        "cookie" => Some(vec![("sticky", Value::Table(vec![("cookie".to_owned(), of.into())]))]),
        _ => None,
    }
}

/// An entry of `health` for a directive of Caddy.
fn check(name: &str, word: &str) -> Option<(String, Value)> {
    let time = |least: u64, most: u64| Some(write::time(values::millis(word)?.clamp(least, most)));
    let number = || word.parse::<u64>().ok().map(|number| number.clamp(1, 100));
    let (key, value): (&str, Value) = match name {
        "health_uri" if word.starts_with('/') => ("path", word.into()),
        "health_interval" => ("interval", time(100, 3_600_000)?.into()),
        "health_timeout" => ("timeout", time(10, 60_000)?.into()),
        "health_passes" => ("healthy_after", number()?.into()),
        "health_fails" => ("unhealthy_after", number()?.into()),
        "health_method" if ["GET", "HEAD", "OPTIONS"].contains(&word) => ("method", word.into()),
        "health_port" => ("port", word.parse::<u16>().ok().filter(|port| *port > 0).map(u64::from)?.into()),
        // Other bodies are regular expressions.
        "health_body" if is_plain(word) => ("body_contains", word.into()),
        "health_status" => match word.strip_suffix("xx") {
            Some(first) => ("statuses", format!("{first}00-{first}99").into()),
            None => ("statuses", word.into()),
        },
        _ => return None,
    };
    Some((key.to_owned(), value))
}

/// Whether a regular expression is a text that stands for itself.
fn is_plain(word: &str) -> bool {
    !word.is_empty()
        && word.len() <= Health::CONTAINS_BYTES_MAX
        && !word.contains(|letter| r"\.+*?()|[]{}^$".contains(letter))
}

/// What Caddy does where nothing is said.
fn with_defaults(mut health: Vec<(String, Value)>) -> Vec<(String, Value)> {
    for (key, value) in [
        ("interval", "30s".into()),
        ("timeout", "5s".into()),
        ("healthy_after", 1.into()),
        ("unhealthy_after", 1.into()),
    ] {
        if !health.iter().any(|(known, _)| known == key) {
            health.push((key.to_owned(), value));
        }
    }
    health
}

/// Whether `header_up` gives each server its own name.
fn is_servers_host(line: &Directive) -> bool {
    let placeholders = ["{upstream_hostport}", "{http.reverse_proxy.upstream.hostport}"];
    line.word(1).trim_end_matches(':').eq_ignore_ascii_case("host") && placeholders.contains(&line.word(2))
}

/// `transport http`
///
/// # Errors
/// Without what it says, the servers are not asked as they have to be.
fn transport(cx: &Shared, line: &Directive, settings: &mut Vec<(&'static str, Value)>) -> Result<(), String> {
    cx.translated(line);
    for inside in line.inside() {
        let word = |at: usize| values::fixed(inside.word(at)).filter(|word| !word.is_empty());
        match inside.name() {
            "dial_timeout" | "response_header_timeout" | "read_timeout" | "write_timeout" => {
                timeouts(cx, inside, settings);
            }
            "tls" => cx.translated(inside),
            "tls_insecure_skip_verify" => secure(cx, inside, settings, ("verify", false.into())),
            "tls_server_name" => {
                let name = word(1).ok_or("the name of the server is fixed here")?;
                secure(cx, inside, settings, ("server_name", name.into()));
            }
            "tls_trusted_ca_certs" if inside.args().len() == 1 => {
                let file = word(1).ok_or("its authority is a file here")?;
                secure(cx, inside, settings, ("ca", file.into()));
            }
            "tls_trust_pool" if inside.word(1) == "file" && inside.args().len() == 2 => {
                let file = word(2).ok_or("its authority is a file here")?;
                secure(cx, inside, settings, ("ca", file.into()));
            }
            "tls_client_auth" if inside.args().len() == 2 => {
                let (certificate, key) = word(1).zip(word(2)).ok_or("its certificate is a file here")?;
                secure(cx, inside, settings, ("certificate", certificate.into()));
                add_tls(settings, ("key".to_owned(), key.into()));
            }
            "proxy_protocol" if matches!(inside.word(1), "v1" | "v2") => {
                cx.translated(inside);
                settings.push(("proxy_protocol", inside.word(1).into()));
            }
            "versions"
                if inside.args().iter().all(|version| ["1.1", "2", "h2c"].contains(&version.as_str())) =>
            {
                cx.translated(inside);
            }
            "keepalive"
            | "keepalive_interval"
            | "keepalive_idle_conns"
            | "keepalive_idle_conns_per_host"
            | "read_buffer"
            | "write_buffer"
            | "max_response_header"
            | "expect_continue_timeout" => {
                cx.say(
                    inside,
                    Kind::Choice,
                    "connections to servers, and what they hold, have bounds of their own",
                );
            }
            "compression" => cx.not_needed(inside, "servers compress for clients that ask for it"),
            "dial_fallback_delay" => cx.not_needed(inside, "it is for names with addresses of both families"),
            "resolvers" => cx.say(inside, Kind::Choice, "`resolver` of [server] says that for all pools"),
            "max_conns_per_host" => cx.say(inside, Kind::Worse, "connections to a server are not counted"),
            "tls_timeout" => cx.say(inside, Kind::Choice, "`connect_timeout` is for the handshake as well"),
            name => return Err(format!("there is no counterpart of `{name}`")),
        }
    }
    Ok(())
}

/// Adds to `tls` of a pool.
fn secure(cx: &Shared, line: &Directive, settings: &mut Vec<(&'static str, Value)>, entry: (&str, Value)) {
    cx.translated(line);
    add_tls(settings, (entry.0.to_owned(), entry.1));
}

fn add_tls(settings: &mut Vec<(&str, Value)>, entry: (String, Value)) {
    match settings.iter_mut().find(|(key, _)| *key == "tls") {
        Some((_, Value::Table(table))) => table.push(entry),
        _ => settings.push(("tls", Value::Table(vec![entry]))),
    }
}

/// `header_up` of the fields that applications get anyway, with the values that are those of Caddy itself.
const SENT: &[(&str, &[&str])] = &[
    ("x-forwarded-for", &["{remote_host}", "{client_ip}", "{http.request.remote.host}"]),
    ("x-forwarded-proto", &["{scheme}", "{http.request.scheme}"]),
    ("x-forwarded-host", &["{hostport}", "{http.request.hostport}", "{http.request.header.Host}"]),
    ("connection", &["{>Connection}", "{http.request.header.Connection}", "Upgrade", "upgrade"]),
    ("upgrade", &["{>Upgrade}", "{http.request.header.Upgrade}", "websocket"]),
];

/// Fields in which a server says who the client is, none of which a configuration writes.
fn is_about_client(name: &str) -> bool {
    [
        "x-forwarded-for",
        "x-forwarded-proto",
        "x-forwarded-host",
        "forwarded",
        "x-request-id",
        "x-request-start",
    ]
    .contains(&name)
}

fn fields(cx: &Shared, line: &Directive, proxy: &mut Proxy) {
    let up = line.name() == "header_up";
    let (name, value) = (line.word(1), line.word(2));
    let bare = name.trim_start_matches(['+', '-', '>', '?']).trim_end_matches(':').to_ascii_lowercase();
    let read = value.to_ascii_lowercase();
    let same = ["{>", "{header.", "{http.request.header."]
        .iter()
        .any(|begin| read.strip_prefix(begin).and_then(|rest| rest.strip_suffix('}')) == Some(bare.as_str()));
    if up && SENT.iter().any(|(known, values)| *known == bare && values.contains(&value)) {
        return cx.not_needed(line, "applications get this field so");
    }
    if up && bare == "x-forwarded-proto" && value == "https" && proxy.secure {
        return cx.not_needed(line, "all addresses of the site have TLS");
    }
    if up && same {
        let why = "fields of requests are passed on, and one that the client has not sent is not there, instead of empty";
        return cx.say(line, Kind::Better, why);
    }
    if up && ["connection", "upgrade"].contains(&bare.as_str()) {
        return cx.say(line, Kind::Choice, "WebSockets are passed on, and connections are the server's own");
    }
    if up && bare == "x-forwarded-host" && ["{host}", "{http.request.host}"].contains(&value) {
        return cx.say(
            line,
            Kind::Choice,
            "`X-Forwarded-Host` has the port as well, if the client names one",
        );
    }
    if up && is_about_client(&bare) && name.starts_with('-') {
        return cx.say(line, Kind::Choice, "applications get the fields that tell who the client is");
    }
    if up && is_about_client(&bare) {
        let why = "the client is in `X-Forwarded-For`, `-Proto`, `-Host` and `Forwarded`, and this field is not sent";
        return cx.say(line, Kind::Worse, why);
    }
    let hosts = [
        "{host}",
        "{http.request.host}",
        "{hostport}",
        "{http.request.hostport}",
        "{>Host}",
        "{http.request.header.Host}",
    ];
    if up && bare == "host" && hosts.contains(&value) {
        return cx.not_needed(line, "applications get the client's `Host`");
    }
    match rule(line.args()) {
        Ok((rule, _)) => {
            cx.translated(line);
            if up { proxy.request.push(rule) } else { proxy.response.push(rule) }
        }
        Err(why) => cx.not_possible(line, why),
    }
}

/// A rule of `header`, `header_up`, `header_down`: the name with its sign, and the value; and whether it waits for the response.
///
/// # Errors
/// Why there is no such rule.
pub(crate) fn rule(words: &[String]) -> Result<(Header, bool), String> {
    let [name, rest @ ..] = words else { return Err("it names no field".into()) };
    let (how, bare) = match name.chars().next() {
        Some('-') => (How::Remove, &name[1..]),
        Some('+') => (How::Add, &name[1..]),
        Some('?') => (How::IfAbsent, &name[1..]),
        Some('>') => (How::Set, &name[1..]),
        _ => (How::Set, name.as_str()),
    };
    let value = match (how, rest) {
        (How::Remove, _) => String::new(),
        // A set field that is empty is sent so.
        (How::IfAbsent, [value]) => values::fixed(value)
            .or_else(|| values::field(value).ok().filter(|found| !found.contains(values::OPEN)))
            .ok_or("a field that is missing gets a fixed value")?,
        (_, [value]) => values::field(value)?,
        (_, []) => return Err("it has no value".into()),
        _ => return Err("a part of a value is not replaced here".into()),
    };
    let bare = bare.trim_end_matches(':').to_owned();
    if bare.is_empty() || bare.contains(['*', '{']) {
        return Err("one field is named at a time".into());
    }
    Ok((Header { how, name: bare, value }, name.starts_with('>')))
}

/// The keys of a pool of these servers.
pub(crate) fn block(
    directive: &Directive,
    upstreams: &[String],
    scheme: &str,
    settings: Vec<(&str, Value)>,
) -> Result<Block, String> {
    let mut connect = Vec::new();
    let (mut settings, mut resolve) = (settings, false);
    for upstream in upstreams {
        let address = server(upstream, scheme)?;
        resolve |= is_name(&address);
        if !connect.contains(&address) {
            connect.push(address);
        }
    }
    if connect.is_empty() {
        return Err("it names no server".into());
    }
    if resolve {
        // Caddy asks for the address of a name with each connection.
        settings.push(("resolve", true.into()));
    }
    if speaks_http2(directive, "2") && connect.iter().any(|one| one.starts_with("https")) {
        add_tls(&mut settings, ("http2".to_owned(), true.into()));
    }
    let mut block = Block::new("").from(&directive.place, &directive.shown());
    block.push("connect", Value::one_or_more(&connect), None);
    for (key, value) in settings {
        block.push(key, value, None);
    }
    Ok(block)
}

/// Whether a value of `connect` has a name that may get other addresses.
fn is_name(address: &str) -> bool {
    let Some((scheme, rest)) = address.split_once("://") else { return false };
    let host = rest.rsplit_once(':').map_or(rest, |(host, _)| host).trim_matches(['[', ']']);
    !scheme.ends_with("+srv") && host != "localhost" && host.parse::<std::net::IpAddr>().is_err()
}

/// A value of `connect`.
fn server(upstream: &str, scheme: &str) -> Result<String, String> {
    if let Some(name) = upstream.strip_prefix(RESOLVED) {
        return Ok(format!("{scheme}://{name}"));
    }
    if let Some(name) = upstream.strip_prefix(SERVICE) {
        return Ok(format!("{scheme}+srv://{name}"));
    }
    let text = values::fixed(upstream).ok_or("the server is fixed here, without placeholders")?;
    let text = variables::with_otherwise(&text, |_, (before, _)| match before.ends_with(':') {
        true => NOWHERE.1.to_owned(),
        false => NOWHERE.0.to_owned(),
    });
    if let Some(path) = text.strip_prefix("unix/") {
        if scheme == "https" {
            return Err("a Unix socket has no TLS here".into());
        }
        return Ok(format!("{scheme}+unix:{path}"));
    }
    if let Some(path) = text.strip_prefix("unix+h2c/") {
        return Ok(format!("h2+unix:{path}"));
    }
    let scheme = if text.starts_with("h2c://") { "h2" } else { scheme };
    let address = match text.split_once("://") {
        Some(("http" | "h2c", address)) => {
            address.to_owned() + if address.contains(':') { "" } else { ":80" }
        }
        Some(("https", address)) => return Ok(format!("https://{}", address.trim_end_matches('/'))),
        Some((other, _)) => return Err(format!("pools do not speak {other}")),
        None => text,
    };
    let address = address.trim_end_matches('/');
    let ports = address.rsplit_once(':').map(|(_, ports)| ports).filter(|_| !variables::is_in(address));
    if ports.is_some_and(|ports| ports.contains('-')) {
        return Err("ports are named one by one here".into());
    }
    let address = if address.starts_with(':') { format!("127.0.0.1{address}") } else { address.to_owned() };
    let default = match (has_port(&address), scheme) {
        (true, _) => "",
        (false, "fastcgi") => ":9000",
        (false, "https") => ":443",
        (false, _) => ":80",
    };
    Ok(format!("{scheme}://{address}{default}"))
}

/// Whether an address has a port, or a variable at its end that may have one.
fn has_port(address: &str) -> bool {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    variables::is_at_end(address) || address.rsplit_once(':').is_some_and(|(_, port)| is_port(port))
}

/// A name for the pool of these servers.
pub(crate) fn name_of(upstreams: &[String]) -> String {
    let first = upstreams.first().map(String::as_str).unwrap_or_default();
    if let Some(path) = first.strip_prefix("unix/") {
        return path.rsplit('/').next().and_then(|file| file.split('.').next()).unwrap_or("app").to_owned();
    }
    let address = first.rsplit("://").next().unwrap_or(first);
    // A service is called by its host.
    let address = address.rsplit("._tcp.").next().unwrap_or(address);
    match address.rsplit_once(':') {
        Some(("" | "localhost" | "127.0.0.1" | "[::1]", port)) => format!("app-{port}"),
        Some((host, _)) => host.replace('.', "-"),
        None => address.replace('.', "-"),
    }
}
