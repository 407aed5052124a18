//! Everything that is simulated, as the tables and pictures of `docs/pools.md`.

use std::fmt::Write as _;

use crate::engine::run;
use crate::outcome::Outcome;
use crate::plot;
use crate::policy;
use crate::scenario::Scenario;
use crate::steering::{self, Steered};
use crate::{SECOND, seconds};

/// Tables and pictures.
pub struct Report {
    /// A table's name, and the table in Markdown.
    pub tables: Vec<(String, String)>,
    /// A picture's file name, and the picture.
    pub plots: Vec<(String, String)>,
}

/// What the report of April 2002 says of the worker MPM: seconds since the start, busy threads, idle threads.
const REPORTED: [(u64, u32, u32); 8] = [
    (44, 142, 49),
    (134, 207, 134),
    (184, 200, 82),
    (343, 381, 175),
    (464, 10, 50),
    (504, 233, 209),
    (724, 210, 454),
    (3_600, 357, 181),
];

/// Simulates everything.
pub fn report() -> Report {
    let mut report = Report { tables: Vec::new(), plots: Vec::new() };
    for scenario in Scenario::all() {
        let simulate = |mut policy: Box<dyn policy::Policy>| run(&scenario, &mut *policy);
        let outcomes: Vec<Outcome> = policy::all(&scenario).into_iter().map(simulate).collect();
        report.tables.push((scenario.name.to_owned(), table(&outcomes)));
        report.plots.push((format!("{}.svg", scenario.name), plot::timeline(&scenario, &outcomes)));
        if let Some(old) = outcomes.iter().find(|outcome| outcome.policy == "worker 2002") {
            report.tables.push(("2002-reported".to_owned(), beside_the_report(old)));
        }
    }
    buckets(&mut report);
    report
}

/// One line for each policy.
fn table(outcomes: &[Outcome]) -> String {
    let mut table = String::from(
        "| policy | starts | kills | deaths | answered/s | refused | lost | wait p99 | wait p99.9 | places held | busy |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for outcome in outcomes {
        let per_second = |sum: f64| sum / seconds(outcome.length);
        let wait = |share: f64| format!("{:.2} s", outcome.waits.quantile(share));
        let _ = writeln!(
            table,
            "| {} | {} | {} | {} | {:.1} | {} | {} | {} | {} | {:.0} | {:.0} |",
            outcome.policy,
            outcome.starts,
            outcome.kills,
            outcome.deaths,
            outcome.rate(),
            outcome.refused,
            outcome.lost,
            wait(0.99),
            wait(0.999),
            per_second(outcome.held),
            per_second(outcome.used),
        );
    }
    table
}

/// The model of 2002 beside what was seen.
fn beside_the_report(old: &Outcome) -> String {
    let mut table = String::from(
        "| time | reported: busy, idle | model: busy, idle | model: processes, of these draining |\n|---|---|---|---|\n",
    );
    for (at, busy, idle) in REPORTED {
        let sample = old.at(at * SECOND);
        let _ = writeln!(
            table,
            "| {}:{:02} | {busy}, {idle} | {}, {} | {}, {} |",
            at / 60,
            at % 60,
            sample.busy,
            sample.idle,
            sample.processes,
            sample.draining
        );
    }
    let _ = writeln!(table, "| the hour | 84.7 requests/s | {:.1} requests/s | |", old.rate());
    table
}

fn buckets(report: &mut Report) {
    let all: Vec<(&str, Vec<Steered>)> = steering::ALL
        .iter()
        .map(|(steering, name)| {
            (*name, steering::THREADS.map(|threads| steering::run(*steering, threads, 1)).into())
        })
        .collect();
    let heads = steering::THREADS.map(|threads| threads.to_string()).join(" | ");
    let line = "---:|".repeat(steering::THREADS.len());
    type Figure = fn(&Steered) -> String;
    let tables: [(&str, Figure); 3] = [
        ("buckets-p99", |steered| format!("{:.2}", steered.latency.quantile(0.99) * 1e3)),
        ("buckets-lock", |steered| format!("{:.0} %", steered.lock * 100.0)),
        ("buckets-busiest", |steered| format!("{:.2}", steered.busiest)),
    ];
    for (name, figure) in tables {
        let mut table = format!("| policy | {heads} |\n|---|{line}\n");
        for (policy, runs) in &all {
            let cells: Vec<String> = runs.iter().map(figure).collect();
            let _ = writeln!(table, "| {policy} | {} |", cells.join(" | "));
        }
        report.tables.push((name.to_owned(), table));
    }
    let lines = |figure: fn(&Steered) -> f64| -> Vec<(&str, Vec<f64>)> {
        all.iter().map(|(name, runs)| (*name, runs.iter().map(figure).collect())).collect()
    };
    let tail = lines(|steered| steered.latency.quantile(0.999) * 1e3);
    let lock = lines(|steered| (steered.lock * 100.0).max(0.1));
    let plot = |title, unit, lines: &[_]| plot::by_threads(title, unit, &steering::THREADS, lines);
    report.plots.push((
        "buckets-tail.svg".to_owned(),
        plot("Latency of requests, 99.9th percentile, at 70 % load", "ms", &tail),
    ));
    report.plots.push((
        "buckets-lock.svg".to_owned(),
        plot("Share of time that the busiest accept lock is held", "%", &lock),
    ));
}
