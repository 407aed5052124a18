//! Simultaneous connections: each asks for one thing after another, at no more than its line's speed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::mix::Mix;
use super::{CONFORMING_BITS, FAILURES_MAX, LINE_BITS};
use crate::client::{Next, Request, Workload};
use crate::measure::Nanos;
use crate::report::Conforming;

#[derive(Debug, Clone, Default)]
struct User {
    /// Requests that its connection will bring yet.
    left: u64,
    asked_at: Nanos,
    /// Whether it has asked and waits.
    is_waiting: bool,
    /// Of requests whose time did not end within the ramp.
    bytes: u64,
    /// Time from a request until the user may send the next one, of the same requests.
    time: Nanos,
    answers: u64,
    failures: u64,
}

/// The simultaneous connections of one thread.
#[derive(Debug)]
pub struct Users {
    mix: Mix,
    host: String,
    users: Vec<User>,
    /// The users that may send a request, and when.
    free: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// Nothing counts before this.
    counts_from: Nanos,
}

impl Users {
    /// So many of them, which start one after another within `ramp`.
    pub fn new(seed: u64, directories: u64, host: String, count: u32, ramp: Nanos) -> Self {
        let start = |user: u32| Reverse((ramp / u64::from(count.max(1)) * u64::from(user), user));
        Users {
            mix: Mix::new(seed, directories),
            host,
            users: vec![User::default(); count as usize],
            free: (0..count).map(start).collect(),
            counts_from: ramp,
        }
    }

    fn ended(&mut self, request: &Request, bytes: u64, is_failure: bool, now: Nanos) {
        let Some(user) = self.users.get_mut(request.tag as usize) else { return };
        // At the speed of its line the answer would have taken so long.
        let line = bytes.saturating_mul(8 * 1_000_000_000 / LINE_BITS);
        let free_at = now.max(user.asked_at.saturating_add(line));
        user.is_waiting = false;
        // Not when it was asked: one long file may take more than the ramp and what follows.
        if free_at >= self.counts_from {
            user.bytes += bytes;
            user.time += free_at.saturating_sub(user.asked_at);
            user.answers += u64::from(!is_failure);
            user.failures += u64::from(is_failure);
        }
        if is_failure {
            user.left = 0;
        }
        self.free.push(Reverse((free_at, request.tag)));
    }

    /// The rates that the connections got by the end of the run. A user that still waits then, after what is granted to
    /// the last responses, has waited all that time for nothing.
    pub fn rates(&self, end: Nanos) -> Rates {
        let of = |user: &User| {
            let vain = if user.is_waiting { end.saturating_sub(user.asked_at) } else { 0 };
            let bits = user.bytes as f64 * 8.0 / ((user.time + vain).max(1) as f64 / 1e9);
            let failures = user.failures + u64::from(user.is_waiting);
            let failed = failures as f64 / (user.answers + failures).max(1) as f64;
            (bits, failed <= FAILURES_MAX && user.answers > 0)
        };
        Rates(self.users.iter().map(of).collect())
    }
}

/// Bits per second of each connection, and whether it had answers and no more failures than are allowed.
#[derive(Debug, Clone, Default)]
pub struct Rates(Vec<(f64, bool)>);

impl Rates {
    /// Adds another thread's.
    pub fn extend(&mut self, other: Rates) {
        self.0.extend(other.0);
    }

    /// The figure of merit.
    pub fn conforming(&self) -> Conforming {
        let count = self.0.len() as u64;
        let conforms = |(bits, is_sound): &&(f64, bool)| *is_sound && *bits >= CONFORMING_BITS;
        Conforming {
            connections: count,
            conforming: self.0.iter().filter(conforms).count() as u64,
            mean_bits_per_second: self.0.iter().map(|(bits, _)| bits).sum::<f64>() / count.max(1) as f64,
            min_bits_per_second: self.0.iter().map(|(bits, _)| *bits).reduce(f64::min).unwrap_or(0.0),
        }
    }
}

impl Workload for Users {
    fn next(&mut self, now: Nanos, request: &mut Request) -> Next {
        let Some(&Reverse((due, number))) = self.free.peek() else { return Next::WaitUntil(Nanos::MAX) };
        if due > now {
            return Next::WaitUntil(due);
        }
        self.free.pop();
        let Some(user) = self.users.get_mut(number as usize) else { return Next::Finished };
        if user.left == 0 {
            user.left = self.mix.session();
        }
        user.left -= 1;
        (user.asked_at, user.is_waiting) = (now, true);
        let closes = user.left == 0;
        let kind = self.mix.request(&self.host, closes, &mut request.bytes);
        request.client = number.into();
        request.tag = number;
        request.due = None;
        request.is_head = false;
        request.is_idempotent = kind != super::mix::Kind::Post;
        request.closes = closes;
        request.logged = None;
        Next::Request
    }

    fn answered(&mut self, request: &Request, status: u16, body_bytes: u64, now: Nanos) {
        self.ended(request, body_bytes, status != 200, now);
    }

    fn failed(&mut self, request: &Request, now: Nanos) {
        self.ended(request, 0, true, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    /// Answers every request after `delay` with `bytes`, for ten seconds.
    fn run(delay: Nanos, bytes: u64, status: u16) -> Conforming {
        let mut users = Users::new(3, 5, "h".to_owned(), 2, 0);
        let mut request = Request::default();
        let mut now = 0;
        while now < 10 * SECOND {
            request.bytes.clear();
            match users.next(now, &mut request) {
                Next::Request => {
                    // One at a time, so that each has half of the time at most.
                    now += delay;
                    users.answered(&request, status, bytes, now);
                }
                Next::WaitUntil(due) => now = due,
                other => panic!("{other:?}"),
            }
        }
        users.rates(now).conforming()
    }

    #[test]
    fn a_fast_server_gives_what_the_line_can_carry() {
        let rates = run(SECOND / 1000, 50_000, 200);
        assert_eq!((rates.connections, rates.conforming), (2, 2));
        assert!((395_000.0..=400_001.0).contains(&rates.mean_bits_per_second), "{rates:?}");
    }

    #[test]
    fn a_file_that_takes_longer_than_the_ramp_counts() {
        // 900 KB take 18 s of the line, and nothing else is asked for until then.
        let mut users = Users::new(3, 5, "h".to_owned(), 1, SECOND);
        let mut request = Request::default();
        assert_eq!(users.next(0, &mut request), Next::Request);
        users.answered(&request, 200, 900_000, SECOND / 100);
        let rates = users.rates(10 * SECOND).conforming();
        assert_eq!(rates.conforming, 1, "{rates:?}");
    }

    #[test]
    fn who_waits_in_vain_does_not_conform() {
        let mut users = Users::new(3, 5, "h".to_owned(), 1, 0);
        let mut request = Request::default();
        let mut now = 0;
        for _ in 0..10 {
            assert_eq!(users.next(now, &mut request), Next::Request);
            users.answered(&request, 200, 50_000, now + 1);
            now += SECOND;
        }
        assert_eq!(users.rates(now).conforming().conforming, 1);
        request.bytes.clear();
        assert_eq!(users.next(now, &mut request), Next::Request);
        assert_eq!(users.rates(now + 5 * SECOND).conforming().conforming, 0);
    }

    #[test]
    fn a_slow_server_conforms_to_nothing() {
        assert_eq!(run(SECOND * 2, 50_000, 200).conforming, 0);
        assert_eq!(run(SECOND / 1000, 50_000, 503).conforming, 0, "errors are no answers");
    }
}
