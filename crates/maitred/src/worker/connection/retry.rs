//! Whether a request may be sent to another process.

/// Whether a request that was lost with its process may be given to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RetryState {
    /// No: a second attempt may do something twice, or its body is gone. (A request that no process has received may be sent all
    /// the same.)
    #[default]
    Never,
    /// Yes: it has a safe method (9110-9.2.1) and no body, and its head is kept.
    Once,
    /// It was retried: a request that has killed two processes is not sent to a third one.
    Done,
}
