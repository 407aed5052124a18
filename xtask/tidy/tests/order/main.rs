//! The order of the server's modules, over its real imports: what a module may import, and that no more than two files need
//! one another.

#![allow(clippy::expect_used, reason = "helpers of tests, which clippy.toml does not know to be such")]

mod source;

use std::path::Path;

use source::{Crate, Edge};

/// The modules of the crate, from below. A module imports what stands below its line, and nothing of its own line but itself.
const ORDER: &[&[&str]] = &[
    // These know nothing of the server.
    &[
        "backoff",
        "bounds",
        "budget",
        "clock",
        "detect",
        "jwt",
        "overload",
        "passwords",
        "pki",
        "rates",
        "sandbox",
        "unix_time",
        "upgrade",
    ],
    &["pool", "quic"],
    &["config"],
    // Beside the way of a request: of what is further down in this table they know nothing.
    &[
        "access", "affinity", "cache", "compress", "control", "filter", "import", "log", "modules",
        "rewrite", "tls",
    ],
    &["agents", "trace"],
    &["acme", "checks", "key_agent", "names", "plan", "status"],
    &["route"],
    // The way of a request.
    &["exchange"],
    &["serve"],
    &["handoff", "proxy"],
    // The two processes: they know one another by `control` only.
    &["master", "worker"],
    &["cli"],
];

/// The layers of a thread, from below (`worker::layers`). A file of one imports nothing of those above it; what stands beside
/// them in `worker` is below all of them.
const LAYERS: &[&str] = &["base", "clients", "processes", "exchanges", "requests", "admission", "reactor"];
/// Who starts the threads, and their test.
const ABOVE_THE_LAYERS: &[&str] = &["worker/mod.rs", "worker/worlds/"];

fn server() -> Crate {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    Crate::read(&src).expect("the sources can be read")
}

/// The module at the top that a file belongs to; empty for `lib.rs`.
fn top(file: &str) -> &str {
    let first = file.split('/').next().unwrap_or_default();
    match first.strip_suffix(".rs") {
        Some("lib") => "",
        Some(name) => name,
        None => first,
    }
}

/// What goes up, or to the side.
fn arrows_up(order: &[&[&str]], edges: &[Edge]) -> Vec<String> {
    let level = |module: &str| order.iter().position(|line| line.contains(&module));
    let goes_up = |edge: &&Edge| {
        let (from, to) = (top(&edge.from), top(&edge.to));
        !from.is_empty() && from != to && level(to) >= level(from)
    };
    let show = |edge: &Edge| {
        format!(
            "{}:{}: {}, of {}, is not below {}",
            edge.from,
            edge.line,
            edge.name,
            edge.to,
            top(&edge.from)
        )
    };
    edges.iter().filter(goes_up).map(show).collect()
}

/// The layer of a file of the worker: 0 for what is below all of them.
fn layer(file: &str) -> Option<usize> {
    let name = file.strip_prefix("worker/")?;
    if ABOVE_THE_LAYERS.iter().any(|above| file.starts_with(above)) {
        return None;
    }
    let first = name.split('/').next().unwrap_or_default();
    let first = first.strip_suffix(".rs").unwrap_or(first);
    Some(LAYERS.iter().position(|layer| *layer == first).map_or(0, |at| at + 1))
}

/// What goes up from a layer.
fn arrows_up_in_layers(edges: &[Edge]) -> Vec<String> {
    let goes_up = |edge: &&Edge| match (layer(&edge.from), layer(&edge.to)) {
        (Some(from), Some(to)) => to > from,
        _ => false,
    };
    let show = |edge: &Edge| format!("{}:{}: {}, of {}", edge.from, edge.line, edge.name, edge.to);
    edges.iter().filter(goes_up).map(show).collect()
}

/// Cycles of more than two files, each with one import of each pair of files.
fn cycles(edges: &[Edge]) -> Vec<String> {
    let show = |cycle: Vec<String>| {
        let mut imports: Vec<&Edge> =
            edges.iter().filter(|edge| cycle.contains(&edge.from) && cycle.contains(&edge.to)).collect();
        imports.dedup_by(|later, first| later.from == first.from && later.to == first.to);
        let imports: String = imports
            .iter()
            .map(|edge| format!("\n    {}:{}: {}, of {}", edge.from, edge.line, edge.name, edge.to))
            .collect();
        format!("{} files need one another:{imports}", cycle.len())
    };
    let found = source::cycles(edges).into_iter();
    found.filter(|cycle| cycle.len() > 2).map(show).collect()
}

fn report(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
}

#[test]
fn modules_import_what_is_below_them() {
    let server = server();
    let mut listed = ORDER.concat();
    listed.sort_unstable();
    assert_eq!(listed, server.top(), "each module of lib.rs has its place in ORDER");
    report("imports go down (ORDER)", &arrows_up(ORDER, &server.edges()));
}

#[test]
fn no_more_than_two_files_need_one_another() {
    let edges = server().edges();
    assert!(edges.len() > 1000, "{} imports: are they all read?", edges.len());
    report("cycles of imports", &cycles(&edges));
}

#[test]
fn layers_of_a_thread_import_what_is_below_them() {
    let edges = server().edges();
    let layers = edges.iter().filter(|edge| layer(&edge.from) > Some(0)).count();
    assert!(layers > 200, "{layers} imports of layers: are they all known?");
    report("imports go down (LAYERS)", &arrows_up_in_layers(&edges));
    // What a client is, nothing of its request may know.
    let (from, to) = ("worker/clients/wire.rs".to_owned(), "worker/requests/mod.rs".to_owned());
    let edge = Edge { from, to, line: 7, name: "crate::worker::requests::Requests".to_owned() };
    assert_eq!(
        arrows_up_in_layers(&[edge]),
        ["worker/clients/wire.rs:7: crate::worker::requests::Requests, of worker/requests/mod.rs"]
    );
}

/// What a connection consists of is values: it reads and writes nothing, asks no clock, counts nothing and logs nothing.
#[test]
fn a_connection_does_no_io() {
    const NOT_THERE: &[&str] =
        &["rustix::", "maitred_sys::", "os::fd", "tracing::", "scoreboard", "Instant::now", "SystemTime"];
    // What the kernel has said of a socket, as a value.
    const VALUES: &[&str] = &["use maitred_sys::delivery::Progress;"];
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/worker/connection");
    let (mut found, mut files) = (Vec::new(), 0);
    for entry in std::fs::read_dir(directory).expect("the directory can be read") {
        let path = entry.expect("its entries can be read").path();
        if path.extension().is_none_or(|extension| extension != "rs") || path.ends_with("tests.rs") {
            continue;
        }
        files += 1;
        let text = std::fs::read_to_string(&path).expect("sources can be read");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in lines.filter(|line| !VALUES.contains(line)) {
            found.extend(
                NOT_THERE.iter().filter(|word| line.contains(**word)).map(|_| format!("{path:?}: {line}")),
            );
        }
    }
    assert!(files > 10, "{files} files: are they all there?");
    report("I/O in worker::connection", &found);
}

/// The figure of the modules in `ARCHITECTURE.md`: the top line first, the names of a line before its explanation.
#[test]
fn the_architecture_shows_this_order() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ARCHITECTURE.md");
    let text = std::fs::read_to_string(document).expect("there is ARCHITECTURE.md");
    let figure = text.split("```").find(|block| block.starts_with("\ncli\n")).expect("it shows the modules");
    let shown: Vec<Vec<&str>> = figure
        .trim()
        .lines()
        .map(|line| line.split("  ").next().unwrap_or_default().split(' ').collect())
        .collect();
    let ordered: Vec<Vec<&str>> = ORDER.iter().rev().map(|line| line.to_vec()).collect();
    assert_eq!(shown, ordered);
}

/// A crate of three modules in a directory, with this text in `low.rs`.
fn fixture(low: &str) -> (tempfile::TempDir, Vec<Edge>) {
    let directory = tempfile::tempdir().expect("there is room for a directory");
    let files = [
        ("lib.rs", "pub mod low; pub mod middle; pub mod high;"),
        ("low.rs", low),
        ("middle.rs", "use crate::low::Low; pub fn of(_: Low) {}"),
        ("high/mod.rs", "mod part; pub use part::*; pub struct High;"),
        (
            "high/part.rs",
            "use crate::{low::{self, Low as L}, middle}; pub enum Part { A } fn f(l: L) { middle::of(l) }",
        ),
    ];
    for (name, text) in files {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().expect("it is in a directory"))
            .expect("directories can be made");
        std::fs::write(path, text).expect("files can be written");
    }
    let edges = Crate::read(directory.path()).expect("it can be read").edges();
    (directory, edges)
}

#[test]
fn an_import_that_goes_up_is_found_however_it_is_written() {
    const ORDER: &[&[&str]] = &[&["low"], &["middle"], &["high"]];
    let harmless = "// use crate::high::High;\n/// [`crate::high::High`]\npub struct Low; const T: &str = \"crate::high::High\";
        #[cfg(test)] mod tests { use crate::high::High; } #[cfg(test)] use crate::high::High;";
    let (_directory, edges) = fixture(harmless);
    assert_eq!(arrows_up(ORDER, &edges), Vec::<String>::new());
    assert_eq!(cycles(&edges), Vec::<String>::new());
    let found = |line: &str| {
        let (_directory, edges) = fixture(&format!("{harmless}\n{line}\n"));
        (arrows_up(ORDER, &edges), cycles(&edges))
    };
    for (line, name, file) in [
        ("use crate::high::High;", "crate::high::High", "high/mod.rs"),
        ("use super::{high::{self, Part}};", "super::high::Part", "high/part.rs"),
        ("use super::high; fn f(_: high::Part) {}", "high::Part", "high/part.rs"),
        ("fn f() { let _ = vec![crate::high::Part::A]; }", "crate::high::Part::A", "high/part.rs"),
        ("use super::high::*;", "super::high::*", "high/mod.rs"),
        ("pub(crate) use crate::high::High as Tall;", "crate::high::High", "high/mod.rs"),
        (
            "mod inner { fn f() { use super::super::high::Part::{self}; } }",
            "super::super::high::Part",
            "high/part.rs",
        ),
    ] {
        let (up, cycles) = found(line);
        assert_eq!(up, [format!("low.rs:5: {name}, of {file}, is not below low")], "{line}");
        // `high/mod.rs` itself imports nothing.
        assert_eq!(cycles.len(), usize::from(file == "high/part.rs"), "{line}: {cycles:?}");
    }
    let (_, cycles) = found("use crate::high::Part;");
    assert!(cycles.concat().starts_with("3 files need one another:\n    high/part.rs:1: "), "{cycles:?}");
}
