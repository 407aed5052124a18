//! QPACK, the compression of field sections in HTTP/3 (RFC 9204). Sections cited as "9204-x" are its sections.
//!
//! [`Decoder`] reads what a peer sends, with a dynamic table if one was advertised. [`Encoder`] writes sections that refer to
//! the static table only: they never block, and need neither an encoder stream nor memory for each connection.
//! [`DecoderStream`] reads what the peer says to that.

use crate::limits::FIELDS_MAX;

mod decoder;
mod decoder_stream;
mod dynamic_table;
mod encoder;
mod fault;
mod section;
pub(crate) mod static_table;

#[cfg(test)]
mod tests;

pub use crate::compression::{Bounds, Decoded, FIELD_OVERHEAD_BYTES};
pub use decoder::{ACKNOWLEDGEMENT_BYTES_MAX, BLOCKED_STREAMS_MOST, Decoder, Outcome};
pub use decoder_stream::DecoderStream;
pub use encoder::Encoder;

/// Bytes of a field list at most, each field counting for [`FIELD_OVERHEAD_BYTES`] more, unless settings say otherwise: what
/// SETTINGS_MAX_FIELD_SECTION_SIZE advertises (9114-4.2.2).
pub const LIST_BYTES_MAX: usize = 32 << 10;

/// Pseudo-fields that a request can have, which become no fields, or fields that HTTP/1.1 has, too.
pub const PSEUDO_FIELDS: usize = 5;

/// The bounds of a request's field section, unless settings say otherwise.
pub const BOUNDS: Bounds = Bounds { list_bytes_max: LIST_BYTES_MAX, fields_max: FIELDS_MAX + PSEUDO_FIELDS };
