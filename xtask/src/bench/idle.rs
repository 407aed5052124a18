//! What an idle keep-alive connection holds of the server's memory.

use serde_json::json;

use super::client::Client;
use super::peers::Kind;
use super::process;
use super::{Bench, Budget, Outcome, Row};
use crate::Result;

const CONNECTIONS: u32 = 10_000;
/// Opened and closed again first, so that what the server keeps for good is not counted as a connection's.
const WARM_UP_CONNECTIONS: u32 = 64;

pub(super) fn run(bench: &Bench) -> Result<Outcome> {
    let setup = bench.setup(Vec::new());
    let mut rows = Vec::new();
    let mut raw = serde_json::Map::new();
    for kind in [Kind::Floor].into_iter().chain(bench.file_servers()) {
        let Some(server) = bench.start(kind, &setup)? else { continue };
        drop(connect(server.address, WARM_UP_CONNECTIONS)?);
        let before = process::private_bytes(server.pid())?;
        let connections = connect(server.address, CONNECTIONS)?;
        let after = process::private_bytes(server.pid())?;
        drop(connections);
        let each = after.saturating_sub(before) as f64 / f64::from(CONNECTIONS);
        raw.insert(
            kind.name().to_owned(),
            json!({ "before": before, "after": after, "connections": CONNECTIONS }),
        );
        let note = format!("private memory {} → {} KiB", before / 1024, after / 1024);
        rows.push(Row { server: kind.name(), cost: each, note, failures: 0 });
    }
    let what = "10,000 idle keep-alive connections, each of which has made one request; private memory of the process tree";
    Ok(Outcome::new("idle-memory", what, Budget::Absolute(1024.0), "bytes per connection", rows, raw.into()))
}

fn connect(address: std::net::SocketAddr, number: u32) -> Result<Vec<Client>> {
    let mut clients = Vec::new();
    for _ in 0..number {
        let mut client = Client::connect(address)?;
        let answer = client.get("/1k.txt")?;
        if answer.status != 200 || !answer.keeps {
            return Err(format!("connection {} of {number}: {answer:?}", clients.len()).into());
        }
        clients.push(client);
    }
    Ok(clients)
}
