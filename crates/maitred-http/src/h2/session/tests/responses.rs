//! Responses: heads in, frames out.

use super::*;
use crate::response::{Dropped, Fields, Received};

/// The frames of a response to GET.
fn frames_of(status: u16, fields: &[(&str, &str)], ended: bool) -> String {
    let mut peer = Peer::new();
    peer.say(&[get(1)]);
    peer.respond(peer.key(0), status, fields, ended);
    peer.heard()
}

#[test]
fn a_head_becomes_a_block() {
    let fields = [("Content-Type", "text/plain"), ("X-Odd", "a: b"), ("Empty", "")];
    assert_eq!(
        frames_of(404, &fields, true),
        "HEADERS 1 :status=404 content-type=text/plain x-odd=a: b empty= ended\n"
    );
    assert_eq!(frames_of(200, &[], false), "HEADERS 1 :status=200\n");
    assert_eq!(frames_of(999, &[], false), "HEADERS 1 :status=999\n");
}

#[test]
fn a_head_that_was_received_becomes_a_block() {
    let bytes = b"HTTP/1.1 200 Fine\r\nA: b\r\nX-Hop: c\r\nD:  e \r\n\r\n";
    let mut fields = [httparse::EMPTY_HEADER; 4];
    let mut parsed = httparse::Response::new(&mut fields);
    assert_eq!(parsed.parse(bytes), Ok(httparse::Status::Complete(bytes.len())));
    let mut dropped = Dropped::default();
    dropped.set(1);
    let received = Received::new(bytes, parsed.headers, &dropped);
    let head = ResponseHead { status: 200, reason: Some(b"Fine"), fields: Fields::Received(received) };
    let mut peer = Peer::new();
    peer.say(&[get(1)]);
    peer.session.respond(peer.key(0), &head, FieldEdits::NONE, FieldsRef::default(), None, true);
    assert_eq!(peer.heard(), "HEADERS 1 :status=200 a=b d=e ended\n");
}

#[test]
fn edits_further_fields_and_the_date_come_behind_the_fields_of_a_head() {
    let mut edits = FieldEdits::default();
    edits.set("X-Frame-Options", b"DENY");
    edits.remove("X-Powered-By");
    edits.add_if_absent("Server", b"maitred");
    edits.add_if_absent("Vary", b"Cookie");
    edits.add("Proxy-Connection", b"close");
    let fields = [("x-frame-options", "SAMEORIGIN"), ("X-POWERED-BY", "x"), ("A", "b"), ("server", "mine")];
    let (fields, further) = (lines(&fields), lines(&[("Alt-Svc", "clear"), ("Connection", "close")]));
    let head = ResponseHead::own(200, fields.all());
    let mut peer = Peer::new();
    peer.say(&[get(1), get(3)]);
    let date = Some(b"Sun, 06 Nov 1994 08:49:37 GMT");
    peer.session.respond(peer.key(0), &head, &edits, further.all(), date, false);
    assert_eq!(
        peer.heard(),
        "HEADERS 1 :status=200 a=b server=mine x-frame-options=DENY vary=Cookie alt-svc=clear \
         date=Sun, 06 Nov 1994 08:49:37 GMT\n"
    );
    peer.session.respond(peer.key(1), &head, FieldEdits::NONE, further.all(), date, true);
    assert_eq!(
        peer.heard(),
        "HEADERS 3 :status=200 x-frame-options=SAMEORIGIN x-powered-by=x a=b server=mine alt-svc=clear \
         date=Sun, 06 Nov 1994 08:49:37 GMT ended\n"
    );
}

#[test]
fn fields_of_the_connection_are_left_out() {
    let fields = [
        ("Connection", "close"),
        ("Keep-Alive", "5"),
        ("Proxy-Connection", "x"),
        ("Transfer-Encoding", "chunked"),
        ("Upgrade", "h2c"),
        ("Trailer", "x"),
        ("Sec-WebSocket-Accept", "x"),
    ];
    let sent = "HEADERS 1 :status=200 trailer=x sec-websocket-accept=x ended\n";
    assert_eq!(frames_of(200, &fields, true), sent);
}

#[test]
fn interim_heads_end_nothing() {
    let mut peer = Peer::new();
    peer.say(&[post(1)]);
    let key = peer.key(0);
    peer.session.interim(key, &ResponseHead::own(100, FieldsRef::default()));
    assert_eq!(peer.session.room(key), 0, "content needs a final head");
    let hints = lines(&[("Link", "</a>"), ("Connection", "x")]);
    peer.session.interim(key, &ResponseHead::own(103, hints.all()));
    peer.respond(key, 204, &[], true);
    peer.respond(key, 200, &[], true);
    peer.session.interim(key, &ResponseHead::own(103, hints.all()));
    assert_eq!(
        peer.heard(),
        "HEADERS 1 :status=100\nHEADERS 1 :status=103 link=</a>\nHEADERS 1 :status=204 ended\n"
    );
}

#[test]
fn a_status_that_is_none_of_a_final_response_resets_the_stream() {
    for status in [0, 20, 100, 101, 103, 199, 1000, u16::MAX] {
        for ended in [false, true] {
            assert_eq!(frames_of(status, &[("a", "b")], ended), "RST_STREAM 1 InternalError\n", "{status}");
        }
    }
    for status in [0, 99, 101, 200, 500] {
        let mut peer = Peer::new();
        peer.say(&[get(1)]);
        peer.session.interim(peer.key(0), &ResponseHead::own(status, FieldsRef::default()));
        assert_eq!(peer.heard(), "RST_STREAM 1 InternalError\n", "{status}");
    }
}

#[test]
fn a_block_that_is_too_large_for_a_frame_goes_on() {
    let mut peer = Peer::new();
    peer.say(&[get(1)]);
    peer.respond(peer.key(0), 200, &[("X-Large", &"~".repeat(20_000)), ("A", "b")], true);
    let out = std::mem::take(peer.session.out());
    let (mut rest, mut block, mut seen) = (&out[..], Vec::new(), Vec::new());
    while let Some((header, behind)) = rest.split_first_chunk() {
        let header = FrameHeader::parse(header);
        assert!(header.length <= 16_384);
        seen.push((header.kind, header.flags, header.stream));
        block.extend_from_slice(&behind[..header.length as usize]);
        rest = &behind[header.length as usize..];
    }
    assert_eq!(seen, [(kind::HEADERS, flag::END_STREAM, 1), (kind::CONTINUATION, flag::END_HEADERS, 1)]);
    let fields = peer.decode(&block);
    assert!(fields.starts_with(" :status=200 x-large=~~") && fields.ends_with("~ a=b"), "{}", fields.len());
}

#[test]
fn trailers_end_a_response() {
    let mut peer = Peer::new();
    peer.say(&[get(1), get(3), get(5)]);
    for index in 0..2 {
        peer.respond(peer.key(index), 200, &[], false);
    }
    peer.heard();
    peer.session.data(peer.key(0), 2, false).extend_from_slice(b"ab");
    peer.session.trailers(peer.key(0), lines(&[("X-Sum", "1"), ("Connection", "close")]).all());
    peer.session.trailers(peer.key(0), lines(&[("X-Sum", "2")]).all());
    peer.session.trailers(peer.key(1), FieldsRef::default());
    peer.session.trailers(peer.key(2), lines(&[("X-Sum", "1")]).all());
    assert_eq!(
        peer.heard(),
        "DATA 1 \"ab\"\nHEADERS 1 x-sum=1 ended\nDATA 3 \"\" ended\nRST_STREAM 5 InternalError\n"
    );
}

#[test]
fn a_response_ends_once() {
    let mut peer = Peer::new();
    peer.say(&[get(1), get(3)]);
    peer.respond(peer.key(0), 200, &[], false);
    peer.session.end(peer.key(0));
    peer.session.end(peer.key(0));
    peer.session.data(peer.key(0), 3, true).extend_from_slice(b"abc");
    assert_eq!(peer.session.room(peer.key(0)), 0);
    peer.session.end(peer.key(1));
    assert_eq!(peer.heard(), "HEADERS 1 :status=200\nDATA 1 \"\" ended\nRST_STREAM 3 InternalError\n");
}

#[test]
fn a_release_settles_what_is_open() {
    let mut peer = Peer::new();
    peer.say(&[post(1), get(3), get(5), post(7)]);
    peer.answer(peer.key(0));
    assert_eq!(peer.heard(), "HEADERS 1 :status=200 ended\nPING part\0\0\0\u{1}\n", "the body is not needed");
    peer.answer(peer.key(1));
    assert_eq!(peer.heard(), "HEADERS 3 :status=200 ended\n");
    peer.respond(peer.key(2), 200, &[], false);
    peer.session.release(peer.key(2));
    assert_eq!(
        peer.heard(),
        "HEADERS 5 :status=200\nRST_STREAM 5 InternalError\n",
        "the response is aborted"
    );
    peer.session.reset(peer.key(3), Code::Cancel);
    peer.session.reset(peer.key(3), Code::InternalError);
    peer.session.release(peer.key(3));
    assert_eq!(peer.heard(), "RST_STREAM 7 Cancel\n");
}

#[test]
fn an_extended_connect_is_answered_with_200() {
    let fields = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":path", "/"),
        (":authority", "a"),
    ];
    let mut peer = Peer::new();
    peer.say(&[headers(1, false, &fields), headers(3, false, &fields)]);
    let switch = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Accept", "x"),
        ("Sec-WebSocket-Protocol", "chat"),
    ];
    peer.respond(peer.key(0), 101, &switch, false);
    assert_eq!(peer.heard(), "HEADERS 1 :status=200 sec-websocket-protocol=chat\n");
    assert_eq!(peer.say(&[data(1, false, b"up")]), "data 1 \"up\"\n");
    peer.session.data(peer.key(0), 4, false).extend_from_slice(b"down");
    assert_eq!(peer.heard(), "DATA 1 \"down\"\n");
    peer.respond(peer.key(1), 403, &[], true);
    assert_eq!(peer.heard(), "HEADERS 3 :status=403 ended\n");
}

#[test]
fn a_frame_has_the_size_of_what_was_appended() {
    let mut peer = Peer::new();
    peer.say(&[get(1), get(3)]);
    for index in 0..2 {
        peer.respond(peer.key(index), 200, &[], false);
    }
    peer.heard();
    let (first, second) = (peer.key(0), peer.key(1));
    let mut fill = |key, text: &[u8], last: usize| {
        peer.session.fill(key, |bytes| bytes == last, |out| out.extend_from_slice(text))
    };
    assert_eq!(fill(first, b"abc", 5), 3);
    assert_eq!(fill(second, b"", 0), 0, "nothing is no frame, and no end");
    assert_eq!(fill(first, b"defgh", 5), 5);
    assert_eq!(fill(first, b"more", 4), 0, "it has ended");
    assert_eq!(peer.heard(), "DATA 1 \"abc\"\nDATA 1 \"defgh\" ended\n");
    let room = peer.session.room(second);
    assert_eq!(peer.session.fill(second, |_| false, |out| out.resize(out.len() + room, b'x')), room);
    assert_eq!(peer.session.room(second), (65_535 - 8 - room).min(room), "the connection's window counts");
}
