//! Applications in each language, with frameworks and without: alone in the best server of their own, behind nginx, behind Caddy,
//! and behind Maitred. Applications and commands are in `bench/apps`.
//!
//! | file | what |
//! |---|---|
//! | `plan` | what a file of `bench/apps` says |
//! | `prepare` | packages and builds that applications need |
//! | `start` | an application in each of its ways |
//! | `table` | the table |

mod plan;
mod prepare;
mod start;
mod table;

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::grid::{self, Cell, Line};
use super::h2load::{self, Length};
use super::load::{self, Asked};
use super::protocol::Protocol;
use super::server::Running;
use super::{Bench, Result, handoff};
use plan::{Front, Load, Needs, Plan, Way};
use start::Application;
pub(super) use start::kept;
pub(super) use table::Table;
use table::{Place, Row};

/// Files of `bench/apps`, in the order of the table.
const APPLICATIONS: [&str; 13] = [
    "floor",
    "wsgi",
    "asgi",
    "rsgi",
    "node-http",
    "go",
    "django",
    "flask",
    "fastapi",
    "express",
    "fastify",
    "next",
    "gin",
];
/// Protocols, their names in the table, and those of `--only`.
const PROTOCOLS: [(Protocol, &str, &str); 2] =
    [(Protocol::Http1, "HTTP/1.1", "http1"), (Protocol::Http2Tls, "HTTP/2, TLS", "http2")];
/// For how long Node.js is asked at least before it is measured: V8 compiles what runs often.
const COMPILING_SECONDS: u32 = 5;
const WHAT: &str = "Applications alone in the best servers of their own, behind nginx and Caddy with kept connections over a Unix socket, \
                    and behind Maitred; every server as its own documentation has it for speed, with one process of the \
                    application. CPU time of front and application together; × alone and × nginx are to the cheapest of these";

/// All applications under all of their loads.
pub(super) fn run(bench: &Bench) -> Result<Table> {
    let mut rows = Vec::new();
    for name in APPLICATIONS {
        for (protocol, over, key) in PROTOCOLS {
            if wanted(bench, name, key) {
                measure(bench, name, protocol, over, &mut rows)?;
            }
        }
    }
    if rows.is_empty() && !bench.only.is_empty() {
        eprintln!(
            "  --only names none of {}; nor http1, http2, nor both as in wsgi/http2",
            APPLICATIONS.join(", ")
        );
    }
    Ok(Table { name: "applications", what: WHAT, rows })
}

/// `--only` names applications, protocols, or both with a slash between.
fn wanted(bench: &Bench, application: &str, protocol: &str) -> bool {
    let both = format!("{application}/{protocol}");
    [application, protocol, &both].into_iter().any(|name| bench.wants(name))
}

fn measure(
    bench: &Bench,
    name: &str,
    protocol: Protocol,
    over: &'static str,
    rows: &mut Vec<Row>,
) -> Result<()> {
    let plan = Plan::read(&bench.directory.join("apps"), name)?;
    let row = |load: &Load, place: Place, server: String, command: String, cell: Cell| Row {
        application: name.to_owned(),
        load: load.name.clone(),
        over,
        place,
        server,
        command,
        cell,
    };
    let made = match prepare::prepare(bench, plan.needs) {
        Ok(made) => made,
        Err(why) => {
            eprintln!("  {name}: {why}");
            let absent = |load: &Load| {
                row(load, Place::Alone, "all".to_owned(), String::new(), Cell::Absent(why.to_string()))
            };
            rows.extend(plan.loads(protocol).iter().map(absent));
            return Ok(());
        }
    };
    let application = Application { bench, name, plan, made };
    let title = format!("{name} {}", application.version(&application.plan.version));
    let ways = application.plan.ways(protocol);
    let described: Vec<(Place, String, String)> =
        ways.iter().map(|way| describe(&application, *way)).collect();
    for load in application.plan.loads(protocol) {
        let line = line(&application, &ways, &load, protocol, over);
        for (number, ((place, server, command), cell)) in
            described.iter().cloned().zip(line.cells).enumerate()
        {
            let cell = match cell {
                Cell::Absent(why) => Cell::Absent(bench.without_places(&why)),
                Cell::Measured(_) => {
                    // Access logs grow to gigabytes; where something failed, they say why.
                    application.remove(number)?;
                    cell
                }
            };
            let row = row(&load, place, server, command, cell);
            rows.push(Row { application: title.trim().to_owned(), ..row });
        }
    }
    Ok(())
}

/// Measures one load in all ways. The first round of each is for warming, and is dropped.
fn line(
    application: &Application<'_>,
    ways: &[Way<'_>],
    load: &Load,
    protocol: Protocol,
    over: &str,
) -> Line {
    let bench = application.bench;
    let started = ways.iter().enumerate().map(|(number, way)| grid::Way {
        server: application.start(*way, number, protocol, load),
        path: load.path.clone(),
        body_bytes: load.bytes,
    });
    let label = format!("{}, {}, {over}", application.name, load.name);
    let warmed = RefCell::new(BTreeSet::new());
    grid::measure_with(bench, &label, None, started.collect(), &|server, path| {
        let is_first = warmed.borrow_mut().insert(server.name.clone());
        let least = if is_first && application.plan.needs == Needs::Node { COMPILING_SECONDS } else { 0 };
        let seconds = bench.seconds.max(least);
        load::round_with(server, || generate(bench, server, path, protocol, load.bytes, seconds))
    })
}

/// One round: 64 requests at a time, 16 if they are large, over either protocol.
fn generate(
    bench: &Bench,
    server: &Running,
    path: &str,
    protocol: Protocol,
    bytes: u64,
    seconds: u32,
) -> Result<load::Report> {
    let at_a_time = handoff::connections(bytes);
    if protocol.is_http2() {
        let each = if at_a_time == 64 { 8 } else { 4 };
        return h2load::run(bench, &server.url(path), at_a_time / each, each, Length::Seconds(seconds));
    }
    let asked = Asked { path, script: "plain.lua", connections: at_a_time, close: false };
    load::wrk(bench, server, asked, seconds)
}

/// Where a row belongs, its peers with versions and options, and the application's command.
fn describe(application: &Application<'_>, way: Way<'_>) -> (Place, String, String) {
    let named = |name: &str, version: &[String], options: &str| {
        let version = application.version(version);
        let version = if version.is_empty() { version } else { format!(" {version}") };
        let options = if options.is_empty() { String::new() } else { format!(" ({options})") };
        format!("{name}{version}{options}")
    };
    let front = |front: Front| format!("{} {}", front.name(), front.version(application.bench));
    match way {
        Way::Alone(server) => {
            let words = application.shown(&server.command);
            (Place::Alone, named(&server.name, &server.version, &server.options), words)
        }
        Way::Behind(before, server) => {
            let place = match before {
                Front::Nginx => Place::Nginx,
                Front::Caddy => Place::Caddy,
                Front::Maitred => Place::Maitred,
            };
            let as_proxy = if before == Front::Maitred { " as a proxy" } else { "" };
            let server_name = named(&server.name, &server.version, &server.options);
            let label = format!("{}{as_proxy} → {server_name}", front(before));
            (place, label, application.shown(&server.command))
        }
        Way::Pooled(pool, transport) => {
            let pool_name = named(&pool.name, &pool.version, &pool.options);
            let label = format!("{}, transport {transport} → {pool_name}", front(Front::Maitred));
            (Place::Maitred, label, application.shown(&pool.command))
        }
    }
}
