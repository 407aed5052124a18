//! Frames as they come, and in which order.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::h3::frame::{put_header, put_identifier};

const SECTION_BYTES_MAX: u32 = 100;

fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_header(&mut out, kind, payload.len() as u64);
    out.extend_from_slice(payload);
    out
}

fn identifier(kind: u64, identifier: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put_identifier(&mut out, kind, identifier);
    out
}

/// All events, without borrows; content that came in pieces is put together. And how it ended.
fn read(reader: &mut Reader, pieces: &[&[u8]]) -> (Vec<Event<'static>>, Result<(), Error>) {
    let (mut events, mut content): (Vec<Event<'static>>, Vec<u8>) = (Vec::new(), Vec::new());
    let owned = |bytes: Cow<'_, [u8]>| Cow::Owned(bytes.into_owned());
    for piece in pieces {
        let mut at = 0;
        loop {
            let event = match reader.next(piece, &mut at) {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(error) => {
                    flush(&mut content, &mut events);
                    return (events, Err(error));
                }
            };
            assert!(reader.room_bytes() <= 2 * SECTION_BYTES_MAX.max(SETTINGS_BYTES_MAX as u32) as usize);
            if let Event::Data(bytes) = event {
                assert!(!bytes.is_empty());
                content.extend_from_slice(bytes);
                continue;
            }
            flush(&mut content, &mut events);
            events.push(match event {
                Event::Headers { section, trailers } => Event::Headers { section: owned(section), trailers },
                Event::PushPromise { push, section } => Event::PushPromise { push, section: owned(section) },
                Event::PriorityUpdate { identifier, push, value } => {
                    Event::PriorityUpdate { identifier, push, value: owned(value) }
                }
                Event::Data(_) => continue,
                Event::TooLarge { bytes } => Event::TooLarge { bytes },
                Event::Settings(settings) => Event::Settings(settings),
                Event::GoAway(identifier) => Event::GoAway(identifier),
                Event::CancelPush(push) => Event::CancelPush(push),
                Event::MaxPushId(push) => Event::MaxPushId(push),
            });
        }
        assert_eq!(at, piece.len());
    }
    flush(&mut content, &mut events);
    (events, Ok(()))
}

fn flush(content: &mut Vec<u8>, events: &mut Vec<Event<'static>>) {
    if !content.is_empty() {
        events.push(Event::Data(std::mem::take(content).leak()));
    }
}

fn reader(place: Place, from: Side) -> Reader {
    Reader::new(place, from, SECTION_BYTES_MAX)
}

/// The code that some frames end with, if they do, however they are split.
fn code(place: Place, from: Side, frames: &[Vec<u8>]) -> Option<Code> {
    let bytes = frames.concat();
    let whole = read(&mut reader(place, from), &[&bytes]);
    for at in 0..=bytes.len() {
        let (first, second) = bytes.split_at(at);
        assert_eq!(read(&mut reader(place, from), &[first, second]), whole, "split at {at}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(read(&mut reader(place, from), &single), whole);
    whole.1.err().map(|error| error.code)
}

#[test]
fn a_request_is_its_head_content_and_trailers() {
    let frames = [
        frame(kind::HEADERS, b"section"),
        frame(0x21, b"unknown"),
        frame(kind::DATA, b"con"),
        frame(kind::DATA, b""),
        frame(kind::DATA, b"tent"),
        frame(kind::HEADERS, b"fields"),
        frame(0x40, b""),
    ];
    let bytes = frames.concat();
    let mut reader = reader(Place::Request, Side::Client);
    let (events, end) = read(&mut reader, &[&bytes]);
    let headers = |section: &'static [u8], trailers| Event::Headers { section: section.into(), trailers };
    assert_eq!(events, [headers(b"section", false), Event::Data(b"content"), headers(b"fields", true)]);
    assert_eq!((end, reader.finish()), (Ok(()), Ok(())));
    assert_eq!(code(Place::Request, Side::Client, &frames), None);
}

#[test]
fn a_section_in_one_piece_is_not_copied() {
    let bytes = frame(kind::HEADERS, b"section");
    let mut reader = reader(Place::Request, Side::Client);
    let event = reader.next(&bytes, &mut 0).unwrap();
    assert!(matches!(event, Some(Event::Headers { section: Cow::Borrowed(b"section"), .. })));
    assert_eq!(reader.room_bytes(), 0);
}

#[test]
fn frames_of_a_message_in_another_order_are_errors() {
    let (data, head) = (frame(kind::DATA, b"x"), frame(kind::HEADERS, b"x"));
    let client = |frames: &[&Vec<u8>]| {
        let frames: Vec<_> = frames.iter().map(|frame| (*frame).clone()).collect();
        code(Place::Request, Side::Client, &frames)
    };
    let server = |place, frames: &[&Vec<u8>]| {
        let frames: Vec<_> = frames.iter().map(|frame| (*frame).clone()).collect();
        code(place, Side::Server, &frames)
    };
    assert_eq!(client(&[&data]), Some(Code::FrameUnexpected));
    assert_eq!(client(&[&head, &head]), None);
    for frames in [[&head, &head, &data], [&head, &head, &head]] {
        assert_eq!(client(&frames), Some(Code::FrameUnexpected));
        // A server's may be interim heads.
        assert_eq!(server(Place::Request, &frames), None);
    }
    for frames in [[&head, &data, &head, &data], [&head, &data, &head, &head]] {
        assert_eq!(client(&frames), Some(Code::FrameUnexpected));
        assert_eq!(server(Place::Push, &frames), Some(Code::FrameUnexpected));
    }
    let promise = frame(kind::PUSH_PROMISE, &[7, b'x']);
    assert_eq!(server(Place::Request, &[&promise, &head, &promise, &data]), None);
    assert_eq!(client(&[&head, &promise]), Some(Code::FrameUnexpected));
}

#[test]
fn a_tunnel_has_content_and_unknown_frames() {
    let mut reader = reader(Place::Request, Side::Client);
    let head = frame(kind::HEADERS, b"x");
    assert!(read(&mut reader, &[&head]).1.is_ok());
    reader.tunnel();
    assert!(read(&mut reader, &[&frame(kind::DATA, b"x"), &frame(0x21, b"x")]).1.is_ok());
    assert_eq!(read(&mut reader, &[&head]).1.unwrap_err().code, Code::FrameUnexpected);
}

#[test]
fn a_control_stream_begins_with_settings() {
    let settings = frame(kind::SETTINGS, &[6, 0x40, 0x64, 0x21, 0]);
    let frames = [
        settings.clone(),
        frame(0x21, b""),
        identifier(kind::MAX_PUSH_ID, 3),
        identifier(kind::MAX_PUSH_ID, 3),
        identifier(kind::CANCEL_PUSH, 3),
        frame(kind::PRIORITY_UPDATE_REQUEST, b"\x04u=1"),
        frame(kind::PRIORITY_UPDATE_PUSH, b"\x03"),
        identifier(kind::GOAWAY, 3),
        identifier(kind::GOAWAY, 1),
    ];
    let (events, end) = read(&mut reader(Place::Control, Side::Client), &[&frames.concat()]);
    let priority = |identifier, push, value: &'static [u8]| Event::PriorityUpdate {
        identifier,
        push,
        value: value.into(),
    };
    let wanted = [
        Event::Settings(Settings { list_bytes_max: Some(100), ..Settings::default() }),
        Event::MaxPushId(3),
        Event::MaxPushId(3),
        Event::CancelPush(3),
        priority(4, false, b"u=1"),
        priority(3, true, b""),
        Event::GoAway(3),
        Event::GoAway(1),
    ];
    assert_eq!((events.as_slice(), end), (wanted.as_slice(), Ok(())));
    let client = |frames: &[Vec<u8>]| code(Place::Control, Side::Client, frames);
    assert_eq!(client(&frames), None);
    assert_eq!(client(&[settings.clone(), settings.clone()]), Some(Code::FrameUnexpected));
    for first in [identifier(kind::GOAWAY, 0), frame(0x21, b"")] {
        assert_eq!(client(&[first, settings.clone()]), Some(Code::MissingSettings));
    }
    assert_eq!(client(&[frame(kind::SETTINGS, &[2, 0])]), Some(Code::SettingsError));
}

#[test]
fn identifiers_are_whole_and_go_one_way() {
    let settings = frame(kind::SETTINGS, b"");
    let check = |from, frames: &[Vec<u8>]| {
        code(Place::Control, from, &[std::slice::from_ref(&settings), frames].concat())
    };
    for kind in [kind::GOAWAY, kind::MAX_PUSH_ID, kind::CANCEL_PUSH] {
        for payload in [&[][..], &[4, 0], &[0x40], &[0xc0; 9]] {
            assert_eq!(check(Side::Client, &[frame(kind, payload)]), Some(Code::FrameError), "{kind}");
        }
    }
    assert_eq!(check(Side::Client, &[frame(kind::PRIORITY_UPDATE_REQUEST, b"")]), Some(Code::FrameError));
    let pair = |kind, first, second| [identifier(kind, first), identifier(kind, second)];
    assert_eq!(check(Side::Client, &pair(kind::GOAWAY, 3, 4)), Some(Code::IdError));
    assert_eq!(check(Side::Server, &pair(kind::GOAWAY, 8, 4)), None);
    assert_eq!(check(Side::Server, &[identifier(kind::GOAWAY, 5)]), Some(Code::IdError));
    assert_eq!(check(Side::Client, &pair(kind::MAX_PUSH_ID, 4, 3)), Some(Code::IdError));
    let priority = frame(kind::PRIORITY_UPDATE_REQUEST, b"\x05u=1");
    assert_eq!(check(Side::Client, &[priority]), Some(Code::IdError));
}

#[test]
fn what_is_held_and_what_is_skipped_is_bounded() {
    let exactly = frame(kind::HEADERS, &[b'x'; SECTION_BYTES_MAX as usize]);
    let over = frame(kind::HEADERS, &[b'x'; SECTION_BYTES_MAX as usize + 1]);
    let (events, end) = read(&mut reader(Place::Request, Side::Client), &[&exactly, &over]);
    assert!(matches!(events[0], Event::Headers { .. }) && end.is_ok());
    assert_eq!(events[1..], [Event::TooLarge { bytes: 101 }]);

    let settings = frame(kind::SETTINGS, b"");
    for (kind, bytes) in
        [(kind::SETTINGS, SETTINGS_BYTES_MAX), (kind::PRIORITY_UPDATE_REQUEST, PRIORITY_BYTES_MAX)]
    {
        let frames = [&settings[..], &frame(kind, &vec![0; bytes as usize + 1])];
        let frames = if kind == kind::SETTINGS { &frames[1..] } else { &frames };
        let (_, end) = read(&mut reader(Place::Control, Side::Client), frames);
        assert_eq!(end.unwrap_err().code, Code::ExcessiveLoad);
    }

    let head = frame(kind::HEADERS, b"x");
    let unknown = |bytes: u64| frame(0x21, &vec![0; bytes as usize]);
    let check = |frames: &[&[u8]]| read(&mut reader(Place::Request, Side::Client), frames).1.err();
    assert_eq!(check(&[&head, &unknown(SKIPPED_BYTES_MAX), &head, &unknown(SKIPPED_BYTES_MAX)]), None);
    for frames in [[&unknown(SKIPPED_BYTES_MAX), &unknown(1)], [&head, &unknown(SKIPPED_BYTES_MAX + 1)]] {
        let frames: Vec<&[u8]> = frames.iter().map(|frame| frame.as_slice()).collect();
        assert_eq!(check(&frames).map(|error| error.code), Some(Code::ExcessiveLoad));
    }
    for empty in [unknown(0), frame(kind::DATA, b"")] {
        let many = empty.repeat(EMPTY_FRAMES_MAX as usize);
        assert_eq!(check(&[&head, &many, &frame(kind::DATA, b"x"), &many]), None);
        let error = check(&[&head, &many, &empty]);
        assert_eq!(error.map(|error| error.code), Some(Code::ExcessiveLoad));
    }
}

#[test]
fn a_stream_ends_between_frames_and_behind_a_head() {
    let ended = |place, from, bytes: &[u8]| {
        let mut reader = reader(place, from);
        assert!(read(&mut reader, &[bytes]).1.is_ok());
        reader.finish().err().map(|error| error.code)
    };
    let head = frame(kind::HEADERS, b"section");
    assert_eq!(ended(Place::Request, Side::Client, &head), None);
    for end in 1..head.len() {
        assert_eq!(ended(Place::Request, Side::Client, &head[..end]), Some(Code::FrameError));
    }
    let data = [&head[..], &frame(kind::DATA, b"xy")].concat();
    assert_eq!(ended(Place::Request, Side::Client, &data), None);
    assert_eq!(ended(Place::Request, Side::Client, &data[..data.len() - 1]), Some(Code::FrameError));
    assert_eq!(ended(Place::Request, Side::Client, b""), Some(Code::RequestIncomplete));
    assert_eq!(ended(Place::Request, Side::Client, &frame(0x21, b"x")), Some(Code::RequestIncomplete));
    assert_eq!(ended(Place::Push, Side::Server, b""), Some(Code::MessageError));
    assert_eq!(ended(Place::Control, Side::Client, b""), Some(Code::ClosedCriticalStream));
}

fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![
        0..15_u64,
        Just(kind::PRIORITY_UPDATE_REQUEST),
        Just(0x21),
        any::<u32>().prop_map(u64::from)
    ];
    let known = prop_oneof![Just(kind::DATA), Just(kind::HEADERS), Just(kind::GOAWAY), Just(kind::SETTINGS)];
    (prop_oneof![kind, known], vec(any::<u8>(), 0..120)).prop_map(|(kind, payload)| frame(kind, &payload))
}

proptest! {
    #[test]
    fn arbitrary_bytes_keep_the_invariants(kind in any::<u8>(), data in vec(any::<u8>(), 0..200), head in 0..3_usize) {
        // A head, settings or nothing, so that something may follow.
        let head = [&[][..], &[1, 1, 0], &[4, 0]][head];
        crate::fuzzing::h3_frames(&[&[kind], head, &data].concat());
    }

    #[test]
    fn any_bytes_give_the_same_in_any_pieces(
        frames in vec(any_frame(), 0..6),
        rest in vec(any::<u8>(), 0..40),
        place in prop_oneof![Just(Place::Control), Just(Place::Request), Just(Place::Push)],
        from in prop_oneof![Just(Side::Client), Just(Side::Server)],
        settings in any::<bool>(),
        cuts in vec(1..30_usize, 0..40),
    ) {
        let first = match (settings, place) {
            (false, _) => Vec::new(),
            (true, Place::Control) => frame(kind::SETTINGS, b""),
            (true, _) => frame(kind::HEADERS, b"x"),
        };
        let bytes = [first, frames.concat(), rest].concat();
        let (mut pieces, mut left) = (Vec::new(), &bytes[..]);
        for cut in cuts {
            let (piece, behind) = left.split_at(cut.min(left.len()));
            pieces.push(piece);
            left = behind;
        }
        pieces.push(left);
        let (mut one, mut other) = (reader(place, from), reader(place, from));
        let whole = read(&mut one, &[&bytes]);
        prop_assert_eq!(read(&mut other, &pieces), whole.clone());
        if whole.1.is_ok() {
            prop_assert_eq!(one.finish(), other.finish());
        }
    }
}
