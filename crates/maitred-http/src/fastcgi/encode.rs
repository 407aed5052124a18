//! Records for the application: appended to a buffer, or header and padding for content that the caller sends by itself.

use super::record::{ALIGNMENT, CONTENT_BYTES_MAX, HEADER_BYTES, KEEP_CONN, RESPONDER, RecordHeader, kind};

const PADDING: [u8; ALIGNMENT] = [0; ALIGNMENT];

/// The longest name or value: its length has 31 bits (section 3.4).
const LENGTH_MAX: usize = (1 << 31) - 1;

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
/// No record is larger than [`CONTENT_BYTES_MAX`], and a pair is not divided between records as long as one can hold it: the
/// format allows both, PHP neither (8.2 closes the connection without an answer). A pair that is larger than a record reaches
/// applications with libfcgi or flup, but not PHP; the default bound on request heads is below that.
pub fn put_params(out: &mut Vec<u8>, fill: impl FnOnce(&mut Params<'_>)) {
    let record = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    let mut params = Params { out, record };
    fill(&mut params);
    if params.content_bytes() > 0 {
        params.next_record();
    }
    // The record that was begun last is the empty one.
    params.close_record();
}

/// A stream of name-value pairs that is being written, see [`put_params`].
#[derive(Debug)]
pub struct Params<'o> {
    out: &'o mut Vec<u8>,
    /// Where the header of the unfinished record is.
    record: usize,
}

impl Params<'_> {
    /// Appends one pair (section 3.4). One with 2 GiB or more, which no bounded head has, is left out: its length cannot be
    /// written.
    #[inline]
    pub fn put(&mut self, name: &[u8], value: &[u8]) {
        self.put_parts(name, &[value]);
    }

    /// As [`put`](Params::put), with a value in parts.
    pub fn put_parts(&mut self, name: &[u8], value: &[&[u8]]) {
        let value_bytes = value.iter().fold(0_usize, |bytes, part| bytes.saturating_add(part.len()));
        if self.begin_pair(name.len(), value_bytes) {
            self.stream(name);
            value.iter().for_each(|part| self.stream(part));
        }
    }

    /// Begins a pair of this size; exactly so many bytes have to follow by [`stream`](Params::stream). `false`: it cannot be
    /// written.
    pub(super) fn begin_pair(&mut self, name_bytes: usize, value_bytes: usize) -> bool {
        if name_bytes > LENGTH_MAX || value_bytes > LENGTH_MAX {
            return false;
        }
        let (mut lengths, mut used) = ([0; 8], 0);
        for bytes in [name_bytes, value_bytes] {
            // Bounded above.
            used += put_length(lengths.get_mut(used..).unwrap_or_default(), bytes as u32);
        }
        let pair_bytes = used.saturating_add(name_bytes).saturating_add(value_bytes);
        if self.content_bytes() > 0 && self.content_bytes().saturating_add(pair_bytes) > CONTENT_BYTES_MAX {
            self.next_record();
        }
        self.stream(lengths.get(..used).unwrap_or_default());
        true
    }

    /// Appends bytes of a pair, in as many records as they need.
    pub(super) fn stream(&mut self, mut bytes: &[u8]) {
        loop {
            let free = CONTENT_BYTES_MAX.saturating_sub(self.content_bytes());
            let (part, rest) = bytes.split_at(free.min(bytes.len()));
            self.out.extend_from_slice(part);
            if rest.is_empty() {
                return;
            }
            self.next_record();
            bytes = rest;
        }
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

/// Writes a length, of at most 31 bits, in one byte or four (section 3.4), and returns in how many.
fn put_length(room: &mut [u8], length: u32) -> usize {
    let mut bytes = (length | 1 << 31).to_be_bytes();
    let used = if length < 128 { 1 } else { 4 };
    if used == 1 {
        bytes[0] = length as u8;
    }
    room.iter_mut().zip(bytes).take(used).for_each(|(room, byte)| *room = byte);
    used
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
