//! Responses that the cache has kept.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use maitred_http::cache::{Answer, Lifetime, answer, put_not_modified_fields};
use maitred_http::fields::{FieldLines, FieldsRef};
use maitred_http::request::Request;
use maitred_http::response::ResponseHead;

use super::fixed;
use super::{OpenFile, Segment, Served, ServedFile, Summary};
use crate::exchange::ResponseWriter;
use maitred_cache::{Body, Entry};
use maitred_policy::compress::{self, Verdict};

/// Ranges of one response. Of several at once the whole is given (RFC 9110 section 14.2 allows that).
pub const RANGES_MAX: usize = 1;

/// A body in memory that is longer is not copied behind its head.
const COPIED_BYTES_MAX: usize = 64 * 1024;

/// A response, and what is said of it.
#[derive(Debug)]
pub struct Kept<'a> {
    /// The response.
    pub entry: &'a Arc<Entry>,
    /// How long it is good.
    pub lifetime: &'a Lifetime,
    /// The age of the response, in seconds.
    pub age: u32,
    /// The value of `Cache-Status`, with what caches nearer to the pool have said.
    pub status: Option<&'a [u8]>,
    /// Fields that are for the client alone that has fetched it.
    pub own: Option<&'a FieldLines>,
    /// What `compress` of its route makes of it.
    pub coded: Option<&'a Coded>,
}

/// A response with regard to codings.
#[derive(Debug)]
pub struct Coded {
    /// What becomes of it.
    pub verdict: Verdict,
    /// Whether the response says itself what decides about codings.
    pub varies: bool,
    /// The content in the coding.
    pub entry: Option<Arc<Entry>>,
}

impl Kept<'_> {
    /// Answers a GET or HEAD.
    pub fn answer(&self, request: &Request<'_, '_>, writer: &mut ResponseWriter<'_>) -> Served {
        let (head, size) = (&self.entry.head, self.entry.body.len());
        let fields = self.fields();
        let stored = (head.status, fields.as_ref().map_or(head.fields.all(), FieldLines::all), size);
        match answer(stored, self.lifetime.date, (request.method, &request.known), RANGES_MAX) {
            Answer::Whole => self.whole(writer),
            Answer::NotModified => {
                let mut fields = FieldLines::default();
                put_not_modified_fields(stored.1, &mut fields);
                writer.make_kept(304, true, |lines| self.put(fields.all(), None, lines));
                Served::Whole(Summary { status: 304, body_bytes: 0 })
            }
            Answer::Partial(ranges) => match ranges.first() {
                Some(range) => self.part(range.clone(), writer),
                None => self.whole(writer),
            },
            Answer::Unsatisfiable => {
                writer.make(416, false, true, |lines| {
                    lines.push(b"Content-Range", format!("bytes */{size}").as_bytes());
                    lines.push_number(b"Content-Length", 0);
                });
                Served::Whole(Summary { status: 416, body_bytes: 0 })
            }
        }
    }

    /// The fields of the response as they are with its coding; `None`: as they were stored.
    fn fields(&self) -> Option<FieldLines> {
        let Coded { verdict, varies, .. } = self.coded?;
        let stored = self.entry.head.fields.all();
        let head = ResponseHead::own(self.entry.head.status, stored);
        let mut lines = FieldLines::default();
        match verdict {
            Verdict::Never => return None,
            Verdict::Plain if *varies => return None,
            Verdict::Plain => {
                lines.extend(stored);
                lines.push(compress::head::VARY.0, compress::head::VARY.1);
            }
            Verdict::Confirms => compress::head::put(&head, *varies, None, &mut lines),
            Verdict::Coded(coding) => compress::head::put(&head, *varies, Some(*coding), &mut lines),
        }
        Some(lines)
    }

    /// What has the content.
    fn body(&self) -> &Body {
        let coded = self.coded.and_then(|coded| coded.entry.as_ref());
        &coded.unwrap_or(self.entry).body
    }

    fn whole(&self, writer: &mut ResponseWriter<'_>) -> Served {
        let (head, size, fields) = (&self.entry.head, self.body().len(), self.fields());
        let Ok(file) = self.file() else { return Served::Whole(fixed::error(503, &[], writer)) };
        let bodiless = matches!(head.status, 204 | 205);
        let ended = writer.leaves_out(head.status) || size == 0;
        let length = (!bodiless).then_some(size);
        let fields = fields.as_ref().map_or(head.fields.all(), FieldLines::all);
        writer.make_kept(head.status, ended, |lines| self.put(fields, length, lines));
        self.content(file, 0..size, head.status, writer)
    }

    fn part(&self, range: Range<u64>, writer: &mut ResponseWriter<'_>) -> Served {
        let (head, size, fields) = (&self.entry.head, self.entry.body.len(), self.fields());
        let Ok(file) = self.file() else { return Served::Whole(fixed::error(503, &[], writer)) };
        let length = range.end.saturating_sub(range.start);
        let ended = writer.head_only() || length == 0;
        writer.make_kept(206, ended, |lines| {
            let fields = fields.as_ref().map_or(head.fields.all(), FieldLines::all);
            self.put(fields, Some(length), lines);
            let last = range.end.saturating_sub(1);
            lines.push(b"Content-Range", format!("bytes {}-{last}/{size}", range.start).as_bytes());
        });
        self.content(file, range, 206, writer)
    }

    /// Appends the fields.
    fn put(&self, fields: FieldsRef<'_>, length: Option<u64>, lines: &mut FieldLines) {
        let replaces_status = self.status.is_some();
        for (name, value) in fields.iter() {
            if !(replaces_status && name.eq_ignore_ascii_case(b"cache-status")) {
                lines.push(name, value);
            }
        }
        lines.extend(self.own.map(FieldLines::all).unwrap_or_default());
        lines.push_number(b"Age", self.age.into());
        if let Some(length) = length {
            lines.push_number(b"Content-Length", length);
        }
        if let Some(status) = self.status {
            lines.push(b"Cache-Status", status);
        }
    }

    /// A descriptor of one's own for a response from a file: what is known of the file's pages belongs to a thread. There may be
    /// none left.
    fn file(&self) -> io::Result<Option<(Rc<ServedFile>, u64)>> {
        match self.body() {
            Body::Memory(_) => Ok(None),
            Body::File { file, offset, .. } => {
                let own = rustix::io::fcntl_dupfd_cloexec(&**file, 3)?;
                Ok(Some((Rc::new(ServedFile::Own(OpenFile::new(own))), *offset)))
            }
        }
    }

    /// A part of the content, behind the head.
    fn content(
        &self,
        file: Option<(Rc<ServedFile>, u64)>,
        range: Range<u64>,
        status: u16,
        writer: &mut ResponseWriter<'_>,
    ) -> Served {
        let body_bytes = range.end.saturating_sub(range.start);
        if writer.leaves_out(status) || body_bytes == 0 {
            return Served::Whole(Summary { status, body_bytes: 0 });
        }
        let summary = Summary { status, body_bytes };
        match (file, self.body()) {
            (Some((file, start)), _) => {
                let (offset, end) = (start + range.start, start + range.end);
                Served::Streaming(summary, VecDeque::from([Segment::File { file, offset, end }]))
            }
            (None, Body::Memory(bytes)) => {
                let part = bytes.get(range.start as usize..range.end as usize).unwrap_or_default();
                if part.len() > COPIED_BYTES_MAX {
                    return Served::Streaming(summary, VecDeque::from([Segment::Bytes(part.into())]));
                }
                writer.put(part);
                Served::Whole(summary)
            }
            // Cannot be: a body in a file has one.
            (None, Body::File { .. }) => Served::Whole(summary),
        }
    }
}
