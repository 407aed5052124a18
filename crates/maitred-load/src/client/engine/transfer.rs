//! Bytes go out and come in.

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags};

use super::super::connection::{Connection, State};
use super::super::response::{self, Body, HEAD_BYTES_MAX, Head};
use super::super::{Request, Workload};
use super::{CONNECT_PAUSE, Engine, RECEIVES_PER_EVENT_MAX};
use crate::measure::{Failure, Nanos};

impl<W: Workload> Engine<W> {
    pub(super) fn on_event(&mut self, index: u32, serial: u32, flags: epoll::EventFlags) {
        let now = self.now();
        let Some(connection) = self.connections.get(index).filter(|found| found.serial == serial) else {
            return;
        };
        if connection.state == State::Connecting {
            if !flags.intersects(epoll::EventFlags::OUT | epoll::EventFlags::ERR | epoll::EventFlags::HUP) {
                return;
            }
            match net::sockopt::socket_error(&connection.socket) {
                Ok(Ok(())) if connection.tls.is_some() => {
                    connection.state = State::Handshake;
                    self.flush_session(index, now);
                }
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

    /// The connection stands, and so does its session: its request leaves.
    pub(super) fn send_first(&mut self, index: u32, now: Nanos) {
        let Some(connection) = self.connections.get(index) else { return };
        connection.state = State::Head;
        connection.sent_at = now;
        self.send_rest(index, now);
    }

    pub(super) fn send_request(&mut self, index: u32, mut request: Box<Request>, now: Nanos) {
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

    pub(super) fn send_rest(&mut self, index: u32, now: Nanos) {
        let Some(connection) = self.connections.get(index) else { return };
        if connection.tls.is_some() {
            return self.send_rest_encrypted(index, now);
        }
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

    fn send_rest_encrypted(&mut self, index: u32, now: Nanos) {
        loop {
            let Some(connection) = self.connections.get(index) else { return };
            let (Some(tls), Some(request)) = (&mut connection.tls, &connection.request) else { return };
            let rest = request.bytes.get(connection.sent..).unwrap_or_default();
            let is_whole = connection.state == State::Handshake || rest.is_empty();
            let taken = if is_whole { 0 } else { tls.write(rest) };
            connection.sent += taken;
            self.flush_session(index, now);
            let has_more = |found: &Connection| found.tls.as_ref().is_some_and(|tls| !tls.has_unsent());
            if taken == 0 || !self.connections.get(index).is_some_and(|found| has_more(found)) {
                return;
            }
        }
    }

    /// Sends what the session has for the peer.
    fn flush_session(&mut self, index: u32, now: Nanos) {
        let Some(connection) = self.connections.get(index) else { return };
        let Some(tls) = &mut connection.tls else { return };
        match tls.flush(&connection.socket) {
            Ok(count) => self.seen.sent_bytes += count,
            // As without TLS.
            Err(_) if connection.state != State::Handshake && connection.sent > 0 => {}
            Err(_) => self.broken(index, Failure::Reset, now),
        }
    }

    /// Encrypted bytes: of the handshake, or of a response.
    fn take_encrypted(&mut self, index: u32, bytes: &[u8], now: Nanos) {
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        let Some(connection) = self.connections.get(index) else { return };
        let Some(tls) = &mut connection.tls else { return };
        let result = tls.receive(bytes, &mut plain);
        let (is_ready, has_ended) = (!tls.is_handshaking(), tls.has_ended());
        let was_handshake = connection.state == State::Handshake;
        if let Err(error) = result {
            // The peer gets an alert.
            self.flush_session(index, now);
            self.seen.tls_error.get_or_insert_with(|| error.to_string());
            let failure = if was_handshake { Failure::Handshake } else { Failure::Malformed };
            self.fail(index, failure, now);
        } else {
            if was_handshake && is_ready {
                // The end of the handshake leaves with the request.
                self.send_first(index, now);
            } else {
                self.flush_session(index, now);
            }
            if !plain.is_empty() {
                self.take(index, &plain, now);
            }
            if has_ended {
                self.ended(index, now);
            }
        }
        self.plain = plain;
    }

    /// Reads what there is. `is_ending`: the peer has closed, so read until that is seen.
    pub(super) fn receive(&mut self, index: u32, serial: u32, is_ending: bool, now: Nanos) {
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
                    let is_encrypted = connection.tls.is_some();
                    self.seen.received_bytes += count as u64;
                    let bytes = rx.get(..count).unwrap_or_default();
                    if is_encrypted {
                        self.take_encrypted(index, bytes, now);
                    } else {
                        self.take(index, bytes, now);
                    }
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
    pub(super) fn ended(&mut self, index: u32, now: Nanos) {
        let Some(connection) = self.connections.get(index) else { return };
        match connection.state {
            State::Idle => self.close(index),
            // TLS tells the end of a session from the end of a connection that was cut (RFC 8446 section 6.1).
            State::Body(Body::UntilClose) if connection.tls.as_ref().is_some_and(|tls| !tls.has_ended()) => {
                self.broken(index, Failure::Cut, now);
            }
            State::Body(Body::UntilClose) => self.complete(index, 1, now),
            _ if connection.has_begun => self.broken(index, Failure::Cut, now),
            _ => self.broken(index, Failure::Closed, now),
        }
    }

    /// Bytes of a response.
    pub(super) fn take(&mut self, index: u32, bytes: &[u8], now: Nanos) {
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
            State::Idle | State::Connecting | State::Handshake => self.close(index),
        }
    }

    pub(super) fn take_head(&mut self, index: u32, bytes: &[u8], now: Nanos) {
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
                // No upgrade was requested.
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

    pub(super) fn take_body(&mut self, index: u32, bytes: &[u8], now: Nanos) {
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
}
