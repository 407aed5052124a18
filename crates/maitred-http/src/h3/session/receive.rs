//! What comes on request streams.

use std::time::Instant;

use super::streams::UNKNOWN;
use super::{Action, Code, Error, Event, Session, StreamKey};
use crate::floods::Act;
use crate::h3::frame;
use crate::h3::qpack::{Bounds, Encoder, PSEUDO_FIELDS};
use crate::h3::reader::{self, Reader};
use crate::h3::request::{Facts, Section, take_request, take_trailers};
use crate::request::RequestHead;

/// What has come besides the bytes of the event, if anything has.
type Taken<'i> = Result<Option<Event<'i>>, Error>;

impl Session {
    /// The next event in `input[*at..]`, which has come on a stream; advances `at` past what it has used. `ended`: nothing comes
    /// behind `input`. A request takes the place of what was in `head`; other events leave it alone. `None`: all was used.
    ///
    /// # Errors
    ///
    /// The connection is over: it is to be closed with [`Error::code`]. So is every later call.
    pub fn receive<'i>(
        &mut self,
        now: Instant,
        stream: StreamKey,
        (input, at): (&'i [u8], &mut usize),
        ended: bool,
        head: &mut RequestHead,
    ) -> Taken<'i> {
        if let Some(error) = self.dead {
            return Err(error);
        }
        let result = self.advance(now, stream, (input, at), ended, head);
        result.inspect_err(|error| self.die(*error))
    }

    fn advance<'i>(
        &mut self,
        now: Instant,
        key: StreamKey,
        (input, at): (&'i [u8], &mut usize),
        ended: bool,
        head: &mut RequestHead,
    ) -> Taken<'i> {
        let found = self.streams.get(key).filter(|stream| !stream.reset && !stream.remote_ended);
        let Some(stream) = found else {
            // What comes on a stream that is over means nothing.
            *at = input.len();
            return Ok(None);
        };
        let Some(event) = stream.reader.next(input, at)? else {
            return if ended { self.finish(now, key) } else { Ok(None) };
        };
        // An end within a frame is an error that only the reader knows.
        let last = ended && *at == input.len() && stream.reader.finish().is_ok();
        // A stream that has ended need not be stopped, whatever becomes of it.
        stream.remote_ended = last;
        match event {
            reader::Event::Data(bytes) => self.on_data(now, key, bytes, last),
            reader::Event::Headers { section, trailers: false } => {
                self.on_head(now, key, &section, last, head)
            }
            reader::Event::Headers { section, trailers: true } => self.on_trailers(now, key, &section),
            reader::Event::TooLarge { .. } => {
                head.clear();
                self.on_too_large(now, key)
            }
            // The reader gives out nothing else on a request stream of a client.
            _ => Err(Error::new(Code::FrameUnexpected, "frame on the wrong stream")),
        }
    }

    fn on_data<'i>(&mut self, now: Instant, key: StreamKey, bytes: &'i [u8], last: bool) -> Taken<'i> {
        let Some(stream) = self.streams.get(key) else { return Ok(None) };
        if stream.content_left != UNKNOWN {
            match stream.content_left.checked_sub(bytes.len() as u64) {
                Some(left) if !last || left == 0 => stream.content_left = left,
                _ => return self.wrong_length(now, key),
            }
        }
        Ok(Some(Event::Data { stream: key, bytes, ended: last }))
    }

    #[cold]
    fn wrong_length(&mut self, now: Instant, key: StreamKey) -> Taken<'static> {
        let error = Error::new(Code::MessageError, "content that is not as long as its content-length says");
        self.stream_error(now, key, error)
    }

    /// The client has ended the stream (9114-4.1, 9114-7.1).
    fn finish(&mut self, now: Instant, key: StreamKey) -> Taken<'static> {
        let Some(stream) = self.streams.get(key) else { return Ok(None) };
        stream.remote_ended = true;
        let left = stream.content_left;
        match stream.reader.finish() {
            // A request that never was one: an error of the stream.
            Err(error) if error.code == Code::RequestIncomplete => self.stream_error(now, key, error),
            Err(error) => Err(error),
            Ok(()) if left != 0 && left != UNKNOWN => self.wrong_length(now, key),
            Ok(()) => {
                let end = Event::Data { stream: key, bytes: &[], ended: true };
                Ok((!stream.complete).then_some(end))
            }
        }
    }

    fn bounds(&self) -> Bounds {
        Bounds {
            list_bytes_max: self.settings.header_list_bytes_max as usize,
            fields_max: self.settings.header_count_max as usize + PSEUDO_FIELDS,
        }
    }

    fn on_head(
        &mut self,
        now: Instant,
        key: StreamKey,
        section: &[u8],
        last: bool,
        head: &mut RequestHead,
    ) -> Taken<'static> {
        let (bounds, connect) = (self.bounds(), self.settings.connect_protocol);
        let Some(stream) = self.streams.get(key) else { return Ok(None) };
        let id = stream.id;
        match take_request(&mut self.decoder, (id, section), bounds, (connect, last), head)? {
            Section::Taken(facts) => {
                self.ledger.requested();
                self.streams.note_head(key);
                Ok(self.begin(key, facts, last))
            }
            Section::TooLarge => self.on_too_large(now, key),
            Section::Malformed(error) => self.stream_error(now, key, error),
            Section::Blocked => Err(no_table()),
        }
    }

    fn begin(&mut self, key: StreamKey, facts: Facts, last: bool) -> Option<Event<'static>> {
        let stream = self.streams.get(key)?;
        stream.content_left = facts.content_length.unwrap_or(UNKNOWN);
        (stream.tunnel, stream.named) = (facts.tunnel, true);
        if let Some(priority) = facts.priority.filter(|_| !stream.prioritised) {
            (stream.priority, stream.priority_due) = (priority, true);
        }
        Some(Event::Request { stream: key, ended: last })
    }

    /// A head that is too large is answered here: 431; trailers that are, with an error.
    #[cold]
    fn on_too_large(&mut self, now: Instant, key: StreamKey) -> Taken<'static> {
        let Some(stream) = self.streams.get(key) else { return Ok(None) };
        if stream.named {
            return self.stream_error(now, key, Error::new(Code::ExcessiveLoad, "trailers too large"));
        }
        let id = stream.id;
        let mut section = Vec::new();
        Encoder::begin(&mut section);
        Encoder::status(431, &mut section);
        Encoder::field(b"content-length", b"0", &mut section);
        let before = stream.out.len();
        frame::put_header(&mut stream.out, frame::kind::HEADERS, section.len() as u64);
        stream.out.extend_from_slice(&section);
        let bytes = stream.out.len() - before;
        (stream.head_sent, stream.local_ended, stream.released) = (true, true, true);
        // Nothing more of it is read.
        let goes_on = !std::mem::replace(&mut stream.remote_ended, true);
        self.streams.queued += bytes;
        self.streams.note_head(key);
        self.streams.list(key);
        if goes_on {
            self.actions.push(Action::Stop { id, code: Code::NoError });
        }
        self.ledger.charge(Act::StreamError, now)?;
        Ok(Some(Event::Refused { status: Some(431), reason: "the head is too large" }))
    }

    fn on_trailers(&mut self, now: Instant, key: StreamKey, section: &[u8]) -> Taken<'static> {
        let bounds = self.bounds();
        let Some(stream) = self.streams.get(key) else { return Ok(None) };
        let (id, left) = (stream.id, stream.content_left);
        match take_trailers(&mut self.decoder, (id, section), bounds)? {
            Section::Taken(_) if left != 0 && left != UNKNOWN => self.wrong_length(now, key),
            Section::Taken(fields) => {
                if let Some(stream) = self.streams.get(key) {
                    (stream.complete, stream.content_left) = (true, UNKNOWN);
                }
                Ok(Some(match fields.is_empty() {
                    true => Event::Data { stream: key, bytes: &[], ended: true },
                    false => Event::Trailers { stream: key, fields: Box::new(fields) },
                }))
            }
            Section::TooLarge => self.on_too_large(now, key),
            Section::Malformed(error) => self.stream_error(now, key, error),
            Section::Blocked => Err(no_table()),
        }
    }

    /// The client has reset its side of a stream, or wants no more of the response (9114-4.1.1). `None` if the caller does not
    /// have it, or not any more.
    ///
    /// # Errors
    ///
    /// The client has done so too often.
    pub fn lose(&mut self, now: Instant, stream: StreamKey) -> Taken<'static> {
        if let Some(error) = self.dead {
            return Err(error);
        }
        let Some(known) = self.streams.get(stream).filter(|known| !known.reset) else { return Ok(None) };
        let (named, released, user) = (known.named, known.released, known.user);
        // If it wants no response, more of its request may come all the same. If it has reset its side, to stop it does nothing.
        self.reset(stream, Code::RequestCancelled);
        if !named {
            self.streams.remove(stream);
        }
        if let Err(error) = self.ledger.charge(Act::Reset, now) {
            self.die(error.into());
            return Err(error.into());
        }
        Ok((named && !released).then_some(Event::Reset { stream, user }))
    }

    /// The reader of a stream whose tunnel has begun: nothing but DATA may come.
    pub(super) fn begin_tunnel(reader: &mut Reader) {
        reader.tunnel();
    }
}

/// The decoder has no table, so that no section can wait for entries.
fn no_table() -> Error {
    Error::new(Code::DecompressionFailed, "field section that waits for a table that there is not")
}
