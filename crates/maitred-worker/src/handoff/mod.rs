//! Requests to application processes: the server's side of the handoff protocol (`adapters/PROTOCOL.md`).
//!
//! This module holds what belongs to one application process ([`Channel`]) and to one pool on one thread
//! ([`pool::LocalPool`]). The event loop's part, which connection waits where, is `crate::requests::hand_off`.

mod channel;
mod choice;
mod in_flight;
mod known;
pub(crate) mod link;
mod pool;
mod relay;
mod socket;
mod sticky;

pub(crate) use channel::{Arrival, Channel, DrainMode, Health, Phase};
pub(crate) use choice::{Choice, Costs, PERIOD as CHOICE_PERIOD, Sample};
pub(crate) use in_flight::{InFlight, SentBody, Unsent, UnsentBody};
pub(crate) use known::{Allowance, OPEN_FILES_DEFAULT};
pub(crate) use pool::Pools;
pub(crate) use relay::{RELAY_BIT, Relay};
pub(crate) use socket::{ClientSockets, Flushed, RECEIVE_BYTES, Received};
pub(crate) use sticky::{Ticket, client_of, rendezvous};
