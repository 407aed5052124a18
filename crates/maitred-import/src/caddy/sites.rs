//! Sites, and what all of them have in common.

use super::access;
use super::errors;
use super::listeners::{self, Address, Clients, Placed};
use super::options::{self, Options};
use super::routes;
use super::tree::Directive;
use super::values;
use crate::drafts::{Route, Site, Target};
use crate::model::{Block, Entry, Value};
use crate::report::{Kind, Place};
use crate::shared::Shared;
use crate::write;

/// The tables of a Caddyfile.
pub(crate) fn blocks(cx: &Shared, directives: Vec<Directive>) -> Vec<Block> {
    let (globals, rest): (Vec<Directive>, Vec<Directive>) =
        directives.into_iter().partition(|directive| directive.words.is_empty());
    let mut options = Options::read(cx, &globals);
    let mut found: Vec<Placed> = Vec::new();
    for directive in in_sites(rest) {
        let name = directive.name().strip_prefix("&(").and_then(|name| name.strip_suffix(')'));
        match name.map(str::to_owned) {
            Some(name) => {
                cx.say(&directive, Kind::Translated, "where it is invoked");
                options.routes.push((name, directive));
            }
            None => found.extend(site(cx, &directive, &mut options)),
        }
    }
    let listens = listeners::listens(cx, &mut found, &options);
    let mut blocks = Vec::new();
    if !options.server.is_empty() {
        let mut block = Block::new("[server]");
        options.server.iter().for_each(|(key, value)| block.push(key, value.clone(), None));
        blocks.push(block);
    }
    blocks.extend(listens);
    if found.iter().any(|placed| placed.acme) {
        let mut block = Block::new("[acme]");
        block.push("agree", true, None);
        options.acme.iter().for_each(|(key, value)| block.push(key, value.clone(), None));
        blocks.push(block);
    }
    let limits = limits(&options, &found);
    blocks.extend((!limits.entries.is_empty()).then_some(limits));
    for placed in found {
        let is_empty = placed.port.is_empty();
        let mut tables = write::site(placed.site);
        if is_empty {
            tables.iter_mut().for_each(|table| table.origin = None);
        }
        if let Some(first) = tables.first_mut() {
            if !placed.listeners.is_empty() {
                let at = first.entries.iter().take_while(|entry| entry.key == "hosts").count();
                let value = Value::one_or_more(&placed.listeners);
                first.push("listen", value, None);
                first.entries[at..].rotate_right(1);
            }
            if placed.acme {
                first.push("acme", true, None);
            }
        }
        if placed.off {
            let why = "its addresses have no certificate on this machine";
            tables.iter_mut().for_each(|table| table.off = Some(why.to_owned()));
        }
        blocks.extend(tables);
    }
    blocks.extend(cx.blocks());
    waiting(&mut blocks);
    blocks
}

/// Pools from which on it is shorter to say for all sites how long a server may take.
const POOLS_MIN: usize = 3;

/// How long servers may take is said once, if all may take equally long, and nothing else is said of limits.
fn waiting(blocks: &mut Vec<Block>) {
    let is_time = |entry: &Entry| entry.key == "request_timeout";
    let says = |entry: &Entry| match &entry.value {
        Value::Table(table) if entry.key == "limits" => table.iter().any(|(key, _)| key == "request_timeout"),
        _ => false,
    };
    let has_limits = |block: &Block| block.header.starts_with("[[site") && block.entries.iter().any(says);
    let pools = blocks.iter().filter(|block| block.header.starts_with("[pool."));
    let times: Vec<Value> = pools
        .filter_map(|pool| pool.entries.iter().find(|entry| is_time(entry)))
        .map(|entry| entry.value.clone())
        .collect();
    let Some(time) = times.first().filter(|time| times.iter().all(|other| other == *time)) else { return };
    if times.len() < POOLS_MIN || blocks.iter().any(has_limits) {
        return;
    }
    for pool in blocks.iter_mut().filter(|block| block.header.starts_with("[pool.")) {
        pool.entries.retain(|entry| !is_time(entry));
    }
    let mut defaults = Block::new("[defaults]");
    defaults.push("limits", Value::Table(vec![("request_timeout".to_owned(), time.clone())]), None);
    let at = blocks.iter().position(|block| block.header == "[[site]]").unwrap_or(blocks.len());
    blocks.insert(at, defaults);
}

/// Bodies have no bound in Caddy: here they have that of what there is room for unless told otherwise.
const BODY_BYTES_MAX: u64 = 4 << 30;

fn limits(options: &Options, found: &[Placed]) -> Block {
    let mut limits = Block::new("[limits]");
    for (key, value) in &options.limits {
        limits.push(key, value.clone(), None);
    }
    let routes = || found.iter().flat_map(|placed| &placed.site.routes);
    if routes().any(|route| route.goes_to_pool() && route.body_max.is_none()) {
        limits.push("body_bytes_max", write::size(BODY_BYTES_MAX), None);
    }
    write::room_for_bodies(&mut limits, routes().filter_map(|route| route.body_max).max());
    limits
}

/// A file of one site has no braces around it, and a part of a site has no address.
fn in_sites(rest: Vec<Directive>) -> Vec<Directive> {
    let Some(first) = rest.first() else { return Vec::new() };
    let place = first.place.clone();
    if routes::is_directive(first.name()) {
        return vec![Directive { words: vec![":80".into()], block: Some(rest), place }];
    }
    if first.block.is_none() && !first.words.iter().any(|word| word.ends_with(',')) {
        let words = first.words.clone();
        return vec![Directive { words, block: Some(rest.into_iter().skip(1).collect()), place }];
    }
    // Addresses of one site may stand in several lines, with a comma at the end of each.
    let mut joined: Vec<Directive> = Vec::new();
    for mut one in rest {
        let goes_on = |last: &Directive| {
            last.block.is_none() && last.words.last().is_some_and(|word| word.ends_with(','))
        };
        if let Some(last) = joined.pop_if(|last| goes_on(last)) {
            one.words.splice(0..0, last.words);
            one.place = last.place;
        }
        joined.push(one);
    }
    joined
}

/// What `tls` says in a site.
#[derive(Default)]
struct Tls {
    certificates: Vec<(String, String, bool, Place)>,
    clients: Clients,
    /// Certificates of Caddy's own authority.
    internal: bool,
    /// Clients have to show what is not known here.
    closed: bool,
}

fn tls(cx: &Shared, directive: &Directive, options: &mut Options) -> Tls {
    let mut found = Tls::default();
    for line in directive.inside().iter().filter(|inside| inside.name() == "tls") {
        match line.args() {
            [] => cx.translated(line),
            [certificate, key] => {
                let (Some(certificate), Some(key)) = (values::fixed(certificate), values::fixed(key)) else {
                    cx.not_possible(line, "certificates are named here, without placeholders");
                    found.internal = true;
                    continue;
                };
                let there = cx.machine.has_file(&certificate) && cx.machine.has_file(&key);
                let note = "as a comment: the file is not there on this machine";
                cx.say(line, Kind::Translated, if there { "" } else { note });
                found.certificates.push((certificate, key, there, line.place.clone()));
            }
            [mail] if mail.contains('@') => {
                cx.translated(line);
                if !options.acme.iter().any(|(key, _)| key == "contact") {
                    options.acme.push(("contact".into(), Value::texts(&[mail])));
                }
            }
            [mail] if mail.starts_with("{$") && mail.to_ascii_lowercase().contains("mail") => {
                cx.say(line, Kind::Choice, options::MAIL);
            }
            [internal] if internal == "internal" => {
                cx.say(line, Kind::Worse, options::OWN);
                found.internal = true;
            }
            _ => cx.not_possible(line, "certificates are files, or automatic (docs/acme.md)"),
        }
        line.inside().iter().for_each(|inside| of_tls(cx, inside, options, &mut found));
    }
    found
}

/// A line of `tls`.
fn of_tls(cx: &Shared, line: &Directive, options: &mut Options, found: &mut Tls) {
    match line.name() {
        "protocols" => {
            let all = ["tls1.2", "tls1.3"];
            let place = |word: &str| all.iter().position(|known| *known == word);
            let (Some(first), Some(last)) =
                (place(line.word(1)), place(line.args().last().map_or("", String::as_str)))
            else {
                return cx.not_possible(line, "versions of TLS are 1.2 and 1.3");
            };
            cx.translated(line);
            let last = if line.args().len() == 1 { 1 } else { last };
            let versions: Vec<&str> = all
                .iter()
                .take(last + 1)
                .skip(first)
                .map(|version| version.trim_start_matches("tls"))
                .collect();
            if versions.len() < 2 {
                found.clients.keys.push(("versions".to_owned(), Value::texts(&versions)));
            }
        }
        "ciphers" | "curves" => cx.say(line, Kind::Choice, "`tls` of [[listen]] has `ciphers` and `curves`"),
        "alpn" => cx.say(line, Kind::Choice, "HTTP/2 and HTTP/1.1 are offered"),
        "ca" if !options.acme.iter().any(|(key, _)| key == "directory") => {
            cx.translated(line);
            options.acme.push(("directory".into(), line.word(1).into()));
        }
        "key_type" | "reuse_private_keys" | "insecure_secrets_log" | "renewal_window_ratio" => {
            cx.say(line, Kind::Choice, "[acme] and `tls` of [[listen]] have settings of their own");
        }
        "client_auth" => match clients(line) {
            Some(keys) => {
                cx.translated(line);
                line.inside().iter().for_each(|inside| cx.translated(inside));
                found.clients.keys.extend(keys);
            }
            None => {
                cx.not_possible(
                    line,
                    "certificates of clients are checked by a file of authorities: the site answers 403",
                );
                found.closed = true;
            }
        },
        "on_demand" if found.internal => cx.say(line, Kind::Worse, options::OWN),
        "on_demand" => {
            cx.not_possible(line, "certificates are for names that are known beforehand");
        }
        name if options::RECORDS.contains(&name) => cx.say(line, Kind::Worse, options::DNS),
        "issuer" if line.word(1) == "internal" => {
            cx.say(line, Kind::Worse, options::OWN);
            found.internal = true;
        }
        _ => cx.not_possible(line, "certificates are files, or automatic (docs/acme.md)"),
    }
}

/// `client_auth` as keys of `tls`.
fn clients(line: &Directive) -> Option<Vec<(String, Value)>> {
    let mut file: Option<String> = None;
    let mut mode = "require_and_verify";
    for inside in line.inside() {
        match (inside.name(), inside.args()) {
            ("mode", [word]) => mode = word,
            ("trusted_ca_cert_file", [path]) if file.is_none() => file = values::fixed(path),
            ("trust_pool", [kind, path]) if kind == "file" && file.is_none() => file = values::fixed(path),
            ("trust_pool", [kind]) if kind == "file" && file.is_none() => match inside.inside() {
                [one] if one.name() == "pem_file" && one.args().len() == 1 => {
                    file = values::fixed(one.word(1))
                }
                _ => return None,
            },
            _ => return None,
        }
    }
    let auth = match mode {
        "require_and_verify" => "required",
        "verify_if_given" => "optional",
        _ => return None,
    };
    Some(vec![("client_auth".to_owned(), auth.into()), ("client_ca".to_owned(), file?.into())])
}

/// What `tls` says, and which addresses have it.
fn certified(cx: &Shared, directive: &Directive, options: &mut Options, addresses: &mut [Address]) -> Tls {
    let mut tls = tls(cx, directive, options);
    if !tls.certificates.is_empty() {
        let http = options.ports.0.unwrap_or(80);
        addresses.iter_mut().for_each(|address| {
            address.tls |= address.port != http;
            address.own = false;
        });
    }
    if tls.internal {
        addresses.iter_mut().for_each(|address| address.tls |= address.port != options.ports.0.unwrap_or(80));
    }
    let own = addresses.iter().any(|address| address.tls && address.own);
    if own && !tls.internal {
        cx.say(directive, Kind::Worse, options::OWN);
    }
    if own || tls.internal {
        let name =
            addresses.iter().find_map(|address| address.host.clone()).unwrap_or_else(|| "site".to_owned());
        let name = name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '-', "_");
        let file = |end: &str| format!("/etc/maitred/{name}.{end}");
        tls.certificates.push((file("pem"), file("key"), false, directive.place.clone()));
    }
    tls
}

/// A site of Caddy: one for each port at which it has other names.
fn site(cx: &Shared, directive: &Directive, options: &mut Options) -> Vec<Placed> {
    let mut addresses: Vec<Address> = Vec::new();
    let words = directive.words.iter().flat_map(|word| word.split(','));
    for text in words.filter(|text| !text.is_empty()) {
        match listeners::address(text, options) {
            Ok(address) => addresses.push(address),
            Err(why) => cx.not_possible(directive, format!("{why}: there is no such site")),
        }
    }
    if addresses.is_empty() {
        return Vec::new();
    }
    cx.translated(directive);
    if addresses.iter().any(Address::is_unset) {
        let why = "the server takes a name or a port from its own environment: one name or number, and nothing else";
        cx.say(directive, Kind::Choice, why);
    }
    let tls = certified(cx, directive, options, &mut addresses);
    let binds = listeners::binds(cx, directive, options);
    let secure = addresses.iter().all(|address| address.tls);
    let mut routes = routes::of(cx, options, directive, secure);
    if tls.closed {
        let mut route =
            Route::new(&directive.place, "client_auth", Target::Respond { status: 403, body: None });
        route.notes.push("closed: certificates of clients cannot be checked".to_owned());
        routes = vec![route];
    }
    let logs = directive.inside().iter().filter(|inside| inside.name() == "log");
    let logged: Vec<access::Logged> = logs.map(|log| access::log(cx, log)).collect();
    if logged.iter().any(|log| log.quiet) && logged.len() == 1 {
        routes.iter_mut().for_each(|route| route.quiet = true);
    }
    let root = routes::root(directive);
    let (error_pages, error_root) = errors::pages(cx, directive, root.as_ref());
    let site = Site {
        origin: (directive.place.clone(), directive.shown()),
        notes: Vec::new(),
        hosts: Vec::new(),
        listen: Vec::new(),
        off: None,
        certificates: tls.certificates.clone(),
        error_pages,
        error_root: error_root.map(|(root, place)| (root, place, false)),
        log: logged.into_iter().find_map(|log| log.name),
        routes,
    };
    let acme = tls.certificates.is_empty();
    listeners::placed(&site, &addresses, &binds, (&tls.clients, acme))
}
