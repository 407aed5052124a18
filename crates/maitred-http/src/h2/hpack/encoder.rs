//! From the fields of responses to field blocks (7541-6).
//!
//! What costs is time, not bytes: a field that was sent before is one byte, found with one hash and one comparison; anything
//! else is copied as it is. Huffman's code would save a quarter of the latter, for several times the cost of copying.
//!
//! A field enters the dynamic table when it is seen for the second time. So what differs from response to response
//! (`content-length`, `etag`, `last-modified` of many files) does not displace what repeats, and `date` is sent once or twice
//! per second, without a list of names that says so.

use std::hash::{BuildHasher as _, Hasher as _};

use foldhash::fast::FixedState;

use super::{FIELD_OVERHEAD_BYTES, TABLE_BYTES_DEFAULT, static_table};
use crate::compression::input::write_integer;
use crate::compression::table::Table;

/// Bytes of the dynamic table at most, whatever the peer offers: responses repeat a dozen fields, and each connection pays for
/// the memory.
const TABLE_BYTES_MAX: usize = 4096;

/// Part of the table that one field may take: a larger one would displace most others.
const FIELD_SHARE: usize = 2;

/// Sets of places for entries of the table; a field belongs to one set.
const SETS: usize = 32;
/// Places of a set.
const WAYS: usize = 2;
/// Sets of places for fields that were seen once.
const SEEN_SETS: usize = 8;
/// Places of such a set: fields of one response must not take each other's place each time, or none of them is ever seen again.
const SEEN_WAYS: usize = 8;
/// Fields of a block that are looked for first where they were in the block before.
const PREVIOUS: usize = 16;

/// Index of `:status`.
const STATUS: usize = 8;
/// Indexes of `authorization`, `cookie`, `proxy-authorization` and `set-cookie`.
const SECRETS: [usize; 4] = [23, 32, 49, 55];

// First bytes of representations (7541-6); the other bits are an index.
const INDEXED: u8 = 0x80;
const LITERAL_INDEXING: u8 = 0x40;
const SIZE_UPDATE: u8 = 0x20;
const LITERAL_NEVER_INDEXED: u8 = 0x10;
const LITERAL: u8 = 0x00;

/// Encodes the responses of one connection.
///
/// Fields are appended to a block by [`Encoder::status`] and [`Encoder::field`]; every block has to be sent, and in this order.
#[derive(Debug)]
pub struct Encoder {
    /// Names as they were given, in any case: the peer's table has the same ones in lower case.
    table: Table,
    /// Size of the peer's table, as far as the peer was informed.
    told_bytes_max: usize,
    /// The smallest of that and of all sizes since then, if the next block has to tell one.
    update: Option<usize>,
    /// By the lower bits of a field's hash: where it may be in the table. The newest is the first of its set.
    places: [[Place; WAYS]; SETS],
    /// Parts of the hashes of fields that were seen lately and are not in the table. The newest is the first of its set.
    seen: [[u16; SEEN_WAYS]; SEEN_SETS],
    /// By the place in a block: number of the entry that was found there last.
    previous: [u32; PREVIOUS],
    /// Place of the next field in its block.
    position: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// Upper half of the hash.
    hash: u32,
    /// Number of the entry in the table.
    number: u32,
}

/// Fields at the beginning of the static table that are those of requests: up to `:scheme`.
const REQUEST_FIELDS: usize = 7;

impl Default for Encoder {
    fn default() -> Self {
        Encoder::new()
    }
}

impl Encoder {
    /// An encoder for a peer whose SETTINGS_HEADER_TABLE_SIZE has not come.
    pub fn new() -> Encoder {
        Encoder {
            table: Table::new(TABLE_BYTES_DEFAULT),
            told_bytes_max: TABLE_BYTES_DEFAULT,
            update: None,
            places: [[Place::default(); WAYS]; SETS],
            seen: [[0; SEEN_WAYS]; SEEN_SETS],
            previous: [0; PREVIOUS],
            position: 0,
        }
    }

    /// The peer's SETTINGS_HEADER_TABLE_SIZE: the dynamic table is at most that large. Not called within a block; the next one
    /// begins with the size update (7541-4.2).
    pub fn set_table_bytes_max(&mut self, bytes: u32) {
        let bytes = (bytes as usize).min(TABLE_BYTES_MAX);
        self.table.set_bytes_max(bytes);
        let smallest = self.update.unwrap_or(self.told_bytes_max).min(bytes);
        let told = smallest == self.told_bytes_max && bytes == self.told_bytes_max;
        self.update = (!told).then_some(smallest);
    }

    /// Appends `:status`, which begins a response's block. `status` has three digits.
    #[inline]
    pub fn status(&mut self, status: u16, out: &mut Vec<u8>) {
        self.tell_size(out);
        self.position = 0;
        match static_table::index_of_status(status) {
            Some(index) => out.push(INDEXED | index as u8),
            None => {
                let digit = |divisor: u16| b'0' + (status / divisor % 10) as u8;
                out.extend_from_slice(&[LITERAL | STATUS as u8, 3, digit(100), digit(10), digit(1)]);
            }
        }
    }

    /// A request's block begins: its pseudo-fields are next, by [`Encoder::field`].
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        self.tell_size(out);
        self.position = 0;
    }

    /// Appends a pseudo-field of a request that the static table may have as a whole.
    pub fn known(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let known = static_table::FIELDS.iter().take(REQUEST_FIELDS);
        let is_it = |(n, v): &(&str, &str)| n.as_bytes() == name && v.as_bytes() == value;
        match known.clone().position(is_it) {
            Some(at) => out.push(INDEXED | (at as u8 + 1)),
            None => self.field(name, value, out),
        }
    }

    /// Appends a field. `name` may have any case, and is written in lower case; `value` is written as it is.
    ///
    /// Fields with secrets are marked so that no intermediary may index them (7541-7.1.3).
    #[inline]
    pub fn field(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        self.tell_size(out);
        let place = self.position % PREVIOUS;
        self.position += 1;
        if let Some(index) = self.index_of(self.previous[place], name, value) {
            return write_indexed(out, index);
        }
        self.other_field(place, name, value, out);
    }

    /// A field that is not what the block before had in its place.
    fn other_field(&mut self, place: usize, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let counted = name.len() + value.len() + FIELD_OVERHEAD_BYTES;
        let hash = (counted <= self.table.bytes_max() / FIELD_SHARE).then(|| hash(name, value));
        if let Some(hash) = hash
            && let Some((number, index)) = self.find(hash, name, value)
        {
            self.previous[place] = number;
            return write_indexed(out, index);
        }
        let name_index = static_table::index_of(name);
        let (pattern, prefix_bits) = if is_secret(name_index) {
            (LITERAL_NEVER_INDEXED, 4)
        } else if let Some(hash) = hash
            && self.was_seen(hash)
        {
            self.previous[place] = self.insert(hash, name, value);
            (LITERAL_INDEXING, 6)
        } else {
            (LITERAL, 4)
        };
        write_literal(out, (pattern, prefix_bits), name_index, name, value);
    }

    /// Tells the size of the table, if that has changed.
    #[inline]
    fn tell_size(&mut self, out: &mut Vec<u8>) {
        if let Some(smallest) = self.update {
            self.tell_sizes(smallest, out);
        }
    }

    #[cold]
    fn tell_sizes(&mut self, smallest: usize, out: &mut Vec<u8>) {
        let bytes_max = self.table.bytes_max();
        if smallest < bytes_max.min(self.told_bytes_max) {
            write_integer(out, SIZE_UPDATE, 5, smallest);
        }
        write_integer(out, SIZE_UPDATE, 5, bytes_max);
        (self.told_bytes_max, self.update) = (bytes_max, None);
    }

    /// Index in the dynamic table of the entry with this number, if it is this field.
    #[inline]
    fn index_of(&self, number: u32, name: &[u8], value: &[u8]) -> Option<usize> {
        let index = self.table.index_of(number)?;
        let (known_name, known_value) = self.table.get(index)?;
        (is_same(known_name, name) && is_same(known_value, value)).then_some(index)
    }

    /// Number and index of a field in the dynamic table.
    fn find(&self, hash: u64, name: &[u8], value: &[u8]) -> Option<(u32, usize)> {
        let set = &self.places[hash as usize % SETS];
        let place = set.iter().find(|place| place.hash == (hash >> 32) as u32)?;
        Some((place.number, self.index_of(place.number, name, value)?))
    }

    /// Whether a field was seen before; from now on it was.
    fn was_seen(&mut self, hash: u64) -> bool {
        let set = &mut self.seen[(hash >> 8) as usize % SEEN_SETS];
        let part = (hash >> 16) as u16;
        if set.contains(&part) {
            return true;
        }
        set.copy_within(..SEEN_WAYS - 1, 1);
        set[0] = part;
        false
    }

    fn insert(&mut self, hash: u64, name: &[u8], value: &[u8]) -> u32 {
        let place = Place { hash: (hash >> 32) as u32, number: self.table.next_number() };
        self.table.insert(name, value);
        let set = &mut self.places[hash as usize % SETS];
        set.rotate_right(1);
        set[0] = place;
        place.number
    }
}

fn hash(name: &[u8], value: &[u8]) -> u64 {
    // A peer that makes hashes collide makes the blocks of its own connection longer, and nothing else: fields are compared,
    // too.
    let mut hasher = FixedState::with_seed(0).build_hasher();
    hasher.write(name);
    hasher.write(value);
    hasher.finish()
}

/// Whether the name is one of `authorization`, `cookie`, `proxy-authorization`, `set-cookie`.
fn is_secret(name_index: Option<usize>) -> bool {
    name_index.is_some_and(|index| SECRETS.contains(&index))
}

/// Equality of strings that mostly are short, and mostly equal: without a call up to 32 bytes.
#[inline]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    // The first and the last bytes overlap.
    fn ends<const BYTES: usize>(one: &[u8], other: &[u8]) -> bool {
        one.first_chunk::<BYTES>() == other.first_chunk() && one.last_chunk::<BYTES>() == other.last_chunk()
    }
    one.len() == other.len()
        && match one.len() {
            4..8 => ends::<4>(one, other),
            8..16 => ends::<8>(one, other),
            16..=32 => ends::<16>(one, other),
            _ => one == other,
        }
}

/// A field of the dynamic table.
#[inline]
fn write_indexed(out: &mut Vec<u8>, index: usize) {
    write_integer(out, INDEXED, 7, static_table::FIELDS.len() + index);
}

fn write_literal(
    out: &mut Vec<u8>,
    (pattern, prefix_bits): (u8, u32),
    name_index: Option<usize>,
    name: &[u8],
    value: &[u8],
) {
    write_integer(out, pattern, prefix_bits, name_index.unwrap_or(0));
    if name_index.is_none() {
        write_integer(out, 0, 7, name.len());
        out.extend(name.iter().map(u8::to_ascii_lowercase));
    }
    write_integer(out, 0, 7, value.len());
    out.extend_from_slice(value);
}
