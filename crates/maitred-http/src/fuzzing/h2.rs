//! Sessions of HTTP/2: whatever a peer sends, and however it arrives, the same comes of it; and what is sent keeps to the
//! windows, by books that are kept here independently.

#![allow(clippy::expect_used, reason = "an invariant that does not hold is a panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use crate::fields::{FieldEdits, FieldLines, FieldsRef, is_for_trailers};
use crate::h2::frame::{self, FrameHeader, HEADER_BYTES, flag, kind, setting};
use crate::h2::{CONTROL_BYTES_MAX, Event, Fatal, Floods, SENT_AHEAD_BYTES, Session, Settings, StreamKey};
use crate::request::{Framing, HeadLimits, HeadRoom, Request, RequestHead, field_room, parse};
use crate::response::ResponseHead;

/// Small, so that short inputs reach them.
pub(super) const SETTINGS: Settings = Settings {
    streams_max: 4,
    stream_window: 1000,
    connection_window: 70_000,
    frame_bytes_max: frame::FRAME_BYTES_MIN,
    header_list_bytes_max: 500,
    header_count_max: 10,
    header_block_bytes_max: 600,
    continuations_max: 3,
    header_table_bytes: 4096,
    connect_protocol: true,
    floods: Floods {
        resets_max: 5,
        stream_errors_max: 8,
        pings_max: 5,
        settings_max: 5,
        empty_frames_max: 5,
        window_updates_max: 30,
        priorities_max: 10,
        ignored_max: 10,
    },
};

const HEAD_LIMITS: HeadLimits = HeadLimits {
    head_bytes_max: 4096,
    header_count_max: 100,
    target_bytes_max: 4000,
    body_bytes_max: u64::MAX,
};

const DATE: &[u8; 29] = b"Sun, 06 Nov 1994 08:49:37 GMT";

/// A byte that chooses what the caller of the session does, one that chooses how the bytes are split, and what the peer
/// sends (behind a handshake, or instead of one).
pub fn h2_session(data: &[u8]) {
    let [choice, part_bytes, input @ ..] = data else { return };
    let mut bytes = Vec::new();
    if choice & 1 == 0 {
        bytes.extend_from_slice(frame::PREFACE);
        frame::put_settings(&mut bytes, 0, &[]);
        frame::put_settings(&mut bytes, flag::ACK, &[]);
    }
    bytes.extend_from_slice(input);
    let whole = run(*choice, &bytes, usize::MAX);
    let parts = run(*choice, &bytes, usize::from(*part_bytes).max(1));
    assert_eq!(whole, parts, "the way the bytes arrive changes what comes of them");
}

fn run(choice: u8, bytes: &[u8], part_bytes: usize) -> (Vec<Seen>, Vec<u8>) {
    let mut caller = Caller::new(choice);
    let mut pending = Vec::new();
    for part in bytes.chunks(part_bytes.min(bytes.len()).max(1)) {
        pending.extend_from_slice(part);
        if caller.feed(&mut pending).is_err() {
            break;
        }
        assert!(
            pending.len() < HEADER_BYTES + SETTINGS.frame_bytes_max as usize,
            "more than one frame is held"
        );
    }
    caller.drain();
    (caller.seen, caller.sent)
}

/// What has happened, in a form that does not depend on how content was cut.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Request { id: u32, ended: bool, head: Vec<u8> },
    Data { id: u32, content: Vec<u8>, ended: bool },
    Trailers { id: u32, fields: FieldLines },
    Reset { id: u32 },
    Writable,
    PeerLeaves,
    Fatal(Fatal),
}

/// A server in small: answers every request, and keeps the books.
struct Caller {
    session: Session,
    now: Instant,
    /// `out` is sent after each event, and not only when it is full.
    sends_at_once: bool,
    /// Answers, and releases the stream, before the request has ended.
    answers_early: bool,
    consumes: bool,
    /// By key.
    streams: BTreeMap<u32, Stream>,
    books: Books,
    /// So many bytes of `out` are in the books.
    observed: usize,
    seen: Vec<Seen>,
    sent: Vec<u8>,
}

struct Stream {
    id: u32,
    content_left: usize,
    held: usize,
    request_ended: bool,
}

impl Caller {
    fn new(choice: u8) -> Self {
        let now = Instant::now();
        let mut session = Session::new(&SETTINGS, now);
        if choice & 16 != 0 {
            session.go_away();
        }
        Self {
            session,
            now,
            sends_at_once: choice & 2 != 0,
            answers_early: choice & 4 != 0,
            consumes: choice & 8 != 0,
            streams: BTreeMap::new(),
            books: Books::default(),
            observed: 0,
            seen: Vec::new(),
            sent: Vec::new(),
        }
    }

    fn feed(&mut self, pending: &mut Vec<u8>) -> Result<(), Fatal> {
        let (mut at, mut head) = (0, RequestHead::default());
        loop {
            let before = at;
            let answer = self.session.next(self.now, pending, &mut at, &mut head);
            assert!(at >= before && at <= pending.len());
            self.books.received(&pending[before..at]);
            match answer {
                Ok(Some(event)) => self.on_event(event, &mut head),
                Ok(None) if self.session.is_full() => {
                    self.drain();
                    self.write_more();
                }
                Ok(None) => break,
                Err(fatal) => {
                    self.seen.push(Seen::Fatal(fatal));
                    self.drain();
                    assert_eq!(self.session.next(self.now, pending, &mut at, &mut head), Err(fatal));
                    return Err(fatal);
                }
            }
            self.observe();
            if self.sends_at_once {
                self.drain();
            }
            assert!(self.session.streams() <= SETTINGS.streams_max as usize);
            assert!(self.session.out().len() < SENT_AHEAD_BYTES + 2 * CONTROL_BYTES_MAX);
        }
        pending.drain(..at);
        Ok(())
    }

    fn on_event(&mut self, event: Event<'_>, head: &mut RequestHead) {
        match event {
            Event::Request { stream, ended } => self.on_request(stream, ended, head),
            Event::Data { stream, bytes, ended } => self.on_data(stream, bytes, ended),
            Event::Trailers { stream, fields } => self.on_trailers(stream, *fields),
            Event::Reset { stream, user } => {
                let known = self.streams.remove(&stream.0).expect("a known stream is reset, once");
                assert_eq!(user, known.id);
                self.session.release(stream);
                self.seen.push(Seen::Reset { id: known.id });
            }
            Event::Writable => {
                self.seen.push(Seen::Writable);
                self.write_more();
            }
            // A refused request has no stream that anything could be asked of.
            Event::Refused { .. } => {}
            Event::PeerLeaves => self.seen.push(Seen::PeerLeaves),
            Event::Response { .. } => unreachable!("the peer is a client"),
        }
    }

    fn on_request(&mut self, key: StreamKey, ended: bool, head: &mut RequestHead) {
        let id = self.session.id(key);
        self.session.mark(key, id);
        self.seen.push(Seen::Request { id, ended, head: http1_text(head, b"") });
        let content_left = (id as usize).wrapping_mul(7919) % 30_000;
        let known = Stream { id, content_left, held: 0, request_ended: ended };
        assert!(self.streams.insert(key.0, known).is_none(), "a slot is used twice");
        let mut fields = FieldLines::default();
        let status = match judge_twice(head, ended) {
            true => {
                fields.push(b"Content-Type", b"text/plain");
                fields.push(b"Connection", b"x");
                200
            }
            false => 400,
        };
        if id.is_multiple_of(3) {
            self.session.interim(key, &ResponseHead::own(103, fields.all()));
        }
        let head = ResponseHead::own(status, fields.all());
        self.session.respond(
            key,
            &head,
            FieldEdits::NONE,
            FieldsRef::default(),
            Some(DATE),
            content_left == 0,
        );
        self.write(key);
    }

    fn on_trailers(&mut self, key: StreamKey, fields: FieldLines) {
        assert!(!fields.is_empty(), "without trailers it is an end like others");
        for (name, value) in fields.all().iter() {
            assert!(!name.is_empty() && is_for_trailers(name), "{}", String::from_utf8_lossy(name));
            let small = |byte: &u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase() && *byte != b':';
            assert!(name.iter().all(small));
            assert!(value.iter().all(|byte| *byte == b'\t' || !byte.is_ascii_control()));
        }
        // Content that has come is passed on to the reader, which waits for the end.
        let known = self.streams.get(&key.0).expect("trailers belong to a known stream");
        let id = known.id;
        self.seen.push(Seen::Trailers { id, fields });
        self.on_data(key, &[], true);
    }

    fn on_data(&mut self, key: StreamKey, bytes: &[u8], ended: bool) {
        let known = self.streams.get_mut(&key.0).expect("content belongs to a known stream");
        assert!(!known.request_ended, "content behind the end");
        let id = known.id;
        known.held += bytes.len();
        known.request_ended = ended;
        match self.seen.last_mut() {
            Some(Seen::Data { id: last, content, ended: end }) if *last == id => {
                content.extend_from_slice(bytes);
                *end = ended;
            }
            _ => self.seen.push(Seen::Data { id, content: bytes.to_vec(), ended }),
        }
        if ended {
            let held = std::mem::take(&mut known.held);
            if self.consumes {
                self.session.consumed(key, held);
            }
            self.settle(key);
        }
    }

    /// Writes one frame, if there is room, and the next when it is this stream's turn.
    fn write(&mut self, key: StreamKey) {
        let room = self.session.room(key);
        let Some(known) = self.streams.get_mut(&key.0) else { return };
        let bytes = room.min(known.content_left);
        if bytes > 0 {
            known.content_left -= bytes;
            let last = known.content_left == 0;
            let trailers = last && known.id.is_multiple_of(5);
            self.session.data(key, bytes, last && !trailers).extend(std::iter::repeat_n(b'x', bytes));
            if trailers {
                let mut fields = FieldLines::default();
                fields.push(b"X-Sum", b"1");
                self.session.trailers(key, fields.all());
            }
            self.session.wait(key);
        }
        self.settle(key);
    }

    fn write_more(&mut self) {
        while let Some(key) = self.session.next_writable() {
            assert!(self.session.room(key) > 0, "who is named has room");
            self.write(key);
        }
    }

    /// Releases a stream that is done.
    fn settle(&mut self, key: StreamKey) {
        let done = |known: &Stream| known.content_left == 0 && (known.request_ended || self.answers_early);
        if self.streams.get(&key.0).is_some_and(done) {
            self.streams.remove(&key.0);
            self.session.release(key);
        }
    }

    /// Enters what was written since the last time.
    fn observe(&mut self) {
        let out = self.session.out();
        self.books.sent(out.get(self.observed..).unwrap_or_default());
        self.observed = out.len();
    }

    /// Sends all that there is.
    fn drain(&mut self) {
        self.observe();
        self.observed = 0;
        self.sent.append(self.session.out());
    }
}

/// The head as the text of HTTP/1.1, with these lines before its own, whatever the judge says of it.
pub(crate) fn http1_text(head: &RequestHead, lines: &[u8]) -> Vec<u8> {
    // Bytes: what `:path` says need not be text.
    let (method, target) = head.request_line_bytes().expect("a request has a request line");
    let mut text = [method, b" ", target, b" HTTP/1.1\r\n", lines].concat();
    for (name, value) in head.lines() {
        [name, b": ", value, b"\r\n"].iter().for_each(|part| text.extend_from_slice(part));
    }
    text.extend_from_slice(b"\r\n");
    text
}

/// Checks a head, and the same one after it went through the text of HTTP/1.1: the result is the same, and everything that
/// was found. Whether the request is accepted.
fn judge_twice(head: &mut RequestHead, ended: bool) -> bool {
    let tunnel = head.lines().any(|(name, _)| name == b"upgrade");
    let stated = head.lines().any(|(name, _)| name == b"content-length");
    let chunked =
        !ended && !tunnel && !stated && head.request_line_bytes().is_some_and(|line| line.0 != b"CONNECT");
    // First among the fields, so that it is behind no list.
    let text = http1_text(head, if chunked { b"transfer-encoding: chunked\r\n" } else { b"" });
    let own = head.judge(&HEAD_LIMITS);
    let (mut own_room, mut room) = (HeadRoom::default(), field_room());
    let parsed = parse(&text, &mut room, &HEAD_LIMITS);
    match (own, parsed) {
        (Ok(()), Ok(Some((parsed, used)))) => {
            assert_eq!(used, text.len(), "text behind the head");
            let own = head.view(&mut own_room).expect("it was judged");
            assert_eq!(chunked, own.framing == Framing::Chunked, "content of an unknown length");
            assert_eq!(found(&own, 0), found(&parsed, usize::from(chunked)));
            true
        }
        (Err(own), Err(parsed)) => {
            assert_eq!(own.status, parsed.status, "{own} and {parsed}");
            assert!(head.view(&mut own_room).is_none());
            false
        }
        (own, parsed) => panic!("{own:?} and {parsed:?}: {}", String::from_utf8_lossy(&text)),
    }
}

/// All that a request says, but for its version and its first fields.
fn found(request: &Request<'_, '_>, skipped: usize) -> String {
    let Request { method, method_text, version: _, target, path, query, authority, https, .. } = request;
    let Request { fields, framing, keep_alive, expects_continue, upgrade, known, .. } = request;
    let line = format!("{method:?} {method_text} {target} {path} {query:?} {authority} {https}");
    format!(
        "{line} {framing:?} {keep_alive} {expects_continue} {upgrade} {known:?} {:?}",
        fields.get(skipped..)
    )
}

/// What each side may send by the frames that were seen, and nothing else.
#[derive(Default)]
struct Books {
    /// Received bytes whose frame is not complete.
    partial: Vec<u8>,
    counted: bool,
    preface_left: Option<usize>,
    /// The peer's setting, if it has said so.
    initial_window: Option<i64>,
    /// Bytes by stream: granted by WINDOW_UPDATEs of the peer, less what was sent.
    balance: BTreeMap<u32, i64>,
    ended: BTreeSet<u32>,
    /// Of DATA, and granted by the session, for the connection.
    data_received: i64,
    data_granted: i64,
}

impl Books {
    /// Bytes that the session has read.
    fn received(&mut self, bytes: &[u8]) {
        let preface_left = self.preface_left.get_or_insert(frame::PREFACE.len());
        let skipped = bytes.len().min(*preface_left);
        *preface_left -= skipped;
        self.partial.extend_from_slice(&bytes[skipped..]);
        while let Some(header) = self.partial.first_chunk() {
            let header = FrameHeader::parse(header);
            // Content is accounted when its frame begins.
            if header.kind == kind::DATA && !self.counted {
                self.counted = true;
                self.data_received += i64::from(header.length);
            }
            let end = HEADER_BYTES + header.length as usize;
            let Some(payload) = self.partial.get(HEADER_BYTES..end) else { break };
            let payload = payload.to_vec();
            self.partial.drain(..end);
            self.counted = false;
            self.frame_received(&header, &payload);
        }
    }

    fn frame_received(&mut self, header: &FrameHeader, payload: &[u8]) {
        match header.kind {
            kind::WINDOW_UPDATE => {
                *self.balance.entry(header.stream).or_default() +=
                    i64::from(number(payload) & frame::WINDOW_MAX);
            }
            kind::SETTINGS if !header.has(flag::ACK) => {
                for entry in payload.chunks(6) {
                    if entry[..2] == setting::INITIAL_WINDOW_SIZE.to_be_bytes() {
                        self.initial_window = Some(i64::from(number(&entry[2..])));
                    }
                }
            }
            _ => {}
        }
    }

    /// Frames that the session has written.
    fn sent(&mut self, mut bytes: &[u8]) {
        while let Some((header, behind)) = bytes.split_first_chunk() {
            let header = FrameHeader::parse(header);
            let (payload, behind) = behind.split_at(header.length as usize);
            bytes = behind;
            if matches!(header.kind, kind::DATA | kind::HEADERS) {
                assert!(!self.ended.contains(&header.stream), "a frame behind the end of its stream");
                if header.has(flag::END_STREAM) {
                    self.ended.insert(header.stream);
                }
            }
            match header.kind {
                kind::DATA => {
                    let bytes = i64::from(header.length);
                    for stream in [0, header.stream] {
                        *self.balance.entry(stream).or_default() -= bytes;
                    }
                    let initial = self.initial_window.unwrap_or(frame::INITIAL_WINDOW.into());
                    let window = initial + self.balance[&header.stream];
                    assert!(bytes == 0 || window >= 0, "beyond the window of stream {}", header.stream);
                    let window = i64::from(frame::INITIAL_WINDOW) + self.balance[&0];
                    assert!(bytes == 0 || window >= 0, "beyond the connection's window");
                }
                kind::RST_STREAM => drop(self.ended.insert(header.stream)),
                kind::WINDOW_UPDATE if header.stream == 0 => self.data_granted += i64::from(number(payload)),
                _ => {}
            }
        }
        assert!(bytes.is_empty(), "part of a frame was written");
        let open = i64::from(frame::INITIAL_WINDOW) + self.data_granted - self.data_received;
        assert!(open <= i64::from(SETTINGS.connection_window), "more is granted than was agreed: {open}");
    }
}

fn number(payload: &[u8]) -> u32 {
    payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}
