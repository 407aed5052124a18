//! New connections: taken while there is room for them, and shared between the threads of a bucket.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use maitred_http::request::{Reject, RequestHead};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::Admission;
use crate::admission::listener::Listener;
use crate::connection::After;
use crate::connection::transfer::RequestTransfer;
use crate::entry::{Entry, SocketKind};
use crate::inbox::{ConnectionTransfer, Message, Origin};
use crate::keys::ConnKey;
use crate::requests::proxy_protocol::NotAProxy;
use crate::token::Token;

/// Connections taken from one listener in one turn, so that the connections that are there already get their turn too.
const ACCEPTS_PER_TURN_MAX: u32 = 16;

/// Connections taken from the queue of a listener that is being closed: twice what `net.core.somaxconn` usually allows in one.
const QUEUE_TAKEN_MAX: u32 = 8192;

/// How long to leave new connections in the queue when the system is out of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections of the admin address at a time: status pages that are looked at, and commands. The connections take no places
/// from clients, so that the operator is answered when the thread is full.
const ADMINS_MAX: usize = 64;

impl Admission {
    /// Starts to accept from `listener`.
    ///
    /// # Errors
    /// What epoll_ctl(2) says.
    pub(crate) fn listen(&mut self, listener: Listener) -> std::io::Result<()> {
        let token = Token::Listener(self.listeners.len() as u32).pack();
        epoll::add(&self.epoll, &listener.socket, token, Self::listener_flags())?;
        self.listeners.push(listener);
        self.accepting = true;
        Ok(())
    }

    /// Level-triggered, so that what is not taken in one turn is reported in the next; exclusive, so that a new
    /// connection wakes one of the threads that share the bucket, not all.
    fn listener_flags() -> epoll::EventFlags {
        epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE
    }

    pub(crate) fn on_listener(&mut self, which: usize) {
        let Some(listener) = self.listeners.get(which) else { return };
        let (quota, admin) = (listener.quota, listener.admin);
        if !admin && !self.accepting {
            return;
        }
        let mut taken = 0;
        while taken < quota {
            if admin && self.admins >= ADMINS_MAX {
                return self.pause_admin();
            }
            // Claimed before there is a connection to count: another thread may be about to send one here.
            let full = !admin && !self.shared.begin_accept(self.number);
            if full {
                if !self.may_reclaim() {
                    self.stop_accepting("connections_per_thread_max", None);
                    break;
                }
                self.shared.force_accept(self.number);
            }
            let accepted = self.accept_one(which);
            if !admin {
                self.shared.end_accept(self.number);
            }
            if full && accepted.is_ok() {
                self.reclaim();
            }
            match accepted {
                Ok(()) => taken += 1,
                Err(Errno::AGAIN) => break,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    self.pause_admin();
                    self.stop_accepting("the system's limit on open files or memory", Some(ACCEPT_PAUSE));
                    // Also where the thread was full before.
                    self.accept_again_at = Some(self.clock.now + ACCEPT_PAUSE);
                    break;
                }
                // Errors of the connection, not of the listener (accept(2)).
                Err(_) => taken += 1,
            }
        }
        if let Some(listener) = self.listeners.get_mut(which) {
            listener.quota =
                if taken == quota { (quota * 2).min(ACCEPTS_PER_TURN_MAX) } else { taken.max(1) };
        }
    }

    fn accept_one(&mut self, which: usize) -> rustix::io::Result<()> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (socket, address) = rustix::net::acceptfrom_with(&self.listeners[which].socket, flags)?;
        let remote = address.and_then(|address| SocketAddr::try_from(address).ok());
        self.on_accepted(which, socket, remote);
        Ok(())
    }

    fn on_accepted(&mut self, which: usize, socket: OwnedFd, remote: Option<SocketAddr>) {
        self.row.accepted.add(1);
        let listener = &self.listeners[which];
        let (listen, admin, deferred) = (listener.listen, listener.admin, listener.deferred);
        let awaits_proxy = match self.may_connect(listen, remote) {
            Ok(awaits_proxy) => awaits_proxy,
            Err(NotAProxy) => return,
        };
        let counted = !admin && !awaits_proxy;
        if counted && !self.admit(remote) {
            return;
        }
        if let Some(other) = self.less_loaded(which).filter(|other| self.shared.claim(*other)) {
            self.row.passed_on.add(1);
            if counted {
                self.uncount(remote);
            }
            let transfer = ConnectionTransfer::accepted(socket, remote, listen, awaits_proxy);
            self.shared.transfer(other, transfer);
            return;
        }
        let mut connection = Entry::new(socket, listen, remote, self.clock.now);
        (connection.kind, connection.counted) = (SocketKind::new(admin, remote.is_none()), counted);
        connection.awaits_proxy = awaits_proxy;
        self.welcome(connection, deferred);
    }

    /// Takes a connection in, and reads from it at once if something is likely to be there: a connection that ends
    /// with its first response then never enters the epoll set.
    pub(crate) fn welcome(&mut self, connection: Entry, read_at_once: bool) {
        let index = self.insert(connection);
        if !self.connections[index].awaits_proxy && !self.secure(index) {
            return self.close(index);
        }
        let timeout = self.limits().head_timeout;
        self.arm_in(index, timeout);
        if !read_at_once {
            if !self.register(index) {
                self.close(index);
            }
            return;
        }
        self.on_readable(index);
    }

    /// Another thread of the bucket, chosen by chance, if it has clearly less to do. Of two random queues the shorter
    /// is nearly as good as the shortest of all (Mitzenmacher 1996), and needs no look at the others.
    fn less_loaded(&self, which: usize) -> Option<usize> {
        let peers = &self.listeners[which].peers;
        if peers.is_empty() {
            return None;
        }
        // The serial number and the clock are random enough for this, and cost nothing.
        let draw = self.serial.wrapping_mul(0x9e37_79b9) ^ self.clock.unix_micros.wrapping_mul(0x85eb_ca6b);
        let other = usize::from(peers[(draw >> 16) as usize % peers.len()]);
        let mine = self.clients() as u32;
        let theirs = self.shared.load(other);
        // Passing on costs a wakeup, so a small difference is left alone.
        (theirs + theirs / 8 + 2 < mine).then_some(other)
    }

    /// Whether a new connection is served instead of one that is idle here. While another thread of the bucket has room, it is
    /// left to that.
    pub(super) fn may_reclaim(&mut self) -> bool {
        let has_room = |peer: &u16| self.shared.has_room(usize::from(*peer));
        !self.listeners.iter().flat_map(|listener| &listener.peers).any(has_room) && self.can_reclaim()
    }

    /// Leaves the operator's connections in their queue for a while.
    fn pause_admin(&mut self) {
        for listener in self.listeners.iter().filter(|listener| listener.admin) {
            let _ = epoll::delete(&self.epoll, &listener.socket);
            self.admin_paused = true;
        }
    }

    /// Stops accepting clients until there is room again: `pause` is for room that has to be made elsewhere: by the system, or by
    /// requests that end.
    pub(crate) fn stop_accepting(&mut self, why: &'static str, pause: Option<Duration>) {
        if !self.accepting {
            return;
        }
        for listener in self.listeners.iter().filter(|listener| !listener.admin) {
            let _ = epoll::delete(&self.epoll, &listener.socket);
        }
        // A connection may have woken this thread and no other.
        let peers = self.listeners.iter().flat_map(|listener| &listener.peers);
        peers.for_each(|peer| self.shared.inboxes[usize::from(*peer)].send(Message::Listen));
        self.accepting = false;
        self.accept_again_at = pause.map(|pause| self.clock.now + pause);
        self.row.full.set(1);
        let (thread, connections) = (self.number, self.clients());
        self.log_limited(|| {
            tracing::warn!(
                thread,
                connections,
                "not accepting for now: {why} is reached; new connections wait"
            );
        });
    }

    /// Accepts again once an eighth of the room is free, and at least one place; or as soon as a connection that is idle can be
    /// closed for a new one.
    pub(crate) fn resume_accepting(&mut self) {
        let max = self.shared.connections_max;
        if self.accept_again_at.is_some_and(|at| self.clock.now < at) {
            return;
        }
        // A time that has passed would wake the thread again and again.
        self.accept_again_at = None;
        if self.admin_paused && self.admins < ADMINS_MAX {
            self.admin_paused = false;
            self.watch_listeners(true);
        }
        let free = max.saturating_sub(self.shared.load(self.number) as usize);
        if self.accepting
            || self.is_critical()
            || self.listeners.is_empty()
            || free < (max / 8).max(1) && !self.may_reclaim()
        {
            return;
        }
        self.watch_listeners(false);
        self.accepting = true;
        self.row.full.set(0);
    }

    fn watch_listeners(&self, admin: bool) {
        let wanted = self.listeners.iter().enumerate().filter(|(_, listener)| listener.admin == admin);
        for (which, listener) in wanted {
            let token = Token::Listener(which as u32).pack();
            let _ = epoll::add(&self.epoll, listener.socket.as_fd(), token, Self::listener_flags());
        }
    }

    /// Stops accepting for good, and closes this thread's duplicates of the sockets. What is in the queues by then has woken this
    /// thread, and perhaps no other, so it is taken, however much there is.
    pub(crate) fn close_listeners(&mut self) {
        for listener in &self.listeners {
            let _ = epoll::delete(&self.epoll, &listener.socket);
        }
        for which in 0..self.listeners.len() {
            let mut left = QUEUE_TAKEN_MAX;
            while left > 0 && self.accept_one(which).is_ok() {
                left -= 1;
            }
        }
        self.listeners.clear();
        self.accepting = false;
    }

    /// Another thread has stopped accepting, and may have got the wakeup for connections that are still in the queue.
    pub(crate) fn on_listen(&mut self) {
        (0..self.listeners.len()).for_each(|which| self.on_listener(which));
    }

    /// Takes over a connection from another thread, or from the predecessor.
    pub(crate) fn adopt(&mut self, transfer: ConnectionTransfer) {
        let ConnectionTransfer {
            socket,
            remote,
            listen,
            requests,
            idle,
            input,
            request,
            text,
            origin,
            awaits_proxy,
            foreign,
            secure,
        } = transfer;
        let mut connection = Entry::new(socket, listen, remote, self.clock.now);
        (connection.requests, connection.idle) = (requests, idle);
        (connection.awaits_proxy, connection.kind) = (awaits_proxy, SocketKind::new(false, foreign));
        if let Some(across) = &request.across {
            (connection.internal, connection.secure) = (true, across.secure);
            connection.began = across.began;
        }
        // An application process may still have a copy of the socket, and only a shutdown ends a connection of which there are
        // copies.
        connection.shared = origin != Origin::Accepted;
        let fresh = secure.is_none() && origin != Origin::ForSlot && !awaits_proxy;
        if let Some(secure) = secure {
            connection.wire = self.put_secure(secure);
            connection.secure = true;
        }
        if origin == Origin::Predecessor {
            self.row.adopted.add(1);
        }
        self.readmit(&mut connection);
        let claimed = !connection.internal;
        let index = self.insert(connection);
        if claimed {
            // The connection was counted twice for a moment, so that at no time it is not counted.
            self.shared.yield_place(self.number);
        }
        self.shared.end_transfer();
        if fresh && !self.secure(index) || !self.register(index) {
            return self.close(index);
        }
        let limits = &self.shared.start.config.limits;
        let timeout = if requests == 0 { limits.head_timeout } else { self.idle_timeout(index) };
        self.arm_in(index, timeout);
        if !input.is_empty() {
            self.exchange(index).input = input;
        }
        self.answer_adopted(index, &text, request);
    }

    /// Answers the request that has come with a connection, if one has.
    fn answer_adopted(&mut self, index: ConnKey, text: &[u8], mut request: RequestTransfer) {
        if !text.is_empty() {
            match RequestHead::received(text, &self.head_limits) {
                Ok(received) => request.head = received,
                Err(reject) => return self.refuse_adopted(index, text, reject),
            }
        }
        if request.head.is_empty() {
            // Registering an edge-triggered socket reports what is already there.
            debug_assert!(!self.has_input(index), "bytes that nothing says are there");
            return;
        }
        self.exchange(index).take_request(request);
        self.resume(index);
    }

    /// The bounds of the process that it comes from were wider.
    fn refuse_adopted(&mut self, index: ConnKey, text: &[u8], reject: Reject) {
        self.note_refusal(index, reject);
        self.answer_refused_text(index, text, reject);
        self.send_joined(index, Some(After::Linger));
    }
}
