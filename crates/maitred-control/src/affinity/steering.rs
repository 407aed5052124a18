//! Which bucket gets the connections of which CPU (`steer_by_cpu`), and which buckets cannot be reached.
//!
//! Thread *t* serves bucket *t* mod *buckets*, so a connection whose SYN was handled on the home CPU of thread *t* belongs into
//! that one. Siblings of a core are next to each other in some machines' numbering and far apart in others', and the plan
//! skips them at first, so the number of the CPU alone does not say which thread is there.

use super::plan::{plan, thread_count};
use super::topology::{Cpu, Topology};
use maitred_config::{Config, Listen};

/// The bucket for each CPU, indexed by its number. A CPU without a thread shares one with a neighbour: of its core, else of its
/// node, else anywhere. Empty if no thread has a home: then it is the CPU's number mod `buckets`.
///
/// `homes` has the CPU of each thread, `online` all CPUs that may receive packets, whether this process may run there or not.
pub fn table(homes: &[Option<u16>], buckets: u16, online: &[Cpu]) -> Vec<u16> {
    let bucket_of = |cpu: u16| {
        let thread = homes.iter().position(|home| *home == Some(cpu))?;
        u16::try_from(thread % usize::from(buckets.max(1))).ok()
    };
    let served: Vec<(Cpu, u16)> = online.iter().filter_map(|cpu| Some((*cpu, bucket_of(cpu.id)?))).collect();
    let (Some(last), false) = (online.iter().map(|cpu| cpu.id).max(), served.is_empty()) else {
        return Vec::new();
    };
    // Numbers between those of CPUs that are online: whatever comes from there later is spread.
    let mut table: Vec<u16> = (0..=last).map(|cpu| cpu % buckets.max(1)).collect();
    for cpu in online {
        let near: [fn(&Cpu, &Cpu) -> bool; 4] = [
            |one, other| one.id == other.id,
            |one, other| one.core == other.core,
            |one, other| one.node == other.node,
            |_, _| true,
        ];
        let neighbours = near.iter().map(|is_near| {
            served.iter().filter(|(other, _)| is_near(cpu, other)).map(|(_, bucket)| *bucket).collect()
        });
        let Some(nearest) = { neighbours }.find(|found: &Vec<u16>| !found.is_empty()) else { continue };
        // Neighbours without a thread take turns.
        let choice = nearest.iter().cycle().nth(usize::from(cpu.id) % nearest.len());
        if let (Some(entry), Some(bucket)) = (table.get_mut(usize::from(cpu.id)), choice) {
            *entry = *bucket;
        }
    }
    table
}

/// What is wrong with the buckets of a configuration on this machine, a line an address.
pub fn complaints(config: &Config, topology: &Topology, online: &[Cpu]) -> Vec<String> {
    let server = &config.server;
    let threads = thread_count(topology, &server.affinity, server.threads);
    let buckets = |listen: &Listen| listen.buckets.count(threads, true);
    let most = config.listens.iter().map(buckets).max().unwrap_or(1);
    // A plan that is not possible is an error elsewhere.
    let Ok(plan) = plan(topology, &server.affinity, server.threads, most) else { return Vec::new() };
    let of_listen = |listen: &Listen| {
        let text = complaint(&plan.cpus, buckets(listen), listen.steer_by_cpu, online)?;
        Some(format!("address {}: {text}", listen.address))
    };
    config.listens.iter().filter_map(of_listen).collect()
}

/// What is wrong with this number of buckets, if anything is.
fn complaint(homes: &[Option<u16>], buckets: u16, steered: bool, online: &[Cpu]) -> Option<String> {
    if steered {
        let table = table(homes, buckets, online);
        let of = |cpu: &Cpu| table.get(usize::from(cpu.id)).copied().unwrap_or(cpu.id % buckets.max(1));
        let mut reached: Vec<u16> = online.iter().map(of).collect();
        reached.sort_unstable();
        reached.dedup();
        if reached.len() < usize::from(buckets) {
            return Some(format!(
                "`steer_by_cpu` reaches {} of {buckets} buckets, and threads of the others get no connections: there \
                 are {} CPUs and {} threads, and a bucket needs a thread on a CPU of its own",
                reached.len(),
                online.len(),
                homes.len()
            ));
        }
    }
    (usize::from(buckets) > homes.len()).then(|| {
        format!(
            "more buckets ({buckets}) than threads ({}): one for each thread is all that is of use",
            homes.len()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use maitred_config::Affinity;

    /// Eight CPUs, siblings next to each other (0-1, 2-3, …).
    fn siblings() -> Vec<Cpu> {
        (0..8).map(|id| Cpu { id, core: id / 2 * 2, node: id / 4, capacity: 1024 }).collect()
    }

    fn homes(cpus: &[Cpu], threads: u16, buckets: u16) -> Vec<Option<u16>> {
        let topology = Topology { cpus: cpus.to_vec(), quota: None };
        plan(&topology, &Affinity::Auto, Some(threads), buckets).unwrap().cpus
    }

    #[test]
    fn every_cpu_leads_to_the_thread_that_lives_there() {
        let cpus = siblings();
        for buckets in [1, 2, 3, 4, 8] {
            let homes = homes(&cpus, 8, buckets);
            let table = table(&homes, buckets, &cpus);
            for (thread, home) in homes.iter().enumerate() {
                let bucket = table[usize::from(home.unwrap())];
                assert_eq!(usize::from(bucket), thread % usize::from(buckets), "{homes:?} {table:?}");
            }
            assert_eq!(complaint(&homes, buckets, true, &cpus), None);
        }
        assert_ne!(table(&homes(&cpus, 8, 8), 8, &cpus), [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn a_cpu_without_a_thread_shares_one_with_its_sibling_or_its_node() {
        let cpus = siblings();
        // One thread on each core.
        let homes = homes(&cpus, 4, 4);
        let table_of_four = table(&homes, 4, &cpus);
        for pair in table_of_four.chunks(2) {
            assert_eq!(pair[0], pair[1], "{homes:?} {table_of_four:?}");
        }
        // Only CPU 2 of node 0 and CPU 4 of node 1 are used, and CPU 9 has been without a description.
        let mut online = cpus.clone();
        online.push(Cpu { id: 9, core: 9, node: 7, capacity: 1024 });
        let table = table(&[Some(2), Some(4)], 2, &online);
        assert_eq!(table, [0, 0, 0, 0, 1, 1, 1, 1, 0, 1]);
    }

    #[test]
    fn without_pinned_threads_there_is_no_table() {
        assert_eq!(table(&[None, None], 2, &siblings()), [0; 0]);
        assert_eq!(table(&[Some(0)], 1, &[]), [0; 0]);
        // A home that has gone offline since.
        assert_eq!(table(&[Some(77)], 1, &siblings()), [0; 0]);
    }

    #[test]
    fn buckets_that_nobody_reaches_are_complained_about() {
        let cpus = siblings();
        let many = homes(&cpus, 64, 64);
        let text = complaint(&many, 64, true, &cpus).unwrap();
        assert!(text.starts_with("`steer_by_cpu` reaches 8 of 64 buckets"), "{text}");
        // By hash, all of them are reached.
        assert_eq!(complaint(&many, 64, false, &cpus), None);
        let few = homes(&cpus, 2, 4);
        assert!(complaint(&few, 4, false, &cpus).unwrap().starts_with("more buckets (4) than threads (2)"));
        assert!(complaint(&few, 4, true, &cpus).is_some());
        assert!(complaint(&[None; 64], 64, true, &cpus).unwrap().contains("8 of 64"));
    }
}
