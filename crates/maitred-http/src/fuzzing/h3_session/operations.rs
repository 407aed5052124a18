//! Everything that a caller can do, in any order, with books that are kept here independently.

use std::collections::BTreeSet;
use std::time::Instant;

use super::SETTINGS;
use crate::fields::{FieldEdits, FieldLines, FieldsRef};
use crate::floods::Floods;
use crate::framed::StreamKey;
use crate::h3::frame::{self, Place, Side, kind};
use crate::h3::qpack::{BOUNDS, Decoder, Encoder};
use crate::h3::reader::{Event as Frame, Reader};
use crate::h3::varint;
use crate::h3::{Action, Code, Error, Event, Session, Settings, Unsent};
use crate::request::RequestHead;
use crate::response::ResponseHead;

/// What was written to a stream, and what has come out of it.
struct Stream {
    id: u64,
    key: StreamKey,
    /// Bytes that were written and not given out.
    pending: usize,
    sections: usize,
    content: Vec<u8>,
    ended: bool,
    out: Vec<u8>,
    out_ended: bool,
    held: bool,
    reset: bool,
    released: bool,
}

struct Books {
    session: Session,
    now: Instant,
    streams: Vec<Stream>,
    opened: u64,
    /// What the client was told of streams, each once.
    stopped: BTreeSet<u64>,
    aborted: BTreeSet<u64>,
}

/// Two bytes for each operation: which one, and on which stream.
pub(super) fn operations(input: &[u8]) {
    let now = Instant::now();
    // Limits of floods would end most inputs early.
    let session = Session::new(&Settings { floods: Floods::default(), ..SETTINGS }, now);
    let (stopped, aborted) = (BTreeSet::new(), BTreeSet::new());
    let mut books = Books { session, now, streams: Vec::new(), opened: 0, stopped, aborted };
    let first = [&[0][..], &[kind::SETTINGS as u8, 0]].concat();
    books.session.receive_unidirectional(now, 2, &first, false).expect("valid settings");
    for pair in input.chunks_exact(2) {
        let [what, of] = *pair else { return };
        books.act(what, of);
        books.check();
    }
    books.finish();
}

impl Books {
    fn act(&mut self, what: u8, of: u8) {
        match what % 16 {
            0 | 1 => return self.open(of),
            2 => return self.take(what >> 4),
            3 => return self.settle(what >> 4),
            4 => {
                let value = [b'u', b'=', b'0' + (what >> 4) % 8];
                let mut payload = Vec::new();
                varint::write(&mut payload, u64::from(of % 32) * 4);
                payload.extend_from_slice(&value);
                let mut bytes = Vec::new();
                frame::put_header(&mut bytes, kind::PRIORITY_UPDATE_REQUEST, payload.len() as u64);
                bytes.extend(payload);
                let told = self.session.receive_unidirectional(self.now, 2, &bytes, false);
                assert_eq!(told.err(), self.session.fatal());
                return self.note_actions();
            }
            _ => {}
        }
        if self.streams.is_empty() {
            return;
        }
        // Mostly a late one, which is not over.
        let (last, of) = (self.streams.len() - 1, usize::from(of));
        let index = if of < 200 { last - (of % 4).min(last) } else { of % (last + 1) };
        let before = self.session.queued();
        self.act_on(index, what);
        let (after, stream) = (self.session.queued(), &mut self.streams[index]);
        if self.session.fatal().is_some() {
            return;
        }
        if after >= before {
            stream.pending += after - before;
        } else {
            assert_eq!(before - after, stream.pending, "all that is pending is dropped");
            (stream.pending, stream.reset) = (0, true);
        }
        self.note_actions();
    }

    /// An operation on a stream, which may be over.
    fn act_on(&mut self, index: usize, what: u8) {
        let (session, now, choice) = (&mut self.session, self.now, what >> 4);
        let stream = &mut self.streams[index];
        let (key, ended) = (stream.key, choice & 1 != 0);
        match what % 16 {
            5..=10 => stream.write(session, what),
            11 => session.end(key),
            12 => session.release(key),
            13 => session.reset(key, Code::RequestCancelled),
            14 => {
                let lost = session.lose(now, key);
                assert!(!matches!(lost, Ok(Some(_))) || !(stream.released || stream.reset));
            }
            _ => {
                let bytes: &[u8] = [
                    &b"\0\x01x"[..],
                    b"",
                    b"\x21\x01x",
                    b"\0\0",
                    b"\x01\x02\0\0",
                    b"\x01\x04\0\0\x21",
                    b"\x04\0",
                ][usize::from(choice / 2) % 7];
                let (mut at, mut head) = (0, RequestHead::default());
                while let Ok(Some(event)) = session.receive(now, key, (bytes, &mut at), ended, &mut head) {
                    assert!(!matches!(event, Event::Request { .. } | Event::Refused { .. }));
                    assert!(!(stream.released || stream.reset), "it is over");
                    stream.reset |= matches!(event, Event::Reset { .. });
                }
            }
        }
        stream.released |= what % 16 == 12;
        stream.reset |= matches!(what % 16, 13 | 14);
        stream.ended |= what % 16 == 11;
    }

    /// A stream is opened, and has a request.
    fn open(&mut self, choice: u8) {
        let id = self.opened;
        self.opened += 4;
        let Some(key) = self.session.open(id) else { return self.note_actions() };
        let start: &[(&str, &str)] = match choice % 4 {
            0 => &[(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https")],
            1 => &[(":method", "POST"), (":scheme", "https"), ("content-length", "2")],
            _ => &[(":method", "GET"), (":scheme", "https")],
        };
        let mut section = Vec::new();
        Encoder::begin(&mut section);
        let (pseudo, others) =
            start.split_at(if start.len() == 3 && start[1].0 == ":protocol" { 3 } else { 2 });
        let common = [(":authority", "a"), (":path", "/")];
        for (name, value) in pseudo.iter().chain(&common).chain(others) {
            Encoder::field(name.as_bytes(), value.as_bytes(), &mut section);
        }
        let mut bytes = Vec::new();
        frame::put_header(&mut bytes, kind::HEADERS, section.len() as u64);
        bytes.extend(section);
        let (ended, mut at) = (choice & 64 != 0 && choice % 4 > 1, 0);
        let event =
            self.session.receive(self.now, key, (&bytes, &mut at), ended, &mut RequestHead::default());
        match event {
            Ok(event) => assert_eq!(event, Some(Event::Request { stream: key, ended })),
            Err(error) => return assert_eq!(Some(error), self.session.fatal()),
        }
        self.session.mark(key, id as u32 + 1);
        assert!(!self.streams.iter().any(|stream| stream.key == key), "a key is used once");
        let (content, out) = (Vec::new(), Vec::new());
        let stream = Stream {
            id,
            key,
            pending: 0,
            sections: 0,
            content,
            ended: false,
            out,
            out_ended: false,
            held: false,
            reset: false,
            released: false,
        };
        self.streams.push(stream);
    }

    /// QUIC takes what the next stream has, or holds it.
    fn take(&mut self, choice: u8) {
        if let Some(unsent) = self.session.take_unsent() {
            self.note_unsent(unsent, choice & 1 != 0);
        }
    }

    fn note_unsent(&mut self, unsent: Unsent, holds: bool) {
        let stream = self.streams.iter_mut().find(|stream| stream.key == unsent.stream).expect("it is known");
        assert!(!stream.reset && !stream.held, "there is nothing to be given out");
        assert_eq!((unsent.id, unsent.bytes.len()), (stream.id, stream.pending));
        assert!(!stream.out_ended || (unsent.bytes.is_empty() && !unsent.ended), "bytes behind the end");
        stream.pending = 0;
        stream.out.extend(unsent.bytes);
        stream.out_ended |= unsent.ended;
        stream.held = holds;
        self.session.hold(unsent.stream, holds);
    }

    /// What concerns no stream, or all of them.
    fn settle(&mut self, choice: u8) {
        match choice {
            0..5 => {
                for stream in &mut self.streams {
                    stream.held = false;
                    self.session.hold(stream.key, false);
                }
            }
            5 => self.session.go_away(),
            6 | 7 => self.session.limit_streams(u32::from(choice - 5)),
            8 | 9 => self.session.refuse_streams(choice == 8),
            10 => self.session.shrink(),
            11 => self.session.lose_timeout("slow"),
            _ => {
                if let Some(key) = self.session.next_writable() {
                    let stream = self.streams.iter().find(|stream| stream.key == key).expect("it is known");
                    assert!(!(stream.reset || stream.ended || stream.released || stream.held));
                }
                if let Some(stream) = self.streams.last() {
                    self.session.wait(stream.key);
                }
            }
        }
    }

    fn note_actions(&mut self) {
        while let Some(action) = self.session.take_action() {
            let (id, first) = match action {
                Action::Stop { id, .. } => (id, self.stopped.insert(id)),
                Action::Reset { id, .. } => {
                    self.streams
                        .iter_mut()
                        .filter(|stream| stream.id == id)
                        .for_each(|stream| stream.reset = true);
                    (id, self.aborted.insert(id))
                }
            };
            assert!(first && id < self.opened, "{action:?} more than once");
        }
        for stream in self.streams.iter_mut().filter(|stream| stream.reset) {
            (stream.pending, stream.held) = (0, false);
        }
    }

    fn check(&mut self) {
        if self.session.fatal().is_some() {
            for stream in &mut self.streams {
                (stream.reset, stream.pending, stream.held) = (true, 0, false);
            }
        }
        let pending = self.streams.iter().map(|stream| stream.pending).sum::<usize>();
        assert_eq!(self.session.queued(), pending);
        assert!(self.session.streams() <= SETTINGS.streams_max as usize);
        for stream in &self.streams {
            let over = stream.released && (stream.reset || (stream.out_ended && !stream.held));
            assert_eq!(
                self.session.id(stream.key),
                (!over).then_some(stream.id),
                "slots are free when they can be"
            );
            let user = if stream.released { 0 } else { stream.id as u32 + 1 };
            assert_eq!(
                (self.session.user(stream.key), self.session.is_held(stream.key)),
                (user, stream.held)
            );
        }
    }

    /// QUIC takes everything: what was written is what has come.
    fn finish(mut self) {
        self.settle(0);
        while let Some(unsent) = self.session.take_unsent() {
            self.note_unsent(unsent, false);
        }
        self.check();
        for stream in self.streams.iter().filter(|stream| !stream.reset) {
            stream.check_output().expect("valid frames");
        }
        for index in 0..self.streams.len() {
            self.session.release(self.streams[index].key);
        }
        assert_eq!((self.session.streams(), self.session.queued()), (0, 0));
    }
}

impl Stream {
    /// Writes something, or tries to.
    fn write(&mut self, session: &mut Session, what: u8) {
        let (key, choice, queued) = (self.key, what >> 4, session.queued());
        let ended = choice & 1 != 0;
        match what % 16 {
            5 => {
                let head = ResponseHead::own(
                    [200, 404, 101, 204][usize::from(choice / 2) % 4],
                    FieldsRef::default(),
                );
                session.respond(key, &head, FieldEdits::NONE, FieldsRef::default(), None, ended);
                self.sections += usize::from(session.queued() > queued);
                self.ended |= ended && session.queued() > queued;
            }
            6 => {
                let head = ResponseHead::own(
                    [103, 100, 103, 200][usize::from(choice / 2) % 4],
                    FieldsRef::default(),
                );
                session.interim(key, &head);
                self.sections += usize::from(session.queued() > queued);
            }
            7 | 8 => {
                let bytes = session.room(key).min(usize::from(choice) * 3000 + 1);
                if bytes > 0 {
                    assert!(!self.reset && !self.ended && !self.released && !self.held);
                    session.data(key, bytes, ended).extend(std::iter::repeat_n(choice, bytes));
                    self.content.extend(std::iter::repeat_n(choice, bytes));
                    self.ended |= ended;
                    assert!(session.queued() > queued + bytes);
                }
            }
            9 => {
                let bytes = session.room(key).min(usize::from(choice) * 100);
                let written =
                    session.fill(key, |_| ended, |out| out.extend(std::iter::repeat_n(choice, bytes)));
                self.content.extend(std::iter::repeat_n(choice, written));
                self.ended |= ended && written > 0;
            }
            _ => {
                let mut fields = FieldLines::default();
                fields.push(b"a", b"b");
                session.trailers(key, fields.all());
                self.sections += usize::from(session.queued() > queued);
                self.ended |= session.queued() > queued;
            }
        }
    }

    fn check_output(&self) -> Result<(), Error> {
        let mut reader = Reader::new(Place::Request, Side::Server, u32::MAX);
        let (mut at, mut sections, mut content) = (0, 0, Vec::new());
        while let Some(event) = reader.next(&self.out, &mut at)? {
            match event {
                Frame::Headers { section, .. } => {
                    Decoder::new(0, 0).decode(0, &section, BOUNDS, |_, _| ())?;
                    sections += 1;
                }
                Frame::Data(bytes) => content.extend_from_slice(bytes),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((sections, self.out_ended), (self.sections, self.ended));
        assert!(content == self.content, "content has changed");
        if sections > 0 { reader.finish() } else { Ok(()) }
    }
}
