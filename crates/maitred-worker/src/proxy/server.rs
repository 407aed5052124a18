//! What all threads know of one server: how much it has to do, and whether it can be asked.
//!
//! Requests under way change with each request, and what is known of health hardly ever: they are in cache lines of their own, so
//! that threads which only look at a server's health share it.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use maitred_config::{Outliers, Upstream};

/// How long a server gets no requests after its first failure: long enough for a restart, short enough not to be noticed.
pub(super) const BACK_OFF_FIRST: Duration = Duration::from_secs(1);
/// The longest such time. A server that comes back after a long absence waits no longer than this.
pub(super) const BACK_OFF_MAX: Duration = Duration::from_secs(30);
/// Requests in a row that a server may abort before it is out. A single one may be caused by the request.
pub(super) const BROKEN_MAX: u32 = 3;
/// How long the request that tries a server out keeps others from doing so: one that has not ended by then says nothing.
const TRIAL: Duration = Duration::from_secs(30);
/// After this time without a response the known latency of a server counts half: one that was slow gets requests once more.
const LATENCY_HALF_LIFE_MS: u32 = 10_000;

/// How a server has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No connection could be made.
    Unreachable,
    /// A connection was made, and no response came of it.
    Broken,
}

/// A moment, in microseconds since one that all threads agree on; never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Before all others.
    pub(super) const FIRST: Moment = Moment(1);

    /// The moment of `now`, counted from `origin`.
    pub(crate) fn of(now: Instant, origin: Instant) -> Moment {
        let micros = now.saturating_duration_since(origin).as_micros();
        Moment(u64::try_from(micros).unwrap_or(u64::MAX - 1).saturating_add(1))
    }

    fn after(self, time: Duration) -> u64 {
        self.0.saturating_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
    }

    fn millis(self) -> u32 {
        (self.0 / 1000) as u32
    }
}

/// One server of a pool. A server is the same for as long as its address is in the pool's list.
#[derive(Debug)]
pub struct Server {
    /// Where it listens, and its name.
    pub upstream: Upstream,
    /// What distinguishes it from others, the same in all processes: of its address and name.
    pub identity: u64,
    work: Work,
    health: Health,
}

/// What changes with each request.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Work {
    /// Requests that all threads have there.
    under_way: AtomicU32,
    /// Requests that it was given.
    requests: AtomicU64,
    /// Latency in microseconds (upper half), and the millisecond of its last change (lower half); 0 if there is none.
    latency: AtomicU64,
}

/// What changes with failures. Times are [`Moment`]s; 0 is none.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Health {
    /// Until when it gets no request, because of failures.
    out_until: AtomicU64,
    /// Until when a request tries it out.
    trial_until: AtomicU64,
    /// Failures in a row without a response between them.
    broken: AtomicU32,
    /// Times in a row that it was taken out.
    outs: AtomicU32,
    /// Active checks have found that it is not well.
    unwell: AtomicBool,
    /// Until when it is ejected for its responses.
    ejected_until: AtomicU64,
    /// Bad responses in a row.
    bad: AtomicU32,
    /// Times in a row that it was ejected.
    ejections: AtomicU32,
    /// Since when it is in service, if that began while others were.
    since: AtomicU64,
    /// Failures in all.
    failures: AtomicU64,
    /// Held where several of these change at a time.
    change: Mutex<()>,
}

/// What a server looks like from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// The server gets requests.
    Up,
    /// The server gets none for a while, since it could not be reached or aborted requests.
    Out,
    /// The checks of the server fail.
    Unwell,
    /// The server is ejected for its responses.
    Ejected,
}

impl Server {
    /// A server of which nothing is known.
    pub(crate) fn new(upstream: Upstream) -> Server {
        let identity = identity_of(&upstream);
        Server { upstream, identity, work: Work::default(), health: Health::default() }
    }

    /// The name of the server in the log, the status and the metrics.
    pub(crate) fn name(&self) -> String {
        match &self.upstream {
            Upstream::Tcp { name, .. } => name.clone(),
            Upstream::Unix(path) => path.display().to_string(),
        }
    }

    /// Forgets how it is.
    #[cfg(test)]
    pub(super) fn forget(&self) {
        let Health { out_until, trial_until, broken, outs, unwell, .. } = &self.health;
        let Health { ejected_until, bad, ejections, since, failures, .. } = &self.health;
        let times = [out_until, trial_until, ejected_until, since, failures, &self.work.latency];
        times.into_iter().for_each(|time| time.store(0, Relaxed));
        [broken, outs, bad, ejections].into_iter().for_each(|count| count.store(0, Relaxed));
        unwell.store(false, Relaxed);
    }

    /// Requests that all threads have there.
    pub(crate) fn under_way(&self) -> u32 {
        self.work.under_way.load(Relaxed)
    }

    /// Whether it may have one more, of so many.
    pub(super) fn has_room(&self, max: u32) -> bool {
        self.work.under_way.load(SeqCst) < max
    }

    /// Requests that it was given in all.
    pub(crate) fn requests(&self) -> u64 {
        self.work.requests.load(Relaxed)
    }

    /// Failures in all.
    pub(crate) fn failures(&self) -> u64 {
        self.health.failures.load(Relaxed)
    }

    /// Counts a request; false if there are `max` already.
    pub(crate) fn enter(&self, max: u32) -> bool {
        if self.work.under_way.fetch_add(1, AcqRel) >= max {
            self.work.under_way.fetch_sub(1, AcqRel);
            return false;
        }
        self.work.requests.fetch_add(1, Relaxed);
        true
    }

    /// A request has ended.
    pub(crate) fn leave(&self) {
        // In one order with what `Line` looks at.
        self.work.under_way.fetch_sub(1, SeqCst);
    }

    /// Whether failures leave it a request now; one that was out gets one at a time.
    pub(super) fn takes(&self, now: Moment) -> bool {
        let until = self.health.out_until.load(Relaxed);
        until == 0 || until <= now.0 && self.health.trial_until.load(Relaxed) <= now.0
    }

    /// The server gets a request. False if it was out, and another thread's request tries it already.
    pub(super) fn begin(&self, now: Moment) -> bool {
        let until = self.health.out_until.load(Relaxed);
        if until == 0 || until > now.0 {
            return true;
        }
        let trial = self.health.trial_until.load(Relaxed);
        let ours = now.after(TRIAL);
        trial <= now.0 && self.health.trial_until.compare_exchange(trial, ours, AcqRel, Relaxed).is_ok()
    }

    /// When it comes back; 0 if it is not out.
    pub(super) fn out_until(&self) -> u64 {
        self.health.out_until.load(Relaxed)
    }

    /// Whether checks or its responses say that it is of no use.
    pub(super) fn is_judged(&self, now: Moment) -> bool {
        self.health.unwell.load(Relaxed) || self.health.ejected_until.load(Relaxed) > now.0
    }

    /// How much of its weight counts, of 256: it rises over `slow_start` from a tenth on.
    pub(super) fn share(&self, now: Moment, slow_start: Duration) -> u32 {
        let since = self.health.since.load(Relaxed);
        if since == 0 || slow_start.is_zero() {
            return 256;
        }
        let whole = slow_start.as_micros().max(1) as u64;
        let gone = now.0.saturating_sub(since).min(whole);
        ((u128::from(gone) * 256 / u128::from(whole)) as u32).max(26)
    }

    /// The server begins to serve while others do.
    pub(super) fn begin_service(&self, now: Moment) {
        self.health.since.store(now.0, Relaxed);
    }

    /// A response has come. True if the server was out until now.
    pub(crate) fn succeeded(&self, now: Moment) -> bool {
        let health = &self.health;
        if health.out_until.load(Relaxed) == 0 && health.broken.load(Relaxed) == 0 {
            return false;
        }
        let _held = health.change.lock().unwrap_or_else(PoisonError::into_inner);
        health.broken.store(0, Relaxed);
        health.outs.store(0, Relaxed);
        health.trial_until.store(0, Relaxed);
        let was_out = health.out_until.swap(0, Release) != 0;
        if was_out {
            self.begin_service(now);
        }
        was_out
    }

    /// The request came to its end without telling anything of the server: its client has gone.
    pub(crate) fn unknown(&self) {
        if self.health.trial_until.load(Relaxed) != 0 {
            self.health.trial_until.store(0, Relaxed);
        }
    }

    /// A request has failed. `Some` if the server is out because of that: for how long.
    pub(crate) fn failed(&self, failure: Failure, now: Moment) -> Option<Duration> {
        let health = &self.health;
        let _held = health.change.lock().unwrap_or_else(PoisonError::into_inner);
        health.failures.fetch_add(1, Relaxed);
        health.trial_until.store(0, Relaxed);
        let broken = health.broken.load(Relaxed).saturating_add(1);
        health.broken.store(broken, Relaxed);
        let until = health.out_until.load(Relaxed);
        if failure == Failure::Broken && broken < BROKEN_MAX && until == 0 {
            return None;
        }
        if now.0 < until {
            // The server failed on a request that it had before, or that no other server could take: the failure says nothing
            // new.
            return None;
        }
        let outs = health.outs.load(Relaxed);
        let back_off = BACK_OFF_FIRST.saturating_mul(1 << outs.min(16)).min(BACK_OFF_MAX);
        health.outs.store(outs.saturating_add(1), Relaxed);
        health.out_until.store(now.after(back_off), Release);
        Some(back_off)
    }

    /// What active checks have found. True if that is another result than before. A server that is well again gets requests at
    /// once, no matter what has failed before.
    pub(crate) fn set_well(&self, well: bool, now: Moment) -> bool {
        let changed = self.health.unwell.swap(!well, AcqRel) == well;
        if changed && well {
            self.succeeded(now);
            self.begin_service(now);
        }
        changed
    }

    /// A response was bad, or a good one came, for the passive ejection. `Some` if the server is ejected because of that.
    pub(crate) fn judge(&self, bad: bool, rule: &Outliers, now: Moment) -> Option<Duration> {
        let health = &self.health;
        if !bad {
            if health.bad.load(Relaxed) != 0 {
                health.bad.store(0, Relaxed);
            }
            let until = health.ejected_until.load(Relaxed);
            if until != 0 && until <= now.0 && health.ejections.load(Relaxed) != 0 {
                health.ejections.store(0, Relaxed);
            }
            return None;
        }
        if health.bad.fetch_add(1, Relaxed).saturating_add(1) < rule.errors {
            return None;
        }
        let _held = health.change.lock().unwrap_or_else(PoisonError::into_inner);
        if health.ejected_until.load(Relaxed) > now.0 {
            return None;
        }
        health.bad.store(0, Relaxed);
        let times = health.ejections.load(Relaxed).saturating_add(1);
        health.ejections.store(times, Relaxed);
        let time = rule.time.saturating_mul(times).min(rule.time_max);
        health.ejected_until.store(now.after(time), Release);
        health.since.store(now.after(time), Relaxed);
        Some(time)
    }

    /// A response has begun after so long.
    pub(crate) fn note_latency(&self, took: Duration, now: Moment) {
        let took = u32::try_from(took.as_micros()).unwrap_or(u32::MAX).max(1);
        let known = self.latency(now);
        let next = if known == 0 { took } else { known - known / 8 + took / 8 };
        self.work.latency.store(u64::from(next.max(1)) << 32 | u64::from(now.millis()), Relaxed);
    }

    /// The decaying mean of its latency in microseconds; 0 if it is not known.
    pub(crate) fn latency(&self, now: Moment) -> u32 {
        let known = self.work.latency.load(Relaxed);
        let age = now.millis().wrapping_sub(known as u32);
        // A thread's clock may be a turn behind that of another.
        let age = if age > u32::MAX / 2 { 0 } else { age };
        ((known >> 32) as u32).checked_shr(age / LATENCY_HALF_LIFE_MS).unwrap_or(0)
    }

    /// What is to be shown of it.
    pub(crate) fn condition(&self, now: Moment) -> Condition {
        if self.health.unwell.load(Relaxed) {
            Condition::Unwell
        } else if self.health.ejected_until.load(Relaxed) > now.0 {
            Condition::Ejected
        } else if self.health.out_until.load(Acquire) != 0 {
            Condition::Out
        } else {
            Condition::Up
        }
    }
}

/// Spreads numbers evenly over 64 bits. Constants of `SplitMix64` (Steele, Lea, Flood 2014).
pub(super) fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// A number of some bytes: the same on every machine and in every version, so that an upgrade moves no client.
pub fn hash_of(bytes: &[u8]) -> u64 {
    use std::hash::Hasher as _;
    let mut hasher = siphasher::sip::SipHasher13::new_with_keys(0x6d61_6974_7265_6400, 0x6261_6c61_6e63_6500);
    hasher.write(bytes);
    hasher.finish()
}

fn identity_of(upstream: &Upstream) -> u64 {
    match upstream {
        Upstream::Tcp { name, address } => hash_of(format!("{address} {name}").as_bytes()),
        Upstream::Unix(path) => hash_of(path.as_os_str().as_encoded_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn server() -> Server {
        Server::new(Upstream::Unix("/a".into()))
    }

    fn at(seconds: u64) -> Moment {
        Moment(seconds * 1_000_000)
    }

    #[test]
    fn a_server_that_cannot_be_reached_is_out_for_longer_each_time_and_comes_back() {
        let (server, mut now) = (server(), at(1));
        let mut waits = Vec::new();
        for _ in 0..8 {
            let out = server.failed(Failure::Unreachable, now).unwrap();
            waits.push(out.as_secs());
            assert!(!server.takes(now));
            now = Moment(now.after(out));
            assert!(server.takes(now) && server.begin(now), "one request tries it");
            assert!(!server.takes(now) && !server.begin(now), "and only one");
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(server.condition(now), Condition::Out);
        assert!(server.succeeded(now));
        assert!(!server.succeeded(now));
        assert_eq!(server.condition(now), Condition::Up);
        assert_eq!(server.failed(Failure::Unreachable, now), Some(SECOND), "from the start again");
        assert_eq!(server.failures(), 9);
    }

    #[test]
    fn it_takes_some_broken_requests_in_a_row() {
        let (server, now) = (server(), at(1));
        let fail = |now| server.failed(Failure::Broken, now);
        assert_eq!((fail(now), fail(now)), (None, None));
        assert!(!server.succeeded(now));
        assert_eq!((fail(now), fail(now), fail(now)), (None, None, Some(SECOND)));
        assert_eq!(fail(now), None, "others that were under way say nothing new");
        let later = at(2);
        assert!(server.begin(later) && !server.begin(later));
        server.unknown();
        assert!(server.begin(later), "the trial said nothing, and is repeated");
        assert_eq!(fail(later), Some(2 * SECOND), "one is enough on trial");
        assert!(server.begin(at(4)));
        assert!(!server.takes(at(4)) && server.takes(at(34)), "a trial without an end keeps no others away");
    }

    #[test]
    fn bad_responses_in_a_row_eject_it_for_longer_each_time() {
        let rule = Outliers { errors: 3, time: 10 * SECOND, time_max: 25 * SECOND };
        let (server, now) = (server(), at(1));
        let judge = |bad, now| server.judge(bad, &rule, now);
        assert_eq!((judge(true, now), judge(true, now), judge(false, now)), (None, None, None));
        assert_eq!((judge(true, now), judge(true, now)), (None, None));
        assert_eq!(judge(true, now), Some(10 * SECOND));
        assert!(server.is_judged(now) && server.condition(now) == Condition::Ejected);
        assert!((0..9).all(|_| judge(true, now).is_none()), "it is ejected once");
        assert!(!server.is_judged(at(11)));
        let again = |now| (0..3).find_map(|_| judge(true, now));
        assert_eq!(again(at(20)), Some(20 * SECOND));
        assert_eq!(again(at(60)), Some(25 * SECOND));
        judge(false, at(100));
        assert_eq!(again(at(100)), Some(10 * SECOND));
    }

    #[test]
    fn checks_and_a_slow_start() {
        let (server, now) = (server(), at(100));
        assert_eq!(server.share(now, 10 * SECOND), 256, "it was there from the start");
        assert!(!server.set_well(true, now) && server.set_well(false, now) && !server.set_well(false, now));
        assert!(server.is_judged(now) && server.condition(now) == Condition::Unwell);
        assert!(server.set_well(true, now) && !server.is_judged(now));
        let shares = [100, 102, 105, 110, 200].map(|second| server.share(at(second), 10 * SECOND));
        assert_eq!(shares, [26, 51, 128, 256, 256]);
        assert_eq!(server.share(now, Duration::ZERO), 256);
    }

    #[test]
    fn latency_follows_what_was_measured_and_is_forgotten() {
        let (server, now) = (server(), at(1));
        assert_eq!(server.latency(now), 0);
        server.note_latency(Duration::from_millis(8), now);
        assert_eq!(server.latency(now), 8000);
        server.note_latency(Duration::from_millis(16), now);
        assert_eq!(server.latency(now), 9000);
        assert_eq!((server.latency(at(11)), server.latency(at(21))), (4500, 2250));
        assert_eq!(server.latency(Moment(1)), 9000, "a clock that is behind");
        assert_eq!(server.latency(at(100_000)), 0);
    }

    #[test]
    fn no_more_than_its_bound_is_counted() {
        let server = server();
        assert!(server.enter(2) && server.enter(2) && !server.enter(2));
        assert_eq!((server.under_way(), server.requests()), (2, 2));
        server.leave();
        assert!(server.enter(2));
    }

    #[test]
    fn what_is_the_same_server_has_one_identity() {
        let tcp = |name: &str, address: &str| {
            Server::new(Upstream::Tcp { name: name.into(), address: address.parse().unwrap() }).identity
        };
        assert_eq!(tcp("a", "10.0.0.1:80"), tcp("a", "10.0.0.1:80"));
        assert_ne!(tcp("a", "10.0.0.1:80"), tcp("b", "10.0.0.1:80"));
        assert_ne!(tcp("a", "10.0.0.1:80"), tcp("a", "10.0.0.1:81"));
        // Written down, so that no version moves the clients of another.
        assert_eq!(hash_of(b"maitred"), hash_of(b"maitred"));
        assert_ne!(hash_of(b"a"), hash_of(b"b"));
    }
}
