//! Response heads become field sections (9114-4.2, 9114-4.3.2, 9220-3).

use super::{Code, Session, StreamKey};
use crate::fields::{FieldEdits, FieldsRef};
use crate::framed;
use crate::h3::frame;
use crate::h3::qpack::Encoder;
use crate::response::ResponseHead;

/// Bytes that are left for the header of a HEADERS frame: its type, and a length of up to 30 bits.
const HEADER_BYTES: usize = 5;

/// Appends a field, unless it is one of the connection.
#[inline]
fn put(name: &[u8], value: &[u8], tunnel: bool, out: &mut Vec<u8>) {
    if framed::is_for_client(name, tunnel) {
        Encoder::field(name, value, out);
    }
}

impl Session {
    /// The head of a final response: its fields as `edits` leave them, `further` ones, and `date`, which is given if it has none
    /// of its own. Fields of the connection are left out, names become small. To an extended CONNECT 101 becomes 200, and there
    /// is no `sec-websocket-accept`. `ended`: there is no content.
    ///
    /// Any other status below 200, and 101 to any other request, resets the stream with H3_INTERNAL_ERROR.
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
        let tunnel = known.tunnel;
        let status = match head.status {
            101 if tunnel => 200,
            status @ 200..=999 => status,
            _ => return self.reset(stream, Code::InternalError),
        };
        known.head_sent = true;
        if tunnel && status < 300 {
            Session::begin_tunnel(&mut known.reader);
        }
        self.put_section(stream, |out| {
            Encoder::status(status, out);
            framed::each_field(head, edits, |name, value| put(name, value, tunnel, out));
            further.iter().for_each(|(name, value)| put(name, value, tunnel, out));
            if let Some(date) = date {
                Encoder::field(b"date", date, out);
            }
        });
        if ended {
            self.end_locally(stream);
        }
    }

    /// The head of an interim response (1xx), which others follow. Nothing if the final one is out.
    ///
    /// Any other status, and 101, resets the stream with H3_INTERNAL_ERROR.
    pub fn interim(&mut self, stream: StreamKey, head: &ResponseHead<'_>) {
        let Some(known) = self.streams.get(stream).filter(|known| !known.reset && !known.head_sent) else {
            return;
        };
        let tunnel = known.tunnel;
        if head.status == 101 || !(100..200).contains(&head.status) {
            return self.reset(stream, Code::InternalError);
        }
        self.put_section(stream, |out| {
            Encoder::status(head.status, out);
            framed::each_field(head, FieldEdits::NONE, |name, value| put(name, value, tunnel, out));
        });
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
        self.put_section(stream, |out| {
            fields.iter().for_each(|(name, value)| put(name, value, false, out));
        });
        self.end_locally(stream);
    }

    /// A HEADERS frame of the fields that `put` appends.
    fn put_section(&mut self, stream: StreamKey, put: impl FnOnce(&mut Vec<u8>)) {
        let Some(known) = self.streams.get(stream) else { return };
        let out = &mut known.out;
        let at = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        Encoder::begin(out);
        put(out);
        let length = out.len() - at - HEADER_BYTES;
        // A length may be written in more bytes than it needs (RFC 9000 section 16).
        if let Some([kind, place @ ..]) = out.get_mut(at..at + HEADER_BYTES) {
            *kind = frame::kind::HEADERS as u8;
            place.copy_from_slice(&(length as u32 | 2 << 30).to_be_bytes());
        }
        let bytes = HEADER_BYTES + length;
        self.streams.queued += bytes;
        self.streams.list(stream);
    }
}
