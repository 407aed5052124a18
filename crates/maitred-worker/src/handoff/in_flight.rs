//! Requests on their way to an application process, or with it.

use std::os::fd::OwnedFd;
use std::time::Instant;

use crate::keys::ConnKey;
use maitred_base::budget::Permit;

/// A request that an application process has.
#[derive(Debug)]
pub(crate) struct InFlight {
    /// Index of the client's connection; `None` once the client has gone.
    pub index: Option<ConnKey>,
    /// The number that the process knows the response descriptor by: the index, or that of a relay.
    pub number: u32,
    /// The client does not wait for the response any more, and the process was sent CANCEL: from when on that it has not
    /// ended counts as stuck.
    pub late_at: Option<Instant>,
    /// Likewise, when the relay is shut down that it writes to.
    pub cut_at: Option<Instant>,
    /// Where its body is.
    pub body: SentBody,
    /// What its body takes up, if the process has that in a file.
    pub kept: Option<Permit>,
}

/// The body of a request, as it goes to an application process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum SentBody {
    /// So many bytes, at the end of the frame.
    Inline(usize),
    /// A descriptor that goes with the frame.
    Carried,
    /// The body comes through the relay, or has been dropped: it cannot be given to another process.
    #[default]
    Elsewhere,
}

/// A request that an application process cannot have seen.
#[derive(Debug)]
pub(crate) struct Unsent {
    /// The request.
    pub request: InFlight,
    /// The body of the request, empty if it has none; `None` if it is not there any more.
    pub body: Option<UnsentBody>,
}

/// The body of such a request.
#[derive(Debug)]
pub(crate) enum UnsentBody {
    /// The body was part of the frame.
    Inline(Vec<u8>),
    /// The body was spooled; with its place among the descriptors.
    Spooled(OwnedFd, Permit),
}
