//! What an idle keep-alive connection holds of the server's memory.

use serde_json::{Value, json};

use super::client::Client;
use super::peers::Kind;
use super::process;
use super::protocol::Protocol;
use super::server::{Running, Setup};
use super::{Bench, Budget, Outcome, Row};
use crate::Result;

const CONNECTIONS: u32 = 10_000;
/// Handshakes take their time on both sides.
const CONNECTIONS_TLS: u32 = 2_000;
/// Opened and closed again first, so that what the server keeps for good is not counted as a connection's.
const WARM_UP_CONNECTIONS: u32 = 64;

/// Cleartext connections.
pub(super) fn run(bench: &Bench) -> Result<Outcome> {
    let (rows, raw) = measure(bench, Protocol::Http1, CONNECTIONS)?;
    let what = "10,000 idle keep-alive connections, each of which has made one request; private memory of the process tree";
    Ok(Outcome::new("idle-memory", what, Budget::Absolute(1024.0), "bytes per connection", rows, raw))
}

/// Connections over TLS.
pub(super) fn run_tls(bench: &Bench) -> Result<Outcome> {
    let (rows, raw) = measure(bench, Protocol::Http1Tls, CONNECTIONS_TLS)?;
    let what = "2,000 idle keep-alive connections over TLS 1.3, each of which has made one request; private memory of the \
                process tree";
    let budget = Budget::Absolute(12.0 * 1024.0);
    Ok(Outcome::new("tls-idle-memory", what, budget, "bytes per connection", rows, raw))
}

fn measure(bench: &Bench, protocol: Protocol, number: u32) -> Result<(Vec<Row>, Value)> {
    let setup = Setup { protocol, ..bench.setup(Vec::new()) };
    let mut rows = Vec::new();
    let mut raw = serde_json::Map::new();
    for kind in [Kind::Floor].into_iter().chain(bench.file_servers()) {
        let Some(server) = bench.start(kind, &setup)? else { continue };
        drop(connect(&server, WARM_UP_CONNECTIONS)?);
        let before = process::private_bytes(server.pid())?;
        let connections = connect(&server, number)?;
        let after = process::private_bytes(server.pid())?;
        drop(connections);
        let each = after.saturating_sub(before) as f64 / f64::from(number);
        let figures = json!({ "before": before, "after": after, "connections": number });
        raw.insert(kind.name().to_owned(), figures);
        let note = format!("private memory {} → {} KiB", before / 1024, after / 1024);
        rows.push(Row { server: kind.name(), cost: each, note, failures: 0 });
    }
    Ok((rows, raw.into()))
}

fn connect(server: &Running, number: u32) -> Result<Vec<Client>> {
    let mut clients = Vec::new();
    for _ in 0..number {
        let mut client = server.connect()?;
        let answer = client.get("/1k.txt")?;
        if answer.status != 200 || !answer.keeps {
            return Err(format!("connection {} of {number}: {answer:?}", clients.len()).into());
        }
        clients.push(client);
    }
    Ok(clients)
}
