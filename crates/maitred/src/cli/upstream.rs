//! `maitred upstream`: the servers of a pool of a running server.

use std::fmt::Write as _;

use maitred_http::uri::encode_component;
use serde_json::Value;

use super::exit::Error;
use super::{Upstream, UpstreamAction};
use maitred_control::servers::ServerEntry;
use maitred_status::text::{list, show};

/// What it prints.
///
/// # Errors
/// What is wrong with the arguments, or what the server says.
pub fn run(upstream: &Upstream) -> Result<String, Error> {
    let path = path(upstream)?;
    let target = upstream.server.target()?;
    if upstream.action.unwrap_or(UpstreamAction::List) != UpstreamAction::List {
        return target.command(&path);
    }
    let text = target.question(&path)?;
    match serde_json::from_str(&text) {
        Ok(document) if !upstream.json => Ok(table(&document)),
        _ => Ok(text),
    }
}

/// The target of the request.
fn path(upstream: &Upstream) -> Result<String, Error> {
    let usage = |text: &str| Err(Error::usage(text, "see `maitred upstream --help`"));
    let weights = ServerEntry::WEIGHT_MIN..=ServerEntry::WEIGHT_MAX;
    if upstream.weight.is_some_and(|weight| !weights.contains(&weight)) {
        return usage("a weight is a number from 1 to 1000");
    }
    let (name, weight) = (&upstream.name, upstream.weight);
    let word = match (upstream.action, weight) {
        (None | Some(UpstreamAction::List | UpstreamAction::Reset), Some(_))
        | (Some(UpstreamAction::Drain | UpstreamAction::Remove), Some(_)) => {
            return usage("only `add` and `weight` take a weight");
        }
        (Some(UpstreamAction::Weight), None) => return usage("the weight is missing"),
        (None | Some(UpstreamAction::List), _) => return bare(upstream, format!("/upstreams/{name}")),
        (Some(UpstreamAction::Reset), _) => return bare(upstream, format!("/upstreams/{name}/reset")),
        (Some(UpstreamAction::Add), _) => "add",
        (Some(UpstreamAction::Drain), _) => "drain",
        (Some(UpstreamAction::Remove), _) => "remove",
        (Some(UpstreamAction::Weight), _) => "weight",
    };
    let Some(address) = &upstream.address else { return usage("the address of the server is missing") };
    let mut encoded = Vec::new();
    encode_component(address.to_string().as_bytes(), &mut encoded);
    let mut path = format!("/upstreams/{name}/{word}?address={}", String::from_utf8_lossy(&encoded));
    if let Some(weight) = weight {
        let _ = write!(path, "&weight={weight}");
    }
    if upstream.backup {
        path.push_str("&backup=true");
    }
    Ok(path)
}

fn bare(upstream: &Upstream, path: String) -> Result<String, Error> {
    match upstream.address.is_none() {
        true => Ok(path),
        false => Err(Error::usage("this takes no address", "see `maitred upstream --help`")),
    }
}

/// One line per server.
fn table(document: &Value) -> String {
    let mut rows = vec![["address", "weight", "state", "from", "name"].map(str::to_owned)];
    for server in list(&document["servers"]) {
        let backup = if server["backup"] == true { "backup, " } else { "" };
        let unwell = if server["health"] == "unwell" { ", unwell" } else { "" };
        let state = format!("{backup}{}{unwell}", show(&server["state"]));
        let rest = |key: &str| show(&server[key]);
        rows.push([rest("address"), rest("weight"), state, rest("from"), rest("name")]);
    }
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..5).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    for server in list(&document["servers"]).iter().filter(|server| server["why"].is_string()) {
        let _ = writeln!(text, "{} is unwell: {}", show(&server["address"]), show(&server["why"]));
    }
    let removed: Vec<String> = list(&document["removed"]).iter().map(show).collect();
    if !removed.is_empty() {
        let _ = writeln!(text, "removed by command: {}", removed.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::{Arguments, Command};
    use super::*;

    fn path_of(line: &str) -> Result<String, Error> {
        let arguments = Arguments::try_parse_from(format!("maitred upstream {line}").split(' '));
        let Command::Upstream(upstream) = arguments.unwrap().command else { panic!("another command") };
        path(&upstream)
    }

    #[test]
    fn arguments_become_a_target() {
        for (line, expected) in [
            ("app", "/upstreams/app"),
            ("app list --json", "/upstreams/app"),
            (
                "app add [::1]:80 7 --backup",
                "/upstreams/app/add?address=%5B%3A%3A1%5D%3A80&weight=7&backup=true",
            ),
            ("app drain unix:/run/a&b", "/upstreams/app/drain?address=unix%3A%2Frun%2Fa%26b"),
            ("app remove 127.0.0.1:80", "/upstreams/app/remove?address=127.0.0.1%3A80"),
            ("app weight 127.0.0.1:80 9", "/upstreams/app/weight?address=127.0.0.1%3A80&weight=9"),
            ("app reset", "/upstreams/app/reset"),
        ] {
            assert_eq!(path_of(line).ok().as_deref(), Some(expected), "{line}");
        }
        for wrong in [
            "app add",
            "app weight 127.0.0.1:80",
            "app drain 127.0.0.1:80 2",
            "app reset 127.0.0.1:80",
            "app add 1.1.1.1:1 0",
        ] {
            assert!(path_of(wrong).is_err(), "{wrong}");
        }
    }
}
