//! HTTP/2 (RFC 9113) as pure functions and machines: no I/O, no clock.

pub mod frame;
pub mod hpack;
mod session;

pub use session::{
    CONTROL_BYTES_MAX, Code, DATA_BYTES_MAX, EARLY_PRIORITIES_MAX, Event, FORGIVEN_IN, Fatal, Floods,
    Opening, SENT_AHEAD_BYTES, STREAMS_AT_ONCE_MAX, Session, Settings, StreamKey, head_bytes,
};
