//! A load generator for what existing tools do not do: it replays access logs, makes a document tree that a log implies,
//! runs a workload in the manner of SPECweb99, and speaks HTTP/3. [`compare`] holds two servers against each other.
//!
//! The way of a request: a [`log::reader`] thread reads lines and a [`replay`] plan turns them into requests with intended
//! times; each [`client`] thread (one epoll loop) sends them and reads the responses; what it sees goes into
//! [`measure::Measurements`]. HTTP/3 has a loop of its own, [`http3::repeat`].
//!
//! Time is nanoseconds since the start of the run, from the monotonic clock.

pub mod cli;
pub mod client;
pub mod compare;
pub mod http3;
pub mod log;
pub mod measure;
pub mod progress;
pub mod replay;
pub mod report;
pub mod run;
pub mod specweb;
pub mod target;
pub mod tree;
