//! The connections of a thread to servers, and which of them are idle.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::foreign;
use crate::keys::{ConnKey, Table, UpstreamId, UpstreamKey};
use crate::proxy::{Balancer, Choice, List, Row, Server, ServerTable, Wish};
use crate::shared::PoolShared;
use crate::upstream::far_end::{FarEnd, Secured};
use crate::upstream::http2::Http2;
use crate::upstream::retries::RetryBudget;
use crate::upstream::{Attempt, By};
use maitred_base::budget::Permit;

/// Connections without a request that a thread keeps to one server. The thread keeps only as many as requests were under way at
/// the same time within [`IDLE_TIMEOUT`], since one that is idle is used before another one is made; this bounds their
/// descriptors.
pub(crate) const IDLE_PER_UPSTREAM_MAX: usize = 256;

/// How long one is kept: as long as most servers keep theirs, so that it is mostly the server that closes.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// How often idle connections are looked at: their timeout is met to within this.
pub(crate) const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Buffers of requests that are kept for the next ones, and how large they may be. Each is larger than what the allocator has at
/// hand, so that it took ten times as long as any other allocation of a request.
const SPARE_BUFFERS_MAX: usize = 64;
const SPARE_BUFFER_BYTES_MAX: usize = 4096;

/// One connection to a server.
#[derive(Debug)]
pub(crate) struct UpstreamConnection {
    pub(crate) socket: OwnedFd,
    /// What goes ahead of all else; it belongs to one client then.
    pub(crate) preface: Option<Box<Preface>>,
    /// TLS over it.
    pub(crate) tls: Option<Box<Secured>>,
    /// The session of HTTP/2, if the connection has streams; `index` is none then.
    pub(crate) http2: Option<Box<Http2>>,
    /// Distinguishes it from an earlier one of the same key.
    pub(crate) serial: u32,
    /// Pool, and slot of its server.
    pub(crate) at: (u16, u16),
    /// The server, which keeps its slot meanwhile; `None` for another thread.
    pub(crate) server: Option<Arc<Server>>,
    /// The client connection whose request it has; `None` while it is idle.
    pub(crate) index: Option<ConnKey>,
    /// Connecting has ended, and well.
    pub(crate) connected: bool,
    /// The connection was idle, and nothing was sent on it since: what comes now is no response.
    pub(crate) untried: bool,
    /// The socket is a Unix socket, through which the server could pass something.
    pub(crate) foreign: bool,
    /// A response has come over it before: if it is closed now, the server may have closed it as an idle one.
    pub(crate) used: bool,
    /// Epoll reported that the server has finished sending, or that the connection has broken.
    pub(crate) hung_up: bool,
    pub(crate) idle_since: Instant,
    /// The descriptor of the connection in the budget of descriptors.
    pub(crate) _held: Permit,
}

/// Bytes that a connection begins with, ahead of TLS: a header of the PROXY protocol.
#[derive(Debug)]
pub(crate) struct Preface {
    bytes: Box<[u8]>,
    sent: usize,
}

impl Preface {
    /// Nothing of these bytes has been sent.
    pub(crate) fn new(bytes: &[u8]) -> Box<Preface> {
        Box::new(Preface { bytes: bytes.into(), sent: 0 })
    }

    /// Sends what the socket takes; more follows at once. True when all of it has been sent.
    fn send(&mut self, socket: BorrowedFd<'_>) -> Result<bool, Errno> {
        while let Some(rest) = self.bytes.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match send(socket, rest, SendFlags::NOSIGNAL | SendFlags::DONTWAIT | SendFlags::MORE) {
                Ok(sent) => self.sent += sent,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// The servers of one pool, in one thread.
#[derive(Debug)]
struct Servers {
    balancer: Balancer,
    /// Keys of idle connections, by slot; the one that was used last is at the end. Of HTTP/2, all of them.
    idle: Vec<Vec<UpstreamKey>>,
}

/// All connections of a thread to HTTP servers.
#[derive(Debug)]
pub(crate) struct Upstreams {
    pub(crate) connections: Table<UpstreamKey, UpstreamConnection>,
    /// The servers of each pool of the configuration; `None` for pools that are no HTTP servers.
    pools: Vec<Option<Servers>>,
    pub(crate) serial: u32,
    pub(crate) next_sweep: Option<Instant>,
    /// Connections that were idle, and that get a request at the end of the turn.
    pub(crate) reused: Vec<UpstreamId>,
    /// Connections of HTTP/2 with something to send at the end of the turn.
    pub(crate) unsent_http2: Vec<UpstreamId>,
    /// Connections of HTTP/2 that had more than one turn takes.
    pub(crate) later_http2: Vec<UpstreamId>,
    /// How many requests of each pool may be retried.
    budgets: Vec<RetryBudget>,
    /// Empty buffers for requests.
    spare: Vec<Vec<u8>>,
}

impl Upstreams {
    /// No connections yet.
    pub(crate) fn new(pools: &[PoolShared], thread: usize) -> Upstreams {
        let servers = |pool: &PoolShared| {
            let balancer = Balancer::new(pool.servers.as_ref()?, thread);
            Some(Servers { balancer, idle: Vec::new() })
        };
        Upstreams {
            connections: Table::new(),
            pools: pools.iter().map(servers).collect(),
            serial: 0,
            next_sweep: None,
            reused: Vec::new(),
            unsent_http2: Vec::new(),
            later_http2: Vec::new(),
            budgets: vec![RetryBudget::default(); pools.len()],
            spare: Vec::new(),
        }
    }

    /// How many requests of this pool may be retried.
    pub(crate) fn budget(&mut self, pool: u16) -> Option<&mut RetryBudget> {
        self.budgets.get_mut(usize::from(pool))
    }

    /// An empty buffer for a request.
    pub(crate) fn take_buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Keeps the buffer of a request that was answered.
    pub(crate) fn recycle(&mut self, attempt: Attempt) {
        let By::Server(call) = attempt.by else { return };
        let mut buffer = call.into_buffer();
        if self.spare.len() < SPARE_BUFFERS_MAX && buffer.capacity() <= SPARE_BUFFER_BYTES_MAX {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// Whether requests wait for the end of a turn.
    pub(crate) fn has_reused(&self) -> bool {
        !self.reused.is_empty()
    }

    /// Takes the connections that get a request now: key, and the client's index.
    pub(crate) fn take_reused(&mut self) -> Vec<(UpstreamKey, ConnKey)> {
        let reused = std::mem::take(&mut self.reused);
        let waits = |UpstreamId { key, serial }| {
            let connection = self.connections.get(key)?;
            let waits = connection.serial == serial && connection.untried;
            connection.index.filter(|_| waits).map(|index| (key, index))
        };
        reused.into_iter().filter_map(waits).collect()
    }

    /// Which of these connections the server has closed, or has sent something on.
    pub(crate) fn stale(&mut self, reused: &[(UpstreamKey, ConnKey)]) -> Vec<bool> {
        let reported = self.reported(reused);
        let keys = reused.iter().map(|(key, _)| *key);
        // Of TLS, something may have come that is none of the server's words.
        keys.zip(reported).map(|(key, is)| is && self.get(key).is_none_or(|found| found.is_stale())).collect()
    }

    /// On which of these connections something has happened.
    fn reported(&self, reused: &[(UpstreamKey, ConnKey)]) -> Vec<bool> {
        let found = reused.iter().filter_map(|(key, _)| self.connections.get(*key));
        let found: Vec<&UpstreamConnection> = found.collect();
        let wanted = PollFlags::IN | PollFlags::RDHUP;
        let mut polled: Vec<PollFd<'_>> =
            found.iter().map(|connection| PollFd::new(&connection.socket, wanted)).collect();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut polled, Some(&now)) {
            Ok(0) => vec![false; found.len()],
            Ok(_) => polled.iter().map(|one| !one.revents().is_empty()).collect(),
            Err(_) => vec![true; found.len()],
        }
    }

    /// The connection with this key.
    pub(crate) fn get(&mut self, key: UpstreamKey) -> Option<&mut UpstreamConnection> {
        self.connections.get_mut(key)
    }

    /// What there is of HTTP/2 on the connection with this key.
    pub(crate) fn http2(&mut self, key: UpstreamKey) -> Option<&mut Http2> {
        self.get(key)?.http2.as_deref_mut()
    }

    /// The way to the server of the connection with this key.
    pub(crate) fn far_end(&mut self, key: UpstreamKey) -> Option<FarEnd<'_>> {
        self.get(key).map(UpstreamConnection::far_end)
    }

    /// The socket of the connection with this key.
    pub(crate) fn socket(&self, key: UpstreamKey) -> Option<BorrowedFd<'_>> {
        self.connections.get(key).map(UpstreamConnection::socket)
    }

    /// Whether the connection with this key has been made.
    pub(crate) fn is_connected(&self, key: UpstreamKey) -> bool {
        self.connections.get(key).is_some_and(|connection| connection.connected)
    }

    /// The connection that an event is about, if it is still there.
    pub(crate) fn current(&mut self, id: UpstreamId) -> Option<&mut UpstreamConnection> {
        self.get(id.key).filter(|connection| connection.serial == id.serial)
    }

    /// The server for a request, which is counted there.
    pub(crate) fn choose(
        &mut self,
        (pool, table): (u16, &ServerTable),
        now: Instant,
        wish: &Wish<'_>,
    ) -> Choice {
        match self.pools.get_mut(usize::from(pool)) {
            Some(Some(servers)) => servers.balancer.choose(table, now, wish),
            _ => Choice::Nothing,
        }
    }

    /// Takes the present list of a pool's servers, if it is another one. Gives back the idle connections to those that have gone.
    #[inline]
    pub(crate) fn refresh(&mut self, pool: u16, table: &ServerTable) -> Vec<UpstreamKey> {
        let Some(Some(servers)) = self.pools.get_mut(usize::from(pool)) else { return Vec::new() };
        match servers.balancer.refresh(table) {
            None => Vec::new(),
            Some(before) => servers.leave(&before),
        }
    }

    /// What the list of this thread says of a server.
    pub(crate) fn row(&self, at: (u16, u16)) -> Option<&Row> {
        self.pools.get(usize::from(at.0))?.as_ref()?.balancer.list().row(at.1)
    }

    /// The servers of a pool, as this thread knows them.
    pub(crate) fn list(&self, pool: u16) -> Option<&List> {
        Some(self.pools.get(usize::from(pool))?.as_ref()?.balancer.list())
    }

    /// When idle connections have to be looked at.
    pub(crate) fn next_sweep(&self) -> Option<Instant> {
        self.next_sweep
    }

    /// Idle connections whose time is over. The next look is due if any other is left.
    pub(crate) fn expired(&mut self, now: Instant) -> Vec<UpstreamKey> {
        let idle = self.connections.iter().filter(|(_, connection)| connection.is_idle());
        let is_old = |connection: &UpstreamConnection| {
            now.saturating_duration_since(connection.idle_since) >= IDLE_TIMEOUT
        };
        let (old, kept): (Vec<_>, Vec<_>) = idle.partition(|(_, connection)| is_old(connection));
        self.next_sweep = (!kept.is_empty()).then(|| now + SWEEP_INTERVAL);
        old.into_iter().map(|(key, _)| key).collect()
    }

    pub(crate) fn idle(&mut self, at: (u16, u16)) -> Option<&mut Vec<UpstreamKey>> {
        self.pools.get_mut(usize::from(at.0))?.as_mut()?.idle.get_mut(usize::from(at.1))
    }

    /// The same, to put another one there. `None` if the server has gone.
    pub(crate) fn idle_of(&mut self, at: (u16, u16), server: &Arc<Server>) -> Option<&mut Vec<UpstreamKey>> {
        let servers = self.pools.get_mut(usize::from(at.0))?.as_mut()?;
        let row = servers.balancer.list().row(at.1);
        if !row.is_some_and(|row| Arc::ptr_eq(&row.server, server)) {
            return None;
        }
        let slot = usize::from(at.1);
        if servers.idle.len() <= slot {
            servers.idle.resize_with(slot + 1, Vec::new);
        }
        servers.idle.get_mut(slot)
    }
}

impl Servers {
    /// The idle connections to servers of a list that the present one does not have.
    fn leave(&mut self, before: &List) -> Vec<UpstreamKey> {
        let present = self.balancer.list();
        let stays =
            |slot: u16, row: &Row| present.row(slot).is_some_and(|now| Arc::ptr_eq(&now.server, &row.server));
        let gone = before.rows().filter(|(slot, row)| !stays(*slot, row)).map(|(slot, _)| usize::from(slot));
        let idle = gone.filter_map(|slot| self.idle.get(slot)).flatten().copied();
        idle.collect()
    }
}

impl UpstreamConnection {
    /// Whether it has no request.
    pub(crate) fn is_idle(&self) -> bool {
        self.index.is_none() && self.http2.as_ref().is_none_or(|http2| http2.is_idle())
    }

    /// Whether it is of HTTP/2, and can have another stream. `most`: how many it has at most before it has said so.
    pub(crate) fn takes_more(&self, most: u32) -> bool {
        let most = if self.connected { None } else { Some(most) };
        !self.hung_up && self.http2.as_ref().is_some_and(|http2| http2.takes_more(most))
    }

    /// How many streams its server has said that it takes.
    pub(crate) fn streams_max(&self) -> Option<u32> {
        self.http2.as_ref().filter(|_| self.connected).map(|http2| http2.session.streams_max())
    }

    /// Whether it is of HTTP/2, and more can be read from it than was.
    pub(crate) fn has_more_http2(&self) -> bool {
        self.http2.as_ref().is_some_and(|http2| http2.readable && !http2.session.is_full())
    }

    /// Goes on with what comes before the session of HTTP/2, once there is a connection. True when that is over.
    ///
    /// # Errors
    /// Why the server cannot be used, for the operator.
    pub(crate) fn prepare_http2(&mut self) -> Result<bool, String> {
        let Some(http2) = self.http2.as_deref_mut() else { return Ok(false) };
        if let Some(secured) = &mut self.tls {
            if !secured.shake_hands_before(self.socket.as_fd(), self.hung_up, &mut http2.rest)? {
                return Ok(false);
            }
            if !secured.chose_http2() {
                return Err("it does not speak HTTP/2 (ALPN)".to_owned());
            }
        }
        http2.open = true;
        Ok(true)
    }

    /// The socket; it does not block.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The way to the server.
    pub(crate) fn far_end(&mut self) -> FarEnd<'_> {
        match &mut self.tls {
            None => FarEnd::Clear(self.socket.as_fd()),
            Some(secured) => FarEnd::Tls(self.socket.as_fd(), secured),
        }
    }

    /// Appends what has come, up to the buffer's capacity. How many bytes that were, 0 at the end, and whether there may be more
    /// that no event will announce.
    pub(crate) fn receive(&mut self, rx: &mut Vec<u8>) -> Result<(usize, bool), Errno> {
        let hung_up = self.hung_up;
        if let Some(secured) = &mut self.tls {
            let received = secured.receive(self.socket.as_fd(), hung_up, rx);
            return received.map(|(bytes, more)| (bytes, more || hung_up));
        }
        let room = rx.capacity() - rx.len();
        let received = match self.foreign {
            true => foreign::receive(self.socket(), rx),
            false => recv(&self.socket, spare_capacity(rx), RecvFlags::empty()).map(|(_, received)| received),
        };
        // A short read has emptied the socket: what comes later makes an edge. Only the end of the stream, if it was reported
        // together with these bytes, does not.
        received.map(|bytes| (bytes, bytes == room || hung_up))
    }

    /// Whether the server has closed it, or has sent something without a request.
    pub(crate) fn is_stale(&mut self) -> bool {
        if self.hung_up {
            return true;
        }
        match &mut self.tls {
            Some(secured) => !secured.is_silent(self.socket.as_fd()),
            None => {
                let peeked = recv(&self.socket, &mut [0_u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
                !matches!(peeked, Err(Errno::AGAIN))
            }
        }
    }

    /// Goes on with what comes before the first request, once there is a connection. True when that is over.
    ///
    /// # Errors
    /// Why the server cannot be used, for the operator.
    pub(crate) fn prepare(&mut self) -> Result<bool, String> {
        if let Some(preface) = &mut self.preface
            && !preface.send(self.socket.as_fd()).map_err(|error| error.to_string())?
        {
            return Ok(false);
        }
        match &mut self.tls {
            None => Ok(true),
            Some(secured) => secured.shake_hands(self.socket.as_fd(), self.hung_up),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::conn;
    use maitred_base::budget::Budget;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn idle(upstreams: &mut Upstreams, index: Option<ConnKey>, since: Instant) -> (UpstreamKey, OwnedFd) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (socket, far_end) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        let connection = UpstreamConnection {
            socket,
            preface: None,
            tls: None,
            http2: None,
            serial: 7,
            at: (0, 0),
            server: None,
            index,
            connected: true,
            untried: index.is_some(),
            foreign: false,
            used: true,
            hung_up: false,
            idle_since: since,
            _held: Budget::new(0).begin(),
        };
        (upstreams.connections.insert(connection), far_end)
    }

    #[test]
    fn an_idle_connection_is_kept_for_its_time_and_one_with_a_request_as_long_as_it_takes() {
        let (mut upstreams, start) = (Upstreams::new(&[], 0), Instant::now());
        let (busy, _one) = idle(&mut upstreams, Some(conn(3)), start);
        let (old, _two) = idle(&mut upstreams, None, start);
        let (young, _three) = idle(&mut upstreams, None, start + SWEEP_INTERVAL);
        assert!(upstreams.expired(start + IDLE_TIMEOUT - Duration::from_millis(1)).is_empty());
        assert_eq!(upstreams.expired(start + IDLE_TIMEOUT), [old]);
        assert_eq!(upstreams.next_sweep(), Some(start + IDLE_TIMEOUT + SWEEP_INTERVAL), "one is left");
        assert_eq!(upstreams.expired(start + 2 * IDLE_TIMEOUT), [old, young]);
        assert_eq!(upstreams.next_sweep(), None);
        assert!(upstreams.get(busy).is_some());
    }

    #[test]
    fn a_connection_that_has_gone_or_was_used_since_gets_no_request_at_the_end_of_the_turn() {
        let (mut upstreams, now) = (Upstreams::new(&[], 0), Instant::now());
        let (good, _one) = idle(&mut upstreams, Some(conn(1)), now);
        let (gone, _two) = idle(&mut upstreams, Some(conn(2)), now);
        let (other, _three) = idle(&mut upstreams, Some(conn(3)), now);
        let (closed, far_end) = idle(&mut upstreams, Some(conn(4)), now);
        upstreams.reused = [(good, 7), (gone, 7), (other, 6), (closed, 7)]
            .map(|(key, serial)| UpstreamId { key, serial })
            .into();
        upstreams.connections.remove(gone);
        drop(far_end);
        let reused = upstreams.take_reused();
        assert_eq!(reused, [(good, conn(1)), (closed, conn(4))]);
        assert_eq!(upstreams.stale(&reused), [false, true]);
        assert!(!upstreams.has_reused());
    }
}
