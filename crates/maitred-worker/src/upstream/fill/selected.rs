//! What a request wants of a response that was fetched as a whole: nothing, if it has that already, or a part. The decision is
//! made when the head has come, and by the head alone, so that it is the same however soon the content follows.

use std::ops::Range;

use maitred_http::cache::{Answer, answer, put_not_modified_fields};
use maitred_http::date;
use maitred_http::fields::FieldLines;
use maitred_http::request::{Known, Request};
use maitred_http::response::{Bad, Encode, Filter, FramedHead};

use super::keeping::Taken;
use maitred_files::kept::RANGES_MAX;

/// Content that is read and dropped before a part of it, for a response that is not kept. What lies further behind is asked of
/// the pool again, which may begin there: that costs less.
pub(crate) const SKIPPED_BYTES_MAX: u64 = 16 << 20;

/// The head that a request gets in place of this one, and which part of the content; `None` if it gets all. `now` is in seconds
/// since 1970.
pub(crate) fn select(
    head: &FramedHead,
    now: u64,
    request: &Request<'_, '_>,
) -> Option<(FramedHead, Range<u64>)> {
    let date = head.fields.all().get(b"date").and_then(|value| date::parse(value, now)).unwrap_or(now);
    // Where the length comes with the end only, it is not known yet which part a range is.
    let range = request.known.range.filter(|_| head.content_length.is_some());
    let known = Known { range, ..request.known };
    let size = head.content_length.unwrap_or_default();
    let mut fields = FieldLines::default();
    let framed = |status, content_length, fields, ended| FramedHead { status, content_length, fields, ended };
    match answer((head.status, head.fields.all(), size), date, (request.method, &known), RANGES_MAX) {
        Answer::Whole => None,
        Answer::NotModified => {
            put_not_modified_fields(head.fields.all(), &mut fields);
            Some((framed(304, None, fields, true), 0..0))
        }
        Answer::Partial(ranges) => {
            let range = ranges.first()?.clone();
            fields.extend(head.fields.all());
            let last = range.end.saturating_sub(1);
            fields.push(b"content-range", format!("bytes {}-{last}/{size}", range.start).as_bytes());
            let length = range.end.saturating_sub(range.start);
            Some((framed(206, Some(length), fields, false), range))
        }
        Answer::Unsatisfiable => {
            fields.push(b"content-range", format!("bytes */{size}").as_bytes());
            Some((framed(416, Some(0), fields, true), 0..0))
        }
    }
}

/// A response of another thread of which the client gets a part.
#[derive(Debug)]
pub(crate) struct Part {
    /// What its client gets in place of its head, until it has got it.
    head: Option<FramedHead>,
    range: Range<u64>,
    /// Takes the response apart.
    decoder: Filter,
    taken: Taken,
    /// Bytes of the content that have come.
    at: u64,
    /// Bytes of the content that came with the head.
    begun: Vec<u8>,
}

impl Part {
    /// The given part of a response whose head has come, with some of its content.
    pub(crate) fn new(
        head: FramedHead,
        range: Range<u64>,
        decoder: Filter,
        taken: Taken,
        content: &[u8],
    ) -> Part {
        Part { head: Some(head), range, decoder, taken, at: 0, begun: content.to_vec() }
    }

    /// Takes bytes of the other thread, and gives to `out` what the client gets.
    ///
    /// # Errors
    /// What is wrong with the response.
    pub(crate) fn feed(
        &mut self,
        input: &[u8],
        filter: &mut Filter,
        out: &mut impl Encode,
    ) -> Result<(), Bad> {
        if let Some(head) = self.head.take() {
            filter.begin_framed(&head, out)?;
        }
        let begun = std::mem::take(&mut self.begun);
        self.give(&begun, filter, out)?;
        if input.is_empty() || filter.complete() {
            return Ok(());
        }
        self.decoder.feed(input, &mut self.taken)?;
        let content = self.taken.take_content();
        self.give(&content, filter, out)
    }

    fn give(&mut self, content: &[u8], filter: &mut Filter, out: &mut impl Encode) -> Result<(), Bad> {
        let (begin, end) = (self.at, self.at.saturating_add(content.len() as u64));
        self.at = end;
        let from = self.range.start.clamp(begin, end) - begin;
        let to = self.range.end.clamp(begin, end) - begin;
        let part = content.get(from as usize..to as usize).unwrap_or_default();
        if part.is_empty() { Ok(()) } else { filter.feed(part, out).map(drop) }
    }
}
