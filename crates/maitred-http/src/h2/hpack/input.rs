//! Integers and strings of a field block (7541-5), read and written.

use super::Error;

/// Bytes that follow the prefix of an integer. Four hold 28 bits, and no index, length or size that makes sense has more
/// (7541-5.1 asks for such a bound).
pub(super) const INTEGER_CONTINUATIONS_MAX: usize = 4;

/// A field block, or what is left of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Input<'b> {
    rest: &'b [u8],
}

/// A string as it is in the block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coded<'b> {
    pub(super) bytes: &'b [u8],
    pub(super) huffman: bool,
}

impl<'b> Input<'b> {
    pub(super) fn new(block: &'b [u8]) -> Input<'b> {
        Input { rest: block }
    }

    /// The byte that the next representation begins with, or `None` at the end of the block.
    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// An integer whose lower bits begin in the `prefix_bits` (1 to 7) of its first byte.
    ///
    /// Errors: [`Error::Truncated`], [`Error::Integer`].
    #[inline]
    pub(super) fn integer(&mut self, prefix_bits: u32) -> Result<usize, Error> {
        let (first, rest) = self.rest.split_first().ok_or(Error::Truncated)?;
        let prefix_max = (1 << prefix_bits) - 1;
        let prefix = usize::from(*first) & prefix_max;
        self.rest = rest;
        if prefix < prefix_max { Ok(prefix) } else { self.continuation(prefix) }
    }

    fn continuation(&mut self, prefix: usize) -> Result<usize, Error> {
        let mut value = prefix;
        for shift in (0..INTEGER_CONTINUATIONS_MAX).map(|number| 7 * number) {
            let (byte, rest) = self.rest.split_first().ok_or(Error::Truncated)?;
            self.rest = rest;
            value += usize::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Error::Integer)
    }

    /// A string, still coded.
    #[inline]
    pub(super) fn string(&mut self) -> Result<Coded<'b>, Error> {
        let huffman = self.peek().ok_or(Error::Truncated)? & 0x80 != 0;
        let length = self.integer(7)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Error::Truncated)?;
        self.rest = rest;
        Ok(Coded { bytes, huffman })
    }
}

/// Writes an integer with a prefix of `prefix_bits` (1 to 7); `pattern` has the other bits of the first byte.
#[inline]
pub(super) fn write_integer(out: &mut Vec<u8>, pattern: u8, prefix_bits: u32, value: usize) {
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
