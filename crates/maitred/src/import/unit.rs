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
/// It is no JSON, or not of Unit.
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
    let mut sites: Vec<Site> = Vec::new();
    let (mut listens, mut proxies) = (Vec::new(), Vec::new());
    let empty = serde_json::Map::new();
    let members = |name: &str| cx.root.get(name).and_then(Json::as_object).unwrap_or(&empty);
    let several = members("listeners").len() > 1;
    for (address, listener) in members("listeners") {
        let path = format!("/listeners/{}", address.replace('/', "~1"));
        cx.translated(&path);
        let Some(address) = listen(cx, &path, address) else { continue };
        let mut block = Block::new("[[listen]]").from(&cx.place(&path), &path);
        block.push("address", address.as_str(), None);
        if listener.get("tls").is_some() {
            let why = "certificates are files here: `certificates` in a site, and `tls = {}` at the address";
            cx.say(&format!("{path}/tls"), Kind::NotPossible, why);
        }
        listens.push(block);
        forwarded(cx, &path, listener, &mut proxies);
        for (key, _) in listener.as_object().into_iter().flatten() {
            if !["pass", "tls", "forwarded", "client_ip"].contains(&key.as_str()) {
                cx.say(
                    &format!("{path}/{key}"),
                    Kind::Dropped,
                    "backlogs are long, and threads share the addresses",
                );
            }
        }
        let port = several.then(|| address.rsplit(':').next().unwrap_or_default().to_owned());
        routes::listener(cx, &path, listener, port.as_deref(), &mut sites);
    }
    let mut server = Block::new("[server]");
    if !proxies.is_empty() {
        server.push("trusted_proxies", Value::texts(&proxies), None);
    }
    blocks.push(server);
    blocks.extend(listens);
    blocks.push(settings(cx));
    blocks.push(log(cx));
    blocks.retain(|block| !block.entries.is_empty());
    blocks.extend(sites.into_iter().flat_map(write::site));
    for (name, _) in members("applications") {
        // Those that nothing leads to are shown as well.
        if let Err(why) = applications::pool(cx, name, None) {
            cx.say(&format!("/applications/{name}"), Kind::NotPossible, why);
        }
    }
    blocks.extend(cx.blocks());
    for (key, _) in cx.root.as_object().into_iter().flatten() {
        if !["listeners", "routes", "applications", "upstreams", "settings", "access_log"]
            .contains(&key.as_str())
        {
            cx.say(&format!("/{key}"), Kind::NotPossible, "this member is not known");
        }
    }
    Document { blocks, ..Document::default() }
}

fn listen(cx: &Context<'_>, path: &str, address: &str) -> Option<String> {
    if address.starts_with("unix:") {
        cx.say(path, Kind::NotPossible, "addresses have a port: there are no Unix sockets for clients");
        return None;
    }
    Some(address.strip_prefix('*').map_or(address.to_owned(), str::to_owned))
}

fn forwarded(cx: &Context<'_>, path: &str, listener: &Json, proxies: &mut Vec<String>) {
    for key in ["forwarded", "client_ip"] {
        let Some(member) = listener.get(key) else { continue };
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
            ("discard_unsafe_fields" | "server_version" | "body_buffer_size", _) => {
                cx.say(&path, Kind::Automatic, "fields with `_` are dropped, and the version is not shown");
            }
            ("static", _) => cx.say(&path, Kind::Dropped, "media types follow from the ends of names"),
            _ => cx.say(&path, Kind::Dropped, "it has no effect here"),
        }
    }
    block
}

fn log(cx: &Context<'_>) -> Block {
    let mut block = Block::new("[log]");
    let Some(access) = cx.root.get("access_log") else { return block };
    let path = access.as_str().or_else(|| access.get("path").and_then(Json::as_str));
    if access.get("format").is_some() || access.get("if").is_some() {
        cx.say("/access_log", Kind::Dropped, "formats of the access log are `combined` and `json`");
    } else {
        cx.translated("/access_log");
    }
    if let Some(path) = path {
        block.push("access_file", path, None);
    }
    block
}
