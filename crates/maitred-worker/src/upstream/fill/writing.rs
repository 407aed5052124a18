//! Where the content of a long response goes while it is fetched: a file that becomes an entry of the store; or one that does
//! not, if the store has no room for it, or the response turns out to be too long. The requests that wait for the response are
//! answered from either.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};

use maitred_base::budget::{Budget, Permit};
use maitred_cache::{BODY_OFFSET, Entry, Fetch, Head, Store, Writing};

/// Bytes that are copied at a time.
const COPY_BYTES: usize = 256 * 1024;

/// See the module.
#[derive(Debug)]
pub(crate) struct FillFile {
    place: Place,
    bytes: u64,
}

#[derive(Debug)]
enum Place {
    /// The store has it.
    Store(Writing),
    /// The file has no name, and is gone when it was sent. The permit is that of bodies, in memory or on a disk.
    Loose(Arc<File>, Permit),
}

/// What a helper has made of a piece.
#[derive(Debug)]
pub(crate) enum Written {
    /// The piece is in the file, and more may follow.
    Open(Box<FillFile>),
    /// All of the response is in this file, from this offset on, and so many bytes. If there is an entry, it is kept.
    Whole(Arc<File>, u64, u64, Option<Arc<Entry>>),
}

/// Where files are made.
#[derive(Debug)]
pub(crate) struct Places<'p> {
    pub(crate) store: Option<&'p Store>,
    pub(crate) spool: &'p Path,
    /// The budgets of bodies.
    pub(crate) on_disk: &'p Arc<Budget>,
    pub(crate) in_memory: &'p Arc<Budget>,
}

/// What is to be done with a piece.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) content: Vec<u8>,
    /// Nothing follows.
    pub(crate) last: bool,
    /// What it is stored by, the head of the entry, and how long it may be.
    pub(crate) fetch: Fetch,
    pub(crate) head: Head,
    pub(crate) bytes_max: u64,
}

impl FillFile {
    /// Writes a piece, to a new file if there is none. Runs in a helper thread.
    ///
    /// # Errors
    /// The file has no place at all.
    pub(crate) fn write(
        places: &Places<'_>,
        file: Option<Box<FillFile>>,
        piece: Piece,
    ) -> io::Result<Written> {
        let mut file = match file {
            Some(file) => file,
            None => {
                let of_store = places.store.and_then(|store| store.begin(&piece.fetch));
                let place = match of_store {
                    Some(writing) => Place::Store(writing),
                    None => loose(places)?,
                };
                Box::new(FillFile { place, bytes: 0 })
            }
        };
        if let Place::Store(_) = &file.place
            && file.bytes + piece.content.len() as u64 > piece.bytes_max
        {
            file.leave_store(places)?;
        }
        file.append(places, &piece.content)?;
        if !piece.last {
            return Ok(Written::Open(file));
        }
        let (of, offset, bytes) = file.content().ok_or(io::ErrorKind::InvalidData)?;
        let entry = match file.place {
            Place::Store(writing) => writing.finish(piece.head).ok(),
            Place::Loose(..) => None,
        };
        Ok(Written::Whole(of, offset, bytes, entry))
    }

    /// The file, where the content begins, and how many bytes there are; `None` if nothing was written.
    pub(crate) fn content(&self) -> Option<(Arc<File>, u64, u64)> {
        match &self.place {
            Place::Store(writing) => Some((Arc::clone(writing.file()?), BODY_OFFSET, self.bytes)),
            Place::Loose(file, _) => Some((Arc::clone(file), 0, self.bytes)),
        }
    }

    fn append(&mut self, places: &Places<'_>, content: &[u8]) -> io::Result<()> {
        if let Place::Store(writing) = &mut self.place {
            if writing.append(content).is_ok() {
                self.bytes += content.len() as u64;
                return Ok(());
            }
            // A full disk is no reason to break the response off.
            self.leave_store(places)?;
        }
        if let Place::Loose(file, permit) = &mut self.place {
            if !permit.grow(content.len() as u64) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            file.write_all_at(content, self.bytes)?;
            self.bytes += content.len() as u64;
        }
        Ok(())
    }

    /// Goes on in a file of its own.
    fn leave_store(&mut self, places: &Places<'_>) -> io::Result<()> {
        let content = self.content();
        let mut place = loose(places)?;
        if let (Place::Loose(file, permit), Some((from, offset, bytes))) = (&mut place, content) {
            if !permit.grow(bytes) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            copy(&from, offset, bytes, file)?;
        }
        self.place = place;
        Ok(())
    }
}

fn copy(from: &File, offset: u64, bytes: u64, mut to: &File) -> io::Result<()> {
    let mut piece = vec![0; COPY_BYTES.min(bytes as usize)];
    let mut done = 0;
    while done < bytes {
        let wanted = piece.len().min((bytes - done) as usize);
        let part = piece.get_mut(..wanted).unwrap_or_default();
        from.read_exact_at(part, offset + done)?;
        to.write_all(part)?;
        done += wanted as u64;
    }
    Ok(())
}

/// A file without a name, where bodies are kept; if the disk does not work, in memory.
fn loose(places: &Places<'_>) -> io::Result<Place> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::open(places.spool, flags, Mode::RUSR | Mode::WUSR) {
        return Ok(Place::Loose(Arc::new(file.into()), places.on_disk.begin()));
    }
    let file = memfd_create("maitred-fill", MemfdFlags::CLOEXEC)?;
    Ok(Place::Loose(Arc::new(file.into()), places.in_memory.begin()))
}
