//! Bounds on what a peer controls that no configuration changes. Those that can be configured are in
//! [`HeadLimits`](crate::request::HeadLimits).

use crate::request::FIELDS_MAX;

/// Empty lines before a request line that are skipped (9112-2.2 asks for at least one).
pub const EMPTY_LINES_MAX: usize = 2;

/// Bytes of a method; the longest that is registered has 17 (`UPDATEREDIRECTREF`).
pub const METHOD_BYTES_MAX: usize = 64;

const _: () = assert!(METHOD_BYTES_MAX >= "UPDATEREDIRECTREF".len());
const _: () = assert!(FIELDS_MAX * size_of::<httparse::Header<'_>>() <= 4096);
