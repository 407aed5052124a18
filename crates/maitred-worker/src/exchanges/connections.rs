//! Connections to HTTP servers: made without waiting, kept for further requests, and closed.
//!
//! | a connection is | it stays so until |
//! |---|---|
//! | connecting: `index` is set, not `connected` | the first event: its error, or none; the pool's `connect_timeout` |
//! | reused: `index` is set, `untried` | the end of the turn, when the request is sent, or the connection found to be of no use |
//! | busy: `index` is set | the end of the response, after which it is idle or closed; an error; the end of the client |
//! | idle: `index` is none | the next request; any bytes, since a server sends nothing without a request; `IDLE_TIMEOUT`; drain |
//!
//! A connection belongs to one thread for all its life, and enters the epoll set once, edge-triggered, both ways.
//!
//! **Whether an idle connection is still good** has to be known when a request is sent on it, and not a moment earlier: what the
//! server has sent without a request must not be taken for the response, since it may be meant for another client. The events of
//! epoll are no proof, since they are as old as the turn. To check each connection by itself would be a system call for each
//! request. So requests on idle connections are sent at the end of the turn, after one poll(2) for all of them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};
use rustls::pki_types::ServerName;

use super::Exchanges;
use crate::foreign;
use crate::inbox::Message;
use crate::keys::{ConnKey, UpstreamId, UpstreamKey};
use crate::proxy::Server;
use crate::token::Token;
use crate::upstream::connections::{IDLE_PER_UPSTREAM_MAX, Preface, SWEEP_INTERVAL, UpstreamConnection};
use crate::upstream::far_end::Secured;
use maitred_base::budget::Permit;
use maitred_config::{Pool, Upstream};

/// Number of the server of a connection that leads to no server.
const NO_SERVER: u16 = u16::MAX;

/// Begins to connect. The second value is whether that has succeeded already.
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
            // Older kernels do not have this option; descriptors that arrive there are received and closed.
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
    pub(crate) fn take_idle(&mut self, at: (u16, u16), index: ConnKey) -> Option<UpstreamKey> {
        let key = self.upstreams.idle(at)?.pop()?;
        let connection = self.upstreams.get(key)?;
        (connection.index, connection.untried) = (Some(index), true);
        let serial = connection.serial;
        self.upstreams.reused.push(UpstreamId { key, serial });
        Some(key)
    }

    /// A connection to this server for the client connection at `index`: an idle one, unless it has to be a new one.
    ///
    /// # Errors
    /// The errors of [`Exchanges::open_upstream`].
    pub(crate) fn connect_upstream(
        &mut self,
        at: (u16, u16),
        index: ConnKey,
        fresh: bool,
        preface: Option<&[u8]>,
    ) -> io::Result<UpstreamKey> {
        let idle = if fresh { None } else { self.take_idle(at, index) };
        idle.map_or_else(|| self.open_upstream(at, index, preface), Ok)
    }

    /// A new connection to this server for the client connection at `index`, which begins with `preface` if there is one.
    ///
    /// # Errors
    /// What socket(2) or connect(2) say at once.
    pub(crate) fn open_upstream(
        &mut self,
        at: (u16, u16),
        index: ConnKey,
        preface: Option<&[u8]>,
    ) -> io::Result<UpstreamKey> {
        let pool = self.shared.start.config.pools.get(usize::from(at.0));
        let row = self.upstreams.row(at).ok_or(io::ErrorKind::NotFound)?;
        let server = Arc::clone(&row.server);
        let held = self.shared.descriptor()?;
        let foreign = matches!(server.upstream, Upstream::Unix(_));
        let secured = pool.and_then(|pool| self.secured(at.0, pool, &server.upstream)).transpose()?;
        let (socket, connected) = open(&server.upstream)?;
        // A preface or a handshake comes first.
        let connected = connected && secured.is_none() && preface.is_none();
        let key = self.insert_upstream((socket, held), at, index, connected)?;
        if let Some(connection) = self.upstreams.get(key) {
            (connection.foreign, connection.tls, connection.server) = (foreign, secured, Some(server));
            connection.preface = preface.map(Preface::new);
        }
        self.row.upstream_connections.add(1);
        Ok(key)
    }

    /// A session for a server of a pool that is spoken to over TLS.
    fn secured(&self, number: u16, pool: &Pool, server: &Upstream) -> Option<io::Result<Box<Secured>>> {
        let settings = pool.tls.as_ref()?;
        let name = settings.server_name.as_deref().unwrap_or_else(|| server.host());
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other);
        let config = self.shared.tls.towards(usize::from(number)).ok_or_else(|| io::Error::other("no TLS"));
        Some(name.and_then(|name| Secured::new(config?, name).map_err(io::Error::other)))
    }

    /// A connection to another thread, which answers the request of the client connection at `index` from this pool.
    ///
    /// # Errors
    /// What epoll_ctl(2) says.
    pub(crate) fn adopt_upstream(
        &mut self,
        socket: (OwnedFd, Permit),
        pool: u16,
        index: ConnKey,
    ) -> io::Result<UpstreamKey> {
        self.insert_upstream(socket, (pool, NO_SERVER), index, true)
    }

    fn insert_upstream(
        &mut self,
        (socket, held): (OwnedFd, Permit),
        at: (u16, u16),
        index: ConnKey,
        connected: bool,
    ) -> io::Result<UpstreamKey> {
        let now = self.clock.now;
        self.upstreams.serial = self.upstreams.serial.wrapping_add(1) & crate::token::SERIAL_MASK;
        let serial = self.upstreams.serial;
        let id = UpstreamId { key: self.upstreams.connections.vacant_key(), serial };
        use epoll::EventFlags as F;
        let token = Token::Upstream(id).pack();
        epoll::add(&self.processes.clients.base.epoll, &socket, token, F::IN | F::OUT | F::RDHUP | F::ET)?;
        let key = self.upstreams.connections.insert(UpstreamConnection {
            socket,
            preface: None,
            tls: None,
            http2: None,
            serial,
            at,
            server: None,
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

    /// A request at a server has ended.
    pub(crate) fn end_at_server(&self, pool: u16, server: Option<&Server>) {
        let (Some(table), Some(server)) = (self.shared.servers(pool), server) else { return };
        table.leave(server);
        // Also in this thread, the request that waits gets its turn by a message: what ends here is in the middle of something.
        if let Some(thread) = table.line.front() {
            self.shared.inboxes[thread].send(Message::ServerRoom(pool));
        }
    }

    /// The servers of a pool may be others: connections to those that have gone are closed as soon as they are idle.
    pub(crate) fn refresh_servers(&mut self, pool: u16) {
        let shared = self.shared;
        let gone = shared.servers(pool).map(|table| self.upstreams.refresh(pool, table));
        for key in gone.into_iter().flatten() {
            match self.upstreams.get(key).is_some_and(|connection| connection.http2.is_some()) {
                true => self.retire_http2(key),
                false => self.drop_upstream(key),
            }
        }
    }

    /// The response is complete, and the server keeps the connection: for the next request, if there is room for it, and the
    /// connection is not that of one client.
    pub(crate) fn keep_upstream(&mut self, key: UpstreamKey) {
        let (now, drains) = (self.clock.now, self.drain.is_some());
        let Some(connection) = self.upstreams.get(key) else { return };
        let (at, hung_up, of_one) = (connection.at, connection.hung_up, connection.preface.is_some());
        connection.used = true;
        let Some(server) = connection.server.take() else { return self.drop_upstream(key) };
        let idle = self.upstreams.idle_of(at, &server).filter(|idle| idle.len() < IDLE_PER_UPSTREAM_MAX);
        let keeps = idle.is_some() && !hung_up && !drains && !of_one;
        if keeps {
            idle.into_iter().for_each(|idle| idle.push(key));
        }
        if let Some(connection) = self.upstreams.get(key) {
            connection.server = Some(server);
        }
        if !keeps {
            return self.drop_upstream(key);
        }
        if let Some(connection) = self.upstreams.get(key) {
            (connection.index, connection.idle_since) = (None, now);
            let connection = &self.upstreams.connections[key];
            self.end_at_server(at.0, connection.server.as_deref());
        }
        self.upstreams.next_sweep.get_or_insert(now + SWEEP_INTERVAL);
    }

    /// Whether nothing is in a connection's socket, and its server has not closed it.
    pub(crate) fn is_clean(&mut self, key: UpstreamKey) -> bool {
        self.upstreams.get(key).is_some_and(|connection| !connection.is_stale())
    }

    /// The process ends: nothing is kept for later.
    pub(crate) fn close_idle_upstreams(&mut self) {
        let idle = self.upstreams.connections.iter().filter(|(_, connection)| connection.is_idle());
        let idle: Vec<UpstreamKey> = idle.map(|(key, _)| key).collect();
        idle.into_iter().for_each(|key| self.drop_upstream(key));
    }

    /// Closes a connection. Closing takes it out of the epoll set, too, since there is no other copy of the descriptor.
    pub(crate) fn drop_upstream(&mut self, key: UpstreamKey) {
        let Some(connection) = self.upstreams.connections.try_remove(key) else { return };
        if connection.foreign {
            foreign::close(connection.socket);
        }
        if connection.index.is_some() {
            return self.end_at_server(connection.at.0, connection.server.as_deref());
        }
        if let Some(idle) = self.upstreams.idle(connection.at) {
            idle.retain(|other| *other != key);
        }
    }

    /// Once per turn: closes the connections that have been idle for too long.
    pub(crate) fn sweep_upstreams(&mut self) {
        let now = self.clock.now;
        if self.upstreams.next_sweep.is_some_and(|at| at <= now) {
            self.upstreams.expired(now).into_iter().for_each(|key| self.drop_upstream(key));
            self.look_at_budgets();
        }
    }
}
