//! `[[listen]]`

use std::net::SocketAddr;

use super::super::finding::{At, Span};
use super::super::listen::{Buckets, Listen};
use super::super::reader::{Section, shorten};
use super::super::values;
use super::super::values::Network;
use super::tls;

/// Gives back, with each, where what it says about TLS stands.
pub(super) fn listens(root: &Section<'_>, trusted: &[Network]) -> Vec<(Listen, tls::Spans)> {
    let sections = root.sections("listen");
    if sections.is_empty() && root.given("listen").is_none() {
        root.cx.missing(
            &root.span,
            "there is no [[listen]], so that no client could connect",
            "add [[listen]] with address = \":8080\"",
        );
    }
    let mut listens: Vec<(Listen, Span)> = Vec::new();
    let mut spans = Vec::new();
    for section in &sections {
        for (listen, span) in listen(section, trusted) {
            let same = listens
                .iter()
                .find(|(other, _)| other.address == listen.address && !listen.address.is_any_port());
            if let Some((_, other)) = same {
                let message = format!("the address {} is listed twice", listen.address);
                root.cx.conflict(&span, message, "it is first listed here", other);
            }
            listens.push((listen, span));
            spans.push(tls::Spans::of(section));
        }
    }
    listens.into_iter().map(|(listen, _)| listen).zip(spans).collect()
}

/// One for each address of an entry.
fn listen(section: &Section<'_>, trusted: &[Network]) -> Vec<(Listen, Span)> {
    let buckets = super::pools::buckets(section);
    let steer_by_cpu = section.flag("steer_by_cpu");
    if let (true, Buckets::Number(1), Some(span)) = (steer_by_cpu, buckets, section.given("steer_by_cpu")) {
        section.cx.warn(
            &span,
            "`steer_by_cpu` has no effect",
            "with `buckets = 1` there is nothing to choose from",
        );
    }
    let backlog = section.number("backlog").value;
    let defer_accept = section.flag("defer_accept");
    let proxy_protocol_from = proxy_protocol_from(section, trusted);
    let tls = tls::listener(section);
    let http2 = section.flag("http2");
    let redirect_http = section.flag("redirect_http");
    if let Some(span) = section.empty_array("address") {
        section.cx.error_with(
            &span,
            "`address` is empty",
            "it takes at least one address, such as \":8080\"",
        );
    }
    let address = |text: &At<String>| {
        let what = format!("`address`: \"{}\" is not an address to listen on", shorten(&text.value));
        section.cx.accept(&text.span, &what, values::listen_address(&text.value))
    };
    let listen = |address: SocketAddr| Listen {
        address: address.into(),
        buckets,
        backlog,
        steer_by_cpu,
        defer_accept,
        proxy_protocol_from: proxy_protocol_from.clone(),
        tls: tls.clone(),
        http2,
        redirect_http,
    };
    let texts = section.texts("address");
    texts.iter().filter_map(|text| Some((listen(address(text)?), text.span.clone()))).collect()
}

/// Peers that may send a PROXY header. Such a peer can claim to be any client, so that the list is never open to all
/// addresses.
fn proxy_protocol_from(section: &Section<'_>, trusted: &[Network]) -> Option<Vec<Network>> {
    let given = section.given("proxy_protocol_from");
    let networks = super::networks(section, "proxy_protocol_from");
    if !section.flag("proxy_protocol") {
        if let Some(span) = given {
            section.cx.warn(
                &span,
                "`proxy_protocol_from` has no effect",
                "this address has no `proxy_protocol = true`",
            );
        }
        return None;
    }
    if let Some(span) = section.empty_array("proxy_protocol_from") {
        section.cx.error_with(
            &span,
            "`proxy_protocol_from` is empty, so that no client could connect",
            "name the proxies that connect to this address",
        );
    }
    match given {
        Some(_) => Some(networks),
        None => Some(super::LOOPBACK.iter().chain(trusted).copied().collect()),
    }
}
