//! A purge of more than one key: all files are tested against its rule.

use std::io;
use std::sync::Arc;

use super::core::{Core, PURGES, count};
use super::jobs::append_head;
use super::key::Hash;
use super::layout::StoredHead;
use super::read::{Opened, Seen, look};
use super::rules::{Purge, Rule};
use super::walk::Walk;

/// See the module.
#[derive(Debug)]
pub(super) struct PurgeJob {
    core: Arc<Core>,
    rule: Arc<Rule>,
    /// `None` until its rule was written.
    walk: Option<Walk>,
    purged: u64,
    /// The first error: something may be left.
    failed: Option<io::Error>,
}

/// How far it is.
#[derive(Debug)]
pub(super) enum Progress {
    More(PurgeJob),
    Done { purged: u64, failed: Option<io::Error> },
}

impl PurgeJob {
    pub(super) fn new(core: &Arc<Core>, rule: Arc<Rule>) -> PurgeJob {
        PurgeJob { core: Arc::clone(core), rule, walk: None, purged: 0, failed: None }
    }

    /// Another process has begun it: its rule is written.
    pub(super) fn taken_over(core: &Arc<Core>, rule: Arc<Rule>) -> PurgeJob {
        PurgeJob { walk: Some(Walk::default()), ..PurgeJob::new(core, rule) }
    }

    pub(super) fn run(mut self) -> Progress {
        let Some(walk) = &mut self.walk else { return self.begin() };
        match walk.next(&self.core.directory) {
            Ok(Some(part)) => {
                for hash in part.hashes {
                    match test(&self.core, &self.rule, hash) {
                        Ok(purged) => self.purged += u64::from(purged),
                        Err(error) => self.failed = self.failed.take().or(Some(error)),
                    }
                }
                Progress::More(self)
            }
            Ok(None) => self.end(),
            Err(error) => {
                self.failed = self.failed.take().or(Some(error));
                Progress::More(self)
            }
        }
    }

    /// Writes the rule, so that a process that comes later knows it. If that fails, it holds in this one.
    fn begin(mut self) -> Progress {
        let core = &self.core;
        if let Purge::Exact(key) = &self.rule.purge {
            let hash = core.seed.hash(key);
            let tested = test(core, &self.rule, hash);
            match tested {
                Ok(purged) => self.purged = u64::from(purged),
                Err(error) => self.failed = Some(error),
            }
            return self.end();
        }
        // If that fails, other processes find no file when they look for one, and believe nothing that they have in memory; and
        // if this one ends, the purge was not complete.
        let _ = core.directory.write_small(PURGES, &self.rule.name(), &self.rule.encode());
        core.rules.note_own_change(core.index.table.note_rules());
        self.walk = Some(Walk::default());
        Progress::More(self)
    }

    fn end(self) -> Progress {
        let core = &self.core;
        if self.failed.is_none() {
            // If the file stays, the next process tests all files once more.
            let _ = core.directory.remove_small(PURGES, &self.rule.name());
            core.rules.drop_rule(self.rule.number);
        }
        // With an error, some files were not tested: the rule stays, and the next process tries again.
        core.rules.note_own_change(core.index.table.note_rules());
        Progress::Done { purged: self.purged, failed: self.failed }
    }
}

/// Tests one file, and removes it or marks it as stale. Says whether it was.
fn test(core: &Arc<Core>, rule: &Rule, hash: Hash) -> io::Result<bool> {
    let _guard = core.lock(hash);
    let slot = core.index.table.find(hash);
    let is_known = slot.is_some_and(|(_, record)| record.file < rule.number);
    let opened = match rule.purge {
        // Of all that was stored before, nothing has to be read.
        Purge::All if !rule.soft && is_known => None,
        _ => match look(core, hash)? {
            Seen::Whole(opened) if rule.is_about(opened.subject(0)) => Some(opened),
            // What is broken is never served.
            _ => return Ok(false),
        },
    };
    if let (true, Some(opened)) = (rule.soft, opened)
        && mark(core, hash, *opened)
    {
        count(&core.counters.purged);
        return Ok(true);
    }
    core.index.forget(hash, u64::MAX);
    core.hot.remove_older(hash, rule.number);
    let removed = core.directory.remove(hash)?;
    if removed {
        count(&core.counters.purged);
    }
    Ok(removed)
}

/// Writes that a file is stale. False if that cannot be written.
fn mark(core: &Arc<Core>, hash: Hash, opened: Opened) -> bool {
    let last = opened.tail.last;
    last.soft_purged || matches!(append_head(core, hash, &StoredHead { soft_purged: true, ..last }), Ok(true))
}
