//! HTTP/3 towards a server: QUIC by `quinn-proto`, HTTP/3 by `maitred-http`, and a loop of this crate's own.
//!
//! A [`Dialer`] knows how connections are made. A [`Link`] is one of them, with a UDP socket of its own, so that each has an
//! address of its own as connections of different browsers have. [`repeat`] drives many of them from one epoll loop as a load;
//! [`client`] is one that tests drive step by step.

pub mod client;
mod link;
pub mod repeat;
mod session;
mod socket;

pub use link::{Dialer, Link};
pub use quinn_proto;
pub use socket::Buffers;

use std::sync::Arc;
use std::time::Duration;

use quinn_proto::{TransportConfig, VarInt};

/// Content that a server may send on a stream before it was read: as much as Chromium allows.
const STREAM_WINDOW_BYTES: u32 = 6 << 20;
/// Content that a server may send on all streams of a connection before it was read: as much as Chromium allows.
const CONNECTION_WINDOW_BYTES: u32 = 15 << 20;

/// The settings of transport that a browser might have; they can be changed before they are given to a [`Dialer`].
pub fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW_BYTES))
        // A server opens no other streams than unidirectional ones (RFC 9114 section 6.1).
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None);
    transport
}

/// The same for a connection that has nothing to do: it stays as long as the server lets it.
fn idle_transport() -> Arc<TransportConfig> {
    let mut transport = transport();
    transport.keep_alive_interval(Some(Duration::from_secs(10)));
    Arc::new(transport)
}
