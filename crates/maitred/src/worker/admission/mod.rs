//! New connections, and those that are closed for them.
//!
//! | file | what |
//! |---|---|
//! | [`accept`] | new connections, and the choice between two threads |
//! | [`datagrams`] | datagrams of QUIC, and new connections that they begin |
//! | [`listener`] | a socket that they come from |
//! | [`reclaim`] | at the limit: the longest idle connection makes room |
//! | [`candidates`] | the longest idle connections |
//! | [`rates`] | clients that take too little |
//! | [`unsent`] | when much is unsent, or there is too much to do |
//! | [`drain`] | the end of the thread |
//! | [`watchdog`] | turns that take too long |

mod accept;
pub(in crate::worker) mod candidates;
mod datagrams;
mod drain;
pub(in crate::worker) mod listener;
mod rates;
mod reclaim;
mod unsent;
mod watchdog;

use std::time::Instant;

use super::layers::above;
use super::requests::Requests;
use crate::worker::admission::candidates::Reclaim;
use crate::worker::admission::datagrams::Receiving;
use crate::worker::admission::listener::Listener;
use crate::worker::connection::rates::Rates;

/// Which connections are accepted, and which are closed for others.
pub(in crate::worker) struct Admission {
    pub(in crate::worker) requests: Requests,
    pub(in crate::worker) listeners: Vec<Listener>,
    pub(in crate::worker) accepting: bool,
    /// The admin listener is not watched for now.
    pub(in crate::worker) admin_paused: bool,
    /// When to try again after the system ran out of something.
    pub(in crate::worker) accept_again_at: Option<Instant>,
    /// Which connection is closed for a new one when all places are taken.
    pub(in crate::worker) reclaim: Reclaim,
    /// When this process has begun to read datagram sockets, if others did before.
    pub(in crate::worker) receiving_since: Option<Instant>,
    /// Buffers for datagrams.
    pub(in crate::worker) receiving: Option<Box<Receiving>>,
    /// Which clients take too little of what is sent.
    pub(in crate::worker) rates: Rates,
}
above!(Admission, requests: Requests);

impl Admission {
    pub(in crate::worker) fn new(requests: Requests) -> Admission {
        Admission {
            requests,
            listeners: Vec::new(),
            accepting: false,
            admin_paused: false,
            accept_again_at: None,
            reclaim: Reclaim::default(),
            receiving_since: None,
            receiving: None,
            rates: Rates::default(),
        }
    }
}
