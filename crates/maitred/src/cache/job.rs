//! Work for helper threads.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::entry::Entry;

/// Work that may wait for a disk. To drop one without running it costs what it was to store, or leaves a file behind that the next
/// worker process removes; a purge is only complete once its job has said so.
#[derive(Debug)]
pub struct Job(());

/// What has become of a job.
#[derive(Debug)]
pub enum Outcome {
    /// It is done.
    Done,
    /// Of [`Found::OnDisk`](super::Found): the entry, which is hot now if there is room; `None` if there is none after all.
    Loaded(Option<Arc<Entry>>),
    /// A part is done: run this one, too, behind others that wait. Purges and [`Store::rebuild`](super::Store::rebuild) are done in parts.
    Again(Job),
    /// A purge is complete: so many files were removed, or marked as stale.
    Purged(u64),
    /// It failed. The store goes on without; log it.
    Trouble(Trouble),
}

/// Why something was not stored.
#[derive(Debug)]
pub struct Trouble {
    /// What was being done.
    pub what: &'static str,
    /// What the system says.
    pub error: io::Error,
    /// For so long nothing is stored from now on. `None` if that goes on: only this entry is lost.
    pub off_for: Option<Duration>,
}

impl Job {
    /// Does it, on a helper thread.
    pub fn run(self) -> Outcome {
        Outcome::Done
    }
}
