//! Servers that take their time to read: what waits for them counts in the budget for what is unsent (`docs/overload.md`).

use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

use crate::proxy::setup;
use crate::support::upstream::{Peer, Upstream};
use crate::support::{Client, Server, eventually};

/// More than a Unix socket takes.
const BODY: usize = 500_000;

fn used(server: &Server) -> u64 {
    server.status()["budgets"]["unsent"]["used"].as_u64().unwrap()
}

/// An upstream whose connections do something, and then wait until the sender is dropped; its socket is in this directory.
fn slow(
    directory: &tempfile::TempDir,
    serve: impl Fn(&mut Peer, &dyn Fn()) -> std::io::Result<()> + Send + Sync + 'static,
) -> (Upstream, Sender<()>) {
    let (go, goes) = channel();
    let goes = Mutex::new(goes);
    let upstream = Upstream::unix(&directory.path().join("slow"), move |peer| {
        serve(peer, &|| assert!(goes.lock().unwrap().recv().is_err()))
    });
    (upstream, go)
}

fn post(mut client: Client) -> Client {
    client.send(format!("POST /length HTTP/1.1\r\nHost: h\r\nContent-Length: {BODY}\r\n\r\n"));
    client.send(vec![b'x'; BODY]);
    client
}

/// Requests that wait in memory: beyond the bound they are refused, and the others go on.
#[test]
fn requests_that_a_server_does_not_read_count_and_are_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let (upstream, go) = slow(&directory, |peer, wait| {
        wait();
        let asked = peer.request()?;
        peer.answer(asked.body.len().to_string())?;
        peer.wait_for_end()
    });
    let server = setup(&[&upstream], "")
        .limit("body_inline_bytes_max = \"1MiB\"\nunsent_memory_bytes_max = \"1200KiB\"\nunsent_connection_bytes_max = \"1MiB\"")
        .start();
    // While memory is short, connections that are there are served, and new ones wait.
    let mut kept = server.connect();
    assert_eq!(kept.get("/a.txt").text(), "file a\n");
    let mut third = server.connect();
    assert_eq!(third.get("/a.txt").text(), "file a\n");
    let mut waiting: Vec<Client> = Vec::new();
    for number in 1..=2 {
        waiting.push(post(server.connect()));
        eventually("the request waits", || used(&server) >= number * BODY as u64);
    }
    let refused = post(third).response("POST");
    assert_eq!((refused.status, refused.need("retry-after")), (503, "1"));
    assert_eq!(server.total("unsent_aborted"), 1);
    assert!(used(&server) <= 1200 * 1024, "{}", used(&server));
    assert_eq!(kept.get("/a.txt").text(), "file a\n");
    drop(go);
    for client in &mut waiting {
        assert_eq!(client.response("POST").text(), BODY.to_string());
    }
    eventually("nothing is held any more", || used(&server) == 0);
    server.stop();
}

/// What a client has said in another protocol.
#[test]
fn what_waits_in_a_tunnel_counts() {
    let directory = tempfile::tempdir().unwrap();
    let (upstream, go) = slow(&directory, |peer, wait| {
        peer.request()?;
        peer.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")?;
        wait();
        peer.echo()
    });
    let server = setup(&[&upstream], "").start();
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert!(client.raw_head().unwrap().starts_with(b"HTTP/1.1 101 "));
    assert_eq!(used(&server), 0);
    let said = vec![b'x'; BODY];
    client.send(&said);
    eventually("a part of it waits", || used(&server) >= 32 * 1024);
    assert!(used(&server) <= 512 * 1024, "{}", used(&server));
    drop(go);
    assert!(client.exactly(BODY).unwrap() == said);
    assert_eq!(used(&server), 0);
    client.finish_sending();
    assert_eq!(client.exactly(3).unwrap(), b"bye");
    server.stop();
}
