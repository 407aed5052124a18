//! Access logs: Common and Combined Log Format, and Maitred's JSON lines, told apart line by line.

mod clf;
mod json;
pub mod reader;
#[cfg(test)]
mod tests;
mod time;

use std::borrow::Cow;
use std::fmt;

/// One request as it was logged. Everything is as the client sent it: the log's escapes are undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The client's address or name; requests of one client are one session.
    pub client: Cow<'a, [u8]>,
    /// When it was logged, in microseconds since 1970 (UTC).
    pub time_us: u64,
    /// Whether the log's clock shows fractions of a second.
    pub is_precise: bool,
    /// Method and target; absent for what the server could not read as a request.
    pub request: Option<RequestLine<'a>>,
    /// Status code of the response.
    pub status: u16,
    /// Bytes of the response's body; `None` if the log does not say (`-` also stands for 0 in httpd's `%b`).
    pub body_bytes: Option<u64>,
    /// `Referer`.
    pub referer: Option<Cow<'a, [u8]>>,
    /// `User-Agent`.
    pub user_agent: Option<Cow<'a, [u8]>>,
    /// The host that was asked for; only JSON lines have it.
    pub host: Option<Cow<'a, [u8]>>,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestLine<'a> {
    /// The method as logged; it need not be one that exists.
    pub method: Cow<'a, [u8]>,
    /// The target as logged; it may hold any byte.
    pub target: Cow<'a, [u8]>,
}

/// Why a line is no line of an access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// No space after the first word.
    Client,
    /// No time in brackets, or not one that exists.
    Time,
    /// No request between quotes.
    Request,
    /// No status from 100 to 999.
    Status,
    /// Neither a number nor `-` where the length should be.
    Length,
    /// Not a JSON object with the fields of Maitred's access log.
    Json,
    /// Longer than [`reader::LINE_BYTES_MAX`].
    TooLong,
}

impl fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Malformed::Client => "no client address",
            Malformed::Time => "no time such as [17/May/2015:10:05:03 +0000]",
            Malformed::Request => "no request between double quotes",
            Malformed::Status => "no status code",
            Malformed::Length => "no length of the response",
            Malformed::Json => "not an object with the fields of Maitred's JSON access log",
            Malformed::TooLong => "longer than 64 KiB",
        })
    }
}

/// Reads one line, without its end.
///
/// # Errors
/// What is wrong with it first.
pub fn parse(line: &[u8]) -> Result<Entry<'_>, Malformed> {
    match line.first() {
        Some(b'{') => json::parse(line),
        _ => clf::parse(line),
    }
}
