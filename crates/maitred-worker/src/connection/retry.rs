//! Whether a request may be sent to another process.

/// Whether a request that was lost with its process may be given to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum RetryState {
    /// No: a second attempt may do something twice, or its body is gone. (A request that no process has received may be sent all
    /// the same.)
    #[default]
    Never,
    /// Yes: it has a safe method (9110-9.2.1) and no body, and its head is kept.
    Once,
    /// No: the request was retried, and one that has killed two processes is not sent to a third one.
    Done,
}

impl RetryState {
    /// What holds while the request is at a process; `safe`: it has a safe method, and no body.
    pub(crate) fn of_attempt(self, safe: bool) -> RetryState {
        match self {
            // What is noted may be about an earlier request of the connection.
            _ if !safe => RetryState::Never,
            RetryState::Never | RetryState::Once => RetryState::Once,
            RetryState::Done => RetryState::Done,
        }
    }

    /// The same at another thread: after two processes are lost with a request it is not retried, whichever threads they belong
    /// to.
    pub(crate) fn of_remote_thread(self) -> RetryState {
        if self == RetryState::Done { RetryState::Done } else { RetryState::Never }
    }
}
