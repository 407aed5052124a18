//! A file as it is read: whatever is in it, the result is an entry that was stored as a whole, or none.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use flate2::Crc;

use super::core::{Core, count};
use super::disk::{is_none, read_at};
use super::entry::{BODY_OFFSET, Body, Entry, Marks};
use super::key::Hash;
use super::layout::{HEADER_BYTES, Header, TAIL_BYTES_MAX, Tail, crc, decode_header, decode_tail};
use super::rules::{Subject, Verdict};
use super::table::{Record, blocks};

/// Bytes that are read first: header, body and head of most files.
const FIRST_BYTES: usize = 16 * 1024;
/// Bytes of a body that are checked at a time.
const CHECK_BYTES: usize = 256 * 1024;

/// A file whose header and heads are as they should be.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) bytes: u64,
    pub(super) header: Header,
    pub(super) tail: Tail,
    /// What was read first.
    start: Vec<u8>,
}

impl Opened {
    /// Whether something follows the last whole head.
    pub(super) fn is_torn(&self) -> bool {
        BODY_OFFSET + self.header.body_bytes + self.tail.bytes as u64 != self.bytes
    }

    /// What its slot says.
    pub(super) fn record(&self, hash: Hash) -> Record {
        let keep_until = u32::try_from(self.tail.last.head.keep_until).unwrap_or(u32::MAX);
        Record { hash, file: self.header.file, blocks: blocks(self.bytes), keep_until }
    }

    /// What rules are tested against.
    pub(super) fn subject(&self, tested: u64) -> Subject<'_> {
        let last = &self.tail.last;
        Subject { key: &last.key, tags: &last.head.tags, stamp: last.stamp, tested }
    }
}

/// What a file of this name is.
#[derive(Debug)]
pub(super) enum Seen {
    /// No file has this name.
    Missing,
    /// What stands there is damaged, of another format, of another key, or no file.
    Broken,
    /// The file is whole, as far as can be said without its body.
    Whole(Box<Opened>),
}

/// Reads the file of a hash.
///
/// # Errors
/// What the system says.
pub(super) fn look(core: &Core, hash: Hash) -> io::Result<Seen> {
    match core.directory.open_file(hash) {
        Ok((file, bytes)) => look_into(core, hash, file, bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Seen::Missing),
        Err(error) if is_none(&error) => Ok(Seen::Broken),
        Err(error) => Err(error),
    }
}

/// Reads a file that is open.
///
/// # Errors
/// What the system says.
pub(super) fn look_into(core: &Core, hash: Hash, file: File, bytes: u64) -> io::Result<Seen> {
    match read(core, hash, file, bytes) {
        Ok(Some(opened)) => Ok(Seen::Whole(opened.into())),
        Ok(None) => Ok(Seen::Broken),
        // The file was longer a moment ago.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Seen::Broken),
        Err(error) => Err(error),
    }
}

fn read(core: &Core, hash: Hash, file: File, bytes: u64) -> io::Result<Option<Opened>> {
    let mut start = Vec::new();
    read_at(&file, &mut start, usize::try_from(bytes).unwrap_or(FIRST_BYTES).min(FIRST_BYTES), 0)?;
    let Some(header) = decode_header(&start) else { return Ok(None) };
    let tail_at = BODY_OFFSET.saturating_add(header.body_bytes);
    let Some(tail_bytes) = bytes.checked_sub(tail_at).and_then(|bytes| usize::try_from(bytes).ok()) else {
        return Ok(None);
    };
    if tail_bytes > TAIL_BYTES_MAX {
        return Ok(None);
    }
    let known = usize::try_from(tail_at).ok().and_then(|at| start.get(at..at + tail_bytes));
    let mut rest = Vec::new();
    let tail = match known {
        Some(known) => known,
        None => {
            read_at(&file, &mut rest, tail_bytes, tail_at)?;
            &rest
        }
    };
    let tail = decode_tail(tail, header.file).filter(|tail| core.seed.hash(&tail.last.key) == hash);
    let opened = tail.map(|tail| Opened { file, bytes, header, tail, start });
    // What a process has left that was killed, or found no room, was never a head. After another start of the system it may be
    // one that was lost, and the one before it one that was purged.
    Ok(opened.filter(|opened| header.boot == core.index.table.boot() || !opened.is_torn()))
}

/// What a body turned out to be.
enum Checked {
    /// Small, and as it was written.
    Small(Arc<[u8]>),
    /// To be sent from its file.
    Large,
    /// Not as it was written.
    Broken,
}

/// Checks a body. A large one is read through once after each start of the system: what was written when the machine fails may
/// come back in pieces.
fn check_body(core: &Core, hash: Hash, opened: &mut Opened) -> io::Result<Checked> {
    let header = opened.header;
    let small = usize::try_from(header.body_bytes).ok();
    if let Some(len) = small.filter(|len| *len as u64 <= u64::from(core.settings.inline_bytes_max)) {
        let start = &mut opened.start;
        let missing = (HEADER_BYTES + len).saturating_sub(start.len());
        let at = start.len() as u64;
        read_at(&opened.file, start, missing, at)?;
        let bytes = start.get(HEADER_BYTES..HEADER_BYTES + len).unwrap_or_default();
        return Ok(if crc(bytes) == header.body_crc {
            Checked::Small(bytes.into())
        } else {
            Checked::Broken
        });
    }
    let slot = core.index.table.find(hash).filter(|(_, record)| record.file == header.file);
    let is_known = |(place, _): (u32, Record)| core.index.table.is_verified(place);
    if header.boot != core.index.table.boot() && !slot.is_some_and(is_known) {
        if checksum(&opened.file, header.body_bytes)? != header.body_crc {
            return Ok(Checked::Broken);
        }
        if let Some((place, _)) = slot {
            core.index.table.set_verified(place);
        }
    }
    Ok(Checked::Large)
}

/// The CRC-32 of a body.
fn checksum(file: &File, bytes: u64) -> io::Result<u32> {
    let (mut crc, mut at, mut buffer) = (Crc::new(), 0, Vec::with_capacity(CHECK_BYTES));
    while at < bytes {
        buffer.clear();
        let wanted = usize::try_from(bytes - at).unwrap_or(CHECK_BYTES).min(CHECK_BYTES);
        read_at(file, &mut buffer, wanted, BODY_OFFSET + at)?;
        crc.update(&buffer);
        at += wanted as u64;
    }
    Ok(crc.sum())
}

/// Reads the entry of a key. The entry is hot then, if there is room.
///
/// # Errors
/// What the system says.
pub(super) fn load(core: &Core, hash: Hash, key: &[u8]) -> io::Result<Option<Arc<Entry>>> {
    core.sync_rules()?;
    // Whatever happens from here on is seen when the entry is found: it is of an older generation, or was not tested.
    let generation = core.index.table.generation(hash);
    let tested = core.rules.latest();
    let confirmed = |(place, _): &(u32, Record)| core.index.table.is_confirmed(*place);
    let Some((place, record)) = core.index.table.find(hash).filter(confirmed) else { return Ok(None) };
    let mut opened = match look(core, hash)? {
        Seen::Whole(opened) => opened,
        Seen::Broken => return discard(core, hash, &record).map(|()| None),
        Seen::Missing => {
            core.index.forget(hash, record.file);
            return Ok(None);
        }
    };
    if *opened.tail.last.key != *key {
        return Ok(None);
    }
    let checked = check_body(core, hash, &mut opened)?;
    let found = opened.record(hash);
    let Opened { file, header, tail: Tail { last: stored, .. }, .. } = *opened;
    let body = match checked {
        Checked::Small(bytes) => Body::Memory(bytes),
        Checked::Large => Body::File { file: Arc::new(file), offset: BODY_OFFSET, len: header.body_bytes },
        Checked::Broken => return discard(core, hash, &record).map(|()| None),
    };
    let subject = Subject { key, tags: &stored.head.tags, stamp: stored.stamp, tested };
    let verdict = core.rules.test_again(subject);
    let marks = Marks { hash, file: header.file, stamp: stored.stamp, generation, tested };
    if verdict == Verdict::Gone || core.index.table.generation(hash) != generation {
        return Ok(None);
    }
    let entry = Entry::new(key, stored.head, body, marks);
    entry.soft_purged.store(stored.soft_purged || verdict == Verdict::Soft, Relaxed);
    entry.place.store(place, Relaxed);
    let entry = Arc::new(entry);
    core.hot.insert(&entry);
    count(&core.counters.loads);
    if found.file == record.file {
        core.index.change(&found);
        core.index.adopt(place, &found);
    }
    Ok(Some(entry))
}

/// Removes a file that is not as it should be, unless another one has taken its place.
///
/// # Errors
/// What the system says.
pub(super) fn discard(core: &Core, hash: Hash, record: &Record) -> io::Result<()> {
    count(&core.counters.broken);
    core.remove_file(hash, record.file).map(|_| ())
}
