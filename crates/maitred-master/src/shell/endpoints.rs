//! The servers of pools: commands about them, and the lists that worker processes get.

use std::collections::BTreeMap;

use maitred_sys::memfile;

use super::Shell;
use crate::endpoints::Endpoints;
use crate::state::events::Event;
use maitred_config::Pool;
use maitred_control::servers::{ServerEntry, UpstreamCommand};
use maitred_control::{Document, Start, ToWorker};

impl Shell<'_> {
    /// Carries out what a client asks about the servers of a pool; `asker` is the worker process and the number of the command.
    pub(super) fn upstream_command(&mut self, asker: (u64, u64), name: &str, command: UpstreamCommand) {
        let asks = command == UpstreamCommand::List;
        let present = self.plan_present.and_then(|number| self.plans.get(&number));
        let pools = present.map(|plan| plan.config.pools.as_slice()).unwrap_or_default();
        let Some(pool) = pools.iter().find(|pool| pool.name == name) else {
            let there: Vec<&str> = pools.iter().filter(has_servers).map(pool_name).collect();
            let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
            return self.answer(
                asker,
                false,
                format!("there is no pool {name}; with servers there is: {there}"),
            );
        };
        match self.endpoints.command(pool, command) {
            Ok(_) if asks => {
                let shown = self.endpoints.shown(pool).unwrap_or_default();
                self.answer_with(asker, &Document::json(&shown));
            }
            Ok(text) => {
                tracing::info!("{text}");
                self.servers_changed();
                self.answer(asker, true, text);
            }
            Err(why) => self.answer(asker, false, why),
        }
    }

    /// Something is known of servers that was not known before.
    pub(super) fn servers_changed(&mut self) {
        self.replaced = None;
        self.checks.servers_changed();
        self.spread_servers();
    }

    /// Gives each worker process the servers of its pools, where they are others than those that it has. A worker process that
    /// may not connect to all of them keeps those that it has: requests to the others would fail, and the one that takes over
    /// begins with them.
    pub(super) fn spread_servers(&mut self) {
        for worker in self.workers.values_mut() {
            let Some(prepared) = self.plans.get(&worker.plan) else { continue };
            worker.is_confined = false;
            for pool in &prepared.config.pools {
                let Some(list) = changed(&self.endpoints, pool, worker.servers.get(&pool.name)) else {
                    continue;
                };
                let mut ports = list.iter().filter_map(|server| server.address.port());
                if !ports.all(|port| worker.ports.contains(&port)) {
                    worker.is_confined = true;
                    continue;
                }
                let Some(sent) = self.endpoints.list(pool) else { continue };
                match sent.seal() {
                    Ok(file) => {
                        worker.channel.send(&ToWorker::Servers, Some(file));
                        worker.servers.insert(pool.name.clone(), list);
                    }
                    Err(error) => tracing::error!(%error, "servers cannot be sent to the worker process"),
                }
            }
        }
    }

    /// Has the worker process replaced if a server has a port that it may not connect to (`maitred_worker::sandbox`): that cannot
    /// be changed while it runs. Once for each change: a new worker process that does not come up leaves the present one.
    pub(super) fn replace_confined(&mut self) {
        let current = self.machine.current().filter(|current| self.replaced != Some(*current));
        let is_confined = |generation| self.workers.get(&generation).is_some_and(|worker| worker.is_confined);
        let Some(generation) = current.filter(|current| is_confined(*current)) else { return };
        if !self.machine.can_replace() {
            return;
        }
        tracing::info!(
            "a server has a port that the worker process may not connect to: another one takes over"
        );
        self.replaced = Some(generation);
        self.events.push_back(Event::Replace);
    }

    fn answer(&mut self, (generation, number): (u64, u64), well: bool, text: String) {
        if let Some(worker) = self.workers.get_mut(&generation) {
            worker.channel.send(&ToWorker::CommandDone(number, well, text), None);
        }
    }

    pub(super) fn answer_with(&mut self, asker: (u64, u64), document: &Document) {
        let text = serde_json::to_vec(document).map_err(std::io::Error::from);
        match text.and_then(|text| memfile::sealed("maitred-answer", &text)) {
            Ok(file) => {
                if let Some(worker) = self.workers.get_mut(&asker.0) {
                    worker.channel.send(&ToWorker::CommandDocument(asker.1), Some(file));
                }
            }
            Err(error) => self.answer(asker, false, format!("the answer cannot be written: {error}")),
        }
    }
}

/// The servers that a new worker process begins with, where they are others than its configuration's. Gives back what it knows
/// then.
pub(super) fn first_servers(
    endpoints: &mut Endpoints,
    start: &mut Start,
) -> BTreeMap<String, Vec<ServerEntry>> {
    let mut known = BTreeMap::new();
    for pool in &start.config.pools {
        if let Some(list) = changed(endpoints, pool, None) {
            start.servers.extend(endpoints.list(pool));
            known.insert(pool.name.clone(), list);
        }
    }
    known
}

/// The servers of a pool, if they are others than those that were sent, or else than the configuration's.
fn changed(endpoints: &Endpoints, pool: &Pool, sent: Option<&Vec<ServerEntry>>) -> Option<Vec<ServerEntry>> {
    let now: Vec<ServerEntry> = endpoints.servers(pool)?.into_iter().map(|(server, _)| server).collect();
    let same = match sent {
        Some(sent) => *sent == now,
        None => ServerEntry::configured(pool)? == now,
    };
    (!same).then_some(now)
}

fn has_servers(pool: &&Pool) -> bool {
    pool.source.servers().is_some()
}

fn pool_name(pool: &Pool) -> &str {
    &pool.name
}
