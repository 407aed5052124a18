//! HTTP without TLS at an address that speaks TLS.

use std::io::Read as _;

use crate::support::stage::{Authority, connect, setup};
use crate::support::{Client, End, Server};

fn start(authority: &Authority) -> Server {
    setup(authority, "").start()
}

#[test]
fn a_client_without_tls_is_told_to_use_it() {
    let authority = Authority::new();
    let server = start(&authority);
    let address = server.address_of("https");
    let asked = [
        "GET /a.txt?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "POST /upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
        "POST /upload HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "GET http://localhost/a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET https://localhost/a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "DELETE /a.txt HTTP/1.0\r\n\r\n",
    ];
    for request in asked {
        let mut client = Client::connect(address);
        let response = client.ask(request);
        assert_eq!(response.status, 400, "{request}");
        assert!(response.text().contains("use https://"), "{response:?}");
        assert!(response.says_close(), "{response:?}");
        assert_eq!(client.end(), End::Closed, "{request}");
    }
    let mut client = Client::connect(address);
    client.send("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.response("HEAD").status, 400);
    server.wait_for("HTTP without TLS at an address that speaks TLS");
    assert_eq!(server.total("tls_failures"), asked.len() as u64 + 1);
    // Others are served as ever.
    assert_eq!(connect(&server, &authority.client()).get("/a.txt").status, 200);
    let lines = server.stop().access;
    assert_eq!(lines.iter().filter(|line| line.contains("\" 400 ")).count(), asked.len() + 1, "{lines:?}");
    assert!(lines[0].contains("\"GET /a.txt?x=1 HTTP/1.1\" 400 "), "{lines:?}");
}

/// Nothing but a refusal comes of it, however it arrives and whatever follows.
#[test]
fn nothing_is_served_without_tls() {
    let authority = Authority::new();
    let server = start(&authority);
    let address = server.address_of("https");
    // In pieces, of which the first has one byte.
    let mut client = Client::connect(address);
    client.send("G");
    client.send("ET /a.txt HTTP/1.1\r\nHo");
    client.send("st: localhost\r\n\r\nGET /b.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let response = client.response("GET");
    assert_eq!((response.status, response.says_close()), (400, true));
    // The second request is not answered.
    assert_eq!(client.end(), End::Closed);
    for (sent, status) in [
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", "505"),
        ("SSH-2.0-OpenSSH_9.6\r\n", "400"),
        ("hello\r\n\r\n", "400"),
        ("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
    ] {
        let mut client = Client::connect(address);
        client.send(sent);
        let mut all = String::new();
        client.finish_sending();
        client.tcp().read_to_string(&mut all).unwrap();
        assert!(all.starts_with(&format!("HTTP/1.1 {status} ")), "{sent:?}: {all:?}");
        assert_eq!(all.matches("HTTP/1.1").count(), 1, "{sent:?}: {all:?}");
    }
    // What is neither gets an alert, as ever.
    let mut client = Client::connect(address);
    client.send("\x01\x02\x03\x04\x05\x06\x07\x08");
    let mut all = Vec::new();
    client.tcp().read_to_end(&mut all).unwrap();
    assert_eq!(all.first(), Some(&0x15), "{all:?}");
    server.stop();
}

/// A client that stops in the middle is not waited for longer than others.
#[test]
fn a_client_without_tls_has_no_more_time_than_others() {
    let authority = Authority::new();
    let server = setup(&authority, "").limit("head_timeout = \"200ms\"").start();
    let mut client = Client::connect(server.address_of("https"));
    client.send("GET / HTTP/1.1\r\nHost: ");
    let mut all = String::new();
    client.tcp().read_to_string(&mut all).unwrap();
    assert!(all.is_empty() || all.starts_with("HTTP/1.1 408 "), "{all}");
    server.stop();
}
