//! Reloads and upgrades while clients ask without a break: none of their requests fails.

use maitred_http::h3::Code;
use maitred_load::http3::client::{Client, Closed, Failed};
use maitred_load::http3::quinn_proto::StreamId;

use crate::support::h3::{Asks, connector, join, reload, setup, upgrade};
use crate::support::load::{Load, replace_under_load};
use crate::support::{Server, eventually};

/// Requests that are open at a time on each connection.
const AT_A_TIME: usize = 5;
/// What each client asks for, and how many bytes the answer has.
const TARGETS: [(&str, usize); 4] =
    [("/a.txt", 7), ("/large.bin", 300_000), ("/app/hello?x", 8), ("/app/large?70000", 70_000)];

fn start() -> Server {
    let server = setup("")
        .server("threads = 2")
        .file("large.bin", &vec![b'l'; 300_000])
        .pool("app", None, "workers = 2\nqueue = { timeout = \"60s\" }")
        .start();
    server.wait_for_processes();
    server
}

/// Whether a request that got no response was not processed, so that it can be repeated (9114-5.2, 4.1.1).
fn may_repeat(client: &Client, stream: StreamId, failed: &Failed) -> bool {
    let named = client.go_away().is_some_and(|first| u64::from(stream) >= first);
    match failed {
        Failed::Reset(code) => *code == Code::RequestRejected.number(),
        Failed::Closed(Closed::Application { code, .. }) => *code == Code::NoError.number() && named,
        _ => false,
    }
}

/// A well-behaved client until the load is over: always some requests open, and a new connection when the server has said GOAWAY.
/// What the server has not taken is repeated; anything else that is lost fails the test.
fn ask_until_over(server: &Server, load: &Load, path: &str, bytes: usize) {
    let connector = connector(server);
    let mut client = join(&connector);
    let mut open: Vec<StreamId> = Vec::new();
    loop {
        while client.go_away().is_none()
            && client.closed().is_none()
            && !load.is_over()
            && open.len() < AT_A_TIME
        {
            open.push(client.send_get(path, &[]));
        }
        if open.is_empty() {
            if load.is_over() {
                return;
            }
            client = join(&connector);
            continue;
        }
        let stream = open.remove(0);
        match client.response(stream) {
            Ok(response) => {
                assert_eq!((response.status, response.body.len()), (200, bytes), "{path}");
                load.answered(1);
            }
            Err(failed) => {
                let repeat = may_repeat(&client, stream, &failed);
                assert!(repeat, "{path}: {failed:?} of {stream}, GOAWAY {:?}", client.go_away());
            }
        }
    }
}

#[test]
fn no_request_fails_in_ten_reloads() {
    let server = start();
    let client = |load: &Load, (path, bytes): (&str, usize)| ask_until_over(&server, load, path, bytes);
    let answered = replace_under_load(&TARGETS, client, 11, 50, |generation| reload(&server, generation));
    let stopped = server.stop();
    assert_eq!(stopped.access.len(), answered, "each is in the access log once");
}

#[test]
fn no_request_fails_in_two_upgrades() {
    let server = start();
    let client = |load: &Load, (path, bytes): (&str, usize)| ask_until_over(&server, load, path, bytes);
    let answered = replace_under_load(&TARGETS, client, 3, 50, |generation| upgrade(&server, generation));
    assert_eq!(server.status()["master"]["upgrades"], 2);
    // The worker process, and two of the application.
    eventually("no process of the old images is left", || server.children().len() == 3);
    let stopped = server.stop();
    assert_eq!(stopped.access.len(), answered, "each is in the access log once");
}
