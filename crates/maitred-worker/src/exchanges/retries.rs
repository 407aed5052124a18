//! Retries at servers: within which budget, for which statuses, and how long one try may take.

use std::time::Instant;

use super::Exchanges;
use crate::keys::ConnKey;
use crate::upstream::server::Call;
use crate::upstream::{Attempt, By};
use maitred_config::Retry;

impl Exchanges {
    /// What a pool of servers says of retries.
    pub(crate) fn retry_of(&self, pool: u16) -> Option<&'static Retry> {
        Some(&self.shared.start.config.pools.get(usize::from(pool))?.external.retry)
    }

    /// Requests that this thread has sent to a pool.
    fn requests_to(&self, pool: u16) -> u64 {
        let pool = self.shared.pools.get(usize::from(pool));
        pool.and_then(|pool| pool.handed.get(self.number)).map_or(0, |handed| handed.requests.get())
    }

    /// Once in a while: how many requests each pool has had lately.
    pub(crate) fn look_at_budgets(&mut self) {
        let now = self.clock.now;
        for pool in 0..self.shared.pools.len() as u16 {
            let requests = self.requests_to(pool);
            let percent = self.retry_of(pool).map_or(0, |retry| retry.budget_percent);
            if let Some(budget) = self.upstreams.budget(pool) {
                let _ = budget.allows(now, requests, percent);
            }
        }
    }

    /// Takes one retry from the budget of the request's pool. False if there is none left.
    pub(crate) fn takes_retry(&mut self, index: ConnKey) -> bool {
        let now = self.clock.now;
        let Some(By::Server(call)) = self.attempt_of(index).map(|attempt| &attempt.by) else { return true };
        let pool = call.pool;
        let Some(retry) = self.retry_of(pool) else { return false };
        let requests = self.requests_to(pool);
        let budget = self.upstreams.budget(pool);
        let taken = budget.is_some_and(|budget| budget.take(now, requests, retry.budget_percent));
        self.row.upstream_retries_refused.add(u64::from(!taken));
        taken
    }

    /// The statuses for which a request is retried that goes to a server now: none if no other one can get it. Otherwise its
    /// client gets the answer.
    pub(crate) fn retried_statuses(&mut self, call: &Call) -> &'static [u16] {
        let (now, pool) = (self.clock.now, call.pool);
        let Some(retry) = self.retry_of(pool).filter(|retry| !retry.statuses.is_empty()) else { return &[] };
        let servers = self.shared.servers(pool).map_or(0, |table| table.list().rows().count());
        let requests = self.requests_to(pool);
        let budget = self.upstreams.budget(pool);
        let may = call.safe
            && servers > call.tried.len() + 1
            && call.attempts < retry.attempts
            && budget.is_some_and(|budget| budget.allows(now, requests, retry.budget_percent));
        if may { &retry.statuses } else { &[] }
    }

    /// By when a server has to have begun with its response, if the pool says so.
    pub(crate) fn try_due(&self, attempt: &Attempt, call: &Call) -> Option<Instant> {
        let timeout = self.retry_of(call.pool)?.per_try_timeout.filter(|_| !attempt.begun)?;
        Some(call.began? + timeout)
    }
}
