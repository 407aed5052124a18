//! Addresses that servers name: made absolute, and with what is a server's own in place of its port and address.

use std::collections::BTreeMap;

/// How one server is reached, and how it is asked for.
#[derive(Debug, Clone, Default)]
pub(super) struct Own {
    /// `http` or `https`.
    pub(super) scheme: &'static str,
    /// `Host` of the request.
    pub(super) asked: String,
    /// The host that is connected to.
    pub(super) host: String,
    /// The ports of this server, each with the one that it stands for.
    pub(super) ports: BTreeMap<u16, u16>,
    /// The address of the upstream server, if one was started.
    pub(super) upstream: Option<String>,
}

/// What a host that is an upstream's address is replaced by.
const UPSTREAM: &str = "(upstream)";

impl Own {
    /// A host and port as they are compared.
    pub(super) fn authority(&self, text: &str, scheme: &str) -> String {
        if self.upstream.as_deref().is_some_and(|upstream| upstream.eq_ignore_ascii_case(text)) {
            return UPSTREAM.to_owned();
        }
        let (host, port) = split_port(text);
        let (asked, asked_port) = split_port(&self.asked);
        // A last dot names the same host (RFC 1034 section 3.1).
        let canonical = |host: &str| host.trim_end_matches('.').to_ascii_lowercase();
        let host = canonical(host);
        let host = if host == canonical(&self.host) { canonical(asked) } else { host };
        let port = port.map(|port| self.ports.get(&port).copied().unwrap_or(port));
        let port = port.filter(|port| *port != port_default(scheme));
        // A server that does not know the port that it is asked for by, and one that does: the same, if the asked one is there.
        let asked_port = asked_port.map(|port| self.ports.get(&port).copied().unwrap_or(port));
        match port {
            Some(port) if Some(port) == asked_port || scheme != self.scheme || asked_port.is_some() => {
                format!("{host}:{port}")
            }
            Some(port) if self.ports.values().any(|own| *own == port) => host,
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    }

    /// A port as it is compared.
    pub(super) fn port(&self, text: &str) -> String {
        let own = text.parse::<u16>().ok().and_then(|port| self.ports.get(&port));
        own.map_or_else(|| text.to_owned(), u16::to_string)
    }

    /// All hosts in a text such as that of `Forwarded`.
    pub(super) fn hosts_in(&self, text: &str) -> String {
        let part = |part: &str| match part.split_once('=') {
            Some((name, host)) if name.trim().eq_ignore_ascii_case("host") => {
                format!("host={}", self.authority(host.trim_matches('"'), self.scheme))
            }
            None if !part.contains([' ', '"']) => self.authority(part, self.scheme),
            _ => part.trim().to_owned(),
        };
        let element = |element: &str| element.split(';').map(part).collect::<Vec<_>>().join(";");
        text.split(',').map(|text| element(text.trim())).collect::<Vec<_>>().join(", ")
    }

    /// A reference, resolved against the target of the request (RFC 3986 section 5.2).
    pub(super) fn absolute(&self, reference: &str, target: &str) -> String {
        let here = self.authority(&self.asked, self.scheme);
        if let Some((scheme, rest)) = reference.split_once("://").filter(|(scheme, _)| is_scheme(scheme)) {
            return self.joined(&scheme.to_ascii_lowercase(), rest);
        }
        if let Some(rest) = reference.strip_prefix("//") {
            return self.joined(self.scheme, rest);
        }
        if reference.split(['/', '?', '#']).next().is_some_and(|start| start.contains(':')) {
            return reference.to_owned();
        }
        let (reference, fragment) = match reference.split_once('#') {
            Some((reference, fragment)) => (reference, format!("#{fragment}")),
            None => (reference, String::new()),
        };
        let (path, query) = match reference.split_once('?') {
            Some((path, query)) => (path, format!("?{query}")),
            None => (reference, String::new()),
        };
        let base = target.split('?').next().unwrap_or_default();
        let path = match path {
            "" if query.is_empty() => target.to_owned(),
            "" => base.to_owned(),
            path if path.starts_with('/') => path.to_owned(),
            path => {
                let directory = base.rfind('/').map_or("/", |at| base.get(..=at).unwrap_or("/"));
                without_dots(&format!("{directory}{path}"))
            }
        };
        format!("{}://{here}{path}{query}{fragment}", self.scheme)
    }

    fn joined(&self, scheme: &str, rest: &str) -> String {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let slash = if path.starts_with('/') { "" } else { "/" };
        format!("{scheme}://{}{slash}{path}", self.authority(authority, scheme))
    }
}

fn is_scheme(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

fn port_default(scheme: &str) -> u16 {
    if scheme == "https" { 443 } else { 80 }
}

/// Host and port of an authority.
pub(super) fn split_port(text: &str) -> (&str, Option<u16>) {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => match port.parse() {
            Ok(port) => (host, Some(port)),
            Err(_) => (text, None),
        },
        _ => (text, None),
    }
}

/// A path without `.` and `..` (RFC 3986 section 5.2.4).
fn without_dots(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let mut ends_in_slash = false;
    for part in path.split('/').skip(1) {
        ends_in_slash = matches!(part, "." | "..");
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let slash = if ends_in_slash && !parts.is_empty() { "/" } else { "" };
    format!("/{}{slash}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(port: u16, asked: &str) -> Own {
        Own {
            scheme: "http",
            asked: asked.to_owned(),
            host: "127.0.0.1".to_owned(),
            ports: BTreeMap::from([(port, 80), (port + 1, 443)]),
            upstream: Some("127.0.0.1:9001".to_owned()),
        }
    }

    #[test]
    fn references_become_absolute() {
        let own = own(8081, "a.example");
        for (reference, absolute) in [
            ("/b", "http://a.example/b"),
            ("b", "http://a.example/x/b"),
            ("./b/", "http://a.example/x/b/"),
            ("../b?c#d", "http://a.example/b?c#d"),
            ("../../../b", "http://a.example/b"),
            ("..", "http://a.example/"),
            ("?c", "http://a.example/x/y?c"),
            ("", "http://a.example/x/y?z"),
            ("#f", "http://a.example/x/y?z#f"),
            ("//B.example/c", "http://b.example/c"),
            ("HTTP://A.example", "http://a.example/"),
            ("http://a.example:8081/c", "http://a.example/c"),
            ("http://a.example:80/c", "http://a.example/c"),
            ("http://127.0.0.1:8081/c", "http://a.example/c"),
            ("https://a.example:8082/c", "https://a.example/c"),
            ("https://a.example/c", "https://a.example/c"),
            ("http://a.example:8083/c", "http://a.example:8083/c"),
            ("mailto:a@b", "mailto:a@b"),
            ("http://b.example/%41/../c", "http://b.example/%41/../c"),
        ] {
            assert_eq!(own.absolute(reference, "/x/y?z"), absolute, "{reference}");
        }
    }

    #[test]
    fn both_sides_say_the_same_of_their_own_ports() {
        let (left, right) = (own(8081, "a.example"), own(18081, "a.example"));
        let absolute = |own: &Own, port| own.absolute(&format!("http://a.example:{port}/"), "/");
        assert_eq!(absolute(&left, 8081), absolute(&right, 18081));
        assert_ne!(absolute(&left, 18081), absolute(&right, 18081));
        assert_eq!(left.port("8081"), right.port("18081"));
        assert_eq!(left.authority("127.0.0.1:9001", "http"), "(upstream)");
        let forwarded =
            |own: &Own, port| own.hosts_in(&format!("for=127.0.0.1;host=\"a.example:{port}\";proto=http"));
        assert_eq!(forwarded(&left, 8081), forwarded(&right, 18081));
    }

    #[test]
    fn a_port_that_was_asked_for_stays() {
        let mut own = own(8081, "a.example:8080");
        own.ports = BTreeMap::from([(8081, 8080)]);
        assert_eq!(own.absolute("/b", "/"), "http://a.example:8080/b");
        assert_eq!(own.absolute("http://a.example:8081/b", "/"), "http://a.example:8080/b");
        assert_eq!(own.absolute("http://a.example/b", "/"), "http://a.example/b");
    }

    #[test]
    fn odd_texts_do_no_harm() {
        let own = own(8081, "[::1]:8081");
        for text in ["", ":", "[", "::1", "[::1]:99999", "http://", "///", "?", "é:1", "http://[::1]:8081"] {
            let _ =
                (own.absolute(text, "*"), own.authority(text, "http"), own.hosts_in(text), own.port(text));
        }
        assert_eq!(own.absolute("http://[::1]:8081/", "/"), own.absolute("/", "/"));
    }
}
