//! TYPES of proxy_protocol.rs

/// A peer that may not connect to a listener with `proxy_protocol`. It was logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::worker) struct NotAProxy;
