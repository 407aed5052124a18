//! Commands about a pool's processes, and a replacement that the shell asks for.

use std::time::Instant;

use tracing::Level;

use super::events::{Action, Asker, Notice, Proposal};
use super::generation::Out;
use super::listen_pool::ListenPool;
use super::pool::Pool;
use super::{Master, Phase, Reload};
use maitred_control::{Command, PoolCommand};

impl Master {
    /// Whether [`Event::Replace`](super::events::Event::Replace) would be followed: nothing else is being replaced.
    pub fn can_replace(&self) -> bool {
        self.phase == Phase::Up && self.reload.is_none() && self.upgrade.is_none() && self.was_ready
    }

    /// A client of the admin address has sent a command.
    pub(super) fn commanded(&mut self, now: Instant, asker: Asker, command: Command) {
        match command {
            Command::Reload => self.want_reload(Some(asker)),
            Command::Upgrade => self.want_upgrade(now, Some(asker)),
            Command::Pool(name, wanted) => {
                let answer = self.pool_command(now, &name, wanted);
                let (well, text) = match &answer {
                    Ok(text) => (true, text),
                    Err(text) => (false, text),
                };
                self.reply(&[asker], well, text);
            }
            Command::Stop => {
                self.reply(&[asker], true, "stopping");
                self.stop_once(now);
            }
            // The shell's.
            Command::Upstream(..) | Command::Config(_) => {}
        }
    }

    /// As a reload that finds the present configuration.
    pub(super) fn replace(&mut self) {
        if self.can_replace() {
            self.actions.push(Action::PrepareAgain);
            self.reload = Some((Reload::Preparing, Vec::new()));
        }
    }

    /// As the command to restart each pool. Processes that died of the file as it was are no reason to wait.
    pub(super) fn source_changed(&mut self, now: Instant, name: &str) {
        self.log(Level::INFO, format!("{name} has changed: the processes of the application are replaced"));
        for pool in self.pools.iter_mut().filter(|pool| pool.is_serving()) {
            pool.restart(now);
            pool.try_now(now);
        }
    }

    /// As a reload that finds this configuration. Nothing else may be under way: what that finds in the file is not what the
    /// client has seen.
    pub(super) fn want_proposed(&mut self, asker: Asker, proposal: Box<Proposal>) {
        if !self.can_replace() {
            let why = "a reload, an upgrade or a stop is under way: send it again when that is over";
            return self.reply(&[asker], false, why);
        }
        self.log(Level::INFO, "reload with a configuration that came by the admin address");
        self.actions.push(Action::Notify(Notice::Reloading));
        self.actions.push(Action::PrepareProposed(asker, proposal));
        self.reload = Some((Reload::Preparing, vec![asker]));
    }

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
