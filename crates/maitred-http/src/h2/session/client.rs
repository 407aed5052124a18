//! The client's side: a session with a server. What both sides have in common (frames, windows, settings, floods) is the same
//! code; this is what is different.
//!
//! | a stream is | HEADERS | DATA | RST_STREAM |
//! |---|---|---|---|
//! | never opened | connection error PROTOCOL_ERROR | the same | the same |
//! | open, its head is due | [`Event::Response`]; of 1xx, others follow | stream error PROTOCOL_ERROR | [`Event::Reset`] |
//! | open, its head has come | [`Event::Trailers`], which end it | [`Event::Data`] | [`Event::Reset`] |
//! | ended by the server | stream error STREAM_CLOSED | the same | [`Event::Reset`] |
//! | ended by both | connection error STREAM_CLOSED | the same | dropped |
//! | reset by this side | decoded and dropped | dropped, the window is given back | dropped |
//!
//! **What was not processed** may be sent again whatever it is (9113-8.7): a stream that was reset with REFUSED_STREAM, and one
//! above the last that a GOAWAY names ([`Session::is_unprocessed`]).
//!
//! **Bounds.** A response's head has at most `header_list_bytes_max` bytes and `header_count_max` fields; before it come
//! `INTERIM_RESPONSES_MAX` others. The content that the caller holds is bounded by each stream's window, and by nothing else:
//! the connection's is as large as all of them together, so that a client that takes nothing does not stop the others.

use std::time::Instant;

use super::receive::{Block, Taken, compression_error};
use super::respond::close_block;
use super::streams::{Standing, Stream, UNKNOWN};
use super::{Code, Event, Fatal, SENT_AHEAD_BYTES, Session, Settings, StreamKey, protocol_error};
use crate::fields::FieldLines;
use crate::h2::frame::{PREFACE, WINDOW_MAX};
use crate::h2::hpack::{Bounds, Decoded};
use crate::limits::INTERIM_RESPONSES_MAX;
use crate::response::FramedHead;
use crate::section::{self, Controls, Judgement};

/// Streams of one connection to a server at a time, if the server says no less: what RFC 9113 section 6.5.2 recommends at least,
/// and what most servers allow. For more, there are more connections.
pub const STREAMS_AT_ONCE_MAX: u32 = 100;

/// What is known of a server.
#[derive(Debug)]
pub(super) struct Far {
    /// The identifier of the next stream.
    next: u32,
    /// Streams that it takes at a time.
    streams_max: u32,
    /// The last stream that it has, or will have, looked at.
    last: u32,
    /// Whether the server has sent GOAWAY.
    leaves: bool,
    /// The code of the last reset of a stream, by either side.
    code: u32,
}

/// A request that is to be sent.
#[derive(Debug, Clone, Copy)]
pub struct Opening<'h> {
    /// The request's head in the form of HTTP/1.1, as this program writes it: a request line with a path, lines that end in
    /// CRLF, an empty line. Fields of the connection are left out, and `host` becomes `:authority`.
    pub head: &'h [u8],
    /// Fields that are said otherwise than in `head`, whether they are there or not, by their names in lower case; those without
    /// a value not at all.
    pub replaced: &'h [(&'h str, Option<&'h [u8]>)],
    /// `:scheme`.
    pub scheme: &'static str,
    /// Whether the request has no content.
    pub ended: bool,
    /// The caller's mark.
    pub user: u32,
}

impl Session {
    /// A session with a server. Preface and settings are in `out`. Of the settings, those about streams, windows, heads and
    /// floods count; the connection's window is what its streams may have together.
    pub fn towards_server(settings: &Settings, now: Instant) -> Session {
        let streams_max = settings.streams_max.clamp(1, STREAMS_AT_ONCE_MAX);
        let together = settings.stream_window.saturating_mul(streams_max).min(WINDOW_MAX);
        let connection_window = settings.connection_window.max(together);
        let mut session = Session::silent(&Settings { streams_max, connection_window, ..*settings }, now);
        session.far =
            Some(Box::new(Far { next: 1, streams_max: u32::MAX, last: WINDOW_MAX, leaves: false, code: 0 }));
        session.preface_seen = true;
        session.out.extend_from_slice(PREFACE);
        session.settings.announce_to_server(&mut session.out);
        session
    }

    /// Whether the server takes another stream now.
    pub fn may_open(&self) -> bool {
        let Some(far) = &self.far else { return false };
        let most = self.streams_max() as usize;
        self.dead.is_none()
            && !far.leaves
            && far.next <= WINDOW_MAX
            && self.streams.open() < most
            && self.out.len() < SENT_AHEAD_BYTES
    }

    /// How many streams there can be at a time.
    pub fn streams_max(&self) -> u32 {
        self.far.as_ref().map_or(0, |far| far.streams_max.min(self.settings.streams_max))
    }

    /// Whether the connection will take another stream at some time.
    pub fn lasts(&self) -> bool {
        self.far.as_ref().is_some_and(|far| self.dead.is_none() && !far.leaves && far.next <= WINDOW_MAX)
    }

    /// Opens a stream. `None` if it [may not](Session::may_open), or if the head is none.
    pub fn open(&mut self, opening: Opening<'_>) -> Option<StreamKey> {
        if !self.may_open() {
            return None;
        }
        let (line, fields) = split_line(opening.head)?;
        let (method, rest) = split_at_space(line)?;
        let (target, _) = split_at_space(rest)?;
        let far = self.far.as_mut()?;
        let id = far.next;
        far.next += 2;
        let start = self.begin_block();
        let (encoder, out) = (&mut self.encoder, &mut self.out);
        encoder.begin(out);
        encoder.known(b":method", method, out);
        encoder.known(b":scheme", opening.scheme.as_bytes(), out);
        encoder.known(b":path", target, out);
        if let Some((_, host)) = Lines(fields).find(|(name, _)| name.eq_ignore_ascii_case(b"host")) {
            encoder.field(b":authority", host, out);
        }
        let mut lines = self.lines(false);
        for (name, value) in Lines(fields) {
            let small = name.to_ascii_lowercase();
            let replaced = || opening.replaced.iter().any(|(other, _)| other.as_bytes() == small);
            if small != b"host" && !section::is_of_connection(&small, value) && !replaced() {
                lines.put(name, value);
            }
        }
        for (name, value) in opening.replaced {
            value.iter().for_each(|value| lines.put(name.as_bytes(), value));
        }
        close_block(&mut self.out, start, id, opening.ended);
        self.streams.advance(id);
        self.ledger.requested();
        let receive_window = self.first_window();
        let key = self.streams.insert(Stream {
            id,
            user: opening.user,
            send_window: self.peer_window,
            receive_window,
            content_left: UNKNOWN,
            head_sent: true,
            head_due: true,
            headless: method == b"HEAD",
            ..Stream::default()
        });
        if opening.ended {
            self.end_locally(key);
        }
        Some(key)
    }

    /// The code of the last reset that [`Event::Reset`] was about.
    pub fn reset_code(&self) -> u32 {
        self.far.as_ref().map_or(0, |far| far.code)
    }

    /// Whether the server has said that it has not looked at a stream, and will not.
    pub fn is_unprocessed(&self, stream: StreamKey) -> bool {
        let id = self.id(stream);
        self.far.as_ref().is_some_and(|far| id != 0 && id > far.last)
    }

    /// Whether the server has ended a stream: all of its response has come.
    pub fn is_ended_by_peer(&self, stream: StreamKey) -> bool {
        self.streams.peek(stream).is_some_and(|known| known.remote_ended)
    }

    /// Whether the server's settings have come.
    pub fn is_greeted(&self) -> bool {
        self.settings_seen
    }

    /// The marks of the streams that were not released.
    pub fn users(&self) -> Vec<u32> {
        self.users_if(|_, _| true)
    }

    /// The marks of the streams for which a condition holds.
    pub fn users_if(&self, holds: impl Fn(&Session, StreamKey) -> bool) -> Vec<u32> {
        let keys = self.streams.keys().into_iter().filter(|key| holds(self, *key));
        keys.map(|key| self.user(key)).collect()
    }

    /// The caller is done with a stream. What has not ended is cancelled (9113-8.1, 9113-7).
    pub fn leave(&mut self, stream: StreamKey) {
        self.reset(stream, Code::Cancel);
        self.release(stream);
    }

    pub(super) fn note_code(&mut self, code: u32) {
        if let Some(far) = &mut self.far {
            far.code = code;
        }
    }

    pub(super) fn note_streams_max(&mut self, value: u32) {
        if let Some(far) = &mut self.far {
            far.streams_max = value;
        }
    }

    /// A server may send several, and name fewer streams each time (9113-6.8).
    pub(super) fn on_server_leaves(&mut self, payload: &[u8]) -> Taken {
        let last = payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes) & WINDOW_MAX);
        if let Some(far) = &mut self.far {
            (far.leaves, far.last) = (true, far.last.min(last));
        }
        self.peer_leaves = true;
        Ok(Some(Event::PeerLeaves))
    }

    /// A header block of a server.
    pub(super) fn on_response_block(&mut self, now: Instant, block: &Block<'_>) -> Taken {
        match self.streams.standing(block.stream) {
            Standing::Idle => Err(protocol_error("HEADERS on a stream that was not opened")),
            Standing::Open(key) => match self.streams.get(key).is_some_and(|known| known.head_due) {
                true => self.take_response(now, key, block),
                false => self.end_by_trailers(now, key, block),
            },
            Standing::Reset => self.skip_block(block.bytes).map(|()| None),
            Standing::RemoteEnded(_) | Standing::PeerReset => {
                self.skip_block(block.bytes)?;
                self.stream_error(now, block.stream, Code::StreamClosed)
            }
            Standing::Ended | Standing::Skipped => {
                Err(Fatal { code: Code::StreamClosed, reason: "HEADERS on a closed stream" })
            }
        }
    }

    fn take_response(&mut self, now: Instant, key: StreamKey, block: &Block<'_>) -> Taken {
        let mut lines = ResponseLines::default();
        // `:status` is not counted as a field.
        let fields_max = self.settings.header_count_max as usize + 1;
        let bounds = Bounds { fields_max, ..self.bounds() };
        let decoded = self.decoder.decode(block.bytes, bounds, |name, value| lines.field(name, value));
        let complete = decoded.map_err(compression_error)? == Decoded::Complete;
        let Some(known) = self.streams.get(key) else { return Ok(None) };
        let head = match lines.finish(block.ended, known.headless) {
            Ok(head) if complete && known.interim < INTERIM_RESPONSES_MAX => head,
            _ => return self.stream_error(now, block.stream, Code::ProtocolError),
        };
        if head.status < 200 {
            known.interim += 1;
            return Ok(Some(Event::Response { stream: key, head: Box::new(head) }));
        }
        known.head_due = false;
        known.remote_ended = block.ended;
        let empty = known.headless || matches!(head.status, 204 | 304);
        known.content_left = if empty { 0 } else { head.content_length.unwrap_or(UNKNOWN) };
        Ok(Some(Event::Response { stream: key, head: Box::new(head) }))
    }
}

/// The fields of a response as they come (9113-8.3.2): what HTTP/2 has rules of its own for is judged here.
#[derive(Default)]
struct ResponseLines {
    status: Option<u16>,
    content_length: Option<u64>,
    fields: FieldLines,
    fault: bool,
}

impl ResponseLines {
    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.fault = self.fault || self.take(name, value).is_err();
    }

    fn take(&mut self, name: &[u8], value: &[u8]) -> Judgement {
        if let [b':', ..] = name {
            return self.take_pseudo(name, value);
        }
        if self.status.is_none() {
            return Err("no :status before the fields");
        }
        if name.is_empty() || section::is_of_connection(name, value) {
            return Err("field of the connection");
        }
        section::judge_name(name)?;
        if section::judge_value(value)? == Controls::Some {
            return Err("invalid byte in a field value");
        }
        if name == b"content-length" {
            let length = section::length(value)?;
            return match self.content_length.replace(length) {
                // The same again says nothing (9110-8.6).
                Some(before) if before != length => {
                    Err("content-length more than once, with different values")
                }
                _ => Ok(()),
            };
        }
        self.fields.push(name, value);
        Ok(())
    }

    fn take_pseudo(&mut self, name: &[u8], value: &[u8]) -> Judgement {
        let known = self.status.is_some() || !self.fields.is_empty();
        let [hundreds @ b'1'..=b'9', tens @ b'0'..=b'9', ones @ b'0'..=b'9'] = value else {
            return Err("a status that is no number of three digits");
        };
        if name != b":status" || known {
            return Err("unknown pseudo-field, or more than one");
        }
        let digit = |byte: &u8| u16::from(byte - b'0');
        self.status = Some(digit(hundreds) * 100 + digit(tens) * 10 + digit(ones));
        Ok(())
    }

    /// The head; `ended`: with it, the stream ends.
    fn finish(self, ended: bool, headless: bool) -> Result<FramedHead, &'static str> {
        let ResponseLines { status: Some(status), content_length, fields, fault: false } = self else {
            return Err("malformed");
        };
        // HTTP/2 has no switching (9113-8.6), and an interim response is not the last.
        if status == 101 || (status < 200 && ended) {
            return Err("an interim response that ends the stream, or a switch");
        }
        let empty = headless || matches!(status, 204 | 304);
        if ended && !empty && content_length.is_some_and(|length| length > 0) {
            return Err("content is missing");
        }
        Ok(FramedHead { status, content_length, fields, ended })
    }
}

/// Bytes of the head that a request in the form of HTTP/1.1 begins with.
pub fn head_bytes(request: &[u8]) -> usize {
    memchr::memmem::find(request, b"\r\n\r\n").map_or(request.len(), |at| at + 4)
}

/// Lines of fields, up to the empty one.
struct Lines<'h>(&'h [u8]);

impl<'h> Iterator for Lines<'h> {
    type Item = (&'h [u8], &'h [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (line, rest) = split_line(self.0)?;
        self.0 = rest;
        let (name, value) = line.split_at_checked(memchr::memchr(b':', line)?)?;
        Some((name, value.get(1..)?.trim_ascii()))
    }
}

/// The first line, without its end, and what is behind it.
fn split_line(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(b'\n', text)?;
    let line = text.get(..end)?;
    Some((line.strip_suffix(b"\r").unwrap_or(line), text.get(end + 1..)?))
}

fn split_at_space(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b' ', line)?;
    Some((line.get(..at)?, line.get(at + 1..)?))
}
