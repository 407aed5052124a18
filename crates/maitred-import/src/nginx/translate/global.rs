//! What holds for the whole server: accounts, addresses, limits, trusted proxies, the log.

use super::caching;
use super::context::{Context, in_conf};
use super::listens::Listen;
use super::logs;
use super::servers::{self, Server};
use super::settings::Settings;
use crate::drafts::Site;
use crate::model::{Block, Value};
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::report::Kind;
use crate::write;
use maitred_config::{Lookup as _, System};

/// The tables before the sites.
pub(crate) fn blocks<'a>(
    cx: &Context<'a>,
    scope: &Scope<'a>,
    servers: &[Server<'a>],
    sites: &[Site],
) -> Vec<Block> {
    let mut blocks = vec![server(cx, scope, servers)];
    blocks.extend(listens(cx, servers, sites));
    blocks.push(limits(cx, scope, servers, sites));
    blocks.push(logs::table_of_all(cx, scope));
    blocks.push(caching::store(cx, scope));
    blocks.retain(|block| !block.entries.is_empty());
    blocks
}

fn server(cx: &Context<'_>, scope: &Scope<'_>, servers: &[Server<'_>]) -> Block {
    let mut block = Block::new("[server]");
    if let Some(directive) = scope.last("user") {
        let name = directive.arg(0);
        let there = name != "root" && System.user(name).is_ok_and(|user| user.is_some());
        match there && System.is_root() {
            true => {
                cx.translated(directive);
                block.push("user", name, Some(&directive.place));
            }
            false => cx.say(
                directive,
                Kind::Choice,
                "Maitred has an account of its own, `maitred`; `user` in [server] names another one",
            ),
        }
    }
    let mut proxies: Vec<String> = Vec::new();
    let mut from: Option<String> = None;
    for scope in std::iter::once(scope).chain(servers.iter().map(|server| &server.scope)) {
        for directive in scope.all("set_real_ip_from") {
            trusted(cx, directive, &mut proxies);
        }
        let Some(header) = scope.last("real_ip_header") else { continue };
        match header.arg(0).to_ascii_lowercase().as_str() {
            "x-forwarded-for" | "forwarded" | "proxy_protocol" => {
                cx.not_needed(header, "what trusted proxies say is used")
            }
            _ if scope.all("set_real_ip_from").is_empty() => {
                cx.not_needed(header, "without `set_real_ip_from` it has no effect");
            }
            _ if from.as_deref().is_some_and(|known| !known.eq_ignore_ascii_case(header.arg(0))) => {
                cx.not_possible(header, "the client's address comes from one field, for all sites");
            }
            _ => {
                cx.translated(header);
                from = Some(header.arg(0).to_owned());
            }
        }
        if let Some(directive) = scope.last("real_ip_recursive") {
            cx.not_needed(directive, "the last address that is no trusted proxy is the client's");
        }
    }
    if !proxies.is_empty() {
        block.push("trusted_proxies", Value::texts(&proxies), None);
        if let Some(field) = from {
            block.push("client_address_from", field, None);
        }
    }
    block
}

/// `set_real_ip_from`
fn trusted(cx: &Context<'_>, directive: &Directive, proxies: &mut Vec<String>) {
    let network = match directive.arg(0) {
        "unix:" => "unix",
        network if network.parse::<std::net::IpAddr>().is_ok() || network.contains('/') => network,
        _ => return cx.not_possible(directive, "proxies are addresses and networks"),
    };
    cx.translated(directive);
    if !proxies.iter().any(|known| known == network) {
        proxies.push(network.to_owned());
    }
}

fn listens(cx: &Context<'_>, servers: &[Server<'_>], sites: &[Site]) -> Vec<Block> {
    let certified = sites.iter().flat_map(|site| &site.certificates).any(|(_, _, there, _)| *there);
    let tls_there = servers.iter().flat_map(|server| &server.listens).any(|listen| listen.tls);
    let mut addresses: Vec<(&Listen<'_>, &Server<'_>)> = Vec::new();
    for server in servers {
        for listen in &server.listens {
            if !addresses.iter().any(|(known, _)| known.address == listen.address) {
                addresses.push((listen, server));
            }
        }
    }
    // An address of IPv6 takes the clients of IPv4 as well.
    let both = |port: u16| {
        let v6 = format!("[::]:{port}");
        addresses.iter().any(|(listen, _)| listen.address == v6)
    };
    let needed = |listen: &Listen<'_>| listen.address != format!(":{}", listen.port) || !both(listen.port);
    let mut blocks = Vec::new();
    for (listen, server) in addresses.iter().filter(|(listen, _)| needed(listen)) {
        let mut block = Block::new("[[listen]]");
        block = match listen.directive {
            Some(directive) => block.from(&directive.place, &directive.shown()),
            None => block.from(&server.directive.place, "a server without `listen`"),
        };
        block.push("address", listen.address.as_str(), None);
        if listen.is_unix() {
            block.push("unix_mode", "0666", None);
        }
        let same = servers.iter().flat_map(|server| &server.listens).filter(|other| {
            other.class() == listen.class()
                && (other.is_unix() == listen.is_unix() || other.address == listen.address)
        });
        if same.clone().any(|other| other.proxy) {
            block.push("proxy_protocol", true, None);
        }
        if listen.tls {
            block.push("tls", tls(cx, servers, listen), None);
            // What takes the place of an address of IPv4 has its clients.
            let is_here = |other: &Listen<'_>| {
                other.address == listen.address
                    || listen.address.starts_with("[::]") && other.address.starts_with(':')
            };
            if same.clone().any(|other| other.http3 && is_here(other)) {
                block.push("http3", true, None);
            }
            if !certified {
                block.off = Some("no site has a certificate on this machine: see the comments there".into());
            }
        } else if servers::is_redirected(servers, listen.class(), tls_there) {
            match certified {
                true => block.push("redirect_http", true, None),
                false => block.push_off("redirect_http", true, None, "there is an address with `tls`"),
            }
        }
        blocks.push(block);
    }
    blocks
}

/// The keys of `tls`, of the first server of the address.
fn tls(cx: &Context<'_>, servers: &[Server<'_>], listen: &Listen<'_>) -> Value {
    let mut entries = Vec::new();
    let of =
        servers.iter().filter(|server| server.listens.iter().any(|other| other.class() == listen.class()));
    for server in of {
        if let Some(directive) = server.scope.last("ssl_protocols") {
            let known: Vec<&str> = [("TLSv1.2", "1.2"), ("TLSv1.3", "1.3")]
                .into_iter()
                .filter(|(name, _)| directive.args.iter().any(|arg| arg == name))
                .map(|(_, version)| version)
                .collect();
            match directive.args.iter().any(|arg| !["TLSv1.2", "TLSv1.3"].contains(&arg.as_str())) {
                true => {
                    cx.say(directive, Kind::Better, "TLS before 1.2 is not safe any more, and is not there")
                }
                false => cx.translated(directive),
            }
            if known.len() == 1 && entries.is_empty() {
                entries.push(("versions".to_owned(), Value::texts(&known)));
            }
        }
        client_auth(cx, &server.scope, &mut entries);
    }
    Value::Table(entries)
}

fn client_auth(cx: &Context<'_>, scope: &Scope<'_>, entries: &mut Vec<(String, Value)>) {
    let Some(directive) = scope.last("ssl_verify_client").filter(|directive| directive.arg(0) != "off")
    else {
        return;
    };
    let authority =
        scope.last("ssl_client_certificate").map(|directive| (directive, in_conf(directive.arg(0))));
    let wanted = match directive.arg(0) {
        "on" => "required",
        "optional" => "optional",
        _ => return cx.not_possible(directive, "certificates of clients are verified by the server"),
    };
    match authority.filter(|(_, file)| cx.machine.has_file(file)) {
        Some((given, file)) if !entries.iter().any(|(key, _)| key == "client_auth") => {
            cx.translated(directive);
            cx.translated(given);
            entries.push(("client_auth".to_owned(), wanted.into()));
            entries.push(("client_ca".to_owned(), file.into()));
        }
        Some(_) => {}
        None => cx.not_possible(directive, "the certificate of the authority is not there on this machine"),
    }
}

fn limits(cx: &Context<'_>, scope: &Scope<'_>, servers: &[Server<'_>], sites: &[Site]) -> Block {
    let mut block = Block::new("[limits]");
    let largest = sites.iter().flat_map(|site| &site.routes).filter_map(|route| route.body_max).max();
    write::room_for_bodies(&mut block, largest);
    let scopes = || std::iter::once(scope).chain(servers.iter().map(|server| &server.scope));
    if let Some((directive, millis)) = (Settings { cx, scope }).time("keepalive_timeout") {
        match millis {
            0 => cx.say(directive, Kind::Choice, "connections of HTTP/1.1 stay open for a while"),
            75_000 => cx.not_needed(directive, "this is the default"),
            millis => {
                cx.translated(directive);
                block.push("keep_alive_timeout", write::time(millis.min(86_400_000)), Some(&directive.place));
            }
        }
    }
    let given = scopes().find_map(|scope| Settings { cx, scope }.time("client_header_timeout"));
    match given {
        None => {}
        Some((directive, 60_000)) => {
            cx.not_needed(directive, "heads have a time and a minimal rate by default")
        }
        Some((directive, millis)) => {
            cx.translated(directive);
            block.push("head_timeout", write::time(millis.clamp(1000, 86_400_000)), Some(&directive.place));
        }
    }
    block
}
