//! System calls per request in the steady state, counted by strace, which noise cannot touch.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use super::h2load::{self, Length};
use super::peers::Kind;
use super::process;
use super::protocol::Protocol;
use super::server::{Running, Setup, send};
use super::{Bench, Budget, Outcome, Row};
use crate::Result;

const CONNECTIONS: usize = 16;
const ROUNDS: usize = 500;

/// Streams of HTTP/2 on each connection.
const STREAMS: u32 = 32;
const REQUESTS_HTTP2: u32 = 10_240;

/// HTTP/1.1 in cleartext.
pub(super) fn run(bench: &Bench) -> Result<Outcome> {
    let what = "8,000 requests for one file of 1 KB on 16 open keep-alive connections: one receive, one send, and the shared wait";
    measure(bench, "syscalls", what, Protocol::Http1, Budget::Absolute(3.0), count)
}

/// HTTP/1.1 over TLS.
pub(super) fn run_tls(bench: &Bench) -> Result<Outcome> {
    let what = "the same over TLS 1.3";
    measure(bench, "tls-syscalls", what, Protocol::Http1Tls, Budget::Absolute(3.0), count)
}

/// HTTP/2 over TLS, opening the connections included.
pub(super) fn run_http2(bench: &Bench) -> Result<Outcome> {
    let what = "10,240 requests for one file of 1 KB over HTTP/2 and TLS, 16 connections × 32 streams; opening the \
                connections included";
    measure(bench, "h2-syscalls", what, Protocol::Http2Tls, Budget::None, count_http2)
}

/// Calls by name, and how many requests they answered.
type Counted = (BTreeMap<String, u64>, u64);

fn measure(
    bench: &Bench,
    name: &'static str,
    what: &'static str,
    protocol: Protocol,
    budget: Budget,
    count: fn(&Bench, &Running) -> Result<Counted>,
) -> Result<Outcome> {
    let setup = Setup { protocol, ..bench.setup(Vec::new()) };
    let mut rows = Vec::new();
    let mut raw = serde_json::Map::new();
    for kind in [Kind::Floor].into_iter().chain(bench.file_servers()) {
        let Some(server) = bench.start(kind, &setup)? else { continue };
        let (calls, requests) = count(bench, &server)?;
        let requests = requests as f64;
        let total: u64 = calls.values().sum();
        let mut by_number: Vec<_> =
            calls.iter().filter(|(_, count)| **count as f64 >= requests / 1000.0).collect();
        by_number.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let shares = by_number.iter().map(|(name, count)| format!("{name} {:.3}", **count as f64 / requests));
        let note = shares.collect::<Vec<_>>().join(", ");
        rows.push(Row { server: kind.name(), cost: total as f64 / requests, note, failures: 0 });
        raw.insert(kind.name().to_owned(), serde_json::to_value(&calls)?);
    }
    Ok(Outcome::new(name, what, budget, "calls per request", rows, raw.into()))
}

/// Counts the calls of the whole tree while the requests of the steady state are made.
fn count(bench: &Bench, server: &Running) -> Result<Counted> {
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut client = server.connect()?;
        client.get("/1k.txt")?;
        clients.push(client);
    }
    let calls = during(bench, server, || {
        for _ in 0..ROUNDS {
            for client in &mut clients {
                client.send("/1k.txt")?;
            }
            for client in &mut clients {
                client.receive()?;
            }
        }
        Ok(())
    })?;
    Ok((calls, (CONNECTIONS * ROUNDS) as u64))
}

/// The same while h2load makes requests.
fn count_http2(bench: &Bench, server: &Running) -> Result<Counted> {
    let url = server.url("/1k.txt");
    let load = |requests| h2load::run(bench, &url, CONNECTIONS as u32, STREAMS, Length::Requests(requests));
    load(CONNECTIONS as u32 * STREAMS)?;
    let mut answered = 0;
    let calls = during(bench, server, || {
        let report = load(REQUESTS_HTTP2)?;
        answered = report.requests;
        if report.errors() > 0 { Err(format!("{report:?}").into()) } else { Ok(()) }
    })?;
    Ok((calls, answered))
}

/// Calls of the whole tree while something happens.
fn during(
    bench: &Bench,
    server: &Running,
    happens: impl FnOnce() -> Result<()>,
) -> Result<BTreeMap<String, u64>> {
    let counts = bench.work.join("strace-counts");
    let mut strace = attach(server, &counts)?;
    let result = happens();
    send(strace.id(), Signal::INT)?;
    strace.wait()?;
    result?;
    Ok(parse(&std::fs::read_to_string(counts)?))
}

/// Starts strace on every process of the tree, and waits until it has them all.
fn attach(server: &Running, counts: &std::path::Path) -> Result<Child> {
    let mut command = Command::new("strace");
    command.args(["-c", "-f", "-U", "name,calls", "-o"]).arg(counts).stderr(Stdio::piped());
    let processes = process::tree(server.pid());
    for pid in &processes {
        command.arg("-p").arg(pid.to_string());
    }
    let mut strace = command.spawn()?;
    let mut messages = BufReader::new(strace.stderr.take().ok_or("strace has no standard error")?);
    for _ in &processes {
        let mut line = String::new();
        messages.read_line(&mut line)?;
        if !line.contains("attached") {
            return Err(format!("strace: {line}").into());
        }
    }
    // strace's end of the pipe stays open: it writes a line for each process that it detaches from.
    strace.stderr = Some(messages.into_inner());
    Ok(strace)
}

/// Name and number of the calls in strace's table.
fn parse(table: &str) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (name, calls) = (fields.next()?, fields.next()?);
        Some((name.to_owned(), calls.parse().ok()?))
    };
    table.lines().filter_map(line).filter(|(name, _)| name != "total").collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_table_of_strace_is_read() {
        let table = "syscall                calls\n---------------- ---------\nrecvfrom              8000\nepoll_wait             500\n\
                     ---------------- ---------\ntotal                 8500\n";
        let calls = super::parse(table);
        assert_eq!(calls.get("recvfrom"), Some(&8000));
        assert_eq!(calls.len(), 2);
    }
}
