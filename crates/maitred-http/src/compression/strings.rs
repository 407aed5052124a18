//! Strings of field lists as decoders hold them, and how many of them are wanted.

use std::ops::Range;

use super::input::Coded;
use super::{Bounds, Decoded, FIELD_OVERHEAD_BYTES, Malformed, huffman};

/// Bytes of decoded strings that a decoder keeps memory for between blocks. Longer ones are rare: mostly first cookies.
pub(crate) const SCRATCH_BYTES_KEPT: usize = 1024;

/// What is left of the bounds.
pub(crate) struct List {
    bytes_left: usize,
    fields_left: usize,
    too_large: bool,
}

impl List {
    pub(crate) fn new(bounds: Bounds) -> List {
        List { bytes_left: bounds.list_bytes_max, fields_left: bounds.fields_max, too_large: false }
    }

    /// What strings of the next field may have together.
    #[inline]
    pub(crate) fn bytes_left(&self) -> usize {
        self.bytes_left
    }

    /// How much of the list was given out.
    pub(crate) fn decoded(&self) -> Decoded {
        if self.too_large { Decoded::TooLarge } else { Decoded::Complete }
    }

    /// Counts a field; whether it is within the bounds, and all before it were.
    #[inline]
    pub(crate) fn admits(&mut self, name_bytes: usize, value_bytes: usize) -> bool {
        let counted = name_bytes.saturating_add(value_bytes).saturating_add(FIELD_OVERHEAD_BYTES);
        if counted <= self.bytes_left && self.fields_left > 0 {
            self.bytes_left -= counted;
            self.fields_left -= 1;
            return true;
        }
        *self = List { bytes_left: 0, fields_left: 0, too_large: true };
        false
    }
}

/// Strings of one field. The memory is used again and again, without being cleared in between.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    bytes: Vec<u8>,
    used: usize,
}

impl Scratch {
    /// The strings of the field before are not needed any more.
    #[inline]
    pub(crate) fn begin_field(&mut self) {
        self.used = 0;
    }

    /// Bytes of the strings of this field.
    #[inline]
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Bytes of memory that it holds.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Where a string is now that was in Huffman's code, and has `bytes_max` at most.
    pub(crate) fn decode(&mut self, coded: &[u8], bytes_max: usize) -> Result<Range<usize>, Malformed> {
        let start = self.used;
        // The last piece is written as a whole, too.
        self.make_room(bytes_max + huffman::PIECE_BYTES);
        huffman::decode(coded, |piece, count| {
            let place = self.bytes.get_mut(self.used..).and_then(|rest| rest.first_chunk_mut());
            if let Some(place) = place {
                *place = piece;
                self.used += count;
            }
        })?;
        Ok(start..self.used)
    }

    /// Where a copy of the string is now.
    pub(crate) fn copy(&mut self, string: &[u8]) -> Range<usize> {
        self.make_room(string.len());
        let range = self.used..self.used + string.len();
        if let Some(place) = self.bytes.get_mut(range.clone()) {
            place.copy_from_slice(string);
        }
        self.used = range.end;
        range
    }

    #[inline]
    fn make_room(&mut self, bytes: usize) {
        if self.bytes.len() - self.used < bytes {
            self.bytes.resize(self.used + bytes, 0);
        }
    }

    /// The block is over: much memory is given back.
    pub(crate) fn end_block(&mut self) {
        if self.bytes.capacity() > SCRATCH_BYTES_KEPT {
            self.bytes = Vec::new();
        }
        self.used = 0;
    }
}

/// Where a decoded string is.
pub(crate) enum Text<'b> {
    /// In the block or in the static table.
    Elsewhere(&'b [u8]),
    Scratch(Range<usize>),
    /// Nowhere: so many bytes are not wanted.
    Dropped(usize),
}

impl<'b> Text<'b> {
    /// Decodes a string; if it has more than `kept_bytes_max` it is only checked.
    pub(crate) fn read(
        coded: Coded<'b>,
        kept_bytes_max: usize,
        scratch: &mut Scratch,
    ) -> Result<Text<'b>, Malformed> {
        let Coded { bytes, huffman } = coded;
        if !huffman {
            let kept = bytes.len() <= kept_bytes_max;
            return Ok(if kept { Text::Elsewhere(bytes) } else { Text::Dropped(bytes.len()) });
        }
        let symbols_max = huffman::symbols_max(bytes.len());
        if symbols_max > kept_bytes_max {
            let mut length = 0;
            huffman::decode(bytes, |_, count| length += count)?;
            if length > kept_bytes_max {
                return Ok(Text::Dropped(length));
            }
        }
        Ok(Text::Scratch(scratch.decode(bytes, symbols_max.min(kept_bytes_max))?))
    }

    /// The text's length in bytes, also if it was dropped.
    pub(crate) fn len(&self) -> usize {
        match self {
            Text::Elsewhere(bytes) => bytes.len(),
            Text::Scratch(range) => range.len(),
            Text::Dropped(length) => *length,
        }
    }

    /// The string, unless it was dropped.
    pub(crate) fn bytes<'t>(&self, scratch: &'t Scratch) -> Option<&'t [u8]>
    where
        'b: 't,
    {
        match self {
            Text::Elsewhere(bytes) => Some(bytes),
            Text::Scratch(range) => scratch.bytes.get(range.clone()),
            Text::Dropped(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h2::hpack::tests::huffman_coded;

    #[test]
    fn a_string_that_nothing_has_room_for_is_checked_and_not_stored() {
        let string = vec![b'a'; 100_000];
        let coded = huffman_coded(&string);
        let mut scratch = Scratch::default();
        let text = Text::read(Coded { bytes: &coded, huffman: true }, 99_999, &mut scratch);
        assert!(matches!(text, Ok(Text::Dropped(100_000))));
        assert_eq!(scratch.bytes.capacity(), 0);
        let text = Text::read(Coded { bytes: &string, huffman: false }, 99_999, &mut scratch);
        assert!(matches!(text, Ok(Text::Dropped(100_000))));

        let text = Text::read(Coded { bytes: &coded, huffman: true }, 100_000, &mut scratch);
        assert_eq!(text.unwrap().bytes(&scratch), Some(string.as_slice()));
        assert_eq!(scratch.bytes.capacity(), 100_000 + huffman::PIECE_BYTES);

        let mut broken = coded;
        broken.extend([0xff; 4]);
        let text = Text::read(Coded { bytes: &broken, huffman: true }, 10, &mut scratch);
        assert_eq!(text.err(), Some(Malformed::Huffman));
    }
}
