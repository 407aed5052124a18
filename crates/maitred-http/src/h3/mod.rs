//! HTTP/3 (RFC 9114) as pure functions and machines: no I/O, no clock, no QUIC. Sections cited as "9114-x" and "9204-x" are those
//! of RFC 9114 and RFC 9204.

mod error;
pub mod frame;
pub mod qpack;
pub mod reader;
pub mod request;
mod session;
pub mod streams;
pub mod varint;

pub use crate::priority::Priority;
pub use error::{Code, Error};
pub use session::{
    Action, Event, Order, STREAM_AHEAD_BYTES, Session, Settings, UNIDIRECTIONAL_STREAMS_MAX, Unsent,
};
