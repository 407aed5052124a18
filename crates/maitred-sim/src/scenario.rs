//! What happens to a pool.

use crate::random::Random;
use crate::workload::Service;
use crate::{Micros, SECOND};

/// Where requests come from.
#[derive(Clone, Copy)]
pub enum Clients {
    /// So many clients, each of which sends its next request some time after the last answer.
    Closed {
        /// How many.
        count: u32,
        /// How long they are away on average, in seconds; exponentially distributed.
        away: f64,
    },
    /// Requests per second, at a time in seconds; they come independently of one another and of the answers.
    Open(fn(f64) -> f64),
}

/// A mix that is not the same at all times: large files come in runs, a network is slower for a while.
#[derive(Debug, Clone, Copy)]
pub struct Swell {
    /// How long one mix lasts.
    pub period: Micros,
    /// By which part of themselves requests are then longer or shorter, at most.
    pub amplitude: f64,
}

impl Swell {
    /// What the time of a request is multiplied with.
    pub fn at(&self, now: Micros, seed: u64) -> f64 {
        let mut random = Random::new((seed << 32) ^ (now / self.period));
        1.0 + self.amplitude * (2.0 * random.unit() - 1.0)
    }
}

/// Workers that die.
#[derive(Debug, Clone, Copy)]
pub struct Crashes {
    /// Workers that are started from then …
    pub from: Micros,
    /// … until then …
    pub until: Micros,
    /// … die at this age, ready or not.
    pub age: Micros,
    /// Whether all that run at the beginning of it die, too.
    pub all: bool,
}

/// What is configured, in places (threads): each policy makes of it what it has directives for.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// At the beginning.
    pub start: u32,
    /// Fewer idle places than this are too few.
    pub min_spare: u32,
    /// More are too many.
    pub max_spare: u32,
    /// The most places.
    pub max: u32,
    /// Places of one process, where processes have several.
    pub threads: u32,
}

/// One scenario.
#[derive(Clone)]
pub struct Scenario {
    /// A short name, fit for a file.
    pub name: &'static str,
    /// What the scenario shows, in a sentence.
    pub what: &'static str,
    /// How long it is simulated.
    pub length: Micros,
    /// Clients.
    pub clients: Clients,
    /// How long requests take.
    pub service: Service,
    /// How they change.
    pub swell: Swell,
    /// How long a process takes until it is ready; one with several threads, until it begins to create them.
    pub startup: Micros,
    /// How long a process takes to create one of its threads, on an idle machine.
    pub thread_startup: Micros,
    /// Busy threads that make creating one take twice as long.
    pub contention: f64,
    /// How long a request waits at most.
    pub timeout: Micros,
    /// Crashes.
    pub crashes: Option<Crashes>,
    /// Weights of the buckets.
    pub buckets: &'static [f64],
    /// What is configured.
    pub limits: Limits,
    /// Where the randomness comes from.
    pub seed: u64,
}

impl Scenario {
    fn plain(name: &'static str, what: &'static str, length_s: u64, load: fn(f64) -> f64) -> Scenario {
        Scenario {
            name,
            what,
            length: length_s * SECOND,
            clients: Clients::Open(load),
            service: Service::new(0.02, 400_000.0, (0.05, 10.0), 1e6).with_mean(0.1),
            swell: Swell { period: SECOND, amplitude: 0.0 },
            startup: SECOND / 2,
            thread_startup: 0,
            contention: f64::INFINITY,
            timeout: 5 * SECOND,
            crashes: None,
            buckets: &[1.0],
            limits: Limits { start: 4, min_spare: 4, max_spare: 12, max: 200, threads: 1 },
            seed: 4,
        }
    }

    /// The experiment of April 2002 (httpd-dev list): 390 clients replay an access log for an hour.
    ///
    /// Given by the report: clients, threads, limits. From its second column, by Little's law: some 197 busy threads, the
    /// mean of what it gives after the third minute, at 94.2 requests/s are 2.1 s in a thread per request, and 390 clients
    /// are elsewhere for 2.0 s. Fitted to its columns: how long threads take to create, how much load and mix vary, how
    /// slow slow clients are, and how large the largest responses.
    pub fn experiment_2002() -> Scenario {
        Scenario {
            clients: Clients::Closed { count: 390, away: 2.0 },
            service: Service::new(0.5, 50_000.0, (0.05, 4.0), 4e6).with_mean(2.1),
            swell: Swell { period: 20 * SECOND, amplitude: 0.6 },
            thread_startup: SECOND / 20,
            contention: 20.0,
            timeout: Micros::MAX,
            limits: Limits { start: 64, min_spare: 64, max_spare: 192, max: 1024, threads: 64 },
            ..Scenario::plain("2002", "390 clients replay an access log for an hour", 3_600, |_| 0.0)
        }
    }

    /// All of them, the experiment first.
    pub fn all() -> Vec<Scenario> {
        let plain = Scenario::plain;
        vec![
            Scenario::experiment_2002(),
            plain("step", "100 requests/s become 500 for five minutes", 900, |at| {
                if (300.0..600.0).contains(&at) { 500.0 } else { 100.0 }
            }),
            plain("spike", "ten times the load, for five seconds of each two minutes", 600, |at| {
                if (60.0..65.0).contains(&(at % 120.0)) { 1_000.0 } else { 100.0 }
            }),
            plain("diurnal", "a day in an hour: between 20 and 500 requests/s", 3_600, |at| {
                260.0 - 240.0 * libm::cos(at / 3_600.0 * core::f64::consts::TAU)
            }),
            plain("flapping", "100 and 400 requests/s, by turns, 20 s each", 600, |at| {
                if at % 40.0 < 20.0 { 100.0 } else { 400.0 }
            }),
            Scenario {
                startup: 10 * SECOND,
                ..plain(
                    "slow-start",
                    "a step from 100 to 300 requests/s; workers take 10 s to start",
                    600,
                    |at| {
                        if (120.0..360.0).contains(&at) { 300.0 } else { 100.0 }
                    },
                )
            },
            Scenario {
                crashes: Some(Crashes {
                    from: 120 * SECOND,
                    until: 240 * SECOND,
                    age: SECOND / 5,
                    all: true,
                }),
                ..plain("crash-storm", "from 2:00 to 4:00 every worker dies before it is ready", 600, |_| {
                    200.0
                })
            },
            Scenario {
                buckets: &[5.0, 1.0, 1.0, 1.0],
                ..plain(
                    "hot-bucket",
                    "four buckets, one of which gets five times as much as each other",
                    600,
                    |_| 300.0,
                )
            },
        ]
    }
}
