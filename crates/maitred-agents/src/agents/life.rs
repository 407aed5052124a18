//! The life of an agent. Pure: the clock comes with each call, steps come out.
//!
//! | state | other start document wanted | it exits | the time has come |
//! |---|---|---|---|
//! | none | start | cannot be | cannot be |
//! | running | end it, start | start later¹ | cannot be |
//! | to be started later | start | cannot be | start |
//!
//! None is wanted when the configuration has nothing for it, or the server stops: what runs is ended then. ¹ With growing delays,
//! if it did not live long.

use std::time::{Duration, Instant};

use maitred_base::backoff::{Backoff, Rules};

/// An agent is replaced at once if it lived; nothing is urgent about what it does.
const AGENT: Rules = Rules {
    free: 0,
    first: Duration::from_secs(1),
    max: Duration::from_secs(5 * 60),
    long_life: Duration::from_secs(60),
};

/// Something to do, in the order given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step<S> {
    /// End the agent; that it has exited is not to be reported.
    End,
    /// Start an agent with this document. A failure to start it is [`Life::exited`].
    Start(S),
}

/// See the module. `S` is the start document.
#[derive(Debug)]
pub struct Life<S> {
    wanted: Option<S>,
    /// When the present agent was started.
    running: Option<Instant>,
    start_at: Option<Instant>,
    backoff: Backoff,
}

impl<S> Default for Life<S> {
    fn default() -> Life<S> {
        Life { wanted: None, running: None, start_at: None, backoff: Backoff::default() }
    }
}

impl<S: Clone + PartialEq> Life<S> {
    /// The agent that there shall be from now on, if any. Without steps it is the same as before.
    pub fn want(&mut self, now: Instant, start: Option<S>) -> Vec<Step<S>> {
        if self.wanted == start {
            return Vec::new();
        }
        let ended = self.running.take().map(|_| Step::End);
        (self.wanted, self.start_at) = (start, None);
        ended.into_iter().chain(self.begin(now)).collect()
    }

    /// The agent has exited, or could not be started: how long the next one waits. `None` if none was there.
    pub fn exited(&mut self, now: Instant) -> Option<Duration> {
        let since = self.running.take()?;
        let delay = self.backoff.died(now.saturating_duration_since(since), &AGENT);
        self.start_at = Some(now + delay);
        Some(delay)
    }

    /// When to call [`Life::tick`].
    pub fn next_deadline(&self) -> Option<Instant> {
        self.start_at
    }

    /// The time that [`Life::next_deadline`] named has come.
    pub fn tick(&mut self, now: Instant) -> Option<Step<S>> {
        self.start_at.take_if(|at| *at <= now)?;
        self.begin(now)
    }

    /// What the agent does, or shall do once it runs.
    pub fn wanted(&self) -> Option<&S> {
        self.wanted.as_ref()
    }

    /// Whether there is one now.
    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    fn begin(&mut self, now: Instant) -> Option<Step<S>> {
        let start = self.wanted.clone()?;
        self.running = Some(now);
        Some(Step::Start(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_started_again_later_and_later() {
        let (mut life, mut now) = (Life::default(), Instant::now());
        assert_eq!(life.want(now, Some("a")), [Step::Start("a")]);
        assert_eq!(life.want(now, Some("a")), []);
        let mut delays = Vec::new();
        for _ in 0..11 {
            assert!(life.is_running());
            let delay = life.exited(now).unwrap();
            assert_eq!(life.tick(now), None, "not yet");
            now += delay;
            delays.push(delay.as_secs());
            assert_eq!(life.tick(now), Some(Step::Start("a")));
        }
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        now += AGENT.long_life;
        assert_eq!(life.exited(now), Some(Duration::ZERO));
        assert_eq!(life.exited(now), None, "it was not there");
    }

    #[test]
    fn another_document_takes_another_agent() {
        let (mut life, now) = (Life::default(), Instant::now());
        assert_eq!(life.want(now, Some(1)), [Step::Start(1)]);
        assert_eq!(life.want(now, Some(2)), [Step::End, Step::Start(2)]);
        life.exited(now).unwrap();
        assert_eq!(life.want(now, Some(3)), [Step::Start(3)], "at once, and none has to end");
        assert_eq!(life.next_deadline(), None);
        assert_eq!(life.want(now, None), [Step::End]);
        assert_eq!((life.want(now, None), life.wanted(), life.is_running()), (vec![], None, false));
    }
}
