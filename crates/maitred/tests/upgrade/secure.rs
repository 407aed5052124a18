//! HTTP/2 and TLS over an upgrade: connections end in order, as over a reload, and new ones find the same keys.

use std::sync::Arc;

use rustix::process::Signal;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, SignatureScheme, StreamOwned};

use crate::h2::frame::code;
use crate::h2::{self, Connection};
use crate::stage::{self, Authority, Picky};
use crate::support::{Client, Gate, Server, Setup, TIMEOUT, eventually};
use crate::upgrade;

#[test]
fn http_2_connections_are_told_to_go_and_finish_what_they_have() {
    let gate = Gate::new();
    let server = Setup::with_files().pool("app", Some(&gate), "workers = 1").start();
    server.wait_for_processes();
    let (mut idle, mut busy) = (Connection::new(server.address), Connection::new(server.address));
    assert_eq!(idle.get("/a.txt").text(), "file a\n");
    let id = busy.request("GET", "/app/wait", &[], true);
    let waiting = gate.arrival();
    upgrade(&server, 2);
    assert_eq!(idle.end(), Some(code::NO_ERROR));
    while busy.goaway.is_none() {
        busy.step().unwrap();
    }
    waiting.release();
    assert_eq!(busy.response(id).text(), "waited\n");
    assert_eq!(busy.end(), Some(code::NO_ERROR));
    assert_eq!(h2::get(server.address, "/app/hello?x").text(), "hello x\n");
    eventually("no process of the old image is left", || server.children().len() == 2);
    server.stop();
}

/// A connection that speaks HTTP/2 over TLS.
fn connect_h2(server: &Server, client: &ClientConfig) -> Connection {
    let mut client = client.clone();
    client.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(Arc::new(client), name).unwrap();
    let socket = std::net::TcpStream::connect(server.address_of("https")).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let stream = StreamOwned::new(session, socket.try_clone().unwrap());
    let mut connection = Connection::on(Box::new(stream), socket);
    connection.scheme = "https";
    connection.begin(&[]);
    connection
}

#[test]
fn tls_goes_on_with_the_same_keys() {
    let authority = Authority::new();
    let server = stage::setup(&authority, "").start();
    let client = authority.client();
    let mut kept = stage::connect(&server, &client);
    assert_eq!(kept.get("/a.txt").text(), "file a\n");
    let certificate = stage::shown(&mut kept);
    let mut multiplexed = connect_h2(&server, &authority.client());
    assert_eq!(multiplexed.get("/b.txt").text(), "file b\n");
    upgrade(&server, 2);
    assert_eq!(multiplexed.end(), Some(code::NO_ERROR));
    assert!(stage::resumes(&server, &client), "the keys of tickets have gone along");
    let last = kept.get("/b.txt");
    assert!(last.text() == "file b\n" && last.says_close());
    drop(kept);
    assert_eq!(stage::shown(&mut stage::connect(&server, &authority.client())), certificate);
    eventually("no process of the old image is left", || server.children().len() == 1);
    server.stop();
}

/// The certificate of a server that no authority has signed.
fn shown_by(address: std::net::SocketAddr, picky: &(Arc<ClientConfig>, Arc<Picky>)) -> Vec<u8> {
    assert!(Client::try_connect_tls(address, &picky.0, "localhost").is_err());
    picky.1.seen.lock().unwrap().take().unwrap().to_vec()
}

#[test]
fn serve_keeps_the_certificate_that_it_has_made() {
    let (server, _) = stage::serve();
    let picky = Authority::new().picky(&[SignatureScheme::ECDSA_NISTP256_SHA256]);
    let before = shown_by(server.address, &picky);
    let old = server.worker();
    server.signal(Signal::USR2);
    eventually(
        "another worker process is alone",
        || matches!(server.children()[..], [child] if child != old),
    );
    assert_eq!(shown_by(server.address, &picky), before);
    assert!(server.terminate(Signal::TERM).status.success());
}
