//! What application processes say, and how they end.
//!
//! | event | what is done |
//! |---|---|
//! | HELLO | the process takes requests from now on |
//! | DONE | the connection comes home |
//! | it shuts down its receiving side | `Leaving`: no more requests, those that it cannot have seen are answered 502 |
//! | end of file, broken protocol, a request past `request_timeout` | `Condemned`: the master is told to end it |
//! | the master says that it has exited | what it still said is read; its requests are answered, or cut off |
//!
//! Only a process that has exited can be known not to write to a client any more. That is why requests of a condemned
//! one are not answered before.

use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use maitred_handoff::{Done, FromApp, Outcome, VERSION, Welcome};
use rustix::event::epoll;

use super::connection::{After, State};
use super::event_loop::{Thread, Token};
use super::hand_off::payload_bytes_max;
use super::shared::Outgoing;
use crate::control::{FromWorker, SlotId};
use crate::handoff::{Channel, Phase, Received};
use crate::serve::{Persistence, Summary, fixed};
use crate::status::scoreboard::{SlotRow, SlotState};

/// Status in the access log for a response that was cut off, after nginx's custom.
const CUT_OFF: u16 = 499;
/// What is said of a process that has closed its channel.
const CLOSED: &str = "it closed its channel";
/// How long a condemned process may take to be gone before its clients are cut off all the same.
const CONDEMNED_PATIENCE: Duration = Duration::from_secs(5);

impl Thread {
    /// Takes in a new application process.
    pub(super) fn open_channel(&mut self, id: SlotId, pid: u32, socket: OwnedFd) {
        let row = self.shared.slot_row(id);
        let key = self.pools.channels.insert(Channel::new(id, pid, row, socket));
        if let Some(pool) = self.pools.pools.get_mut(usize::from(id.pool)) {
            pool.channels.push(key);
        }
        let token = Token::Channel { key: key as u32, epoch: id.epoch as u32 };
        use epoll::EventFlags as F;
        let socket = self.pools.channels[key].socket();
        if let Err(error) = epoll::add(&self.epoll, socket, token.pack(), F::IN | F::OUT | F::RDHUP | F::ET) {
            return self.condemn(key, &format!("its channel cannot be watched: {error}"));
        }
        if let Some(row) = self.slot_row(key) {
            row.pid.set(u64::from(pid));
            row.started_at.set(self.clock.unix_secs);
            row.requests.set(0);
        }
        self.show_slot(key);
    }

    pub(super) fn on_channel(&mut self, key: usize, epoch: u32, flags: epoll::EventFlags) {
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
        match self.hear_out(key, flags.intersects(F::RDHUP | F::HUP | F::ERR)) {
            Ok(Received::End) => self.condemn(key, CLOSED),
            Ok(_) => {}
            Err(why) => self.condemn(key, &why),
        }
        let Some(channel) = self.pools.channels.get(key) else { return };
        let pool = usize::from(channel.id.pool);
        self.show_slot(key);
        self.serve_queue(pool);
    }

    /// Reads everything that a process has said, and acts on it; `to_the_end` if its end is known to be there, which makes
    /// no edge of its own when bytes come before it.
    fn hear_out(&mut self, key: usize, to_the_end: bool) -> Result<Received, String> {
        loop {
            let Some(channel) = self.pools.channels.get_mut(key) else { return Ok(Received::Drained) };
            let received = channel.receive().map_err(|error| format!("its channel failed: {error}"))?;
            self.take_frames(key)?;
            match received {
                Received::More => {}
                Received::Some if to_the_end => {}
                // A short read has emptied the socket.
                Received::Some | Received::Drained | Received::End => return Ok(received),
            }
        }
    }

    fn take_frames(&mut self, key: usize) -> Result<(), String> {
        let mut input = std::mem::take(&mut self.pools.channels[key].input);
        let mut at = 0;
        while let Some((frame, used)) =
            FromApp::decode(input.get(at..).unwrap_or_default()).map_err(|error| error.to_string())?
        {
            at += used;
            match frame {
                FromApp::Hello(hello) => {
                    let spoken = hello.version_min..=hello.version_max;
                    if !spoken.contains(&VERSION) {
                        return Err(format!(
                            "it speaks versions {spoken:?} of the protocol; {VERSION} is needed"
                        ));
                    }
                    self.on_hello(key, hello.capacity, hello.name)?;
                }
                FromApp::Done(done) => self.on_done(key, &done)?,
                FromApp::Pong { .. } | FromApp::Skipped { .. } => {}
            }
        }
        input.drain(..at);
        if let Some(channel) = self.pools.channels.get_mut(key) {
            channel.input = input;
        }
        Ok(())
    }

    fn on_hello(&mut self, key: usize, capacity: u32, name: &str) -> Result<(), String> {
        let payload_bytes_max = payload_bytes_max(self.shared.start.config.limits.body_bytes_max);
        let channel = &mut self.pools.channels[key];
        if channel.phase != Phase::Starting {
            return Err("it said HELLO twice".into());
        }
        channel.phase = Phase::Live;
        channel.capacity = capacity;
        maitred_handoff::encode_welcome(channel.out(), &Welcome { version: VERSION, payload_bytes_max });
        let id = channel.id;
        tracing::debug!(
            pool = self.shared.pool_name(id.pool),
            slot = id.slot,
            capacity,
            adapter = name,
            "ready"
        );
        self.touch(key);
        self.shared.outbox.send(Outgoing::Tell(FromWorker::SlotReady(id)));
        Ok(())
    }

    /// A request is answered: the connection comes home.
    fn on_done(&mut self, key: usize, done: &Done) -> Result<(), String> {
        let channel = &mut self.pools.channels[key];
        let Some(index) = channel.in_flight.remove(&done.request) else {
            return Err(format!("it reported request {} as done, which it does not have", done.request));
        };
        if done.connection != index {
            channel.in_flight.insert(done.request, index);
            return Err(format!("it reported request {} for another connection", done.request));
        }
        channel.learn(done.service_us, self.clock.now);
        if let Some(row) = self.slot_row(key) {
            row.requests.add(1);
        }
        let expected = State::HandedOff { channel: key as u32, request: done.request };
        if self.connections.get(index as usize).is_none_or(|connection| connection.state != expected) {
            return Ok(());
        }
        // The flag belongs to the open socket, not to the descriptor: an application may have cleared it.
        let blocking = rustix::io::ioctl_fionbio(self.socket(index), true).is_err();
        self.row.bytes_handed_off.add(done.body_bytes);
        if done.outcome == Outcome::Broken && done.status == 0 {
            self.answer_lost(index, true);
            return Ok(());
        }
        self.count(index, done.status);
        self.work(index).summary = Some(Summary { status: done.status, body_bytes: done.body_bytes });
        self.log_kept(index, 0);
        let promised = self.work(index).after.take();
        let keep = done.outcome == Outcome::Clean && promised == Some(After::Keep) && !blocking;
        self.come_home(index, if keep { After::Keep } else { After::Close });
        Ok(())
    }

    /// The connection is Maitred's again, and its response is out.
    fn come_home(&mut self, index: u32, after: After) {
        let work = self.work(index);
        let input = std::mem::take(&mut work.input);
        work.reset();
        work.input = input;
        self.finish(index, after);
        if after != After::Keep {
            return;
        }
        let more = self.has_input(index);
        self.settle(index, more);
    }

    /// The process reads no more frames, but finishes what it has: requests that it cannot have seen are answered here.
    pub(super) fn let_leave(&mut self, key: usize) {
        let Some(channel) = self.pools.channels.get_mut(key) else { return };
        if channel.phase == Phase::Live {
            channel.phase = Phase::Leaving;
        }
        let (unsent, pool) = (channel.take_unsent(), usize::from(channel.id.pool));
        for index in unsent {
            self.row.handoff_lost.add(1);
            self.answer_lost(index, true);
        }
        self.show_slot(key);
        self.publish_room(pool);
    }

    /// Gives a process up, and has the master end it. Its requests stay with it until it is gone.
    pub(super) fn condemn(&mut self, key: usize, why: &str) {
        let Some(channel) = self.pools.channels.get_mut(key) else { return };
        if matches!(channel.phase, Phase::Condemned(_)) {
            return;
        }
        channel.phase = Phase::Condemned(why.to_owned());
        let _ = epoll::delete(&self.epoll, channel.socket());
        let (id, unsent) = (channel.id, channel.take_unsent());
        for index in unsent {
            self.row.handoff_lost.add(1);
            self.answer_lost(index, true);
        }
        let message =
            if why == CLOSED { FromWorker::SlotClosed(id) } else { FromWorker::SlotLost(id, why.to_owned()) };
        self.shared.outbox.send(Outgoing::Tell(message));
        self.show_slot(key);
        self.publish_room(usize::from(id.pool));
    }

    /// The master says that a process has exited. Its channel may hold answers that it sent before.
    pub(super) fn on_slot_exited(&mut self, id: SlotId, how: &str) {
        let found = self.pools.channels.iter().find(|(_, channel)| channel.id == id).map(|(key, _)| key);
        let Some(key) = found else { return };
        let heard = match &self.pools.channels[key].phase {
            Phase::Condemned(why) => Err(why.clone()),
            _ => self.hear_out(key, true),
        };
        let Some(channel) = self.pools.channels.try_remove(key) else { return };
        let _ = epoll::delete(&self.epoll, channel.socket());
        if let Some(pool) = self.pools.pools.get_mut(usize::from(id.pool)) {
            pool.channels.retain(|other| *other != key);
        }
        if let Some(row) = self.row_of(channel.row) {
            row.state.set(u64::from(SlotState::Dead as u8));
            row.in_flight.set(0);
        }
        let expected = self.drain.is_some() || channel.phase == Phase::Leaving;
        if !expected || !channel.in_flight.is_empty() {
            let (pool, slot, pid) = (self.shared.pool_name(id.pool), id.slot, channel.pid);
            let why = heard.err().map(|why| format!("{why}; ")).unwrap_or_default();
            tracing::warn!(
                pool,
                slot,
                pid,
                requests = channel.in_flight.len(),
                "application process lost: {why}{how}"
            );
        }
        for (request, index) in &channel.in_flight {
            self.row.handoff_lost.add(1);
            // One that was cut off meanwhile may have left its index to another connection.
            let has = State::HandedOff { channel: key as u32, request: *request };
            if self.connections.get(*index as usize).is_some_and(|connection| connection.state == has) {
                self.answer_lost(*index, false);
            }
        }
        self.publish_room(usize::from(id.pool));
    }

    /// A request has taken longer than its pool allows: the process is taken to be stuck.
    pub(super) fn on_request_timeout(&mut self, index: u32, key: usize) {
        let work = self.work(index);
        if std::mem::replace(&mut work.overdue, true) {
            // It should have been gone by now. It still has the socket, so only shutting that down ends the matter.
            return self.cut_off(index);
        }
        self.wheel.arm(index, self.clock.now + CONDEMNED_PATIENCE);
        self.condemn(key, "a request took longer than request_timeout");
    }

    /// Answers a request whose process is lost: with an error if the client has received nothing, otherwise only closing
    /// tells it the truth.
    fn answer_lost(&mut self, index: u32, nothing_written: bool) {
        let Some(connection) = self.connections.get(index as usize) else { return };
        let _ = rustix::io::ioctl_fionbio(&connection.socket, true);
        let since = connection.work.as_ref().and_then(|work| work.handed_off_at);
        let quiet =
            |since: Instant| maitred_sys::delivery::quiet_for(connection.socket.as_fd(), since.elapsed());
        let untouched = nothing_written || since.is_some_and(quiet);
        let work = self.work(index);
        let head = std::mem::take(&mut work.head);
        let status = if work.overdue { 504 } else { 502 };
        if !untouched {
            work.head = head;
            return self.cut_off(index);
        }
        self.enter(index, State::Idle);
        let mut room = maitred_http::request::field_room();
        match maitred_http::request::parse(&head, &mut room, &self.head_limits) {
            Ok(Some((request, _))) => {
                self.plain_error(index, &request, status, b"", Persistence::Close);
            }
            // Without an access log the head was not kept; what was asked is not needed to say that it failed.
            _ => {
                let named = self.shared.start.config.server.server_header;
                fixed::error(status, Persistence::Close, &self.clock, false, named, &mut self.tx);
                self.count(index, status);
            }
        }
        self.send_joined(index, Some(After::Linger));
    }

    /// Ends a connection whose request was read and will have no answer, or none to its end.
    pub(super) fn cut_off(&mut self, index: u32) {
        self.work(index).summary = Some(Summary { status: CUT_OFF, body_bytes: 0 });
        self.log_kept(index, 0);
        self.close(index);
    }

    fn row_of(&self, row: Option<usize>) -> Option<&'static SlotRow> {
        self.shared.board.slots.get(row?)
    }

    fn slot_row(&self, key: usize) -> Option<&'static SlotRow> {
        self.row_of(self.pools.channels.get(key)?.row)
    }

    /// Brings the scoreboard's row of a process up to date.
    pub(super) fn show_slot(&self, key: usize) {
        let (Some(channel), Some(row)) = (self.pools.channels.get(key), self.slot_row(key)) else { return };
        let state = match channel.phase {
            Phase::Starting => SlotState::Starting,
            Phase::Live if channel.in_flight.is_empty() => SlotState::Idle,
            Phase::Live => SlotState::Busy,
            Phase::Leaving | Phase::Condemned(_) => SlotState::Draining,
        };
        row.state.set(u64::from(state as u8));
        row.in_flight.set(channel.in_flight.len() as u64);
        row.capacity.set(u64::from(channel.capacity));
        row.service_us.set(u64::from(channel.service_us()));
    }
}
