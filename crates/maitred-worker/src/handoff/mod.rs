//! Requests to application processes: the server's side of the handoff protocol (`adapters/PROTOCOL.md`).
//!
//! This module holds what belongs to one application process ([`Channel`]) and to one pool on one thread
//! ([`LocalPool`]). The event loop's part, which connection waits where, is `worker::hand_off`.

mod channel;
mod choice;
mod in_flight;
mod known;
pub mod link;
mod pool;
mod relay;
mod socket;
mod sticky;

pub use channel::{Arrival, Away, Channel, DrainMode, Health, Phase};
pub use choice::{Choice, Costs, PERIOD as CHOICE_PERIOD, Sample};
pub use in_flight::{InFlight, SentBody, Unsent, UnsentBody};
pub use known::{Allowance, Known, OPEN_FILES_DEFAULT};
pub use pool::{LocalPool, Pools};
pub use relay::{IdleRelays, RELAY_BIT, Relay};
pub use socket::{ClientSockets, Flushed, RECEIVE_BYTES, Received};
pub use sticky::{Ticket, client_of, rendezvous};
