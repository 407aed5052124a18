//! The input of the sizing core for the processes of a listen pool, which do not report whether they are busy.
//!
//! The kernel knows two things: how many connections wait in the accept queue of a bucket, and how much CPU time its
//! processes use. Neither is what the core asks for, so each is only used where it is reliable:
//! - *More* are needed when the queue does not become empty ([`PRESSURE_AFTER`]): then no process is free, whatever the CPU
//!   says, for they may all be waiting for a database. How many more, a queue cannot say: the core is shown no more waiting than
//!   there are processes, so that the pool at most doubles until the new ones count as ready.
//! - CPU time says how many are *not superfluous*: one for each [`BUSY_SHARE`] of a CPU that all use together. The sum does not
//!   depend on how the kernel spreads connections over processes, nor on how many there are; so it keeps a pool from shrinking,
//!   and under constant load it stays as it is. CPU time never makes the pool grow.
//! - Processes that wait for something else than the CPU look superfluous. Retiring one is then a trial, which a queue
//!   answers. After a retirement that was followed by such pressure the next trial waits twice as long ([`Watch::held`]).

use std::time::{Duration, Instant};

use super::settings::Settings;
use super::sizing::{Phase, SlotView};

/// A queue that has been found non-empty for this long is pressure. Several looks long, because a connection or two can be
/// found at any moment in the queue of processes that take them at once.
pub(crate) const PRESSURE_AFTER: Duration = Duration::from_millis(200);
/// CPU time per time above which a process is not superfluous: two half-idle processes are no better than one.
pub(crate) const BUSY_SHARE: f64 = 0.5;
/// How often the wait for the next trial doubles: with `retire_after` of one minute, up to about an hour.
const DOUBLINGS_MAX: u32 = 6;

/// One bucket of a listen pool.
#[derive(Debug, Clone)]
pub struct Watch {
    retire_after: Duration,
    min_spare: usize,
    max_spare: usize,
    queue: u32,
    waiting_since: Option<Instant>,
    under_pressure: bool,
    doublings: u32,
    /// When there was last pressure, or when its consequences were last halved.
    pressure: Option<Instant>,
    /// The last retirement that no pressure has followed yet.
    trial: Option<Instant>,
}

impl Watch {
    /// Of a bucket with these settings.
    pub fn new(settings: &Settings) -> Watch {
        let mut watch = Watch {
            retire_after: Duration::ZERO,
            min_spare: 0,
            max_spare: 0,
            queue: 0,
            waiting_since: None,
            under_pressure: false,
            doublings: 0,
            pressure: None,
            trial: None,
        };
        watch.resize(settings);
        watch
    }

    /// Other settings from now on.
    pub fn resize(&mut self, settings: &Settings) {
        self.retire_after = settings.retire_after;
        self.min_spare = usize::from(settings.min_spare);
        self.max_spare = usize::from(settings.max_spare.max(settings.min_spare));
    }

    /// So many connections are in the bucket's accept queue.
    pub fn see(&mut self, now: Instant, queue: u32) {
        self.queue = queue;
        if queue == 0 {
            (self.waiting_since, self.under_pressure) = (None, false);
        } else {
            let since = *self.waiting_since.get_or_insert(now);
            let under_pressure = now.saturating_duration_since(since) >= PRESSURE_AFTER;
            if under_pressure && !self.under_pressure {
                self.blame(now);
            }
            self.under_pressure = under_pressure;
        }
        if self.under_pressure {
            self.pressure = Some(now);
        } else if let Some(last) = self.pressure
            && now.saturating_duration_since(last) >= self.wait() * 4
        {
            self.doublings = self.doublings.saturating_sub(1);
            self.pressure = (self.doublings > 0).then_some(now);
        }
    }

    /// A process was retired because it seemed superfluous.
    pub fn retired(&mut self, now: Instant) {
        self.trial = Some(now);
    }

    /// Pressure begins: was it the last retirement?
    fn blame(&mut self, now: Instant) {
        let soon = self.wait() * 2;
        if self.trial.take().is_some_and(|trial| now.saturating_duration_since(trial) < soon) {
            self.doublings = (self.doublings + 1).min(DOUBLINGS_MAX);
        }
    }

    fn wait(&self) -> Duration {
        self.retire_after.saturating_mul(1 << self.doublings)
    }

    /// Whether the last pressure is too recent for another trial. The core adds `retire_after` to this.
    pub(crate) fn held(&self, now: Instant) -> bool {
        let hold = self.wait().saturating_sub(self.retire_after);
        self.doublings > 0 && self.pressure.is_some_and(|last| now.saturating_duration_since(last) < hold)
    }

    /// Changes the views of ready processes, which say that all are idle, to the input of the core, and gives back how
    /// many connections wait. `shares` are what each process uses of a CPU, in the same order.
    pub fn present(&self, now: Instant, slots: &mut [SlotView], shares: &[f64]) -> u32 {
        let mut ready: Vec<usize> = slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.phase == Phase::Idle)
            .map(|(at, _)| at)
            .collect();
        let share = |at: &usize| shares.get(*at).copied().unwrap_or(0.0);
        let used: f64 = ready.iter().map(share).sum();
        let needed = (used / BUSY_SHARE).ceil().clamp(0.0, f64::from(u16::MAX)) as usize;
        let count = ready.len();
        let most = count.saturating_sub(self.min_spare);
        let busy = match (self.under_pressure, self.queue, self.held(now)) {
            (true, ..) => count,
            (_, 0, false) => needed.min(most),
            (_, 0, true) => needed.max(count.saturating_sub(self.max_spare)).min(most),
            _ => most,
        };
        ready.sort_by(|a, b| share(b).total_cmp(&share(a)));
        for at in ready.iter().take(busy) {
            if let Some(slot) = slots.get_mut(*at) {
                (slot.phase, slot.busy) = (Phase::Busy, 1);
            }
        }
        match self.under_pressure {
            true => self.queue.min(u32::try_from(count).unwrap_or(u32::MAX).max(1)),
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pool::buckets::{BucketView, Buckets};

    const LOOK: Duration = Duration::from_millis(100);
    const STARTS_IN: Duration = Duration::from_secs(1);
    /// A tenth of the default, so that an hour is six minutes.
    const RETIRE_AFTER: Duration = Duration::from_secs(6);

    fn idle(now: Instant, count: usize) -> Vec<SlotView> {
        vec![SlotView { phase: Phase::Idle, capacity: 1, ..SlotView::empty(now) }; count]
    }

    fn busy(slots: &[SlotView]) -> usize {
        slots.iter().filter(|slot| slot.phase == Phase::Busy).count()
    }

    #[test]
    fn a_queue_is_pressure_only_when_it_stays() {
        let now = Instant::now();
        let mut watch = Watch::new(&Settings::default());
        let mut slots = idle(now, 4);
        watch.see(now, 3);
        assert_eq!(watch.present(now, &mut slots, &[]), 0);
        // One process is spare all the same, so nothing is started; and no more than one, so nothing is retired.
        assert_eq!(busy(&slots), 3);
        watch.see(now + PRESSURE_AFTER, 1);
        assert_eq!(watch.present(now, &mut idle(now, 4), &[]), 1);
        watch.see(now + PRESSURE_AFTER, 900);
        let mut slots = idle(now, 4);
        assert_eq!(watch.present(now, &mut slots, &[]), 4, "at most twice as many");
        assert_eq!(busy(&slots), 4);
        watch.see(now + PRESSURE_AFTER + LOOK, 0);
        assert_eq!(watch.present(now, &mut idle(now, 4), &[]), 0);
    }

    #[test]
    fn those_that_use_the_cpu_most_are_the_ones_that_stay() {
        let now = Instant::now();
        let watch = Watch::new(&Settings::default());
        let mut slots = idle(now, 4);
        watch.present(now, &mut slots, &[0.0, 0.9, 0.0, 0.3]);
        let phases: Vec<Phase> = slots.iter().map(|slot| slot.phase).collect();
        // 1.2 CPUs would keep three processes half busy; but they alone start no fourth.
        assert_eq!(phases[1], Phase::Busy);
        assert_eq!(phases[3], Phase::Busy);
        assert_eq!(busy(&slots), 3);
    }

    #[test]
    fn pressure_after_a_retirement_doubles_the_wait_and_quiet_halves_it() {
        let settings = Settings { retire_after: Duration::from_secs(10), ..Settings::default() };
        let mut watch = Watch::new(&settings);
        let mut now = Instant::now();
        assert!(!watch.held(now));
        for doubled in 1..=3 {
            watch.retired(now);
            watch.see(now, 1);
            watch.see(now + PRESSURE_AFTER, 1);
            assert_eq!(watch.doublings, doubled);
            now += PRESSURE_AFTER;
            watch.see(now, 0);
            assert!(watch.held(now + Duration::from_secs(9)));
        }
        assert!(watch.held(now + Duration::from_secs(69)));
        assert!(!watch.held(now + Duration::from_secs(70)));
        // Pressure that no retirement came before has nothing to do with retirements.
        now += Duration::from_secs(100);
        watch.see(now, 1);
        watch.see(now + PRESSURE_AFTER, 1);
        assert_eq!(watch.doublings, 3);
        now += PRESSURE_AFTER + Duration::from_secs(320);
        watch.see(now, 0);
        assert_eq!(watch.doublings, 2);
    }

    /// A server with a load that takes `concurrency` processes all the time, of which each uses `share` of a CPU.
    struct World {
        concurrency: usize,
        share: f64,
        slots: Vec<SlotView>,
        watch: Watch,
        sizing: Buckets,
        changes: Vec<Duration>,
    }

    impl World {
        fn new(now: Instant, settings: &Settings, concurrency: usize, share: f64) -> World {
            World {
                concurrency,
                share,
                slots: vec![SlotView::empty(now); usize::from(settings.slots())],
                watch: Watch::new(settings),
                sizing: Buckets::new(now, settings, 1),
                changes: Vec::new(),
            }
        }

        fn step(&mut self, began: Instant, now: Instant) {
            for slot in &mut self.slots {
                if slot.phase == Phase::Starting && now >= slot.started + STARTS_IN {
                    (slot.phase, slot.since, slot.capacity) = (Phase::Idle, now, 1);
                }
            }
            // All take connections as soon as they run.
            let up = self.slots.iter().filter(|slot| slot.phase != Phase::Empty).count();
            self.watch.see(now, u32::try_from(self.concurrency.saturating_sub(up)).unwrap());
            let each = self.share * self.concurrency.min(up) as f64 / up.max(1) as f64;
            let mut shown = self.slots.clone();
            let queued = self.watch.present(now, &mut shown, &vec![each; self.slots.len()]);
            let view = BucketView { slots: &shown, queued };
            let decision = self.sizing.decide(now, &[view])[0];
            let vacant = self.slots.iter_mut().filter(|slot| slot.phase == Phase::Empty);
            for slot in vacant.take(usize::from(decision.start)) {
                *slot = SlotView { phase: Phase::Starting, started: now, since: now, ..SlotView::empty(now) };
                self.changes.push(now - began);
            }
            if let Some(retirement) = decision.retire {
                self.slots[usize::from(retirement.slot)] = SlotView::empty(now);
                self.watch.retired(now);
                self.changes.push(now - began);
            }
        }

        fn run(&mut self, began: Instant, length: Duration) {
            let mut now = began;
            while now < began + length {
                self.step(began, now);
                now += LOOK;
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

        /// Constant load settles: after half an hour there is a trial every six minutes, however the load uses its processes.
        #[test]
        fn constant_load_settles(concurrency in 0_usize..24, share in 0.0_f64..1.0, max_spare in 1_u16..6) {
            let began = Instant::now();
            let settings = Settings { max_spare, retire_after: RETIRE_AFTER, ..Settings::default() };
            let mut world = World::new(began, &settings, concurrency, share);
            world.run(began, Duration::from_secs(24 * 60));
            let between = |from: u64, to: u64| {
                world.changes.iter().filter(|at| (from * 60..to * 60).contains(&at.as_secs())).count()
            };
            prop_assert!(between(18, 24) <= 2 * (usize::from(max_spare) + 4), "{:?}", world.changes);
            prop_assert!(between(18, 24) <= between(0, 6), "{:?}", world.changes);
            let up = world.slots.iter().filter(|slot| slot.phase != Phase::Empty).count();
            prop_assert!(up >= concurrency, "{up} processes for {concurrency}");
        }

        /// Load that comes and goes for good leaves no more than `max_spare` behind.
        #[test]
        fn quiet_lets_it_shrink(concurrency in 0_usize..24, share in 0.0_f64..1.0) {
            let began = Instant::now();
            let settings = Settings { retire_after: RETIRE_AFTER, ..Settings::default() };
            let mut world = World::new(began, &settings, concurrency, share);
            world.run(began, Duration::from_secs(60));
            world.concurrency = 0;
            world.run(began + Duration::from_secs(60), Duration::from_secs(300));
            let up = world.slots.iter().filter(|slot| slot.phase != Phase::Empty).count();
            prop_assert!(up <= usize::from(settings.max_spare), "{up}");
        }
    }
}
