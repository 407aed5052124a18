//! A scripted client: bytes of streams in, and what came of them.

use std::time::Instant;

use super::*;
use crate::fields::{FieldEdits, FieldsRef};
use crate::h3::qpack::Encoder;
use crate::request::RequestHead;
use crate::response::ResponseHead;

/// A HEADERS frame of these fields.
fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = Vec::new();
    Encoder::begin(&mut section);
    fields.iter().for_each(|(name, value)| Encoder::field(name.as_bytes(), value.as_bytes(), &mut section));
    let mut out = Vec::new();
    frame::put_header(&mut out, frame::kind::HEADERS, section.len() as u64);
    out.extend(section);
    out
}

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/")];

#[test]
fn a_request_is_answered_and_its_slot_is_free_when_all_was_taken() {
    let now = Instant::now();
    let mut session = Session::new(&Settings::default(), now);
    assert_eq!(session.take_control()[..2], [0, 4], "the type of the stream, and SETTINGS");
    let stream = session.open(0).unwrap();
    let (mut head, mut at, input) = (RequestHead::default(), 0, headers(&GET));
    let event = session.receive(now, stream, (&input, &mut at), true, &mut head).unwrap();
    assert_eq!((event, at), (Some(Event::Request { stream, ended: true }), input.len()));
    assert_eq!(head.request_line(), Some(("GET", "/")));
    session.mark(stream, 7);
    let response = ResponseHead::own(200, FieldsRef::default());
    session.respond(stream, &response, FieldEdits::NONE, FieldsRef::default(), None, false);
    assert!(session.room(stream) > 5);
    session.data(stream, 5, true).extend_from_slice(b"hello");
    session.release(stream);
    assert_eq!(session.streams(), 1, "its response was not taken");
    let unsent = session.take_unsent().unwrap();
    assert_eq!(
        (unsent.id, unsent.ended, &unsent.bytes[unsent.bytes.len() - 7..]),
        (0, true, &b"\0\x05hello"[..])
    );
    session.hold(stream, false);
    assert_eq!((session.streams(), session.take_unsent(), session.take_action()), (0, None, None));
}
