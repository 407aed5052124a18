//! `cargo xtask check` and `cargo xtask test`: steps of one table, in tiers. No failure ends a run: a machine of CI is not at
//! hand, and one report of it has to say all.

pub(crate) mod executables;
pub(crate) mod runner;
pub(crate) mod schedule;
pub(crate) mod table;
pub(crate) mod times;

use crate::Result;
use crate::skips::{self, Kind};
use crate::step::cargo;
use schedule::{Plan, State};
use table::{STEPS, Step, Tier};
use times::Times;

/// Set for steps of a run whose step `build` has passed before them.
pub(crate) const IS_BUILT: &str = "MAITRED_XTASK_BUILT";
/// Names the file into which a step may write how many of its tests have passed and failed.
pub(crate) const COUNTS: &str = "MAITRED_XTASK_COUNTS";

/// What `cargo xtask test` takes.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only these steps
    names: Vec<String>,
    /// Everything: browsers, virtual machines, packages, real applications, programs of others
    #[arg(long, conflicts_with = "names")]
    full: bool,
    /// Say which steps there are, their tiers, and the times of the last run
    #[arg(long)]
    list: bool,
}

/// Format, lints, rules of the house, generated documents.
pub(crate) fn check() -> Result<()> {
    run_steps(&up_to(Tier::Check), Some(Tier::Check))
}

/// The steps that were asked for.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.list {
        list();
        return Ok(());
    }
    if arguments.names.is_empty() {
        let tier = if arguments.full { Tier::Full } else { Tier::Test };
        return run_steps(&up_to(tier), Some(tier));
    }
    let find = |name: &String| {
        let unknown = || format!("there is no step {name}; `cargo xtask test --list` names them");
        table::find(name).ok_or_else(unknown)
    };
    run_steps(&arguments.names.iter().map(find).collect::<Result<Vec<_>, _>>()?, None)
}

/// One step, in a process of its own.
pub(crate) fn run_step(name: &str) -> Result<()> {
    let step = table::find(name).ok_or_else(|| format!("there is no step {name}"))?;
    crate::test_packages::install_for(step.name);
    (step.run)(&crate::target())
}

fn up_to(tier: Tier) -> Vec<&'static Step> {
    STEPS.iter().filter(|step| step.tier <= tier).collect()
}

/// Builds the server and the example worker, unless this run has.
///
/// # Errors
/// When they do not compile.
pub fn built() -> Result<()> {
    if std::env::var_os(IS_BUILT).is_some() {
        return Ok(());
    }
    // The whole workspace, so that dependencies have the features that they have for its tests, and are not compiled again.
    let examples = ["worker", "tower", "hello"].into_iter().flat_map(|name| ["--example", name]);
    let build = ["build", "--workspace", "--bin", "maitred"].into_iter().chain(examples);
    crate::step::step("server", cargo().args(build))
}

/// Says how many tests of this step have passed and failed.
pub(crate) fn count(passed: u64, failed: u64) -> Result<()> {
    let Some(file) = std::env::var_os(COUNTS) else { return Ok(()) };
    Ok(std::fs::write(file, format!("{passed} {failed}"))?)
}

pub(crate) fn parse_counts(text: &str) -> Option<(u64, u64)> {
    let (passed, failed) = text.trim().split_once(' ')?;
    Some((passed.parse().ok()?, failed.parse().ok()?))
}

/// Without a tier, steps were named: nothing is said of others.
fn run_steps(steps: &[&'static Step], tier: Option<Tier>) -> Result<()> {
    skips::start()?;
    let mut plan = Plan::new(steps);
    schedule::run(&mut plan)?;
    if tier == Some(Tier::Test) {
        leave_to_full();
    }
    let ran = plan.entries.iter().filter(|entry| entry.state == State::Passed);
    Times::keep(&ran.map(|entry| (entry.step.name.to_owned(), entry.seconds)).collect::<Vec<_>>())?;
    report(&plan, std::env::var_os("CI").is_some())
}

/// Says what this tier has left out.
fn leave_to_full() {
    let names: Vec<&str> =
        STEPS.iter().filter(|step| step.tier == Tier::Full).map(|step| step.name).collect();
    println!("\nleft to `cargo xtask test --full`: {}", names.join(", "));
    for row in executables::ROWS.iter().filter(|row| row.of == runner::Part::Programs) {
        skips::note(Kind::FullTier, &row.name(), row.why);
    }
}

/// The table of times, what was left out, and the last line.
fn report(plan: &Plan, in_ci: bool) -> Result<()> {
    println!("\n{:20} {:6} {:8} {:>8}", "step", "tier", "outcome", "seconds");
    for entry in &plan.entries {
        let outcome = match entry.state {
            State::Passed => "passed",
            State::Failed => "FAILED",
            _ => "not run",
        };
        println!("{:20} {:6} {outcome:8} {:8.1}", entry.step.name, entry.step.tier.name(), entry.seconds);
    }
    let skipped = skips::read()?;
    if !skipped.is_empty() {
        println!("\n{} left out:", skipped.len());
    }
    skipped.iter().for_each(|skip| println!("  {skip}"));
    let missing = skipped.iter().filter(|skip| in_ci && skip.kind == Kind::Missing).count();
    if missing > 0 {
        println!("\n{missing} left out for want of a package, and CI has to have what they need");
    }
    let not_run = plan.entries.iter().filter(|entry| entry.state == State::NotRun).count();
    let passed: u64 = plan.entries.iter().map(|entry| entry.counts.0).sum();
    let failed = plan.entries.iter().map(|entry| entry.counts.1).sum::<u64>() + missing as u64;
    let left_out = skipped.len() - missing + not_run;
    let failures: Vec<&str> = plan
        .entries
        .iter()
        .filter(|entry| entry.state == State::Failed)
        .map(|entry| entry.step.name)
        .collect();
    if !failures.is_empty() {
        println!("\nfailed: {}", failures.join(", "));
    }
    println!("\n{passed} passed, {failed} failed, {left_out} skipped");
    if failed == 0 && not_run == 0 { Ok(()) } else { Err(crate::Said.into()) }
}

fn list() {
    let times = Times::read();
    println!("{:20} {:6} {:>8}", "step", "tier", "seconds");
    for step in STEPS {
        let seconds = times.of(step.name).map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.0}"));
        println!("{:20} {:6} {seconds:>8}", step.name, step.tier.name());
    }
    for tier in [Tier::Check, Tier::Test, Tier::Full] {
        let sum = up_to(tier).iter().filter_map(|step| times.of(step.name)).fold(0.0, |sum, step| sum + step);
        println!("{}: {sum:.0} s, one step after the other", tier.name());
    }
}
