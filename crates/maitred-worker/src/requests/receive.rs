//! From received bytes to requests.
//!
//! All connections of a thread read into one buffer. A request that is answered at once is parsed there and leaves nothing in
//! memory; only what has to wait is copied to the connection's own buffers. Responses are appended to one buffer as well, and all
//! of a turn's to one connection leave in one send(2). Hence one receive and one send per request, or per burst of pipelined
//! requests.

use std::borrow::Cow;

use maitred_http::body::Decoder;
use maitred_http::fields::FieldsRef;
use maitred_http::h1::Persistence;
use maitred_http::h2::frame::PREFACE_LINE;
use maitred_http::request::{self, Framing, HeadRoom, Reject, Request, RequestHead};
use maitred_http::response::{Encode as _, ResponseHead};

use super::Requests;
use crate::clients::answer::Route;
use crate::connection::cached::Cached;
use crate::connection::incoming::{Coming, Incoming};
use crate::connection::table::Phase;
use crate::connection::wire::{Received, Wire};
use crate::connection::{After, State};
use crate::keys::ConnKey;
use crate::step::{JOINED_BYTES, RequestInput, Step, Stop};
use maitred_files::exchange::Routed;

/// Requests that one connection may have answered in one turn, so that the others get their turn.
const REQUESTS_PER_TURN_MAX: u32 = 256;

/// Requests whose targets are encoded in one turn of one connection: each moves what has come behind it.
const NOT_ENCODED_PER_TURN_MAX: usize = 16;

/// Whether bytes start with the client's preface of HTTP/2 (9113-3.4), or are the first part of it.
fn http2_preface(bytes: &[u8]) -> Option<bool> {
    if bytes.starts_with(PREFACE_LINE) {
        return Some(true);
    }
    PREFACE_LINE.starts_with(bytes).then_some(false)
}

/// Whether a body is known to be longer than that.
pub(super) fn announces_over(framing: Framing, bytes: u64) -> bool {
    matches!(framing, Framing::Length(length) if length > bytes)
}

/// Why the connection cannot go on after a body of which this much has come: it is malformed, or has more than `bytes_max`
/// already.
fn flaw(mut decoder: Decoder, come: &[u8], bytes_max: u64) -> Option<Reject> {
    let mut bytes = 0;
    let decoded = decoder.decode_with(come, |piece| bytes += piece.len() as u64);
    let too_long = Reject { status: 413, reason: "a long body that the response does not need" };
    decoded.err().or((bytes > bytes_max).then_some(too_long))
}

/// The refusal of a body whose announced length is over the limit.
const TOO_LONG: Reject = Reject { status: 413, reason: "Content-Length over the limit" };

/// A request of which no more than the head was looked at, and what was decided about it.
#[derive(Clone, Copy)]
pub(super) struct Unread<'a> {
    pub(super) head: &'a [u8],
    pub(super) rest: &'a [u8],
    pub(super) routed: Routed,
    pub(super) path: &'a [u8],
    /// The head, if the request waited in the connection's buffers.
    pub(super) kept: Option<&'a RequestHead>,
}

impl<'a> Unread<'a> {
    /// The request with this body.
    pub(super) fn given(self, body: &'a [u8], last: bool) -> RequestInput<'a> {
        let Unread { head, rest, routed, path, kept } = self;
        let followed = rest.len() > body.len();
        RequestInput { head, body, routed, path, warmed: false, last, followed, kept, script: None }
    }
}

impl Requests {
    /// Reads once, and acts on what is there.
    pub(crate) fn on_readable(&mut self, index: ConnKey) {
        let mut rx = self.buffers.rx.take();
        let connection = &mut self.connections[index];
        connection.readable = false;
        if let Some(exchange) = &mut connection.exchange {
            rx.append(&mut exchange.input);
        }
        let received = self.receive(index, &mut rx);
        self.on_received(index, rx, received);
    }

    pub(super) fn on_received(&mut self, index: ConnKey, rx: Vec<u8>, received: Received) {
        let mut more = false;
        match received {
            Received::Bytes { more: may_be_more } => more = may_be_more,
            Received::End => self.connections[index].ended = true,
            Received::Nothing => {}
            Received::Broken => {
                if !matches!(self.connections[index].state, State::Multiplexed { .. }) {
                    self.exchange(index).input.extend_from_slice(&rx);
                    self.log_unanswered(index);
                }
                self.buffers.rx.put_back(rx);
                return self.break_off(index);
            }
        }
        match self.connections[index].state {
            State::Multiplexed { session } => self.take_http2(index, session, rx, more),
            _ => self.process(index, rx, more),
        }
    }

    /// Acts on all requests in `rx`, sends what was answered, and keeps what is left.
    pub(crate) fn process(&mut self, index: ConnKey, mut rx: Vec<u8>, more: bool) {
        let mut at = 0;
        let mut stop = self.take_requests(index, &rx, &mut at);
        for _ in 0..NOT_ENCODED_PER_TURN_MAX {
            if stop != Stop::NotEncoded {
                break;
            }
            request::encode_text(&mut rx, at);
            stop = self.take_requests(index, &rx, &mut at);
        }
        if stop == Stop::NotEncoded {
            // The rest is encoded in another turn.
            stop = Stop::Flush;
        }
        if stop == Stop::TlsSession {
            let ciphertext = rx.split_off(at);
            let received = self.begin_secure(index, &ciphertext, more, &mut rx);
            return self.on_received(index, rx, received);
        }
        if stop == Stop::Http2 {
            let session = self.begin_http2(index);
            rx.drain(..at);
            return self.take_http2(index, session, rx, more);
        }
        let rest = rx.get(at..).unwrap_or_default();
        // Closing with something unread would make the kernel send a reset.
        let stop = match stop {
            Stop::Settled(Some(After::Close)) if !rest.is_empty() => Stop::Settled(Some(After::Linger)),
            stop => stop,
        };
        if stop != Stop::Gone {
            if !rest.is_empty() {
                self.exchange(index).input.extend_from_slice(rest);
            }
            // Noted for the next read of this connection, since no edge will report it again.
            self.connections[index].readable |= more;
        }
        // Before anything is sent, because a connection that ends then may have something to drop.
        self.buffers.rx.put_back(rx);
        self.act_on(index, stop);
    }

    /// Acts on content that has come on a stream. All content before it was acted on.
    pub(crate) fn take_content(&mut self, index: ConnKey, bytes: &[u8]) {
        let mut at = 0;
        let stop = match self.connections[index].state {
            State::Body => self.take_body(index, bytes, &mut at).unwrap_or(Stop::Starved),
            // The request of the content has its answer, or waits for it.
            _ => Stop::Starved,
        };
        let rest = bytes.get(at..).unwrap_or_default();
        if stop != Stop::Gone && !rest.is_empty() {
            self.exchange(index).input.extend_from_slice(rest);
        }
        self.act_on(index, stop);
    }

    /// Does what is to follow a look at what was received.
    pub(crate) fn act_on(&mut self, index: ConnKey, stop: Stop) {
        let after = match stop {
            Stop::Settled(after) => after,
            _ => None,
        };
        match stop {
            Stop::Gone => {}
            Stop::Moves(pool, thread) => self.transfer_connection(index, pool, thread),
            _ => {
                self.send_joined(index, after);
                self.settle(index, stop == Stop::Flush);
                self.credit_stream(index);
            }
        }
    }

    /// Parses and answers requests from `at` on, until something has to be waited for.
    fn take_requests(&mut self, index: ConnKey, rx: &[u8], at: &mut usize) -> Stop {
        for _ in 0..REQUESTS_PER_TURN_MAX {
            let rest = rx.get(*at..).unwrap_or_default();
            if self.connections[index].is(Phase::Body) {
                match self.take_body(index, rest, at) {
                    Some(stop) => return stop,
                    None => continue,
                }
            }
            // A stream has one request only.
            if rest.is_empty() || self.connections[index].is_stream() {
                return Stop::Starved;
            }
            if self.buffers.tx.len() >= JOINED_BYTES {
                return Stop::Flush;
            }
            if self.connections[index].awaits_proxy {
                match self.take_proxy_header(index, rest, at) {
                    Some(stop) => return stop,
                    None if self.is_to_be_secure(index) => return Stop::TlsSession,
                    None => continue,
                }
            }
            if rest.first() == Some(&b'P') && self.may_begin_http2(index) {
                match http2_preface(rest) {
                    Some(true) => return Stop::Http2,
                    Some(false) => return self.wait_for_head(index, rest.len()),
                    None => {}
                }
            }
            let mut room = request::field_room();
            match request::parse(rest, &mut room, &self.head_limits) {
                Ok(None) => return self.wait_for_head(index, rest.len()),
                Err(request::NOT_ENCODED) => return Stop::NotEncoded,
                Err(reject) => return self.refuse(index, rest, reject),
                Ok(Some((request, head_bytes))) => {
                    if self.connections[index].is(Phase::Idle) {
                        self.connections[index].began = self.clock.now;
                    }
                    self.connections[index].cached = Cached::Unasked;
                    let (head, rest) = rest.split_at(head_bytes);
                    if let Some(stop) = self.take_request(index, &request, head, rest, at) {
                        return stop;
                    }
                }
            }
        }
        Stop::Flush
    }

    /// Whether TLS begins after the PROXY header.
    fn is_to_be_secure(&self, index: ConnKey) -> bool {
        self.shared.tls.config(usize::from(self.connections[index].listen)).is_some()
    }

    /// Whether a client may use HTTP/2 without ALPN or an upgrade (9113-3.3): at its first bytes, where that is on.
    fn may_begin_http2(&self, index: ConnKey) -> bool {
        let connection = &self.connections[index];
        let listens = &self.shared.start.config.listens;
        let on = listens.get(usize::from(connection.listen)).is_some_and(|listen| listen.http2);
        on && connection.wire == Wire::Clear && connection.requests == 0 && !self.is_plain_at_tls(index)
    }

    /// Answers one request whose head is complete. `None` to go on with the next.
    pub(crate) fn take_request(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        head: &[u8],
        rest: &[u8],
        at: &mut usize,
    ) -> Option<Stop> {
        let Route { routed, path, rewritten } = self.route(index, request);
        self.connections[index].idle = routed.plan.idle;
        let rewritten = rewritten.as_ref().map(|rewritten| rewritten.over(request));
        let request = rewritten.as_ref().unwrap_or(request);
        let mut unread = Unread { head, rest, routed, path: &path, kept: None };
        if Self::is_gated(routed) {
            if !self.buffers.tx.is_empty() {
                // Nothing is asked twice: a request that asks for a flush later on is parsed anew.
                return Some(Stop::Flush);
            }
            match self.ask_gates(index, request, routed, 0) {
                Some(routed) => unread.routed = routed,
                None => {
                    *at += head.len();
                    self.wait_for_gate(index, request, unread.given(&[], false), false);
                    return Some(Stop::Settled(None));
                }
            }
        } else if let Some(exchange) = self.connections[index].exchange.as_deref_mut() {
            exchange.dispatch.gated = None;
        }
        self.take_decided(index, request, unread, at)
    }

    /// Answers a request that has passed its gates, or was refused; or reads its body first.
    pub(super) fn take_decided(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        unread: Unread<'_>,
        at: &mut usize,
    ) -> Option<Stop> {
        let Unread { head, rest, routed, .. } = unread;
        let body = match request.framing {
            Framing::None => &[],
            Framing::Length(length) if length <= self.inline_bytes(routed) && rest.len() as u64 >= length => {
                rest.get(..length as usize)?
            }
            _ => return self.begin_body(index, request, unread, at),
        };
        let step = self.answer(index, request, unread.given(body, false));
        if step != Step::FlushFirst {
            *at += head.len() + body.len();
        }
        self.follow(index, step)
    }

    /// Up to which length a body that has already arrived needs not be kept anywhere else.
    fn inline_bytes(&self, routed: Routed) -> u64 {
        let most = self.body_bytes_max(routed);
        match routed.wants_body() {
            true => most.min(self.shared.start.config.limits.body_inline_bytes_max.into()),
            false => most,
        }
    }

    /// The longest body that a request may have, by its route, its site, or the server.
    fn body_bytes_max(&self, routed: Routed) -> u64 {
        let own = routed.plan.overrides.limits.body_bytes_max;
        let most = own.unwrap_or(self.shared.start.config.limits.body_bytes_max);
        match routed.plan.modules.body_bytes_max {
            Some(of_module) => most.min(of_module),
            None => most,
        }
    }

    pub(crate) fn follow(&mut self, index: ConnKey, step: Step) -> Option<Stop> {
        match step {
            Step::Next if self.is_answered_early(index) => {
                self.enter(index, State::Body);
                self.begin_pace(index);
                None
            }
            Step::Next => {
                if !self.connections[index].is(Phase::Idle) {
                    self.enter(index, State::Idle);
                }
                None
            }
            Step::ReadsBody => None,
            Step::FlushFirst => Some(Stop::Flush),
            Step::Waits => Some(Stop::Settled(None)),
            Step::Last(after) => Some(Stop::Settled(Some(after))),
            Step::Moves(pool, thread) => Some(Stop::Moves(pool, thread)),
            Step::Gone => Some(Stop::Gone),
        }
    }

    /// Whether a body is still to be read whose request has its answer.
    pub(crate) fn is_answered_early(&self, index: ConnKey) -> bool {
        let connection = self.connections.get(index);
        connection
            .and_then(|found| found.exchange.as_deref())
            .is_some_and(|exchange| exchange.body.incoming.is_dropped())
    }

    /// Part of a head is there, of this many bytes.
    pub(crate) fn wait_for_head(&mut self, index: ConnKey, bytes: usize) -> Stop {
        if self.connections[index].is(Phase::Idle) {
            self.connections[index].began = self.clock.now;
            self.enter(index, State::Head);
        }
        self.arm_head(index, bytes);
        Stop::Starved
    }

    /// Keeps the head, and goes on to read the body that it announces.
    fn begin_body(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        unread: Unread<'_>,
        at: &mut usize,
    ) -> Option<Stop> {
        let most = self.body_bytes_max(unread.routed);
        // A stream that ends before its request ends with RST_STREAM, for which some clients drop the answer (curl 7.88).
        let stream = self.connections[index].is_stream();
        let decoder = match stream {
            true => Decoder::framed(request.framing, most),
            false => Decoder::new(request.framing, most),
        };
        let too_long = announces_over(request.framing, most);
        let wanted = unread.routed.wants_body();
        if !wanted && !too_long && (!stream || request.expects_continue) {
            return self.answer_before_body(index, request, unread, decoder, at);
        }
        if !too_long && self.may_pass(request, unread.routed) {
            return self.answer_while_body_comes(index, request, unread, decoder, at);
        }
        if request.expects_continue && unread.rest.is_empty() && !too_long {
            self.ask_for_body(index, unread.routed);
        }
        *at += unread.head.len();
        self.keep(index, request, unread.given(&[], false));
        let exchange = self.exchange(index);
        let coming = Coming::new(decoder, request.framing);
        exchange.body.incoming = match stream && !wanted {
            true => Incoming::Discarded(coming),
            false => Incoming::Kept(coming),
        };
        exchange.body.trailers = None;
        if too_long {
            // The body is neither asked for by a 100 (Continue), nor waited for.
            self.note_refusal(index, TOO_LONG);
            return Some(self.refuse_body(index, TOO_LONG.status, &[]));
        }
        self.enter(index, State::Body);
        self.begin_pace(index);
        None
    }

    /// Sends 100 (Continue) to a client that waits for it before it sends its body (9110-10.1.1).
    pub(super) fn ask_for_body(&mut self, index: ConnKey, routed: Routed) {
        let context = self.context_of(index, routed.plan, Persistence::Implied, false);
        let (_, mut writer) = self.files_and_writer(index, context);
        writer.interim(&ResponseHead::own(100, FieldsRef::default()));
    }

    /// Answers a request whose body is not used, without waiting for it. A short body is read and dropped afterwards, so that the
    /// connection can be kept; after any other the connection ends.
    fn answer_before_body(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        unread: Unread<'_>,
        decoder: Decoder,
        at: &mut usize,
    ) -> Option<Stop> {
        let short = u64::from(self.shared.start.config.limits.body_inline_bytes_max);
        // What has come of the body shows already whether it will be read to its end. Later, the response could not announce the
        // end of the connection any more.
        let flaw = flaw(decoder, unread.rest, short);
        // A client that waits for 100 (Continue) sends no body after a final response (9110-10.1.1).
        let last = request.expects_continue || announces_over(request.framing, short) || flaw.is_some();
        let step = match self.answer(index, request, unread.given(&[], last)) {
            // The client may send the body all the same, and must not lose the response by a reset.
            Step::Last(_) => Step::Last(After::Linger),
            step => step,
        };
        if step != Step::FlushFirst {
            *at += unread.head.len();
            flaw.into_iter().for_each(|reject| self.note_refusal(index, reject));
        }
        if matches!(step, Step::Next | Step::Waits) && !last {
            let coming = Coming::new(decoder, request.framing);
            self.exchange(index).body.incoming = Incoming::Dropped { coming, bytes: 0 };
        }
        self.follow(index, step)
    }

    /// Takes a piece of the body; once it is whole, answers. `None` to go on with the next request.
    fn take_body(&mut self, index: ConnKey, rest: &[u8], at: &mut usize) -> Option<Stop> {
        // Over HTTP/2 the end is reported apart from the bytes.
        let told = self.is_content_ended(index);
        if rest.is_empty() && !told {
            return Some(Stop::Starved);
        }
        let exchange = self.exchange(index);
        let answered = exchange.body.incoming.is_dropped();
        let progress = match exchange.body.incoming.take(rest, told, &mut exchange.body.content) {
            Ok(progress) => progress?,
            Err(reject) => {
                self.note_refusal(index, reject);
                return Some(match answered {
                    true => Stop::Settled(Some(After::Linger)),
                    false => self.refuse_body(index, reject.status, &[]),
                });
            }
        };
        *at += progress.consumed;
        if progress.complete
            && let Some(trailers) = exchange.body.incoming.trailers()
        {
            exchange.body.trailers = Some(trailers);
        }
        match answered {
            true => self.on_dropped(index, progress.complete),
            false => self.on_kept(index, progress.complete),
        }
    }

    /// A piece of a body has been dropped whose request was answered before. `None` to go on with the next request.
    fn on_dropped(&mut self, index: ConnKey, complete: bool) -> Option<Stop> {
        let short = u64::from(self.shared.start.config.limits.body_inline_bytes_max);
        let exchange = self.exchange(index);
        if matches!(exchange.body.incoming, Incoming::Dropped { bytes, .. } if bytes > short) {
            return Some(Stop::Settled(Some(After::Linger)));
        }
        if complete {
            exchange.body.incoming = Incoming::Nothing;
            exchange.head.clear();
            self.enter(index, State::Idle);
            return None;
        }
        self.arm_body(index);
        Some(Stop::Starved)
    }

    /// A piece of a body has been decoded that belongs to what answers, and has to go where the whole is kept.
    fn on_kept(&mut self, index: ConnKey, complete: bool) -> Option<Stop> {
        let stop = self.spool_body(index);
        let connection = &mut self.connections[index];
        let (phase, exchange) = (connection.state.phase(), connection.exchange());
        if let Some(stop) = stop {
            // A request whose body cannot be kept is answered already.
            if phase == Phase::Spooling && complete {
                exchange.body.incoming = Incoming::Complete;
            }
            return Some(stop);
        }
        if !complete {
            self.arm_body(index);
            return Some(Stop::Starved);
        }
        exchange.body.incoming = Incoming::Nothing;
        if !self.buffers.tx.is_empty() {
            // What answers may write to the socket itself; what was answered before has to be out first.
            self.exchange(index).body.incoming = Incoming::Complete;
            return Some(Stop::Flush);
        }
        let step = self.answer_again(index, false);
        self.follow(index, step)
    }

    /// Answers a request whose head and body were kept, where it was: nothing is parsed or decided again. Head and body are
    /// kept again if the request has to wait once more.
    pub(crate) fn answer_again(&mut self, index: ConnKey, warmed: bool) -> Step {
        let exchange = self.exchange(index);
        let (head, body) = (std::mem::take(&mut exchange.head), std::mem::take(&mut exchange.body.content));
        let (last, refusal, path) =
            (std::mem::take(&mut exchange.last), exchange.refusal.take(), exchange.path.take());
        let routed = exchange.routed;
        let (anew, followed) = (routed.is_none(), self.has_input(index));
        let mut room = HeadRoom::default();
        let Some(request) = head.view(&mut room) else {
            let status = refusal.map_or(500, |refusal| refusal.status);
            self.answer_refused(index, &head, Reject { status, reason: "its head was not kept" });
            return Step::Last(After::Linger);
        };
        let plain = request.path.as_bytes();
        let Route { routed, path, rewritten } = match (routed, path) {
            (Some(routed), path) => {
                let path = path.map_or(Cow::Borrowed(plain), |path| Cow::Owned(path.into_vec()));
                Route { routed, path, rewritten: None }
            }
            // The request comes from another worker process.
            (None, _) => self.route(index, &request),
        };
        self.connections[index].idle = routed.plan.idle;
        let request = rewritten.as_ref().map_or(request, |rewritten| rewritten.over(&request));
        let mut given = RequestInput {
            head: head.bytes(),
            body: &body,
            routed,
            path: &path,
            warmed,
            last,
            followed,
            kept: Some(&head),
            script: None,
        };
        if anew && refusal.is_none() && Self::is_gated(routed) {
            match self.ask_gates(index, &request, routed, 0) {
                Some(routed) => given.routed = routed,
                None => {
                    self.wait_for_gate(index, &request, given, true);
                    return Step::Waits;
                }
            }
        }
        let step = match refusal {
            None => self.answer(index, &request, given),
            Some(refusal) => self.site_error(index, &request, given, (refusal.status, &refusal.fields)),
        };
        match step {
            Step::Gone => self.close(index),
            // Cannot be: nothing is answered from kept bytes while anything waits to be sent.
            Step::FlushFirst => debug_assert!(false, "a kept request asks for a flush"),
            Step::Last(_) if last => return Step::Last(After::Linger),
            Step::Next | Step::Last(_) | Step::Waits | Step::ReadsBody | Step::Moves(..) => {}
        }
        step
    }

    /// Resumes a request that waited in the connection's buffers.
    pub(crate) fn resume(&mut self, index: ConnKey) {
        let warmed = self.connections[index].is(Phase::Disk);
        self.enter(index, State::Head);
        let step = self.answer_again(index, warmed);
        let step = match self.settle_passing(index, step) {
            Step::Last(_) if self.is_answered_early(index) => Step::Last(After::Linger),
            step => step,
        };
        let after = match self.follow(index, step) {
            Some(Stop::Gone) => return,
            Some(Stop::Moves(pool, thread)) => return self.transfer_connection(index, pool, thread),
            Some(Stop::Settled(after)) => after,
            _ => None,
        };
        self.send_joined(index, after);
        let more = self.has_input(index);
        self.settle(index, more);
    }

    /// What is to be done with a connection whose bytes were looked at: read on, wait, or close.
    pub(crate) fn settle(&mut self, index: ConnKey, more: bool) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let (phase, ended, requests) = (connection.state.phase(), connection.ended, connection.requests);
        if let Some(exchange) = connection.exchange.as_deref_mut()
            && matches!(exchange.body.incoming, Incoming::Complete)
            && !matches!(phase, Phase::Writing | Phase::Spooling)
        {
            exchange.body.incoming = Incoming::Nothing;
            return self.resume(index);
        }
        let reading = matches!(phase, Phase::Idle | Phase::Head | Phase::Body);
        if phase == Phase::Idle && requests > 0 {
            let timeout = self.idle_timeout(index);
            self.arm_in(index, timeout);
        }
        if reading && ended && !more {
            // All is answered, or a request was truncated by the end of the stream and cannot be completed any more.
            self.log_unanswered(index);
            return self.close_cleanly(index);
        }
        if phase == Phase::Idle
            && let Some(exchange) = self.connections[index].exchange.take_if(|exchange| exchange.is_empty())
        {
            self.recycle(exchange);
        }
        if !self.register(index) {
            return self.close(index);
        }
        let connection = &self.connections[index];
        if reading && (more || connection.readable) {
            self.look_again(index);
        }
    }

    /// Refuses a request that breaks the rules: one short answer, one line in the log, and no more reading.
    fn refuse(&mut self, index: ConnKey, received: &[u8], reject: Reject) -> Stop {
        self.note_refusal(index, reject);
        self.answer_refused_text(index, received, reject);
        Stop::Settled(Some(After::Linger))
    }

    /// The connection is Maitred's again, and its response is out.
    pub(crate) fn reclaim_connection(&mut self, index: ConnKey, after: After) {
        let exchange = self.exchange(index);
        let input = std::mem::take(&mut exchange.input);
        exchange.reset();
        exchange.input = input;
        self.finish(index, after);
        if after != After::Keep {
            return;
        }
        let more = self.has_input(index);
        self.settle(index, more);
    }
}

#[cfg(test)]
mod tests;
