//! Comparisons over TLS and HTTP/2.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};

use maitred_load::client::{Identity, Trust};
use maitred_load::compare::{Case, Gathered, Options, Port, Request, run};
use maitred_load::target::Target;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use crate::support::maitred::{Maitred, maitred};
use crate::support::*;
use crate::{gathered, kinds, targets};

type Authority = CertifiedIssuer<'static, KeyPair>;
/// Names that were asked for, and whether there was a certificate.
type Log = Arc<Mutex<Vec<(String, bool)>>>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A server that takes a certificate of this authority's, or none, and notes what it was shown.
fn server(authority: &Authority) -> (SocketAddr, Log) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(AsRef::<rcgen::Certificate>::as_ref(authority).der().clone()).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.allow_unauthenticated().build().unwrap())
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (config, log) = (Arc::new(config), Log::default());
    let noted = log.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (config, log) = (config.clone(), noted.clone());
            std::thread::spawn(move || serve(stream, config, &log));
        }
    });
    (address, log)
}

fn serve(stream: TcpStream, config: Arc<ServerConfig>, log: &Mutex<Vec<(String, bool)>>) {
    let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut piece = [0; 4096];
        match stream.read(&mut piece) {
            Ok(count @ 1..) => head.extend_from_slice(&piece[..count]),
            _ => return,
        }
    }
    let name = stream.conn.server_name().unwrap_or("(none)").to_owned();
    log.lock().unwrap().push((name, stream.conn.peer_certificates().is_some()));
    let _ = stream.write_all(&response(200, "a")).and_then(|()| stream.flush());
    stream.conn.send_close_notify();
    let _ = stream.flush();
}

#[test]
fn tls_asks_for_the_host_and_shows_the_certificate() {
    let authority = authority();
    let ((left, left_log), (right, right_log)) = (server(&authority), server(&authority));
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["client.example".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &*authority).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let identity = Identity {
        certificate: write(directory.path(), "cert.pem", certificate.pem().as_bytes()).into(),
        key: write(directory.path(), "key.pem", key.serialize_pem().as_bytes()).into(),
    };
    let target = |address: SocketAddr| Target::parse(&format!("https://{address}"), false).unwrap();
    let options = Options { identity: Some(identity), ..Options::new(target(left), target(right)) };
    let named = Request { host: Some("a.example:8443".to_owned()), ..Request::get("/a") };
    let anonymous = Request { is_anonymous: true, ..named.clone() };
    let report = run(&options, gathered(vec![named, anonymous, Request::get("/b")])).unwrap();
    assert_eq!((report.compared, report.exit_code()), (3, 0), "{:?}", report.kinds());
    let expected = [("a.example", true), ("a.example", false), ("localhost", true)];
    for log in [left_log, right_log] {
        let seen = log.lock().unwrap().clone();
        let seen: Vec<_> = seen.iter().map(|(name, shown)| (name.as_str(), *shown)).collect();
        assert_eq!(seen, expected);
    }
    // None of the system's authorities has signed it.
    let strict = Options { trust: Trust::Authorities(maitred_load::client::AUTHORITIES.into()), ..options };
    if std::path::Path::new(maitred_load::client::AUTHORITIES).exists() {
        assert!(run(&strict, targets(&["/"])).unwrap_err().starts_with("no TLS session to the left"));
    }
}

#[test]
fn configured_ports_are_mapped() {
    let (main, other) = (Server::answering("main"), Server::answering("other"));
    let target = Target::parse(&main.url(), false).unwrap();
    let mapped = (other.address.port(), other.address.port());
    let options = Options { ports: [(8080, mapped)].into(), ..Options::new(target.clone(), target) };
    let request = |number| Request { port: Some(Port { number, is_tls: false }), ..Request::get("/") };
    let cases = [request(80), request(8080)].map(|request| Case { request, ..Case::default() });
    let port = Some(Port { number: 80, is_tls: false });
    let report = run(&options, Gathered { cases: cases.into(), port, ..Gathered::default() }).unwrap();
    assert_eq!((report.compared, report.exit_code()), (2, 0));
    assert_eq!((main.seen().len(), other.seen().len()), (2, 2));
}

/// HTTP/2 with and without TLS, by the real server: the second has another file, and lacks one.
#[test]
fn http2_is_compared_as_well() {
    let Some(binary) = maitred() else {
        skip::skip_missing("no maitred binary beside maitred-load; build the workspace first");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let large = "0123456789".repeat(100_000);
    for (side, files) in [
        ("left", &[("a.txt", "a"), ("b.txt", "bbb"), ("c.txt", "c"), ("large.txt", large.as_str())][..]),
        ("right", &[("a.txt", "a"), ("b.txt", "bbc"), ("large.txt", large.as_str())][..]),
    ] {
        std::fs::create_dir(directory.path().join(side)).unwrap();
        for (name, content) in files {
            let path = directory.path().join(side).join(name);
            std::fs::write(&path, content).unwrap();
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000)).unwrap();
        }
    }
    for further in [&[][..], &["--tls"]] {
        let start = |side: &str| {
            let path = directory.path().join(side);
            let arguments = ["serve", path.to_str().unwrap(), "--listen", "127.0.0.1:0", "--log", "off"];
            Maitred::start(&binary, &[&arguments[..], further].concat())
        };
        let (left, right) = (start("left"), start("right"));
        let target = |server: &Maitred| Target::parse(&server.url, false).unwrap();
        let options = Options { is_http2: true, rate: 10_000, ..Options::new(target(&left), target(&right)) };
        let get =
            ["/a.txt", "/b.txt", "/c.txt", "/large.txt", "//a.txt", "/%61.txt", "/no"].map(Request::get);
        let head = Request { method: "HEAD".to_owned(), ..Request::get("/large.txt") };
        let report = run(&options, gathered([&get[..], &[head]].concat())).unwrap();
        assert_eq!(kinds(&report), [("body differs", 1), ("status 200 -> 404", 1)], "{further:?}");
        assert_eq!((report.compared, report.same), (8, 6), "{:?}", report.failed);
    }
}
