//! What all request bodies together may take up, in memory and on the disk.

use crate::support::{Client, End, Gate, Server, Setup, eventually};

const KIB: usize = 1024;

fn start(gate: Option<&Gate>, limits: &[&str]) -> Server {
    let mut setup = Setup::with_files()
        .pool("app", gate, "workers = 1\nqueue = { timeout = \"60s\" }")
        .limit("body_inline_bytes_max = \"1KiB\"\nbody_timeout = \"60s\"");
    for line in limits {
        setup = setup.limit(line);
    }
    let server = setup.start();
    server.wait_for_processes();
    server
}

/// What is kept in memory, and on the disk.
fn kept(server: &Server) -> [usize; 2] {
    let status = server.status();
    ["memory", "disk"].map(|place| status["bodies"][place]["bytes"].as_u64().unwrap() as usize)
}

/// A client that has sent `sent` bytes of a body of `whole`.
fn begin(server: &Server, path: &str, sent: usize, whole: usize) -> Client {
    let mut client = server.connect();
    client.send(format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {whole}\r\n\r\n"));
    client.send(vec![b'x'; sent]);
    client
}

#[test]
fn bodies_that_find_no_room_in_memory_go_to_the_disk() {
    let server = start(None, &["body_memory_bytes_max = \"64KiB\"\nbodies_memory_bytes_max = \"64KiB\""]);
    let mut clients: Vec<Client> =
        (0..4).map(|_| begin(&server, "/app/length", 40 * KIB, 50 * KIB)).collect();
    eventually("all that was sent is kept", || kept(&server).iter().sum::<usize>() == 4 * 40 * KIB);
    let [memory, disk] = kept(&server);
    assert!((KIB..=64 * KIB).contains(&memory) && disk > 0, "{memory} {disk}");
    // No client notices where its body is kept.
    for client in &mut clients {
        client.send(vec![b'x'; 10 * KIB]);
        assert_eq!(client.response("POST").text(), "51200");
    }
    // What was kept is given back, so that the next one is in memory again; also when its client goes.
    eventually("all is given back", || kept(&server) == [0, 0]);
    let client = begin(&server, "/app/length", 40 * KIB, 50 * KIB);
    eventually("it is in memory", || kept(&server) == [40 * KIB, 0]);
    drop(client);
    eventually("it is dropped", || kept(&server) == [0, 0]);
    server.stop();
}

#[test]
fn a_body_takes_up_room_as_long_as_its_application_has_it() {
    let gate = Gate::new();
    let server =
        start(Some(&gate), &["body_memory_bytes_max = \"64KiB\"\nbodies_memory_bytes_max = \"64KiB\""]);
    let mut client = begin(&server, "/app/wait", 40 * KIB, 40 * KIB);
    let waiting = gate.arrival();
    assert_eq!(kept(&server), [40 * KIB, 0]);
    // The next one waits for the process, on the disk.
    let mut other = begin(&server, "/app/length", 40 * KIB, 40 * KIB);
    eventually("it is on the disk", || kept(&server)[1] > 0);
    waiting.release();
    assert_eq!(client.response("POST").text(), "waited\n");
    assert_eq!(other.response("POST").text(), "40960");
    eventually("all is given back", || kept(&server) == [0, 0]);

    // A client that does not wait for its answer leaves its body with the process.
    let client = begin(&server, "/app/wait", 40 * KIB, 40 * KIB);
    let waiting = gate.arrival();
    drop(client);
    eventually("the process has received CANCEL", || server.total("cancelled") == 1);
    assert_eq!(kept(&server), [40 * KIB, 0]);
    waiting.release();
    eventually("the process is done with it", || kept(&server) == [0, 0]);
    server.stop();
}

#[test]
fn bodies_that_find_no_room_on_the_disk_are_refused() {
    let limits =
        ["body_memory_bytes_max = \"1KiB\"", "body_bytes_max = \"1MiB\"\nbodies_disk_bytes_max = \"1MiB\""];
    let server = start(None, &limits);
    let mut first = begin(&server, "/app/length", 600 * KIB, 700 * KIB);
    eventually("the first is on the disk", || kept(&server) == [0, 600 * KIB]);
    let refused = |mut client: Client| {
        let response = client.response("POST");
        assert_eq!((response.status, response.says_close()), (503, true));
        assert_eq!(response.field("retry-after"), Some("10"));
        assert_eq!(client.end(), End::Closed);
    };
    // A body with a Content-Length is refused at once, the other when there is no more room.
    refused(begin(&server, "/app/length", 2 * KIB, 700 * KIB));
    assert_eq!(kept(&server), [0, 600 * KIB]);
    let mut chunked = server.connect();
    chunked.send("POST /app/length HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    // The server stops reading half-way.
    let _ = chunked.try_send(format!("{:x}\r\n{}\r\n0\r\n\r\n", 600 * KIB, "x".repeat(600 * KIB)));
    refused(chunked);
    eventually("what it had is dropped", || kept(&server) == [0, 600 * KIB]);
    assert_eq!(server.total("bodies_refused"), 2);
    let metrics = server.admin("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(metrics.text().contains("maitred_bodies_bytes{place=\"disk\"} 614400\n"), "{}", metrics.text());
    assert!(metrics.text().contains("maitred_bodies_max_bytes{place=\"disk\"} 1048576\n"));
    // The first one is not disturbed, nor are small ones, and then there is room again.
    let mut client = server.connect();
    assert_eq!(client.post("/app/length", &[b'x'; KIB]).text(), "1024");
    first.send(vec![b'x'; 100 * KIB]);
    assert_eq!(first.response("POST").text(), "716800");
    eventually("the first is given back", || kept(&server) == [0, 0]);
    assert_eq!(client.post("/app/length", &vec![b'x'; 1024 * KIB]).text(), "1048576");
    eventually("all is given back", || kept(&server) == [0, 0]);
    server.stop();
}
