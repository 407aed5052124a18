//! The table of states in the module's documentation, cell by cell.

use super::*;

/// Brings a session to a state of stream 1, gives it one frame, and says what came.
fn cell(state: &str, bytes: Vec<u8>) -> String {
    let mut peer = Peer::new();
    let key = |peer: &Peer| peer.key(0);
    match state {
        "idle" => {}
        "open" => drop(peer.say(&[post(1)])),
        "half-closed (local)" => {
            peer.say(&[post(1)]);
            peer.respond(key(&peer), 200, &[], true);
        }
        "half-closed (remote)" => drop(peer.say(&[get(1)])),
        "ended" => {
            peer.say(&[get(1)]);
            peer.respond(key(&peer), 200, &[], true);
        }
        "ended and released" => {
            peer.say(&[get(1)]);
            peer.answer(key(&peer));
        }
        "reset" => {
            peer.say(&[post(1)]);
            peer.session.reset(key(&peer), Code::Cancel);
        }
        "reset and released" => {
            peer.say(&[post(1)]);
            peer.answer(key(&peer));
        }
        "reset by the peer" => drop(peer.say(&[post(1), rst(1)])),
        "reset by the peer and released" => {
            peer.say(&[post(1), rst(1)]);
            peer.session.release(key(&peer));
        }
        "passed over" => drop(peer.say(&[get(5)])),
        other => panic!("{other}"),
    }
    peer.heard();
    peer.ask(&[bytes]).replace('\n', "; ")
}

#[test]
fn every_frame_in_every_state() {
    const PROTOCOL: &str = "fatal ProtocolError; GOAWAY 0 ProtocolError; ";
    const CLOSED: &str = "fatal StreamClosed; GOAWAY 1 StreamClosed; ";
    const STREAM_CLOSED: &str = "RST_STREAM 1 StreamClosed; ";
    const RESET_CLOSED: &str = "reset 1 user 0; RST_STREAM 1 StreamClosed; ";
    let trailers = || headers(1, true, &[("a", "b")]);
    #[rustfmt::skip]
    let table = [
        // state, HEADERS, DATA, RST_STREAM, WINDOW_UPDATE
        ("idle", "RST_STREAM 1 ProtocolError; ", PROTOCOL, PROTOCOL, PROTOCOL),
        ("open", "trailers 1 a=b; ", "data 1 \"abc\"; ", "reset 1 user 0; ", ""),
        ("half-closed (local)", "trailers 1 a=b; ", "data 1 \"abc\"; ", "reset 1 user 0; ", ""),
        ("half-closed (remote)", RESET_CLOSED, RESET_CLOSED, "reset 1 user 0; ", ""),
        ("ended", CLOSED, CLOSED, "", ""),
        ("ended and released", CLOSED, CLOSED, "", ""),
        ("reset", "", "", "", ""),
        ("reset and released", "", "", "", ""),
        ("reset by the peer", STREAM_CLOSED, STREAM_CLOSED, "", ""),
        ("reset by the peer and released", STREAM_CLOSED, STREAM_CLOSED, "", ""),
        ("passed over", "fatal ProtocolError; GOAWAY 5 ProtocolError; ", "fatal StreamClosed; GOAWAY 5 StreamClosed; ", "", ""),
    ];
    for (state, on_headers, on_data, on_rst, on_window) in table {
        assert_eq!(cell(state, trailers()), on_headers, "HEADERS, {state}");
        assert_eq!(cell(state, data(1, false, b"abc")), on_data, "DATA, {state}");
        assert_eq!(cell(state, rst(1)), on_rst, "RST_STREAM, {state}");
        assert_eq!(cell(state, window_update(1, 10)), on_window, "WINDOW_UPDATE, {state}");
        let priority = frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 0, 15]);
        assert_eq!(cell(state, priority), "", "PRIORITY, {state}");
    }
}

#[test]
fn clients_use_odd_numbers_in_rising_order() {
    for bytes in [headers(2, true, &GET), data(2, false, b"a"), rst(2), window_update(2, 1)] {
        let mut peer = Peer::new();
        assert_eq!(peer.say(&[get(1)]), "request 1 ended\n");
        assert_eq!(peer.say(&[bytes]), "fatal ProtocolError\n");
    }
    let mut peer = Peer::new();
    assert_eq!(peer.say(&[get(5), get(3)]), "request 5 ended\nfatal ProtocolError\n");
}

#[test]
fn more_streams_than_agreed_are_refused() {
    let mut peer = Peer::new();
    let frames: Vec<_> = (0..5).map(|index| get(2 * index + 1)).collect();
    assert_eq!(peer.say(&frames).lines().count(), 4);
    assert_eq!(peer.heard(), "RST_STREAM 9 RefusedStream\n");
    peer.answer(peer.key(0));
    peer.heard();
    assert_eq!(peer.ask(&[get(11)]), "request 11 ended\n");
}

/// Fields of refused requests are in the table that later ones refer to.
#[test]
fn blocks_of_refused_requests_are_decoded() {
    let mut peer = Peer::new();
    peer.say(&(0..4).map(|index| get(2 * index + 1)).collect::<Vec<_>>());
    // A literal that enters the table, then a reference to it (index 62).
    let mut refused = block(&GET);
    refused.extend(b"\x40\x01x\x01y");
    peer.say(&[frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 9, &refused)]);
    peer.answer(peer.key(0));
    let mut next = block(&GET);
    next.push(0x80 | 62);
    let bytes = frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 11, &next);
    let (mut at, mut head) = (0, RequestHead::default());
    let event = peer.session.next(peer.now, &bytes, &mut at, &mut head);
    assert!(matches!(event, Ok(Some(Event::Request { .. }))));
    assert_eq!(head.lines().last(), Some((b"x".as_slice(), b"y".as_slice())));
}

/// A reset stream keeps its slot while the caller still works for it (CVE-2025-8671).
#[test]
fn a_slot_is_free_when_the_caller_says_so() {
    let mut peer = Peer::new();
    let frames: Vec<_> = (0..4).flat_map(|index| [get(2 * index + 1), rst(2 * index + 1)]).collect();
    peer.say(&frames);
    assert_eq!(peer.session.streams(), 4);
    assert_eq!(peer.ask(&[get(9)]), "RST_STREAM 9 RefusedStream\n");
    peer.session.release(peer.key(0));
    assert_eq!(peer.ask(&[get(11)]), "request 11 ended\n");
}

#[test]
fn resets_of_long_ago_are_not_held_against_the_peer() {
    let mut peer = Peer::new();
    for index in 0..40 {
        peer.pass(Duration::from_secs(10));
        peer.say(&[post(2 * index + 1)]);
        // The request's body has not ended: the session resets the stream.
        peer.answer(peer.key(index as usize));
    }
    peer.heard();
    assert_eq!(peer.ask(&[data(1, false, b"late"), data(79, false, b"late")]), "");
    peer.say(&[get(81)]);
    peer.answer(peer.key(40));
    peer.heard();
    assert_eq!(peer.ask(&[data(81, false, b"a")]), "fatal StreamClosed\nGOAWAY 81 StreamClosed\n");
}

#[test]
fn a_reset_says_whose_stream_it_was() {
    let mut peer = Peer::new();
    peer.say(&[get(1)]);
    peer.session.mark(peer.key(0), 42);
    assert_eq!(peer.say(&[rst(1)]), "reset 1 user 42\n");
    assert_eq!(peer.say(&[rst(1)]), "", "once");
    peer.respond(peer.key(0), 200, &[], true);
    peer.session.release(peer.key(0));
    assert_eq!(peer.heard(), "", "nothing is sent on a stream that is over");
}
