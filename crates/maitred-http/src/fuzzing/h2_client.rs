//! Sessions with a server of HTTP/2: whatever the server sends, and however it arrives, the same comes of it; a caller that
//! takes nothing is held to hold no more than its windows allow.

#![allow(clippy::expect_used, reason = "an invariant that does not hold is a panic")]

use std::collections::BTreeMap;
use std::time::Instant;

use crate::fields::FieldLines;
use crate::h2::frame::{self, HEADER_BYTES, flag};
use crate::h2::{CONTROL_BYTES_MAX, Event, Opening, SENT_AHEAD_BYTES, Session, Settings};
use crate::request::RequestHead;
use crate::response::FramedHead;

/// Small, so that short inputs reach them.
const SETTINGS: Settings = Settings { connect_protocol: false, ..super::h2::SETTINGS };

/// Requests that are sent before anything comes of them.
const REQUESTS: u32 = 3;

/// A byte that chooses what the caller does, one that chooses how the bytes are split, and what the server sends (behind its
/// settings, or instead of them).
pub fn h2_client(data: &[u8]) {
    let [choice, part_bytes, input @ ..] = data else { return };
    let mut bytes = Vec::new();
    if choice & 1 == 0 {
        frame::put_settings(&mut bytes, 0, &[]);
        frame::put_settings(&mut bytes, flag::ACK, &[]);
    }
    bytes.extend_from_slice(input);
    let whole = run(*choice, &bytes, usize::MAX);
    let parts = run(*choice, &bytes, usize::from(*part_bytes).max(1));
    assert_eq!(whole, parts, "the way the bytes arrive changes what comes of them");
}

/// What has come of one request.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    heads: Vec<FramedHead>,
    content: Vec<u8>,
    trailers: Option<FieldLines>,
    ended: bool,
    reset: bool,
}

/// What has come of all of them, by the marks of their streams; whether the session has ended.
type All = (BTreeMap<u32, Seen>, bool);

fn run(choice: u8, bytes: &[u8], part_bytes: usize) -> All {
    let now = Instant::now();
    let mut session = Session::towards_server(&SETTINGS, now);
    let (mut seen, mut held) = (BTreeMap::new(), BTreeMap::new());
    for user in 0..REQUESTS {
        let method = if choice & 2 != 0 && user == 0 { "HEAD" } else { "POST" };
        let head = format!("{method} /{user} HTTP/1.1\r\nHost: a\r\n\r\n");
        let ended = choice & 4 != 0;
        let opening = Opening { head: head.as_bytes(), replaced: &[], scheme: "http", ended, user };
        if session.open(opening).is_some() {
            seen.insert(user, Seen::default());
        }
    }
    let (mut pending, mut head) = (Vec::new(), RequestHead::default());
    for part in bytes.chunks(part_bytes.min(bytes.len()).max(1)) {
        pending.extend_from_slice(part);
        let mut at = 0;
        loop {
            let out = session.out();
            assert!(out.len() <= SENT_AHEAD_BYTES + 2 * CONTROL_BYTES_MAX, "{} bytes to be sent", out.len());
            out.clear();
            match session.next(now, &pending, &mut at, &mut head) {
                Ok(Some(event)) => take(&mut session, event, choice & 8 != 0, &mut seen, &mut held),
                Ok(None) => break,
                Err(_) => return (seen, true),
            }
        }
        pending.drain(..at);
        let most = HEADER_BYTES + SETTINGS.frame_bytes_max as usize;
        assert!(pending.len() < most, "more than one frame is held");
    }
    (seen, false)
}

fn take(
    session: &mut Session,
    event: Event<'_>,
    consumes: bool,
    seen: &mut BTreeMap<u32, Seen>,
    held: &mut BTreeMap<u32, usize>,
) {
    let mut of = |session: &Session, stream| {
        let user = session.user(stream);
        (user, seen.remove(&user).expect("a stream that was opened, and not released"))
    };
    let (user, known) = match event {
        Event::Response { stream, head } => {
            let (user, mut known) = of(session, stream);
            let last = known.heads.last().is_none_or(|head| head.status < 200);
            assert!(last && !known.ended && known.content.is_empty(), "a head behind the final one");
            known.ended = head.ended;
            known.heads.push(*head);
            (user, known)
        }
        Event::Data { stream, bytes, ended } => {
            let (user, mut known) = of(session, stream);
            assert!(!known.ended && known.heads.last().is_some_and(|head| head.status >= 200), "no head");
            known.content.extend_from_slice(bytes);
            known.ended = ended;
            let held = held.entry(user).or_default();
            *held += bytes.len();
            assert!(*held <= SETTINGS.stream_window as usize, "the server may not send so much");
            if consumes {
                *held = 0;
                session.consumed(stream, bytes.len());
            }
            (user, known)
        }
        Event::Trailers { stream, fields } => {
            let (user, mut known) = of(session, stream);
            assert!(!known.ended && known.trailers.is_none(), "a second end");
            (known.trailers, known.ended) = (Some(*fields), true);
            (user, known)
        }
        Event::Reset { stream, user } => {
            let (found, mut known) = of(session, stream);
            assert_eq!(found, user, "another stream's mark");
            known.reset = true;
            session.leave(stream);
            (user, known)
        }
        Event::Writable | Event::PeerLeaves => return,
        Event::Request { .. } | Event::Refused { .. } => panic!("a server has sent a request"),
    };
    seen.insert(user, known);
}
