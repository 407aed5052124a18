//! Bodies of requests that go to their upstream while they come (`request_buffering`): to a server over its connection, to an
//! application process through the relay on which it answers, and to another thread, which has the process, through the
//! socketpair.
//!
//! | the client | the upstream | what is done |
//! |---|---|---|
//! | sends | takes it | the next piece is read when the last one has left |
//! | sends | takes nothing | nothing is read: the client's socket fills up |
//! | sends nothing | | `body_timeout` and the minimal rate, until the response begins; then `request_timeout`, of both |
//! | ends, or breaks, too early | | its connection, or one side of the relay, is closed: the request is visibly not whole |
//! | sends what is no body, or too much of it | | 400 or 413; aborted if the response has begun |
//! | sends | answers before it has everything | the response is passed on, and the rest of the body dropped |
//! | | fails | 502 or 504; nothing of it can be sent again once a part has left |

use std::time::Instant;

use maitred_handoff::{TRAILER_BYTES_MAX, TRAILERS_MAX};
use maitred_http::fields::FieldLines;
use maitred_http::grpc::web::NotBase64;
use maitred_http::request::{Framing, HeadRoom, Reject};

use super::Exchanges;
use crate::connection::State;
use crate::connection::incoming::Incoming;
use crate::connection::rates::body_deadline;
use crate::connection::wire::Received;
use crate::keys::{ConnKey, RelayKey};
use crate::upstream::failure::Cause;
use crate::upstream::passing::{Framed, Passing, Took};
use crate::upstream::{By, Source};

/// Reads of one client in one turn, so that the others get their turn.
const READS_PER_TURN: u32 = 8;

/// Of a body in Base64 that is none.
const NO_TEXT: Reject = Reject { status: 400, reason: "its body is not Base64, which grpc-web-text is" };

/// What has become of a piece of a body.
enum Taken {
    /// The piece belongs to the body; true with the last one.
    Piece(bool),
    /// The piece is no body, or more of it than may be.
    Refused(Reject),
    /// Nothing was expected.
    Nothing,
}

impl Exchanges {
    /// Whether the body of the request at hand goes to its server while it comes.
    pub(crate) fn passes_body(&self, index: ConnKey) -> bool {
        self.exchange_of(index).is_some_and(|exchange| exchange.body.incoming.is_passed())
    }

    /// Sends what the upstream takes of the request, and what can be had of a body that is still to come.
    pub(crate) fn pass_request(&mut self, index: ConnKey) {
        for _ in 0..READS_PER_TURN {
            match self.source_of(index) {
                Some(Source::Server(_)) => self.send_request(index),
                Some(Source::Relay(_) | Source::Thread(_)) => self.send_passing(index),
                Some(Source::Fill) | None => return,
            }
            if !self.awaits_body(index) {
                return;
            }
            if !self.takes_body(index) {
                return self.pause_passing(index);
            }
            if !self.read_body(index) {
                return;
            }
        }
        self.look_again(index);
    }

    /// Sends what a relay, or the socketpair to another thread, takes of the body. A reader that takes nothing any more is no
    /// failure: it may have answered before it had all.
    fn send_passing(&mut self, index: ConnKey) {
        let now = self.clock.now;
        let clients = &mut self.processes.clients;
        let Some(connection) = clients.connections.get_mut(index) else { return };
        let Some(attempt) = connection.attempt_mut().filter(|attempt| !attempt.filter.switched()) else {
            return;
        };
        let socket = match &attempt.by {
            By::Process(handed) => self.processes.pools.relays.get(handed.relay).map(|relay| relay.socket()),
            By::Thread(remote) => self.upstreams.socket(remote.upstream),
            By::Server(_) | By::Fill(_) => None,
        };
        let (Some(socket), Some(passing)) = (socket, attempt.passing.as_deref_mut()) else { return };
        let took = passing.send(socket);
        if took == Took::Share || matches!(took, Took::Bytes(1..)) {
            // Who takes the body is not silent.
            attempt.heard_at = now;
        }
        match attempt.unsent_bytes() > 0 {
            true => self.count_unsent(index),
            false => self.recount_unsent(index),
        }
        if took == Took::Share {
            self.look_again(index);
        }
    }

    /// Whether the upstream takes more of the body than it has.
    fn takes_body(&self, index: ConnKey) -> bool {
        let Some(attempt) = self.attempt_of(index) else { return false };
        let takes = match &attempt.by {
            By::Server(call) => call.is_sent() && self.upstreams.is_connected(call.upstream),
            By::Process(handed) => !handed.done,
            By::Thread(_) => true,
            // The request of a fill has no body.
            By::Fill(_) => false,
        };
        takes && attempt.passing.as_ref().is_some_and(|passing| passing.wants_more())
    }

    /// Whether nothing happens because the client sends nothing of its body. A 100 (Continue) is no beginning of the response: it
    /// asks for the body.
    pub(crate) fn waits_for_body(&self, index: ConnKey) -> bool {
        self.takes_body(index) && self.attempt_of(index).is_some_and(|attempt| !attempt.filter.head_written())
    }

    /// By when more of the body has to be there.
    pub(crate) fn body_due(&self, index: ConnKey) -> Option<Instant> {
        let since = self.attempt_of(index)?.heard_at;
        let own = self.overrides(index).map(|overrides| overrides.limits).unwrap_or_default();
        let pace = self.exchange_of(index)?.body.incoming.current_pace()?;
        let began = self.connections.get(index)?.began;
        Some(body_deadline((&self.shared.start.config.limits, &own), began, &pace, since))
    }

    /// The client is not read for now: that time does not count against it.
    fn pause_passing(&mut self, index: ConnKey) {
        let now = self.clock.now;
        if let Some(coming) = self.exchange(index).body.incoming.coming_mut() {
            coming.pace(now).pause(now);
        }
    }

    /// Reads once from the client. True if there is something for the server.
    fn read_body(&mut self, index: ConnKey) -> bool {
        let now = self.clock.now;
        if let Some(coming) = self.exchange(index).body.incoming.coming_mut() {
            coming.pace(now).go_on(now);
        }
        let mut rx = self.buffers.rx.take();
        let received = self.receive_body(index, &mut rx);
        let told = self.is_content_ended(index);
        let taken = match received {
            Received::Nothing if !told => Taken::Nothing,
            _ => self.take_piece(index, &rx, told),
        };
        self.buffers.rx.put_back(rx);
        match (received, taken) {
            (Received::End | Received::Broken, _) => {
                self.abort_upstream(index);
                false
            }
            (_, Taken::Refused(reject)) => {
                self.refuse_passing(index, reject);
                false
            }
            (_, Taken::Piece(whole)) => {
                if whole {
                    self.end_passing(index);
                }
                true
            }
            (_, Taken::Nothing) => false,
        }
    }

    /// What has come: what was received before comes first.
    fn receive_body(&mut self, index: ConnKey, rx: &mut Vec<u8>) -> Received {
        let connection = &mut self.connections[index];
        if connection.is_stream() {
            return self.receive(index, rx);
        }
        if let Some(exchange) = connection.exchange.as_deref_mut()
            && !exchange.input.is_empty()
        {
            rx.append(&mut exchange.input);
            return Received::Bytes { more: connection.readable };
        }
        if !connection.readable {
            return Received::Nothing;
        }
        let received = self.receive(index, rx);
        let connection = &mut self.connections[index];
        connection.readable = matches!(received, Received::Bytes { more: true });
        connection.ended |= received == Received::End;
        received
    }

    /// Frames a piece for the server; what comes behind the body stays with the connection.
    fn take_piece(&mut self, index: ConnKey, bytes: &[u8], told: bool) -> Taken {
        let connection = &mut *self.connections[index];
        let (State::Upstream(attempt), Some(exchange)) =
            (&mut connection.state, connection.exchange.as_deref_mut())
        else {
            return Taken::Nothing;
        };
        let Some(passing) = attempt.passing.as_deref_mut() else { return Taken::Nothing };
        let body = &mut exchange.body;
        let progress = match body.incoming.take(bytes, told, &mut body.content) {
            Ok(Some(progress)) => progress,
            Ok(None) => return Taken::Nothing,
            Err(reject) => return Taken::Refused(reject),
        };
        let put = passing.put(&body.content);
        body.content.clear();
        let ends = if progress.complete { passing.check_end() } else { Ok(()) };
        if let Err(NotBase64) = put.and(ends) {
            return Taken::Refused(NO_TEXT);
        }
        exchange.input.extend_from_slice(bytes.get(progress.consumed..).unwrap_or_default());
        Taken::Piece(progress.complete)
    }

    /// All of the body has been read.
    fn end_passing(&mut self, index: ConnKey) {
        let exchange = self.exchange(index);
        if let Some(trailers) = exchange.body.incoming.trailers() {
            exchange.body.trailers = Some(trailers);
        }
        exchange.body.incoming = Incoming::Nothing;
        let trailers = match exchange.body.trailers {
            Some(_) => self.passed_trailers(index),
            None => None,
        };
        // More than the protocol allows are left out, as those of a whole body.
        let bounded = matches!(self.source_of(index), Some(Source::Relay(_)));
        let trailers = trailers.filter(|trailers| !bounded || are_within_protocol(trailers));
        let passing = self.attempt_mut(index).and_then(|attempt| attempt.passing.as_deref_mut());
        passing.into_iter().for_each(|passing| passing.end(trailers.as_ref()));
        if self.connections[index].hung_up {
            self.on_client_ended(index);
        }
    }

    /// The trailers of the request that go on.
    #[cold]
    fn passed_trailers(&mut self, index: ConnKey) -> Option<FieldLines> {
        let pool = self.exchange(index).dispatch.pool?;
        let settings = self.shared.start.config.pools.get(usize::from(pool))?;
        let head = std::mem::take(&mut self.exchange(index).head);
        let mut room = HeadRoom::default();
        let plan = self.exchange(index).routed.map(|routed| routed.plan);
        let trailers = head
            .view(&mut room)
            .zip(plan)
            .and_then(|(request, plan)| self.outbound_trailers(index, &request, settings, &plan.requests));
        self.exchange(index).head = head;
        trailers
    }

    /// What has come is no body, or too much of it.
    fn refuse_passing(&mut self, index: ConnKey, reject: Reject) {
        self.note_refusal(index, reject);
        match self.attempt_of(index).is_some_and(|attempt| attempt.filter.head_written()) {
            true => self.abort(index),
            false => self.refuse_upstream(index, reject.status),
        }
    }

    /// The body of the request that goes through this relay comes behind it.
    pub(crate) fn start_relay_body(&mut self, index: ConnKey, relay: RelayKey, framing: Framing) {
        if let Some(attempt) = self.attempt_mut(index) {
            attempt.passing = Some(Passing::new(Framed::of(framing), false));
        }
        if let Some(found) = self.pools.relays.get_mut(relay) {
            // The process may answer without having read the whole body.
            found.spoilt = true;
        }
        if !self.watch(relay, true) {
            self.fail_upstream(index, Cause::Bad, "its relay cannot be watched");
        }
    }

    /// Begins with a body that has yet to come, once its request is with an upstream.
    pub(crate) fn start_passing(&mut self, index: ConnKey) {
        if self.attempt_of(index).is_some_and(|attempt| attempt.passing.is_some()) {
            // What has come of it makes no further edge.
            self.connections[index].readable = true;
            self.look_again(index);
        }
    }
}

/// Whether a process may get that many trailers (PROTOCOL.md, section 4).
#[cold]
fn are_within_protocol(trailers: &FieldLines) -> bool {
    // With a colon, a space, and the end of the line.
    let bytes: usize = trailers.all().iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    trailers.len() <= TRAILERS_MAX && bytes <= TRAILER_BYTES_MAX
}
