//! `[[listen]]`

use super::super::arrivals::Listeners;
use super::super::finding::{At, Span};
use super::super::listen::{Address, Buckets, Listen, Misdirected, TlsVersion, UnixFile};
use super::super::meaning::{AdminAddress, Pool};
use super::super::reader::{Section, shorten};
use super::super::values;
use super::super::values::Network;
use super::tls;

/// Gives back, with each, where what it says about TLS stands.
pub(super) fn listens(root: &Section<'_>, trusted: &[Network]) -> Vec<(Listen, tls::Spans)> {
    let sections = root.sections("listen");
    let mut listens: Vec<(Listen, Span)> = Vec::new();
    let (mut spans, mut names) = (Vec::new(), Vec::new());
    for section in &sections {
        let name = name(section, &mut names);
        for (listen, span) in listen(section, name, trusted) {
            let same = listens
                .iter()
                .find(|(other, _)| other.address == listen.address && !listen.address.is_any_port());
            if let Some((_, other)) = same {
                let message = format!("the address {} is listed twice", listen.address);
                root.cx.conflict(&span, message, "it is first listed here", other);
            }
            spans.push(tls::Spans::of(section, &span));
            listens.push((listen, span));
        }
    }
    let all = listens.iter().map(|(listen, _)| listen.clone()).collect();
    let names = names.into_iter().map(|name| name.value).collect();
    root.cx.listeners.replace(Listeners { all, names });
    listens.into_iter().map(|(listen, _)| listen).zip(spans).collect()
}

/// `name`, which no other entry has.
fn name(section: &Section<'_>, known: &mut Vec<At<String>>) -> Option<String> {
    let text = section.text("name")?;
    if !Pool::is_name(&text.value) {
        let message = format!("`name`: \"{}\" cannot be the name of a listener", shorten(&text.value));
        section.cx.error_with(&text.span, message, "it has 1 to 64 letters, digits, `-` and `_`");
    }
    if let Some(other) = known.iter().find(|other| other.value == text.value) {
        let message = format!("two listeners have the name \"{}\"", shorten(&text.value));
        section.cx.conflict(&text.span, message, "it is first given here", &other.span);
    }
    known.push(text.clone());
    Some(text.value)
}

/// At least one has to be there.
pub(super) fn check_any(root: &Section<'_>) {
    if root.sections("listen").is_empty() && root.given("listen").is_none() {
        root.cx.missing(
            &root.span,
            "there is no [[listen]], so that no client could connect",
            "add [[listen]] with address = \":8080\"",
        );
    }
}

/// The admin address has a socket of its own.
pub(super) fn check_admin(
    section: &Section<'_>,
    admin: Option<&AdminAddress>,
    listens: &[(Listen, tls::Spans)],
) {
    let Some(AdminAddress::Unix(admin)) = admin else { return };
    let admin = super::common::normal(admin);
    if listens.iter().any(|(listen, _)| listen.address.path() == Some(&admin)) {
        let span = section.given("admin").unwrap_or_else(|| section.span.clone());
        section.cx.error_with(
            &span,
            "`admin` is an address of [[listen]], too",
            "give it a socket of its own",
        );
    }
}

/// A listener for each address of an entry.
fn listen(section: &Section<'_>, name: Option<String>, trusted: &[Network]) -> Vec<(Listen, Span)> {
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
    let redirect_status = redirect_status(section, redirect_http);
    let http3 = section.flag("http3");
    let misdirected = misdirected(section, tls.is_some());
    if let Some(span) = section.empty_array("address") {
        section.cx.error_with(
            &span,
            "`address` is empty",
            "it takes at least one address, such as \":8080\"",
        );
    }
    let unix_file = unix_file(section);
    let listen = |address: Address| Listen {
        // A Unix socket cannot be bound twice, and has nothing to hold connections back: what comes is read at once.
        buckets: if address.path().is_some() { Buckets::Number(1) } else { buckets },
        steer_by_cpu: steer_by_cpu && address.path().is_none(),
        defer_accept: defer_accept || address.path().is_some(),
        name: name.clone(),
        address,
        unix_file,
        backlog,
        proxy_protocol_from: proxy_protocol_from.clone(),
        tls: tls.clone(),
        http2,
        redirect_http,
        redirect_status,
        http3,
        misdirected,
    };
    let texts = section.texts("address");
    let read = |text: &At<String>| Some((listen(address(section, text)?), text.span.clone()));
    let found: Vec<_> = texts.iter().filter_map(read).collect();
    warn_of_kind(section, &found);
    if http3 {
        check_http3(section, &found);
    }
    found
}

/// `redirect_status`
fn redirect_status(section: &Section<'_>, redirect_http: bool) -> u16 {
    let status = section.number::<u16>("redirect_status");
    if ![301, 302, 307, 308].contains(&status.value) {
        let message = format!("{} is no status of a redirect", status.value);
        section.cx.error_with(&status.span, message, "it takes 301, 302, 307 or 308");
    }
    if let (false, Some(span)) = (redirect_http, section.given("redirect_status")) {
        section.cx.warn(&span, "`redirect_status` has no effect", "it belongs to `redirect_http = true`");
    }
    status.value
}

/// `misdirected`
fn misdirected(section: &Section<'_>, tls: bool) -> Misdirected {
    let chosen = section.choice("misdirected");
    if let (Some(span), false) = (section.given("misdirected"), tls) {
        let why = "without `tls`, the default site of this address answers for names that are not here";
        section.cx.warn(&span, "`misdirected` has no effect", why);
    }
    if chosen == Some("default_site") { Misdirected::DefaultSite } else { Misdirected::Refused }
}

/// What `http3` needs: QUIC is encrypted by TLS 1.3, its datagrams go to UDP ports, and no proxy says before them whose they are.
fn check_http3(section: &Section<'_>, found: &[(Listen, Span)]) {
    let Some(span) = section.given("http3") else { return };
    let refuse = |message: &str, hint: &str| section.cx.error_with(&span, message, hint);
    let Some((listen, _)) = found.first() else { return };
    match &listen.tls {
        _ if listen.redirect_http => {
            refuse(
                "an address with `redirect_http` has no HTTP/3",
                "`http3` belongs to an address with `tls`",
            );
        }
        None => refuse("`http3` needs `tls`", "add tls = {}, or take `http3` out"),
        Some(tls) if !tls.versions.contains(&TlsVersion::V13) => {
            let hint = "add \"1.3\" to `versions`, or take `http3` out";
            refuse("`http3` needs TLS 1.3, which `versions` leaves out", hint);
        }
        Some(_) => {}
    }
    if listen.proxy_protocol_from.is_some() {
        refuse(
            "`http3` cannot be combined with `proxy_protocol`: QUIC has no PROXY header",
            "clients come to an address with `http3` themselves; take one of them out",
        );
    }
    if found.iter().any(|(listen, _)| listen.address.path().is_some()) {
        let hint = "move the Unix socket to a [[listen]] of its own";
        refuse("`http3` needs IP addresses: QUIC goes over UDP", hint);
    }
}

fn address(section: &Section<'_>, text: &At<String>) -> Option<Address> {
    let cx = section.cx;
    let what = format!("`address`: \"{}\" is not an address to listen on", shorten(&text.value));
    let Address::Unix(path) = cx.accept(&text.span, &what, values::listener(&text.value))? else {
        return values::listen_address(&text.value).map(Address::Inet).ok();
    };
    let path = super::common::normal(&cx.base(&text.span).join(path));
    let bytes = path.as_os_str().len();
    if bytes > Address::PATH_BYTES_MAX || path.to_str().is_none() {
        let why = match bytes > Address::PATH_BYTES_MAX {
            true => format!("has at most {} bytes, and this one {bytes}", Address::PATH_BYTES_MAX),
            false => "is UTF-8".to_owned(),
        };
        let hint = format!("it is {}: choose another one, such as one in /run", path.display());
        cx.error_with(&text.span, format!("`address`: the path of a socket {why}"), hint);
        return None;
    }
    Some(Address::Unix(path))
}

/// Who may connect to Unix sockets.
fn unix_file(section: &Section<'_>) -> UnixFile {
    let cx = section.cx;
    let mut file = UnixFile::default();
    if let Some(text) = section.text("unix_mode") {
        let what = format!("`unix_mode` does not take \"{}\"", shorten(&text.value));
        file.mode = cx.accept(&text.span, &what, values::file_mode(&text.value)).unwrap_or(file.mode);
    }
    let of = |key: &str, kind: &str, find: &dyn Fn(&str) -> std::io::Result<Option<u32>>| {
        let name = section.text(key)?;
        let shown = shorten(&name.value);
        let found = find(&name.value)
            .map_err(|error| cx.error(&name.span, format!("`{key}`: {kind} \"{shown}\": {error}")))
            .ok()?;
        if found.is_none() {
            let message = format!("`{key}`: there is no {kind} \"{shown}\" on this machine");
            let database = if key == "unix_user" { "passwd" } else { "group" };
            cx.error_with(&name.span, message, format!("`getent {database}` lists them"));
        }
        found
    };
    file.owner = of("unix_user", "account", &|name| Ok(cx.lookup.user(name)?.map(|user| user.uid)));
    file.group = of("unix_group", "group", &|name| cx.lookup.group(name));
    file
}

/// Keys that do nothing for the one or the other kind of address.
fn warn_of_kind(section: &Section<'_>, found: &[(Listen, Span)]) {
    let (mut unix, mut inet) = (false, false);
    for (listen, _) in found {
        *if listen.address.path().is_some() { &mut unix } else { &mut inet } = true;
    }
    let (keys, why): (&[&str], _) = match (unix, inet) {
        (true, false) => (
            &["buckets", "steer_by_cpu", "defer_accept", "proxy_protocol_from"],
            "a Unix socket has one queue, and its file's permissions say who may connect",
        ),
        (false, true) => (&["unix_mode", "unix_user", "unix_group"], "it is for \"unix:/path\""),
        _ => return,
    };
    for key in keys {
        if let Some(span) = section.given(key) {
            section.cx.warn(&span, format!("`{key}` has no effect"), why);
        }
    }
}

/// Peers that may send a PROXY header. A peer of the list can claim to be any client, so that the list is never open to all
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
