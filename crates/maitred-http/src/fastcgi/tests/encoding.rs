//! Bytes for the application, as the specification draws them.

use super::super::encode::*;
use super::super::record::{CONTENT_BYTES_MAX, HEADER_BYTES, RecordHeader, kind};
use crate::fuzzing::fastcgi::{Pair, read_pairs, stream};

fn params(pairs: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    put_params(&mut out, |params| pairs.iter().for_each(|(name, value)| params.put(name, value))).unwrap();
    out
}

/// The headers of the records, and the content of each.
fn records(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut contents = Vec::new();
    while let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() {
        let header = RecordHeader::parse(header);
        contents.push(&rest[..usize::from(header.content_bytes)]);
        bytes = &rest[usize::from(header.content_bytes) + usize::from(header.padding_bytes)..];
    }
    contents
}

#[test]
fn a_request_is_written_as_the_specification_draws_it() {
    // The first two records of appendix B, example 1, with the padding that section 3.3 recommends.
    let mut out = Vec::new();
    put_begin_request(&mut out, false);
    put_params(&mut out, |params| {
        params.put(b"SERVER_PORT", b"80");
        params.put_parts(b"SERVER_ADDR", &[b"199.170.", b"", b"183.42"]);
    })
    .unwrap();
    put_stdin_end(&mut out);
    let expected: [&[u8]; 5] = [
        b"\x01\x01\0\x01\0\x08\0\0\0\x01\0\0\0\0\0\0",
        b"\x01\x04\0\x01\0\x2a\x06\0\x0b\x02SERVER_PORT80\x0b\x0eSERVER_ADDR199.170.183.42",
        &[0; 6],
        b"\x01\x04\0\x01\0\0\0\0",
        b"\x01\x05\0\x01\0\0\0\0",
    ];
    assert_eq!(out, expected.concat());
}

#[test]
fn a_kept_connection_and_an_abort_have_their_bytes() {
    let mut out = Vec::new();
    put_begin_request(&mut out, true);
    put_abort_request(&mut out);
    assert_eq!(out, [1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 2, 0, 1, 0, 0, 0, 0]);
}

#[test]
fn lengths_have_one_byte_or_four() {
    let long = vec![b'v'; 128];
    let bytes = params(&[(b"", b""), (b"N", &long[..127]), (b"N", &long)]);
    let content = records(&bytes)[0];
    assert_eq!(content[..2], [0, 0]);
    assert_eq!(content[2..5], [1, 127, b'N']);
    assert_eq!(content[5 + 127..][..6], [1, 0x80, 0, 0, 128, b'N']);
    // A long name before a short value.
    let bytes = params(&[(&[b'n'; 300], b"v")]);
    assert_eq!(records(&bytes)[0][..6], [0x80, 0, 1, 44, 1, b'n']);
}

#[test]
fn no_parameters_are_one_empty_record() {
    assert_eq!(params(&[]), [1, 4, 0, 1, 0, 0, 0, 0]);
}

#[test]
fn pairs_are_not_divided_between_records() {
    // PHP reads each record by itself, and refuses one of more than 65,528 bytes.
    let value = vec![b'v'; 30_000];
    let pairs = [(&b"A"[..], &value[..]), (b"B", &value), (b"C", &value), (b"D", b"d")];
    let bytes = params(&pairs);
    let all = records(&bytes);
    assert_eq!(all.len(), 3);
    let names = |record: &[u8]| -> Vec<Pair> { read_pairs(record) };
    assert_eq!(names(all[0]).iter().map(|pair| pair.0[0]).collect::<Vec<_>>(), b"AB");
    assert_eq!(names(all[1]).iter().map(|pair| pair.0[0]).collect::<Vec<_>>(), b"CD");
    assert_eq!(all[2], b"");
}

#[test]
fn a_record_is_filled_to_its_last_byte() {
    // One byte for the name, five for the lengths.
    let value = vec![b'v'; CONTENT_BYTES_MAX - 6];
    let bytes = params(&[(b"A", &value)]);
    assert_eq!(bytes[4..8], [0xff, 0xf8, 0, 0]);
    assert_eq!(records(&bytes).iter().map(|record| record.len()).collect::<Vec<_>>(), [CONTENT_BYTES_MAX, 0]);
    let bytes = params(&[(b"A", &value), (b"", b"")]);
    assert_eq!(
        records(&bytes).iter().map(|record| record.len()).collect::<Vec<_>>(),
        [CONTENT_BYTES_MAX, 2, 0]
    );
}

#[test]
fn a_pair_that_no_record_can_hold_is_refused() {
    // PHP closes the connection when a pair is divided; flup takes the rest of the value for further parameters.
    let value = vec![b'v'; CONTENT_BYTES_MAX - 5];
    let put = |out: &mut Vec<u8>, name: &[u8], value: &[u8]| {
        put_params(out, |params| {
            params.put(b"A", b"a");
            params.put(name, value);
            params.put(b"Z", b"z");
        })
    };
    let mut out = b"before".to_vec();
    assert_eq!(put(&mut out, b"N", &value), Err(PairTooBig));
    assert_eq!(put(&mut out, &value, b"V"), Err(PairTooBig));
    assert_eq!(put(&mut out, b"N", &value.repeat(3)), Err(PairTooBig));
    assert_eq!(out, b"before");
    assert_eq!(put(&mut out, b"", &value), Ok(()));
    let lengths: Vec<_> = records(&out[6..]).iter().map(|record| record.len()).collect();
    assert_eq!(lengths, [4, CONTENT_BYTES_MAX, 4, 0]);
    assert_eq!(read_pairs(&stream(&out[6..], kind::PARAMS).0).len(), 3);
}

#[test]
fn content_goes_between_header_and_padding() {
    let cases: [(u64, [u8; 8], usize, usize); 6] = [
        (1, [1, 5, 0, 1, 0, 1, 7, 0], 1, 7),
        (8, [1, 5, 0, 1, 0, 8, 0, 0], 8, 0),
        (13, [1, 5, 0, 1, 0, 13, 3, 0], 13, 3),
        (65_527, [1, 5, 0, 1, 0xff, 0xf7, 1, 0], 65_527, 1),
        (65_529, [1, 5, 0, 1, 0xff, 0xf8, 0, 0], 65_528, 0),
        (u64::MAX, [1, 5, 0, 1, 0xff, 0xf8, 0, 0], 65_528, 0),
    ];
    for (bytes, header, content_bytes, padding_bytes) in cases {
        let record = stdin_record(bytes).unwrap();
        assert_eq!((record.header, record.content_bytes), (header, content_bytes), "{bytes}");
        assert_eq!(record.padding, &[0_u8; 8][..padding_bytes], "{bytes}");
    }
    // An empty record would end the content.
    assert_eq!(stdin_record(0), None);
}

#[test]
fn content_of_a_buffer_is_cut_into_records() {
    let mut out = Vec::new();
    put_stdin(&mut out, b"");
    assert_eq!(out, b"");
    put_stdin(&mut out, b"hello");
    assert_eq!(out, b"\x01\x05\0\x01\0\x05\x03\0hello\0\0\0");
    out.clear();
    let content = vec![b'c'; CONTENT_BYTES_MAX + 1];
    put_stdin(&mut out, &content);
    assert_eq!(records(&out).iter().map(|record| record.len()).collect::<Vec<_>>(), [CONTENT_BYTES_MAX, 1]);
}
