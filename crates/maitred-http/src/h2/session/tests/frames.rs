//! Frames that are wrong whatever the state of a stream, and what they end.

use super::*;

/// What a frame after a handshake ends the connection with.
fn fatal(frames: &[Vec<u8>]) -> String {
    let mut peer = Peer::new();
    let heard = peer.ask(frames);
    assert!(!peer.session.is_full());
    heard
}

/// A connection error, and no more.
fn ends_with(code: &str) -> String {
    format!("fatal {code}\nGOAWAY 0 {code}\n")
}

#[test]
fn frames_have_the_sizes_of_their_types() {
    let wrong = [
        ("PRIORITY of 4", frame(kind::PRIORITY, 0, 1, &[0; 4])),
        ("RST_STREAM of 3", frame(kind::RST_STREAM, 0, 1, &[0; 3])),
        ("SETTINGS of 5", frame(kind::SETTINGS, 0, 0, &[0; 5])),
        ("SETTINGS ACK of 6", frame(kind::SETTINGS, flag::ACK, 0, &[0; 6])),
        ("PING of 7", frame(kind::PING, 0, 0, &[0; 7])),
        ("GOAWAY of 7", frame(kind::GOAWAY, 0, 0, &[0; 7])),
        ("WINDOW_UPDATE of 3", frame(kind::WINDOW_UPDATE, 0, 0, &[0; 3])),
        ("PRIORITY_UPDATE of 3", frame(kind::PRIORITY_UPDATE, 0, 0, &[0; 3])),
        ("HEADERS without the length of its padding", frame(kind::HEADERS, flag::PADDED, 1, &[])),
        ("HEADERS without all of its priority", frame(kind::HEADERS, flag::PRIORITY, 1, &[0; 4])),
        ("DATA without the length of its padding", frame(kind::DATA, flag::PADDED, 1, &[])),
    ];
    for (name, bytes) in wrong {
        assert_eq!(fatal(&[bytes]), ends_with("FrameSizeError"), "{name}");
    }
}

#[test]
fn no_frame_is_larger_than_was_agreed() {
    for kind in [kind::DATA, kind::HEADERS, kind::SETTINGS, kind::PING, 0x77] {
        let mut header = Vec::new();
        frame::put_header(&mut header, 16_385, kind, 0, 1);
        assert_eq!(fatal(&[header]), ends_with("FrameSizeError"), "type {kind}, before its payload has come");
    }
    let mut peer = Peer::new();
    peer.say(&[post(1)]);
    assert_eq!(peer.say(&[data(1, false, &[0; 16_384])]), "data 1 16384 bytes\n");
}

#[test]
fn frames_of_the_connection_name_no_stream_and_others_do() {
    let wrong = [
        ("DATA", frame(kind::DATA, 0, 0, b"a")),
        ("HEADERS", headers(0, true, &GET)),
        ("PRIORITY", frame(kind::PRIORITY, 0, 0, &[0; 5])),
        ("RST_STREAM", rst(0)),
        ("SETTINGS", frame(kind::SETTINGS, 0, 1, &[])),
        ("PING", frame(kind::PING, 0, 1, &[0; 8])),
        ("GOAWAY", frame(kind::GOAWAY, 0, 1, &[0; 8])),
        ("PRIORITY_UPDATE", frame(kind::PRIORITY_UPDATE, 0, 1, &[0, 0, 0, 1])),
        ("CONTINUATION", frame(kind::CONTINUATION, 0, 0, &[])),
    ];
    for (name, bytes) in wrong {
        assert_eq!(fatal(&[bytes]), ends_with("ProtocolError"), "{name}");
    }
}

#[test]
fn padding_is_shorter_than_its_frame() {
    let wrong = [
        frame(kind::HEADERS, flag::PADDED | flag::END_HEADERS, 1, &[2, 0x82]),
        frame(kind::HEADERS, flag::PADDED | flag::PRIORITY, 1, &[1, 0, 0, 0, 0, 0]),
    ];
    for bytes in wrong {
        assert_eq!(fatal(&[bytes]), ends_with("ProtocolError"));
    }
    let long = frame(kind::DATA, flag::PADDED, 1, &[6, 0, 0, 0, 0, 0]);
    assert_eq!(fatal(&[post(1), long]), "request 1\nfatal ProtocolError\nGOAWAY 1 ProtocolError\n");
    let all_padding = frame(kind::DATA, flag::PADDED | flag::END_STREAM, 1, &[5, 0, 0, 0, 0, 0]);
    assert_eq!(fatal(&[post(1), all_padding]), "request 1\ndata 1 \"\" ended\n");
}

#[test]
fn padding_and_priority_are_not_part_of_the_block() {
    let mut payload = vec![2, 0, 0, 0, 0, 15];
    payload.extend(block(&GET));
    payload.extend([0, 0]);
    let flags = flag::PADDED | flag::PRIORITY | flag::END_HEADERS | flag::END_STREAM;
    assert_eq!(fatal(&[frame(kind::HEADERS, flags, 1, &payload)]), "request 1 ended\n");
}

#[test]
fn a_block_goes_on_in_continuations_and_nothing_comes_between() {
    let bytes = block(&GET);
    let (first, rest) = bytes.split_at(10);
    let (second, third) = rest.split_at(10);
    let begin = frame(kind::HEADERS, flag::END_STREAM, 1, first);
    let whole = [
        begin.clone(),
        frame(kind::CONTINUATION, 0, 1, second),
        frame(kind::CONTINUATION, flag::END_HEADERS, 1, third),
    ];
    assert_eq!(fatal(&whole), "request 1 ended\n");
    let between = [
        ("PING", ping(b"12345678")),
        ("unknown", frame(0x77, 0, 0, &[])),
        ("DATA", data(1, false, b"a")),
        ("HEADERS", get(3)),
        ("CONTINUATION of another stream", frame(kind::CONTINUATION, flag::END_HEADERS, 3, rest)),
        ("HEADERS of the same", frame(kind::HEADERS, flag::END_HEADERS, 1, rest)),
    ];
    for (name, bytes) in between {
        assert_eq!(fatal(&[begin.clone(), bytes]), ends_with("ProtocolError"), "{name}");
    }
}

#[test]
fn a_continuation_without_headers_is_an_error() {
    let lone = frame(kind::CONTINUATION, flag::END_HEADERS, 1, &block(&GET));
    assert_eq!(fatal(std::slice::from_ref(&lone)), ends_with("ProtocolError"));
    assert_eq!(fatal(&[get(1), lone]), "request 1 ended\nfatal ProtocolError\nGOAWAY 1 ProtocolError\n");
}

#[test]
fn unknown_frames_flags_settings_and_reserved_bits_are_ignored() {
    let mut reserved = get(1);
    reserved[5] |= 0x80;
    let ignored = [
        frame(0x77, 0xff, 0, b"anything"),
        frame(0x77, 0xff, 5, b"anything"),
        settings(&[(0xff, 1), (setting::MAX_CONCURRENT_STREAMS, 0)]),
        frame(kind::PING, 0xfe, 0, b"12345678"),
        reserved,
    ];
    assert_eq!(fatal(&ignored), "request 1 ended\nSETTINGS ACK\nPING ACK 12345678\n");
}

#[test]
fn settings_have_valid_values() {
    let wrong = [
        (setting::ENABLE_PUSH, 2, "ProtocolError"),
        (setting::INITIAL_WINDOW_SIZE, 1 << 31, "FlowControlError"),
        (setting::MAX_FRAME_SIZE, 16_383, "ProtocolError"),
        (setting::MAX_FRAME_SIZE, 1 << 24, "ProtocolError"),
        (setting::ENABLE_CONNECT_PROTOCOL, 2, "ProtocolError"),
        (setting::NO_RFC7540_PRIORITIES, 2, "ProtocolError"),
    ];
    for (id, value, code) in wrong {
        assert_eq!(fatal(&[settings(&[(id, value)])]), ends_with(code), "{id} = {value}");
    }
    let valid = [
        (setting::ENABLE_PUSH, 1),
        (setting::MAX_FRAME_SIZE, (1 << 24) - 1),
        (setting::INITIAL_WINDOW_SIZE, 0),
    ];
    assert_eq!(fatal(&[settings(&valid)]), "SETTINGS ACK\n");
}

#[test]
fn settings_and_pings_are_answered() {
    assert_eq!(fatal(&[settings(&[]), ping(b"abcdefgh")]), "SETTINGS ACK\nPING ACK abcdefgh\n");
    let answer = frame(kind::PING, flag::ACK, 0, b"abcdefgh");
    assert_eq!(fatal(&[answer]), "", "an answer is not answered");
}

#[test]
fn clients_do_not_push() {
    let promise = frame(kind::PUSH_PROMISE, flag::END_HEADERS, 1, &[0, 0, 0, 2]);
    assert_eq!(fatal(&[promise]), ends_with("ProtocolError"));
}

#[test]
fn blocks_that_cannot_be_decoded_end_the_connection() {
    let broken = frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &[0x80]);
    assert_eq!(fatal(&[broken]), "fatal CompressionError\nGOAWAY 1 CompressionError\n");
    let mut peer = Peer::new();
    peer.say(&[post(1)]);
    let broken = frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &[0x80]);
    assert_eq!(peer.say(&[broken]), "fatal CompressionError\n");
}

#[test]
fn no_stream_depends_on_itself() {
    let mut payload = vec![0, 0, 0, 1, 15];
    payload.extend(block(&GET));
    let flags = flag::PRIORITY | flag::END_HEADERS | flag::END_STREAM;
    assert_eq!(fatal(&[frame(kind::HEADERS, flags, 1, &payload)]), "RST_STREAM 1 ProtocolError\n");
    assert_eq!(fatal(&[frame(kind::PRIORITY, 0, 3, &[0, 0, 0, 3, 0])]), ends_with("ProtocolError"));
    assert_eq!(fatal(&[frame(kind::PRIORITY, 0, 3, &[0, 0, 0, 1, 0])]), "");
}
