//! What the master has of the process that checks servers ([`maitred_agents::checks`]).

use std::time::Instant;

use super::agent::Agent;
use maitred_agents::agents::life::Life;
use maitred_agents::checks::messages::{Start, Target};

/// What the master has of it.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// When it is started.
    pub life: Life<Start>,
    /// The process, if it runs.
    pub agent: Option<Agent>,
    /// What the agent was told, by the number of the pool.
    pub sent: Vec<Vec<Target>>,
    /// Whether the agent may have to be told something else.
    pub is_due: bool,
}

impl Checks {
    /// When the next one is started, after one has failed.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.life.next_deadline()
    }

    /// Servers may be others than before.
    pub(crate) fn servers_changed(&mut self) {
        self.is_due = true;
    }
}
