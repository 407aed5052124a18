//! Records for the application: appended to a buffer, or header and padding for content that the caller sends by itself.

use std::fmt;

use super::record::{ALIGNMENT, CONTENT_BYTES_MAX, HEADER_BYTES, KEEP_CONN, RESPONDER, RecordHeader, kind};

const PADDING: [u8; ALIGNMENT] = [0; ALIGNMENT];

/// A parameter does not fit into one record: the request is refused (431, or 414 if it is its target). Caused
/// by the client, if the server's bound on heads is as large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairTooBig;

impl fmt::Display for PairTooBig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a field or the target is too long for FastCGI: name and value have over {CONTENT_BYTES_MAX} bytes"
        )
    }
}

impl std::error::Error for PairTooBig {}

/// Appends `BEGIN_REQUEST` for a responder (section 5.1). With `keep_conn` the application leaves the connection open after
/// the request; otherwise it closes the connection, and the end of the stream is awaited.
pub fn put_begin_request(out: &mut Vec<u8>, keep_conn: bool) {
    let [role1, role0] = RESPONDER.to_be_bytes();
    let flags = if keep_conn { KEEP_CONN } else { 0 };
    out.extend_from_slice(&RecordHeader::aligned(kind::BEGIN_REQUEST, 8).to_bytes());
    out.extend_from_slice(&[role1, role0, flags, 0, 0, 0, 0, 0]);
}

/// Appends the parameters that `fill` puts, in as many records as they need, and the empty record that ends them (section 5.2).
///
/// No record is larger than [`CONTENT_BYTES_MAX`], and no pair is divided between records, though the format would allow it:
/// PHP closes the connection without an answer. flup reads each record by itself, so that the second part of a value would be
/// read as further parameters, which the client has chosen.
///
/// # Errors
/// [`PairTooBig`]; then `out` is as it was.
pub fn put_params(out: &mut Vec<u8>, fill: impl FnOnce(&mut Params<'_>)) -> Result<(), PairTooBig> {
    let record = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    let mut params = Params { out, record, too_big: false };
    fill(&mut params);
    if params.too_big {
        out.truncate(record);
        return Err(PairTooBig);
    }
    if params.content_bytes() > 0 {
        params.next_record();
    }
    // The record that was begun last is the empty one.
    params.close_record();
    Ok(())
}

/// A stream of name-value pairs that is being written, see [`put_params`].
#[derive(Debug)]
pub struct Params<'o> {
    out: &'o mut Vec<u8>,
    /// Where the header of the unfinished record is.
    record: usize,
    /// A pair was left out; all of them will be.
    too_big: bool,
}

impl Params<'_> {
    /// Appends one pair (section 3.4).
    #[inline]
    pub fn put(&mut self, name: &[u8], value: &[u8]) {
        self.put_parts(name, &[value]);
    }

    /// As [`put`](Params::put), with a value in parts.
    pub fn put_parts(&mut self, name: &[u8], value: &[&[u8]]) {
        let value_bytes = value.iter().fold(0_usize, |bytes, part| bytes.saturating_add(part.len()));
        if self.begin_pair(name.len(), value_bytes) {
            self.push(name);
            value.iter().for_each(|part| self.push(part));
        }
    }

    /// Begins a pair of this size; exactly so many bytes have to follow by [`push`](Params::push). `false`: it cannot be written.
    pub(super) fn begin_pair(&mut self, name_bytes: usize, value_bytes: usize) -> bool {
        let lengths_bytes = length_bytes(name_bytes) + length_bytes(value_bytes);
        let pair_bytes = name_bytes.saturating_add(value_bytes).saturating_add(lengths_bytes);
        if pair_bytes > CONTENT_BYTES_MAX {
            self.too_big = true;
            return false;
        }
        if self.content_bytes() + pair_bytes > CONTENT_BYTES_MAX {
            self.next_record();
        }
        for bytes in [name_bytes, value_bytes] {
            // Bounded above.
            let length = (bytes as u32 | 1 << 31).to_be_bytes();
            match length_bytes(bytes) {
                1 => self.out.push(bytes as u8),
                _ => self.push(&length),
            }
        }
        true
    }

    /// Appends bytes of the pair that was begun.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    fn content_bytes(&self) -> usize {
        self.out.len() - self.record - HEADER_BYTES
    }

    fn next_record(&mut self) {
        self.close_record();
        self.record = self.out.len();
        self.out.extend_from_slice(&[0; HEADER_BYTES]);
    }

    /// Writes the header, now that the size is known, and the padding.
    fn close_record(&mut self) {
        // At most CONTENT_BYTES_MAX.
        let header = RecordHeader::aligned(kind::PARAMS, self.content_bytes() as u16);
        if let Some(room) = self.out.get_mut(self.record..self.record + HEADER_BYTES) {
            room.copy_from_slice(&header.to_bytes());
        }
        self.out.extend_from_slice(padding(header.padding_bytes));
    }
}

/// In how many bytes a length is written: below 128 in one, otherwise in four, with the highest bit set (section 3.4).
fn length_bytes(length: usize) -> usize {
    if length < 128 { 1 } else { 4 }
}

fn padding(bytes: u8) -> &'static [u8] {
    PADDING.get(..usize::from(bytes)).unwrap_or_default()
}

/// What is around the content of one `STDIN` record, for a caller that sends the content by itself (`sendfile`, `splice`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StdinRecord {
    /// Goes before the content.
    pub header: [u8; HEADER_BYTES],
    /// Exactly so many bytes of content have to follow the header: 1 to [`CONTENT_BYTES_MAX`].
    pub content_bytes: usize,
    /// Goes behind the content; empty if that ends at a multiple of 8.
    pub padding: &'static [u8],
}

/// The next `STDIN` record (section 5.3) for content of which so many bytes are there to be sent. `None` for 0 bytes: an empty
/// record would end the content, which only [`put_stdin_end`] does.
#[inline]
pub fn stdin_record(bytes: u64) -> Option<StdinRecord> {
    let content_bytes = bytes.min(CONTENT_BYTES_MAX as u64) as u16;
    let header = RecordHeader::aligned(kind::STDIN, content_bytes);
    (content_bytes > 0).then(|| StdinRecord {
        header: header.to_bytes(),
        content_bytes: usize::from(content_bytes),
        padding: padding(header.padding_bytes),
    })
}

/// Appends content in as many `STDIN` records as it needs; none for no content.
pub fn put_stdin(out: &mut Vec<u8>, mut content: &[u8]) {
    while let Some(record) = stdin_record(content.len() as u64) {
        let (part, rest) = content.split_at(record.content_bytes.min(content.len()));
        out.extend_from_slice(&record.header);
        out.extend_from_slice(part);
        out.extend_from_slice(record.padding);
        content = rest;
    }
}

/// Appends the empty `STDIN` record that ends the content. Every request needs it, also one without content.
pub fn put_stdin_end(out: &mut Vec<u8>) {
    out.extend_from_slice(&RecordHeader::aligned(kind::STDIN, 0).to_bytes());
}

/// Appends `ABORT_REQUEST` (section 5.4): the client is gone, and `END_REQUEST` should follow soon. PHP does not look for it;
/// what it notices is that the connection was closed.
pub fn put_abort_request(out: &mut Vec<u8>) {
    out.extend_from_slice(&RecordHeader::aligned(kind::ABORT_REQUEST, 0).to_bytes());
}
