//! Looks at the exchange of a connection: source, attempt, input, output, tunnel.

use std::sync::Arc;
use std::time::Duration;

use super::Clients;
use crate::connection::State;
use crate::connection::tunnel::Tunnel;
use crate::inbox::Message;
use crate::keys::ConnKey;
use crate::upstream::relay::Handed;
use crate::upstream::{Attempt, Source};
use maitred_config::Overrides;
use maitred_files::DiskJob;

impl Clients {
    /// Where the response of a connection comes from.
    pub(crate) fn source_of(&self, index: ConnKey) -> Option<Source> {
        self.connections.get(index)?.source()
    }

    /// The attempt that a connection waits for.
    pub(crate) fn attempt_of(&self, index: ConnKey) -> Option<&Attempt> {
        self.connections.get(index)?.attempt()
    }

    /// The same, to be changed.
    pub(crate) fn attempt_mut(&mut self, index: ConnKey) -> Option<&mut Attempt> {
        self.connections.get_mut(index)?.attempt_mut()
    }

    /// Whether the client has yet to take something, over TLS as well: then the client is waited for, and not the upstream.
    pub(crate) fn has_output(&self, index: ConnKey) -> bool {
        let exchange = self.exchange_of(index);
        exchange.is_some_and(|exchange| !exchange.outgoing.is_empty()) || self.encrypted(index) > 0
    }

    /// What the attempt of a connection has of its process.
    pub(crate) fn handed_mut(&mut self, index: ConnKey) -> Option<&mut Handed> {
        self.attempt_mut(index)?.handed_mut()
    }

    /// Whether something was received that was not acted on: bytes, or the end of a body.
    pub(crate) fn has_input(&self, index: ConnKey) -> bool {
        let exchange = self.connections.get(index).and_then(|connection| connection.exchange.as_deref());
        exchange.is_some_and(|exchange| !exchange.input.is_empty()) || self.is_content_ended(index)
    }

    /// Whether the connection is a tunnel: after an upgrade, client and upstream use another protocol.
    pub(crate) fn is_tunnel(&self, index: ConnKey) -> bool {
        self.tunnel(index).is_some()
    }

    /// Whether some of the request's body, which goes to the upstream while it comes, has yet to be read.
    pub(crate) fn awaits_body(&self, index: ConnKey) -> bool {
        self.attempt_of(index).is_some_and(Attempt::awaits_body)
    }

    /// Whether the request's body goes, or has gone, to the upstream while it comes.
    pub(crate) fn passes_to(&self, index: ConnKey) -> bool {
        self.attempt_of(index).is_some_and(|attempt| attempt.passing.is_some())
    }

    pub(crate) fn tunnel(&self, index: ConnKey) -> Option<&Tunnel> {
        self.attempt_of(index)?.tunnel.as_deref()
    }

    pub(crate) fn tunnel_mut(&mut self, index: ConnKey) -> Option<&mut Tunnel> {
        self.attempt_mut(index)?.tunnel.as_deref_mut()
    }

    /// What the route of the request at hand, or its site, says otherwise than the server.
    pub(crate) fn overrides(&self, index: ConnKey) -> Option<&'static Overrides> {
        self.exchange_of(index)?.routed.map(|routed| &routed.plan.overrides)
    }

    /// How long a response may make no progress, at the present level of overload.
    pub(crate) fn write_timeout(&self, index: ConnKey) -> Duration {
        match self.overrides(index).and_then(|overrides| overrides.limits.write_timeout) {
            Some(own) => self.load.overload.levels().write_timeout(own),
            None => self.load.write_timeout,
        }
    }

    /// How long a connection that has had a request may be idle, at the present level of overload.
    pub(crate) fn idle_timeout(&self, index: ConnKey) -> Duration {
        match self.connections.get(index).and_then(|connection| connection.idle.get()) {
            Some(own) => self.load.overload.levels().idle_timeout(own),
            None => self.load.keep_alive_timeout,
        }
    }

    /// Waits for room in the socket.
    pub(crate) fn start_writing(&mut self, index: ConnKey) {
        self.enter(index, State::Writing);
        let timeout = self.write_timeout(index);
        self.arm_in(index, timeout);
    }

    pub(crate) fn progress(&mut self, index: ConnKey) {
        let timeout = self.write_timeout(index);
        self.arm_in(index, timeout);
    }

    /// Has a coding of a file made, if a helper thread is free for that.
    #[cold]
    pub(crate) fn submit_encoding(&mut self) {
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
    pub(crate) fn submit(&mut self, index: ConnKey, job: DiskJob) -> bool {
        let (inbox, connection) = (&self.shared.inboxes[self.number], self.id(index));
        let done = Box::new(move |result| inbox.send(Message::DiskDone { connection, result }));
        self.row.disk_waits.add(1);
        self.shared.disk.submit(job, done).is_ok()
    }
}
