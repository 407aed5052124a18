//! Requests as streams of HTTP/2 connections to servers: from a request to frames, and from what has come to the client.

use maitred_http::fields::FieldLines;
use maitred_http::grpc::web::{NotBase64, TextDecoder};
use maitred_http::h2::{Code, Opening, StreamKey};
use maitred_http::request::Request;
use maitred_sys::file::append_at;

use std::os::fd::AsFd as _;
use std::time::Instant;

use super::Exchanges;
use crate::keys::{ConnKey, UpstreamKey};
use crate::step::RequestInput;
use crate::upstream::connections::UpstreamConnection;
use crate::upstream::http2::{DEADLINE_FIELDS, Http2, Rpc, Spoken};
use crate::upstream::server::{Call, Dialect, Written};
use crate::upstream::{Attempt, By, Feed, Read, Source};
use maitred_config::Pool;
use maitred_files::RequestContext;
use maitred_files::exchange::Field;

/// Bytes of a body that one stream puts into frames in one turn, so that the others get their turn.
const SENT_PER_TURN: usize = 512 * 1024;

/// What has become of a request that was to be put into frames.
enum Put {
    /// As much as there is room for, or all of it.
    Done,
    /// Enough for a turn.
    Enough,
    /// The connection takes no further stream.
    NoStream,
    /// The body cannot be read.
    Broken,
}

impl Exchanges {
    /// The request as it is put into frames: its head in the form of HTTP/1.1, and its body as it is.
    ///
    /// # Errors
    /// The status to answer with.
    pub(crate) fn write_http2(
        &mut self,
        index: ConnKey,
        settings: &Pool,
        context: &RequestContext<'_>,
        given: RequestInput<'_>,
    ) -> Result<Written, u16> {
        let trailers = self.trailers_of(index, context.request, settings, given);
        let web = given.routed.plan.overrides.grpc_web.unwrap_or(false);
        let rpc = Rpc::of(context.request, web, self.connections[index].began);
        let mut decoded = Vec::new();
        let mut given = given;
        if rpc.as_ref().is_some_and(|rpc| rpc.is_text()) {
            let mut decoder = TextDecoder::default();
            let whole = decoder.decode(given.body, &mut decoded).and_then(|()| decoder.finish());
            whole.map_err(|NotBase64| 400_u16)?;
            given.body = &decoded;
        }
        let mut written = self.write_head(index, settings, context, given, false).ok_or(413_u16)?;
        written.dialect = Dialect::Http2(Box::new(Spoken::new(trailers, rpc)));
        Ok(written)
    }

    fn trailers_of(
        &self,
        index: ConnKey,
        request: &Request<'_, '_>,
        settings: &Pool,
        given: RequestInput<'_>,
    ) -> Option<FieldLines> {
        let passes = self.passes_body(index);
        let rules = &given.routed.plan.requests;
        self.outbound_trailers(index, request, settings, rules).filter(|_| !passes)
    }

    /// The request of the connection at `index`, if it is at this connection to a server.
    pub(crate) fn stream_mut(&mut self, index: ConnKey, key: UpstreamKey) -> Option<&mut Spoken> {
        let attempt = self.connections.get_mut(index)?.attempt_mut()?;
        if attempt.source() != Source::Server(key) {
            return None;
        }
        attempt.http2_mut()
    }

    /// Opens the stream of a request, and puts into frames what there is room for.
    pub(crate) fn send_stream_request(&mut self, index: ConnKey, key: UpstreamKey) {
        let now = self.clock.now;
        let scheme = self.scheme_towards(key);
        let Some(upstream) = self.upstreams.get(key) else { return };
        if !upstream.connected {
            return self.count_unsent(index);
        }
        let connection = &mut self.processes.clients.connections[index];
        let Some(attempt) = connection.attempt_mut() else { return };
        let mut moved = 0;
        let put = put_request(upstream, attempt, (index, scheme, now), &mut moved);
        if moved > 0 {
            attempt.note_heard(now);
        }
        let unsent = attempt.unsent_bytes() > 0;
        match put {
            Put::Done => {}
            Put::Enough => self.look_again(index),
            Put::NoStream => return self.join_another(index, key),
            Put::Broken => {
                let why = "the body of the request cannot be read";
                return self.fail_upstream(index, crate::upstream::failure::Cause::Lost, why);
            }
        }
        match unsent {
            true => self.count_unsent(index),
            false => self.recount_unsent(index),
        }
        self.touch_http2(key);
    }

    /// `:scheme` of requests on a connection.
    fn scheme_towards(&mut self, key: UpstreamKey) -> &'static str {
        match self.upstreams.get(key).is_some_and(|connection| connection.tls.is_some()) {
            true => "https",
            false => "http",
        }
    }

    /// A connection takes no further stream, although it did when the request was given to it: the request gets another one.
    fn join_another(&mut self, index: ConnKey, key: UpstreamKey) {
        if let Some(at) = self.upstreams.get(key).map(|upstream| upstream.at) {
            self.forgive(at);
        }
        let Some(mut attempt) = self.take_attempt(index) else { return };
        self.hold_place(key, &mut attempt);
        self.leave_stream(index, key, &mut attempt);
        let takes_any =
            self.upstreams.get(key).and_then(|found| found.streams_max()).is_some_and(|max| max > 0);
        if let Some(call) = attempt.call_mut() {
            call.status = 503;
            // No attempt was made, and there is an end to this: each connection takes some.
            call.attempts -= u8::from(takes_any && call.attempts > 0);
        }
        self.attempt_again(index, attempt);
    }

    /// Something has come for a request, or room for more of it.
    pub(crate) fn on_stream(&mut self, key: UpstreamKey, index: ConnKey) {
        if self.stream_mut(index, key).is_some() {
            self.pump_to_client(index);
        }
    }

    /// Takes what has come, and sends it on.
    pub(crate) fn read_stream(&mut self, index: ConnKey, key: UpstreamKey, moved: &mut usize) -> Read {
        let Some(attempt) = self.attempt_mut(index) else { return Read::Failed };
        attempt.drained = true;
        let Some(spoken) = attempt.http2_mut() else { return Read::Failed };
        if !spoken.inbox.has_news() {
            return match spoken.inbox.take_failure() {
                Some((cause, why)) => {
                    self.fail_upstream(index, cause, &why);
                    Read::Failed
                }
                None => Read::Drained,
            };
        }
        let (bytes, stream) = (spoken.inbox.content_bytes(), spoken.stream);
        *moved += bytes;
        let passed = self.pass_on(index, &[]);
        if let (Some(stream), true) = (stream, bytes > 0)
            && let Some(http2) = self.upstreams.http2(key)
        {
            http2.session.consumed(stream, bytes);
            self.touch_http2(key);
        }
        match passed {
            Ok(()) => Read::More,
            Err((cause, why)) => {
                self.fail_upstream(index, cause, &why);
                Read::Failed
            }
        }
    }

    /// The time of a call is over: its stream is cancelled, and its client learns why.
    pub(crate) fn end_call(&mut self, index: ConnKey, key: UpstreamKey) {
        self.row.request_timeouts.add(1);
        let headed = self.attempt_of(index).is_some_and(|attempt| attempt.filter.head_written());
        let Some(spoken) = self.stream_mut(index, key) else { return };
        spoken.rpc.iter_mut().for_each(|rpc| rpc.forget_deadline());
        if !headed {
            self.leave_upstream(index);
            let fields = DEADLINE_FIELDS.map(|(name, value)| Field::new(name, value));
            return self.refuse_kept(index, 504, &fields);
        }
        spoken.inbox.end_with(&DEADLINE_FIELDS);
        if let (Some(stream), Some(http2)) = (spoken.stream, self.upstreams.http2(key)) {
            http2.session.reset(stream, Code::Cancel);
            self.touch_http2(key);
        }
        self.look_again(index);
    }

    /// A request has nothing to do with its stream any more. What has not ended is cancelled.
    pub(crate) fn leave_stream(&mut self, index: ConnKey, key: UpstreamKey, attempt: &mut Attempt) {
        let stream = attempt.http2_mut().and_then(|spoken| spoken.stream.take());
        let Some(connection) = self.upstreams.get(key) else { return };
        let (at, server) = (connection.at, connection.server.clone());
        let Some(http2) = &mut connection.http2 else { return };
        match stream {
            Some(stream) => {
                connection.used = true;
                http2.session.leave(stream);
            }
            None => http2.waiting.retain(|other| *other != index),
        }
        self.end_at_server(at.0, server.as_deref());
        // Whether it is idle is seen when that has left.
        self.touch_http2(key);
    }
}

/// Opens the stream, and puts what there is room for into frames.
fn put_request(
    upstream: &mut UpstreamConnection,
    attempt: &mut Attempt,
    (index, scheme, now): (ConnKey, &'static str, Instant),
    moved: &mut usize,
) -> Put {
    let Some(http2) = upstream.http2.as_deref_mut() else { return Put::NoStream };
    let bodiless = attempt.feed.is_none() && attempt.passing.is_none();
    let By::Server(call) = &mut attempt.by else { return Put::Done };
    let Some(stream) = stream_of(http2, call, bodiless, (index, scheme, now)) else { return Put::NoStream };
    while *moved < SENT_PER_TURN {
        let room = http2.session.room(stream);
        let rest = call.rest();
        if !rest.is_empty() {
            let Some(piece) = rest.get(..room.min(rest.len())).filter(|piece| !piece.is_empty()) else {
                return Put::Done;
            };
            http2.session.data(stream, piece.len(), false).extend_from_slice(piece);
            let bytes = piece.len();
            (call.sent, *moved) = (call.sent + bytes, *moved + bytes);
            continue;
        }
        let put = match (&mut attempt.feed, &mut attempt.passing) {
            (Some(feed), _) if feed.sent < feed.spool.bytes => put_spooled(http2, stream, feed, room),
            (_, Some(passing)) if !passing.rest().is_empty() => {
                let rest = passing.rest();
                let piece = rest.get(..room.min(rest.len())).unwrap_or_default();
                if !piece.is_empty() {
                    http2.session.data(stream, piece.len(), false).extend_from_slice(piece);
                }
                let bytes = piece.len();
                passing.advance(bytes);
                Some(bytes)
            }
            (_, Some(passing)) if !passing.is_whole() => return Put::Done,
            _ => {
                end_request(http2, stream, call, attempt.passing.as_deref_mut());
                return Put::Done;
            }
        };
        match put {
            None => return Put::Broken,
            Some(0) => return Put::Done,
            Some(bytes) => *moved += bytes,
        }
    }
    Put::Enough
}

/// The stream of a request, which is opened now unless it has one.
fn stream_of(
    http2: &mut Http2,
    call: &mut Call,
    bodiless: bool,
    (index, scheme, now): (ConnKey, &'static str, Instant),
) -> Option<StreamKey> {
    let (head, body) = call.split_head();
    let body_bytes = body.len();
    let Dialect::Http2(spoken) = &call.dialect else { return None };
    if spoken.stream.is_some() {
        return spoken.stream;
    }
    let ended = bodiless && body_bytes == 0 && spoken.trailers.is_none();
    let said = spoken.rpc.as_ref().map(|rpc| rpc.replaced(now)).unwrap_or_default();
    let replaced: Vec<_> = said.iter().map(|(name, value)| (*name, value.as_deref())).collect();
    let stream =
        http2.session.open(Opening { head, replaced: &replaced, scheme, ended, user: index.number() })?;
    http2.waiting.retain(|other| *other != index);
    let sent = call.sent + head.len();
    (call.sent, call.any_sent) = (sent, true);
    if let Dialect::Http2(spoken) = &mut call.dialect {
        (spoken.stream, spoken.ended) = (Some(stream), ended);
    }
    Some(stream)
}

/// A piece of a spooled body; `None` if it cannot be read.
fn put_spooled(http2: &mut Http2, stream: StreamKey, feed: &mut Feed, room: usize) -> Option<usize> {
    let wanted = room.min(usize::try_from(feed.spool.bytes - feed.sent).unwrap_or(usize::MAX));
    if wanted == 0 {
        return Some(0);
    }
    let (file, at) = (&feed.spool.file, feed.sent);
    let put = http2.session.fill(stream, |_| false, |out| _ = append_at(file.as_fd(), out, wanted, at));
    feed.sent += put as u64;
    (put > 0).then_some(put)
}

/// All of a request is in frames.
fn end_request(
    http2: &mut Http2,
    stream: StreamKey,
    call: &mut Call,
    passing: Option<&mut crate::upstream::passing::Passing>,
) {
    let Dialect::Http2(spoken) = &mut call.dialect else { return };
    if std::mem::replace(&mut spoken.ended, true) {
        return;
    }
    let passed = passing.and_then(|passing| passing.take_trailers());
    match passed.or_else(|| spoken.trailers.as_deref().cloned()) {
        Some(trailers) => http2.session.trailers(stream, trailers.all()),
        None => http2.session.end(stream),
    }
}
