//! Automatic certificates where they are for: in handshakes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustix::process::Signal;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::acme::pebble::{Manners, Pebble};
use crate::support::{Setup, TIMEOUT, eventually};

/// The server has an address with TLS, too, where the authority looks for it.
pub(crate) fn with_tls(pebble: &Pebble, setup: Setup) -> Setup {
    setup.table(&format!("[[listen]]\naddress = \"{}\"\ntls = {{}}\n", pebble.tls))
}

/// A page of that host over TLS, with a certificate that has to lead to the authority; or why there is none.
pub(crate) fn get(pebble: &Pebble, host: &'static str, root: &str) -> Result<String, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(root.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
    let name = host.try_into().unwrap();
    let session = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(pebble.tls).map_err(|error| text(&error))?;
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut stream = rustls::StreamOwned::new(session, stream);
    let request = format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(|error| text(&error))?;
    let mut response = String::new();
    stream.read_to_string(&mut response).map_err(|error| text(&error))?;
    Ok(response)
}

#[test]
fn a_certificate_is_shown_as_soon_as_it_is_there() {
    let Some(pebble) = Pebble::without_authority(Manners::default()) else { return };
    let server = with_tls(&pebble, pebble.setup(&["a.example"], "")).start();
    server.wait_for_line(|line| line.contains("no certificate:"));
    let any = rcgen::generate_simple_self_signed(["x".to_owned()]).unwrap().cert.pem();
    let refused = get(&pebble, "a.example", &any).unwrap_err();
    assert!(refused.contains("alert"), "the handshake fails, and no other certificate is shown: {refused}");
    let pebble = pebble.with_authority();
    pebble.next_certificate("a.example", None);
    let root = pebble.root();
    eventually("it is in use", || get(&pebble, "a.example", &root).is_ok());
    let response = get(&pebble, "a.example", &root).unwrap();
    assert!(response.starts_with("HTTP/1.1 200 ") && response.ends_with("file a\n"), "{response}");
    server.terminate(Signal::TERM);
}

#[test]
fn a_restart_shows_the_certificate_from_its_first_handshake_on() {
    let Some(mut pebble) = Pebble::start(Manners::default()) else { return };
    let server = with_tls(&pebble, pebble.setup(&["a.example"], "")).start();
    pebble.next_certificate("a.example", None);
    let root = pebble.root();
    let setup = server.stop().setup;
    pebble.stop();
    let server = setup.start();
    assert!(get(&pebble, "a.example", &root).unwrap().ends_with("file a\n"));
    server.stop();
}

#[test]
fn names_are_proved_in_the_handshake() {
    let Some(pebble) = Pebble::start(Manners::default()) else { return };
    let setup = pebble.setup(&["a.example", "b.example"], "challenge = \"tls-alpn-01\"");
    let server = with_tls(&pebble, setup.replacing_address("127.0.0.1:0")).start();
    pebble.next_certificate("a.example", None);
    let root = pebble.root();
    for host in ["a.example", "b.example"] {
        eventually("it is in use", || get(&pebble, host, &root).is_ok());
    }
    let stopped = server.stop();
    assert!(!stopped.access.iter().any(|line| line.contains("acme-challenge")), "{:?}", stopped.access);
}

#[test]
fn the_other_challenge_is_taken_after_a_failure() {
    let Some(pebble) = Pebble::start(Manners::default()) else { return };
    // HTTP-01 comes first, and the authority finds no listener there.
    let setup = pebble.setup(&["a.example"], "").replacing_address("127.0.0.1:0");
    let server = with_tls(&pebble, setup).start();
    server.wait_for_line(|line| line.contains("no certificate:"));
    pebble.next_certificate("a.example", None);
    server.terminate(Signal::TERM);
}

#[test]
fn a_redirect_to_https_is_not_in_the_way_of_the_authority() {
    let Some(pebble) = Pebble::start(Manners::default()) else { return };
    let setup = pebble.setup(&["a.example"], "challenge = \"http-01\"").listen("redirect_http = true");
    let server = with_tls(&pebble, setup).start();
    pebble.next_certificate("a.example", None);
    assert_eq!(server.connect().get("/a.txt").status, 308);
    server.stop();
}
