//! Whether a request may be sent to another process.

/// Whether a request that was lost with its process may be given to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RetryState {
    /// No: asking twice may do something twice, or its body is gone. (One that no process has seen is another matter.)
    #[default]
    Never,
    /// Yes: it has a safe method (9110-9.2.1) and no body, and its head is kept.
    Once,
    /// It was: what kills two processes gets no third one.
    Done,
}
