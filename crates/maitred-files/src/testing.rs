//! What tests of everything that answers need.

use maitred_http::fields::{FieldEdits, FieldLines};
use maitred_http::h1::Persistence;
use maitred_http::request::{Framing, Known, Method, Request, Version};

use crate::exchange::{ReplyContext, ResponseWriter};
use maitred_base::clock::Clock;

const DATE: [u8; 29] = *b"Sun, 06 Nov 1994 08:49:37 GMT";

/// A clock that stands at [`DATE`].
pub(super) fn clock() -> Clock {
    Clock {
        now: std::time::Instant::now(),
        unix_secs: 784_111_777,
        unix_micros: 0,
        steady_us: 0,
        http_date: DATE,
    }
}

/// What is written to a client of HTTP/1.
pub(super) struct Written {
    pub(super) out: Vec<u8>,
    pub(super) head_only: bool,
    pub(super) persistence: Persistence,
    pub(super) lines: FieldLines,
}

impl Written {
    /// Nothing yet.
    pub(super) fn new(persistence: Persistence) -> Written {
        Written { out: Vec::new(), head_only: false, persistence, lines: FieldLines::default() }
    }

    /// What writes it.
    pub(super) fn writer(&mut self) -> ResponseWriter<'_> {
        let context = ReplyContext {
            date: DATE,
            persistence: self.persistence,
            head_only: self.head_only,
            edits: FieldEdits::NONE,
            late_edits: FieldEdits::NONE,
            expiry: None,
            further: false,
            altered: false,
            may_name_file: false,
            call: None,
        };
        ResponseWriter::new(&mut self.out, None, &mut self.lines, context)
    }

    /// All of it.
    pub(super) fn text(self) -> String {
        String::from_utf8(self.out).unwrap()
    }
}

/// A request for `/` without any fields.
pub(super) fn request(method: Method) -> Request<'static, 'static> {
    Request {
        method,
        method_text: "GET",
        version: Version::Http11,
        target: "/",
        path: "/",
        query: None,
        authority: "localhost",
        https: false,
        fields: &[],
        framing: Framing::None,
        keep_alive: true,
        expects_continue: false,
        upgrade: false,
        known: Known::default(),
    }
}
