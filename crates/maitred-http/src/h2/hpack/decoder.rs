//! From field blocks to fields (7541-3).

use super::{Bounds, Decoded, Error, TABLE_BYTES_DEFAULT, static_table};
use crate::compression::input::Input;
use crate::compression::strings::{List, Scratch, Text};
use crate::compression::table::Table;

/// Size updates that may begin a block: the smallest size since the last block, and the one that holds (7541-4.2).
const SIZE_UPDATES_MAX: usize = 2;

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
        let mut list = List::new(bounds);
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
        Ok(list.decoded())
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
        let kept_bytes_max =
            if indexing { list.bytes_left().max(table.bytes_max()) } else { list.bytes_left() };
        scratch.begin_field();
        let name = match input.integer(if indexing { 6 } else { 4 })? {
            0 => Text::read(input.string(7)?, kept_bytes_max, scratch)?,
            index => match static_table::get(index) {
                Some((name, _)) => Text::Elsewhere(name),
                // The name's entry may be evicted for the field that takes its name from it (7541-4.4).
                None => Text::Scratch(scratch.copy(indexed(table, index)?.0)),
            },
        };
        let value = Text::read(input.string(7)?, kept_bytes_max, scratch)?;
        debug_assert!(scratch.used() / 2 <= list.bytes_left().max(table.bytes_max()));
        let texts = name.bytes(scratch).zip(value.bytes(scratch));
        if list.admits(name.len(), value.len())
            && let Some((name, value)) = texts
        {
            field(name, value);
        }
        if indexing {
            match texts {
                Some((name, value)) => table.insert(name, value),
                // The field is larger than the table, and empties it.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::input::write_integer;
    use crate::compression::strings::SCRATCH_BYTES_KEPT;
    use crate::h2::hpack::tests::huffman_coded;

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
        assert!(decoder.scratch.capacity() <= SCRATCH_BYTES_KEPT);
    }
}
