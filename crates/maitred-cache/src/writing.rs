//! A response that is stored as it comes.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use flate2::Crc;

use super::core::{Core, Publication, count};
use super::disk::{Draft, read_at};
use super::entry::{BODY_OFFSET, Body, Entry, Head};
use super::fetch::Fetch;
use super::jobs::{Reserved, stored_head};
use super::layout::{Header, encode_head, encode_header};
use super::storing::Trouble;

/// Bytes that room is reserved for at a time.
const RESERVE_BYTES: u64 = 1024 * 1024;

/// A response that is stored as it comes. Dropped without [`Writing::finish`], it leaves nothing behind. A writing holds a
/// file, of which the last descriptor frees the disk: drop it on a helper thread, as a [`Job`](super::Job) does that is made
/// from it.
pub struct Writing {
    core: Arc<Core>,
    fetch: Fetch,
    draft: Option<Draft>,
    reserved: Option<Reserved>,
    len: u64,
    crc: Crc,
}

impl std::fmt::Debug for Writing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Writing").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Writing {
    pub(super) fn new(core: &Arc<Core>, fetch: Fetch) -> Writing {
        let core = Arc::clone(core);
        Writing { core, fetch, draft: None, reserved: None, len: 0, crc: Crc::new() }
    }

    /// Appends to the body, on a helper thread.
    ///
    /// # Errors
    /// What the system says; `FileTooLarge` if it does not fit into the store. Drop it then.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        self.try_append(bytes).map_err(|error| self.core.trouble("store a response", error))
    }

    fn try_append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = Arc::clone(&self.draft()?.file);
        let end = self.len.saturating_add(bytes.len() as u64);
        self.reserve(BODY_OFFSET.saturating_add(end))?;
        self.core.directory.write_at(&file, bytes, BODY_OFFSET + self.len)?;
        self.crc.update(bytes);
        self.len = end;
        Ok(())
    }

    fn draft(&mut self) -> io::Result<&Draft> {
        let draft = match self.draft.take() {
            Some(draft) => draft,
            None => self.core.directory.draft(self.fetch.key.hash())?,
        };
        Ok(self.draft.insert(draft))
    }

    /// Room is reserved in large steps, and in steps of what is needed where that is not there.
    fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        let fits = match &mut self.reserved {
            Some(reserved) => {
                reserved.holds(bytes)
                    || reserved.grow(bytes.next_multiple_of(RESERVE_BYTES))
                    || reserved.grow(bytes)
            }
            None => {
                self.reserved = Reserved::take(&self.core, bytes);
                self.reserved.is_some()
            }
        };
        if fits { Ok(()) } else { Err(io::ErrorKind::FileTooLarge.into()) }
    }

    /// The file, once something was written to it, for those who read it while it grows: the body begins at
    /// [`BODY_OFFSET`].
    pub fn file(&self) -> Option<&Arc<File>> {
        self.draft.as_ref().map(|draft| &draft.file)
    }

    /// Bytes that were appended.
    #[cfg(test)]
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Publishes it, on a helper thread. The entry can be served in any case; it is not stored if it was purged meanwhile, or if
    /// its head is too large.
    ///
    /// # Errors
    /// What the system says. Nothing is stored then.
    pub fn finish(self, head: Head) -> Result<Arc<Entry>, Trouble> {
        let core = Arc::clone(&self.core);
        self.try_finish(head).map_err(|error| core.trouble("store a response", error))
    }

    fn try_finish(mut self, head: Head) -> io::Result<Arc<Entry>> {
        let file = Arc::clone(&self.draft()?.file);
        let core = Arc::clone(&self.core);
        let key = self.fetch.key.clone();
        let marks = self.fetch.marks(core.index.table.next_number());
        let entry = Arc::new(Entry::new(key.text(), head, self.body(&file)?, marks));
        let body_end = BODY_OFFSET + self.len;
        let Some(encoded) = encode_head(&stored_head(&entry)) else { return Ok(entry) };
        let bytes = body_end + encoded.len() as u64;
        self.reserve(bytes)?;
        let boot = core.index.table.boot();
        let header = Header { body_bytes: self.len, body_crc: self.crc.sum(), file: marks.file, boot };
        core.directory.write_at(&file, &encoded, body_end)?;
        core.directory.write_at(&file, &encode_header(&header), 0)?;
        let (Some(draft), Some(reserved)) = (self.draft.take(), self.reserved.take()) else {
            return Ok(entry);
        };
        let room = reserved.use_up();
        let what = Publication { marks, key: key.text(), head: &entry.head, bytes, room };
        if core.publish(draft, &what)? {
            count(&core.counters.writes);
            let place = core.index.table.find(key.hash()).map_or(u32::MAX, |(place, _)| place);
            entry.place.store(place, Relaxed);
            core.hot.insert(&entry);
        }
        Ok(entry)
    }

    /// A small body is kept in memory, as if it had been one from the start.
    fn body(&self, file: &Arc<File>) -> io::Result<Body> {
        match usize::try_from(self.len) {
            Ok(len) if self.len <= u64::from(self.core.settings.inline_bytes_max) => {
                let mut bytes = Vec::with_capacity(len);
                read_at(file, &mut bytes, len, BODY_OFFSET)?;
                Ok(Body::Memory(bytes.into()))
            }
            _ => Ok(Body::File { file: Arc::clone(file), offset: BODY_OFFSET, len: self.len }),
        }
    }
}
