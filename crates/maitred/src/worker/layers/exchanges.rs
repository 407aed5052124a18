//! Responses under way.

use super::super::upstream::connections::Upstreams;
use super::{Processes, above};

/// Responses under way, from files, processes and servers, and how they end.
pub(in crate::worker) struct Exchanges {
    pub(in crate::worker) processes: Processes,
    /// Connections to servers.
    pub(in crate::worker) upstreams: Upstreams,
}
above!(Exchanges, processes: Processes);

impl Exchanges {
    pub(in crate::worker) fn new(processes: Processes) -> Exchanges {
        let upstreams = Upstreams::new(&processes.shared.start.config.pools, processes.number);
        Exchanges { processes, upstreams }
    }
}
