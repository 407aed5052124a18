use std::path::PathBuf;

use tempfile::TempDir;

use super::*;

/// A tree that looks like `/sys/devices/system`.
struct Tree {
    _root: TempDir,
    system: PathBuf,
}

impl Tree {
    fn new(files: &[(&str, &str)]) -> Tree {
        let root = tempfile::tempdir().expect("a directory");
        let system = root.path().join("system");
        fs::create_dir_all(&system).expect("a directory");
        for (name, text) in files {
            let path = system.join(name);
            fs::create_dir_all(path.parent().expect("below the root")).expect("a directory");
            fs::write(path, text).expect("a file");
        }
        Tree { _root: root, system }
    }

    fn read(&self, mask: &[u16]) -> Vec<(u16, u16, u16, u32)> {
        let topology = Topology::from_tree(&self.system, mask, None);
        topology.cpus.iter().map(|cpu| (cpu.id, cpu.core, cpu.node, cpu.capacity)).collect()
    }
}

#[test]
fn two_sockets_with_siblings_far_apart() {
    let tree = Tree::new(&[
        ("node/node0/cpulist", "0-1,4-5\n"),
        ("node/node1/cpulist", "2-3,6-7\n"),
        ("node/possible", "0-1\n"),
        ("cpu/cpu0/topology/core_cpus_list", "0,4\n"),
        ("cpu/cpu1/topology/core_cpus_list", "1,5\n"),
        ("cpu/cpu2/topology/thread_siblings_list", "2,6\n"),
        ("cpu/cpu4/topology/core_cpus_list", "0,4\n"),
        ("cpu/cpu6/topology/thread_siblings_list", "2,6\n"),
    ]);
    assert_eq!(
        tree.read(&[0, 1, 2, 4, 6]),
        [(0, 0, 0, 1024), (1, 1, 0, 1024), (2, 2, 1, 1024), (4, 0, 0, 1024), (6, 2, 1, 1024)]
    );
}

#[test]
fn a_bare_tree_has_one_core_per_cpu_in_one_node() {
    assert_eq!(Tree::new(&[]).read(&[3, 9]), [(3, 3, 0, 1024), (9, 9, 0, 1024)]);
}

#[test]
fn a_mask_with_holes_keeps_its_holes_and_the_core_of_a_missing_sibling() {
    let tree = Tree::new(&[
        ("cpu/cpu5/topology/core_cpus_list", "4-5\n"),
        ("cpu/cpu6/topology/core_cpus_list", "6-7\n"),
    ]);
    assert_eq!(tree.read(&[6, 5, 5]), [(5, 4, 0, 1024), (6, 6, 0, 1024)]);
}

#[test]
fn packages_stand_in_for_nodes() {
    let tree = Tree::new(&[("cpu/cpu1/topology/physical_package_id", "1\n")]);
    assert_eq!(tree.read(&[0, 1]), [(0, 0, 0, 1024), (1, 1, 1, 1024)]);
    // A package of -1 is what some virtual machines say.
    let tree = Tree::new(&[("cpu/cpu1/topology/physical_package_id", "-1\n")]);
    assert_eq!(tree.read(&[1]), [(1, 1, 0, 1024)]);
}

#[test]
fn slow_cpus_of_both_kinds_are_known() {
    let arm = Tree::new(&[("cpu/cpu0/cpu_capacity", "380\n"), ("cpu/cpu1/cpu_capacity", "1024\n")]);
    assert_eq!(arm.read(&[0, 1]), [(0, 0, 0, 380), (1, 1, 0, 1024)]);
    let x86 = Tree::new(&[("../cpu_atom/cpus", "2-3\n")]);
    assert_eq!(x86.read(&[1, 2]), [(1, 1, 0, 1024), (2, 2, 0, 512)]);
}

#[test]
fn nonsense_in_a_file_is_as_good_as_no_file() {
    let tree = Tree::new(&[
        ("cpu/cpu0/topology/core_cpus_list", "what?\n"),
        ("cpu/cpu0/cpu_capacity", "fast\n"),
        ("node/node0/cpulist", "0-70000\n"),
        ("node/nodeX/cpulist", "0\n"),
    ]);
    assert_eq!(tree.read(&[0]), [(0, 0, 0, 1024)]);
}

#[test]
fn this_machine_can_be_read() {
    let topology = Topology::read().expect("a mask");
    assert_eq!(topology.usable(), inherited_mask().expect("a mask"));
    assert!(!topology.cpus.is_empty());
    assert!(topology.quota.is_none_or(|quota| usize::from(quota) < topology.cpus.len()));
}

#[test]
fn lists_are_read_and_written() {
    assert_eq!(parse_list("0-2,8\n"), Some(vec![0, 1, 2, 8]));
    assert_eq!(parse_list("8,0-1"), Some(vec![8, 0, 1]));
    assert_eq!(parse_list("\n"), Some(vec![]));
    for wrong in ["a", "1-", "-1", "3-1", "0-65535", "99999", "1 2"] {
        assert_eq!(parse_list(wrong), None, "{wrong}");
    }
    assert_eq!(format_list(&[0, 1, 2, 8, 10, 11]), "0-2,8,10-11");
    assert_eq!(format_list(&[]), "");
}
