//! A command to replace all processes of a pool, until it is over.
//!
//! | state | what it waits for |
//! |---|---|
//! | replacing | that no process is left which is to be replaced: each goes when its successor is ready |
//! | trial, starting | that all canaries are ready, beside the processes that they may replace |
//! | trial, watched | the verdict of [`maitred_base::pool::canary`]: all others are replaced, or the canaries go |
//!
//! A process that ends before it is ready ends the command; so does a canary that ends. What was not replaced then stays.

use std::time::{Duration, Instant};

use super::events::Asker;
use maitred_base::pool::canary::Work;

/// When a client that waits hears of it first.
const TELL_AFTER: Duration = Duration::from_secs(1);
/// How often a client that waits hears of it: several times within the minute that the worker process waits.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// What those hear that wait for a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    /// How far it is.
    Waits(String),
    /// How it ended: whether well, and a text.
    Over(bool, String),
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Restart {
    /// Who waits for it.
    pub(super) askers: Vec<Asker>,
    /// Processes that are to be replaced.
    pub(super) total: usize,
    /// How a process ended whose end is the end of the command.
    pub(super) failed: Option<String>,
    /// The canaries, until the verdict.
    pub(super) trial: Option<Trial>,
    tell_at: Instant,
}

/// Canaries that are tried.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    /// How many.
    pub(super) canaries: usize,
    /// The youngest process of the release before; later ones are canaries.
    pub(super) last_old: u64,
    /// Since when all of them are ready, and what the others had answered by then.
    pub(super) watched: Option<(Instant, Work)>,
}

impl Restart {
    /// A command that has just come.
    pub(super) fn new(now: Instant, asker: Asker, total: usize, trial: Option<Trial>) -> Restart {
        Restart { askers: vec![asker], total, failed: None, trial, tell_at: now + TELL_AFTER }
    }

    /// How the command has ended, if it has: whether well, and a text. `left`: processes that are still to be replaced; `serves`:
    /// the pool goes on; `down`: none of its processes starts.
    pub(super) fn outcome(
        &self,
        pool: &str,
        left: usize,
        (serves, down): (bool, bool),
        said: &[String],
    ) -> Option<(bool, String)> {
        let total = self.total;
        if !serves {
            return Some((true, format!("pool {pool} has new processes by another configuration")));
        }
        if let Some(how) = &self.failed {
            let replaced = if self.trial.is_some() { 0 } else { total.saturating_sub(left) };
            let said = last_lines(said);
            let stay = total.saturating_sub(replaced);
            let text = format!(
                "{replaced} of {total} processes of pool {pool} were replaced, {stay} stay: {how}{said}"
            );
            return Some((false, text));
        }
        match total {
            _ if self.trial.is_some() || left > 0 => None,
            0 if down => None,
            0 => Some((true, format!("pool {pool} has no process to replace"))),
            _ => Some((true, format!("{total} processes of pool {pool} were replaced"))),
        }
    }

    /// How far the command is.
    pub(super) fn progress(&self, pool: &str, left: usize) -> String {
        let replaced = self.total.saturating_sub(left);
        format!("{replaced} of {} processes of pool {pool} are replaced", self.total)
    }

    /// When those that wait hear of it next.
    pub(super) fn deadline(&self) -> Instant {
        self.tell_at
    }

    /// Whether they are to hear of it now.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let due = self.tell_at <= now;
        if due {
            self.tell_at = now + TELL_EVERY;
        }
        due
    }
}

/// The last lines of a process, as they stand behind how it ended.
fn last_lines(said: &[String]) -> String {
    said.iter().map(|line| format!(" | {line}")).collect()
}

/// Why a configuration cannot be in force: how the last process of this pool ended, and its last lines.
pub(super) fn not_ready(pool: &str, how: &str, said: &[String]) -> String {
    format!("no process of pool \"{pool}\" becomes ready: the last one {how}{}", last_lines(said))
}
