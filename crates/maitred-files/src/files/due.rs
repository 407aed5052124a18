//! Codings of files that are due: from the entry to a helper thread, and back.

use std::rc::{Rc, Weak};
use std::sync::Arc;

use super::FileServer;
use super::cache::Space;
use super::encoding::{Content, Encoding, EncodingPlace};
use super::entry::{Body, Entry};

/// Entries whose codings are to be made. Beyond this, they have to be asked for again.
const DUE_MAX: usize = 64;

/// What is to be made, and for what.
#[derive(Debug)]
pub(super) struct Due {
    entry: Weak<Entry>,
    space: Space,
    at: u8,
}

impl FileServer {
    /// An entry was asked for in a coding often enough.
    #[cold]
    pub(super) fn note_due(&mut self, space: Space, entry: &Rc<Entry>) {
        let Some(at) = entry.made.as_ref().and_then(|made| made.take_due()) else { return };
        let known = |due: &Due| due.entry.as_ptr() == Rc::as_ptr(entry) && due.at == at;
        if self.due.len() < DUE_MAX && !self.due.iter().chain(&self.pending).any(known) {
            self.due.push_back(Due { entry: Rc::downgrade(entry), space, at });
        }
    }

    /// Whether there is something to make, and nothing is being made for this thread.
    #[inline]
    pub fn has_due(&self) -> bool {
        !self.due.is_empty() && self.pending.is_none()
    }

    /// The next one to make.
    pub fn next_due(&mut self, place: EncodingPlace) -> Option<Arc<Encoding>> {
        while let Some(due) = self.due.pop_front() {
            let Some(entry) = due.entry.upgrade() else { continue };
            let missing = entry.made.as_ref().and_then(|made| made.missing(usize::from(due.at)));
            let Some(coding) = missing else { continue };
            let content = match (entry.plain.body(), entry.plain.meta()) {
                (Body::Inline(bytes), _) => Content::Bytes(bytes.into()),
                (Body::File(file), Some(meta)) => match rustix::io::fcntl_dupfd_cloexec(&**file, 0) {
                    Ok(file) => Content::File(file, meta),
                    Err(_) => continue,
                },
                (Body::File(_), None) => continue,
            };
            self.pending = Some(due);
            return Some(Arc::new(Encoding::new(content, coding, place)));
        }
        None
    }

    /// What [`FileServer::next_due`] gave was made; or it was not, because no helper thread could take it.
    pub fn note_encoded(&mut self, encoding: Option<&Encoding>) {
        let Some(due) = self.pending.take() else { return };
        let (Some(entry), Some(encoding)) = (due.entry.upgrade(), encoding) else { return };
        let Some(made) = &entry.made else { return };
        // What is not among the cached files any more is asked for no longer.
        if !self.cache.any(due.space, &entry.key).is_some_and(|cached| Rc::ptr_eq(cached, &entry)) {
            return;
        }
        let one = encoding.made().map(|bytes| entry.plain.coded(encoding.coding(), bytes));
        self.cache.grow(due.space, &entry.key, || made.set(usize::from(due.at), one));
    }
}
