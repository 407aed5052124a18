//! `reverse_proxy` and `php_fastcgi`: pools.

use super::tree::Directive;
use super::values;
use crate::drafts::{Header, How};
use crate::model::{Block, Value};
use crate::report::Kind;
use crate::shared::Shared;
use crate::write;
use maitred_config::Health;

/// Where nothing listens: a pool that leads there answers 502.
const NOWHERE: &str = "127.0.0.1:9";

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
}

/// What `reverse_proxy` names; `words` stand behind its matcher.
///
/// # Errors
/// Why it is not possible.
pub(crate) fn reverse(cx: &Shared, directive: &Directive, words: &[String]) -> Result<Proxy, String> {
    let mut upstreams: Vec<String> = words.to_vec();
    let mut proxy = Proxy::default();
    let mut settings: Vec<(&str, Value)> = Vec::new();
    let mut health: Vec<(String, Value)> = Vec::new();
    for line in directive.inside() {
        match line.name() {
            "dynamic" => upstreams.extend(dynamic(cx, line)),
            "to" => {
                upstreams.extend(line.args().iter().cloned());
                cx.translated(line);
            }
            "header_up" if is_servers_host(line) => {
                cx.translated(line);
                settings.push(("host", "server".into()));
            }
            "header_up" | "header_down" => fields(cx, line, &mut proxy),
            "rewrite" => {
                proxy.rewrite = Some(values::template(line.word(1))?);
                cx.translated(line);
            }
            "transport" if line.word(1) == "http" => transport(cx, line, &mut settings),
            "lb_policy" | "lb_retries" => balancing(cx, line, &mut settings),
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
            "flush_interval" | "buffers" | "request_buffers" | "response_buffers" | "stream_timeout"
            | "stream_close_delay" | "max_buffer_size" => {
                cx.not_needed(line, "responses are passed on as they come");
            }
            "trusted_proxies" => {
                cx.say(line, Kind::Worse, "`trusted_proxies` of [server] says that for all pools")
            }
            _ => cx.not_possible(line, "there is no key for this in a pool"),
        }
    }
    // Without a path, Caddy checks nothing.
    if health.iter().any(|(key, _)| key == "path") {
        settings.push(("health", Value::Table(with_defaults(health))));
    }
    if is_ejected(directive) {
        settings.push(("outliers", Value::Table(outliers(directive))));
    }
    let scheme = if speaks_http2(directive, "h2c") { "h2" } else { "http" };
    let block = block(cx, directive, &upstreams, scheme, settings)?;
    proxy.pool = cx.pool(&name_of(&upstreams), block);
    Ok(proxy)
}

/// The word behind a directive in the block.
fn said<'d>(directive: &'d Directive, name: &str) -> Option<&'d str> {
    directive.inside().iter().find(|line| line.name() == name).map(|line| line.word(1))
}

/// What is said of servers that fail.
fn failures(cx: &Shared, directive: &Directive, line: &Directive) {
    match line.name() {
        "lb_try_duration" | "lb_try_interval" => {
            cx.not_needed(line, "another server is tried at once, as often as `attempts` of `retry` says");
        }
        "fail_duration" | "max_fails" | "unhealthy_status" if is_ejected(directive) => cx.translated(line),
        _ => cx.not_needed(line, "servers that fail are left out for a while, and requests retried"),
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

/// The names of `dynamic a` and `dynamic srv`, which are resolved again and again.
fn dynamic(cx: &Shared, line: &Directive) -> Option<String> {
    match source(cx, line) {
        Ok(found) => {
            cx.translated(line);
            Some(found)
        }
        Err(why) => {
            cx.not_possible(line, why);
            None
        }
    }
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
            "refresh" | "dial_timeout" | "dial_fallback_delay" | "grace_period" | "versions" => {
                cx.not_needed(inside, "names are resolved again when their records end");
            }
            _ => cx.translated(inside),
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
        None if ["random", "least_conn", "random_choose", ""].contains(&line.word(1)) => {
            cx.not_needed(line, "the server with the fewest requests gets the next one");
        }
        None => cx.not_possible(line, "there is no such `balance`"),
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

fn transport(cx: &Shared, line: &Directive, settings: &mut Vec<(&'static str, Value)>) {
    cx.translated(line);
    for inside in line.inside() {
        let time = values::millis(inside.word(1)).map(|millis| millis.clamp(1, 3_600_000));
        match (inside.name(), time) {
            ("dial_timeout", Some(millis)) => {
                cx.translated(inside);
                settings.push(("connect_timeout", write::time(millis).into()));
            }
            ("response_header_timeout" | "read_timeout", Some(millis)) => {
                cx.translated(inside);
                settings.retain(|(key, _)| *key != "request_timeout");
                settings.push(("request_timeout", write::time(millis).into()));
            }
            ("tls_insecure_skip_verify", _) => secure(cx, inside, settings, ("verify", false.into())),
            ("tls_server_name", _) if values::fixed(inside.word(1)).is_some() => {
                secure(cx, inside, settings, ("server_name", inside.word(1).into()));
            }
            ("proxy_protocol", _) if matches!(inside.word(1), "v1" | "v2") => {
                cx.translated(inside);
                settings.push(("proxy_protocol", inside.word(1).into()));
            }
            ("versions", _) => cx.translated(inside),
            ("tls" | "tls_server_name" | "tls_client_auth" | "tls_trust_pool" | "proxy_protocol", _) => {
                cx.not_possible(inside, "write it in `tls` of the pool");
            }
            _ => cx.not_needed(inside, "connections to servers are kept, and compression is left to them"),
        }
    }
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

/// Fields that every pool gets.
const SENT: &str = "x-forwarded-for x-forwarded-proto x-forwarded-host x-real-ip x-forwarded-port x-forwarded-server \
                    connection upgrade x-scheme x-forwarded-ssl forwarded";

fn fields(cx: &Shared, line: &Directive, proxy: &mut Proxy) {
    let up = line.name() == "header_up";
    let (name, value) = (line.word(1), line.word(2));
    let bare = name.trim_start_matches(['+', '-', '>', '?']).trim_end_matches(':').to_ascii_lowercase();
    if up && SENT.split(' ').any(|sent| sent.trim() == bare) {
        return cx.not_needed(line, "applications get who the client is, and WebSockets are passed on");
    }
    if up
        && bare == "host"
        && ["{host}", "{http.request.host}", "{hostport}", "{http.request.hostport}"].contains(&value)
    {
        return cx.not_needed(line, "applications get the client's `Host`");
    }
    match rule(line.args()) {
        Ok(rule) => {
            cx.translated(line);
            if up { proxy.request.push(rule) } else { proxy.response.push(rule) }
        }
        Err(why) => cx.not_possible(line, why),
    }
}

/// A rule of `header`, `header_up`, `header_down`: the name with its sign, and the value.
///
/// # Errors
/// Why there is no such rule.
pub(crate) fn rule(words: &[String]) -> Result<Header, String> {
    let [name, rest @ ..] = words else { return Err("it names no field".into()) };
    let (how, name) = match name.chars().next() {
        Some('-') => (How::Remove, &name[1..]),
        Some('+') => (How::Add, &name[1..]),
        Some('?') => (How::IfAbsent, &name[1..]),
        Some('>') => (How::Set, &name[1..]),
        _ => (How::Set, name.as_str()),
    };
    let name = name.trim_end_matches(':').to_owned();
    let value = match (how, rest) {
        (How::Remove, _) => String::new(),
        (_, [value]) => {
            values::fixed(value).ok_or("values of fields are fixed here, without placeholders")?
        }
        (_, []) => return Err("it has no value".into()),
        _ => return Err("a part of a value is not replaced here".into()),
    };
    if name.is_empty() || name.contains('*') {
        return Err("one field is named at a time".into());
    }
    Ok(Header { how, name, value })
}

/// The keys of a pool of these servers.
pub(crate) fn block(
    cx: &Shared,
    directive: &Directive,
    upstreams: &[String],
    scheme: &str,
    settings: Vec<(&str, Value)>,
) -> Result<Block, String> {
    let mut connect = Vec::new();
    let mut unknown = None;
    let (mut settings, mut resolve) = (settings, false);
    for upstream in upstreams {
        resolve |= upstream.starts_with(RESOLVED);
        let (address, missing) = server(cx, upstream, scheme)?;
        unknown = unknown.or(missing);
        if !connect.contains(&address) {
            connect.push(address);
        }
    }
    if connect.is_empty() {
        return Err("it names no server".into());
    }
    if resolve {
        // What has no address here may have one later.
        unknown = None;
        settings.push(("resolve", true.into()));
    }
    if speaks_http2(directive, "2") && connect.iter().any(|one| one.starts_with("https")) {
        add_tls(&mut settings, ("http2".to_owned(), true.into()));
    }
    let mut block = Block::new("").from(&directive.place, &directive.shown());
    match unknown {
        None => block.push("connect", Value::one_or_more(&connect), None),
        Some(name) => {
            let when = format!("the name {name} has an address on this machine");
            block.push_off("connect", Value::one_or_more(&connect), None, &when);
            let scheme = if connect.iter().all(|one| one.starts_with("https:")) { "https" } else { scheme };
            block.push("connect", format!("{scheme}://{NOWHERE}"), None);
            let why = format!("but {name} has no address on this machine: see the comment at the pool");
            cx.say(directive, Kind::Translated, why);
        }
    }
    for (key, value) in settings {
        block.push(key, value, None);
    }
    Ok(block)
}

/// A value of `connect`; and the name in it, if that has no address here.
fn server(cx: &Shared, upstream: &str, scheme: &str) -> Result<(String, Option<String>), String> {
    if let Some(name) = upstream.strip_prefix(RESOLVED) {
        return Ok((format!("{scheme}://{name}"), None));
    }
    if let Some(name) = upstream.strip_prefix(SERVICE) {
        return Ok((format!("{scheme}+srv://{name}"), None));
    }
    let text = values::fixed(upstream).ok_or("the server is fixed here, without placeholders")?;
    if let Some(path) = text.strip_prefix("unix/") {
        return Ok((format!("{scheme}+unix:{path}"), None));
    }
    if let Some(path) = text.strip_prefix("unix+h2c/") {
        return Ok((format!("h2+unix:{path}"), None));
    }
    let scheme = if text.starts_with("h2c://") { "h2" } else { scheme };
    let address = match text.split_once("://") {
        Some(("http" | "h2c", address)) => {
            address.to_owned() + if address.contains(':') { "" } else { ":80" }
        }
        Some(("https", address)) => {
            let address = address.trim_end_matches('/');
            let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
            let unknown = (!cx.machine.has_address(host)).then(|| host.to_owned());
            return Ok((format!("https://{address}"), unknown));
        }
        Some((other, _)) => return Err(format!("pools do not speak {other}")),
        None => text,
    };
    let address = address.trim_end_matches('/');
    if address.contains(['/', '-']) && address.rsplit(':').next().is_some_and(|port| port.contains('-')) {
        return Err("ports are named one by one here".into());
    }
    let address = if address.starts_with(':') { format!("127.0.0.1{address}") } else { address.to_owned() };
    let host = match address.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => &address,
    };
    let default = match (host == address, scheme) {
        (true, "fastcgi") => ":9000",
        (true, _) => ":80",
        (false, _) => "",
    };
    let unknown = (!cx.machine.has_address(host)).then(|| host.to_owned());
    Ok((format!("{scheme}://{address}{default}"), unknown))
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
