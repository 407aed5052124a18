//! From responses to sent bytes: one write for everything that was answered, then files by `sendfile`.
//!
//! `close_cleanly` and `linger` call one another as the last thing that each does.

use std::rc::Rc;
use std::time::Duration;

use maitred_http::framed::StreamKey;
use maitred_sys::delivery::{self, Sending};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::Exchanges;
use crate::agenda::Next;
use crate::connection::outgoing::Outgoing;
use crate::connection::table::Phase;
use crate::connection::wire::{Sent, Then, Wire};
use crate::connection::{After, State};
use crate::foreign;
use crate::inbox::Message;
use crate::keys::ConnKey;
use crate::log_line::aborted_status;
use maitred_base::passed::Reading;
use maitred_base::residency::RESIDENT_FOR;
use maitred_files::{DiskJob, Segment, ServedFile, Summary};

/// Bytes that are looked for in the page cache, and read in by a helper thread, at a time.
pub(crate) const RESIDENT_BYTES: u64 = 256 * 1024;
/// Bytes of a file that one connection may send in one turn, so that one client on a fast line cannot occupy the thread. The
/// amount also bounds what is to be in the CPU's caches when the client reads it: files of 10 MB cost 1.2 × floor with it,
/// client included, and 1.7 with 1 MiB.
const FILE_BYTES_PER_TURN: u64 = 256 * 1024;

/// Reads of a lingering connection in one turn.
const LINGER_READS_PER_TURN: u32 = 16;

/// When a job is submitted again that the disk helpers had no room for: about what one read from a disk takes.
const DISK_RETRY: Duration = Duration::from_millis(5);

impl Exchanges {
    /// Sends what the turn has joined in `tx`, and then does what is to follow: `after` for a connection whose last
    /// response this was, the segments of one that streams.
    pub(crate) fn send_joined(&mut self, index: ConnKey, after: Option<After>) {
        let (tx, cached) = (std::mem::take(&mut self.buffers.tx), self.buffers.tx_cached.take());
        let connection = &self.connections[index];
        let streams = connection.is(Phase::Writing);
        let then = match after {
            _ if streams => Then::More,
            Some(After::Close | After::Linger) => Then::End,
            _ => Then::Perhaps,
        };
        let result = match tx.is_empty() {
            true => Ok(0),
            false => self.send(index, &tx, then),
        };
        let sent = match result {
            Ok(sent) => sent,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(_) => {
                self.put_back(tx);
                return self.abort(index);
            }
        };
        let rest = tx.get(sent..).unwrap_or_default();
        let finished = rest.is_empty() && self.is_flushed(index).unwrap_or(true);
        if !finished {
            let exchange = self.exchange(index);
            exchange.outgoing.hold(rest, cached);
            if let Some(after) = after {
                exchange.after = Some(after);
            }
            self.start_writing(index);
        }
        self.put_back(tx);
        match finished {
            false => self.count_unsent(index),
            true => {
                if let Some(exchange) = self.connections[index].exchange.as_deref_mut() {
                    exchange.dispatch.note_sent();
                }
            }
        }
        match after {
            // Not here: a response that leaves at once would be over while its caller still has the bytes behind its request.
            _ if streams => self.follow_up(index, Next::Send),
            Some(after) if finished => self.finish(index, after),
            _ => {}
        }
    }

    fn put_back(&mut self, mut tx: Vec<u8>) {
        tx.clear();
        if tx.capacity() > 2 * crate::step::JOINED_BYTES {
            tx.shrink_to(crate::step::JOINED_BYTES);
        }
        self.buffers.tx = tx;
    }

    /// Sends as much as the socket takes of what is left of a response, within the turn's share.
    pub(crate) fn on_writable(&mut self, index: ConnKey) {
        match self.send_rest(index) {
            Sent::All => self.end_response(index),
            Sent::Share => self.look_again(index),
            Sent::Waits => self.count_unsent(index),
            Sent::Broken => self.abort(index),
        }
    }

    pub(crate) fn send_rest(&mut self, index: ConnKey) -> Sent {
        let mut share = FILE_BYTES_PER_TURN;
        loop {
            let Some(exchange) = self.connections[index].exchange.as_deref_mut() else {
                return Sent::All;
            };
            if exchange.outgoing.awaits_disk {
                return Sent::Waits;
            }
            if exchange.outgoing.has_bytes() {
                match self.send_output(index) {
                    Sent::All => continue,
                    other => return other,
                }
            }
            match exchange.outgoing.segments.pop_front() {
                None => return self.flush(index),
                Some(Segment::Bytes(bytes)) => {
                    exchange.outgoing.replace(bytes.into());
                }
                Some(cached @ Segment::Cached(_)) => {
                    exchange.outgoing.segments.push_front(cached);
                    match self.send_cached(index) {
                        Sent::All => {}
                        other => return other,
                    }
                }
                Some(Segment::File { offset, end, .. }) if offset >= end => {}
                Some(file) => {
                    exchange.outgoing.segments.push_front(file);
                    if share == 0 {
                        return Sent::Share;
                    }
                    match self.send_file(index, &mut share) {
                        Sent::All => {}
                        other => return other,
                    }
                }
            }
        }
    }

    fn send_output(&mut self, index: ConnKey) -> Sent {
        let Some(exchange) = self.connections[index].exchange.as_deref_mut() else {
            return Sent::All;
        };
        let from = exchange.outgoing.sent;
        let then = self.then(index);
        let output = std::mem::take(&mut self.exchange(index).outgoing.bytes);
        let sent = self.send(index, output.get(from..).unwrap_or_default(), then);
        let exchange = self.exchange(index);
        exchange.outgoing.bytes = output;
        match sent {
            Ok(sent) => {
                exchange.outgoing.advance(sent);
                self.progress(index);
                Sent::All
            }
            Err(Errno::INTR) => Sent::All,
            Err(Errno::AGAIN) => Sent::Waits,
            Err(_) => Sent::Broken,
        }
    }

    /// Sends the first segment, which is held elsewhere.
    fn send_cached(&mut self, index: ConnKey) -> Sent {
        let Some(exchange) = self.connections[index].exchange.as_deref() else { return Sent::All };
        let Some(Segment::Cached(cached)) = exchange.outgoing.segments.front() else { return Sent::All };
        let (cached, then) = (cached.clone(), self.then(index));
        match self.send(index, cached.bytes(), then) {
            Ok(sent) => {
                let segments = &mut self.exchange(index).outgoing.segments;
                if sent == cached.bytes().len() {
                    segments.pop_front();
                } else if let Some(Segment::Cached(left)) = segments.front_mut() {
                    left.advance(sent);
                }
                self.progress(index);
                Sent::All
            }
            Err(Errno::INTR) => Sent::All,
            Err(Errno::AGAIN) => Sent::Waits,
            Err(_) => Sent::Broken,
        }
    }

    /// What comes after the part that is in front: output, or with no output the first segment.
    fn then(&self, index: ConnKey) -> Then {
        let connection = &self.connections[index];
        let Some(exchange) = connection.exchange.as_deref() else { return Then::Perhaps };
        let segments = exchange.outgoing.behind_front();
        let ends = connection.is(Phase::Writing)
            && matches!(exchange.after, Some(After::Close | After::Linger))
            && exchange.body.incoming.is_nothing();
        match segments {
            0 if ends => Then::End,
            0 => Then::Perhaps,
            _ => Then::More,
        }
    }

    /// Whether all that was taken from the output has left, too.
    fn flush(&mut self, index: ConnKey) -> Sent {
        match self.is_flushed(index) {
            Ok(true) => Sent::All,
            Ok(false) | Err(Errno::AGAIN) => Sent::Waits,
            Err(_) => Sent::Broken,
        }
    }

    /// One piece of the file segment in front, once it is known to be in memory.
    fn send_file(&mut self, index: ConnKey, share: &mut u64) -> Sent {
        let connection = &mut self.processes.clients.connections[index];
        let Some(exchange) = connection.exchange.as_deref_mut() else { return Sent::All };
        let Outgoing { segments, resident_until, resident_at, .. } = &mut *exchange.outgoing;
        let Some(Segment::File { file, offset, end }) = segments.front_mut() else { return Sent::All };
        if file.reading() == Reading::ByHelper {
            let (file, range) = (Rc::clone(file), *offset..*end);
            return match self.fetch(index, &file, range, false) {
                true => Sent::Waits,
                false => self.postpone(index),
            };
        }
        let now = self.processes.clients.base.clock.now;
        let stale = resident_at.is_none_or(|at| now.saturating_duration_since(at) > RESIDENT_FOR);
        if *offset >= *resident_until || stale {
            let bytes = (*end - *offset).min(RESIDENT_BYTES);
            let Some(since) = file.resident_since(*offset, bytes, now) else {
                let (file, offset) = (Rc::clone(file), *offset);
                return self.ask_disk(index, &file, offset, bytes);
            };
            (*resident_until, *resident_at) = (*offset + bytes, Some(since));
        }
        let bytes = ((*resident_until).min(*end) - *offset).min(*share);
        let (file, mut at, end) = (Rc::clone(file), *offset, *end);
        let then = if at + bytes < end { Then::More } else { self.then(index) };
        match self.send_file_piece(index, &file, &mut at, bytes, then) {
            // The file is shorter than it was when its length was promised, or cannot be read.
            Ok(0) => {
                self.note_broken_file(index);
                Sent::Broken
            }
            Ok(sent) => {
                *share -= sent;
                let exchange = self.exchange(index);
                if let Some(Segment::File { offset, .. }) = exchange.outgoing.segments.front_mut() {
                    *offset = at;
                }
                if at >= end {
                    exchange.outgoing.segments.pop_front();
                    exchange.outgoing.resident_until = 0;
                }
                self.row.bytes_sent.add(sent);
                self.progress(index);
                Sent::All
            }
            Err(Errno::INTR) => Sent::All,
            Err(Errno::AGAIN) => Sent::Waits,
            Err(_) => Sent::Broken,
        }
    }

    /// Has a helper thread read what is missing; `Requests::on_disk_done` goes on.
    fn ask_disk(&mut self, index: ConnKey, file: &ServedFile, offset: u64, len: u64) -> Sent {
        let Ok(copy) = file.try_clone() else { return Sent::Broken };
        let job = DiskJob::Read { file: copy, offset, len };
        let submitted = match file.lane() {
            Some(lane) => {
                let (inbox, connection) = (&self.shared.inboxes[self.number], self.id(index));
                self.row.disk_waits.add(1);
                lane.submit(Box::new(move || {
                    let result = job.run();
                    inbox.send(Message::DiskDone { connection, result });
                }))
            }
            None => self.submit(index, job),
        };
        if !submitted {
            return self.postpone(index);
        }
        self.exchange(index).outgoing.awaits_disk = true;
        match file.lane() {
            Some(_) => self.await_passed(index),
            // The time of the disk does not count against the client.
            None => self.wheel.disarm(index),
        }
        Sent::Waits
    }

    /// All helpers are busy and the queue is full. Submitting it again in each turn would keep this thread busy with nothing.
    fn postpone(&mut self, index: ConnKey) -> Sent {
        let now = self.clock.now;
        let connection = self.id(index);
        if !std::mem::replace(&mut self.connections[index].again, true) {
            self.load.postponed.push(connection);
            self.load.postponed_until.get_or_insert(now + DISK_RETRY);
        }
        self.wheel.disarm(index);
        Sent::Waits
    }

    /// The last byte of a response has left.
    pub(crate) fn end_response(&mut self, index: ConnKey) {
        self.forget_unsent(index);
        self.log_kept(index, 0);
        let exchange = self.exchange(index);
        exchange.dispatch.forget_pool();
        exchange.outgoing.existing().into_iter().for_each(Outgoing::leave_file);
        let (after, unfinished) =
            (exchange.after.take().unwrap_or(After::Keep), !exchange.body.incoming.is_nothing());
        if unfinished && after != After::Keep {
            // An early answer was the last one: what follows it is dropped for a while.
            return self.finish(index, After::Linger);
        }
        if unfinished {
            // What did not fit at once came before the request whose body is read: earlier answers, or its 100.
            self.enter(index, State::Body);
            self.begin_pace(index);
            return self.follow_up(index, Next::GoOnReading);
        }
        exchange.head.clear();
        exchange.body.content.clear();
        self.finish(index, after);
        self.follow_up(index, Next::Settle);
    }

    /// Does what follows a finished response.
    pub(crate) fn finish(&mut self, index: ConnKey, after: After) {
        match after {
            After::Keep => {
                self.enter(index, State::Idle);
                if self.drain.is_some() {
                    self.follow_up(index, Next::Dismiss);
                }
            }
            _ if self.connections[index].is_stream() => self.end_stream(index),
            // What still comes, be it only the end of a handshake, must not cause a reset.
            After::Close
                if self.connections[index].readable || self.has_input(index) || self.is_early(index) =>
            {
                self.linger(index);
            }
            After::Close => self.close_cleanly(index),
            After::Linger => self.linger(index),
        }
    }

    /// Ends a connection in the middle of a response: its end shows the client that it is incomplete.
    pub(crate) fn abort(&mut self, index: ConnKey) {
        let connection = &mut self.connections[index];
        let unsent = connection.exchange.as_deref().map_or(0, |exchange| exchange.outgoing.left());
        if let State::Upstream(attempt) = &connection.state {
            let body_bytes = attempt.filter.body_bytes();
            let status = if attempt.filter.switched() { 101 } else { aborted_status(connection) };
            connection.exchange().summary.get_or_insert(Summary { status, body_bytes });
        }
        self.log_kept(index, unsent);
        self.close(index);
    }

    /// Closes when nothing of a response is left. A TLS client gets `close_notify`, because without it the end may be an attack
    /// (RFC 8446 section 6.1). While the client has not acknowledged all of its responses it may still send, and what arrives at
    /// a closed socket causes a reset, by which the client loses the rest of a response (9112-9.6).
    pub(crate) fn close_cleanly(&mut self, index: ConnKey) {
        let connection = &self.connections[index];
        let may_send_on = !connection.ended && !connection.is(Phase::Linger);
        if may_send_on && self.socket(index).is_some_and(delivery::is_under_way) {
            return self.linger(index);
        }
        self.close_at_once(index);
    }

    /// The same, whatever the client has acknowledged.
    pub(crate) fn close_at_once(&mut self, index: ConnKey) {
        if let Wire::Tls { session } = self.connections[index].wire {
            self.notify_close(index, session);
        }
        self.close(index);
    }

    /// The connection is of no use any more. A TLS alert may be on its way because of what was received, and closing at once
    /// could make the client lose it.
    pub(crate) fn break_off(&mut self, index: ConnKey) {
        match self.connections[index].wire {
            Wire::Tls { .. } => self.linger(index),
            _ => self.close(index),
        }
    }

    /// Stops sending and drops what still comes, for a while.
    pub(crate) fn linger(&mut self, index: ConnKey) {
        if self.connections[index].is_stream() {
            return self.end_stream(index);
        }
        if self.connections[index].ended {
            return self.close_cleanly(index);
        }
        if !self.shut_down_sending(index) {
            return self.close(index);
        }
        let connection = &mut self.connections[index];
        let session = connection.session();
        if let Some(exchange) = connection.exchange.take() {
            self.recycle(exchange);
        }
        self.enter(index, State::Linger);
        // Nothing of the HTTP/2 session can be sent any more, and it must not stay after the state that has its key.
        self.end_session(session);
        let timeout = self.limits().linger_timeout;
        self.arm_in(index, timeout);
        if self.register(index) {
            // What is there is dropped in the next turn: now the buffer may be in use by the caller, which reads requests.
            self.look_again(index);
        }
    }

    /// `linger_timeout` has passed; a client that still takes what was sent to it gets the same time again.
    pub(crate) fn on_lingered(&mut self, index: ConnKey) {
        let timeout = self.shared.start.config.limits.linger_timeout;
        let takes =
            |socket| delivery::is_under_way(socket) && delivery::sending(socket, timeout) == Sending::Moves;
        match self.socket(index).is_some_and(takes) {
            true => self.arm_in(index, timeout),
            false => self.close(index),
        }
    }

    pub(crate) fn on_lingering(&mut self, index: ConnKey) {
        let mut rx = self.buffers.rx.take();
        let mut gone = false;
        for read in 1..=LINGER_READS_PER_TURN {
            rx.clear();
            let Some(socket) = self.socket(index) else { break };
            let received = match self.connections[index].is_foreign() {
                true => foreign::receive(socket, &mut rx),
                false => recv(socket, spare_capacity(&mut rx), RecvFlags::DONTWAIT).map(|(_, bytes)| bytes),
            };
            match received {
                Ok(0) => gone = true,
                Ok(_) if read < LINGER_READS_PER_TURN => continue,
                Ok(_) => self.look_again(index),
                Err(Errno::AGAIN) => {}
                Err(_) => gone = true,
            }
            break;
        }
        self.buffers.rx.put_back(rx);
        if gone {
            self.close(index);
        }
    }

    /// Whether the client still takes what the kernel has of a response, if so slowly that there was no room for more, nor for
    /// what TLS has encrypted. Then `write_timeout` counts from when the last bytes left.
    pub(crate) fn is_taken_slowly(&mut self, index: ConnKey) -> bool {
        let Some(connection) = self.connections.get(index) else { return false };
        let is_writing = match &connection.state {
            State::Writing => true,
            State::Upstream(_) => self.waits_for_client(index),
            _ => false,
        };
        let timeout = self.write_timeout(index);
        let last = self.socket(index).filter(|_| is_writing).and_then(maitred_sys::delivery::last_left);
        let Some(left) = last.and_then(|ago| timeout.checked_sub(ago)).filter(|left| !left.is_zero()) else {
            return false;
        };
        self.arm_in(index, left);
        true
    }

    /// The client has not taken its response in time. A stream is reset with CANCEL (9113-7): its response is not needed any
    /// more, and INTERNAL_ERROR would mean a failure of the server.
    pub(crate) fn abort_stalled(&mut self, index: ConnKey) {
        if let Some(Wire::Stream { session, stream }) =
            self.connections.get(index).map(|connection| connection.wire)
            && let Some(http2) = self.sessions.get_mut(session)
        {
            http2.session.cancel(StreamKey(stream));
        }
        self.abort(index);
    }

    /// The response of a stream is complete.
    pub(crate) fn end_stream(&mut self, index: ConnKey) {
        let connection = &mut self.connections[index];
        if let Wire::Stream { session, stream } = connection.wire {
            let trailers = connection
                .exchange
                .as_deref_mut()
                .and_then(|exchange| exchange.outgoing.existing()?.trailers.take());
            if let (Some(trailers), Some(http2)) = (trailers, self.sessions.get_mut(session)) {
                http2.session.trailers(StreamKey(stream), trailers.all());
            }
            self.end_sending(session, stream);
        }
        self.close(index);
    }
}
