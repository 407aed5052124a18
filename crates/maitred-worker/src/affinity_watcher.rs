//! Samples the threads once a second, decides, and applies what was decided.

use std::io;
use std::path::Path;
use std::time::Instant;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use maitred_control::affinity::adapt::{Action, Adapter, Decision};
use maitred_control::affinity::sampler::Sampler;
use maitred_control::affinity::topology::{SYSTEM, Topology};
use maitred_status::scoreboard::ThreadRow;

/// Lets a thread run on these CPUs only; `None` is the calling thread.
///
/// # Errors
/// As `sched_setaffinity(2)`; `InvalidInput` when no CPU is left.
pub(super) fn allow(thread: Option<Pid>, cpus: &[u16]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus.iter().filter(|cpu| usize::from(**cpu) < CpuSet::MAX_CPU) {
        set.set(usize::from(cpu));
    }
    Ok(sched_setaffinity(thread, &set)?)
}

/// Watches the event-loop threads of this process. Belongs to the control thread.
#[derive(Debug)]
pub(super) struct Watcher {
    threads: Vec<Pid>,
    usable: Vec<u16>,
    sampler: Sampler,
    adapter: Adapter,
    /// The plan's CPU of each thread, for the log.
    homes: Vec<Option<u16>>,
    adaptive: bool,
}

impl Watcher {
    /// For threads that have pinned themselves to `homes`. With `adaptive` false (an explicit list, or off) it only
    /// counts. Opens files below `/proc` and `/sys`, now and not later.
    pub(super) fn new(
        threads: Vec<Pid>,
        homes: Vec<Option<u16>>,
        usable: Vec<u16>,
        adaptive: bool,
    ) -> Watcher {
        let cpus = Topology::from_tree(Path::new(SYSTEM), &usable, None).cpus;
        let adapter = Adapter::new(&homes, cpus);
        Watcher { sampler: Sampler::new(&threads), threads, usable, adapter, homes, adaptive }
    }

    /// To be called once a second. `rows` are those of the threads, in their order; this is the only writer of their
    /// sampled fields. Gives what was decided and applied, for the caller's log.
    pub(super) fn tick(&mut self, now: Instant, rows: &[ThreadRow]) -> Option<Decision> {
        let samples = self.sampler.threads();
        for (row, sample) in rows.iter().zip(&samples) {
            if let Some(sample) = sample {
                row.cpu_ns.set(sample.cpu_ns);
                row.run_delay_ns.set(sample.run_delay_ns);
            }
        }
        let decision = if self.adaptive {
            self.adapter
                .observe(now, &samples, &self.sampler.cpus())
                .filter(|decision| self.apply(*decision, rows))
        } else {
            None
        };
        for (thread, row) in rows.iter().take(self.threads.len()).enumerate() {
            let cpu = self.adapter.pinned_to(thread);
            row.cpu_plus_1.set(cpu.map_or(0, |cpu| u64::from(cpu) + 1));
        }
        decision
    }

    fn apply(&mut self, decision: Decision, rows: &[ThreadRow]) -> bool {
        let Decision { thread, action } = decision;
        let Some(tid) = self.threads.get(thread).copied() else { return false };
        let applied = match action {
            Action::Move(cpu) | Action::Repin(cpu) => allow(Some(tid), &[cpu]),
            Action::Release => allow(Some(tid), &self.usable),
        };
        if let Err(error) = applied {
            // A thread that has just ended, as all do at a stop, is not worth a word.
            if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) {
                self.adapter.give_up(thread);
                return false;
            }
            tracing::warn!(thread, %error, "affinity: the kernel refused a change; the thread stays as it is");
            // The mask may have shrunk under us: better anywhere than nowhere. Failing that, all stays as it is.
            let _ = allow(Some(tid), &self.usable);
            self.adapter.give_up(thread);
            return false;
        }
        if let Some(row) = rows.get(thread) {
            match action {
                Action::Release => row.affinity_released.add(1),
                Action::Move(_) | Action::Repin(_) => row.affinity_moved.add(1),
            }
        }
        self.say(decision);
        true
    }

    fn say(&self, Decision { thread, action }: Decision) {
        let home = self.homes.get(thread).copied().flatten();
        match action {
            Action::Move(cpu) => {
                tracing::info!(thread, home, cpu, "affinity: another process uses its CPU; thread moved");
            }
            Action::Release => {
                tracing::info!(thread, home, "affinity: another process uses its CPU; thread unpinned");
            }
            Action::Repin(cpu) => {
                tracing::info!(thread, cpu, "affinity: its CPU is quiet again; thread pinned")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use maitred_control::affinity::topology::inherited_mask;

    fn on_a_thread<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
        // Affinity sticks to a thread; the test runner's own must keep theirs.
        std::thread::spawn(test).join().expect("no panic")
    }

    #[test]
    fn a_thread_can_be_pinned_and_released() {
        on_a_thread(|| {
            let usable = inherited_mask().expect("a mask");
            let last = *usable.last().expect("not empty");
            allow(None, &[last]).expect("pin");
            assert_eq!(inherited_mask().expect("a mask"), [last]);
            allow(None, &usable).expect("release");
            assert_eq!(inherited_mask().expect("a mask"), usable);
            assert!(allow(None, &[]).is_err());
            assert!(allow(None, &[u16::MAX]).is_err());
        });
    }

    #[test]
    fn a_confined_process_is_watched_through_the_reads_that_are_named() {
        use landlock::{ABI, Access, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, path_beneath_rules};

        // Landlock binds a thread for good.
        let (seen, nodes) = on_a_thread(|| {
            let outside = Topology::read().expect("a mask").cpus;
            let read = AccessFs::ReadFile | AccessFs::ReadDir;
            Ruleset::default()
                .handle_access(AccessFs::from_all(ABI::V1))
                .and_then(Ruleset::create)
                .and_then(|rules| rules.add_rules(path_beneath_rules(maitred_control::affinity::READS, read)))
                .and_then(|rules| rules.restrict_self())
                .expect("rules");
            let mut sampler = Sampler::new(&[rustix::thread::gettid()]);
            let inside = Topology::read().expect("a mask").cpus;
            (sampler.threads().remove(0).is_some() && !sampler.cpus().is_empty(), inside == outside)
        });
        assert!(seen && nodes);
    }

    #[test]
    fn rows_are_filled_and_decisions_reach_the_kernel() {
        let usable = inherited_mask().expect("a mask");
        let home = usable[0];
        let (tell, told) = mpsc::channel();
        let (release, wait) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid()).expect("the test waits");
            let _ = wait.recv();
            inherited_mask().expect("a mask")
        });
        let tid = told.recv().expect("the thread lives");
        allow(Some(tid), &[home]).expect("pin");
        let rows: Vec<ThreadRow> = (0..2).map(|_| ThreadRow::default()).collect();
        let mut watcher = Watcher::new(vec![tid], vec![Some(home)], usable.clone(), true);
        let now = Instant::now();
        assert_eq!(watcher.tick(now, &rows), None);
        assert_eq!(watcher.tick(now + Duration::from_secs(1), &rows), None);
        assert_eq!(rows[0].cpu_plus_1.get(), u64::from(home) + 1);
        assert_eq!(rows[1].cpu_plus_1.get(), 0, "a row without a thread stays as it is");
        assert!(rows[0].cpu_ns.get() > 0);

        assert!(watcher.apply(Decision { thread: 0, action: Action::Release }, &rows));
        assert_eq!(rows[0].affinity_released.get(), 1);
        assert!(!watcher.apply(Decision { thread: 0, action: Action::Move(u16::MAX) }, &rows));
        assert_eq!(rows[0].affinity_moved.get(), 0, "what the kernel refused is not counted");
        watcher.tick(now + Duration::from_secs(2), &rows);
        assert_eq!(rows[0].cpu_plus_1.get(), 0);
        release.send(()).expect("the thread waits");
        assert_eq!(thread.join().expect("no panic"), usable);
    }
}
