//! Messages of application processes, and how they end.
//!
//! | event | what is done |
//! |---|---|
//! | HELLO | the process takes requests from now on |
//! | DONE | the connection is reclaimed |
//! | TAIL | a piece of a response is kept, and sent after what the process wrote itself |
//! | DETACH | the connection is the process's for good |
//! | STREAMS | bodies may go to it while they come |
//! | it shuts down its receiving side | `Leaving`: no more requests; those that it cannot have read go to another process |
//! | end of file, broken protocol; a silent request, if it has no other | `Failed`: the master gets the message to end it |
//! | no PONG after a silent request, orphans in all of its capacity | the same; the table in `overdue` says more |
//! | the master reports its exit | its last messages are read; its other requests are lost |
//!
//! The file `lost` has what is done about lost requests.

use std::sync::atomic::Ordering::Relaxed;

use maitred_handoff::{Done, FromApp, Hello, Outcome, VERSION, Welcome};
use rustix::event::epoll;

use super::Processes;
use crate::agenda::Next;
use crate::connection::{After, State};
use crate::frame::payload_bytes_max;
use crate::handoff::{Allowance, Phase, Received};
use crate::keys::{ChannelKey, ConnKey, RelayKey};
use crate::processes::links::{LINK_ENDED, Word};
use crate::processes::lost::Sent;
use crate::processes::reasons::{CANCEL_TIMEOUT, CLOSED, STUCK_AFTER};
use crate::shared::Outgoing;
use crate::upstream::By;
use crate::upstream::failure::Cause;
use maitred_control::{FromWorker, Greeting, SlotId};
use maitred_files::{Segment, Summary};

/// Reads from one channel in one turn: with 32 bytes for a DONE, more than a process that keeps to the protocol has to send.
const READS_PER_TURN_MAX: u32 = 16;

impl Processes {
    pub(crate) fn on_channel(&mut self, key: ChannelKey, epoch: u32, flags: epoll::EventFlags) {
        let Some(channel) = self.pools.channels.get(key) else { return };
        if channel.id.epoch as u32 & 0x00ff_ffff != epoch {
            return;
        }
        if flags.contains(epoll::EventFlags::OUT) && channel.has_output() {
            self.touch(key);
        }
        use epoll::EventFlags as F;
        if !flags.intersects(F::IN | F::RDHUP | F::HUP | F::ERR) {
            return;
        }
        match self.read_channel(key, flags.intersects(F::RDHUP | F::HUP | F::ERR)) {
            // The process has sent more than one turn takes: the other channels first.
            Ok(Received::More) => self.ready_channels.push((key, epoch)),
            Ok(Received::End) if self.is_linked(key) => {
                let how = self.pools.channels[key].exited.take();
                self.lose_process(key, how.as_deref().unwrap_or(LINK_ENDED));
            }
            Ok(Received::End) => self.fail_worker(key, CLOSED),
            Ok(_) => {}
            Err(why) => self.fail_worker(key, &why),
        }
        let Some(channel) = self.pools.channels.get(key) else { return };
        let pool = channel.id.pool;
        self.show_slot(key);
        self.agenda.room(pool, key);
    }

    pub(crate) fn is_linked(&self, key: ChannelKey) -> bool {
        self.pools.channels.get(key).is_some_and(|channel| channel.linked)
    }

    /// Reads all that a process has sent, and acts on it; `to_the_end` if its end is known to be there, which makes no edge of
    /// its own when bytes come before it.
    pub(crate) fn read_channel(&mut self, key: ChannelKey, to_the_end: bool) -> Result<Received, String> {
        let shared = self.shared;
        for _ in 0..READS_PER_TURN_MAX {
            if self.take_frames(key)? == Frames::Wait {
                // The frames go on when helpers have checked the descriptors of the next one ([`Processes::on_judged`]).
                return Ok(Received::Waits);
            }
            let Some(channel) = self.pools.channels.get_mut(key) else { return Ok(Received::Drained) };
            let received = channel
                .receive(&mut self.heard, &shared.descriptors)
                .map_err(|error| format!("its channel failed: {error}"))?;
            self.judge(key)?;
            if self.take_frames(key)? == Frames::Wait {
                return Ok(Received::Waits);
            }
            match received {
                Received::More => {}
                Received::Some if to_the_end => {}
                // A short read has emptied the socket.
                Received::Some | Received::Drained | Received::End | Received::Waits => return Ok(received),
            }
        }
        Ok(Received::More)
    }

    /// Acts on the frames that are there, up to one whose descriptors have not been checked.
    fn take_frames(&mut self, key: ChannelKey) -> Result<Frames, String> {
        let Some(channel) = self.pools.channels.get_mut(key) else { return Ok(Frames::All) };
        let mut input = std::mem::take(&mut channel.input);
        let (mut at, mut frames) = (0, Frames::All);
        loop {
            let rest = input.get(at..).unwrap_or_default();
            match self.take_word_of_owner(key, rest)? {
                Word::No => {}
                Word::Taken(used) => {
                    at += used;
                    continue;
                }
                Word::Partial => break,
                Word::Waits => {
                    frames = Frames::Wait;
                    break;
                }
            }
            let decoded = FromApp::decode(rest).map_err(|error| error.to_string())?;
            let Some((frame, used)) = decoded else { break };
            if self.pools.channels[key].waits_for(frame.descriptors().into()) {
                frames = Frames::Wait;
                break;
            }
            let bytes = input.get(at..at + used).unwrap_or_default();
            at += used;
            // Other worker processes use the channel only for a while after a reload.
            if !self.pools.channels[key].away.is_empty() && self.pass_to_user(key, &frame, bytes)? {
                continue;
            }
            self.act_on_frame(key, frame)?;
        }
        input.drain(..at);
        if let Some(channel) = self.pools.channels.get_mut(key) {
            channel.input = input;
            channel.find_way_back();
        }
        Ok(frames)
    }

    fn act_on_frame(&mut self, key: ChannelKey, frame: FromApp<'_>) -> Result<(), String> {
        match frame {
            FromApp::Hello(hello) => self.on_hello(key, &hello)?,
            FromApp::Done(done) => self.on_done(key, &done)?,
            FromApp::Tail { connection, request, bytes } => {
                self.on_tail(key, connection, request, Segment::Bytes(bytes.into()))?;
            }
            FromApp::TailFile { connection, request, offset, length } => {
                let end = offset.checked_add(length).ok_or("it returned a file beyond all bounds")?;
                self.on_tail_file(key, connection, request, offset..end)?;
            }
            FromApp::Detach { connection, request, status } => {
                self.on_detach(key, connection, request, status)?;
            }
            FromApp::Skipped { descriptors } => {
                let received = &mut self.pools.channels[key].received;
                let skipped = usize::from(descriptors).min(received.len());
                received.drain(..skipped);
            }
            FromApp::Limits { open_files } => {
                let channel = &mut self.pools.channels[key];
                channel.allowance = Allowance::of(open_files);
                let id = channel.id;
                self.shared.outbox.send(Outgoing::Tell(FromWorker::SlotLimits(id, open_files)));
            }
            FromApp::Streams => {
                let channel = &mut self.pools.channels[key];
                channel.streams = true;
                let id = channel.id;
                if let Some(pool) = self.shared.pools.get(usize::from(id.pool)) {
                    pool.streams.store(true, Relaxed);
                }
                self.shared.outbox.send(Outgoing::Tell(FromWorker::SlotStreams(id)));
            }
            FromApp::Pong { .. } => {
                self.pools.channels[key].answered();
                self.pong_to_users(key);
            }
        }
        Ok(())
    }

    fn on_hello(&mut self, key: ChannelKey, hello: &Hello<'_>) -> Result<(), String> {
        let spoken = hello.version_min..=hello.version_max;
        if !spoken.contains(&VERSION) {
            return Err(format!("it speaks versions {spoken:?} of the protocol; {VERSION} is needed"));
        }
        let payload_bytes_max = payload_bytes_max(self.shared.start.config.limits.body_inline_bytes_max);
        let channel = &mut self.pools.channels[key];
        if channel.phase != Phase::Starting {
            return Err("it said HELLO twice".into());
        }
        channel.phase = Phase::Live;
        channel.capacity = hello.capacity;
        channel.sockets_only = hello.sockets_only;
        maitred_handoff::encode_welcome(channel.out(), &Welcome { version: VERSION, payload_bytes_max });
        let id = channel.id;
        tracing::debug!(
            pool = self.shared.pool_name(id.pool),
            slot = id.slot,
            capacity = hello.capacity,
            adapter = hello.name,
            "ready"
        );
        self.touch(key);
        let Hello { capacity, sockets_only, recovers, .. } = *hello;
        let name = hello.name.to_owned();
        let greeting = Greeting { capacity, sockets_only, recovers, open_files: None, streams: false, name };
        self.shared.outbox.send(Outgoing::Tell(FromWorker::SlotReady(id, greeting)));
        Ok(())
    }

    /// Connection and number of a request that the process names; an error if it does not have that request.
    pub(crate) fn in_flight(
        &self,
        key: ChannelKey,
        connection: u32,
        request: u32,
    ) -> Result<(Option<ConnKey>, u32), String> {
        match self.pools.channels[key].in_flight.get(&request) {
            None => Err(format!("it spoke of request {request}, which it does not have")),
            Some(found) if found.number | self.pools.channels[key].tag != connection => {
                Err(format!("it spoke of request {request} for another connection"))
            }
            Some(found) => Ok((found.index, found.number)),
        }
    }

    /// A request is answered: the connection is reclaimed.
    fn on_done(&mut self, key: ChannelKey, done: &Done) -> Result<(), String> {
        let now = self.clock.now;
        let (index, number) = self.in_flight(key, done.connection, done.request)?;
        let channel = &mut self.pools.channels[key];
        let id = channel.id;
        channel.in_flight.remove(&done.request);
        channel.note_done(done.request);
        channel.learn(done.service_us, now);
        if let Some(row) = self.slot_row(key) {
            row.answered(done.status, done.service_us);
        }
        if let Some(relay) = RelayKey::of_known(number) {
            self.on_relay_done(relay, done.outcome == Outcome::Broken);
            return Ok(());
        }
        let Some(index) = index else { return Ok(()) };
        let has = (key, done.request);
        if !self.connections.get(index).is_some_and(|connection| connection.is_handed_off_as(has)) {
            return Ok(());
        }
        self.count_handed_off(index, done.body_bytes);
        if done.outcome == Outcome::Broken && (done.status == 0 || self.exchange(index).dispatch.overdue) {
            self.end_broken(index, done);
            return Ok(());
        }
        self.count_answered(index, done.status);
        let exchange = self.exchange(index);
        exchange.summary = Some(Summary { status: done.status, body_bytes: done.body_bytes });
        let keep = done.outcome == Outcome::Clean && exchange.after == Some(After::Keep);
        let after = if keep { After::Keep } else { After::Close };
        if done.outcome == Outcome::Broken || !exchange.outgoing.has_returned() {
            exchange.after = None;
            self.log_kept(index, 0);
            // `close_notify` would say that the response is whole.
            let cut = done.outcome == Outcome::Broken && self.connections[index].secure;
            self.follow_up(index, if cut { Next::Drop } else { Next::Reclaim(after) });
            return Ok(());
        }
        // The tail that the process returned is sent at the client's speed, and the process is free.
        exchange.after = Some(after);
        let returned = exchange.outgoing.returned.take().unwrap_or_default();
        exchange.outgoing.follow(returned.pieces);
        exchange.dispatch.returned_by = Some(Box::new(id));
        self.start_writing(index);
        self.follow_up(index, Next::Send);
        Ok(())
    }

    /// The process has written nothing, or has aborted a cancelled response.
    fn end_broken(&mut self, index: ConnKey, done: &Done) {
        let exchange = self.exchange(index);
        match (done.status, exchange.dispatch.overdue, exchange.dispatch.cancelled) {
            (0, true, _) | (0, _, false) => {
                self.fail_direct(index, Cause::Bad, Sent { seen: true, written: false })
            }
            (0, ..) => self.abort_unanswered(index),
            _ => self.abort_unanswered_after(index, done.body_bytes),
        }
    }

    /// The process returns a piece of a response, to be sent after what it wrote itself.
    pub(crate) fn on_tail(
        &mut self,
        key: ChannelKey,
        connection: u32,
        request: u32,
        piece: Segment,
    ) -> Result<(), String> {
        let (index, _) = self.in_flight(key, connection, request)?;
        let Some(index) = index else { return Ok(()) };
        let exchange = self.exchange(index);
        exchange.outgoing.returned().push(piece)?;
        self.count_unsent(index);
        Ok(())
    }

    /// The process keeps the connection for good: the connection has another protocol from now on.
    fn on_detach(
        &mut self,
        key: ChannelKey,
        connection: u32,
        request: u32,
        status: u16,
    ) -> Result<(), String> {
        let (index, number) = self.in_flight(key, connection, request)?;
        let connection = index.and_then(|index| self.connections.get(index));
        if !connection.is_none_or(|connection| connection.may_detach()) {
            return Err("it kept a connection that is not its to keep".into());
        }
        let exchange = connection.and_then(|connection| connection.exchange.as_deref());
        if exchange.is_some_and(|exchange| exchange.outgoing.has_returned()) {
            return Err("it kept a connection, and left a part of the response to be sent".into());
        }
        let channel = &mut self.pools.channels[key];
        channel.in_flight.remove(&request);
        channel.note_done(request);
        if let Some(relay) = RelayKey::of_known(number) {
            // The process keeps its end of the relay: it is not counted any more.
            channel.relays = channel.relays.saturating_sub(1);
            self.detach_relay(relay);
            return Ok(());
        }
        channel.known.remove(ConnKey::from_number(number));
        let Some(index) = index else { return Ok(()) };
        self.count_answered(index, status);
        self.exchange(index).summary = Some(Summary { status, body_bytes: 0 });
        self.log_kept(index, 0);
        self.row.detached.add(1);
        self.unwatch(index);
        // Dropped, not shut down: the process has its own copy.
        self.follow_up(index, Next::Drop);
        Ok(())
    }

    /// The client has closed its side while a process works on its request. Most clients go away in this way, but the client
    /// may still wait for the answer: so the process gets CANCEL, once, and its answer is sent all the same.
    pub(crate) fn cancel(&mut self, index: ConnKey) {
        let connection = &self.connections[index];
        let (key, request, number) = match &connection.state {
            State::HandedOff { channel, request, .. } => (*channel, *request, index.number()),
            State::Upstream(attempt) => match &attempt.by {
                By::Process(handed) if !handed.done && !self.is_detached(handed.relay) => {
                    (handed.request.0, handed.request.1, handed.relay.known_as())
                }
                _ => return,
            },
            _ => return,
        };
        if std::mem::replace(&mut self.exchange(index).dispatch.cancelled, true) {
            return;
        }
        self.row.cancelled.add(1);
        if let Some(found) = self.pools.channels.get_mut(key) {
            found.cancel(request, number);
            self.touch(key);
        }
    }

    /// The client of a request has gone, or has had another answer. Later messages of its process about it must not be taken to
    /// be about the next connection of that index.
    pub(crate) fn orphan_request(&mut self, key: ChannelKey, request: u32) {
        let Some(channel) = self.pools.channels.get_mut(key) else { return };
        let Some(found) = channel.in_flight.get_mut(&request) else { return };
        if let Some(index) = found.index.take() {
            let (number, pool, capacity) = (found.number, channel.id.pool, channel.capacity);
            let timeout = self.silence_max(pool);
            // In a process with a capacity of 1, all other requests wait meanwhile.
            let late = if capacity > 1 { timeout.max(STUCK_AFTER) } else { timeout };
            let now = self.clock.now;
            let cut_at = now + CANCEL_TIMEOUT;
            let told = self.exchange(index).dispatch.cancelled;
            self.row.cancelled.add(u64::from(!told));
            let Some(channel) = self.pools.channels.get_mut(key) else { return };
            channel.give_up(request, now, late, Some(cut_at));
            if !told {
                channel.cancel(request, number);
            }
            self.touch(key);
        }
    }

    /// Keeps for the status page how a process ended.
    pub(crate) fn note_end(&self, id: SlotId, how: &str) {
        if let Some(row) = self.shared.slot_row(id) {
            self.shared.status.note_end(row, how);
        }
    }
}

/// How far the frames that were received were acted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frames {
    /// All that are whole.
    All,
    /// The next one waits for helpers.
    Wait,
}
