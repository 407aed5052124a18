//! TYPES of passed.rs

/// What is said where this process has no descriptor left.
pub(super) const NO_DESCRIPTOR: &str = "response aborted: no descriptor is left for its file";
