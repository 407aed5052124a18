//! Frames of one stream, from bytes that come in any pieces (9114-7.1).

use std::borrow::Cow;

use super::error::{Code, Error};
use super::frame::{self, Meaning, Place, SETTINGS_BYTES_MAX, Settings, Side, kind};
use super::varint;

#[cfg(test)]
mod tests;

/// Bytes of unknown frames that are skipped between two frames that mean something.
pub const SKIPPED_BYTES_MAX: u64 = 64 << 10;

/// Frames in a row that bring nothing: unknown ones, and DATA without content.
pub const EMPTY_FRAMES_MAX: u32 = 64;

/// Bytes of a PRIORITY_UPDATE frame's payload at most. The priorities that are known have ten bytes.
pub const PRIORITY_BYTES_MAX: u64 = 256;

/// Bytes of the longest frame header: two integers.
const HEADER_BYTES_MAX: usize = 2 * varint::BYTES_MAX;

/// What has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'i> {
    /// Bytes of content, at least one, as they come: a DATA frame may be given in many pieces.
    Data(&'i [u8]),
    /// A field section, to be decoded by [`Decoder::decode`](super::qpack::Decoder::decode).
    Headers {
        /// The section.
        section: Cow<'i, [u8]>,
        /// Whether the section stands behind content, or behind a request's head. From a server, a section without content
        /// before it can be trailers as well: if the response's head has come, and was not an interim one.
        trailers: bool,
    },
    /// A field section that is larger than the reader takes. The section is skipped. If it is part of a request, an answer with
    /// status 431 is in order, and the rest of the stream need not be read; to a QPACK decoder the stream is cancelled.
    TooLarge {
        /// The section's length in bytes.
        bytes: u64,
    },
    /// A push is promised.
    PushPromise {
        /// The push ID. The caller checks that it is not above the largest one that was allowed (H3_ID_ERROR).
        push: u64,
        /// The field section of its request.
        section: Cow<'i, [u8]>,
    },
    /// The peer's settings: the first event of a control stream.
    Settings(Settings),
    /// The peer leaves: the first push ID, or from a server the first request stream, that it does not process.
    GoAway(u64),
    /// A push is not wanted, or not sent. The caller checks that it was promised (H3_ID_ERROR).
    CancelPush(u64),
    /// The largest push ID that may be used.
    MaxPushId(u64),
    /// The priority of a request stream, or of a push, has changed (9218-7.2).
    PriorityUpdate {
        /// The stream or push ID.
        identifier: u64,
        /// Whether it is a push.
        push: bool,
        /// The value of a `priority` field.
        value: Cow<'i, [u8]>,
    },
}

/// Where in its bytes the stream is.
#[derive(Debug, Clone, Copy)]
enum State {
    Header,
    Data { left: u64 },
    Skip { left: u64 },
    Payload { kind: u64, length: usize },
}

/// How far a message, or a control stream, is (9114-4.1, 9114-6.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Start,
    /// A head has come, or SETTINGS.
    Head,
    Content,
    Trailers,
    /// Only DATA may come.
    Tunnel,
}

/// Reads the frames of one stream. The reader holds at most one payload, within the bounds of its type.
#[derive(Debug)]
pub struct Reader {
    place: Place,
    from: Side,
    section_bytes_max: u64,
    /// The start of a frame's header.
    header: [u8; HEADER_BYTES_MAX],
    header_bytes: usize,
    state: State,
    payload: Vec<u8>,
    progress: Progress,
    /// Frames that brought nothing since the last event.
    empty_frames: u32,
    skipped_bytes: u64,
    /// The last GOAWAY, which must not be followed by a larger one.
    go_away: Option<u64>,
    /// The last MAX_PUSH_ID, which must not be followed by a smaller one.
    push_max: Option<u64>,
}

impl Reader {
    /// A reader of what `from` sends on a stream. Field sections may have `section_bytes_max` bytes, as they are encoded.
    pub fn new(place: Place, from: Side, section_bytes_max: u32) -> Reader {
        Reader {
            place,
            from,
            section_bytes_max: u64::from(section_bytes_max),
            header: [0; HEADER_BYTES_MAX],
            header_bytes: 0,
            state: State::Header,
            payload: Vec::new(),
            progress: Progress::Start,
            empty_frames: 0,
            skipped_bytes: 0,
            go_away: None,
            push_max: None,
        }
    }

    /// From now on only DATA may come, because the request is a CONNECT that was accepted (9114-4.4). Behind trailers, which may
    /// have begun before, not even that.
    pub fn tunnel(&mut self) {
        if self.progress != Progress::Trailers {
            self.progress = Progress::Tunnel;
        }
    }

    /// The next event in `input[*at..]`; advances `at` past what it has used. `None`: all was used.
    ///
    /// # Errors
    ///
    /// All of them end the connection.
    pub fn next<'i>(&mut self, input: &'i [u8], at: &mut usize) -> Result<Option<Event<'i>>, Error> {
        loop {
            let unread = input.get(*at..).unwrap_or_default();
            let event = match self.state {
                State::Header => {
                    let Some((kind, length)) = self.take_header(unread, at) else { return Ok(None) };
                    self.begin(kind, length)?
                }
                State::Data { left: 0 } | State::Skip { left: 0 } => {
                    self.state = State::Header;
                    None
                }
                _ if unread.is_empty() && !self.is_whole(0) => return Ok(None),
                State::Data { left } => {
                    let (bytes, rest) = part(unread, left);
                    *at += bytes.len();
                    self.state = State::Data { left: rest };
                    Some(Event::Data(bytes))
                }
                State::Skip { left } => {
                    let (bytes, rest) = part(unread, left);
                    *at += bytes.len();
                    self.state = State::Skip { left: rest };
                    None
                }
                State::Payload { kind, length } => match self.take_payload(unread, at, length) {
                    Some(payload) => Some(self.on_frame(kind, payload)?),
                    None => return Ok(None),
                },
            };
            if event.is_some() {
                (self.empty_frames, self.skipped_bytes) = (0, 0);
                return Ok(event);
            }
        }
    }

    /// Whether so many bytes more complete a payload.
    fn is_whole(&self, more: usize) -> bool {
        matches!(self.state, State::Payload { length, .. } if self.payload.len() + more >= length)
    }

    /// Type and length of the next frame, once all of their bytes have come.
    fn take_header(&mut self, unread: &[u8], at: &mut usize) -> Option<(u64, u64)> {
        for byte in unread {
            *self.header.get_mut(self.header_bytes)? = *byte;
            self.header_bytes += 1;
            *at += 1;
            let header = self.header.get(..self.header_bytes)?;
            if let Some((kind, kind_bytes)) = varint::read(header)
                && let Some((length, _)) = varint::read(header.get(kind_bytes..)?)
            {
                self.header_bytes = 0;
                return Some((kind, length));
            }
        }
        None
    }

    /// A frame's header has come: whether it may stand here, and what is done with its payload.
    fn begin(&mut self, kind: u64, length: u64) -> Result<Option<Event<'static>>, Error> {
        let meaning = frame::judge(kind, self.place, self.from)?;
        self.judge_order(kind, meaning)?;
        if meaning == Meaning::Unknown {
            self.skipped_bytes = self.skipped_bytes.saturating_add(length);
            if self.skipped_bytes > SKIPPED_BYTES_MAX {
                return Err(Error::new(Code::ExcessiveLoad, "unknown frames too large"));
            }
        }
        if meaning == Meaning::Unknown || (kind == kind::DATA && length == 0) {
            self.empty_frames += 1;
            if self.empty_frames > EMPTY_FRAMES_MAX {
                return Err(Error::new(Code::ExcessiveLoad, "too many frames that bring nothing"));
            }
        }
        let bytes_max = match kind {
            _ if meaning == Meaning::Unknown => {
                self.state = State::Skip { left: length };
                return Ok(None);
            }
            kind::DATA => {
                self.state = State::Data { left: length };
                return Ok(None);
            }
            kind::HEADERS | kind::PUSH_PROMISE if length > self.section_bytes_max => {
                self.state = State::Skip { left: length };
                return Ok(Some(Event::TooLarge { bytes: length }));
            }
            kind::HEADERS | kind::PUSH_PROMISE => self.section_bytes_max,
            kind::SETTINGS => SETTINGS_BYTES_MAX,
            kind::PRIORITY_UPDATE_REQUEST | kind::PRIORITY_UPDATE_PUSH => PRIORITY_BYTES_MAX,
            // An identifier. What is longer has something behind it.
            _ if length > varint::BYTES_MAX as u64 => return Err(frame_error()),
            _ => varint::BYTES_MAX as u64,
        };
        if length > bytes_max {
            return Err(Error::new(Code::ExcessiveLoad, "frame too large"));
        }
        self.state = State::Payload { kind, length: length as usize };
        Ok(None)
    }

    /// The order of frames. Unknown ones are nowhere wrong but at the beginning of a control stream.
    fn judge_order(&mut self, kind: u64, meaning: Meaning) -> Result<(), Error> {
        let unexpected = |reason| Err(Error::new(Code::FrameUnexpected, reason));
        self.progress = match (self.place, kind, self.progress) {
            (Place::Control, kind::SETTINGS, Progress::Start) => Progress::Head,
            (Place::Control, kind::SETTINGS, _) => return unexpected("SETTINGS more than once"),
            (Place::Control, _, Progress::Start) => {
                return Err(Error::new(Code::MissingSettings, "the first frame is not SETTINGS"));
            }
            (_, kind::HEADERS, Progress::Start) => Progress::Head,
            (_, kind::HEADERS, Progress::Head) if self.from == Side::Server => Progress::Head,
            (_, kind::HEADERS, Progress::Head | Progress::Content) => Progress::Trailers,
            (_, kind::HEADERS, Progress::Trailers) => return unexpected("HEADERS behind trailers"),
            (_, kind::DATA, Progress::Start) => return unexpected("DATA before HEADERS"),
            (_, kind::DATA, Progress::Head | Progress::Content) => Progress::Content,
            (_, kind::DATA, Progress::Trailers) => return unexpected("DATA behind trailers"),
            (_, kind::DATA, Progress::Tunnel) => Progress::Tunnel,
            (_, _, Progress::Tunnel) if meaning == Meaning::Known => {
                return unexpected("frame other than DATA in a tunnel");
            }
            (_, _, progress) => progress,
        };
        Ok(())
    }

    /// The whole payload, once it has come: of the input, if all of it is there, so that it is not copied.
    fn take_payload<'i>(&mut self, unread: &'i [u8], at: &mut usize, length: usize) -> Option<Cow<'i, [u8]>> {
        let (bytes, _) = part(unread, length.saturating_sub(self.payload.len()) as u64);
        *at += bytes.len();
        let whole = self.is_whole(bytes.len());
        if whole {
            self.state = State::Header;
            if self.payload.is_empty() {
                return Some(Cow::Borrowed(bytes));
            }
        }
        self.payload.extend_from_slice(bytes);
        whole.then(|| Cow::Owned(std::mem::take(&mut self.payload)))
    }

    /// A whole frame other than DATA.
    fn on_frame<'i>(&mut self, kind: u64, payload: Cow<'i, [u8]>) -> Result<Event<'i>, Error> {
        Ok(match kind {
            kind::HEADERS => {
                Event::Headers { section: payload, trailers: self.progress == Progress::Trailers }
            }
            kind::SETTINGS => Event::Settings(Settings::parse(&payload)?),
            kind::PUSH_PROMISE => {
                let (push, section) = identified(payload)?;
                Event::PushPromise { push, section }
            }
            kind::GOAWAY => Event::GoAway(self.on_go_away(only_identifier(&payload)?)?),
            kind::MAX_PUSH_ID => Event::MaxPushId(self.on_max_push_id(only_identifier(&payload)?)?),
            kind::CANCEL_PUSH => Event::CancelPush(only_identifier(&payload)?),
            _ => {
                let (identifier, value) = identified(payload)?;
                let push = kind == kind::PRIORITY_UPDATE_PUSH;
                if !push && !is_request_stream(identifier) {
                    return Err(Error::new(Code::IdError, "priority of what is no request stream"));
                }
                Event::PriorityUpdate { identifier, push, value }
            }
        })
    }

    fn on_go_away(&mut self, identifier: u64) -> Result<u64, Error> {
        if self.from == Side::Server && !is_request_stream(identifier) {
            return Err(Error::new(Code::IdError, "GOAWAY with what is no request stream"));
        }
        match self.go_away.replace(identifier) {
            Some(before) if before < identifier => {
                Err(Error::new(Code::IdError, "GOAWAY larger than the one before"))
            }
            _ => Ok(identifier),
        }
    }

    fn on_max_push_id(&mut self, identifier: u64) -> Result<u64, Error> {
        match self.push_max.replace(identifier) {
            Some(before) if before > identifier => {
                Err(Error::new(Code::IdError, "MAX_PUSH_ID smaller than the one before"))
            }
            _ => Ok(identifier),
        }
    }

    /// The stream has ended.
    ///
    /// # Errors
    ///
    /// Of the connection: H3_CLOSED_CRITICAL_STREAM for a control stream, H3_FRAME_ERROR within a frame. Of the stream, if no
    /// head has come: H3_REQUEST_INCOMPLETE, or H3_MESSAGE_ERROR of a response.
    pub fn finish(&self) -> Result<(), Error> {
        let between = matches!(self.state, State::Header | State::Data { left: 0 } | State::Skip { left: 0 });
        if self.place == Place::Control {
            Err(Error::new(Code::ClosedCriticalStream, "end of the control stream"))
        } else if !between || self.header_bytes > 0 {
            Err(Error::new(Code::FrameError, "stream ends within a frame"))
        } else if self.progress != Progress::Start {
            Ok(())
        } else if self.from == Side::Client {
            Err(Error::new(Code::RequestIncomplete, "stream without a request"))
        } else {
            Err(Error::new(Code::MessageError, "stream without a response"))
        }
    }

    /// Bytes of memory that it holds.
    #[cfg(test)]
    pub(super) fn room_bytes(&self) -> usize {
        self.payload.capacity()
    }
}

/// The first `left` bytes, as many as there are, and how many are missing.
fn part(unread: &[u8], left: u64) -> (&[u8], u64) {
    let count = usize::try_from(left).unwrap_or(usize::MAX).min(unread.len());
    (unread.get(..count).unwrap_or_default(), left - count as u64)
}

const fn frame_error() -> Error {
    Error::new(Code::FrameError, "wrong length of a frame")
}

/// Streams that a client opens for requests: the lower two bits of the others say something else (RFC 9000 section 2.1).
fn is_request_stream(identifier: u64) -> bool {
    identifier.is_multiple_of(4)
}

/// A payload that is one integer.
fn only_identifier(payload: &[u8]) -> Result<u64, Error> {
    match varint::read(payload) {
        Some((identifier, bytes)) if bytes == payload.len() => Ok(identifier),
        _ => Err(frame_error()),
    }
}

/// A payload that begins with an integer, and what is behind it.
fn identified(payload: Cow<'_, [u8]>) -> Result<(u64, Cow<'_, [u8]>), Error> {
    let (identifier, bytes) = varint::read(&payload).ok_or(frame_error())?;
    let rest = match payload {
        Cow::Borrowed(payload) => Cow::Borrowed(payload.get(bytes..).unwrap_or_default()),
        Cow::Owned(mut payload) => {
            payload.drain(..bytes);
            Cow::Owned(payload)
        }
    };
    Ok((identifier, rest))
}
