//! Priorities (RFC 9218): what PRIORITY_UPDATE says of streams that are not open yet.

use crate::priority::Priority;

/// Priorities that are kept for streams that are not open yet (9218-7.1 lets a server bound them); of more, the oldest
/// is dropped. Eight bytes each. Browsers send such a frame right before the request, so that one would do.
pub const EARLY_PRIORITIES_MAX: usize = 16;

/// Priorities of streams that are not open yet. Empty, and without memory, with nearly all clients.
#[derive(Debug, Default)]
pub(super) struct Early(Vec<(u32, Priority)>);

impl Early {
    /// Notes the latest priority of a stream.
    pub(super) fn put(&mut self, stream: u32, priority: Priority) {
        if let Some(known) = self.0.iter_mut().find(|(id, _)| *id == stream) {
            known.1 = priority;
            return;
        }
        if self.0.len() >= EARLY_PRIORITIES_MAX {
            self.0.remove(0);
        }
        self.0.push((stream, priority));
    }

    /// Bytes of memory that it holds.
    #[cfg(test)]
    pub(super) fn room_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(u32, Priority)>()
    }

    /// The priority of a stream that opens now. Earlier streams can open no more, and are forgotten.
    #[inline]
    pub(super) fn take(&mut self, stream: u32) -> Option<Priority> {
        if self.0.is_empty() {
            return None;
        }
        let found = self.0.iter().find(|(id, _)| *id == stream).map(|(_, priority)| *priority);
        self.0.retain(|(id, _)| *id > stream);
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
        found
    }
}
