//! The keys of tokens: the process that fetches them, and files that change while the server runs.

use std::time::Instant;

use maitred_sys::memfile;

use super::{Shell, exited, log_failure};
use crate::agent::Agent;
use crate::key_files::{Content, KeyFiles};
use maitred_agents::key_agent::messages::{MESSAGE_BYTES_MAX, Start};
use maitred_agents::key_agent::supervise::Action;
use maitred_base::jwt::keys::Key;
use maitred_config::{Config, KeySource, UrlKeys};
use maitred_control::ToWorker;

impl Shell<'_> {
    /// Has the key agent that the configuration in force asks for, and watches its files.
    pub(super) fn want_keys(&mut self) {
        let prepared = self.plan_present.and_then(|number| self.plans.get(&number));
        let start = prepared.and_then(|prepared| start_document(&prepared.config));
        self.key_files = prepared.map(|prepared| KeyFiles::new(&prepared.config)).unwrap_or_default();
        let actions = self.key_supervisor.want(Instant::now(), start);
        self.carry_out_keys(actions);
    }

    /// The server stops: nothing is fetched any more.
    pub(super) fn end_keys(&mut self) {
        let actions = self.key_supervisor.want(Instant::now(), None);
        self.carry_out_keys(actions);
    }

    /// Takes what the key agent says, and looks at files when that is due.
    pub(super) fn take_keys(&mut self) {
        let agent = self.key_agent.as_mut();
        let messages = agent
            .map(|agent| agent.exchange(MESSAGE_BYTES_MAX, "the process that fetches keys"))
            .unwrap_or_default();
        for message in messages {
            let actions = self.key_supervisor.agent_says(message);
            self.carry_out_keys(actions);
        }
        if let Some((_, how)) = self.key_agent.as_ref().and_then(|agent| exited(&agent.child)) {
            self.key_agent = None;
            let actions = self.key_supervisor.exited(Instant::now(), &how);
            self.carry_out_keys(actions);
        }
        let actions = self.key_supervisor.tick(Instant::now());
        self.carry_out_keys(actions);
        self.look_at_key_files();
    }

    /// A worker process has been shown a token by a key that a set has not.
    pub(super) fn key_wanted(&mut self, generation: u64, set: usize) {
        let plan = self.workers.get(&generation).and_then(|worker| self.plans.get(&worker.plan));
        let source = plan.and_then(|plan| plan.config.key_sets.get(set)).map(|set| &set.source);
        if let Some(KeySource::Url(source)) = source {
            let actions = self.key_supervisor.key_wanted(source);
            self.carry_out_keys(actions);
        }
    }

    /// What was fetched of the sets of a configuration that a worker process is started with.
    pub(super) fn fill_keys(&self, config: &mut Config) {
        for set in &mut config.key_sets {
            if let KeySource::Url(source) = &set.source {
                set.keys = self.key_supervisor.keys(source).to_vec();
            }
        }
    }

    fn look_at_key_files(&mut self) {
        let now = Instant::now();
        if self.key_files.next_look().is_none_or(|due| due > now) {
            return;
        }
        let Some(number) = self.plan_present else { return };
        for content in self.key_files.look(now) {
            let Some(prepared) = self.plans.get_mut(&number) else { continue };
            match content {
                Content::Keys(index, keys) => {
                    let known = prepared.config.key_sets.get_mut(index).map(|set| &mut set.keys);
                    let Some(known) = known.filter(|known| **known != keys) else { continue };
                    known.clone_from(&keys);
                    tracing::info!("a file with keys for tokens has changed, and is in use");
                    self.spread_keys(number, index, &keys);
                }
                Content::Users(index, users) => {
                    let Some(file) = prepared.config.users_files.get_mut(index) else { continue };
                    if file.users != users {
                        tracing::info!(
                            "{} has changed, and is in use: {} users",
                            file.path.display(),
                            users.len()
                        );
                        file.users.clone_from(&users);
                        self.spread(number, &ToWorker::Users(index), serde_json::to_vec(&users).ok());
                    }
                }
            }
        }
    }

    fn carry_out_keys(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Start(start) => self.start_key_agent(&start),
                Action::End => {
                    if let Some(agent) = self.key_agent.take() {
                        log_failure("ending the process that fetches keys", agent.child.kill());
                        self.ended_children.push(agent.child);
                    }
                }
                Action::Tell(message) => self.key_agent.iter_mut().for_each(|agent| agent.send(&message)),
                Action::Changed(source) => self.spread_fetched(&source),
                Action::Log(text) => tracing::error!("{text}"),
            }
        }
    }

    fn start_key_agent(&mut self, start: &Start) {
        let prepared = self.plan_present.and_then(|number| self.plans.get(&number));
        let Some(prepared) = prepared else { return };
        match Agent::start_keys(prepared, start) {
            Ok(agent) => self.key_agent = Some(agent),
            Err(error) => {
                let how = format!("could not be started: {error}");
                let actions = self.key_supervisor.exited(Instant::now(), &how);
                self.carry_out_keys(actions);
            }
        }
    }

    /// Gives keys that were fetched to all worker processes with a gate that names their URL.
    fn spread_fetched(&mut self, source: &UrlKeys) {
        let keys = self.key_supervisor.keys(source).to_vec();
        let is_it = |of: &KeySource| matches!(of, KeySource::Url(url) if url == source);
        let sets = self.plans.iter().flat_map(|(number, plan)| {
            let sets = plan.config.key_sets.iter().enumerate().filter(|(_, set)| is_it(&set.source));
            sets.map(|(index, _)| (*number, index))
        });
        let sets: Vec<(u64, usize)> = sets.collect();
        sets.into_iter().for_each(|(plan, index)| self.spread_keys(plan, index, &keys));
    }

    /// Gives the keys of a set to the worker processes that run by this configuration.
    fn spread_keys(&mut self, plan: u64, set: usize, keys: &[Key]) {
        self.spread(plan, &ToWorker::KeySet(set), serde_json::to_vec(keys).ok());
    }

    /// Sends a message with a memory file to the worker processes that run by this configuration.
    fn spread(&mut self, plan: u64, message: &ToWorker, text: Option<Vec<u8>>) {
        let Some(text) = text else { return };
        for worker in self.workers.values_mut().filter(|worker| worker.plan == plan) {
            match memfile::sealed("maitred-keys", &text) {
                Ok(file) => worker.channel.send(message, Some(file)),
                Err(error) => {
                    tracing::error!(%error, "what has changed in a file cannot be sent to the worker process");
                }
            }
        }
    }
}

/// What is sent to the key agent for a configuration; `None` if no gate names a URL.
fn start_document(config: &Config) -> Option<Start> {
    let url = |source: &KeySource| match source {
        KeySource::Url(url) => Some(url.clone()),
        KeySource::File(_) => None,
    };
    let sources: Vec<UrlKeys> = config.key_sets.iter().filter_map(|set| url(&set.source)).collect();
    let (log_level, seccomp) = (config.log.level.clone(), config.server.seccomp);
    (!sources.is_empty()).then_some(Start { sources, log_level, seccomp })
}
