//! What `/proc` says about a server and its descendants (proc(5)).

use std::fs;
use std::path::PathBuf;

use crate::Result;

/// CPU time of a process tree, in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cpu {
    /// All of it, exact.
    pub(super) total: f64,
    /// The parts of the total in whole ticks of each process (10 ms): of a hundred processes that share the work, these may be
    /// all 0.
    user_ticks: f64,
    system_ticks: f64,
}

impl Cpu {
    pub(super) fn since(self, earlier: Cpu) -> Cpu {
        Cpu {
            total: self.total - earlier.total,
            user_ticks: self.user_ticks - earlier.user_ticks,
            system_ticks: self.system_ticks - earlier.system_ticks,
        }
    }

    pub(super) fn and(self, other: Cpu) -> Cpu {
        Cpu {
            total: self.total + other.total,
            user_ticks: self.user_ticks + other.user_ticks,
            system_ticks: self.system_ticks + other.system_ticks,
        }
    }

    /// The part of user space, as far as ticks tell.
    pub(super) fn user(self) -> f64 {
        let ticks = self.user_ticks + self.system_ticks;
        if ticks > 0.0 { self.total * self.user_ticks / ticks } else { 0.0 }
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
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    let of = |pid: u32| {
        let seconds = |field| stat_field(pid, field).unwrap_or_default() as f64 / per_second;
        let [user, system, children_user, children_system] = [14, 15, 16, 17].map(seconds);
        // Of children that have ended there are ticks only, but of their sum.
        let own = maitred_sys::cpu_clock::of_process(pid).map_or(user + system, |own| own.as_secs_f64());
        Cpu {
            total: own + children_user + children_system,
            user_ticks: user + children_user,
            system_ticks: system + children_system,
        }
    };
    tree(root).into_iter().map(of).fold(Cpu::default(), Cpu::and)
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
    fn time_is_exact_for_many_processes_that_do_little() {
        let mut children: Vec<_> = (0..8)
            .map(|_| {
                let piped = std::process::Stdio::piped();
                std::process::Command::new("cat").stdin(piped).spawn().unwrap()
            })
            .collect();
        // No child has used a tick, but each has been started.
        let cpu = children.iter().map(|child| cpu(child.id())).fold(Cpu::default(), Cpu::and);
        assert!(cpu.total > 0.0 && cpu.user() <= cpu.total, "{cpu:?}");
        let one = super::cpu(children[0].id());
        assert!(cpu.total > one.total, "{cpu:?} {one:?}");
        assert_eq!(one.since(one).total, 0.0);
        for child in &mut children {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }

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
