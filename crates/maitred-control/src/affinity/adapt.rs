//! When a thread leaves its CPU, and when it returns. Pure: samples in, decisions out.
//!
//! A pinned thread cannot get out of the way of something else that runs on its CPU. What gives that away is its
//! run-queue delay: the time that it was runnable and did not run. `docs/affinity.md` has the rules as a table.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::topology::Cpu;

/// Share of a period that a thread must have waited for its CPU to count as disturbed.
pub(crate) const DELAY_SHARE_MIN: f64 = 0.10;
/// And so many times what is usual for it.
pub(crate) const DELAY_TIMES_USUAL: f64 = 2.0;
/// Periods in a row that a thread must be disturbed, or a CPU idle, before it counts.
pub(crate) const PERIODS_MIN: u32 = 3;
/// Share of a period that a CPU must idle to be moved to.
pub(crate) const IDLE_SHARE_MIN: f64 = 0.50;
/// Mean share that the other CPUs must idle for a thread to be released although none of them is idle enough by itself.
pub(crate) const IDLE_MEAN_MIN: f64 = 0.25;
/// Share of a period that others may use of a CPU that a thread is to return to.
pub(crate) const FOREIGN_SHARE_MAX: f64 = 0.20;
/// How long a CPU must be that quiet.
pub(crate) const QUIET_MIN: Duration = Duration::from_secs(30);
/// Between two decisions on the same thread.
pub(crate) const SETTLE: Duration = Duration::from_secs(10);
/// How long a thread stays away after it first left its home; doubled each time that it has to leave again.
pub(crate) const HOLD_MIN: Duration = Duration::from_secs(30);
/// The most that this is doubled to; a thread that stayed at home for so long starts again at [`HOLD_MIN`].
pub(crate) const HOLD_MAX: Duration = Duration::from_secs(30 * 60);
/// Periods outside of these are not judged: the machine slept, or the process did.
const PERIOD_MIN: Duration = Duration::from_millis(250);
const PERIOD_MAX: Duration = Duration::from_secs(5);
/// Weight of the present period in what is usual.
const USUAL_WEIGHT: f64 = 1.0 / 16.0;

/// What the kernel counted for one thread, since the thread's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadSample {
    /// Nanoseconds on a CPU.
    pub cpu_ns: u64,
    /// Nanoseconds runnable without a CPU.
    pub run_delay_ns: u64,
    /// Where it ran last.
    pub last_cpu: Option<u16>,
}

/// What the kernel counted for one CPU, since the machine's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuSample {
    /// The number of the CPU.
    pub cpu: u16,
    /// Nanoseconds without anything to run, waiting for disks included.
    pub idle_ns: u64,
}

/// What to do with one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Which thread.
    pub thread: usize,
    /// What to do.
    pub action: Action,
}

/// See [`Decision`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Pin it to this CPU instead.
    Move(u16),
    /// Let it run on all usable CPUs.
    Release,
    /// Pin it to this CPU, its home, again.
    Repin(u16),
}

/// Where a thread is allowed to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// On its home CPU only.
    Home,
    /// On this CPU only.
    Away(u16),
    /// On every usable CPU.
    Released,
}

#[derive(Debug)]
struct Thread {
    /// The plan's CPU; `None` for a thread that is left alone.
    home: Option<u16>,
    place: Place,
    last: Option<ThreadSample>,
    /// Run-queue delay as a share of the last period.
    delay: f64,
    /// The same over the undisturbed past.
    usual: f64,
    /// Periods in a row that it was disturbed.
    disturbed: u32,
    /// Since when nothing else has used its home.
    quiet_since: Option<Instant>,
    decided: Option<Instant>,
    /// When it left home last, and how long it is to stay away at least.
    left: Option<Instant>,
    hold: Duration,
    /// When it last returned.
    returned: Option<Instant>,
}

impl Thread {
    fn pinned_to(&self) -> Option<u16> {
        match self.place {
            Place::Home => self.home,
            Place::Away(cpu) => Some(cpu),
            Place::Released => None,
        }
    }

    fn observe(&mut self, now: Instant, period: Duration, sample: ThreadSample, idle: &BTreeMap<u16, Idle>) {
        let Some(last) = self.last.replace(sample) else { return };
        let share = |after: u64, before: u64| after.saturating_sub(before) as f64 / period.as_nanos() as f64;
        let used = share(sample.cpu_ns, last.cpu_ns);
        self.delay = share(sample.run_delay_ns, last.run_delay_ns);
        if self.delay > DELAY_SHARE_MIN && self.delay > DELAY_TIMES_USUAL * self.usual {
            self.disturbed += 1;
        } else {
            self.disturbed = 0;
            self.usual += USUAL_WEIGHT * (self.delay - self.usual);
        }
        let busy = self.home.and_then(|home| idle.get(&home)).map(|idle| 1.0 - idle.share);
        let own = if sample.last_cpu == self.home { used } else { 0.0 };
        match busy {
            Some(busy) if busy - own <= FOREIGN_SHARE_MAX => _ = self.quiet_since.get_or_insert(now),
            _ => self.quiet_since = None,
        }
    }

    fn may_leave(&self, now: Instant) -> bool {
        self.home.is_some()
            && self.place != Place::Released
            && self.disturbed >= PERIODS_MIN
            && self.has_settled(now)
    }

    fn has_settled(&self, now: Instant) -> bool {
        self.decided.is_none_or(|decided| now >= decided + SETTLE)
    }

    fn may_return_home(&self, now: Instant) -> bool {
        self.place != Place::Home
            && self.quiet_since.is_some_and(|since| now >= since + QUIET_MIN)
            && self.left.is_none_or(|left| now >= left + self.hold)
            && self.has_settled(now)
    }

    fn go(&mut self, now: Instant, place: Place) {
        if self.place == Place::Home {
            let again = self.returned.is_some_and(|returned| now < returned + HOLD_MAX);
            self.hold = if again { (self.hold * 2).min(HOLD_MAX) } else { HOLD_MIN };
            self.left = Some(now);
        }
        if place == Place::Home {
            self.returned = Some(now);
        }
        self.place = place;
        self.decided = Some(now);
        self.disturbed = 0;
    }
}

#[derive(Debug, Clone, Copy)]
struct Idle {
    last_ns: u64,
    /// Of the last period.
    share: f64,
    /// Periods in a row above [`IDLE_SHARE_MIN`].
    periods: u32,
}

/// Decides for all threads of a process. To be fed once a second.
#[derive(Debug)]
pub struct Adapter {
    threads: Vec<Thread>,
    cpus: Vec<Cpu>,
    idle: BTreeMap<u16, Idle>,
    last: Option<Instant>,
}

impl Adapter {
    /// For threads with these homes (`None`: leave it alone) on these usable CPUs.
    pub fn new(homes: &[Option<u16>], cpus: Vec<Cpu>) -> Adapter {
        let thread = |home: &Option<u16>| Thread {
            home: *home,
            place: if home.is_some() { Place::Home } else { Place::Released },
            last: None,
            delay: 0.0,
            usual: 0.0,
            disturbed: 0,
            quiet_since: None,
            decided: None,
            left: None,
            hold: HOLD_MIN,
            returned: None,
        };
        Adapter { threads: homes.iter().map(thread).collect(), cpus, idle: BTreeMap::new(), last: None }
    }

    /// The CPU that a thread is pinned to now.
    pub fn pinned_to(&self, thread: usize) -> Option<u16> {
        self.threads.get(thread)?.pinned_to()
    }

    /// Leaves a thread alone from now on, because the kernel refused a decision on it.
    pub fn give_up(&mut self, thread: usize) {
        if let Some(thread) = self.threads.get_mut(thread) {
            thread.home = None;
            thread.place = Place::Released;
        }
    }

    /// Takes the samples of one period, threads in their order (`None` for one that could not be read), and decides on
    /// at most one thread, so that the effect is seen before the next decision. The decision counts as carried out.
    pub fn observe(
        &mut self,
        now: Instant,
        threads: &[Option<ThreadSample>],
        cpus: &[CpuSample],
    ) -> Option<Decision> {
        let period = now.saturating_duration_since(self.last.replace(now)?);
        self.observe_cpus(period, cpus);
        for (thread, sample) in self.threads.iter_mut().zip(threads) {
            match sample {
                Some(sample) => thread.observe(now, period, *sample, &self.idle),
                None => thread.last = None,
            }
        }
        if !(PERIOD_MIN..=PERIOD_MAX).contains(&period) {
            self.forget_streaks();
            return None;
        }
        let decision = self.leave(now).or_else(|| self.return_home(now))?;
        let place = match decision.action {
            Action::Move(cpu) => Place::Away(cpu),
            Action::Release => Place::Released,
            Action::Repin(_) => Place::Home,
        };
        self.threads.get_mut(decision.thread)?.go(now, place);
        Some(decision)
    }

    fn observe_cpus(&mut self, period: Duration, cpus: &[CpuSample]) {
        let before = std::mem::take(&mut self.idle);
        for sample in cpus.iter().filter(|sample| self.cpus.iter().any(|cpu| cpu.id == sample.cpu)) {
            // A CPU that is seen for the first time counts as busy.
            let last = before.get(&sample.cpu);
            let idle_ns = last.map_or(0, |last| sample.idle_ns.saturating_sub(last.last_ns));
            let share = idle_ns as f64 / period.as_nanos().max(1) as f64;
            let periods = if share > IDLE_SHARE_MIN { last.map_or(0, |last| last.periods) + 1 } else { 0 };
            self.idle.insert(sample.cpu, Idle { last_ns: sample.idle_ns, share, periods });
        }
    }

    fn forget_streaks(&mut self) {
        for thread in &mut self.threads {
            (thread.disturbed, thread.quiet_since) = (0, None);
        }
        for idle in self.idle.values_mut() {
            idle.periods = 0;
        }
    }

    /// The most disturbed thread that may leave and would be better off elsewhere.
    fn leave(&self, now: Instant) -> Option<Decision> {
        let candidates = self.threads.iter().enumerate().filter(|(_, thread)| thread.may_leave(now));
        let (index, thread) = candidates.max_by(|(_, one), (_, other)| one.delay.total_cmp(&other.delay))?;
        let from = thread.pinned_to()?;
        let action = match self.free_cpu_near(from) {
            Some(cpu) => Action::Move(cpu),
            None if self.others_have_room(from) => Action::Release,
            // Everything is busy: letting go would cost the caches and win nothing.
            None => return None,
        };
        Some(Decision { thread: index, action })
    }

    /// A CPU that has idled for a while and is no thread's home or place; of the same node if possible, and on a core of
    /// which nothing else is in use, and the idlest.
    fn free_cpu_near(&self, from: u16) -> Option<u16> {
        let node = self.cpus.iter().find(|cpu| cpu.id == from).map(|cpu| cpu.node);
        let taken = |cpu: &Cpu| {
            self.threads
                .iter()
                .any(|thread| thread.home == Some(cpu.id) || thread.pinned_to() == Some(cpu.id))
        };
        let whole_core =
            |cpu: &Cpu| self.cpus.iter().filter(|other| other.core == cpu.core).all(|o| self.idles(o.id));
        let free = self.cpus.iter().filter(|cpu| cpu.id != from && self.idles(cpu.id) && !taken(cpu));
        free.max_by(|one, other| {
            let rank = |cpu: &Cpu| (Some(cpu.node) == node, whole_core(cpu));
            rank(one).cmp(&rank(other)).then(self.idle_share(one.id).total_cmp(&self.idle_share(other.id)))
        })
        .map(|cpu| cpu.id)
    }

    fn idles(&self, cpu: u16) -> bool {
        self.idle.get(&cpu).is_some_and(|idle| idle.periods >= PERIODS_MIN)
    }

    fn idle_share(&self, cpu: u16) -> f64 {
        self.idle.get(&cpu).map_or(0.0, |idle| idle.share)
    }

    /// Whether the scheduler would find room on the other usable CPUs, if it were free to choose.
    fn others_have_room(&self, from: u16) -> bool {
        let others: Vec<u16> = self.cpus.iter().map(|cpu| cpu.id).filter(|cpu| *cpu != from).collect();
        let sum: f64 = others.iter().map(|cpu| self.idle_share(*cpu)).sum();
        others.iter().any(|cpu| self.idles(*cpu)) || sum > IDLE_MEAN_MIN * others.len() as f64
    }

    /// The thread that has been away longest, of those whose home is quiet.
    fn return_home(&self, now: Instant) -> Option<Decision> {
        let candidates = self.threads.iter().enumerate().filter(|(_, thread)| thread.may_return_home(now));
        let (thread, home) = candidates
            .min_by_key(|(_, thread)| thread.left)
            .and_then(|(index, thread)| Some((index, thread.home?)))?;
        Some(Decision { thread, action: Action::Repin(home) })
    }
}
