//! What is done to the file of one key: written, given another head, removed.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::core::{Core, Publication, count};
use super::disk::Draft;
use super::entry::{BODY_OFFSET, Body, Entry, Marks};
use super::index::Room;
use super::key::{Hash, Key};
use super::layout::{HEADS_MAX, Header, OLD_HEADS_BYTES_MAX, StoredHead, crc, encode_head, encode_header};
use super::read::{Opened, Seen, load, look_into};
use super::rules::Verdict;
use super::storing::Trouble;
use super::table::blocks;
use super::walk::FOLDERS;

/// Reads the entry of a key.
#[derive(Debug)]
pub(super) struct LoadJob {
    pub(super) core: Arc<Core>,
    pub(super) key: Key,
}

/// Writes the file of an entry.
#[derive(Debug)]
pub(super) struct PutJob {
    pub(super) core: Arc<Core>,
    pub(super) entry: Arc<Entry>,
}

/// Writes another head of an entry.
#[derive(Debug)]
pub(super) struct UpdateJob {
    pub(super) core: Arc<Core>,
    pub(super) entry: Arc<Entry>,
}

/// Removes the file of a key.
#[derive(Debug)]
pub(super) struct RemoveJob {
    core: Arc<Core>,
    hash: Hash,
    /// What is older than this is removed.
    number: u64,
    /// Another process that reads the directory into the table may find it there until then, and have it in memory.
    may_be_found: bool,
}

/// What was reserved, until it is used.
#[derive(Debug)]
pub(super) struct Reserved {
    core: Arc<Core>,
    room: Room,
}

impl LoadJob {
    pub(super) fn run(self) -> io::Result<Option<Arc<Entry>>> {
        load(&self.core, self.key.hash, &self.key.text)
    }
}

impl PutJob {
    pub(super) fn run(self) -> Result<(), Trouble> {
        let core = &self.core;
        if !core.storing.is_on(Instant::now()) {
            return Ok(());
        }
        self.write().map_err(|error| core.trouble("store a response", error))
    }

    fn write(&self) -> io::Result<()> {
        let (core, entry) = (&self.core, &self.entry);
        let (marks, Body::Memory(body)) = (&entry.marks, &entry.body) else { return Ok(()) };
        // A purge that has come since is seen when it is published; often it can be seen here already.
        if core.index.table.generation(marks.hash) != marks.generation {
            return Ok(());
        }
        let Some(head) = encode_head(&stored_head(entry)) else { return Ok(()) };
        let mut bytes = header_of(core, marks, body).to_vec();
        bytes.extend_from_slice(body);
        bytes.extend_from_slice(&head);
        let Some(reserved) = Reserved::take(core, bytes.len() as u64) else { return Ok(()) };
        let draft = core.directory.draft(marks.hash)?;
        core.directory.write_at(&draft.file, &bytes, 0)?;
        let file = Arc::clone(&draft.file);
        let room = reserved.use_up();
        let (key, head) = (&entry.key, &entry.head);
        let what = Publication { marks: *marks, key, head, bytes: bytes.len() as u64, room };
        if core.publish(draft, &what)? {
            count(&core.counters.writes);
            self.note_place(file);
        }
        Ok(())
    }

    /// The entry has a file. A large one was not hot: it is served from there.
    fn note_place(&self, file: Arc<File>) {
        let (core, entry) = (&self.core, &self.entry);
        let place = core.index.table.find(entry.marks.hash).map_or(u32::MAX, |(place, _)| place);
        entry.place.store(place, Relaxed);
        let len = entry.body.len();
        if len > u64::from(core.settings.inline_bytes_max) {
            let body = Body::File { file, offset: BODY_OFFSET, len };
            let other = Entry::new(&entry.key, entry.head.clone(), body, entry.marks);
            other.place.store(place, Relaxed);
            core.hot.insert(&Arc::new(other));
        }
    }
}

fn header_of(core: &Core, marks: &Marks, body: &[u8]) -> [u8; BODY_OFFSET as usize] {
    let boot = core.index.table.boot();
    encode_header(&Header { body_bytes: body.len() as u64, body_crc: crc(body), file: marks.file, boot })
}

/// The head of an entry as it stands in its file.
pub(super) fn stored_head(entry: &Entry) -> StoredHead {
    StoredHead {
        key: entry.key.clone(),
        head: entry.head.clone(),
        file: entry.marks.file,
        stamp: entry.marks.stamp,
        soft_purged: entry.is_soft_purged(),
    }
}

impl UpdateJob {
    pub(super) fn run(self) -> Result<(), Trouble> {
        let (core, entry) = (&self.core, &self.entry);
        if !core.storing.is_on(Instant::now()) {
            return Ok(());
        }
        let _guard = core.lock(entry.marks.hash);
        let verdict = core.verdict(&entry.marks, &entry.key, &entry.head);
        if verdict == Verdict::Gone {
            return Ok(());
        }
        let head = StoredHead { soft_purged: verdict == Verdict::Soft, ..stored_head(entry) };
        append_head(core, entry.marks.hash, &head)
            .map(|_| ())
            .map_err(|error| core.trouble("store a response that is good still", error))
    }
}

/// Puts another head behind those of a file; the caller holds the lock of its key. False if the file is another one by now, or
/// has a newer head.
///
/// # Errors
/// What the system says. The heads that were there before are valid.
pub(super) fn append_head(core: &Arc<Core>, hash: Hash, head: &StoredHead) -> io::Result<bool> {
    let is_it = |(_, record): &(u32, super::table::Record)| record.file == head.file;
    if !core.index.table.find(hash).as_ref().is_some_and(is_it) {
        return Ok(false);
    }
    let (file, bytes) = match core.directory.open_to_append(hash) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        result => result?,
    };
    let Seen::Whole(opened) = look_into(core, hash, file, bytes)? else { return Ok(false) };
    let last = &opened.tail.last;
    let is_older = (last.stamp, last.soft_purged) < (head.stamp, head.soft_purged);
    if opened.header.file != head.file || last.key != head.key || !is_older {
        return Ok(false);
    }
    let Some(encoded) = encode_head(head) else { return Ok(false) };
    let is_full = opened.tail.heads >= HEADS_MAX || opened.tail.bytes > OLD_HEADS_BYTES_MAX;
    if opened.is_torn() || is_full {
        return rewrite(core, hash, &opened, head, &encoded);
    }
    let appended = core.directory.append(&opened.file, &encoded);
    let mut record = opened.record(hash);
    // Of what has failed, some may be there.
    record.blocks = blocks(opened.bytes + encoded.len() as u64);
    if appended.is_ok() {
        record.keep_until = u32::try_from(head.head.keep_until).unwrap_or(u32::MAX);
    }
    core.index.change(&record);
    appended.map(|()| true)
}

/// Writes a file anew, with this head alone.
fn rewrite(
    core: &Arc<Core>,
    hash: Hash,
    opened: &Opened,
    head: &StoredHead,
    encoded: &[u8],
) -> io::Result<bool> {
    let body_end = BODY_OFFSET + opened.header.body_bytes;
    let bytes = body_end + encoded.len() as u64;
    let draft = core.directory.draft(hash)?;
    core.directory.copy(&opened.file, &draft.file, body_end)?;
    core.directory.write_at(&draft.file, encoded, body_end)?;
    publish_again(core, hash, draft)?;
    let mut record = opened.record(hash);
    record.blocks = blocks(bytes);
    record.keep_until = u32::try_from(head.head.keep_until).unwrap_or(u32::MAX);
    core.index.change(&record);
    Ok(true)
}

/// Gives a copy the name of the file that it is one of.
fn publish_again(core: &Core, hash: Hash, draft: Draft) -> io::Result<()> {
    let published = draft.publish(hash);
    if published.is_err() {
        core.index.forget(hash, u64::MAX);
        let _ = core.directory.remove(hash);
    }
    published
}

impl RemoveJob {
    /// The key is not found any more from now on.
    pub(super) fn new(core: &Arc<Core>, hash: Hash) -> RemoveJob {
        let number = core.index.table.next_number();
        let may_be_found = core.index.table.progress() <= FOLDERS;
        core.begin_removing(hash, number);
        core.index.table.withdraw(hash);
        core.hot.remove(hash, None);
        RemoveJob { core: Arc::clone(core), hash, number, may_be_found }
    }

    /// # Errors
    /// What the system says: the file may be there still.
    pub(super) fn run(self) -> io::Result<bool> {
        let removed = self.core.remove_file(self.hash, self.number)?;
        if self.may_be_found {
            self.core.index.table.withdraw(self.hash);
        }
        self.core.end_removing(self.hash, self.number);
        if removed {
            count(&self.core.counters.purged);
        }
        Ok(removed)
    }
}

impl Reserved {
    /// Reserves room for a file of so many bytes, if that is possible at all.
    pub(super) fn take(core: &Arc<Core>, bytes: u64) -> Option<Reserved> {
        let blocks = blocks(bytes);
        let room = Room { blocks: u64::from(blocks), entries: 1 };
        let fits = core.index.could_hold(blocks, core.settings.bytes_max) && core.reserve(room);
        fits.then(|| Reserved { core: Arc::clone(core), room })
    }

    /// Whether it is enough for a file of so many bytes.
    pub(super) fn holds(&self, bytes: u64) -> bool {
        u64::from(blocks(bytes)) <= self.room.blocks
    }

    /// Reserves more, for a file of so many bytes.
    pub(super) fn grow(&mut self, bytes: u64) -> bool {
        let wanted = u64::from(blocks(bytes));
        let more = wanted.saturating_sub(self.room.blocks);
        let fits = self.core.index.could_hold(blocks(bytes), self.core.settings.bytes_max)
            && (more == 0 || self.core.reserve(Room { blocks: more, entries: 0 }));
        if fits {
            self.room.blocks += more;
        }
        fits
    }

    /// Another job uses it, or gives it back.
    pub(super) fn use_up(mut self) -> Room {
        std::mem::take(&mut self.room)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.core.index.release(self.room);
    }
}
