//! The master's part: the life of the key agent, and the keys that it has sent. Pure: the clock comes with each call, actions
//! come out.
//!
//! Keys stay over the end of an agent, and over a reload for as long as a gate names their URL.

use std::time::{Duration, Instant};

use super::messages::{FromAgent, Start, ToAgent};
use crate::backoff::{Backoff, Rules};
use crate::config::UrlKeys;
use crate::jwt::keys::{KEYS_MAX, Key};

/// As that of the agent for certificates.
const AGENT: Rules = Rules {
    free: 0,
    first: Duration::from_secs(1),
    max: Duration::from_secs(5 * 60),
    long_life: Duration::from_secs(60),
};

/// Something to do, in the order given.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Start an agent with this document. That it could not be started is [`Supervisor::exited`].
    Start(Start),
    /// End the agent; that it has exited is not to be reported.
    End,
    /// To the agent.
    Tell(ToAgent),
    /// The keys of this source are others now.
    Changed(UrlKeys),
    /// Write to the error log, as an error.
    Log(String),
}

/// See the module.
#[derive(Debug, Default)]
pub struct Supervisor {
    wanted: Option<Start>,
    /// When the present agent was started.
    running: Option<Instant>,
    start_at: Option<Instant>,
    backoff: Backoff,
    keys: Vec<(UrlKeys, Vec<Key>)>,
}

impl Supervisor {
    /// The agent that there shall be from now on, if any.
    pub fn want(&mut self, now: Instant, start: Option<Start>) -> Vec<Action> {
        if self.wanted == start {
            return Vec::new();
        }
        let mut actions = Vec::new();
        if self.running.take().is_some() {
            actions.push(Action::End);
        }
        let sources = start.as_ref().map_or(&[][..], |start| &start.sources);
        self.keys.retain(|(source, _)| sources.contains(source));
        (self.wanted, self.start_at) = (start, None);
        self.begin(now, &mut actions);
        actions
    }

    /// The agent has exited, or could not be started.
    pub fn exited(&mut self, now: Instant, how: &str) -> Vec<Action> {
        let Some(since) = self.running.take() else { return Vec::new() };
        let delay = self.backoff.died(now.saturating_duration_since(since), &AGENT);
        self.start_at = Some(now + delay);
        let secs = delay.as_secs();
        vec![Action::Log(format!("the process that fetches keys {how}; the next one starts in {secs} s"))]
    }

    /// When to call [`Supervisor::tick`].
    pub fn next_deadline(&self) -> Option<Instant> {
        self.start_at
    }

    /// The time that [`Supervisor::next_deadline`] named has come.
    pub fn tick(&mut self, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.start_at.is_some_and(|at| at <= now) {
            self.start_at = None;
            self.begin(now, &mut actions);
        }
        actions
    }

    /// The agent has sent a message.
    pub fn agent_says(&mut self, message: FromAgent) -> Vec<Action> {
        let FromAgent::Keys(index, mut keys) = message;
        let source = self.wanted.as_ref().and_then(|start| start.sources.get(index)).cloned();
        let Some(source) = source else { return Vec::new() };
        keys.truncate(KEYS_MAX);
        match self.keys.iter_mut().find(|(known, _)| *known == source) {
            Some((_, known)) if *known == keys => return Vec::new(),
            Some((_, known)) => *known = keys,
            None => self.keys.push((source.clone(), keys)),
        }
        vec![Action::Changed(source)]
    }

    /// A worker process has been shown a token by a key that this source has not.
    pub fn key_wanted(&self, source: &UrlKeys) -> Vec<Action> {
        let sources = self.wanted.as_ref().map_or(&[][..], |start| &start.sources);
        let index = sources.iter().position(|known| known == source);
        index
            .filter(|_| self.running.is_some())
            .map(|index| Action::Tell(ToAgent::Wanted(index)))
            .into_iter()
            .collect()
    }

    /// The keys of a source; none if they were not fetched yet.
    pub fn keys(&self, source: &UrlKeys) -> &[Key] {
        self.keys.iter().find(|(known, _)| known == source).map_or(&[], |(_, keys)| keys)
    }

    fn begin(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if let Some(start) = &self.wanted {
            self.running = Some(now);
            actions.push(Action::Start(start.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jwt::keys::Material;

    fn source(url: &str) -> UrlKeys {
        UrlKeys { url: url.to_owned(), refresh: Duration::from_secs(60), ca_file: None }
    }

    fn start(urls: &[&str]) -> Option<Start> {
        let sources = urls.iter().map(|url| source(url)).collect();
        Some(Start { sources, log_level: "info".to_owned(), seccomp: true })
    }

    fn key(id: &str) -> Key {
        Key { id: Some(id.to_owned()), material: Material::Ed25519 { x: String::new() } }
    }

    #[test]
    fn keys_stay_over_agents_and_reloads() {
        let (mut supervisor, now) = (Supervisor::default(), Instant::now());
        assert_eq!(supervisor.want(now, start(&["a", "b"])), [Action::Start(start(&["a", "b"]).unwrap())]);
        assert_eq!(supervisor.want(now, start(&["a", "b"])), []);
        let said = || FromAgent::Keys(1, vec![key("1")]);
        assert_eq!(supervisor.agent_says(said()), [Action::Changed(source("b"))]);
        assert_eq!(supervisor.agent_says(said()), [], "the same as before");
        assert_eq!(supervisor.agent_says(FromAgent::Keys(7, vec![key("1")])), []);
        assert_eq!(
            (supervisor.keys(&source("b")), supervisor.keys(&source("a"))),
            (&[key("1")][..], &[][..])
        );
        assert!(matches!(&supervisor.exited(now, "died")[..], [Action::Log(_)]));
        assert_eq!(supervisor.key_wanted(&source("b")), [], "there is none");
        let due = supervisor.next_deadline().unwrap();
        assert!(matches!(&supervisor.tick(due)[..], [Action::Start(_)]));
        assert_eq!(supervisor.agent_says(said()), [], "the next agent finds the same");
        assert_eq!(supervisor.key_wanted(&source("b")), [Action::Tell(ToAgent::Wanted(1))]);
        assert_eq!(supervisor.key_wanted(&source("c")), []);
        assert!(matches!(&supervisor.want(now, start(&["b"]))[..], [Action::End, Action::Start(_)]));
        assert_eq!(supervisor.keys(&source("b")), [key("1")]);
        assert_eq!(supervisor.want(now, None), [Action::End]);
        assert!(supervisor.keys(&source("b")).is_empty());
    }
}
