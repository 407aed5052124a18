//! HTTP/1.1 servers that requests are passed on to (`connect = "http://…"`): the parts without a socket or a clock.
//!
//! [`Balancer`] chooses among the servers of a pool. The connections to them belong to the event loop: `worker::upstream`
//! has what one of them is, `worker::proxy` the way of a request.

mod balancer;

pub use balancer::{Balancer, Failure};
