//! Integers and strings of a field block (7541-5), read and written.

use super::Malformed;

/// Bytes that follow the prefix of an integer. Four hold 28 bits, and no index, length or size that makes sense has more
/// (7541-5.1 asks for such a bound).
pub(crate) const INTEGER_CONTINUATIONS_MAX: usize = 4;

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
    pub(crate) fn new(block: &'b [u8]) -> Input<'b> {
        Input { rest: block }
    }

    /// The byte that the next representation begins with, or `None` at the end of the block.
    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// An integer whose lower bits begin in the `prefix_bits` (1 to 7) of its first byte.
    ///
    /// Errors: [`Malformed::Truncated`], [`Malformed::Integer`].
    #[inline]
    pub(crate) fn integer(&mut self, prefix_bits: u32) -> Result<usize, Malformed> {
        let (first, rest) = self.rest.split_first().ok_or(Malformed::Truncated)?;
        let prefix_max = (1 << prefix_bits) - 1;
        let prefix = usize::from(*first) & prefix_max;
        self.rest = rest;
        if prefix < prefix_max { Ok(prefix) } else { self.continuation(prefix) }
    }

    fn continuation(&mut self, prefix: usize) -> Result<usize, Malformed> {
        let mut value = prefix;
        for shift in (0..INTEGER_CONTINUATIONS_MAX).map(|number| 7 * number) {
            let (byte, rest) = self.rest.split_first().ok_or(Malformed::Truncated)?;
            self.rest = rest;
            value += usize::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed::Integer)
    }

    /// A string, still coded. Its length begins in the `prefix_bits` (1 to 7) of its first byte, and the bit above them says
    /// whether it is in Huffman's code.
    #[inline]
    pub(crate) fn string(&mut self, prefix_bits: u32) -> Result<Coded<'b>, Malformed> {
        let huffman = self.peek().ok_or(Malformed::Truncated)? & (1 << prefix_bits) != 0;
        let length = self.integer(prefix_bits)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(Coded { bytes, huffman })
    }
}

/// Writes an integer with a prefix of `prefix_bits` (1 to 7); `pattern` has the other bits of the first byte.
#[inline]
pub(crate) fn write_integer(out: &mut Vec<u8>, pattern: u8, prefix_bits: u32, value: usize) {
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
