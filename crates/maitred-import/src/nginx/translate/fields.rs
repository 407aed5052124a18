//! `proxy_set_header` and `fastcgi_param HTTP_…`: fields of requests, as applications get them.
//!
//! Maitred says who the client is by itself, in fields that no configuration can change. Each of them is held against what the
//! directive says: the same value, a truer one, or another one that the application may miss.

use super::context::Context;
use crate::drafts::{Header, How};
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::nginx::values;
use crate::report::Kind;
use crate::write;

/// Fields of the connection and of the message, which each side has for itself.
const OF_HOP: &[&str] = &[
    "connection",
    "upgrade",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "http2-settings",
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-extensions",
    "content-length",
    "expect",
];

/// What is to be known of the server for it.
#[derive(Debug, Clone, Copy)]
struct Server {
    /// Some proxy is trusted.
    trusts: bool,
    /// All of them, or none, come over TLS.
    scheme: Option<&'static str>,
}

impl Server {
    /// What becomes of a field that says what the request says.
    fn passed(self) -> (Kind, &'static str) {
        match self.trusts {
            true => (Kind::NotNeeded, "what trusted proxies say goes on"),
            false => (Kind::Worse, NAME_THE_PROXY),
        }
    }

    fn of(scope: &Scope<'_>) -> Server {
        let server = scope.of_server();
        let ssl = server.last("ssl").is_some_and(|ssl| ssl.arg(0) == "on");
        let listens: Vec<&Directive> = server.own().iter().filter(|own| own.name == "listen").collect();
        let tls = |listen: &&Directive| ssl || listen.args.iter().any(|arg| arg == "ssl" || arg == "quic");
        let scheme = match (listens.iter().all(tls), listens.iter().any(tls)) {
            (_, false) => Some("http"),
            (true, true) => Some("https"),
            (false, true) => None,
        };
        let trusts = !scope.all("set_real_ip_from").is_empty();
        Server { trusts, scheme }
    }
}

/// The scheme of all clients of the server, if there is one.
pub(crate) fn scheme(scope: &Scope<'_>) -> Option<&'static str> {
    Server::of(scope).scheme
}

/// Whether no client of the server uses TLS, and no proxy may say that one does.
pub(crate) fn is_plain(scope: &Scope<'_>) -> bool {
    let server = Server::of(scope);
    !server.trusts && server.scheme == Some("http")
}

/// Whether the value is this variable and nothing else.
fn is(value: &str, names: &[&str]) -> bool {
    let bare = value.strip_prefix("${").and_then(|value| value.strip_suffix('}')).or(value.strip_prefix('$'));
    bare.is_some_and(|bare| names.contains(&bare))
}

/// A value that is what this field of the request says: by itself, or by a `map` that has something else where it is empty.
fn is_field_of_request(cx: &Context<'_>, lower: &str, value: &str) -> bool {
    let variable = format!("${}", format!("http_{lower}").replace('-', "_"));
    value == variable || cx.map(value).is_some_and(|map| map.arg(0) == variable)
}

const NAME_THE_PROXY: &str =
    "what a client says there is believed of `trusted_proxies` alone: name the proxy in front there";

/// What becomes of a field that Maitred writes itself; `None` if it writes none of this name.
fn told(cx: &Context<'_>, scope: &Scope<'_>, lower: &str, value: &str) -> Option<(Kind, &'static str)> {
    let server = Server::of(scope);
    let from_request = is_field_of_request(cx, lower, value);
    let passed = server.passed();
    Some(match lower {
        "x-forwarded-for" => forwarded_for(server, value),
        "x-forwarded-proto" => forwarded_proto(server, value, from_request),
        "x-forwarded-host" => forwarded_host(server, value, from_request),
        "forwarded" => match value.is_empty() {
            true => (Kind::Choice, "the field is always there, and true"),
            false => (Kind::Better, "it is by RFC 7239, and what a client writes there itself is dropped"),
        },
        "x-request-id" => match value {
            _ if is(value, &["request_id"]) && !server.trusts => {
                (Kind::NotNeeded, "each request has a new id in this field")
            }
            _ if is(value, &["request_id"]) => {
                (Kind::Choice, "the id of trusted proxies goes on, where there is one")
            }
            _ if from_request && server.trusts => passed,
            _ if from_request => {
                (Kind::Choice, "each request has a new id in this field, whatever a client writes there")
            }
            _ => (Kind::Worse, "the id of the request is in this field"),
        },
        "x-request-start" | "x-queue-start" if lower == "x-request-start" && value.contains("msec") => {
            match value {
                "t=${msec}" | "t=$msec" => {
                    (Kind::NotNeeded, "it is the time at which the request has begun, in this form")
                }
                _ => (Kind::Choice, "it begins with `t=`"),
            }
        }
        "early-data" => (Kind::NotNeeded, "no early data is taken"),
        _ if lower.starts_with("x-ssl-") => of_tls(lower, value),
        _ if maitred_own(lower) => (Kind::Worse, "the field is Maitred's own"),
        _ => return None,
    })
}

/// `X-Forwarded-For`
fn forwarded_for(server: Server, value: &str) -> (Kind, &'static str) {
    match value {
        _ if is(value, &["proxy_add_x_forwarded_for"]) && !server.trusts => (
            Kind::Better,
            "it is the address of the connection alone: what a client writes there itself is dropped",
        ),
        _ if is(value, &["remote_addr", "realip_remote_addr"]) && !server.trusts => {
            (Kind::NotNeeded, "`X-Forwarded-For` is this address")
        }
        _ if is(
            value,
            &["remote_addr", "realip_remote_addr", "proxy_add_x_forwarded_for", "http_x_forwarded_for"],
        ) && server.trusts =>
        {
            (Kind::Choice, "it is what trusted proxies say, and the address of the proxy behind it")
        }
        "" => (Kind::Choice, "the field is always there, and true"),
        _ => (Kind::Worse, NAME_THE_PROXY),
    }
}

/// `X-Forwarded-Proto`
fn forwarded_proto(server: Server, value: &str, from_request: bool) -> (Kind, &'static str) {
    match value {
        _ if is(value, &["scheme"]) && !server.trusts => {
            (Kind::NotNeeded, "`X-Forwarded-Proto` is the scheme")
        }
        _ if is(value, &["scheme"]) => {
            (Kind::Better, "it is the scheme that the client has used, by trusted proxies")
        }
        _ if Some(value) == server.scheme => (Kind::NotNeeded, "`X-Forwarded-Proto` is the scheme"),
        _ if from_request => server.passed(),
        _ => (
            Kind::Worse,
            "it is the scheme of the connection, or what `trusted_proxies` say: name the proxy in front there",
        ),
    }
}

/// `X-Forwarded-Host`
fn forwarded_host(server: Server, value: &str, from_request: bool) -> (Kind, &'static str) {
    match value {
        _ if from_request => server.passed(),
        _ if is(value, &["http_host"]) => (Kind::NotNeeded, "`X-Forwarded-Host` is the host of the request"),
        _ if value.contains("host") || is(value, &["server_name"]) => {
            (Kind::Choice, "it is what the client has written in `Host`, with the port that it has named")
        }
        _ => (Kind::Worse, "it is what the client has written in `Host`"),
    }
}

fn maitred_own(lower: &str) -> bool {
    ["x-request-start", "x-queue-start"].contains(&lower)
}

/// `X-SSL-…`, which Maitred has of each connection.
fn of_tls(lower: &str, value: &str) -> (Kind, &'static str) {
    let same = [
        ("x-ssl-client-verify", "ssl_client_verify"),
        ("x-ssl-client-s-dn", "ssl_client_s_dn"),
        ("x-ssl-client-serial", "ssl_client_serial"),
        ("x-ssl-protocol", "ssl_protocol"),
        ("x-ssl-cipher", "ssl_cipher"),
    ];
    match same.iter().any(|(name, variable)| *name == lower && is(value, &[variable])) {
        true => (Kind::NotNeeded, "it is there of each connection with TLS"),
        false => (
            Kind::Worse,
            "applications get `X-SSL-Client-Verify`, `-S-DN`, `-Serial` and `-Fingerprint`, `X-SSL-Protocol` and `-Cipher`",
        ),
    }
}

/// Whether a `proxy_set_header` gives the server the host that `proxy_pass` names.
pub(crate) fn names_server(directive: &Directive) -> bool {
    let named = ["$proxy_host", "${proxy_host}", "$proxy_host:$proxy_port"].contains(&directive.arg(1));
    named && directive.arg(0).eq_ignore_ascii_case("host")
}

/// The `Host` that a server gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Host {
    /// The client's.
    Client,
    /// What `$proxy_host` stands for.
    Server,
    /// A fixed one.
    Named(String),
}

/// What `proxy_set_header` says of `Host`; that of the server, if it says nothing.
pub(crate) fn host(cx: &Context<'_>, scope: &Scope<'_>, directive: &Directive) -> Host {
    let value = directive.arg(1);
    if names_server(directive) {
        cx.translated(directive);
        return Host::Server;
    }
    if let Some(fixed) = values::fixed(value, scope).filter(|fixed| is_authority(fixed)) {
        cx.translated(directive);
        return Host::Named(fixed);
    }
    if let Some(filled) = values::filled(value, scope).ok().map(|filled| write::written(&filled))
        && is_authority(&filled.replace("{host}", "0").replace("{port}", "0"))
        && !is(value, &["http_host"])
    {
        cx.translated(directive);
        return Host::Named(filled);
    }
    match value {
        _ if is(value, &["http_host"]) => cx.not_needed(directive, "`Host` is the client's"),
        _ if is(value, &["http_x_forwarded_host"]) => cx.say(directive, Kind::Worse, NAME_THE_PROXY),
        _ => cx.not_possible(directive, "`Host` is the client's, the server's or a fixed one"),
    }
    Host::Client
}

fn is_authority(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~:[]".contains(&byte))
}

/// What `proxy_set_header` says of `Host` alone.
pub(crate) fn host_of(cx: &Context<'_>, scope: &Scope<'_>) -> Host {
    let all = scope.all("proxy_set_header");
    let given = all.into_iter().rfind(|directive| directive.arg(0).eq_ignore_ascii_case("host"));
    given.map_or(Host::Server, |directive| host(cx, scope, directive))
}

/// Fields that describe a request.
const DESCRIBING: &[&str] =
    &["x-original-uri", "x-original-url", "x-original-method", "x-original-host", "x-real-ip", "x-scheme"];

/// A field of the question whether a client may. `described`: the other server is known to look at `X-Forwarded-*`.
pub(crate) fn of_question(cx: &Context<'_>, scope: &Scope<'_>, directive: &Directive, described: bool) {
    let (lower, value) = (directive.arg(0).to_ascii_lowercase(), directive.arg(1));
    const IS_TOLD: &str =
        "the question has the method, the target, the host, the scheme and the address in `X-Forwarded-*`";
    match lower.as_str() {
        "host" => {}
        "x-forwarded-method" if is(value, &["request_method"]) => cx.not_needed(directive, IS_TOLD),
        "x-forwarded-uri" if is(value, &["request_uri"]) => cx.not_needed(directive, IS_TOLD),
        lower if OF_HOP.contains(&lower) => cx.not_needed(directive, "the question has no body"),
        lower if is_field_of_request(cx, lower, value) && !maitred_config::is_claim(lower) => {
            cx.not_needed(directive, "the question has the client's own fields");
        }
        lower => match told(cx, scope, lower, value) {
            Some((kind, why)) => cx.say(directive, kind, why),
            None if described => cx.not_needed(directive, IS_TOLD),
            None if DESCRIBING.contains(&lower) || lower.starts_with("x-forwarded-") => {
                cx.say(directive, Kind::Worse, IS_TOLD);
            }
            None => cx.not_possible(
                directive,
                "the other server gets the request's own fields, and those about it",
            ),
        },
    }
}

/// One field of a request.
pub(crate) fn field(
    cx: &Context<'_>,
    scope: &Scope<'_>,
    directive: &Directive,
    (name, value): (&str, &str),
    rules: &mut Vec<Header>,
) {
    let lower = name.to_ascii_lowercase();
    if OF_HOP.contains(&lower.as_str()) {
        return cx.not_needed(
            directive,
            "connections have these fields for themselves, and WebSockets are passed on",
        );
    }
    if lower == "proxy" && value.is_empty() {
        return cx.not_needed(directive, "the field never goes on");
    }
    if let Some((kind, why)) = told(cx, scope, &lower, value) {
        return cx.say(directive, kind, why);
    }
    if is_field_of_request(cx, &lower, value) && !value.is_empty() {
        return match maitred_config::is_claim(name) {
            false => cx.not_needed(directive, "fields of requests are passed on"),
            true if !scope.all("set_real_ip_from").is_empty() => {
                cx.say(
                    directive,
                    Kind::Choice,
                    "what trusted proxies say there goes on (`trusted_fields` of the pool)",
                );
            }
            true => cx.say(directive, Kind::Worse, NAME_THE_PROXY),
        };
    }
    if value.contains("$ssl_client") {
        return match value.contains("cert") {
            true => cx.not_possible(
                directive,
                "no field has the certificate itself: `X-SSL-Client-*` are what is known of it",
            ),
            false => {
                cx.say(directive, Kind::Worse, "what is known of the certificate is in `X-SSL-Client-*`")
            }
        };
    }
    let rule = |how, value: String| Header { how, name: name.to_owned(), value };
    match values::filled(value, scope) {
        Ok(value) if value.trim().is_empty() => {
            cx.translated(directive);
            rules.push(rule(How::Remove, String::new()));
        }
        Ok(value) => {
            cx.translated(directive);
            rules.retain(|known: &Header| !known.name.eq_ignore_ascii_case(name));
            rules.push(rule(How::Set, value.trim().to_owned()));
        }
        Err(why) => cx.not_possible(directive, why),
    }
}
