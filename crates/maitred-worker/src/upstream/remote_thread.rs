//! A request that another thread answers, and what is sent to that thread besides the request.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::fill::selected::Part;
use crate::keys::{Key, UpstreamKey};

/// What the other thread has beyond `queue_timeout` and `request_timeout` to answer by itself: longer than it waits for a process
/// that has got the message to end.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

/// What the other thread needs besides the request itself.
#[derive(Debug)]
pub(crate) struct RemoteRequest {
    /// The client uses TLS.
    pub secure: bool,
    /// The id that the request has.
    pub request_id: u128,
    /// When its first byte was seen.
    pub began: Instant,
    /// How far the client's thread has come with the response.
    pub heard: Heard,
    /// The client may get informational responses.
    pub may_be_informed: bool,
    /// Fields that tell an application about the TLS of the client: names and values.
    pub fields: Vec<(String, Vec<u8>)>,
}

/// When a byte of a response was last read, in milliseconds since the request began; 0 if none was. The thread that has the
/// client writes it, the one that has the process reads it: a process may write to the socketpair itself, of which the kernel
/// keeps no times.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heard(Arc<AtomicU64>);

impl Heard {
    /// Notes a byte.
    pub(crate) fn note(&self, began: Instant, now: Instant) {
        let millis = now.saturating_duration_since(began).as_millis() as u64;
        self.0.store(millis.max(1), Relaxed);
    }
}

/// The part of an attempt that is only for another thread: where the client's thread notes its progress, and since when.
#[derive(Debug)]
pub(crate) struct Remote {
    /// The connection to that thread.
    pub(crate) upstream: UpstreamKey,
    pub(crate) heard: Heard,
    pub(crate) began: Instant,
    /// The client gets a part of the response.
    pub(crate) part: Option<Box<Part>>,
}

impl Remote {
    /// A request that the other thread has got.
    pub(crate) fn new(heard: Heard, began: Instant) -> Remote {
        Remote { upstream: UpstreamKey::NONE, heard, began, part: None }
    }

    /// Something of the response has come.
    pub(crate) fn note_heard(&self, now: Instant) {
        self.heard.note(self.began, now);
    }
}

impl RemoteRequest {
    /// When the client's thread last read a byte of the response.
    pub(crate) fn last_heard(&self) -> Option<Instant> {
        let millis = self.heard.0.load(Relaxed);
        (millis > 0).then(|| self.began + Duration::from_millis(millis))
    }
}
