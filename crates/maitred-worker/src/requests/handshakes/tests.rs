use std::os::fd::OwnedFd;
use std::sync::Arc;

use rcgen::PKCS_ECDSA_P256_SHA256;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::ClientConnection;
use rustls::version::{TLS12, TLS13};

use super::*;
use crate::inbox::Message;
use crate::keys::ConnKey;
use crate::reactor::Reactor;
use crate::testing::{client, config, reactor, shared_with};
use maitred_base::pki::{Bytes, Pair, files};
use maitred_testing::Authority;
use maitred_tls::TlsServer;
use maitred_tls::material::Material;
use maitred_tls::tickets::Seed;

const NAME: &str = "x.a.example";

/// A thread whose only site has certificates on demand, and none so far.
struct Stage {
    thread: Reactor,
    authority: Authority,
    seed: Seed,
}

/// A client in the middle of its handshake.
struct Client {
    index: ConnKey,
    far_end: OwnedFd,
    tls: ClientConnection,
}

impl Stage {
    fn new(keys: &str) -> Stage {
        let text = format!(
            "[acme]\nagree = true\nchallenge = \"tls-alpn-01\"\n\
             on_demand = {{ ask = \"http://127.0.0.1:9/\"{keys} }}\n[[listen]]\naddress = \"127.0.0.1:8443\"\ntls = {{}}\n\
             [[site]]\nacme = \"on-demand\"\n[[site.route]]\npath = \"/\"\nrespond = {{}}\n"
        );
        let seed = Seed::new(rustls::pki_types::UnixTime::now().as_secs()).unwrap();
        let tls = TlsServer::new(&config(&text), &material(&seed, Vec::new()), Vec::new()).unwrap();
        let thread = reactor(shared_with(&text, 1, |shared| shared.tls = tls), 0);
        Stage { thread, authority: Authority::new("Test"), seed }
    }

    /// A client that has said its first words, in pieces of that size.
    fn client(&mut self, name: &'static str, piece: usize) -> Client {
        let (index, far_end) = client(&mut self.thread, "192.0.2.1:1");
        assert!(self.thread.secure(index));
        let config = Arc::new(self.authority.client(&[&TLS12, &TLS13], None));
        let tls = ClientConnection::new(config, name.try_into().unwrap()).unwrap();
        let mut client = Client { index, far_end, tls };
        self.pass_on(&mut client, piece);
        client
    }

    /// What the client has to say gets to the thread.
    fn pass_on(&mut self, client: &mut Client, piece: usize) {
        let mut wire = Vec::new();
        while client.tls.wants_write() {
            client.tls.write_tls(&mut wire).unwrap();
        }
        for piece in wire.chunks(piece) {
            send(&client.far_end, piece, SendFlags::NOSIGNAL).unwrap();
            self.thread.on_readable(client.index);
        }
    }

    fn waiting(&self) -> u64 {
        self.thread.shared.tls.waiting().used()
    }

    fn is_parked(&self, client: &Client) -> bool {
        self.thread.connections[client.index].is(Phase::Handshake)
    }

    /// The certificate for this name is there.
    fn certify(&mut self, name: &str) {
        let made = self.authority.sign(&[name], &PKCS_ECDSA_P256_SHA256);
        let chain = files::certificates(made.certificate.as_bytes()).unwrap();
        let key = files::private_key(made.key.as_bytes()).unwrap();
        let chain = chain.iter().map(|der| Bytes(der.to_vec())).collect();
        let pair = Pair { chain, key: Bytes(key.secret_der().to_vec()), ocsp: None };
        self.thread.shared.tls.replace(&material(&self.seed, vec![(name.to_owned(), pair)])).unwrap();
    }

    /// The threads are told to look.
    fn look(&mut self) {
        self.thread.on_certificates();
    }
}

fn material(seed: &Seed, on_demand: Vec<(String, Pair)>) -> Material {
    Material {
        sites: vec![Vec::new()],
        client_roots: vec![Vec::new()],
        client_crls: vec![Vec::new()],
        challenges: Vec::new(),
        on_demand,
        upstreams: Vec::new(),
        tickets: seed.clone(),
        datagrams: maitred_tls::quic::secrets::Secret::new().unwrap(),
    }
}

impl Client {
    /// What has come for the client: nothing, what goes on with the handshake, or an alert.
    fn receive(&mut self) -> Option<Result<(), rustls::Error>> {
        let mut room = [0_u8; 16 * 1024];
        match recv(&self.far_end, &mut room, RecvFlags::DONTWAIT) {
            Ok((_, received)) => {
                let mut bytes = &room[..received];
                self.tls.read_tls(&mut bytes).unwrap();
                Some(self.tls.process_new_packets().map(|_| ()))
            }
            Err(error) => {
                assert_eq!(error, Errno::AGAIN);
                None
            }
        }
    }

    #[track_caller]
    fn is_refused(&mut self) {
        let error = self.receive().unwrap().unwrap_err();
        assert!(matches!(error, rustls::Error::AlertReceived(_)), "{error}");
    }
}

#[test]
fn a_handshake_waits_for_its_certificate_and_goes_on() {
    for piece in [1, 100, 100_000] {
        let mut stage = Stage::new("");
        let mut client = stage.client(NAME, piece);
        assert!(stage.is_parked(&client) && client.receive().is_none());
        assert_eq!(stage.waiting(), 1);
        assert!(format!("{:?}", stage.thread.shared.outbox.take()).contains(NAME), "the name is asked for");
        // Something else has changed.
        stage.certify("y.a.example");
        stage.look();
        assert!(stage.is_parked(&client) && client.receive().is_none());
        stage.certify(NAME);
        stage.look();
        assert!(!stage.is_parked(&client));
        assert_eq!(client.receive(), Some(Ok(())));
        stage.pass_on(&mut client, 100_000);
        assert!(!client.tls.is_handshaking());
        assert_eq!(stage.thread.row.tls_handshakes.get(), 1);
        assert_eq!(stage.waiting(), 0);
        let next = stage.client(NAME, piece);
        assert!(!stage.is_parked(&next), "it is there from now on");
    }
}

#[test]
fn a_handshake_fails_as_soon_as_there_will_be_no_certificate() {
    let mut stage = Stage::new("");
    let mut clients = [NAME, "y.a.example"].map(|name| stage.client(name, 100));
    stage.thread.shared.tls.refused(NAME);
    stage.look();
    clients[0].is_refused();
    assert!(stage.is_parked(&clients[1]));
    // The order of the other one has failed.
    stage.thread.shared.tls.later("y.a.example");
    stage.look();
    clients[1].is_refused();
    for name in [NAME, "y.a.example"] {
        stage.client(name, 100).is_refused();
    }
    assert_eq!((stage.waiting(), stage.thread.row.tls_failures.get()), (0, 4));
}

#[test]
fn a_handshake_waits_for_no_longer_than_its_time_and_leaves_its_place() {
    let mut stage = Stage::new("");
    let mut late = stage.client(NAME, 100);
    let deadline = stage.thread.wheel.deadline(late.index).unwrap();
    let now = stage.thread.wheel.millis(stage.thread.clock.now);
    assert!((29_000..=31_000).contains(&(deadline - now)), "{deadline} {now}");
    stage.thread.on_deadline(late.index);
    late.is_refused();
    let gone = stage.client(NAME, 100);
    assert_eq!(stage.waiting(), 1);
    stage.thread.abort_any(gone.index);
    assert_eq!(stage.waiting(), 0);
}

#[test]
fn handshakes_that_wait_have_a_bound() {
    let mut stage = Stage::new(", waiting_max = 2");
    let clients: Vec<_> = (0..2).map(|_| stage.client(NAME, 100)).collect();
    assert!(clients.iter().all(|client| stage.is_parked(client)));
    stage.client(NAME, 100).is_refused();
    // Handshakes that end make room, also in the list.
    for client in clients {
        stage.thread.abort_any(client.index);
    }
    for _ in 0..5 {
        let next = stage.client(NAME, 100);
        assert!(stage.is_parked(&next));
        stage.thread.abort_any(next.index);
    }
    assert!(stage.thread.handshakes.len() <= 2);
    let mut never = Stage::new(", waiting_max = 0");
    never.client(NAME, 100).is_refused();
    assert!(
        never.thread.shared.inboxes[0].take().iter().all(|message| !matches!(message, Message::Certificates))
    );
}
