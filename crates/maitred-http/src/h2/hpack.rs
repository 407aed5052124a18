//! HPACK, the compression of field lists in HTTP/2 (RFC 7541). Sections cited as "7541-x" are its sections.
//!
//! [`Decoder`] reads what a client sends, [`Encoder`] writes responses; both belong to one connection and see all of its
//! blocks in their order. Whatever the peer sends, a decoder holds at most one dynamic table of the size that was
//! advertised and two strings within the [`Bounds`].

use std::fmt;

use crate::compression::Malformed;

mod decoder;
mod encoder;
pub(crate) mod static_table;

#[cfg(test)]
pub(crate) mod tests;

pub use crate::compression::{Bounds, Decoded, FIELD_OVERHEAD_BYTES};
pub use decoder::Decoder;
pub use encoder::Encoder;

/// Bytes of a dynamic table until the settings say otherwise (9113-6.5.2).
pub const TABLE_BYTES_DEFAULT: usize = 4096;

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

impl From<Malformed> for Error {
    fn from(malformed: Malformed) -> Error {
        match malformed {
            Malformed::Truncated => Error::Truncated,
            Malformed::Integer => Error::Integer,
            Malformed::Huffman => Error::Huffman,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.reason())
    }
}

impl std::error::Error for Error {}
