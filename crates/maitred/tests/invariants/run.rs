//! Runs cases, many to a file, and makes what fails smaller.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::ask::{Ask, Clients};
use crate::case::Case;
use crate::identity::Who;
use crate::judge::{Fault, Judge, Judged, REQUESTS_MAX, Source};
use crate::requests::Step;
use crate::world::World;

/// Sites in one file, in each of their guises: a reload takes as long as hundreds of requests.
const SITES_PER_FILE: usize = 200;
/// So often a failing case is made smaller.
const SHRINKS_MAX: usize = 25;
/// After failures of so many relations no more are made smaller, and the run ends.
const FAILURES_MAX: usize = 5;
/// So many ask at the same time: more than there are processors, since each mostly waits for others.
const CLIENTS: usize = 6;

/// Numbers that no two requests have, since a cache stays when the file is another one.
static NUMBER: AtomicU64 = AtomicU64::new(1);

/// What a run has come to.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) asked: AtomicU64,
    pub(crate) cases: usize,
    /// One failure of each relation.
    pub(crate) failures: Vec<String>,
    /// The seeds that failed, by relation.
    pub(crate) faults: BTreeMap<&'static str, Vec<u64>>,
    /// Configurations that the server does not take.
    pub(crate) refused: Vec<String>,
    /// The first failure ends it.
    pub(crate) stops: bool,
    /// Configurations that were asked about, until then.
    pub(crate) tried: AtomicU64,
    pub(crate) has_failed: AtomicBool,
}

impl Run {
    /// All cases of these seeds.
    pub(crate) fn over(&mut self, world: &World, seeds: &[u64]) {
        // A run that ends with the first failure mostly ends soon.
        let sites = if self.stops { SITES_PER_FILE / 4 } else { SITES_PER_FILE };
        for seeds in seeds.chunks(sites) {
            self.file(world, &Case::all(seeds, &world.credentials));
            if self.failures.len() >= if self.stops { 1 } else { FAILURES_MAX } {
                return;
            }
        }
    }

    fn file(&mut self, world: &World, cases: &[Case]) {
        if let Err(refused) = world.put(&world.file(&text(cases))) {
            let (blamed, rest) = blamed(&world.file(&text(cases)), &refused, cases);
            match (cases, blamed.is_empty()) {
                ([], _) => {}
                ([case], _) => self.refused.push(format!("seed {}: {refused}\n{}", case.seed, case.text())),
                (_, true) => {
                    let (one, other) = cases.split_at(cases.len() / 2);
                    self.file(world, one);
                    self.file(world, other);
                }
                (_, false) => {
                    blamed.into_iter().for_each(|case| self.file(world, &[case]));
                    self.file(world, &rest);
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
            if self.stops {
                if self.failures.is_empty() {
                    self.faults.insert(fault.relation, vec![case.seed]);
                    self.failures.push(format!("seed {}: {fault}", case.seed));
                }
                continue;
            }
            // Others of the same relation mostly have the same cause.
            let seeds = self.faults.entry(fault.relation).or_default();
            seeds.push(case.seed);
            if seeds.len() == 1 && self.failures.len() < FAILURES_MAX {
                self.failures.push(shrink(world, case, step, fault));
            }
        }
    }

    /// What fails of these cases, which one client asks for.
    fn part(&self, world: &World, cases: &[Case]) -> Vec<(Case, Step, Fault)> {
        let mut failed = Vec::new();
        let mut clients = Clients::new(world);
        for case in cases {
            if self.stops && self.has_failed.load(Relaxed) {
                break;
            }
            self.tried.fetch_add(1, Relaxed);
            for step in &case.steps {
                if let Err(fault) = judge(&mut clients, case, step) {
                    self.has_failed.store(true, Relaxed);
                    failed.push((case.clone(), step.clone(), fault));
                    self.asked.fetch_add(clients.asked, Relaxed);
                    // A panic of a client leaves its connection as it was.
                    clients = Clients::new(world);
                    break;
                }
            }
        }
        self.asked.fetch_add(clients.asked, Relaxed);
        failed
    }
}

/// The cases in whose lines an error of this file points, and the others. The generator knows most of what is refused.
fn blamed(file: &str, refused: &str, cases: &[Case]) -> (Vec<Case>, Vec<Case>) {
    let lines: Vec<&str> = file.lines().collect();
    let pointed =
        refused.split("maitred.toml:").skip(1).filter_map(|rest| rest.split(':').next()?.parse().ok());
    let hosts = pointed.filter_map(|line: usize| {
        let before = lines.get(..line)?.iter().rev();
        before.copied().find(|line| line.starts_with("hosts = ")).map(str::to_owned)
    });
    let hosts: Vec<String> = hosts.collect();
    let is_blamed = |case: &Case| {
        let names = case.guises.map(|guise| format!("\"{}\"", case.host(guise)));
        hosts.iter().any(|host| names.iter().any(|name| host.contains(name)))
    };
    cases.iter().cloned().partition(is_blamed)
}

fn text(cases: &[Case]) -> String {
    cases.iter().map(Case::text).collect()
}

/// Numbers for one step.
pub(crate) fn numbers() -> u64 {
    NUMBER.fetch_add(REQUESTS_MAX, Relaxed)
}

fn judge(source: &mut dyn Source, case: &Case, step: &Step) -> Judged {
    judge_from(source, case, step, numbers())
}

/// Judges a step whose requests have numbers from this one on.
pub(crate) fn judge_from(source: &mut dyn Source, case: &Case, step: &Step, number: u64) -> Judged {
    let judged = catch_unwind(AssertUnwindSafe(|| Judge { source, case, number }.step(step)));
    judged.unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().cloned();
        let said = said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(Fault { relation: "a rule of HTTP", said: said.unwrap_or_default() })
    })
}

/// Leaves out keys, routes, parts of requests, as long as the same relation fails.
fn shrink(world: &World, mut case: Case, mut step: Step, mut fault: Fault) -> String {
    let seed = case.seed;
    let mut note = " (not when it is alone)";
    let mut tried = vec![(case.clone(), step.clone())];
    for _ in 0..SHRINKS_MAX {
        let Some(found) = first_failing(world, &mut tried, fault.relation) else { break };
        (case, step, fault) = found;
        note = "";
        let sites = case.site.smaller().into_iter().map(|site| (Case { site, ..case.clone() }, step.clone()));
        let steps = smaller(&step).into_iter().map(|step| (case.clone(), step));
        tried = sites.chain(steps).collect();
    }
    let [base, turned, _] = case.guises;
    let text = case.site.text(&case.host(base), base);
    format!("seed {seed}{note}: {fault}\npools: {:?}, {:?}\n{text}", base.kind, turned.kind)
}

/// The first of several that fails by this relation. All stand in one file, but for those that are refused.
fn first_failing(world: &World, tried: &mut [(Case, Step)], relation: &str) -> Option<(Case, Step, Fault)> {
    for (place, (case, _)) in tried.iter_mut().enumerate() {
        case.place = place;
    }
    let sites: String = tried.iter().map(|(case, _)| case.text()).collect();
    if world.put(&world.file(&sites)).is_err() {
        if tried.len() < 2 {
            return None;
        }
        let (one, other) = tried.split_at_mut(tried.len() / 2);
        return first_failing(world, one, relation).or_else(|| first_failing(world, other, relation));
    }
    let mut clients = Clients::new(world);
    for (case, step) in tried {
        if let Err(fault) = judge(&mut clients, case, step) {
            if fault.relation == relation {
                return Some((case.clone(), step.clone(), fault));
            }
            clients = Clients::new(world);
        }
    }
    None
}

/// Steps with less in their requests.
fn smaller(step: &Step) -> Vec<Step> {
    match step {
        Step::Alike(ask) => less(ask).into_iter().map(Step::Alike).collect(),
        Step::Coded(ask) => less(ask).into_iter().map(Step::Coded).collect(),
        Step::Spelled(ask, number) => less(ask).into_iter().map(|ask| Step::Spelled(ask, *number)).collect(),
        Step::Forged(ask, number) => less(ask).into_iter().map(|ask| Step::Forged(ask, *number)).collect(),
        Step::Ranged(ask, number) => less(ask).into_iter().map(|ask| Step::Ranged(ask, *number)).collect(),
        Step::Shared(asks) => {
            let without = |at: usize| {
                let mut asks = asks.clone();
                asks.remove(at);
                Step::Shared(asks)
            };
            (0..asks.len()).map(without).collect()
        }
    }
}

fn less(ask: &Ask) -> Vec<Ask> {
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
        found.push(Ask { query: parts.join("&"), ..ask.clone() });
    }
    if !ask.body.is_empty() {
        found.push(Ask { body: Vec::new(), ..ask.clone() });
    }
    if ask.certificate != Who::None {
        found.push(Ask { certificate: Who::None, ..ask.clone() });
    }
    found
}
