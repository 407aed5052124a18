//! Descriptors that application processes pass by channel: they are checked, read and closed by helpers of the pool
//! ([`maitred_base::passed`]), and only sent from here.
//!
//! | what | where |
//! |---|---|
//! | a file in memory (a memfd) | is taken at once |
//! | any other descriptor | a helper checks it; the frames after it wait, and so do later messages of the process |
//! | a file of a file system that can be read without waiting | is sent as any file; a helper reads what is not in memory |
//! | any other file | a helper reads it, piece by piece |
//! | a file that there is no room for | the response that it belongs to is aborted, and the process goes on |
//! | a file without a name, by which more than `unsent_files_bytes_max` would be kept for slow clients | the same |

use std::ops::Range;
use std::rc::Rc;

use super::Processes;
use crate::agenda::Next;
use crate::handoff::{Arrival, Phase, RELAY_BIT};
use crate::inbox::Message;
use crate::keys::{ChannelKey, ConnKey};
use crate::processes::reasons::NO_DESCRIPTOR;
use crate::token::SERIAL_MASK;
use crate::upstream::Attempt;
use maitred_base::passed::FETCH_BYTES;
use maitred_files::{Segment, ServedFile};

/// Files that a process may return for one response. Each is a descriptor of the worker process until the client has it.
pub(crate) const TAIL_FILES_MAX: usize = maitred_handoff::TAIL_FILES_MAX;

/// The log message when files for slow clients have used up their budget.
const NO_FILE_BYTES: &str = "response aborted: what application processes keep in files for slow clients would exceed \
                             unsent_files_bytes_max; raise that limit, or look in the access log for the slow clients";

impl Processes {
    /// Has helpers check the descriptors that have come.
    pub(crate) fn judge(&mut self, key: ChannelKey) -> Result<(), String> {
        let shared = self.shared;
        let Some(channel) = self.pools.channels.get_mut(key) else { return Ok(()) };
        if channel.unjudged.is_empty() || channel.judging {
            return Ok(());
        }
        let (epoch, unjudged) = (channel.id.epoch, std::mem::take(&mut channel.unjudged));
        let inbox = &shared.inboxes[self.clients.base.number];
        let judge = move || {
            let verdicts = unjudged.into_iter().map(|mut passed| match passed.judge() {
                Some(reading) => Arrival::File(passed, reading),
                None => Arrival::Other(passed),
            });
            inbox.send(Message::Judged { key, epoch, verdicts: verdicts.collect() });
        };
        channel.judging = channel.lane.submit(Box::new(judge));
        match channel.judging {
            true => Ok(()),
            false => Err("helpers have too much to do with what it passes".into()),
        }
    }

    /// Helpers have checked what a process has passed: the frames that waited for that go on.
    pub(crate) fn on_judged(&mut self, key: ChannelKey, epoch: u64, verdicts: Vec<Arrival>) {
        let found = self.pools.channels.get_mut(key).filter(|channel| channel.id.epoch == epoch);
        let Some(channel) = found else { return };
        channel.judged(verdicts);
        if matches!(channel.phase, Phase::Failed(_)) {
            return;
        }
        let (id, exited) = (channel.id, channel.exited.take());
        if let Err(why) = self.judge(key) {
            return self.fail_worker(key, &why);
        }
        if let Some(how) = exited {
            return self.on_slot_exited(id, &how);
        }
        // Bytes that came meanwhile make no further edge.
        self.ready_channels.push((key, epoch as u32 & SERIAL_MASK));
    }

    /// A piece of a file: only a regular one can be sent without waiting for a peer.
    pub(crate) fn on_tail_file(
        &mut self,
        key: ChannelKey,
        connection: u32,
        request: u32,
        range: Range<u64>,
    ) -> Result<(), String> {
        let channel = &mut self.pools.channels[key];
        let (astray, arrival) = (channel.astray, channel.received.pop_front());
        let (mut passed, reading) = match arrival {
            // The frames that the descriptors belong to are not known any more.
            _ if astray => return self.break_off_short(key, connection, request, NO_DESCRIPTOR),
            Some(Arrival::File(passed, _)) if !passed.has_permit() => {
                return self.break_off_short(key, connection, request, NO_DESCRIPTOR);
            }
            Some(Arrival::File(passed, reading)) => (passed, reading),
            Some(Arrival::Other(_) | Arrival::Judging) => {
                return Err("it returned a descriptor that is not of a regular file".into());
            }
            None => return Err("it sent a frame without its descriptor".into()),
        };
        let (index, _) = self.in_flight(key, connection, request)?;
        let is_file = |piece: &&Segment| matches!(piece, Segment::File { .. });
        let returned = index.and_then(|index| self.exchange_of(index)?.outgoing.returned.as_deref());
        let files = returned.map_or(0, |returned| returned.pieces.iter().filter(is_file).count());
        if files >= TAIL_FILES_MAX {
            return Err(format!("it returned more than {TAIL_FILES_MAX} files for one response"));
        }
        if passed.is_nameless(reading) {
            match self.shared.unsent_files.take(range.end - range.start) {
                Some(bytes) => passed.keep(bytes),
                None => return self.break_off_short(key, connection, request, NO_FILE_BYTES),
            }
        }
        let file = Rc::new(ServedFile::Passed(passed, reading));
        self.on_tail(key, connection, request, Segment::File { file, offset: range.start, end: range.end })
    }

    /// The worker process has no room for a file of a response. The application has not caused that, so only this response is
    /// aborted.
    pub(crate) fn break_off_short(
        &mut self,
        key: ChannelKey,
        connection: u32,
        request: u32,
        why: &str,
    ) -> Result<(), String> {
        let (index, number) = self.in_flight(key, connection, request)?;
        let Some(index) = index else { return Ok(()) };
        let id = self.pools.channels[key].id;
        let (pool, slot) = (self.shared.pool_name(id.pool), id.slot);
        self.log_limited(|| match why {
            NO_DESCRIPTOR => tracing::error!(pool, slot, "{why}"),
            _ => tracing::warn!(pool, slot, "{why}"),
        });
        if number & RELAY_BIT == 0 {
            self.abort_unanswered(index);
            return Ok(());
        }
        self.follow_up(index, Next::NoRoom);
        Ok(())
    }

    /// Has a helper read a piece of a file that cannot be read here; it takes the place of that part in the response. False
    /// when helpers have too much to do. `tail`: it is the first of what the process has returned, otherwise of what is sent.
    pub(crate) fn fetch(
        &mut self,
        index: ConnKey,
        file: &Rc<ServedFile>,
        range: Range<u64>,
        tail: bool,
    ) -> bool {
        let (inbox, connection) = (&self.shared.inboxes[self.number], self.id(index));
        let (Some(lane), Ok(copy)) = (file.lane(), file.try_clone()) else { return false };
        self.row.disk_waits.add(1);
        let bytes = (range.end - range.start).min(FETCH_BYTES as u64);
        let read = move || {
            let result = copy.fetch(range.start, bytes);
            drop(copy);
            inbox.send(Message::Fetched { connection, tail, result });
        };
        let submitted = lane.submit(Box::new(read));
        if submitted {
            self.exchange(index).outgoing.awaits_disk = true;
            self.await_passed(index);
        }
        submitted
    }

    /// A helper reads what an application has passed. The time for that does not count against the client, but is bounded by
    /// `request_timeout`, as for the application itself.
    pub(crate) fn await_passed(&mut self, index: ConnKey) {
        match self.exchange(index).dispatch.pool {
            Some(pool) => {
                let timeout = self.silence_max(pool);
                self.arm_in(index, timeout);
            }
            None => self.wheel.disarm(index),
        }
    }

    /// Counts a response that is aborted because of a file, and logs which process has passed that file.
    pub(crate) fn note_broken_file(&mut self, index: ConnKey) {
        let shared = self.shared;
        self.row.files_broken.add(1);
        let exchange = self.exchange_of(index);
        let relayed = self.attempt_of(index).and_then(Attempt::handed).map(|handed| handed.request.0);
        let channel = relayed.and_then(|key| self.pools.channels.get(key));
        let by = channel
            .map(|channel| channel.id)
            .or(exchange.and_then(|exchange| exchange.dispatch.returned_by.as_deref().copied()));
        self.log_limited(|| match by {
            Some(id) => {
                let (pool, slot) = (shared.pool_name(id.pool), id.slot);
                tracing::warn!(
                    pool,
                    slot,
                    "response aborted: the process returned a file that is shorter than announced, or cannot be read"
                );
            }
            None => tracing::warn!("response aborted: a file has become shorter, or cannot be read"),
        });
    }
}
