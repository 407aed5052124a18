//! The agent that gets certificates: its process, and what it says, between [`maitred_agents::acme::supervise`] and the system.

use std::time::Instant;

use super::{Shell, exited, log_failure};
use crate::agent::{Agent, start_document};
use maitred_agents::acme::messages::{MESSAGE_BYTES_MAX, Start};
use maitred_agents::acme::supervise::Action;
use maitred_control::ToWorker;

impl Shell<'_> {
    /// Has the agent that the configuration in force asks for.
    pub(super) fn want_agent(&mut self) {
        let prepared = self.plan_present.and_then(|number| self.plans.get(&number));
        let start = prepared.and_then(|prepared| start_document(&prepared.config));
        let actions = self.supervisor.want(Instant::now(), start);
        self.carry_out_certificates(actions);
    }

    /// The server stops: the agent that gets certificates is not waited for.
    pub(super) fn end_agent(&mut self) {
        let actions = self.supervisor.want(Instant::now(), None);
        self.carry_out_certificates(actions);
    }

    /// Takes what the agent says.
    pub(super) fn take_agent(&mut self) {
        let agent = self.agent.as_mut();
        let messages = agent
            .map(|agent| agent.exchange(MESSAGE_BYTES_MAX, "the process for certificates"))
            .unwrap_or_default();
        for message in messages {
            let actions = self.supervisor.agent_says(message);
            self.carry_out_certificates(actions);
        }
        if let Some((_, how)) = self.agent.as_ref().and_then(|agent| exited(&agent.child)) {
            self.agent = None;
            let actions = self.supervisor.exited(Instant::now(), &how);
            self.carry_out_certificates(actions);
        }
        self.ended_children.retain(|child| exited(child).is_none());
        let actions = self.take_hooks();
        self.carry_out_certificates(actions);
        let actions = self.supervisor.tick(Instant::now());
        self.carry_out_certificates(actions);
    }

    /// A worker process says that it answers a challenge.
    pub(super) fn challenge_in_place(&mut self, generation: u64, serial: u64) {
        let actions = self.supervisor.in_place(generation, serial);
        self.carry_out_certificates(actions);
    }

    /// A client has asked a worker process for a name without a certificate.
    pub(super) fn name_wanted(&mut self, name: String) {
        let actions = self.supervisor.name_wanted(name);
        self.carry_out_certificates(actions);
    }

    /// Looks whether another worker process takes the new connections now.
    pub(super) fn watch_current(&mut self) {
        let current = self.machine.current();
        let actions = self.supervisor.worker_is_current(current);
        self.carry_out_certificates(actions);
    }

    fn carry_out_certificates(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Start(start) => self.start_agent(&start),
                Action::End => {
                    if let Some(agent) = self.agent.take() {
                        // The agent's files are whole at any moment.
                        log_failure("ending the process for certificates", agent.child.kill());
                        self.ended_children.push(agent.child);
                    }
                }
                Action::Tell(message) => self.agent.iter_mut().for_each(|agent| agent.send(&message)),
                Action::TellWorkers(message) => {
                    self.spread_challenges();
                    self.workers.values_mut().for_each(|worker| worker.channel.send(&message, None));
                }
                Action::Renewed(_) => self.look_again(),
                Action::Hook(hook) => {
                    let actions = self.start_hook(&hook);
                    self.carry_out_certificates(actions);
                }
                Action::EndHooks => self.end_hooks(),
                Action::Log(text) => tracing::error!("{text}"),
            }
        }
    }

    /// Gives the certificates that answer challenges to all worker processes, unless they have them.
    fn spread_challenges(&mut self) {
        let pairs = self.supervisor.pairs();
        for worker in self.workers.values_mut() {
            let Some(tls) = self.plans.get_mut(&worker.plan).and_then(|plan| plan.tls.as_mut()) else {
                continue;
            };
            // A worker process that has not been given keys yet gets these with them.
            if worker.challenges.as_ref().is_none_or(|known| *known == pairs) {
                continue;
            }
            tls.material.challenges.clone_from(&pairs);
            match tls.seal(&self.around) {
                Ok(file) => {
                    worker.channel.send(&ToWorker::Certificates, Some(file));
                    worker.challenges = Some(pairs.clone());
                }
                Err(error) => tracing::error!(%error, "a challenge cannot be sent to the worker process"),
            }
        }
    }

    fn start_agent(&mut self, start: &Start) {
        let prepared = self.plan_present.and_then(|number| self.plans.get(&number));
        let Some(prepared) = prepared else { return };
        match Agent::start(prepared, start) {
            Ok(agent) => self.agent = Some(agent),
            Err(error) => {
                let how = format!("could not be started: {error}");
                let actions = self.supervisor.exited(Instant::now(), &how);
                self.carry_out_certificates(actions);
            }
        }
    }
}
