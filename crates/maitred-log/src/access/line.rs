//! What a line of the access log says, in whatever format.

use std::borrow::Cow;

use maitred_http::request::{Request, Version};

use maitred_base::clock::Clock;

/// All that a line can say. Everything is borrowed; lengths are bounded by the limits on a request head.
#[derive(Debug, Clone)]
pub struct Line<'a> {
    /// The clock of the turn that ended the response.
    pub clock: &'a Clock,
    /// The client's address without its port: the peer's, or the one that a trusted proxy names.
    pub remote: &'a [u8],
    /// The user, if the server has found out who that is.
    pub user: Option<&'a str>,
    /// The request line.
    pub request: RequestLine<'a>,
    /// The authority that chose the site, as sent; empty for none.
    pub host: &'a [u8],
    /// Status code of the response.
    pub status: u16,
    /// Bytes of the response body that were sent; 0 for HEAD.
    pub body_bytes: u64,
    /// The request, whose fields a format can name; of one that was kept for its line, the fields that its log wants.
    pub head: Option<&'a Request<'a, 'a>>,
    /// `Referer`, as sent.
    pub referer: Option<&'a [u8]>,
    /// `User-Agent`, as sent.
    pub user_agent: Option<&'a [u8]>,
    /// The request's id, if it was handed to an application, or had one from a trusted proxy.
    pub request_id: Option<&'a [u8]>,
    /// From the first byte of the head to the last byte of the response, in microseconds.
    pub duration_us: u64,
    /// Name of the pool that answered, if one did.
    pub pool: Option<&'a str>,
    /// How long the request waited for an application process, in microseconds.
    pub queue_us: u64,
    /// What the cache of responses did; empty if it was not asked.
    pub cache: &'static str,
    /// What came of it at a server.
    pub upstream: Option<UpstreamLine<'a>>,
}

/// What a line says about the server that a request was passed on to, the last one if there were several. Times are microseconds
/// since the request was given to the pool.
#[derive(Debug, Clone)]
pub struct UpstreamLine<'a> {
    /// The server's name, as in the configuration.
    pub server: Cow<'a, str>,
    /// The status of its response; `None` without one.
    pub status: Option<u16>,
    /// Servers and connections that were tried.
    pub attempts: u16,
    /// When there was a connection.
    pub connect_us: u32,
    /// When the first byte of its response came; `None` without one.
    pub header_us: Option<u32>,
    /// When its response had come as a whole; `None` if it has not.
    pub response_us: Option<u32>,
}

/// What the client asked for.
#[derive(Debug, Clone, Copy)]
pub enum RequestLine<'a> {
    /// A judged head.
    Parsed {
        /// The method as sent.
        method: &'a str,
        /// The target as sent.
        target: &'a str,
        /// HTTP version.
        version: Version,
    },
    /// A head that was refused: its first line as far as it came, without the line's end; empty if nothing came.
    Refused(&'a [u8]),
}

/// Text of a version.
pub(super) fn version_text(version: Version) -> &'static str {
    match version {
        Version::Http10 => "HTTP/1.0",
        Version::Http11 => "HTTP/1.1",
        Version::Http2 => "HTTP/2.0",
        Version::Http3 => "HTTP/3.0",
    }
}

/// Appends a number.
pub(super) fn decimal(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}
