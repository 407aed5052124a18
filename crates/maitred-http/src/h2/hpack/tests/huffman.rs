//! The Huffman code.

use crate::compression::{Malformed, huffman};

pub(super) fn decode(coded: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut string = Vec::new();
    huffman::decode(coded, |symbols, count| string.extend(&symbols[..count]))?;
    Ok(string)
}

/// Bits of 7541 Appendix B, padded with ones.
fn pad(bits: &str) -> Vec<u8> {
    let digits: Vec<u8> = bits.bytes().filter(|byte| *byte != b'|').collect();
    let byte =
        |bits: &[u8]| (0..8).fold(0, |byte, bit| byte << 1 | bits.get(bit).map_or(1, |digit| digit & 1));
    digits.chunks(8).map(byte).collect()
}

#[test]
fn codes_are_those_of_the_rfc() {
    let rows: [(u8, &str); 18] = [
        (b'0', "00000"),
        (b't', "01001"),
        (b' ', "010100"),
        (b'u', "101101"),
        (b':', "1011100"),
        (b'z', "1111011"),
        (b'&', "11111000"),
        (b'Z', "11111101"),
        (b'!', "11111110|00"),
        (b'+', "11111111|011"),
        (0, "11111111|11000"),
        (b'~', "11111111|11101"),
        (b'\\', "11111111|11111110|000"),
        (128, "11111111|11111110|0110"),
        (1, "11111111|11111111|1011000"),
        (9, "11111111|11111111|11101010"),
        (249, "11111111|11111111|11111111|1110"),
        (b'\n', "11111111|11111111|11111111|111100"),
    ];
    for (symbol, bits) in rows {
        assert_eq!(decode(&pad(bits)), Ok(vec![symbol]), "{bits}");
        // Behind and before other codes, and where the last one is at the end of a byte.
        assert_eq!(decode(&pad(&format!("00000{bits}01001"))), Ok(vec![b'0', symbol, b't']), "{bits}");
        assert_eq!(decode(&pad(&bits.repeat(8))), Ok(vec![symbol; 8]), "{bits}");
    }
}

#[test]
fn padding_is_less_than_a_byte_of_ones() {
    assert_eq!(decode(b""), Ok(Vec::new()));
    assert_eq!(decode(&[0b0000_0111]), Ok(b"0".to_vec()));
    assert_eq!(decode(&[0b0000_0110]), Err(Malformed::Huffman));
    assert_eq!(decode(&[0b0000_0111, 0xff]), Err(Malformed::Huffman));
    assert_eq!(decode(&[0xff]), Err(Malformed::Huffman));
    // Seven bits are the most.
    assert_eq!(decode(&pad("00000010100010100")), Ok(b"0  ".to_vec()));
}

#[test]
fn the_end_of_string_symbol_is_an_error() {
    let end = "1".repeat(30);
    assert_eq!(decode(&pad(&end)), Err(Malformed::Huffman));
    assert_eq!(decode(&pad(&format!("{end}{}", "00000".repeat(20)))), Err(Malformed::Huffman));
    assert_eq!(decode(&pad(&format!("{}{end}00000", "00000".repeat(20)))), Err(Malformed::Huffman));
}
