//! A request on its way to another thread.

use std::time::Instant;

use maitred_http::request::RequestHead;

use super::Exchange;
use super::body::RequestBody;
use super::gated::Gated;
use super::retry::RetryState;
use crate::upstream::remote_thread::RemoteRequest;
use maitred_files::exchange::Routed;

/// A request that has yet to be answered.
#[derive(Debug, Default)]
pub(crate) struct RequestTransfer {
    /// The head of the request; empty if there is no request.
    pub head: RequestHead,
    /// What was decided about it.
    pub routed: Option<Routed>,
    /// The path of the request, if routes and files go by another one than it has sent.
    pub path: Option<Box<[u8]>>,
    /// The body of the request.
    pub body: RequestBody,
    /// Whether it may be retried, should a process die.
    pub retry: RetryState,
    /// Since when it waits for an application process.
    pub waits_since: Option<Instant>,
    /// What the gates of its route have said.
    pub gated: Option<Box<Gated>>,
    /// The connection is one end of a socketpair; another thread has the client.
    pub across: Option<Box<RemoteRequest>>,
}

impl Exchange {
    /// The request, of a connection that another thread gets.
    pub(crate) fn into_request(self) -> RequestTransfer {
        RequestTransfer {
            head: self.head,
            routed: self.routed,
            path: self.path,
            body: self.body,
            retry: self.dispatch.retry,
            waits_since: self.dispatch.waits_since,
            gated: self.dispatch.gated,
            across: self.dispatch.across,
        }
    }

    /// The request, for another thread, while the connection stays: what is logged here stays, too.
    pub(crate) fn split_request(&mut self) -> RequestTransfer {
        RequestTransfer {
            head: self.head.clone(),
            routed: self.routed,
            path: self.path.clone(),
            body: self.body.take(),
            retry: self.dispatch.retry,
            waits_since: self.dispatch.waits_since,
            gated: self.dispatch.gated.clone(),
            across: None,
        }
    }

    /// Takes over the request of another thread.
    pub(crate) fn take_request(&mut self, request: RequestTransfer) {
        (self.head, self.routed, self.path) = (request.head, request.routed, request.path);
        self.body = request.body;
        (self.dispatch.retry, self.dispatch.waits_since, self.dispatch.across) =
            (request.retry, request.waits_since, request.across);
        self.dispatch.gated = request.gated;
    }
}
