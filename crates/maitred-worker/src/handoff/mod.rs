//! Requests to application processes: the server's side of the handoff protocol (`adapters/PROTOCOL.md`).
//!
//! The module holds what belongs to one application process ([`Channel`]) and to one pool on one thread
//! ([`pool::LocalPool`]). The event loop's part, which connection waits where, is `crate::requests::hand_off`.
//!
//! [`Channel`] numbers a request and says whether a descriptor has to come along (`enter_direct`, `enter_relay`); all that a turn
//! has for a process leaves in one sendmsg(2) (`flush`). With DONE the connection is reclaimed (`Processes::on_done`). A process
//! of capacity *n* has *n* requests, and some more that are expected to wait for no more than `PREFETCH_US` in all.

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
