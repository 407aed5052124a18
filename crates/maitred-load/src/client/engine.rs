//! The loop of one client thread.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::connection::{Connection, Connections, State};
use super::groups::Groups;
use super::response::{self, Body, HEAD_BYTES_MAX, Head};
use super::{Next, Request, Rules, Shared, Workload};
use crate::measure::{Difference, Failure, Measurements, Nanos};

/// Events taken from the kernel at a time.
const EVENTS_PER_TURN: usize = 512;
/// Bytes of the receive buffer that all connections of a thread share.
const RECEIVE_BYTES: usize = 64 * 1024;
/// Full buffers that one event may bring before other connections have their turn.
const RECEIVES_PER_EVENT_MAX: usize = 16;
/// How often deadlines are looked at, which is also how exact they are.
const SWEEP_EVERY: Nanos = 50_000_000;
/// How long no connection is opened after one was refused, so that an unreachable server does not use up the whole
/// workload within a second.
const CONNECT_PAUSE: Nanos = 50_000_000;
/// How long to wait for a workload that has nothing yet.
const STARVED_WAIT: Nanos = 1_000_000;
/// How often the ramp opens further connections.
const RAMP_STEP: Nanos = 2_000_000;
/// How long responses are waited for after the end of the run; then they count as unfinished.
pub(super) const DRAIN_MAX: Nanos = 5_000_000_000;
/// How long the rest of a workload is waited for, in order to count what was not sent.
const UNSENT_WAIT_MAX: Duration = Duration::from_millis(200);
/// Requests whose buffers are kept for the next ones.
const SPARE_REQUESTS: usize = 4096;

/// One thread's part of a run.
pub struct Engine<W> {
    rules: Rules,
    workload: W,
    shared: Arc<Shared>,
    start: Instant,
    epoll: OwnedFd,
    connections: Connections,
    groups: Groups,
    seen: Measurements,
    rx: Vec<u8>,
    #[expect(clippy::vec_box, reason = "the boxes are what is kept: connections take and return them")]
    spare: Vec<Box<Request>>,
    /// Events that were cut short: index, serial.
    again: Vec<(u32, u32)>,
    serial: u32,
    in_flight: usize,
    waiting: usize,
    /// No request is taken from the workload before this.
    next_due: Nanos,
    no_connect_until: Nanos,
    sweep_at: Nanos,
    /// The workload has ended.
    is_finished: bool,
    is_starved: bool,
    /// Set when nothing is sent any more: when waiting for responses ends.
    drain_until: Option<Nanos>,
    /// What [`Shared`] was told last: responses, failures, bytes.
    told: [u64; 3],
}

impl<W: Workload> Engine<W> {
    /// A thread's part; `start` is the start of the run, the same for all threads.
    ///
    /// # Errors
    /// When the kernel gives no epoll descriptor.
    pub fn new(rules: Rules, workload: W, shared: Arc<Shared>, start: Instant) -> io::Result<Self> {
        Ok(Engine {
            rules,
            workload,
            shared,
            start,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            connections: Connections::new(),
            groups: Groups::default(),
            seen: Measurements::default(),
            rx: vec![0; RECEIVE_BYTES],
            spare: Vec::new(),
            again: Vec::new(),
            serial: 0,
            in_flight: 0,
            waiting: 0,
            next_due: 0,
            no_connect_until: 0,
            sweep_at: SWEEP_EVERY,
            is_finished: false,
            is_starved: false,
            drain_until: None,
            told: [0; 3],
        })
    }

    /// Runs to the end, and returns what was seen, the workload, and when it ended.
    ///
    /// # Errors
    /// When epoll_wait(2) fails.
    pub fn run(mut self) -> io::Result<(Measurements, W, Nanos)> {
        let mut events = Vec::with_capacity(EVENTS_PER_TURN);
        let ended_at = loop {
            let now = self.now();
            self.end_turn(now);
            if self.is_over(now) {
                break now;
            }
            events.clear();
            let timeout = self.timeout(now);
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                let bits = event.data.u64();
                self.on_event(bits as u32, (bits >> 32) as u32, event.flags);
            }
            for (index, serial) in std::mem::take(&mut self.again) {
                self.on_event(index, serial, epoll::EventFlags::IN);
            }
        };
        self.seen.unfinished += self.in_flight as u64;
        self.tell();
        Ok((self.seen, self.workload, ended_at))
    }

    fn now(&self) -> Nanos {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(Nanos::MAX)
    }

    fn end_turn(&mut self, now: Nanos) {
        if now >= self.sweep_at {
            self.sweep(now);
            self.sweep_at = now + SWEEP_EVERY;
            self.tell();
        }
        if self.drain_until.is_none() && (now >= self.rules.end || self.shared.stop.load(Relaxed)) {
            self.stop(now);
        }
        self.feed_hungry(now);
        self.is_starved = false;
        self.pull(now);
    }

    fn is_over(&self, now: Nanos) -> bool {
        let is_idle = self.in_flight == 0 && self.waiting == 0;
        match self.drain_until {
            Some(until) => is_idle || now >= until,
            None => is_idle && self.is_finished,
        }
    }

    /// Ends the sending: what waits is dropped, and what was due by now is counted.
    fn stop(&mut self, now: Nanos) {
        self.drain_until = Some(now.saturating_add(DRAIN_MAX.min(self.rules.timeout)));
        let end = now.min(self.rules.end);
        for request in self.groups.drain_waiting() {
            self.seen.unsent += u64::from(request.due.is_some_and(|due| due <= end));
            self.workload.failed(&request, now);
        }
        self.waiting = 0;
        if self.rules.is_open && !self.is_finished {
            self.count_unsent(end);
        }
        self.is_finished = true;
    }

    /// Counts what was due by `end` and has not been taken from the workload.
    fn count_unsent(&mut self, end: Nanos) {
        let give_up = Instant::now() + UNSENT_WAIT_MAX;
        let mut request = Request::default();
        loop {
            request.bytes.clear();
            match self.workload.next(end, &mut request) {
                Next::Request => self.seen.unsent += 1,
                Next::Starved if Instant::now() < give_up => std::thread::yield_now(),
                _ => break,
            }
        }
    }

    fn timeout(&self, now: Nanos) -> Timespec {
        let mut at = self.sweep_at;
        if self.drain_until.is_none() {
            at = at.min(self.rules.end);
            if !self.is_finished && self.waiting < self.rules.waiting_max {
                if self.is_starved {
                    at = at.min(now + STARVED_WAIT);
                }
                if !self.rules.is_open && now < self.rules.ramp {
                    at = at.min(now + RAMP_STEP);
                }
                if self.next_due > now {
                    at = at.min(self.next_due);
                }
            }
            if self.groups.has_hungry() && self.no_connect_until > now {
                at = at.min(self.no_connect_until);
            }
        }
        let left = if self.again.is_empty() { at.saturating_sub(now) } else { 0 };
        Timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as _ }
    }

    /// Takes requests from the workload as long as there is somewhere to send them.
    fn pull(&mut self, now: Nanos) {
        while self.has_room(now) {
            let mut request = self.spare.pop().unwrap_or_default();
            match self.workload.next(now, &mut request) {
                Next::Request => {
                    (request.is_second, request.started) = (false, request.due.unwrap_or(now));
                    self.place(request, now);
                    continue;
                }
                Next::WaitUntil(due) => self.next_due = due,
                Next::Starved => self.is_starved = true,
                Next::Finished => self.is_finished = true,
            }
            self.recycle(request);
            break;
        }
    }

    fn has_room(&self, now: Nanos) -> bool {
        !self.is_finished
            && !self.is_starved
            && now >= self.next_due
            && self.waiting < self.rules.waiting_max
            && (self.rules.is_open || self.in_flight < self.connections_allowed(now))
    }

    /// How many connections a closed loop may use by now.
    fn connections_allowed(&self, now: Nanos) -> usize {
        if now >= self.rules.ramp {
            return self.rules.connections_max;
        }
        let part = u128::from(now) * self.rules.connections_max as u128 / u128::from(self.rules.ramp.max(1));
        usize::try_from(part).unwrap_or(usize::MAX).clamp(1, self.rules.connections_max)
    }

    /// Finds a connection for a request, or lets it wait for one.
    fn place(&mut self, request: Box<Request>, now: Nanos) {
        let index = self.groups.of(request.client);
        let Some(group) = self.groups.get(index) else { return };
        if let Some(connection) = group.idle.pop() {
            self.connections.set_busy(connection);
            self.send_request(connection, request, now);
        } else if group.open < self.rules.per_client_max && !self.groups.has_hungry() && self.can_open(now) {
            self.open(index, request, now);
        } else if let Some(group) = self.groups.get(index) {
            group.waiting.push_back(request);
            let may_open = group.open < self.rules.per_client_max;
            self.waiting += 1;
            if may_open {
                self.groups.set_hungry(index);
            }
        }
    }

    /// Whether there is room for one more connection; makes it, if an idle one can be closed.
    fn can_open(&mut self, now: Nanos) -> bool {
        if now < self.no_connect_until {
            return false;
        }
        if self.connections.slab.len() < self.rules.connections_max {
            return true;
        }
        let idle = self.connections.idle_longest();
        if let Some(index) = idle {
            self.close(index);
        }
        idle.is_some()
    }

    /// Opens connections for clients whose requests wait for want of one.
    fn feed_hungry(&mut self, now: Nanos) {
        while self.drain_until.is_none() && self.groups.has_hungry() {
            let Some(index) = self.groups.next_hungry(self.rules.per_client_max) else { return };
            if !self.can_open(now) {
                self.groups.put_back(index);
                return;
            }
            let Some(group) = self.groups.get(index) else { continue };
            let Some(mut request) = group.waiting.pop_front() else { continue };
            let has_more = !group.waiting.is_empty();
            self.waiting -= 1;
            if request.due.is_none() && !request.is_second {
                request.started = now;
            }
            self.open(index, request, now);
            if has_more {
                self.groups.set_hungry(index);
            }
        }
    }

    fn open(&mut self, group: u32, request: Box<Request>, now: Nanos) {
        match self.connect() {
            Ok(socket) => {
                self.serial = self.serial.wrapping_add(1);
                let deadline = now.saturating_add(self.rules.timeout);
                let connection = Connection::new(socket, self.serial, group, request, deadline);
                let entry = self.connections.slab.vacant_entry();
                let data = epoll::EventData::new_u64(u64::from(self.serial) << 32 | entry.key() as u64);
                let connection = entry.insert(connection);
                let flags = epoll::EventFlags::IN
                    | epoll::EventFlags::OUT
                    | epoll::EventFlags::RDHUP
                    | epoll::EventFlags::ET;
                let added = epoll::add(&self.epoll, &connection.socket, data, flags);
                self.in_flight += 1;
                self.seen.connections += 1;
                if let Some(group) = self.groups.get(group) {
                    group.open += 1;
                }
                if added.is_err() {
                    let index = data.u64() as u32;
                    self.fail(index, Failure::Connect, now);
                }
            }
            Err(_) => {
                self.no_connect_until = now + CONNECT_PAUSE;
                self.seen.failure(now, Failure::Connect);
                self.workload.failed(&request, now);
                self.recycle(request);
                self.groups.forget_if_done(group);
            }
        }
    }

    fn connect(&self) -> rustix::io::Result<OwnedFd> {
        let family = if self.rules.address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
        match net::connect(&socket, &self.rules.address) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(error) => Err(error),
        }
    }

    fn on_event(&mut self, index: u32, serial: u32, flags: epoll::EventFlags) {
        let now = self.now();
        let Some(connection) = self.connections.get(index).filter(|found| found.serial == serial) else {
            return;
        };
        if connection.state == State::Connecting {
            if !flags.intersects(epoll::EventFlags::OUT | epoll::EventFlags::ERR | epoll::EventFlags::HUP) {
                return;
            }
            match net::sockopt::socket_error(&connection.socket) {
                Ok(Ok(())) => self.send_first(index, now),
                _ => {
                    self.no_connect_until = now + CONNECT_PAUSE;
                    self.fail(index, Failure::Connect, now);
                }
            }
        } else {
            if flags.contains(epoll::EventFlags::OUT) {
                self.send_rest(index, now);
            }
            let ends = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
            if flags.intersects(epoll::EventFlags::IN | ends) {
                self.receive(index, serial, flags.intersects(ends), now);
            }
        }
        self.feed_hungry(now);
        self.pull(now);
    }

    /// The connection stands: its request leaves.
    fn send_first(&mut self, index: u32, now: Nanos) {
        let Some(connection) = self.connections.get(index) else { return };
        connection.state = State::Head;
        connection.sent_at = now;
        self.send_rest(index, now);
    }

    fn send_request(&mut self, index: u32, mut request: Box<Request>, now: Nanos) {
        let timeout = self.rules.timeout;
        let Some(connection) = self.connections.get(index) else { return };
        if request.due.is_none() && !request.is_second {
            request.started = now;
        }
        connection.request = Some(request);
        connection.state = State::Head;
        connection.sent = 0;
        connection.sent_at = now;
        connection.deadline = now.saturating_add(timeout);
        connection.has_begun = false;
        connection.body_bytes = 0;
        self.in_flight += 1;
        self.send_rest(index, now);
    }

    fn send_rest(&mut self, index: u32, now: Nanos) {
        let Some(connection) = self.connections.get(index) else { return };
        let Some(request) = &connection.request else { return };
        let rest = request.bytes.get(connection.sent..).unwrap_or_default();
        if rest.is_empty() {
            return;
        }
        match net::send(&connection.socket, rest, SendFlags::NOSIGNAL) {
            Ok(count) => {
                connection.sent += count;
                self.seen.sent_bytes += count as u64;
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            // A response may have come before the end of the connection; reading finds out.
            Err(_) if connection.sent > 0 => {}
            Err(_) => self.broken(index, Failure::Reset, now),
        }
    }

    /// Reads what there is. `is_ending`: the peer has closed, so read until that is seen.
    fn receive(&mut self, index: u32, serial: u32, is_ending: bool, now: Nanos) {
        let mut rx = std::mem::take(&mut self.rx);
        for round in 1.. {
            let Some(connection) = self.connections.get(index).filter(|found| found.serial == serial) else {
                break;
            };
            match net::recv(&connection.socket, &mut rx[..], RecvFlags::empty()) {
                Ok((0, _)) => {
                    self.ended(index, now);
                    break;
                }
                Ok((count, _)) => {
                    self.seen.received_bytes += count as u64;
                    self.take(index, rx.get(..count).unwrap_or_default(), now);
                    if count < rx.len() && !is_ending {
                        break;
                    }
                    if round == RECEIVES_PER_EVENT_MAX {
                        self.again.push((index, serial));
                        break;
                    }
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => {
                    self.broken(index, Failure::Reset, now);
                    break;
                }
            }
        }
        self.rx = rx;
    }

    /// The peer has closed its side.
    fn ended(&mut self, index: u32, now: Nanos) {
        let Some(connection) = self.connections.get(index) else { return };
        match connection.state {
            State::Idle => self.close(index),
            State::Body(Body::UntilClose) => self.complete(index, 1, now),
            _ if connection.has_begun => self.broken(index, Failure::Cut, now),
            _ => self.broken(index, Failure::Closed, now),
        }
    }

    /// Bytes of a response.
    fn take(&mut self, index: u32, bytes: &[u8], now: Nanos) {
        let Some(connection) = self.connections.get(index) else { return };
        connection.has_begun = true;
        match connection.state {
            State::Head if connection.partial.is_empty() => self.take_head(index, bytes, now),
            State::Head => {
                let mut whole = std::mem::take(&mut connection.partial);
                whole.extend_from_slice(bytes);
                self.take_head(index, &whole, now);
            }
            State::Body(_) => self.take_body(index, bytes, now),
            // Nothing was asked for.
            State::Idle | State::Connecting => self.close(index),
        }
    }

    fn take_head(&mut self, index: u32, bytes: &[u8], now: Nanos) {
        let Some(connection) = self.connections.get(index) else { return };
        let is_head = connection.request.as_ref().is_some_and(|request| request.is_head);
        let mut rest = bytes;
        loop {
            let found: Option<Head> = match response::head(rest, is_head) {
                Ok(found) => found,
                Err(response::Malformed) => return self.fail(index, Failure::Malformed, now),
            };
            let Some(head) = found else {
                let kept = rest.get(..HEAD_BYTES_MAX).unwrap_or(rest);
                connection.partial.extend_from_slice(kept);
                return;
            };
            rest = rest.get(head.bytes..).unwrap_or_default();
            match head.status {
                // Nobody asked for another protocol.
                101 => return self.fail(index, Failure::Malformed, now),
                // An interim response; the final one follows (RFC 9110 section 15.2).
                100..200 => {}
                _ => {
                    connection.status = head.status;
                    connection.keeps = head.keeps;
                    connection.state = State::Body(head.body);
                    return self.take_body(index, rest, now);
                }
            }
        }
    }

    fn take_body(&mut self, index: u32, bytes: &[u8], now: Nanos) {
        let Some(connection) = self.connections.get(index) else { return };
        let State::Body(body) = &mut connection.state else { return };
        match body.take(bytes) {
            Err(response::Malformed) => self.fail(index, Failure::Malformed, now),
            Ok(taken) => {
                connection.body_bytes += taken.content;
                if taken.is_complete {
                    self.complete(index, bytes.len() - taken.bytes, now);
                }
            }
        }
    }

    /// In a closed loop, an answer may make the workload's next request due earlier than it said.
    fn ask_again(&mut self) {
        if !self.rules.is_open {
            self.next_due = 0;
        }
    }

    /// A response is complete; `surplus` bytes came behind it.
    fn complete(&mut self, index: u32, surplus: usize, now: Nanos) {
        let Some(connection) = self.connections.get(index) else { return };
        let Some(request) = connection.request.take() else { return };
        connection.served += 1;
        self.in_flight -= 1;
        let (status, body_bytes) = (connection.status, connection.body_bytes);
        let service = now.saturating_sub(connection.sent_at);
        let is_sent = connection.sent == request.bytes.len();
        let keeps = connection.keeps && !request.closes && surplus == 0 && is_sent;
        let latency = now.saturating_sub(request.started);
        self.seen.response(now, status, body_bytes, latency, service);
        if let Some(logged) = request.logged {
            let length = !request.is_head && logged.bytes.is_some_and(|bytes| bytes != body_bytes);
            let difference = || Difference {
                request: response::first_line(&request.bytes),
                logged_status: logged.status,
                status,
                logged_bytes: logged.bytes,
                bytes: body_bytes,
            };
            self.seen.compare(difference, logged.status != status, length);
        }
        self.workload.answered(&request, status, body_bytes, now);
        self.ask_again();
        self.recycle(request);
        if keeps { self.release(index, now) } else { self.close(index) }
    }

    /// A connection may be used again: by the next request of its client, or by nobody for now.
    fn release(&mut self, index: u32, now: Nanos) {
        let Some(connection) = self.connections.get(index) else { return };
        connection.deadline = now.saturating_add(self.rules.idle_max);
        let group = connection.group;
        let Some(group) = self.groups.get(group) else { return };
        if let Some(request) = group.waiting.pop_front() {
            self.waiting -= 1;
            self.send_request(index, request, now);
        } else {
            group.idle.push(index);
            self.connections.set_idle(index);
        }
    }

    /// A connection ended before the response was complete.
    fn broken(&mut self, index: u32, failure: Failure, now: Nanos) {
        let Some(connection) = self.connections.get(index) else { return };
        let is_stale = connection.served > 0 && !connection.has_begun;
        let may_again = |request: &Request| request.is_idempotent && !request.is_second;
        if !is_stale || !connection.request.as_deref().is_some_and(may_again) || self.drain_until.is_some() {
            return self.fail(index, failure, now);
        }
        let (group, request) = (connection.group, connection.request.take());
        if let (Some(mut request), Some(group)) = (request, self.groups.get(group)) {
            request.is_second = true;
            group.waiting.push_front(request);
            self.waiting += 1;
            self.in_flight -= 1;
            self.seen.sent_again += 1;
        }
        self.close(index);
    }

    fn fail(&mut self, index: u32, failure: Failure, now: Nanos) {
        let Some(connection) = self.connections.get(index) else { return };
        if let Some(request) = connection.request.take() {
            self.in_flight -= 1;
            self.seen.failure(now, failure);
            self.workload.failed(&request, now);
            self.ask_again();
            self.recycle(request);
        }
        self.close(index);
    }

    /// Closes a connection that has no request.
    fn close(&mut self, index: u32) {
        let Some(connection) = self.connections.get(index) else { return };
        let (group_index, is_idle) = (connection.group, connection.state == State::Idle);
        if is_idle {
            self.connections.set_busy(index);
            if let Some(group) = self.groups.get(group_index) {
                group.idle.retain(|other| *other != index);
            }
        }
        self.connections.slab.try_remove(index as usize);
        if let Some(group) = self.groups.get(group_index) {
            group.open = group.open.saturating_sub(1);
            let needs_one = !group.waiting.is_empty();
            if needs_one {
                self.groups.set_hungry(group_index);
            } else {
                self.groups.forget_if_done(group_index);
            }
        }
    }

    /// Looks for deadlines that have passed.
    fn sweep(&mut self, now: Nanos) {
        let late: Vec<u32> = self
            .connections
            .slab
            .iter()
            .filter(|(_, connection)| connection.deadline <= now)
            .map(|(index, _)| index as u32)
            .collect();
        for index in late {
            match self.connections.get(index).map(|connection| connection.state) {
                Some(State::Idle) => self.close(index),
                Some(_) => self.fail(index, Failure::Timeout, now),
                None => {}
            }
        }
    }

    fn recycle(&mut self, mut request: Box<Request>) {
        if self.spare.len() < SPARE_REQUESTS {
            request.bytes.clear();
            self.spare.push(request);
        }
    }

    /// Tells the thread that draws the progress.
    fn tell(&mut self) {
        let now = [self.seen.responses, self.seen.failures(), self.seen.body_bytes];
        let [responses, failures, bytes] = std::mem::replace(&mut self.told, now);
        self.shared.responses.fetch_add(now[0] - responses, Relaxed);
        self.shared.failures.fetch_add(now[1] - failures, Relaxed);
        self.shared.body_bytes.fetch_add(now[2] - bytes, Relaxed);
    }
}
