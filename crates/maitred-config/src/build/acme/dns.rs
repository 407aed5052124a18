//! `[[acme.dns]]`

use std::net::{IpAddr, SocketAddr};

use super::super::super::acme::{Dns, DnsBy, DnsHook, DnsUpdate, TsigAlgorithm};
use super::super::super::finding::At;
use super::super::super::reader::{Section, shorten};
use super::super::environment::env_inherit;

/// Where name servers listen (RFC 1035 section 4.2).
const PORT: u16 = 53;
/// Longest name, in bytes (RFC 1035 section 2.3.4), as it is written.
const NAME_BYTES_MAX: usize = 253;
/// Keys that are for updates alone.
const OF_UPDATES: [&str; 5] = ["key_file", "key_name", "algorithm", "zone", "ttl"];

/// A table of `dns`; `None` if it cannot make records.
pub(in super::super) fn dns(section: &Section<'_>) -> Option<Dns> {
    let cx = section.cx;
    let server = section.text("server").and_then(|text| address(section, "server", &text));
    let (hook, env_inherit) = (hook(section), env_inherit(section));
    let (domains, zone, key_name) = (names(section), name_of(section, "zone"), name_of(section, "key_name"));
    let key_file = super::super::path(section, "key_file");
    let algorithm = section.choice("algorithm").and_then(TsigAlgorithm::named);
    let ttl = section.number("ttl").value;
    let check = section.texts("check");
    let check = check.iter().filter_map(|text| address(section, "check", text)).collect();
    let timeout = section.time("timeout");
    let by = match (section.given("server"), section.given("hook")) {
        (Some(server), Some(hook)) => {
            cx.conflict(&hook, "`hook` and `server` exclude one another", "`server` is set here", &server);
            return None;
        }
        (None, None) => {
            let hint = "it takes server = \"…\" with key_file = \"…\", or hook = [\"…\"]";
            cx.missing(
                &section.span,
                "[[acme.dns]] without `server` and without `hook` makes no records",
                hint,
            );
            return None;
        }
        (None, Some(_)) => {
            if let Some((name, span)) = OF_UPDATES.iter().find_map(|name| Some((name, section.given(name)?)))
            {
                cx.error_with(
                    &span,
                    format!("`{name}` has no meaning with `hook`"),
                    "it is for updates (`server`)",
                );
            }
            let command = hook.filter(|words| !words.is_empty())?;
            DnsBy::Hook(DnsHook { command, env_inherit })
        }
        (Some(span), None) => {
            if let Some(span) = section.given("env_inherit") {
                cx.error_with(
                    &span,
                    "`env_inherit` has no meaning with `server`",
                    "it is for a program (`hook`)",
                );
            }
            if key_file.is_none() && section.given("key_file").is_none() {
                cx.missing(&span, "`server` needs a `key_file`", "updates that are not signed are not sent");
            }
            let (server, key_file, algorithm) = (server?, key_file?, algorithm?);
            DnsBy::Update(DnsUpdate { server, zone, key_file, key_name, algorithm, ttl })
        }
    };
    Some(Dns { domains, by, check, timeout })
}

fn hook(section: &Section<'_>) -> Option<Vec<String>> {
    let words = section.texts("hook");
    let cx = section.cx;
    if let Some(span) = section.empty_array("hook") {
        cx.error_with(&span, "`hook` is empty", "its first item is the program to start");
    }
    if let Some(program) = words.first()
        && !program.value.starts_with('/')
    {
        let message = format!("`hook`: \"{}\" is not the path of a program", shorten(&program.value));
        cx.error_with(&program.span, message, "write it as a whole, from `/` on");
    }
    if let Some(word) = words.iter().find(|word| word.value.contains('\0')) {
        cx.error(&word.span, "`hook`: an argument cannot hold a NUL character");
    }
    section.given("hook").map(|_| words.into_iter().map(|word| word.value).collect())
}

/// An IP address with or without a port.
fn address(section: &Section<'_>, key: &str, text: &At<String>) -> Option<SocketAddr> {
    let bare = text.value.trim_start_matches('[').trim_end_matches(']');
    let found = text.value.parse().ok().or_else(|| Some((bare.parse::<IpAddr>().ok()?, PORT).into()));
    if found.is_none_or(|address: SocketAddr| address.port() == 0) {
        let message = format!("`{key}`: \"{}\" is not the address of a name server", shorten(&text.value));
        section.cx.error_with(
            &text.span,
            message,
            "write \"192.0.2.53\", \"192.0.2.53:5353\" or \"[2001:db8::53]:53\"",
        );
    }
    found
}

fn names(section: &Section<'_>) -> Vec<String> {
    section.texts("domains").iter().filter_map(|text| name(section, "domains", text)).collect()
}

fn name_of(section: &Section<'_>, key: &str) -> Option<String> {
    name(section, key, &section.text(key)?)
}

/// A name of the DNS in lower case, without its last dot.
fn name(section: &Section<'_>, key: &str, text: &At<String>) -> Option<String> {
    let name = text.value.strip_suffix('.').unwrap_or(&text.value).to_ascii_lowercase();
    let label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(plain)
    };
    if name.len() > NAME_BYTES_MAX || !name.split('.').all(label) {
        let message = format!("`{key}`: \"{}\" is not a name", shorten(&text.value));
        section.cx.error_with(
            &text.span,
            message,
            "write it as in \"example.com\"; one of other scripts in its ASCII form",
        );
        return None;
    }
    Some(name)
}
