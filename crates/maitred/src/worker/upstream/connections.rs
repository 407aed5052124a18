//! Connections to HTTP servers: made without waiting, kept for further requests, and closed.
//!
//! | a connection is | it ends that by |
//! |---|---|
//! | connecting: `index` is set, not `connected` | the first event: its error, or none; the pool's `connect_timeout` |
//! | reused: `index` is set, `untried` | the end of the turn, when the request is sent, or the connection found to be of no use |
//! | busy: `index` is set | the end of the response, after which it is idle or closed; an error; its client's going away |
//! | idle: `index` is none | the next request; any bytes, since a server has nothing to say unasked; `IDLE_TIMEOUT`; drain |
//!
//! It belongs to one thread for all its life, and enters the epoll set once, edge-triggered, both ways.
//!
//! **Whether an idle connection is still good** has to be known when a request is sent on it, and not a moment earlier: what
//! the server has said unasked must not be taken for the answer, which may be meant for another client. What epoll has
//! reported by then does not tell, since it is as old as the turn. To ask each connection would be a system call for each
//! request. So requests on idle connections are sent at the end of the turn, behind one poll(2) for all of them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, socket_with, sockopt,
};
use slab::Slab;

use crate::budget::Permit;
use crate::config::{Pool, Upstream};
use crate::proxy::Balancer;
use crate::worker::foreign;
use crate::worker::layers::Exchanges;
use crate::worker::reactor::Reactor;
use crate::worker::token::Token;

/// Connections without a request that a thread keeps to one server. There are only as many as requests were under way at the
/// same time within [`IDLE_TIMEOUT`], since one that is idle is used before another one is made; this bounds their descriptors.
pub(in crate::worker) const IDLE_PER_UPSTREAM_MAX: usize = 256;
/// How long one is kept: as long as most servers keep theirs, so that it is mostly they who close.
pub(in crate::worker) const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of the server of a connection that leads to none.
const NO_SERVER: u16 = u16::MAX;
/// How often idle connections are looked at: their timeout is met to within this.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// One connection to a server.
#[derive(Debug)]
pub(in crate::worker) struct UpstreamConnection {
    socket: OwnedFd,
    /// Tells it from an earlier one of the same key.
    pub(in crate::worker) serial: u32,
    /// Pool, and server of it.
    pub(in crate::worker) at: (u16, u16),
    /// The client connection whose request it has; `None` while it is idle.
    pub(in crate::worker) index: Option<u32>,
    /// Connecting has ended, and well.
    pub(in crate::worker) connected: bool,
    /// It was idle, and nothing was sent on it since: what comes now is no answer.
    pub(in crate::worker) untried: bool,
    /// It is a Unix socket, through which the server could pass something.
    foreign: bool,
    /// A response has come over it before: that it is closed now may have been meant for nobody.
    pub(in crate::worker) used: bool,
    /// Epoll said that the server has finished sending, or that the connection has broken.
    pub(in crate::worker) hung_up: bool,
    idle_since: Instant,
    /// Its place among the descriptors.
    _held: Permit,
}

/// The servers of one pool, as one thread knows them.
#[derive(Debug)]
struct Servers {
    balancer: Balancer,
    /// Keys of idle connections, for each server; the one that was used last is at the end.
    idle: Vec<Vec<u32>>,
}

/// All connections of a thread to HTTP servers.
#[derive(Debug)]
pub(in crate::worker) struct Upstreams {
    connections: Slab<UpstreamConnection>,
    /// One per pool of the configuration; `None` for those that are no HTTP servers.
    pools: Vec<Option<Servers>>,
    serial: u32,
    next_sweep: Option<Instant>,
    /// Connections that were idle, and that get a request at the end of the turn: key and serial.
    reused: Vec<(u32, u32)>,
}

impl Upstreams {
    /// No connections yet.
    pub(in crate::worker) fn new(pools: &[Pool], thread: usize) -> Upstreams {
        let servers = |pool: &Pool| {
            pool.source.servers().map(|servers| Servers {
                balancer: Balancer::new(servers.len(), thread),
                idle: vec![Vec::new(); servers.len()],
            })
        };
        Upstreams {
            connections: Slab::new(),
            pools: pools.iter().map(servers).collect(),
            serial: 0,
            next_sweep: None,
            reused: Vec::new(),
        }
    }

    /// Whether requests wait for the end of a turn.
    pub(in crate::worker) fn has_reused(&self) -> bool {
        !self.reused.is_empty()
    }

    /// Takes the connections that get a request now: key, and the client's index.
    fn take_reused(&mut self) -> Vec<(u32, u32)> {
        let reused = std::mem::take(&mut self.reused);
        let waits = |(key, serial)| {
            let connection = self.connections.get(key as usize)?;
            let waits = connection.serial == serial && connection.untried;
            connection.index.filter(|_| waits).map(|index| (key, index))
        };
        reused.into_iter().filter_map(waits).collect()
    }

    /// Which of these connections the server has closed, or has said something on.
    fn stale(&self, reused: &[(u32, u32)]) -> Vec<bool> {
        let found = reused.iter().filter_map(|(key, _)| self.connections.get(*key as usize));
        let found: Vec<&UpstreamConnection> = found.collect();
        let wanted = PollFlags::IN | PollFlags::RDHUP;
        let mut polled: Vec<PollFd<'_>> =
            found.iter().map(|connection| PollFd::new(&connection.socket, wanted)).collect();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut polled, Some(&now)) {
            Ok(0) => vec![false; found.len()],
            Ok(_) => polled.iter().map(|one| !one.revents().is_empty()).collect(),
            Err(_) => found.iter().map(|connection| connection.is_stale()).collect(),
        }
    }

    /// The connection with this key.
    pub(in crate::worker) fn get(&mut self, key: u32) -> Option<&mut UpstreamConnection> {
        self.connections.get_mut(key as usize)
    }

    /// The socket of the connection with this key.
    pub(in crate::worker) fn socket(&self, key: u32) -> Option<BorrowedFd<'_>> {
        self.connections.get(key as usize).map(UpstreamConnection::socket)
    }

    /// Whether the connection with this key has been made.
    pub(in crate::worker) fn is_connected(&self, key: u32) -> bool {
        self.connections.get(key as usize).is_some_and(|connection| connection.connected)
    }

    /// The connection that an event is about, if it is still there.
    pub(in crate::worker) fn current(&mut self, key: u32, serial: u32) -> Option<&mut UpstreamConnection> {
        self.get(key).filter(|connection| connection.serial == serial)
    }

    /// What is known of the servers of a pool.
    pub(in crate::worker) fn balancer(&mut self, pool: u16) -> Option<&mut Balancer> {
        self.pools.get_mut(usize::from(pool))?.as_mut().map(|servers| &mut servers.balancer)
    }

    /// When idle connections want to be looked at.
    pub(in crate::worker) fn next_sweep(&self) -> Option<Instant> {
        self.next_sweep
    }

    /// Idle connections whose time is over. The next look is due if any other is left.
    fn expired(&mut self, now: Instant) -> Vec<u32> {
        let idle = self.connections.iter().filter(|(_, connection)| connection.index.is_none());
        let is_old = |connection: &UpstreamConnection| {
            now.saturating_duration_since(connection.idle_since) >= IDLE_TIMEOUT
        };
        let (old, kept): (Vec<_>, Vec<_>) = idle.partition(|(_, connection)| is_old(connection));
        self.next_sweep = (!kept.is_empty()).then(|| now + SWEEP_INTERVAL);
        old.into_iter().map(|(key, _)| key as u32).collect()
    }

    fn idle(&mut self, at: (u16, u16)) -> Option<&mut Vec<u32>> {
        self.pools.get_mut(usize::from(at.0))?.as_mut()?.idle.get_mut(usize::from(at.1))
    }
}

impl UpstreamConnection {
    /// The socket; it does not block.
    pub(in crate::worker) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Appends what has come, up to the buffer's capacity.
    pub(in crate::worker) fn receive(&self, rx: &mut Vec<u8>) -> Result<usize, Errno> {
        match self.foreign {
            true => foreign::receive(self.socket(), rx),
            false => recv(&self.socket, spare_capacity(rx), RecvFlags::empty()).map(|(_, received)| received),
        }
    }

    /// Whether the server has closed it, or has sent something unasked, since it was looked at last.
    fn is_stale(&self) -> bool {
        let peeked = recv(&self.socket, &mut [0_u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        self.hung_up || !matches!(peeked, Err(Errno::AGAIN))
    }
}

/// Begins to connect. Whether that has succeeded already is said, too.
fn open(upstream: &Upstream) -> io::Result<(OwnedFd, bool)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let family = match upstream {
        Upstream::Tcp { address, .. } if address.is_ipv4() => AddressFamily::INET,
        Upstream::Tcp { .. } => AddressFamily::INET6,
        Upstream::Unix(_) => AddressFamily::UNIX,
    };
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    let connected = match upstream {
        Upstream::Tcp { address, .. } => {
            sockopt::set_tcp_nodelay(&socket, true)?;
            connect(&socket, address)
        }
        Upstream::Unix(path) => {
            // Older kernels do not know it; what they let through is dealt with.
            let _ = maitred_sys::sockopt::refuse_descriptors(&socket);
            connect(&socket, &SocketAddrUnix::new(path)?)
        }
    };
    match connected {
        Ok(()) => Ok((socket, true)),
        Err(Errno::INPROGRESS) => Ok((socket, false)),
        Err(error) => Err(error.into()),
    }
}

impl Exchanges {
    /// An idle connection to this server, given to the client connection at `index`; the request is sent at the end of the
    /// turn.
    pub(in crate::worker) fn take_idle(&mut self, at: (u16, u16), index: u32) -> Option<u32> {
        let key = self.upstreams.idle(at)?.pop()?;
        let connection = self.upstreams.get(key)?;
        (connection.index, connection.untried) = (Some(index), true);
        let serial = connection.serial;
        self.upstreams.reused.push((key, serial));
        self.count_load(at, true);
        Some(key)
    }

    /// A new connection to this server for the client connection at `index`.
    ///
    /// # Errors
    /// What socket(2) or connect(2) say at once.
    pub(in crate::worker) fn open_upstream(&mut self, at: (u16, u16), index: u32) -> io::Result<u32> {
        let pool = self.shared.start.config.pools.get(usize::from(at.0));
        let servers = pool.and_then(|pool| pool.source.servers());
        let server = servers.and_then(|servers| servers.get(usize::from(at.1)));
        let held = self.shared.descriptor()?;
        let foreign = matches!(server, Some(Upstream::Unix(_)));
        let (socket, connected) = open(server.ok_or(io::ErrorKind::NotFound)?)?;
        let key = self.insert_upstream((socket, held), at, index, connected)?;
        if let Some(connection) = self.upstreams.get(key) {
            connection.foreign = foreign;
        }
        self.row.upstream_connections.add(1);
        self.count_load(at, true);
        Ok(key)
    }

    /// A connection to another thread, which answers the request of the client connection at `index` from this pool.
    ///
    /// # Errors
    /// What epoll_ctl(2) says.
    pub(in crate::worker) fn adopt_upstream(
        &mut self,
        socket: (OwnedFd, Permit),
        pool: u16,
        index: u32,
    ) -> io::Result<u32> {
        self.insert_upstream(socket, (pool, NO_SERVER), index, true)
    }

    fn insert_upstream(
        &mut self,
        (socket, held): (OwnedFd, Permit),
        at: (u16, u16),
        index: u32,
        connected: bool,
    ) -> io::Result<u32> {
        let now = self.clock.now;
        self.upstreams.serial = self.upstreams.serial.wrapping_add(1) & crate::worker::token::SERIAL_MASK;
        let serial = self.upstreams.serial;
        let entry = self.upstreams.connections.vacant_entry();
        let key = entry.key() as u32;
        use epoll::EventFlags as F;
        let token = Token::Upstream { key, serial }.pack();
        epoll::add(&self.processes.clients.base.epoll, &socket, token, F::IN | F::OUT | F::RDHUP | F::ET)?;
        entry.insert(UpstreamConnection {
            socket,
            serial,
            at,
            index: Some(index),
            connected,
            untried: false,
            foreign: false,
            used: false,
            hung_up: false,
            idle_since: now,
            _held: held,
        });
        Ok(key)
    }

    /// Requests that all threads have at a server.
    pub(in crate::worker) fn count_load(&self, at: (u16, u16), more: bool) {
        use std::sync::atomic::Ordering::Relaxed;
        let pool = self.shared.pools.get(usize::from(at.0));
        if let Some(load) = pool.and_then(|pool| pool.load.get(usize::from(at.1))) {
            if more {
                load.fetch_add(1, Relaxed)
            } else {
                load.fetch_sub(1, Relaxed)
            };
        }
    }

    /// The response is complete, and the server keeps the connection: for the next request, if there is room for it.
    pub(in crate::worker) fn keep_upstream(&mut self, key: u32) {
        let now = self.clock.now;
        let Some(connection) = self.upstreams.get(key) else { return };
        let at = connection.at;
        connection.used = true;
        let hung_up = connection.hung_up;
        let room = self.upstreams.idle(at).is_some_and(|idle| idle.len() < IDLE_PER_UPSTREAM_MAX);
        if hung_up || !room || self.drain.is_some() {
            return self.drop_upstream(key);
        }
        if let Some(connection) = self.upstreams.get(key) {
            (connection.index, connection.idle_since) = (None, now);
        }
        if let Some(idle) = self.upstreams.idle(at) {
            idle.push(key);
        }
        self.count_load(at, false);
        self.upstreams.next_sweep.get_or_insert(now + SWEEP_INTERVAL);
    }

    /// Whether nothing is in a connection's socket, and its server has not closed it.
    pub(in crate::worker) fn is_clean(&mut self, key: u32) -> bool {
        self.upstreams.get(key).is_some_and(|connection| !connection.is_stale())
    }

    /// The process ends: nothing is kept for later.
    pub(in crate::worker) fn close_idle_upstreams(&mut self) {
        let idle = self.upstreams.connections.iter().filter(|(_, connection)| connection.index.is_none());
        let idle: Vec<u32> = idle.map(|(key, _)| key as u32).collect();
        idle.into_iter().for_each(|key| self.drop_upstream(key));
    }

    /// Closes a connection. That takes it out of the epoll set, too, since nobody else has a copy.
    pub(in crate::worker) fn drop_upstream(&mut self, key: u32) {
        let Some(connection) = self.upstreams.connections.try_remove(key as usize) else { return };
        if connection.foreign {
            foreign::close(connection.socket);
        }
        if connection.index.is_some() {
            return self.count_load(connection.at, false);
        }
        if let Some(idle) = self.upstreams.idle(connection.at) {
            idle.retain(|other| *other != key);
        }
    }

    /// Once per turn: closes what has been idle for too long.
    pub(in crate::worker) fn sweep_upstreams(&mut self) {
        let now = self.clock.now;
        if self.upstreams.next_sweep.is_some_and(|at| at <= now) {
            self.upstreams.expired(now).into_iter().for_each(|key| self.drop_upstream(key));
        }
    }
}

impl Reactor {
    /// Once per turn: sends the requests that are to go over connections that were idle, if these are good.
    pub(in crate::worker) fn use_idle_upstreams(&mut self) {
        if !self.upstreams.has_reused() {
            return;
        }
        let reused = self.upstreams.take_reused();
        let stale = self.upstreams.stale(&reused);
        for ((key, index), stale) in reused.into_iter().zip(stale) {
            let Some(connection) = self.upstreams.get(key) else { continue };
            let serial = connection.serial;
            let stale = std::mem::take(&mut connection.untried) && (stale || connection.hung_up);
            self.guarded(Token::Upstream { key, serial }, |thread| match stale {
                true => thread.replace_upstream(index),
                false => thread.send_request(index),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use rustix::net::socketpair;

    fn idle(upstreams: &mut Upstreams, index: Option<u32>, since: Instant) -> (u32, OwnedFd) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (socket, far_end) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        let connection = UpstreamConnection {
            socket,
            serial: 7,
            at: (0, 0),
            index,
            connected: true,
            untried: index.is_some(),
            foreign: false,
            used: true,
            hung_up: false,
            idle_since: since,
            _held: Budget::new(0).begin(),
        };
        (upstreams.connections.insert(connection) as u32, far_end)
    }

    #[test]
    fn an_idle_connection_is_kept_for_its_time_and_one_with_a_request_as_long_as_it_takes() {
        let (mut upstreams, start) = (Upstreams::new(&[], 0), Instant::now());
        let (busy, _one) = idle(&mut upstreams, Some(3), start);
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
        let (good, _one) = idle(&mut upstreams, Some(1), now);
        let (gone, _two) = idle(&mut upstreams, Some(2), now);
        let (other, _three) = idle(&mut upstreams, Some(3), now);
        let (closed, far_end) = idle(&mut upstreams, Some(4), now);
        upstreams.reused = vec![(good, 7), (gone, 7), (other, 6), (closed, 7)];
        upstreams.connections.remove(gone as usize);
        drop(far_end);
        let reused = upstreams.take_reused();
        assert_eq!(reused, [(good, 1), (closed, 4)]);
        assert_eq!(upstreams.stale(&reused), [false, true]);
        assert!(!upstreams.has_reused());
    }
}
