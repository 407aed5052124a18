//! The encoders' side of a response: what they are given, whatever protocol they write.

use super::ResponseHead;

/// What goes into the `Connection` field of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// HTTP/1.1 and kept: no field.
    Implied,
    /// HTTP/1.0 and kept: `Connection: keep-alive`.
    Stated,
    /// `Connection: close`.
    Close,
    /// The connection speaks another protocol from here on: `Connection: Upgrade`.
    Switched,
}

/// What writes responses to a client.
pub trait Encode {
    /// An interim response.
    fn interim(&mut self, head: &ResponseHead<'_>);
    /// The head of the final response.
    fn head(&mut self, head: &ResponseHead<'_>, ending: &Ending);
    /// Where its content goes.
    fn content(&mut self) -> &mut Vec<u8>;
    /// Whether the content of the final response with this head is to get a coding (9110-8.4), whatever length the head says.
    /// `has_content` is false with HEAD, and where no content can be: then only the head is asked about. `may`: the client can be
    /// sent content whose length is not known beforehand. [`head`](Self::head) comes next, with the same head.
    #[inline]
    fn takes_coding(&mut self, head: &ResponseHead<'_>, has_content: bool, may: bool) -> bool {
        let _ = (head, has_content, may);
        false
    }
    /// Takes content that is to get the coding.
    fn code(&mut self, content: &[u8]) {
        let _ = content;
    }
    /// Appends to [`content`](Self::content) what was made of it, as a chunk if the client gets chunks. Says how many bytes that
    /// is without their framing; `None` if the coding has failed.
    fn put_coded(&mut self, then: Then, chunk: bool) -> Option<u64> {
        let _ = (then, chunk);
        None
    }
}

/// What is to be done with content that gets a coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// More follows.
    GoOn,
    /// What has come is to be readable now.
    Flush,
    /// Nothing follows.
    Finish,
}

/// What is said of a connection, and of the content, behind the fields of a final response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    /// The response has a `Date` of its own.
    pub dated: bool,
    /// What becomes of the client's connection.
    pub persistence: Persistence,
    /// The response names protocols that the server could switch to.
    pub upgrade: bool,
    /// The content comes in chunks.
    pub chunked: bool,
    /// No content follows.
    pub ended: bool,
    /// The response says nothing of the length of the content that it does not have.
    pub no_length: bool,
    /// What answers has said with the head that nothing follows, so that the client can be told with the head, too. gRPC needs
    /// that: there a head that is all of the response means something else than one that content could follow.
    pub over: bool,
}

impl Ending {
    /// The ending of a response made here: its fields say how long its content is.
    #[inline]
    pub fn of(persistence: Persistence) -> Ending {
        Ending {
            dated: false,
            persistence,
            upgrade: false,
            chunked: false,
            ended: false,
            no_length: false,
            over: false,
        }
    }
}
