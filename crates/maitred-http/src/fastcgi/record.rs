//! Headers of records (section 3.3) and the constants of section 8.

/// The only version that there is.
pub const VERSION: u8 = 1;

/// The request of a connection. Any number but 0 would do; 0 is for management records (section 3.3).
pub const REQUEST_ID: u16 = 1;

/// Bytes of a record's header.
pub const HEADER_BYTES: usize = 8;

/// Bytes of content in one record that is written here, padding included: the largest multiple of 8 that the format allows
/// (65,535). PHP closes the connection without an answer when a record of parameters has more.
pub const CONTENT_BYTES_MAX: usize = 65_528;

/// Contents of records end at a multiple of this (section 3.3 recommends it).
pub const ALIGNMENT: usize = 8;

/// Types of records.
pub mod kind {
    #![allow(missing_docs, reason = "the names are those of section 8, without FCGI_")]
    pub const BEGIN_REQUEST: u8 = 1;
    pub const ABORT_REQUEST: u8 = 2;
    pub const END_REQUEST: u8 = 3;
    pub const PARAMS: u8 = 4;
    pub const STDIN: u8 = 5;
    pub const STDOUT: u8 = 6;
    pub const STDERR: u8 = 7;
    pub const DATA: u8 = 8;
    pub const GET_VALUES: u8 = 9;
    pub const GET_VALUES_RESULT: u8 = 10;
    pub const UNKNOWN_TYPE: u8 = 11;
}

/// `FCGI_RESPONDER` (section 6.2).
pub const RESPONDER: u16 = 1;

/// `FCGI_KEEP_CONN`: the application leaves the connection open behind the request (section 5.1).
pub const KEEP_CONN: u8 = 1;

/// The header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    /// [`VERSION`], or the record is of something else.
    pub version: u8,
    /// One of [`kind`], or an unknown one.
    pub kind: u8,
    /// The request; 0 for the connection.
    pub request_id: u16,
    /// Bytes of content behind the header.
    pub content_bytes: u16,
    /// Bytes behind the content that mean nothing.
    pub padding_bytes: u8,
}

impl RecordHeader {
    /// Reads the eight bytes of a header. The reserved byte is ignored.
    #[inline]
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> RecordHeader {
        let [version, kind, id1, id0, length1, length0, padding_bytes, _] = *bytes;
        RecordHeader {
            version,
            kind,
            request_id: u16::from_be_bytes([id1, id0]),
            content_bytes: u16::from_be_bytes([length1, length0]),
            padding_bytes,
        }
    }

    /// The eight bytes of a header.
    #[inline]
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let ([id1, id0], [length1, length0]) =
            (self.request_id.to_be_bytes(), self.content_bytes.to_be_bytes());
        [self.version, self.kind, id1, id0, length1, length0, self.padding_bytes, 0]
    }

    /// The header of a record of [`REQUEST_ID`] whose padding reaches the next multiple of [`ALIGNMENT`].
    #[inline]
    pub(super) fn aligned(kind: u8, content_bytes: u16) -> RecordHeader {
        // Less than ALIGNMENT.
        let padding_bytes = (content_bytes.wrapping_neg() % ALIGNMENT as u16) as u8;
        RecordHeader { version: VERSION, kind, request_id: REQUEST_ID, content_bytes, padding_bytes }
    }
}

const _: () = assert!(CONTENT_BYTES_MAX <= u16::MAX as usize && CONTENT_BYTES_MAX.is_multiple_of(ALIGNMENT));
