//! The CPUs that this process may use, with their cores and NUMA nodes.
//!
//! The kernel describes them below `/sys/devices/system`
//! (`Documentation/ABI/stable/sysfs-devices-system-cpu`, `sysfs-devices-node`). Any file may be missing, in a container
//! or on an unusual machine: then each CPU is a core of its own, and all are in one node.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use rustix::thread::{CpuSet, sched_getaffinity};

/// Where the kernel describes the machine.
pub const SYSTEM: &str = "/sys/devices/system";
/// `cpu_capacity` of the fastest CPUs of a machine, and of all CPUs when the kernel does not say.
const CAPACITY_FULL: u32 = 1024;

/// What this process may run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// The CPUs of the inherited mask, ascending; never empty.
    pub cpus: Vec<Cpu>,
    /// How many CPUs' worth of time the process may use, where a cgroup allows less than the mask.
    pub quota: Option<u16>,
}

/// One CPU, as the scheduler counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    /// The number of the CPU.
    pub id: u16,
    /// Lowest number among the CPUs of its physical core, whether usable or not: SMT siblings share it.
    pub core: u16,
    /// The NUMA node of the CPU.
    pub node: u16,
    /// The CPU's speed relative to the others; 1024 is the fastest.
    pub capacity: u32,
}

impl Topology {
    /// Reads the mask, the quota and the machine's description.
    ///
    /// # Errors
    /// When the mask cannot be read, which is so on machines with more than 1024 CPUs.
    pub fn read() -> io::Result<Topology> {
        let mask = inherited_mask()?;
        // Counts the mask, and the cgroup's quota where that is less.
        let parallelism = std::thread::available_parallelism().map_or(mask.len(), usize::from);
        let quota = u16::try_from(parallelism).ok().filter(|quota| usize::from(*quota) < mask.len());
        Ok(Topology::from_tree(Path::new(SYSTEM), &mask, quota))
    }

    /// The topology of a tree that looks like `/sys/devices/system`, for the CPUs of a mask.
    pub fn from_tree(system: &Path, mask: &[u16], quota: Option<u16>) -> Topology {
        let nodes = nodes(&system.join("node"));
        let slow = list(&system.join("../cpu_atom/cpus"));
        let mut cpus: Vec<Cpu> = mask.iter().map(|&id| cpu(system, id, &nodes, &slow)).collect();
        cpus.sort_unstable_by_key(|cpu| cpu.id);
        cpus.dedup_by_key(|cpu| cpu.id);
        Topology { cpus, quota }
    }

    /// Numbers of the usable CPUs, ascending.
    pub(crate) fn usable(&self) -> Vec<u16> {
        self.cpus.iter().map(|cpu| cpu.id).collect()
    }
}

/// The CPUs that this thread, and so whatever it starts, may run on; ascending.
///
/// # Errors
/// As `sched_getaffinity(2)`.
pub fn inherited_mask() -> io::Result<Vec<u16>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .filter_map(|cpu| u16::try_from(cpu).ok())
        .collect())
}

/// All CPUs that are online, whether this process may use them or not; none if the kernel does not say.
pub fn online() -> Vec<Cpu> {
    let system = Path::new(SYSTEM);
    Topology::from_tree(system, &list(&system.join("cpu/online")), None).cpus
}

fn cpu(system: &Path, id: u16, nodes: &BTreeMap<u16, u16>, slow: &[u16]) -> Cpu {
    let directory = system.join(format!("cpu/cpu{id}"));
    let topology = directory.join("topology");
    // `core_cpus_list` is the newer name of the same thing.
    let siblings = ["core_cpus_list", "thread_siblings_list"].map(|name| list(&topology.join(name)));
    let core = siblings.iter().flatten().copied().min().unwrap_or(id);
    let package = number(&topology.join("physical_package_id"));
    // Without a description of the nodes, a package is the best guess at what shares a memory.
    let node = nodes.get(&id).copied().or(package.and_then(|package| package.try_into().ok())).unwrap_or(0);
    // Arm says how fast a CPU is; of a hybrid x86 it is known which ones are the slow kind.
    let capacity = number(&directory.join("cpu_capacity")).unwrap_or(if slow.contains(&id) {
        CAPACITY_FULL / 2
    } else {
        CAPACITY_FULL
    });
    Cpu { id, core, node, capacity }
}

/// CPU → node, of `node*/cpulist`.
fn nodes(directory: &Path) -> BTreeMap<u16, u16> {
    let mut nodes = BTreeMap::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(node) = name.to_str().and_then(|name| name.strip_prefix("node")?.parse().ok()) else {
            continue;
        };
        nodes.extend(list(&entry.path().join("cpulist")).into_iter().map(|cpu| (cpu, node)));
    }
    nodes
}

fn number(path: &Path) -> Option<u32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn list(path: &Path) -> Vec<u16> {
    fs::read_to_string(path).ok().and_then(|text| parse_list(&text)).unwrap_or_default()
}

/// CPUs of a list such as `0-3,8,10-11`, in its order; `None` when it is not one. An empty list is one.
pub(crate) fn parse_list(text: &str) -> Option<Vec<u16>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || usize::from(last) >= CpuSet::MAX_CPU {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// A short form of a sorted list: `0-3,8`.
pub(crate) fn format_list(cpus: &[u16]) -> String {
    cpus.chunk_by(|one, next| one.checked_add(1) == Some(*next))
        .filter_map(|run| match run {
            [] => None,
            [one] => Some(one.to_string()),
            [first, .., last] => Some(format!("{first}-{last}")),
        })
        .collect::<Vec<_>>()
        .join(",")
}
