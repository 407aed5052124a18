//! Requests on their way from the thread that reads the log to those that send.

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use super::request::Kind;
use crate::client::{Next, Request, Workload};
use crate::measure::Nanos;

/// Requests of a batch. One message for so many costs nothing per request.
pub(super) const BATCH_REQUESTS: usize = 256;
/// Batches that wait for a thread; with [`BATCH_REQUESTS`] what is read ahead, some 300 KiB.
const BATCHES_WAITING_MAX: usize = 8;

/// Requests with their bytes.
#[derive(Debug, Default)]
pub struct Batch {
    pub(super) bytes: Vec<u8>,
    pub(super) requests: Vec<Planned>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Planned {
    /// Where its bytes end; they start where those of the one before end.
    pub(super) end: usize,
    /// Absent in a closed loop.
    pub(super) due: Option<Nanos>,
    pub(super) kind: Kind,
}

/// A thread's requests, and the end to send them from.
pub fn channel(keep_alive: bool) -> (SyncSender<Batch>, Source) {
    let (sender, batches) = sync_channel(BATCHES_WAITING_MAX);
    (sender, Source { batches, batch: Batch::default(), at: 0, start: 0, keep_alive })
}

/// What a log's reader has sent to one thread.
#[derive(Debug)]
pub struct Source {
    batches: Receiver<Batch>,
    batch: Batch,
    at: usize,
    /// Where the bytes of request `at` start.
    start: usize,
    keep_alive: bool,
}

impl Workload for Source {
    fn next(&mut self, now: Nanos, request: &mut Request) -> Next {
        while self.at >= self.batch.requests.len() {
            match self.batches.try_recv() {
                Ok(batch) => (self.batch, self.at, self.start) = (batch, 0, 0),
                Err(TryRecvError::Empty) => return Next::Starved,
                Err(TryRecvError::Disconnected) => return Next::Finished,
            }
        }
        let Some(planned) = self.batch.requests.get(self.at) else { return Next::Finished };
        if let Some(due) = planned.due.filter(|due| *due > now) {
            return Next::WaitUntil(due);
        }
        request.bytes.extend_from_slice(self.batch.bytes.get(self.start..planned.end).unwrap_or_default());
        request.client = planned.kind.client;
        request.due = planned.due;
        request.is_head = planned.kind.is_head;
        request.is_idempotent = planned.kind.is_idempotent;
        request.logged = planned.kind.logged;
        request.closes = !self.keep_alive;
        self.at += 1;
        self.start = planned.end;
        Next::Request
    }
}
