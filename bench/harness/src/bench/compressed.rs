//! Files that are sent compressed, beside plain files of the same length.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use super::grid::{self, Grid, Line, Way};
use super::load::{self, Asked};
use super::peers::Kind;
use super::server::{Running, Setup};
use super::{Bench, Result};

/// Codings with the endings of their files.
const CODINGS: [(&str, &str); 3] = [("gzip", "gz"), ("zstd", "zst"), ("br", "br")];
/// Lengths of the JSON. Compressed, the first are about 10 KB, which every thread keeps in memory anyway; the others are longer
/// than what a plain file is kept for.
const LENGTHS: [(&str, usize); 2] = [("60 KB of JSON", 60 << 10), ("600 KB of JSON", 600 << 10)];
/// How long the server may take until it has compressed a file.
const COMPRESSED: Duration = Duration::from_secs(30);

/// Each coding of each length: a file that is as long as the compressed one, the one that the server has compressed, and one
/// that a build has.
pub(super) fn run(bench: &Bench) -> Result<Grid> {
    let root = bench.work.join("root/coded");
    for directory in ["plain", "kept", "sibling"] {
        fs::create_dir_all(root.join(directory))?;
    }
    let mut rows = Vec::new();
    for (what, bytes) in LENGTHS {
        for (coding, ending) in CODINGS {
            rows.push(row(bench, &root, (what, bytes), (coding, ending))?);
        }
    }
    let what = "A file that is sent compressed: kept in memory, or beside its source (`precompressed`); and a plain file of the same \
                length, which comes without `compress`. 64 connections, the same request for all";
    let [name, corner, base] = ["compressed", "file", "plain"].map(str::to_owned);
    let columns = ["plain", "compressed once", "precompressed"].map(str::to_owned).to_vec();
    Ok(Grid { name, what: what.to_owned(), corner, base, columns, rows })
}

fn row(
    bench: &Bench,
    root: &Path,
    (what, bytes): (&str, usize),
    (coding, ending): (&str, &str),
) -> Result<Line> {
    let name = format!("{bytes}-{coding}.json");
    let source = json(bytes);
    for directory in ["kept", "sibling"] {
        fs::write(root.join(directory).join(&name), &source)?;
    }
    let lines = |key: &str, directory: &str| {
        let root = bench.work.join("root");
        format!("\n[[site.route]]\npath = \"/coded/{directory}/*\"\nroot = \"{}\"\n{key}\n", root.display())
    };
    let start = |directory: &str, key: &str| {
        let setup = Setup { maitred_more: lines(key, directory), ..bench.setup(Vec::new()) };
        Running::start_as(Kind::Maitred, &format!("maitred-{directory}"), &setup)
    };
    let kept = start("kept", "compress = true")?;
    let path = |directory: &str| format!("/coded/{directory}/{name}?coding={coding}");
    let content = compressed(kept.address, &path("kept"), coding)?;
    fs::write(root.join("plain").join(&name), vec![b'x'; content.len()])?;
    fs::write(root.join("sibling").join(format!("{name}.{ending}")), &content)?;
    let servers = [
        (start("plain", ""), "plain"),
        (Ok(kept), "kept"),
        (start("sibling", &format!("precompressed = [\"{coding}\"]")), "sibling"),
    ];
    let length = content.len() as u64;
    let ways = servers.map(|(server, directory)| Way { server, path: path(directory), body_bytes: length });
    let label = format!("{what}, {coding}: {length} B");
    Ok(grid::measure_with(bench, &label, None, ways.into(), &|server, path| {
        let round =
            load::round(bench, server, Asked { path, script: "coding.lua", connections: 64, close: false })?;
        // Else it was not that representation.
        match round.wrk.bytes / round.wrk.requests.max(1) {
            mean if mean < length + 2048 => Ok(round),
            mean => Err(format!("{} sends {mean} bytes for each request, not {length}", server.name).into()),
        }
    }))
}

/// The content of a file once the server sends it in this coding.
fn compressed(address: SocketAddr, path: &str, coding: &str) -> Result<Vec<u8>> {
    let until = Instant::now() + COMPRESSED;
    loop {
        let mut stream = TcpStream::connect(address)?;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\nConnection: close\r\n\r\n"
        )?;
        let mut response = Vec::new();
        stream.read_to_end(&mut response)?;
        let end =
            response.windows(4).position(|bytes| bytes == b"\r\n\r\n").ok_or("a response without a head")?;
        let content = response.split_off(end + 4);
        let head = String::from_utf8_lossy(&response).to_ascii_lowercase();
        if head.contains(&format!("\r\ncontent-encoding: {coding}\r\n")) {
            return Ok(content);
        }
        if Instant::now() > until {
            return Err(format!("{path} is not compressed: {head}").into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Records as an API has them, the same each time.
fn json(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut text = "[".to_owned();
    while text.len() < bytes {
        let (id, price, stock) = (next() % 1_000_000, next() % 100_000, next() % 500);
        let record = format!(
            "{{\"id\":{id},\"name\":\"article {}\",\"price\":{price},\"stock\":{stock},\"tags\":[\"new\",\"{}\"],\"active\":{}}},\n",
            next() % 10_000,
            ["red", "green", "blue", "grey"].get((next() % 4) as usize).unwrap_or(&"none"),
            next() % 2 == 0
        );
        text.push_str(&record);
    }
    text.push_str("null]\n");
    text.into_bytes()
}
