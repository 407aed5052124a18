//! How many workers to start, and which one to retire: a pure function of the slots, the queue and the clock.
//!
//! What holds, always (each is a property test):
//! 1. A starting worker counts as capacity that is on its way.
//! 2. A draining worker counts for nothing, and does not delay others.
//! 3. Starts double while the need persists (1, 2, 4 … `spawn_max`), and begin at 1 again when it is met.
//! 4. A worker is retired only when more than `max_spare` were spare for the whole of `retire_after`, one at a time, the
//!    longest idle first, never while a request is queued or a worker starts.
//! 5. Under constant load the pool settles.
//! 6. Workers that die young are replaced with growing delays.
//! 7. Recycling is staggered, and replaces before it retires; only at `max` it retires first.
//!
//! Until the pool's first worker is ready, its workers' capacity is not known; so whatever waits until then is taken for
//! the need of one worker, beside `start` and `min_spare`.
//!
//! Rule 4 has one exception: where there are more workers than `max`, which is so after [`Sizing::resize`] only, they are
//! retired, one at a time, whatever they are doing: they finish what they have.
//!
//! *Spare* is free capacity less what is queued, in workers: in a pool whose workers take 8 requests at a time, 20 free
//! places are 2 spare workers.

use std::time::{Duration, Instant};

pub use super::settings::Settings;
use super::spare::LeastSpare;
use crate::backoff::{APP, Backoff, Rules};

/// Time between two bursts of starts. Long enough that one request in a queue that is about to empty starts one worker
/// and not several; short enough that 63 workers are on their way after half a second.
pub(crate) const SPAWN_INTERVAL: Duration = Duration::from_millis(100);
/// Time between two retirements.
pub(crate) const RETIRE_INTERVAL: Duration = Duration::from_secs(1);
/// By which part of its limit a worker may be recycled early, so that those that started together do not end together.
const STAGGER: u32 = 4;

/// What the worker of a slot does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The slot has no worker.
    Empty,
    /// Started, and not ready yet.
    Starting,
    /// Ready, with no request.
    Idle,
    /// Ready, with at least one request.
    Busy,
    /// Gets no more requests, and ends.
    Draining,
    /// The slot has no worker, and the last one died young. Counts as [`Phase::Empty`].
    Delayed,
}

/// A slot as the master sees it.
#[derive(Debug, Clone, Copy)]
pub struct SlotView {
    /// What its worker does.
    pub phase: Phase,
    /// Since when.
    pub since: Instant,
    /// When its worker was started.
    pub started: Instant,
    /// Requests that its worker has had.
    pub requests: u64,
    /// Memory of its worker, in bytes; 0 if not known.
    pub memory: u64,
    /// Requests that its worker has now.
    pub busy: u32,
    /// Requests that its worker takes at a time. Only looked at when it is ready; 0 is taken for 1.
    pub capacity: u32,
}

impl SlotView {
    /// An empty slot.
    pub fn empty(now: Instant) -> SlotView {
        SlotView {
            phase: Phase::Empty,
            since: now,
            started: now,
            requests: 0,
            memory: 0,
            busy: 0,
            capacity: 0,
        }
    }

    fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Idle | Phase::Busy)
    }

    fn capacity(&self) -> u32 {
        self.capacity.max(1)
    }

    fn free(&self) -> u32 {
        self.capacity().saturating_sub(self.busy)
    }
}

/// Why a worker is retired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// More than `max_spare` workers were spare for `retire_after`.
    Spare,
    /// Workers are more than `max`, which has been lowered.
    OverMax,
    /// The worker has had `max_requests`, or nearly.
    Requests,
    /// The worker has reached `max_age`, or nearly.
    Age,
    /// The worker has reached `max_memory`.
    Memory,
}

/// A worker to be drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retirement {
    /// The slot of the worker: the index into the slots that were shown.
    pub slot: u16,
    /// The reason.
    pub why: Why,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Decision {
    /// How many workers to start, in slots that are [`Phase::Empty`] or [`Phase::Delayed`]. There are that many.
    pub start: u16,
    /// How many more are missing, that cannot be started now.
    pub missing: u16,
    /// The worker to drain.
    pub retire: Option<Retirement>,
    /// A worker is missing, or is to be recycled, and cannot be replaced because workers that drain hold all the slots.
    pub crowded: bool,
    /// When to look again at the latest, even if nothing happens to the pool. `None`: the pool is settled.
    pub look_again: Option<Instant>,
}

/// A pool that cannot start its workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trouble {
    /// Workers that died young, since the last one that became ready or lived long.
    pub deaths: u32,
    /// When the next one may be started.
    pub next_try: Instant,
}

/// The state that decisions need beyond what is seen.
#[derive(Debug, Clone)]
pub struct Sizing {
    settings: Settings,
    /// Workers still to be started because of `start`.
    opening: u16,
    /// Capacity of a worker, once one has announced it.
    unit: Option<u32>,
    /// How many may be started in the next burst.
    ramp: u16,
    next_burst: Instant,
    next_retirement: Instant,
    next_recycling: Instant,
    spare: LeastSpare,
    backoff: Backoff,
    rules: Rules,
    /// When starting is allowed again after a death.
    not_before: Instant,
    trouble: Option<Trouble>,
    /// Young deaths in a row.
    deaths: u32,
    /// The last death of a worker that lived only a short time, if that still matters.
    young_death: Option<Instant>,
}

/// What the slots amount to.
#[derive(Debug, Clone, Copy)]
struct Counts {
    /// Capacity of one worker.
    unit: u64,
    /// Free capacity, without the worker that is to be recycled.
    free: u64,
    /// Requests that the others will have instead of that worker.
    inherited: u64,
    starting: u64,
    /// Workers that are starting or ready.
    live: u16,
    /// Slots where one could be started.
    vacant: u16,
    draining: u16,
}

/// What a pool would do, before it is decided how many workers it may start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    counts: Counts,
    /// Workers that are missing.
    need: u16,
    /// Of these, the ones that may be started now.
    pub(super) start: u16,
    /// The next worker to be recycled.
    due: Option<Retirement>,
    queued: u32,
}

impl Sizing {
    /// A pool without workers. The first decision will be to start some.
    pub fn new(now: Instant, settings: Settings) -> Sizing {
        Sizing {
            settings,
            opening: settings.start.min(settings.max),
            unit: None,
            ramp: 1,
            next_burst: now,
            next_retirement: now,
            next_recycling: now,
            spare: LeastSpare::new(now, settings.retire_after),
            backoff: Backoff::default(),
            rules: APP,
            not_before: now,
            trouble: None,
            deaths: 0,
            young_death: None,
        }
    }

    /// The same with other delays after early deaths.
    pub fn with_delays(self, rules: Rules) -> Sizing {
        Sizing { rules, ..self }
    }

    /// Other settings from now on. What is above `max` is retired, also while it is needed.
    pub fn resize(&mut self, now: Instant, settings: Settings) {
        self.spare = LeastSpare::new(now, settings.retire_after);
        self.settings = settings;
    }

    /// What to do now. To be called whenever a slot or the queue has changed, and when [`Decision::look_again`] says so.
    ///
    /// `slots` should be [`Settings::slots`] long, so that workers that drain take no one's place. `queued` is how many
    /// requests wait because no worker is free.
    pub fn decide(&mut self, now: Instant, slots: &[SlotView], queued: u32) -> Decision {
        let wish = self.wish(now, slots, queued);
        self.grant(now, slots, &wish, wish.start)
    }

    /// A worker died without having been asked to. `was_ready` says whether it ever said so; `lived` counts from its start.
    pub fn died(&mut self, now: Instant, lived: Duration, was_ready: bool) {
        let lived = if was_ready { lived } else { Duration::ZERO };
        if lived >= self.rules.long_life {
            return;
        }
        self.ramp = 1;
        // Workers that die while a delay runs belong to the same trouble: they do not make it worse.
        if now >= self.not_before {
            self.not_before = now + self.backoff.died(lived, &self.rules);
        }
        self.young_death = Some(now);
        self.deaths = self.deaths.saturating_add(1);
        self.trouble = Some(Trouble { deaths: self.deaths, next_try: self.not_before });
    }

    /// What they died of may be over: the next one is started without a delay.
    pub fn try_now(&mut self, now: Instant) {
        self.backoff = Backoff::default();
        self.not_before = now;
        if let Some(trouble) = &mut self.trouble {
            trouble.next_try = now;
        }
    }

    /// What keeps the pool from starting, as of the last decision: workers have died young, none that was started since
    /// has become ready, and some are missing.
    pub fn trouble(&self) -> Option<Trouble> {
        self.trouble
    }

    /// What the pool would do now.
    pub(super) fn wish(&mut self, now: Instant, slots: &[SlotView], queued: u32) -> Wish {
        let due = self.due(now, slots);
        let ready = slots.iter().filter(|slot| slot.is_ready());
        self.unit = ready.map(SlotView::capacity).max().or(self.unit);
        // How many workers a queue needs is not known before the first one has said what it takes: perhaps only itself.
        let queued = if self.unit.is_some() { queued } else { queued.min(1) };
        let due_slot = due.and_then(|due| slots.get(usize::from(due.slot)));
        let counts = Counts::of(slots, due_slot, self.unit.unwrap_or(1));
        let spare = counts.free.saturating_sub(u64::from(queued) + counts.inherited) / counts.unit;
        self.spare.see(now, u32::try_from(spare).unwrap_or(u32::MAX));
        let need = self.need(&counts, queued);
        self.look_for_recovery(now, slots, need == 0 && counts.starting == 0 && counts.live > 0);
        let room = self.room(&counts);
        let burst = match (self.opening, self.trouble) {
            (_, Some(_)) => u16::from(counts.starting == 0),
            (0, None) => self.ramp,
            (opening, None) => opening,
        };
        let allowed = now >= self.next_burst && now >= self.not_before;
        let start = if allowed { need.min(burst).min(room) } else { 0 };
        Wish { counts, need, start, due, queued }
    }

    /// Decides, when `start` workers may be started.
    pub(super) fn grant(&mut self, now: Instant, slots: &[SlotView], wish: &Wish, start: u16) -> Decision {
        self.opening = 0;
        if start > 0 {
            self.next_burst = now + SPAWN_INTERVAL;
            self.ramp = self.ramp.saturating_mul(2).min(self.settings.spawn_max).max(1);
        }
        if start >= wish.need {
            self.ramp = 1;
        }
        let quiet = start == 0 && wish.counts.starting == 0;
        let retire = if quiet { self.retirement(now, slots, wish) } else { None };
        let missing = wish.need.saturating_sub(start);
        let crowded = retire.is_none() && self.is_crowded(wish, missing);
        Decision { start, missing, retire, crowded, look_again: self.look_again(now, slots, wish, start) }
    }

    /// How many workers are missing.
    fn need(&self, counts: &Counts, queued: u32) -> u16 {
        let wanted = u64::from(queued) + counts.inherited + u64::from(self.settings.min_spare) * counts.unit;
        let coming = counts.free + counts.starting * counts.unit;
        let need = u16::try_from(wanted.saturating_sub(coming).div_ceil(counts.unit)).unwrap_or(u16::MAX);
        need.max(self.opening.saturating_sub(counts.live))
    }

    /// How many workers more there may be.
    fn room(&self, counts: &Counts) -> u16 {
        self.settings.max.saturating_sub(counts.live).min(counts.vacant)
    }

    /// The worker to drain, when none is starting.
    fn retirement(&mut self, now: Instant, slots: &[SlotView], wish: &Wish) -> Option<Retirement> {
        let counts = &wish.counts;
        let may_recycle =
            now >= self.next_recycling && (wish.need == 0 || self.must_retire_first(now, counts));
        if let Some(due) = wish.due.filter(|_| may_recycle) {
            self.next_recycling = now + SPAWN_INTERVAL;
            return Some(due);
        }
        if self.is_over_max(counts) && now >= self.next_retirement {
            let ready = numbered(slots).filter(|(_, slot)| slot.is_ready());
            let least = ready.min_by_key(|(_, slot)| (slot.busy, slot.started)).map(|(index, _)| index);
            let slot = longest_idle(slots).or(least)?;
            self.next_retirement = now + RETIRE_INTERVAL;
            return Some(Retirement { slot, why: Why::OverMax });
        }
        let superfluous = self.spare.least() > self.most_spare();
        if !superfluous || wish.queued > 0 || wish.need > 0 || now < self.next_retirement {
            return None;
        }
        let slot = longest_idle(slots).or_else(|| self.least_busy(slots, counts))?;
        self.next_retirement = now + RETIRE_INTERVAL;
        self.spare.retired();
        Some(Retirement { slot, why: Why::Spare })
    }

    /// Whether a worker can only be replaced after it has gone, and will be: the pool is as large as it may be, and a new
    /// worker could start. Where every slot is taken, nothing else may be on its way out, or the pool would shrink.
    fn must_retire_first(&self, now: Instant, counts: &Counts) -> bool {
        let full = self.room(counts) == 0 && (counts.vacant > 0 || counts.draining == 0);
        full && self.trouble.is_none() && now >= self.not_before
    }

    fn is_crowded(&self, wish: &Wish, missing: u16) -> bool {
        let counts = &wish.counts;
        let held = counts.vacant == 0 && counts.draining > 0;
        held && (wish.due.is_some() || missing > 0 && counts.live < self.settings.max)
    }

    fn is_over_max(&self, counts: &Counts) -> bool {
        counts.live > self.settings.max
    }

    /// `max_spare`, or `min_spare` if that is more: otherwise one would be retired only to be missed.
    fn most_spare(&self) -> u32 {
        u32::from(self.settings.max_spare.max(self.settings.min_spare))
    }

    /// The worker with the fewest requests, of workers that take several at a time: there may be free capacity for many
    /// workers, and yet none that is idle. The worker finishes what it has. `None` if the others would have too little to
    /// spare.
    fn least_busy(&self, slots: &[SlotView], counts: &Counts) -> Option<u16> {
        let ready = numbered(slots).filter(|(_, slot)| slot.is_ready());
        let (index, slot) = ready.min_by_key(|(_, slot)| (slot.busy, slot.started))?;
        let left = counts.free.saturating_sub(u64::from(slot.capacity()) + counts.inherited);
        let enough = left / counts.unit >= u64::from(self.most_spare());
        enough.then_some(index)
    }

    /// The worker that is to be recycled next: of all that are over a limit, the one that started first.
    fn due(&self, now: Instant, slots: &[SlotView]) -> Option<Retirement> {
        let over = numbered(slots).filter(|(_, slot)| slot.is_ready());
        over.filter_map(|(index, slot)| Some((self.why_due(now, index, slot)?, index, slot.started)))
            .min_by_key(|(_, _, started)| *started)
            .map(|(why, slot, _)| Retirement { slot, why })
    }

    fn why_due(&self, now: Instant, index: u16, slot: &SlotView) -> Option<Why> {
        let limits = &self.settings;
        if limits.max_memory.is_some_and(|max| slot.memory >= max) {
            Some(Why::Memory)
        } else if limits.max_requests.is_some_and(|max| slot.requests >= staggered_requests(max, index)) {
            Some(Why::Requests)
        } else if self.old_at(index, slot).is_some_and(|at| now >= at) {
            Some(Why::Age)
        } else {
            None
        }
    }

    /// When a worker reaches `max_age`.
    fn old_at(&self, index: u16, slot: &SlotView) -> Option<Instant> {
        slot.started.checked_add(staggered_age(self.settings.max_age?, index))
    }

    /// A worker that was started after the last young death and is ready ends the trouble, and so do enough workers
    /// (`enough`) of whatever age. Once that has lasted, the next young death will be the first again.
    fn look_for_recovery(&mut self, now: Instant, slots: &[SlotView], enough: bool) {
        let Some(death) = self.young_death else { return };
        let recovered = slots.iter().any(|slot| slot.is_ready() && slot.started >= death);
        if recovered {
            self.deaths = 0;
        }
        // Enough may be starting, and may die like those before them.
        if enough || recovered {
            self.trouble = None;
        }
        if self.trouble.is_none() && now.saturating_duration_since(death) >= self.rules.long_life {
            self.backoff = Backoff::default();
            (self.young_death, self.deaths) = (None, 0);
        }
    }

    fn look_again(&self, now: Instant, slots: &[SlotView], wish: &Wish, start: u16) -> Option<Instant> {
        let counts = &wish.counts;
        let starts = (wish.need.min(self.room(counts)) > start).then(|| self.next_burst.max(self.not_before));
        let quiet = counts.starting == 0 && wish.queued == 0;
        let surplus = counts.free / counts.unit > u64::from(self.most_spare());
        let sure = self.spare.least() > self.most_spare();
        let known = if sure { now } else { now + self.spare.part().min(RETIRE_INTERVAL) };
        let retires = (quiet && surplus).then(|| self.next_retirement.max(known));
        let over = self.is_over_max(counts).then_some(self.next_retirement);
        let recycles = wish.due.map(|_| self.next_recycling);
        let ready = numbered(slots).filter(|(_, slot)| slot.is_ready());
        let ages = ready.filter_map(|(index, slot)| self.old_at(index, slot)).min();
        let times = [starts, retires, over, recycles, ages];
        times.into_iter().flatten().filter(|at| *at > now).min()
    }
}

impl Counts {
    /// Counts, as if the worker `due` were gone already.
    fn of(slots: &[SlotView], due: Option<&SlotView>, unit: u32) -> Counts {
        let ready = slots.iter().filter(|slot| slot.is_ready());
        let free: u64 = ready.map(|slot| u64::from(slot.free())).sum();
        let free = free.saturating_sub(due.map_or(0, |due| u64::from(due.free())));
        let count = |phases: &[Phase]| slots.iter().filter(|slot| phases.contains(&slot.phase)).count();
        let number = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        Counts {
            unit: u64::from(unit),
            free,
            inherited: due.map_or(0, |due| u64::from(due.busy)),
            starting: count(&[Phase::Starting]) as u64,
            live: number(count(&[Phase::Starting, Phase::Idle, Phase::Busy])),
            vacant: number(count(&[Phase::Empty, Phase::Delayed])),
            draining: number(count(&[Phase::Draining])),
        }
    }
}

/// Slots with their numbers.
fn numbered(slots: &[SlotView]) -> impl Iterator<Item = (u16, &SlotView)> {
    (0..=u16::MAX).zip(slots)
}

/// The worker that has been idle for longest; of several, the one in the last slot.
fn longest_idle(slots: &[SlotView]) -> Option<u16> {
    let idle = numbered(slots).filter(|(_, slot)| slot.phase == Phase::Idle);
    idle.min_by_key(|(index, slot)| (slot.since, u16::MAX - index)).map(|(index, _)| index)
}

/// Which part of [`STAGGER`] this slot is early by, in 2⁻³²: multiples of the golden ratio, which spread evenly however
/// many slots there are.
fn earliness(index: u16) -> u32 {
    u32::from(index).wrapping_mul(0x9E37_79B9)
}

fn staggered_requests(max: u64, index: u16) -> u64 {
    let early = (u128::from(max / u64::from(STAGGER)) * u128::from(earliness(index))) >> 32;
    max.saturating_sub(u64::try_from(early).unwrap_or(0))
}

fn staggered_age(max: Duration, index: u16) -> Duration {
    let early = ((max / STAGGER).as_nanos() * u128::from(earliness(index))) >> 32;
    max.saturating_sub(Duration::from_nanos(u64::try_from(early).unwrap_or(0)))
}
