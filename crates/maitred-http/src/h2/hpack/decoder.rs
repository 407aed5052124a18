//! From field blocks to fields (7541-3).

use std::ops::Range;

use super::input::{Coded, Input};
use super::table::Table;
use super::{Bounds, Decoded, Error, FIELD_OVERHEAD_BYTES, TABLE_BYTES_DEFAULT, huffman, static_table};

/// Size updates that may begin a block: the smallest size since the last block, and the one that holds (7541-4.2).
const SIZE_UPDATES_MAX: usize = 2;

/// Bytes of decoded strings that a decoder keeps memory for between blocks. Longer ones are rare: mostly first cookies.
const SCRATCH_BYTES_KEPT: usize = 1024;

/// Offsets in a table have 32 bits. No peer advertises as much.
const TABLE_BYTES_MOST: usize = 1 << 30;

/// Decodes the field blocks of one connection.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// What was advertised.
    advertised_bytes: usize,
    /// What a size update may ask for: [`TABLE_BYTES_DEFAULT`] holds until the peer has seen the settings.
    update_bytes_max: usize,
    /// The next block has to shrink the table, because the peer has seen that it is to be smaller (9113-4.3.1).
    update_due: bool,
    /// Strings of one field that the block has in Huffman's code, and names that may be evicted.
    scratch: Scratch,
}

impl Decoder {
    /// A decoder with the dynamic table that SETTINGS_HEADER_TABLE_SIZE advertises: it takes up to `table_bytes_max`.
    pub fn new(table_bytes_max: usize) -> Decoder {
        let advertised_bytes = table_bytes_max.min(TABLE_BYTES_MOST);
        Decoder {
            table: Table::new(TABLE_BYTES_DEFAULT),
            advertised_bytes,
            update_bytes_max: advertised_bytes.max(TABLE_BYTES_DEFAULT),
            update_due: false,
            scratch: Scratch::default(),
        }
    }

    /// The peer has acknowledged the settings that advertise the table. If that is a smaller one than it has, its next block
    /// must begin with a size update.
    pub fn settings_acknowledged(&mut self) {
        self.update_bytes_max = self.advertised_bytes;
        self.update_due = self.table.bytes_max() > self.advertised_bytes;
    }

    /// Decodes one whole field block: the fragments of a HEADERS frame and its CONTINUATIONs, joined. `field` is called with
    /// name and value of each field, in order.
    ///
    /// What is beyond the `bounds`, and all that follows it, is decoded too, so that the table stays in step, but is not given to
    /// `field`. Strings that neither the bounds nor the table have room for are checked without being stored.
    ///
    /// Errors end the connection: the table is not in step any more.
    #[inline]
    pub fn decode(
        &mut self,
        block: &[u8],
        bounds: Bounds,
        mut field: impl FnMut(&[u8], &[u8]),
    ) -> Result<Decoded, Error> {
        let mut input = Input::new(block);
        let mut list =
            List { bytes_left: bounds.list_bytes_max, fields_left: bounds.fields_max, too_large: false };
        self.size_updates(&mut input)?;
        while let Some(first) = input.peek() {
            if first & 0x80 != 0 {
                let index = input.integer(7)?;
                let (name, value) = indexed(&self.table, index)?;
                if list.admits(name.len(), value.len()) {
                    field(name, value);
                }
            } else {
                // Whether a field may be indexed by those that send it on does not matter: Maitred never sends one on.
                self.literal(first & 0x40 != 0, &mut input, &mut list, &mut field)?;
            }
        }
        self.scratch.end_block();
        Ok(if list.too_large { Decoded::TooLarge } else { Decoded::Complete })
    }

    /// Bytes that the dynamic table's entries count for (7541-4.1).
    pub fn table_bytes(&self) -> usize {
        self.table.bytes()
    }

    fn size_updates(&mut self, input: &mut Input<'_>) -> Result<(), Error> {
        for _ in 0..SIZE_UPDATES_MAX {
            if !input.peek().is_some_and(is_size_update) {
                break;
            }
            let bytes_max = input.integer(5)?;
            if bytes_max > self.update_bytes_max {
                return Err(Error::SizeUpdate);
            }
            self.table.set_bytes_max(bytes_max);
            self.update_due = false;
        }
        if self.update_due { Err(Error::SizeUpdate) } else { Ok(()) }
    }

    /// A field whose value, and perhaps whose name, is in the block (7541-6.2).
    fn literal(
        &mut self,
        indexing: bool,
        input: &mut Input<'_>,
        list: &mut List,
        field: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Error> {
        if !indexing && input.peek().is_some_and(is_size_update) {
            return Err(Error::SizeUpdate);
        }
        let Decoder { table, scratch, .. } = self;
        let kept_bytes_max = if indexing { list.bytes_left.max(table.bytes_max()) } else { list.bytes_left };
        scratch.used = 0;
        let name = match input.integer(if indexing { 6 } else { 4 })? {
            0 => Text::read(input.string()?, kept_bytes_max, scratch)?,
            index => match static_table::get(index) {
                Some((name, _)) => Text::Elsewhere(name),
                // Its entry may be evicted for the field that takes its name from it (7541-4.4).
                None => Text::Scratch(scratch.copy(indexed(table, index)?.0)),
            },
        };
        let value = Text::read(input.string()?, kept_bytes_max, scratch)?;
        debug_assert!(scratch.used / 2 <= list.bytes_left.max(table.bytes_max()));
        let texts = name.bytes(scratch).zip(value.bytes(scratch));
        if list.admits(name.len(), value.len())
            && let Some((name, value)) = texts
        {
            field(name, value);
        }
        if indexing {
            match texts {
                Some((name, value)) => table.insert(name, value),
                // It is larger than the table, and empties it.
                None => table.clear(),
            }
        }
        Ok(())
    }
}

fn is_size_update(first: u8) -> bool {
    first & 0xe0 == 0x20
}

/// The field at an index of both tables (7541-2.3.3).
#[inline]
fn indexed(table: &Table, index: usize) -> Result<(&[u8], &[u8]), Error> {
    match static_table::get(index) {
        Some(field) => Ok(field),
        None => index
            .checked_sub(static_table::FIELDS.len())
            .and_then(|index| table.get(index))
            .ok_or(Error::Index),
    }
}

/// What is left of the bounds.
struct List {
    bytes_left: usize,
    fields_left: usize,
    too_large: bool,
}

impl List {
    /// Counts a field; whether it is within the bounds, and all before it were.
    #[inline]
    fn admits(&mut self, name_bytes: usize, value_bytes: usize) -> bool {
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

/// Strings of one field. Its memory is used again and again, without being cleared in between.
#[derive(Debug, Default)]
struct Scratch {
    bytes: Vec<u8>,
    used: usize,
}

impl Scratch {
    /// Where a string is now that was in Huffman's code, and has `bytes_max` at most.
    fn decode(&mut self, coded: &[u8], bytes_max: usize) -> Result<Range<usize>, Error> {
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

    fn copy(&mut self, string: &[u8]) -> Range<usize> {
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

    fn end_block(&mut self) {
        if self.bytes.capacity() > SCRATCH_BYTES_KEPT {
            self.bytes = Vec::new();
        }
        self.used = 0;
    }
}

/// Where a decoded string is.
enum Text<'b> {
    /// In the block or in the static table.
    Elsewhere(&'b [u8]),
    Scratch(Range<usize>),
    /// Nowhere: so many bytes are not wanted.
    Dropped(usize),
}

impl<'b> Text<'b> {
    fn read(coded: Coded<'b>, kept_bytes_max: usize, scratch: &mut Scratch) -> Result<Text<'b>, Error> {
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

    fn len(&self) -> usize {
        match self {
            Text::Elsewhere(bytes) => bytes.len(),
            Text::Scratch(range) => range.len(),
            Text::Dropped(length) => *length,
        }
    }

    fn bytes<'t>(&self, scratch: &'t Scratch) -> Option<&'t [u8]>
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
    use crate::h2::hpack::input::write_integer;
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
        assert_eq!(text.err(), Some(Error::Huffman));
    }

    #[test]
    fn memory_for_long_strings_is_given_back_after_the_block() {
        let mut decoder = Decoder::new(4096);
        let bounds = Bounds { list_bytes_max: 1 << 16, fields_max: 100 };
        let value = vec![b'a'; 2000];
        let coded = huffman_coded(&value);
        let mut block = vec![0x00, 0x01, b'n'];
        write_integer(&mut block, 0x80, 7, coded.len());
        block.extend(coded);
        let mut fields = 0;
        let decoded = decoder.decode(&block, bounds, |_, seen| {
            assert_eq!(seen, value);
            fields += 1;
        });
        assert_eq!((decoded, fields), (Ok(Decoded::Complete), 1));
        assert!(decoder.scratch.bytes.capacity() <= SCRATCH_BYTES_KEPT);
    }
}
