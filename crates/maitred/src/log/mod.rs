//! Access log and error log.
//!
//! | module | what it holds |
//! |---|---|
//! | [`access`] | one request → one line, in the format that the configuration chose |
//! | [`writer`] | lines of the event-loop threads → one descriptor, by a thread that may block |
//! | [`error`] | what goes to standard error: `tracing`, one line an event, and a bound on what peers can provoke |
//!
//! An event loop never waits for a log: what the writer cannot take in time is dropped and counted.

pub mod access;
pub mod error;
pub mod writer;
