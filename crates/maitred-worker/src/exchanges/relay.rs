//! Application processes that answer through a relay: a socketpair, of which the process has the far end.
//!
//! The request goes in a frame (`hand_off`). DONE on the channel reports that the response is whole; what the process returns to
//! be sent after what it wrote (the tail) follows then.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use maitred_http::response::Filter;
use maitred_sys::receive::receive;
use rustix::event::epoll;

use super::Exchanges;
use crate::connection::State;
use crate::connection::outgoing::Outgoing;
use crate::handoff::Relay;
use crate::keys::{ChannelKey, ConnKey, RelayKey};
use crate::processes::reasons::CANCEL_TIMEOUT;
use crate::token::{SERIAL_MASK, Token};
use crate::upstream::failure::Cause;
use crate::upstream::relay::{Handed, unwatch};
use crate::upstream::{Attempt, By, Read, Source};
use maitred_base::passed::Passed;
use maitred_files::Segment;

/// Relays that are given back in one turn: each takes a system call, and a frame.
const RELAYS_ENDED_PER_TURN: usize = 256;

/// How long a response may take before it is sent on piece by piece.
const UNWATCHED_FOR: Duration = Duration::from_millis(1);

/// Bytes that are read at a time from a file that has to go through the filter.
const TAIL_PIECE_BYTES: u64 = 64 * 1024;

impl Exchanges {
    /// A relay to the process of this channel: a free one, or a new one with the end that has to be passed.
    pub(crate) fn take_relay(&mut self, channel: ChannelKey) -> io::Result<(RelayKey, Option<OwnedFd>)> {
        if let Some(key) = self.pools.channels[channel].idle_relays.pop() {
            return Ok((key, None));
        }
        let held = self.shared.descriptor()?;
        let lane = self.pools.channels[channel].lane.clone();
        let (relay, far_end) = Relay::new(channel, held, lane)?;
        let key = self.pools.relays.insert(relay);
        Ok((key, Some(far_end)))
    }

    /// The response of the connection at `index` will come through this relay.
    pub(crate) fn start_relay(&mut self, index: ConnKey, handed: Handed, filter: Filter, keep: bool) {
        let relay = handed.relay;
        let now = self.clock.now;
        let found = &mut self.pools.relays[relay];
        found.index = Some(index);
        found.uses = found.uses.wrapping_add(1);
        let uses = found.uses;
        let by = By::Process(handed);
        let attempt = Attempt::new(filter, keep, None, by, self.clock.now);
        self.enter_upstream(index, Box::new(attempt));
        self.row.relayed.add(1);
        self.unwatched.push_back((relay, uses, now + UNWATCHED_FOR));
    }

    /// When the next relay has to be watched.
    pub(crate) fn next_watch(&self) -> Option<Instant> {
        self.unwatched.front().map(|(_, _, due)| *due)
    }

    /// Watches relays whose responses take longer than a moment. A short response is read when DONE reports it: watching for it
    /// would wake this thread for each one, and end the batch.
    pub(crate) fn watch_relays(&mut self) {
        while let Some((key, uses, due)) = self.unwatched.front().copied() {
            let relay = self.pools.relays.get(key).filter(|relay| relay.uses == uses);
            let busy = relay.and_then(|relay| relay.index);
            if busy.is_some() && self.clock.now < due {
                return;
            }
            self.unwatched.pop_front();
            if let Some(index) = busy
                && !self.watch(key, false)
            {
                self.fail_upstream(index, Cause::Bad, "its relay cannot be watched");
            }
        }
    }

    /// Has epoll report when there is something to read; and when there is room again, if something is written to it.
    pub(crate) fn watch(&mut self, key: RelayKey, feeds: bool) -> bool {
        let Some(relay) = self.processes.pools.relays.get_mut(key) else { return true };
        if relay.watched {
            return true;
        }
        let token = Token::Relay { key, channel: relay.channel.number() };
        use epoll::EventFlags as F;
        let room = if feeds { F::OUT } else { F::empty() };
        let flags = F::IN | F::RDHUP | F::ET | room;
        relay.watched =
            epoll::add(&self.processes.clients.base.epoll, relay.socket(), token.pack(), flags).is_ok();
        relay.watched
    }

    pub(crate) fn on_relay(&mut self, key: RelayKey, channel: u32, flags: epoll::EventFlags) {
        use epoll::EventFlags as F;
        let Some(relay) = self.pools.relays.get_mut(key) else { return };
        if relay.channel.number() & SERIAL_MASK != channel {
            return;
        }
        relay.hung_up |= flags.intersects(F::RDHUP | F::HUP | F::ERR);
        relay.gone |= flags.intersects(F::HUP | F::ERR);
        if let Some(index) = relay.index {
            self.move_upstream(index);
        }
    }

    /// Key of the relay that the connection waits for.
    pub(crate) fn relay_of(&self, index: ConnKey) -> Option<RelayKey> {
        match self.source_of(index)? {
            Source::Relay(relay) => Some(relay),
            _ => None,
        }
    }

    /// Reads once.
    pub(crate) fn receive_from_relay(
        &mut self,
        index: ConnKey,
        relay: RelayKey,
        rx: &mut Vec<u8>,
    ) -> Result<Read, (Cause, String)> {
        let Some(found) = self.pools.relays.get_mut(relay) else { return Ok(Read::Drained) };
        let (room, mut passed) = (rx.capacity(), Vec::new());
        let received = receive(found.socket(), rx, &mut passed);
        if !passed.is_empty() {
            // Passed descriptors are closed by helper threads, as all that applications pass.
            let lane = found.lane();
            passed.into_iter().for_each(|descriptor| drop(Passed::new(descriptor, None, lane.clone())));
            rx.clear();
            return Err((Cause::Bad, "it passed descriptors where its response goes".to_owned()));
        }
        Ok(match received {
            Ok(0) => {
                // The process closed its end, or died; its message on the channel, or its exit, decides.
                found.spoilt = true;
                self.note_relay_end(index, relay);
                Read::Drained
            }
            // A short read has emptied the relay; what comes later makes an edge. Only the end, if that was reported
            // together with these bytes, does not.
            Ok(bytes) if bytes < room && !found.hung_up => Read::Drained,
            Ok(_) => Read::More,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Read::More,
            Err(_) => Read::Drained,
        })
    }

    /// Nothing more is in the relay. With DONE, the tail follows, and then the end. True if there is more to send.
    pub(crate) fn end_relay(&mut self, index: ConnKey) -> bool {
        if self.is_tunnel(index) {
            return self.wait_for_far_end(index);
        }
        let cancelled = self.exchange(index).dispatch.cancelled;
        let Some(handed) = self.handed_mut(index) else { return false };
        if !handed.done {
            self.wait_for_upstream(index);
            return false;
        }
        if handed.broken {
            match (handed.lost, cancelled) {
                // The process was sent CANCEL because the client has gone: there is no client for an error.
                (false, true) => self.abort(index),
                (false, false) => self.fail_upstream(index, Cause::Bad, "it broke the response off"),
                (true, _) => self.fail_upstream(index, Cause::Lost, "it has ended before its response had"),
            }
            return false;
        }
        let exchange = self.exchange(index);
        match exchange.outgoing.existing().and_then(Outgoing::next_returned) {
            Some(Segment::Bytes(bytes)) => self.pass_tail(index, &bytes),
            // No process returns such bytes.
            Some(Segment::Cached(_)) => true,
            Some(file @ Segment::File { .. }) => self.tail_file(index, file),
            None => self.end_of_stream(index),
        }
    }

    /// Sends what the process has returned. False if it was no part of a response.
    fn pass_tail(&mut self, index: ConnKey, bytes: &[u8]) -> bool {
        let passed = self.pass_on(index, bytes);
        if let Err((cause, why)) = &passed {
            self.fail_upstream(index, *cause, why);
        }
        passed.is_ok()
    }

    /// A file in the tail goes to the client as it is, if the response's length was announced. Otherwise it holds framing
    /// of the application's own (chunks, or the rest of a head), and is read piece by piece.
    fn tail_file(&mut self, index: ConnKey, file: Segment) -> bool {
        let Some(attempt) = self.attempt_mut(index) else { return false };
        let Segment::File { file: source, offset, end } = file else { return false };
        let bytes = end.saturating_sub(offset);
        if attempt.filter.passthrough().is_some_and(|through| bytes <= through) {
            attempt.filter.skip(bytes);
            let exchange = self.exchange(index);
            exchange.outgoing.resident_until = 0;
            exchange.outgoing.segments.push_back(Segment::File { file: source, offset, end });
            return true;
        }
        let mut piece = vec![0; bytes.min(TAIL_PIECE_BYTES) as usize];
        let read = match source.read_now(&mut piece, offset) {
            Some(Ok(read)) if read > 0 => read,
            Some(_) => {
                self.break_off_file(index);
                return false;
            }
            None => {
                self.exchange(index).outgoing.returned().pieces.push_front(Segment::File {
                    file: Rc::clone(&source),
                    offset,
                    end,
                });
                if !self.fetch(index, &source, offset..end, true) {
                    self.fail_upstream(index, Cause::Bad, "helpers have too much to do with its files");
                }
                return false;
            }
        };
        let offset = offset + read as u64;
        if offset < end {
            self.exchange(index).outgoing.returned().pieces.push_front(Segment::File {
                file: source,
                offset,
                end,
            });
        }
        self.pass_tail(index, piece.get(..read).unwrap_or_default())
    }

    /// The response is out, and the process has sent DONE.
    pub(crate) fn release_relay(&mut self, key: RelayKey, attempt: &Attempt) {
        let broken = attempt.handed().is_some_and(|handed| handed.broken);
        if let Some(relay) = self.pools.relays.get_mut(key) {
            // More came than the announced length: the excess could be taken for the next response.
            relay.spoilt |= attempt.filter.excess() || broken;
        }
        self.free_relay(key);
    }

    /// A relay is free: it serves the next request, unless something may be left in it.
    fn free_relay(&mut self, key: RelayKey) {
        let now = self.clock.now;
        let Some(relay) = self.processes.pools.relays.get_mut(key) else { return };
        relay.index = None;
        if std::mem::take(&mut relay.watched) {
            let _ = epoll::delete(&self.processes.clients.base.epoll, relay.socket());
        }
        let (channel, spoilt) = (relay.channel, relay.spoilt);
        if spoilt {
            return self.drop_relay(key);
        }
        if let Some(channel) = self.pools.channels.get_mut(channel) {
            channel.idle_relays.push(key);
            let period = self.shared.start.config.limits.relay_idle_timeout;
            self.relay_sweep.get_or_insert((now + period, true));
        }
    }

    /// When unused relays are looked for.
    pub(crate) fn next_relay_sweep(&self) -> Option<Instant> {
        self.relay_sweep.map(|(at, _)| at)
    }

    /// Closes the relays that were not used for a period: the near ends are closed here, and the processes get a message to close
    /// theirs.
    pub(crate) fn sweep_relays(&mut self) {
        let now = self.clock.now;
        let Some((_, ends)) = self.relay_sweep.filter(|(at, _)| *at <= now) else { return };
        let mut left = RELAYS_ENDED_PER_TURN;
        let mut unneeded = Vec::new();
        for (channel, found) in self.pools.channels.iter_mut() {
            if ends {
                found.idle_relays.end_period();
            }
            let keys = found.idle_relays.take_surplus(left);
            left -= keys.len();
            unneeded.extend(keys.into_iter().map(|key| (channel, key)));
        }
        for (channel, key) in unneeded {
            if let Some(relay) = self.pools.relays.try_remove(key) {
                unwatch(&self.epoll, &relay);
            }
            if let Some(found) = self.pools.channels.get_mut(channel) {
                found.forget_number(key.known_as());
            }
            self.touch(channel);
        }
        let period = self.shared.start.config.limits.relay_idle_timeout;
        self.relay_sweep = match left {
            // More may be left to do: in the next turn.
            0 => Some((now, false)),
            _ if self.pools.relays.is_empty() => None,
            _ => Some((now + period, true)),
        };
    }

    /// Logs what an application has done wrong. A process that has ended counts as lost.
    pub(crate) fn note_failed_relay(&mut self, index: ConnKey, cause: Cause, why: &str) -> Cause {
        let Some(handed) = self.attempt_of(index).and_then(Attempt::handed) else { return cause };
        let (channel, lost) = (handed.request.0, handed.lost);
        let id = self.pools.channels.get(channel).map(|channel| channel.id);
        if let Some(id) = id {
            let (pool, slot) = (self.shared.pool_name(id.pool), id.slot);
            self.log_limited(|| tracing::warn!(pool, slot, "bad response of the application: {why}"));
        }
        if lost { Cause::Lost } else { cause }
    }

    /// Either the client takes nothing, or the application sends nothing, or its time is over.
    pub(crate) fn on_relay_timeout(&mut self, index: ConnKey, relay: RelayKey) {
        let bounded = self.exchange(index).dispatch.overdue || self.is_past_total(index);
        let waits_for_client = self.is_held_by_client(index);
        let (detached, tunnel, overdue) =
            (self.is_detached(relay), self.is_tunnel(index), self.exchange(index).dispatch.overdue);
        let Some(attempt) = self.attempt_of(index) else { return };
        let (written, handed) = (attempt.filter.head_written(), attempt.handed());
        let answering =
            handed.filter(|handed| !handed.done && !detached && !tunnel).map(|handed| handed.request);
        if waits_for_client && !(bounded && answering.is_some()) {
            return self.abort_stalled(index);
        }
        if !bounded && self.waits_for_body(index) {
            // The client's delay says nothing about the process.
            return self.refuse_upstream(index, 408);
        }
        if let Some((channel, request)) = answering {
            if overdue {
                return self.end_relayed(index);
            }
            let (key, number) = (channel, relay.known_as());
            if self.is_unread(key, request) {
                return;
            }
            if self.give_notice(index, key, (request, number)) && written {
                let ends_at = self.clock.now + CANCEL_TIMEOUT;
                if let Some(handed) = self.handed_mut(index) {
                    handed.ends_at = Some(ends_at);
                }
                return self.wheel.arm(index, ends_at);
            }
        }
        match written {
            true => self.abort(index),
            false => self.refuse_upstream(index, 504),
        }
    }

    /// Ends a response that comes through a relay, and for whose rest there is no room.
    pub(crate) fn end_short(&mut self, index: ConnKey) {
        match self.attempt_of(index).is_some_and(|attempt| attempt.filter.head_written()) {
            true => self.abort(index),
            false => self.refuse_upstream(index, 503),
        }
    }

    /// A file that a process has returned is shorter than announced, or cannot be read.
    pub(crate) fn break_off_file(&mut self, index: ConnKey) {
        match self.connections[index].state {
            State::Upstream(_) => {
                self.row.files_broken.add(1);
                self.fail_upstream(
                    index,
                    Cause::Bad,
                    "it returned a file that is shorter than it said, or that cannot be read",
                );
            }
            _ => {
                self.note_broken_file(index);
                self.abort(index);
            }
        }
    }
}
