//! Where servers of pools come from while the server runs: the process that resolves names, and files.

use std::time::Instant;

use super::{Shell, exited, log_failure};
use crate::agent::Agent;
use crate::endpoint_files::EndpointFiles;
use maitred_agents::agents::life::Step;
use maitred_agents::names::messages::{FromAgent, MESSAGE_BYTES_MAX, Start};
use maitred_config::{Config, Query};

impl Shell<'_> {
    /// Has the names agent that there shall be, and watches files: of the configuration in force, of one that is about to be, and
    /// of those that worker processes still have.
    pub(super) fn want_names(&mut self) {
        let configs = || self.plans.values().map(|plan| &plan.config);
        let start = start_document(configs());
        self.endpoint_files = EndpointFiles::new(configs());
        let steps = self.names.want(Instant::now(), start);
        steps.into_iter().for_each(|step| self.step_names(step));
        self.look_at_endpoint_files();
        // Commands and names may have changed since the worker process was started.
        self.spread_servers();
    }

    /// The server stops: nothing is resolved any more.
    pub(super) fn end_names(&mut self) {
        let steps = self.names.want(Instant::now(), None);
        steps.into_iter().for_each(|step| self.step_names(step));
    }

    /// Takes what the names agent says, and looks at files when that is due.
    pub(super) fn take_names(&mut self) {
        let agent = self.names_agent.as_mut();
        let messages: Vec<FromAgent> = agent
            .map(|agent| agent.exchange(MESSAGE_BYTES_MAX, "the process that resolves names"))
            .unwrap_or_default();
        let mut news = false;
        for FromAgent::Found(index, found) in messages {
            let query = self.names.wanted().and_then(|start| start.queries.get(index)).cloned();
            news |= query.is_some_and(|query| self.endpoints.resolved(&query, found));
        }
        if news {
            self.servers_changed();
        }
        if let Some((_, how)) = self.names_agent.as_ref().and_then(|agent| exited(&agent.child)) {
            self.names_agent = None;
            self.names_exited(&how);
        }
        if let Some(step) = self.names.tick(Instant::now()) {
            self.step_names(step);
        }
        self.look_at_endpoint_files();
    }

    fn look_at_endpoint_files(&mut self) {
        let now = Instant::now();
        if self.endpoint_files.next_look(now).is_none_or(|due| due > now) {
            return;
        }
        let mut news = false;
        for (path, servers) in self.endpoint_files.look(now) {
            let count = servers.len();
            if self.endpoints.read(&path, servers) {
                tracing::info!("{} has {count} servers", path.display());
                news = true;
            }
        }
        if news {
            self.servers_changed();
        }
    }

    fn step_names(&mut self, step: Step<Start>) {
        match step {
            Step::End => {
                if let Some(agent) = self.names_agent.take() {
                    log_failure("ending the process that resolves names", agent.child.kill());
                    self.ended_children.push(agent.child);
                }
            }
            Step::Start(start) => {
                let prepared = self.plan_present.and_then(|number| self.plans.get(&number));
                let Some(prepared) = prepared else { return };
                match Agent::start_names(prepared, &start) {
                    Ok(agent) => self.names_agent = Some(agent),
                    Err(error) => self.names_exited(&format!("could not be started: {error}")),
                }
            }
        }
    }

    fn names_exited(&mut self, how: &str) {
        if let Some(delay) = self.names.exited(Instant::now()) {
            let secs = delay.as_secs();
            tracing::error!("the process that resolves names {how}; the next one starts in {secs} s");
        }
    }
}

/// What is sent to the names agent for configurations, the newest last; `None` if no pool has names to resolve.
fn start_document<'a>(configs: impl Iterator<Item = &'a Config> + Clone) -> Option<Start> {
    let config = configs.clone().last()?;
    let names = configs.flat_map(|config| &config.pools).flat_map(|pool| &pool.discovery.names);
    let mut queries: Vec<Query> = names.map(|name| name.query.clone()).collect();
    queries.sort();
    queries.dedup();
    let (resolver, log_level) = (config.server.resolver.clone(), config.log.level.clone());
    (!queries.is_empty()).then_some(Start { queries, resolver, log_level, seccomp: config.server.seccomp })
}
