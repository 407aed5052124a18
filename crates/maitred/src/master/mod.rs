//! The master process: owns the listening sockets, starts and supervises the worker process and the application
//! processes, and replaces generations on reload.
//!
//! It never parses HTTP, never reads a client's byte, and never waits for anything but its own events. Everything is
//! decided in [`state`], which has no clock, socket or process inside; [`shell`] carries the decisions out.

pub mod state;
