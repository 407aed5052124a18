//! Looks at the exchange of a connection: source, attempt, input, output, tunnel.

use std::sync::Arc;
use std::time::Duration;

use super::Clients;
use crate::config::Overrides;
use crate::serve::DiskJob;
use crate::worker::connection::State;
use crate::worker::connection::tunnel::Tunnel;
use crate::worker::inbox::Message;
use crate::worker::upstream::relay::Handed;
use crate::worker::upstream::{Attempt, Source};

impl Clients {
    /// Where the response of a connection comes from.
    pub(in crate::worker) fn source_of(&self, index: u32) -> Option<Source> {
        self.connections.get(index as usize)?.source()
    }

    /// The attempt that a connection waits for.
    pub(in crate::worker) fn attempt_of(&self, index: u32) -> Option<&Attempt> {
        self.connections.get(index as usize)?.attempt()
    }

    /// The same, to be changed.
    pub(in crate::worker) fn attempt_mut(&mut self, index: u32) -> Option<&mut Attempt> {
        self.connections.get_mut(index as usize)?.attempt_mut()
    }

    /// Whether the client has yet to take something, over TLS as well: then the client is waited for, and not the upstream.
    pub(in crate::worker) fn has_output(&self, index: u32) -> bool {
        let exchange = self.exchange_of(index);
        exchange.is_some_and(|exchange| !exchange.outgoing.is_empty()) || self.encrypted(index) > 0
    }

    /// What the attempt of a connection has of its process.
    pub(in crate::worker) fn handed_mut(&mut self, index: u32) -> Option<&mut Handed> {
        self.attempt_mut(index)?.handed_mut()
    }

    /// Whether something was received that was not acted on: bytes, or the end of a body.
    pub(in crate::worker) fn has_input(&self, index: u32) -> bool {
        let exchange =
            self.connections.get(index as usize).and_then(|connection| connection.exchange.as_deref());
        exchange.is_some_and(|exchange| !exchange.input.is_empty()) || self.is_content_ended(index)
    }

    /// Whether the connection is a tunnel: after an upgrade, client and upstream use another protocol.
    pub(in crate::worker) fn is_tunnel(&self, index: u32) -> bool {
        self.tunnel(index).is_some()
    }

    /// Whether some of the request's body, which goes to the upstream while it comes, has yet to be read.
    pub(in crate::worker) fn awaits_body(&self, index: u32) -> bool {
        self.attempt_of(index).is_some_and(Attempt::awaits_body)
    }

    /// Whether the request's body goes, or has gone, to the upstream while it comes.
    pub(in crate::worker) fn passes_to(&self, index: u32) -> bool {
        self.attempt_of(index).is_some_and(|attempt| attempt.passing.is_some())
    }

    pub(in crate::worker) fn tunnel(&self, index: u32) -> Option<&Tunnel> {
        self.attempt_of(index)?.tunnel.as_deref()
    }

    pub(in crate::worker) fn tunnel_mut(&mut self, index: u32) -> Option<&mut Tunnel> {
        self.attempt_mut(index)?.tunnel.as_deref_mut()
    }

    /// What the route of the request at hand, or its site, says otherwise than the server.
    pub(in crate::worker) fn overrides(&self, index: u32) -> Option<&'static Overrides> {
        self.exchange_of(index)?.routed.map(|routed| &routed.plan.overrides)
    }

    /// How long a response may make no progress, at the present level of overload.
    pub(in crate::worker) fn write_timeout(&self, index: u32) -> Duration {
        match self.overrides(index).and_then(|overrides| overrides.limits.write_timeout) {
            Some(own) => self.load.overload.levels().write_timeout(own),
            None => self.load.write_timeout,
        }
    }

    /// How long a connection that has had a request may be idle, at the present level of overload.
    pub(in crate::worker) fn idle_timeout(&self, index: u32) -> Duration {
        match self.connections.get(index as usize).and_then(|connection| connection.idle.get()) {
            Some(own) => self.load.overload.levels().idle_timeout(own),
            None => self.load.keep_alive_timeout,
        }
    }

    /// Waits for room in the socket.
    pub(in crate::worker) fn start_writing(&mut self, index: u32) {
        self.enter(index, State::Writing);
        let timeout = self.write_timeout(index);
        self.arm_in(index, timeout);
    }

    pub(in crate::worker) fn progress(&mut self, index: u32) {
        let timeout = self.write_timeout(index);
        self.arm_in(index, timeout);
    }

    /// Has a coding of a file made, if a helper thread is free for that.
    #[cold]
    pub(in crate::worker) fn submit_encoding(&mut self) {
        let Some(encoding) = self.shared.disk.encoding_place().and_then(|place| self.files.next_due(place))
        else {
            return;
        };
        let (inbox, made) = (&self.shared.inboxes[self.number], Arc::clone(&encoding));
        let done = Box::new(move |_| inbox.send(Message::Encoded(made)));
        if self.shared.disk.submit(DiskJob::Encode(encoding), done).is_err() {
            self.files.note_encoded(None);
        }
    }

    /// Gives a job to the helper threads. False when they have too much to do.
    pub(in crate::worker) fn submit(&mut self, index: u32, job: DiskJob) -> bool {
        let (inbox, serial) = (&self.shared.inboxes[self.number], self.connections[index as usize].serial);
        let done = Box::new(move |result| inbox.send(Message::DiskDone { index, serial, result }));
        self.row.disk_waits.add(1);
        self.shared.disk.submit(job, done).is_ok()
    }
}
