//! Listener buckets at scale: which thread gets a new connection, and what that does to the tail.
//!
//! A thread is an event loop: it serves what comes to its connections, in order. A connection brings a number of requests
//! that differs widely, and stays with its thread. What is modelled of the machine, is only this:
//!
//! - A request takes [`SERVICE_US`] of its thread's time on average, exponentially distributed; a new connection
//!   [`ACCEPT_US`] more.
//! - To accept, a thread holds the lock of the bucket's queue, longer the more threads share it, because the lock and the
//!   queue move from cache to cache: [`LOCK_US`] and [`LOCK_SHARER_US`] for each sharer. The figures make one queue on 64
//!   threads end at 60 % of what the threads could do: that is the utilisation reported for httpd in 2014.
//! - The first thread that is free accepts. Of several, it is always the same one, as epoll wakes the thread that waited last.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::outcome::Histogram;
use crate::random::Random;
use crate::{Micros, SECOND};

/// Time of a request, in microseconds.
pub const SERVICE_US: f64 = 50.0;
/// Time of a new connection, without the lock.
pub const ACCEPT_US: f64 = 5.0;
/// Time that the lock is held by a thread that has it for itself.
pub const LOCK_US: f64 = 0.5;
/// What each thread that shares it adds.
pub const LOCK_SHARER_US: f64 = 0.095;
/// What it takes to hand a new connection to another thread.
const HAND_OVER_US: f64 = 1.0;
/// Time between a response and the next request of the connection.
const THINK_US: f64 = 2_000.0;
/// Requests of a connection: Pareto with this shape, from 1 to the most.
const REQUESTS_SHAPE: f64 = 1.1;
const REQUESTS_MAX: f64 = 1_000.0;
/// Mean of that.
const REQUESTS_MEAN: f64 = 5.0;
/// Share of the threads' time that the load would take, without any lock.
const LOAD: f64 = 0.7;
/// Receive queues of a network card.
const RECEIVE_QUEUES: usize = 64;
/// What a request costs where its packets were received, as a share of what it costs elsewhere. An assumption.
const LOCAL: f64 = 0.95;
/// How long is simulated; the first half is not measured.
const LENGTH: Micros = SECOND * 4 / 10;

/// How a connection finds its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steering {
    /// All threads share one queue.
    OneQueue,
    /// Each thread has a queue; the kernel chooses by a hash.
    PerThread,
    /// Eight threads share a queue, and take from it as they are free.
    Eighth,
    /// Eight threads share a queue; the connection goes to the less loaded of two of them.
    EighthTwo,
    /// A queue for each receive queue of the network card; where threads share one, the less loaded of two.
    Cpu,
}

/// All of them, with their names.
pub const ALL: [(Steering, &str); 5] = [
    (Steering::OneQueue, "one queue"),
    (Steering::PerThread, "per thread"),
    (Steering::Eighth, "threads ÷ 8"),
    (Steering::EighthTwo, "threads ÷ 8, less loaded of two"),
    (Steering::Cpu, "by CPU"),
];

/// Numbers of threads that are simulated.
pub const THREADS: [usize; 8] = [2, 4, 8, 16, 32, 64, 128, 256];

impl Steering {
    fn buckets(self, threads: usize) -> usize {
        match self {
            Steering::OneQueue => 1,
            Steering::PerThread => threads,
            Steering::Eighth | Steering::EighthTwo => (threads / 8).max(1),
            Steering::Cpu => threads.min(RECEIVE_QUEUES),
        }
    }
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Steered {
    /// Threads.
    pub threads: usize,
    /// From a request's arrival to its end.
    pub latency: Histogram,
    /// Share of the requests that were answered before the end.
    pub answered: f64,
    /// Share of the time that the lock of the busiest queue was held.
    pub lock: f64,
    /// Work of the busiest thread, in units of the mean.
    pub busiest: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Thread {
    /// When it will have done all that it has.
    free_at: Micros,
    connections: u32,
    worked: Micros,
}

/// Time, a number that orders what is at the same time, thread, and how many requests are left. No thread: a new connection.
type Event = Reverse<(Micros, u64, Option<usize>, u32)>;

struct Machine {
    steering: Steering,
    threads: Vec<Thread>,
    /// For each bucket: when its lock is free, and how long it was held.
    locks: Vec<(Micros, Micros)>,
    random: Random,
    events: BinaryHeap<Event>,
    serial: u64,
    latency: Histogram,
    arrived: u64,
    answered: u64,
}

/// Times inside are in nanoseconds.
const NANOS: f64 = 1_000.0;

fn nanos(microseconds: f64) -> Micros {
    (microseconds * NANOS) as Micros
}

/// Simulates one number of threads.
pub fn run(steering: Steering, threads: usize, seed: u64) -> Steered {
    let mut machine = Machine {
        steering,
        threads: vec![Thread::default(); threads],
        locks: vec![(0, 0); steering.buckets(threads)],
        random: Random::new(seed),
        events: BinaryHeap::new(),
        serial: 0,
        latency: Histogram::default(),
        arrived: 0,
        answered: 0,
    };
    machine.at(0, None, 0);
    let end = LENGTH * 1_000;
    while let Some(Reverse((now, _, thread, left))) = machine.events.pop() {
        if now > end {
            break;
        }
        match thread {
            Some(thread) => machine.request(now, now, thread, left),
            None => machine.connects(now),
        }
    }
    machine.outcome(end)
}

impl Machine {
    fn at(&mut self, time: Micros, thread: Option<usize>, left: u32) {
        self.serial += 1;
        self.events.push(Reverse((time, self.serial, thread, left)));
    }

    /// A new connection; and the next one after it.
    fn connects(&mut self, now: Micros) {
        let per_connection = REQUESTS_MEAN * SERVICE_US + ACCEPT_US;
        let between = per_connection / (LOAD * self.threads.len() as f64);
        let next = now + nanos(self.random.exponential(between)).max(1);
        self.at(next, None, 0);
        let bucket = self.random.below(self.locks.len());
        let sharers = self.threads.len() / self.locks.len();
        let first = bucket * sharers;
        let free_at = |thread: &usize| self.threads[*thread].free_at.max(now);
        let acceptor = (first..first + sharers).min_by_key(free_at).unwrap_or(first);
        let accepted = self.accept(now, bucket, acceptor);
        let thread = match self.steering {
            Steering::OneQueue | Steering::PerThread | Steering::Eighth => acceptor,
            Steering::EighthTwo | Steering::Cpu => self.less_loaded(first, sharers),
        };
        self.threads[thread].connections += 1;
        let requests = self.random.pareto(REQUESTS_SHAPE, 1.0, REQUESTS_MAX) as u32;
        let handed_over = if thread == acceptor { 0 } else { nanos(HAND_OVER_US) };
        self.request(now, accepted + handed_over, thread, requests);
    }

    /// The first thread of the bucket that is free takes the lock. Returns when it has the connection.
    fn accept(&mut self, now: Micros, bucket: usize, acceptor: usize) -> Micros {
        let sharers = self.threads.len() / self.locks.len();
        let held = nanos(LOCK_US + if sharers > 1 { LOCK_SHARER_US * sharers as f64 } else { 0.0 });
        let (free_at, total) = self.locks[bucket];
        let thread = &mut self.threads[acceptor];
        let has_lock = thread.free_at.max(now).max(free_at);
        self.locks[bucket] = (has_lock + held, total + held);
        thread.worked += held + nanos(ACCEPT_US);
        thread.free_at = has_lock + held + nanos(ACCEPT_US);
        thread.free_at
    }

    /// The one of two threads of a bucket that has fewer connections.
    fn less_loaded(&mut self, first: usize, sharers: usize) -> usize {
        let one = first + self.random.below(sharers);
        let other = first + self.random.below(sharers);
        if self.threads[other].connections < self.threads[one].connections { other } else { one }
    }

    /// A request that arrived then is served from `ready` on, after what its thread has to do before.
    fn request(&mut self, arrived: Micros, ready: Micros, thread: usize, left: u32) {
        let local = if self.steering == Steering::Cpu { LOCAL } else { 1.0 };
        let service = nanos(self.random.exponential(SERVICE_US * local)).max(1);
        let worker = &mut self.threads[thread];
        worker.free_at = worker.free_at.max(ready) + service;
        worker.worked += service;
        let done = worker.free_at;
        if left <= 1 {
            worker.connections = worker.connections.saturating_sub(1);
        } else {
            let think = nanos(self.random.exponential(THINK_US));
            self.at(done + think, Some(thread), left - 1);
        }
        let end = LENGTH * 1_000;
        if arrived > end / 2 {
            self.arrived += 1;
            self.answered += u64::from(done <= end);
            self.latency.add((done - arrived) / 1_000);
        }
    }

    fn outcome(self, end: Micros) -> Steered {
        let worked = self.threads.iter().map(|thread| thread.worked);
        let mean = worked.clone().sum::<Micros>() as f64 / self.threads.len() as f64;
        let held = self.locks.iter().map(|(_, held)| *held).max().unwrap_or_default();
        Steered {
            threads: self.threads.len(),
            latency: self.latency,
            answered: self.answered as f64 / self.arrived.max(1) as f64,
            lock: (held as f64 / end as f64).min(1.0),
            busiest: worked.max().unwrap_or_default() as f64 / mean,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_queue_does_not_scale_and_a_queue_per_eight_threads_does() {
        let tail = |steering, threads| run(steering, threads, 1).latency.quantile(0.99);
        assert!(tail(Steering::OneQueue, 8) < 0.002);
        assert!(tail(Steering::OneQueue, 128) > 0.02);
        assert!(tail(Steering::EighthTwo, 128) < 0.002);
    }

    #[test]
    fn chance_loads_threads_unevenly_and_a_choice_of_two_less_so() {
        let busiest = |steering| run(steering, 128, 1).busiest;
        assert!(busiest(Steering::PerThread) > busiest(Steering::EighthTwo) * 1.05);
        assert!(busiest(Steering::Eighth) > busiest(Steering::PerThread));
    }

    #[test]
    fn the_mean_of_requests_is_what_is_said() {
        let mut random = Random::new(1);
        let draw = |_| f64::from(random.pareto(REQUESTS_SHAPE, 1.0, REQUESTS_MAX) as u32);
        let mean = (0..500_000).map(draw).sum::<f64>() / 5e5;
        assert!((mean - REQUESTS_MEAN).abs() < 0.2, "{mean}");
    }
}
