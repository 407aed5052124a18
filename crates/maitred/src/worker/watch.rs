//! Once a second: how the threads use their CPUs, and what adaptive affinity makes of it.

use super::shared::Shared;

/// The look at the threads of this process.
pub(super) struct Watch {
    _shared: &'static Shared,
    _tids: Vec<i32>,
}

impl Watch {
    /// Watches the threads with these ids.
    pub(super) fn new(shared: &'static Shared, tids: Vec<i32>) -> Self {
        Watch { _shared: shared, _tids: tids }
    }

    /// Looks once.
    pub(super) fn look(&mut self) {}
}
