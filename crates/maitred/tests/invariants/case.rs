//! One configuration of a seed: its site, its guises, and what is asked of it.

use maitred_testing::random::Random;

use crate::generate;
use crate::identity::{Credentials, Gate};
use crate::pools::{KINDS, Kind};
use crate::requests::{self, Step};
use crate::site::{CHANGING, Guise, Site};

/// What makes another sequence of a seed.
const LATER: u64 = 0x6c61_7465_7200;

/// One configuration.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) seed: u64,
    /// Where it stands in its file, which gives it its name.
    pub(crate) place: usize,
    pub(crate) site: Site,
    #[allow(dead_code, reason = "failures show it")]
    pub(crate) gate: Gate,
    /// As it is; by another kind of pool, its keys turned around; without cache and compression.
    pub(crate) guises: [Guise; 3],
    pub(crate) steps: Vec<Step>,
}

impl Case {
    pub(crate) fn new(seed: u64, credentials: &Credentials) -> Case {
        let mut random = Random::new(seed);
        let mut later = Random::new(seed ^ LATER);
        let first = random.within(0..KINDS.len());
        let second = (first + random.within(1..KINDS.len())) % KINDS.len();
        let base = Guise { letter: 'a', kind: KINDS[first], is_plain: false, is_reversed: false };
        let mut turned = Guise { letter: 'b', kind: KINDS[second], is_reversed: true, ..base };
        let plain = Guise { letter: 'c', is_plain: true, ..base };
        let (site, gate) = generate::site(&mut random, &mut later);
        if later.percent(15) && !CHANGING.iter().any(|key| site.has(key)) {
            turned.kind = Kind::Controller;
        }
        let mut steps = requests::steps((&mut random, &mut later), gate, credentials);
        // What a site has no key for is looked at now and then: nothing may come of it.
        let is_rare = seed.is_multiple_of(8);
        steps.retain(|step| match step {
            Step::Coded(_) => is_rare || site.has("compress"),
            Step::Shared(_) => is_rare || site.has("cache"),
            _ => true,
        });
        Case { seed, place: 0, site, gate, guises: [base, turned, plain], steps }
    }

    /// The name of a guise; all are equally long.
    pub(crate) fn host(&self, guise: Guise) -> String {
        format!("s{:07}{}.test", self.place, guise.letter)
    }

    /// The cases of these seeds, at places one behind the other.
    pub(crate) fn all(seeds: &[u64], credentials: &Credentials) -> Vec<Case> {
        let case = |(place, seed): (usize, &u64)| Case { place, ..Case::new(*seed, credentials) };
        seeds.iter().enumerate().map(case).collect()
    }

    /// The tables of all guises.
    pub(crate) fn text(&self) -> String {
        self.guises.iter().map(|guise| self.site.text(&self.host(*guise), *guise)).collect()
    }
}
