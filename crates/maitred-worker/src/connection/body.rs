//! The body of the request at hand: what is there of it, and what is still to come.

use maitred_http::fields::FieldLines;

use super::incoming::Incoming;
use super::spool::Spool;

/// The body of a request.
#[derive(Debug, Default)]
pub(crate) struct RequestBody {
    /// The content of the body, decoded, as far as that is in memory.
    pub content: Vec<u8>,
    /// The content of the body, if there is too much of it for memory, or for a frame.
    pub spool: Option<Box<Spool>>,
    /// What came behind it (9110-6.5), if anything.
    pub trailers: Option<Box<FieldLines>>,
    /// What is still to come of it.
    pub incoming: Incoming,
}

impl RequestBody {
    /// Empties it, and keeps the memory of the content.
    pub(super) fn reset(&mut self) {
        self.content.clear();
        (self.spool, self.trailers, self.incoming) = (None, None, Incoming::Nothing);
    }

    /// Takes what is there of it, for somewhere else; what is still to come stays.
    pub(super) fn take(&mut self) -> RequestBody {
        RequestBody {
            content: std::mem::take(&mut self.content),
            spool: self.spool.take(),
            trailers: self.trailers.take(),
            incoming: Incoming::Nothing,
        }
    }
}
