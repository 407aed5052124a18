//! Other protocols, after an upgrade.

use std::io::Read as _;
use std::time::Duration;

use crate::start;
use crate::support::{Client, PATIENCE, eventually};
use crate::upstream::Upstream;

const ASK: &str = "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

/// Agrees, and says everything again.
fn echo() -> Upstream {
    Upstream::start(|peer| {
        let asked = peer.request()?;
        if asked.field("upgrade") != Some("websocket") || asked.field("connection") != Some("upgrade") {
            return peer
                .send("HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\nUpgrade: websocket\r\n\r\n");
        }
        // What comes early goes out in the same piece as the head.
        peer.send(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello",
        )?;
        peer.echo()
    })
}

#[track_caller]
fn upgrade(client: &mut Client, early: &str) {
    client.send(format!("{ASK}{early}"));
    let head = String::from_utf8(client.raw_head().unwrap()).unwrap();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    let head = head.to_ascii_lowercase();
    assert!(
        head.contains("\r\nupgrade: websocket\r\n") && head.contains("\r\nconnection: upgrade\r\n"),
        "{head}"
    );
    assert_eq!(client.exactly(5 + early.len()).unwrap(), format!("hello{early}").as_bytes());
}

#[test]
fn a_websocket_goes_both_ways() {
    let upstream = echo();
    let server = start(&upstream, "request_timeout = \"1s\"");
    for early in ["", "early"] {
        let mut client = server.connect();
        upgrade(&mut client, early);
        if early.is_empty() {
            client.tcp().set_read_timeout(Some(Duration::from_millis(1500))).unwrap();
            assert!(
                client.tcp().peek(&mut [0]).is_err(),
                "`request_timeout` passes, and is nothing to a tunnel"
            );
            client.tcp().set_read_timeout(Some(PATIENCE)).unwrap();
        }
        client.is_echoed();
        client.finish_sending();
        assert_eq!(client.exactly(3).unwrap(), b"bye");
        assert_eq!(client.tcp().read(&mut [0; 1]).unwrap(), 0, "both sides have had enough");
    }
    eventually("all is closed", || upstream.open() == 0);
    let stopped = server.stop();
    assert_eq!(stopped.access.len(), 2);
    assert!(stopped.access.iter().all(|line| line.contains("\" 101 ")), "{:?}", stopped.access);
}

#[test]
fn a_client_that_is_gone_ends_its_websocket() {
    let upstream = echo();
    let server = start(&upstream, "");
    let mut client = server.connect();
    upgrade(&mut client, "");
    drop(client);
    eventually("the server is told", || upstream.open() == 0);
    server.stop();
}

#[test]
fn a_server_may_refuse_to_switch() {
    let upstream = Upstream::start(|peer| {
        loop {
            peer.request()?;
            peer.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")?;
        }
    });
    let server = start(&upstream, "");
    let mut client = server.connect();
    for _ in 0..2 {
        let response = client.ask(ASK);
        assert_eq!((response.status, response.text()), (403, "no"));
    }
    assert_eq!(upstream.connections(), 1);
    server.stop();
}
