//! A scripted peer: frames in, and what came of them as lines of text.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::*;
use crate::fields::{FieldEdits, FieldsRef};
use crate::h2::frame::{flag, setting};
use crate::h2::hpack::{Bounds, Decoder};
use crate::response::ResponseHead;

mod attacks;
mod client;
mod frames;
mod heads;
mod leaving;
mod parting;
mod priorities;
mod properties;
mod responses;
mod shortage;
mod states;
mod windows;

/// One frame.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::put_header(&mut bytes, payload.len(), kind, flags, stream);
    bytes.extend_from_slice(payload);
    bytes
}

/// A header block of literals.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.push(0);
        for text in [name, value] {
            assert!(text.len() < 127 + 128, "as much as two bytes of length say");
            if text.len() < 127 {
                bytes.push(text.len() as u8);
            } else {
                bytes.extend_from_slice(&[127, (text.len() - 127) as u8]);
            }
            bytes.extend_from_slice(text.as_bytes());
        }
    }
    bytes
}

/// The pseudo-fields of a plain request.
const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":path", "/"), (":scheme", "https"), (":authority", "a.example")];
const POST: [(&str, &str); 4] =
    [(":method", "POST"), (":path", "/"), (":scheme", "https"), (":authority", "a.example")];

/// HEADERS with all of a block.
fn headers(stream: u32, ended: bool, fields: &[(&str, &str)]) -> Vec<u8> {
    let flags = flag::END_HEADERS | if ended { flag::END_STREAM } else { 0 };
    frame(kind::HEADERS, flags, stream, &block(fields))
}

fn get(stream: u32) -> Vec<u8> {
    headers(stream, true, &GET)
}

fn post(stream: u32) -> Vec<u8> {
    headers(stream, false, &POST)
}

fn data(stream: u32, ended: bool, content: &[u8]) -> Vec<u8> {
    frame(kind::DATA, u8::from(ended), stream, content)
}

fn rst(stream: u32) -> Vec<u8> {
    frame(kind::RST_STREAM, 0, stream, &(Code::Cancel as u32).to_be_bytes())
}

fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

fn settings(entries: &[(u16, u32)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::put_settings(&mut bytes, 0, entries);
    bytes
}

fn ping(opaque: &[u8; 8]) -> Vec<u8> {
    frame(kind::PING, 0, 0, opaque)
}

/// Small, so that tests reach them.
fn small() -> Settings {
    Settings {
        streams_max: 4,
        stream_window: 70_000,
        connection_window: 100_000,
        header_list_bytes_max: 1000,
        header_count_max: 16,
        header_block_bytes_max: 2000,
        continuations_max: 3,
        floods: Floods {
            resets_max: 10,
            stream_errors_max: 10,
            pings_max: 10,
            settings_max: 10,
            empty_frames_max: 10,
            window_updates_max: 20,
            priorities_max: 20,
            ignored_max: 10,
        },
        ..Settings::default()
    }
}

/// Fields of a response.
fn lines(fields: &[(&str, &str)]) -> FieldLines {
    let mut lines = FieldLines::default();
    fields.iter().for_each(|(name, value)| lines.push(name.as_bytes(), value.as_bytes()));
    lines
}

/// The session, and the peer that it talks with.
struct Peer {
    session: Session,
    now: Instant,
    /// What the session's blocks are decoded with.
    decoder: Decoder,
    unread: Vec<u8>,
    /// Keys of the streams in the order of their requests.
    keys: Vec<StreamKey>,
}

impl Peer {
    /// After the preface and both SETTINGS.
    fn new() -> Self {
        Self::with(&small())
    }

    fn with(granted: &Settings) -> Self {
        let mut peer = Self::before_preface(granted);
        assert_eq!(
            peer.say(&[PREFACE.to_vec(), settings(&[]), frame(kind::SETTINGS, flag::ACK, 0, &[])]),
            ""
        );
        peer.heard();
        peer
    }

    fn before_preface(granted: &Settings) -> Self {
        let now = Instant::now();
        let session = Session::new(granted, now);
        Self { session, now, decoder: Decoder::new(4096), unread: Vec::new(), keys: Vec::new() }
    }

    /// Gives frames to the session; its events, a line each.
    fn say(&mut self, frames: &[Vec<u8>]) -> String {
        self.unread.extend(frames.iter().flatten());
        let mut lines = String::new();
        let (mut at, mut head) = (0, RequestHead::default());
        loop {
            match self.session.next(self.now, &self.unread, &mut at, &mut head) {
                Ok(None) => break,
                Ok(Some(Event::Request { stream, ended, .. })) => {
                    self.keys.push(stream);
                    let id = self.session.id(stream);
                    let _ = writeln!(lines, "request {id}{}", if ended { " ended" } else { "" });
                }
                Ok(Some(Event::Data { stream, bytes, ended })) => {
                    let (id, text) = (self.session.id(stream), String::from_utf8_lossy(bytes));
                    let text =
                        if bytes.len() > 20 { format!("{} bytes", bytes.len()) } else { format!("{text:?}") };
                    let _ = writeln!(lines, "data {id} {text}{}", if ended { " ended" } else { "" });
                }
                Ok(Some(Event::Trailers { stream, fields })) => {
                    let fields = fields.all().iter().map(|(name, value)| {
                        format!(" {}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
                    });
                    let fields: String = fields.collect();
                    let _ = writeln!(lines, "trailers {}{fields}", self.session.id(stream));
                }
                Ok(Some(Event::Reset { stream, user })) => {
                    let _ = write!(lines, "reset {} user {user}", self.session.id(stream));
                    match self.session.far.is_some() {
                        true => _ = writeln!(lines, " code {}", self.session.reset_code()),
                        false => lines.push('\n'),
                    }
                }
                Ok(Some(Event::Refused { .. })) => {}
                Ok(Some(Event::Writable)) => lines.push_str("writable\n"),
                Ok(Some(Event::PeerLeaves)) => lines.push_str("peer leaves\n"),
                Ok(Some(Event::Response { stream, head })) => {
                    let _ = write!(lines, "response {} {}", self.session.id(stream), head.status);
                    if let Some(length) = head.content_length {
                        let _ = write!(lines, " length {length}");
                    }
                    for (name, value) in head.fields.all().iter() {
                        let _ = write!(
                            lines,
                            " {}={}",
                            String::from_utf8_lossy(name),
                            String::from_utf8_lossy(value)
                        );
                    }
                    lines.push_str(if head.ended { " ended\n" } else { "\n" });
                }
                Err(fatal) => {
                    let _ = writeln!(lines, "fatal {:?}", fatal.code);
                    break;
                }
            }
        }
        self.unread.drain(..at);
        lines
    }

    /// What the session sent since this was asked last, a line per frame.
    fn heard(&mut self) -> String {
        let bytes = std::mem::take(self.session.out());
        let mut rest = &bytes[..];
        let mut lines = String::new();
        while let Some((header, behind)) = rest.split_first_chunk() {
            let header = FrameHeader::parse(header);
            let (payload, behind) = behind.split_at(header.length as usize);
            rest = behind;
            let line = self.describe(&header, payload);
            let end = matches!(header.kind, kind::DATA | kind::HEADERS) && header.has(flag::END_STREAM);
            let _ = writeln!(lines, "{line}{}", if end { " ended" } else { "" });
        }
        assert!(rest.is_empty(), "part of a frame was sent");
        lines
    }

    fn describe(&mut self, header: &FrameHeader, payload: &[u8]) -> String {
        let id = header.stream;
        let number =
            |at: usize| payload[at..at + 4].iter().fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte));
        let code = |at: usize| CODES[number(at) as usize];
        match header.kind {
            kind::DATA if payload.len() > 20 => format!("DATA {id} {} bytes", payload.len()),
            kind::DATA => format!("DATA {id} {:?}", String::from_utf8_lossy(payload)),
            kind::HEADERS => {
                assert!(header.has(flag::END_HEADERS));
                format!("HEADERS {id}{}", self.decode(payload))
            }
            kind::RST_STREAM => format!("RST_STREAM {id} {:?}", code(0)),
            kind::GOAWAY => format!("GOAWAY {} {:?}", number(0), code(4)),
            kind::WINDOW_UPDATE => format!("WINDOW_UPDATE {id} {}", number(0)),
            kind::SETTINGS if header.has(flag::ACK) => "SETTINGS ACK".to_owned(),
            kind::SETTINGS => {
                let entries = payload.chunks(6).map(|entry| {
                    format!(
                        " {}={}",
                        entry[1],
                        entry[2..].iter().fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte))
                    )
                });
                format!("SETTINGS{}", entries.collect::<String>())
            }
            kind::PING if header.has(flag::ACK) => format!("PING ACK {}", String::from_utf8_lossy(payload)),
            kind::PING => format!("PING {}", String::from_utf8_lossy(payload)),
            other => format!("frame {other}"),
        }
    }

    fn decode(&mut self, block: &[u8]) -> String {
        let mut text = String::new();
        let bounds = Bounds { list_bytes_max: usize::MAX, fields_max: usize::MAX };
        let decoded = self.decoder.decode(block, bounds, |name, value| {
            let _ = write!(text, " {}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        });
        decoded.expect("the session writes valid blocks");
        text
    }

    /// Says something, and gives the events and the frames that came of it.
    fn ask(&mut self, frames: &[Vec<u8>]) -> String {
        let events = self.say(frames);
        events + &self.heard()
    }

    /// The key of the stream whose request was the so-manieth.
    fn key(&self, index: usize) -> StreamKey {
        self.keys[index]
    }

    /// Answers a request with a small page, and releases it.
    fn answer(&mut self, key: StreamKey) {
        self.respond(key, 200, &[], true);
        self.session.release(key);
    }

    /// Responds with a status and fields, and nothing else.
    fn respond(&mut self, key: StreamKey, status: u16, fields: &[(&str, &str)], ended: bool) {
        let fields = lines(fields);
        let head = ResponseHead::own(status, fields.all());
        self.session.respond(key, &head, FieldEdits::NONE, FieldsRef::default(), None, ended);
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }
}

const CODES: [Code; 14] = [
    Code::NoError,
    Code::ProtocolError,
    Code::InternalError,
    Code::FlowControlError,
    Code::SettingsTimeout,
    Code::StreamClosed,
    Code::FrameSizeError,
    Code::RefusedStream,
    Code::Cancel,
    Code::CompressionError,
    Code::ConnectError,
    Code::EnhanceYourCalm,
    Code::InadequateSecurity,
    Code::Http11Required,
];

#[test]
fn the_session_speaks_first() {
    let mut peer = Peer::before_preface(&small());
    assert_eq!(peer.heard(), "SETTINGS 3=4 4=70000 6=1000 8=1 9=1\nWINDOW_UPDATE 0 34465\n");
}

#[test]
fn the_preface_may_come_in_pieces() {
    let mut peer = Peer::before_preface(&small());
    for byte in PREFACE {
        assert_eq!(peer.say(&[vec![*byte]]), "");
    }
    assert_eq!(peer.say(&[settings(&[]), get(1)]), "request 1 ended\n");
}

#[test]
fn anything_but_the_preface_ends_the_session_at_its_first_byte() {
    for wrong in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nXX"] {
        let mut peer = Peer::before_preface(&small());
        peer.heard();
        assert_eq!(peer.ask(&[wrong.to_vec()]), "fatal ProtocolError\nGOAWAY 0 ProtocolError\n");
        assert_eq!(peer.ask(&[]), "fatal ProtocolError\n", "a dead session stays dead, and says so once");
    }
}

#[test]
fn the_first_frame_is_the_peers_settings() {
    for first in [get(1), ping(b"12345678"), frame(kind::SETTINGS, flag::ACK, 0, &[])] {
        let mut peer = Peer::before_preface(&small());
        peer.heard();
        assert_eq!(peer.ask(&[PREFACE.to_vec(), first]), "fatal ProtocolError\nGOAWAY 0 ProtocolError\n");
    }
}

#[test]
fn a_request_and_its_response() {
    let mut peer = Peer::new();
    assert_eq!(peer.ask(&[get(1)]), "request 1 ended\n");
    let key = peer.key(0);
    peer.respond(key, 200, &[("Content-Length", "5")], false);
    assert!(peer.session.room(key) >= 5);
    peer.session.data(key, 5, true).extend_from_slice(b"hello");
    peer.session.release(key);
    assert_eq!(peer.heard(), "HEADERS 1 :status=200 content-length=5\nDATA 1 \"hello\" ended\n");
    assert_eq!(peer.session.streams(), 0);
}

#[test]
fn a_body_comes_in_pieces_without_its_padding() {
    let mut peer = Peer::new();
    assert_eq!(peer.say(&[post(1)]), "request 1\n");
    let padded = frame(kind::DATA, flag::PADDED | flag::END_STREAM, 1, b"\x03hello\0\0\0");
    assert_eq!(peer.say(&[padded[..9].to_vec()]), "", "the length of the padding is missing");
    assert_eq!(peer.say(&[padded[9..12].to_vec()]), "data 1 \"he\"\n");
    assert_eq!(peer.say(&[padded[12..15].to_vec()]), "data 1 \"llo\" ended\n");
    assert_eq!(peer.say(&[padded[15..].to_vec(), ping(b"12345678")]), "");
    assert_eq!(peer.heard(), "PING ACK 12345678\n");
}

#[test]
fn dropped_content_with_padding_does_not_hold_up_what_follows() {
    let mut peer = Peer::new();
    peer.say(&[post(1)]);
    peer.answer(peer.key(0));
    peer.heard();
    let padded = frame(kind::DATA, flag::PADDED | flag::END_STREAM, 1, b"\x03hello\0\0\0");
    assert_eq!(peer.ask(&[padded, ping(b"12345678")]), "PING ACK 12345678\n");
}

#[test]
fn keys_of_the_past_do_nothing() {
    let mut peer = Peer::new();
    peer.say(&[get(1)]);
    let old = peer.key(0);
    peer.session.mark(old, 7);
    assert_eq!(peer.session.user(old), 7);
    peer.answer(old);
    peer.say(&[get(3)]);
    let new = peer.key(1);
    assert_eq!((old.slot(), old == new), (new.slot(), false));
    peer.heard();
    peer.session.mark(old, 9);
    peer.respond(old, 404, &[], true);
    assert_eq!(peer.session.room(old), 0);
    peer.session.data(old, 3, true).extend_from_slice(b"abc");
    peer.session.trailers(old, lines(&[("a", "b")]).all());
    peer.session.end(old);
    peer.session.reset(old, Code::Cancel);
    peer.session.consumed(old, 100);
    peer.session.wait(old);
    peer.session.release(old);
    assert_eq!((peer.heard().as_str(), peer.session.streams(), peer.session.user(new)), ("", 1, 0));
    assert_eq!((peer.session.user(old), peer.session.next_writable()), (0, None));
}

/// Memory behind a session, but for the tables of HPACK.
fn heap_bytes(session: &Session) -> usize {
    let fragments = session.fragments.as_ref().map_or(0, |fragments| fragments.room_bytes());
    session.out.capacity()
        + session.sink.capacity()
        + session.streams.room_bytes()
        + fragments
        + session.early.room_bytes()
}

#[test]
fn nothing_is_written_behind_the_end() {
    let mut peer = Peer::new();
    peer.say(&[get(1), post(3)]);
    peer.respond(peer.key(0), 200, &[], false);
    peer.session.wait(peer.key(0));
    peer.heard();
    assert_eq!(peer.ask(&[data(5, false, b"x")]), "fatal ProtocolError\nGOAWAY 3 ProtocolError\n");
    peer.session.data(peer.key(0), 1, true).push(b'x');
    peer.respond(peer.key(1), 200, &[], false);
    peer.session.go_away();
    peer.session.release(peer.key(0));
    peer.session.release(peer.key(1));
    assert_eq!((peer.heard().as_str(), peer.session.next_writable(), peer.session.streams()), ("", None, 0));
    assert!(peer.session.is_over());
}

#[test]
fn a_session_at_work_takes_no_new_memory() {
    let mut peer = Peer::with(&Settings::default());
    let mut held = 0;
    for round in 0..100 {
        peer.say(&(0..32).map(|count| get(2 * (32 * round + count) + 1)).collect::<Vec<_>>());
        for key in std::mem::take(&mut peer.keys) {
            peer.answer(key);
        }
        peer.session.out().clear();
        assert!(round < 2 || heap_bytes(&peer.session) == held);
        held = heap_bytes(&peer.session);
    }
}

#[test]
fn an_idle_session_is_small() {
    // The tables of HPACK are bounded by their own tests; buffers are empty until something comes.
    let own = size_of::<Session>() - size_of::<hpack::Encoder>() - size_of::<Decoder>();
    assert!(own <= 512, "{own} bytes, and {} + {}", size_of::<hpack::Encoder>(), size_of::<Decoder>());
    assert!(size_of::<streams::Stream>() <= 64, "{} bytes", size_of::<streams::Stream>());
    let mut peer = Peer::with(&Settings::default());
    for id in 0..100 {
        peer.say(&[get(2 * id + 1)]);
    }
    for index in 0..100 {
        peer.answer(peer.key(index));
    }
    *peer.session.out() = Vec::new();
    assert_eq!(heap_bytes(&peer.session), 0, "no stream is open, and nothing waits");
    peer.say(&[get(201)]);
    peer.answer(peer.key(100));
    peer.heard();
    peer.session.out().reserve(100);
    assert!(heap_bytes(&peer.session) > 100, "a few streams and what is written stay");
    peer.session.shrink();
    assert_eq!(heap_bytes(&peer.session), 0);
}
