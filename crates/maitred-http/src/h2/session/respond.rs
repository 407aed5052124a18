//! Response heads become header blocks (9113-8.2, 9113-8.3.2, 8441-5).

use super::{Code, Session, StreamKey};
use crate::fields::{FieldEdits, FieldsRef};
use crate::framed;
use crate::h2::frame::{self, FRAME_BYTES_MIN, FrameHeader, HEADER_BYTES, flag, kind};
use crate::h2::hpack::Encoder;
use crate::response::ResponseHead;

/// What the fields of one block go into.
pub(super) struct Lines<'s> {
    encoder: &'s mut Encoder,
    out: &'s mut Vec<u8>,
    tunnel: bool,
}

impl Lines<'_> {
    /// Encodes a field, unless it is one of the connection. The encoder makes its name small.
    #[inline]
    pub(super) fn put(&mut self, name: &[u8], value: &[u8]) {
        if framed::is_for_client(name, self.tunnel) {
            self.encoder.field(name, value, self.out);
        }
    }
}

impl Session {
    /// The head of a final response: its fields as `edits` leave them, `further` ones, and `date`, which is given if it has none
    /// of its own. Fields of the connection are left out, names become small. To an extended CONNECT 101 becomes 200, and there
    /// is no `sec-websocket-accept`. `ended`: there is no content.
    ///
    /// Any other status below 200, and 101 to any other request, resets the stream with INTERNAL_ERROR.
    pub fn respond(
        &mut self,
        stream: StreamKey,
        head: &ResponseHead<'_>,
        edits: &FieldEdits,
        further: FieldsRef<'_>,
        date: Option<&[u8; 29]>,
        ended: bool,
    ) {
        let Some(known) = self.streams.get(stream).filter(|known| !known.reset && !known.head_sent) else {
            return;
        };
        let (id, tunnel) = (known.id, known.tunnel);
        let status = match head.status {
            101 if tunnel => 200,
            status @ 200..=999 => status,
            _ => return self.reset(stream, Code::InternalError),
        };
        known.head_sent = true;
        let start = self.begin_block();
        self.encoder.status(status, &mut self.out);
        let mut lines = self.lines(tunnel);
        framed::each_field(head, edits, |name, value| lines.put(name, value));
        further.iter().for_each(|(name, value)| lines.put(name, value));
        if let Some(date) = date {
            lines.put(b"date", date);
        }
        close_block(&mut self.out, start, id, ended);
        if ended {
            self.end_locally(stream);
        }
    }

    /// The head of an interim response (1xx), which others follow. Nothing if the final one is out.
    ///
    /// Any other status, and 101, resets the stream with INTERNAL_ERROR.
    pub fn interim(&mut self, stream: StreamKey, head: &ResponseHead<'_>) {
        let Some(known) = self.streams.get(stream).filter(|known| !known.reset && !known.head_sent) else {
            return;
        };
        let (id, tunnel) = (known.id, known.tunnel);
        if head.status == 101 || !(100..200).contains(&head.status) {
            return self.reset(stream, Code::InternalError);
        }
        let start = self.begin_block();
        self.encoder.status(head.status, &mut self.out);
        let mut lines = self.lines(tunnel);
        framed::each_field(head, FieldEdits::NONE, |name, value| lines.put(name, value));
        close_block(&mut self.out, start, id, false);
    }

    /// Fields behind the content, which end the response. None at all end it, too.
    pub fn trailers(&mut self, stream: StreamKey, fields: FieldsRef<'_>) {
        if fields.is_empty() {
            return self.end(stream);
        }
        let Some(known) = self.streams.get(stream).filter(|known| !known.reset && !known.local_ended) else {
            return;
        };
        if !known.head_sent {
            return self.reset(stream, Code::InternalError);
        }
        let id = known.id;
        let start = self.begin_block();
        let mut lines = self.lines(false);
        fields.iter().for_each(|(name, value)| lines.put(name, value));
        close_block(&mut self.out, start, id, true);
        self.end_locally(stream);
    }

    /// A response without fields or content.
    #[cold]
    pub(super) fn put_answer(&mut self, id: u32, status: u16) {
        let start = self.begin_block();
        self.encoder.status(status, &mut self.out);
        self.encoder.field(b"content-length", b"0", &mut self.out);
        close_block(&mut self.out, start, id, true);
    }

    /// Leaves room for the header of a frame; where it is.
    #[inline]
    pub(super) fn begin_block(&mut self) -> usize {
        let start = self.out.len();
        self.out.extend_from_slice(&[0; HEADER_BYTES]);
        start
    }

    #[inline]
    pub(super) fn lines(&mut self, tunnel: bool) -> Lines<'_> {
        Lines { encoder: &mut self.encoder, out: &mut self.out, tunnel }
    }
}

/// Writes the header of the frame that starts at `start`, and splits a block that is too large for one frame.
#[inline]
pub(super) fn close_block(out: &mut Vec<u8>, start: usize, stream: u32, ended: bool) {
    let length = out.len() - start - HEADER_BYTES;
    if length > FRAME_BYTES_MIN as usize {
        return split_block(out, start, stream, ended);
    }
    let flags = flag::END_HEADERS | if ended { flag::END_STREAM } else { 0 };
    let header = FrameHeader { length: length as u32, kind: kind::HEADERS, flags, stream };
    if let Some(place) = out.get_mut(start..start + HEADER_BYTES) {
        place.copy_from_slice(&header.to_bytes());
    }
}

/// A block of several frames: any peer takes frames of 16,384 bytes.
#[cold]
fn split_block(out: &mut Vec<u8>, start: usize, stream: u32, ended: bool) {
    let block = out.split_off(start + HEADER_BYTES);
    out.truncate(start);
    let last = block.chunks(FRAME_BYTES_MIN as usize).count() - 1;
    for (index, part) in block.chunks(FRAME_BYTES_MIN as usize).enumerate() {
        let (kind, mut flags) = match index {
            0 => (kind::HEADERS, if ended { flag::END_STREAM } else { 0 }),
            _ => (kind::CONTINUATION, 0),
        };
        flags |= if index == last { flag::END_HEADERS } else { 0 };
        frame::put_header(out, part.len(), kind, flags, stream);
        out.extend_from_slice(part);
    }
}
