//! The client: one epoll loop per thread, which sends what a [`Workload`] gives it and measures what comes back.
//!
//! # States of a connection
//!
//! | state | writable | bytes | end of stream | reset | deadline |
//! |---|---|---|---|---|---|
//! | `Connecting` | send → `Head`, with TLS `Handshake`, or *fail* | – | – | *fail* | *fail* |
//! | `Handshake` | send the rest | → `Handshake`, or send → `Head`, or *fail* | *fail* | *fail* | *fail* |
//! | `Head`, no byte yet | send the rest | parse → `Head`, `Body`, *done* | *again* or *fail* | *again* or *fail* | *fail* |
//! | `Head`, some bytes | send the rest | parse → `Head`, `Body`, *done* | *fail* | *fail* | *fail* |
//! | `Body` | send the rest | count → `Body`, *done* | *done* if framed by it, else *fail* | *fail* | *fail* |
//! | `Idle` | – | close | close | close | close |
//!
//! *done*: measure; the next request of the same client goes out, or the connection is `Idle`, or it is closed if either side
//! said so. *fail*: count and close. *again*: once, on another connection, if this one had answered before and the method is
//! idempotent, since a server may close a kept connection at any time (RFC 9110 section 9.2.2, RFC 9112 section 9.3.1).
//!
//! # Who gets a connection
//!
//! Requests of one client ([`Request::client`]) share that client's connections, at most [`Rules::per_client_max`]; when all
//! are busy the request waits for one of them. When [`Rules::connections_max`] are open, the connection that has been idle
//! longest makes room for another client's.

mod connection;
mod engine;
mod groups;
mod response;
mod tls;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64};

pub use engine::Engine;
pub(crate) use response::{Body, FIELDS_MAX, HEAD_BYTES_MAX, head};
pub use tls::{AUTHORITIES, Identity, Tls, Trust};

use crate::measure::Nanos;

/// What a thread may do.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Where to connect to.
    pub address: SocketAddr,
    /// How connections are encrypted, if they are.
    pub tls: Option<Tls>,
    /// Connections that are open at a time.
    pub connections_max: usize,
    /// Of these, connections of one client.
    pub per_client_max: usize,
    /// Requests that wait for a connection of their client. What is not taken from the workload because of this bound still
    /// has its intended time, so that no latency is hidden.
    pub waiting_max: usize,
    /// Whether requests have intended times (open loop). If not, a request is taken as soon as a connection may take it.
    pub is_open: bool,
    /// Closed loop: the number of connections grows to its full value within this time.
    pub ramp: Nanos,
    /// No request is sent after this.
    pub end: Nanos,
    /// From the start of a connection or a request to the end of the response.
    pub timeout: Nanos,
    /// A connection without a request for so long is closed.
    pub idle_max: Nanos,
}

/// A request on its way. Workloads fill it; the buffer is used again.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The whole request: head, and body if any.
    pub bytes: Vec<u8>,
    /// The client that sends it: any number that is the same for the same client.
    pub client: u64,
    /// When it should be sent. Absent in a closed loop.
    pub due: Option<Nanos>,
    /// The method is HEAD: the response has no body.
    pub is_head: bool,
    /// The method is idempotent, so that it may be sent again.
    pub is_idempotent: bool,
    /// The connection ends with it; the bytes say so too.
    pub closes: bool,
    /// What the response is compared with.
    pub logged: Option<Logged>,
    /// Of use to the workload only.
    pub tag: u32,
    /// From when its latency counts.
    started: Nanos,
    /// Whether the request has been sent on another connection before.
    is_second: bool,
}

/// What the log says of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Logged {
    /// Status of the response.
    pub status: u16,
    /// Length of its body, if it is known.
    pub bytes: Option<u64>,
}

/// What a workload has for a thread that could send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The request was filled in.
    Request,
    /// The next request is due at this time.
    WaitUntil(Nanos),
    /// A request may be there soon.
    Starved,
    /// No request will come any more.
    Finished,
}

/// Where a thread's requests come from.
pub trait Workload {
    /// The next request, into `request`, whose buffer is empty.
    fn next(&mut self, now: Nanos, request: &mut Request) -> Next;

    /// A response was complete.
    fn answered(&mut self, _request: &Request, _status: u16, _body_bytes: u64, _now: Nanos) {}

    /// A request got no complete response.
    fn failed(&mut self, _request: &Request, _now: Nanos) {}
}

/// What the threads of a run and the one that watches them share.
#[derive(Debug, Default)]
pub struct Shared {
    /// Set to end the run early.
    pub stop: AtomicBool,
    /// Complete responses so far.
    pub responses: AtomicU64,
    /// Failed requests so far.
    pub failures: AtomicU64,
    /// Bytes of bodies so far.
    pub body_bytes: AtomicU64,
}
