//! What Maitred answers by itself: files, redirects, fixed replies, errors.
//!
//! A handler writes the response's head (and a small body), and gives back what is to follow. A handler never touches the
//! client's socket, knows nothing of its protocol, and never waits for a disk.
//!
//! | module | what it holds |
//! |---|---|
//! | [`disk`] | helper threads that wait for disks |
//! | [`files`] | from a path to bytes |
//! | [`fixed`] | redirects, fixed replies, errors |
//! | [`kept`] | responses that come from the cache |
//! | [`exchange`] | one request and its response, between the protocols of clients and what answers |

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

use maitred_base::clock::Clock;

pub use files::{
    CachedBytes, Encoding, EncodingPlace, FileServer, FileSet, ScriptRules, Wanted, usual_media_type,
};
pub use maitred_base::passed::ServedFile;
pub use maitred_base::residency::OpenFile;

pub mod disk;
pub mod exchange;
pub mod files;
pub mod fixed;
pub mod kept;
#[cfg(test)]
mod testing;

/// What a handler made of one request.
#[derive(Debug)]
pub enum Served {
    /// The whole response was written.
    Whole(Summary),
    /// The same; what it ends with are these bytes, which are held for longer.
    Cached(Summary, CachedBytes),
    /// The head was written; these segments follow it, in order.
    Streaming(Summary, VecDeque<Segment>),
    /// Something has to come from the disk first. Nothing was written: have a helper thread do the job, then
    /// serve the same request again, with `warmed` set.
    Blocked(DiskJob),
}

/// What the access log says of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Status code.
    pub status: u16,
    /// Bytes of the body; 0 for HEAD.
    pub body_bytes: u64,
}

/// A piece of a response that follows its head.
#[derive(Debug)]
pub enum Segment {
    /// Bytes in memory.
    Bytes(Box<[u8]>),
    /// Bytes that the cache of files, or the configuration, has in memory.
    Cached(CachedBytes),
    /// `offset..end` of an open file, in bytes.
    File {
        /// The file; the cache may hold it too.
        file: Rc<ServedFile>,
        /// Where the next byte to send is.
        offset: u64,
        /// Where to stop.
        end: u64,
    },
}

/// Work for a helper thread: it may wait for the disk, the event loop may not.
#[derive(Debug)]
pub enum DiskJob {
    /// Read this range, so that it is in the page cache. The descriptor is a duplicate.
    Read {
        /// A duplicate of the file's descriptor.
        file: ServedFile,
        /// Start, in bytes.
        offset: u64,
        /// Length, in bytes.
        len: u64,
    },
    /// Write at the end of a file.
    Append {
        /// The file.
        file: std::fs::File,
        /// What to write.
        bytes: Vec<u8>,
    },
    /// Anything else that may wait for a disk.
    Task(Task),
    /// Make a coding of a file.
    Encode(std::sync::Arc<files::Encoding>),
    /// Look a path up below a root and read what the event loop would keep of it, so that names, inodes and first
    /// pages are in memory.
    Lookup {
        /// Where to look.
        set: FileSet,
        /// What for.
        wanted: Wanted,
        /// Files of at most so many bytes are read too.
        inline_bytes_max: u32,
    },
}

/// Something that a helper thread does.
pub struct Task(Mutex<Option<Work>>);

type Work = Box<dyn FnOnce() + Send>;

impl std::fmt::Debug for Task {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Task")
    }
}

impl Task {
    /// Does it, once.
    pub(crate) fn run(&self) {
        let work = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(work) = work {
            work();
        }
    }
}

impl DiskJob {
    /// A job that does `work`.
    pub fn task(work: impl FnOnce() + Send + 'static) -> DiskJob {
        DiskJob::Task(Task(Mutex::new(Some(Box::new(work)))))
    }
}

/// One request as a handler sees it.
#[derive(Debug, Clone, Copy)]
pub struct RequestContext<'a> {
    /// The judged head.
    pub request: &'a maitred_http::request::Request<'a, 'a>,
    /// The path of the request, percent-decoded and without dot segments; starts with `/`.
    pub path: &'a [u8],
    /// The clock of this turn.
    pub clock: &'a Clock,
    /// The request was [`Served::Blocked`] before and its job is done: wait for the disk rather than ask once more.
    pub warmed: bool,
}
