//! The process that checks servers: when there is one, what it is told, and what it says.

use std::time::Instant;

use super::{Shell, exited, log_failure};
use crate::agent::Agent;
use crate::prepare::Prepared;
use maitred_agents::agents::life::Step;
use maitred_agents::checks::messages::{
    Checked, FromAgent, MESSAGE_BYTES_MAX, PART_MAX, Start, Target, ToAgent,
};
use maitred_config::Pool;

impl Shell<'_> {
    /// Has the agent that there shall be: by the newest configuration, which may be about to be in force.
    pub(super) fn want_checks(&mut self) {
        let start = self.plans.values().last().and_then(start_document);
        self.checks.is_due = true;
        let steps = self.checks.life.want(Instant::now(), start);
        steps.into_iter().for_each(|step| self.step_checks(step));
    }

    /// The server stops: nothing is checked any more.
    pub(super) fn end_checks(&mut self) {
        let steps = self.checks.life.want(Instant::now(), None);
        steps.into_iter().for_each(|step| self.step_checks(step));
    }

    /// Takes what the agent says, and tells it what is new.
    pub(super) fn take_checks(&mut self) {
        let agent = self.checks.agent.as_mut();
        let messages: Vec<FromAgent> = agent
            .map(|agent| agent.exchange(MESSAGE_BYTES_MAX, "the process that checks servers"))
            .unwrap_or_default();
        let mut news = false;
        for FromAgent::Checked { pool, address, why } in messages {
            let name = self.checks.life.wanted().and_then(|start| Some(&start.pools.get(pool)?.name));
            let pools = self.plans.values().rev().flat_map(|plan| &plan.config.pools);
            let pool = name.and_then(|name| pools.into_iter().find(|pool| pool.name == *name));
            news |= pool.is_some_and(|pool| self.endpoints.checked(pool, &address, why));
        }
        if news {
            self.servers_changed();
        }
        if let Some((_, how)) = self.checks.agent.as_ref().and_then(|agent| exited(&agent.child)) {
            self.checks.agent = None;
            self.checks_exited(&how);
        }
        if let Some(step) = self.checks.life.tick(Instant::now()) {
            self.step_checks(step);
        }
        self.tell_checks();
    }

    /// Tells the agent which servers there are. While it has not taken what it was told before, that waits: the next list has
    /// everything.
    fn tell_checks(&mut self) {
        let Some(start) = self.checks.life.wanted().filter(|_| self.checks.is_due) else { return };
        let Some(agent) = self.checks.agent.as_mut().filter(|agent| !agent.is_full()) else { return };
        let Some(prepared) = self.plans.values().last() else { return };
        self.checks.sent.resize(start.pools.len(), Vec::new());
        for (number, (checked, sent)) in start.pools.iter().zip(&mut self.checks.sent).enumerate() {
            let Some(pool) = prepared.config.pools.iter().find(|pool| pool.name == checked.name) else {
                continue;
            };
            self.endpoints.forget_gone(pool);
            let servers: Vec<(Target, bool)> = self
                .endpoints
                .servers(pool)
                .unwrap_or_default()
                .into_iter()
                .map(|(server, _)| (Target { address: server.address, name: server.name }, !server.unwell))
                .collect();
            let targets: Vec<Target> = servers.iter().map(|(target, _)| target.clone()).collect();
            if targets == *sent {
                continue;
            }
            let parts = servers.len().div_ceil(PART_MAX).max(1);
            for part in 0..parts {
                let servers = servers.iter().skip(part * PART_MAX).take(PART_MAX).cloned().collect();
                agent.send(&ToAgent::Servers { pool: number, servers, goes_on: part + 1 < parts });
            }
            *sent = targets;
        }
        self.checks.is_due = false;
    }

    fn step_checks(&mut self, step: Step<Start>) {
        match step {
            Step::End => {
                if let Some(agent) = self.checks.agent.take() {
                    log_failure("ending the process that checks servers", agent.child.kill());
                    self.ended_children.push(agent.child);
                }
            }
            Step::Start(start) => {
                let present = self.plan_present.and_then(|number| self.plans.get(&number));
                let Some(prepared) = present.or(self.plans.values().last()) else { return };
                (self.checks.sent, self.checks.is_due) = (Vec::new(), true);
                match Agent::start_checks(prepared, &start) {
                    Ok(agent) => self.checks.agent = Some(agent),
                    Err(error) => self.checks_exited(&format!("could not be started: {error}")),
                }
            }
        }
    }

    fn checks_exited(&mut self, how: &str) {
        if let Some(delay) = self.checks.life.exited(Instant::now()) {
            let secs = delay.as_secs();
            tracing::error!("the process that checks servers {how}; the next one starts in {secs} s");
        }
    }
}

/// What the agent is sent for a configuration; `None` if no pool has `health`.
fn start_document(prepared: &Prepared) -> Option<Start> {
    let config = &prepared.config;
    let pools = config.pools.iter().enumerate();
    let pools: Vec<Checked> = pools.filter_map(|(number, pool)| checked(prepared, number, pool)).collect();
    let (log_level, seccomp) = (config.log.level.clone(), config.server.seccomp);
    (!pools.is_empty()).then_some(Start { pools, log_level, seccomp })
}

fn checked(prepared: &Prepared, number: usize, pool: &Pool) -> Option<Checked> {
    let health = pool.health.clone()?;
    let material = prepared.tls.as_ref().and_then(|tls| tls.material.upstreams.get(number)?.as_ref());
    let tls = pool.tls.clone().zip(material).map(|(settings, material)| {
        let own = material.without_system_roots(&settings);
        (settings, own)
    });
    let proxy_protocol = pool.external.proxy_protocol;
    Some(Checked { name: pool.name.clone(), health, http2: pool.http2, proxy_protocol, tls })
}
