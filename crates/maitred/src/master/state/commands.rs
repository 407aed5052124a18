//! Commands about a pool's processes.

use std::time::Instant;

use super::Master;
use super::generation::Out;
use super::listen_pool::ListenPool;
use super::pool::Pool;
use crate::control::PoolCommand;

impl Master {
    pub(super) fn pool_command(
        &mut self,
        now: Instant,
        name: &str,
        wanted: PoolCommand,
    ) -> Result<String, String> {
        if let Some(answer) = self.listen_pool_command(now, name, &wanted) {
            return answer;
        }
        let found = self.pools.iter().position(|pool| pool.is_serving() && pool.pool_name() == name);
        let Some(pool) = found.and_then(|at| self.pools.get_mut(at)) else { return Err(self.no_pool(name)) };
        match wanted {
            PoolCommand::Restart => Ok(pool.restart(now)),
            PoolCommand::Drain(slot) => pool.drain_slot(now, slot, out!(self)),
            PoolCommand::Scale(workers) => pool.scale(now, workers),
        }
    }

    fn no_pool(&self, name: &str) -> String {
        let names = self.pools.iter().filter(|pool| pool.is_serving()).map(Pool::pool_name);
        let names = names.chain(self.listen_pools().map(ListenPool::pool_name));
        let names: Vec<&str> = names.collect();
        let there = if names.is_empty() { "no other" } else { &names.join(", ") };
        format!("there is no pool {name} whose processes this server starts; there is: {there}")
    }
}
