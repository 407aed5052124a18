//! What only a pool of servers has.

use super::super::external::{External, HostRule, MapRedirects, ProxyProtocol};
use super::super::meaning::Source;
use super::super::reader::{Section, shorten};

/// Keys that are for servers of HTTP, and not for FastCGI.
const OF_HTTP: [&str; 1] = ["host"];

/// Keys for all servers.
const OF_SERVERS: [&str; 5] = ["map_redirects", "redirects", "cookies", "retry", "proxy_protocol"];

/// `http2`: whether the servers are spoken to by HTTP/2.
pub(super) fn of(section: &Section<'_>, source: &Source, http2: bool) -> External {
    let is_http = matches!(source, Source::Http(_));
    let warn = |keys: &[&str], what: &str| {
        for (key, span) in keys.iter().filter_map(|key| Some((key, section.given(key)?))) {
            section.cx.warn(&span, format!("`{key}` has no effect"), format!("it is for a pool with {what}"));
        }
    };
    if !is_http {
        warn(&OF_HTTP, "`connect = \"http://…\"` or `\"https://…\"`");
    }
    if source.servers().is_none() {
        warn(&OF_SERVERS, "`connect` to HTTP or FastCGI servers");
        return External::default();
    }
    let host = host(section);
    let cookies = section.section("cookies");
    External {
        host: if is_http { host } else { HostRule::Client },
        map_redirects: match section.flag_or_choice("map_redirects") {
            Ok(true) => MapRedirects::Own,
            Ok(false) => MapRedirects::Off,
            Err(_) => MapRedirects::Paths,
        },
        redirects: pairs(section, "redirects", is_reference, "a path or a URL"),
        cookie_domains: pairs(&cookies, "domain", is_domain, "a domain"),
        cookie_paths: pairs(&cookies, "path", is_path, "a path"),
        retry: super::retry::of(section),
        proxy_protocol: proxy_protocol(section, http2),
    }
}

/// `proxy_protocol`
fn proxy_protocol(section: &Section<'_>, http2: bool) -> Option<ProxyProtocol> {
    let version = match section.choice("proxy_protocol")? {
        "v1" => ProxyProtocol::V1,
        _ => ProxyProtocol::V2,
    };
    if let Some(span) = section.given("proxy_protocol").filter(|_| http2) {
        let message =
            "`proxy_protocol` names one client, and a connection of HTTP/2 has the requests of many";
        let hint = "use HTTP/1 (`http://…`, or no `http2` in `tls`); the servers find the client in `X-Forwarded-For`";
        section.cx.error_with(&span, message, hint);
    }
    Some(version)
}

/// Pairs of which each half passes `is`, which is told whether it is what takes the place of the other.
fn pairs(
    section: &Section<'_>,
    key: &str,
    is: impl Fn(&str, bool) -> bool,
    what: &str,
) -> Vec<(String, String)> {
    let found = section.map(key);
    for (half, becomes) in found.iter().flat_map(|(from, to)| [(from, false), (to, true)]) {
        let text = half.value.as_str();
        if text.len() > 1024 || !is(text, becomes) {
            section
                .cx
                .error(&half.span, format!("`{key}`: \"{}\" is not the beginning of {what}", shorten(text)));
        }
    }
    found.into_iter().map(|(from, to)| (from.value, to.value)).collect()
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\;".contains(&byte))
}

fn is_reference(text: &str, _: bool) -> bool {
    is_plain(text) && (text.starts_with('/') || text.starts_with("http://") || text.starts_with("https://"))
}

fn is_domain(text: &str, becomes: bool) -> bool {
    (becomes && text.is_empty()) || (is_plain(text) && !text.contains(['/', ':', '=']))
}

fn is_path(text: &str, _: bool) -> bool {
    is_plain(text) && text.starts_with('/')
}

fn host(section: &Section<'_>) -> HostRule {
    let Some(text) = section.text("host") else { return HostRule::Client };
    match text.value.as_str() {
        "client" => HostRule::Client,
        "server" => HostRule::Server,
        host => {
            if let Some(filled) = HostRule::filled(host) {
                return filled;
            }
            if !HostRule::is_host(host) {
                let message = format!("`host`: \"{}\" is not the name of a host", shorten(host));
                let hint = "it takes \"client\", \"server\", or a host such as \"app.internal:8080\" or \"{host}:{port}\"";
                section.cx.error_with(&text.span, message, hint);
            }
            HostRule::Named(text.value)
        }
    }
}
