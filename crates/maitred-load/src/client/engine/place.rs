//! Requests find connections.

use std::os::fd::OwnedFd;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};

use super::super::connection::Connection;
use super::super::tls::Session;
use super::super::{Next, Request, Workload};
use super::{CONNECT_PAUSE, Engine};
use crate::measure::{Failure, Nanos};

impl<W: Workload> Engine<W> {
    /// Takes requests from the workload as long as there is somewhere to send them.
    pub(super) fn pull(&mut self, now: Nanos) {
        while self.has_room(now) {
            let mut request = self.spare.pop().unwrap_or_default();
            match self.workload.next(now, &mut request) {
                Next::Request => {
                    (request.is_second, request.started) = (false, request.due.unwrap_or(now));
                    self.place(request, now);
                    continue;
                }
                Next::WaitUntil(due) => self.next_due = due,
                Next::Starved => self.is_starved = true,
                Next::Finished => self.is_finished = true,
            }
            self.recycle(request);
            break;
        }
    }

    pub(super) fn has_room(&self, now: Nanos) -> bool {
        !self.is_finished
            && !self.is_starved
            && now >= self.next_due
            && self.waiting < self.rules.waiting_max
            && (self.rules.is_open || self.in_flight < self.connections_allowed(now))
    }

    /// How many connections a closed loop may use by now.
    pub(super) fn connections_allowed(&self, now: Nanos) -> usize {
        if now >= self.rules.ramp {
            return self.rules.connections_max;
        }
        let part = u128::from(now) * self.rules.connections_max as u128 / u128::from(self.rules.ramp.max(1));
        usize::try_from(part).unwrap_or(usize::MAX).clamp(1, self.rules.connections_max)
    }

    /// Finds a connection for a request, or lets it wait for one.
    pub(super) fn place(&mut self, request: Box<Request>, now: Nanos) {
        let index = self.groups.of(request.client);
        let Some(group) = self.groups.get(index) else { return };
        if let Some(connection) = group.idle.pop() {
            self.connections.set_busy(connection);
            self.send_request(connection, request, now);
        } else if group.open < self.rules.per_client_max && !self.groups.has_hungry() && self.can_open(now) {
            self.open(index, request, now);
        } else if let Some(group) = self.groups.get(index) {
            group.waiting.push_back(request);
            let may_open = group.open < self.rules.per_client_max;
            self.waiting += 1;
            if may_open {
                self.groups.set_hungry(index);
            }
        }
    }

    /// Whether there is room for one more connection; makes it, if an idle one can be closed.
    pub(super) fn can_open(&mut self, now: Nanos) -> bool {
        if now < self.no_connect_until {
            return false;
        }
        if self.connections.slab.len() < self.rules.connections_max {
            return true;
        }
        let idle = self.connections.idle_longest();
        if let Some(index) = idle {
            self.close(index);
        }
        idle.is_some()
    }

    /// Opens connections for clients whose requests wait for want of one.
    pub(super) fn feed_hungry(&mut self, now: Nanos) {
        while self.drain_until.is_none() && self.groups.has_hungry() {
            let Some(index) = self.groups.next_hungry(self.rules.per_client_max) else { return };
            if !self.can_open(now) {
                self.groups.put_back(index);
                return;
            }
            let Some(group) = self.groups.get(index) else { continue };
            let Some(mut request) = group.waiting.pop_front() else { continue };
            let has_more = !group.waiting.is_empty();
            self.waiting -= 1;
            if request.due.is_none() && !request.is_second {
                request.started = now;
            }
            self.open(index, request, now);
            if has_more {
                self.groups.set_hungry(index);
            }
        }
    }

    pub(super) fn open(&mut self, group: u32, request: Box<Request>, now: Nanos) {
        match self.connect() {
            Ok((socket, tls)) => {
                self.serial = self.serial.wrapping_add(1);
                let deadline = now.saturating_add(self.rules.timeout);
                let connection = Connection::new(socket, tls, self.serial, group, request, deadline);
                let entry = self.connections.slab.vacant_entry();
                let data = epoll::EventData::new_u64(u64::from(self.serial) << 32 | entry.key() as u64);
                let connection = entry.insert(connection);
                let flags = epoll::EventFlags::IN
                    | epoll::EventFlags::OUT
                    | epoll::EventFlags::RDHUP
                    | epoll::EventFlags::ET;
                let added = epoll::add(&self.epoll, &connection.socket, data, flags);
                self.in_flight += 1;
                self.seen.connections += 1;
                if let Some(group) = self.groups.get(group) {
                    group.open += 1;
                }
                if added.is_err() {
                    let index = data.u64() as u32;
                    self.fail(index, Failure::Connect, now);
                }
            }
            Err(_) => {
                self.no_connect_until = now + CONNECT_PAUSE;
                self.seen.failure(now, Failure::Connect);
                self.workload.failed(&request, now);
                self.recycle(request);
                self.groups.forget_if_done(group);
            }
        }
    }

    /// A socket that connects, and its session, if there is to be one.
    fn connect(&self) -> rustix::io::Result<(OwnedFd, Option<Box<Session>>)> {
        // The configuration was tried out before the run; what can be missing is memory.
        let tls = self.rules.tls.as_ref().map(|tls| tls.session().map_err(|_| Errno::NOMEM)).transpose()?;
        let family = if self.rules.address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
        // A request of two segments must not wait for the acknowledgement of the first; browsers do the same.
        net::sockopt::set_tcp_nodelay(&socket, true)?;
        match net::connect(&socket, &self.rules.address) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok((socket, tls)),
            Err(error) => Err(error),
        }
    }
}
