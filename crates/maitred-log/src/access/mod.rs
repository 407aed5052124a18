//! One request → one access-log line.
//!
//! Whatever a peer sends, it stays inside its own field of its own line: bytes that could end either are escaped.

mod custom;
mod escape;
mod human;
mod json;
mod line;
#[cfg(test)]
mod tests;

use maitred_http::date;

use custom::Stamps;
pub use line::{Line, RequestLine, UpstreamLine};
use line::{decimal, version_text};

use maitred_base::clock::Clock;
use maitred_config::{AccessFormat, LogFormat};

/// What stands before the time in the Common Log Format: neither an identity (RFC 1413) nor a user.
const NO_USER: &[u8] = b" - -";

/// Writes lines in one format. Belongs to one thread: it keeps the text of the present second.
#[derive(Debug)]
pub struct Formatter {
    format: LogFormat,
    colour: bool,
    /// Second that `stamp` is the text of; `u64::MAX` before the first line.
    second: u64,
    stamp: Vec<u8>,
    /// The same for formats of the operator's own.
    stamps: Stamps,
    room: Vec<u8>,
}

impl Formatter {
    /// A formatter for `format`; [`AccessFormat::Human`] is coloured until [`Formatter::plain`] says otherwise.
    pub fn new(format: impl Into<LogFormat>) -> Formatter {
        let (stamp, stamps, room) = (Vec::with_capacity(40), Stamps::default(), Vec::new());
        Formatter { format: format.into(), colour: true, second: u64::MAX, stamp, stamps, room }
    }

    /// The same without colours, for people who set `NO_COLOR`.
    #[must_use]
    pub fn plain(self) -> Formatter {
        Formatter { colour: false, ..self }
    }

    /// The format that it writes.
    pub fn format(&self) -> &LogFormat {
        &self.format
    }

    /// Appends one line, its end included, to `out`. [`AccessFormat::Off`] appends nothing.
    pub fn append(&mut self, line: &Line<'_>, out: &mut Vec<u8>) {
        if self.second != line.clock.unix_secs {
            self.new_second(line.clock);
        }
        match &self.format {
            LogFormat::Known(AccessFormat::Combined) => combined(line, &self.stamp, out),
            LogFormat::Known(AccessFormat::Json) => json::append(line, &self.stamp, out),
            LogFormat::Known(AccessFormat::Human) => human::append(line, &self.stamp, self.colour, out),
            LogFormat::Known(AccessFormat::Off) => {}
            LogFormat::Json(members) => json::append_with(line, &self.stamps, members, &mut self.room, out),
            LogFormat::Text(parts) => {
                custom::append(line, parts, &self.stamps, escape::quoted, out);
                out.push(b'\n');
            }
        }
    }

    fn new_second(&mut self, clock: &Clock) {
        self.second = clock.unix_secs;
        self.stamp.clear();
        match &self.format {
            LogFormat::Known(AccessFormat::Combined) => {
                for part in [NO_USER, b" [", &date::format_clf(clock.unix_secs), b"] \""] {
                    self.stamp.extend_from_slice(part);
                }
            }
            LogFormat::Known(AccessFormat::Json) => {
                self.stamp.extend_from_slice(&super::iso(&clock.http_date))
            }
            LogFormat::Known(AccessFormat::Human) => {
                self.stamp.extend_from_slice(&super::iso(&clock.http_date)[11..])
            }
            LogFormat::Known(AccessFormat::Off) => {}
            LogFormat::Json(_) | LogFormat::Text(_) => {
                self.stamps.common = date::format_clf(clock.unix_secs).to_vec();
                self.stamps.iso = super::iso(&clock.http_date).to_vec();
            }
        }
    }
}

/// The NCSA Combined Log Format as httpd's `combined` writes it; a body of 0 bytes is `-`. Times are UTC.
fn combined(line: &Line<'_>, stamp: &[u8], out: &mut Vec<u8>) {
    // One growth at most: the fixed parts are below 128 bytes, and escapes are rare.
    out.reserve(combined_bytes_likely(line));
    out.extend_from_slice(line.remote);
    match (line.user, stamp.strip_prefix(NO_USER)) {
        (Some(user), Some(rest)) => {
            out.extend_from_slice(b" - ");
            for (at, word) in user.split(' ').enumerate() {
                // The columns are told apart by spaces.
                out.extend_from_slice(if at > 0 { b"\\x20" } else { b"" });
                escape::quoted(word.as_bytes(), out);
            }
            out.extend_from_slice(rest);
        }
        _ => out.extend_from_slice(stamp),
    }
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
    quoted_or_dash(line.referer, out);
    out.extend_from_slice(b"\" \"");
    quoted_or_dash(line.user_agent, out);
    out.extend_from_slice(b"\"\n");
}

fn quoted_or_dash(value: Option<&[u8]>, out: &mut Vec<u8>) {
    match value {
        Some(value) => escape::quoted(value, out),
        None => out.push(b'-'),
    }
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
