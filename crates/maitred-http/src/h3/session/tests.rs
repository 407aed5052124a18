//! A scripted client: bytes of streams in, and what came of them as lines of text.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::streams::SECTION_BYTES_MAX;
use super::*;
use crate::fields::{FieldEdits, FieldsRef};
use crate::h3::frame::{Place, kind};
use crate::h3::qpack::{Bounds, Decoder, Encoder};
use crate::h3::reader::{Event as Frame, Reader};
use crate::request::RequestHead;
use crate::response::ResponseHead;

mod attacks;
mod control;
mod leaving;
mod priorities;
mod properties;
mod requests;
mod responses;

/// One frame.
pub(super) fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::put_header(&mut out, kind, payload.len() as u64);
    out.extend_from_slice(payload);
    out
}

fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = Vec::new();
    Encoder::begin(&mut section);
    fields.iter().for_each(|(name, value)| Encoder::field(name.as_bytes(), value.as_bytes(), &mut section));
    section
}

/// A HEADERS frame of these fields.
fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    frame(kind::HEADERS, &section(fields))
}

fn data(content: &[u8]) -> Vec<u8> {
    frame(kind::DATA, content)
}

/// A frame whose payload is an integer.
fn number(kind: u64, number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    frame::put_identifier(&mut out, kind, number);
    out
}

/// A frame that says the priority of a request.
fn urgent(id: u64, value: &str) -> Vec<u8> {
    let mut payload = Vec::new();
    varint::write(&mut payload, id);
    payload.extend_from_slice(value.as_bytes());
    frame(kind::PRIORITY_UPDATE_REQUEST, &payload)
}

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/")];
const POST: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "https"), (":authority", "a.example"), (":path", "/")];
/// An extended CONNECT (9220-3).
const TUNNEL: [(&str, &str); 5] = [
    (":method", "CONNECT"),
    (":protocol", "websocket"),
    (":scheme", "https"),
    (":authority", "a.example"),
    (":path", "/"),
];

/// The fields of a request with one more.
fn with<'f>(fields: &[(&'f str, &'f str)], name: &'f str, value: &'f str) -> Vec<u8> {
    headers(&[fields, &[(name, value)]].concat())
}

/// Small, so that tests reach them.
fn small() -> Settings {
    Settings {
        streams_max: 4,
        header_list_bytes_max: 1000,
        header_count_max: 16,
        floods: Floods {
            resets_max: 10,
            stream_errors_max: 10,
            priorities_max: 20,
            ignored_max: 10,
            ..Floods::default()
        },
        ..Settings::default()
    }
}

/// The control stream of the client.
const CONTROL: u64 = 2;

/// The session, and the client that it talks with.
struct Client {
    session: Session,
    now: Instant,
    head: RequestHead,
    /// Identifiers of the streams that were opened and not refused, and their keys.
    keys: BTreeMap<u64, StreamKey>,
    opened: Option<u64>,
    /// The server's control stream, behind its type.
    control: Reader,
    /// What has come on the request streams.
    readers: BTreeMap<u64, Reader>,
    /// Streams of which QUIC takes nothing.
    stuck: BTreeSet<u64>,
}

impl Client {
    /// After SETTINGS of both sides.
    fn new() -> Self {
        Self::with(&small())
    }

    fn with(settings: &Settings) -> Self {
        let mut client = Self::before_settings(settings);
        assert_eq!(client.uni(CONTROL, &[&[0][..], &frame(kind::SETTINGS, &[])].concat(), false), "");
        client.heard();
        client
    }

    fn before_settings(settings: &Settings) -> Self {
        let now = Instant::now();
        let mut session = Session::new(settings, now);
        let mut control = Reader::new(Place::Control, Side::Server, 0);
        let first = session.take_control();
        assert_eq!(first[0], 0, "the type of a control stream");
        let mut at = 0;
        assert!(matches!(control.next(&first[1..], &mut at), Ok(Some(Frame::Settings(_)))));
        Self {
            session,
            now,
            head: RequestHead::default(),
            keys: BTreeMap::new(),
            opened: None,
            control,
            readers: BTreeMap::new(),
            stuck: BTreeSet::new(),
        }
    }

    /// Opens streams up to this one.
    fn open(&mut self, id: u64) {
        let first = self.opened.map_or(0, |last| last + 4);
        for id in (first..=id).step_by(4) {
            self.opened = Some(id);
            if let Some(key) = self.session.open(id) {
                self.keys.insert(id, key);
            }
        }
    }

    fn key(&self, id: u64) -> StreamKey {
        self.keys[&id]
    }

    fn of(&self, key: StreamKey) -> u64 {
        let found = self.keys.iter().find(|(_, known)| **known == key);
        *found.expect("a stream that is known").0
    }

    /// Bytes on a request stream, which is opened if it is not; the events, a line each.
    fn say(&mut self, id: u64, frames: &[Vec<u8>], ended: bool) -> String {
        self.open(id);
        let Some(key) = self.keys.get(&id).copied() else { return String::new() };
        let (input, mut at, mut lines) = (frames.concat(), 0, String::new());
        let mut head = std::mem::take(&mut self.head);
        loop {
            let event = self.session.receive(self.now, key, (&input, &mut at), ended, &mut head);
            match event {
                Ok(None) => break,
                Ok(Some(event)) => self.describe_event(&event, &mut lines),
                Err(error) => {
                    let _ = writeln!(lines, "fatal {:?}", error.code);
                    break;
                }
            }
            self.session.streams.check();
        }
        self.head = head;
        self.session.streams.check();
        lines
    }

    fn describe_event(&mut self, event: &Event<'_>, lines: &mut String) {
        let end = |ended: &bool| if *ended { " ended" } else { "" };
        let _ = match event {
            Event::Request { stream, ended } => {
                self.session.mark(*stream, 100 + self.of(*stream) as u32);
                writeln!(lines, "request {}{}", self.of(*stream), end(ended))
            }
            Event::Refused { status, reason } => writeln!(lines, "refused {status:?} {reason}"),
            Event::Data { stream, bytes, ended } if bytes.len() > 20 => {
                writeln!(lines, "data {} {} bytes{}", self.of(*stream), bytes.len(), end(ended))
            }
            Event::Data { stream, bytes, ended } => {
                let text = String::from_utf8_lossy(bytes);
                writeln!(lines, "data {} {text:?}{}", self.of(*stream), end(ended))
            }
            Event::Trailers { stream, fields } => {
                let _ = write!(lines, "trailers {}", self.of(*stream));
                for (name, value) in fields.all().iter() {
                    let _ = write!(
                        lines,
                        " {}={}",
                        String::from_utf8_lossy(name),
                        String::from_utf8_lossy(value)
                    );
                }
                writeln!(lines)
            }
            Event::Reset { stream, user } => {
                writeln!(lines, "reset {} user {user}", self.of(*stream))
            }
        };
    }

    /// Bytes on a unidirectional stream; the error that came of them.
    fn uni(&mut self, id: u64, bytes: &[u8], ended: bool) -> String {
        match self.session.receive_unidirectional(self.now, id, bytes, ended) {
            Ok(()) => String::new(),
            Err(error) => format!("fatal {:?}", error.code),
        }
    }

    /// Frames on the control stream.
    fn tell(&mut self, frames: &[Vec<u8>]) -> String {
        self.uni(CONTROL, &frames.concat(), false)
    }

    /// The client resets a stream, or stops it.
    fn lose(&mut self, id: u64) -> String {
        let mut lines = String::new();
        match self.session.lose(self.now, self.key(id)) {
            Ok(Some(event)) => self.describe_event(&event, &mut lines),
            Ok(None) => {}
            Err(error) => _ = writeln!(lines, "fatal {:?}", error.code),
        }
        self.session.streams.check();
        lines
    }

    fn actions(&mut self) -> String {
        let mut lines = String::new();
        while let Some(action) = self.session.take_action() {
            let _ = match action {
                Action::Stop { id, code } => writeln!(lines, "stop {id} {code:?}"),
                Action::Reset { id, code } => writeln!(lines, "abort {id} {code:?}"),
            };
        }
        lines
    }

    /// What the session has for its client since this was asked last: frames of its control stream, actions, and frames of
    /// responses, a line each.
    fn heard(&mut self) -> String {
        let mut lines = String::new();
        let (control, mut at) = (self.session.take_control(), 0);
        while let Some(event) = self.control.next(&control, &mut at).expect("valid frames") {
            let _ = match event {
                Frame::GoAway(id) => writeln!(lines, "GOAWAY {id}"),
                other => writeln!(lines, "{other:?}"),
            };
        }
        lines += &self.actions();
        while let Some(unsent) = self.session.take_unsent() {
            assert_eq!(self.keys.get(&unsent.id), Some(&unsent.stream));
            self.read(&unsent, &mut lines);
            self.session.hold(unsent.stream, self.stuck.contains(&unsent.id));
            self.session.streams.check();
        }
        lines
    }

    fn read(&mut self, unsent: &Unsent, lines: &mut String) {
        let id = unsent.id;
        let new = || Reader::new(Place::Request, Side::Server, SECTION_BYTES_MAX);
        let (reader, mut at) = (self.readers.entry(id).or_insert_with(new), 0);
        while let Some(event) = reader.next(&unsent.bytes, &mut at).expect("valid frames") {
            let _ = match event {
                Frame::Headers { section, .. } => writeln!(lines, "HEADERS {id}{}", decoded(&section)),
                Frame::Data(bytes) if bytes.len() > 20 => {
                    writeln!(lines, "DATA {id} {} bytes", bytes.len())
                }
                Frame::Data(bytes) => writeln!(lines, "DATA {id} {:?}", String::from_utf8_lossy(bytes)),
                other => panic!("{other:?}"),
            };
        }
        if unsent.ended {
            assert_eq!(reader.finish(), Ok(()));
            let _ = writeln!(lines, "end {id}");
        }
    }

    /// Says something on a request stream, and gives the events and what was heard.
    fn ask(&mut self, id: u64, frames: &[Vec<u8>], ended: bool) -> String {
        let events = self.say(id, frames, ended);
        events + &self.heard()
    }

    fn get(&mut self, id: u64) {
        assert_eq!(self.say(id, &[headers(&GET)], true), format!("request {id} ended\n"));
    }

    fn post(&mut self, id: u64) {
        assert_eq!(self.say(id, &[headers(&POST)], false), format!("request {id}\n"));
    }

    /// Responds with a status and fields, and nothing else.
    fn respond(&mut self, id: u64, status: u16, fields: &[(&str, &str)], ended: bool) {
        let fields = lines(fields);
        let head = ResponseHead::own(status, fields.all());
        self.session.respond(self.key(id), &head, FieldEdits::NONE, FieldsRef::default(), None, ended);
        self.session.streams.check();
    }

    fn write(&mut self, id: u64, content: &[u8], ended: bool) {
        assert!(self.session.room(self.key(id)) >= content.len());
        self.session.data(self.key(id), content.len(), ended).extend_from_slice(content);
        self.session.streams.check();
    }

    fn release(&mut self, id: u64) {
        self.session.release(self.key(id));
        self.session.streams.check();
    }

    /// Answers with a small page, and releases the stream.
    fn answer(&mut self, id: u64) {
        self.respond(id, 200, &[], true);
        self.release(id);
    }

    fn reset(&mut self, id: u64, code: Code) {
        self.session.reset(self.key(id), code);
        self.session.streams.check();
    }

    /// QUIC takes what was held of a stream.
    fn unstick(&mut self, id: u64) {
        self.stuck.remove(&id);
        self.session.hold(self.key(id), false);
        self.session.streams.check();
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }
}

/// The fields of a section of a response.
fn decoded(section: &[u8]) -> String {
    let mut text = String::new();
    let bounds = Bounds { list_bytes_max: usize::MAX, fields_max: usize::MAX };
    let outcome = Decoder::new(0, 0).decode(0, section, bounds, |name, value| {
        let _ = write!(text, " {}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(value));
    });
    outcome.expect("the session writes valid sections");
    text
}

/// Fields of a response.
fn lines(fields: &[(&str, &str)]) -> FieldLines {
    let mut lines = FieldLines::default();
    fields.iter().for_each(|(name, value)| lines.push(name.as_bytes(), value.as_bytes()));
    lines
}

#[test]
fn the_session_speaks_first() {
    let announced = Session::new(&small(), Instant::now()).take_control();
    assert_eq!(announced, [0, 4, 5, 6, 0x43, 0xe8, 8, 1], "its type, and SETTINGS");
}

#[test]
fn a_request_is_answered_and_its_slot_is_free_when_all_was_taken() {
    let mut client = Client::new();
    client.get(0);
    assert_eq!(client.head.request_line(), Some(("GET", "/")));
    client.respond(0, 200, &[("Content-Length", "5")], false);
    client.write(0, b"hello", true);
    client.release(0);
    assert_eq!(
        (client.session.streams(), client.session.id(client.key(0))),
        (1, Some(0)),
        "it was not taken"
    );
    assert_eq!(client.heard(), "HEADERS 0 :status=200 content-length=5\nDATA 0 \"hello\"\nend 0\n");
    assert_eq!((client.session.streams(), client.session.id(client.key(0))), (0, None));
    assert_eq!((client.heard(), client.session.queued()), (String::new(), 0));
}
