//! How a comparison is made.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::allow::Allowance;
use super::echo::Echo;
use crate::client::{Identity, Trust};
use crate::target::Target;

/// How a comparison is made.
#[derive(Debug)]
pub struct Options {
    /// The left server: that which is known to be right.
    pub left: Target,
    /// The right server.
    pub right: Target,
    /// For configured ports, those of the left and of the right server.
    pub ports: BTreeMap<u16, (u16, u16)>,
    /// `Host` of requests that have none.
    pub host: String,
    /// Fields of all requests.
    pub fields: Vec<(String, Vec<u8>)>,
    /// Whose certificates are good.
    pub trust: Trust,
    /// The certificate that the client shows.
    pub identity: Option<Identity>,
    /// HTTP/2 is spoken.
    pub is_http2: bool,
    /// Methods that may change something are sent.
    pub unsafe_methods: bool,
    /// Requests per second, to each server.
    pub rate: u32,
    /// Requests, to each server.
    pub requests_max: usize,
    /// Bytes of a response's body.
    pub body_bytes_max: usize,
    /// Time of a request, with its connection.
    pub timeout: Duration,
    /// Time of the run.
    pub duration_max: Duration,
    /// Pairs of requests at a time.
    pub threads: usize,
    /// The applications behind the left and the right server.
    pub echo: Option<(Echo, Echo)>,
    /// Differences that are accepted.
    pub allowances: Vec<Allowance>,
    /// Set to end the run early.
    pub stop: Arc<AtomicBool>,
}

impl Options {
    /// The defaults.
    pub fn new(left: Target, right: Target) -> Options {
        Options {
            left,
            right,
            ports: BTreeMap::new(),
            host: "localhost".to_owned(),
            fields: Vec::new(),
            trust: Trust::Anyone,
            identity: None,
            is_http2: false,
            unsafe_methods: false,
            rate: 200,
            requests_max: 10_000,
            body_bytes_max: 8 << 20,
            timeout: Duration::from_secs(10),
            duration_max: Duration::from_secs(600),
            threads: 1,
            echo: None,
            allowances: Vec::new(),
            stop: Arc::default(),
        }
    }
}
