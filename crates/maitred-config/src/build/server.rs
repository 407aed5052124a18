//! `[server]`

use std::path::PathBuf;
use std::time::Duration;

use super::super::finding::At;
use super::super::listen::Address;
use super::super::meaning::{AdminAddress, Affinity, EncodedSlashes, Server, TrustedProxies};
use super::super::networks;
use super::super::reader::{Section, WordOrNumber, shorten};
use super::super::reload::GRACE_STREAMS_MAX;
use super::super::values::{self, Network};

pub(super) fn server(section: &Section<'_>) -> Server {
    let admin = admin(section);
    if let (false, Some(span)) = (matches!(admin, Some(AdminAddress::Tcp(_))), section.given("admin_token")) {
        let why = "it is for a TCP `admin` address; a Unix socket knows who asks";
        section.cx.warn(&span, "`admin_token` has no effect", why);
    }
    Server {
        threads: match section.word_or_number("threads") {
            Some(WordOrNumber::Number(number)) => u16::try_from(number).ok(),
            _ => None,
        },
        affinity: affinity(section),
        user: super::user(section),
        share_user: section.flag("share_user"),
        admin,
        admin_token: admin_token(section),
        pid_file: super::path(section, "pid_file"),
        grace: section.time("grace"),
        grace_streams: grace_streams(section),
        old_workers_max: section.number("old_workers_max").value,
        trusted_proxies: trusted_proxies(section),
        spool: spool(section),
        state: super::path(section, "state").unwrap_or_else(|| section.cx.lookup.state_directory()),
        server_header: section.flag("server_header"),
        encoded_slashes: encoded_slashes(section).unwrap_or(EncodedSlashes::Decode),
        path_parameters: section.choice("path_parameters") != Some("reject"),
        seccomp: section.flag("seccomp"),
        resolver: super::discovery::resolver(section),
    }
}

/// `encoded_slashes` of the server, of a site, or of a pool.
pub(super) fn encoded_slashes(section: &Section<'_>) -> Option<EncodedSlashes> {
    match section.choice("encoded_slashes")? {
        "keep" => Some(EncodedSlashes::Keep),
        "reject" => Some(EncodedSlashes::Reject),
        _ => Some(EncodedSlashes::Decode),
    }
}

fn trusted_proxies(section: &Section<'_>) -> TrustedProxies {
    let texts = section.texts("trusted_proxies");
    let resolve = |item| networks::resolve(section.cx, "trusted_proxies", item);
    let is_unix = |item: &&At<String>| item.value == "unix";
    let unix = texts.iter().any(|item| is_unix(&item));
    let networks: Vec<Network> = texts.iter().filter(|item| !is_unix(item)).flat_map(resolve).collect();
    let field = section.text("client_address_from").and_then(|name| {
        let valid = match values::is_token(&name.value) {
            true if name.value.contains(['_', '.']) => {
                Err("a name with `_` or `.` is never trusted: proxies take it for `-`")
            }
            true => Ok(name.value.to_ascii_lowercase()),
            false => Err("it takes the name of a field, such as \"CF-Connecting-IP\""),
        };
        let what = format!("`client_address_from` does not take \"{}\"", shorten(&name.value));
        section.cx.accept(&name.span, &what, valid.map_err(str::to_owned))
    });
    if let (true, Some(span)) = (networks.is_empty() && !unix, section.given("client_address_from")) {
        let why = "without `trusted_proxies`, no peer may say who the client is";
        section.cx.warn(&span, "`client_address_from` has no effect", why);
    }
    TrustedProxies { networks, unix, field }
}

/// Not looked up: a configuration without a pool does not need it, and the worker process may see another directory.
fn spool(section: &Section<'_>) -> PathBuf {
    super::path(section, "spool").unwrap_or_else(|| PathBuf::from("/var/tmp"))
}

fn grace_streams(section: &Section<'_>) -> Option<Duration> {
    let text = section.text("grace_streams").filter(|text| text.value != "none")?;
    let what = format!("`grace_streams` does not take \"{}\"", shorten(&text.value));
    let bounded = values::duration(&text.value).and_then(|time| match time <= GRACE_STREAMS_MAX {
        true => Ok(time),
        false => Err("it takes \"none\", or at most 24h".to_owned()),
    });
    section.cx.accept(&text.span, &what, bounded)
}

fn affinity(section: &Section<'_>) -> Affinity {
    let Some(text) = section.text("affinity") else { return Affinity::Auto };
    match text.value.as_str() {
        "auto" => return Affinity::Auto,
        "off" => return Affinity::Off,
        _ => {}
    }
    let what = format!("`affinity` does not take \"{}\"", shorten(&text.value));
    let listed = values::cpus(&text.value)
        .map_err(|why| format!("{why}; it takes \"auto\", \"off\" or a list of CPUs such as \"0-3,8\""));
    section.cx.accept(&text.span, &what, listed).map_or(Affinity::Off, Affinity::Cpus)
}

/// `admin`, also of a file that is wrong elsewhere.
pub(in super::super) fn admin(section: &Section<'_>) -> Option<AdminAddress> {
    let text = section.text("admin")?;
    let cx = section.cx;
    match admin_address(&text.value) {
        Ok(AdminAddress::Unix(path)) => {
            let path = cx.base(&text.span).join(path);
            if path.as_os_str().len() > Address::PATH_BYTES_MAX {
                let message =
                    format!("`admin`: a socket's path has at most {} bytes", Address::PATH_BYTES_MAX);
                cx.error_with(&text.span, message, format!("this one is {}", path.display()));
            }
            Some(AdminAddress::Unix(path))
        }
        Ok(address) => Some(address),
        Err(why) => {
            cx.error_with(&text.span, format!("`admin` does not take \"{}\"", shorten(&text.value)), why);
            None
        }
    }
}

/// `admin_token`, also of a file that is wrong elsewhere.
pub(in super::super) fn admin_token(section: &Section<'_>) -> Option<PathBuf> {
    super::path(section, "admin_token")
}

/// `unix:PATH`, or a loopback address. Also what `--admin` takes; a relative path stays relative.
pub(in super::super) fn admin_address(text: &str) -> Result<AdminAddress, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return match path.is_empty() || path.contains('\0') {
            true => Err("write a path after \"unix:\"".into()),
            false => Ok(AdminAddress::Unix(PathBuf::from(path))),
        };
    }
    if text.starts_with('/') {
        return Err(format!("write \"unix:{}\" for a socket file", shorten(text)));
    }
    let address: std::net::SocketAddr = text.parse().map_err(|_| {
        "it takes \"unix:/path\", or a loopback address and a port such as \"127.0.0.1:9180\"".to_owned()
    })?;
    match address.ip().is_loopback() {
        true => Ok(AdminAddress::Tcp(address)),
        false => Err("a client of this address controls the server, so that only loopback addresses \
                      (127.0.0.1, ::1) are taken"
            .into()),
    }
}
