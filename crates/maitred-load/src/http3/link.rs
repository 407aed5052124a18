//! One QUIC connection with its socket.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig, NoneTokenStore,
    TransportConfig,
};

use super::socket::{Buffers, Socket};
use crate::client::Tls;

/// Full buffers that are received before something else has its turn.
const RECEIVES_MAX: usize = 8;

/// Content of the largest datagram of UDP over IPv4, and so of all that the kernel cuts into segments.
const UDP_BYTES_MAX: usize = 65_507;

/// How connections to one server are made. Copies of a dialer share sessions to be resumed, and tokens that prove an address.
#[derive(Clone)]
pub struct Dialer {
    endpoint: Arc<EndpointConfig>,
    client: ClientConfig,
    name: String,
    /// Where to connect to.
    pub remote: SocketAddr,
    /// What to connect from. Port 0 is any that is free.
    pub local: SocketAddr,
}

impl Dialer {
    /// To the server at this address, with the name and the authorities of `tls`, and the protocols `alpn`. With `early_data`
    /// what is written before the handshake has ended is sent in 0-RTT, if a session can be resumed.
    ///
    /// # Errors
    /// When TLS cannot be that of QUIC.
    pub fn new(remote: SocketAddr, tls: &Tls, alpn: &[&[u8]], early_data: bool) -> Result<Dialer, String> {
        let crypto = QuicClientConfig::try_from(tls.with_protocols(alpn, early_data));
        let crypto = crypto.map_err(|error| error.to_string())?;
        let unspecified: IpAddr = match remote {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let mut client = ClientConfig::new(Arc::new(crypto));
        client.transport_config(Arc::new(super::transport()));
        Ok(Dialer {
            endpoint: Arc::new(EndpointConfig::default()),
            client,
            name: tls.name(),
            remote,
            local: SocketAddr::new(unspecified, 0),
        })
    }

    /// Other settings of transport.
    pub fn set_transport(&mut self, transport: Arc<TransportConfig>) {
        self.client.transport_config(transport);
    }

    /// Other settings of the endpoint, such as the length of its connection IDs.
    pub fn set_endpoint(&mut self, endpoint: EndpointConfig) {
        self.endpoint = Arc::new(endpoint);
    }

    /// Shows no token that proves an address, from now on.
    pub fn forget_tokens(&mut self) {
        self.client.token_store(Arc::new(NoneTokenStore));
    }

    /// Begins a connection. Nothing is sent before [`Link::transmit`].
    ///
    /// # Errors
    /// When there is no socket, or the name is none.
    pub fn dial(&self, now: Instant) -> io::Result<Link> {
        let socket = Socket::new(self.local, self.remote)?;
        let mut endpoint = Endpoint::new(self.endpoint.clone(), None, !socket.may_fragment(), None);
        let (handle, connection) = endpoint
            .connect(now, self.client.clone(), self.remote, &self.name)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(Link { socket, endpoint, handle, connection })
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer")
            .field("remote", &self.remote)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A connection. The owner calls [`receive`](Link::receive) when the socket is readable and [`expire`](Link::expire) when its
/// time has come, polls [`connection`](Link::connection) for events, reads and writes, and then calls
/// [`transmit`](Link::transmit).
pub struct Link {
    socket: Socket,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    /// The connection of QUIC.
    pub connection: Connection,
}

impl Link {
    /// Takes what has come. Whether there may be more: then it is to be called again, after others have had their turn.
    ///
    /// # Errors
    /// What the kernel says of the address: no process listens there, and the like. A connection may go on after that.
    pub fn receive(&mut self, now: Instant, buffers: &mut Buffers) -> io::Result<bool> {
        let Link { socket, endpoint, handle, connection } = self;
        let (rx, tx) = buffers.rx();
        let mut more = true;
        for _ in 0..RECEIVES_MAX {
            more = socket.receive(rx, |received| {
                tx.clear();
                let ip = None;
                match endpoint.handle(now, received.from, ip, received.ecn, received.datagram, tx) {
                    Some(DatagramEvent::ConnectionEvent(of, event)) if of == *handle => {
                        connection.handle_event(event);
                    }
                    Some(DatagramEvent::Response(transmit)) => socket.send(&transmit, tx),
                    // No peer connects to a client.
                    _ => {}
                }
            })?;
            if !more {
                break;
            }
        }
        self.exchange_events();
        Ok(more)
    }

    /// When [`expire`](Link::expire) is to be called. Any other call may change the time.
    pub fn timeout(&mut self) -> Option<Instant> {
        self.connection.poll_timeout()
    }

    /// Does what is due by now.
    pub fn expire(&mut self, now: Instant) {
        self.connection.handle_timeout(now);
        self.exchange_events();
    }

    fn exchange_events(&mut self) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
    }

    /// Sends what there is to send.
    pub fn transmit(&mut self, now: Instant, buffers: &mut Buffers) {
        self.exchange_events();
        loop {
            buffers.tx.clear();
            // More than one datagram of IP can carry is refused as a whole, and would be lost without a word.
            let fitting = UDP_BYTES_MAX / usize::from(self.connection.current_mtu()).max(1);
            let segments = self.socket.segments_max().min(fitting);
            let Some(transmit) = self.connection.poll_transmit(now, segments, &mut buffers.tx) else { break };
            self.socket.send(&transmit, &buffers.tx);
        }
    }

    /// Goes on from another address, without telling the peer: as a NAT does that has forgotten its port.
    ///
    /// # Errors
    /// When there is no such socket.
    pub fn rebind(&mut self, local: SocketAddr) -> io::Result<()> {
        self.socket = Socket::new(local, self.connection.remote_address())?;
        Ok(())
    }

    /// The address of its socket.
    ///
    /// # Errors
    /// When the kernel does not know it.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_address()
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("socket", &self.socket).finish_non_exhaustive()
    }
}
