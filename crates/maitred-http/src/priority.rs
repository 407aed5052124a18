//! The `priority` field (RFC 9218).

/// What a client requests for the order of responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// 0 is the most urgent, 7 the least.
    pub urgency: u8,
    /// Whether the client can use parts of the response: then it shares with others of its urgency.
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Self { urgency: 3, incremental: false }
    }
}

impl Priority {
    /// Reads the value of a `Priority` field, a dictionary of RFC 8941. What is not understood is passed over, as
    /// 9218-4 asks for unknown parameters and for values out of range.
    pub fn parse(value: &[u8]) -> Self {
        Self::default().with(value)
    }

    /// Goes on with a further line of the field: lines are one dictionary, of which the last member of a name counts.
    pub fn with(self, value: &[u8]) -> Self {
        let mut priority = self;
        for member in value.split(|byte| *byte == b',') {
            let member = member.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
            match member {
                [b'u', b'=', digit @ b'0'..=b'7'] => priority.urgency = digit - b'0',
                b"i" | b"i=?1" => priority.incremental = true,
                b"i=?0" => priority.incremental = false,
                _ => {}
            }
        }
        priority
    }
}

/// Priorities that are kept for streams that are not open yet (9218-7.1 lets a server bound them); of more, the oldest
/// is dropped. Sixteen bytes each. Browsers send such a frame right before the request, so that one would do.
pub const EARLY_PRIORITIES_MAX: usize = 16;

/// Priorities of streams that are not open yet. Empty, and without memory, with nearly all clients.
#[derive(Debug, Default)]
pub(crate) struct Early(Vec<(u64, Priority)>);

impl Early {
    /// Notes the latest priority of a stream.
    pub(crate) fn put(&mut self, stream: u64, priority: Priority) {
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
    pub(crate) fn room_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(u64, Priority)>()
    }

    /// The priority of a stream that opens now. Earlier streams can open no more, and are forgotten.
    #[inline]
    pub(crate) fn take(&mut self, stream: u64) -> Option<Priority> {
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
