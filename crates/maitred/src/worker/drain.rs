//! The end of a worker process: no new connections, idle ones to the successor, and the rest as they finish.
//!
//! An idle keep-alive connection is the hard case of a reload: the client may send its next request at the moment in
//! which the server closes, and could not know whether it was acted on. So it is not closed, but passed to the next
//! worker process, with whatever bytes are in it.
//!
//! | connection | after a reload | after a stop |
//! |---|---|---|
//! | idle, and can be passed on | to the successor, at once | closed at once |
//! | idle, and cannot (TLS) | its next response is the last; closed after `grace` without a request | closed at once |
//! | HTTP/2 | GOAWAY, twice; ends with its last stream | the same, within `grace` |
//! | with a request under way¹ | as long as `grace_streams` allows; then as one that is idle | aborted after `grace` |
//!
//! ¹ Also an upload, a download, a tunnel: everything whose end the client or an application decides. What waits for less
//! (the rest of a head, a queue, a disk, a client that lingers) has time limits of its own.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::time::{Duration, Instant};

use maitred_http::request::RequestHead;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use super::accept::NO_LISTEN;
use super::connection::{RetryState, State};
use super::inbox::{ConnectionTransfer, Origin};
use super::layers::{Admission, Exchanges, Requests};
use super::shared::Outgoing;
use super::wire::Wire;
use crate::control::DrainTime;

/// How often a draining thread looks whether it is done, and offers again what the successor had no room for.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The same when the grace period is over, and what is left may take hours.
const LOOK_SELDOM: Duration = Duration::from_millis(250);
/// How long a connection that has sent nothing yet may take to do so once there is no successor for it.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// A thread on its way out.
#[derive(Debug)]
pub struct Drain {
    /// Until when connections without a request are waited for, and for how long each may be without one after that.
    until: Instant,
    grace: Duration,
    /// Until when requests are waited for; `None` for as long as they take.
    streams_until: Option<Instant>,
    /// The log says that requests were aborted at that time.
    said: bool,
    successor: Option<Arc<OwnedFd>>,
    next_look: Instant,
}

impl Drain {
    /// Whether idle connections have somewhere to go.
    pub fn has_successor(&self) -> bool {
        self.successor.is_some()
    }

    /// Whether nothing is waited for any more.
    fn is_over(&self, now: Instant) -> bool {
        now >= self.until && self.streams_until.is_some_and(|until| now >= until)
    }

    /// When to look again.
    pub fn next_look(&self) -> Instant {
        self.next_look
    }
}

impl Admission {
    pub(super) fn begin_drain(&mut self, time: DrainTime, successor: Option<Arc<OwnedFd>>) {
        let now = self.clock.now;
        self.close_listeners();
        if self.drain.is_none() {
            // What this thread has accepted is counted as its load by now.
            self.shared.accepting.fetch_sub(1, AcqRel);
            self.shared.outbox.send(Outgoing::Closed);
        }
        self.shared.draining.store(true, Relaxed);
        let grace = Duration::from_millis(time.grace_ms);
        let streams = time.streams_ms.map(Duration::from_millis);
        self.drain = Some(Drain {
            until: now + grace,
            grace,
            streams_until: streams.map(|streams| now + streams),
            said: false,
            successor,
            next_look: now + LOOK_EVERY,
        });
        self.dismiss_idle();
        self.close_idle_upstreams();
    }

    /// What is left has so long, and no longer: the server stops, or there are too many worker processes like this one.
    pub(super) fn hurry(&mut self, left: Duration) {
        let now = self.clock.now;
        if let Some(drain) = &mut self.drain {
            let end = now + left;
            drain.until = drain.until.min(end);
            drain.streams_until = Some(drain.streams_until.map_or(end, |until| until.min(end)));
            drain.next_look = now;
        }
    }

    /// The successor has one itself: what becomes idle from now on goes straight there.
    pub(super) fn follow_to(&mut self, successor: Arc<OwnedFd>) {
        if let Some(drain) = &mut self.drain {
            drain.successor = Some(successor);
            self.dismiss_idle();
        }
    }

    /// Whether this thread, and with it the process, has nothing left to do.
    pub(super) fn is_finished(&self) -> bool {
        let Some(drain) = &self.drain else { return false };
        // Another thread may still send a connection here, for a process that this one is home to; or a predecessor, which has no
        // other successor. They are looked at first, because what they have sent is in transit before they are gone.
        let others_may = || {
            // Whoever accepts counts a connection before it stops accepting, so that the loads are looked at after that.
            if self.shared.predecessors.load(Acquire) > 0 || self.shared.accepting.load(Acquire) > 0 {
                return true;
            }
            let elsewhere = || self.shared.loads.iter().any(|load| load.load(Acquire) > 0);
            elsewhere() || self.shared.in_transit.load(Acquire) > 0 || elsewhere()
        };
        // Application processes that live on end with this process, unless they have been given back before; and what worker
        // processes before this one have there goes this way.
        let owes = || {
            !self.pools.links.is_empty()
                || self.pools.channels.iter().any(|(_, channel)| channel.is_pending_return())
        };
        self.connections.is_empty() && (drain.is_over(self.clock.now) || !(owes() || others_may()))
    }

    /// Once per turn: what could not be given away before, and the end of what has had its time.
    pub(super) fn drain_step(&mut self) {
        let now = self.clock.now;
        let Some(drain) = &mut self.drain else { return };
        if now < drain.next_look {
            return;
        }
        let late = now >= drain.until;
        drain.next_look = now + if late { LOOK_SELDOM } else { LOOK_EVERY };
        let next_end = drain.streams_until.filter(|until| *until > now);
        let next_end = if late { next_end } else { next_end.into_iter().chain([drain.until]).min() };
        drain.next_look = next_end.map_or(drain.next_look, |end| end.min(drain.next_look));
        self.settle_leaving();
        self.end_tunnels();
        let Some(drain) = &self.drain else { return };
        let (streams_over, over) =
            (drain.streams_until.is_some_and(|until| now >= until), drain.is_over(now));
        if streams_over {
            self.abort_all(|thread, index| over || thread.is_stream_like(index));
        }
        self.dismiss_idle();
        if late && !over {
            self.close_long_idle();
        }
    }

    /// Whether a request is under way on a connection whose end the client or an application decides.
    fn is_stream_like(&self, index: u32) -> bool {
        let Some(connection) = self.connections.get(index as usize) else { return false };
        match connection.state {
            State::Body | State::Spooling | State::Writing | State::HandedOff { .. } | State::Upstream(_) => {
                true
            }
            State::Http2 { session } => self.refuses(session),
            _ => false,
        }
    }

    /// Aborts connections that have had their time, those with a request first: what they had belongs to the log.
    fn abort_all(&mut self, which: impl Fn(&Admission, u32) -> bool) {
        let all = self.connections.iter().map(|(index, connection)| (index as u32, connection.is_idle()));
        let all = all.filter(|(index, _)| which(self, *index));
        let (idle, left): (Vec<_>, Vec<_>) = all.partition(|(_, idle)| *idle);
        if !left.is_empty()
            && !self.drain.as_mut().is_some_and(|drain| std::mem::replace(&mut drain.said, true))
        {
            tracing::warn!(
                thread = self.number,
                connections = left.len(),
                "aborted at the end of the grace period"
            );
        }
        for (index, _) in left.into_iter().chain(idle) {
            // One may have gone with another, of which it was a stream.
            if self.connections.contains(index as usize) {
                self.abort_any(index);
            }
        }
    }

    /// Closes connections that cannot be passed on, and have been without a request for the grace period.
    fn close_long_idle(&mut self) {
        let Some(grace) = self.drain.as_ref().map(|drain| drain.grace.as_millis() as i64) else { return };
        let now = self.wheel.millis(self.clock.now);
        let long = |index: &u32| self.idle_since(*index).is_some_and(|since| now - since >= grace);
        let all: Vec<u32> = self.connections.iter().map(|(index, _)| index as u32).filter(long).collect();
        for index in all {
            match self.connections.get(index as usize).map(|connection| connection.state) {
                Some(State::Http2 { session }) => self.dismiss_session(index, session, false),
                Some(_) => self.close_cleanly(index),
                None => {}
            }
        }
    }
}

impl Requests {
    fn dismiss_idle(&mut self) {
        let all: Vec<u32> = self.connections.iter().map(|(index, _)| index as u32).collect();
        all.into_iter().for_each(|index| self.dismiss(index));
    }

    /// Parts with a connection if it is idle: to the successor, or for good.
    pub(super) fn dismiss(&mut self, index: u32) {
        let Some(drain) = &self.drain else { return };
        let Some(connection) = self.connections.get(index as usize) else { return };
        match connection.state {
            State::Watching => return self.close(index),
            State::Http2 { session } => return self.leave(session),
            State::Queued { pool } => return self.give_waiting(index, usize::from(pool)),
            _ => {}
        }
        let (Some(socket), true) = (&connection.socket, connection.is_idle()) else { return };
        let movable = connection.wire == Wire::Clear;
        if !movable && drain.successor.is_some() {
            // What TLS has agreed on cannot be passed on. The next response says that it is the last one here.
            return;
        }
        if let Some(successor) = drain.successor.clone()
            && !connection.admin
        {
            return self.give(index, &successor);
        }
        if rustix::io::ioctl_fionread(socket).is_ok_and(|bytes| bytes > 0) {
            // Its next request is here already, and is answered with the news that it was the last.
            return self.look_again(index);
        }
        let until = connection.began + FIRST_REQUEST_TIMEOUT;
        if connection.requests > 0 || self.clock.now >= until {
            self.close_cleanly(index);
        }
    }

    /// While the master's executable is replaced, nobody starts application processes here: a request that none is left for goes
    /// on with its connection, if it can.
    fn give_waiting(&mut self, index: u32, pool: usize) {
        if !self.shared.alone.load(Relaxed) {
            return;
        }
        let lives = self.shared.pools[pool].live.iter().any(|live| live.load(Relaxed) > 0);
        let connection = &self.connections[index as usize];
        let fits = connection.exchange.as_ref().is_some_and(|exchange| {
            let bytes = exchange.head.bytes().len() + exchange.body.len() + exchange.input.len();
            exchange.spool.is_none() && !exchange.last && bytes <= CARRIED_BYTES_MAX
        });
        let movable = connection.wire == Wire::Clear && !connection.internal && fits;
        let successor = self.drain.as_ref().and_then(|drain| drain.successor.clone());
        if let Some(successor) = successor.filter(|_| movable && !lives) {
            self.give(index, &successor);
        }
    }

    fn give(&mut self, index: u32, successor: &OwnedFd) {
        let connection = &self.connections[index as usize];
        let Some(socket) = &connection.socket else { return };
        let note = Note {
            awaits_proxy: connection.awaits_proxy,
            requests: connection.requests,
            remote: connection.remote.address,
        };
        let waits = matches!(connection.state, State::Queued { .. });
        let exchange = connection.exchange.as_deref().filter(|_| waits);
        let carried = exchange.map(|exchange| Carried {
            head: exchange.head.bytes(),
            body: &exchange.body,
            input: &exchange.input,
        });
        match send_connection(successor.as_fd(), socket.as_fd(), &note, carried.unwrap_or_default()) {
            Ok(()) => {
                // The socket lives on in the successor, so closing it here would not take it out of the set.
                self.unwatch(index);
                self.row.given.add(1);
                self.remove(index);
            }
            // It has much to take in, or this is too much at once: again at the next look.
            Err(error) if waits || error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                tracing::warn!(%error, "the new worker process accepts no connections; they are closed after their next request");
                if let Some(drain) = &mut self.drain {
                    drain.successor = None;
                }
            }
        }
    }
}

impl Exchanges {
    /// Whether the client still takes what the kernel has of a response, if so slowly that there was no room for more, nor for
    /// what TLS has encrypted. It has its time anew, then, from when the last bytes left.
    pub(super) fn is_taken_slowly(&mut self, index: u32) -> bool {
        let Some(connection) = self.connections.get(index as usize) else { return false };
        let is_writing = match connection.state {
            State::Writing => true,
            State::Upstream(_) => self.waits_for_client(index),
            _ => false,
        };
        let timeout = self.load.write_timeout;
        let last = self.socket(index).filter(|_| is_writing).and_then(maitred_sys::delivery::last_left);
        let Some(left) = last.and_then(|ago| timeout.checked_sub(ago)).filter(|left| !left.is_zero()) else {
            return false;
        };
        self.arm_in(index, left);
        true
    }
}

/// What goes with a connection to another worker process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Note {
    awaits_proxy: bool,
    requests: u32,
    /// The client's address, which a PROXY header may have told; the socket knows its peer only.
    remote: Option<SocketAddr>,
}

/// What goes with a connection whose request waits: the request, and what was received behind it.
#[derive(Debug, Clone, Copy, Default)]
struct Carried<'a> {
    head: &'a [u8],
    body: &'a [u8],
    input: &'a [u8],
}

const NOTE_BYTES: usize = 40;
/// Most bytes that go with a connection. The buffer of a Unix socket has room for this (`net.core.wmem_default` is 208 KiB).
const CARRIED_BYTES_MAX: usize = 128 * 1024;
/// Room for one connection and what goes with it.
pub const ROOM_BYTES: usize = NOTE_BYTES + CARRIED_BYTES_MAX;
/// Another image of the executable may read what this one writes, and the other way round: whoever changes the note changes this.
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
        bytes[16..32].copy_from_slice(&ip.octets());
        let length = |part: &[u8]| u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes();
        bytes[32..36].copy_from_slice(&length(carried.head));
        bytes[36..40].copy_from_slice(&length(carried.body));
        bytes
    }

    /// A note, and what goes with the connection. `None` for a note of a version that is not known here.
    fn from_bytes(bytes: &[u8]) -> Option<(Note, Carried<'_>)> {
        let (note, rest) = bytes.split_first_chunk::<NOTE_BYTES>()?;
        let &[flags, version, _, _, r0, r1, r2, r3, p0, p1, _, _, _, _, _, _, ref more @ ..] = note;
        let (ip, lengths) = more.split_first_chunk::<16>()?;
        let &[h0, h1, h2, h3, b0, b1, b2, b3] = lengths else { return None };
        if version != NOTE_VERSION {
            return None;
        }
        let ip = Ipv6Addr::from(*ip).to_canonical();
        let note = Note {
            awaits_proxy: flags & NOTE_AWAITS_PROXY != 0,
            requests: u32::from_le_bytes([r0, r1, r2, r3]),
            remote: (flags & NOTE_HAS_REMOTE != 0).then(|| (ip, u16::from_le_bytes([p0, p1])).into()),
        };
        let (head, rest) = rest.split_at_checked(u32::from_le_bytes([h0, h1, h2, h3]) as usize)?;
        let (body, input) = rest.split_at_checked(u32::from_le_bytes([b0, b1, b2, b3]) as usize)?;
        Some((note, Carried { head, body, input }))
    }
}

/// A connection on its way to another worker process: the socket, a note about it, and its request if that waits.
fn send_connection(
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
pub fn receive_connection(from: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<Option<ConnectionTransfer>> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = match recvmsg(from, &mut [IoSliceMut::new(bytes)], &mut control, flags) {
        Ok(message) => message.bytes,
        // Said once, when the predecessor went without having read everything; what it sent before is still there.
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
    let (Some(socket), Some((Note { awaits_proxy, requests, remote }, carried))) = (socket, known) else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a connection as it is described here"));
    };
    Ok(Some(ConnectionTransfer {
        remote,
        listen: NO_LISTEN,
        requests,
        awaits_proxy,
        input: carried.input.to_vec(),
        head: RequestHead::default(),
        text: carried.head.to_vec(),
        routed: None,
        path: None,
        body: carried.body.to_vec(),
        spool: None,
        again: RetryState::Never,
        waits_since: None,
        origin: Origin::Predecessor,
        secure: None,
        across: None,
        socket,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_arrives_with_its_bytes_and_its_past() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let (old, new) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        io::Write::write_all(&mut client, b"GET /").unwrap();

        // A PROXY header has said who the client is: the socket could not tell.
        let remote: Option<SocketAddr> = "192.0.2.7:99".parse().ok();
        let note = Note { awaits_proxy: true, requests: 70_000, remote };
        let mut room = vec![0; ROOM_BYTES];
        let waiting = Carried { head: b"POST / HTTP/1.1\r\n\r\n", body: &[b'b'; 70_000], input: b"GET" };
        send_connection(old.as_fd(), accepted.as_fd(), &note, waiting).unwrap();
        send_connection(old.as_fd(), accepted.as_fd(), &note, Carried::default()).unwrap();
        drop(accepted);
        let transfer = receive_connection(new.as_fd(), &mut room).unwrap().unwrap();
        assert_eq!(
            (&*transfer.text, &*transfer.body, &*transfer.input),
            (waiting.head, waiting.body, waiting.input)
        );
        let transfer = receive_connection(new.as_fd(), &mut room).unwrap().unwrap();
        assert!(transfer.text.is_empty() && transfer.body.is_empty() && transfer.input.is_empty());
        assert_eq!((transfer.requests, transfer.remote), (70_000, remote));
        assert!(transfer.awaits_proxy);
        for remote in [None, "[2001:db8::1]:1".parse().ok(), "[::]:0".parse().ok()] {
            let note = Note { awaits_proxy: false, remote, ..note };
            let bytes = note.to_bytes(Carried::default());
            assert_eq!(Note::from_bytes(&bytes).map(|(note, _)| note), Some(note));
        }
        let mut bytes = [0; 5];
        io::Read::read_exact(&mut TcpStream::from(transfer.socket), &mut bytes).unwrap();
        assert_eq!(&bytes, b"GET /");

        let empty = receive_connection(new.as_fd(), &mut room).unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
        // What another version says of a connection is not guessed; it is closed.
        let mut strange = note.to_bytes(waiting);
        assert!(Note::from_bytes(&strange).is_none(), "less than it says");
        strange = note.to_bytes(Carried::default());
        strange[1] += 1;
        assert!(Note::from_bytes(&strange).is_none());
        rustix::net::send(&old, &strange, SendFlags::empty()).unwrap();
        let refused = receive_connection(new.as_fd(), &mut room).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        drop(old);
        assert!(receive_connection(new.as_fd(), &mut room).unwrap().is_none());
    }
}
