//! The servers of pools: commands about them, and the lists that worker processes get.

use std::collections::BTreeMap;

use maitred_sys::memfile;

use super::Shell;
use crate::config::Pool;
use crate::control::servers::{ServerEntry, UpstreamCommand};
use crate::control::{Document, Start, ToWorker};
use crate::master::endpoints::Endpoints;

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
                self.spread_servers();
                self.answer(asker, true, text);
            }
            Err(why) => self.answer(asker, false, why),
        }
    }

    /// Gives each worker process the servers of its pools, where they are others than those that it has.
    pub(super) fn spread_servers(&mut self) {
        for worker in self.workers.values_mut() {
            let Some(prepared) = self.plans.get(&worker.plan) else { continue };
            for pool in &prepared.config.pools {
                let Some(list) = changed(&self.endpoints, pool, worker.servers.get(&pool.name)) else {
                    continue;
                };
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

    fn answer(&mut self, (generation, number): (u64, u64), well: bool, text: String) {
        if let Some(worker) = self.workers.get_mut(&generation) {
            worker.channel.send(&ToWorker::CommandDone(number, well, text), None);
        }
    }

    fn answer_with(&mut self, asker: (u64, u64), document: &Document) {
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
        None => ServerEntry::configured(pool)?.iter().eq(now.iter()),
    };
    (!same).then_some(now)
}

fn has_servers(pool: &&Pool) -> bool {
    pool.source.servers().is_some()
}

fn pool_name(pool: &Pool) -> &str {
    &pool.name
}
