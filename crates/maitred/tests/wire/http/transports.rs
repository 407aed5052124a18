//! What a client gets does not depend on how the application's response comes to it.

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};

use crate::support::processes::send_signal;
use crate::support::{Gate, Response, Server, Setup, eventually};

const TRANSPORTS: [&str; 3] = ["direct", "relay", "auto"];

fn with(transport: &str, more: &str) -> Server {
    let lines = format!("transport = \"{transport}\"\nqueue = {{ timeout = \"30s\" }}\n{more}");
    let setup = Setup::with_files().pool("app", None, &lines).limit("body_bytes_max = \"8MiB\"");
    let server = setup.start();
    server.wait_for_processes();
    server
}

fn isolated() -> Server {
    let server = Setup::with_files().isolated_pool("app", "workers = 1").start();
    server.wait_for_processes();
    server
}

/// The response without what may differ: the date, and how the body is framed.
fn essence(response: Response) -> (u16, Vec<u8>, bool) {
    let close = response.says_close();
    (response.status, response.body, close)
}

/// A mixture of requests on one connection after the other; what came of each.
fn tour(server: &Server) -> Vec<(u16, Vec<u8>, bool)> {
    let mut seen = Vec::new();
    let mut client = server.connect();
    for round in 0..3 {
        for page in ["hello?q", "stream", "large?3000", "large?700000", "nothing", "fail", "no-such-page"] {
            seen.push(essence(client.get(&format!("/app/{page}"))));
            seen.push(essence(client.method("HEAD", &format!("/app/{page}"), "")));
        }
        seen.push(essence(client.post("/app/echo", &vec![b'a'; 1_000 * (round + 1)])));
        seen.push(essence(client.post("/app/length", &vec![b'b'; 300_000])));
        seen.push(essence(client.post("/app/length", &vec![b'c'; 3_000_000])));
    }
    for page in ["hello?q", "stream", "large?700000", "nothing"] {
        let mut client = server.connect();
        seen.push(essence(client.ask(format!("GET /app/{page} HTTP/1.0\r\nHost: localhost\r\n\r\n"))));
    }
    let mut client = server.connect();
    client.send(
        "GET /app/hello?1 HTTP/1.1\r\nHost: h\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n".repeat(10),
    );
    (0..20).for_each(|_| seen.push(essence(client.response("GET"))));
    seen
}

#[test]
fn responses_are_the_same_by_every_transport() {
    let mut tours = Vec::new();
    for transport in TRANSPORTS {
        let server = with(transport, "workers = 1");
        let seen = tour(&server);
        let relayed = server.total("relayed");
        match transport {
            "relay" => assert_eq!(relayed, server.total("handoffs")),
            _ => assert_eq!(relayed, 0),
        }
        let stopped = server.stop();
        assert_eq!(stopped.access.len(), seen.len(), "{transport}");
        tours.push(seen);
    }
    for (transport, tour) in TRANSPORTS.iter().zip(&tours) {
        for (number, (expected, found)) in tours[0].iter().zip(tour).enumerate() {
            assert!(
                expected == found,
                "{transport}: response {number} differs: {} {}",
                found.0,
                found.1.len()
            );
        }
    }
}

#[test]
fn an_isolated_pool_never_gets_a_clients_socket() {
    let server = isolated();
    let mut client = server.connect();
    assert_eq!(client.get("/app/large?700000").body.len(), 700_000);
    assert_eq!(client.get("/app/large?700000").body.len(), 700_000);
    assert_eq!((server.total("relayed"), server.total("relayed_isolated")), (2, 2));
    server.stop();
}

/// Without a descriptor for a relay there is no answer by other means: over TLS it would be in clear.
#[test]
fn an_isolated_pool_gets_no_socket_either_when_descriptors_run_out() {
    let server = isolated();
    let mut client = server.connect();
    assert_eq!(client.get("/a.txt").text(), "file a\n");
    let worker = Pid::from_raw(server.worker());
    let usual = getrlimit(Resource::Nofile);
    prlimit(worker, Resource::Nofile, Rlimit { current: Some(3), ..usual }).unwrap();
    let refused = client.get("/app/hello?x");
    prlimit(worker, Resource::Nofile, usual).unwrap();
    assert_eq!(refused.status, 503);
    assert_eq!((server.total("handoffs"), server.total("relayed")), (0, 0));
    assert_eq!(server.connect().get("/app/hello?x").text(), "hello x\n");
    server.stop();
}

/// A safe request without a body, of which the client has seen nothing, goes to another process, once. Any other is
/// answered 502: whether it was carried out is not known.
#[test]
fn a_request_that_was_lost_with_its_process_is_given_again_if_it_is_safe() {
    for transport in ["direct", "relay"] {
        let gate = Gate::new();
        let lines = format!("workers = 2\ntransport = \"{transport}\"\nqueue = {{ timeout = \"30s\" }}");
        let server = Setup::with_files().pool("app", Some(&gate), &lines).start();
        server.wait_for_processes();
        let lose = |head: &str| {
            let mut client = server.connect();
            client.send(format!("{head}GET /app/hello?next HTTP/1.1\r\nHost: h\r\n\r\n"));
            let waiting = gate.arrival();
            send_signal(waiting.pid, Signal::KILL);
            client
        };
        let mut client = lose("GET /app/wait HTTP/1.1\r\nHost: h\r\n\r\n");
        gate.arrival().release();
        assert_eq!(client.response("GET").text(), "waited\n", "{transport}");
        assert_eq!(client.response("GET").text(), "hello next\n", "{transport}: the connection goes on");
        let mut client = lose("POST /app/wait HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
        let response = client.response("POST");
        assert_eq!((response.status, response.says_close()), (502, true), "{transport}");
        assert_eq!((server.total("handoff_lost"), server.total("handoff_retries")), (2, 1), "{transport}");
        let stopped = server.stop();
        assert_eq!(stopped.access.len(), 3, "{transport}: each request is logged once");
    }
}

/// The process gets CANCEL. A process that does not come to an end all the same must not be busy for ever.
#[test]
fn a_request_whose_client_has_gone_has_a_deadline_too() {
    for transport in ["direct", "relay"] {
        let gate = Gate::new();
        let lines = format!(
            "workers = 1\ntransport = \"{transport}\"\nrequest_timeout = \"3s\"\nqueue = {{ timeout = \"60s\" }}"
        );
        let server = Setup::with_files().pool("app", Some(&gate), &lines).start();
        server.wait_for_processes();
        let mut client = server.connect();
        client.send("GET /app/wait HTTP/1.1\r\nHost: h\r\n\r\n");
        let waiting = gate.arrival();
        client.reset();
        assert_eq!(server.connect().get("/app/hello?x").text(), "hello x\n", "{transport}");
        drop(waiting);
        server.stop();
    }
}

#[test]
fn a_process_that_dies_costs_only_its_own_request() {
    for transport in TRANSPORTS {
        let server = with(transport, "workers = 2");
        assert_eq!(server.connect().get("/app/die").status, 502, "{transport}");
        let mut client = server.connect();
        client.send("GET /app/die-late HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(client.try_response("GET").is_err(), "{transport}: a cut response is not whole");
        assert_eq!(server.connect().get("/app/hello?x").text(), "hello x\n");
        let stopped = server.stop();
        assert_eq!(stopped.access.len(), 3, "{transport}");
    }
}

#[test]
fn clients_that_do_not_read_hold_no_process() {
    for transport in ["direct", "relay"] {
        let server = with(transport, "workers = 2");
        let mut slow: Vec<_> = (0..20).map(|_| server.connect()).collect();
        for client in &mut slow {
            client.send("GET /app/large?10000000 HTTP/1.1\r\nHost: localhost\r\n\r\n");
        }
        let mut client = server.connect();
        for number in 0..20 {
            assert_eq!(client.get(&format!("/app/hello?{number}")).text(), format!("hello {number}\n"));
        }
        for client in &mut slow {
            assert_eq!(client.response("GET").body.len(), 10_000_000, "{transport}");
        }
        server.stop();
    }
}

#[test]
fn an_application_may_answer_with_a_file() {
    let server_of = |transport: &str, has_root: bool| {
        let setup = Setup::with_files().file("big.bin", &vec![b'f'; 2_000_000]);
        let root = setup.directory.path().join("root");
        let root = if has_root { format!("sendfile_root = \"{}\"", root.display()) } else { String::new() };
        let lines = format!("transport = \"{transport}\"\n{root}");
        let module = b"import os\n\
            def application(environ, start_response):\n\
            \x20   if environ['PATH_INFO'].endswith('header'):\n\
            \x20       start_response('200 OK', [('Content-Type', 'x/y'), ('X-Sendfile', os.environ['BIG'])])\n\
            \x20       return []\n\
            \x20   start_response('200 OK', [('Content-Type', 'x/y')])\n\
            \x20   return environ['wsgi.file_wrapper'](open(os.environ['BIG'], 'rb'))\n";
        let big = setup.directory.path().join("root/big.bin");
        let env = format!("BIG = \"{}\"", big.display());
        setup.outside("files.py", module).route("/f/*", "pool = \"f\"").python(
            "f",
            "files:application",
            &env,
            &lines,
        )
    };
    for (transport, has_root) in TRANSPORTS.into_iter().flat_map(|name| [(name, true), (name, false)]) {
        let server = server_of(transport, has_root).start();
        server.wait_for_processes();
        let mut client = server.connect();
        for page in ["wrapper", "header", "wrapper", "header"] {
            let response = client.get(&format!("/f/{page}"));
            let case = format!("{transport} {page} {has_root}");
            if page == "header" && !has_root {
                // `X-Sendfile` is a field as any other.
                assert_eq!((response.status, response.body.len()), (200, 0), "{case}");
                assert!(response.field("x-sendfile").is_some_and(|path| path.ends_with("big.bin")));
                continue;
            }
            assert_eq!((response.status, response.body.len()), (200, 2_000_000), "{case}");
            assert!(response.body.iter().all(|byte| *byte == b'f'));
            assert_eq!(response.field("x-sendfile"), None, "{case}");
        }
        server.stop();
    }
}

#[test]
fn a_client_that_goes_away_is_told_to_the_application() {
    for transport in ["direct", "relay"] {
        let gate = crate::support::Gate::new();
        let lines = format!("transport = \"{transport}\"\nworkers = 1");
        let server = Setup::with_files().pool("app", Some(&gate), &lines).start();
        server.wait_for_processes();
        let mut client = server.connect();
        client.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let waiting = gate.arrival();
        drop(client);
        eventually("the request was cancelled", || server.total("cancelled") == 1);
        waiting.release();
        assert_eq!(server.connect().get("/app/hello?x").text(), "hello x\n");
        server.stop();
    }
}

/// What bounds a request is `request_total_timeout`, by every transport, and not the client's timeout.
#[test]
fn a_response_without_an_end_is_cut_off_after_request_total_timeout() {
    // At the same time: each takes as long as the timeout, in which a busy machine has to begin the response.
    std::thread::scope(|scope| {
        for case in [("direct", "trickle"), ("direct", "flood"), ("relay", "trickle"), ("relay", "flood")] {
            scope.spawn(move || is_cut_off(case.0, case.1));
        }
    });
}

/// `request_timeout` is about silence, also of a process that takes one request at a time.
#[test]
fn a_response_that_goes_on_may_take_longer_than_request_timeout() {
    for transport in ["direct", "relay"] {
        let server = with(transport, "workers = 1\nrequest_timeout = \"1s\"");
        let mut client = server.connect();
        client.send("GET /app/trickle HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(client.head().unwrap().status, 200, "{transport}");
        // A byte every 20 ms at most.
        assert_eq!(client.exactly(150).unwrap().len(), 150, "{transport}");
        assert_eq!(server.total("timeouts"), 0, "{transport}");
        client.reset();
        server.stop();
    }
}

fn is_cut_off(transport: &str, page: &str) {
    let server = with(transport, "workers = 1\nrequest_total_timeout = \"3s\"");
    let before = server.applications();
    let mut client = server.connect();
    client.send(format!("GET /app/{page} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    assert_eq!(client.head().unwrap().status, 200, "{transport} {page}");
    // The other end of the pipe is drained until it ends; before its time it does not.
    while client.exactly(1).is_ok() {
        client.take_received();
    }
    eventually(
        "the process is replaced",
        || matches!(&server.applications()[..], [pid] if !before.contains(pid)),
    );
    server.stop();
}
