//! The one library or the other, where their functions differ.

#[cfg(feature = "noq")]
pub use noq::*;
#[cfg(feature = "quinn")]
pub use quinn::*;

#[cfg(feature = "quinn")]
mod quinn {
    use std::net::{IpAddr, SocketAddr};
    use std::sync::Arc;
    use std::time::Instant;

    use bytes::{Bytes, BytesMut};
    pub use quinn_proto::crypto::rustls::QuicServerConfig;
    pub use quinn_proto::*;

    pub const NAME: &str = "quinn-proto 0.11.19";

    pub fn endpoint(config: EndpointConfig, server: ServerConfig, mtud: bool) -> Endpoint {
        Endpoint::new(Arc::new(config), Some(Arc::new(server)), mtud, None)
    }

    pub fn handle(
        endpoint: &mut Endpoint,
        now: Instant,
        (from, to): (SocketAddr, Option<IpAddr>),
        ecn: Option<EcnCodepoint>,
        data: BytesMut,
        out: &mut Vec<u8>,
    ) -> Option<DatagramEvent> {
        endpoint.handle(now, from, to, ecn, data, out)
    }

    pub fn poll_transmit(
        connection: &mut Connection,
        now: Instant,
        most: usize,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        connection.poll_transmit(now, most, out)
    }

    pub fn write_chunks(stream: &mut SendStream<'_>, chunks: &mut [Bytes]) -> Result<(), WriteError> {
        stream.write_chunks(chunks).map(drop)
    }

    pub fn sent_lost_mtu(connection: &mut Connection) -> [u64; 3] {
        let path = connection.stats().path;
        [path.sent_packets, path.lost_packets, path.current_mtu.into()]
    }
}

#[cfg(feature = "noq")]
mod noq {
    use std::net::{IpAddr, SocketAddr};
    use std::num::NonZeroUsize;
    use std::sync::Arc;
    use std::time::Instant;

    use bytes::{Bytes, BytesMut};
    pub use noq_proto::crypto::rustls::QuicServerConfig;
    pub use noq_proto::*;

    pub const NAME: &str = "noq-proto 1.4.0";

    pub fn endpoint(config: EndpointConfig, server: ServerConfig, mtud: bool) -> Endpoint {
        Endpoint::new(Arc::new(config), Some(Arc::new(server)), mtud)
    }

    pub fn handle(
        endpoint: &mut Endpoint,
        now: Instant,
        (from, to): (SocketAddr, Option<IpAddr>),
        ecn: Option<EcnCodepoint>,
        data: BytesMut,
        out: &mut Vec<u8>,
    ) -> Option<DatagramEvent> {
        endpoint.handle(now, FourTuple::new(from, to), ecn, data, out)
    }

    pub fn poll_transmit(
        connection: &mut Connection,
        now: Instant,
        most: usize,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        connection.poll_transmit(now, NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN), out)
    }

    pub fn write_chunks(stream: &mut SendStream<'_>, mut chunks: &mut [Bytes]) -> Result<(), WriteError> {
        stream.write_chunks(&mut chunks).map(drop)
    }

    pub fn sent_lost_mtu(connection: &mut Connection) -> [u64; 3] {
        let mtu = connection.path_stats(PathId::ZERO).map_or(0, |path| path.current_mtu.into());
        let stats = connection.stats();
        [stats.sent_packets, stats.lost_packets, mtu]
    }
}
