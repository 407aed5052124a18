//! Topology and configuration → one CPU per thread.
//!
//! Three rules, in this order:
//! 1. no CPU gets a second thread while another has none;
//! 2. no SMT sibling is used while a whole core is free;
//! 3. threads of one bucket (thread *t* serves bucket *t* mod *buckets*) are in one NUMA node, where 1 and 2 allow.

#[cfg(test)]
mod tests;

use std::fmt;

use super::topology::{Cpu, Topology, format_list};
use maitred_base::bounds::THREADS_MAX;
use maitred_config::Affinity;

/// Where each thread runs at first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// For each thread the CPU that it is pinned to; `None` for a thread that is not pinned.
    pub cpus: Vec<Option<u16>>,
    /// What may be used at all: the inherited mask, ascending.
    pub usable: Vec<u16>,
    /// How this came about, in one line for log and status.
    pub why: String,
}

/// The configuration names CPUs that this process may not use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutsideMask {
    /// The CPUs that may not be used, in the order of the configuration.
    pub cpus: Vec<u16>,
    /// What could be used.
    pub usable: Vec<u16>,
}

impl fmt::Display for OutsideMask {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.cpus.clone();
        cpus.sort_unstable();
        let (cpus, usable) = (format_list(&cpus), format_list(&self.usable));
        write!(out, "affinity: CPU {cpus} is not among those that this process may use ({usable})")
    }
}

impl std::error::Error for OutsideMask {}

/// How many event-loop threads there will be: what was asked for, or one per CPU that is to be used, within the cgroup's
/// quota. 1 to [`THREADS_MAX`]. The number of buckets follows from this one.
pub fn thread_count(topology: &Topology, wanted: &Affinity, threads: Option<u16>) -> u16 {
    let cpus = match wanted {
        Affinity::Cpus(list) => list.len(),
        Affinity::Auto | Affinity::Off => topology.cpus.len(),
    };
    let max = THREADS_MAX as u16;
    let auto = u16::try_from(cpus).unwrap_or(max).min(topology.quota.unwrap_or(max));
    threads.unwrap_or(auto).clamp(1, max)
}

/// Chooses a CPU for each of [`thread_count`] threads. `buckets` is that of the address with the most of them.
///
/// # Errors
/// When the configuration lists a CPU outside the inherited mask.
pub fn plan(
    topology: &Topology,
    wanted: &Affinity,
    threads: Option<u16>,
    buckets: u16,
) -> Result<Plan, OutsideMask> {
    let usable = topology.usable();
    let count = usize::from(thread_count(topology, wanted, threads));
    let cpus = match wanted {
        Affinity::Off => vec![None; count],
        Affinity::Cpus(list) => {
            let outside: Vec<u16> = list.iter().copied().filter(|cpu| !usable.contains(cpu)).collect();
            if !outside.is_empty() {
                return Err(OutsideMask { cpus: outside, usable });
            }
            list.iter().copied().map(Some).cycle().take(count).collect()
        }
        Affinity::Auto => Placement::new(&topology.cpus, usize::from(buckets.max(1))).place(count),
    };
    let why = why(topology, wanted, &cpus);
    Ok(Plan { cpus, usable, why })
}

fn why(topology: &Topology, wanted: &Affinity, cpus: &[Option<u16>]) -> String {
    let counted = |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    let threads = counted(cpus.len(), "thread");
    let usable = format_list(&topology.usable());
    let quota = match topology.quota {
        Some(quota) => format!(" within a quota of {quota}"),
        None => String::new(),
    };
    match wanted {
        Affinity::Off => format!("off: {threads}, not pinned, on CPUs {usable}{quota}"),
        Affinity::Cpus(_) => format!("as configured: {threads} pinned for good"),
        Affinity::Auto => {
            let used: Vec<&Cpu> = topology.cpus.iter().filter(|cpu| cpus.contains(&Some(cpu.id))).collect();
            let distinct = |key: fn(&Cpu) -> u16| {
                let mut keys: Vec<u16> = used.iter().map(|cpu| key(cpu)).collect();
                keys.sort_unstable();
                keys.dedup();
                keys.len()
            };
            let cores = counted(distinct(|cpu| cpu.core), "core");
            let nodes = counted(distinct(|cpu| cpu.node), "NUMA node");
            format!("auto: {threads} on {} of the CPUs {usable}{quota}; {cores}, {nodes}", used.len())
        }
    }
}

/// A usable CPU with what the choice depends on.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    cpu: Cpu,
    /// How many usable siblings of its core come before it: 0 for the first of each core.
    rank: usize,
}

/// The choice for `auto`.
struct Placement {
    /// In the order of preference: first siblings first, then fast ones, then by number.
    candidates: Vec<Candidate>,
    buckets: usize,
    /// Node that the threads of each bucket went to.
    homes: Vec<Option<u16>>,
}

impl Placement {
    fn new(cpus: &[Cpu], buckets: usize) -> Placement {
        let rank =
            |cpu: &Cpu| cpus.iter().filter(|other| other.core == cpu.core && other.id < cpu.id).count();
        let mut candidates: Vec<Candidate> =
            cpus.iter().map(|cpu| Candidate { cpu: *cpu, rank: rank(cpu) }).collect();
        candidates.sort_by_key(|one| (one.rank, std::cmp::Reverse(one.cpu.capacity), one.cpu.id));
        Placement { candidates, buckets, homes: vec![None; buckets] }
    }

    /// Gives every CPU one thread before any gets the next.
    fn place(mut self, threads: usize) -> Vec<Option<u16>> {
        let mut cpus = vec![None; threads];
        let round = self.candidates.len().max(1);
        for start in (0..threads).step_by(round) {
            for (thread, candidate) in self.round(start, threads.min(start + round)) {
                if let Some(cpu) = cpus.get_mut(thread) {
                    *cpu = Some(candidate.cpu.id);
                }
            }
        }
        cpus
    }

    /// Places threads `start..end`, no more than there are CPUs.
    fn round(&mut self, start: usize, end: usize) -> Vec<(usize, Candidate)> {
        let mut free = self.candidates.clone();
        let mut placed = Vec::with_capacity(end - start);
        for bucket in 0..self.buckets.min(end) {
            let members: Vec<usize> = (start..end).filter(|thread| thread % self.buckets == bucket).collect();
            self.place_bucket(bucket, &members, &mut free, &mut placed);
        }
        prefer_cores(&mut placed, &mut free);
        placed
    }

    /// Places one bucket's threads in its home node, or where they fit best; what does not fit goes to other nodes.
    fn place_bucket(
        &mut self,
        bucket: usize,
        members: &[usize],
        free: &mut Vec<Candidate>,
        placed: &mut Vec<(usize, Candidate)>,
    ) {
        let mut rest = members;
        while !rest.is_empty() {
            let home = self.homes.get(bucket).copied().flatten();
            let Some(node) = best_node(free, home, rest.len()) else { return };
            if let Some(slot @ None) = self.homes.get_mut(bucket) {
                *slot = Some(node);
            }
            while let Some((&thread, others)) = rest.split_first() {
                let Some(index) = free.iter().position(|one| one.cpu.node == node) else { break };
                placed.push((thread, free.remove(index)));
                rest = others;
            }
        }
    }
}

/// The node for so many threads: the home if it has any room; otherwise one where all fit, on whole cores if possible,
/// and with the most to spare; otherwise the roomiest. `None` when nothing is free.
fn best_node(free: &[Candidate], home: Option<u16>, threads: usize) -> Option<u16> {
    let mut nodes: Vec<u16> = free.iter().map(|one| one.cpu.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    if let Some(home) = home.filter(|home| nodes.contains(home)) {
        return Some(home);
    }
    nodes.into_iter().max_by_key(|node| {
        let here = free.iter().filter(|one| one.cpu.node == *node);
        let (room, cores) = (here.clone().count(), here.filter(|one| one.rank == 0).count());
        (room >= threads, cores, room, std::cmp::Reverse(*node))
    })
}

/// Rule 2 goes before rule 3: a thread that got a sibling moves to a core that was left free in another node.
fn prefer_cores(placed: &mut [(usize, Candidate)], free: &mut Vec<Candidate>) {
    for (_, candidate) in placed.iter_mut().rev() {
        let better = free.iter().enumerate().filter(|(_, one)| one.rank < candidate.rank);
        let best = better.min_by_key(|(_, one)| (one.rank, one.cpu.node != candidate.cpu.node));
        if let Some((index, _)) = best {
            let left = std::mem::replace(candidate, free.remove(index));
            free.push(left);
        }
    }
}
