//! What a decoder refuses, and how it is bounded.

use super::{bytes, decode, decode_within, said};
use crate::compression::input::{write_integer, write_long_integer};
use crate::h3::Code;
use crate::h3::qpack::{
    ACKNOWLEDGEMENT_BYTES_MAX, BLOCKED_STREAMS_MOST, BOUNDS, Bounds, Decoded, Decoder, Encoder, Outcome,
};

const COMPLETE: Outcome = Outcome::Decoded(Decoded::Complete);
const FAILED: Result<(Outcome, String), Code> = Err(Code::DecompressionFailed);

fn refused(decoder: &mut Decoder, hex: &str) -> Option<Code> {
    decoder.encoder_stream(&bytes(hex)).err().map(|error| error.code)
}

/// A decoder with so many entries: the numbers, as values of "n".
fn filled(table_bytes: usize, entries: usize) -> Decoder {
    let mut decoder = Decoder::new(table_bytes, 2);
    let mut instructions = Vec::new();
    write_integer(&mut instructions, 0x20, 5, table_bytes);
    for number in 0..entries {
        let value = number.to_string();
        instructions.extend([0x41, b'n', value.len() as u8]);
        instructions.extend(value.bytes());
    }
    decoder.encoder_stream(&instructions).unwrap();
    decoder
}

#[test]
fn a_section_that_ends_early_is_an_error_wherever_it_ends() {
    let fields = [
        "d1",
        "ff23",
        "5103616263",
        "5f0501 78",
        "2f01 25a849e95ba97d7f 01 78",
        "2361 6263 00",
        "5188 60d5485f2bce9a68",
    ];
    let (mut section, mut ends) = (bytes("0000"), vec![2]);
    for field in fields {
        section.extend(bytes(field));
        ends.push(section.len());
    }
    let mut decoder = Decoder::new(0, 0);
    for end in 0..=section.len() {
        let decoded = decode(&mut decoder, 0, &section[..end]);
        match ends.iter().position(|known| *known == end) {
            Some(count) => assert_eq!(decoded.map(|(_, lines)| lines.lines().count()), Ok(count)),
            None => assert_eq!(decoded, FAILED, "after {end} bytes"),
        }
    }
}

#[test]
fn what_is_in_no_table_is_an_error() {
    let mut decoder = Decoder::new(0, 0);
    // Static index 99; relative, post-base and both kinds of names without a dynamic table.
    for hex in ["ff24", "7f54 00", "80", "10", "4000", "0000"] {
        assert_eq!(decode(&mut decoder, 0, &bytes(&format!("0000 {hex}"))), FAILED, "{hex}");
    }
    // A Required Insert Count without a table; a base below zero.
    for hex in ["0100", "0200 80", "0080", "0081"] {
        assert_eq!(decode(&mut decoder, 0, &bytes(hex)), FAILED, "{hex}");
    }
    // A base says nothing when there is no reference.
    assert_eq!(decode(&mut decoder, 0, &bytes("0005 d1")), Ok((COMPLETE, ":method: GET\n".to_owned())));
    for hex in ["0000 5181ff", "0000 5184ffffffff", "0000 2981fe00"] {
        assert_eq!(decode(&mut decoder, 0, &bytes(hex)), FAILED, "{hex}: no Huffman code");
    }
}

#[test]
fn references_are_relative_to_the_base_and_covered_by_the_count() {
    let mut decoder = filled(220, 3);
    let mut lines = |hex: &str| decode(&mut decoder, 0, &bytes(hex)).map(|(_, lines)| lines);
    // The count is 3; the base 3, 1 (3 - 1 - 1) and 5.
    assert_eq!(lines("0400 80 81 82").as_deref(), Ok("n: 2\nn: 1\nn: 0\n"));
    assert_eq!(lines("0481 80 10 11 4001 78 0001 79").as_deref(), Ok("n: 0\nn: 1\nn: 2\nn: x\nn: y\n"));
    assert_eq!(lines("0402 82").as_deref(), Ok("n: 2\n"));
    for hex in ["0400 83", "0400 10", "0481 12", "0481 81", "0402 81", "0300 81 10", "0483 80"] {
        assert_eq!(lines(hex), Err(Code::DecompressionFailed), "{hex}");
    }
}

#[test]
fn evicted_entries_are_gone() {
    // Each entry counts for 34 or 35 bytes, so that two or three are left.
    let mut decoder = filled(100, 12);
    assert_eq!((decoder.inserted(), decoder.table_bytes()), (12, 70));
    // The full range is 6: 12 is encoded as 1.
    let lines = decode(&mut decoder, 0, &bytes("0100 80 81")).unwrap().1;
    assert_eq!(lines, "n: 11\nn: 10\n");
    assert_eq!(decode(&mut decoder, 0, &bytes("0100 82")), FAILED);
    assert_eq!(decode(&mut decoder, 0, &bytes("0700 80")), FAILED, "beyond the full range");
    // 9 to 15 are meant by what is in the range; 13 has not come.
    assert_eq!(decode(&mut decoder, 0, &bytes("0200 80")), Ok((Outcome::Blocked, String::new())));
}

#[test]
fn instructions_that_cannot_be_carried_out_are_errors() {
    let error = Some(Code::EncoderStreamError);
    // A capacity of 101; entries without a capacity, and duplicates and names of no entry.
    for hex in ["3f46", "c001 78", "4161 00", "4000", "00", "8000", "81", "1f00", "3fffffffff7f"] {
        assert_eq!(refused(&mut Decoder::new(100, 1), hex), error, "{hex}");
    }
    for (hex, wanted) in [("3f45", None), ("3f45 ff2400", error), ("3f45 4161 03787878 00 02", error)] {
        assert_eq!(refused(&mut Decoder::new(100, 1), hex), wanted, "{hex}");
    }
    let mut decoder = filled(100, 1);
    // 66 bytes and the name are all that a table of 100 takes beside 32 and "n".
    let entry = |bytes: usize| [&[0x80], &[bytes as u8][..], vec![b'x'; bytes].as_slice()].concat();
    assert_eq!(decoder.encoder_stream(&entry(67)), Ok(()));
    assert_eq!((decoder.inserted(), decoder.table_bytes()), (2, 100));
    assert_eq!(decoder.encoder_stream(&entry(68)).unwrap_err().code, Code::EncoderStreamError);
    let huffman = bytes("80 82 fffe");
    assert_eq!(filled(100, 1).encoder_stream(&huffman).unwrap_err().code, Code::EncoderStreamError);
}

#[test]
fn what_is_kept_of_an_instruction_is_bounded_by_the_capacity() {
    for (pattern, bytes_max) in [(0x00, 100), (0x80, 400)] {
        let mut decoder = filled(100, 0);
        let mut start = vec![0xc0];
        write_integer(&mut start, pattern, 7, bytes_max);
        assert_eq!(decoder.encoder_stream(&start), Ok(()));
        (1..bytes_max).for_each(|_| decoder.encoder_stream(&[0]).unwrap());
        assert_eq!(decoder.pending_bytes(), start.len() + bytes_max - 1);

        let mut decoder = filled(100, 0);
        let mut start = vec![0xc0];
        write_integer(&mut start, pattern, 7, bytes_max + 1);
        assert_eq!(decoder.encoder_stream(&start).unwrap_err().code, Code::EncoderStreamError);
    }
}

#[test]
fn more_streams_than_advertised_are_never_blocked() {
    let mut decoder = filled(220, 0);
    let section = bytes("0200 80");
    for stream in [0, 4, 0, 4] {
        assert_eq!(decode(&mut decoder, stream, &section), Ok((Outcome::Blocked, String::new())));
    }
    assert_eq!(decoder.blocked(), 2);
    decoder.cancel(0);
    assert_eq!(decode(&mut decoder, 8, &section), Ok((Outcome::Blocked, String::new())));
    assert_eq!(decode(&mut decoder, 12, &section), FAILED);
    assert_eq!(Decoder::new(220, u16::MAX).blocked_max(), BLOCKED_STREAMS_MOST);
    assert_eq!(decode(&mut Decoder::new(220, 0), 0, &section), FAILED);
}

#[test]
fn each_section_with_references_is_acknowledged_and_other_entries_are_counted() {
    let mut decoder = filled(220, 3);
    let mut check = |hex: &str, stream: u64, wanted: &str| {
        decode(&mut decoder, stream, &bytes(hex)).unwrap();
        assert_eq!(said(&mut decoder), bytes(wanted));
    };
    // The section has told of two entries; one is left.
    check("0300 80", 4, "84 01");
    check("0300 80", 1000, "ff e906");
    check("0000 d1", 8, "");
    let mut cancelled = Vec::new();
    write_long_integer(&mut cancelled, 0x40, 6, 1 << 60);
    decoder.cancel(1 << 60);
    assert_eq!(said(&mut decoder), cancelled);
    let mut fixed = Decoder::new(0, 0);
    fixed.cancel(4);
    assert_eq!(said(&mut fixed), []);
}

#[test]
fn a_peer_that_reads_no_acknowledgements_is_an_excessive_load() {
    let mut decoder = filled(220, 1);
    let section = bytes("0200 80");
    (0..ACKNOWLEDGEMENT_BYTES_MAX).for_each(|_| assert!(decode(&mut decoder, 4, &section).is_ok()));
    assert_eq!(decode(&mut decoder, 4, &section), Err(Code::ExcessiveLoad));
    decoder.cancel(4);
    assert_eq!(said(&mut decoder).len(), ACKNOWLEDGEMENT_BYTES_MAX);
    assert!(decode(&mut decoder, 4, &section).is_ok());
}

#[test]
fn beyond_the_bounds_nothing_is_given_out_and_everything_is_checked() {
    let mut section = Vec::new();
    Encoder::begin(&mut section);
    [("one", "1"), ("two", "22"), ("six", "3")]
        .iter()
        .for_each(|(name, value)| Encoder::field(name.as_bytes(), value.as_bytes(), &mut section));
    let both = Bounds { list_bytes_max: 36 + 37, fields_max: 2 };
    let bounds = [
        // Up to the last byte, and to the last field.
        (both, "one: 1\ntwo: 22\n"),
        (Bounds { list_bytes_max: 36 + 36, ..both }, "one: 1\n"),
        (Bounds { fields_max: 1, ..both }, "one: 1\n"),
        (Bounds { list_bytes_max: 0, ..both }, ""),
    ];
    let too_large = Outcome::Decoded(Decoded::TooLarge);
    let mut decoder = Decoder::new(0, 0);
    for (bounds, lines) in bounds {
        let decoded = decode_within(&mut decoder, bounds, 0, &section);
        assert_eq!(decoded, Ok((too_large, lines.to_owned())));
        let broken = [&section[..], &[0xff]].concat();
        assert_eq!(decode_within(&mut decoder, bounds, 0, &broken), FAILED);
    }
    let mut large = bytes("0000 51");
    write_integer(&mut large, 0, 7, BOUNDS.list_bytes_max);
    large.resize(large.len() + BOUNDS.list_bytes_max, b'x');
    assert_eq!(decode(&mut decoder, 0, &large), Ok((too_large, String::new())));
}
