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
pub(crate) mod candidates;
mod datagrams;
mod drain;
pub(crate) mod listener;
mod rates;
mod reclaim;
mod unsent;
mod watchdog;

use std::time::Instant;

use super::layers::above;
use super::requests::Requests;
use crate::admission::candidates::Reclaim;
use crate::admission::datagrams::Receiving;
use crate::admission::listener::Listener;
use crate::connection::rates::Rates;

/// Which connections are accepted, and which are closed for others.
pub(crate) struct Admission {
    pub(crate) requests: Requests,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) accepting: bool,
    /// The admin listener is not watched for now.
    pub(crate) admin_paused: bool,
    /// When to try again after the system ran out of something.
    pub(crate) accept_again_at: Option<Instant>,
    /// Which connection is closed for a new one when all places are taken.
    pub(crate) reclaim: Reclaim,
    /// When this process has begun to read datagram sockets, if others did before.
    pub(crate) receiving_since: Option<Instant>,
    /// Buffers for datagrams.
    pub(crate) receiving: Option<Box<Receiving>>,
    /// Which clients take too little of what is sent.
    pub(crate) rates: Rates,
}
above!(Admission, requests: Requests);

impl Admission {
    pub(crate) fn new(requests: Requests) -> Admission {
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
