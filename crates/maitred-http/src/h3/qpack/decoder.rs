//! The decoder of one connection: sections, the peer's encoder stream, and what is said to it on the decoder stream.

use super::dynamic_table::DynamicTable;
use super::fault::{Fault, Pending};
use super::section::{self, Entries, Prefix};
use super::{Bounds, Decoded, static_table};
use crate::compression::input::{Input, write_long_integer};
use crate::compression::strings::{Scratch, Text};
use crate::h3::{Code, Error};

/// Bytes of instructions on the decoder stream that wait to be sent. Each has ten at most; a peer that sends section after
/// section and does not let them be acknowledged gets H3_EXCESSIVE_LOAD.
pub const ACKNOWLEDGEMENT_BYTES_MAX: usize = 4096;

/// Streams that may be blocked, whatever the settings ask for: what they have sent is in memory until they are not any more.
pub const BLOCKED_STREAMS_MOST: u16 = 1024;

/// No byte in Huffman's code has more bits than this many bytes.
const CODED_BYTES_FACTOR: usize = 4;

/// What has become of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The section's fields were given out, within the bounds.
    Decoded(Decoded),
    /// The section refers to entries that have not come. The stream counts as blocked: the section has to be passed again when
    /// [`Decoder::inserted`] has changed, or [`Decoder::cancel`] called.
    Blocked,
}

/// Decodes the field sections of one connection.
///
/// The decoder holds at most one dynamic table of the advertised size, one instruction, two strings within the [`Bounds`], the
/// numbers of blocked streams, and [`ACKNOWLEDGEMENT_BYTES_MAX`].
#[derive(Debug)]
pub struct Decoder {
    table: DynamicTable,
    scratch: Scratch,
    /// The start of an instruction of the encoder stream.
    pending: Pending,
    blocked_max: u16,
    /// Streams with a section that waits for entries.
    blocked: Vec<u64>,
    /// The Known Received Count: entries that the peer knows, or will from `out`, that they have come.
    told: u64,
    /// Instructions on the decoder stream.
    out: Vec<u8>,
}

impl Decoder {
    /// A decoder with the dynamic table of `table_bytes_max` that SETTINGS_QPACK_MAX_TABLE_CAPACITY advertises, and with up to
    /// `blocked_max` streams as SETTINGS_QPACK_BLOCKED_STREAMS does. Both values are bounded; what holds is said by
    /// [`Decoder::table_bytes_max`] and [`Decoder::blocked_max`], and has to be advertised. With 0 the static table is all
    /// there is.
    pub fn new(table_bytes_max: usize, blocked_max: u16) -> Decoder {
        Decoder {
            table: DynamicTable::new(table_bytes_max),
            scratch: Scratch::default(),
            pending: Pending::default(),
            blocked_max: blocked_max.min(BLOCKED_STREAMS_MOST),
            blocked: Vec::new(),
            told: 0,
            out: Vec::new(),
        }
    }

    /// Bytes of the dynamic table at most, to be advertised.
    pub fn table_bytes_max(&self) -> usize {
        self.table.advertised_bytes()
    }

    /// Streams that may be blocked at the same time, to be advertised.
    pub fn blocked_max(&self) -> u16 {
        self.blocked_max
    }

    /// Bytes that the dynamic table's entries count for (9204-3.2.1).
    pub fn table_bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Entries that were ever inserted. When it changes, sections that were [`Outcome::Blocked`] may be decodable.
    pub fn inserted(&self) -> u64 {
        self.table.inserted()
    }

    /// Streams that are blocked.
    pub fn blocked(&self) -> usize {
        self.blocked.len()
    }

    /// Decodes one whole field section of a stream: the payload of a HEADERS frame. `field` is called with name and value of each
    /// field, in order. What is beyond the `bounds`, and all that follows it, is checked, but not given to `field`.
    ///
    /// # Errors
    ///
    /// All of them end the connection: QPACK_DECOMPRESSION_FAILED, also if more streams are blocked than was advertised
    /// (9204-2.1.2); H3_EXCESSIVE_LOAD if [`ACKNOWLEDGEMENT_BYTES_MAX`] wait to be sent.
    pub fn decode(
        &mut self,
        stream: u64,
        section: &[u8],
        bounds: Bounds,
        field: impl FnMut(&[u8], &[u8]),
    ) -> Result<Outcome, Error> {
        if self.out.len() >= ACKNOWLEDGEMENT_BYTES_MAX {
            return Err(Error::new(Code::ExcessiveLoad, "decoder stream is not read"));
        }
        self.take_section(stream, section, bounds, field).map_err(|fault| fault.on(Code::DecompressionFailed))
    }

    fn take_section(
        &mut self,
        stream: u64,
        section: &[u8],
        bounds: Bounds,
        field: impl FnMut(&[u8], &[u8]),
    ) -> Result<Outcome, Fault> {
        let mut input = Input::new(section);
        let prefix = Prefix::read(&mut input, &self.table)?;
        if prefix.required > self.table.inserted() {
            return self.block(stream);
        }
        self.unblock(stream);
        let entries = Entries { table: &self.table, prefix };
        let decoded = section::decode(entries, input, bounds, &mut self.scratch, field)?;
        if prefix.required > 0 {
            write_long_integer(&mut self.out, 0x80, 7, stream);
            // The peer knows from the section that these entries have come (9204-2.1.4).
            self.told = self.told.max(prefix.required);
        }
        Ok(Outcome::Decoded(decoded))
    }

    fn block(&mut self, stream: u64) -> Result<Outcome, Fault> {
        if !self.blocked.contains(&stream) {
            if self.blocked.len() >= usize::from(self.blocked_max) {
                return Err(Fault::Blocked);
            }
            self.blocked.push(stream);
        }
        Ok(Outcome::Blocked)
    }

    fn unblock(&mut self, stream: u64) {
        self.blocked.retain(|blocked| *blocked != stream);
    }

    /// No section of this stream will be decoded any more: it was reset, or is not read on. To be called once, of a stream that
    /// has not ended with a decoded section (9204-2.2.2.2).
    pub fn cancel(&mut self, stream: u64) {
        self.unblock(stream);
        // Without a table there is nothing that the peer could wait for. A peer that does not read gets an error for its
        // next section, and may as well wait until then.
        if self.table.advertised_bytes() > 0 && self.out.len() < ACKNOWLEDGEMENT_BYTES_MAX {
            write_long_integer(&mut self.out, 0x40, 6, stream);
        }
    }

    /// Appends to `out` what is to be sent on the decoder stream: acknowledgements and cancellations in their order, and behind
    /// them how many entries have come besides.
    pub fn take_out(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.out);
        let more = self.table.inserted() - self.told;
        if more > 0 {
            write_long_integer(out, 0x00, 6, more);
            self.told = self.table.inserted();
        }
    }

    /// Takes the next bytes of the peer's encoder stream, in pieces of any size.
    ///
    /// # Errors
    ///
    /// QPACK_ENCODER_STREAM_ERROR, which ends the connection.
    pub fn encoder_stream(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Decoder { table, scratch, pending, .. } = self;
        let taken = pending.read(bytes, |bytes| instruction(table, scratch, bytes));
        scratch.end_block();
        taken.map_err(|fault| fault.on(Code::EncoderStreamError))
    }

    /// Bytes of an instruction that is not whole.
    #[cfg(test)]
    pub(super) fn pending_bytes(&self) -> usize {
        self.pending.len()
    }
}

/// Carries out one instruction of the encoder stream (9204-4.3), and says how many bytes it has.
fn instruction(table: &mut DynamicTable, scratch: &mut Scratch, bytes: &[u8]) -> Result<usize, Fault> {
    let mut input = Input::new(bytes);
    scratch.begin_field();
    let first = input.peek().ok_or(Fault::Truncated)?;
    match first {
        0x80.. => {
            let index = input.integer(6)?;
            let name = if first & 0x40 != 0 {
                Text::Elsewhere(static_table::get(index).ok_or(Fault::StaticIndex)?.0)
            } else {
                // The name's entry may be evicted for the one that takes its name from it.
                Text::Scratch(scratch.copy(table.newest(index)?.0))
            };
            let value = string(&mut input, 7, table.capacity(), scratch)?;
            insert(table, scratch, &name, &value)?;
        }
        0x40.. => {
            let name = string(&mut input, 5, table.capacity(), scratch)?;
            let value = string(&mut input, 7, table.capacity(), scratch)?;
            insert(table, scratch, &name, &value)?;
        }
        0x20.. => table.set_capacity(input.integer(5)?)?,
        _ => {
            let (name, value) = table.newest(input.integer(5)?)?;
            let (name, value) = (scratch.copy(name), scratch.copy(value));
            insert(table, scratch, &Text::Scratch(name), &Text::Scratch(value))?;
        }
    }
    Ok(bytes.len() - input.left())
}

/// A string of an instruction. Whether it is too large for the table is seen from its length, so that not more of it is kept.
fn string<'b>(
    input: &mut Input<'b>,
    prefix_bits: u32,
    capacity: usize,
    scratch: &mut Scratch,
) -> Result<Text<'b>, Fault> {
    let huffman = input.peek().ok_or(Fault::Truncated)? & 1 << prefix_bits != 0;
    let factor = if huffman { CODED_BYTES_FACTOR } else { 1 };
    if { *input }.integer(prefix_bits)? > factor * capacity {
        return Err(Fault::EntryTooLarge);
    }
    Ok(Text::read(input.string(prefix_bits)?, capacity, scratch)?)
}

fn insert(
    table: &mut DynamicTable,
    scratch: &Scratch,
    name: &Text<'_>,
    value: &Text<'_>,
) -> Result<(), Fault> {
    let (name, value) = name.bytes(scratch).zip(value.bytes(scratch)).ok_or(Fault::EntryTooLarge)?;
    table.insert(name, value)
}
