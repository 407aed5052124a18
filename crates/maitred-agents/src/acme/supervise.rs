//! The master's part: the life of the agent, and which processes have to answer which challenge. Pure: the
//! clock comes with each call, actions come out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::messages::{FromAgent, HookCall, Start, ToAgent};
use crate::agents::life::{Life, Step};
use maitred_base::pki::Pair;
use maitred_config::{DnsBy, DnsHook};
use maitred_control::{Answer, Challenge, Report, ToWorker};

/// Challenges under way at a time; more than any agent has, unless it is mad.
pub(crate) const CHALLENGES_MAX: usize = 1024;

/// Something to do, in the order given.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Start an agent with this document. A failure to start it is [`Supervisor::exited`].
    Start(Box<Start>),
    /// End the agent; that it has exited is not to be reported.
    End,
    /// To the agent.
    Tell(ToAgent),
    /// To all worker processes.
    TellWorkers(ToWorker),
    /// The certificate file of the site of this name is new.
    Renewed(String),
    /// Run a hook; how it ends is [`Supervisor::hook_ended`].
    Hook(Hook),
    /// End all hooks; that they have ended is not to be reported.
    EndHooks,
    /// Write to the error log, as an error.
    Log(String),
}

/// A hook to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// The number of the hook, counted over the master's life.
    pub number: u64,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What it gets of the master's environment, as patterns.
    pub env_inherit: Vec<String>,
    /// When it takes longer, it is killed.
    pub timeout: Duration,
}

/// Names on demand that the agent has not answered yet.
pub(crate) const NAMES_MAX: usize = 256;
/// Hooks that run at a time; more than any agent has.
pub(crate) const HOOKS_MAX: usize = 16;

/// A challenge that is under way.
#[derive(Debug)]
struct UnderWay {
    challenge: Challenge,
    /// The worker processes that answer it, by their generations.
    answered_by: BTreeSet<u64>,
    /// Whether the agent has received the message that it is answered.
    told: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Supervisor {
    life: Life<Box<Start>>,
    challenges: BTreeMap<u64, UnderWay>,
    /// The worker process that takes new connections, by its generation.
    current: Option<u64>,
    reports: BTreeMap<String, Report>,
    /// The hooks that run for the present agent, with the numbers that it has given them.
    hooks: BTreeMap<u64, u64>,
    last_hook: u64,
    /// Names that clients have asked for, and that the agent has not answered yet.
    names: BTreeSet<String>,
}

impl Supervisor {
    /// The agent that there shall be from now on, if any.
    pub fn want(&mut self, now: Instant, start: Option<Start>) -> Vec<Action> {
        let steps = self.life.want(now, start.map(Box::new));
        let mut actions = Vec::new();
        for step in steps {
            let ends = step == Step::End;
            actions.push(Action::from(step));
            if ends {
                self.forget(&mut actions);
            }
        }
        if !actions.is_empty() || self.life.wanted().is_none() {
            self.reports.clear();
        }
        actions
    }

    /// The agent has exited, or could not be started.
    pub fn exited(&mut self, now: Instant, how: &str) -> Vec<Action> {
        let Some(delay) = self.life.exited(now) else { return Vec::new() };
        let secs = delay.as_secs();
        let mut actions =
            vec![Action::Log(format!("the process for certificates {how}; the next one starts in {secs} s"))];
        self.forget(&mut actions);
        actions
    }

    /// When to call [`Supervisor::tick`].
    pub fn next_deadline(&self) -> Option<Instant> {
        self.life.next_deadline()
    }

    /// The time that [`Supervisor::next_deadline`] named has come.
    pub fn tick(&mut self, now: Instant) -> Vec<Action> {
        self.life.tick(now).map(Action::from).into_iter().collect()
    }

    /// The agent has sent a message.
    pub fn agent_says(&mut self, message: FromAgent) -> Vec<Action> {
        match message {
            FromAgent::Challenge(_) if self.challenges.len() >= CHALLENGES_MAX => {
                vec![Action::Log(format!("more than {CHALLENGES_MAX} challenges at a time"))]
            }
            FromAgent::Challenge(challenge) => {
                let answered_by = BTreeSet::new();
                let new = UnderWay { challenge: challenge.clone(), answered_by, told: false };
                self.challenges.insert(challenge.serial, new);
                vec![Action::TellWorkers(ToWorker::Challenge(challenge.for_worker()))]
            }
            FromAgent::Over(serial) => match self.challenges.remove(&serial) {
                Some(_) => vec![Action::TellWorkers(ToWorker::ChallengeOver(serial))],
                None => Vec::new(),
            },
            FromAgent::Certificate(site) => {
                self.names.remove(&site);
                vec![Action::Renewed(site)]
            }
            FromAgent::NameRefused(name) => match self.names.remove(&name) {
                true => vec![Action::TellWorkers(ToWorker::NameRefused(name))],
                false => Vec::new(),
            },
            FromAgent::NameLater(name) => match self.names.remove(&name) {
                true => vec![Action::TellWorkers(ToWorker::NameLater(name))],
                false => Vec::new(),
            },
            FromAgent::Report(report) => {
                self.reports.insert(report.name.clone(), report.clone());
                vec![Action::TellWorkers(ToWorker::CertificateReport(report))]
            }
            FromAgent::Hook(serial, call) => vec![match self.hook(&call) {
                Ok(hook) => {
                    self.hooks.insert(hook.number, serial);
                    Action::Hook(hook)
                }
                Err(why) => Action::Tell(ToAgent::HookDone(serial, Some(why.to_owned()))),
            }],
        }
    }

    /// A client has asked for this name, which may have a certificate on demand. Where nothing is done about it, the worker
    /// process says it again when another client asks.
    pub fn name_wanted(&mut self, name: String) -> Vec<Action> {
        let on_demand = self.life.wanted().is_some_and(|start| !start.on_demand.is_empty());
        if !self.life.is_running() || !on_demand || self.names.len() >= NAMES_MAX || name.len() > 253 {
            // Handshakes must not wait for what is not done.
            return vec![Action::TellWorkers(ToWorker::NameLater(name))];
        }
        match self.names.insert(name.clone()) {
            true => vec![Action::Tell(ToAgent::Wanted(name))],
            false => Vec::new(),
        }
    }

    /// A hook has ended, or could not be started.
    pub fn hook_ended(&mut self, number: u64, outcome: Result<(), String>) -> Vec<Action> {
        let serial = self.hooks.remove(&number);
        serial.map(|serial| Action::Tell(ToAgent::HookDone(serial, outcome.err()))).into_iter().collect()
    }

    /// What is to be run. The agent reads what comes from the network: it says for which name, and nothing else. Names that are
    /// removed may be of sites that the configuration does not have any more.
    fn hook(&mut self, call: &HookCall) -> Result<Hook, &'static str> {
        if !call.is_plain() {
            return Err("it has not the form of a challenge");
        }
        if self.hooks.len() >= HOOKS_MAX {
            return Err("too many hooks at a time");
        }
        let start = self.life.wanted().ok_or("no agent is wanted")?;
        let name = call.name.strip_prefix(HookCall::PREFIX).unwrap_or_default();
        let is_site = |known: &String| known.strip_prefix("*.").unwrap_or(known) == name;
        if call.add && !start.sites.iter().any(|site| site.names.iter().any(is_site)) {
            return Err("no site has this name");
        }
        let dns = start.acme.dns_for(name).ok_or("no hook is configured for it")?;
        let DnsBy::Hook(DnsHook { command, env_inherit }) = &dns.by else {
            return Err("no hook is configured for it");
        };
        let (mut command, env_inherit) = (command.clone(), env_inherit.clone());
        let word = if call.add { "add" } else { "remove" };
        command.extend([word.to_owned(), call.name.clone(), call.text.clone()]);
        self.last_hook += 1;
        Ok(Hook { number: self.last_hook, command, env_inherit, timeout: dns.timeout })
    }

    /// The worker process of this generation answers this challenge from now on.
    pub fn in_place(&mut self, generation: u64, serial: u64) -> Vec<Action> {
        if let Some(under_way) = self.challenges.get_mut(&serial) {
            under_way.answered_by.insert(generation);
        }
        self.tell()
    }

    /// A worker process of this generation is being started: what it has to answer from its first connection on.
    pub fn worker_starts(&mut self, generation: u64) -> Vec<Challenge> {
        let all = self.challenges.values_mut();
        all.map(|under_way| {
            under_way.answered_by.insert(generation);
            under_way.challenge.for_worker()
        })
        .collect()
    }

    /// The worker process of this generation takes the new connections from now on.
    pub fn worker_is_current(&mut self, generation: Option<u64>) -> Vec<Action> {
        self.current = generation;
        self.tell()
    }

    /// The certificates that answer TLS-ALPN-01, by the name that is validated.
    pub fn pairs(&self) -> Vec<(String, Pair)> {
        let pair = |under_way: &UnderWay| match &under_way.challenge.answer {
            Answer::TlsAlpn(pair) => Some((under_way.challenge.name.clone(), pair.clone())),
            _ => None,
        };
        self.challenges.values().filter_map(pair).collect()
    }

    /// How the sites stand, as a worker process that is started now has to know it.
    pub fn reports(&self) -> Vec<Report> {
        self.reports.values().cloned().collect()
    }

    /// Says what is answered where new connections go.
    fn tell(&mut self) -> Vec<Action> {
        let Some(current) = self.current else { return Vec::new() };
        let news = self.challenges.iter_mut();
        let news = news.filter(|(_, one)| !one.told && one.answered_by.contains(&current));
        news.map(|(serial, one)| {
            one.told = true;
            Action::Tell(ToAgent::InPlace(*serial))
        })
        .collect()
    }

    /// The present challenges are not waited for any more.
    fn forget(&mut self, actions: &mut Vec<Action>) {
        let serials = std::mem::take(&mut self.challenges).into_keys();
        actions.extend(serials.map(|serial| Action::TellWorkers(ToWorker::ChallengeOver(serial))));
        let names = std::mem::take(&mut self.names).into_iter();
        actions.extend(names.map(|name| Action::TellWorkers(ToWorker::NameLater(name))));
        if !std::mem::take(&mut self.hooks).is_empty() {
            actions.push(Action::EndHooks);
        }
    }
}

impl From<Step<Box<Start>>> for Action {
    fn from(step: Step<Box<Start>>) -> Action {
        match step {
            Step::End => Action::End,
            Step::Start(start) => Action::Start(start),
        }
    }
}

#[cfg(test)]
mod tests;
