//! Minimal rates over TLS: what is looked at is the socket, whatever TLS holds back.

use std::io::Read as _;
use std::time::Duration;

use crate::support::stage::{Authority, connect, setup};
use crate::support::{Client, Gate, Setup, eventually, pace};

/// Between two reads of a slow client.
const PAUSE: Duration = Duration::from_millis(50);
/// More than all buffers take.
const LARGE: usize = 100_000_000;

/// Takes a little of what comes now and then, still encrypted, until the server has aborted the response.
fn reads_slowly(client: &mut Client, until: impl Fn() -> bool) {
    eventually("the response is aborted", || {
        let _ = client.tcp().read(&mut [0; 4096]);
        pace(PAUSE);
        until()
    });
}

#[test]
fn a_client_that_takes_less_than_the_minimal_rate_is_dropped() {
    let (gate, other_gate) = (Gate::new(), Gate::new());
    let authority = Authority::new();
    let setup = setup(&authority, "")
        .limit(
            "response_bytes_per_second_min = 500000\nresponse_rate_window = \"1s\"\nwrite_timeout = \"10m\"",
        )
        .pool("app", Some(&gate), "workers = 1")
        .pool("other", Some(&other_gate), "workers = 1");
    let file = std::fs::File::create(setup.directory.path().join("root/zeros.bin")).unwrap();
    file.set_len(LARGE as u64).unwrap();
    let server = setup.start();
    server.wait_for_processes();
    let config = authority.client();
    let ask = |path: &str| {
        let mut client = connect(&server, &config);
        rustix::net::sockopt::set_socket_recv_buffer_size(client.tcp(), 64 * 1024).unwrap();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        client
    };
    // The server has nothing to send to this client.
    let mut waits = ask("/app/wait");
    let waiting = gate.arrival();
    // A file, and what a relay brings: what TLS holds back is in no buffer of the response.
    for (slow, path) in [(1, "/zeros.bin"), (2, "/other/held")] {
        reads_slowly(&mut ask(path), || server.total("slow") == slow);
    }
    server.wait_for("it takes less than response_bytes_per_second_min");
    drop(other_gate);
    assert_eq!(
        connect(&server, &config).get("/zeros.bin").body.len(),
        LARGE,
        "one that reads gets everything"
    );
    waiting.release();
    assert_eq!(waits.response("GET").text(), "waited\n");
    assert_eq!(server.total("slow"), 2);
    server.stop();
}

/// A client that takes nothing: this counts neither as a failure of the process nor of the HTTP server that answers.
#[test]
fn who_answers_is_not_blamed_for_a_client_that_takes_nothing() {
    let gate = Gate::new();
    let authority = Authority::new();
    let lines = "workers = 2\nrequest_timeout = \"50s\"";
    let far = Setup::with_files().pool("far", Some(&gate), lines).start();
    far.wait_for_processes();
    let server = setup(&authority, "")
        .limit("write_timeout = \"1s\"")
        .pool("app", Some(&gate), lines)
        .route("/far/*", "pool = \"far\"")
        .table(&format!("[pool.far]\nconnect = \"http://{}\"\nrequest_timeout = \"50s\"\n", far.address))
        .start();
    server.wait_for_processes();
    let config = authority.client();
    for (timeouts, path) in [(1, "/app/held"), (2, "/far/held")] {
        let mut client = connect(&server, &config);
        rustix::net::sockopt::set_socket_recv_buffer_size(client.tcp(), 64 * 1024).unwrap();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        eventually("the response is aborted", || server.total("timeouts") == timeouts);
    }
    assert_eq!((server.total("handoff_lost"), server.total("upstream_failures")), (0, 0));
    assert_eq!(connect(&server, &config).get("/app/hello?1").text(), "hello 1\n");
    assert_eq!(connect(&server, &config).get("/far/hello?2").text(), "hello 2\n");
    drop(gate);
    let said = server.stop().said;
    let blamed = |line: &&String| line.contains("request_timeout");
    assert_eq!(said.iter().filter(blamed).collect::<Vec<_>>(), Vec::<&String>::new());
    far.terminate(rustix::process::Signal::INT);
}
