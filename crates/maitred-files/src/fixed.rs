//! Replies that no file stands behind: errors, redirects, fixed texts.

use maitred_http::fields::{FieldLines, FieldsRef};
use maitred_http::{status, uri};

use super::{RequestContext, Summary};
use crate::exchange::{Field, ResponseWriter};

/// A whole reply.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a> {
    /// Status code, 200 to 599.
    pub status: u16,
    /// Further fields: `Allow`, `Retry-After`, `Location`, `Content-Range`.
    pub fields: &'a [Field<'a>],
    /// Media type of the body.
    pub content_type: &'a str,
    /// The body; statuses that have none (204, 304) leave it out.
    pub body: &'a [u8],
}

/// What [`error`] and [`redirect`] write as their body's type.
const TEXT: &str = "text/plain; charset=utf-8";

impl Reply<'_> {
    /// Writes the reply.
    pub fn write(&self, writer: &mut ResponseWriter<'_>) -> Summary {
        let has_body = !matches!(self.status, 204 | 304);
        let sent = if has_body && !writer.leaves_out(self.status) { self.body } else { b"" };
        writer.reserve(256 + self.body.len());
        writer.make(self.status, false, sent.is_empty(), |lines| {
            if has_body {
                lines.push_number(b"Content-Length", self.body.len() as u64);
            }
            if has_body && !self.body.is_empty() {
                lines.push(b"Content-Type", self.content_type.as_bytes());
            }
            self.fields.iter().for_each(|field| lines.push(field.name.as_bytes(), &field.value));
        });
        writer.put(sent);
        Summary { status: self.status, body_bytes: sent.len() as u64 }
    }
}

/// Writes an error: the status and its reason, as plain text, with further fields.
pub fn error(status: u16, fields: &[Field<'_>], writer: &mut ResponseWriter<'_>) -> Summary {
    Failure { status, fields, request_id: None }.write(writer)
}

/// The response to a request that fails here.
#[derive(Debug, Clone, Copy)]
pub struct Failure<'a> {
    /// Status code, 400 to 599.
    pub status: u16,
    /// Further fields.
    pub fields: &'a [Field<'a>],
    /// By which the log knows the request, if it does. The reason stands there: it may name files and commands, which clients
    /// must not see.
    pub request_id: Option<&'a [u8]>,
}

impl Failure<'_> {
    /// Writes the error as plain text: the status and its reason.
    pub fn write(&self, writer: &mut ResponseWriter<'_>) -> Summary {
        let mut body = Vec::with_capacity(96);
        body.extend_from_slice(status::text(self.status).as_bytes());
        body.push(b'\n');
        if let Some(id) = self.request_id {
            body.extend_from_slice(b"Request ID: ");
            body.extend_from_slice(id);
            body.push(b'\n');
        }
        Reply { status: self.status, fields: self.fields, content_type: TEXT, body: &body }.write(writer)
    }
}

/// Answers a preflight request: fields that the writer adds say what is allowed. Without any, it is refused.
pub fn preflight(writer: &mut ResponseWriter<'_>) -> Summary {
    match writer.has_further() {
        true => Reply { status: 204, fields: &[], content_type: "", body: b"" }.write(writer),
        false => error(403, &[], writer),
    }
}

/// Writes a redirect.
pub fn redirect(location: Vec<u8>, status: u16, writer: &mut ResponseWriter<'_>) -> Summary {
    error(status, &[Field::of("Location", location)], writer)
}

/// Writes a redirect to `location`, with further fields.
pub(super) fn redirect_to(
    status: u16,
    location: &[u8],
    fields: FieldsRef<'_>,
    writer: &mut ResponseWriter<'_>,
) -> Summary {
    let body = status::text(status) + "\n";
    let sent = if writer.leaves_out(status) { b"" } else { body.as_bytes() };
    writer.make(status, false, sent.is_empty(), |lines| {
        lines.push_number(b"Content-Length", body.len() as u64);
        lines.push(b"Content-Type", TEXT.as_bytes());
        lines.push(b"Location", location);
        lines.extend(fields);
    });
    writer.put(sent);
    Summary { status, body_bytes: sent.len() as u64 }
}

/// Writes a fixed text.
pub fn respond(status: u16, body: &str, content_type: &str, writer: &mut ResponseWriter<'_>) -> Summary {
    Reply { status, fields: &[], content_type, body: body.as_bytes() }.write(writer)
}

/// Writes an answer that was made elsewhere: by another server, which refuses a request, or by a module.
pub fn pass_on(status: u16, fields: &FieldLines, content: &[u8], writer: &mut ResponseWriter<'_>) -> Summary {
    let has_body = !matches!(status, 204 | 304);
    let sent = if has_body && !writer.head_only() { content } else { b"" };
    writer.make(status, false, sent.is_empty(), |lines| {
        if has_body {
            lines.push_number(b"Content-Length", content.len() as u64);
        }
        lines.extend(fields.all());
    });
    writer.put(sent);
    Summary { status, body_bytes: sent.len() as u64 }
}

/// Appends `?` and the query, if the request has one.
pub(super) fn push_query(context: &RequestContext<'_>, out: &mut Vec<u8>) {
    if let Some(query) = context.request.query {
        out.push(b'?');
        uri::canonical_query(query, out);
    }
}

#[cfg(test)]
mod tests {
    use maitred_http::h1::Persistence;
    use maitred_http::request::{Method, Request};

    use super::*;
    use crate::testing::{Written, request};

    fn context(
        method: Method,
        path: &str,
        query: Option<&str>,
        write: impl Fn(&RequestContext<'_>, &mut ResponseWriter<'_>) -> Summary,
    ) -> (String, Summary) {
        let request = Request { target: path, path, query, ..request(method) };
        let clock = crate::testing::clock();
        let context =
            RequestContext { request: &request, path: path.as_bytes(), clock: &clock, warmed: false };
        let mut written = Written::new(Persistence::Implied);
        let summary = write(&context, &mut written.writer());
        (written.text(), summary)
    }

    #[test]
    fn an_error_is_a_short_text() {
        let mut written = Written::new(Persistence::Close);
        let summary = error(404, &[], &mut written.writer());
        assert_eq!(summary, Summary { status: 404, body_bytes: 14 });
        assert_eq!(
            written.text(),
            "HTTP/1.1 404 Not Found\r\nContent-Length: 14\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nConnection: close\r\n\r\n404 Not Found\n"
        );
    }

    #[test]
    fn head_leaves_out_the_body_only() {
        let mut written = Written { head_only: true, ..Written::new(Persistence::Stated) };
        let summary = error(500, &[], &mut written.writer());
        assert_eq!(summary, Summary { status: 500, body_bytes: 0 });
        let text = written.text();
        assert!(text.contains("Content-Length: 26\r\n") && text.ends_with("Connection: keep-alive\r\n\r\n"));
    }

    #[test]
    fn a_redirect_names_its_place() {
        let write = |_: &RequestContext<'_>, writer: &mut ResponseWriter<'_>| {
            redirect(b"https://a.example/a%20b".to_vec(), 308, writer)
        };
        let (text, summary) = context(Method::Get, "/", None, write);
        assert_eq!(summary.status, 308);
        assert!(text.contains("\r\nLocation: https://a.example/a%20b\r\n"), "{text}");
    }

    #[test]
    fn a_fixed_text_has_its_type_and_no_content_has_no_length() {
        let respond = |status: u16, body: &'static str| {
            context(Method::Get, "/", None, move |_, writer| respond(status, body, "text/html", writer))
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
