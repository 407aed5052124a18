//! Requests that are lost with their process, or that it has never read.
//!
//! | the process | its request |
//! |---|---|
//! | cannot have read it | is sent to another one, whatever its method, with its body, and as often as necessary |
//! | has ended | the rule of all upstreams (`upstream::failure`): retried once, 502, or aborted |
//! | has reported it as done, and has written nothing | 502, or 504 if it was overdue |
//!
//! Only a process that has exited can be known not to write to a client any more. So requests of a failed one are not
//! answered before.
//!
//! A process that breaks the protocol, closes its channel or has to be ended because of its requests is marked as failed
//! (`Processes::fail_worker`): the master ends it, and reports its exit. Whether a client has received anything by then the
//! kernel says ([`maitred_sys::delivery`]).

use std::os::fd::{AsFd as _, OwnedFd};

use super::Processes;
use crate::agenda::Next;
use crate::connection::State;
use crate::connection::refusal::fields_of;
use crate::connection::retry::RetryState;
use crate::connection::spool::Spool;
use crate::handoff::{InFlight, Unsent, UnsentBody};
use crate::keys::{ConnKey, RelayKey};
use crate::upstream::failure::{Cause, Reached, Rules, Verdict, judge};
use maitred_base::budget::Permit;

/// How far a request on the client's own socket has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    /// The process may have read it.
    pub(crate) seen: bool,
    /// The client has, or may have, a part of a response.
    pub(crate) written: bool,
}

impl Processes {
    /// Retries requests that a process has not read, and never will.
    pub(crate) fn answer_unsent(&mut self, unsent: Vec<Unsent>) {
        for Unsent { request: InFlight { index, number, kept, .. }, body } in unsent {
            let Some(index) = index else { continue };
            let (mut fed, mut coming) = (None, false);
            if let Some(relay) = RelayKey::of_known(number)
                && let Some(mut attempt) = self.take_attempt(index)
            {
                fed = attempt.feed.take();
                coming = attempt.passing.as_ref().is_some_and(|passing| passing.is_untouched());
                self.leave_relay(relay, &attempt);
            }
            let body = match (body, kept, fed) {
                (Some(UnsentBody::Inline(bytes)), ..) => Some(UnseenBody::Inline(bytes)),
                (Some(UnsentBody::Spooled(file, held)), Some(kept), _) => {
                    spooled(file, kept, held).map(UnseenBody::Spooled)
                }
                (_, _, Some(feed)) => Some(UnseenBody::Spooled(feed.spool)),
                (_, _, None) => coming.then_some(UnseenBody::Coming),
            };
            if !body.is_some_and(|body| self.give_unseen(index, body)) {
                self.row.handoff_lost.add(1);
                self.fail_direct(index, Cause::Lost, Sent { seen: true, written: false });
            }
        }
    }

    /// Retries a request that no process has read. The process that it was meant for takes no more requests, so the number of
    /// retries is bounded.
    fn give_unseen(&mut self, index: ConnKey, body: UnseenBody) -> bool {
        let verdict = self.verdict(index, Cause::Lost, Sent { seen: false, written: false });
        let exchange = self.exchange(index);
        if !matches!(verdict, Verdict::Retry(_)) || exchange.dispatch.cancelled {
            return false;
        }
        match body {
            UnseenBody::Inline(bytes) => exchange.body.content = bytes,
            UnseenBody::Spooled(spool) => exchange.body.spool = Some(spool),
            UnseenBody::Coming => {}
        }
        self.send_again(index);
        true
    }

    /// A request was lost with its process.
    pub(crate) fn lose(&mut self, index: ConnKey) {
        let written = !self.is_untouched(index);
        self.fail_direct(index, Cause::Lost, Sent { seen: true, written });
    }

    /// Retries a request that was lost with its process: once, and only if that can do no harm. The client has received nothing,
    /// and no process has its socket to write to.
    pub(crate) fn retry(&mut self, index: ConnKey) -> bool {
        let exchange = self.exchange(index);
        if exchange.dispatch.retry != RetryState::Once
            || exchange.dispatch.overdue
            || exchange.dispatch.cancelled
        {
            return false;
        }
        exchange.dispatch.retry = RetryState::Done;
        self.send_again(index);
        true
    }

    fn send_again(&mut self, index: ConnKey) {
        let exchange = self.exchange(index);
        (exchange.after, exchange.dispatch.handed_off_at) = (None, None);
        // Another process may answer it.
        exchange.dispatch.set_cookie = None;
        exchange.outgoing.drop_returned();
        self.row.retried.add(1);
        self.follow_up(index, Next::Resume);
    }

    /// Whether the client has received nothing since the request was handed off.
    pub(crate) fn is_untouched(&self, index: ConnKey) -> bool {
        let Some(connection) = self.connections.get(index) else { return false };
        let since = connection.exchange.as_ref().and_then(|exchange| exchange.dispatch.handed_off_at);
        let Some(socket) = &connection.socket else { return false };
        since.is_some_and(|since| {
            let ago = (self.environment.now)().saturating_duration_since(since);
            (self.environment.is_quiet)(socket.as_fd(), since, ago)
        })
    }

    /// A process that had the client's own socket gives no response, or no whole one: the rule of all upstreams
    /// (`upstream::failure`) decides what is done.
    pub(crate) fn fail_direct(&mut self, index: ConnKey, cause: Cause, sent: Sent) {
        if !self.connections.contains(index) {
            return;
        }
        match self.verdict(index, cause, sent) {
            Verdict::Retry(status) => {
                if !self.retry(index) {
                    self.refuse_lost(index, status);
                }
            }
            Verdict::Refuse(status) => self.refuse_lost(index, status),
            Verdict::Abort => {
                self.exchange(index).dispatch.lost = cause == Cause::Lost;
                self.abort_unanswered(index);
            }
        }
    }

    fn verdict(&mut self, index: ConnKey, cause: Cause, sent: Sent) -> Verdict {
        let exchange = self.exchange(index);
        // However it ended, its time was over.
        let cause = if exchange.dispatch.overdue { Cause::Late } else { cause };
        let safe = exchange.dispatch.retry == RetryState::Once;
        judge(
            cause,
            Reached { seen: sent.seen, safe, begun: sent.written, head_written: sent.written, spent: false },
            Rules::DEFAULT,
        )
    }

    fn refuse_lost(&mut self, index: ConnKey, status: u16) {
        self.enter(index, State::Head);
        self.refuse_kept(index, status, fields_of(status));
    }
}

/// The body of a request that no process has read.
enum UnseenBody {
    Inline(Vec<u8>),
    Spooled(Box<Spool>),
    /// Nothing of it has been read from the client.
    Coming,
}

/// A body whose descriptor has come back.
fn spooled(file: OwnedFd, kept: Permit, held: Permit) -> Option<Box<Spool>> {
    let bytes = rustix::fs::fstat(&file).ok()?.st_size as u64;
    // Nothing more is written to the file, so it makes no difference where it is.
    Some(Box::new(Spool { file: file.into(), bytes, on_disk: false, kept, held }))
}
