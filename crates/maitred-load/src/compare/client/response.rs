//! A response, or why there is none.

use std::fmt;

/// Interim responses before a final one.
pub(super) const INTERIM_MAX: usize = 16;
/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The fields, names in lower case.
    pub fields: Vec<(String, Vec<u8>)>,
    /// The content, as it was sent, without the coding of the transfer.
    pub body: Vec<u8>,
    /// Whether this is all of the content.
    pub is_whole: bool,
}

impl Response {
    /// The first field of a name.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_slice())
    }
}

/// Why there is no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// No TCP connection.
    Connect,
    /// No TLS session.
    Tls,
    /// TLS without the protocol that was wanted.
    Protocol,
    /// The time is over.
    Timeout,
    /// The connection was closed without a response.
    Closed,
    /// The stream was reset without a response.
    Reset,
    /// The response has begun, and was aborted.
    Aborted,
    /// What came is no response.
    Malformed,
    /// What came does not end.
    Endless,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Failure::Connect => "no connection",
            Failure::Tls => "no TLS session",
            Failure::Protocol => "no HTTP/2",
            Failure::Timeout => "timeout",
            Failure::Closed => "closed without a response",
            Failure::Reset => "reset without a response",
            Failure::Aborted => "aborted response",
            Failure::Malformed => "no valid response",
            Failure::Endless => "a response without end",
        })
    }
}

/// A response, and whether the connection takes another request.
pub(super) struct Answer {
    pub(super) response: Response,
    pub(super) keeps: bool,
}

/// Bytes that a response may take with its framing: chunks of one byte have six times their content, and no server sends many.
pub(super) fn wire_bytes_max(body_bytes_max: usize) -> usize {
    body_bytes_max.saturating_mul(2).saturating_add(1 << 20)
}
