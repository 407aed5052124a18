//! Requests end, one way or another, and connections are used again or closed.

use super::super::connection::State;
use super::super::{Request, Workload, response};
use super::Engine;
use crate::measure::{Difference, Failure, Nanos};

impl<W: Workload> Engine<W> {
    /// In a closed loop, an answer may make the workload's next request due earlier than it said.
    pub(super) fn ask_again(&mut self) {
        if !self.rules.is_open {
            self.next_due = 0;
        }
    }

    /// A response is complete; `surplus` bytes came behind it.
    pub(super) fn complete(&mut self, index: u32, surplus: usize, now: Nanos) {
        let Some(connection) = self.connections.get(index) else { return };
        let Some(request) = connection.request.take() else { return };
        connection.served += 1;
        self.in_flight -= 1;
        let (status, body_bytes) = (connection.status, connection.body_bytes);
        let service = now.saturating_sub(connection.sent_at);
        let is_sent = connection.sent == request.bytes.len()
            && !connection.tls.as_ref().is_some_and(|tls| tls.has_unsent());
        let keeps = connection.keeps && !request.closes && surplus == 0 && is_sent;
        let latency = now.saturating_sub(request.started);
        self.seen.response(now, status, body_bytes, latency, service);
        if let Some(logged) = request.logged {
            let length = !request.is_head && logged.bytes.is_some_and(|bytes| bytes != body_bytes);
            let difference = || Difference {
                request: response::first_line(&request.bytes),
                logged_status: logged.status,
                status,
                logged_bytes: logged.bytes,
                bytes: body_bytes,
            };
            self.seen.compare(difference, logged.status != status, length);
        }
        self.workload.answered(&request, status, body_bytes, now);
        self.ask_again();
        self.recycle(request);
        if keeps { self.release(index, now) } else { self.close(index) }
    }

    /// A connection may be used again: by the next request of its client, or not for now.
    pub(super) fn release(&mut self, index: u32, now: Nanos) {
        let Some(connection) = self.connections.get(index) else { return };
        connection.deadline = now.saturating_add(self.rules.idle_max);
        let group = connection.group;
        let Some(group) = self.groups.get(group) else { return };
        if let Some(request) = group.waiting.pop_front() {
            self.waiting -= 1;
            self.send_request(index, request, now);
        } else {
            group.idle.push(index);
            self.connections.set_idle(index);
        }
    }

    /// A connection ended before the response was complete.
    pub(super) fn broken(&mut self, index: u32, failure: Failure, now: Nanos) {
        let Some(connection) = self.connections.get(index) else { return };
        let is_stale = connection.served > 0 && !connection.has_begun;
        let may_again = |request: &Request| request.is_idempotent && !request.is_second;
        if !is_stale || !connection.request.as_deref().is_some_and(may_again) || self.drain_until.is_some() {
            return self.fail(index, failure, now);
        }
        let (group, request) = (connection.group, connection.request.take());
        if let (Some(mut request), Some(group)) = (request, self.groups.get(group)) {
            request.is_second = true;
            group.waiting.push_front(request);
            self.waiting += 1;
            self.in_flight -= 1;
            self.seen.sent_again += 1;
        }
        self.close(index);
    }

    pub(super) fn fail(&mut self, index: u32, failure: Failure, now: Nanos) {
        let Some(connection) = self.connections.get(index) else { return };
        if let Some(request) = connection.request.take() {
            self.in_flight -= 1;
            self.seen.failure(now, failure);
            self.workload.failed(&request, now);
            self.ask_again();
            self.recycle(request);
        }
        self.close(index);
    }

    /// Closes a connection that has no request.
    pub(super) fn close(&mut self, index: u32) {
        let Some(connection) = self.connections.get(index) else { return };
        let (group_index, is_idle) = (connection.group, connection.state == State::Idle);
        if is_idle {
            self.connections.set_busy(index);
            if let Some(group) = self.groups.get(group_index) {
                group.idle.retain(|other| *other != index);
            }
        }
        if let Some(mut gone) = self.connections.slab.try_remove(index as usize)
            && let Some(tls) = &mut gone.tls
        {
            tls.end(&gone.socket);
        }
        if let Some(group) = self.groups.get(group_index) {
            group.open = group.open.saturating_sub(1);
            let needs_one = !group.waiting.is_empty();
            if needs_one {
                self.groups.set_hungry(group_index);
            } else {
                self.groups.forget_if_done(group_index);
            }
        }
    }
}
