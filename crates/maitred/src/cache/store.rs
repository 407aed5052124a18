//! What the event loops call.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use super::entry::{Body, Entry, Head, Marks};
use super::hot::Hot;
use super::job::Job;
use super::key::{Key, Seed};
use super::table::Table;

/// What a store has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where its files are. It has to exist; no other store and no other program writes there.
    pub directory: PathBuf,
    /// Bytes of its files, counted in blocks of 4 KiB.
    pub bytes_max: u64,
    /// Entries; what its table was made for.
    pub entries_max: u32,
    /// Bytes of hot entries in memory.
    pub memory_bytes_max: u64,
    /// Larger bodies are sent from their files.
    pub inline_bytes_max: u32,
    /// Files that hot entries hold open.
    pub files_max: u32,
}

/// A store; a handle that clones cheaply.
#[derive(Debug, Clone)]
pub struct Store {
    core: Arc<Core>,
}

#[derive(Debug)]
struct Core {
    settings: Settings,
    table: Table,
    seed: Seed,
    hot: Hot,
}

/// What is known about a key.
#[derive(Debug)]
pub enum Found {
    /// There is nothing.
    Nothing,
    /// There is nothing, and its response is not to be stored: see [`Store::pass`].
    Pass,
    /// This is hot.
    Entry(Arc<Entry>),
    /// There may be something on the disk: this job says [`Outcome::Loaded`](super::Outcome).
    OnDisk(Job),
}

/// What a response is stored by: made when it is asked for, so that what is purged meanwhile is not stored.
#[derive(Debug, Clone)]
pub struct Fetch {
    key: Key,
    stamp: u64,
    generation: u64,
}

/// What is purged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purge {
    /// The entry of this key. Is it a note of varying, its variants are not found any more; the bounds of the store remove them.
    Exact(Box<[u8]>),
    /// What has keys that begin so.
    Prefix(Box<[u8]>),
    /// What has keys with this host: between `://` and the next `/`. Letters may be upper or lower case.
    Host(Box<[u8]>),
    /// What has this tag.
    Tag(Box<[u8]>),
    /// All.
    All,
}

/// Why there is no purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PurgeError {
    /// Too many purges are under way.
    Busy,
    /// Its text is too long.
    TooLong,
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
    /// Files that a purge has removed or marked.
    pub purged: u64,
    /// Files that were not as they should be, and were removed.
    pub broken: u64,
    /// How much of the directory was read, of 256; 257 once the index is complete.
    pub rebuilt: u64,
    /// Nothing is stored at the moment, because of trouble with the disk.
    pub off: bool,
}

/// A response that is stored as it comes. Dropped without [`Writing::finish`], it leaves nothing behind. It holds a file: drop it on a
/// helper thread, as [`Writing::abandon`] has it.
#[derive(Debug)]
pub struct Writing {
    fetch: Fetch,
}

impl Writing {
    /// Appends to the body, on a helper thread.
    ///
    /// # Errors
    /// What the system says; `StorageFull` if it is larger than the store. Nothing is stored then.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let _ = bytes;
        Ok(())
    }

    /// The file, once something was written to it, for those who read it while it grows: the body begins at
    /// [`BODY_OFFSET`](super::BODY_OFFSET).
    pub fn file(&self) -> Option<&Arc<File>> {
        None
    }

    /// Bytes that were appended.
    pub fn len(&self) -> u64 {
        0
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Publishes it, on a helper thread. The entry can be served in any case; it is not stored if it was purged meanwhile.
    ///
    /// # Errors
    /// What the system says. Nothing is stored then.
    pub fn finish(self, head: Head) -> io::Result<Arc<Entry>> {
        let body = Body::Memory(Arc::from([]));
        Ok(Arc::new(Entry::new(&self.fetch.key.text, head, body, self.fetch.marks(0))))
    }

    /// Drops it on a helper thread.
    pub fn abandon(self) -> Option<Job> {
        None
    }
}

impl Fetch {
    /// Its key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    fn marks(&self, file: u64) -> Marks {
        Marks { hash: self.key.hash, file, stamp: self.stamp, generation: self.generation }
    }
}

impl Store {
    /// Opens the store of a directory, with the table that the master has for it. Reads one small file. Run [`Store::rebuild`]
    /// then.
    ///
    /// # Errors
    /// What the system says about the directory; `InvalidData` if the table is none.
    pub fn open(settings: Settings, table: OwnedFd) -> io::Result<Store> {
        let table = Table::open(table)?;
        let hot =
            Hot::new(settings.memory_bytes_max, settings.files_max, u64::from(settings.inline_bytes_max));
        Ok(Store { core: Arc::new(Core { settings, table, seed: Seed(0, 0), hot }) })
    }

    /// The key of a text.
    pub fn key(&self, text: &[u8]) -> Key {
        self.core.seed.key(text)
    }

    /// What is known about a key. `now` is in seconds since 1970.
    pub fn find(&self, key: &Key, now: u64) -> Found {
        match self.core.hot.find(key) {
            Some(entry) => Found::Entry(entry),
            None if self.core.table.is_passed(key.hash, now) => Found::Pass,
            None => Found::Nothing,
        }
    }

    /// Notes that a response of this key is not to be stored until then (seconds since 1970), so that nobody waits for it to be.
    pub fn pass(&self, key: &Key, until: u64) {
        self.core.table.pass(key.hash, until);
    }

    /// To be called when a response is asked for that may be stored.
    pub fn fetch(&self, key: &Key) -> Fetch {
        let generation = self.core.table.generation(key.hash);
        Fetch { key: key.clone(), stamp: self.core.table.next_number(), generation }
    }

    /// Stores a small response. It is hot at once; the job, if there is one, writes its file.
    pub fn put(&self, fetch: &Fetch, head: Head, body: Arc<[u8]>) -> (Arc<Entry>, Option<Job>) {
        let marks = fetch.marks(self.core.table.next_number());
        let entry = Arc::new(Entry::new(&fetch.key.text, head, Body::Memory(body), marks));
        self.core.hot.insert(&entry);
        (entry, None)
    }

    /// Begins to store a response. `None` while nothing is stored. Touches no disk.
    pub fn begin(&self, fetch: &Fetch) -> Option<Writing> {
        (self.core.settings.bytes_max > 0).then(|| Writing { fetch: fetch.clone() })
    }

    /// Gives an entry another head: it was found to be good still. The new entry is hot at once, the job writes its head; `fetch` is
    /// that of the request that found it.
    pub fn update(&self, fetch: &Fetch, entry: &Arc<Entry>, head: Head) -> (Arc<Entry>, Option<Job>) {
        let marks = fetch.marks(entry.marks.file);
        let entry = Arc::new(Entry::new(&entry.key, head, entry.body.clone(), marks));
        self.core.hot.insert(&entry);
        (entry, None)
    }

    /// Removes the entry of a key: it is not found any more from now on. The job removes its file.
    pub fn remove(&self, key: &Key) -> Option<Job> {
        self.core.table.next_generation(key.hash);
        self.core.hot.remove(key.hash, None);
        None
    }

    /// Purges entries: they are not found any more from now on, or, with `soft`, are stale from now on. The job removes the
    /// files; when it says [`Outcome::Purged`](super::Outcome) they are gone.
    ///
    /// # Errors
    /// Nothing is purged then.
    pub fn purge(&self, purge: Purge, soft: bool) -> Result<Job, PurgeError> {
        let _ = (purge, soft);
        Err(PurgeError::Busy)
    }

    /// Reads the directory into the index, if it is not complete, and removes what is left over. To be run once by each worker
    /// process; `now` is in seconds since 1970.
    pub fn rebuild(&self, now: u64) -> Option<Job> {
        let _ = now;
        None
    }

    /// A random number for a note of varying.
    pub fn epoch(&self) -> u64 {
        let number = self.core.table.next_number();
        self.core.seed.hash(&number.to_le_bytes()).hi
    }

    /// Numbers for the status.
    pub fn counts(&self) -> Counts {
        let held = self.core.hot.held();
        Counts { hot_entries: held.entries as u64, hot_bytes: held.bytes, ..Counts::default() }
    }
}
