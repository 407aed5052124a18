//! Requests that end without a whole response, because the client has gone or a timeout has passed. Each request that was begun
//! is in the access log all the same, with a status that no client ever gets. So are those that HTTP/2 refuses before there is
//! anything that could be answered.

use maitred_http::request::{Reject, RequestHead};

use super::Clients;
use crate::agenda::Next;
use crate::connection::State;
use crate::keys::ConnKey;
use crate::log_line::{ABORTED, TIMED_OUT, aborted_status, first_line, line, line_of};
use maitred_files::Summary;
use maitred_log::access::Line;

/// Status in the access log for a request that was reset as malformed.
const MALFORMED: u16 = 400;

impl Clients {
    /// Ends a connection whose request was read and will have no answer, or none to its end.
    pub(crate) fn abort_unanswered(&mut self, index: ConnKey) {
        self.abort_unanswered_after(index, 0);
    }

    /// The same, after this many bytes of the content of its response.
    pub(crate) fn abort_unanswered_after(&mut self, index: ConnKey, body_bytes: u64) {
        let status = aborted_status(&self.connections[index]);
        self.exchange(index).summary = Some(Summary { status, body_bytes });
        self.log_kept(index, 0);
        self.follow_up(index, Next::Close);
    }

    /// Logs that the client went before it had an answer: of a request whose head is there, or at least its first line. The
    /// caller closes.
    pub(crate) fn log_unanswered(&mut self, index: ConnKey) {
        let connection = &mut self.connections[index];
        if !matches!(
            connection.state,
            State::Head | State::Body | State::Spooling | State::Disk | State::Gate
        ) {
            return;
        }
        let Some(exchange) = connection.exchange.as_deref_mut() else { return };
        if exchange.body.incoming.is_dropped() {
            return;
        }
        let summary = Summary { status: ABORTED, body_bytes: 0 };
        if !exchange.head.is_empty() {
            exchange.summary = Some(summary);
            return self.log_kept(index, 0);
        }
        let input = std::mem::take(&mut exchange.input);
        let Some(first) = first_line(&input) else { return };
        self.count_aborted(index, ABORTED);
        let connection = &self.connections[index];
        if self.logs.is_on(None) && !connection.is_admin() && !connection.internal {
            self.logs.push(None, &line(self.shared, &self.base.clock, connection, first, summary));
        }
    }

    /// Logs a request over HTTP/2 that got no stream in the access log. A request that was reset as malformed is logged with
    /// the status that it has over HTTP/1.
    pub(crate) fn log_refused_stream(
        &mut self,
        index: ConnKey,
        answered: Option<u16>,
        reason: &'static str,
        head: &RequestHead,
    ) {
        let status = answered.unwrap_or(MALFORMED);
        self.note_refusal(index, Reject { status, reason });
        if answered.is_some() {
            let plan = self.shared.router.bare_plan();
            self.count(index, plan, status);
        }
        if !self.logs.is_on(None) {
            return;
        }
        let request = line_of(head);
        let summary = Summary { status, body_bytes: 0 };
        let connection = &self.connections[index];
        // What is known is when the connection began, which is not when this request did.
        let line =
            Line { duration_us: 0, ..line(self.shared, &self.base.clock, connection, request, summary) };
        self.logs.push(None, &line);
    }

    /// Counts a request that the access log shows as aborted, by its status there.
    pub(crate) fn count_aborted(&mut self, index: ConnKey, status: u16) {
        let connection = &self.connections[index];
        match status {
            _ if connection.is_admin() || connection.internal => {}
            ABORTED => self.row.aborted.add(1),
            TIMED_OUT => self.row.timed_out_in_response.add(1),
            _ => {}
        }
    }
}
