//! Reloading, losing the worker process, and starting: what clients see of it.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::client::Client;
use super::load;
use super::peers::Kind;
use super::server::{Running, Setup, send};
use super::{Bench, Budget, Outcome, Row};
use crate::Result;

const RELOADS: u32 = 10;
/// Clients that open a connection for each request while the worker process is killed.
const CLIENTS: usize = 8;
/// Load before the kill, and after it.
const BEFORE: Duration = Duration::from_millis(500);
const AFTER: Duration = Duration::from_millis(1500);

/// 10 reloads in 10 seconds under keep-alive load.
pub(super) fn reload(bench: &Bench) -> Result<Outcome> {
    let setup = bench.setup(Vec::new());
    let mut rows = Vec::new();
    let mut raw = serde_json::Map::new();
    for kind in bench.nginx_like() {
        let Some(server) = bench.start(kind, &setup)? else { continue };
        let report = std::thread::scope(|scope| -> Result<load::Report> {
            let wrk =
                scope.spawn(|| load::wrk(bench, &server, load::hot(), 12).map_err(|error| error.to_string()));
            for _ in 0..RELOADS {
                std::thread::sleep(Duration::from_secs(1));
                server.signal(Signal::HUP)?;
            }
            Ok(wrk.join().map_err(|_| "the load panicked")??)
        })?;
        let note = format!("{} requests, slowest {} ms", report.requests, report.max / 1000);
        rows.push(Row { server: kind.name(), cost: report.errors() as f64, note, failures: 0 });
        raw.insert(kind.name().to_owned(), serde_json::to_value(&report)?);
    }
    let what = "10 reloads in 10 s under load (64 keep-alive connections)";
    Ok(Outcome::new("reload", what, Budget::Absolute(0.0), "failed requests", rows, raw.into()))
}

/// What one client saw around the kill.
#[derive(Default)]
struct Seen {
    refused: u64,
    cut: u64,
    answered: u64,
    /// From the kill to the end of the first request whose connection was opened after it.
    back_after: Option<Duration>,
}

/// The worker process is killed under load; a fresh server in each round.
pub(super) fn kill(bench: &Bench) -> Result<Outcome> {
    let what = "the worker process is killed (SIGKILL) under load of 8 clients that connect for each request; the worst round";
    let (name, target) = ("kill", "/1k.txt");
    killed(bench, (name, what), &bench.nginx_like().collect::<Vec<_>>(), &bench.setup(Vec::new()), target)
}

/// The same for requests that a Python application answers. Peers pass requests on to processes that are not theirs to end.
pub(super) fn kill_pool(bench: &Bench) -> Result<Outcome> {
    let what = "the worker process is killed (SIGKILL) under load of 8 clients that connect for each request, to a \
                Python application that takes 1 s to load; the worst round";
    let (name, target) = ("kill-pool", "/app/");
    let mut setup = bench.setup(Vec::new());
    setup.maitred_more = load::python_application(bench, "slow_start");
    setup.ready = target.to_owned();
    killed(bench, (name, what), &[Kind::Maitred], &setup, target)
}

fn killed(
    bench: &Bench,
    (name, what): (&'static str, &'static str),
    kinds: &[Kind],
    setup: &Setup,
    target: &str,
) -> Result<Outcome> {
    let mut rows = Vec::new();
    let mut raw = serde_json::Map::new();
    for kind in kinds.iter().copied() {
        let mut all = Vec::new();
        for _ in 0..bench.rounds {
            let Some(server) = bench.start(kind, setup)? else { break };
            all.push(kill_once(&server, target)?);
        }
        if all.is_empty() {
            continue;
        }
        let back: Vec<f64> = all
            .iter()
            .map(|seen| seen.back_after.map_or(f64::MAX, |after| after.as_secs_f64() * 1e3))
            .collect();
        let worst = back.iter().copied().fold(0.0, f64::max);
        let (refused, cut): (u64, u64) =
            (all.iter().map(|seen| seen.refused).sum(), all.iter().map(|seen| seen.cut).sum());
        let answered: u64 = all.iter().map(|seen| seen.answered).sum();
        let note = format!(
            "{refused} connections refused, {cut} requests cut, {answered} answered, {} kills",
            all.len()
        );
        rows.push(Row { server: kind.name(), cost: worst, note, failures: refused });
        raw.insert(
            kind.name().to_owned(),
            json!({ "back_ms": back, "refused": refused, "cut": cut, "answered": answered }),
        );
    }
    Ok(Outcome::new(name, what, Budget::Absolute(100.0), "ms until service is back", rows, raw.into()))
}

fn kill_once(server: &Running, target: &str) -> Result<Seen> {
    let killed: Mutex<Option<Instant>> = Mutex::new(None);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..CLIENTS).map(|_| scope.spawn(|| ask(server.address, target, &killed, &stop))).collect();
        std::thread::sleep(BEFORE);
        let result = server.worker().and_then(|worker| {
            let mut killed = killed.lock().map_err(|_| "a client panicked")?;
            send(worker, Signal::KILL)?;
            *killed = Some(Instant::now());
            Ok(())
        });
        std::thread::sleep(AFTER);
        stop.store(true, Ordering::Relaxed);
        let mut sum = Seen::default();
        for client in clients {
            let seen = client.join().map_err(|_| "a client panicked")?;
            sum.refused += seen.refused;
            sum.cut += seen.cut;
            sum.answered += seen.answered;
            sum.back_after = [sum.back_after, seen.back_after].into_iter().flatten().min();
        }
        result.map(|()| sum)
    })
}

fn ask(address: SocketAddr, target: &str, killed: &Mutex<Option<Instant>>, stop: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    while !stop.load(Ordering::Relaxed) {
        let killed = killed.lock().map_or(None, |killed| *killed);
        let mut client = match Client::connect(address) {
            Ok(client) => client,
            Err(_) => {
                seen.refused += 1;
                continue;
            }
        };
        match client.get(target) {
            Ok(_) => {
                seen.answered += 1;
                seen.back_after = seen.back_after.or(killed.map(|killed| killed.elapsed()));
            }
            Err(_) => seen.cut += 1,
        }
    }
    seen
}

/// From starting the program to its first answer.
pub(super) fn start(bench: &Bench) -> Result<Outcome> {
    let setup = bench.setup(Vec::new());
    let mut rows = Vec::new();
    let mut raw = serde_json::Map::new();
    for kind in bench.nginx_like() {
        let mut times = Vec::new();
        for _ in 0..bench.rounds {
            let Some(server) = bench.start(kind, &setup)? else { break };
            times.push(server.started_in.as_secs_f64() * 1e3);
        }
        if !times.is_empty() {
            let note = format!("{} starts", times.len());
            rows.push(Row {
                server: kind.name(),
                cost: super::median(times.iter().copied()),
                note,
                failures: 0,
            });
            raw.insert(kind.name().to_owned(), json!(times));
        }
    }
    let what = "from starting the program to its first answer, a configuration file read on the way";
    Ok(Outcome::new("start", what, Budget::Absolute(50.0), "ms", rows, raw.into()))
}
