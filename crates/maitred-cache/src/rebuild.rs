//! What a worker process does with the directory when it has opened the store, while it serves.
//!
//! The entries of the table are entered into the queues. Then the directory is read: into the table, if that is a new one, or was
//! left half full by a process that has ended. If it is complete, a file without a slot is one that was to be removed, and is.

use std::io;
use std::sync::Arc;

use super::core::{Core, PURGES, count};
use super::index::Room;
use super::key::Hash;
use super::purge::PurgeJob;
use super::read::{Seen, look};
use super::table::{CONFIRMED, MAIN, VERIFIED};
use super::walk::{FOLDERS, Walk};

/// See the module.
#[derive(Debug)]
pub(super) struct RebuildJob {
    core: Arc<Core>,
    /// `None` until the table was entered into the queues.
    walk: Option<Walk>,
    /// The table was complete at the start.
    complete: bool,
    now: u64,
    /// The first error: some of the directory is not known.
    failed: Option<io::Error>,
}

/// How far it is.
#[derive(Debug)]
pub(super) enum Progress {
    More(RebuildJob),
    /// The rebuild is done. The purges were not complete when the process before has ended.
    Done {
        purges: Vec<PurgeJob>,
        failed: Option<io::Error>,
    },
}

impl RebuildJob {
    pub(super) fn new(core: &Arc<Core>, now: u64) -> RebuildJob {
        let complete = core.index.table.progress() > FOLDERS;
        RebuildJob { core: Arc::clone(core), walk: None, complete, now, failed: None }
    }

    pub(super) fn run(mut self) -> Progress {
        let core = &self.core;
        let Some(walk) = &mut self.walk else {
            for folder in [".", PURGES] {
                core.directory.remove_lost_drafts(folder);
            }
            core.index.attach();
            core.index.trim(|record| core.evict(record));
            // From the start, whatever another process has read: what has a slot is not read again.
            self.walk = Some(Walk::default());
            return Progress::More(self);
        };
        // Another process may have read all of it meanwhile: what is not in the table was removed since.
        self.complete |= core.index.table.progress() > FOLDERS;
        match walk.next(&core.directory) {
            Ok(Some(part)) => {
                for hash in part.hashes {
                    let seen = if self.complete { sweep(core, hash) } else { enter(core, hash, self.now) };
                    if let Err(error) = seen {
                        self.failed = self.failed.take().or(Some(error));
                    }
                }
                if !self.complete {
                    core.index.table.note_progress(part.read);
                }
                Progress::More(self)
            }
            Ok(None) => {
                core.index.table.note_progress(FOLDERS + 1);
                core.forget_removing();
                let orphans = core.rules.take_over();
                let purges = orphans.into_iter().map(|rule| PurgeJob::taken_over(core, rule)).collect();
                Progress::Done { purges, failed: self.failed }
            }
            Err(error) => {
                self.failed = self.failed.take().or(Some(error));
                Progress::More(self)
            }
        }
    }
}

/// A file that is not in a complete table was lost: what it was, was removed or replaced.
fn sweep(core: &Core, hash: Hash) -> io::Result<()> {
    if core.index.table.find(hash).is_some() {
        return Ok(());
    }
    let _guard = core.lock(hash);
    if core.index.table.find(hash).is_none() {
        core.directory.remove(hash)?;
    }
    Ok(())
}

/// Enters a file into the table, or removes it if it is of no use.
fn enter(core: &Arc<Core>, hash: Hash, now: u64) -> io::Result<()> {
    let table = &core.index.table;
    let generation = table.generation(hash);
    if table.find(hash).is_some() || core.is_removing(hash) {
        return Ok(());
    }
    let opened = match look(core, hash)? {
        Seen::Whole(opened) if opened.tail.last.head.keep_until > now => opened,
        Seen::Missing => return Ok(()),
        Seen::Broken | Seen::Whole(_) => return remove_useless(core, hash),
    };
    let record = opened.record(hash);
    let room = Room { blocks: u64::from(record.blocks), entries: 1 };
    let fits = core.index.could_hold(record.blocks, core.settings.bytes_max) && core.reserve(room);
    if !fits {
        return remove_useless(core, hash);
    }
    let guard = core.lock(hash);
    // What was removed meanwhile is not to be found again.
    if table.find(hash).is_some() || core.is_removing(hash) || table.generation(hash) != generation {
        core.index.release(room);
        return Ok(());
    }
    let verified = if opened.header.boot == table.boot() { VERIFIED } else { 0 };
    // Nothing is known of who asked for it: it is one of the main queue, which has room for it.
    let (_, victim) = core.index.insert(&record, room, MAIN | CONFIRMED | verified);
    drop(guard);
    if let Some(victim) = victim {
        core.evict(&victim);
    }
    Ok(())
}

/// Removes a file that is of no use, unless another one has taken its place.
fn remove_useless(core: &Core, hash: Hash) -> io::Result<()> {
    let _guard = core.lock(hash);
    if core.index.table.find(hash).is_none() && core.directory.remove(hash)? {
        count(&core.counters.broken);
    }
    Ok(())
}
