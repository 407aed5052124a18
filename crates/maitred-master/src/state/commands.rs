//! Commands about a pool's processes, and a replacement that the shell asks for.

use std::time::Instant;

use tracing::Level;

use super::events::{Action, Asker, Notice, Proposal};
use super::generation::Out;
use super::listen_pool::ListenPool;
use super::pool::Pool;
use super::restart::Report;
use super::{Master, Phase, Reload};
use maitred_control::{Command, PoolCommand, ToWorker};

impl Master {
    /// Whether [`Event::Replace`](super::events::Event::Replace) would be followed: nothing else is being replaced.
    pub(crate) fn can_replace(&self) -> bool {
        self.phase == Phase::Up && self.reload.is_none() && self.upgrade.is_none() && self.was_ready
    }

    /// A client of the admin address has sent a command.
    pub(super) fn commanded(&mut self, now: Instant, asker: Asker, command: Command) {
        match command {
            Command::Reload => self.want_reload(Some(asker)),
            Command::Upgrade => self.want_upgrade(now, Some(asker)),
            Command::Pool(name, wanted) => {
                match self.pool_command(now, asker, &name, wanted) {
                    Ok(Some(text)) => self.reply(&[asker], true, &text),
                    // The answer follows when it is done.
                    Ok(None) => {}
                    Err(text) => self.reply(&[asker], false, &text),
                }
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
            // Without canaries there is nothing that could be refused.
            let _ = pool.restart(now, None, None, self.epoch_last);
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
        asker: Asker,
        name: &str,
        wanted: PoolCommand,
    ) -> Result<Option<String>, String> {
        if let Some(answer) = self.listen_pool_command(now, asker, name, &wanted) {
            return answer;
        }
        let last_epoch = self.epoch_last;
        let found = self.pools.iter().position(|pool| pool.is_serving() && pool.pool_name() == name);
        let Some(pool) = found.and_then(|at| self.pools.get_mut(at)) else { return Err(self.no_pool(name)) };
        match wanted {
            PoolCommand::Restart => pool.restart(now, Some(asker), None, last_epoch).map(|()| None),
            PoolCommand::Canary(count) => {
                pool.restart(now, Some(asker), Some(count), last_epoch).map(|()| None)
            }
            PoolCommand::Drain(slot) => pool.drain_slot(now, slot, out!(self)).map(Some),
            PoolCommand::Scale(workers) => pool.scale(now, workers).map(Some),
        }
    }

    /// Tells those that wait for processes to be replaced how far that is.
    pub(super) fn report_restarts(&mut self, now: Instant) {
        let pools = self.pools.iter_mut();
        let mut reports: Vec<_> = pools.filter_map(|pool| pool.report(now, out!(self))).collect();
        let pools = self.listen_pools.iter_mut();
        reports.extend(pools.filter_map(|pool| pool.report(now, out!(self))));
        for (askers, report) in reports {
            match report {
                Report::Over(well, text) => self.reply(&askers, well, &text),
                Report::Waits(text) => {
                    let listens =
                        |to: u64| self.generations.iter().any(|one| one.number == to && one.listens());
                    let told = askers.into_iter().filter(|(to, _)| listens(*to)).collect::<Vec<_>>();
                    let told = told
                        .into_iter()
                        .map(|(to, command)| Action::Send(to, ToWorker::CommandWaits(command, text.clone())));
                    self.actions.extend(told);
                }
            }
        }
    }

    /// Processes are not replaced any more one by one.
    pub(super) fn end_restarts(&mut self, why: &str) {
        let pools = self.pools.iter_mut().flat_map(Pool::end_restart);
        let askers: Vec<Asker> =
            pools.chain(self.listen_pools.iter_mut().flat_map(ListenPool::end_restart)).collect();
        self.reply(&askers, false, why);
    }

    fn no_pool(&self, name: &str) -> String {
        let names = self.pools.iter().filter(|pool| pool.is_serving()).map(Pool::pool_name);
        let names = names.chain(self.listen_pools().map(ListenPool::pool_name));
        let names: Vec<&str> = names.collect();
        let there = if names.is_empty() { "no other" } else { &names.join(", ") };
        format!("there is no pool {name} whose processes this server starts; there is: {there}")
    }
}
