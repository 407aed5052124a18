//! What holds for the whole server: accounts, addresses, limits, trusted proxies, the log.

use super::caching;
use super::context::Context;
use super::listeners::Listener;
use super::listens::Server;
use super::logs;
use super::settings::Settings;
use super::shown;
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
    (servers, listeners): (&[Server<'a>], &[Listener<'_, 'a>]),
    sites: &[Site],
) -> Vec<Block> {
    let mut blocks = vec![server(cx, scope, servers)];
    blocks.extend(listens(cx, listeners, sites));
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

fn listens(cx: &Context<'_>, listeners: &[Listener<'_, '_>], sites: &[Site]) -> Vec<Block> {
    let certified = sites.iter().flat_map(|site| &site.certificates).any(|(_, _, there, _)| *there);
    let mut blocks = Vec::new();
    for listener in listeners {
        let mut block = Block::new("[[listen]]");
        block = match listener.listen.directive {
            Some(directive) => block.from(&directive.place, &directive.shown()),
            None => block.from(&listener.default.directive.place, "a server without `listen`"),
        };
        block.push("address", listener.address.as_str(), None);
        if listener.listen.is_unix() {
            block.push("unix_mode", "0666", None);
        }
        if listener.proxy {
            block.push("proxy_protocol", true, None);
        }
        if listener.tls {
            block.push("tls", tls(cx, listener), None);
            if listener.http3 {
                block.push("http3", true, None);
            }
            if !certified {
                block.off = Some("no site has a certificate on this machine: see the comments there".into());
            }
        } else if listener.redirects {
            match certified {
                true => block.push("redirect_http", true, None),
                false => block.push_off("redirect_http", true, None, "there is an address with `tls`"),
            }
            if let Some(status) = listener.redirect_status().filter(|status| certified && *status != 308) {
                block.push("redirect_status", u64::from(status), None);
            }
        }
        blocks.push(block);
    }
    blocks
}

/// The keys of `tls`, of the first server of the address.
fn tls(cx: &Context<'_>, listener: &Listener<'_, '_>) -> Value {
    let mut entries = Vec::new();
    for server in &listener.servers {
        let Some(directive) = server.scope.last("ssl_protocols") else { continue };
        let known: Vec<&str> = [("TLSv1.2", "1.2"), ("TLSv1.3", "1.3")]
            .into_iter()
            .filter(|(name, _)| directive.args.iter().any(|arg| arg == name))
            .map(|(_, version)| version)
            .collect();
        match directive.args.iter().any(|arg| !["TLSv1.2", "TLSv1.3"].contains(&arg.as_str())) {
            true => cx.say(directive, Kind::Better, "TLS before 1.2 is not safe any more, and is not there"),
            false => cx.translated(directive),
        }
        if known.len() == 1 && entries.is_empty() {
            entries.push(("versions".to_owned(), Value::texts(&known)));
        }
    }
    shown::of_listener(cx, listener, &mut entries);
    Value::Table(entries)
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
