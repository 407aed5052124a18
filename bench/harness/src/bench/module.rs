//! A small answer of a module, beside the same one that is configured.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::grid::{self, Grid, Line, Way};
use super::load::{self, Asked};
use super::peers::Kind;
use super::server::{Running, Setup};
use super::{Bench, Result};

/// What is answered: as the example `hello` does.
const TEXT: &str = "Hello, world\n";

/// The same text by `respond`, by a module in Rust and in C, and by `respond` where a module adds a field.
pub(super) fn run(bench: &Bench) -> Result<Grid> {
    let rows = vec![
        row(bench, "64 connections", "plain.lua")?,
        row(bench, "64 connections, 16 requests at a time", "pipelined-16.lua")?,
    ];
    let what = "A text of 13 bytes: configured (`respond`), by the module `hello` in Rust and in C, and configured with a field that the \
                module `stamp` adds. One thread, no access log";
    let [name, corner, base] = ["module", "load", "respond"].map(str::to_owned);
    let columns = ["respond", "hello (Rust)", "hello (C)", "respond and stamp"].map(str::to_owned).to_vec();
    Ok(Grid { name, what: what.to_owned(), corner, base, columns, rows })
}

fn row(bench: &Bench, label: &str, script: &str) -> Result<Line> {
    let examples = bench.maitred.with_file_name("examples");
    let module = |library: &Path, config: &str| {
        let library = library.display();
        format!("module = {{ path = \"{library}\", config = {{ {config} }} }}\n")
    };
    let respond = format!("respond = {{ body = {TEXT:?} }}\n");
    let hello = "greeting = \"Hello\"";
    let routes = [
        ("respond", respond.clone()),
        ("hello", module(&examples.join("libhello.so"), hello)),
        ("hello-c", module(&hello_in_c(bench)?, hello)),
        ("stamp", respond + &module(&examples.join("libstamp.so"), "")),
    ];
    let ways = routes.map(|(name, route)| {
        let lines = format!("\n[[site.route]]\npath = \"/hello\"\n{route}");
        let setup = Setup { maitred_more: lines, ..bench.setup(Vec::new()) };
        let server = Running::start_as(Kind::Maitred, &format!("maitred-{name}"), &setup);
        Way { server, path: "/hello".to_owned(), body_bytes: 0 }
    });
    Ok(grid::measure_with(bench, label, None, ways.into(), &|server, path| {
        load::round(bench, server, Asked { path, script, connections: 64, close: false })
    }))
}

/// The example in C, compiled.
fn hello_in_c(bench: &Bench) -> Result<PathBuf> {
    let library = bench.work.join("libhello-c.so");
    let source = Path::new("crates/maitred-module");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-fPIC", "-shared", "-I"]).arg(source.join("include"));
    let status = cc.arg("-o").arg(&library).arg(source.join("examples/c/hello.c")).status()?;
    if status.success() { Ok(library) } else { Err(format!("cc: {status}").into()) }
}
