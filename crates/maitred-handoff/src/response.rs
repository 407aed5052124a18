//! What an application may say in its response, and what an adapter makes of it (`adapters/PROTOCOL.md`, section 5).

use crate::Request;
use crate::field::append_field;

/// Bytes of one informational response.
pub const INFORMATIONAL_BYTES_MAX: usize = 16 * 1024;
/// Informational responses to one request.
pub const INFORMATIONAL_MAX: usize = 16;

/// Fields behind the content of one response. A response that has more is sent without any.
pub const TRAILERS_MAX: usize = 32;
/// Bytes of them, each with the end of its line. Maitred reads 8192, with the empty line.
pub const TRAILER_BYTES_MAX: usize = 8190;

/// Names of fields that mean something else, or nothing, behind the content (RFC 9110, section 6.5.1).
pub const NOT_IN_TRAILERS: [&str; 45] = [
    // Framing, routing, and the connection.
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    // Who the peer is, or says that it is.
    "authentication-info",
    "authorization",
    "cookie",
    "forwarded",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "set-cookie",
    "www-authenticate",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    // Modifiers of a request.
    "cache-control",
    "expect",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "max-forwards",
    "pragma",
    "priority",
    "range",
    // Control of a response.
    "age",
    "date",
    "expires",
    "location",
    "retry-after",
    "vary",
    "warning",
    // How content is to be read.
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-location",
    "content-range",
    "content-type",
];

/// Names of the meta part.
const EARLY_HINTS: &str = "early_hints";
const SENDFILE_ROOT: &str = "sendfile_root";
const SERVER_HEADER: &str = "server_header";
const TRAILERS: &str = "trailers";

impl<'a> Request<'a> {
    /// Whether informational responses may be written before the final one ([`encode_informational`]).
    pub fn early_hints(&self) -> bool {
        self.meta(EARLY_HINTS) == Some("1") && !self.flags.http10
    }

    /// Whether fields may stand behind the content of a response in chunks ([`encode_last_chunk`]), and be announced by
    /// `Trailer` in its head.
    pub fn trailers(&self) -> bool {
        self.meta(TRAILERS) == Some("1") && !self.flags.http10 && !self.flags.head
    }

    /// The directory whose files the application may name with `X-Sendfile`. Without one the field means nothing, and is sent as
    /// any other.
    pub fn sendfile_root(&self) -> Option<&'a str> {
        self.meta(SENDFILE_ROOT).filter(|root| !root.is_empty())
    }

    /// Whether a response whose application names no server gets a field `Server` from the adapter.
    pub fn server_header(&self) -> bool {
        self.meta(SERVER_HEADER) != Some("0")
    }
}

/// Whether a field of an application's response is sent. Not those of one hop (RFC 9110, section 7.6.1): adapters drop them,
/// and do not fail, because applications set them that other servers put up with. `Upgrade` in a 426 is the application's
/// (15.5.22); `Connection: upgrade` has to be added there. `connection` is what the application's fields `Connection` hold: what
/// they name is not sent either. Where [`Request::trailers`] holds, a response in chunks may have `Trailer` all the same.
pub fn is_sendable<'c>(name: &str, status: u16, connection: impl IntoIterator<Item = &'c [u8]>) -> bool {
    if name.eq_ignore_ascii_case("upgrade") {
        return status == 426 || status == crate::DETACH_STATUS;
    }
    !is_hop_by_hop(name)
        && !connection.into_iter().any(|list| {
            list.split(|byte| *byte == b',').any(|one| one.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
        })
}

/// Whether a field concerns one connection, whichever side sets it.
fn is_hop_by_hop(name: &str) -> bool {
    const NAMES: [&str; 7] =
        ["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"];
    NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Appends an informational response, such as 103 Early Hints, to be written before the final one: at most
/// [`INFORMATIONAL_MAX`] per request, and only if [`Request::early_hints`]. Fields that may not stand there are left out.
///
/// False, and nothing appended, if it has another status than 102 to 199, holds what cannot be sent, or has more than
/// [`INFORMATIONAL_BYTES_MAX`].
#[must_use]
pub fn encode_informational(out: &mut Vec<u8>, status: u16, fields: &[(&str, &[u8])]) -> bool {
    let start = out.len();
    let written = matches!(status, 102..=199) && append_informational(out, status, fields);
    let fits = written && out.len() - start <= INFORMATIONAL_BYTES_MAX;
    if !fits {
        out.truncate(start);
    }
    fits
}

fn append_informational(out: &mut Vec<u8>, status: u16, fields: &[(&str, &[u8])]) -> bool {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
    // A reason may be empty; the space before it may not be missing (RFC 9112, section 4).
    out.extend_from_slice(if status == 103 { b" Early Hints\r\n" } else { b" \r\n" });
    for (name, value) in fields {
        let lists = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("connection"));
        if name.eq_ignore_ascii_case("content-length")
            || !is_sendable(name, status, lists.map(|(_, value)| *value))
        {
            continue;
        }
        if !append_field(out, name, value) {
            return false;
        }
    }
    out.extend_from_slice(b"\r\n");
    true
}

/// Appends the end of a response in chunks, with its trailers (RFC 9112, section 7.1.2): none unless [`Request::trailers`] holds.
/// Fields that may not stand there are left out.
///
/// False, and all of them left out, if one cannot be sent, or there are more than [`TRAILERS_MAX`] or [`TRAILER_BYTES_MAX`].
pub fn encode_last_chunk(out: &mut Vec<u8>, trailers: &[(&str, &[u8])]) -> bool {
    out.extend_from_slice(b"0\r\n");
    let start = out.len();
    let mut count = 0;
    let written = trailers.iter().filter(|(name, _)| is_for_trailers(name)).all(|(name, value)| {
        count += 1;
        count <= TRAILERS_MAX && append_field(out, name, value)
    });
    let fits = written && out.len() - start <= TRAILER_BYTES_MAX;
    if !fits {
        out.truncate(start);
    }
    out.extend_from_slice(b"\r\n");
    fits
}

/// Whether a field may stand behind the content: all but [`NOT_IN_TRAILERS`].
fn is_for_trailers(name: &str) -> bool {
    !NOT_IN_TRAILERS.iter().any(|other| other.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests;
