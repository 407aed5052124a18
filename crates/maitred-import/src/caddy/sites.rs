//! Sites, their addresses, and the options for all of them.

use super::access;
use super::matchers::Selector;
use super::routes::{self, State};
use super::tree::Directive;
use super::values;
use crate::drafts::{Match, Route, Site, Target};
use crate::model::{Block, Value};
use crate::report::Kind;
use crate::shared::Shared;
use crate::write;

/// An address of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Address {
    host: Option<String>,
    port: u16,
    tls: bool,
}

/// Options for all sites.
#[derive(Debug, Default)]
struct Options {
    server: Vec<(String, Value)>,
    acme: Vec<(String, Value)>,
    no_https: bool,
    no_redirects: bool,
    ports: (Option<u16>, Option<u16>),
}

/// The tables of a Caddyfile.
pub(crate) fn blocks(cx: &Shared, directives: Vec<Directive>) -> Vec<Block> {
    let (globals, rest): (Vec<Directive>, Vec<Directive>) =
        directives.into_iter().partition(|directive| directive.words.is_empty());
    let mut options = options(cx, &globals);
    let mut found: Vec<(Site, Vec<Address>)> = Vec::new();
    for directive in in_sites(rest) {
        let Some((site, addresses)) = site(cx, &directive, &mut options) else { continue };
        merge(&mut found, site, addresses);
    }
    // Only the first site can do without names.
    found.sort_by_key(|(site, _)| !site.hosts.is_empty());
    let mut blocks = Vec::new();
    if !options.server.is_empty() {
        let mut block = Block::new("[server]");
        options.server.iter().for_each(|(key, value)| block.push(key, value.clone(), None));
        blocks.push(block);
    }
    blocks.extend(listens(&mut found, &options));
    let acme =
        found.iter().any(|(site, addresses)| site.certificates.is_empty() && addresses.iter().any(|a| a.tls));
    if acme {
        let mut block = Block::new("[acme]");
        block.push("agree", true, None);
        options.acme.iter().for_each(|(key, value)| block.push(key, value.clone(), None));
        blocks.push(block);
    }
    let mut limits = Block::new("[limits]");
    let routes = found.iter().flat_map(|(site, _)| &site.routes);
    write::room_for_bodies(&mut limits, routes.filter_map(|route| route.body_max).max());
    if limits.has("bodies_disk_bytes_max") {
        blocks.push(limits);
    }
    for (site, addresses) in found {
        let automatic = site.certificates.is_empty() && addresses.iter().any(|address| address.tls);
        let mut tables = write::site(site);
        if let Some(first) = tables.first_mut().filter(|_| automatic) {
            first.push("acme", true, None);
        }
        blocks.extend(tables);
    }
    blocks.extend(cx.blocks());
    blocks
}

/// A file of one site has no braces around it, and a part of a site has no address.
fn in_sites(rest: Vec<Directive>) -> Vec<Directive> {
    let Some(first) = rest.first() else { return Vec::new() };
    let place = first.place.clone();
    if routes::is_directive(first.name()) {
        return vec![Directive { words: vec![":80".into()], block: Some(rest), place }];
    }
    if first.block.is_none() {
        let words = first.words.clone();
        return vec![Directive { words, block: Some(rest.into_iter().skip(1).collect()), place }];
    }
    rest
}

fn options(cx: &Shared, globals: &[Directive]) -> Options {
    let mut options = Options::default();
    for line in globals.iter().flat_map(|global| global.inside()) {
        let port = line.word(1).parse::<u16>().ok();
        match line.name() {
            "email" => options.acme.push(("contact".into(), Value::texts(&[line.word(1)]))),
            "acme_ca" => options.acme.push(("directory".into(), line.word(1).into())),
            "acme_ca_root" => options.acme.push(("ca_file".into(), line.word(1).into())),
            "http_port" if port.is_some() => options.ports.0 = port,
            "https_port" if port.is_some() => options.ports.1 = port,
            "auto_https" => match line.word(1) {
                "off" | "disable_certs" => options.no_https = true,
                _ => options.no_redirects = true,
            },
            "servers" => {
                cx.translated(line);
                servers(cx, line, &mut options);
                continue;
            }
            "order" => {
                cx.not_needed(line, "routes are in the order of the file");
                continue;
            }
            "debug" | "log" | "admin" | "grace_period" | "shutdown_delay" | "storage" | "persist_config"
            | "metrics" | "default_bind" => {
                cx.say(
                    line,
                    Kind::NotNeeded,
                    "`maitred status`, [log] and [server] have settings of their own",
                );
                continue;
            }
            _ => {
                cx.not_possible(line, "there is no key for this");
                continue;
            }
        }
        cx.translated(line);
    }
    options
}

fn servers(cx: &Shared, block: &Directive, options: &mut Options) {
    for line in block.inside() {
        match (line.name(), line.word(1)) {
            ("trusted_proxies", "static") => {
                cx.translated(line);
                let networks: Vec<String> = line
                    .args()
                    .iter()
                    .skip(1)
                    .map(|network| match network.as_str() {
                        "private_ranges" => "@private".to_owned(),
                        network => network.to_owned(),
                    })
                    .collect();
                options.server.push(("trusted_proxies".into(), Value::texts(&networks)));
            }
            ("client_ip_headers", name) => {
                cx.translated(line);
                if !name.eq_ignore_ascii_case("x-forwarded-for") {
                    options.server.push(("client_address_from".into(), name.into()));
                }
            }
            _ => cx.say(line, Kind::Choice, "[limits] and [[listen]] have settings of their own"),
        }
    }
}

fn address(text: &str, options: &Options) -> Result<Address, String> {
    let text = values::fixed(text).ok_or("an address is fixed here, without placeholders")?;
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (Some(scheme.to_owned()), rest.to_owned()),
        None => (None, text.clone()),
    };
    if rest.contains('/') {
        return Err("a site has no path: `handle` has".into());
    }
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => {
            (host.to_owned(), Some(port.parse::<u16>().map_err(|_| "the port is no number".to_owned())?))
        }
        _ => (rest, None),
    };
    let host = host.to_ascii_lowercase();
    let (http, https) = (options.ports.0.unwrap_or(80), options.ports.1.unwrap_or(443));
    let own = host.is_empty()
        || host == "localhost"
        || host.ends_with(".localhost")
        || host.ends_with(".local")
        || host.ends_with(".internal")
        || host.ends_with(".test")
        || !host.contains('.')
        || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
    let plain = scheme.as_deref() == Some("http") || port == Some(http) || options.no_https || own;
    let host = (!host.is_empty() && host != "*" && host != "0.0.0.0").then_some(host);
    let port = port.unwrap_or(if plain { http } else { https });
    Ok(Address { host, port, tls: !plain })
}

/// Certificates and keys of a site, whether they are there, and where they are named.
fn certificates(
    cx: &Shared,
    directive: &Directive,
    addresses: &mut [Address],
    options: &mut Options,
) -> Vec<(String, String, bool, crate::report::Place)> {
    let mut certificates = Vec::new();
    for tls in directive.inside().iter().filter(|inside| inside.name() == "tls") {
        match tls.args() {
            [certificate, key] if tls.block.is_none() => {
                let there = cx.machine.has_file(certificate) && cx.machine.has_file(key);
                let note = "as a comment: the file is not there on this machine";
                cx.say(tls, Kind::Translated, if there { "" } else { note });
                certificates.push((certificate.clone(), key.clone(), there, tls.place.clone()));
                addresses.iter_mut().for_each(|address| address.tls |= address.port != 80);
            }
            [mail] if mail.contains('@') => {
                cx.translated(tls);
                if !options.acme.iter().any(|(key, _)| key == "contact") {
                    options.acme.push(("contact".into(), Value::texts(&[mail])));
                }
            }
            [internal] if internal == "internal" => {
                cx.not_possible(tls, "there is no authority of one's own: `certificates` names files");
                addresses.iter_mut().for_each(|address| {
                    address.tls = false;
                    address.port = if address.port == 443 { 80 } else { address.port };
                });
            }
            _ => cx.not_possible(tls, "certificates are files, or automatic (docs/acme.md)"),
        }
    }
    certificates
}

/// A site and its addresses.
fn site(cx: &Shared, directive: &Directive, options: &mut Options) -> Option<(Site, Vec<Address>)> {
    let mut addresses = Vec::new();
    for text in directive.words.iter().flat_map(|word| word.split(',')).filter(|text| !text.is_empty()) {
        match address(text, options) {
            Ok(address) => addresses.push(address),
            Err(why) => cx.not_possible(directive, why),
        }
    }
    if addresses.is_empty() {
        return None;
    }
    cx.translated(directive);
    let mut hosts: Vec<String> = addresses.iter().filter_map(|address| address.host.clone()).collect();
    hosts.dedup();
    if addresses.iter().any(|address| address.host.is_none()) {
        hosts.clear();
    }
    let certificates = certificates(cx, directive, &mut addresses, options);
    let base = Selector::default();
    let found = routes::of(cx, directive.inside(), (&base, &State::default(), &Vec::new()), true);
    let site = Site {
        origin: (directive.place.clone(), directive.shown()),
        notes: Vec::new(),
        hosts,
        listen: Vec::new(),
        off: None,
        certificates,
        error_pages: Vec::new(),
        error_root: None,
        log: directive
            .inside()
            .iter()
            .find(|inside| inside.name() == "log")
            .and_then(|log| access::log(cx, log)),
        routes: with_end(directive, found),
    };
    Some((site, addresses))
}

/// What no directive answers is empty in Caddy, and not found here.
fn with_end(directive: &Directive, mut routes: Vec<Route>) -> Vec<Route> {
    if !routes.iter().any(Route::takes_all) {
        let nothing = Target::Respond { status: 404, body: None };
        routes.push(Route::new(&directive.place, "what nothing else answers", nothing));
    }
    routes
}

/// Sites of the same names at several ports are one, whose routes ask for the port.
fn merge(found: &mut Vec<(Site, Vec<Address>)>, mut site: Site, addresses: Vec<Address>) {
    let Some((known, theirs)) = found.iter_mut().find(|(known, _)| known.hosts == site.hosts) else {
        return found.push((site, addresses));
    };
    let ports: Vec<Match> = addresses
        .iter()
        .map(|address| Match {
            header: vec![("Host".into(), format!("*:{}", address.port))],
            ..Match::default()
        })
        .collect();
    let condition = match ports.as_slice() {
        [one] => one.clone(),
        _ => Match { any: ports, ..Match::default() },
    };
    for route in &mut site.routes {
        if let Some(both) = route.condition.and(&condition) {
            route.condition = both;
        }
    }
    known.routes.splice(0..0, site.routes);
    theirs.extend(addresses);
}

fn listens(found: &mut [(Site, Vec<Address>)], options: &Options) -> Vec<Block> {
    let mut ports: Vec<(u16, bool)> = Vec::new();
    for address in found.iter().flat_map(|(_, addresses)| addresses) {
        if !ports.iter().any(|(port, _)| *port == address.port) {
            ports.push((address.port, address.tls));
        }
    }
    let http = options.ports.0.unwrap_or(80);
    let tls = ports.iter().any(|(_, tls)| *tls);
    let shared = ports.iter().any(|(port, _)| *port == http);
    let mut redirects = false;
    if tls && !options.no_redirects {
        match shared {
            // Other sites are there in cleartext: each site with TLS redirects by itself.
            true => found.iter_mut().for_each(|(site, addresses)| {
                if addresses.iter().all(|address| address.tls) {
                    let to = "https://{host}{uri}".to_owned();
                    let mut route =
                        Route::new(&site.origin.0, "to https", Target::Redirect { to, status: 308 });
                    route.condition.scheme = Some("http");
                    site.routes.insert(0, route);
                }
            }),
            false => {
                redirects = true;
                ports.push((http, false));
            }
        }
    }
    let block = |(port, tls): &(u16, bool)| {
        let mut block = Block::new("[[listen]]");
        block.push("address", format!("[::]:{port}"), None);
        if *tls {
            block.push("tls", Value::Table(Vec::new()), None);
        } else if redirects && *port == http {
            block.push("redirect_http", true, None);
        }
        block
    };
    ports.iter().map(block).collect()
}
