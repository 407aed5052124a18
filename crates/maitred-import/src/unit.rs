//! Configurations of NGINX Unit: JSON with listeners, routes, applications, upstreams and settings.

mod applications;
mod context;
mod patterns;
mod routes;

use std::path::PathBuf;

use serde_json::Value as Json;

use context::Context;

use super::drafts::Site;
use super::files;
use super::model::{Block, Document, Value};
use super::report::{Kind, Report};
use super::write;

/// Values within values, at most.
const DEPTH_MAX: usize = 64;

/// Reads a configuration, or its `config` object.
///
/// # Errors
/// A file cannot be read, or is no JSON.
pub(crate) fn import(paths: &[PathBuf]) -> Result<(Document, Report), String> {
    let [path] = paths else { return Err("Unit has one configuration: name one file".into()) };
    let read = files::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    text(&path.display().to_string(), &read)
}

/// The same of a text with this name.
///
/// # Errors
/// The text is no JSON, or not of Unit.
pub(crate) fn text(name: &str, text: &str) -> Result<(Document, Report), String> {
    let json: Json =
        serde_json::from_str(text).map_err(|error| format!("{name}:{}: {error}", error.line()))?;
    // `GET /` has the certificates beside the configuration.
    let root = json.get("config").filter(|config| config.is_object()).unwrap_or(&json);
    if !root.is_object() || depth(root) > DEPTH_MAX {
        return Err(format!("{name} is no configuration of Unit"));
    }
    let cx = Context::new(root, text, name);
    let document = document(&cx);
    Ok((document, cx.into_report()))
}

fn depth(json: &Json) -> usize {
    match json {
        Json::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Json::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 1,
    }
}

fn document(cx: &Context<'_>) -> Document {
    let mut blocks = Vec::new();
    let (mut listens, mut proxies, mut from) = (Vec::new(), Vec::new(), None);
    let empty = serde_json::Map::new();
    let members = |name: &str| cx.root.get(name).and_then(Json::as_object).unwrap_or(&empty);
    let mut sites: Vec<(Site, String, Vec<String>)> = Vec::new();
    forwarded_alike(cx, members("listeners"));
    for (address, listener) in members("listeners") {
        let path = format!("/listeners/{}", address.replace('/', "~1"));
        cx.translated(&path);
        let Some(address) = listen(cx, &path, address) else { continue };
        let mut block = Block::new("[[listen]]").from(&cx.place(&path), &path);
        block.push("address", address.as_str(), None);
        if address.starts_with("unix:") {
            block.push("unix_mode", "0666", None);
        }
        tls(cx, &path, listener, &mut block);
        listens.push(block);
        forwarded(cx, &path, listener, &mut proxies, &mut from);
        members_of(cx, &path, listener);
        let pass = listener.get("pass").and_then(Json::as_str).unwrap_or_default().to_owned();
        match sites.iter_mut().find(|(_, known, _)| *known == pass) {
            // Listeners that lead to the same place are those of one site.
            Some((.., addresses)) => {
                cx.translated(&format!("{path}/pass"));
                addresses.push(address);
            }
            None => sites.push((routes::listener(cx, &path, listener), pass, vec![address])),
        }
    }
    let mut server = Block::new("[server]");
    if !proxies.is_empty() {
        server.push("trusted_proxies", Value::texts(&proxies), None);
        if let Some(field) = from {
            server.push("client_address_from", Value::Text(field), None);
        }
    }
    spool(cx, &mut server);
    blocks.push(server);
    blocks.extend(listens);
    blocks.push(settings(cx));
    blocks.push(log(cx));
    blocks.push(types(cx));
    blocks.retain(|block| !block.entries.is_empty());
    blocks.extend(written(sites));
    for (name, _) in members("applications") {
        // Applications that nothing leads to are shown as well.
        if let Err(why) = applications::pool(cx, name, None) {
            cx.say(&format!("/applications/{name}"), Kind::NotPossible, why);
        }
    }
    blocks.extend(cx.blocks());
    rest(cx);
    Document { blocks, ..Document::default() }
}

/// The tables of sites with their listeners.
fn written(sites: Vec<(Site, String, Vec<String>)>) -> Vec<Block> {
    let mut blocks = Vec::new();
    let several = sites.len() > 1;
    for (site, _, addresses) in sites {
        let mut tables = write::site(site);
        if let Some(first) = tables.first_mut().filter(|_| several) {
            first.push("listen", Value::one_or_more(&addresses), None);
            first.entries.rotate_right(1);
        }
        blocks.extend(tables);
    }
    blocks
}

/// Says what becomes of the members of a listener.
fn members_of(cx: &Context<'_>, path: &str, listener: &Json) {
    for (key, _) in listener.as_object().into_iter().flatten() {
        let place = format!("{path}/{key}");
        match key.as_str() {
            "pass" | "tls" | "forwarded" | "client_ip" => {}
            "backlog" => cx.say(&place, Kind::NotNeeded, "the queue is as long as the kernel lets it be"),
            _ => cx.not_possible(&place, "this member is not known"),
        }
    }
}

/// Names the members that are not known.
fn rest(cx: &Context<'_>) {
    for (key, _) in cx.root.as_object().into_iter().flatten() {
        if !["listeners", "routes", "applications", "upstreams", "settings", "access_log"]
            .contains(&key.as_str())
        {
            cx.say(&format!("/{key}"), Kind::NotPossible, "this member is not known");
        }
    }
    for (key, _) in cx.root.get("settings").and_then(Json::as_object).into_iter().flatten() {
        match key.as_str() {
            "http" => {}
            "listen_threads" => {
                cx.say("/settings/listen_threads", Kind::NotNeeded, "there is an event loop for each CPU")
            }
            "telemetry" => {
                let why = "`traceparent` goes on to applications, and no spans are sent";
                cx.say("/settings/telemetry", Kind::Choice, why);
            }
            key => cx.not_possible(&format!("/settings/{key}"), "there are no scripts in the server"),
        }
    }
}

/// `tls`: until there is a certificate, the address is a comment.
fn tls(cx: &Context<'_>, path: &str, listener: &Json, block: &mut Block) {
    if listener.get("tls").is_none() {
        return;
    }
    let why = "certificates are files here: `certificates` in a site, and `tls = {}` at the address";
    cx.say(&format!("{path}/tls"), Kind::NotPossible, why);
    block.push("tls", Value::Table(Vec::new()), None);
    block.off = Some("no site has a certificate yet: `certificates` in [[site]] names files".into());
}

fn listen(cx: &Context<'_>, path: &str, address: &str) -> Option<String> {
    if let Some(name) = address.strip_prefix("unix:")
        && !name.starts_with('/')
    {
        cx.say(path, Kind::NotPossible, "a Unix socket has an absolute path: no client can connect");
        return None;
    }
    Some(address.strip_prefix('*').map_or(address.to_owned(), str::to_owned))
}

/// Proxies are trusted at all addresses, or at none.
fn forwarded_alike(cx: &Context<'_>, listeners: &serde_json::Map<String, Json>) {
    let of = |listener: &Json| (listener.get("forwarded").cloned(), listener.get("client_ip").cloned());
    let mut all = listeners.values().map(of);
    let Some(first) = all.next() else { return };
    if all.all(|one| one == first) {
        return;
    }
    for (address, listener) in listeners {
        for key in ["forwarded", "client_ip"].iter().filter(|key| listener.get(**key).is_some()) {
            let path = format!("/listeners/{}/{key}", address.replace('/', "~1"));
            let why = "`trusted_proxies` of [server] is for all addresses, and this is for some";
            cx.say(&path, Kind::Worse, why);
        }
    }
}

/// `forwarded`, and `client_ip` of older versions: proxies, and the field that they name the client in.
fn forwarded(
    cx: &Context<'_>,
    path: &str,
    listener: &Json,
    proxies: &mut Vec<String>,
    from: &mut Option<String>,
) {
    for (key, field) in [("forwarded", "client_ip"), ("client_ip", "header")] {
        let Some(member) = listener.get(key) else { continue };
        let named = member.get(field).and_then(Json::as_str);
        if let Some(named) = named.filter(|named| !named.eq_ignore_ascii_case("x-forwarded-for")) {
            *from = Some(named.to_owned());
        }
        for name in member.as_object().into_iter().flatten().map(|(name, _)| name.as_str()) {
            let place = format!("{path}/{key}/{name}");
            match name {
                "source" => {}
                _ if name == field => cx.translated(&place),
                "protocol" if is_usual(member.get(name)) => {
                    cx.say(&place, Kind::NotNeeded, "trusted proxies say so in this field");
                }
                "protocol" => {
                    let why = "proxies say in `X-Forwarded-Proto` whether a client uses TLS";
                    cx.say(&place, Kind::Worse, why);
                }
                "recursive" if member.get(name).and_then(Json::as_bool) == Some(true) => {
                    let why = "of what proxies say, the last address that is none of theirs counts";
                    cx.say(&place, Kind::NotNeeded, why);
                }
                "recursive" => {
                    cx.say(&place, Kind::Choice, "the last address that is none of a trusted proxy counts");
                }
                _ => cx.not_possible(&place, "this member is not known"),
            }
        }
        let source = member.get("source");
        let one = source.and_then(Json::as_str).map(|one| vec![one.to_owned()]);
        let list = source
            .and_then(Json::as_array)
            .map(|all| all.iter().filter_map(Json::as_str).map(str::to_owned).collect());
        let networks: Vec<String> = one.or(list).unwrap_or_default();
        match networks.iter().any(|network| network.starts_with('!') || network.contains('-')) {
            true => cx.say(&format!("{path}/{key}"), Kind::NotPossible, "proxies are addresses and networks"),
            false => {
                cx.translated(&format!("{path}/{key}"));
                proxies.extend(
                    networks.into_iter().filter(|network| !proxies.contains(network)).collect::<Vec<_>>(),
                );
            }
        }
    }
}

/// Whether it is the field in which proxies say the client's protocol.
fn is_usual(field: Option<&Json>) -> bool {
    field.and_then(Json::as_str).is_some_and(|field| field.eq_ignore_ascii_case("x-forwarded-proto"))
}

fn settings(cx: &Context<'_>) -> Block {
    let mut block = Block::new("[limits]");
    let Some(http) =
        cx.root.get("settings").and_then(|settings| settings.get("http")).and_then(Json::as_object)
    else {
        return block;
    };
    for (key, value) in http {
        let path = format!("/settings/http/{key}");
        let number = value.as_u64();
        match (key.as_str(), number) {
            ("max_body_size", Some(bytes)) => {
                cx.translated(&path);
                block.push("body_bytes_max", write::size(bytes.min(64 << 30)), None);
                write::room_for_bodies(&mut block, Some(bytes));
            }
            (
                "idle_timeout" | "header_read_timeout" | "body_read_timeout" | "send_timeout",
                Some(seconds),
            ) => {
                cx.translated(&path);
                let key = match key.as_str() {
                    "idle_timeout" => "keep_alive_timeout",
                    "header_read_timeout" => "head_timeout",
                    "body_read_timeout" => "body_timeout",
                    _ => "write_timeout",
                };
                block.push(key, write::time(seconds.saturating_mul(1000).clamp(1000, 86_400_000)), None);
            }
            ("discard_unsafe_fields", _) => {
                cx.say(&path, Kind::Choice, "fields that could be taken for known ones are dropped");
            }
            ("server_version", _) if value.as_bool() == Some(false) => {
                cx.say(&path, Kind::NotNeeded, "`Server` has no version");
            }
            ("server_version", _) => cx.say(&path, Kind::Choice, "`Server` has no version"),
            ("body_buffer_size", _) => {
                cx.say(
                    &path,
                    Kind::NotNeeded,
                    "applications get bodies as they were sent, wherever they waited",
                );
            }
            // `types` and `spool` have them.
            ("static" | "body_temp_path", _) => {}
            ("chunked_transform", _) if value.as_bool() == Some(true) => {
                cx.say(&path, Kind::NotNeeded, "bodies in chunks reach applications");
            }
            ("chunked_transform", _) => cx.say(&path, Kind::Better, "bodies in chunks reach applications"),
            ("log_route", _) => cx.say(&path, Kind::Choice, "[log] has settings of its own"),
            _ => cx.not_possible(&path, "this member is not known"),
        }
    }
    block
}

fn of_http<'a>(cx: &Context<'a>, name: &str) -> Option<&'a Json> {
    cx.root.get("settings")?.get("http")?.get(name)
}

/// `body_temp_path`
fn spool(cx: &Context<'_>, server: &mut Block) {
    let Some(directory) = of_http(cx, "body_temp_path").and_then(Json::as_str) else { return };
    cx.translated("/settings/http/body_temp_path");
    match cx.machine.has_directory(directory) {
        true => server.push("spool", directory, None),
        false => server.push_off("spool", directory, None, "this directory is there on this machine"),
    }
}

/// `static/mime_types`: ends of names, by media type.
fn types(cx: &Context<'_>) -> Block {
    let mut block = Block::new("[defaults]");
    let path = "/settings/http/static";
    let Some(table) = of_http(cx, "static") else { return block };
    cx.translated(path);
    let mut types: Vec<(String, Value)> = Vec::new();
    for (kind, names) in table.get("mime_types").and_then(Json::as_object).into_iter().flatten() {
        let one = names.as_str().map(|one| vec![one]);
        let names = one.or_else(|| Some(names.as_array()?.iter().filter_map(Json::as_str).collect()));
        for name in names.unwrap_or_default() {
            match name.strip_prefix('.') {
                Some(ending) if !types.iter().any(|(known, _)| known == ending) => {
                    types.push((ending.to_owned(), kind.as_str().into()));
                }
                Some(_) => {}
                None => cx.not_possible(
                    &format!("{path}/mime_types/{kind}"),
                    "a media type follows from the end of a name",
                ),
            }
        }
    }
    if !types.is_empty() {
        block.push("types", Value::Table(types), None);
    }
    block
}

fn log(cx: &Context<'_>) -> Block {
    let mut block = Block::new("[log]");
    let Some(access) = cx.root.get("access_log") else { return block };
    let path = access.as_str().or_else(|| access.get("path").and_then(Json::as_str));
    if access.get("format").is_some() || access.get("if").is_some() {
        cx.say("/access_log", Kind::Choice, "formats of the access log are `combined` and `json`");
    } else {
        cx.translated("/access_log");
    }
    if let Some(path) = path {
        block.push("access_file", path, None);
    }
    block
}
