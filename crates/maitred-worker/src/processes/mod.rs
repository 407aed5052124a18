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
//! | [`courtesy`] | who goes first where they share a CPU with this thread |
//! | [`crowded`] | what more descriptors are under way for than may be |
//! | [`transport_tuner`] | the cheaper way to answer a request |
//! | [`overdue`] | when a request is due, and orphaned requests |
//! | [`reasons`] | why a process is ended |

mod channels;
mod courtesy;
pub(crate) mod crowded;
mod life;
pub(crate) mod links;
pub(crate) mod lost;
mod overdue;
mod passed;
pub(crate) mod reasons;
mod relays;
mod room;
mod sticky;
mod transport_tuner;

use std::collections::VecDeque;
use std::time::Instant;

use self::courtesy::Courtesy;
use self::crowded::Crowded;
use super::clients::Clients;
use super::layers::above;
use crate::handoff::{Pools, RECEIVE_BYTES as RECEIVED_FROM_CHANNEL};
use crate::keys::{ChannelKey, LinkKey, RelayKey};

/// Channels to application processes, and what is due there.
pub(crate) struct Processes {
    pub(crate) clients: Clients,
    /// Channels, relays, links, and the queues of pools.
    pub(crate) pools: Pools,
    /// Channels with frames to send at the end of the turn.
    pub(crate) dirty: Vec<ChannelKey>,
    /// Channels with more to read than one turn takes: key and epoch.
    pub(crate) ready_channels: Vec<(ChannelKey, u32)>,
    /// The same of links.
    pub(crate) ready_links: Vec<(LinkKey, u32)>,
    /// Relays that are not watched yet: key, which of their uses is meant, and when they shall be.
    pub(crate) unwatched: VecDeque<(RelayKey, u32, Instant)>,
    /// When unused relays are closed, and whether a period ends then.
    pub(crate) relay_sweep: Option<(Instant, bool)>,
    /// What more descriptors are under way for than may be, and when it is tried again.
    pub(crate) crowded: Crowded,
    /// When the health of application processes is looked at next.
    pub(crate) next_health: Option<Instant>,
    /// When the costs of answering are looked at next.
    pub(crate) next_tuning: Instant,
    /// Whether the application processes' work goes before that of this thread.
    pub(crate) courtesy: Courtesy,
    /// Where the kernel writes what application processes send.
    pub(crate) heard: Box<[u8; RECEIVED_FROM_CHANNEL]>,
}
above!(Processes, clients: Clients);

impl Processes {
    pub(crate) fn new(clients: Clients) -> Processes {
        Processes {
            pools: Pools::new(clients.shared.start.config.pools.len()),
            dirty: Vec::new(),
            ready_channels: Vec::new(),
            ready_links: Vec::new(),
            unwatched: VecDeque::new(),
            relay_sweep: None,
            crowded: Crowded::default(),
            next_health: None,
            next_tuning: clients.clock.now,
            courtesy: Courtesy::default(),
            heard: Box::new([0; RECEIVED_FROM_CHANNEL]),
            clients,
        }
    }
}
