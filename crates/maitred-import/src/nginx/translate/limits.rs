//! `limit_req`, `limit_conn`: limits by client.

use super::context::Context;
use crate::model::{Block, Value};
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::nginx::values;
use crate::report::Kind;

/// Keys in a megabyte of a zone: nginx takes 64 bytes for each address of IPv4.
const KEYS_PER_MEGABYTE: u64 = 16_000;
/// Keys that a limit remembers unless told otherwise, and at most.
const KEYS: (u64, u64) = (131_072, 16_777_216);

/// The names of the limits that requests in a scope have to keep.
pub(crate) fn of(cx: &Context<'_>, scope: &Scope<'_>) -> Vec<String> {
    let mut names = Vec::new();
    let dry = scope.last("limit_req_dry_run").inspect(|given| cx.translated(given));
    let dry = dry.is_some_and(|given| given.arg(0) == "on");
    for directive in scope.all("limit_req") {
        let argument = |name: &str| directive.args.iter().find_map(|arg| arg.strip_prefix(name));
        let zone = argument("zone=").and_then(|zone| Some((zone, cx.zone(zone)?)));
        let Some((name, zone)) = zone else {
            cx.not_possible(directive, "no `limit_req_zone` has this name");
            continue;
        };
        let burst = argument("burst=").map_or(Some(0), |burst| burst.parse::<u64>().ok());
        let Some(burst) = burst else {
            cx.not_possible(directive, "its `burst` is no number");
            continue;
        };
        match limit(cx, zone, burst, dry) {
            Ok(block) => {
                let delayed = burst > 0 && !directive.args.iter().any(|arg| arg == "nodelay");
                let why = if delayed { "what is within `burst` passes at once, without delay" } else { "" };
                cx.say(directive, Kind::Translated, why);
                let name = cx.limit(name, block);
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            Err(why) => cx.not_possible(directive, why),
        }
    }
    if let Some(status) = scope.last("limit_req_status").filter(|_| !names.is_empty()) {
        match status.arg(0) {
            "429" => cx.not_needed(status, "this is the status of a limit"),
            _ => cx.say(status, Kind::Better, "the status of a limit is 429 (RFC 6585)"),
        }
    }
    at_a_time(cx, scope, &mut names);
    names
}

/// `limit_conn`: nginx counts a connection while a request of it is under way.
fn at_a_time(cx: &Context<'_>, scope: &Scope<'_>, names: &mut Vec<String>) {
    let dry = scope.last("limit_conn_dry_run").inspect(|given| cx.translated(given));
    let dry = dry.is_some_and(|given| given.arg(0) == "on");
    for directive in scope.all("limit_conn") {
        let Some(zone) = cx.zone(directive.arg(0)) else {
            cx.not_possible(directive, "no `limit_conn_zone` has this name");
            continue;
        };
        let count = directive.arg(1).parse::<u64>().ok().filter(|count| (1..=8191).contains(count));
        let Some(count) = count else {
            cx.not_possible(directive, "it takes 1 to 8191 requests at a time");
            continue;
        };
        let by_server = ["$server_name", "$host", "$http_host"].contains(&zone.arg(0));
        let key = if by_server { Ok((Some("route".to_owned()), Vec::new())) } else { key(cx, zone.arg(0)) };
        match key {
            Ok((key, exempt)) => {
                let mut block = Block::new("").from(&zone.place, &zone.shown());
                block.push("concurrent", count, None);
                if let Some(key) = key {
                    block.push("key", key, None);
                }
                if !exempt.is_empty() {
                    block.push("exempt", Value::texts(&exempt), None);
                }
                if dry {
                    block.push("dry_run", true, None);
                }
                cx.translated(zone);
                cx.say(
                    directive,
                    Kind::Translated,
                    if by_server { "counted for each of its routes" } else { "" },
                );
                let name = cx.limit(directive.arg(0), block);
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            Err(why) => cx.not_possible(directive, why),
        }
    }
    if let Some(status) = scope.last("limit_conn_status") {
        cx.say(status, Kind::Better, "the status of a limit is 429 (RFC 6585)");
    }
}

/// The table of a zone with this `burst`: there it is a part of the limit.
fn limit(cx: &Context<'_>, zone: &Directive, burst: u64, dry: bool) -> Result<Block, String> {
    let argument = |name: &str| zone.args.iter().find_map(|arg| arg.strip_prefix(name)).unwrap_or_default();
    let rate = match argument("rate=").rsplit_once("r/") {
        Some((count, "s")) => count.parse::<u64>().ok().map(|count| format!("{count}/s")),
        Some((count, "m")) => count.parse::<u64>().ok().map(|count| format!("{count}/min")),
        _ => None,
    };
    let rate = rate.ok_or("its rate is not one of nginx")?;
    let (key, exempt) = key(cx, zone.arg(0))?;
    let mut block = Block::new("").from(&zone.place, &zone.shown());
    block.push("rate", rate, None);
    block.push("burst", burst.min(1_000_000), None);
    if let Some(key) = key {
        block.push("key", key, None);
    }
    let size = argument("zone=").split_once(':').and_then(|(_, size)| values::size(size)).unwrap_or(0);
    let keys = (size >> 20).saturating_mul(KEYS_PER_MEGABYTE).min(KEYS.1);
    // The usual `10m` is about what there is anyway.
    if keys > 2 * KEYS.0 {
        block.push("keys_max", keys, None);
    }
    if !exempt.is_empty() {
        block.push("exempt", Value::texts(&exempt), None);
    }
    if dry {
        block.push("dry_run", true, None);
    }
    cx.translated(zone);
    Ok(block)
}

/// `key`, and the clients without the limit.
fn key(cx: &Context<'_>, text: &str) -> Result<(Option<String>, Vec<String>), String> {
    let name = text.trim_start_matches('$').trim_matches(['{', '}']);
    if !text.starts_with('$') || name.contains('$') {
        return Err(format!("requests are counted by address, field, cookie or route, and not by `{text}`"));
    }
    if is_address(text) {
        return Ok((None, Vec::new()));
    }
    match (name.strip_prefix("http_"), name.strip_prefix("cookie_")) {
        (Some(field), _) => Ok((Some(format!("header:{}", values::field_name(field))), Vec::new())),
        (_, Some(cookie)) => Ok((Some(format!("cookie:{cookie}")), Vec::new())),
        _ => match exempt(cx, text) {
            Some(networks) => Ok((None, networks)),
            None => {
                Err(format!("requests are counted by address, field, cookie or route, and not by `{text}`"))
            }
        },
    }
}

fn is_address(text: &str) -> bool {
    let name = text.trim_start_matches('$').trim_matches(['{', '}']);
    ["binary_remote_addr", "remote_addr", "realip_remote_addr"].contains(&name)
}

/// The usual way to except clients in nginx: `geo $limited { default 1; 10.0.0.0/8 0; }`, and a `map $limited $key { 0 "";
/// 1 $binary_remote_addr; }`.
fn exempt(cx: &Context<'_>, text: &str) -> Option<Vec<String>> {
    let map = cx.map(text)?;
    let geo = cx.geo(map.arg(0))?;
    let of = |value: &str| {
        let row = |name: &str| map.inside().iter().find(|row| row.name == name);
        row(value).or_else(|| row("default")).map_or("", |row| row.arg(0))
    };
    let mut networks = Vec::new();
    let mut default = "";
    for row in geo.inside() {
        match row.name.as_str() {
            "default" => default = row.arg(0),
            "ranges" | "proxy" | "delete" | "include" | "proxy_recursive" => return None,
            network if of(row.arg(0)).is_empty() => networks.push(network.to_owned()),
            _ if is_address(of(row.arg(0))) => {}
            _ => return None,
        }
    }
    if !is_address(of(default)) {
        return None;
    }
    cx.translated(map);
    cx.translated(geo);
    Some(networks)
}
