//! One request again and again, or several in turn, on many streams of many connections: a closed loop.
//!
//! # What becomes of a request
//!
//! | what happens | it is |
//! |---|---|
//! | the whole response comes | measured |
//! | GOAWAY says that it was not processed, or it is reset with H3_REQUEST_REJECTED | sent again |
//! | it is reset otherwise, or its connection ends, before or within the response | failed |
//! | what comes is no HTTP/3, or another length than was said | failed |
//! | it takes longer than the time that it has | failed, and its stream is reset |
//!
//! A connection that has ended, or that the server is about to leave, is replaced by another at once.

mod engine;
mod exchange;
mod peer;

use std::time::Duration;

use bytes::Bytes;
use maitred_http::h3::frame::{kind, put_header};
use maitred_http::h3::qpack::Encoder;

use super::Dialer;
use crate::measure::{Failure, Measurements, Nanos};

pub use engine::Engine;

/// What one thread sends.
#[derive(Debug, Clone)]
pub struct Load {
    /// Where to.
    pub dialer: Dialer,
    /// The requests, which are sent in turn; at least one.
    pub samples: Vec<Sample>,
    /// Connections that are kept busy.
    pub connections: usize,
    /// Requests at a time on each of them, if the server allows as many.
    pub streams: usize,
    /// Further connections that bring one request each, and then stay.
    pub idle: usize,
    /// Requests altogether, those on idle connections not counted.
    pub requests: Option<u64>,
    /// No request is sent after this.
    pub end: Nanos,
    /// From the start of a connection or a request to its end.
    pub timeout: Duration,
}

/// A request as it is written on a stream.
#[derive(Debug, Clone)]
pub struct Sample {
    /// HEADERS frame of the request and, if there is content, the header of a DATA frame.
    head: Bytes,
    /// Content of the request.
    body: Bytes,
    /// The response has no content.
    is_head: bool,
}

impl Sample {
    /// A request of this method for a path at an authority, with further fields and this content.
    pub fn new(
        method: &str,
        authority: &str,
        path: &str,
        fields: &[(String, String)],
        body: Bytes,
    ) -> Sample {
        let mut section = Vec::new();
        Encoder::begin(&mut section);
        let pseudo = [(":method", method), (":scheme", "https"), (":authority", authority), (":path", path)];
        pseudo
            .iter()
            .for_each(|(name, value)| Encoder::field(name.as_bytes(), value.as_bytes(), &mut section));
        fields
            .iter()
            .for_each(|(name, value)| Encoder::field(name.as_bytes(), value.as_bytes(), &mut section));
        if !body.is_empty() {
            Encoder::field(b"content-length", body.len().to_string().as_bytes(), &mut section);
        }
        let mut head = Vec::new();
        put_header(&mut head, kind::HEADERS, section.len() as u64);
        head.extend_from_slice(&section);
        if !body.is_empty() {
            put_header(&mut head, kind::DATA, body.len() as u64);
        }
        Sample { head: head.into(), body, is_head: method == "HEAD" }
    }
}

/// What all connections of a thread write their results to.
#[derive(Debug)]
struct Ledger {
    seen: Measurements,
    /// Requests that were begun, without those that are to be sent again.
    begun: u64,
    /// Which of the samples comes next, modulo their number.
    turn: usize,
    requests_max: u64,
    in_flight: usize,
    /// Nothing is begun any more.
    is_over: bool,
    now: Nanos,
}

impl Ledger {
    fn may_begin(&self) -> bool {
        !self.is_over && self.begun < self.requests_max
    }

    fn failed(&mut self, failure: Failure) {
        self.in_flight -= 1;
        self.seen.failure(self.now, failure);
    }

    /// No connection for a request.
    fn not_connected(&mut self, failure: Failure, is_idle: bool) {
        self.begun += u64::from(!is_idle);
        self.seen.failure(self.now, failure);
    }

    /// A request that the server has not processed. `counts`: it is one of the closed loop's.
    fn again(&mut self, counts: bool) {
        self.in_flight -= 1;
        self.begun -= u64::from(counts);
        self.seen.sent_again += 1;
    }
}
