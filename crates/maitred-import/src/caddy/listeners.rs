//! Where sites answer: addresses of sites, `bind`, and `[[listen]]`.

use super::options::Options;
use super::tree::Directive;
use super::values;
use crate::drafts::{Route, Site, Target};
use crate::model::{Block, Value};
use crate::report::Kind;
use crate::shared::Shared;
use crate::variables;

/// An address of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// The name; any, if there is none.
    pub(crate) host: Option<String>,
    /// The port; where only the server's environment tells it, the one that is taken without the variable.
    pub(crate) port: u16,
    /// The port, as it is written.
    pub(crate) written: String,
    /// Whether it has TLS.
    pub(crate) tls: bool,
    /// Whether its certificate is one of Caddy's own authority.
    pub(crate) own: bool,
}

impl Address {
    /// Whether a variable that is not set here tells a part of it.
    pub(crate) fn is_unset(&self) -> bool {
        variables::is_in(&self.written) || self.host.as_deref().is_some_and(variables::is_in)
    }
}

/// What TLS asks of the clients of a site.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Clients {
    /// Keys of `tls`.
    pub(crate) keys: Vec<(String, Value)>,
}

/// A site with the listeners that it is at.
pub(crate) struct Placed {
    pub(crate) site: Site,
    /// As `address` of `[[listen]]` has them.
    pub(crate) listeners: Vec<String>,
    pub(crate) tls: bool,
    /// The port, as it is written.
    pub(crate) port: String,
    /// What `[[listen]]` says of TLS.
    pub(crate) clients: Clients,
    /// Whether certificates come by themselves.
    pub(crate) acme: bool,
    /// Whether it is a comment, since none of its addresses can be used yet.
    pub(crate) off: bool,
    bind: Vec<String>,
}

/// The port that is taken where a variable tells it that is not set: another one for each variable, as a rule.
fn otherwise(variable: &str) -> u16 {
    18_000 + variable.bytes().map(u16::from).fold(0, u16::wrapping_add) % 1000
}

/// Reads an address.
///
/// # Errors
/// What it asks that a site cannot say.
pub(crate) fn address(text: &str, options: &Options) -> Result<Address, String> {
    let text = values::fixed(text).ok_or("an address is fixed here, without placeholders")?;
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme @ ("http" | "https"), rest)) => (Some(scheme.to_owned()), rest.to_owned()),
        Some((scheme, _)) => return Err(format!("sites do not speak {scheme}")),
        None => (None, text.clone()),
    };
    if rest.trim_end_matches('/').contains('/') {
        return Err("a site has no path: `handle` has".into());
    }
    let rest = rest.trim_end_matches('/').to_owned();
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host.to_owned(), Some(port.to_owned())),
        _ => (rest, None),
    };
    // A name has no case, but a variable has.
    let host = if variables::is_in(&host) { values::host(&host) } else { host.to_ascii_lowercase() };
    if host.trim_start_matches("*.").contains('*') && host != "*" {
        return Err("`*` stands for the first part of a name".into());
    }
    let (http, https) = (options.ports.0.unwrap_or(80), options.ports.1.unwrap_or(443));
    let unset = port.as_deref().filter(|port| variables::is_in(port));
    let is_http = scheme.as_deref() == Some("http");
    let number = match (&port, unset) {
        (Some(port), Some(_)) => otherwise(port),
        (Some(port), None) => port.parse::<u16>().map_err(|_| "the port is no number".to_owned())?,
        (None, _) if is_http => http,
        (None, _) => https,
    };
    let written = match unset {
        Some(port) => variables::with_otherwise(port, |_, _| number.to_string()),
        None => number.to_string(),
    };
    let port = number;
    let named = !host.is_empty() && host != "*" && host != "0.0.0.0";
    let plain = is_http || port == http;
    let tls = !plain && (port == https || scheme.is_some() || (named && !options.no_certificates));
    let ip = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
    let internal = [".localhost", ".local", ".internal", ".home.arpa"].iter().any(|end| host.ends_with(end));
    let own =
        tls && (!named || ip || internal || host == "localhost" || options.local || options.no_certificates);
    Ok(Address { host: named.then_some(host), port, written, tls, own })
}

/// What `bind` says, or all addresses.
pub(crate) fn binds(cx: &Shared, directive: &Directive, options: &Options) -> Vec<String> {
    let lines: Vec<&Directive> = directive.inside().iter().filter(|line| line.name() == "bind").collect();
    let mut found = Vec::new();
    for line in &lines {
        cx.translated(line);
        line.inside().iter().for_each(|inside| {
            cx.say(inside, Kind::Choice, "[[listen]] says which versions of HTTP there are");
        });
        for word in line.args() {
            found.extend(bind(word).unwrap_or_else(|| {
                let why =
                    "an address to listen on is a number or a Unix socket: the site is at 127.0.0.1 alone";
                cx.not_possible(*line, why);
                vec!["127.0.0.1".to_owned()]
            }));
        }
    }
    if lines.is_empty() {
        found.extend(
            options.bind.iter().flat_map(|word| bind(word).unwrap_or_else(|| vec!["127.0.0.1".to_owned()])),
        );
    }
    if found.is_empty() {
        found.push("[::]".to_owned());
    }
    found.dedup();
    found
}

fn bind(word: &str) -> Option<Vec<String>> {
    let word = values::fixed(word)?;
    if let Some(path) = word.strip_prefix("unix/").filter(|path| path.starts_with('/')) {
        return Some(vec![format!("unix:{}", path.split('|').next().unwrap_or(path))]);
    }
    let word = word.strip_prefix("tcp/").unwrap_or(&word);
    match (word, word.trim_matches(['[', ']']).parse::<std::net::IpAddr>()) {
        ("localhost", _) => Some(vec!["127.0.0.1".to_owned(), "[::1]".to_owned()]),
        (_, Ok(std::net::IpAddr::V6(address))) => Some(vec![format!("[{address}]")]),
        (_, Ok(address)) => Some(vec![address.to_string()]),
        _ => None,
    }
}

fn at(bind: &str, port: impl std::fmt::Display) -> String {
    if bind.starts_with("unix:") { bind.to_owned() } else { format!("{bind}:{port}") }
}

/// A site of Caddy as sites that are each at listeners where it has the same names.
pub(crate) fn placed(
    site: &Site,
    addresses: &[Address],
    binds: &[String],
    (clients, acme): (&Clients, bool),
) -> Vec<Placed> {
    let mut ports: Vec<(&Address, bool, Vec<Option<&String>>)> = Vec::new();
    for address in addresses {
        match ports.iter_mut().find(|(known, ..)| known.written == address.written) {
            Some((_, tls, hosts)) => {
                *tls |= address.tls;
                hosts.push(address.host.as_ref());
            }
            None => ports.push((address, address.tls, vec![address.host.as_ref()])),
        }
    }
    let of = |(address, tls, hosts): (&Address, bool, Vec<Option<&String>>)| {
        let mut site = site.clone();
        let mut names: Vec<String> = hosts.iter().copied().flatten().cloned().collect();
        names.dedup();
        site.hosts = if hosts.contains(&None) { Vec::new() } else { names };
        if !tls {
            site.certificates.clear();
        }
        Placed {
            site,
            listeners: binds.iter().map(|bind| at(bind, &address.written)).collect(),
            tls,
            port: address.written.clone(),
            clients: if tls { clients.clone() } else { Clients::default() },
            acme: tls && acme,
            off: false,
            bind: binds.to_vec(),
        }
    };
    ports.into_iter().map(of).collect()
}

/// A listener.
struct Listener {
    address: String,
    tls: bool,
    clients: Clients,
    redirects: bool,
}

/// The listeners of these sites. Sites that cannot be where they were are closed.
pub(crate) fn listens(cx: &Shared, sites: &mut Vec<Placed>, options: &Options) -> Vec<Block> {
    let mut found: Vec<Listener> = Vec::new();
    for placed in sites.iter_mut() {
        for address in &placed.listeners {
            match found.iter().find(|known| known.address == *address) {
                None => found.push(Listener {
                    address: address.clone(),
                    tls: placed.tls,
                    clients: placed.clients.clone(),
                    redirects: false,
                }),
                Some(known) if known.tls == placed.tls && known.clients == placed.clients => {}
                Some(_) => {
                    let (place, what) = &placed.site.origin;
                    let why = "TLS, and what it asks of clients, is the same for all sites of an address: this one answers 403";
                    cx.report.borrow_mut().say(place, what, Kind::NotPossible, why);
                    let mut route = Route::new(place, what, Target::Respond { status: 403, body: None });
                    route.notes.push("closed: another site of the address has other TLS".to_owned());
                    placed.site.routes = vec![route];
                }
            }
        }
    }
    if !options.no_redirects {
        redirects(sites, &mut found, options);
    }
    let dark = dark(sites, &found);
    let used = found.iter().filter(|one| !one.redirects && !dark.contains(&one.address));
    let all: Vec<String> = used.map(|one| one.address.clone()).collect();
    empty(sites, &all);
    for placed in sites.iter_mut().filter(|placed| !placed.off) {
        // A site that is everywhere does not say so.
        if all.iter().all(|address| placed.listeners.contains(address)) {
            placed.listeners.clear();
        }
    }
    let mut blocks: Vec<Block> = Vec::new();
    // What redirects to them waits with them.
    let is_lit = found.iter().any(|listener| listener.tls && !dark.contains(&listener.address));
    for listener in &found {
        let mut block = block(listener, options);
        if dark.contains(&listener.address) || (listener.redirects && !is_lit) {
            block.off = Some("no site has a certificate on this machine: see the comments there".into());
        }
        join(&mut blocks, block);
    }
    blocks
}

/// Adds a listener: addresses that have the same keys are in one table.
fn join(blocks: &mut Vec<Block>, mut block: Block) {
    let keys = |block: &Block| (block.entries.get(1..).unwrap_or_default().to_vec(), block.off.clone());
    let same = blocks.iter_mut().find(|known| keys(known) == keys(&block));
    let (Some(known), Some(own)) = (same, block.entries.first_mut()) else { return blocks.push(block) };
    if let Some(first) = known.entries.first_mut() {
        let list = |value: &Value| match value {
            Value::List(items) => items.clone(),
            one => vec![one.clone()],
        };
        first.value = Value::List([list(&first.value), list(&own.value)].concat());
    }
}

/// Addresses with TLS at which no site has a certificate yet: they must not answer in cleartext, and without asking clients for
/// theirs. Sites that are at such addresses alone are comments.
fn dark(sites: &mut [Placed], found: &[Listener]) -> Vec<String> {
    let certified =
        |placed: &Placed| placed.acme || placed.site.certificates.iter().any(|(.., there, _)| *there);
    let has = |address: &String| {
        sites.iter().any(|placed| placed.tls && placed.listeners.contains(address) && certified(placed))
    };
    let with = found.iter().filter(|listener| listener.tls && !has(&listener.address));
    let dark: Vec<String> = with.map(|listener| listener.address.clone()).collect();
    for placed in sites.iter_mut().filter(|placed| placed.tls) {
        let lit = |address: &String| {
            found.iter().any(|one| one.tls && one.address == *address) && !dark.contains(address)
        };
        match placed.listeners.iter().any(lit) {
            true => placed.listeners.retain(|address| !dark.contains(address)),
            false => placed.off = true,
        }
    }
    dark
}

/// Caddy redirects names with certificates from the port of cleartext.
fn redirects(sites: &mut [Placed], found: &mut Vec<Listener>, options: &Options) {
    let http = options.ports.0.unwrap_or(80);
    let plain: Vec<(Vec<String>, Vec<String>)> = sites
        .iter()
        .filter(|placed| !placed.tls)
        .map(|placed| (placed.listeners.clone(), placed.site.hosts.clone()))
        .collect();
    for placed in sites.iter_mut().filter(|placed| placed.tls && !placed.site.hosts.is_empty()) {
        for bind in placed.bind.clone().iter().filter(|bind| !bind.starts_with("unix:")) {
            let address = at(bind, http);
            let mut there = plain.iter().filter(|(listeners, _)| listeners.contains(&address)).peekable();
            if there.peek().is_none() {
                if !found.iter().any(|known| known.address == address) {
                    let clients = Clients::default();
                    found.push(Listener { address, tls: false, clients, redirects: true });
                }
                continue;
            }
            // A site in cleartext that has the name is the one that answers.
            let taken = there.any(|(_, hosts)| placed.site.hosts.iter().all(|host| hosts.contains(host)));
            if !taken && !placed.listeners.contains(&address) {
                let port = if placed.port == "443" { String::new() } else { format!(":{}", placed.port) };
                let to = format!("https://{{host}}{port}{{uri}}");
                let what = "redirects to TLS";
                let mut route = Route::new(&placed.site.origin.0, what, Target::Redirect { to, status: 308 });
                route.condition.scheme = Some("http");
                placed.site.routes.insert(0, route);
                placed.listeners.push(address);
            }
        }
    }
}

/// A site for the names that no site has: an empty response.
fn empty(sites: &mut Vec<Placed>, all: &[String]) {
    let has = |address: &String| {
        sites
            .iter()
            .any(|placed| !placed.off && placed.site.hosts.is_empty() && placed.listeners.contains(address))
    };
    let without: Vec<String> = all.iter().filter(|address| !has(address)).cloned().collect();
    // Sites without names come first.
    sites.sort_by_key(|placed| !placed.site.hosts.is_empty());
    let Some(first) = sites.first().filter(|_| !without.is_empty()) else { return };
    let nothing = Target::Respond { status: 200, body: None };
    let site = Site {
        listen: Vec::new(),
        off: None,
        origin: (first.site.origin.0.clone(), "names that no site has: an empty response".to_owned()),
        hosts: Vec::new(),
        certificates: Vec::new(),
        routes: vec![Route::new(&first.site.origin.0, "an empty response", nothing)],
        notes: vec!["names that no site has".to_owned()],
        error_pages: Vec::new(),
        error_root: None,
        log: None,
    };
    let clients = Clients::default();
    let (tls, port, acme, off, bind) = (false, String::new(), false, false, Vec::new());
    sites.insert(0, Placed { site, listeners: without, tls, port, clients, acme, off, bind });
}

fn block(listener: &Listener, options: &Options) -> Block {
    let mut block = Block::new("[[listen]]");
    block.push("address", listener.address.as_str(), None);
    if listener.address.starts_with("unix:") {
        block.push("unix_mode", "0200", None);
    }
    if options.proxy_protocol {
        block.push("proxy_protocol", true, None);
        if !options.proxy_from.is_empty() {
            block.push("proxy_protocol_from", Value::texts(&options.proxy_from), None);
        }
    }
    if listener.tls {
        block.push("tls", Value::Table(listener.clients.keys.clone()), None);
        if !options.no_http3 && !options.proxy_protocol && !listener.address.starts_with("unix:") {
            block.push("http3", true, None);
        }
    }
    if listener.redirects {
        block.push("redirect_http", true, None);
    }
    block
}
