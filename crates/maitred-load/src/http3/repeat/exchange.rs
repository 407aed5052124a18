//! One request and its response.

use bytes::Bytes;
use maitred_http::h3::frame::{Place, Side};
use maitred_http::h3::qpack::{BOUNDS, Decoder, Outcome};
use maitred_http::h3::reader::{Event, Reader};
use maitred_http::h3::{Code, Error};
use quinn_proto::{Connection, StreamId, WriteError};

use super::super::session::SECTION_BYTES_MAX;
use super::Sample;
use crate::measure::Nanos;

/// A request on its way, or its response.
#[derive(Debug)]
pub(super) struct Exchange {
    reader: Reader,
    /// What was not written: head and content.
    unsent: [Bytes; 2],
    is_sent: bool,
    pub(super) started: Nanos,
    pub(super) status: u16,
    pub(super) body_bytes: u64,
    length: Option<u64>,
    is_head: bool,
    /// Whether a byte of the response has come.
    pub(super) has_begun: bool,
}

impl Exchange {
    pub(super) fn new(sample: &Sample, now: Nanos) -> Exchange {
        Exchange {
            reader: Reader::new(Place::Request, Side::Server, SECTION_BYTES_MAX),
            unsent: [sample.head.clone(), sample.body.clone()],
            is_sent: false,
            started: now,
            status: 0,
            body_bytes: 0,
            length: None,
            is_head: sample.is_head,
            has_begun: false,
        }
    }

    /// Writes as much of the request as goes.
    pub(super) fn write(&mut self, connection: &mut Connection, id: StreamId) {
        while !self.is_sent {
            let mut stream = connection.send_stream(id);
            if self.unsent.iter().all(Bytes::is_empty) {
                self.is_sent = true;
                // The end fails if the server wants no more of the request, and then its response says what becomes of it.
                let _ = stream.finish();
                return;
            }
            match stream.write_chunks(&mut self.unsent) {
                Ok(_) => {}
                Err(WriteError::Blocked) => return,
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => self.is_sent = true,
            }
        }
    }

    /// Takes bytes of the response.
    pub(super) fn take(&mut self, decoder: &mut Decoder, id: StreamId, bytes: &[u8]) -> Result<(), Error> {
        let mut at = 0;
        self.has_begun = true;
        while let Some(event) = self.reader.next(bytes, &mut at)? {
            match event {
                Event::Data(bytes) => self.body_bytes += bytes.len() as u64,
                Event::Headers { section, .. } if self.status < 200 => self.on_head(decoder, id, &section)?,
                Event::Headers { section, .. } => {
                    decoder.decode(id.into(), &section, BOUNDS, |_, _| {})?;
                }
                Event::TooLarge { .. } => {
                    return Err(Error { code: Code::ExcessiveLoad, reason: "field section too large" });
                }
                _ => return Err(Error { code: Code::IdError, reason: "push without leave" }),
            }
        }
        Ok(())
    }

    fn on_head(&mut self, decoder: &mut Decoder, id: StreamId, section: &[u8]) -> Result<(), Error> {
        let (mut status, mut length) = (None, None);
        let number = |value: &[u8]| std::str::from_utf8(value).ok()?.parse::<u64>().ok();
        let outcome = decoder.decode(id.into(), section, BOUNDS, |name, value| match name {
            b":status" => status = number(value),
            b"content-length" => length = number(value),
            _ => {}
        })?;
        self.length = length;
        self.status = status
            .and_then(|status| u16::try_from(status).ok())
            .filter(|status| (100..1000).contains(status) && matches!(outcome, Outcome::Decoded(_)))
            .ok_or(Error { code: Code::MessageError, reason: "response without a status" })?;
        Ok(())
    }

    /// Whether all of a response has come, now that its stream has ended.
    pub(super) fn is_whole(&self) -> bool {
        let has_content = !self.is_head && self.status != 304;
        let is_length = self.length.is_none_or(|length| !has_content || length == self.body_bytes);
        self.reader.finish().is_ok() && self.status >= 200 && is_length
    }
}
