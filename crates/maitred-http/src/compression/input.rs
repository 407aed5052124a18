//! Integers and strings of a field block (7541-5), read and written.

use super::{Malformed, huffman};

/// Bytes that follow the prefix of an integer. Four hold 28 bits, and no index, length or size that makes sense has more
/// (7541-5.1 asks for such a bound).
pub(crate) const INTEGER_CONTINUATIONS_MAX: usize = 4;

/// Bytes that follow the prefix of an integer of 62 bits: as many as hold 63 (9204-4.1.1).
const LONG_CONTINUATIONS_MAX: usize = 9;

/// A field block, or what is left of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'b> {
    rest: &'b [u8],
}

/// A string as it is in the block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Coded<'b> {
    pub(crate) bytes: &'b [u8],
    pub(crate) huffman: bool,
}

impl<'b> Input<'b> {
    /// Bytes that were not read yet.
    #[inline]
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn new(block: &'b [u8]) -> Input<'b> {
        Input { rest: block }
    }

    /// The byte that the next representation begins with, or `None` at the end of the block.
    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// An integer whose lower bits begin in the `prefix_bits` (1 to 8) of its first byte.
    ///
    /// Errors: [`Malformed::Truncated`], [`Malformed::Integer`].
    #[inline]
    pub(crate) fn integer(&mut self, prefix_bits: u32) -> Result<usize, Malformed> {
        let (first, rest) = self.rest.split_first().ok_or(Malformed::Truncated)?;
        let prefix_max = (1 << prefix_bits) - 1;
        let prefix = usize::from(*first) & prefix_max;
        self.rest = rest;
        if prefix < prefix_max {
            return Ok(prefix);
        }
        Ok(self.continuation::<INTEGER_CONTINUATIONS_MAX>(prefix as u64)? as usize)
    }

    /// The same for what may have up to 62 bits: identifiers of streams, and counts that only grow (9204-4.1.1).
    pub(crate) fn long_integer(&mut self, prefix_bits: u32) -> Result<u64, Malformed> {
        let (first, rest) = self.rest.split_first().ok_or(Malformed::Truncated)?;
        let prefix_max = (1 << prefix_bits) - 1;
        let prefix = u64::from(*first) & prefix_max;
        self.rest = rest;
        if prefix < prefix_max {
            return Ok(prefix);
        }
        let value = self.continuation::<LONG_CONTINUATIONS_MAX>(prefix)?;
        if value >> 62 == 0 { Ok(value) } else { Err(Malformed::Integer) }
    }

    /// What follows a prefix whose bits are all set. With at most nine bytes no sum is too large for 64 bits.
    fn continuation<const BYTES_MAX: usize>(&mut self, prefix: u64) -> Result<u64, Malformed> {
        let mut value = prefix;
        for shift in (0..BYTES_MAX).map(|number| 7 * number) {
            let (byte, rest) = self.rest.split_first().ok_or(Malformed::Truncated)?;
            self.rest = rest;
            value += u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed::Integer)
    }

    /// A string, still coded. The string's length begins in the `prefix_bits` (1 to 7) of its first byte, and the bit above
    /// them says whether it is in Huffman's code.
    #[inline]
    pub(crate) fn string(&mut self, prefix_bits: u32) -> Result<Coded<'b>, Malformed> {
        let huffman = self.peek().ok_or(Malformed::Truncated)? & (1 << prefix_bits) != 0;
        let length = self.integer(prefix_bits)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(Coded { bytes, huffman })
    }
}

/// Writes an integer with a prefix of `prefix_bits` (1 to 8); `pattern` has the other bits of the first byte.
#[inline]
pub(crate) fn write_integer(out: &mut Vec<u8>, pattern: u8, prefix_bits: u32, value: usize) {
    write_long_integer(out, pattern, prefix_bits, value as u64);
}

/// The same for up to 64 bits.
#[inline]
pub(crate) fn write_long_integer(out: &mut Vec<u8>, pattern: u8, prefix_bits: u32, value: u64) {
    let prefix_max = (1 << prefix_bits) - 1;
    if value < prefix_max {
        out.push(pattern | value as u8);
        return;
    }
    out.push(pattern | prefix_max as u8);
    let mut rest = value - prefix_max;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Writes a string in Huffman's code if that is shorter, as it is otherwise. The length has a prefix of `prefix_bits` (1 to 7),
/// the bit above them says which of both it is, and `pattern` has the others of the first byte.
pub(crate) fn write_string(
    out: &mut Vec<u8>,
    pattern: u8,
    prefix_bits: u32,
    string: impl ExactSizeIterator<Item = u8> + Clone,
) {
    let coded_bytes = huffman::coded_bytes(string.clone());
    if coded_bytes < string.len() {
        write_integer(out, pattern | 1 << prefix_bits, prefix_bits, coded_bytes);
        huffman::encode(string, out);
    } else {
        write_integer(out, pattern, prefix_bits, string.len());
        out.extend(string);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn integers_of_62_bits_are_read_and_longer_ones_are_not() {
        let largest = (1 << 62) - 1;
        for (value, wanted) in [(largest, Ok(largest)), (largest + 1, Err(Malformed::Integer))] {
            for prefix_bits in 3..=8 {
                let mut bytes = Vec::new();
                write_long_integer(&mut bytes, 0, prefix_bits, value);
                assert_eq!(Input::new(&bytes).long_integer(prefix_bits), wanted);
                assert_eq!(Input::new(&bytes).integer(prefix_bits), Err(Malformed::Integer));
            }
        }
        assert_eq!(Input::new(&[0xff; 20]).long_integer(7), Err(Malformed::Integer));
        assert_eq!(Input::new(&[0xff; 9]).long_integer(7), Err(Malformed::Truncated));
    }

    proptest! {
        #[test]
        fn integers_and_strings_come_back(
            value in 0..1_u64 << 62,
            shift in 0..62_u32,
            prefix_bits in 3..=7_u32,
            string in prop_oneof![any::<Vec<u8>>(), "[ -~]{0,40}".prop_map(String::into_bytes)],
        ) {
            let (mut bytes, value) = (Vec::new(), value >> shift);
            write_long_integer(&mut bytes, 0, prefix_bits, value);
            write_string(&mut bytes, 0, prefix_bits, string.iter().copied());
            let mut input = Input::new(&bytes);
            prop_assert_eq!(input.long_integer(prefix_bits), Ok(value));
            let coded = input.string(prefix_bits).unwrap();
            prop_assert_eq!(input.left(), 0);
            prop_assert!(coded.bytes.len() <= string.len());
            let mut decoded: Vec<u8> = Vec::new();
            if coded.huffman {
                huffman::decode(coded.bytes, |piece, count| decoded.extend(&piece[..count])).unwrap();
            } else {
                decoded.extend(coded.bytes);
            }
            prop_assert_eq!(decoded, string);
        }
    }
}
