//! The state of a draining thread, and how a connection is passed to another worker process.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::connection::body::RequestBody;
use super::connection::transfer::RequestTransfer;
use super::inbox::{ConnectionTransfer, Origin};
use super::shared::NO_LISTEN;
use maitred_policy::plan::IdleTime;

/// The state of a draining thread.
#[derive(Debug)]
pub(crate) struct Drain {
    /// Until when connections without a request are waited for, and for how long each may be without one after that.
    pub(crate) until: Instant,
    pub(crate) grace: Duration,
    /// Until when requests are waited for; `None` for as long as they take.
    pub(crate) streams_until: Option<Instant>,
    /// The log says already that requests were aborted at that time.
    pub(crate) said: bool,
    pub(crate) successor: Option<Arc<OwnedFd>>,
    pub(crate) next_look: Instant,
}

impl Drain {
    /// Whether there is a successor for idle connections.
    pub(crate) fn has_successor(&self) -> bool {
        self.successor.is_some()
    }

    /// Whether nothing is waited for any more.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        now >= self.until && self.streams_until.is_some_and(|until| now >= until)
    }

    /// When to look again.
    pub(crate) fn next_look(&self) -> Instant {
        self.next_look
    }
}

/// The data that is sent with a connection to another worker process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) awaits_proxy: bool,
    pub(crate) requests: u32,
    /// How long it may be idle. Worker processes of before there was this say nothing, which is the server's time.
    pub(crate) idle: IdleTime,
    /// The client's address, which a PROXY header may have named; the socket has only the address of its peer.
    pub(crate) remote: Option<SocketAddr>,
}

/// What is sent with a connection whose request waits: the request, and what was received after it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Carried<'a> {
    pub(crate) head: &'a [u8],
    pub(crate) body: &'a [u8],
    pub(crate) input: &'a [u8],
}

const NOTE_BYTES: usize = 40;

/// Most bytes that go with a connection. The buffer of a Unix socket has room for this (`net.core.wmem_default` is 208 KiB).
pub(crate) const CARRIED_BYTES_MAX: usize = 128 * 1024;

/// Room for one connection and what goes with it.
pub(crate) const ROOM_BYTES: usize = NOTE_BYTES + CARRIED_BYTES_MAX;

/// Another version of the executable may read what this one writes, and the other way round: a change of the note needs a new
/// number here.
const NOTE_VERSION: u8 = 1;

const NOTE_AWAITS_PROXY: u8 = 1;

const NOTE_HAS_REMOTE: u8 = 2;

impl Note {
    fn to_bytes(self, carried: Carried<'_>) -> [u8; NOTE_BYTES] {
        let (ip, port) = match self.remote {
            Some(SocketAddr::V4(address)) => (address.ip().to_ipv6_mapped(), address.port()),
            Some(SocketAddr::V6(address)) => (*address.ip(), address.port()),
            None => (Ipv6Addr::UNSPECIFIED, 0),
        };
        let awaits = if self.awaits_proxy { NOTE_AWAITS_PROXY } else { 0 };
        let has = if self.remote.is_some() { NOTE_HAS_REMOTE } else { 0 };
        let mut bytes = [0; NOTE_BYTES];
        (bytes[0], bytes[1]) = (awaits | has, NOTE_VERSION);
        bytes[4..8].copy_from_slice(&self.requests.to_le_bytes());
        bytes[8..10].copy_from_slice(&port.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.idle.bits().to_le_bytes());
        bytes[16..32].copy_from_slice(&ip.octets());
        let length = |part: &[u8]| u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes();
        bytes[32..36].copy_from_slice(&length(carried.head));
        bytes[36..40].copy_from_slice(&length(carried.body));
        bytes
    }

    /// A note, and what goes with the connection. `None` for a note of a version that is not known here.
    fn from_bytes(bytes: &[u8]) -> Option<(Note, Carried<'_>)> {
        let (note, rest) = bytes.split_first_chunk::<NOTE_BYTES>()?;
        let &[flags, version, _, _, r0, r1, r2, r3, p0, p1, i0, i1, _, _, _, _, ref more @ ..] = note;
        let (ip, lengths) = more.split_first_chunk::<16>()?;
        let &[h0, h1, h2, h3, b0, b1, b2, b3] = lengths else { return None };
        if version != NOTE_VERSION {
            return None;
        }
        let ip = Ipv6Addr::from(*ip).to_canonical();
        let note = Note {
            awaits_proxy: flags & NOTE_AWAITS_PROXY != 0,
            requests: u32::from_le_bytes([r0, r1, r2, r3]),
            idle: IdleTime::from_bits(u16::from_le_bytes([i0, i1])),
            remote: (flags & NOTE_HAS_REMOTE != 0).then(|| (ip, u16::from_le_bytes([p0, p1])).into()),
        };
        let (head, rest) = rest.split_at_checked(u32::from_le_bytes([h0, h1, h2, h3]) as usize)?;
        let (body, input) = rest.split_at_checked(u32::from_le_bytes([b0, b1, b2, b3]) as usize)?;
        Some((note, Carried { head, body, input }))
    }
}

/// A connection on its way to another worker process: the socket, a note about it, and its request if that waits.
pub(crate) fn send_connection(
    to: BorrowedFd<'_>,
    socket: BorrowedFd<'_>,
    note: &Note,
    carried: Carried<'_>,
) -> io::Result<()> {
    let note = note.to_bytes(carried);
    let descriptors = [socket];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let parts = [&note[..], carried.head, carried.body, carried.input].map(IoSlice::new);
    sendmsg(to, &parts, &mut control, flags)?;
    Ok(())
}

/// Takes one connection from a predecessor; `bytes` is where the kernel writes, [`ROOM_BYTES`] long. `None` at the end. Which
/// listen entry it came in by is for the receiver to find out ([`Shared::listen_of`](super::shared::Shared::listen_of)): the
/// predecessor counted those of another configuration.
///
/// # Errors
/// `WouldBlock` when there is none at the moment, `InvalidData` for what is no connection, otherwise what recvmsg(2) says.
pub(crate) fn receive_connection(
    from: BorrowedFd<'_>,
    bytes: &mut [u8],
) -> io::Result<Option<ConnectionTransfer>> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = match recvmsg(from, &mut [IoSliceMut::new(bytes)], &mut control, flags) {
        Ok(message) => message.bytes,
        // Reported once, if the predecessor has exited without having read everything; what it sent before can still be read.
        Err(Errno::CONNRESET) => return Err(io::ErrorKind::WouldBlock.into()),
        Err(error) => return Err(error.into()),
    };
    if received == 0 {
        return Ok(None);
    }
    let mut passed = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    });
    let socket = passed.next().and_then(|mut rights| rights.next());
    let known = bytes.get(..received).and_then(Note::from_bytes);
    let (Some(socket), Some((Note { awaits_proxy, requests, idle, remote }, carried))) = (socket, known)
    else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a connection as it is described here"));
    };
    Ok(Some(ConnectionTransfer {
        remote,
        listen: NO_LISTEN,
        foreign: is_unix(socket.as_fd()),
        requests,
        idle,
        awaits_proxy,
        input: carried.input.to_vec(),
        request: RequestTransfer {
            body: RequestBody { content: carried.body.to_vec(), ..RequestBody::default() },
            ..RequestTransfer::default()
        },
        text: carried.head.to_vec(),
        origin: Origin::Predecessor,
        secure: None,
        socket,
    }))
}

/// A socket that is none, or of which the kernel says nothing, is taken for one: it costs only another way to receive.
fn is_unix(socket: BorrowedFd<'_>) -> bool {
    let domain = rustix::net::sockopt::socket_domain(socket);
    !matches!(domain, Ok(AddressFamily::INET | AddressFamily::INET6))
}

#[cfg(test)]
mod tests;
