//! What HPACK (RFC 7541) and QPACK (RFC 9204) have in common: integers, strings, Huffman's code, the dynamic table, and the
//! bounds on lists of fields.

pub(crate) mod huffman;
pub(crate) mod input;
pub(crate) mod strings;
pub(crate) mod table;

/// What an entry of a dynamic table, and a field of a list, counts for besides its name and its value (7541-4.1, 9113-6.5.2,
/// 9204-3.2.1, 9114-4.2.2).
pub const FIELD_OVERHEAD_BYTES: usize = 32;

/// How much of one field list is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of names and values, and [`FIELD_OVERHEAD_BYTES`] for each field (9113-6.5.2, 9114-4.2.2).
    pub list_bytes_max: usize,
    /// Number of fields.
    pub fields_max: usize,
}

/// How much of a field list was given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded {
    /// All of it.
    Complete,
    /// The first fields; the next one was beyond the [`Bounds`].
    TooLarge,
}

/// Why an integer or a string cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// The bytes end within it.
    Truncated,
    /// An integer has more bytes than any that can be meant.
    Integer,
    /// A Huffman code that is not one: EOS, or padding that is too long or not its beginning (7541-5.2).
    Huffman,
}
