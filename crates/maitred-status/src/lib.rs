//! Scoreboard, and the ways to show it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`scoreboard`] | the shared memory file |
//! | [`fields`] | the one table of all numbers: name, unit, kind, text |
//! | [`facts`] | what is known without the scoreboard, and what is asked for when it is shown |
//! | [`cache`] | the store of responses |
//! | [`histogram`] | how long answers of pools take |
//! | [`history`] | the last minutes and the hour before, kept over worker processes |
//! | [`latency`] | how long requests take, by route and pool, over the last minutes |
//! | [`windows`] | the last minutes, with what is not in the history yet |
//! | [`slowest`] | the slowest of them |
//! | [`under_way`] | requests that have no end yet |
//! | [`routes`] | what each route has answered |
//! | [`losses`] | what was lost of late |
//! | [`rates`] | counters → what happens in a second |
//! | [`health`] | verdicts: is all well, and what is to be done |
//! | [`json`] | `/status.json` |
//! | [`metrics`] | `/metrics`, for Prometheus |
//! | [`page`] | `/status` |
//! | [`text`] | what `maitred status` prints |

pub mod cache;
pub mod facts;
pub(crate) mod fields;
pub(crate) mod health;
pub mod histogram;
pub mod history;
pub(crate) mod json;
pub mod latency;
pub(crate) mod losses;
pub mod metrics;
pub mod page;
pub mod rates;
pub mod routes;
pub mod scoreboard;
pub mod slowest;
#[cfg(test)]
mod tests;
pub mod text;
pub mod under_way;
pub(crate) mod windows;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use facts::{Facts, Live, Queues};
use history::Past;
use latency::TimingFacts;
use losses::Losses;
use maitred_control::Report;
use maitred_tls::server::CertificateFacts;
use rates::{PoolSample, Rates};
use scoreboard::Scoreboard;
use windows::Latencies;

/// All that a worker process needs to show its state; shared by its threads.
#[derive(Debug)]
pub struct Status {
    facts: Facts,
    past: Past,
    rates: Mutex<Rates>,
    latencies: Mutex<Latencies>,
    losses: Mutex<Losses>,
    /// How the last process of a slot ended, by the slot's index in the scoreboard. Texts cannot be in there.
    ends: Mutex<BTreeMap<usize, String>>,
    /// Why a pool has no process and cannot start one, by the pool's index.
    troubles: Mutex<BTreeMap<usize, String>>,
    certificates: Mutex<Vec<CertificateFacts>>,
    /// How the sites with automatic certificates stand, by name.
    automatic: Mutex<BTreeMap<String, Report>>,
}

impl Status {
    /// At the start of a worker process.
    pub fn new(facts: Facts, past: Past) -> Status {
        let rates = Mutex::new(Rates::new());
        let (latencies, losses, ends, troubles, certificates, automatic) = Default::default();
        Status { facts, past, rates, latencies, losses, ends, troubles, certificates, automatic }
    }

    /// To be called by the control thread once a second. `uptime_secs` are those of the machine's monotonic clock.
    pub fn tick(
        &self,
        (now, uptime_secs): (Instant, u64),
        board: &Scoreboard,
        pools: Vec<PoolSample>,
        spans_dropped: u64,
    ) {
        // A panic elsewhere cannot leave a sample half taken.
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(second) = rates.tick(now, board, self.facts.threads.len(), pools) {
            self.past.add_second(uptime_secs, &second);
        }
        let rows = board.threads.iter().take(self.facts.threads.len());
        let bodies = rows.fold(0_u64, |sum, row| sum.saturating_add(row.bodies_refused.get()));
        self.losses.lock().unwrap_or_else(PoisonError::into_inner).note(now, spans_dropped, bodies);
    }

    /// To be called after it, and once more when nothing is under way any more: what was `counted` of routes and of pools.
    pub fn publish_latencies(&self, uptime_secs: u64, counted: (Vec<TimingFacts>, Vec<TimingFacts>)) {
        let mut latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        latencies.publish(&self.past, uptime_secs, counted);
    }

    /// The process in the slot with this index in the scoreboard has ended, or could not be started: why, in words.
    pub fn note_end(&self, slot: usize, why: &str) {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).insert(slot, why.to_owned());
    }

    /// Why the pool of this index has no process and cannot start one; `None` when it can again.
    pub fn note_trouble(&self, pool: usize, why: Option<&str>) {
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        match why {
            Some(why) => troubles.insert(pool, why.to_owned()),
            None => troubles.remove(&pool),
        };
    }

    /// How the automatic certificate of a site stands.
    pub fn note_automatic(&self, report: Report) {
        self.automatic.lock().unwrap_or_else(PoisonError::into_inner).insert(report.name.clone(), report);
    }

    /// Notes the certificates that are in use from now on.
    pub fn note_certificates(&self, certificates: Vec<CertificateFacts>) {
        *self.certificates.lock().unwrap_or_else(PoisonError::into_inner) = certificates;
    }

    /// What is wrong with a pool, if anything.
    pub fn trouble(&self, pool: usize) -> Option<String> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner).get(&pool).cloned()
    }

    /// `/status.json`, with the queues of this moment.
    pub fn json(&self, board: &Scoreboard, unix_secs: u64, queues: Queues) -> String {
        json::render(board, &self.facts, &self.live(unix_secs, queues)).to_string()
    }

    /// The last minutes, second by second: the first event of `/status/events`.
    pub fn history(&self, unix_secs: u64, uptime_secs: u64) -> String {
        json::history(unix_secs, &self.past.seconds(uptime_secs)).to_string()
    }

    /// `/metrics`, with [`metrics::CONTENT_TYPE`].
    pub fn metrics(&self, board: &Scoreboard, unix_secs: u64, queues: Queues) -> String {
        metrics::render(board, &self.facts, &self.live(unix_secs, queues))
    }

    fn live(&self, unix_secs: u64, queues: Queues) -> Live {
        let rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner).per_second();
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let certificates = self.certificates.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let now = queues.uptime_secs;
        let latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        let route_windows =
            latencies.routes(&self.past, now, queues.routes.iter().map(|route| &route.timing));
        let pool_windows = latencies.pools(&self.past, now, &queues.timings);
        drop(latencies);
        Live {
            unix_secs,
            queues: queues.accept,
            pool_queues: queues.pools,
            bodies: queues.bodies,
            budgets: queues.budgets,
            limits: queues.limits,
            answers: queues.answers,
            servers: queues.servers,
            routes: queues.routes,
            route_windows,
            pool_windows,
            slowest: queues.slowest,
            under_way: queues.under_way,
            spans: queues.spans,
            cache: queues.cache,
            certificates,
            automatic: self
                .automatic
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .values()
                .cloned()
                .collect(),
            rates,
            last_second: self.past.last_second(now).unwrap_or_default(),
            ends,
            troubles,
            lost: self.losses.lock().unwrap_or_else(PoisonError::into_inner).recent(Instant::now()),
            errors: maitred_log::recent::last(),
        }
    }
}
