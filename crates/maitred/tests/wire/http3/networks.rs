//! Networks that lose, reorder and repeat datagrams, take only small ones, and forget where clients are.

use std::sync::Arc;
use std::time::Duration;

use maitred_load::http3::client::Connector;
use maitred_load::http3::quinn_proto::VarInt;
use maitred_udp::{Config, Faults, Handle, Path};

use crate::support::h3::{Asks, Guest, Incoming, PATIENT, Text, connector, join, setup};
use crate::support::{Server, Setup};

fn large() -> Vec<u8> {
    (0..1_000_000_u32).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect()
}

fn start(setup: Setup) -> Server {
    let server = setup.file("large.bin", &large()).pool("app", None, PATIENT).start();
    server.wait_for_processes();
    server
}

/// A path to a server, and what connects through it.
fn through(server: &Server, config: Config) -> (Handle, Connector) {
    let path = Path::start(config, server.address_of("https")).unwrap();
    let mut connector = connector(server);
    connector.dialer.remote = path.address();
    (path, connector)
}

/// Requests of all kinds, whose answers have to be whole.
fn ask_for_everything(client: &mut Guest) {
    let large = large();
    let streams: Vec<_> = (0..20).map(|_| client.send_get("/a.txt", &[])).collect();
    let files: Vec<_> = (0..2).map(|_| client.send_get("/large.bin", &[])).collect();
    for stream in streams {
        assert_eq!(client.response(stream).unwrap().text(), "file a\n");
    }
    for stream in files {
        assert!(client.response(stream).unwrap().body == large);
    }
    let body = &large[..300_000];
    assert!(client.ask("POST", "/app/echo", &[], body).body == body);
}

#[test]
fn what_is_lost_late_or_twice_is_put_right() {
    let server = start(setup(""));
    let faults = Faults {
        delay: Duration::from_millis(2),
        loss_per_mille: 20,
        reorder_per_mille: 30,
        duplicate_per_mille: 30,
        ..Faults::default()
    };
    let (path, connector) = through(&server, Config { seed: 3, ..Config::both(faults) });
    ask_for_everything(&mut join(&connector));
    let counts = path.finish().unwrap();
    for direction in [&counts.to_server, &counts.to_client] {
        assert!(direction.lost > 0 && direction.reordered > 0 && direction.duplicated > 0, "{counts:?}");
    }
    server.stop();
}

/// The smallest that QUIC has to get along with is 1,200 bytes.
#[test]
fn a_path_for_small_datagrams_is_enough() {
    let server = start(setup(""));
    let faults = Faults { mtu_bytes: Some(1252), ..Faults::default() };
    let (path, connector) = through(&server, Config::both(faults));
    ask_for_everything(&mut join(&connector));
    drop(path);
    server.stop();
}

/// Datagrams from other ports come to other sockets by what the kernel does, were it not for their connection ids.
#[test]
fn clients_whose_address_changes_stay_with_their_thread() {
    const BYTES: usize = 6_000_000;
    let setup = setup("").file("long.bin", &vec![b'x'; BYTES]).server("threads = 4");
    let server = start(setup);
    let (path, mut connector) = through(&server, Config::default());
    let mut transport = maitred_load::http3::transport();
    transport.stream_receive_window(VarInt::from_u32(500_000));
    connector.dialer.set_transport(Arc::new(transport));
    let mut all: Vec<(Guest, Incoming)> = (0..6)
        .map(|_| {
            let mut client = join(&connector);
            let mut incoming = Incoming::new(client.send_get("/long.bin", &[]));
            incoming.wait(&mut client, |incoming| !incoming.body.is_empty()).unwrap();
            (client, incoming)
        })
        .collect();
    for step in 1..=3 {
        path.rebind().unwrap();
        for (client, incoming) in &mut all {
            incoming.wait(client, |incoming| incoming.body.len() >= step * BYTES / 4).unwrap();
            assert_eq!(client.get("/a.txt").unwrap().text(), "file a\n");
        }
    }
    for (client, incoming) in &mut all {
        incoming.wait(client, |incoming| incoming.end.is_some()).unwrap();
        assert_eq!((incoming.status, incoming.body.len()), (Some(200), BYTES));
        // Now the client's own socket is another one; last, it says so itself, with another connection id.
        let here = "127.0.0.1:0".parse().unwrap();
        client.rebind(here).unwrap();
        assert_eq!(client.get("/b.txt").unwrap().text(), "file b\n");
        client.migrate(here).unwrap();
        assert_eq!(client.get("/a.txt").unwrap().text(), "file a\n");
    }
    drop(all);
    server.stop();
}
