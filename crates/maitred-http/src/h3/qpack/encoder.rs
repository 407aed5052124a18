//! From fields to field sections (9204-4.5), without a dynamic table.
//!
//! Strings are in Huffman's code where that is shorter: without a dynamic table it is all that makes sections smaller, and a head
//! that fits into the first packet saves more time than the code takes.

use super::static_table::{self, Found};
use crate::compression::input::{write_integer, write_string};

// First bytes of representations (9204-4.5); the other bits are an index or a length.
const INDEXED_STATIC: u8 = 0xc0;
const LITERAL_STATIC_NAME: u8 = 0x50;
const LITERAL_STATIC_NAME_NEVER_INDEXED: u8 = 0x70;
const LITERAL: u8 = 0x20;
const LITERAL_NEVER_INDEXED: u8 = 0x30;

/// Indexes of `cookie`, `set-cookie` and `authorization`.
const SECRETS: [usize; 3] = [5, 14, 84];

/// A secret that the static table does not have.
const SECRET_NAME: &[u8] = b"proxy-authorization";

/// Encodes field sections. The encoder has no state: sections may be encoded, and arrive, in any order.
///
/// ```
/// use maitred_http::h3::qpack::Encoder;
/// let mut section = Vec::new();
/// Encoder::begin(&mut section);
/// Encoder::status(200, &mut section);
/// assert_eq!(section, [0, 0, 0xc0 | 25]);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Encoder;

impl Encoder {
    /// Begins a section: its prefix says that it needs no entry of the dynamic table (9204-4.5.1).
    #[inline]
    pub fn begin(out: &mut Vec<u8>) {
        out.extend_from_slice(&[0, 0]);
    }

    /// Appends `:status`, which comes first in a response's section. `status` has three digits.
    #[inline]
    pub fn status(status: u16, out: &mut Vec<u8>) {
        let digit = |divisor: u16| b'0' + (status / divisor % 10) as u8;
        Encoder::field(b":status", &[digit(100), digit(10), digit(1)], out);
    }

    /// Appends a field, or a pseudo-field. `name` may have any case, and is written in lower case; `value` is written as it is.
    ///
    /// Fields with secrets are marked so that no intermediary may index them (9204-7.1.3).
    pub fn field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        match static_table::find(name, value) {
            Found::Field(index) => return write_integer(out, INDEXED_STATIC, 6, index),
            Found::Name(index) => {
                let secret = SECRETS.contains(&index);
                let pattern = if secret { LITERAL_STATIC_NAME_NEVER_INDEXED } else { LITERAL_STATIC_NAME };
                write_integer(out, pattern, 4, index);
            }
            Found::Nothing => {
                let secret = name.eq_ignore_ascii_case(SECRET_NAME);
                let pattern = if secret { LITERAL_NEVER_INDEXED } else { LITERAL };
                write_string(out, pattern, 3, name.iter().map(u8::to_ascii_lowercase));
            }
        }
        write_string(out, 0, 7, value.iter().copied());
    }
}
