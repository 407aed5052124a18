//! What `docs/upstream-notes.md` says of the libraries. A test here that fails says that a library has changed: what was done
//! about it in this project can go, or is not right any more.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy.toml does not know to be such")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use maitred_base::pki::files;
use maitred_testing::Authority;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig, ServerConfig,
    TransportConfig,
};
use rustls::PeerMisbehaved;
use rustls::pki_types::ServerName;
use rustls::server::ServerSessionMemoryCache;
use rustls::version::TLS13;

fn server_of(authority: &Authority) -> rustls::ServerConfig {
    let made = authority.sign(&["a.test"], &rcgen::PKCS_ECDSA_P256_SHA256);
    let chain = files::certificates(made.certificate.as_bytes()).unwrap();
    let key = files::private_key(made.key.as_bytes()).unwrap();
    rustls::ServerConfig::builder_with_provider(Arc::clone(maitred_base::pki::provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap()
}

fn at(number: u8) -> SocketAddr {
    ([127, 0, 0, number], 4433).into()
}

/// Two ends of a connection of QUIC, without a network.
struct Pair {
    now: Instant,
    client: (Endpoint, ConnectionHandle, Connection),
    server: (Endpoint, Option<(ConnectionHandle, Connection)>),
    /// Where the datagrams of the client come from, and where it gets those of the server.
    client_at: SocketAddr,
    /// Bytes to the server by their source, and from it by their destination.
    bytes: BTreeMap<SocketAddr, (usize, usize)>,
}

const SERVER: u8 = 1;

impl Pair {
    fn new() -> Pair {
        let authority = Authority::new("tests");
        let mut client = authority.client(&[&TLS13], None);
        client.alpn_protocols = vec![b"h3".to_vec()];
        let mut server = server_of(&authority);
        server.alpn_protocols = vec![b"h3".to_vec()];
        let crypto = Arc::new(QuicServerConfig::try_from(server).unwrap());
        let mut server = ServerConfig::with_crypto(crypto);
        // Probes of the MTU have no frames but their own.
        let mut transport = TransportConfig::default();
        transport.mtu_discovery_config(None);
        server.transport_config(Arc::new(transport));
        let endpoint = || Arc::new(EndpointConfig::default());
        let server = Endpoint::new(endpoint(), Some(Arc::new(server)), true, None);
        let mut endpoint = Endpoint::new(endpoint(), None, true, None);
        let client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(client).unwrap()));
        let now = Instant::now();
        let (handle, connection) = endpoint.connect(now, client, at(SERVER), "a.test").unwrap();
        let mut pair = Pair {
            now,
            client: (endpoint, handle, connection),
            server: (server, None),
            client_at: at(2),
            bytes: BTreeMap::new(),
        };
        while pair.step() {}
        assert!(!pair.connection().is_handshaking());
        pair.bytes.clear();
        pair
    }

    fn connection(&mut self) -> &mut Connection {
        &mut self.server.1.as_mut().unwrap().1
    }

    fn send(&mut self) -> bool {
        let mut any = false;
        let mut buffer = Vec::new();
        while let Some(transmit) = self.client.2.poll_transmit(self.now, 1, &mut buffer) {
            any = true;
            self.bytes.entry(self.client_at).or_default().0 += transmit.size;
            let datagram = BytesMut::from(&buffer[..transmit.size]);
            buffer.clear();
            let mut answer = Vec::new();
            let (server, connection) = &mut self.server;
            match server.handle(self.now, self.client_at, None, None, datagram, &mut answer) {
                Some(DatagramEvent::NewConnection(incoming)) => {
                    *connection = server.accept(incoming, self.now, &mut answer, None).ok();
                }
                Some(DatagramEvent::ConnectionEvent(_, event)) => {
                    connection.as_mut().unwrap().1.handle_event(event);
                }
                _ => {}
            }
        }
        self.settle();
        any
    }

    fn settle(&mut self) {
        let (endpoint, handle, connection) = &mut self.client;
        while let Some(event) = connection.poll_endpoint_events() {
            endpoint
                .handle_event(*handle, event)
                .into_iter()
                .for_each(|event| connection.handle_event(event));
        }
        let (endpoint, Some((handle, connection))) = &mut self.server else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            endpoint
                .handle_event(*handle, event)
                .into_iter()
                .for_each(|event| connection.handle_event(event));
        }
    }

    /// One datagram of the server. Gives back how many challenges it has.
    fn receive(&mut self) -> Option<u64> {
        let (now, mut buffer) = (self.now, Vec::new());
        let connection = self.connection();
        let before = connection.stats();
        let transmit = connection.poll_transmit(now, 1, &mut buffer)?;
        let after = connection.stats();
        self.bytes.entry(transmit.destination).or_default().1 += transmit.size;
        if transmit.destination == self.client_at {
            let (endpoint, _, connection) = &mut self.client;
            let datagram = BytesMut::from(&buffer[..transmit.size]);
            if let Some(DatagramEvent::ConnectionEvent(_, event)) =
                endpoint.handle(now, at(SERVER), None, None, datagram, &mut Vec::new())
            {
                connection.handle_event(event);
            }
        }
        self.settle();
        Some(after.frame_tx.path_challenge - before.frame_tx.path_challenge)
    }

    fn step(&mut self) -> bool {
        self.now += Duration::from_millis(1);
        let sent = self.send();
        let mut received = false;
        while self.receive().is_some() {
            received = true;
        }
        sent || received
    }
}

/// `quinn-proto`: more than three times what has come goes to addresses that are not validated. If this fails, what
/// `maitred_worker::connection::paths` counts is counted there.
#[test]
fn the_quic_library_sends_too_much_to_addresses_that_it_has_not_validated() {
    let mut pair = Pair::new();
    let own = pair.client_at;
    for turn in 0..20 {
        pair.client_at = at(10 + turn % 2);
        pair.now += Duration::from_millis(10);
        pair.client.2.ping();
        pair.send();
        // No client is there.
        pair.client_at = own;
        while pair.receive().is_some() {}
    }
    let (sent, received) = [10, 11]
        .map(|number| pair.bytes[&at(number)])
        .into_iter()
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert!(
        sent > 0 && received > 3 * sent,
        "{received} for {sent}: the library keeps to RFC 9000 section 8.1"
    );
}

/// `quinn-proto`: by what `maitred_worker::connection::quic` knows that a path is validated. If this fails, it does not know any
/// more: requests are judged by addresses that are not proved, or wait for ever.
#[test]
fn each_packet_has_a_challenge_until_the_path_is_validated() {
    let mut pair = Pair::new();
    pair.client_at = at(10);
    let mut challenged = 0;
    // The first packets for the client are lost. They are few enough for the server's congestion window, as no timer of its runs
    // here that would declare them lost.
    for _ in 0..100 {
        if challenged >= 5 {
            break;
        }
        pair.now += Duration::from_millis(10);
        pair.client.2.ping();
        pair.send();
        let client = std::mem::replace(&mut pair.client_at, at(9));
        while let Some(challenges) = pair.receive() {
            assert_eq!(challenges, 1);
            challenged += 1;
        }
        pair.client_at = client;
    }
    assert!(challenged >= 5);
    // How soon the server may send the client a whole challenge depends on what it has sent before (RFC 9000 section 8.1).
    let mut last = 1;
    for _ in 0..100 {
        pair.now += Duration::from_millis(10);
        pair.client.2.ping();
        pair.send();
        pair.connection().ping();
        while let Some(challenges) = pair.receive() {
            last = challenges;
        }
        if last == 0 {
            break;
        }
    }
    assert_eq!(last, 0, "the client has answered");
    assert_eq!(pair.connection().remote_address(), at(10));
}

/// `quinn-proto`: the timer for what is lost on the path before fires while nothing is in flight on the new one. If this fails,
/// the exception in the profile for tests and `docs/upstream-notes.md` can go.
#[test]
fn a_timer_of_the_path_before_stays_when_a_client_changes_its_address() {
    let mut pair = Pair::new();
    // Something of the server is in flight, and lost.
    pair.connection().ping();
    pair.client_at = at(9);
    while pair.receive().is_some() {}
    let timer = pair.connection().poll_timeout().unwrap();
    // The client is somewhere else before the timer fires, and nothing has been sent to it there.
    pair.client_at = at(10);
    pair.client.2.ping();
    pair.send();
    assert_eq!(pair.connection().remote_address(), at(10));
    // An acknowledgement is due before it.
    while let Some(earlier) = pair.connection().poll_timeout().filter(|earlier| *earlier < timer) {
        pair.connection().handle_timeout(earlier);
    }
    assert_eq!(pair.connection().poll_timeout(), Some(timer), "the timer is that of the new path");
    pair.now = timer;
    pair.connection().handle_timeout(timer);
    assert!(!pair.connection().is_closed(), "a probe too many is all that comes of it");
    assert!(pair.receive().is_some(), "the challenge is sent");
}

/// `rustls`: of early data that is refused, no more than half of what is announced can be skipped. If this fails,
/// `maitred_tls::early` can go.
#[test]
fn rustls_skips_half_of_the_early_data_that_it_announces() {
    const ANNOUNCED: u32 = 16_384;
    let authority = Authority::new("tests");
    let mut client = authority.client(&[&TLS13], None);
    client.enable_early_data = true;
    let client = Arc::new(client);
    let mut server = server_of(&authority);
    server.max_early_data_size = ANNOUNCED;
    server.session_storage = ServerSessionMemoryCache::new(8);
    drop(maitred_testing::connect(&client, Arc::new(server.clone()), "a.test").unwrap());
    // It knows no session.
    server.session_storage = ServerSessionMemoryCache::new(8);
    let mut server = rustls::ServerConnection::new(Arc::new(server)).unwrap();
    let mut session = rustls::ClientConnection::new(client, ServerName::try_from("a.test").unwrap()).unwrap();
    session.early_data().unwrap().write_all(&[b'x'; 12_000]).unwrap();
    let mut pass = || -> Result<(), rustls::Error> {
        let mut bytes = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut bytes).unwrap();
        }
        let mut bytes = &bytes[..];
        while !bytes.is_empty() {
            server.read_tls(&mut bytes).unwrap();
            server.process_new_packets()?;
        }
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        let mut bytes = &bytes[..];
        while !bytes.is_empty() {
            session.read_tls(&mut bytes).unwrap();
            session.process_new_packets()?;
        }
        Ok(())
    };
    let ended = (0..3).try_for_each(|_| pass());
    assert_eq!(ended, Err(rustls::Error::DecryptError), "rustls skips what it announces");
}

/// What one end of a connection has to say goes to the other.
fn deliver<L, R>(
    from: &mut rustls::ConnectionCommon<L>,
    to: &mut rustls::ConnectionCommon<R>,
) -> Result<rustls::IoState, rustls::Error> {
    let mut bytes = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut bytes).unwrap();
    }
    take(to, &bytes)
}

fn take<L>(to: &mut rustls::ConnectionCommon<L>, mut bytes: &[u8]) -> Result<rustls::IoState, rustls::Error> {
    while !bytes.is_empty() {
        to.read_tls(&mut bytes).unwrap();
        to.process_new_packets()?;
    }
    to.process_new_packets()
}

/// `rustls`: a client that breaks the protocol hears nothing about some of it, and then `close_notify`, as at the end of any
/// connection. If this fails, the section about it in `docs/upstream-notes.md` can go.
#[test]
fn rustls_says_nothing_of_some_errors() {
    type Session = (rustls::ClientConnection, rustls::ServerConnection);
    let authority = Authority::new("tests");
    let server = Arc::new(server_of(&authority));
    let client = Arc::new(authority.client(&[&TLS13], None));
    let name = || ServerName::try_from("a.test").unwrap();
    let begun = || -> Session {
        let mut client = rustls::ClientConnection::new(Arc::clone(&client), name()).unwrap();
        let mut server = rustls::ServerConnection::new(Arc::clone(&server)).unwrap();
        deliver(&mut client, &mut server).unwrap();
        deliver(&mut server, &mut client).unwrap();
        (client, server)
    };
    let ended = |(client, server): &mut Session, why: PeerMisbehaved, faulty: Result<(), rustls::Error>| {
        assert_eq!(faulty.unwrap_err(), rustls::Error::PeerMisbehaved(why));
        let heard = deliver(server, client).map(|state| state.peer_has_closed());
        assert_eq!(heard, Ok(false), "rustls says what was wrong: RFC 8446 section 6.2");
        server.send_close_notify();
        assert!(deliver(server, client).unwrap().peer_has_closed());
    };
    // RFC 8446 section 5: more than one is not needed, and rustls takes two.
    let mut session = begun();
    let faulty = take(&mut session.1, &[20, 3, 3, 0, 1, 1].repeat(3)).map(|_| ());
    ended(&mut session, PeerMisbehaved::IllegalMiddleboxChangeCipherSpec, faulty);
    // Section 4.6.3: nothing but updates of keys.
    let mut session = begun();
    deliver(&mut session.0, &mut session.1).unwrap();
    let faulty = (0..40).try_for_each(|_| {
        session.0.refresh_traffic_keys()?;
        deliver(&mut session.0, &mut session.1).map(|_| ())
    });
    ended(&mut session, PeerMisbehaved::TooManyKeyUpdateRequests, faulty);
    // Of a record that cannot be decrypted it does say so.
    let (mut client, mut server) = begun();
    take(&mut server, &[23, 3, 3, 0, 20].into_iter().chain([0; 20]).collect::<Vec<u8>>()).unwrap_err();
    let alert = deliver(&mut server, &mut client).unwrap_err();
    assert_eq!(alert, rustls::Error::AlertReceived(rustls::AlertDescription::BadRecordMac));
}
