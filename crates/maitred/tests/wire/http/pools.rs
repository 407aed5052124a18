//! Applications behind handoff: what a client sees of them is what it would see of any server.

use crate::support::processes::descriptors;
use crate::support::{End, Gate, Server, Setup};

/// For pools whose processes are slow to start: the queue waits for them.
const PATIENT: &str = "queue = { timeout = \"60s\" }";

fn with_pool(threads: u32, workers: u32) -> Server {
    let lines = format!("workers = {workers}\ntransport = \"direct\"\n{PATIENT}");
    let server =
        Setup::with_files().server(&format!("threads = {threads}")).pool("app", None, &lines).start();
    server.wait_for_processes();
    server
}

/// More connections than the process may have descriptors: the longest unused are forgotten, and it never loses one.
#[test]
fn a_process_is_given_no_more_descriptors_than_it_may_have() {
    let lines = format!("workers = 1\ntransport = \"direct\"\nopen_files = 64\n{PATIENT}");
    let server = Setup::with_files().pool("app", None, &lines).start();
    let mut clients: Vec<_> = (0..200).map(|_| server.connect()).collect();
    assert_eq!(clients[0].get("/app/hello?x").text(), "hello x\n");
    let process = server.applications();
    for round in 0..3 {
        // One after another, and all at once.
        clients.iter_mut().for_each(|client| assert_eq!(client.get("/app/hello?x").text(), "hello x\n"));
        clients.iter_mut().for_each(|client| client.send("GET /app/hello?y HTTP/1.1\r\nHost: a\r\n\r\n"));
        clients.iter_mut().for_each(|client| assert_eq!(client.response("GET").text(), "hello y\n"));
        assert_eq!(server.applications(), process, "round {round}");
    }
    let open = descriptors(process[0]);
    assert!((20..=64).contains(&open), "{open} descriptors");
    server.stop();
}

#[test]
fn an_application_sees_the_request_as_it_was_sent() {
    let server = Setup::with_files().pool("app", None, &format!("mount = \"/app\"\n{PATIENT}")).start();
    let mut client = server.connect();
    let response = client.ask(
        "POST /app/sub%20dir/show?a=1&b=%20 HTTP/1.1\r\nHost: example.com:8080\r\nContent-Type: text/x\r\n\
         X-Own: one\r\nX-Own: two\r\nConnection: x-hop\r\nX-Hop: 1\r\nContent-Length: 4\r\n\r\nbody",
    );
    let shown: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
    for (key, value) in [
        ("REQUEST_METHOD", "POST"),
        ("SCRIPT_NAME", "/app"),
        ("PATH_INFO", "/sub dir/show"),
        ("QUERY_STRING", "a=1&b=%20"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("HTTP_HOST", "example.com:8080"),
        ("CONTENT_TYPE", "text/x"),
        ("CONTENT_LENGTH", "4"),
        ("HTTP_X_OWN", "one,two"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("wsgi.url_scheme", "http"),
        ("body", "body"),
    ] {
        assert_eq!(
            shown[key].as_str().map(|shown| shown.replace(", ", ",")).as_deref(),
            Some(value),
            "{key} of {shown}"
        );
    }
    for absent in ["HTTP_X_HOP", "HTTP_CONNECTION"] {
        assert!(shown[absent].is_null(), "{absent} of {shown}");
    }
    server.stop();
}

#[test]
fn applications_answer_all_kinds_of_requests() {
    let server = with_pool(1, 1);
    let mut client = server.connect();
    assert_eq!(client.get("/app/hello?x").text(), "hello x\n");
    let head = client.method("HEAD", "/app/hello?x", "");
    assert_eq!((head.status, head.need("content-length"), head.body.len()), (200, "8", 0));
    assert_eq!(client.post("/app/echo", b"").text(), "");
    assert_eq!(client.post("/app/echo", &[0, 255, 13, 10]).body, [0, 255, 13, 10]);
    assert_eq!(client.get("/app/nothing").status, 204);
    assert_eq!(client.get("/app/not-there").status, 404);
    assert_eq!(client.get("/app/large?5000000").body.len(), 5_000_000);
    assert_eq!(client.method("PUT", "/app/show", "").status, 200);
    assert!(client.is_quiet());

    let mut old = server.connect();
    assert_eq!(old.ask("GET /app/hello?x HTTP/1.0\r\n\r\n").text(), "hello x\n");
    assert_eq!(old.end(), End::Closed);
    let mut old = server.connect();
    for _ in 0..3 {
        let response = old.ask("GET /app/hello?x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        assert_eq!(response.need("connection"), "keep-alive");
    }
    let mut last = server.connect();
    assert!(last.method("GET", "/app/hello", "Connection: close\r\n").says_close());
    assert_eq!(last.end(), End::Closed);
    server.stop();
}

#[test]
fn files_and_pages_take_turns_on_one_connection() {
    let server = with_pool(1, 2);
    let mut client = server.connect();
    let mut requests = String::new();
    for number in 0..50 {
        requests += &format!("GET /app/hello?{number} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        requests += "GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";
    }
    client.send(&requests);
    for number in 0..50 {
        assert_eq!(client.response("GET").text(), format!("hello {number}\n"));
        assert_eq!(client.response("GET").text(), "file a\n");
    }
    assert_eq!(server.stop().access.len(), 100);
}

#[test]
fn connections_migrate_to_the_thread_that_has_the_process() {
    let server = with_pool(2, 1);
    std::thread::scope(|scope| {
        for client in 0..8 {
            let server = &server;
            scope.spawn(move || {
                let mut connection = server.connect();
                for number in 0..20 {
                    let target = format!("/app/hello?{client}-{number}");
                    assert_eq!(connection.get(&target).text(), format!("hello {client}-{number}\n"));
                    assert_eq!(connection.get("/a.txt").text(), "file a\n");
                    assert_eq!(connection.post("/app/echo", b"body").text(), "body");
                }
            });
        }
    });
    let status = server.status();
    let threads = status["threads"].as_array().unwrap();
    let with_handoffs = threads.iter().filter(|thread| thread["handoffs"].as_u64().unwrap() > 0).count();
    assert_eq!(with_handoffs, 1, "one thread is home to the only process: {status}");
    assert_eq!(status["totals"]["handoffs"], 320);
    assert_eq!(server.stop().access.len(), 480);
}

/// Many connections at once: each descriptor is passed once, and requests share messages.
fn burst(workers: u64) -> serde_json::Value {
    const CONNECTIONS: u64 = 100;
    const REQUESTS: u64 = 20;
    let server = with_pool(1, workers as u32);
    let before = server.status()["totals"].clone();
    let mut clients: Vec<_> = (0..CONNECTIONS).map(|_| server.connect()).collect();
    for round in 0..REQUESTS {
        // All at once, however fast the client and the server are.
        server.while_worker_sleeps(|| {
            for (number, client) in clients.iter_mut().enumerate() {
                client.send(format!("GET /app/hello?{number}-{round} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            }
        });
        for (number, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.response("GET").text(), format!("hello {number}-{round}\n"));
        }
    }
    let after = server.status()["totals"].clone();
    let grown = |key: &str| after[key].as_u64().unwrap() - before[key].as_u64().unwrap();
    assert_eq!(grown("handoffs"), CONNECTIONS * REQUESTS);
    assert!(grown("handoff_batches") < grown("handoffs") * 4 / 5, "{} batches", grown("handoff_batches"));
    let descriptors = grown("descriptors_passed");
    assert!((CONNECTIONS..=CONNECTIONS * workers).contains(&descriptors), "{descriptors} descriptors");
    assert_eq!((grown("handoff_lost"), grown("queue_refused")), (0, 0));
    let metrics = server.admin("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let line = format!("maitred_thread_handoffs_total{{thread=\"0\"}} {}", after["handoffs"]);
    assert!(metrics.text().lines().any(|found| found == line), "{line}");
    drop(clients);
    server.stop();
    after
}

#[test]
fn a_descriptor_is_passed_once_per_connection() {
    burst(1);
}

#[test]
fn two_processes_share_a_hundred_connections() {
    burst(2);
}

#[test]
fn requests_that_find_no_room_wait_in_the_queue() {
    let gate = Gate::new();
    let server = Setup::with_files().pool("app", Some(&gate), &format!("workers = 1\n{PATIENT}")).start();
    let mut first = server.connect();
    first.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    let mut others: Vec<_> = (0..10).map(|_| server.connect()).collect();
    for (number, client) in others.iter_mut().enumerate() {
        client.send(format!("GET /app/hello?{number} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    }
    // Files are not held up by a process that is.
    assert_eq!(server.connect().get("/a.txt").text(), "file a\n");
    assert!(others.iter().all(|client| client.is_quiet()));
    waiting.release();
    assert_eq!(first.response("GET").text(), "waited\n");
    for (number, client) in others.iter_mut().enumerate() {
        assert_eq!(client.response("GET").text(), format!("hello {number}\n"));
    }
    server.stop();
}

#[test]
fn a_process_that_waits_holds_no_other_up() {
    let gate = Gate::new();
    let server = Setup::with_files().pool("app", Some(&gate), &format!("workers = 2\n{PATIENT}")).start();
    server.wait_for_processes();
    let mut first = server.connect();
    first.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    let mut client = server.connect();
    (0..20).for_each(|_| assert_eq!(client.get("/app/hello?x").text(), "hello x\n"));
    waiting.release();
    assert_eq!(first.response("GET").text(), "waited\n");
    server.stop();
}

/// What is under way when the server is asked to stop is finished.
#[test]
fn a_stop_waits_for_the_application() {
    let gate = Gate::new();
    let server = Setup::with_files().pool("app", Some(&gate), &format!("workers = 1\n{PATIENT}")).start();
    let mut client = server.connect();
    client.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    let mut idle = server.connect();
    assert_eq!(idle.get("/a.txt").status, 200);
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(idle.end(), End::Closed, "the idle connection shows that the server is stopping");
    waiting.release();
    assert_eq!(client.response("GET").text(), "waited\n");
    assert_eq!(client.end(), End::Closed);
    let stopped = server.wait_for_exit();
    assert!(stopped.status.success(), "{stopped:?}");
    assert_eq!(stopped.access.len(), 2);
}
