//! Responses: HTTP/1.1 text in, frames out.

use super::*;

/// The frames of a response to GET.
fn frames_of(head: &str, ended: bool) -> String {
    let mut peer = Peer::new();
    peer.say(&[get(1)]);
    peer.session.respond(peer.key(0), head.as_bytes(), ended);
    peer.heard()
}

#[test]
fn a_head_becomes_a_block() {
    let head = "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nX-Odd:  a: b \r\nEmpty:\r\n\r\n";
    assert_eq!(
        frames_of(head, true),
        "HEADERS 1 :status=404 content-type=text/plain x-odd=a: b empty= ended\n"
    );
    assert_eq!(frames_of("HTTP/1.1 200 OK\r\n\r\n", false), "HEADERS 1 :status=200\n");
}

#[test]
fn fields_of_the_connection_are_left_out() {
    let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nKeep-Alive: 5\r\nProxy-Connection: x\r\nTransfer-Encoding: chunked\r\n\
                Upgrade: h2c\r\nTrailer: x\r\n\r\n";
    assert_eq!(frames_of(head, true), "HEADERS 1 :status=200 trailer=x ended\n");
}

#[test]
fn what_is_no_field_ends_the_fields() {
    assert_eq!(
        frames_of("HTTP/1.1 200 OK\r\nA: b\r\nno field\r\nC: d\r\n\r\n", true),
        "HEADERS 1 :status=200 a=b ended\n"
    );
    assert_eq!(
        frames_of("HTTP/1.1 200 OK\r\nA: b\r\n\r\nC: d\r\n", true),
        "HEADERS 1 :status=200 a=b ended\n"
    );
    assert_eq!(frames_of("HTTP/1.1 200 OK\r\nA: b\r\nC: d", true), "HEADERS 1 :status=200 a=b ended\n");
}

#[test]
fn interim_heads_end_nothing() {
    let mut peer = Peer::new();
    peer.say(&[post(1)]);
    let key = peer.key(0);
    peer.session.respond(key, b"HTTP/1.1 100 Continue\r\n\r\n", true);
    assert_eq!(peer.session.room(key), 0, "content needs a final head");
    peer.session.respond(key, b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", false);
    peer.session.respond(key, b"HTTP/1.1 204 No Content\r\n\r\n", true);
    peer.session.respond(key, b"HTTP/1.1 200 OK\r\n\r\n", true);
    assert_eq!(
        peer.heard(),
        "HEADERS 1 :status=100\nHEADERS 1 :status=103 link=</a>\nHEADERS 1 :status=204 ended\n"
    );
}

#[test]
fn what_is_no_head_resets_the_stream() {
    for head in [
        "",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/2 200\r\n\r\n",
        "HTTP/1.1 200 OK",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
    ] {
        assert_eq!(frames_of(head, false), "RST_STREAM 1 InternalError\n", "{head}");
    }
}

#[test]
fn a_block_that_is_too_large_for_a_frame_goes_on() {
    let mut peer = Peer::new();
    peer.say(&[get(1)]);
    let field = format!("X-Large: {}\r\n", "~".repeat(20_000));
    peer.session.respond(peer.key(0), format!("HTTP/1.1 200 OK\r\n{field}A: b\r\n\r\n").as_bytes(), true);
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
        peer.session.respond(peer.key(index), b"HTTP/1.1 200 OK\r\n\r\n", false);
    }
    peer.heard();
    peer.session.data(peer.key(0), 2, false).extend_from_slice(b"ab");
    peer.session.trailers(peer.key(0), b"X-Sum: 1\r\nConnection: close\r\n");
    peer.session.trailers(peer.key(0), b"X-Sum: 2\r\n");
    peer.session.trailers(peer.key(1), b"");
    peer.session.trailers(peer.key(2), b"X-Sum: 1\r\n");
    assert_eq!(
        peer.heard(),
        "DATA 1 \"ab\"\nHEADERS 1 x-sum=1 ended\nDATA 3 \"\" ended\nRST_STREAM 5 InternalError\n"
    );
}

#[test]
fn a_response_ends_once() {
    let mut peer = Peer::new();
    peer.say(&[get(1), get(3)]);
    peer.session.respond(peer.key(0), b"HTTP/1.1 200 OK\r\n\r\n", false);
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
    peer.session.respond(peer.key(2), b"HTTP/1.1 200 OK\r\n\r\n", false);
    peer.session.release(peer.key(2));
    assert_eq!(
        peer.heard(),
        "HEADERS 5 :status=200\nRST_STREAM 5 InternalError\n",
        "the response is cut off"
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
    let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\
                   Sec-WebSocket-Protocol: chat\r\n\r\n";
    peer.session.respond(peer.key(0), switch, false);
    assert_eq!(peer.heard(), "HEADERS 1 :status=200 sec-websocket-protocol=chat\n");
    assert_eq!(peer.say(&[data(1, false, b"up")]), "data 1 \"up\"\n");
    peer.session.data(peer.key(0), 4, false).extend_from_slice(b"down");
    assert_eq!(peer.heard(), "DATA 1 \"down\"\n");
    peer.session.respond(peer.key(1), b"HTTP/1.1 403 Forbidden\r\n\r\n", true);
    assert_eq!(peer.heard(), "HEADERS 3 :status=403 ended\n");
}

#[test]
fn a_frame_has_the_size_of_what_was_appended() {
    let mut peer = Peer::new();
    peer.say(&[get(1), get(3)]);
    for index in 0..2 {
        peer.session.respond(peer.key(index), b"HTTP/1.1 200 OK\r\n\r\n", false);
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
