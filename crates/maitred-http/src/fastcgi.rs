//! FastCGI from the web server's side: the records of "FastCGI Specification" 1.0 (Mark R. Brown, 29 April 1996) in the role
//! of a responder, and what is inside of them, CGI/1.1 (RFC 3875). Bytes in, bytes out; connections belong to the caller.
//!
//! | module | |
//! |---|---|
//! | [`record`] | headers of records, their types and sizes |
//! | [`encode`] | records for the application: the request, its parameters, its content, an abort |
//! | [`stdin`] | content that is sent out of a file |
//! | [`variables`] | the parameters of a request: the meta-variables of CGI/1.1, and those that PHP looks for |
//! | [`script`] | which part of a path is the script, and which its `PATH_INFO` |
//! | [`decode`] | records of the application: output, messages, the end |
//! | [`head`] | the header of a CGI response, at the beginning of the output |
//!
//! One connection carries one request at a time, always with [`record::REQUEST_ID`]: applications that multiplex are rare
//! (php-fpm, libfcgi and flup do not), and an idle connection costs less than a slow request that holds up another one.
//!
//! A request is written as `BEGIN_REQUEST`, the parameters, the content, and the empty record that ends the content:
//!
//! ```
//! use maitred_http::fastcgi::{decode::{Decoder, Event}, encode, head, script, variables::{self, Variables}};
//!
//! let mut out = Vec::new();
//! encode::put_begin_request(&mut out, false);
//! let script = script::split(b"/app.php/page", Some(b"index.php"), b".php").unwrap().expect("a script");
//! let variables = Variables { document_root: Some(b"/srv/www"), script, ..Variables::default() };
//! let fields = [("Host", &b"a.example"[..])].into_iter();
//! encode::put_params(&mut out, |params| variables::put(params, &variables, fields)).unwrap();
//! encode::put_stdin(&mut out, b"content");
//! encode::put_stdin_end(&mut out);
//!
//! // What comes back, in parts of any size.
//! let bounds = maitred_http::limits::ResponseBounds::DEFAULT;
//! let (mut decoder, mut buffer, mut status) = (Decoder::new(), head::HeadBuffer::default(), None);
//! let mut input: &[u8] = b"\x01\x06\0\x01\0\x15\x03\0Content-Type: a/b\r\n\r\n\0\0\0";
//! while let Some(event) = decoder.next(&mut input).unwrap() {
//!     let Event::Stdout(part) = event else { continue };
//!     if let Some(content) = buffer.feed(part, &bounds).unwrap() {
//!         let (head, _) = head::parse(buffer.head(), &bounds).unwrap().expect("the whole head");
//!         status = Some((head.status, content.len()));
//!     }
//! }
//! assert_eq!(status, Some((200, 0)));
//! ```

pub mod decode;
pub mod encode;
pub mod head;
pub mod record;
pub mod script;
pub mod stdin;
pub mod variables;

#[cfg(test)]
mod tests;
