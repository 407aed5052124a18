//! HTTP/3 of one connection: requests in, fixed answers out.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use maitred_http::h3::frame::{Place, Settings, Side, kind, put_header};
use maitred_http::h3::qpack::{BOUNDS, Decoder, Encoder};
use maitred_http::h3::reader::{Event as Frame, Reader};

use crate::library::{
    Connection, Dir, Event, ReadError, StreamEvent, StreamId, VarInt, WriteError, write_chunks,
};

/// What is served.
pub struct Contents {
    small: Bytes,
    middle: Bytes,
    large: Bytes,
}

impl Contents {
    pub fn new() -> Contents {
        let made =
            |length: usize| Bytes::from((0..length).map(|at| (at * 31 >> 3) as u8).collect::<Vec<_>>());
        Contents { small: made(1024), middle: made(100 << 10), large: made(10 << 20) }
    }

    fn get(&self, path: &[u8]) -> Option<&Bytes> {
        match path {
            b"/1k" => Some(&self.small),
            b"/100k" => Some(&self.middle),
            b"/10m" => Some(&self.large),
            _ => None,
        }
    }
}

/// The head of an answer, composed each time as a server's would be, and the header of its DATA frame.
fn head(status: u16, length: usize) -> Bytes {
    let mut section = Vec::with_capacity(192);
    Encoder::begin(&mut section);
    Encoder::status(status, &mut section);
    Encoder::field(b"server", b"bakeoff", &mut section);
    Encoder::field(b"date", b"Fri, 27 Nov 2026 01:00:00 GMT", &mut section);
    Encoder::field(b"content-type", b"application/octet-stream", &mut section);
    Encoder::field(b"content-length", length.to_string().as_bytes(), &mut section);
    Encoder::field(b"last-modified", b"Thu, 26 Nov 2026 01:00:00 GMT", &mut section);
    Encoder::field(b"etag", b"\"6747a1b0-400\"", &mut section);
    Encoder::field(b"accept-ranges", b"bytes", &mut section);
    let mut head = Vec::with_capacity(section.len() + 16);
    put_header(&mut head, kind::HEADERS, section.len() as u64);
    head.extend_from_slice(&section);
    put_header(&mut head, kind::DATA, length as u64);
    Bytes::from(head)
}

pub struct Served {
    pub connection: Connection,
    contents: Rc<Contents>,
    control: Option<StreamId>,
    decoder: Decoder,
    /// Requests that did not come in one piece.
    requests: HashMap<StreamId, Request>,
    /// Answers that do not fit into the windows yet.
    unsent: HashMap<StreamId, [Bytes; 2]>,
    pub is_dirty: bool,
    /// Nothing is sent before this, unless a timer says so: tokens of the pacer add up to a batch.
    pub held_until: Option<Instant>,
    pub queued: Option<Instant>,
}

struct Request {
    reader: Reader,
    path: Vec<u8>,
}

impl Served {
    pub fn new(connection: Connection, contents: Rc<Contents>) -> Served {
        Served {
            connection,
            contents,
            control: None,
            decoder: Decoder::new(0, 0),
            requests: HashMap::new(),
            unsent: HashMap::new(),
            is_dirty: false,
            held_until: None,
            queued: None,
        }
    }

    /// All that has happened; how many requests were answered.
    pub fn drive(&mut self) -> u64 {
        let mut answered = 0;
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.start(),
                Event::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(id) = self.connection.streams().accept(dir) {
                        answered += u64::from(self.read(id));
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) => answered += u64::from(self.read(id)),
                Event::Stream(StreamEvent::Writable { id }) => {
                    if let Some(answer) = self.unsent.remove(&id) {
                        self.write(id, answer);
                    }
                }
                _ => {}
            }
        }
        answered
    }

    fn start(&mut self) {
        self.control = self.connection.streams().open(Dir::Uni);
        let Some(id) = self.control else { return };
        let mut bytes = vec![0];
        Settings { list_bytes_max: Some(32 << 10), ..Settings::default() }.write(&mut bytes);
        let _ = self.connection.send_stream(id).write(&bytes);
    }

    /// Reads a stream; whether a request was complete.
    fn read(&mut self, id: StreamId) -> bool {
        let mut receiving = self.connection.recv_stream(id);
        let Ok(mut chunks) = receiving.read(true) else { return false };
        if id.dir() == Dir::Uni {
            while let Ok(Some(_)) = chunks.next(usize::MAX) {}
            return false;
        }
        let mut request = self.requests.remove(&id).unwrap_or_else(|| Request {
            reader: Reader::new(Place::Request, Side::Client, 64 << 10),
            path: Vec::new(),
        });
        let is_whole = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    let mut at = 0;
                    while let Ok(Some(event)) = request.reader.next(&chunk.bytes, &mut at) {
                        if let Frame::Headers { section, .. } = event {
                            let path = &mut request.path;
                            let _ = self.decoder.decode(id.into(), &section, BOUNDS, |name, value| {
                                if name == b":path" {
                                    path.extend_from_slice(value);
                                }
                            });
                        }
                    }
                }
                Ok(None) => break true,
                Err(ReadError::Blocked) => break false,
                Err(ReadError::Reset(_)) => return false,
            }
        };
        let _ = chunks.finalize();
        if is_whole {
            let content = self.contents.get(&request.path).cloned();
            let status = if content.is_some() { 200 } else { 404 };
            let content = content.unwrap_or_default();
            self.write(id, [head(status, content.len()), content]);
        } else {
            self.requests.insert(id, request);
        }
        is_whole
    }

    fn write(&mut self, id: StreamId, mut answer: [Bytes; 2]) {
        let mut stream = self.connection.send_stream(id);
        while !answer.iter().all(Bytes::is_empty) {
            match write_chunks(&mut stream, &mut answer) {
                Ok(()) => {}
                Err(WriteError::Blocked) => {
                    self.unsent.insert(id, answer);
                    return;
                }
                Err(_) => {
                    let _ = stream.reset(VarInt::from_u32(0x10c));
                    return;
                }
            }
        }
        let _ = stream.finish();
    }
}
