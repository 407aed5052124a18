//! Replies that no file stands behind: errors, redirects, fixed texts.

use maitred_http::{status, uri};

use super::{Clock, Exchange, Persistence, Summary};

/// How a reply is to be written, whatever it says.
#[derive(Debug, Clone, Copy)]
pub struct Manner<'a> {
    /// The clock of this turn, for `Date`.
    pub clock: &'a Clock,
    /// What the `Connection` field shall say.
    pub persistence: Persistence,
    /// HEAD: the body is left out, its length is stated nevertheless.
    pub head_only: bool,
    /// Whether `Server: maitred` is written.
    pub server_header: bool,
}

impl<'a> Manner<'a> {
    /// As the request of an exchange wants it.
    pub fn of(exchange: &Exchange<'a>, server_header: bool) -> Manner<'a> {
        let head_only = exchange.request.method == maitred_http::request::Method::Head;
        Manner { clock: exchange.clock, persistence: exchange.persistence, head_only, server_header }
    }
}

/// A whole reply.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a> {
    /// Status code, 200 to 599.
    pub status: u16,
    /// Further field lines, each with its CRLF: `Allow`, `Retry-After`, `Location`, `Content-Range`.
    pub fields: &'a [u8],
    /// Media type of the body.
    pub content_type: &'a str,
    /// The body; statuses that have none (204, 304) leave it out.
    pub body: &'a [u8],
}

/// What [`error`] and [`redirect`] write as their body's type.
const TEXT: &str = "text/plain; charset=utf-8";

impl Reply<'_> {
    /// Appends the reply to `out`.
    pub fn write(&self, manner: &Manner<'_>, out: &mut Vec<u8>) -> Summary {
        let has_body = !matches!(self.status, 204 | 304);
        out.reserve(256 + self.fields.len() + self.body.len());
        status_line(self.status, out);
        if has_body {
            content_length(self.body.len() as u64, out);
        }
        if has_body && !self.body.is_empty() {
            out.extend_from_slice(b"Content-Type: ");
            out.extend_from_slice(self.content_type.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(self.fields);
        if manner.server_header {
            out.extend_from_slice(b"Server: maitred\r\n");
        }
        finish_head(manner.clock, manner.persistence, out);
        let sent = if has_body && !manner.head_only { self.body } else { b"" };
        out.extend_from_slice(sent);
        Summary { status: self.status, body_bytes: sent.len() as u64 }
    }
}

/// Appends an error: the status and its reason, as plain text.
pub fn error(
    status: u16,
    persistence: Persistence,
    clock: &Clock,
    head_only: bool,
    server_header: bool,
    out: &mut Vec<u8>,
) -> Summary {
    error_with(status, b"", &Manner { clock, persistence, head_only, server_header }, out)
}

/// An error with further field lines, each with its CRLF.
pub fn error_with(status: u16, fields: &[u8], manner: &Manner<'_>, out: &mut Vec<u8>) -> Summary {
    Failure { status, fields, request_id: None }.write(manner, out)
}

/// What a request is told that fails here.
#[derive(Debug, Clone, Copy)]
pub struct Failure<'a> {
    /// Status code, 400 to 599.
    pub status: u16,
    /// Further field lines, each with its CRLF.
    pub fields: &'a [u8],
    /// By which the log knows the request, if it does. The reason stands there: it may name files and commands, which are not
    /// for everybody.
    pub request_id: Option<&'a [u8]>,
}

impl Failure<'_> {
    /// Appends the error as plain text: the status and its reason.
    pub fn write(&self, manner: &Manner<'_>, out: &mut Vec<u8>) -> Summary {
        let mut body = Vec::with_capacity(96);
        body.extend_from_slice(itoa::Buffer::new().format(self.status).as_bytes());
        body.push(b' ');
        body.extend_from_slice(status::reason(self.status).as_bytes());
        body.push(b'\n');
        if let Some(id) = self.request_id {
            body.extend_from_slice(b"Request ID: ");
            body.extend_from_slice(id);
            body.push(b'\n');
        }
        let reply = Reply { status: self.status, fields: self.fields, content_type: TEXT, body: &body };
        reply.write(manner, out)
    }
}

/// Appends a redirect to the template `to`, in which `{path}` stands for the request's path, encoded, and `{uri}` for
/// path and query.
pub fn redirect(
    to: &str,
    status: u16,
    exchange: &Exchange<'_>,
    server_header: bool,
    out: &mut Vec<u8>,
) -> Summary {
    let mut location = Vec::with_capacity(to.len() + exchange.request.target.len());
    let mut rest = to;
    while let Some((before, from)) = rest.find('{').map(|at| rest.split_at(at)) {
        location.extend_from_slice(before.as_bytes());
        if let Some(after) = from.strip_prefix("{path}") {
            uri::encode_path(exchange.path, &mut location);
            rest = after;
        } else if let Some(after) = from.strip_prefix("{uri}") {
            uri::encode_path(exchange.path, &mut location);
            push_query(exchange, &mut location);
            rest = after;
        } else {
            location.push(b'{');
            rest = from.get(1..).unwrap_or_default();
        }
    }
    location.extend_from_slice(rest.as_bytes());
    see(status, &location, b"", &Manner::of(exchange, server_header), out)
}

/// Appends a fixed text.
pub fn respond(
    status: u16,
    body: &str,
    content_type: &str,
    exchange: &Exchange<'_>,
    server_header: bool,
    out: &mut Vec<u8>,
) -> Summary {
    let reply = Reply { status, fields: b"", content_type, body: body.as_bytes() };
    reply.write(&Manner::of(exchange, server_header), out)
}

/// A reply that says to go to `location`, with further field lines.
pub(super) fn see(
    status: u16,
    location: &[u8],
    fields: &[u8],
    manner: &Manner<'_>,
    out: &mut Vec<u8>,
) -> Summary {
    let fields = [b"Location: ", location, b"\r\n", fields].concat();
    error_with(status, &fields, manner, out)
}

/// Appends `?` and the query, if the request has one.
pub(super) fn push_query(exchange: &Exchange<'_>, out: &mut Vec<u8>) {
    if let Some(query) = exchange.request.query {
        out.push(b'?');
        uri::canonical_query(query, out);
    }
}

/// Appends `HTTP/1.1 404 Not Found` and CRLF.
pub(super) fn status_line(status: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
    out.push(b' ');
    out.extend_from_slice(status::reason(status).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends `Content-Length` and CRLF.
pub(super) fn content_length(bytes: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Content-Length: ");
    out.extend_from_slice(itoa::Buffer::new().format(bytes).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends `Date`, `Connection` and the empty line: what differs from one answer to the next.
#[inline]
pub(super) fn finish_head(clock: &Clock, persistence: Persistence, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Date: ");
    out.extend_from_slice(&clock.http_date);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(persistence.field());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use maitred_http::request::{Method, Request};

    use super::*;
    use crate::serve::testing::request;

    const CLOCK_DATE: [u8; 29] = *b"Sun, 06 Nov 1994 08:49:37 GMT";

    fn clock() -> Clock {
        Clock {
            now: std::time::Instant::now(),
            unix_secs: 784_111_777,
            unix_micros: 0,
            http_date: CLOCK_DATE,
        }
    }

    fn exchange(
        method: Method,
        path: &str,
        query: Option<&str>,
        write: impl Fn(&Exchange<'_>, &mut Vec<u8>) -> Summary,
    ) -> (String, Summary) {
        let request = Request { target: path, path, query, ..request(method) };
        let (clock, persistence) = (clock(), Persistence::Implied);
        let path = path.as_bytes();
        let exchange = Exchange { request: &request, path, clock: &clock, persistence, warmed: false };
        let mut out = Vec::new();
        let summary = write(&exchange, &mut out);
        (String::from_utf8(out).unwrap(), summary)
    }

    #[test]
    fn an_error_is_a_short_text() {
        let mut out = Vec::new();
        let summary = error(404, Persistence::Close, &clock(), false, true, &mut out);
        assert_eq!(summary, Summary { status: 404, body_bytes: 14 });
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "HTTP/1.1 404 Not Found\r\nContent-Length: 14\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Server: maitred\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nConnection: close\r\n\r\n404 Not Found\n"
        );
    }

    #[test]
    fn head_leaves_out_the_body_only() {
        let mut out = Vec::new();
        let summary = error(500, Persistence::Stated, &clock(), true, false, &mut out);
        assert_eq!(summary, Summary { status: 500, body_bytes: 0 });
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("Content-Length: 26\r\n") && text.ends_with("Connection: keep-alive\r\n\r\n"));
    }

    #[test]
    fn a_redirect_fills_in_path_and_query() {
        for (to, query, expected) in [
            ("https://a.example{uri}", Some("x=1"), "https://a.example/a%20%0Ab?x=1"),
            ("https://a.example{uri}", None, "https://a.example/a%20%0Ab"),
            ("/new{path}/end", Some("x=1"), "/new/a%20%0Ab/end"),
            ("/{other}{", None, "/{other}{"),
            ("{path}{path}", None, "/a%20%0Ab/a%20%0Ab"),
        ] {
            let write = |exchange: &Exchange<'_>, out: &mut Vec<u8>| redirect(to, 308, exchange, false, out);
            let (text, summary) = exchange(Method::Get, "/a \nb", query, write);
            assert_eq!(summary.status, 308);
            assert!(text.contains(&format!("\r\nLocation: {expected}\r\n")), "{text}");
        }
    }

    #[test]
    fn a_fixed_text_has_its_type_and_no_content_has_no_length() {
        let respond = |status: u16, body: &'static str| {
            exchange(Method::Get, "/", None, move |exchange, out| {
                respond(status, body, "text/html", exchange, false, out)
            })
        };
        let (text, summary) = respond(410, "gone");
        assert_eq!((summary.status, summary.body_bytes), (410, 4));
        assert!(
            text.contains("Content-Length: 4\r\nContent-Type: text/html\r\n")
                && text.ends_with("\r\n\r\ngone")
        );
        let (text, summary) = respond(204, "ignored");
        assert_eq!((summary.body_bytes, text.contains("Content-")), (0, false));
        let (text, _) = respond(200, "");
        assert!(text.contains("Content-Length: 0\r\n") && !text.contains("Content-Type"));
    }
}
