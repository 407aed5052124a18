//! `resolve` and `endpoints` of a pool, and `resolver` of `[server]`.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use super::super::discovery::{Discovery, Found, Name, Query};
use super::super::finding::At;
use super::super::reader::{Section, shorten};
use maitred_base::bounds::SERVERS_MAX;

/// `resolver`
pub(super) fn resolver(section: &Section<'_>) -> Vec<SocketAddr> {
    let address = |text: &At<String>| {
        let plain = text.value.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 53));
        let read = text.value.parse().or(plain).ok().filter(|address: &SocketAddr| address.port() != 0);
        let read = read
            .ok_or_else(|| "it takes an IP address such as \"192.0.2.53\" or \"127.0.0.1:5353\"".to_owned());
        let what = format!("`resolver`: \"{}\" is not the address of a name server", shorten(&text.value));
        section.cx.accept(&text.span, &what, read)
    };
    section.texts("resolver").iter().filter_map(address).collect()
}

/// A name that is resolved again and again; `None` for an address.
pub(super) fn name(section: &Section<'_>, authority: &str, with_port: &str) -> Option<Name> {
    let (host, port) = with_port.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    if !section.flag("resolve") || host.starts_with('[') || host.parse::<IpAddr>().is_ok() {
        return None;
    }
    let query = Query { host: host.to_owned(), srv: false };
    // Requests that come before the first answer find these. What cannot be found now may be there later.
    let first = match section.cx.resolver_given.get() {
        true => Vec::new(),
        false => with_port.to_socket_addrs().into_iter().flatten().take(SERVERS_MAX).collect(),
    };
    let first = first.into_iter().map(|address| Found::plain(address.ip())).collect();
    Some(Name { query, port, authority: authority.to_owned(), first })
}

/// The name of a service, `_http._tcp.example.com`.
pub(super) fn service(host: &str) -> Result<Name, String> {
    let host = host.strip_suffix('/').unwrap_or(host);
    let label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(is_of_name);
    if host.len() > 253 || !host.trim_end_matches('.').split('.').all(label) {
        return Err(
            "it takes the name of a service, such as \"http+srv://_http._tcp.example.com\"".to_owned()
        );
    }
    let query = Query { host: host.to_owned(), srv: true };
    Ok(Name { query, port: 0, authority: host.to_owned(), first: Vec::new() })
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

/// What is found, of a pool with these names.
pub(super) fn of(section: &Section<'_>, names: Vec<Name>, is_for_servers: bool) -> Discovery {
    let given = ["resolve", "endpoints"].into_iter().filter_map(|key| Some((key, section.given(key)?)));
    for (key, span) in given.filter(|_| !is_for_servers) {
        let why = "it is for a pool with `connect` to HTTP or FastCGI servers";
        section.cx.warn(&span, format!("`{key}` has no effect"), why);
    }
    if names.len() > Discovery::NAMES_MAX {
        let message = format!("`connect` has more than {} names to resolve", Discovery::NAMES_MAX);
        section.cx.error(&section.given("connect").unwrap_or_else(|| section.span.clone()), message);
    }
    if let (Some(span), true) = (section.given("resolve"), names.is_empty() && is_for_servers) {
        let why = "there is no name in `connect`, only addresses";
        section.cx.warn(&span, "`resolve` has no effect".to_owned(), why);
    }
    let file = super::path(section, "endpoints").filter(|_| is_for_servers);
    Discovery { names, file }
}
