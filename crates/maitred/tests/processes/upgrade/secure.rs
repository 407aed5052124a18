//! HTTP/2 and TLS over an upgrade: connections end in order, as over a reload, and new ones find the same keys.

use std::sync::Arc;

use rustix::process::Signal;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, SignatureScheme, StreamOwned};

use crate::support::h2::frame::code;
use crate::support::h2::{self, Connection};
use crate::support::stage::{self, Authority, Picky};
use crate::support::{Client, Gate, Server, Setup, TIMEOUT, eventually};
use crate::upgrade::upgrade;

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

/// The UDP sockets of a process at the server's port, by their inodes: each with its number there, in the order of these.
fn datagram_sockets(server: &Server, pid: i32) -> Vec<u64> {
    let table = std::fs::read_to_string("/proc/net/udp").unwrap();
    let port = format!(":{:04X}", server.address_of("https").port());
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let there: Vec<u64> =
        rows.filter(|row| row[1].ends_with(&port)).map(|row| row[9].parse().unwrap()).collect();
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let mut found: Vec<(i32, u64)> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let link = std::fs::read_link(entry.path()).ok()?;
            let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()?;
            there.contains(&inode).then_some((entry.file_name().to_str()?.parse().ok()?, inode))
        })
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, inode)| inode).collect()
}

#[test]
fn sockets_for_http_3_stay_what_they_are_in_their_order() {
    let authority = Authority::new();
    let server = stage::setup(&authority, "").listen("http3 = true").server("threads = 3").start();
    let of_master = || datagram_sockets(&server, server.pid().as_raw_nonzero().get());
    let of_worker = || datagram_sockets(&server, server.worker());
    let before = of_worker();
    assert_eq!(before.len(), 3, "one for each thread");
    let sorted = |mut inodes: Vec<u64>| {
        inodes.sort_unstable();
        inodes
    };
    assert_eq!(sorted(of_master()), sorted(before.clone()));
    let old = server.worker();
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
    eventually("the old worker process has gone", || server.worker_is_not(old));
    assert_eq!(of_worker(), before, "after a reload");
    upgrade(&server, 3);
    eventually("no process of the old image is left", || server.children().len() == 1);
    assert_eq!(of_worker(), before, "after an upgrade");
    assert_eq!(sorted(of_master()), sorted(before));
    server.stop();
}
