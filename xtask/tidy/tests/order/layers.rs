//! The layers of a thread of the worker, and what a connection must not do.

use maitred_tidy::{report, root};

use crate::calls::Calls;
use crate::read;
use crate::source::Edge;

/// The layers of a thread, from below (`worker::layers`). A file of one imports nothing of those above it; what stands beside
/// them in `maitred-worker` is below all of them.
const LAYERS: &[&str] = &["base", "clients", "processes", "exchanges", "requests", "admission", "reactor"];
/// The start of the threads, and their test.
const ABOVE_THE_LAYERS: &[&str] = &["lib.rs", "worlds/"];

/// The layer of a file of the worker: 0 for what is below all of them.
fn layer(file: &str) -> Option<usize> {
    if ABOVE_THE_LAYERS.iter().any(|above| file.starts_with(above)) {
        return None;
    }
    let first = file.split('/').next().unwrap_or_default();
    let first = first.strip_suffix(".rs").unwrap_or(first);
    Some(LAYERS.iter().position(|layer| *layer == first).map_or(0, |at| at + 1))
}

/// Imports and calls that go up from a layer.
fn arrows_up(edges: &[Edge]) -> Vec<String> {
    let goes_up = |edge: &&Edge| match (layer(&edge.from), layer(&edge.to)) {
        (Some(from), Some(to)) => to > from,
        _ => false,
    };
    edges.iter().filter(goes_up).map(Edge::to_string).collect()
}

/// The compiler holds that for all calls: one that seems to go up would be a mistake of how they are read.
#[test]
fn layers_of_a_thread_call_what_is_below_them() {
    let edges = Calls::read(&read("maitred-worker")).edges();
    let layers = edges.iter().filter(|edge| layer(&edge.from) > Some(0)).count();
    assert!(layers > 400, "{layers} calls between files of layers: are they all read?");
    report("calls go down (LAYERS)", &arrows_up(&edges));
}

#[test]
fn layers_of_a_thread_import_what_is_below_them() {
    let edges = read("maitred-worker").edges();
    let layers = edges.iter().filter(|edge| layer(&edge.from) > Some(0)).count();
    assert!(layers > 200, "{layers} imports of layers: are they all known?");
    report("imports go down (LAYERS)", &arrows_up(&edges));
    // No file about what a client is may know of its request.
    let (from, to) = ("clients/wire.rs".to_owned(), "requests/mod.rs".to_owned());
    let edge = Edge { from, to, line: 7, name: "crate::requests::Requests".to_owned() };
    assert_eq!(arrows_up(&[edge]), ["clients/wire.rs:7: crate::requests::Requests, of requests/mod.rs"]);
}

/// A connection consists of values: it reads and writes nothing, asks no clock, counts nothing and logs nothing.
#[test]
fn a_connection_does_no_io() {
    const NOT_THERE: &[&str] =
        &["rustix::", "maitred_sys::", "os::fd", "tracing::", "scoreboard", "Instant::now", "SystemTime"];
    // An answer of the kernel about a socket, as a value.
    const VALUES: &[&str] = &["use maitred_sys::delivery::Progress;"];
    let directory = root().join("crates/maitred-worker/src/connection");
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
