//! Invariants over configurations that nobody wrote: sites and requests by a seed, for the real binary, judged by relations.
//!
//! `MAITRED_INVARIANTS=50000` is how many configurations are tried, `MAITRED_INVARIANTS_SEED=17` tries that one alone.
//!
//! | module | what it has |
//! |---|---|
//! | [`generate`], [`site`] | sites by a seed, and their text in several guises |
//! | [`requests`], [`identity`] | requests by a seed, and who sends them |
//! | [`case`] | a site with its guises and requests |
//! | [`pools`], [`echo`] | pools of all kinds, and the application behind them |
//! | [`world`] | the server that is given one file after the other |
//! | [`ask`], [`seen`] | clients of each version, and what is compared of responses |
//! | [`judge`] | the relations |
//! | [`pending`] | those that the server does not keep yet |
//! | [`run`] | runs, and what makes failures smaller |

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod ask;
mod case;
mod echo;
mod generate;
mod identity;
mod judge;
mod pending;
mod pools;
mod requests;
mod run;
mod seen;
mod site;
#[path = "../support/mod.rs"]
mod support;
mod world;

use std::time::Instant;

use run::Run;
use world::World;

/// Configurations of a run, unless the environment says another number.
const CONFIGURATIONS: u64 = 2000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect(name))
}

fn finish(run: Run, begun: Instant) {
    let asked = run.counts.asked();
    let Run { cases, failures, refused, faults, .. } = run;
    let seconds = begun.elapsed().as_secs_f64();
    eprintln!("{cases} configurations, {asked} requests, {} refused, {seconds:.1} s", refused.len());
    assert!(failures.is_empty(), "{faults:?}\n\n{}", failures.join("\n\n"));
    let some = refused.iter().take(2).cloned().collect::<Vec<_>>().join("\n");
    assert!(refused.len() * 50 <= cases, "the generator makes what is refused, as\n{some}");
}

#[test]
fn relations_hold_for_configurations_of_any_seed() {
    let seeds: Vec<u64> = match number("MAITRED_INVARIANTS_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("MAITRED_INVARIANTS").unwrap_or(CONFIGURATIONS)).collect(),
    };
    let begun = Instant::now();
    let world = World::start();
    let mut run = Run::default();
    run.over(&world, &seeds);
    finish(run, begun);
}
