//! Other protocols, after an upgrade.

use std::io::Read as _;
use std::time::Duration;

use crate::proxy::start;
use crate::support::upstream::Upstream;
use crate::support::{Client, TIMEOUT, eventually};

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
            client.tcp().set_read_timeout(Some(TIMEOUT)).unwrap();
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
    eventually("the connection to the server is closed", || upstream.open() == 0);
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

/// A server that knows HTTP/2 by upgrade, as many do, does not get the client's `Upgrade: h2c`: its requests would not
/// be seen here (h2c smuggling).
#[test]
fn h2c_is_never_passed_on() {
    let upstream = Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            if asked.fields.iter().any(|(name, value)| name == "upgrade" && value.contains("h2c")) {
                peer.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n")?;
                return peer.echo();
            }
            let names: Vec<_> = asked.fields.iter().map(|(name, _)| name.as_str()).collect();
            peer.answer(names.join(" "))?;
        }
    });
    let server = start(&upstream, "");
    let settings = "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nHttp2_Settings: AAMA\r\n";
    for fields in [
        format!("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n{settings}"),
        format!("Connection: Upgrade\r\nUpgrade: H2C\r\n{settings}"),
        "Connection: Upgrade\r\nUpgrade: h2c\r\n".to_owned(),
        "Connection: Upgrade\r\nUpgrade: TLS/1.2, HTTP/2.0\r\nUpgrade: h2c\r\n".to_owned(),
        "Connection: Upgrade\r\nUpgrade: something\r\n".to_owned(),
    ] {
        let mut client = server.connect();
        let response = client.ask(format!("GET /ws HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
        assert_eq!(response.status, 200, "{fields}");
        let seen = response.text();
        assert!(!seen.contains("upgrade") && !seen.contains("settings"), "{fields}: {seen}");
        assert_eq!(client.get("/next").status, 200, "it is a request as any other");
    }
    server.stop();
}

/// 9110-15.2.2: a 101 names what follows, and that is what was asked for.
#[test]
fn a_server_cannot_switch_to_what_was_not_asked_for() {
    for named in
        ["Upgrade: h2c\r\n", "Upgrade: h2c, websocket\r\n", "Upgrade: websocket\r\nUpgrade: h2c\r\n", ""]
    {
        let upstream = Upstream::start(move |peer| {
            peer.request()?;
            peer.send(format!(
                "HTTP/1.1 101 Switching Protocols\r\n{named}Connection: Upgrade\r\n\r\nhello"
            ))?;
            peer.wait_for_end()
        });
        let server = start(&upstream, "");
        let mut client = server.connect();
        assert_eq!(client.ask(ASK).status, 502, "{named}");
        eventually("its connection is closed", || upstream.open() == 0);
        server.stop();
    }
}

#[test]
fn a_pool_may_allow_other_protocols() {
    let upstream = Upstream::start(|peer| {
        let asked = peer.request()?;
        let upgrade: Vec<_> = asked.fields.iter().filter(|(name, _)| name == "upgrade").collect();
        let protocol = upgrade.first().map_or("none", |(_, value)| value.as_str());
        peer.send(format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: {protocol}\r\n\r\n{}",
            upgrade.len()
        ))?;
        peer.echo()
    });
    let server = start(&upstream, "upgrade = [\"derp\", \"irc/6.9\"]");
    for (asked, got) in [("DERP", "derp"), ("h2c, websocket, irc/6.9", "irc/6.9"), ("derp, irc/6.9", "derp")]
    {
        let mut client = server.connect();
        client.send(ASK.replace("websocket", asked));
        let head = String::from_utf8(client.raw_head().unwrap()).unwrap();
        assert!(head.starts_with("HTTP/1.1 101 ") && head.contains(&format!("Upgrade: {got}\r\n")), "{head}");
        assert_eq!(client.exactly(1).unwrap(), b"1");
        client.is_echoed();
    }
    assert_eq!(server.connect().ask(ASK).status, 502, "it is no upgrade, and a 101 to it is wrong");
    server.stop();
}
