//! HPACK, the compression of field lists in HTTP/2 (RFC 7541). Sections cited as "7541-x" are its sections.
//!
//! [`Decoder`] reads what a client sends, [`Encoder`] writes responses; both belong to one connection and see all of its
//! blocks in their order. Whatever the peer sends, a decoder holds at most one dynamic table of the size that was
//! advertised and two strings within the [`Bounds`].

use std::fmt;

mod decoder;
mod encoder;
pub(crate) mod huffman;
mod input;
pub(crate) mod static_table;
mod table;

#[cfg(test)]
mod tests;

pub use decoder::Decoder;
pub use encoder::Encoder;

/// Bytes of a dynamic table until the settings say otherwise (9113-6.5.2).
pub const TABLE_BYTES_DEFAULT: usize = 4096;

/// What an entry of a dynamic table, and a field of a list, counts for besides its name and its value (7541-4.1, 9113-6.5.2).
pub const FIELD_OVERHEAD_BYTES: usize = 32;

/// How much of one field list is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of names and values, and [`FIELD_OVERHEAD_BYTES`] for each field (9113-6.5.2).
    pub list_bytes_max: usize,
    /// Number of fields.
    pub fields_max: usize,
}

/// How much of a field list was given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded {
    /// All of it.
    Complete,
    /// Its first fields; the next one was beyond the [`Bounds`].
    TooLarge,
}

/// Why a block cannot be decoded: always an error of the peer, and the end of the connection (COMPRESSION_ERROR, 9113-4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// The block ends within a field.
    Truncated,
    /// An integer has more bytes than any that can be meant.
    Integer,
    /// No table has an entry with this index.
    Index,
    /// A Huffman code that is not one: EOS, or padding that is too long or not its beginning (7541-5.2).
    Huffman,
    /// A size update that is too large, not at the start of the block, one too many, or missing after the settings asked for it.
    SizeUpdate,
}

impl Error {
    /// What is wrong, in a few words.
    pub fn reason(self) -> &'static str {
        match self {
            Error::Truncated => "field block ends within a field",
            Error::Integer => "integer in a field block is too long",
            Error::Index => "field block names an entry that is in no table",
            Error::Huffman => "string in a field block is not a Huffman code",
            Error::SizeUpdate => {
                "field block changes the size of the dynamic table in a way that it must not"
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.reason())
    }
}

impl std::error::Error for Error {}
