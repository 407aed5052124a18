//! `[trace]`

use std::net::SocketAddr;

use super::super::finding::At;
use super::super::reader::{Section, shorten};
use super::super::trace::{Continued, OTLP_PATH, OTLP_PORT, Otlp, Trace};

/// `[trace]`; `None` if it is not there.
pub(super) fn trace(root: &Section<'_>) -> Option<Trace> {
    let section = root.section("trace");
    let given = root.key_span("trace");
    let trace = Trace {
        sample: section.number("sample").value,
        parent: match section.choice("parent") {
            Some("any") => Continued::Any,
            Some("none") => Continued::None,
            _ => Continued::Proxies,
        },
        otlp: section.text("otlp").and_then(|text| otlp(&section, &text)),
        service: section.text("service").map(|text| text.value).unwrap_or_default(),
    };
    given.map(|_| trace)
}

fn otlp(section: &Section<'_>, text: &At<String>) -> Option<Otlp> {
    const HINT: &str = "it starts with http://, as in \"http://127.0.0.1:4318\"; a collector on this machine can send on by TLS";
    let wrong = |why: &str| {
        let message = format!("`otlp`: \"{}\" is not the URL of a collector: {why}", shorten(&text.value));
        section.cx.error_with(&text.span, message, HINT);
        None
    };
    let Some(rest) = text.value.strip_prefix("http://") else { return wrong("it has another scheme") };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if host.is_empty() || host.contains('@') || text.value.parse::<http::Uri>().is_err() || path.contains('#')
    {
        return wrong("there is no host, or more than host, port and path");
    }
    let with_port = match host.rsplit(']').next().is_some_and(|end| end.contains(':')) {
        true => host.to_owned(),
        false => format!("{host}:{OTLP_PORT}"),
    };
    let address = match address(&with_port) {
        Ok(address) => address,
        Err(why) => return wrong(&why),
    };
    let path = if path.len() < 2 { OTLP_PATH } else { path };
    Some(Otlp { url: text.value.clone(), address, host: with_port, path: path.to_owned() })
}

fn address(host: &str) -> Result<SocketAddr, String> {
    use std::net::ToSocketAddrs as _;
    let mut found = host.to_socket_addrs().map_err(|error| error.to_string())?;
    found.next().ok_or_else(|| "its name has no address".to_owned())
}
