//! `transport = "auto"`: which way of answering costs less, found out by trying both.
//!
//! The client's own socket saves a copy. A relay saves something else: the client receives nothing before Maitred sends, so that
//! its next request comes when the process has finished a whole batch, and does not take the CPU away from it. Which of the two
//! is more depends on the application, on its responses and on the machine (`bench/runs/2026-11-20-adapters`: at 1 KB a relay was
//! cheaper by a fifth to a third for Python and Go, and dearer by a quarter for the example worker in Rust; at 1 MB the socket
//! always was). So it is measured where it is used: CPU time of this thread and of the processes, for each request.
//!
//! | state | what it does | ends |
//! |---|---|---|
//! | `Calm` | uses what was cheaper last, first the socket | after [`BUSY_PERIODS`] of enough requests, and [`Choice::again`] |
//! | `Trial` | a period of each, in turn, [`TRIAL_PERIODS`] in all; pauses in quiet | a verdict, or [`TRIAL_EVERY`] of quiet |

use std::time::{Duration, Instant};

/// How long one way is used before it is looked at what it cost: some hundred requests, at the least rate that counts.
pub(crate) const PERIOD: Duration = Duration::from_millis(100);
/// Requests of a period that say something about what one costs.
const REQUESTS_MIN: u64 = 100;
/// Of all that the thread answers, this share must be this pool's: a quarter of other work would hide a difference.
const OTHERS_MAX_QUARTERS: u64 = 1;
/// Periods with enough requests before a trial; it begins and ends within the first second of a load.
const BUSY_PERIODS: u32 = 2;
/// Periods of a trial. The load of a machine changes meanwhile; taking turns gives each way its share of that.
const TRIAL_PERIODS: u32 = 6;
/// What was found out holds for so long. A trial takes 0.6 s, half of it in the dearer way: a hundredth of the time.
const TRIAL_EVERY: Duration = Duration::from_secs(60);
/// The first verdict holds for so long, and each later one four times as long: an application that compiles itself while it runs
/// costs less after some seconds, and not by the same part each way (Node.js: 52 and 38 µs in the first second, then 21 and 25).
const FIRST_AGAIN: Duration = Duration::from_secs(2);
/// Where the processes' time is not known (a server that was not started here): average content up to which a relay is taken to
/// be cheaper. Apache was cheaper by a relay at 1 KB and at 100 KB, by a quarter and more, and by the socket at 1 MB.
const SMALL_BYTES: u64 = 256 * 1024;
/// Of 32 parts that one way costs, the other one has to save so many: an eighth. Less may be noise, and where a relay pays at
/// all, it saves a fifth and more.
const MARGIN: u32 = 4;

/// What a pool has cost so far, on one thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// When.
    pub at: Instant,
    /// Requests of the pool that were answered.
    pub answered: u64,
    /// Requests that this thread has answered otherwise.
    pub others: u64,
    /// Bytes of content that were answered.
    pub bytes: u64,
    /// CPU time of the thread and of the pool's processes here; `None` if that of the processes cannot be known.
    pub cpu: Option<Duration>,
}

/// The choice for one pool on one thread.
#[derive(Debug)]
pub(crate) struct Choice {
    relay: bool,
    state: State,
    last: Option<Sample>,
    tried_at: Option<Instant>,
    /// How long the last verdict holds.
    again: Duration,
    costs: Option<Costs>,
}

/// What a request has cost by each way in the last trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Costs {
    /// On the client's socket.
    pub direct: Duration,
    /// Through a relay.
    pub relay: Duration,
}

#[derive(Debug)]
enum State {
    Calm { busy: u32 },
    Trial { period: u32, before: bool, direct: Duration, relay: Duration, quiet_since: Option<Instant> },
}

impl Default for State {
    fn default() -> Self {
        State::Calm { busy: 0 }
    }
}

impl Default for Choice {
    fn default() -> Self {
        let state = State::default();
        Choice { relay: false, state, last: None, tried_at: None, again: FIRST_AGAIN, costs: None }
    }
}

impl Choice {
    /// Whether the next request goes through a relay.
    pub(crate) fn relays(&self) -> bool {
        self.relay
    }

    /// What the last trial has found, once.
    pub(crate) fn take_costs(&mut self) -> Option<Costs> {
        self.costs.take()
    }

    /// When the next sample is due, if one was taken before.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.last.is_none_or(|last| now.saturating_duration_since(last.at) >= PERIOD)
    }

    /// The choice by the size of responses alone. True if it has changed.
    fn guess(&mut self, last: Sample, now: Sample) -> bool {
        self.state = State::default();
        let answered = now.answered.saturating_sub(last.answered);
        if answered < REQUESTS_MIN {
            return false;
        }
        let small = now.bytes.saturating_sub(last.bytes) / answered <= SMALL_BYTES;
        std::mem::replace(&mut self.relay, small) != small
    }

    /// Looks at what the period that ends now has cost. True when a trial has just changed the choice.
    pub(crate) fn look(&mut self, sample: Sample) -> bool {
        let last = self.last.replace(sample);
        if sample.cpu.is_none() {
            return last.is_some_and(|last| self.guess(last, sample));
        }
        let cost = last.and_then(|last| cost(last, sample));
        match (&mut self.state, cost) {
            (State::Calm { busy }, Some(_)) => {
                *busy += 1;
                let recent = |at| sample.at.saturating_duration_since(at) < self.again;
                if *busy >= BUSY_PERIODS && !self.tried_at.is_some_and(recent) {
                    self.begin_trial();
                }
                false
            }
            (State::Calm { busy }, None) => {
                *busy = 0;
                false
            }
            (State::Trial { before, quiet_since, .. }, None) => {
                // What was found so far is kept: load that comes in bursts would never see the end of a trial.
                quiet_since.get_or_insert(sample.at);
                self.relay = *before;
                false
            }
            (State::Trial { period, quiet_since: quiet @ Some(_), .. }, Some(_)) => {
                let forgotten = quiet
                    .take()
                    .is_some_and(|since| sample.at.saturating_duration_since(since) >= TRIAL_EVERY);
                match forgotten {
                    true => self.state = State::default(),
                    false => self.relay = *period % 2 == 1,
                }
                false
            }
            (State::Trial { period, before, direct, relay, .. }, Some(cost)) => {
                if self.relay {
                    *relay += cost;
                } else {
                    *direct += cost;
                }
                *period += 1;
                self.relay = !self.relay;
                if *period < TRIAL_PERIODS {
                    return false;
                }
                let (before, total) = (*before, Costs { direct: *direct, relay: *relay });
                self.end_trial(sample.at, total, before);
                self.relay != before
            }
        }
    }

    fn begin_trial(&mut self) {
        self.state = State::Trial {
            period: 0,
            before: self.relay,
            direct: Duration::ZERO,
            relay: Duration::ZERO,
            quiet_since: None,
        };
        self.relay = false;
    }

    /// The verdict, from what all periods of each way have cost.
    fn end_trial(&mut self, at: Instant, Costs { direct, relay }: Costs, before: bool) {
        let each = TRIAL_PERIODS / 2;
        self.costs = Some(Costs { direct: direct / each, relay: relay / each });
        self.relay = cheaper(direct, relay, before);
        // The first verdict holds for FIRST_AGAIN.
        self.again = if self.tried_at.is_some() { (self.again * 4).min(TRIAL_EVERY) } else { FIRST_AGAIN };
        self.tried_at = Some(at);
        self.state = State::default();
    }
}

/// CPU time of a request between two samples; `None` if there were too few of them, or too much else.
fn cost(last: Sample, now: Sample) -> Option<Duration> {
    let answered = now.answered.checked_sub(last.answered)?;
    // Requests are counted when they are handed off, and answers when they are there: what is under way can make this go back.
    let others = now.others.saturating_sub(last.others);
    let cpu = now.cpu?.checked_sub(last.cpu?)?;
    if answered < REQUESTS_MIN || others * 4 > (answered + others) * OTHERS_MAX_QUARTERS {
        return None;
    }
    // In nanoseconds, because a request may cost less than ten microseconds.
    Some(Duration::from_nanos(u64::try_from(cpu.as_nanos()).ok()? / answered))
}

/// Whether a relay is to be used, having used one before or not.
fn cheaper(direct: Duration, relay: Duration, before: bool) -> bool {
    match before {
        true => direct * 32 > relay * (32 - MARGIN),
        false => relay * 32 < direct * (32 - MARGIN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An application, and the choice that it meets: what a request costs by each way, in microseconds.
    struct World {
        choice: Choice,
        sample: Sample,
        direct_us: u64,
        relay_us: u64,
        requests: u64,
        others: u64,
        relayed_periods: u32,
    }

    impl World {
        fn new(direct_us: u64, relay_us: u64) -> World {
            let cpu = Some(Duration::ZERO);
            let sample = Sample { at: Instant::now(), answered: 0, others: 0, bytes: 0, cpu };
            let (choice, requests, others, relayed_periods) = (Choice::default(), 1000, 0, 0);
            World { choice, sample, direct_us, relay_us, requests, others, relayed_periods }
        }

        fn run(&mut self, periods: u32) -> &mut World {
            for _ in 0..periods {
                let each = if self.choice.relays() { self.relay_us } else { self.direct_us };
                self.relayed_periods += u32::from(self.choice.relays());
                self.sample.at += PERIOD;
                self.sample.answered += self.requests;
                self.sample.others += self.others;
                let spent = Duration::from_micros(each * self.requests + self.others * 5);
                self.sample.cpu = self.sample.cpu.map(|cpu| cpu + spent);
                assert!(self.choice.is_due(self.sample.at));
                self.choice.look(self.sample);
            }
            self
        }
    }

    const TRIAL: u32 = 1 + BUSY_PERIODS + TRIAL_PERIODS;

    #[test]
    fn the_cheaper_way_is_found_and_kept() {
        assert!(World::new(58, 38).run(TRIAL).choice.relays());
        let (direct, relay) = (Duration::from_micros(58), Duration::from_micros(38));
        assert_eq!(World::new(58, 38).run(TRIAL).choice.take_costs(), Some(Costs { direct, relay }));
        assert!(!World::new(25, 45).run(TRIAL).choice.relays());
        assert!(World::new(58, 38).run(TRIAL + 500).choice.relays());
        assert!(!World::new(100, 98).run(TRIAL).choice.relays(), "two parts in a hundred are noise");
    }

    #[test]
    fn what_has_changed_is_found_out_a_minute_later() {
        let mut world = World::new(58, 38);
        world.run(1200);
        world.direct_us = 20;
        world.run(300);
        assert!(world.choice.relays(), "not yet");
        world.run(400);
        assert!(!world.choice.relays());
    }

    #[test]
    fn a_verdict_on_an_application_that_warms_up_is_soon_corrected() {
        let mut world = World::new(58, 38);
        assert!(world.run(TRIAL).choice.relays());
        (world.direct_us, world.relay_us) = (18, 25);
        assert!(!world.run(30).choice.relays());
    }

    #[test]
    fn trials_take_a_hundredth_of_the_time() {
        let mut world = World::new(25, 45);
        world.run(6000);
        assert!((4..=60).contains(&world.relayed_periods), "{}", world.relayed_periods);
    }

    #[test]
    fn few_requests_and_other_work_say_nothing() {
        let mut world = World::new(58, 38);
        world.requests = REQUESTS_MIN - 1;
        assert_eq!(world.run(200).relayed_periods, 0);
        world.requests = 1000;
        world.others = 600;
        assert_eq!(world.run(200).relayed_periods, 0);
        // While a trial pauses, all is as before it.
        world.others = 0;
        world.run(BUSY_PERIODS + 3);
        assert!(world.relayed_periods > 0);
        world.requests = 0;
        assert!(!world.run(1).choice.relays());
    }

    #[test]
    fn load_in_bursts_sees_the_end_of_a_trial() {
        let mut world = World::new(58, 38);
        for _ in 0..3 {
            world.requests = 1000;
            world.run(BUSY_PERIODS + 4);
            world.requests = 0;
            world.run(20);
        }
        assert!(world.choice.relays());
        // A trial that was aborted long ago shows nothing about the present.
        let mut world = World::new(58, 38);
        world.run(BUSY_PERIODS + TRIAL_PERIODS);
        world.requests = 0;
        world.run(601);
        world.requests = 1000;
        world.run(BUSY_PERIODS);
        assert_eq!(world.choice.take_costs(), None);
        world.run(2 + TRIAL_PERIODS);
        assert!(world.choice.take_costs().is_some());
    }

    #[test]
    fn without_the_time_of_the_processes_the_size_decides() {
        let mut world = World::new(1, 1);
        world.sample.cpu = None;
        for (bytes, relays) in [(1024, true), (1 << 20, false), (SMALL_BYTES, true)] {
            for _ in 0..2 {
                world.sample.bytes += bytes * world.requests;
                world.run(1);
            }
            assert_eq!(world.choice.relays(), relays, "{bytes}");
        }
        // Too few requests: nothing is known.
        world.requests = REQUESTS_MIN - 1;
        world.sample.bytes += 1 << 30;
        assert!(world.run(3).choice.relays());
    }

    #[test]
    fn counters_that_go_back_are_no_cost() {
        // A process has gone, and its time with it.
        let mut world = World::new(58, 38);
        world.run(BUSY_PERIODS + 2);
        world.sample.cpu = Some(Duration::ZERO);
        world.choice.look(world.sample);
        world.run(2 + TRIAL_PERIODS);
        let (direct, relay) = (Duration::from_micros(58), Duration::from_micros(38));
        assert_eq!(world.choice.take_costs(), Some(Costs { direct, relay }));
    }
}
