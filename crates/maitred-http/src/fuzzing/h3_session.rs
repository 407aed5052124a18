//! Sessions of HTTP/3: whatever a client sends, on whatever streams and in whatever pieces, the same comes of it; and whatever
//! the caller does in whatever order, what it has written comes out.

#![allow(clippy::expect_used, reason = "an invariant that does not hold is a panic")]

mod operations;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use crate::fields::{FieldEdits, FieldLines, FieldsRef};
use crate::floods::Floods;
use crate::framed::StreamKey;
use crate::h3::{Action, Code, Error, Event, Session, Settings};
use crate::request::RequestHead;
use crate::response::ResponseHead;
use operations::operations;

/// Small, so that short inputs reach them.
const SETTINGS: Settings = Settings {
    streams_max: 4,
    header_list_bytes_max: 500,
    header_count_max: 10,
    connect_protocol: true,
    floods: Floods {
        resets_max: 5,
        stream_errors_max: 5,
        pings_max: 5,
        settings_max: 5,
        empty_frames_max: 5,
        window_updates_max: 5,
        priorities_max: 10,
        ignored_max: 10,
    },
};

/// What the caller does, from the first byte: bytes of a client in pieces, or operations.
pub fn h3_session(data: &[u8]) {
    let [choice, input @ ..] = data else { return };
    match choice & 1 {
        0 => pieces(choice >> 1, input),
        _ => operations(input),
    }
}

/// What comes on one stream at a time.
struct Record<'d> {
    id: u64,
    bytes: &'d [u8],
    ended: bool,
}

/// A byte that chooses a stream, and says whether it ends; the number of bytes; and the bytes.
fn records(mut input: &[u8]) -> Vec<Record<'_>> {
    let (mut records, mut over) = (Vec::new(), BTreeSet::new());
    while let [which, length, rest @ ..] = input {
        let (bytes, behind) = rest.split_at(usize::from(*length).min(rest.len()));
        input = behind;
        let id = match u64::from(which & 7) {
            number @ 0..5 => 4 * number,
            number => 2 + 4 * (number - 5),
        };
        let ended = which & 0x80 != 0;
        if over.contains(&id) {
            continue;
        }
        if ended {
            over.insert(id);
        }
        records.push(Record { id, bytes, ended });
    }
    records
}

fn pieces(choice: u8, input: &[u8]) {
    let [part_bytes, input @ ..] = input else { return };
    let records = records(input);
    let whole = Server::run(choice, &records, usize::MAX, false);
    for part_bytes in [1, usize::from(*part_bytes).max(1)] {
        let parts = Server::run(choice, &records, part_bytes, false);
        assert_eq!(whole, parts, "the way the bytes arrive changes what comes of them");
    }
    // An end that comes later is found later: a head that is refused because of it has got to the caller by then, and what was
    // answered before it comes means nothing any more.
    let missing = |seen: &Seen| matches!(seen, Seen::Refused(None, "content is missing"));
    if choice & (ANSWERS_EARLY | TUNNELS) == 0 && !whole.seen.values().flatten().any(missing) {
        assert_eq!(whole, Server::run(choice, &records, usize::MAX, true), "the way the end arrives");
    }
}

/// What has happened on a stream, in a form that does not depend on how content was cut.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Request(Option<(String, String)>),
    Refused(Option<u16>, &'static str),
    Content(Vec<u8>),
    End,
    Trailers(FieldLines),
    Reset,
}

/// What has come of it all.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    seen: BTreeMap<u64, Vec<Seen>>,
    sent: BTreeMap<u64, (Vec<u8>, bool)>,
    resets: Vec<(u64, Code)>,
    control: Vec<u8>,
    fatal: Option<Error>,
}

/// Requests are answered, and released, before they have ended.
const ANSWERS_EARLY: u8 = 1;
/// Tunnels are accepted.
const TUNNELS: u8 = 2;

/// A server in small: answers every request.
struct Server {
    choice: u8,
    session: Session,
    now: Instant,
    keys: BTreeMap<u64, StreamKey>,
    opened: u64,
    outcome: Outcome,
}

impl Server {
    fn run(choice: u8, records: &[Record<'_>], part_bytes: usize, ends_later: bool) -> Outcome {
        let now = Instant::now();
        let session = Session::new(&SETTINGS, now);
        let outcome = Outcome::default();
        let mut server = Server { choice, session, now, keys: BTreeMap::new(), opened: 0, outcome };
        for record in records {
            let mut parts: Vec<&[u8]> =
                record.bytes.chunks(part_bytes.min(record.bytes.len()).max(1)).collect();
            if parts.is_empty() || (ends_later && record.ended) {
                parts.push(&[]);
            }
            let last = parts.len() - 1;
            for (at, part) in parts.into_iter().enumerate() {
                if let Err(error) = server.take(record.id, part, record.ended && at == last) {
                    assert_eq!(server.session.fatal(), Some(error));
                    server.outcome.fatal = Some(error);
                    server.drain();
                    return server.outcome;
                }
            }
            server.drain();
        }
        server.outcome
    }

    fn take(&mut self, id: u64, part: &[u8], ended: bool) -> Result<(), Error> {
        if id % 4 == 2 {
            return self.session.receive_unidirectional(self.now, id, part, ended);
        }
        while self.opened <= id {
            if let Some(key) = self.session.open(self.opened) {
                self.keys.insert(self.opened, key);
            }
            self.opened += 4;
        }
        let Some(key) = self.keys.get(&id).copied() else { return Ok(()) };
        let (mut at, mut head) = (0, RequestHead::default());
        loop {
            let before = at;
            let event = self.session.receive(self.now, key, (part, &mut at), ended, &mut head)?;
            assert!(at >= before && at <= part.len());
            let Some(event) = event else { break };
            self.on_event(id, event, &head);
        }
        assert_eq!(at, part.len(), "bytes were left");
        Ok(())
    }

    fn on_event(&mut self, id: u64, event: Event<'_>, head: &RequestHead) {
        let key = self.keys.get(&id).copied().expect("the stream is open");
        let seen = self.outcome.seen.entry(id).or_default();
        let ended = match event {
            Event::Request { stream, ended } => {
                assert_eq!((stream, seen.is_empty()), (key, true), "one request on a stream");
                let line = head.request_line();
                let tunnels = self.choice & (ANSWERS_EARLY | TUNNELS) == TUNNELS
                    && line.is_some_and(|(method, _)| method == "CONNECT");
                seen.push(Seen::Request(line.map(|(method, target)| (method.to_owned(), target.to_owned()))));
                if tunnels {
                    answer(&mut self.session, key, 101, false);
                }
                ended
            }
            Event::Refused { status, reason } => {
                assert!(seen.is_empty(), "the caller has the stream");
                return seen.push(Seen::Refused(status, reason));
            }
            Event::Data { stream, bytes, ended } => {
                assert_eq!(stream, key);
                match seen.last_mut() {
                    Some(Seen::Content(content)) => content.extend_from_slice(bytes),
                    Some(Seen::Request(_)) if bytes.is_empty() => {}
                    Some(Seen::Request(_)) => seen.push(Seen::Content(bytes.to_vec())),
                    other => panic!("content behind {other:?}"),
                }
                ended
            }
            Event::Trailers { stream, fields } => {
                assert_eq!(stream, key);
                seen.push(Seen::Trailers(*fields));
                return answer(&mut self.session, key, 200, true);
            }
            Event::Reset { stream, user } => {
                assert_eq!((stream, user), (key, 0));
                // How much of the content has come before does depend on that.
                seen.pop_if(|last| matches!(last, Seen::Content(_)));
                seen.push(Seen::Reset);
                return self.session.release(key);
            }
        };
        if ended {
            seen.push(Seen::End);
        }
        if ended || self.choice & ANSWERS_EARLY != 0 {
            answer(&mut self.session, key, 200, true);
        }
    }

    fn drain(&mut self) {
        self.outcome.control.extend(self.session.take_control());
        while let Some(action) = self.session.take_action() {
            // What is stopped depends on whether the end has come with what was wrong.
            if let Action::Reset { id, code } = action {
                self.outcome.resets.push((id, code));
            }
        }
        while let Some(unsent) = self.session.take_unsent() {
            let (bytes, ended) = self.outcome.sent.entry(unsent.id).or_default();
            assert!(!*ended, "bytes behind the end");
            bytes.extend(unsent.bytes);
            *ended |= unsent.ended;
            self.session.hold(unsent.stream, false);
        }
        assert_eq!(self.session.queued(), 0);
    }
}

fn answer(session: &mut Session, key: StreamKey, status: u16, ended: bool) {
    let head = ResponseHead::own(status, FieldsRef::default());
    session.respond(key, &head, FieldEdits::NONE, FieldsRef::default(), None, false);
    if ended {
        session.end(key);
        session.release(key);
    }
}
