//! Responses under way.

mod connections;
mod fastcgi;
mod feed;
mod http1;
mod overdue;
mod pump;
mod relay;
mod remote_thread;
mod removal;
pub(in crate::worker) mod send;
mod server;
mod tunnel;
mod upstream;

use super::layers::above;
use super::processes::Processes;
use super::upstream::connections::Upstreams;

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
