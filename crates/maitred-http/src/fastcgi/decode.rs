//! Records of the application: a decoder that takes bytes as they arrive, keeps at most a header of them, and gives the
//! contents as parts of what came in.

use std::fmt;

use super::record::{HEADER_BYTES, REQUEST_ID, RecordHeader, VERSION, kind};

/// Bytes of records in one request that say nothing: management records, unknown types, and empty records of `STDERR`.
/// Applications send none of the first two unless they are asked, and one of the third.
pub const IGNORED_BYTES_MAX: u32 = 64 << 10;

/// Bytes of the body of `END_REQUEST` (section 5.5).
const END_BYTES: u16 = 8;

/// What the application said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'b> {
    /// Bytes of the response: a CGI header (see [`super::head`]), then content. Never empty; divided as records and reads are.
    Stdout(&'b [u8]),
    /// Bytes for the error log, in no particular units. Never empty. php-fpm 8.2 joins the messages of a request by `; ` and
    /// writes no line end; libfcgi sends what was printed, when its buffer is full. How much of it is kept is the caller's to
    /// bound.
    Stderr(&'b [u8]),
    /// The request has ended (section 5.5).
    End {
        /// What a CGI program would have exited with; 0 for success. PHP always says 0.
        app_status: u32,
        /// Whether the request was handled at all.
        protocol_status: ProtocolStatus,
    },
}

/// How a request ended, as the protocol sees it (section 5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolStatus {
    /// The request was handled.
    RequestComplete,
    /// The request was refused since another one runs on this connection. Never right here: there is none.
    CantMultiplex,
    /// The request was refused since the application has too much to do: it may be sent to another process, or later.
    Overloaded,
    /// The request was refused since the application is no responder: the operator named the wrong one.
    UnknownRole,
    /// A number that the specification does not know.
    Unknown(u8),
}

impl ProtocolStatus {
    fn from_byte(byte: u8) -> ProtocolStatus {
        match byte {
            0 => Self::RequestComplete,
            1 => Self::CantMultiplex,
            2 => Self::Overloaded,
            3 => Self::UnknownRole,
            other => Self::Unknown(other),
        }
    }
}

impl fmt::Display for ProtocolStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RequestComplete => f.write_str("request complete"),
            Self::CantMultiplex => f.write_str("request refused: another one runs on the connection"),
            Self::Overloaded => f.write_str("request refused: the application is overloaded"),
            Self::UnknownRole => f.write_str("request refused: the application is no FastCGI responder"),
            Self::Unknown(status) => write!(f, "request ended with the unknown protocol status {status}"),
        }
    }
}

/// Where the error has to be fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The application, or the library that speaks FastCGI for it.
    Application,
    /// The operator, who configured the address: what listens there does not speak FastCGI.
    Operator,
}

/// Why the bytes are no FastCGI. Never caused by the client: it gets 502, or gets a truncated response. Nothing that
/// follows on this connection can be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bad {
    /// A record of another version: something else listens there.
    Version(u8),
    /// A record of another request than [`REQUEST_ID`].
    RequestId(u16),
    /// A record of a type that only servers send.
    Kind(u8),
    /// An `END_REQUEST` that has not eight bytes but so many.
    EndBytes(u16),
    /// `STDOUT` after the empty record that ended it.
    AfterStdout,
    /// A record of the request after its `END_REQUEST`.
    AfterEnd(u8),
    /// More than [`IGNORED_BYTES_MAX`].
    TooMuchIgnored,
    /// The connection ended before the request.
    Incomplete,
}

impl Bad {
    /// Where the error has to be fixed.
    pub fn fault(self) -> Fault {
        match self {
            Self::Version(_) => Fault::Operator,
            _ => Fault::Application,
        }
    }
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(b'H') => {
                f.write_str("what listens there does not speak FastCGI, but seems to be an HTTP server: correct `connect`")
            }
            Self::Version(version) => {
                write!(f, "what listens there does not speak FastCGI (first byte {version}): correct `connect`")
            }
            Self::RequestId(id) => {
                write!(f, "the application sent a FastCGI record of request {id}, there is only {REQUEST_ID}")
            }
            Self::Kind(kind) => write!(f, "the application sent a FastCGI record of type {kind}, which only servers send"),
            Self::EndBytes(bytes) => {
                write!(f, "the application sent a FastCGI END_REQUEST of {bytes} bytes instead of {END_BYTES}")
            }
            Self::AfterStdout => f.write_str("the application sent FastCGI STDOUT after its end"),
            Self::AfterEnd(kind) => {
                write!(f, "the application sent a FastCGI record of type {kind} after END_REQUEST")
            }
            Self::TooMuchIgnored => {
                write!(f, "the application sent over {IGNORED_BYTES_MAX} bytes of FastCGI records that mean nothing")
            }
            Self::Incomplete => f.write_str("the application closed the FastCGI connection before the end of the request"),
        }
    }
}

impl std::error::Error for Bad {}

/// What the next byte is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Header,
    Stdout,
    Stderr,
    /// The body of `END_REQUEST`.
    End,
    /// Padding, and the content of what is ignored.
    Skip,
}

/// Decodes what an application sends for one request.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    /// A header, or a body of `END_REQUEST`, of which `have` bytes are there.
    buffer: [u8; HEADER_BYTES],
    have: u8,
    /// Bytes of content that are missing.
    content_left: u16,
    /// Bytes to skip before the next header: padding, and content that is ignored.
    skip_left: u32,
    ignored_left: u32,
    stdout_ended: bool,
    ended: bool,
    failed: Option<Bad>,
}

const _: () = assert!(size_of::<Decoder>() <= 32, "one of them is in each exchange");

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::new()
    }
}

impl Decoder {
    /// A decoder for one request. On a connection that is kept every request has its own.
    pub fn new() -> Decoder {
        Decoder {
            state: State::Header,
            buffer: [0; HEADER_BYTES],
            have: 0,
            content_left: 0,
            skip_left: 0,
            ignored_left: IGNORED_BYTES_MAX,
            stdout_ended: false,
            ended: false,
            failed: None,
        }
    }

    /// Takes bytes from the front of `bytes` up to the next event. `None` when all were taken and more are needed. However the
    /// bytes arrive, the events are the same but for where output is divided.
    ///
    /// # Errors
    /// [`Bad`], then and ever after.
    pub fn next<'b>(&mut self, bytes: &mut &'b [u8]) -> Result<Option<Event<'b>>, Bad> {
        if let Some(bad) = self.failed {
            return Err(bad);
        }
        self.step(bytes).inspect_err(|bad| self.failed = Some(*bad))
    }

    fn step<'b>(&mut self, bytes: &mut &'b [u8]) -> Result<Option<Event<'b>>, Bad> {
        while !bytes.is_empty() {
            match self.state {
                State::Header => {
                    if self.collect(bytes) {
                        self.begin_record(RecordHeader::parse(&self.buffer))?;
                    }
                }
                State::Stdout => return Ok(Some(Event::Stdout(self.content(bytes)))),
                State::Stderr => return Ok(Some(Event::Stderr(self.content(bytes)))),
                State::End => {
                    if self.collect(bytes) {
                        (self.state, self.ended) = (self.after_content(), true);
                        return Ok(Some(self.end_event()));
                    }
                }
                State::Skip => {
                    let skipped = take(bytes, self.skip_left);
                    // At most skip_left.
                    self.skip_left -= skipped.len() as u32;
                    self.state = self.after_content();
                }
            }
        }
        Ok(None)
    }

    /// Moves bytes into the buffer. Says whether it is full, and empties it then.
    fn collect(&mut self, bytes: &mut &[u8]) -> bool {
        let free = self.buffer.get_mut(usize::from(self.have)..).unwrap_or_default();
        // At most HEADER_BYTES.
        let part = take(bytes, free.len() as u32);
        free.iter_mut().zip(part).for_each(|(room, byte)| *room = *byte);
        self.have += part.len() as u8;
        let full = usize::from(self.have) == HEADER_BYTES;
        if full {
            self.have = 0;
        }
        full
    }

    fn begin_record(&mut self, header: RecordHeader) -> Result<(), Bad> {
        let RecordHeader { version, kind, request_id, content_bytes, padding_bytes } = header;
        if version != VERSION {
            return Err(Bad::Version(version));
        }
        // Management records have the request 0, and no other records have it (section 3.3).
        let known = (kind::BEGIN_REQUEST..=kind::DATA).contains(&kind);
        if request_id != REQUEST_ID && (request_id != 0 || known) {
            return Err(Bad::RequestId(request_id));
        }
        if known && self.ended {
            return Err(Bad::AfterEnd(kind));
        }
        (self.content_left, self.skip_left) = (content_bytes, u32::from(padding_bytes));
        self.state = match kind {
            kind::STDOUT if self.stdout_ended => return Err(Bad::AfterStdout),
            kind::STDOUT if content_bytes == 0 => {
                self.stdout_ended = true;
                self.after_content()
            }
            kind::STDOUT => State::Stdout,
            kind::STDERR if content_bytes > 0 => State::Stderr,
            kind::END_REQUEST if content_bytes == END_BYTES => State::End,
            kind::END_REQUEST => return Err(Bad::EndBytes(content_bytes)),
            kind if known && kind != kind::STDERR => return Err(Bad::Kind(kind)),
            _ => self.ignore()?,
        };
        Ok(())
    }

    /// Skips the record that was begun.
    fn ignore(&mut self) -> Result<State, Bad> {
        self.skip_left += u32::from(self.content_left);
        let cost = self.skip_left + HEADER_BYTES as u32;
        self.ignored_left = self.ignored_left.checked_sub(cost).ok_or(Bad::TooMuchIgnored)?;
        Ok(self.after_content())
    }

    fn after_content(&self) -> State {
        if self.skip_left > 0 { State::Skip } else { State::Header }
    }

    /// The content that has arrived, of the record that was begun.
    fn content<'b>(&mut self, bytes: &mut &'b [u8]) -> &'b [u8] {
        let part = take(bytes, u32::from(self.content_left));
        // At most content_left.
        self.content_left -= part.len() as u16;
        if self.content_left == 0 {
            self.state = self.after_content();
        }
        part
    }

    fn end_event(&self) -> Event<'static> {
        let [a3, a2, a1, a0, status, ..] = self.buffer;
        let app_status = u32::from_be_bytes([a3, a2, a1, a0]);
        Event::End { app_status, protocol_status: ProtocolStatus::from_byte(status) }
    }

    /// Whether the output is complete: [`Event::End`], or the empty `STDOUT` record before it. Some applications work on
    /// behind their response; the client need not wait for that.
    pub fn output_complete(&self) -> bool {
        self.stdout_ended || self.ended
    }

    /// Whether the request has ended with all of its bytes, so that a connection which is kept may carry the next one.
    pub fn is_idle(&self) -> bool {
        self.ended && self.state == State::Header && self.have == 0 && self.failed.is_none()
    }

    /// The connection has ended: whether the output was complete by then. An application that dies, or is killed by
    /// php-fpm's `request_terminate_timeout`, leaves a response that must not look complete.
    ///
    /// # Errors
    /// [`Bad::Incomplete`], or what was wrong before.
    pub fn end(&self) -> Result<(), Bad> {
        match self.failed {
            Some(bad) => Err(bad),
            None if self.output_complete() => Ok(()),
            None => Err(Bad::Incomplete),
        }
    }
}

/// Splits off the first bytes, at most so many.
fn take<'b>(bytes: &mut &'b [u8], bytes_max: u32) -> &'b [u8] {
    let (part, rest) = bytes.split_at((bytes_max as usize).min(bytes.len()));
    *bytes = rest;
    part
}
