//! What the event loops call.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Instant;

use super::core::{Core, count, rule_files};
use super::directory_state::DirectoryState;
use super::disk::Directory;
use super::entry::{Body, Entry, Head};
use super::fetch::Fetch;
use super::index::Index;
use super::job::Job;
use super::jobs::{LoadJob, PutJob, RemoveJob, UpdateJob};
use super::key::{KEY_BYTES_MAX, Key};
use super::layout::is_storable;
use super::purge::PurgeJob;
use super::rebuild::RebuildJob;
use super::rules::{Purge, PurgeError, Subject, Verdict};
use super::settings::Settings;
use super::table::{BLOCK_BYTES, Table};
use super::walk::FOLDERS;
use super::writing::Writing;

/// A store; a handle that clones cheaply.
#[derive(Debug, Clone)]
pub struct Store {
    core: Arc<Core>,
}

/// What is known about a key.
#[derive(Debug)]
pub enum Found {
    /// Nothing is stored.
    Nothing,
    /// Nothing is stored, and the response is not to be stored: see [`Store::pass`].
    Pass,
    /// An entry that is hot.
    Entry(Arc<Entry>),
    /// There may be something on the disk: this job says [`Outcome::Loaded`](super::Outcome).
    OnDisk(Job),
}

/// Numbers for the status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Entries with a file.
    pub entries: u64,
    /// Bytes of the files, in blocks of 4 KiB.
    pub bytes: u64,
    /// Entries in memory.
    pub hot_entries: u64,
    /// Bytes of them.
    pub hot_bytes: u64,
    /// Descriptors that they hold open.
    pub hot_files: u64,
    /// Entries that were found in memory.
    pub hits: u64,
    /// Entries that were loaded from their files.
    pub loads: u64,
    /// Nothing was found.
    pub misses: u64,
    /// Files that were written.
    pub writes: u64,
    /// Files that could not be written.
    pub writes_failed: u64,
    /// Entries that had to make room.
    pub evictions: u64,
    /// Files that a purge has removed or marked, or [`Store::remove`] has removed.
    pub purged: u64,
    /// Files that were not as they should be, and were removed.
    pub broken: u64,
    /// How much of the directory was read, of 256; 257 once the index is complete.
    pub rebuilt: u64,
    /// Nothing is stored at the moment, because of trouble with the disk.
    pub off: bool,
}

impl Store {
    /// Opens the store of a directory, with the table that the master has for it. Reads a few small files, and writes one if the
    /// table is new. Run [`Store::rebuild`] then.
    ///
    /// # Errors
    /// What the system says about the directory; `InvalidData` if the table is none.
    pub fn open(settings: Settings, table: OwnedFd) -> io::Result<Store> {
        let table = Table::open(table)?;
        let directory = Directory::open(&settings.directory)?;
        let state = DirectoryState::read(&directory)?;
        if !table.is_of(state.seed.mark()) {
            // A directory may have lost its state, and kept its rules.
            let least = rule_files(&directory)?.iter().map(|rule| rule.number + 1).max().unwrap_or(0);
            let (first, written) = state.take_numbers(&directory, least);
            // A disk that is full is found so with the first entry, too. What is there can be served.
            drop(written);
            table.begin_numbers_at(first);
            table.reset(state.seed.mark());
            if state.is_new() {
                // No file has a name that its key would have: all that is there to know is known.
                table.note_progress(FOLDERS + 1);
            }
        }
        let index = Index::new(table, settings.bytes_max, settings.entries_max);
        let core = Core::new(settings, directory, index, state.seed);
        core.read_rules(core.index.table.rules())?;
        Ok(Store { core: Arc::new(core) })
    }

    /// The key of a text.
    pub fn key(&self, text: &[u8]) -> Key {
        self.core.seed.key(text)
    }

    /// What is known about a key. `now` is in seconds since 1970.
    pub fn find(&self, key: &Key, now: u64) -> Found {
        let core = &self.core;
        let table = &core.index.table;
        let is_current = core.rules.is_current(table.rules());
        if is_current && let Some(entry) = self.find_hot(key, now) {
            count(&core.counters.hits);
            table.touch(entry.place.load(Relaxed));
            return Found::Entry(entry);
        }
        match table.find(key.hash) {
            Some((place, record)) if u64::from(record.keep_until) > now && table.is_confirmed(place) => {
                return Found::OnDisk(LoadJob { core: Arc::clone(core), key: key.clone() }.into());
            }
            _ => {}
        }
        count(&core.counters.misses);
        if table.is_passed(key.hash, now) { Found::Pass } else { Found::Nothing }
    }

    /// What is hot, and was not purged since.
    #[inline]
    fn find_hot(&self, key: &Key, now: u64) -> Option<Arc<Entry>> {
        let core = &self.core;
        let entry = core.hot.find(key)?;
        let is_valid = entry.head.keep_until > now
            && core.index.table.generation(key.hash) == entry.marks.generation
            && (entry.tested.load(Relaxed) >= core.rules.latest() || self.test(&entry));
        if is_valid {
            return Some(entry);
        }
        core.hot.remove(key.hash, Some(entry.marks.file));
        None
    }

    /// Tests an entry against the rules that are new.
    #[cold]
    fn test(&self, entry: &Entry) -> bool {
        let latest = self.core.rules.latest();
        let tested = entry.tested.load(Relaxed);
        let subject = Subject { key: &entry.key, tags: &entry.head.tags, stamp: entry.marks.stamp, tested };
        let verdict = self.core.rules.test(subject);
        if verdict == Verdict::Soft {
            entry.soft_purged.store(true, Relaxed);
        }
        if verdict != Verdict::Gone {
            entry.tested.fetch_max(latest, SeqCst);
        }
        verdict != Verdict::Gone
    }

    /// Notes that a response of this key is not to be stored until then (seconds since 1970), so that no request waits for it to
    /// be.
    pub fn pass(&self, key: &Key, until: u64) {
        self.core.index.table.pass(key.hash, until);
    }

    /// To be called when a response is asked for that may be stored.
    pub fn fetch(&self, key: &Key) -> Fetch {
        let table = &self.core.index.table;
        // In this order: what is purged in between is not stored.
        let (generation, tested) = (table.generation(key.hash), self.core.rules.latest());
        Fetch { key: key.clone(), stamp: table.next_number(), generation, tested }
    }

    /// The same by another key, for a response of which it was not known when it was asked for that it varies.
    pub fn fetch_variant(&self, fetch: &Fetch, key: &Key) -> Fetch {
        let generation = self.core.index.table.generation(key.hash);
        Fetch { key: key.clone(), generation, ..*fetch }
    }

    /// Stores a small response. The response is hot at once; the job, if there is one, writes its file.
    pub fn put(&self, fetch: &Fetch, head: Head, body: Arc<[u8]>) -> (Arc<Entry>, Option<Job>) {
        let core = &self.core;
        let marks = fetch.marks(core.index.table.next_number());
        let is_small = body.len() as u64 <= u64::from(core.settings.inline_bytes_max);
        let can_be_stored = fetch.key.text.len() <= KEY_BYTES_MAX && is_storable(&head);
        let entry = Arc::new(Entry::new(&fetch.key.text, head, Body::Memory(body), marks));
        if !can_be_stored {
            return (entry, None);
        }
        if is_small {
            core.hot.insert(&entry);
        }
        let job = || PutJob { core: Arc::clone(core), entry: Arc::clone(&entry) }.into();
        let job = core.storing.is_on(Instant::now()).then(job);
        (entry, job)
    }

    /// Begins to store a response. `None` while nothing is stored. Touches no disk.
    pub fn begin(&self, fetch: &Fetch) -> Option<Writing> {
        let fits = fetch.key.text.len() <= KEY_BYTES_MAX;
        (fits && self.core.storing.is_on(Instant::now())).then(|| Writing::new(&self.core, fetch.clone()))
    }

    /// Gives an entry another head: it was found to be good still. The new entry is hot at once, the job writes its head; `fetch`
    /// is that of the request that found it.
    pub fn update(&self, fetch: &Fetch, entry: &Arc<Entry>, head: Head) -> (Arc<Entry>, Option<Job>) {
        let core = &self.core;
        let marks = fetch.marks(entry.marks.file);
        let can_be_stored = is_storable(&head);
        let new = Arc::new(Entry::new(&entry.key, head, entry.body.clone(), marks));
        new.place.store(entry.place.load(Relaxed), Relaxed);
        // An entry that was purged before it was asked for again is not brought back by what is said about it.
        let is_current = core.rules.is_current(core.index.table.rules());
        let is_same = is_current && entry.marks.generation == marks.generation && self.test(entry);
        if !can_be_stored || !is_same || fetch.key.text != entry.key {
            return (new, None);
        }
        core.hot.insert(&new);
        let job = || UpdateJob { core: Arc::clone(core), entry: Arc::clone(&new) }.into();
        let job = core.storing.is_on(Instant::now()).then(job);
        (new, job)
    }

    /// Removes the entry of a key: it is not found any more from now on. The job removes its file.
    pub fn remove(&self, key: &Key) -> Job {
        RemoveJob::new(&self.core, key.hash).into()
    }

    /// Purges entries: they are not found any more from now on, or, with `soft`, are stale from now on. The job removes the
    /// files; when it says [`Outcome::Purged`](super::Outcome) they are gone.
    ///
    /// # Errors
    /// Nothing is purged then.
    pub fn purge(&self, purge: Purge, soft: bool) -> Result<Job, PurgeError> {
        match &purge {
            Purge::Exact(key) if !soft => Ok(self.remove(&self.key(key))),
            _ => {
                let rule = self.core.rules.add(purge, soft, || self.core.index.table.next_number())?;
                Ok(PurgeJob::new(&self.core, rule).into())
            }
        }
    }

    /// Reads the directory into the index, if it is not complete, and removes what is left over. To be run once by each worker
    /// process; `now` is in seconds since 1970.
    pub fn rebuild(&self, now: u64) -> Job {
        RebuildJob::new(&self.core, now).into()
    }

    /// A random number for a note of varying.
    pub fn epoch(&self) -> u64 {
        let number = self.core.index.table.next_number();
        self.core.seed.hash(&number.to_le_bytes()).hi
    }

    /// Numbers for the status.
    pub fn counts(&self) -> Counts {
        let core = &self.core;
        let (held, (entries, blocks)) = (core.hot.held(), core.index.held());
        let counters = &core.counters;
        Counts {
            entries: u64::from(entries),
            bytes: blocks * BLOCK_BYTES,
            hot_entries: held.entries as u64,
            hot_bytes: held.bytes,
            hot_files: u64::from(held.files),
            hits: counters.hits.load(Relaxed),
            loads: counters.loads.load(Relaxed),
            misses: counters.misses.load(Relaxed),
            writes: counters.writes.load(Relaxed),
            writes_failed: counters.writes_failed.load(Relaxed),
            evictions: counters.evictions.load(Relaxed),
            purged: counters.purged.load(Relaxed),
            broken: counters.broken.load(Relaxed),
            rebuilt: core.index.table.progress(),
            off: !core.storing.is_on(Instant::now()),
        }
    }
}

#[cfg(test)]
mod tests;
