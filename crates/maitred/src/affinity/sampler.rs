//! Where the samples come from: `/proc/self/task/TID/schedstat`, `/proc/self/task/TID/stat` and `/proc/stat`
//! (proc(5), `Documentation/scheduler/sched-stats.rst`).

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use super::adapt::{CpuSample, ThreadSample};

/// Reads samples below one root.
#[derive(Debug)]
pub struct Sampler {
    proc: PathBuf,
    tick_ns: u64,
}

impl Sampler {
    /// For this machine.
    pub fn new() -> Sampler {
        Sampler::at(Path::new("/proc"), rustix::param::clock_ticks_per_second())
    }

    /// For a tree that looks like `/proc`, which counts so many ticks a second.
    pub fn at(proc: &Path, ticks_per_second: u64) -> Sampler {
        Sampler { proc: proc.to_owned(), tick_ns: 1_000_000_000 / ticks_per_second.max(1) }
    }

    /// One thread of this process; `None` when it is gone, or the kernel does not count (`CONFIG_SCHED_INFO`).
    pub fn thread(&self, tid: Pid) -> Option<ThreadSample> {
        let task = self.proc.join(format!("self/task/{}", tid.as_raw_nonzero()));
        let (cpu_ns, run_delay_ns) = parse_schedstat(&fs::read_to_string(task.join("schedstat")).ok()?)?;
        let last_cpu = fs::read_to_string(task.join("stat")).ok().and_then(|text| parse_last_cpu(&text));
        Some(ThreadSample { cpu_ns, run_delay_ns, last_cpu })
    }

    /// All CPUs that are online.
    pub fn cpus(&self) -> Vec<CpuSample> {
        let text = fs::read_to_string(self.proc.join("stat")).unwrap_or_default();
        text.lines().filter_map(|line| parse_cpu(line, self.tick_ns)).collect()
    }
}

impl Default for Sampler {
    fn default() -> Self {
        Sampler::new()
    }
}

/// `cpu_ns run_delay_ns timeslices`
fn parse_schedstat(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_ascii_whitespace();
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Field 39, `processor`. Field 2 is the name in brackets, which may hold blanks and brackets itself.
fn parse_last_cpu(text: &str) -> Option<u16> {
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(39 - 3)?.parse().ok()
}

/// `cpuN user nice system idle iowait ...`, in ticks.
fn parse_cpu(line: &str, tick_ns: u64) -> Option<CpuSample> {
    let mut words = line.strip_prefix("cpu")?.split(' ');
    // The first line sums up all CPUs and has no number.
    let cpu = words.next()?.parse().ok()?;
    let idle: u64 = words.nth(3)?.parse().ok()?;
    let iowait: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    Some(CpuSample { cpu, idle_ns: idle.saturating_add(iowait).saturating_mul(tick_ns) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_and_this_machine_can_be_read() {
        let sampler = Sampler::new();
        let tid = rustix::thread::gettid();
        let before = sampler.thread(tid).expect("the kernel counts");
        let mut after = before;
        while after.cpu_ns <= before.cpu_ns + 1_000_000 {
            after = sampler.thread(tid).expect("the kernel counts");
        }
        assert!(after.last_cpu.is_some());
        let cpus: Vec<u16> = sampler.cpus().iter().map(|sample| sample.cpu).collect();
        for cpu in crate::affinity::topology::inherited_mask().expect("a mask") {
            assert!(cpus.contains(&cpu));
        }
    }

    #[test]
    fn files_are_parsed_by_their_manual() {
        assert_eq!(parse_schedstat("123 456 7\n"), Some((123, 456)));
        assert_eq!(parse_schedstat("123"), None);
        let stat = format!("7 (a) b) S {} 5 0\n", vec!["0"; 35].join(" "));
        assert_eq!(parse_last_cpu(&stat), Some(5));
        assert_eq!(parse_last_cpu("7 (a S"), None);
        assert_eq!(parse_cpu("cpu3 1 2 3 40 2 9 9 0", 10), Some(CpuSample { cpu: 3, idle_ns: 420 }));
        for other in ["cpu  1 2 3 4 5", "intr 1 2 3", "cpu3 1 2", ""] {
            assert_eq!(parse_cpu(other, 10), None, "{other}");
        }
    }

    #[test]
    fn what_is_not_there_is_no_sample() {
        let sampler = Sampler::at(Path::new("/nonexistent"), 100);
        assert_eq!(sampler.thread(rustix::thread::gettid()), None);
        assert_eq!(sampler.cpus(), []);
    }
}
