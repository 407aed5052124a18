//! TLS that the kernel encrypts (`ktls`), beside TLS of the server itself: files, and responses of processes, which then go to
//! the client without a relay. The comparison decides about `ktls = "auto"`: to be run on real hardware, with the module `tls`
//! loaded.

use std::fs;

use super::grid::{self, Grid, Line, Way};
use super::load::python_application;
use super::peers::Kind;
use super::protocol::Protocol;
use super::server::{Running, Setup};
use super::{Bench, Result};

/// Where the kernel lists what it can speak above TCP.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_ulp";
const CONNECTIONS: u32 = 64;
/// What is asked for, and how long it is.
const ROWS: [(&str, &str, u64); 4] = [
    ("file, 100 KB", "/large/100k.bin", 102_400),
    ("file, 10 MB", "/large/10m.bin", 10 << 20),
    ("response of a process, 1 KB", "/app/1024", 1024),
    ("response of a process, 100 KB", "/app/102400", 102_400),
];

/// Each of them, with and without.
pub(super) fn run(bench: &Bench) -> Result<Grid> {
    let names = fs::read_to_string(AVAILABLE).unwrap_or_default();
    if !names.split_whitespace().any(|name| name == "tls") {
        return Err("this kernel does not encrypt TLS: load its module `tls` (modprobe tls)".into());
    }
    let rows = ROWS.iter().map(|row| line(bench, *row)).collect();
    let what = "TLS 1.3 over HTTP/1.1 by the server itself, and by the kernel; 64 connections";
    let [name, corner, base] = ["ktls", "what", "off"].map(str::to_owned);
    let columns = ["off", "on"].map(str::to_owned).to_vec();
    Ok(Grid { name, what: what.to_owned(), corner, base, columns, rows })
}

fn line(bench: &Bench, (label, path, body_bytes): (&str, &str, u64)) -> Line {
    let ways = ["off", "on"].map(|ktls| {
        let setup = Setup {
            protocol: Protocol::Http1Tls,
            maitred_listen: format!("tls.ktls = \"{ktls}\"\n"),
            maitred_more: format!("\n{}", python_application(bench, "sized")),
            ..bench.setup(Vec::new())
        };
        let server = Running::start_as(Kind::Maitred, &format!("maitred-ktls-{ktls}"), &setup);
        Way { server, path: path.to_owned(), body_bytes }
    });
    grid::measure(bench, label, Some(body_bytes as f64), CONNECTIONS, ways.into())
}
