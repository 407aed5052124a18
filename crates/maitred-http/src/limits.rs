//! Bounds on what a peer controls that no configuration changes. Those that can be configured are in
//! [`HeadLimits`](crate::request::HeadLimits).

/// The most header fields that any configuration can allow: 128 × 32 bytes of stack.
pub const FIELDS_MAX: usize = 128;

/// Empty lines before a request line that are skipped (9112-2.2 asks for at least one).
pub const EMPTY_LINES_MAX: usize = 2;

/// Bytes of a method; the longest that is registered has 17 (`UPDATEREDIRECTREF`).
pub const METHOD_BYTES_MAX: usize = 64;

/// Options of `Connection` in one request, or one response. A proxy that passes the message on looks for each
/// field among all of them; clients and applications send one to three.
pub const CONNECTION_OPTIONS_MAX: u32 = 32;

/// Hexadecimal digits of a chunk size, leading zeros included: as many as 64 bits have.
pub const CHUNK_SIZE_DIGITS_MAX: u8 = 16;

/// Bytes of all chunk extensions of one body together (9112-7.1.1 asks for such a bound). No client is known to
/// use them.
pub const CHUNK_EXTENSION_BYTES_MAX: u32 = 4096;

/// Bytes of the trailer section of one body: over HTTP/1 all of them, over HTTP/2 as many as the same fields have there.
pub const TRAILER_BYTES_MAX: u32 = 8192;

/// Fields of a trailer section that are passed on; a section with more of them is taken for one without any. gRPC has three.
pub const TRAILERS_MAX: usize = 32;

/// Bytes of one response head of an application, its empty line included; so much is buffered of a head that
/// has not arrived as a whole. Applications put tokens of any size into cookies.
pub const RESPONSE_HEAD_BYTES_MAX: usize = 64 << 10;

/// Fields of one response head of an application: 1000 × 32 bytes of stack, where there are more than [`RESPONSE_FIELDS_MANY`].
/// Some set a cookie for each of a hundred things, or write a policy as a field for each of its rules.
pub const RESPONSE_FIELDS_MAX: usize = 1000;

/// As many fields hardly any response has; one with more is parsed a second time.
pub const RESPONSE_FIELDS_MANY: usize = 128;

/// Interim responses (1xx) before a final one, so that an application cannot go on for ever. Hints that come in more pieces are
/// no earlier than the response.
pub const INTERIM_RESPONSES_MAX: u8 = 16;

/// Bytes of the head of one of them, its empty line included: what most clients take of any head.
pub const INTERIM_HEAD_BYTES_MAX: usize = 16 << 10;

const _: () = assert!(CHUNK_SIZE_DIGITS_MAX as u32 * 4 <= u64::BITS);
const _: () = assert!(METHOD_BYTES_MAX >= "UPDATEREDIRECTREF".len());
const _: () = assert!(FIELDS_MAX * size_of::<httparse::Header<'_>>() <= 4096);
const _: () = assert!(RESPONSE_FIELDS_MAX * size_of::<httparse::Header<'_>>() <= 32 << 10);
const _: () = assert!(RESPONSE_FIELDS_MANY < RESPONSE_FIELDS_MAX);
const _: () = assert!(INTERIM_HEAD_BYTES_MAX <= RESPONSE_HEAD_BYTES_MAX);
