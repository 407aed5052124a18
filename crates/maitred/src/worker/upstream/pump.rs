//! TYPES of upstream/pump.rs

/// What one read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::worker) enum Read {
    /// Bytes, and perhaps more behind them.
    More,
    /// Everything that is there for now.
    Drained,
    /// Everything that there will be.
    Ended,
    /// It has failed, which has been dealt with.
    Failed,
}
