//! Runs cases, some to a file, and makes what fails smaller.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::ask::Clients;
use crate::case::Case;
use crate::judge::{Fault, Judge, Judged};
use crate::requests::Step;
use crate::world::World;

/// Sites in one file, in each of their guises.
const SITES_PER_FILE: usize = 200;
/// So often a failing case is made smaller.
const SHRINKS_MAX: usize = 150;
/// After failures of so many relations the run ends.
const FAILURES_MAX: usize = 5;

/// So many ask at the same time: more than there are processors, since each mostly waits for others.
const CLIENTS: usize = 6;

/// What all clients count together.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// The number of the request that was made last.
    number: AtomicU64,
    asked: AtomicU64,
}

impl Counts {
    /// A number that no other request has.
    pub(crate) fn number(&self) -> u64 {
        self.number.fetch_add(1, Relaxed) + 1
    }

    pub(crate) fn note_asked(&self) {
        self.asked.fetch_add(1, Relaxed);
    }

    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Relaxed)
    }
}

/// What a run has come to.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) counts: Counts,
    pub(crate) cases: usize,
    pub(crate) failures: Vec<String>,
    /// The seeds that failed, by relation.
    pub(crate) faults: BTreeMap<&'static str, Vec<u64>>,
    /// Configurations that the server does not take.
    pub(crate) refused: Vec<String>,
}

impl Run {
    /// All cases of these seeds.
    pub(crate) fn over(&mut self, world: &World, seeds: &[u64]) {
        for seeds in seeds.chunks(SITES_PER_FILE) {
            let cases: Vec<_> = seeds.iter().map(|seed| Case::new(*seed, &world.credentials)).collect();
            self.file(world, &cases);
            if self.failures.len() >= FAILURES_MAX {
                return;
            }
        }
    }

    fn file(&mut self, world: &World, cases: &[Case]) {
        let sites: String = cases.iter().map(Case::text).collect();
        if let Err(refused) = world.put(&world.file(&sites)) {
            // The generator knows most of what may not stand together; what is left is found by halves.
            match cases {
                [] => {}
                [case] => self.refused.push(format!("seed {}: {refused}\n{}", case.seed, case.text())),
                _ => {
                    let (one, other) = cases.split_at(cases.len() / 2);
                    self.file(world, one);
                    self.file(world, other);
                }
            }
            return;
        }
        self.cases += cases.len();
        let part = cases.len().div_ceil(CLIENTS);
        let run = &*self;
        let failed: Vec<_> = std::thread::scope(|scope| {
            let parts = cases.chunks(part).map(|cases| scope.spawn(|| run.part(world, cases)));
            parts.collect::<Vec<_>>().into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        for (case, step, fault) in failed {
            // Others of the same relation mostly have the same cause.
            let seeds = self.faults.entry(fault.relation).or_default();
            seeds.push(case.seed);
            if seeds.len() == 1 && self.failures.len() < FAILURES_MAX {
                let smaller = self.shrink(world, &case, &step, fault);
                self.failures.push(smaller);
            }
        }
    }

    /// What fails of these cases, which one client asks for.
    fn part(&self, world: &World, cases: &[Case]) -> Vec<(Case, Step, Fault)> {
        let mut failed = Vec::new();
        let mut clients = Clients::new(&world.server);
        for case in cases {
            for step in &case.steps {
                if let Err(fault) = self.judge(&mut clients, case, step) {
                    eprintln!("seed {}: {}", case.seed, fault.relation);
                    failed.push((case.clone(), step.clone(), fault));
                    // A panic of a client leaves its connection as it was.
                    clients = Clients::new(&world.server);
                    break;
                }
            }
        }
        failed
    }

    fn judge(&self, clients: &mut Clients<'_>, case: &Case, step: &Step) -> Judged {
        let counts = &self.counts;
        let judged = catch_unwind(AssertUnwindSafe(|| Judge { clients, case, counts }.step(step)));
        judged.unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(Fault { relation: "a rule of HTTP", said: said.unwrap_or_default() })
        })
    }

    /// A case alone, which was put in force for that.
    fn alone(&mut self, world: &World, case: &Case, step: &Step) -> Judged {
        if world.put(&world.file(&case.text())).is_err() {
            return Ok(());
        }
        self.judge(&mut Clients::new(&world.server), case, step)
    }

    /// Leaves out keys, routes, parts of requests, as long as the same relation fails.
    fn shrink(&mut self, world: &World, case: &Case, step: &Step, fault: Fault) -> String {
        let (mut case, mut step, mut fault) = (case.clone(), step.clone(), fault);
        let seed = case.seed;
        let mut left = SHRINKS_MAX;
        let alone = match self.alone(world, &case, &step) {
            Err(again) if again.relation == fault.relation => "",
            _ => " (not when it is alone)",
        };
        'again: while alone.is_empty() {
            let sites =
                case.site.smaller().into_iter().map(|site| (Case { site, ..case.clone() }, step.clone()));
            let steps = smaller(&step).into_iter().map(|step| (case.clone(), step));
            for (case_, step_) in sites.chain(steps).collect::<Vec<_>>() {
                if left == 0 {
                    break 'again;
                }
                left -= 1;
                if let Err(found) = self.alone(world, &case_, &step_)
                    && found.relation == fault.relation
                {
                    (case, step, fault) = (case_, step_, found);
                    continue 'again;
                }
            }
            break;
        }
        format!(
            "seed {seed}{alone}: {fault}\nkinds of pools: {:?} {:?}\n{}",
            case.guises[0].kind,
            case.guises[1].kind,
            case.site.text(&case.host(case.guises[0]), case.guises[0])
        )
    }
}

/// Steps with less in their requests.
fn smaller(step: &Step) -> Vec<Step> {
    let of = |ask: &crate::ask::Ask| {
        let mut found = Vec::new();
        for at in 0..ask.fields.len() {
            let mut ask = ask.clone();
            ask.fields.remove(at);
            found.push(ask);
        }
        let parts: Vec<_> = ask.query.split('&').collect();
        for at in 1..parts.len() {
            let mut parts = parts.clone();
            parts.remove(at);
            found.push(crate::ask::Ask { query: parts.join("&"), ..ask.clone() });
        }
        found
    };
    match step {
        Step::Alike(ask) => of(ask).into_iter().map(Step::Alike).collect(),
        Step::Coded(ask) => of(ask).into_iter().map(Step::Coded).collect(),
        Step::Spelled(ask, number) => of(ask).into_iter().map(|ask| Step::Spelled(ask, *number)).collect(),
        Step::Forged(ask, number) => of(ask).into_iter().map(|ask| Step::Forged(ask, *number)).collect(),
        Step::Shared(asks) => (0..asks.len())
            .map(|at| {
                let mut asks = asks.clone();
                asks.remove(at);
                Step::Shared(asks)
            })
            .collect(),
    }
}
