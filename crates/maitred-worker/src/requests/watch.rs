//! `/status/events`: the status as a stream of server-sent events, one a second (HTML Living Standard, section 9.2).
//!
//! The document is made once a second for all that watch. A slow watcher gets no more until it has taken what there is, so that
//! each costs one document of memory; one that takes nothing at all for a while is closed. When the process drains, the stream
//! ends, and the page connects again: to the successor, if there is one.

use std::time::Duration;

use maitred_http::h1::Persistence;
use maitred_http::request::Request;

use super::Requests;
use crate::connection::State;
use crate::connection::wire::Sent;
use crate::keys::ConnKey;
use crate::requests::watchers::{EVENT_EVERY, push_data};
use crate::step::{RequestInput, Step};
use maitred_files::exchange::Field;

/// Connections that may watch at a time. Each costs one document of memory (some 10 KiB, with 1024 slots half a megabyte)
/// and one write a second.
pub(crate) const WATCHERS_MAX: usize = 32;

/// How long a watcher may take nothing of what waits for it.
const WATCHER_TIMEOUT: Duration = Duration::from_secs(5);

impl Requests {
    /// Answers `/status/events`: the response begins now, with the last minutes and the present, and does not end.
    pub(crate) fn stream_status(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
    ) -> Step {
        if !self.buffers.tx.is_empty() {
            return Step::FlushFirst;
        }
        if self.watchers.connections.len() >= WATCHERS_MAX {
            return self.plain_error(index, request, given, 503, &[Field::new("Retry-After", "10")]);
        }
        if !self.register(index) {
            self.close(index);
            return Step::Gone;
        }
        let connection = self.id(index);
        self.watchers.connections.push(connection);
        self.watchers.next_event.get_or_insert(self.clock.now + EVENT_EVERY);
        let context = self.context_of(index, given.routed.plan, Persistence::Close, false);
        let (_, mut writer) = self.files_and_writer(index, context);
        writer.make(200, false, false, |fields| {
            fields.push(b"Content-Type", b"text/event-stream");
            fields.push(b"Cache-Control", b"no-store");
            fields.push(b"X-Content-Type-Options", b"nosniff");
        });
        let mut head = Vec::with_capacity(16 * 1024);
        head.append(&mut self.buffers.tx);
        head.extend_from_slice(b"retry: 1000\n\nevent: history\n");
        push_data(&self.shared.history(self.clock.unix_secs), &mut head);
        push_data(&self.status_json(), &mut head);
        let plan = self.shared.router.admin_plan();
        self.count(index, plan, 200);
        self.enter(index, State::Watching);
        self.arm_in(index, WATCHER_TIMEOUT);
        let exchange = self.exchange(index);
        exchange.outgoing.replace(head);
        self.on_watcher(index);
        if self.is_current(connection) { Step::Waits } else { Step::Gone }
    }

    pub(crate) fn tell_watcher(&mut self, index: ConnKey, event: &[u8]) {
        let exchange = self.exchange(index);
        if exchange.outgoing.has_bytes() {
            return;
        }
        exchange.outgoing.bytes.clear();
        exchange.outgoing.bytes.extend_from_slice(event);
        exchange.outgoing.sent = 0;
        // What came before was taken, or the deadline would have passed.
        self.arm_in(index, WATCHER_TIMEOUT);
        self.on_watcher(index);
    }

    /// Sends a watcher what it takes of what waits for it.
    pub(crate) fn on_watcher(&mut self, index: ConnKey) {
        let unsent = |thread: &mut Requests| {
            let exchange = thread.exchange(index);
            exchange.outgoing.unsent().len()
        };
        let before = unsent(self);
        if self.send_rest(index) == Sent::Broken {
            return self.close(index);
        }
        if before > 0 && unsent(self) < before {
            self.arm_in(index, WATCHER_TIMEOUT);
        }
    }
}
