//! One request → one access-log line.
//!
//! Whatever a peer sends, it stays inside its own field of its own line: bytes that could end either are escaped.

mod escape;
mod human;
mod json;
#[cfg(test)]
mod tests;

use maitred_http::date;
use maitred_http::request::Version;

use crate::clock::Clock;
use crate::config::AccessFormat;

/// All that a line can say. Everything is borrowed; lengths are bounded by the limits on a request head.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// The clock of the turn that ended the response.
    pub clock: &'a Clock,
    /// The client's address without its port: the peer's, or the one that a trusted proxy names.
    pub remote: &'a str,
    /// The request line.
    pub request: RequestLine<'a>,
    /// The authority that chose the site, as sent; empty for none.
    pub host: &'a [u8],
    /// Status code of the response.
    pub status: u16,
    /// Bytes of the response body that were sent; 0 for HEAD.
    pub body_bytes: u64,
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
fn version_text(version: Version) -> &'static str {
    match version {
        Version::Http10 => "HTTP/1.0",
        Version::Http11 => "HTTP/1.1",
        Version::Http2 => "HTTP/2.0",
    }
}

/// Writes lines in one format. Belongs to one thread: it keeps the text of the present second.
#[derive(Debug)]
pub struct Formatter {
    format: AccessFormat,
    colour: bool,
    /// Second that `stamp` is the text of; `u64::MAX` before the first line.
    second: u64,
    stamp: Vec<u8>,
}

impl Formatter {
    /// A formatter for `format`; [`AccessFormat::Human`] is coloured until [`Formatter::plain`] says otherwise.
    pub fn new(format: AccessFormat) -> Formatter {
        Formatter { format, colour: true, second: u64::MAX, stamp: Vec::with_capacity(40) }
    }

    /// The same without colours, for people who set `NO_COLOR`.
    #[must_use]
    pub fn plain(self) -> Formatter {
        Formatter { colour: false, ..self }
    }

    /// The format that it writes.
    pub fn format(&self) -> AccessFormat {
        self.format
    }

    /// Appends one line, its end included, to `out`. [`AccessFormat::Off`] appends nothing.
    pub fn append(&mut self, line: &Line<'_>, out: &mut Vec<u8>) {
        if self.second != line.clock.unix_secs {
            self.new_second(line.clock);
        }
        match self.format {
            AccessFormat::Combined => combined(line, &self.stamp, out),
            AccessFormat::Json => json::append(line, &self.stamp, out),
            AccessFormat::Human => human::append(line, &self.stamp, self.colour, out),
            AccessFormat::Off => {}
        }
    }

    fn new_second(&mut self, clock: &Clock) {
        self.second = clock.unix_secs;
        self.stamp.clear();
        match self.format {
            AccessFormat::Combined => {
                for part in [b" - - [".as_slice(), &date::format_clf(clock.unix_secs), b"] \""] {
                    self.stamp.extend_from_slice(part);
                }
            }
            AccessFormat::Json => self.stamp.extend_from_slice(&super::iso(&clock.http_date)),
            AccessFormat::Human => self.stamp.extend_from_slice(&super::iso(&clock.http_date)[11..]),
            AccessFormat::Off => {}
        }
    }
}

/// The NCSA Combined Log Format as httpd's `combined` writes it; a body of 0 bytes is `-`. Times are UTC.
fn combined(line: &Line<'_>, stamp: &[u8], out: &mut Vec<u8>) {
    // One growth at most: the fixed parts are below 128 bytes, and escapes are rare.
    out.reserve(combined_bytes_likely(line));
    out.extend_from_slice(line.remote.as_bytes());
    out.extend_from_slice(stamp);
    match line.request {
        RequestLine::Parsed { method, target, version } => {
            escape::quoted(method.as_bytes(), out);
            out.push(b' ');
            escape::quoted(target.as_bytes(), out);
            out.push(b' ');
            out.extend_from_slice(version_text(version).as_bytes());
        }
        RequestLine::Refused(b"") => out.push(b'-'),
        RequestLine::Refused(bytes) => escape::quoted(bytes, out),
    }
    out.extend_from_slice(b"\" ");
    decimal(u64::from(line.status), out);
    out.push(b' ');
    match line.body_bytes {
        0 => out.push(b'-'),
        bytes => decimal(bytes, out),
    }
    out.extend_from_slice(b" \"");
    escape::quoted(line.referer.unwrap_or(b"-"), out);
    out.extend_from_slice(b"\" \"");
    escape::quoted(line.user_agent.unwrap_or(b"-"), out);
    out.extend_from_slice(b"\"\n");
}

fn combined_bytes_likely(line: &Line<'_>) -> usize {
    let request = match line.request {
        RequestLine::Parsed { method, target, .. } => method.len() + target.len(),
        RequestLine::Refused(bytes) => bytes.len(),
    };
    128 + line.remote.len()
        + request
        + line.referer.map_or(1, <[u8]>::len)
        + line.user_agent.map_or(1, <[u8]>::len)
}

fn decimal(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}
