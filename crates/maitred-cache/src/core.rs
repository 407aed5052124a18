//! What all handles of a store share, and what its jobs have in common.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::directory_state::NUMBERS_MAX;
use super::disk::{Directory, Draft};
use super::entry::{Head, Marks};
use super::hot::Hot;
use super::index::{Index, Room};
use super::key::{Hash, Seed};
use super::rules::{self, Rule, Rules, Subject, Verdict};
use super::settings::Settings;
use super::storing::{Storing, Trouble};
use super::table::{Record, VERIFIED, blocks};
use super::walk::FOLDERS;

/// Locks of keys. Only helper threads take them, each for an operation or two of the disk.
const STRIPES: usize = 64;
/// Keys that are noted as removed while the directory is being read. The keys are as many as helpers have not come to yet.
const REMOVING_MAX: usize = 64 * 1024;
/// Where the files of rules are.
pub(super) const PURGES: &str = "purges";

/// See the module.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) settings: Settings,
    pub(super) directory: Arc<Directory>,
    pub(super) index: Index,
    pub(super) hot: Hot,
    pub(super) rules: Rules,
    pub(super) storing: Storing,
    pub(super) seed: Seed,
    pub(super) counters: Counters,
    stripes: [Mutex<()>; STRIPES],
    /// Keys that were removed, while their files are not yet.
    removing: Mutex<HashMap<Hash, u64>>,
}

/// What was counted since the process has opened the store.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) hits: AtomicU64,
    pub(super) loads: AtomicU64,
    pub(super) misses: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) writes_failed: AtomicU64,
    pub(super) evictions: AtomicU64,
    pub(super) purged: AtomicU64,
    pub(super) broken: AtomicU64,
}

/// Counts one more.
#[inline]
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// What a file is published with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Publication<'a> {
    pub(super) marks: Marks,
    pub(super) key: &'a [u8],
    pub(super) head: &'a Head,
    /// Of the whole file.
    pub(super) bytes: u64,
    /// What was reserved for it.
    pub(super) room: Room,
}

impl Core {
    pub(super) fn new(settings: Settings, directory: Arc<Directory>, index: Index, seed: Seed) -> Core {
        let inline = u64::from(settings.inline_bytes_max);
        Core {
            hot: Hot::new(settings.memory_bytes_max, settings.files_max, inline),
            rules: Rules::new(index.table.rules()),
            storing: Storing::new(Instant::now()),
            stripes: [const { Mutex::new(()) }; STRIPES],
            removing: Mutex::default(),
            counters: Counters::default(),
            settings,
            directory,
            index,
            seed,
        }
    }

    /// Of this and other keys, only the caller changes the file.
    pub(super) fn lock(&self, hash: Hash) -> MutexGuard<'_, ()> {
        self.stripes[hash.lo as usize % STRIPES].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn removing(&self) -> MutexGuard<'_, HashMap<Hash, u64>> {
        self.removing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A key is removed: while the directory is being read, its file is not to be found there again, also if the job that removes
    /// it is dropped.
    pub(super) fn begin_removing(&self, hash: Hash, number: u64) {
        if self.index.table.progress() <= FOLDERS {
            let mut removing = self.removing();
            if removing.len() < REMOVING_MAX {
                removing.insert(hash, number);
            }
        }
    }

    /// The file of a key was removed.
    pub(super) fn end_removing(&self, hash: Hash, number: u64) {
        let mut removing = self.removing();
        if removing.get(&hash) == Some(&number) {
            removing.remove(&hash);
        }
    }

    pub(super) fn is_removing(&self, hash: Hash) -> bool {
        self.removing().contains_key(&hash)
    }

    /// The directory was read.
    pub(super) fn forget_removing(&self) {
        std::mem::take(&mut *self.removing());
    }

    /// Notes that something failed.
    pub(super) fn trouble(&self, what: &'static str, error: io::Error) -> Trouble {
        count(&self.counters.writes_failed);
        self.storing.failed(what, error, Instant::now())
    }

    /// Reads the files of the rules, if another process has changed them.
    ///
    /// # Errors
    /// What the system says. Nothing that there is can be believed then.
    pub(super) fn sync_rules(&self) -> io::Result<()> {
        let version = self.index.table.rules();
        if self.rules.is_current(version) { Ok(()) } else { self.read_rules(version) }
    }

    /// Reads the files of the rules.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn read_rules(&self, version: u64) -> io::Result<()> {
        let found = rule_files(&self.directory)?;
        for rule in &found {
            self.index.table.begin_numbers_at(rule.number + 1);
        }
        self.rules.merge(found, version);
        Ok(())
    }

    /// Whether something that was asked for at these marks may be published, or served.
    pub(super) fn verdict(&self, marks: &Marks, key: &[u8], head: &Head) -> Verdict {
        if self.index.table.generation(marks.hash) != marks.generation || self.sync_rules().is_err() {
            return Verdict::Gone;
        }
        self.rules.test(Subject { key, tags: &head.tags, stamp: marks.stamp, tested: marks.tested })
    }

    /// Reserves room for a file of so many bytes. The files that have to go are removed.
    pub(super) fn reserve(&self, room: Room) -> bool {
        self.index.reserve(room, |record| self.evict(record))
    }

    /// Removes the file of an entry that was taken out of the index.
    pub(super) fn evict(&self, record: &Record) {
        count(&self.counters.evictions);
        self.hot.remove(record.hash, Some(record.file));
        let _guard = self.lock(record.hash);
        if self.index.table.find(record.hash).is_none() {
            // What cannot be removed is found when the directory is read again.
            let _ = self.directory.remove(record.hash);
        }
    }

    /// Removes the file of a key, unless a newer one has taken its place. Says whether there was one.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn remove_file(&self, hash: Hash, older_than: u64) -> io::Result<bool> {
        let _guard = self.lock(hash);
        self.index.forget(hash, older_than);
        if self.index.table.find(hash).is_some() { Ok(false) } else { self.directory.remove(hash) }
    }

    fn confirm(&self, hash: Hash, file: u64) {
        if let Some((place, record)) = self.index.table.find(hash)
            && record.file == file
        {
            self.index.table.set_confirmed(place);
        }
    }

    /// Gives a complete file its name, and enters it into the index. False if it is not wanted any more. The room is used or
    /// given back in any case.
    ///
    /// # Errors
    /// What the system says. No file of this key is left then.
    pub(super) fn publish(&self, draft: Draft, what: &Publication<'_>) -> io::Result<bool> {
        let marks = &what.marks;
        let hash = marks.hash;
        let wanted = || {
            let older = |(_, record): (u32, Record)| record.file <= marks.file;
            self.verdict(marks, what.key, what.head) == Verdict::Keep
                && self.index.table.find(hash).is_none_or(older)
        };
        let guard = self.lock(hash);
        if !wanted() {
            self.index.release(what.room);
            return Ok(false);
        }
        let keep_until = u32::try_from(what.head.keep_until).unwrap_or(u32::MAX);
        let record = Record { hash, file: marks.file, blocks: blocks(what.bytes), keep_until };
        // The entry stands in the index before it has its name: a file without a slot is one that was lost.
        let (_, victim) = self.index.insert(&record, what.room, VERIFIED);
        let published = draft.publish(hash);
        // Another process may have purged it since: it has not seen this file.
        let stays = published.is_ok() && wanted();
        if stays {
            self.confirm(hash, marks.file);
        } else {
            self.index.forget(hash, marks.file);
            let _ = self.directory.remove(hash);
        }
        drop(guard);
        if let Some(victim) = victim {
            self.evict(&victim);
        }
        published.map(|()| stays)
    }
}

/// The rules that there are files of.
///
/// # Errors
/// What the system says.
pub(super) fn rule_files(directory: &Directory) -> io::Result<Vec<Rule>> {
    let mut found = Vec::new();
    for name in directory.names_in(PURGES)?.into_iter().flatten().take(rules::FILES_MAX) {
        let name = name?;
        let Ok(name) = std::str::from_utf8(&name) else { continue };
        let bytes = directory.read_small(PURGES, name, rules::FILE_BYTES_MAX)?;
        let rule = bytes.as_deref().and_then(Rule::decode);
        found.extend(rule.filter(|rule| rule.name() == name && rule.number < NUMBERS_MAX));
    }
    Ok(found)
}
