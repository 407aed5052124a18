//! DOC upstream/server.rs

use std::time::Duration;

use super::Processes;

impl Processes {
    /// How long whoever answers may be silent.
    pub(in crate::worker) fn request_timeout(&self, pool: u16) -> Duration {
        self.shared.start.config.pools[usize::from(pool)].request_timeout
    }
}
