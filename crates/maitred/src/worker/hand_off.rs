//! Connections and application processes: who gets which request, and what happens when it is answered or lost.
//!
//! A connection in `HandedOff` belongs to the application process; only `DONE`, the loss of the process or the request's
//! deadline bring it home. Its socket stays in the epoll set meanwhile, and what epoll reports is noted.

use std::borrow::Cow;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use maitred_handoff::{Done, FromApp, Outcome, RequestFlags, Welcome};
use maitred_http::request::{Framing, Method, Request, Version};
use maitred_http::uri;
use rustix::event::epoll;

use super::answer::{Given, Step};
use super::connection::{After, State};
use super::event_loop::{Thread, Token};
use super::inbox::{Migrant, Origin};
use super::shared::Outgoing;
use crate::control::{FromWorker, SlotId};
use crate::handoff::{Channel, Flushed, Received};
use crate::serve::{Exchange, Persistence, Summary, fixed};
use crate::status::scoreboard::{SlotRow, SlotState};

/// Version of the protocol that is spoken here.
const PROTOCOL_VERSION: u16 = 1;
/// What an application process may be sent in one frame, beyond the body: head and meta lines.
const HEAD_ALLOWANCE: u64 = 256 * 1024;

impl Thread {
    /// Sends a request to a pool: to a process here, to a thread that has one with room, or into the queue.
    pub(super) fn to_pool(
        &mut self,
        index: u32,
        pool: usize,
        exchange: &Exchange<'_>,
        given: Given<'_>,
    ) -> Step {
        if !self.tx.is_empty() {
            // The process writes to the socket itself: what was answered before has to be out first.
            return Step::FlushFirst;
        }
        if let Some(key) = self.pools.choose(pool) {
            return self.hand_off(index, key, exchange, given);
        }
        if let Some(thread) = self.better_home(pool) {
            return self.migrate(index, thread, given);
        }
        self.enqueue(index, pool, exchange, given)
    }

    /// Another thread that can take a request of this pool now; or one that is home to some of its processes, if this
    /// one is not.
    fn better_home(&self, pool: usize) -> Option<usize> {
        let others = || (0..self.shared.inboxes.len()).filter(|thread| *thread != self.number);
        let known = &self.shared.pools[pool];
        let roomy = others().filter(|thread| known.room[*thread].load(Relaxed) > 0);
        if let Some(thread) = roomy.max_by_key(|thread| known.room[*thread].load(Relaxed)) {
            // A guess at what is left there, until that thread says better.
            known.room[thread].fetch_sub(1, Relaxed);
            return Some(thread);
        }
        let here = known.live[self.number].load(Relaxed) > 0;
        if here {
            return None;
        }
        let live = others().find(|thread| known.live[*thread].load(Relaxed) > 0);
        live.or_else(|| {
            let slots = self.shared.start.config.pools[pool].workers;
            let mut homes =
                (0..slots).map(|slot| self.shared.home_of(SlotId { pool: pool as u16, slot, epoch: 0 }));
            if homes.clone().any(|home| home == self.number) { None } else { homes.next() }
        })
    }

    /// Moves a connection, with its request, to another thread.
    fn migrate(&mut self, index: u32, thread: usize, given: Given<'_>) -> Step {
        if let Some(connection) = self.connections.get(index as usize)
            && connection.registered
        {
            let _ = epoll::delete(&self.epoll, &connection.socket);
        }
        let Some(connection) = self.remove(index) else { return Step::Gone };
        let migrant = Migrant {
            remote: connection.remote.address,
            listen: connection.listen,
            requests: connection.requests,
            input: Vec::new(),
            head: given.head.to_vec(),
            body: given.body.to_vec(),
            origin: Origin::ForSlot,
            socket: connection.socket,
        };
        self.shared.transfer(thread, migrant);
        Step::Gone
    }

    /// Lets a request wait for a process, if there is room in the queue.
    fn enqueue(&mut self, index: u32, pool: usize, exchange: &Exchange<'_>, given: Given<'_>) -> Step {
        let settings = &self.shared.start.config.pools[pool];
        let waiting = &self.shared.pools[pool].queued;
        if waiting.load(Relaxed) >= settings.queue_max {
            self.row.queue_refused.add(1);
            return self.plain_error(
                index,
                exchange.request,
                503,
                b"Retry-After: 1\r\n",
                exchange.persistence,
            );
        }
        waiting.fetch_add(1, Relaxed);
        self.keep(index, given);
        self.enter(index, State::Queued { pool: pool as u16 });
        self.wheel.arm(index, self.clock.now + settings.queue_timeout);
        self.pools.pools[pool].queue.push_back(index);
        Step::Waits
    }

    /// Takes a connection out of the queue that it waits in, if it does.
    pub(super) fn leave_queue(&mut self, index: u32) {
        if let State::Queued { pool } = self.connections[index as usize].state {
            self.shared.pools[usize::from(pool)].queued.fetch_sub(1, Relaxed);
            let queue = &mut self.pools.pools[usize::from(pool)].queue;
            if let Some(at) = queue.iter().position(|waiting| *waiting == index) {
                queue.remove(at);
            }
            self.enter(index, State::Head);
        }
    }

    /// Writes the request's frame; it leaves with all others of this turn.
    fn hand_off(&mut self, index: u32, key: usize, exchange: &Exchange<'_>, given: Given<'_>) -> Step {
        if !self.register(index) {
            self.close(index);
            return Step::Gone;
        }
        let request_timeout = {
            let channel = &self.pools.channels[key];
            self.shared.start.config.pools[usize::from(channel.id.pool)].request_timeout
        };
        let queue_us =
            self.clock.now.saturating_duration_since(self.connections[index as usize].began).as_micros();
        let Some(request) = self.write_frame(index, key, exchange, given, queue_us as u64) else {
            return self.plain_error(index, exchange.request, 413, b"", Persistence::Close);
        };
        let pool = self.pools.channels[key].id.pool;
        let (logs, now) = (self.log.is_on(), self.clock.now);
        let work = self.work(index);
        work.head.clear();
        if logs {
            work.head.extend_from_slice(given.head);
        }
        work.pool = Some(pool);
        work.queue_us = queue_us as u64;
        work.handed_off_at = Some(now);
        work.after =
            Some(if exchange.persistence == Persistence::Close { After::Close } else { After::Keep });
        self.connections[index as usize].shared = true;
        self.enter(index, State::HandedOff { channel: key as u32, request });
        self.wheel.arm(index, self.clock.now + request_timeout);
        self.row.handoffs.add(1);
        self.touch(key);
        self.show_slot(key);
        Step::Waits
    }

    fn write_frame(
        &mut self,
        index: u32,
        key: usize,
        exchange: &Exchange<'_>,
        given: Given<'_>,
        queue_us: u64,
    ) -> Option<u32> {
        let request = exchange.request;
        let channel = &mut self.pools.channels[key];
        let settings = &self.shared.start.config.pools[usize::from(channel.id.pool)];
        let (number, passes) = channel.enter(index);
        let flags = RequestFlags {
            keep: exchange.persistence != Persistence::Close,
            http10: request.version == Version::Http10,
            head: request.method == Method::Head,
        };
        let connection = &self.connections[index as usize];
        let mut meta = maitred_handoff::begin_request(channel.out(), index, number, flags, u16::from(passes));
        if let Some(remote) = connection.remote.address {
            let text = connection.remote.text();
            let (open, close) = if text.contains(':') { ("[", "]") } else { ("", "") };
            let mut port = itoa::Buffer::new();
            let pieces = ["remote=", open, text, close, ":", port.format(remote.port()), "\n"];
            meta = pieces.iter().fold(meta, |meta, piece| meta.prepared(piece.as_bytes()));
        }
        if let Some(local) = self.shared.locals.get(usize::from(connection.listen)) {
            meta = meta.line("local", local);
        }
        meta = meta.line("scheme", "http");
        if !settings.mount.is_empty() {
            meta = meta.line("mount", &settings.mount);
        }
        let meta = meta.number("queue_us", queue_us);
        let mut head = meta.head(request.method_text, &canonical_target(exchange));
        head.field(
            "host",
            if request.authority.is_empty() { b"localhost" } else { request.authority.as_bytes() },
        );
        for field in request.fields {
            if maitred_handoff::is_forwardable(field.name) && !named_by_connection(request, field.name) {
                head.field(field.name, field.value);
            }
        }
        let length = (request.framing != Framing::None).then_some(given.body.len() as u64);
        let mut body = head.body(length);
        body.extend(given.body);
        let fits = body.finish(payload_bytes_max(self.shared.start.config.limits.body_bytes_max));
        if !fits {
            channel.withdraw(number, index, passes);
        }
        fits.then_some(number)
    }

    /// Takes in a new application process.
    pub(super) fn open_channel(&mut self, id: SlotId, pid: u32, socket: OwnedFd) {
        let row = self.shared.slot_row(id);
        let key = self.pools.channels.insert(Channel::new(id, pid, row, socket));
        let token = Token::Channel { key: key as u32, epoch: id.epoch as u32 };
        use epoll::EventFlags as F;
        let socket = self.pools.channels[key].socket();
        if let Err(error) = epoll::add(&self.epoll, socket, token.pack(), F::IN | F::OUT | F::RDHUP | F::ET) {
            tracing::error!(%error, "cannot watch an application process");
            return self.lose_channel(key, "no room in the epoll set");
        }
        if let Some(pool) = self.pools.pools.get_mut(usize::from(id.pool)) {
            pool.channels.push(key);
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
        if !flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::HUP) {
            return;
        }
        loop {
            let Some(channel) = self.pools.channels.get_mut(key) else { return };
            let received = match channel.receive() {
                Ok(received) => received,
                Err(error) => return self.lose_channel(key, &format!("its channel failed: {error}")),
            };
            if let Err(why) = self.take_frames(key) {
                return self.lose_channel(key, &why);
            }
            match received {
                Received::More => {}
                // An end that comes together with bytes is reported with them, and would not be again.
                Received::Drained if flags.contains(epoll::EventFlags::RDHUP) => {}
                Received::Drained => break,
                Received::End => return self.lose_channel(key, "it closed its channel"),
            }
        }
        let Some(channel) = self.pools.channels.get(key) else { return };
        let pool = usize::from(channel.id.pool);
        self.show_slot(key);
        self.serve_queue(pool);
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
                    if !spoken.contains(&PROTOCOL_VERSION) {
                        return Err(format!(
                            "it speaks versions {spoken:?} of the protocol; {PROTOCOL_VERSION} is needed"
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
        if channel.live {
            return Err("it said HELLO twice".into());
        }
        channel.live = true;
        channel.capacity = capacity;
        let welcome = Welcome { version: PROTOCOL_VERSION, payload_bytes_max };
        maitred_handoff::encode_welcome(channel.out(), &welcome);
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
            return Err(format!("it reported request {} for another connection", done.request));
        }
        channel.learn(done.service_us);
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
            self.answer_lost(index, 502, true);
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
        let closes = after != After::Keep;
        self.finish(index, after);
        if closes {
            return;
        }
        let Some(connection) = self.connections.get_mut(index as usize) else { return };
        let more = connection.readable || connection.work.as_ref().is_some_and(|work| !work.input.is_empty());
        self.settle(index, more);
    }

    /// An application process is gone, or cannot be used any more: its requests are answered or cut off, and the
    /// master is told.
    pub(super) fn lose_channel(&mut self, key: usize, why: &str) {
        let Some(channel) = self.pools.channels.try_remove(key) else { return };
        let id = channel.id;
        if let Some(pool) = self.pools.pools.get_mut(usize::from(id.pool)) {
            pool.channels.retain(|other| *other != key);
        }
        let _ = epoll::delete(&self.epoll, channel.socket());
        if let Some(row) = self.row_of(channel.row) {
            row.state.set(u64::from(SlotState::Dead as u8));
            row.in_flight.set(0);
        }
        if self.drain.is_none() || !channel.in_flight.is_empty() {
            let (pool, slot, pid) = (self.shared.pool_name(id.pool), id.slot, channel.pid);
            tracing::warn!(
                pool,
                slot,
                pid,
                requests = channel.in_flight.len(),
                "application process lost: {why}"
            );
        }
        for index in channel.in_flight.values() {
            self.row.handoff_lost.add(1);
            self.answer_lost(*index, 502, false);
        }
        self.publish_room(usize::from(id.pool));
        self.shared.outbox.send(Outgoing::Tell(FromWorker::SlotLost(id, why.to_owned())));
    }

    /// Answers a request whose process is lost: with an error if the client has received nothing, otherwise only
    /// closing tells it the truth.
    fn answer_lost(&mut self, index: u32, status: u16, nothing_written: bool) {
        let Some(connection) = self.connections.get(index as usize) else { return };
        let _ = rustix::io::ioctl_fionbio(&connection.socket, true);
        let since = connection.work.as_ref().and_then(|work| work.handed_off_at);
        let quiet =
            |since: Instant| maitred_sys::delivery::quiet_for(connection.socket.as_fd(), since.elapsed());
        let untouched = nothing_written || since.is_some_and(quiet);
        let head = std::mem::take(&mut self.work(index).head);
        self.enter(index, State::Idle);
        let mut room = maitred_http::request::field_room();
        let request = maitred_http::request::parse(&head, &mut room, &self.head_limits).ok().flatten();
        match request {
            _ if !untouched => {
                let work = self.work(index);
                work.head = head;
                // 499 is what logs say of a response that was cut off.
                work.summary = Some(Summary { status: CUT_OFF, body_bytes: 0 });
                self.log_kept(index, 0);
                self.close(index);
            }
            Some((request, _)) => {
                self.plain_error(index, &request, status, b"", Persistence::Close);
                self.send_joined(index, Some(After::Linger));
            }
            // Without an access log the head was not kept; what was asked is not needed to say that it failed.
            None => {
                let named = self.shared.start.config.server.server_header;
                fixed::error(status, Persistence::Close, &self.clock, false, named, &mut self.tx);
                self.count(index, status);
                self.send_joined(index, Some(After::Linger));
            }
        }
    }

    /// The master says that a process has exited. Its channel says so too, but may hold answers that it sent before.
    pub(super) fn on_slot_exited(&mut self, id: SlotId, how: &str) {
        let found = self.pools.channels.iter().find(|(_, channel)| channel.id == id).map(|(key, _)| key);
        if let Some(key) = found {
            let _ = self.pools.channels[key].receive();
            let why = match self.take_frames(key) {
                Ok(()) => how.to_owned(),
                Err(why) => why,
            };
            self.lose_channel(key, &why);
        }
    }

    /// A request has taken longer than its pool allows: the process is taken to be stuck.
    pub(super) fn on_request_timeout(&mut self, index: u32, key: usize) {
        if let Some(channel) = self.pools.channels.get_mut(key) {
            channel.in_flight.retain(|_, other| *other != index);
        }
        self.answer_lost(index, 504, false);
        self.lose_channel(key, "a request took longer than request_timeout");
    }

    /// Gives waiting requests to processes that have room.
    fn serve_queue(&mut self, pool: usize) {
        while self.pools.choose(pool).is_some() {
            let Some(index) = self.pools.pools[pool].queue.front().copied() else { break };
            self.leave_queue(index);
            self.resume(index);
        }
        self.publish_room(pool);
    }

    /// A connection is going away: processes that keep its descriptor drop it, before its number is used again.
    pub(super) fn forget(&mut self, index: u32) {
        let mut dirty = Vec::new();
        for (key, channel) in &mut self.pools.channels {
            if channel.is_passing(index) {
                // Its frame has not left yet: the descriptor has to go with it.
                let _ = channel.flush(&self.connections, |_| ());
            }
            if channel.forget(index) {
                dirty.push(key);
            }
        }
        dirty.into_iter().for_each(|key| self.touch(key));
    }

    /// Notes that a channel has something to send at the end of the turn.
    fn touch(&mut self, key: usize) {
        if let Some(channel) = self.pools.channels.get_mut(key)
            && !channel.dirty
        {
            channel.dirty = true;
            self.dirty.push(key);
        }
    }

    /// Sends what the turn has written to the channels: one message for each.
    pub(super) fn flush_channels(&mut self) {
        for key in std::mem::take(&mut self.dirty) {
            let Some(channel) = self.pools.channels.get_mut(key) else { continue };
            channel.dirty = false;
            let row = self.row;
            let result = channel.flush(&self.connections, |descriptors| {
                row.handoff_batches.add(1);
                row.descriptors_passed.add(descriptors as u64);
            });
            let pool = usize::from(channel.id.pool);
            match result {
                // The socket being full, epoll says when it is not.
                Ok(Flushed::All | Flushed::Blocked) => self.publish_room(pool),
                Err(error) => self.lose_channel(key, &lost_by(&error)),
            }
        }
    }

    /// Lets other threads know how much more the processes here can take.
    fn publish_room(&self, pool: usize) {
        let (room, live) = self.pools.room(pool);
        let waiting = self.pools.pools.get(pool).map_or(0, |pool| pool.queue.len() as u32);
        if let Some(known) = self.shared.pools.get(pool) {
            known.room[self.number].store(room.saturating_sub(waiting), Relaxed);
            known.live[self.number].store(live, Relaxed);
        }
    }

    fn row_of(&self, row: Option<usize>) -> Option<&'static SlotRow> {
        self.shared.board.slots.get(row?)
    }

    fn slot_row(&self, key: usize) -> Option<&'static SlotRow> {
        self.row_of(self.pools.channels.get(key)?.row)
    }

    /// Brings the scoreboard's row of a process up to date.
    fn show_slot(&self, key: usize) {
        let (Some(channel), Some(row)) = (self.pools.channels.get(key), self.slot_row(key)) else { return };
        let state = match () {
            () if !channel.live => SlotState::Starting,
            () if channel.in_flight.is_empty() => SlotState::Idle,
            () => SlotState::Busy,
        };
        row.state.set(u64::from(state as u8));
        row.in_flight.set(channel.in_flight.len() as u64);
        row.capacity.set(u64::from(channel.capacity));
        row.service_us.set(u64::from(channel.service_us()));
    }
}

/// Status in the access log for a response that was cut off.
const CUT_OFF: u16 = 499;

/// The largest frame that an application is told to expect.
fn payload_bytes_max(body_bytes_max: u64) -> u32 {
    u32::try_from(body_bytes_max.saturating_add(HEAD_ALLOWANCE)).unwrap_or(u32::MAX)
}

fn lost_by(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => "it closed its channel".to_owned(),
        _ => format!("its channel failed: {error}"),
    }
}

/// The target in origin form, as it was judged: the application sees the path that the route was chosen by.
fn canonical_target<'r>(exchange: &Exchange<'r>) -> Cow<'r, str> {
    let request = exchange.request;
    if exchange.path == request.path.as_bytes() && request.target.starts_with('/') {
        return Cow::Borrowed(request.target);
    }
    let mut target = Vec::with_capacity(request.target.len());
    uri::encode_path(exchange.path, &mut target);
    if let Some(query) = request.query {
        target.push(b'?');
        target.extend_from_slice(query.as_bytes());
    }
    Cow::Owned(String::from_utf8_lossy(&target).into_owned())
}

/// Whether `Connection` names a field, which makes it one of this hop only (9110-7.6.1).
fn named_by_connection(request: &Request<'_, '_>, name: &str) -> bool {
    let connections = request.fields.iter().filter(|field| field.name.eq_ignore_ascii_case("connection"));
    let mut tokens = connections.flat_map(|field| field.value.split(|byte| *byte == b','));
    tokens.any(|token| token.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
}
