//! Application processes.
//!
//! | file | what |
//! |---|---|
//! | [`life`] | start, health checks, and end |
//! | [`channels`] | what they send, and how they end |
//! | [`links`] | channels that other worker processes use as well, after a reload |
//! | [`lost`] | requests that are lost with them, or that they have not read |
//! | [`passed`] | descriptors that come from them |
//! | [`relays`] | relays that are left, lost, and closed |
//! | [`room`] | how many requests they can take, and how many wait |
//! | [`sticky`] | which of them gets the requests of a client, in pools with `sticky` |
//! | [`transport_tuner`] | the cheaper way to answer a request |
//! | [`overdue`] | when a request is due, and orphaned requests |
//! | [`reasons`] | why a process is ended |

mod channels;
mod life;
pub(in crate::worker) mod links;
pub(in crate::worker) mod lost;
mod overdue;
mod passed;
pub(in crate::worker) mod reasons;
mod relays;
mod room;
mod sticky;
mod transport_tuner;

use std::collections::VecDeque;
use std::time::Instant;

use super::clients::Clients;
use super::layers::above;
use crate::handoff::{Pools, RECEIVE_BYTES as RECEIVED_FROM_CHANNEL};

/// Channels to application processes, and what is due there.
pub(in crate::worker) struct Processes {
    pub(in crate::worker) clients: Clients,
    /// Channels, relays, links, and the queues of pools.
    pub(in crate::worker) pools: Pools,
    /// Channels with frames to send at the end of the turn.
    pub(in crate::worker) dirty: Vec<usize>,
    /// Channels with more to read than one turn takes: key and epoch.
    pub(in crate::worker) ready_channels: Vec<(usize, u32)>,
    /// The same of links.
    pub(in crate::worker) ready_links: Vec<(usize, u32)>,
    /// Relays that are not watched yet: key, which of their uses is meant, and when they shall be.
    pub(in crate::worker) unwatched: VecDeque<(u32, u32, Instant)>,
    /// When unused relays are closed, and whether a period ends then.
    pub(in crate::worker) relay_sweep: Option<(Instant, bool)>,
    /// When the health of application processes is looked at next.
    pub(in crate::worker) next_health: Option<Instant>,
    /// When the costs of answering are looked at next.
    pub(in crate::worker) next_tuning: Instant,
    /// Where the kernel writes what application processes send.
    pub(in crate::worker) heard: Box<[u8; RECEIVED_FROM_CHANNEL]>,
}
above!(Processes, clients: Clients);

impl Processes {
    pub(in crate::worker) fn new(clients: Clients) -> Processes {
        Processes {
            pools: Pools::new(clients.shared.start.config.pools.len()),
            dirty: Vec::new(),
            ready_channels: Vec::new(),
            ready_links: Vec::new(),
            unwatched: VecDeque::new(),
            relay_sweep: None,
            next_health: None,
            next_tuning: clients.clock.now,
            heard: Box::new([0; RECEIVED_FROM_CHANNEL]),
            clients,
        }
    }
}
