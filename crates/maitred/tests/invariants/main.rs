//! Invariants over generated configurations: sites and requests by a seed, for the real binary, judged by relations.
//!
//! `MAITRED_INVARIANTS=50000` is how many configurations are tried, `MAITRED_INVARIANTS_SEED=17` tries that one alone. With
//! `MAITRED_INVARIANTS_STOP=1` the first that fails ends the run, and is not made smaller.
//!
//! | module | what it has |
//! |---|---|
//! | [`generate`], [`site`] | sites by a seed, and their text in several guises |
//! | [`requests`], [`identity`] | requests by a seed, and who sends them |
//! | [`case`] | a site with its guises and requests |
//! | [`pools`], [`echo`] | pools of all kinds, and the application behind them |
//! | [`world`] | the server that is given one file after the other |
//! | [`ask`], [`seen`] | clients of each version, and what is compared of responses |
//! | [`judge`], [`told`], [`parts`] | the relations; what is judged of one answer alone; parts of contents |
//! | [`pending`] | those that the server does not keep yet |
//! | [`files`] | relations between files: order, several files, reload, restart, `check` |
//! | [`mutants`] | deliberate faults in recorded answers, which the relations have to find |
//! | `product_mutants.toml` | deliberate faults in the server's source: `cargo xtask mutants` |
//! | [`run`] | runs, and what makes failures smaller |
//! | [`support`] | what all black-box tests share |

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod ask;
mod case;
mod echo;
mod files;
mod generate;
mod identity;
mod judge;
mod mutants;
mod parts;
mod pending;
mod pools;
mod requests;
mod run;
mod seen;
mod site;
#[path = "../support/mod.rs"]
mod support;
mod told;
mod world;

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use run::Run;
use world::World;

/// Configurations of a run, unless the environment says another number.
const CONFIGURATIONS: u64 = 2_000;

/// Seeds beyond these that have failed once, and are tried in each run.
const FAILED_ONCE: &[u64] = &[5547, 8132];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect(name))
}

fn finish(run: Run, begun: Instant) {
    let asked = run.asked.load(Relaxed);
    let Run { cases, failures, refused, faults, stops, tried, .. } = run;
    let seconds = begun.elapsed().as_secs_f64();
    eprintln!("{cases} configurations, {asked} requests, {} refused, {seconds:.1} s", refused.len());
    if let (true, Some(relation)) = (stops, faults.keys().next()) {
        eprintln!("stopped after {} configurations: {relation}", tried.into_inner());
    }
    assert!(failures.is_empty(), "{faults:?}\n\n{}", failures.join("\n\n"));
    for refused in &refused {
        eprintln!("refused: {refused}");
    }
    let some = refused.iter().take(2).cloned().collect::<Vec<_>>().join("\n");
    assert!(refused.len() * 50 <= cases, "the generator makes what is refused, as\n{some}");
}

#[test]
fn relations_hold_for_configurations_of_any_seed() {
    let seeds: Vec<u64> = match number("MAITRED_INVARIANTS_SEED") {
        Some(seed) => vec![seed],
        None => {
            let all = 0..number("MAITRED_INVARIANTS").unwrap_or(CONFIGURATIONS);
            FAILED_ONCE.iter().copied().chain(all).collect()
        }
    };
    let begun = Instant::now();
    let world = World::start();
    let mut run = Run { stops: number("MAITRED_INVARIANTS_STOP").is_some(), ..Run::default() };
    run.over(&world, &seeds);
    finish(run, begun);
}
