//! TYPES of channels.rs

/// What is said of a process that has closed its channel.
pub(super) const CLOSED: &str = "it closed its channel";
