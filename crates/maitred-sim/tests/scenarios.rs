//! What must come of the new core in every scenario, beside the other policies.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy.toml does not know to be such")]

use maitred_sim::engine::run;
use maitred_sim::outcome::Outcome;
use maitred_sim::policy::{self, Core, Policy, Prefork};
use maitred_sim::scenario::Scenario;

fn outcomes(name: &str) -> (Outcome, Outcome) {
    let scenario = Scenario::all().into_iter().find(|scenario| scenario.name == name).unwrap();
    (run(&scenario, &mut Core::new(&scenario)), run(&scenario, &mut Prefork::new(&scenario)))
}

/// Each request is answered, refused, lost, or under way at the end.
#[test]
fn nothing_is_lost_in_the_simulation_itself() {
    for scenario in Scenario::all().into_iter().filter(|scenario| scenario.name != "2002") {
        for mut policy in policy::all(&scenario) {
            let outcome = run(&scenario, &mut *policy);
            let last = outcome.samples.last().unwrap();
            let begun = outcome.waits.len();
            assert_eq!(
                begun,
                outcome.done + outcome.lost + u64::from(last.busy),
                "{} {}",
                scenario.name,
                outcome.policy
            );
        }
    }
}

/// Policies differ in what they do, not in what clients do to them.
#[test]
fn all_policies_get_the_same_requests() {
    let scenario = Scenario::all().into_iter().find(|scenario| scenario.name == "step").unwrap();
    let total = |mut policy: Box<dyn Policy>| {
        let outcome = run(&scenario, &mut *policy);
        let last = outcome.samples.last().copied().unwrap();
        outcome.waits.len() + outcome.refused + u64::from(last.queued)
    };
    let totals: Vec<u64> = policy::all(&scenario).into_iter().map(total).collect();
    assert!(totals.iter().all(|each| *each == totals[0]), "{totals:?}");
}

#[test]
fn fewer_starts_and_shorter_waits_than_prefork() {
    for name in ["step", "spike", "diurnal", "flapping"] {
        let (new, old) = outcomes(name);
        assert!(new.starts < old.starts, "{name}: {} starts, {}", new.starts, old.starts);
        assert!(new.waits.quantile(0.99) <= old.waits.quantile(0.99), "{name}");
        assert!(new.done >= old.done, "{name}");
    }
}

#[test]
fn a_crash_storm_costs_few_starts() {
    let (new, old) = outcomes("crash-storm");
    assert!(new.deaths * 20 < old.deaths, "{} deaths, {}", new.deaths, old.deaths);
    // The price: it may take a whole delay, 10 s, until the pool tries again.
    assert!(new.refused < old.refused + 10 * 200 + 500, "{} refused, {}", new.refused, old.refused);
}

#[test]
fn a_hot_bucket_gets_the_workers_that_it_needs() {
    let (new, old) = outcomes("hot-bucket");
    assert_eq!(new.refused, 0);
    assert!(new.waits.quantile(0.99) < 0.1 && old.waits.quantile(0.99) > 1.0);
}
