//! Requests and responses.

use maitred_http::h3::frame::{Place, Side, kind, put_header};
use maitred_http::h3::qpack::{Bounds, Decoder, Encoder, Outcome};
use maitred_http::h3::reader::{Event, Reader};
use maitred_http::h3::{Code, Error};
use quinn_proto::StreamId;

use super::super::session::SECTION_BYTES_MAX;
use super::{Client, Failed, Read};

/// Fields of a response that are taken.
const BOUNDS: Bounds = Bounds { list_bytes_max: 4 << 20, fields_max: 10_000 };

/// Names and values.
pub type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// A response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Response {
    /// The status; 0 as long as none has come.
    pub status: u16,
    /// The fields, without pseudo-fields.
    pub fields: Fields,
    /// The content.
    pub body: Vec<u8>,
    /// What came behind the content.
    pub trailers: Fields,
    /// Status and fields of interim responses.
    pub interim: Vec<(u16, Fields)>,
}

impl Response {
    /// The value of the first field with this name, in lower case.
    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(field, _)| field == name.as_bytes());
        found.and_then(|(_, value)| std::str::from_utf8(value).ok())
    }

    fn take(&mut self, decoder: &mut Decoder, stream: StreamId, event: Event<'_>) -> Result<(), Error> {
        match event {
            Event::Data(bytes) => self.body.extend_from_slice(bytes),
            Event::Headers { section, .. } => {
                let mut fields = section_fields(decoder, stream, &section)?;
                if self.status != 0 {
                    self.trailers = fields;
                    return Ok(());
                }
                let at = fields.iter().position(|(name, _)| name == b":status");
                let status = at.map(|at| fields.remove(at).1);
                let status = status.and_then(|status| std::str::from_utf8(&status).ok()?.parse().ok());
                match status.ok_or(Error { code: Code::MessageError, reason: "response without a status" })? {
                    status @ 100..200 => self.interim.push((status, fields)),
                    status => (self.status, self.fields) = (status, fields),
                }
            }
            Event::TooLarge { .. } => {
                return Err(Error {
                    code: Code::ExcessiveLoad,
                    reason: "field section too large for this client",
                });
            }
            _ => return Err(Error { code: Code::IdError, reason: "push without leave" }),
        }
        Ok(())
    }
}

fn section_fields(decoder: &mut Decoder, stream: StreamId, section: &[u8]) -> Result<Fields, Error> {
    let mut fields = Vec::new();
    let take = |name: &[u8], value: &[u8]| fields.push((name.to_vec(), value.to_vec()));
    match decoder.decode(stream.into(), section, BOUNDS, take)? {
        Outcome::Decoded(_) => Ok(fields),
        Outcome::Blocked => Err(Error {
            code: Code::DecompressionFailed,
            reason: "a section refers to a table that is not there",
        }),
    }
}

/// A HEADERS frame with these fields, as they are.
pub fn headers<N: AsRef<[u8]>, V: AsRef<[u8]>>(fields: &[(N, V)]) -> Vec<u8> {
    let mut section = Vec::new();
    Encoder::begin(&mut section);
    fields.iter().for_each(|(name, value)| Encoder::field(name.as_ref(), value.as_ref(), &mut section));
    frame(kind::HEADERS, &section)
}

/// A frame of any kind.
pub fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    put_header(&mut frame, kind, payload.len() as u64);
    frame.extend_from_slice(payload);
    frame
}

impl Client {
    /// The response to a GET of this path at `localhost`.
    ///
    /// # Errors
    /// When there is none.
    pub fn get(&mut self, path: &str) -> Result<Response, Failed> {
        let head = [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", path)];
        self.request(&head, b"")
    }

    /// The response to a request with these fields, pseudo-fields among them, and this content. Content without a byte is none:
    /// the stream ends with the head.
    ///
    /// # Errors
    /// When there is none.
    pub fn request(&mut self, fields: &[(&str, &str)], body: &[u8]) -> Result<Response, Failed> {
        let stream = self.send(fields, body)?;
        self.response(stream)
    }

    /// Sends a request, and does not wait for the response.
    ///
    /// # Errors
    /// When it cannot be sent.
    pub fn send(&mut self, fields: &[(&str, &str)], body: &[u8]) -> Result<StreamId, Failed> {
        let stream = self.open_bidi()?;
        self.write(stream, &headers(fields))?;
        if !body.is_empty() {
            let sent = self.write(stream, &frame(kind::DATA, body));
            // A server that has enough says so with NO_ERROR, and its response is good (RFC 9114 section 4.1).
            match sent {
                Err(Failed::Stopped(code)) if code == Code::NoError.number() => return Ok(stream),
                sent => sent?,
            }
        }
        self.finish(stream)?;
        Ok(stream)
    }

    /// Waits for the whole response on a stream.
    ///
    /// # Errors
    /// When it is malformed, reset, or not there in time.
    pub fn response(&mut self, stream: StreamId) -> Result<Response, Failed> {
        let mut reader = Reader::new(Place::Request, Side::Server, SECTION_BYTES_MAX);
        let mut response = Response::default();
        loop {
            match self.read(stream)? {
                Read::Bytes(bytes) => {
                    let mut at = 0;
                    while let Some(event) = reader.next(&bytes, &mut at).map_err(Failed::Malformed)? {
                        let taken = response.take(&mut self.session.decoder, stream, event);
                        taken.map_err(Failed::Malformed)?;
                    }
                }
                Read::End => {
                    reader.finish().map_err(Failed::Malformed)?;
                    return Ok(response);
                }
                Read::Reset(code) => return Err(Failed::Reset(code)),
            }
        }
    }
}
