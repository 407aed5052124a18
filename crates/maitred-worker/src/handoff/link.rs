//! A link between two worker processes: the way from one that was replaced to an application process whose channel has gone to
//! the next one. On both sides the frames of the handoff protocol pass over it, each with its descriptors.
//!
//! The worker process that has been replaced (*user*) sees a channel as before: only its socket is another one, and nothing that
//! is under way is disturbed. The one that has the channel (*owner*) passes frames on: to the process what the user says, with a
//! number of its own for each request; to the user what the process says about those. A link begins with one frame of its own,
//! [`HandedOver`], in which the user says what is under way.
//!
//! | link, at its owner | user's frame | process's frame about it | user ends | process exits | channel gets another owner |
//! |---|---|---|---|---|---|
//! | Joining: the channel is not read yet | `HandedOver` → Open | cannot be | the process is failed | closed | cannot be |
//! | Open | passed on | passed on | its requests are cancelled, its descriptors forgotten | closed | handed over, as it is |
//! | Closing²: the process is to end | passed on | passed on | as above | closed | not any more |
//!
//! | channel, at the user | REQUEST | the owner says [`REFUSED`] | the owner says [`ROOM`] | the link ends |
//! |---|---|---|---|---|
//! | Live | goes over the link | → Full; the request goes to another process, or waits | cannot be | its requests are lost¹ |
//! | Full: the process has as many requests as it takes | to another process, or waits | the same | → Live | the same |
//! | Full, for good² | to another process, or waits | the same | cannot be | the same |
//!
//! A worker process that has never had the channel, and in which requests wait, uses it as a *guest*: its link begins with
//! [`JOINED`], in which the owner says what its connections' numbers are to have in their upper bits.
//!
//! ¹ It is not known whether the process is still at them. How many requests the process has, its owner knows alone: it refuses a
//! REQUEST that would wait behind others, or that the process cannot have seen when it takes no more, and gives it back with its
//! body. ² The owner has said [`CLOSING`]; the user says [`CLOSED`] behind its last REQUEST, and CANCEL and FORGET after that.
//!
//! Numbers of connections are distinguished by [`TAG_BITS`]: each user keeps those that it had as an owner. An owner hands a
//! channel on between two frames, when no bytes of it or of its links are in its buffers: so nothing but numbers and
//! descriptors has to be handed over, and a worker process in between is not needed for the requests of its predecessors.

use std::collections::{HashSet, VecDeque};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use maitred_handoff::{HEADER_BYTES, Header, MESSAGE_DESCRIPTORS_MAX, kind};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use super::socket::{Flushed, RECEIVE_BYTES, Received};
use crate::keys::ChannelKey;
use maitred_base::passed::Passed;

/// The bits in which the numbers of connections differ between the worker processes that use a process at the same time. Indices
/// below them are more than a thread has memory for.
pub(crate) const TAG_BITS: u32 = 0x7f << 24;
/// The step from one tag to the next.
const TAG_STEP: u32 = 1 << 24;
/// The kind of the frame that a link begins with; no application ever sees it.
pub(crate) const HANDED_OVER: u8 = 63;
/// The kind of the frame in which a user says that the client does not wait for a request any more, and in how many milliseconds
/// it counts as stuck if it has not ended by then: the owner alone knows how much of the process such requests hold.
pub(crate) const GIVEN_UP: u8 = 62;
/// The kind of the frame in which a user says that it sends no more requests: the answer to [`CLOSING`].
pub(crate) const CLOSED: u8 = 61;
/// The kind of the frame in which an owner gives a REQUEST back.
pub(crate) const REFUSED: u8 = 120;
/// The kind of the frame in which an owner says that there is room for a request again.
pub(crate) const ROOM: u8 = 121;
/// The kind of the frame in which an owner says what the numbers of a guest's connections are to have in their upper bits: the
/// first one.
pub(crate) const JOINED: u8 = 124;
/// The kind of the frame in which an owner says that a file of a response was lost, with those that belong to other frames.
pub(crate) const FILE_LOST: u8 = 122;
/// The kind of the frame in which an owner says that the process is to end: it gets no more requests.
pub(crate) const CLOSING: u8 = 123;
/// The longest frame: [`HandedOver`], of as many requests as a channel may have. A REQUEST has 2 MiB at most.
pub(super) const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What waits for a user that does not read, at most. One TAIL after the other, of all requests that it may have, is less.
const OUT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Sent bytes that stay in the buffer of a link whose user is behind, to save moving the rest.
const SENT_KEPT_BYTES: usize = 64 * 1024;

/// A request of a user of the channel: its number at the process, its number at the user, and that of its connection.
pub(crate) type Numbers = (u32, u32, u32);

/// What the process has of one user.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Share {
    /// The tag of its connections.
    pub tag: u32,
    /// The requests of the user.
    pub requests: Vec<Numbers>,
    /// Numbers of the descriptors that the process keeps.
    pub kept: Vec<u32>,
}

/// An orphaned request that has not ended; its user may have gone.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Late {
    /// The number of the request at the process.
    pub request: u32,
    /// The number that the process knows the response descriptor by.
    pub connection: u32,
    /// In how many milliseconds it counts as stuck.
    pub in_ms: u32,
}

/// What a channel's owner says of it when it hands it over: [`HANDED_OVER`], with the links to other users as descriptors.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct HandedOver {
    /// The number of the next request.
    pub next_request: u32,
    /// What is its own, and goes on over this link.
    pub own: Share,
    /// What others have, each with a link.
    pub others: Vec<Share>,
    /// Orphaned requests, of this worker process and of others. The process still says when they end, also those of users
    /// that have gone.
    #[serde(default)]
    pub late: Vec<Late>,
}

/// A tag that none of these is.
pub(crate) fn free_tag(used: &[u32]) -> u32 {
    let mut tags = (0..=TAG_BITS / TAG_STEP).map(|tag| tag * TAG_STEP);
    tags.find(|tag| !used.contains(tag)).unwrap_or(0)
}

/// A frame of a user.
#[derive(Debug)]
pub(crate) struct Frame {
    /// The header of the frame.
    pub header: Header,
    /// What follows the header.
    pub payload: Vec<u8>,
    /// The payload of TRAILERS directly before it; empty if there is none.
    pub trailers: Vec<u8>,
    /// The descriptors of the frame.
    pub descriptors: Vec<OwnedFd>,
}

/// The owner's end of a link. See the module.
#[derive(Debug)]
pub(crate) struct Link {
    /// Key of the channel; [`NONE`](crate::keys::Key::NONE) once the process has exited.
    pub channel: ChannelKey,
    /// The process.
    pub epoch: u64,
    /// The tag of its connections.
    pub tag: u32,
    /// Numbers of the descriptors that the process keeps for it.
    pub kept: HashSet<u32>,
    /// The user has asked whether the process is there, and has no answer.
    pub asks: bool,
    /// A request of it was refused, and it has not received the message that there is room again.
    pub waits: bool,
    /// The user was asked to send no more requests.
    pub closing: bool,
    /// The user has said that it sends none any more.
    pub drained: bool,
    /// The user takes nothing: the link is ended when no frame of the process is being looked at.
    pub broken: bool,
    socket: OwnedFd,
    input: Vec<u8>,
    received: VecDeque<OwnedFd>,
    out: Vec<u8>,
    sent: usize,
    passing: VecDeque<(usize, Passed)>,
}

/// The first frame, if it is there as a whole.
fn split_frame(input: &[u8]) -> Result<Option<(Header, &[u8])>, &'static str> {
    let Some((head, rest)) = input.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let header = Header::from_bytes(*head);
    let length = header.payload_bytes as usize;
    if length > FRAME_BYTES_MAX {
        return Err("a frame is too long");
    }
    Ok(rest.get(..length).map(|payload| (header, payload)))
}

impl Link {
    /// A link over which nothing was said.
    pub(crate) fn new(channel: ChannelKey, epoch: u64, tag: u32, socket: OwnedFd) -> Link {
        Link {
            channel,
            epoch,
            tag,
            kept: HashSet::new(),
            asks: false,
            waits: false,
            closing: false,
            drained: false,
            broken: false,
            socket,
            input: Vec::new(),
            received: VecDeque::new(),
            out: Vec::new(),
            sent: 0,
            passing: VecDeque::new(),
        }
    }

    /// The socket, for epoll.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// To hand it on; nothing may be in its buffers.
    pub(crate) fn into_socket(self) -> OwnedFd {
        self.socket
    }

    /// Whether nothing is in its buffers.
    pub(crate) fn is_quiet(&self) -> bool {
        self.input.is_empty() && self.received.is_empty() && self.out.is_empty() && !self.closing
    }

    /// Reads once; `room` is where the kernel writes.
    ///
    /// # Errors
    /// What recvmsg(2) says; `InvalidData` if frames or descriptors pile up that no worker process sends.
    pub(crate) fn receive(&mut self, room: &mut [u8; RECEIVE_BYTES]) -> io::Result<Received> {
        if self.input.len() > FRAME_BYTES_MAX + RECEIVE_BYTES || self.received.len() > MESSAGE_DESCRIPTORS_MAX
        {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "more than any frame may have"));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE_DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let result = recvmsg(&self.socket, &mut [IoSliceMut::new(room)], &mut control, flags);
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                self.received.extend(rights);
            }
        }
        match result {
            Ok(message) if message.bytes == 0 => Ok(Received::End),
            Ok(message) => {
                self.input.extend_from_slice(room.get(..message.bytes).unwrap_or_default());
                Ok(Received::More)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(Received::Drained),
            Err(Errno::CONNRESET) => Ok(Received::End),
            Err(error) => Err(error.into()),
        }
    }

    /// The next frame that is there as a whole. TRAILERS come with the frame behind them.
    ///
    /// # Errors
    /// If that is none.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame>, &'static str> {
        let Some((first, mut payload)) = split_frame(&self.input)? else { return Ok(None) };
        let (mut header, mut used) = (first, HEADER_BYTES + payload.len());
        let mut trailers = &[][..];
        if first.kind == kind::TRAILERS {
            let Some(next) = split_frame(self.input.get(used..).unwrap_or_default())? else {
                return Ok(None);
            };
            trailers = std::mem::replace(&mut payload, next.1);
            header = next.0;
            used += HEADER_BYTES + payload.len();
        }
        let count = usize::from(header.descriptors);
        if count > self.received.len() {
            return Err("a frame is without its descriptors");
        }
        let descriptors = self.received.drain(..count).collect();
        let frame = Frame { header, payload: payload.to_vec(), trailers: trailers.to_vec(), descriptors };
        self.input.drain(..used);
        Ok(Some(frame))
    }

    /// Has a frame of the process leave with the next [`Link::flush`]. False if its user takes nothing.
    pub(crate) fn pass_on(&mut self, header: Header, payload: &[u8], descriptor: Option<Passed>) -> bool {
        self.drop_sent();
        let offset = self.out.len();
        self.passing.extend(descriptor.map(|descriptor| (offset, descriptor)));
        self.out.extend_from_slice(&header.to_bytes());
        self.out.extend_from_slice(payload);
        self.out.len() - self.sent <= OUT_BYTES_MAX
    }

    /// Forgets what was sent, once it is most of what is there.
    fn drop_sent(&mut self) {
        if self.sent > SENT_KEPT_BYTES && self.sent > self.out.len() / 2 {
            self.out.drain(..self.sent);
            let sent = std::mem::take(&mut self.sent);
            self.passing.iter_mut().for_each(|(offset, _)| *offset -= sent);
        }
    }

    /// Sends what waits, a descriptor always with the first byte of its frame.
    ///
    /// # Errors
    /// What sendmsg(2) says, but for a full socket.
    pub(crate) fn flush(&mut self) -> io::Result<Flushed> {
        while self.sent < self.out.len() {
            let carried = self.passing.front().filter(|(offset, _)| *offset == self.sent);
            let next = self.passing.iter().map(|(offset, _)| *offset).find(|offset| *offset > self.sent);
            let bytes = self.out.get(self.sent..next.unwrap_or(self.out.len())).unwrap_or_default();
            let descriptors: Vec<BorrowedFd<'_>> = carried.iter().map(|(_, passed)| passed.as_fd()).collect();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !descriptors.is_empty() {
                control.push(SendAncillaryMessage::ScmRights(&descriptors));
            }
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, flags) {
                Ok(sent) => {
                    if !descriptors.is_empty() {
                        self.passing.pop_front();
                    }
                    self.sent += sent;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Flushed::Blocked),
                Err(Errno::TOOMANYREFS) => return Ok(Flushed::Crowded),
                Err(error) => return Err(error.into()),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(Flushed::All)
    }
}
