//! Frames other than DATA, as they come (9113-6).

use std::time::Instant;

use super::streams::{Standing, Stream, UNKNOWN};
use super::{Code, Event, Fatal, Leaving, Session, StreamKey, protocol_error};
use crate::floods::Act;
use crate::h2::frame::{self, FrameHeader, flag, kind, setting};
use crate::h2::hpack::{self, Bounds, Decoded};
use crate::priority::Priority;
use crate::request::{RequestHead, Version};
use crate::section::{Facts, Trailers, Translator};

/// The PING that asks whether the peer has seen the announcement of a GOAWAY.
pub(super) const LEAVING_PING: [u8; 8] = *b"maitred!";

/// Pseudo-fields that a request can have, which become no fields, or fields that HTTP/1.1 has, too.
const PSEUDO_FIELDS: usize = 5;

/// The start of a header block that goes on in CONTINUATION frames.
#[derive(Debug)]
pub(super) struct Fragments {
    pub(super) stream: u32,
    ended: bool,
    depends_on_itself: bool,
    bytes: Vec<u8>,
    frames: u32,
}

impl Fragments {
    /// Bytes of memory that it holds.
    #[cfg(test)]
    pub(super) fn room_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity()
    }
}

/// A whole header block, and what its frames said of it.
pub(super) struct Block<'b> {
    pub(super) stream: u32,
    pub(super) ended: bool,
    depends_on_itself: bool,
    pub(super) bytes: &'b [u8],
}

/// Why a request does not get to the caller.
enum Refusal {
    /// The session answers it itself.
    Answer(u16, &'static str),
    Malformed(&'static str),
}

pub(super) type Taken = Result<Option<Event<'static>>, Fatal>;

impl Session {
    /// A whole frame that is not DATA.
    #[inline]
    pub(super) fn on_frame(
        &mut self,
        now: Instant,
        frame: &FrameHeader,
        payload: &[u8],
        head: &mut RequestHead,
    ) -> Taken {
        match frame.kind {
            kind::HEADERS => self.on_headers(now, frame, payload, head),
            kind::WINDOW_UPDATE => self.on_window_update(now, frame, payload),
            kind::CONTINUATION => self.on_continuation(now, frame, payload, head),
            kind::RST_STREAM => self.on_rst_stream(now, frame, payload),
            kind::SETTINGS => self.on_settings(now, frame, payload),
            kind::PING => self.on_ping(now, frame, payload),
            kind::GOAWAY => self.on_go_away(now, frame, payload),
            kind::PRIORITY => self.on_priority(now, frame, payload),
            kind::PRIORITY_UPDATE if self.far.is_none() => self.on_priority_update(now, frame, payload),
            kind::PRIORITY_UPDATE => Err(protocol_error("PRIORITY_UPDATE of a server")),
            // A client has none to make, and to a server it was said that none are wanted.
            kind::PUSH_PROMISE => Err(protocol_error("PUSH_PROMISE")),
            // Unknown types are for extensions, and are ignored (9113-5.5).
            _ => self.ignore(now),
        }
    }

    fn ignore(&mut self, now: Instant) -> Taken {
        self.ledger.charge(Act::Ignored, now)?;
        Ok(None)
    }

    fn on_headers(
        &mut self,
        now: Instant,
        frame: &FrameHeader,
        payload: &[u8],
        head: &mut RequestHead,
    ) -> Taken {
        // Clients open streams of odd numbers (9113-5.1.1).
        if frame.stream.is_multiple_of(2) {
            return Err(protocol_error("HEADERS on a stream that is none of a client's"));
        }
        let (bytes, depends_on) = header_fragment(frame, payload)?;
        let depends_on_itself = depends_on == Some(frame.stream);
        let ended = frame.has(flag::END_STREAM);
        if frame.has(flag::END_HEADERS) {
            return self.on_block(
                now,
                &Block { stream: frame.stream, ended, depends_on_itself, bytes },
                head,
            );
        }
        if bytes.is_empty() {
            self.ledger.charge(Act::EmptyFrame, now)?;
        }
        let bytes = bytes.to_vec();
        self.fragments =
            Some(Box::new(Fragments { stream: frame.stream, ended, depends_on_itself, bytes, frames: 0 }));
        self.judge_fragments()
    }

    fn on_continuation(
        &mut self,
        now: Instant,
        frame: &FrameHeader,
        payload: &[u8],
        head: &mut RequestHead,
    ) -> Taken {
        if payload.is_empty() {
            self.ledger.charge(Act::EmptyFrame, now)?;
        }
        if let Some(fragments) = self.fragments.as_mut() {
            fragments.frames += 1;
            fragments.bytes.extend_from_slice(payload);
        }
        self.judge_fragments()?;
        let Some(fragments) = self.fragments.take_if(|_| frame.has(flag::END_HEADERS)) else {
            return Ok(None);
        };
        let Fragments { stream, ended, depends_on_itself, ref bytes, .. } = *fragments;
        self.on_block(now, &Block { stream, ended, depends_on_itself, bytes }, head)
    }

    /// Bounds a block before its end is known (CVE-2024-27316).
    fn judge_fragments(&self) -> Taken {
        let Some(fragments) = &self.fragments else { return Ok(None) };
        let calm = |reason| Err(Fatal { code: Code::EnhanceYourCalm, reason });
        if fragments.bytes.len() > self.settings.header_block_bytes_max as usize {
            return calm("header block too large");
        }
        if fragments.frames > self.settings.continuations_max {
            return calm("too many CONTINUATIONs");
        }
        Ok(None)
    }

    fn on_block(&mut self, now: Instant, block: &Block<'_>, head: &mut RequestHead) -> Taken {
        if self.far.is_some() {
            return self.on_response_block(now, block);
        }
        match self.streams.standing(block.stream) {
            Standing::Idle => self.open_stream(now, block, head),
            Standing::Open(key) => self.end_by_trailers(now, key, block),
            Standing::Reset => {
                self.skip_block(block.bytes)?;
                self.ignore(now)
            }
            Standing::RemoteEnded(_) | Standing::PeerReset => {
                self.skip_block(block.bytes)?;
                self.stream_error(now, block.stream, Code::StreamClosed)
            }
            Standing::Ended => Err(Fatal { code: Code::StreamClosed, reason: "HEADERS on a closed stream" }),
            Standing::Skipped => Err(protocol_error("HEADERS on a stream that was passed over")),
        }
    }

    /// Decodes a block for the sake of the decoder's table only (9113-4.3).
    pub(super) fn skip_block(&mut self, block: &[u8]) -> Result<(), Fatal> {
        self.decoder
            .decode(block, Bounds { list_bytes_max: 0, fields_max: 0 }, |_, _| {})
            .map_err(compression_error)?;
        Ok(())
    }

    pub(super) fn bounds(&self) -> Bounds {
        Bounds {
            list_bytes_max: self.settings.header_list_bytes_max as usize,
            fields_max: self.settings.header_count_max as usize + PSEUDO_FIELDS,
        }
    }

    fn open_stream(&mut self, now: Instant, block: &Block<'_>, head: &mut RequestHead) -> Taken {
        self.streams.advance(block.stream);
        let early = self.early.take(block.stream.into());
        if self.leaving == Leaving::Decided || self.streams.open() >= self.settings.streams_max as usize {
            self.skip_block(block.bytes)?;
            return self.stream_error(now, block.stream, Code::RefusedStream);
        }
        if self.is_short_of_room() {
            self.skip_block(block.bytes)?;
            self.refused = self.refused.saturating_add(1);
            frame::put_number(&mut self.out, kind::RST_STREAM, block.stream, Code::RefusedStream as u32);
            self.streams.note_reset(block.stream, false);
            return Ok(None);
        }
        self.last_served = block.stream;
        self.ledger.requested();
        let facts = match self.translate(block, head)? {
            Ok(facts) => facts,
            Err(refusal) => {
                let (status, reason) = match refusal {
                    Refusal::Answer(status, reason) => {
                        self.answer(now, block, status)?;
                        (Some(status), reason)
                    }
                    Refusal::Malformed(reason) => {
                        self.stream_error(now, block.stream, Code::ProtocolError)?;
                        (None, reason)
                    }
                };
                return Ok(Some(Event::Refused { status, reason }));
            }
        };
        let receive_window = self.first_window();
        let stream = self.streams.insert(Stream {
            id: block.stream,
            send_window: self.peer_window,
            receive_window,
            content_left: facts.content_length.unwrap_or(UNKNOWN),
            priority: early.or(facts.priority).unwrap_or_default(),
            remote_ended: block.ended,
            tunnel: facts.tunnel,
            ..Stream::default()
        });
        Ok(Some(Event::Request { stream, ended: block.ended }))
    }

    /// Fills a request's head. If it is refused, what was read so far is there.
    fn translate(
        &mut self,
        block: &Block<'_>,
        head: &mut RequestHead,
    ) -> Result<Result<Facts, Refusal>, Fatal> {
        let bounds = self.bounds();
        let mut translator =
            Translator::new(head, Version::Http2, self.settings.connect_protocol, block.ended);
        let decoded = self.decoder.decode(block.bytes, bounds, |name, value| translator.field(name, value));
        if decoded.map_err(compression_error)? == Decoded::TooLarge {
            translator.abandon();
            return Ok(Err(Refusal::Answer(431, "the head is too large")));
        }
        Ok(match translator.finish() {
            Ok(_) if block.depends_on_itself => Err(Refusal::Malformed("stream that depends on itself")),
            Ok(facts) => Ok(facts),
            Err(reason) => Err(Refusal::Malformed(reason)),
        })
    }

    /// What the peer may send on a new stream.
    pub(super) fn first_window(&self) -> i32 {
        let window = match self.settings_acknowledged {
            true => self.settings.stream_window,
            // Until the peer knows better it may use the initial one (9113-6.9.2).
            false => self.settings.stream_window.max(frame::INITIAL_WINDOW),
        };
        window as i32
    }

    /// Answers a request without showing it to the caller, and counts it as an error of the peer's.
    #[cold]
    fn answer(&mut self, now: Instant, block: &Block<'_>, status: u16) -> Result<(), Fatal> {
        self.put_answer(block.stream, status);
        if !block.ended {
            self.part(block.stream, self.first_window());
        }
        Ok(self.ledger.charge(Act::StreamError, now)?)
    }

    /// HEADERS on a stream whose request has not ended: trailers, which end it (9113-8.1).
    pub(super) fn end_by_trailers(&mut self, now: Instant, key: StreamKey, block: &Block<'_>) -> Taken {
        let mut trailers = Trailers::default();
        let bounds = self.bounds();
        let decoded = self.decoder.decode(block.bytes, bounds, |name, value| trailers.field(name, value));
        let complete = decoded.map_err(compression_error)? == Decoded::Complete;
        let Some(stream) = self.streams.get(key) else { return Ok(None) };
        let content_came = matches!(stream.content_left, 0 | UNKNOWN);
        let valid = complete && block.ended && content_came && !block.depends_on_itself;
        let (true, Ok(fields)) = (valid, trailers.finish()) else {
            return self.stream_error(now, block.stream, Code::ProtocolError);
        };
        stream.remote_ended = true;
        Ok(Some(if fields.is_empty() {
            Event::Data { stream: key, bytes: &[], ended: true }
        } else {
            Event::Trailers { stream: key, fields: Box::new(fields) }
        }))
    }

    /// Resets a stream because of what the peer did (9113-5.4.2). If the caller has the stream, it gets an event.
    #[cold]
    pub(super) fn stream_error(&mut self, now: Instant, id: u32, code: Code) -> Taken {
        frame::put_number(&mut self.out, kind::RST_STREAM, id, code as u32);
        self.note_code(code as u32);
        let by_peer = self.streams.standing(id) == Standing::PeerReset;
        self.streams.note_reset(id, by_peer);
        self.ledger.charge(Act::StreamError, now)?;
        Ok(self.close_by_reset(id))
    }

    /// Marks a stream as reset; the event if the caller needs one.
    fn close_by_reset(&mut self, id: u32) -> Option<Event<'static>> {
        let key = self.streams.find(id)?;
        let stream = self.streams.get(key)?;
        if std::mem::replace(&mut stream.reset, true) {
            return None;
        }
        let (user, held) = (stream.user, std::mem::take(&mut stream.unconsumed));
        self.streams.set_waiting(key, false);
        self.give_back(held);
        Some(Event::Reset { stream: key, user })
    }

    fn on_rst_stream(&mut self, now: Instant, frame: &FrameHeader, payload: &[u8]) -> Taken {
        let code = number(frame, payload)?;
        match self.streams.standing(frame.stream) {
            Standing::Idle => Err(protocol_error("RST_STREAM on an idle stream")),
            Standing::Open(_) | Standing::RemoteEnded(_) => {
                // A server resets no more streams than it was given.
                if self.far.is_none() {
                    // A stream that was answered has made up for this.
                    self.ledger.charge(Act::Reset, now)?;
                }
                self.note_code(code);
                self.streams.note_reset(frame.stream, true);
                Ok(self.close_by_reset(frame.stream))
            }
            Standing::Reset => {
                self.streams.note_reset(frame.stream, true);
                self.parting.remove(frame.stream);
                self.ignore(now)
            }
            Standing::Ended | Standing::PeerReset | Standing::Skipped => self.ignore(now),
        }
    }

    fn on_window_update(&mut self, now: Instant, frame: &FrameHeader, payload: &[u8]) -> Taken {
        let increment = number(frame, payload)? & frame::WINDOW_MAX;
        self.ledger.charge(Act::WindowUpdate, now)?;
        if frame.stream == 0 {
            if increment == 0 {
                return Err(protocol_error("WINDOW_UPDATE by nothing"));
            }
            const OVERFLOW: Fatal =
                Fatal { code: Code::FlowControlError, reason: "the connection's window overflows" };
            self.send_window = self.send_window.checked_add_unsigned(increment).ok_or(OVERFLOW)?;
            return Ok(self.writable());
        }
        match self.streams.standing(frame.stream) {
            Standing::Idle => Err(protocol_error("WINDOW_UPDATE on an idle stream")),
            Standing::Open(key) | Standing::RemoteEnded(key) => {
                let Some(stream) = self.streams.get(key) else { return Ok(None) };
                match stream.send_window.checked_add_unsigned(increment) {
                    _ if increment == 0 => self.stream_error(now, frame.stream, Code::ProtocolError),
                    None => self.stream_error(now, frame.stream, Code::FlowControlError),
                    Some(window) => {
                        stream.send_window = window;
                        Ok(self.writable())
                    }
                }
            }
            // Window updates are under way when a response ends, and are bounded already.
            Standing::Ended | Standing::Reset | Standing::PeerReset | Standing::Skipped => Ok(None),
        }
    }

    fn writable(&self) -> Option<Event<'static>> {
        (self.streams.waiting() > 0 && self.send_window > 0).then_some(Event::Writable)
    }

    fn on_settings(&mut self, now: Instant, frame: &FrameHeader, payload: &[u8]) -> Taken {
        on_connection(frame)?;
        let acknowledges = frame.has(flag::ACK);
        if !payload.len().is_multiple_of(6) || (acknowledges && !payload.is_empty()) {
            return Err(WRONG_SIZE);
        }
        if acknowledges {
            if !self.settings_seen {
                return Err(protocol_error("the first frame is not the peer's own SETTINGS"));
            }
            if !std::mem::replace(&mut self.settings_acknowledged, true) {
                self.decoder.settings_acknowledged();
                return Ok(None);
            }
            return self.ignore(now);
        }
        self.ledger.charge(Act::Settings, now)?;
        self.settings_seen = true;
        let before = self.peer_window;
        let (entries, _) = payload.as_chunks::<6>();
        for [i0, i1, v0, v1, v2, v3] in entries {
            let value = u32::from_be_bytes([*v0, *v1, *v2, *v3]);
            self.apply_setting(u16::from_be_bytes([*i0, *i1]), value)?;
        }
        self.adjust_windows(before)?;
        frame::put_settings(&mut self.out, flag::ACK, &[]);
        Ok(self.writable())
    }

    fn apply_setting(&mut self, id: u16, value: u32) -> Result<(), Fatal> {
        const TOO_LARGE: Fatal = Fatal { code: Code::FlowControlError, reason: "initial window too large" };
        match id {
            setting::HEADER_TABLE_SIZE => self.encoder.set_table_bytes_max(value),
            setting::MAX_CONCURRENT_STREAMS => self.note_streams_max(value),
            setting::ENABLE_PUSH if value == 1 && self.far.is_some() => {
                return Err(protocol_error("a server that takes pushed streams"));
            }
            setting::INITIAL_WINDOW_SIZE => self.peer_window = i32::try_from(value).map_err(|_| TOO_LARGE)?,
            // Within its range it changes nothing: frames are never larger than the least value.
            setting::MAX_FRAME_SIZE
                if !(frame::FRAME_BYTES_MIN..=frame::FRAME_BYTES_MAX).contains(&value) =>
            {
                return Err(protocol_error("invalid SETTINGS_MAX_FRAME_SIZE"));
            }
            setting::ENABLE_PUSH | setting::ENABLE_CONNECT_PROTOCOL | setting::NO_RFC7540_PRIORITIES
                if value > 1 =>
            {
                return Err(protocol_error("setting is neither 0 nor 1"));
            }
            _ => {}
        }
        Ok(())
    }

    /// A change of the initial window changes those of all streams, below zero if need be (9113-6.9.2). Once per frame,
    /// however often the frame names it: only the sum of the changes is to be seen.
    fn adjust_windows(&mut self, before: i32) -> Result<(), Fatal> {
        let change = self.peer_window - before;
        if change == 0 {
            return Ok(());
        }
        for stream in self.streams.each() {
            stream.send_window = stream
                .send_window
                .checked_add(change)
                .ok_or(Fatal { code: Code::FlowControlError, reason: "a stream's window overflows" })?;
        }
        Ok(())
    }

    fn on_ping(&mut self, now: Instant, frame: &FrameHeader, payload: &[u8]) -> Taken {
        on_connection(frame)?;
        let opaque: [u8; 8] = payload.try_into().map_err(|_| WRONG_SIZE)?;
        if !frame.has(flag::ACK) {
            self.ledger.charge(Act::Ping, now)?;
            frame::put_ping(&mut self.out, flag::ACK, opaque);
            return Ok(None);
        }
        if self.leaving == Leaving::Announced && opaque == LEAVING_PING {
            self.go_away();
            return Ok(None);
        }
        if self.on_parted(opaque) {
            return Ok(None);
        }
        self.ignore(now)
    }

    fn on_go_away(&mut self, now: Instant, frame: &FrameHeader, payload: &[u8]) -> Taken {
        on_connection(frame)?;
        if payload.len() < 8 {
            return Err(WRONG_SIZE);
        }
        if self.far.is_some() {
            return self.on_server_leaves(payload);
        }
        if std::mem::replace(&mut self.peer_leaves, true) {
            return self.ignore(now);
        }
        Ok(Some(Event::PeerLeaves))
    }

    /// The priorities of RFC 7540 are gone (9113-5.3.2); what cannot have been meant is an error all the same.
    fn on_priority(&mut self, now: Instant, frame: &FrameHeader, payload: &[u8]) -> Taken {
        if frame.stream == 0 {
            return Err(protocol_error("PRIORITY on stream 0"));
        }
        let [d0, d1, d2, d3, _] = *payload else { return Err(WRONG_SIZE) };
        if u32::from_be_bytes([d0, d1, d2, d3]) & frame::WINDOW_MAX == frame.stream {
            return Err(protocol_error("stream that depends on itself"));
        }
        self.ledger.charge(Act::Priority, now)?;
        Ok(None)
    }

    /// 9218-7.1.
    fn on_priority_update(&mut self, now: Instant, frame: &FrameHeader, payload: &[u8]) -> Taken {
        on_connection(frame)?;
        let (id, value) = payload.split_first_chunk().ok_or(WRONG_SIZE)?;
        let id = u32::from_be_bytes(*id) & frame::WINDOW_MAX;
        if id.is_multiple_of(2) {
            return Err(protocol_error("PRIORITY_UPDATE of a stream that is none of a client's"));
        }
        self.ledger.charge(Act::Priority, now)?;
        let priority = Priority::parse(value);
        match self.streams.standing(id) {
            Standing::Idle => self.early.put(id.into(), priority),
            Standing::Open(key) | Standing::RemoteEnded(key) => {
                if let Some(stream) = self.streams.get(key) {
                    stream.priority = priority;
                }
            }
            _ => {}
        }
        Ok(None)
    }
}

const WRONG_SIZE: Fatal = Fatal { code: Code::FrameSizeError, reason: "frame of a wrong size" };

/// A stream identifier in a frame that concerns the connection is an error.
fn on_connection(frame: &FrameHeader) -> Result<(), Fatal> {
    if frame.stream == 0 { Ok(()) } else { Err(protocol_error("frame of the connection on a stream")) }
}

/// The one number that is the payload of RST_STREAM and WINDOW_UPDATE.
fn number(frame: &FrameHeader, payload: &[u8]) -> Result<u32, Fatal> {
    if frame.kind == kind::RST_STREAM && frame.stream == 0 {
        return Err(protocol_error("RST_STREAM on stream 0"));
    }
    payload.try_into().map(u32::from_be_bytes).map_err(|_| WRONG_SIZE)
}

pub(super) fn compression_error(error: hpack::Error) -> Fatal {
    Fatal { code: Code::CompressionError, reason: error.reason() }
}

/// The part of a HEADERS frame's payload that belongs to the block, and the stream that it depends on (9113-6.2).
#[inline]
fn header_fragment<'p>(frame: &FrameHeader, payload: &'p [u8]) -> Result<(&'p [u8], Option<u32>), Fatal> {
    let mut rest = payload;
    let mut padding = 0;
    if frame.has(flag::PADDED) {
        let (bytes, behind) = rest.split_first().ok_or(WRONG_SIZE)?;
        (padding, rest) = (usize::from(*bytes), behind);
    }
    let mut depends_on = None;
    if frame.has(flag::PRIORITY) {
        let ([d0, d1, d2, d3, _], behind) = rest.split_first_chunk().ok_or(WRONG_SIZE)?;
        depends_on = Some(u32::from_be_bytes([*d0, *d1, *d2, *d3]) & frame::WINDOW_MAX);
        rest = behind;
    }
    let bytes = rest.len().checked_sub(padding).ok_or(protocol_error("padding longer than its frame"))?;
    Ok((rest.get(..bytes).unwrap_or_default(), depends_on))
}
