use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// (id, core, node)
fn topology(cpus: &[(u16, u16, u16)]) -> Topology {
    let cpus = cpus.iter().map(|&(id, core, node)| Cpu { id, core, node, capacity: 1024 }).collect();
    Topology { cpus, quota: None }
}

/// Two sockets of two cores with two siblings each, numbered as Linux does on x86.
fn two_sockets() -> Topology {
    topology(&[(0, 0, 0), (1, 1, 0), (2, 2, 1), (3, 3, 1), (4, 0, 0), (5, 1, 0), (6, 2, 1), (7, 3, 1)])
}

fn pinned(topology: &Topology, threads: Option<u16>, buckets: u16) -> Vec<u16> {
    let plan = plan(topology, &Affinity::Auto, threads, buckets).expect("auto cannot fail");
    plan.cpus.into_iter().map(|cpu| cpu.expect("auto pins all")).collect()
}

#[test]
fn one_thread_per_cpu() {
    let all = pinned(&two_sockets(), None, 2);
    // Threads 0, 2, 4, 6 serve bucket 0, which lives in node 0.
    assert_eq!(all, [0, 2, 1, 3, 4, 6, 5, 7]);
}

#[test]
fn cores_before_siblings_before_sharing() {
    assert_eq!(pinned(&two_sockets(), Some(4), 2), [0, 2, 1, 3]);
    // One bucket of four would fit into node 0, but only on siblings: cores go first.
    let mut one_bucket = pinned(&two_sockets(), Some(4), 1);
    one_bucket.sort_unstable();
    assert_eq!(one_bucket, [0, 1, 2, 3]);
    // Two threads of one bucket stay together.
    assert_eq!(pinned(&two_sockets(), Some(2), 1), [0, 1]);
    // Two buckets of one thread each are spread.
    assert_eq!(pinned(&two_sockets(), Some(2), 2), [0, 2]);
}

#[test]
fn more_threads_than_cpus_wrap() {
    let one = topology(&[(3, 3, 0)]);
    assert_eq!(pinned(&one, None, 1), [3]);
    assert_eq!(pinned(&one, Some(3), 2), [3, 3, 3]);
    let ten = pinned(&two_sockets(), Some(10), 2);
    assert_eq!(&ten[8..], [0, 2]);
}

#[test]
fn fast_cores_first() {
    let mut hybrid = topology(&[(0, 0, 0), (1, 1, 0), (2, 2, 0), (3, 2, 0)]);
    hybrid.cpus[0].capacity = 512;
    assert_eq!(pinned(&hybrid, None, 1), [1, 2, 0, 3]);
}

#[test]
fn a_quota_means_fewer_threads() {
    let mut topology = two_sockets();
    topology.quota = Some(3);
    assert_eq!(pinned(&topology, None, 1).len(), 3);
    assert_eq!(pinned(&topology, Some(5), 1).len(), 5, "what was asked for is what they get");
    let plan = plan(&topology, &Affinity::Off, None, 1).expect("off cannot fail");
    assert_eq!(plan.cpus, [None, None, None]);
    assert_eq!(plan.why, "off: 3 threads, not pinned, on CPUs 0-7 within a quota of 3");
}

#[test]
fn a_list_is_taken_as_it_is() {
    let listed = Affinity::Cpus(vec![6, 0]);
    let plan_of = |threads| plan(&two_sockets(), &listed, threads, 1).expect("inside the mask");
    assert_eq!(plan_of(None).cpus, [Some(6), Some(0)]);
    assert_eq!(plan_of(Some(3)).cpus, [Some(6), Some(0), Some(6)]);
    assert_eq!(plan_of(None).usable, [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn a_list_outside_the_mask_is_refused_with_its_cpus() {
    let error = plan(&two_sockets(), &Affinity::Cpus(vec![12, 0, 9]), None, 1).expect_err("outside");
    assert_eq!(error.cpus, [12, 9]);
    assert_eq!(error.to_string(), "affinity: CPU 9,12 is not among those that this process may use (0-7)");
}

#[test]
fn the_reason_says_what_was_found() {
    let plan = plan(&two_sockets(), &Affinity::Auto, None, 1).expect("auto cannot fail");
    assert_eq!(plan.why, "auto: 8 threads on 8 of the CPUs 0-7; 4 cores, 2 NUMA nodes");
}

/// Machines of up to 3 nodes, with up to 4 siblings a core, seen through a mask with holes.
fn machines() -> impl Strategy<Value = Topology> {
    let node = proptest::collection::vec(proptest::collection::vec(any::<bool>(), 1..4), 1..6);
    proptest::collection::vec(node, 1..4).prop_filter_map("an empty mask", |nodes| {
        let mut cpus = Vec::new();
        let mut id = 0;
        for (node, cores) in nodes.iter().enumerate() {
            for siblings in cores {
                let core = id;
                for usable in siblings {
                    if *usable {
                        cpus.push((id, core, node as u16));
                    }
                    id += 1;
                }
            }
        }
        (!cpus.is_empty()).then(|| topology(&cpus))
    })
}

proptest! {
    #[test]
    fn the_rules_hold(
        topology in machines(),
        threads in proptest::option::of(1_u16..80),
        buckets in 1_u16..12,
    ) {
        let cpus = pinned(&topology, threads, buckets);
        prop_assert_eq!(cpus.len(), usize::from(threads.unwrap_or(topology.cpus.len() as u16)));

        let mut load: BTreeMap<u16, usize> = topology.usable().into_iter().map(|cpu| (cpu, 0)).collect();
        for cpu in &cpus {
            *load.get_mut(cpu).expect("inside the mask") += 1;
        }
        // Rule 1.
        let (least, most) = (load.values().min().copied(), load.values().max().copied());
        prop_assert!(most.unwrap_or(0) - least.unwrap_or(0) <= 1, "{:?}", load);

        // Rule 2: a core that has two threads more than another one has siblings that the other lacks.
        let on = |core| -> (usize, usize) {
            let cpus = topology.cpus.iter().filter(|cpu| cpu.core == core);
            cpus.fold((0, 0), |(width, sum), cpu| (width + 1, sum + load[&cpu.id]))
        };
        if cpus.len() <= topology.cpus.len() {
            for one in &topology.cpus {
                for other in &topology.cpus {
                    let ((_, many), (width, few)) = (on(one.core), on(other.core));
                    prop_assert!(few == width || many <= few + 1, "{:?}", load);
                }
            }
        }
    }

    #[test]
    fn a_bucket_stays_in_one_node_when_cores_suffice(nodes in 1_u16..5, cores in 1_u16..9, buckets in 1_u16..5) {
        // As many threads per bucket as a node has cores, and no more buckets than nodes: all can stay at home.
        let buckets = buckets.min(nodes);
        let all: Vec<_> = (0..nodes * cores).map(|id| (id, id, id / cores)).collect();
        let cpus = pinned(&topology(&all), Some(buckets * cores), buckets);
        for bucket in 0..usize::from(buckets) {
            let mut homes: Vec<u16> =
                cpus.iter().skip(bucket).step_by(usize::from(buckets)).map(|cpu| cpu / cores).collect();
            homes.dedup();
            prop_assert_eq!(homes.len(), 1, "{:?}", cpus);
        }
    }
}
