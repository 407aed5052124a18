//! What a reload waits for, reported to the service manager and to the command on the admin address; and its last step: the next
//! generation becomes the current one, or is refused because what it promises has not happened.
//!
//! All that a reload waits for has a time of its own: the new worker process ([`NEXT_START_TIMEOUT`]), and the first process of
//! each pool that is new or has changed (the pool's `start_timeout`). All times pass together, so that the longest of them is the
//! most that a reload takes after the one before it. No client has to know it: it waits as long as this is reported.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tracing::Level;

use super::events::{Action, Notice};
use super::generation::NEXT_START_TIMEOUT;
use super::pool::Pool;
use super::{Master, Reload};
use maitred_base::backoff::Backoff;
use maitred_control::ToWorker;

/// How long a reload is under way when it is reported first. Most take less.
pub(crate) const TELL_AFTER: Duration = Duration::from_secs(1);
/// How often it is reported again: several times within the shortest timeout of a waiting client, which is a minute.
pub(crate) const TELL_EVERY: Duration = Duration::from_secs(5);
/// Pools that are named.
const POOLS_SHOWN_MAX: usize = 3;

impl Master {
    /// A reload has begun: says what it waits for if that takes long.
    pub(super) fn tell_later(&mut self, now: Instant) {
        self.tell_at = Some(now + TELL_AFTER);
    }

    /// When the next word about a reload is due.
    pub(super) fn progress_deadline(&self) -> Option<Instant> {
        self.tell_at.filter(|_| matches!(self.reload, Some((Reload::BringingUp { .. }, _))))
    }

    /// Says what the reload under way waits for, when that is due.
    pub(super) fn tell_progress(&mut self, now: Instant) {
        if self.progress_deadline().is_none_or(|at| at > now) {
            return;
        }
        self.tell_at = Some(now + TELL_EVERY);
        let Some(what) = self.awaited() else { return };
        let reads = |number| self.generations.iter().any(|one| one.number == number && one.listens());
        let present = self.reload.iter().flat_map(|(_, askers)| askers);
        let present = present.map(|asker| (asker, what.clone()));
        let queued = self.queued.iter().flatten();
        let queued = queued.map(|asker| (asker, format!("waits for the reload before it, which {what}")));
        let sent = present
            .chain(queued)
            .filter(|((to, _), _)| reads(*to))
            .map(|((to, command), what)| Action::Send(*to, ToWorker::CommandWaits(*command, what)));
        self.actions.extend(sent);
        if self.was_ready {
            self.actions.push(Action::Notify(Notice::Waiting(what)));
        }
    }

    /// What the reload under way waits for, and for how long at most; `None` if there is none.
    fn awaited(&self) -> Option<String> {
        let (Reload::BringingUp { generation, plan }, _) = self.reload.as_ref()? else { return None };
        let is_running = self.generations.iter().any(|one| one.number == *generation && one.is_running());
        if !is_running {
            return Some(format!("waits for the new worker process, {NEXT_START_TIMEOUT:?} at most"));
        }
        let pools: Vec<&Pool> = self.pools_of(*generation).filter(|pool| !pool.is_tried()).collect();
        let named = pools.iter().take(POOLS_SHOWN_MAX).map(|pool| format!("\"{}\"", pool.pool_name()));
        let mut names = named.collect::<Vec<_>>().join(", ");
        if let Some(more) = pools.len().checked_sub(POOLS_SHOWN_MAX).filter(|more| *more > 0) {
            names.push_str(&format!(" and {more} more"));
        }
        let timeouts = pools
            .iter()
            .filter_map(|pool| plan.pools.get(usize::from(pool.home().index)).map(|pool| pool.start_timeout));
        let most = timeouts.max()?;
        let kind = if pools.len() == 1 { "pool" } else { "pools" };
        Some(format!("waits for the first process of {kind} {names}, {most:?} at most (start_timeout)"))
    }

    /// Makes the next generation the current one, when it can be.
    pub(super) fn take_over(&mut self, now: Instant) {
        let Some((Reload::BringingUp { generation, plan }, _)) = &self.reload else { return };
        let (number, plan) = (*generation, Rc::clone(plan));
        self.complete_pools(now, number, &plan);
        let ready = self.generation(number).is_some_and(|next| next.is_running());
        let tried = self.try_listen_pools(now, &plan);
        if !ready || !tried || !self.pools_of(number).all(Pool::is_tried) {
            return;
        }
        let failure = self.pools_of(number).find_map(Pool::failure).or_else(|| self.listen_failure());
        if let Some(why) = failure {
            return self.refuse_reload(now, &why);
        }
        let askers = self.reload.take().map(|(_, askers)| askers).unwrap_or_default();
        self.respawn_at = None;
        let old = self.current.replace(number);
        // Before the old one is asked to drain, too: it may be gone at once, with the channels that were not asked for
        // before.
        self.move_pools(now, &plan, old);
        let time = old.and_then(|from| self.generation(from)).and_then(|old| old.drain(now, false));
        if let (Some(from), Some(time)) = (old, time) {
            self.actions.push(Action::Handover { from, to: number, time });
        }
        // Before the answer: a text that a client has sent is in its file then.
        self.actions.push(Action::Commit(plan.number));
        // The old one passes it on when it has stopped accepting: from then on every client gets the new configuration.
        self.reply(&askers, true, "reloaded");
        if let (Some(from), None) = (old, time) {
            self.kill(now, from);
        }
        self.bound_old_workers(now, plan.old_workers_max);
        let earlier = self.generations.iter().filter(|one| one.is_draining() && Some(one.number) != old);
        let earlier: Vec<u64> = earlier.map(|one| one.number).collect();
        self.actions.extend(earlier.into_iter().map(|from| Action::Succeed { from, to: number }));
        self.adopt_listen_pools(now, &plan);
        self.plan = Some(plan);
        self.crashes = Backoff::default();
        self.counts.reloads += 1;
        self.counts.reload_refused = 0;
        self.was_ready = true;
        self.log(Level::INFO, format!("reloaded: worker process {number} has taken over"));
        self.reload_is_over(Notice::Ready);
    }

    /// A worker process is ready, and hears of its application processes from now on.
    pub(super) fn worker_is_ready(&mut self, number: u64) {
        let pools = self.pools.iter_mut().filter(|pool| pool.home().generation == number);
        pools.for_each(Pool::can_report);
        if self.current == Some(number) {
            self.current_is_ready(number);
        }
    }

    /// An application process exits now, and these lines are its last.
    pub(super) fn app_said(&mut self, epoch: u64, lines: Vec<String>) {
        if let Some(pool) = self.pools.iter_mut().find(|pool| pool.slot_of(epoch).is_some()) {
            pool.said(lines);
        } else if let Some(pool) = self.listen_pools.iter_mut().find(|pool| pool.has(epoch)) {
            pool.said(lines);
        }
    }
}
