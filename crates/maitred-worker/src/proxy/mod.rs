//! Servers that requests are passed on to (`connect = "http://…"`): the parts without a socket or a clock.
//!
//! | module | what it holds |
//! |---|---|
//! | `balancer` | which server gets a request, as one thread decides it |
//! | `group` | servers of one rank: draws by weight, and the ring of hashed keys |
//! | `line` | the order of the requests that wait for a server |
//! | `server` | what all threads know of one server |
//! | `table` | the servers of a pool, which can change |
//! | `turns` | turns by weight |
//!
//! The connections to them belong to the event loop: `worker::upstream` has what one of them is, `worker::exchanges::server` the
//! way of a request.

mod balancer;
mod group;
mod line;
mod server;
mod table;
mod turns;

pub use balancer::{Balancer, Choice, Wish};
pub use group::key_of;
pub use server::{Condition, Failure, Server, hash_of};
pub use table::{List, Listed, Policy, Row, ServerTable};
