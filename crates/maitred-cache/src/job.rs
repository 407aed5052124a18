//! Work for helper threads.

use std::io;
use std::sync::Arc;

use super::entry::Entry;
use super::jobs::{LoadJob, PutJob, RemoveJob, UpdateJob};
use super::purge::{self, PurgeJob};
use super::rebuild::{self, RebuildJob};
use super::storing::Trouble;
use super::writing::Writing;

/// Work that may wait for a disk. To drop one without running it costs what it was to store, or leaves a file behind that the
/// next worker process removes; a purge is only complete once its job has said so.
#[derive(Debug)]
pub struct Job(Kind);

#[derive(Debug)]
enum Kind {
    Load(LoadJob),
    Put(PutJob),
    Update(UpdateJob),
    Remove(RemoveJob),
    Purge(PurgeJob),
    Rebuild(RebuildJob),
    /// Purges that a process before has begun.
    Purges(Vec<PurgeJob>),
    Abandon(Writing),
}

/// What has become of a job.
#[derive(Debug)]
pub enum Outcome {
    /// The job is done.
    Done,
    /// Of [`Found::OnDisk`](super::Found): the entry, which is hot now if there is room; `None` if there is none after all. With
    /// an error there is none, either.
    Loaded(io::Result<Option<Arc<Entry>>>),
    /// A part is done: run this one, too, behind others that wait. Purges and [`Store::rebuild`](super::Store::rebuild) are done
    /// in parts.
    Again(Job),
    /// A purge is done.
    Purged {
        /// So many files were removed, or marked as stale.
        files: u64,
        /// The first error, if files could not be read or removed. Such files are not found in this process, and the next one
        /// tries again.
        failed: Option<io::Error>,
    },
    /// The job failed. The store goes on without.
    Trouble(Trouble),
}

impl Job {
    /// Does it, on a helper thread.
    pub fn run(self) -> Outcome {
        match self.0 {
            Kind::Load(job) => Outcome::Loaded(job.run()),
            Kind::Put(job) => of_result(job.run()),
            Kind::Update(job) => of_result(job.run()),
            Kind::Remove(job) => match job.run() {
                Ok(removed) => Outcome::Purged { files: u64::from(removed), failed: None },
                Err(error) => Outcome::Purged { files: 0, failed: Some(error) },
            },
            Kind::Purge(job) => match job.run() {
                purge::Progress::More(job) => Outcome::Again(Job(Kind::Purge(job))),
                purge::Progress::Done { purged: files, failed } => Outcome::Purged { files, failed },
            },
            Kind::Rebuild(job) => match job.run() {
                rebuild::Progress::More(job) => Outcome::Again(Job(Kind::Rebuild(job))),
                rebuild::Progress::Done { failed: Some(error), .. } => {
                    Outcome::Trouble(Trouble { what: "read the directory", error, off_for: None })
                }
                rebuild::Progress::Done { purges, .. } => purge_some(purges),
            },
            Kind::Purges(purges) => run_one_of(purges),
            Kind::Abandon(writing) => {
                drop(writing);
                Outcome::Done
            }
        }
    }
}

fn of_result(result: Result<(), Trouble>) -> Outcome {
    result.map_or_else(Outcome::Trouble, |()| Outcome::Done)
}

fn purge_some(purges: Vec<PurgeJob>) -> Outcome {
    if purges.is_empty() { Outcome::Done } else { Outcome::Again(Job(Kind::Purges(purges))) }
}

fn run_one_of(mut purges: Vec<PurgeJob>) -> Outcome {
    // No caller waits to be told of an error: the rule stays.
    if let Some(purge::Progress::More(job)) = purges.pop().map(PurgeJob::run) {
        purges.push(job);
    }
    purge_some(purges)
}

macro_rules! kinds {
    ($($kind:ident: $job:ty),*) => {
        $(impl From<$job> for Job {
            fn from(job: $job) -> Job {
                Job(Kind::$kind(job))
            }
        })*
    };
}

kinds!(Load: LoadJob, Put: PutJob, Update: UpdateJob, Remove: RemoveJob, Purge: PurgeJob, Rebuild: RebuildJob, Abandon: Writing);
