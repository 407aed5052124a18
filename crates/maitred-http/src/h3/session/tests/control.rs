//! Unidirectional streams of the client (9114-6.2, 9114-7.2, 9204-4.2).

use super::*;

#[test]
fn a_control_stream_has_settings_first_and_once() {
    let mut client = Client::before_settings(&small());
    let bytes = [&[0][..], &frame(kind::SETTINGS, &[6, 0x40, 0x64]), &number(0x21, 0)].concat();
    for byte in bytes {
        assert_eq!(client.uni(CONTROL, &[byte], false), "");
    }
    assert_eq!(client.tell(&[frame(kind::SETTINGS, &[])]), "fatal FrameUnexpected");
    let mut client = Client::before_settings(&small());
    let first = [&[0][..], &number(kind::GOAWAY, 0)].concat();
    assert_eq!(client.uni(CONTROL, &first, false), "fatal MissingSettings");
    assert_eq!(client.uni(6, &[0x21], false), "fatal MissingSettings", "a dead session stays dead");
    let mut client = Client::before_settings(&small());
    let first = [&[0][..], &frame(kind::SETTINGS, &[2, 0])].concat();
    assert_eq!(client.uni(CONTROL, &first, false), "fatal SettingsError");
}

#[test]
fn frames_of_a_control_stream_are_those_that_may_be_there() {
    let cases = [
        (data(b"x"), "fatal FrameUnexpected"),
        (headers(&GET), "fatal FrameUnexpected"),
        (number(kind::PUSH_PROMISE, 0), "fatal FrameUnexpected"),
        (number(6, 0), "fatal FrameUnexpected"),
        (frame(kind::GOAWAY, &[0, 0]), "fatal FrameError"),
        (frame(kind::MAX_PUSH_ID, &[]), "fatal FrameError"),
        (frame(kind::PRIORITY_UPDATE_REQUEST, &[]), "fatal FrameError"),
        (number(0x21, 7), ""),
        (number(kind::MAX_PUSH_ID, 7), ""),
        (number(kind::GOAWAY, 7), ""),
        (urgent(0, "u=1"), ""),
    ];
    for (frame, wanted) in cases {
        assert_eq!(Client::new().tell(std::slice::from_ref(&frame)), wanted, "{frame:?}");
    }
}

/// Nothing is pushed here, so that no push ID was promised (9114-7.2.3, 9218-7.2).
#[test]
fn frames_of_pushes_name_none_that_there_is() {
    let mut client = Client::new();
    assert_eq!(client.tell(&[number(kind::MAX_PUSH_ID, 7)]), "");
    assert_eq!(client.tell(&[number(kind::CANCEL_PUSH, 0)]), "fatal IdError");
    let mut client = Client::new();
    assert_eq!(client.tell(&[frame(kind::PRIORITY_UPDATE_PUSH, b"\0u=1")]), "fatal IdError");
    let mut client = Client::new();
    assert_eq!(client.tell(&[number(kind::MAX_PUSH_ID, 7), number(kind::MAX_PUSH_ID, 6)]), "fatal IdError");
    let mut client = Client::new();
    assert_eq!(client.tell(&[number(kind::GOAWAY, 6), number(kind::GOAWAY, 7)]), "fatal IdError");
}

#[test]
fn there_is_one_stream_of_each_kind_and_clients_push_nothing() {
    let mut client = Client::new();
    assert_eq!((client.uni(6, &[2], false), client.uni(10, &[3], false)), (String::new(), String::new()));
    assert_eq!(client.actions(), "");
    for kind in [0, 2, 3, 1] {
        let mut client = Client::new();
        client.uni(6, &[2], false);
        client.uni(10, &[3], false);
        assert_eq!(client.uni(14, &[kind], false), "fatal StreamCreationError", "{kind}");
    }
}

#[test]
fn streams_that_the_connection_needs_do_not_end() {
    for kind in [0, 2, 3] {
        let first = if kind == 0 { vec![0, 4, 0] } else { vec![kind] };
        let mut client = Client::before_settings(&small());
        assert_eq!(client.uni(6, &first, true), "fatal ClosedCriticalStream", "{kind}");
        let mut client = Client::before_settings(&small());
        assert_eq!(client.uni(6, &first, false), "");
        assert_eq!(client.uni(6, &[], true), "fatal ClosedCriticalStream", "{kind}");
        let mut client = Client::before_settings(&small());
        client.uni(6, &first, false);
        let lost = client.session.lose_unidirectional(6).map_err(|error| error.code);
        assert_eq!(lost, Err(Code::ClosedCriticalStream), "{kind}");
        assert_eq!(client.session.fatal().map(|error| error.code), Some(Code::ClosedCriticalStream));
    }
    let mut client = Client::new();
    client.session.control_stopped();
    assert_eq!(client.session.fatal().map(|error| error.code), Some(Code::ClosedCriticalStream));
}

/// 9114-6.2: they are no error, and nothing of them is read.
#[test]
fn streams_of_unknown_types_are_stopped() {
    let mut client = Client::new();
    assert_eq!(client.uni(6, &[0x40], false), "", "half of its type");
    assert_eq!(client.actions(), "");
    assert_eq!(client.uni(6, &[0x21, 1, 2, 3], false), "");
    assert_eq!(client.actions(), "stop 6 StreamCreationError\n");
    assert_eq!((client.uni(6, &[0; 100], false), client.uni(6, &[], true)), (String::new(), String::new()));
    assert_eq!(client.actions(), "");
    // A stream that ends, or is reset, before its type has come.
    assert_eq!((client.uni(10, &[], true), client.uni(14, &[0x40], true)), (String::new(), String::new()));
    assert_eq!(client.uni(18, &[0xc0], false), "");
    assert_eq!(client.session.lose_unidirectional(18), Ok(()));
    assert_eq!(client.session.lose_unidirectional(18), Ok(()));
    assert_eq!(client.actions(), "");
}

/// The table that was advertised has no room (9204-3.2.3, 9204-4.3, 9204-4.4).
#[test]
fn instructions_need_no_table() {
    let mut client = Client::new();
    assert_eq!(client.uni(6, &[2, 0x20], false), "", "a capacity of 0");
    assert_eq!(client.uni(10, &[3, 0x44], false), "", "a stream is cancelled");
    assert_eq!(client.uni(6, &[0x3f, 0x01], false), "fatal EncoderStreamError", "a capacity");
    let mut client = Client::new();
    assert_eq!(client.uni(6, &[2, 0xc0, 0], false), "fatal EncoderStreamError", "an entry");
    for acknowledgement in [0x80, 0x01] {
        let mut client = Client::new();
        assert_eq!(client.uni(10, &[3, acknowledgement], false), "fatal DecoderStreamError");
    }
}
