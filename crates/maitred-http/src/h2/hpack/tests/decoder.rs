//! What a decoder refuses, and how it is bounded.

use crate::compression::input::write_integer;
use crate::h2::hpack::{Bounds, Decoded, Decoder, Error};

const BOUNDS: Bounds = Bounds { list_bytes_max: 1 << 16, fields_max: 100 };

fn decode_within(
    decoder: &mut Decoder,
    bounds: Bounds,
    block: &[u8],
) -> (Result<Decoded, Error>, Vec<String>) {
    let mut lines = Vec::new();
    let decoded = decoder.decode(block, bounds, |name, value| {
        lines.push(format!("{}: {}", String::from_utf8_lossy(name), String::from_utf8_lossy(value)));
    });
    (decoded, lines)
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Decoded, Error> {
    decode_within(decoder, BOUNDS, block).0
}

/// A literal without Huffman's code; `pattern` is 0x40 if it is to be indexed.
fn literal(pattern: u8, name: &str, value: &str) -> Vec<u8> {
    let mut block = vec![pattern];
    for string in [name, value] {
        write_integer(&mut block, 0, 7, string.len());
        block.extend(string.as_bytes());
    }
    block
}

#[test]
fn a_block_that_ends_early_is_an_error_wherever_it_ends() {
    let mut block = literal(0x40, "name", "value");
    block.extend([0x04, 0x86, 0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]);
    write_integer(&mut block, 0x80, 7, 61);
    let first = literal(0x40, "name", "value").len();
    let second = first + 8;
    for end in 0..=block.len() {
        let whole = end == 0 || end == first || end == second || end == block.len();
        let wanted = if whole { Ok(Decoded::Complete) } else { Err(Error::Truncated) };
        assert_eq!(decode(&mut Decoder::new(4096), &block[..end]), wanted, "after {end} bytes");
    }
    assert_eq!(decode(&mut Decoder::new(4096), &[0xff, 0x80, 0x80]), Err(Error::Truncated));
}

#[test]
fn integers_are_bounded() {
    // 127 and 15 with bytes that add nothing.
    let padded = |pattern: u8, zeros: usize| [&[pattern], vec![0x80; zeros].as_slice(), &[0]].concat();
    let mut decoder = Decoder::new(4096);
    assert_eq!(decode(&mut decoder, &padded(0xff, 3)), Err(Error::Index));
    assert_eq!(decode(&mut decoder, &padded(0xff, 4)), Err(Error::Integer));
    assert_eq!(decode(&mut decoder, &[0xff; 40]), Err(Error::Integer));
    assert_eq!(decode(&mut decoder, &[0x00, 0x7f, 0xff, 0xff, 0xff, 0x7f]), Err(Error::Truncated));
}

#[test]
fn an_index_of_no_entry_is_an_error() {
    for first in [0x80, 0x80 | 62, 0x80 | 63] {
        assert_eq!(decode(&mut Decoder::new(4096), &[first]), Err(Error::Index));
    }
    let mut decoder = Decoder::new(4096);
    assert_eq!(decode(&mut decoder, &literal(0x40, "name", "value")), Ok(Decoded::Complete));
    let (decoded, lines) = decode_within(&mut decoder, BOUNDS, &[0x80 | 62]);
    assert_eq!((decoded, lines), (Ok(Decoded::Complete), vec!["name: value".to_owned()]));
    assert_eq!(decode(&mut decoder, &[0x80 | 63]), Err(Error::Index));
    assert_eq!(decode(&mut decoder, &[0x40 | 63, 0x00]), Err(Error::Index));
}

#[test]
fn size_updates_come_first_and_are_two_at_most() {
    assert_eq!(decode(&mut Decoder::new(4096), &[0x20, 0x3f, 0x00, 0x82]), Ok(Decoded::Complete));
    assert_eq!(decode(&mut Decoder::new(4096), &[0x20, 0x20, 0x20, 0x82]), Err(Error::SizeUpdate));
    assert_eq!(decode(&mut Decoder::new(4096), &[0x82, 0x20]), Err(Error::SizeUpdate));
}

#[test]
fn the_table_is_as_large_as_was_advertised() {
    let update = |bytes: usize| {
        let mut block = Vec::new();
        write_integer(&mut block, 0x20, 5, bytes);
        block
    };
    for advertised in [0, 100, 4096, 65536] {
        let mut decoder = Decoder::new(advertised);
        // Before the peer knows, it may use the default.
        assert_eq!(decode(&mut decoder, &update(advertised.max(4096))), Ok(Decoded::Complete));
        decoder.settings_acknowledged();
        if advertised < 4096 {
            assert_eq!(decode(&mut decoder, &[0x82]), Err(Error::SizeUpdate));
        }
        assert_eq!(decode(&mut decoder, &update(advertised)), Ok(Decoded::Complete));
        assert_eq!(decode(&mut decoder, &[0x82]), Ok(Decoded::Complete));
        assert_eq!(decode(&mut decoder, &update(advertised + 1)), Err(Error::SizeUpdate));
    }
}

#[test]
fn a_smaller_table_evicts() {
    let mut decoder = Decoder::new(4096);
    let block = [literal(0x40, "one", "1"), literal(0x40, "two", "2")].concat();
    assert_eq!(decode(&mut decoder, &block), Ok(Decoded::Complete));
    assert_eq!(decoder.table_bytes(), 72);
    let (_, lines) = decode_within(&mut decoder, BOUNDS, &[0x3f, 71 - 31, 0x80 | 62]);
    assert_eq!((decoder.table_bytes(), lines), (36, vec!["two: 2".to_owned()]));
}

#[test]
fn a_field_takes_the_name_of_an_entry_that_it_evicts() {
    let mut decoder = Decoder::new(4096);
    assert_eq!(decode(&mut decoder, &[0x3f, 40 - 31]), Ok(Decoded::Complete));
    assert_eq!(decode(&mut decoder, &literal(0x40, "name", "1234")), Ok(Decoded::Complete));
    let (decoded, lines) =
        decode_within(&mut decoder, BOUNDS, &[0x40 | 62, 0x04, b'5', b'6', b'7', b'8', 0x80 | 62]);
    assert_eq!(decoded, Ok(Decoded::Complete));
    assert_eq!(lines, ["name: 5678", "name: 5678"]);
    assert_eq!(decoder.table_bytes(), 40);
}

#[test]
fn beyond_the_bounds_nothing_is_given_out_and_the_table_stays_in_step() {
    let block = [literal(0x40, "one", "1"), literal(0x40, "two", "22"), literal(0x40, "six", "3")].concat();
    let both = Bounds { list_bytes_max: 36 + 37, fields_max: 2 };
    let bounds = [
        // Up to the last byte, and to the last field.
        (both, 2),
        (Bounds { list_bytes_max: 36 + 36, ..both }, 1),
        (Bounds { fields_max: 1, ..both }, 1),
        (Bounds { list_bytes_max: 0, ..both }, 0),
    ];
    for (bounds, count) in bounds {
        let mut decoder = Decoder::new(4096);
        let (decoded, lines) = decode_within(&mut decoder, bounds, &block);
        assert_eq!(decoded, Ok(Decoded::TooLarge));
        // What comes later would fit, but would not be what the peer meant.
        assert_eq!(lines, ["one: 1", "two: 22"][..count]);
        let (decoded, lines) = decode_within(&mut decoder, BOUNDS, &[0x80 | 62, 0x80 | 63, 0x80 | 64]);
        assert_eq!(decoded, Ok(Decoded::Complete));
        assert_eq!(lines, ["six: 3", "two: 22", "one: 1"]);
    }
}

#[test]
fn a_string_that_is_larger_than_everything_empties_the_table() {
    let mut decoder = Decoder::new(4096);
    let bounds = Bounds { list_bytes_max: 1000, fields_max: 10 };
    assert_eq!(decode(&mut decoder, &literal(0x40, "name", "value")), Ok(Decoded::Complete));
    let (decoded, lines) = decode_within(&mut decoder, bounds, &literal(0x40, "name", &"x".repeat(100_000)));
    assert_eq!((decoded, lines.len()), (Ok(Decoded::TooLarge), 0));
    assert_eq!(decoder.table_bytes(), 0);
    // A field that the list has no room for, but the table has.
    let (decoded, lines) = decode_within(&mut decoder, bounds, &literal(0x40, "name", &"x".repeat(2000)));
    assert_eq!((decoded, lines.len()), (Ok(Decoded::TooLarge), 0));
    assert_eq!(decoder.table_bytes(), 2036);
}
