//! One connection of a load.

use std::time::Instant;

use hashbrown::HashMap;
use maitred_http::h3::frame::Settings;
use maitred_http::h3::{Code, Error};
use quinn_proto::{ConnectionError, Dir, Event, Side, StreamEvent, StreamId, VarInt};

use super::super::session::{self, End, Session};
use super::exchange::Exchange;
use super::{Ledger, Sample};
use crate::http3::Link;
use crate::measure::{Failure, Nanos};

/// Codes of alerts of TLS begin here (RFC 9001 section 4.8).
const TLS_ALERTS: std::ops::Range<u64> = 0x100..0x200;

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Handshake,
    Ready,
    /// Nothing new is begun on it: the server leaves, or it has brought what it should.
    Leaving,
    /// The connection stays, and has nothing to do.
    Idle,
    Ended,
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) link: Link,
    session: Session,
    pub(super) state: State,
    /// Whether the connection is one of those that bring one request.
    pub(super) is_idle: bool,
    streams_max: usize,
    exchanges: HashMap<StreamId, Exchange>,
    pub(super) began: Nanos,
    /// Distinguishes it from earlier ones in the same place.
    pub(super) serial: u32,
    /// Whether it is one of the connections that there should be.
    pub(super) counts: bool,
    /// The time in the queue of timers that will look at it first.
    pub(super) queued: Option<Instant>,
}

impl Peer {
    pub(super) fn new(link: Link, streams_max: usize, is_idle: bool, serial: u32, now: Nanos) -> Peer {
        Peer {
            link,
            session: Session::new(),
            state: State::Handshake,
            is_idle,
            streams_max: if is_idle { 1 } else { streams_max },
            exchanges: HashMap::new(),
            began: now,
            serial,
            counts: true,
            queued: None,
        }
    }

    /// Does what the connection's events ask for, and sends requests as long as there is room for them.
    pub(super) fn drive(&mut self, samples: &[Sample], ledger: &mut Ledger) {
        while let Some(event) = self.link.connection.poll() {
            if let Err(error) = self.on_event(event, ledger) {
                self.give_up(error, ledger);
            }
        }
        self.look_for_go_away(ledger);
        self.fill(samples, ledger);
        if self.state == State::Leaving && self.exchanges.is_empty() {
            self.close(Code::NoError, ledger);
        }
    }

    fn on_event(&mut self, event: Event, ledger: &mut Ledger) -> Result<(), Error> {
        let connection = &mut self.link.connection;
        match event {
            Event::Connected => {
                Session::start(connection, &Settings::default());
                self.state = State::Ready;
                ledger.seen.connections += 1;
            }
            Event::ConnectionLost { reason } => self.on_lost(&reason, ledger),
            Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => self.session.on_opened(connection)?,
            Event::Stream(StreamEvent::Readable { id }) if id.initiator() == Side::Server => {
                self.session.on_readable(connection, id)?;
            }
            Event::Stream(StreamEvent::Readable { id }) => self.read(id, ledger)?,
            Event::Stream(StreamEvent::Writable { id } | StreamEvent::Stopped { id, .. }) => {
                if let Some(exchange) = self.exchanges.get_mut(&id) {
                    exchange.write(connection, id);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Begins requests.
    fn fill(&mut self, samples: &[Sample], ledger: &mut Ledger) {
        while self.state == State::Ready && self.exchanges.len() < self.streams_max {
            // Connections that stay are made even if the closed loop has all of its requests.
            if ledger.is_over || (!self.is_idle && !ledger.may_begin()) {
                self.state = State::Leaving;
                return;
            }
            let Some(sample) = samples.get(ledger.turn % samples.len().max(1)) else { return };
            let Some(id) = self.link.connection.streams().open(Dir::Bi) else { return };
            ledger.turn = ledger.turn.wrapping_add(1);
            let mut exchange = Exchange::new(sample, ledger.now);
            exchange.write(&mut self.link.connection, id);
            self.exchanges.insert(id, exchange);
            ledger.begun += u64::from(!self.is_idle);
            ledger.in_flight += 1;
            if self.is_idle {
                self.state = State::Idle;
            }
        }
    }

    fn read(&mut self, id: StreamId, ledger: &mut Ledger) -> Result<(), Error> {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return Ok(()) };
        let decoder = &mut self.session.decoder;
        let end = session::read(&mut self.link.connection, id, |bytes| exchange.take(decoder, id, bytes))?;
        match end {
            End::Open => return Ok(()),
            End::Finished if exchange.is_whole() => {
                let latency = ledger.now.saturating_sub(exchange.started);
                ledger.in_flight -= 1;
                ledger.seen.response(ledger.now, exchange.status, exchange.body_bytes, latency, latency);
            }
            End::Reset(code) if code == Code::RequestRejected.number() => self.again(ledger),
            End::Finished => ledger.failed(Failure::Malformed),
            End::Reset(_) | End::Gone => ledger.failed(Failure::Reset),
        }
        self.exchanges.remove(&id);
        Ok(())
    }

    fn again(&mut self, ledger: &mut Ledger) {
        ledger.again(!self.is_idle);
        if self.state == State::Idle {
            self.state = State::Ready;
        }
    }

    /// A server that leaves says which requests it has not processed: they are sent again elsewhere.
    fn look_for_go_away(&mut self, ledger: &mut Ledger) {
        let Some(first) = self.session.go_away else { return };
        if matches!(self.state, State::Ready | State::Idle) {
            self.state = State::Leaving;
        }
        let rejected: Vec<StreamId> =
            self.exchanges.keys().copied().filter(|id| u64::from(*id) >= first).collect();
        for id in rejected {
            self.cancel(id);
            self.again(ledger);
        }
    }

    /// Gives up a stream.
    fn cancel(&mut self, id: StreamId) {
        let code = session::code(Code::RequestCancelled.number());
        let _ = self.link.connection.send_stream(id).reset(code);
        let _ = self.link.connection.recv_stream(id).stop(code);
        self.exchanges.remove(&id);
    }

    /// Whether something has taken too long.
    pub(super) fn is_late(&self, started_before: Nanos) -> bool {
        let is_late = |exchange: &Exchange| exchange.started < started_before;
        let handshake = self.state == State::Handshake && self.began < started_before;
        handshake || self.exchanges.values().any(is_late)
    }

    /// Gives up what has taken too long.
    pub(super) fn expire(&mut self, started_before: Nanos, ledger: &mut Ledger) {
        if self.state == State::Handshake && self.began < started_before {
            ledger.not_connected(Failure::Timeout, self.is_idle);
            return self.close(Code::NoError, ledger);
        }
        let late = self.exchanges.iter().filter(|(_, exchange)| exchange.started < started_before);
        for id in late.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.cancel(id);
            ledger.failed(Failure::Timeout);
        }
    }

    /// The server has broken a rule that ends the connection.
    fn give_up(&mut self, error: Error, ledger: &mut Ledger) {
        if self.state != State::Ended {
            self.exchanges.drain().for_each(|_| ledger.failed(Failure::Malformed));
            self.close(error.code, ledger);
        }
    }

    /// Closes the connection from this side.
    pub(super) fn close(&mut self, code: Code, ledger: &mut Ledger) {
        let code = VarInt::from_u64(code.number()).unwrap_or_default();
        self.link.connection.close(Instant::now(), code, bytes::Bytes::new());
        self.end(Failure::Closed, ledger);
    }

    fn on_lost(&mut self, reason: &ConnectionError, ledger: &mut Ledger) {
        if self.state == State::Handshake {
            let failure = match reason {
                ConnectionError::TimedOut => Failure::Timeout,
                ConnectionError::TransportError(error) if TLS_ALERTS.contains(&error.code.into()) => {
                    Failure::Handshake
                }
                ConnectionError::ConnectionClosed(close) if TLS_ALERTS.contains(&close.error_code.into()) => {
                    Failure::Handshake
                }
                _ => Failure::Connect,
            };
            if failure == Failure::Handshake {
                ledger.seen.tls_error.get_or_insert_with(|| reason.to_string());
            }
            ledger.not_connected(failure, self.is_idle);
        }
        let failure = match reason {
            ConnectionError::TimedOut => Failure::Timeout,
            ConnectionError::Reset => Failure::Reset,
            _ => Failure::Closed,
        };
        self.end(failure, ledger);
    }

    /// The connection is no more.
    pub(super) fn end(&mut self, failure: Failure, ledger: &mut Ledger) {
        for (_, exchange) in self.exchanges.drain() {
            let cut = failure == Failure::Closed && exchange.has_begun;
            ledger.failed(if cut { Failure::Cut } else { failure });
        }
        if self.state != State::Ended {
            let stats = self.link.connection.stats();
            ledger.seen.received_bytes += stats.udp_rx.bytes;
            ledger.seen.sent_bytes += stats.udp_tx.bytes;
            self.state = State::Ended;
        }
    }

    /// The address answers that no process listens there.
    pub(super) fn refused(&mut self, ledger: &mut Ledger) {
        if self.state == State::Handshake {
            ledger.not_connected(Failure::Connect, self.is_idle);
            self.end(Failure::Connect, ledger);
        }
    }

    /// Requests that were not answered by the end.
    pub(super) fn unfinished(&mut self) -> u64 {
        self.exchanges.drain().count() as u64
    }
}
