//! The master's listen pools, all together.

use std::time::Instant;

use super::Master;
use super::events::{AcceptSeen, Asker, Plan};
use super::generation::Out;
use super::listen_pool::ListenPool;
use maitred_control::PoolCommand;

impl Master {
    /// The listen pools of the configuration in force.
    pub(crate) fn listen_pools(&self) -> impl Iterator<Item = &ListenPool> {
        self.listen_pools.iter().filter(|pool| pool.is_serving())
    }

    /// Starts the pools that a configuration has anew or has changed, before it is in force. Returns whether it is known how
    /// their first processes fare.
    pub(super) fn try_listen_pools(&mut self, now: Instant, plan: &Plan) -> bool {
        for (index, wanted) in (0_u16..).zip(&plan.pools).filter(|(_, wanted)| wanted.listen.is_some()) {
            let is_tried = |pool: &ListenPool| pool.is_trying() && pool.pool_name() == wanted.name;
            if !self.listen_pools.iter().any(|pool| is_tried(pool) || pool.survives(wanted)) {
                self.listen_pools.extend(ListenPool::attempt(now, plan.number, index, wanted));
            }
        }
        self.listen_pools.iter().filter(|pool| pool.is_trying()).all(ListenPool::is_tried)
    }

    /// Why a configuration cannot be in force.
    pub(super) fn listen_failure(&self) -> Option<String> {
        self.listen_pools.iter().filter(|pool| pool.is_trying()).find_map(ListenPool::failure)
    }

    /// The configuration that was tried is not to be in force, or no longer has these pools.
    pub(super) fn end_trials(&mut self, now: Instant) {
        let out = out!(self);
        for pool in self.listen_pools.iter_mut().filter(|pool| pool.is_trying()) {
            pool.end(pool.timeout(now), out);
        }
    }

    /// A configuration is in force: pools that it leaves as they are go on, others are begun, replaced or ended.
    pub(super) fn adopt_listen_pools(&mut self, now: Instant, plan: &Plan) {
        let mut begun = Vec::new();
        let out = out!(self);
        for (index, wanted) in (0_u16..).zip(&plan.pools) {
            match self.listen_pools.iter_mut().find(|pool| pool.survives(wanted)) {
                Some(pool) => pool.go_on(now, plan.number, index, wanted, out),
                None => {
                    self.listen_pools
                        .iter_mut()
                        .filter(|pool| pool.pool_name() == wanted.name && wanted.listen.is_some())
                        .for_each(ListenPool::supersede);
                    let tried = |pool: &&mut ListenPool| {
                        pool.is_trying() && (pool.number(), pool.index()) == (plan.number, index)
                    };
                    match self.listen_pools.iter_mut().find(tried) {
                        Some(pool) => pool.serve(),
                        None => begun.extend(ListenPool::new(now, plan.number, index, wanted)),
                    }
                }
            }
        }
        let listens = |name: &str| plan.pools.iter().any(|pool| pool.name == name && pool.listen.is_some());
        for pool in self.listen_pools.iter_mut().filter(|pool| !listens(pool.pool_name())) {
            pool.end(pool.timeout(now), out);
        }
        self.listen_pools.append(&mut begun);
        self.end_trials(now);
    }

    pub(super) fn accepting(&mut self, now: Instant, queues: &[Vec<u32>], seen: &[AcceptSeen]) {
        for pool in self.listen_pools.iter_mut().filter(|pool| pool.is_serving()) {
            let queues = queues.get(usize::from(pool.index())).map(Vec::as_slice).unwrap_or_default();
            pool.see(now, queues, seen);
        }
    }

    pub(super) fn decide_listen_pools(&mut self, now: Instant) {
        let worker = self.current;
        let out = out!(self);
        let ready: Vec<String> = self
            .listen_pools
            .iter()
            .filter(|pool| pool.is_serving() && pool.is_ready())
            .map(|pool| pool.pool_name().to_owned())
            .collect();
        for pool in &mut self.listen_pools {
            if pool.is_superseded() && ready.iter().any(|name| name == pool.pool_name()) {
                pool.end(pool.timeout(now), out);
            }
            pool.decide(now, worker, out);
        }
        self.listen_pools.retain(|pool| !pool.is_over());
    }

    pub(super) fn end_listen_pools(&mut self, kill_at: Instant) {
        let out = out!(self);
        for pool in &mut self.listen_pools {
            pool.end(kill_at, out);
        }
    }

    /// `None` if no listen pool has that name.
    pub(super) fn listen_pool_command(
        &mut self,
        now: Instant,
        asker: Asker,
        name: &str,
        wanted: &PoolCommand,
    ) -> Option<Result<Option<String>, String>> {
        let mut pools = self.listen_pools.iter_mut();
        let pool = pools.find(|pool| pool.is_serving() && pool.pool_name() == name)?;
        let out = out!(self);
        Some(match wanted {
            PoolCommand::Restart => {
                pool.restart(now, asker);
                Ok(None)
            }
            PoolCommand::Canary(_) => Err(format!(
                "pool {name} accepts connections by itself, and its responses are not seen here: restart it without canaries"
            )),
            PoolCommand::Drain(slot) => pool.drain_slot(now, *slot, out).map(Some),
            PoolCommand::Scale(workers) => pool.scale(now, *workers).map(Some),
        })
    }
}
