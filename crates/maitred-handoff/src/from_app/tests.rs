use proptest::prelude::*;

use super::*;
use crate::HEADER_BYTES;

const DONE: Done =
    Done { connection: 3, request: 4, status: 200, outcome: Outcome::Clean, service_us: 5, body_bytes: 6 };

fn encoded(done: &Done) -> Vec<u8> {
    let mut out = Vec::new();
    encode_done(&mut out, done);
    out
}

fn rule_of(bytes: &[u8]) -> Rule {
    let error = FromApp::decode(bytes).unwrap_err();
    assert_eq!(error.by, Side::App);
    error.rule
}

#[test]
fn done_has_the_layout_of_the_specification() {
    let expected: [u8; 32] = [
        16, 0, 0, 0, 66, 1, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, // header
        200, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(encoded(&DONE), expected);
}

#[test]
fn bad_dones_are_named() {
    for (at, value, rule) in [
        (0, 15, Rule::PayloadLength { kind: 66, bytes: 15 }),
        (5, 3, Rule::Flags { kind: 66, flags: 3 }),
        (5, 4, Rule::Flags { kind: 66, flags: 4 }),
        (6, 1, Rule::Descriptors { kind: 66, descriptors: 1 }),
        (16, 0, Rule::Status(0)),
        (16, 99, Rule::Status(99)),
        (17, 4, Rule::Status(1224)),
        (18, 1, Rule::Reserved),
    ] {
        let mut bytes = encoded(&DONE);
        bytes[at] = value;
        assert_eq!(rule_of(&bytes), rule, "byte {at}");
    }
}

#[test]
fn nothing_written_is_a_broken_response_with_status_0() {
    let done = Done { status: 0, outcome: Outcome::Broken, ..DONE };
    assert_eq!(FromApp::decode(&encoded(&done)), Ok(Some((FromApp::Done(done), 32))));
}

#[test]
fn limits_are_optional_and_come_back() {
    let mut bytes = Vec::new();
    encode_limits(&mut bytes, 1024);
    assert_eq!(bytes.get(5).map(|flags| flags & OPTIONAL), Some(OPTIONAL), "an old server has to skip it");
    assert_eq!(FromApp::decode(&bytes), Ok(Some((FromApp::Limits { open_files: 1024 }, HEADER_BYTES + 4))));
    let none = [&bytes[..HEADER_BYTES], &[0; 4]].concat();
    assert!(FromApp::decode(&none).is_err());
}

#[test]
fn streams_is_optional_and_empty() {
    let mut bytes = Vec::new();
    encode_streams(&mut bytes);
    assert_eq!(bytes.get(5).map(|flags| flags & OPTIONAL), Some(OPTIONAL), "an old server has to skip it");
    assert_eq!(FromApp::decode(&bytes), Ok(Some((FromApp::Streams, HEADER_BYTES))));
    let mut longer = bytes.clone();
    (longer[0], longer[4]) = (1, longer[4]);
    longer.push(0);
    assert!(FromApp::decode(&longer).is_err());
}

#[test]
fn bad_hellos_are_named() {
    let hello = Hello {
        version_min: 1,
        version_max: 2,
        capacity: 1,
        name: "app",
        sockets_only: false,
        recovers: false,
    };
    for (at, value, rule) in [
        (HEADER_BYTES, 0, Rule::VersionRange),
        (HEADER_BYTES, 3, Rule::VersionRange),
        (HEADER_BYTES + 4, 0, Rule::Capacity),
        (HEADER_BYTES + 7, 1, Rule::Capacity),
        (HEADER_BYTES + 8, 0xff, Rule::Name),
        (HEADER_BYTES + 8, 0x1b, Rule::Name),
        (0, 7, Rule::PayloadLength { kind: 65, bytes: 7 }),
    ] {
        let mut bytes = Vec::new();
        encode_hello(&mut bytes, &hello);
        bytes[at] = value;
        assert_eq!(rule_of(&bytes), rule, "byte {at}");
    }
}

#[test]
fn a_name_is_cut_at_a_character() {
    let mut bytes = Vec::new();
    let name = "ä".repeat(40);
    encode_hello(
        &mut bytes,
        &Hello {
            version_min: 1,
            version_max: 1,
            capacity: 1,
            name: &format!("x{name}"),
            sockets_only: false,
            recovers: false,
        },
    );
    let Ok(Some((FromApp::Hello(hello), _))) = FromApp::decode(&bytes) else { panic!("does not decode") };
    assert_eq!(hello.name.chars().count(), 32);
}

#[test]
fn kinds_of_later_versions_are_refused_unless_optional() {
    for kind in [72, kind::REQUEST, 0, 200] {
        let header = Header { kind, descriptors: 2, ..Header::default() };
        assert_eq!(rule_of(&header.to_bytes()), Rule::Kind(kind));
        let header = Header { flags: 0x80, ..header };
        let skipped = FromApp::Skipped { descriptors: 2 };
        assert_eq!(skipped.descriptors(), 2);
        assert_eq!(FromApp::decode(&header.to_bytes()), Ok(Some((skipped, HEADER_BYTES))));
    }
}

fn tail_file(offset: u64, length: u64) -> Vec<u8> {
    let mut out = Vec::new();
    encode_tail_file(&mut out, 3, 4, offset, length);
    out
}

#[test]
fn tails_and_detach_have_the_layout_of_the_specification() {
    let mut out = Vec::new();
    encode_tail(&mut out, 3, 4, b"rest");
    assert_eq!(out, [4, 0, 0, 0, 67, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, b'r', b'e', b's', b't']);
    let expected: [u8; 32] = [
        16, 0, 0, 0, 67, 1, 1, 0, 3, 0, 0, 0, 4, 0, 0, 0, // header
        5, 1, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(tail_file(0x105, 6), expected);
    out.clear();
    encode_detach(&mut out, 3, 4);
    assert_eq!(out, [4, 0, 0, 0, 69, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 101, 0, 0, 0]);
    let detach = FromApp::Detach { connection: 3, request: 4, status: 101 };
    assert_eq!(FromApp::decode(&out), Ok(Some((detach, 20))));
}

#[test]
fn bad_tails_are_named() {
    for (at, value, rule) in [
        (0, 15, Rule::PayloadLength { kind: 67, bytes: 15 }),
        (5, 2, Rule::Flags { kind: 67, flags: 2 }),
        (5, 0, Rule::Descriptors { kind: 67, descriptors: 1 }),
        (6, 0, Rule::Descriptors { kind: 67, descriptors: 0 }),
        (6, 2, Rule::Descriptors { kind: 67, descriptors: 2 }),
        (23, 0x80, Rule::Range),
        (24, 0, Rule::Range),
        (31, 0x7f, Rule::Range),
    ] {
        let mut bytes = tail_file(0x0100_0000_0000_0001, 6);
        bytes[at] = value;
        assert_eq!(rule_of(&bytes), rule, "byte {at}");
    }
    let most = i64::MAX as u64;
    assert!(FromApp::decode(&tail_file(most - 1, 1)).is_ok());
    for (offset, length) in [(most, 1), (0, most + 1), (u64::MAX, u64::MAX), (5, 0)] {
        assert_eq!(rule_of(&tail_file(offset, length)), Rule::Range);
    }
    let empty = Header { kind: kind::TAIL, ..Header::default() };
    assert_eq!(rule_of(&empty.to_bytes()), Rule::Range);
    let bytes = TAIL_BYTES_MAX as u32 + 1;
    let long = Header { kind: kind::TAIL, payload_bytes: bytes, ..Header::default() };
    assert_eq!(rule_of(&long.to_bytes()), Rule::PayloadLength { kind: 67, bytes });
}

#[test]
fn bad_detaches_are_named() {
    for (at, value, rule) in [
        (0, 3, Rule::PayloadLength { kind: 69, bytes: 3 }),
        (5, 1, Rule::Flags { kind: 69, flags: 1 }),
        (6, 1, Rule::Descriptors { kind: 69, descriptors: 1 }),
        (16, 200, Rule::Status(200)),
        (18, 1, Rule::Reserved),
    ] {
        let mut bytes = Vec::new();
        encode_detach(&mut bytes, 3, 4);
        bytes[at] = value;
        assert_eq!(rule_of(&bytes), rule, "byte {at}");
    }
}

fn any_done() -> impl Strategy<Value = Done> {
    let outcome = prop_oneof![Just(Outcome::Clean), Just(Outcome::Close), Just(Outcome::Broken)];
    (any::<u32>(), any::<u32>(), 100..=999_u16, outcome, any::<u32>(), any::<u64>()).prop_map(
        |(connection, request, status, outcome, service_us, body_bytes)| Done {
            connection,
            request,
            status,
            outcome,
            service_us,
            body_bytes,
        },
    )
}

proptest! {
    #[test]
    fn dones_come_back(done in any_done()) {
        let bytes = encoded(&done);
        prop_assert_eq!(FromApp::decode(&bytes), Ok(Some((FromApp::Done(done), 32))));
    }

    #[test]
    fn tails_come_back(connection in any::<u32>(), request in any::<u32>(), length in 0..200_000_usize) {
        let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let mut out = Vec::new();
        encode_tail(&mut out, connection, request, &bytes);
        let (mut rest, mut found) = (out.as_slice(), Vec::new());
        while let Some((frame, used)) = FromApp::decode(rest).unwrap() {
            let FromApp::Tail { connection: c, request: r, bytes } = frame else {
                return Err(TestCaseError::fail("no TAIL"));
            };
            prop_assert_eq!((c, r, frame.descriptors()), (connection, request, 0));
            prop_assert!((1..=TAIL_BYTES_MAX).contains(&bytes.len()));
            found.extend_from_slice(bytes);
            rest = &rest[used..];
        }
        prop_assert!(rest.is_empty());
        prop_assert!(found == bytes);
    }

    #[test]
    fn files_come_back(offset in 0..i64::MAX as u64, share in 0.0..1.0_f64) {
        let room = i64::MAX as u64 - offset;
        let length = ((room as f64 * share) as u64).clamp(1, room);
        let bytes = tail_file(offset, length);
        let frame = FromApp::TailFile { connection: 3, request: 4, offset, length };
        prop_assert_eq!(frame.descriptors(), 1);
        prop_assert_eq!(FromApp::decode(&bytes), Ok(Some((frame, 32))));
    }

    #[test]
    fn hellos_come_back(min in 1..9_u16, more in 0..9_u16, capacity in 1..=CAPACITY_MAX, name in "[ -~äß]{0,40}", sockets_only: bool, recovers: bool) {
        let name = name.get(..name.floor_char_boundary(NAME_BYTES_MAX)).unwrap();
        let hello = Hello { version_min: min, version_max: min + more, capacity, name, sockets_only, recovers };
        let mut bytes = Vec::new();
        encode_hello(&mut bytes, &hello);
        prop_assert_eq!(FromApp::decode(&bytes), Ok(Some((FromApp::Hello(hello), bytes.len()))));
    }

    #[test]
    fn a_part_of_a_frame_is_not_a_frame(done in any_done(), cut in 0..32_usize) {
        let bytes = encoded(&done);
        prop_assert_eq!(FromApp::decode(&bytes[..cut]), Ok(None));
    }

    #[test]
    fn noise_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        crate::fuzzing::decode_channel(&bytes);
    }
}
