//! The channel of one process: what the server sends, as frames that keep their place in the receive buffer, and what is
//! sent to it.

use std::collections::VecDeque;
use std::fmt;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use maitred_handoff::{
    FromServer, HEADER_BYTES, MESSAGE_DESCRIPTORS_MAX, PAYLOAD_BYTES_MAX, Request, VERSION,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, send, sendmsg,
};

/// Bytes that one receive asks for; more only if a frame needs it.
const RECEIVE_BYTES: usize = 64 * 1024;
const RECEIVE_BYTES_MAX: usize = 1024 * 1024;
/// The time that frames wait whose descriptors the kernel does not take, before they are tried again.
const RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
const ANCILLARY_BYTES: usize = rustix::cmsg_space!(ScmRights(MESSAGE_DESCRIPTORS_MAX));

/// A fault of the server's, in words for a person. The channel is of no use any more.
#[derive(Debug)]
pub(crate) struct Violation(pub(crate) String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A frame that is to be handled. Ranges are places in the receive buffer, valid until the next [`Wire::receive`] with an empty
/// queue.
#[derive(Debug)]
pub(crate) enum Frame {
    Request(Entry),
    Forget { connection: u32 },
    Cancel { connection: u32, request: u32 },
    Ping { request: u32 },
    Shutdown,
}

/// A REQUEST.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) connection: u32,
    pub(crate) request: u32,
    pub(crate) flags: maitred_handoff::RequestFlags,
    /// The connection's descriptor, if it came along.
    pub(crate) passed: Option<OwnedFd>,
    /// The descriptor of a body in a file.
    pub(crate) body_file: Option<OwnedFd>,
    pub(crate) meta: Range<usize>,
    pub(crate) head: Range<usize>,
    pub(crate) body: Range<usize>,
    /// Set if the client has gone before anything was done.
    pub(crate) cancelled: bool,
}

/// The outcome of one receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// Bytes, of no, one or several frames.
    Some,
    /// Nothing yet: without waiting, there is none.
    None,
    /// A signal came first.
    Interrupted,
    /// The end of the channel. A frame that is not complete is dropped.
    End,
}

/// The end of a channel that belongs to this process.
#[derive(Debug)]
pub(crate) struct Wire {
    sock: Arc<OwnedFd>,
    buffer: Vec<u8>,
    /// Bytes of the buffer up to which frames were taken, and up to which there are any.
    taken: usize,
    filled: usize,
    /// Descriptors that no frame has taken yet.
    arrived: VecDeque<OwnedFd>,
    /// Frames that are complete.
    pub(crate) queue: VecDeque<Frame>,
    payload_bytes_max: u32,
    welcomed: bool,
    /// The request whose TRAILERS have come: its REQUEST is next.
    trailed: Option<(u32, u32)>,
    /// Set if requests wait in the queue for their turn, so that one that is cancelled there never begins.
    one_by_one: bool,
    /// A violation behind the frames of the queue.
    violation: Option<Violation>,
    /// Set while a request that runs has its bytes in the buffer.
    pub(crate) is_held: bool,
}

impl Wire {
    pub(crate) fn new(sock: Arc<OwnedFd>, one_by_one: bool) -> Self {
        Self {
            sock,
            buffer: vec![0; RECEIVE_BYTES],
            taken: 0,
            filled: 0,
            arrived: VecDeque::new(),
            queue: VecDeque::new(),
            payload_bytes_max: PAYLOAD_BYTES_MAX,
            welcomed: false,
            trailed: None,
            one_by_one,
            violation: None,
            is_held: false,
        }
    }

    /// The bytes at a frame's range.
    pub(crate) fn bytes(&self, range: &Range<usize>) -> &[u8] {
        self.buffer.get(range.clone()).unwrap_or_default()
    }

    /// One `recvmsg`, and every frame that is complete then into the queue.
    ///
    /// # Errors
    /// If the server broke the protocol; what stood before that comes first.
    pub(crate) fn receive(&mut self, wait: bool) -> Result<Received, Violation> {
        if let Some(violation) = self.violation.take() {
            return Err(violation);
        }
        self.make_room();
        let mut space = [MaybeUninit::uninit(); ANCILLARY_BYTES];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags =
            if wait { RecvFlags::CMSG_CLOEXEC } else { RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT };
        let room = self.buffer.get_mut(self.filled..).unwrap_or_default();
        let got = match recvmsg(&self.sock, &mut [IoSliceMut::new(room)], &mut ancillary, flags) {
            Ok(got) => got,
            Err(Errno::AGAIN) => return Ok(Received::None),
            Err(Errno::INTR) => return Ok(Received::Interrupted),
            Err(_) => return Ok(Received::End),
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                self.arrived.extend(rights);
            }
        }
        if got.flags.contains(ReturnFlags::CTRUNC) {
            let text = "descriptors were lost: too many in one message, or no free descriptor left";
            return Err(Violation(text.to_owned()));
        }
        if got.bytes == 0 {
            return Ok(Received::End);
        }
        self.filled += got.bytes;
        match self.take_frames() {
            Err(violation) if !self.queue.is_empty() => self.break_off(violation),
            taken => taken?,
        }
        Ok(Received::Some)
    }

    /// Nothing more is received: behind the frames of the queue, [`Wire::receive`] says what is wrong.
    pub(crate) fn break_off(&mut self, violation: Violation) {
        self.violation = Some(violation);
    }

    /// True if only a violation is left behind the frames of the queue.
    pub(crate) fn is_broken(&self) -> bool {
        self.violation.is_some()
    }

    /// Room for the rest of a frame that is not complete, or for a batch. Ranges stay true while the queue has frames, or a
    /// request is held.
    fn make_room(&mut self) {
        if self.queue.is_empty() && !self.is_held {
            self.buffer.copy_within(self.taken..self.filled, 0);
            self.filled -= self.taken;
            self.taken = 0;
            if self.filled == 0 && self.buffer.len() > RECEIVE_BYTES_MAX {
                // One large frame is no reason to keep its memory.
                self.buffer.truncate(RECEIVE_BYTES);
                self.buffer.shrink_to_fit();
            }
        }
        let missing = self.missing().clamp(RECEIVE_BYTES / 2, RECEIVE_BYTES_MAX);
        if self.buffer.len() - self.filled < missing {
            self.buffer.resize(self.filled + missing.max(RECEIVE_BYTES), 0);
        }
    }

    /// Bytes that the first frame that is not complete needs beyond those that are here.
    fn missing(&self) -> usize {
        let rest = self.bytes(&(self.taken..self.filled));
        match rest.first_chunk::<HEADER_BYTES>() {
            Some(header) => {
                let header = maitred_handoff::Header::from_bytes(*header);
                (header.payload_bytes as usize + HEADER_BYTES).saturating_sub(rest.len())
            }
            None => HEADER_BYTES - rest.len(),
        }
    }

    fn take_frames(&mut self) -> Result<(), Violation> {
        loop {
            let rest = self.buffer.get(self.taken..self.filled).unwrap_or_default();
            let decoded = FromServer::decode(rest, self.payload_bytes_max);
            let Some((frame, used)) = decoded.map_err(|error| Violation(error.to_string()))? else {
                return self.check_strays();
            };
            let frame = match frame {
                FromServer::Request(request) => {
                    let entry = Located::of(&request, rest, self.taken);
                    self.check_order(Some((request.connection, request.request)), request.flags.may_detach)?;
                    Some(Frame::Request(self.complete(entry)?))
                }
                other => {
                    let control = control(&other);
                    let welcome = if let FromServer::Welcome(welcome) = other { Some(welcome) } else { None };
                    let trailers = if let FromServer::Trailers(trailers) = other {
                        Some((trailers.connection, trailers.request))
                    } else {
                        None
                    };
                    let descriptors = other.descriptors();
                    if !self.welcomed && welcome.is_none() {
                        return Err(Violation("the first frame is not WELCOME".to_owned()));
                    }
                    self.check_order(None, false)?;
                    self.trailed = trailers;
                    if let Some(welcome) = welcome {
                        self.welcome(&welcome)?;
                    }
                    for _ in 0..descriptors {
                        drop(self.take()?);
                    }
                    control
                }
            };
            self.taken += used;
            if let Some(Frame::Cancel { connection, request }) = frame {
                if !(self.one_by_one && self.cancel(connection, request)) {
                    self.queue.push_back(Frame::Cancel { connection, request });
                }
            } else if let Some(frame) = frame {
                self.queue.push_back(frame);
            }
        }
    }

    /// Checks that not too many descriptors wait for their frames.
    fn check_strays(&self) -> Result<(), Violation> {
        match self.arrived.len() {
            0..=MESSAGE_DESCRIPTORS_MAX => Ok(()),
            many => Err(Violation(format!("{many} descriptors have come that belong to no frame"))),
        }
    }

    /// Checks that a frame may come here: WELCOME first and once, and the REQUEST of TRAILERS directly behind them.
    fn check_order(&mut self, request: Option<(u32, u32)>, may_detach: bool) -> Result<(), Violation> {
        if !self.welcomed && request.is_some() {
            return Err(Violation("the first frame is a REQUEST, not WELCOME".to_owned()));
        }
        match self.trailed.take() {
            Some(trailed) if request != Some(trailed) || may_detach => Err(Violation(format!(
                "TRAILERS of {trailed:?} stand before another frame than their REQUEST"
            ))),
            _ => Ok(()),
        }
    }

    fn welcome(&mut self, welcome: &maitred_handoff::Welcome) -> Result<(), Violation> {
        if self.welcomed {
            return Err(Violation("a second WELCOME".to_owned()));
        }
        if welcome.version != VERSION {
            return Err(Violation(format!("the server chose version {}", welcome.version)));
        }
        self.welcomed = true;
        self.payload_bytes_max = welcome.payload_bytes_max;
        Ok(())
    }

    fn complete(&mut self, located: Located) -> Result<Entry, Violation> {
        let mut entry = located.entry;
        if located.passes {
            entry.passed = Some(self.take()?);
        }
        if entry.flags.body_fd {
            entry.body_file = Some(self.take()?);
        }
        Ok(entry)
    }

    fn take(&mut self) -> Result<OwnedFd, Violation> {
        let text = "a frame was announced with a descriptor that did not come";
        self.arrived.pop_front().ok_or_else(|| Violation(text.to_owned()))
    }

    /// Marks a request that waits in the queue; whether there is one.
    fn cancel(&mut self, connection: u32, request: u32) -> bool {
        for frame in &mut self.queue {
            if let Frame::Request(entry) = frame
                && entry.connection == connection
                && entry.request == request
            {
                entry.cancelled = true;
                entry.body_file = None;
                return true;
            }
        }
        false
    }

    /// True if a SHUTDOWN waits in the queue.
    pub(crate) fn is_told(&self) -> bool {
        self.queue.iter().any(|frame| matches!(frame, Frame::Shutdown))
    }
}

/// A REQUEST whose descriptors are not taken yet.
struct Located {
    entry: Entry,
    passes: bool,
}

impl Located {
    /// `rest` begins at `base` of the buffer, and with the frame.
    fn of(request: &Request<'_>, rest: &[u8], base: usize) -> Self {
        let range = |part: &[u8]| {
            let start = base + (part.as_ptr().addr()).wrapping_sub(rest.as_ptr().addr());
            start..start + part.len()
        };
        let entry = Entry {
            connection: request.connection,
            request: request.request,
            flags: request.flags,
            passed: None,
            body_file: None,
            meta: range(request.meta.as_bytes()),
            head: range(request.head),
            body: range(request.body),
            cancelled: false,
        };
        Self { entry, passes: request.passes_connection() }
    }
}

fn control(frame: &FromServer<'_>) -> Option<Frame> {
    Some(match *frame {
        FromServer::Forget { connection } => Frame::Forget { connection },
        FromServer::Cancel { connection, request } => Frame::Cancel { connection, request },
        FromServer::Ping { request } => Frame::Ping { request },
        FromServer::Shutdown => Frame::Shutdown,
        FromServer::Welcome(_)
        | FromServer::Trailers(_)
        | FromServer::Skipped { .. }
        | FromServer::Request(_) => return None,
    })
}

/// The reason why not everything was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// The socket has no room.
    Bytes,
    /// Too many descriptors of this user are under way.
    Descriptors,
}

/// Sends what there is room for; what is left, and why. `None` as well if the server has gone, which the next receive says.
pub(crate) fn send_what_fits<'d>(
    sock: &OwnedFd,
    mut data: &'d [u8],
    mut rights: &[OwnedFd],
) -> Option<(&'d [u8], Full)> {
    while !data.is_empty() {
        match send_some(sock, data, rights) {
            Ok(sent) => {
                rights = &[];
                data = data.get(sent..).unwrap_or_default();
            }
            Err(Errno::AGAIN) => return Some((data, Full::Bytes)),
            Err(Errno::TOOMANYREFS) => return Some((data, Full::Descriptors)),
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    None
}

/// Until there is room.
pub(crate) fn wait_for_room(sock: &OwnedFd) {
    // An error shows at the next send.
    let _ = poll(&mut [PollFd::new(sock, PollFlags::OUT)], None);
}

/// Until descriptors may be tried again: nothing reports that the kernel would take them. True if the server has gone.
pub(crate) fn wait_for_descriptors(sock: &OwnedFd) -> bool {
    // That the other side has gone is reported unasked.
    let mut sockets = [PollFd::new(sock, PollFlags::empty())];
    poll(&mut sockets, Some(&RETRY)).is_ok_and(|found| found > 0)
}

/// One `send` or `sendmsg` that does not wait; its descriptors leave with its first byte.
///
/// # Errors
/// Those of sendmsg(2).
fn send_some(sock: &OwnedFd, data: &[u8], rights: &[OwnedFd]) -> Result<usize, Errno> {
    if rights.is_empty() {
        return send(sock, data, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }
    let borrowed: Vec<BorrowedFd<'_>> = rights.iter().map(std::os::fd::AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); ANCILLARY_BYTES];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&borrowed));
    sendmsg(sock, &[IoSlice::new(data)], &mut ancillary, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}
