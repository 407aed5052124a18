//! Bytes of the application, written by hand.

use super::super::decode::*;
use super::super::record::kind;
use super::{END, padded, record};

/// What was said, in words: `out:` and `err:` with their bytes, and the end with both of its statuses.
fn events(bytes: &[u8]) -> (Vec<String>, Result<(), Bad>) {
    let (mut decoder, mut said, mut rest) = (Decoder::new(), Vec::new(), bytes);
    loop {
        let text = |name: &str, bytes: &[u8]| format!("{name}:{}", String::from_utf8_lossy(bytes));
        match decoder.next(&mut rest) {
            Ok(Some(Event::Stdout(bytes))) => said.push(text("out", bytes)),
            Ok(Some(Event::Stderr(bytes))) => said.push(text("err", bytes)),
            Ok(Some(Event::End { app_status, protocol_status })) => {
                said.push(format!("end:{app_status}:{protocol_status:?}"));
            }
            Ok(None) => return (said, decoder.end()),
            Err(bad) => {
                assert_eq!(decoder.next(&mut &END[..]), Err(bad), "it stays bad");
                assert!(!decoder.is_idle());
                return (said, Err(bad));
            }
        }
    }
}

fn refused(bytes: &[u8]) -> Bad {
    events(bytes).1.expect_err("refused")
}

#[test]
fn a_response_is_read_as_the_specification_draws_it() {
    // Appendix B, example 3: a message, output, the ends of both streams, the end of the request.
    let mut bytes = b"\x01\x07\0\x01\0\x0f\x01\0config error: x\xff".to_vec();
    bytes.extend_from_slice(b"\x01\x06\0\x01\0\x1b\x05\0Content-type: text/html\r\n\r\n\x01\x02\x03\x04\x05");
    bytes.extend_from_slice(b"\x01\x06\0\x01\0\0\0\0\x01\x07\0\x01\0\0\0\0");
    bytes.extend_from_slice(b"\x01\x03\0\x01\0\x08\0\0\0\0\x03\xaa\0\x09\x09\x09");
    let said = ["err:config error: x", "out:Content-type: text/html\r\n\r\n", "end:938:RequestComplete"];
    assert_eq!(events(&bytes), (said.map(str::to_owned).to_vec(), Ok(())));
}

#[test]
fn the_protocol_status_is_told() {
    let statuses = [
        (0, ProtocolStatus::RequestComplete),
        (1, ProtocolStatus::CantMultiplex),
        (2, ProtocolStatus::Overloaded),
        (3, ProtocolStatus::UnknownRole),
        (4, ProtocolStatus::Unknown(4)),
    ];
    for (byte, status) in statuses {
        let bytes = record(kind::END_REQUEST, &[0xff, 0xff, 0xff, 0xff, byte, 1, 2, 3]);
        assert_eq!(events(&bytes).0, [format!("end:4294967295:{status:?}")]);
    }
}

#[test]
fn padding_is_skipped_wherever_it_is() {
    let mut bytes = padded(kind::STDOUT, b"one", 255);
    bytes.extend(padded(kind::STDOUT, b"two", 1));
    bytes.extend(padded(kind::STDOUT, b"", 9));
    bytes.extend(padded(kind::END_REQUEST, &[0; 8], 3));
    assert_eq!(events(&bytes).0, ["out:one", "out:two", "end:0:RequestComplete"]);
}

#[test]
fn a_connection_is_idle_after_the_last_byte_of_the_end() {
    let bytes = padded(kind::END_REQUEST, &[0; 8], 3);
    let mut decoder = Decoder::new();
    for (at, byte) in bytes.iter().enumerate() {
        assert!(!decoder.is_idle(), "{at}");
        let event = decoder.next(&mut std::slice::from_ref(byte)).unwrap();
        assert_eq!(event.is_some(), at == 15, "the end is reported before its padding");
    }
    assert!(decoder.is_idle());
    // Half a header behind it is not nothing.
    decoder.next(&mut &[1_u8][..]).unwrap();
    assert!(!decoder.is_idle());
}

#[test]
fn management_records_and_unknown_types_are_ignored() {
    for (id, kind) in
        [(0, kind::UNKNOWN_TYPE), (0, kind::GET_VALUES_RESULT), (0, 0), (0, 200), (1, 12), (1, 255)]
    {
        let mut bytes = vec![1, kind, 0, id, 0, 8, 2, 0, 9, 9, 9, 9, 9, 9, 9, 9, 8, 8];
        bytes.extend_from_slice(&record(kind::STDOUT, b"x"));
        bytes.extend_from_slice(&END);
        assert_eq!(
            events(&bytes),
            (vec!["out:x".into(), "end:0:RequestComplete".into()], Ok(())),
            "{id} {kind}"
        );
    }
}

#[test]
fn what_means_nothing_is_bounded() {
    let empty_messages = (IGNORED_BYTES_MAX / 8) as usize;
    let mut bytes = record(kind::STDERR, b"").repeat(empty_messages);
    assert_eq!(events(&bytes), (vec![], Err(Bad::Incomplete)));
    bytes.extend_from_slice(&record(kind::STDERR, b"x"));
    assert_eq!(events(&bytes).0, ["err:x"], "what says something is not counted");
    bytes.extend_from_slice(&[1, kind::UNKNOWN_TYPE, 0, 0, 0, 0, 0, 0]);
    assert_eq!(refused(&bytes), Bad::TooMuchIgnored);
    // One record of the largest size is as much as the bound, and refused by its header.
    assert_eq!(refused(&[1, 77, 0, 0, 0xff, 0xff, 255, 0]), Bad::TooMuchIgnored);
}

#[test]
fn what_is_not_fastcgi_is_the_operators_fault() {
    let bad = refused(b"HTTP/1.1 400 Bad Request\r\n");
    assert_eq!((bad, bad.fault()), (Bad::Version(b'H'), Fault::Operator));
    assert!(bad.to_string().contains("an HTTP server"), "{bad}");
    let bad = refused(&[0, 6, 0, 1, 0, 0, 0, 0]);
    assert_eq!((bad, bad.fault()), (Bad::Version(0), Fault::Operator));
    assert_eq!(refused(&[2, 6, 0, 1, 0, 0, 0, 0]), Bad::Version(2));
}

#[test]
fn records_that_cannot_be_are_the_applications_fault() {
    let cases: [(&[u8], Bad); 12] = [
        (&[1, kind::STDOUT, 0, 2, 0, 1, 0, 0], Bad::RequestId(2)),
        (&[1, kind::STDOUT, 1, 1, 0, 1, 0, 0], Bad::RequestId(257)),
        (&[1, kind::STDOUT, 0, 0, 0, 1, 0, 0], Bad::RequestId(0)),
        (&[1, kind::UNKNOWN_TYPE, 0, 3, 0, 8, 0, 0], Bad::RequestId(3)),
        (&[1, kind::BEGIN_REQUEST, 0, 1, 0, 8, 0, 0], Bad::Kind(1)),
        (&[1, kind::ABORT_REQUEST, 0, 1, 0, 0, 0, 0], Bad::Kind(2)),
        (&[1, kind::PARAMS, 0, 1, 0, 0, 0, 0], Bad::Kind(4)),
        (&[1, kind::STDIN, 0, 1, 0, 0, 0, 0], Bad::Kind(5)),
        (&[1, kind::DATA, 0, 1, 0, 0, 0, 0], Bad::Kind(8)),
        (&[1, kind::END_REQUEST, 0, 1, 0, 7, 0, 0], Bad::EndBytes(7)),
        (&[1, kind::END_REQUEST, 0, 1, 0, 0, 0, 0], Bad::EndBytes(0)),
        (&[1, kind::END_REQUEST, 0, 1, 1, 8, 0, 0], Bad::EndBytes(264)),
    ];
    for (bytes, expected) in cases {
        let bad = refused(bytes);
        assert_eq!((bad, bad.fault()), (expected, Fault::Application));
        assert!(bad.to_string().starts_with("the application"), "{bad}");
    }
}

#[test]
fn nothing_follows_an_end() {
    let mut bytes = record(kind::STDOUT, b"");
    bytes.extend_from_slice(&record(kind::STDERR, b"late"));
    assert_eq!(events(&bytes), (vec!["err:late".into()], Ok(())), "messages may follow the output");
    bytes.extend_from_slice(&record(kind::STDOUT, b"more"));
    assert_eq!(refused(&bytes), Bad::AfterStdout);
    for kind in [kind::STDOUT, kind::STDERR, kind::END_REQUEST] {
        let mut bytes = END.to_vec();
        bytes.extend_from_slice(&record(kind, b"12345678"));
        assert_eq!(refused(&bytes), Bad::AfterEnd(kind));
    }
    let mut bytes = END.to_vec();
    bytes.extend_from_slice(&[1, kind::UNKNOWN_TYPE, 0, 0, 0, 0, 0, 0]);
    assert_eq!(events(&bytes).1, Ok(()), "management records belong to no request");
}

#[test]
fn a_connection_that_ends_early_leaves_an_incomplete_response() {
    let mut bytes = record(kind::STDOUT, b"Status: 200\r\n\r\nhalf of");
    assert_eq!(events(&bytes).1, Err(Bad::Incomplete));
    bytes.truncate(12);
    assert_eq!(events(&bytes).1, Err(Bad::Incomplete));
    assert_eq!(events(b"").1, Err(Bad::Incomplete));
    // The output was ended by itself; the reason for the process's end came later.
    bytes = record(kind::STDOUT, b"all");
    bytes.extend_from_slice(&record(kind::STDOUT, b""));
    assert_eq!(events(&bytes).1, Ok(()));
}

#[test]
fn contents_are_parts_of_the_input() {
    let bytes = record(kind::STDOUT, &[b'x'; 65_535]);
    let mut decoder = Decoder::new();
    let (first, second) = bytes.split_at(10_000);
    for (mut part, expected) in [(first, 10_000 - 8), (second, 65_535 - 10_000 + 8)] {
        let Ok(Some(Event::Stdout(output))) = decoder.next(&mut part) else { panic!("no output") };
        assert_eq!((output.len(), part.len()), (expected, 0));
    }
}
