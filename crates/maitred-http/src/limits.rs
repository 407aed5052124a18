//! Bounds on what a peer controls that no configuration changes. Bounds that can be configured are in
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

/// Blanks behind one chunk size of a response, before the line ends: some servers write sizes into places of a fixed width, of
/// 8 to 10 bytes (9112-7.1.1 forbids it, and says nothing else against them).
pub const CHUNK_SIZE_BLANKS_MAX: u8 = 32;

/// Bytes of the trailer section of one body: over HTTP/1 all of them, over HTTP/2 as many as the same fields have there.
pub const TRAILER_BYTES_MAX: u32 = 8192;

/// Fields of a trailer section that are passed on; a section with more of them is taken for one without any. gRPC has three.
pub const TRAILERS_MAX: usize = 32;

/// Bytes of one response head of an application, its empty line included, unless a configuration says otherwise; so much is
/// buffered of a head that has not arrived as a whole. Applications put tokens of any size into cookies.
pub const RESPONSE_HEAD_BYTES_MAX: usize = 64 << 10;

/// Fields of one response head of an application, likewise. Some set a cookie for each of a hundred things, or write a policy as
/// a field for each of its rules.
pub const RESPONSE_FIELDS_MAX: usize = 1000;

/// The most that any configuration can allow: a head of which each connection to a server can have one in memory.
pub const RESPONSE_HEAD_BYTES_MOST: usize = 1 << 20;

/// The most that any configuration can allow: 4096 × 32 bytes while such a head is parsed.
pub const RESPONSE_FIELDS_MOST: usize = 4096;

/// As many fields hardly any response has: 128 × 32 bytes of stack. A response with more is parsed a second time.
pub const RESPONSE_FIELDS_MANY: usize = 128;

/// What a response head of an application may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseBounds {
    /// Bytes of the head, with its empty line.
    pub head_bytes_max: u32,
    /// Fields of the head.
    pub fields_max: u16,
}

impl ResponseBounds {
    /// The bounds without a configuration.
    pub const DEFAULT: ResponseBounds = ResponseBounds {
        head_bytes_max: RESPONSE_HEAD_BYTES_MAX as u32,
        fields_max: RESPONSE_FIELDS_MAX as u16,
    };
}

impl Default for ResponseBounds {
    fn default() -> ResponseBounds {
        ResponseBounds::DEFAULT
    }
}

/// Interim responses (1xx) before a final one, so that an application cannot go on for ever. Hints that come in more pieces are
/// no earlier than the response.
pub const INTERIM_RESPONSES_MAX: u8 = 16;

/// Bytes of the head of one of them, its empty line included: what most clients take of any head.
pub const INTERIM_HEAD_BYTES_MAX: usize = 16 << 10;

const _: () = assert!(CHUNK_SIZE_DIGITS_MAX as u32 * 4 <= u64::BITS);
const _: () = assert!(METHOD_BYTES_MAX >= "UPDATEREDIRECTREF".len());
const _: () = assert!(FIELDS_MAX * size_of::<httparse::Header<'_>>() <= 4096);
const _: () = assert!(RESPONSE_FIELDS_MOST * size_of::<httparse::Header<'_>>() <= 128 << 10);
const _: () =
    assert!(RESPONSE_FIELDS_MANY < RESPONSE_FIELDS_MAX && RESPONSE_FIELDS_MAX <= RESPONSE_FIELDS_MOST);
const _: () = assert!(RESPONSE_FIELDS_MOST <= u16::MAX as usize);
const _: () = assert!(INTERIM_HEAD_BYTES_MAX <= RESPONSE_HEAD_BYTES_MAX);
