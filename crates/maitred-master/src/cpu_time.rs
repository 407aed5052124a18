//! CPU time of a process with all that it has started, from `/proc/PID/stat` (proc_pid_stat(5)).

use std::fs::read_to_string;
use std::time::Instant;

/// Processes of one tree that are looked at; what is beyond counts as unused.
const PROCESSES_MAX: usize = 64;

/// What a process uses of a CPU.
#[derive(Debug, Default)]
pub struct CpuTime {
    before: Option<(Instant, u64)>,
    /// CPU time per time between the last two looks; more than 1 for several CPUs.
    pub share: f64,
}

impl CpuTime {
    /// Looks at it.
    pub fn look(&mut self, now: Instant, pid: u32) {
        let ticks = ticks_of_tree(pid);
        if let Some((then, before)) = self.before {
            let passed = now.saturating_duration_since(then).as_secs_f64();
            let used = ticks.saturating_sub(before) as f64 / rustix::param::clock_ticks_per_second() as f64;
            self.share = if passed > 0.0 { used / passed } else { 0.0 };
        }
        self.before = Some((now, ticks));
    }
}

/// Clock ticks that a process and its descendants have used. A server such as gunicorn does nothing itself: its children do.
/// Only what the first thread of a process has started is found.
fn ticks_of_tree(pid: u32) -> u64 {
    let (mut found, mut at, mut ticks) = (vec![pid], 0, 0_u64);
    while let Some(pid) = found.get(at).copied() {
        at += 1;
        let stat = read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        ticks = ticks.saturating_add(ticks_in(&stat).unwrap_or(0));
        let children = read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let room = PROCESSES_MAX.saturating_sub(found.len());
        found.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()).take(room));
    }
    ticks
}

/// `utime`, `stime`, and those of children that have been waited for: fields 14 to 17. The second field, the name, may have
/// anything in it; it ends with the last parenthesis.
fn ticks_in(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut sum = 0_u64;
    for field in rest.split_whitespace().skip(11).take(4) {
        sum = sum.saturating_add(field.parse::<u64>().ok()?);
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_shift_the_fields() {
        let stat = "7 (a) R (b c) S 1 7 7 0 -1 4194560 1 2 3 4 100 20 3 0 20 0 1 0 5 6 7";
        assert_eq!(ticks_in(stat), Some(123));
        assert_eq!(ticks_in(""), None);
    }

    #[test]
    fn work_is_seen() {
        let (mut time, began) = (CpuTime::default(), Instant::now());
        time.look(began, std::process::id());
        let ticks = ticks_of_tree(std::process::id());
        while ticks_of_tree(std::process::id()) < ticks + 3 {
            std::hint::black_box((0..10_000).sum::<u64>());
        }
        time.look(Instant::now(), std::process::id());
        assert!(time.share > 0.0, "{}", time.share);
        assert_eq!(ticks_of_tree(u32::MAX), 0);
    }
}
