//! A log as a workload: which of its lines are sent, as what request, by which client and when.

mod curve;
mod planner;
mod reorder;
mod request;
mod schedule;
mod source;

pub use curve::Curve;
pub use planner::{Summary, plan};
pub use reorder::{REORDER_DEFAULT, REORDER_MAX};
pub use source::{Batch, Source, channel};

use std::time::Duration;

use crate::measure::Nanos;

/// When requests are sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Pace {
    /// Closed loop: as soon as a connection is free.
    Fast,
    /// Open loop: at the times of the log, so many times as fast.
    Logged {
        /// 1.0 is the log's own pace.
        speed: f64,
    },
    /// Open loop: at the rate of a curve, in the order of the log.
    Curve(Curve),
}

/// Which requests share connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sessions {
    /// Requests of one client address.
    Address,
    /// All of them.
    None,
}

/// How a log is replayed.
#[derive(Debug, Clone)]
pub struct Settings {
    /// When requests are sent.
    pub pace: Pace,
    /// Open loop: the log's time starts at rest and reaches its full speed within this time.
    pub ramp: Nanos,
    /// Which requests share connections.
    pub sessions: Sessions,
    /// Threads that the requests are divided among, by client.
    pub threads: usize,
    /// Requests to send at most.
    pub requests_max: Option<u64>,
    /// With the log's own timing: how far out of order its lines may be.
    pub reorder: Duration,
    /// Start again at the log's end, until another limit is reached.
    pub is_repeated: bool,
    /// Methods other than GET and HEAD too, without a body.
    pub all_methods: bool,
    /// Connections are kept.
    pub keep_alive: bool,
    /// Ask for what was logged as 304, 206 or 416 in such a way that it can be answered so.
    pub conditions: bool,
    /// Compare responses with the log.
    pub verify: bool,
    /// The `Host` field. If absent, the log's host, or else this one.
    pub host: Option<Vec<u8>>,
    /// The `Host` field for lines without one.
    pub default_host: Vec<u8>,
    /// Nothing is planned beyond this time.
    pub end: Nanos,
}
