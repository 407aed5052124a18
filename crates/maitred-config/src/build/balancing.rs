//! How a pool chooses among its servers.

use super::super::balancing::{Balance, Balancing, HashKey, Outliers, ServerCookie, ServerSettings};
use super::super::finding::At;
use super::super::meaning::{Source, Sticky};
use super::super::reader::{Section, shorten};
use super::super::values::is_token;
use super::claims::{self, Decides};

/// Keys that only have a meaning with servers.
const KEYS: [&str; 5] = ["balance", "hash_key", "slow_start", "panic", "outliers"];

/// `connect`: the addresses, and what is said of each.
pub(super) fn connect(section: &Section<'_>) -> Vec<(At<String>, ServerSettings)> {
    let of = |item: Result<At<String>, Section<'_>>| match item {
        Ok(text) => Some((text, ServerSettings::default())),
        Err(table) => {
            let settings = ServerSettings {
                weight: table.number("weight").value,
                backup: table.flag("backup"),
                max_connections: table
                    .given("max_connections")
                    .map(|_| table.number("max_connections").value),
            };
            Some((table.text("url")?, settings))
        }
    };
    section.texts_or_sections("connect").into_iter().filter_map(of).collect()
}

pub(super) fn of(
    section: &Section<'_>,
    source: &Source,
    servers: Vec<ServerSettings>,
    from_file: bool,
) -> Balancing {
    if source.servers().is_some() {
        check_queue(section, &servers, from_file);
    } else {
        for (key, span) in KEYS.iter().filter_map(|key| Some((key, section.given(key)?))) {
            let why = "it is for a pool with `connect` to HTTP or FastCGI servers";
            section.cx.warn(&span, format!("`{key}` has no effect"), why);
        }
    }
    let balance = match section.choice("balance") {
        Some("round_robin") => Balance::RoundRobin,
        Some("least_time") => Balance::LeastTime,
        Some("hash") => Balance::Hash,
        _ => Balance::LeastRequests,
    };
    if let (Some(span), false) = (section.given("hash_key"), balance == Balance::Hash) {
        section.cx.warn(&span, "`hash_key` has no effect".to_owned(), "it goes with `balance = \"hash\"`");
    }
    if let (false, Some(connect)) =
        (servers.is_empty() || servers.iter().any(|server| !server.backup), section.given("connect"))
    {
        section.cx.warn(
            &connect,
            "all servers are backups".to_owned(),
            "they share the requests as if they were none",
        );
    }
    let (table, panic) = (section.section("outliers"), section.number("panic"));
    let outliers = Outliers {
        errors: table.number("errors").value,
        time: table.time("time"),
        time_max: table.time("time_max"),
    };
    Balancing {
        balance,
        hash_key: hash_key(section),
        slow_start: section.time("slow_start"),
        panic_percent: panic.value,
        outliers: section.given("outliers").map(|_| outliers),
        sticky: None,
        servers,
    }
}

/// `queue` of a pool of servers that never are all full. What a file of endpoints says is not known here.
fn check_queue(section: &Section<'_>, servers: &[ServerSettings], from_file: bool) {
    let bounded = servers.iter().all(|server| server.max_connections.is_some());
    if let Some(span) = section.given("queue").filter(|_| !bounded && !from_file) {
        let hint = "requests wait only if each of the servers has `max_connections`";
        section.cx.warn(&span, "`queue` has no effect", hint);
    }
}

/// Bytes that `secret` has at least: as many as cannot be tried out.
const SECRET_BYTES_MIN: usize = 16;

/// `sticky` of a pool of servers.
pub(super) fn cookie(section: &Section<'_>, sticky: Option<Sticky>) -> Option<ServerCookie> {
    let name = match sticky? {
        Sticky::Cookie(name) => name,
        Sticky::Address => {
            let span = section.given("sticky")?;
            let hint = "with `balance = \"hash\"` requests of an address go to one server";
            section.cx.error_with(&span, "`sticky = \"address\"` is for application processes", hint);
            return None;
        }
    };
    let given = match section.is_table("sticky") {
        true => section.section("sticky").text("secret"),
        false => None,
    };
    if let Some(short) = given.as_ref().filter(|secret| secret.value.len() < SECRET_BYTES_MIN) {
        let hint = "16 bytes and more, such as those of `openssl rand -hex 16`";
        section.cx.error_with(&short.span, "`secret` is too short", hint);
    }
    // Without either, values can be guessed; they are still no addresses.
    let secret = given.map(|secret| secret.value.into_bytes());
    let secret = secret.or_else(|| std::fs::read("/etc/machine-id").ok()).unwrap_or_default();
    let half = |number: u8| {
        let text = [b"maitred sticky", &[number][..], &secret].concat();
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &text);
        let first = digest.as_ref().first_chunk().copied().unwrap_or_default();
        u64::from_be_bytes(first)
    };
    Some(ServerCookie { name, key: [half(0), half(1)] })
}

fn hash_key(section: &Section<'_>) -> HashKey {
    let Some(text) = section.text("hash_key") else { return HashKey::Client };
    let named = |name: &str| match is_token(name) {
        true => Ok(name.to_owned()),
        false => Err("a name has letters, digits and `-`".to_owned()),
    };
    let parsed = match text.value.split_once(':') {
        None if text.value == "client" => Ok(HashKey::Client),
        None if text.value == "uri" => Ok(HashKey::Uri),
        Some(("header", name)) => named(name).map(|name| HashKey::Header(name.to_ascii_lowercase())),
        Some(("cookie", name)) => named(name).map(HashKey::Cookie),
        Some(("query", name)) => named(name).map(HashKey::Query),
        _ => {
            Err("it takes \"client\", \"uri\", \"header:NAME\", \"cookie:NAME\" or \"query:NAME\"".to_owned())
        }
    };
    let what = format!("`hash_key`: \"{}\" is nothing to hash", shorten(&text.value));
    let key = section.cx.accept(&text.span, &what, parsed).unwrap_or(HashKey::Client);
    if let HashKey::Header(name) = &key {
        claims::check(section, &text.span, ("hash_key", name), Decides::Spread("client"));
    }
    key
}
