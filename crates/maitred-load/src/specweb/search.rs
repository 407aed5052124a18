//! The largest number of connections that passes: doubling, then bisection, then repeats. No clock and no server in here.

use std::collections::BTreeMap;

/// Trials of a search, whatever the server does; doubling to 100,000 and bisecting down to 2 % takes some twenty.
pub const TRIALS_MAX: u32 = 64;
/// Error that the statement of certainty allows itself: 5 %.
const ERROR: f64 = 0.05;

/// What is searched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// Where to start.
    pub first: u32,
    /// Where to end; at least `first`.
    pub max: u32,
    /// Passes that the answer needs.
    pub repeats: u32,
    /// The answer may be smaller than what would pass by this part of it.
    pub resolution: f64,
}

/// Passed and failed trials of a number of connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Trials in which all connections conformed.
    pub passed: u32,
    /// Trials in which not all did.
    pub failed: u32,
}

impl Tally {
    /// With 95 % certainty a further trial passes with at least this probability (the lower bound of Clopper and Pearson,
    /// "The use of confidence or fiducial limits illustrated in the case of the binomial", 1934).
    pub fn certainty(self) -> f64 {
        let (mut low, mut high) = (0.0, if self.passed == 0 { 0.0 } else { 1.0 });
        for _ in 0..50 {
            let middle = (low + high) / 2.0;
            if self.at_least_as_many(middle) < ERROR { low = middle } else { high = middle }
        }
        low
    }

    /// Probability of so many passes or more, if each trial passes with probability `each`.
    fn at_least_as_many(self, each: f64) -> f64 {
        let trials = self.passed + self.failed;
        let mut sum = 0.0;
        // The number of ways to choose `failed` of all.
        let mut ways = 1.0;
        for failed in 0..=self.failed {
            sum += ways * each.powi((trials - failed) as i32) * (1.0 - each).powi(failed as i32);
            ways *= f64::from(trials - failed) / f64::from(failed + 1);
        }
        sum
    }
}

/// A search under way.
#[derive(Debug)]
pub struct Search {
    plan: Plan,
    tallies: BTreeMap<u32, Tally>,
    /// Numbers that are taken to pass, in rising order.
    passing: Vec<u32>,
    /// The smallest number that is taken to fail.
    failing: Option<u32>,
    /// A number whose trials disagree, or that has failed once: what fails is tried again, since anything can disturb a trial.
    doubtful: Option<u32>,
    trials: u32,
}

impl Search {
    /// A search before its first trial.
    pub fn new(plan: Plan) -> Self {
        Search {
            plan,
            tallies: BTreeMap::new(),
            passing: Vec::new(),
            failing: None,
            doubtful: None,
            trials: 0,
        }
    }

    /// How many connections to try next; `None` when the answer is as sure as was asked for.
    pub fn next(&self) -> Option<u32> {
        if self.trials >= TRIALS_MAX {
            return None;
        }
        if self.doubtful.is_some() {
            return self.doubtful;
        }
        if let Some(next) = self.between() {
            return Some(next);
        }
        (!self.is_sure()).then(|| self.best())
    }

    /// Whether the best number, if there is one, has passed often enough. A failure among its trials has to be outweighed.
    fn is_sure(&self) -> bool {
        let best = self.best();
        let Tally { passed, failed } = self.tally(best);
        best == 0 || passed >= self.plan.repeats * (1 + failed)
    }

    /// A number above what passes and below what fails, unless these are close enough.
    fn between(&self) -> Option<u32> {
        let best = self.best();
        match self.failing {
            Some(failing) => {
                let step = ((f64::from(best) * self.plan.resolution) as u32).max(1);
                (failing - best > step).then(|| best + (failing - best) / 2)
            }
            None if best == 0 => Some(self.plan.first),
            None => (best < self.plan.max).then(|| best.saturating_mul(2).min(self.plan.max)),
        }
    }

    /// How the trial of so many connections ended.
    pub fn took(&mut self, connections: u32, passed: bool) {
        self.trials += 1;
        // What is only repeated, to be sure of it, has to pass each time.
        let is_repeated = self.doubtful.is_none() && self.best() == connections;
        let tally = self.tallies.entry(connections).or_default();
        if passed {
            tally.passed += 1;
        } else {
            tally.failed += 1;
        }
        let Tally { passed: passes, failed: fails } = *tally;
        self.doubtful = None;
        match is_repeated {
            true if passed => {}
            true => self.fails(connections),
            false if passes > fails => self.passing.push(connections),
            false if fails > 1 && fails > passes => self.fails(connections),
            false => self.doubtful = Some(connections),
        }
    }

    fn fails(&mut self, connections: u32) {
        self.passing.retain(|passing| *passing < connections);
        self.failing = Some(connections);
    }

    /// The largest number that is taken to pass; 0 if none is.
    pub fn best(&self) -> u32 {
        self.passing.last().copied().unwrap_or(0)
    }

    /// The smallest number that is taken to fail, if any is.
    pub fn failing(&self) -> Option<u32> {
        self.failing
    }

    /// How the trials of a number ended.
    pub fn tally(&self, connections: u32) -> Tally {
        self.tallies.get(&connections).copied().unwrap_or_default()
    }

    /// Whether the answer is as sure as was asked for.
    pub fn is_complete(&self) -> bool {
        self.doubtful.is_none() && self.between().is_none() && self.is_sure()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::random::Random;
    use super::*;

    const PLAN: Plan = Plan { first: 10, max: 10_000, repeats: 3, resolution: 0.02 };

    /// Searches a server; `passes` says whether a trial of so many connections passes.
    fn search(plan: Plan, mut passes: impl FnMut(u32) -> bool) -> Search {
        let mut search = Search::new(plan);
        while let Some(connections) = search.next() {
            assert!((1..=plan.max).contains(&connections));
            search.took(connections, passes(connections));
        }
        search
    }

    #[test]
    fn the_certainty_is_that_of_the_binomial_distribution() {
        let sure = |passed, failed| (Tally { passed, failed }.certainty() * 1000.0).round();
        // n of n: the n-th root of 0.05.
        assert_eq!((sure(1, 0), sure(3, 0), sure(5, 0)), (50.0, 368.0, 549.0));
        // From tables of the binomial distribution: 9 of 10.
        assert_eq!((sure(9, 1), sure(0, 3)), (606.0, 0.0));
    }

    #[test]
    fn a_search_has_an_end_whatever_the_server_does() {
        assert_eq!(search(PLAN, |_| false).best(), 0);
        let all = search(PLAN, |_| true);
        assert_eq!((all.best(), all.failing(), all.is_complete()), (PLAN.max, None, true));
        let mut turn = 0;
        search(PLAN, |_| {
            turn += 1;
            turn % 2 == 0
        });
        let one = search(Plan { first: 1, max: 1, ..PLAN }, |_| true);
        assert_eq!((one.best(), one.tally(1)), (1, Tally { passed: 3, failed: 0 }));
    }

    #[test]
    fn a_failure_that_was_chance_is_tried_again() {
        let mut is_first = true;
        let found = search(PLAN, |connections| {
            let chance = connections == 40 && std::mem::take(&mut is_first);
            connections <= 700 && !chance
        });
        assert!((686..=700).contains(&found.best()), "{}", found.best());
        assert_eq!(found.tally(40), Tally { passed: 2, failed: 1 });
    }

    #[test]
    fn what_does_not_pass_again_is_not_the_answer() {
        // 700 are at the edge: they pass once, and not again.
        let mut seen = 0;
        let found = search(Plan { resolution: 0.001, ..PLAN }, |connections| match connections {
            ..700 => true,
            700 => {
                seen += 1;
                seen == 1
            }
            _ => false,
        });
        assert_eq!((found.best(), found.failing()), (699, Some(700)));
        assert_eq!(found.tally(699), Tally { passed: 3, failed: 0 });
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn the_edge_is_found(edge in 0_u32..12_000, first in 1_u32..500, repeats in 1_u32..6) {
            let plan = Plan { first, repeats, ..PLAN };
            let found = search(plan, |connections| connections <= edge);
            let wanted = edge.min(plan.max);
            prop_assert!(found.best() <= wanted);
            prop_assert!(f64::from(wanted - found.best()) <= (f64::from(wanted) * 0.02).max(1.0), "{found:?}");
            prop_assert!(found.is_complete());
        }
    }

    /// Servers whose trials pass with a probability that falls from 1 at 900 to 0 at 1100.
    #[test]
    fn chance_does_not_lead_far_astray() {
        let mut random = Random::new(1);
        let found: Vec<Search> = (0..500)
            .map(|_| search(PLAN, |connections| random.unit() > (f64::from(connections) - 900.0) / 200.0))
            .collect();
        let mean = found.iter().map(|found| f64::from(found.best())).sum::<f64>() / 500.0;
        assert!((850.0..1000.0).contains(&mean), "{mean}");
        assert!(found.iter().all(|found| found.trials <= TRIALS_MAX && found.best() < 1100));
    }
}
