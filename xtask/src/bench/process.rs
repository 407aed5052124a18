//! What `/proc` says about a server and its descendants (proc(5)).

use std::fs;
use std::path::PathBuf;

use crate::Result;

/// User and system time of a process tree, in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cpu {
    pub(super) user: f64,
    pub(super) system: f64,
}

impl Cpu {
    pub(super) fn since(self, earlier: Cpu) -> Cpu {
        Cpu { user: self.user - earlier.user, system: self.system - earlier.system }
    }

    pub(super) fn and(self, other: Cpu) -> Cpu {
        Cpu { user: self.user + other.user, system: self.system + other.system }
    }
}

/// A process and all that descend from it, parents first.
pub(super) fn tree(root: u32) -> Vec<u32> {
    let mut parents: Vec<(u32, u32)> = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some(parent) = stat_field(pid, 4) {
            parents.push((pid, parent as u32));
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found
}

/// A numeric field of `/proc/PID/stat`, counted from 1 as in proc_pid_stat(5); at least 4, since what stands before may
/// hold spaces.
fn stat_field(pid: u32, number: usize) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

/// The time that a tree has used, reaped children included.
pub(super) fn cpu(root: u32) -> Cpu {
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let sum = |fields: [usize; 2]| -> f64 {
        let of = |pid: u32| fields.iter().filter_map(|&field| stat_field(pid, field)).sum::<u64>();
        tree(root).into_iter().map(of).sum::<u64>() as f64 / ticks
    };
    // utime and cutime; stime and cstime.
    Cpu { user: sum([14, 16]), system: sum([15, 17]) }
}

/// The time of this process's children that have ended: the generators that it started, once they are reaped. Servers
/// are still running while this is compared, so they are not in it.
pub(super) fn ended_children_cpu() -> f64 {
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let own = std::process::id();
    [16, 17].iter().filter_map(|&field| stat_field(own, field)).sum::<u64>() as f64 / ticks
}

/// Private bytes of a tree: what would be free if it ended.
pub(super) fn private_bytes(root: u32) -> Result<u64> {
    let mut sum = 0;
    for pid in tree(root) {
        let path = format!("/proc/{pid}/smaps_rollup");
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let private = text.lines().filter(|line| line.starts_with("Private_"));
        let kilobytes = private.filter_map(|line| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok());
        sum += kilobytes.sum::<u64>() * 1024;
    }
    Ok(sum)
}

/// The program that a process runs.
pub(super) fn program(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_tree_holds_a_child_and_its_memory() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let own = std::process::id();
        assert!(tree(own).contains(&child.id()));
        assert!(private_bytes(own).unwrap() > 0);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!tree(own).contains(&child.id()));
    }
}
