//! Sessions with a server: the peer here is the server.

use super::*;
use crate::h2::{Opening, STREAMS_AT_ONCE_MAX};
use crate::limits::INTERIM_RESPONSES_MAX;

const HEAD: &[u8] = b"GET /a?b HTTP/1.1\r\nhost: a.example\r\nX-One: 1\r\nconnection: te\r\nte: trailers\r\n\
                      transfer-encoding: chunked\r\nupgrade: x\r\n\r\n";

fn opening(head: &[u8], ended: bool) -> Opening<'_> {
    Opening { head, replaced: &[], scheme: "http", ended, user: 7 }
}

/// A server that has said its settings.
fn server(settings_of_server: &[(u16, u32)]) -> Peer {
    let now = Instant::now();
    let session = Session::towards_server(&small(), now);
    let mut peer = Peer { session, now, decoder: Decoder::new(4096), unread: Vec::new(), keys: Vec::new() };
    let out = peer.session.out();
    assert!(out.starts_with(PREFACE), "the preface comes first");
    out.drain(..PREFACE.len());
    assert!(!peer.session.is_greeted());
    assert_eq!(peer.say(&[settings(settings_of_server), frame(kind::SETTINGS, flag::ACK, 0, &[])]), "");
    assert!(peer.session.is_greeted());
    assert_eq!(peer.heard(), "SETTINGS 2=0 4=70000 6=1000\nWINDOW_UPDATE 0 214465\nSETTINGS ACK\n");
    peer
}

/// A server that has one request.
fn asked(ended: bool) -> (Peer, StreamKey) {
    let mut peer = server(&[]);
    let stream = peer.session.open(opening(HEAD, ended)).unwrap();
    peer.heard();
    (peer, stream)
}

fn response(stream: u32, ended: bool, fields: &[(&str, &str)]) -> Vec<u8> {
    headers(stream, ended, fields)
}

#[test]
fn a_head_of_http_1_becomes_one_of_http_2() {
    let mut peer = server(&[]);
    let stream = peer.session.open(opening(HEAD, true)).unwrap();
    assert_eq!(
        peer.heard(),
        "HEADERS 1 :method=GET :scheme=http :path=/a?b :authority=a.example x-one=1 te=trailers ended\n"
    );
    assert_eq!((peer.session.user(stream), peer.session.id(stream)), (7, 1));
    peer.session.open(opening(b"POST / HTTP/1.1\r\nHost: b\r\n\r\n", false)).unwrap();
    assert_eq!(peer.heard(), "HEADERS 3 :method=POST :scheme=http :path=/ :authority=b\n");
    for none in [&b""[..], b"GET", b"GET /\r\n\r\n", b"GET / HTTP/1.1"] {
        let streams = peer.session.streams();
        assert!(peer.session.open(opening(none, true)).is_none(), "{none:?}");
        assert_eq!((peer.session.streams(), peer.heard().as_str()), (streams, ""));
    }
}

#[test]
fn a_response_comes_with_interim_ones_content_and_trailers() {
    let (mut peer, _) = asked(true);
    let said = peer.say(&[
        response(1, false, &[(":status", "103"), ("link", "</a>")]),
        response(1, false, &[(":status", "200"), ("content-length", "4"), ("x-a", "b")]),
        data(1, false, b"so"),
        data(1, false, b"me"),
        headers(1, true, &[("grpc-status", "0")]),
    ]);
    assert_eq!(
        said,
        "response 1 103 link=</a>\nresponse 1 200 length 4 x-a=b\ndata 1 \"so\"\ndata 1 \"me\"\ntrailers 1 grpc-status=0\n"
    );
    let (mut peer, stream) = asked(true);
    assert_eq!(peer.say(&[response(1, true, &[(":status", "204")])]), "response 1 204 ended\n");
    assert!(peer.session.is_ended_by_peer(stream));
    peer.session.leave(stream);
    assert_eq!((peer.heard().as_str(), peer.session.streams()), ("", 0));
}

#[test]
fn what_is_no_response_is_an_error_of_its_stream() {
    let wrong: [&[(&str, &str)]; 14] = [
        &[],
        &[("x-a", "b")],
        &[("x-a", "b"), (":status", "200")],
        &[(":status", "200"), (":status", "200")],
        &[(":status", "99")],
        &[(":status", "000")],
        &[(":status", "20x")],
        &[(":status", "101")],
        &[(":status", "200"), (":path", "/")],
        &[(":status", "200"), ("connection", "close")],
        &[(":status", "200"), ("X-A", "b")],
        &[(":status", "200"), ("x-a", "b\nc")],
        &[(":status", "200"), ("content-length", "1"), ("content-length", "2")],
        &[(":status", "200"), ("content-length", "-1")],
    ];
    for fields in wrong {
        let (mut peer, _) = asked(true);
        assert_eq!(peer.say(&[response(1, false, fields)]), "reset 1 user 7 code 1\n", "{fields:?}");
        assert_eq!(peer.heard(), "RST_STREAM 1 ProtocolError\n");
    }
    for frames in [
        vec![data(1, false, b"x")],
        vec![response(1, true, &[(":status", "100")])],
        vec![response(1, true, &[(":status", "200"), ("content-length", "5")])],
        vec![response(1, false, &[(":status", "204")]), data(1, true, b"x")],
        vec![response(1, false, &[(":status", "200"), ("content-length", "1")]), data(1, true, b"xy")],
        vec![response(1, false, &[(":status", "200"), ("content-length", "3")]), data(1, true, b"xy")],
        vec![response(1, false, &[(":status", "200")]), headers(1, false, &[("a", "b")])],
    ] {
        let (mut peer, _) = asked(true);
        assert!(peer.say(&frames).ends_with("reset 1 user 7 code 1\n"), "{frames:?}");
    }
    let (mut peer, _) = asked(true);
    let interim = response(1, false, &[(":status", "103")]);
    let many = vec![interim; usize::from(INTERIM_RESPONSES_MAX) + 1];
    assert!(peer.say(&many).ends_with("reset 1 user 7 code 1\n"), "the last one is too much");
}

#[test]
fn a_response_to_head_has_no_content() {
    let mut peer = server(&[]);
    peer.session.open(opening(b"HEAD / HTTP/1.1\r\nhost: a\r\n\r\n", true)).unwrap();
    let head = response(1, true, &[(":status", "200"), ("content-length", "5")]);
    assert_eq!(peer.say(&[head]), "response 1 200 length 5 ended\n");
    peer.session.open(opening(b"HEAD / HTTP/1.1\r\nhost: a\r\n\r\n", true)).unwrap();
    let head = response(3, false, &[(":status", "200"), ("content-length", "5")]);
    assert!(peer.say(&[head, data(3, true, b"hello")]).ends_with("reset 3 user 7 code 1\n"));
}

#[test]
fn what_a_server_may_not_send_ends_the_connection() {
    for (frames, code) in [
        (vec![response(3, true, &[(":status", "200")])], "ProtocolError"),
        (vec![response(2, true, &[(":status", "200")])], "ProtocolError"),
        (vec![data(3, true, b"")], "ProtocolError"),
        (vec![frame(kind::PUSH_PROMISE, flag::END_HEADERS, 1, &[0, 0, 0, 2])], "ProtocolError"),
        (vec![frame(kind::PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 1])], "ProtocolError"),
        (vec![settings(&[(setting::ENABLE_PUSH, 1)])], "ProtocolError"),
        (vec![settings(&[(setting::INITIAL_WINDOW_SIZE, 1 << 31)])], "FlowControlError"),
        (
            vec![frame(kind::HEADERS, flag::END_HEADERS, 1, &[0xff, 0xff, 0xff, 0xff, 0xff])],
            "CompressionError",
        ),
        (vec![frame(kind::GOAWAY, 0, 0, &[0; 7])], "FrameSizeError"),
        (vec![ping(b"abcdefgh"); 11], "EnhanceYourCalm"),
        (vec![settings(&[]); 11], "EnhanceYourCalm"),
        (
            vec![response(1, true, &[(":status", "200")]), response(1, true, &[(":status", "200")])],
            "StreamClosed",
        ),
    ] {
        let (mut peer, _) = asked(true);
        let said = peer.say(&frames);
        assert!(said.ends_with(&format!("fatal {code}\n")), "{frames:?}: {said}");
        assert!(!peer.session.may_open() && !peer.session.lasts());
    }
}

#[test]
fn a_server_takes_as_many_streams_as_it_says() {
    let mut peer = server(&[(setting::MAX_CONCURRENT_STREAMS, 2)]);
    let first = peer.session.open(opening(HEAD, true)).unwrap();
    assert!(peer.session.open(opening(HEAD, true)).is_some() && !peer.session.may_open());
    assert!(peer.session.open(opening(HEAD, true)).is_none());
    peer.session.leave(first);
    assert!(peer.session.may_open(), "one has gone");
    assert!(peer.heard().ends_with("RST_STREAM 1 Cancel\n"));
    peer.say(&[settings(&[(setting::MAX_CONCURRENT_STREAMS, 1000)])]);
    let opened = (0..2000).map_while(|_| peer.session.open(opening(HEAD, true))).count();
    assert_eq!(opened + 1, small().streams_max as usize, "what this side wants at most");
    let wide = Session::towards_server(&Settings { streams_max: 5000, ..small() }, Instant::now());
    assert_eq!(wide.settings.streams_max, STREAMS_AT_ONCE_MAX);
}

#[test]
fn a_goaway_says_what_was_not_processed() {
    let mut peer = server(&[]);
    let streams: Vec<_> = (0..3).map(|_| peer.session.open(opening(HEAD, true)).unwrap()).collect();
    let go_away = |last: u32| {
        let payload = [last.to_be_bytes(), 0_u32.to_be_bytes()].concat();
        frame(kind::GOAWAY, 0, 0, &payload)
    };
    assert_eq!(peer.say(&[go_away(frame::WINDOW_MAX)]), "peer leaves\n");
    assert!(!peer.session.may_open() && streams.iter().all(|stream| !peer.session.is_unprocessed(*stream)));
    assert_eq!(
        peer.say(&[go_away(3), go_away(5)]),
        "peer leaves\npeer leaves\n",
        "it names no more than before"
    );
    let unprocessed = streams.iter().map(|stream| peer.session.is_unprocessed(*stream));
    assert_eq!(unprocessed.collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(peer.session.users_if(|session, stream| session.is_unprocessed(stream)), [7]);
    assert_eq!(
        peer.say(&[response(1, true, &[(":status", "200")])]),
        "response 1 200 ended\n",
        "others go on"
    );
    streams.into_iter().for_each(|stream| peer.session.leave(stream));
    assert!(peer.session.is_over());
}

#[test]
fn a_reset_says_its_code_and_resets_are_no_flood() {
    let mut peer = server(&[]);
    for round in 0..100 {
        let stream = peer.session.open(opening(HEAD, false)).unwrap();
        let id = 2 * round + 1;
        let code = Code::RefusedStream as u32;
        let reset = frame(kind::RST_STREAM, 0, id, &code.to_be_bytes());
        assert_eq!(peer.say(&[reset]), format!("reset {id} user 7 code 7\n"));
        peer.session.leave(stream);
    }
    assert!(!peer.heard().contains("RST_STREAM"), "it knows");
}

#[test]
fn windows_hold_in_both_directions_and_one_stream_does_not_stop_another() {
    let mut peer = server(&[(setting::INITIAL_WINDOW_SIZE, 10)]);
    let stream = peer.session.open(opening(HEAD, false)).unwrap();
    assert_eq!(peer.session.room(stream), 10);
    peer.session.data(stream, 10, false).extend_from_slice(b"0123456789");
    assert_eq!((peer.session.room(stream), peer.session.next_writable()), (0, None));
    assert_eq!(peer.say(&[window_update(1, 5)]), "writable\n");
    assert_eq!((peer.session.next_writable(), peer.session.room(stream)), (Some(stream), 5));
    let other = peer.session.open(opening(HEAD, true)).unwrap();
    let full = vec![data(1, false, &[0; 10_000]); 7];
    peer.say(&[response(1, false, &[(":status", "200")])]);
    peer.say(&full);
    peer.heard();
    assert!(
        peer.say(&[response(3, false, &[(":status", "200")]), data(3, true, &[0; 10_000])])
            .contains("data 3")
    );
    assert!(peer.say(&[data(1, false, b"x")]).ends_with("reset 1 user 7 code 3\n"), "its own window is full");
    peer.session.leave(other);
    peer.session.leave(stream);
}

#[test]
fn what_still_comes_for_a_cancelled_stream_is_dropped_however_much_it_is() {
    let (mut peer, stream) = asked(true);
    peer.say(&[response(1, false, &[(":status", "200")])]);
    peer.session.leave(stream);
    assert_eq!(peer.heard(), "RST_STREAM 1 Cancel\n");
    let late = vec![data(1, false, b"late"); 500];
    assert_eq!(peer.say(&late), "");
    assert_eq!(peer.say(&[headers(1, true, &[("grpc-status", "1")])]), "");
    assert!(peer.session.may_open());
}
