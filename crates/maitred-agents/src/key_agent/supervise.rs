//! The master's part: the life of the key agent, and the keys that it has sent. Pure: the clock comes with each call, actions
//! come out.
//!
//! Keys stay over the end of an agent, and over a reload for as long as a gate names their URL.

use std::time::{Duration, Instant};

use super::messages::{FromAgent, Start, ToAgent};
use crate::agents::life::{Life, Step};
use maitred_base::jwt::keys::{KEYS_MAX, Key};
use maitred_config::UrlKeys;

/// Something to do, in the order given.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Start an agent with this document. A failure to start it is [`Supervisor::exited`].
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
    life: Life<Start>,
    keys: Vec<(UrlKeys, Vec<Key>)>,
}

impl Supervisor {
    /// The agent that there shall be from now on, if any.
    pub fn want(&mut self, now: Instant, start: Option<Start>) -> Vec<Action> {
        let sources = start.as_ref().map(|start| start.sources.clone()).unwrap_or_default();
        self.keys.retain(|(source, _)| sources.contains(source));
        self.life.want(now, start).into_iter().map(Action::from).collect()
    }

    /// The agent has exited, or could not be started.
    pub fn exited(&mut self, now: Instant, how: &str) -> Vec<Action> {
        let log = |delay: Duration| {
            let secs = delay.as_secs();
            Action::Log(format!("the process that fetches keys {how}; the next one starts in {secs} s"))
        };
        self.life.exited(now).map(log).into_iter().collect()
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
        let FromAgent::Keys(index, mut keys) = message;
        let source = self.life.wanted().and_then(|start| start.sources.get(index)).cloned();
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
        let sources = self.life.wanted().map_or(&[][..], |start| &start.sources);
        let index = sources.iter().position(|known| known == source);
        index
            .filter(|_| self.life.is_running())
            .map(|index| Action::Tell(ToAgent::Wanted(index)))
            .into_iter()
            .collect()
    }

    /// The keys of a source; none if they were not fetched yet.
    pub fn keys(&self, source: &UrlKeys) -> &[Key] {
        self.keys.iter().find(|(known, _)| known == source).map_or(&[], |(_, keys)| keys)
    }
}

impl From<Step<Start>> for Action {
    fn from(step: Step<Start>) -> Action {
        match step {
            Step::End => Action::End,
            Step::Start(start) => Action::Start(start),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maitred_base::jwt::keys::Material;

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
