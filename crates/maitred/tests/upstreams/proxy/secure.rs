//! `connect = "https://…"`: servers that are spoken to over TLS.

use std::sync::Arc;
use std::sync::mpsc::channel;

use ::aws_lc_rs::digest::SHA256;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PublicKeyData as _};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{HandshakeKind, ServerConfig};

use crate::support::upstream::{Peer, Upstream};
use crate::support::{Setup, eventually};

/// An authority.
pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
pub(crate) struct Made {
    certificate: String,
    key: KeyPair,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate for a name, which ends with this year.
    pub(crate) fn sign(&self, name: &str, until: i32) -> Made {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2021, 1, 1);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().unwrap();
        Made { certificate: params.signed_by(&key, &self.issuer).unwrap().pem(), key }
    }

    fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()
    }
}

/// A server with this certificate. `clients`: the authority that its clients' certificates have to be signed by.
pub(crate) fn config(made: &Made, clients: Option<&Authority>) -> Arc<ServerConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let builder = builder.unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = rustls::RootCertStore::empty();
            roots.add(authority.der()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let chain = vec![CertificateDer::from_pem_slice(made.certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(made.key.serialize_pem().as_bytes()).unwrap();
    let mut config = builder.with_single_cert(chain, key).unwrap();
    config.ticketer = aws_lc_rs::Ticketer::new().unwrap();
    Arc::new(config)
}

/// Says what it was asked, and with what length, again and again.
fn say(peer: &mut Peer) -> std::io::Result<()> {
    loop {
        let asked = peer.request()?;
        peer.answer(format!("{} {}", asked.target(), asked.body.len()))?;
    }
}

/// A server whose requests go to these, by this table.
fn setup(upstreams: &[&Upstream], authority: &Authority, tls: &str) -> Setup {
    let names: Vec<String> = upstreams.iter().map(|upstream| format!("\"{}\"", upstream.name())).collect();
    Setup::with_files()
        .outside("ca.pem", authority.pem.as_bytes())
        .route("/a.txt", "root = \"root\"")
        .route("/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = [{}]\ntls = {{ {tls} }}\n", names.join(", ")))
}

const NAMED: &str = "ca = \"ca.pem\", server_name = \"inner.example\"";

#[test]
fn a_server_is_spoken_to_over_tls() {
    let authority = Authority::new();
    let upstream = Upstream::secure(config(&authority.sign("inner.example", 2100), None), say);
    let server = setup(&[&upstream], &authority, NAMED).start();
    let mut client = server.connect();
    for number in 0..20 {
        assert_eq!(client.get(&format!("/page/{number}")).text(), format!("/page/{number} 0"));
    }
    // From memory, from a file, and as it comes.
    for bytes in [1000, 100_000, 3_000_000] {
        assert_eq!(client.post("/a", &vec![b'x'; bytes]).text(), format!("/a {bytes}"));
    }
    assert_eq!(upstream.connections(), 1, "the connection is kept, tickets that come on it or not");
    server.stop();
}

#[test]
fn long_responses_come_whole_and_both_sides_may_talk() {
    let authority = Authority::new();
    let upstream = Upstream::secure(config(&authority.sign("inner.example", 2100), None), |peer| {
        loop {
            let asked = peer.request()?;
            if asked.target() == "/socket" {
                peer.send(
                    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
                )?;
                return peer.echo();
            }
            peer.answer(vec![b'y'; asked.target()[1..].parse().unwrap()])?;
        }
    });
    let server = setup(&[&upstream], &authority, NAMED).start();
    let mut client = server.connect();
    for bytes in [16_384, 65_536, 10_000_000] {
        assert_eq!(client.get(&format!("/{bytes}")).body.len(), bytes);
    }
    client.send("GET /socket HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert!(client.raw_head().unwrap().starts_with(b"HTTP/1.1 101 "));
    client.is_echoed();
    client.finish_sending();
    assert_eq!(client.exactly(3).unwrap(), b"bye");
    server.stop();
}

/// Whose certificate is not good gets nothing of the request, and the log has the reason.
#[test]
fn a_server_with_a_wrong_certificate_gets_nothing() {
    let authority = Authority::new();
    for (made, reason) in [
        (authority.sign("other.example", 2100), "NotValidForName"),
        (authority.sign("inner.example", 2022), "Expired"),
        (Authority::new().sign("inner.example", 2100), "UnknownIssuer"),
    ] {
        let upstream = Upstream::secure(config(&made, None), say);
        let server = setup(&[&upstream], &authority, NAMED).start();
        assert_eq!(server.connect().get("/").status, 502);
        let line = server.wait_for("a server failed");
        assert!(line.contains("certificate") || line.contains(reason), "{line}");
        assert_eq!(upstream.requests(), 0);
        server.stop();
    }
    let good = Upstream::secure(config(&authority.sign("inner.example", 2100), None), say);
    let bad = Upstream::secure(config(&authority.sign("inner.example", 2022), None), say);
    let server = setup(&[&bad, &good], &authority, NAMED).start();
    for _ in 0..4 {
        assert_eq!(server.connect().post("/a", b"abc").text(), "/a 3", "the next server is tried");
    }
    server.stop();
}

#[test]
fn a_key_can_be_pinned_and_verification_left_out() {
    use base64::Engine as _;
    let authority = Authority::new();
    let made = authority.sign("other.example", 2100);
    let digest = ::aws_lc_rs::digest::digest(&SHA256, &made.key.subject_public_key_info());
    let pin = base64::engine::general_purpose::STANDARD.encode(digest);
    let upstream = Upstream::secure(config(&made, None), say);
    for (tls, status) in [
        ("verify = false".to_owned(), 200),
        (format!("verify = false, pins = [\"sha256//{pin}\"]"), 200),
        (format!("ca = \"ca.pem\", server_name = \"other.example\", pins = [\"sha256/{pin}\"]"), 200),
        (format!("verify = false, pins = [\"sha256//{}\"]", pin.replace(&pin[..2], "AA")), 502),
    ] {
        let server = setup(&[&upstream], &authority, &tls).start();
        assert_eq!(server.connect().get("/").status, status, "{tls}");
        server.stop();
    }
}

#[test]
fn a_server_may_want_a_certificate() {
    let authority = Authority::new();
    let own = authority.sign("front.example", 2100);
    let (sender, seen) = channel();
    let sender = std::sync::Mutex::new(sender);
    let upstream =
        Upstream::secure(config(&authority.sign("inner.example", 2100), Some(&authority)), move |peer| {
            peer.request()?;
            let shown = peer.tls().peer_certificates().map(<[_]>::len);
            sender.lock().unwrap().send((shown, peer.tls().server_name().map(str::to_owned))).unwrap();
            peer.answer("hello")
        });
    let tls = format!("{NAMED}, certificate = \"own.pem\", key = \"own.key\"");
    let server = setup(&[&upstream], &authority, &tls)
        .outside("own.pem", own.certificate.as_bytes())
        .outside("own.key", own.key.serialize_pem().as_bytes())
        .start();
    assert_eq!(server.connect().get("/").text(), "hello");
    assert_eq!(seen.recv().unwrap(), (Some(1), Some("inner.example".to_owned())));
    server.stop();
    let server = setup(&[&upstream], &authority, NAMED).start();
    assert_eq!(server.connect().get("/").status, 502);
    server.stop();
}

/// An end without `close_notify` may be an attacker's.
#[test]
fn a_response_that_is_cut_off_is_not_whole() {
    let authority = Authority::new();
    let upstream = Upstream::secure(config(&authority.sign("inner.example", 2100), None), |peer| {
        let asked = peer.request()?;
        peer.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall that there is")?;
        if asked.target() == "/whole" { peer.finish() } else { Ok(()) }
    });
    let server = setup(&[&upstream], &authority, NAMED).start();
    assert_eq!(server.connect().get("/whole").text(), "all that there is");
    let mut client = server.connect();
    client.send("GET /cut HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(client.try_response("GET").is_err(), "its last chunk is missing");
    server.stop();
}

/// A new certificate of the authority is in use without a reload.
#[test]
fn a_new_authority_is_in_use_when_its_file_changes() {
    let (first, second) = (Authority::new(), Authority::new());
    let upstream = Upstream::secure(config(&second.sign("inner.example", 2100), None), say);
    let server = setup(&[&upstream], &first, NAMED).start();
    assert_eq!(server.connect().get("/").status, 502);
    let path = server.path("ca.pem");
    std::fs::write(&path, &second.pem).unwrap();
    eventually("the new authority is in use", || server.connect().get("/").status == 200);
    server.stop();
}

/// A server that closes is spoken to by a session that goes on.
#[test]
fn sessions_are_resumed() {
    let authority = Authority::new();
    let (sender, seen) = channel();
    let sender = std::sync::Mutex::new(sender);
    let upstream = Upstream::secure(config(&authority.sign("inner.example", 2100), None), move |peer| {
        peer.request()?;
        sender.lock().unwrap().send(peer.tls().handshake_kind()).unwrap();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    });
    let server = setup(&[&upstream], &authority, NAMED).start();
    for expected in [HandshakeKind::Full, HandshakeKind::Resumed] {
        assert_eq!(server.connect().get("/").status, 200);
        assert_eq!(seen.recv().unwrap(), Some(expected));
    }
    server.stop();
}

/// A connection alone is not enough.
#[test]
fn a_server_that_does_not_shake_hands_is_given_up_in_time() {
    let authority = Authority::new();
    let silent = Upstream::start(Peer::wait_for_end);
    let server = Setup::with_files()
        .outside("ca.pem", authority.pem.as_bytes())
        .route("/*", "pool = \"app\"")
        .table(&format!(
            "[pool.app]\nconnect = \"https://{}\"\nconnect_timeout = \"300ms\"\ntls = {{ {NAMED} }}\n",
            silent.address()
        ))
        .start();
    assert_eq!(server.connect().get("/").status, 504);
    server.stop();
}
