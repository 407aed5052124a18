//! The servers of a pool, which change while the server runs: by commands, by names, by a file.

mod agents;
mod churn;
mod commands;
mod dns;
mod file;
mod ipv6;
mod names;

use serde_json::Value;

use crate::support::upstream::{Peer, Upstream};
use crate::support::{Server, Setup};

/// A server whose every request goes to `[pool.app]`.
fn setup(pool: &str) -> Setup {
    Setup::with_files().route("/*", "pool = \"app\"").table(&format!("[pool.app]\n{pool}\n"))
}

/// A server that answers with this text.
fn says(text: &'static str) -> Upstream {
    Upstream::start(move |peer: &mut Peer| {
        loop {
            peer.request()?;
            peer.answer(text)?;
        }
    })
}

/// The servers of `app` as `maitred upstream app` shows them, `ADDRESS WEIGHT STATE FROM` each.
fn listed(server: &Server) -> Vec<String> {
    let (status, text) = server.command(&["upstream", "app", "--json"]);
    assert!(status.success(), "{text}");
    let document: Value = serde_json::from_str(&text).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let show = |one: &Value| {
        let backup = if one["backup"] == true { " backup" } else { "" };
        let (address, weight) = (text(&one["address"]), &one["weight"]);
        format!("{address} {weight} {} {}{backup}", text(&one["state"]), text(&one["from"]))
    };
    document["servers"].as_array().unwrap().iter().map(show).collect()
}
