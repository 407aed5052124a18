//! A file in a coding: work for a helper thread.

use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::resolve::Meta;
use maitred_config::Coding;
use maitred_policy::compress::whole;

/// The one place of a process for something to be encoded: a helper thread that does so has no time for disks meanwhile.
#[derive(Debug)]
pub struct EncodingPlace(Arc<AtomicBool>);

impl EncodingPlace {
    /// Takes it, if it is free.
    pub fn take(taken: &Arc<AtomicBool>) -> Option<EncodingPlace> {
        (!taken.swap(true, Ordering::Acquire)).then(|| EncodingPlace(Arc::clone(taken)))
    }
}

impl Drop for EncodingPlace {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Work for a helper thread: a file in a coding.
#[derive(Debug)]
pub struct Encoding {
    content: Content,
    coding: Coding,
    made: OnceLock<Option<Vec<u8>>>,
    /// No more than one is made at a time.
    _place: EncodingPlace,
}

/// What is encoded.
#[derive(Debug)]
pub(super) enum Content {
    Bytes(Box<[u8]>),
    File(OwnedFd, Meta),
}

impl Encoding {
    pub(super) fn new(content: Content, coding: Coding, place: EncodingPlace) -> Encoding {
        Encoding { content, coding, made: OnceLock::new(), _place: place }
    }

    /// The coding.
    pub(super) fn coding(&self) -> Coding {
        self.coding
    }

    /// What was made; `None` if that saves nothing, or the file has changed.
    pub(super) fn made(&self) -> Option<&[u8]> {
        self.made.get()?.as_deref()
    }

    /// Does it, on a helper thread.
    pub fn run(&self) {
        // A panic of an encoder must not keep the thread waiting that has asked.
        let made = catch_unwind(AssertUnwindSafe(|| self.encode()));
        let _ = self.made.set(made.unwrap_or_default());
    }

    fn encode(&self) -> Option<Vec<u8>> {
        match &self.content {
            Content::Bytes(bytes) => whole::encode(self.coding, bytes),
            Content::File(file, meta) => whole::encode(self.coding, &read(file, meta)?),
        }
    }
}

/// All of a file, if it is still the one that it was.
fn read(file: &OwnedFd, meta: &Meta) -> Option<Vec<u8>> {
    let mut content = vec![0; usize::try_from(meta.size).ok()?];
    let mut at = 0;
    while let Some(room) = content.get_mut(at..).filter(|room| !room.is_empty()) {
        match rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut *room, at as u64)).ok()? {
            0 => return None,
            read => at += read,
        }
    }
    let now = Meta::of(&rustix::fs::fstat(file).ok()?);
    (now == *meta).then_some(content)
}
