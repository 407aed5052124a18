//! Threads that have as many connections as they may have.

use std::process::{Command, Stdio};

use crate::support::{Client, End, Gate, Setup, binary, eventually};

/// Places on each of the two threads.
const PLACES: u64 = 4;
/// Connections of the admin address at a time (`ADMINS_MAX`).
const OPERATORS: usize = 64;
/// A limit on open files under which connections alone could take up so much that nothing is left for their requests.
const OPEN_FILES: u32 = 520;
/// Places that this limit leaves: a third of what is not reserved.
const PLACES_OF_FEW: u64 = (OPEN_FILES as u64 - 256 - 8) / 3;
/// As many as there would be places, if each took no more than one descriptor.
const CLIENTS: u32 = OPEN_FILES - 256 - 8;

#[test]
fn a_connection_stays_where_it_is_if_the_thread_of_its_process_is_full() {
    let server = Setup::with_files()
        .limit(&format!("connections_per_thread_max = {PLACES}"))
        .server("threads = 2")
        .listen("buckets = 1")
        .pool("app", None, "workers = 1\nqueue = { timeout = \"60s\" }")
        .start();
    let mut clients: Vec<Client> = (0..2 * PLACES).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.get("/a.txt").status, 200));
    let body = vec![b'b'; 300_000];
    for client in &mut clients {
        assert_eq!(client.get("/app/hello").status, 200);
        let response = client.post("/app/echo", &body);
        assert_eq!((response.status, response.body == body), (200, true));
        // The first thread has the operator's besides.
        eventually("each thread has what it may have", || {
            let status = server.status();
            let connections = |thread: usize| status["threads"][thread]["connections"].as_u64();
            (connections(0), connections(1)) == (Some(PLACES + 1), Some(PLACES))
        });
    }
    assert!(server.total("requests_transferred") > 0);
    let requests = 3 * clients.len();
    drop(clients);
    assert_eq!(server.stop().access.len(), requests);
}

/// One client that keeps all places without a word does not keep others out.
#[test]
fn the_longest_idle_connection_makes_room() {
    const PLACES: usize = 64;
    let server = Setup::with_files().limit(&format!("connections_per_thread_max = {PLACES}")).start();
    let mut kept: Vec<Client> = (0..PLACES).map(|_| server.connect()).collect();
    kept.iter_mut().for_each(|client| assert_eq!(client.get("/a.txt").status, 200));
    assert_eq!(kept[0].get("/a.txt").status, 200);
    let mut new = Vec::new();
    for number in 1..PLACES {
        let mut client = server.connect();
        assert_eq!(client.get("/b.txt").text(), "file b\n");
        new.push(client);
        let open = |client: &&Client| client.is_quiet();
        eventually("one is closed for it", || kept.iter().filter(open).count() == PLACES - number);
        assert_eq!(kept[0].get("/a.txt").status, 200, "one that is used again and again is not");
    }
    assert!(new.iter().all(Client::is_quiet));
    kept.iter_mut().skip(1).for_each(|client| assert_eq!(client.end(), End::Closed));
    assert_eq!((server.total("reclaimed"), server.total("full")), (PLACES as u64 - 1, 0));
    server.wait_for("the longest idle connections are closed for new ones");
    server.stop();
}

/// A thread whose connections are all busy takes a new one as soon as one of them is idle.
#[test]
fn a_new_connection_is_served_as_soon_as_another_is_idle() {
    let server = Setup::with_files().limit("connections_per_thread_max = 2").start();
    let mut busy: Vec<Client> = (0..2).map(|_| server.connect()).collect();
    for client in &mut busy {
        assert_eq!(client.get("/a.txt").status, 200);
        client.send("GET ");
    }
    eventually("none of them is idle", || server.total("reading") == 2);
    let mut waiting = server.connect();
    waiting.send("GET /b.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
    eventually("the thread is full", || server.total("full") == 1);
    busy[1].send("/a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(busy[1].response("GET").status, 200);
    assert_eq!(waiting.response("GET").text(), "file b\n");
    assert_eq!(busy[1].end(), End::Closed);
    busy[0].send("/a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(busy[0].response("GET").status, 200);
    server.stop();
}

/// Of two threads that share a bucket, the one with room takes new connections, and no connection is closed for them.
#[test]
fn nobody_is_closed_while_another_thread_has_room() {
    let server = Setup::with_files()
        .limit(&format!("connections_per_thread_max = {PLACES}"))
        .server("threads = 2")
        .listen("buckets = 1")
        .start();
    let mut clients: Vec<Client> = (0..2 * PLACES).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.get("/a.txt").status, 200));
    assert!(clients.iter().all(Client::is_quiet));
    assert_eq!(server.total("reclaimed"), 0);
    assert_eq!(server.connect().get("/a.txt").status, 200);
    // The thread may answer before it closes one.
    eventually("one is closed for it", || server.total("reclaimed") == 1);
    server.stop();
}

/// Each request needs a descriptor besides its client's socket here, for the file of its body. The thread stops accepting before
/// they run out, so that no client is refused: new connections wait.
#[test]
fn connections_wait_before_descriptors_run_out() {
    let gate = Gate::new();
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit -n {OPEN_FILES}; exec \"$0\" \"$@\"")]).arg(binary());
    limited.args(["run", "-c", "maitred.toml"]).stdin(Stdio::null());
    let server = Setup::with_files()
        .limit("body_inline_bytes_max = 0\nfile_cache_files_max = 0")
        .pool("app", Some(&gate), "workers = 1\nqueue = { max = 1024, timeout = \"60s\" }")
        .start_by(limited);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
    let request = "POST /app/wait HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello";
    clients.iter_mut().for_each(|client| client.send(request));
    let first = gate.arrival();
    // One request is with the application.
    eventually("all places are taken", || server.total("queued") == PLACES_OF_FEW - 1);
    eventually("others wait", || server.total("full") == 1);
    first.release();
    (1..CLIENTS).for_each(|_| gate.arrival().release());
    for client in &mut clients {
        assert_eq!(client.response("POST").text(), "waited\n");
    }
    server.stop();
}

/// The operator is answered when no client is.
#[test]
fn the_admin_address_answers_when_all_places_are_taken() {
    let server = Setup::with_files().limit(&format!("connections_per_thread_max = {PLACES}")).start();
    let mut clients: Vec<Client> = (0..PLACES).map(|_| server.connect()).collect();
    // In the middle of a request, so that none of them is closed for another.
    for client in &mut clients {
        assert_eq!(client.get("/a.txt").status, 200);
        client.send("GET ");
    }
    eventually("none of them is idle", || server.total("reading") == PLACES);
    let mut waiting = server.connect();
    waiting.send("GET /b.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
    eventually("the thread is full", || server.total("full") == 1);
    eventually("one more is the operator's", || server.total("connections") == PLACES + 1);
    let (status, text) = server.command(&["status"]);
    assert!(status.success(), "{text}");
    // Operators have a bound of their own, beyond which they wait as clients do.
    let mut operators: Vec<Client> =
        (0..OPERATORS).map(|_| Client::connect_unix(&server.path("admin.sock"))).collect();
    for operator in &mut operators {
        assert_eq!(operator.get("/metrics").status, 200);
    }
    let accepted = |operator: &mut Client| -> Option<u64> {
        let status: serde_json::Value = serde_json::from_slice(&operator.get("/status.json").body).unwrap();
        status["totals"]["accepted"].as_u64()
    };
    let before = accepted(&mut operators[0]);
    let mut last = Client::connect_unix(&server.path("admin.sock"));
    last.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(accepted(&mut operators[0]), before);
    drop(operators.pop());
    assert_eq!(last.response("GET").status, 200);
    // None of them has taken the place that a client gets when another goes.
    assert!(waiting.is_quiet());
    drop(clients.pop());
    assert_eq!(waiting.response("GET").text(), "file b\n");
    server.stop();
}

/// What is said to a connection that comes in vain: nothing.
fn is_refused(mut client: Client) -> bool {
    // The kernel hands a connection over when something has come.
    let _ = client.try_send("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.try_response("GET").is_err()
}

#[test]
fn an_address_has_no_more_connections_than_it_may() {
    const MAX: usize = 5;
    let limits = format!("connections_per_address_max = {MAX}\nconnections_per_address_exempt = []");
    let server = Setup::with_files().limit(&limits).server("threads = 2").listen("buckets = 1").start();
    let mut clients: Vec<Client> = (0..MAX).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.get("/a.txt").status, 200));
    assert!(is_refused(server.connect()));
    assert_eq!(server.total("refused_by_address"), 1);
    server.wait_for("connection closed: it has connections_per_address_max already");
    // Connections that are there are none the worse for it, and each that goes lets another in.
    clients.iter_mut().for_each(|client| assert_eq!(client.get("/a.txt").status, 200));
    clients.pop();
    eventually("its place is free", || server.total("connections") == MAX as u64);
    let mut last = server.connect();
    assert_eq!(last.get("/a.txt").status, 200);
    assert!(is_refused(server.connect()));
    // The connections are those of the next worker process after a reload.
    server.signal(rustix::process::Signal::HUP);
    eventually("they were given on", || server.total("adopted") == MAX as u64);
    assert!(is_refused(server.connect()));
    clients.iter_mut().for_each(|client| assert_eq!(client.get("/a.txt").status, 200));
    server.stop();
}

#[test]
fn the_address_that_a_proxy_tells_counts() {
    let server =
        Setup::with_files().limit("connections_per_address_max = 2").listen("proxy_protocol = true").start();
    let from = |address: &str| {
        let mut client = server.connect();
        client.send(format!("PROXY TCP4 {address} 192.0.2.9 1 80\r\n"));
        client
    };
    let mut clients = [from("192.0.2.1"), from("192.0.2.1"), from("192.0.2.2")];
    clients.iter_mut().for_each(|client| assert_eq!(client.get("/a.txt").status, 200));
    assert!(is_refused(from("192.0.2.1")));
    assert_eq!(from("192.0.2.2").get("/a.txt").status, 200);
    assert_eq!(server.total("refused_by_address"), 1);
    server.stop();
}

#[test]
fn loopback_addresses_are_not_counted_by_default() {
    let server = Setup::with_files().limit("connections_per_address_max = 2").start();
    let mut clients: Vec<Client> = (0..5).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.get("/a.txt").status, 200));
    server.stop();
}

/// Answers `/app/all` when as many requests for it are there as there are clients.
const TOGETHER: &[u8] = b"
import asyncio
arrived = []
async def application(scope, receive, send):
    if scope['type'] != 'http':
        raise NotImplementedError
    if scope['path'].endswith('/all'):
        event = asyncio.Event()
        arrived.append(event)
        if len(arrived) == 30:
            [event.set() for event in arrived]
        await event.wait()
    await send({'type': 'http.response.start', 'status': 200, 'headers': [(b'content-length', b'2')]})
    await send({'type': 'http.response.body', 'body': b'ok'})
";

/// A burst takes a descriptor for each request, here and in the process. The descriptors do not stay.
#[test]
fn relays_that_nobody_needs_are_given_back() {
    let server = Setup::with_files()
        .limit("relay_idle_timeout = \"500ms\"")
        .outside("together.py", TOGETHER)
        .route("/app/*", "pool = \"app\"")
        .python("app", "together:application", "UNUSED = \"\"", "workers = 1\ntransport = \"relay\"")
        .start();
    server.wait_for_processes();
    let process = server.status()["pools"][0]["slots"][0]["pid"].as_i64().unwrap();
    let open = |pid: i64| std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let worker = i64::from(server.worker());
    let mut clients: Vec<Client> = (0..30).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.get("/a.txt").status, 200));
    let before = (open(worker), open(process));
    clients.iter_mut().for_each(|client| client.send("GET /app/all HTTP/1.1\r\nHost: h\r\n\r\n"));
    clients.iter_mut().for_each(|client| assert_eq!(client.response("GET").text(), "ok"));
    assert_eq!(server.total("relayed"), 30, "each had a relay, all at the same time");
    eventually("the relays are gone", || open(worker) < before.0 + 5 && open(process) < before.1 + 5);
    assert_eq!(clients[0].get("/app/one").text(), "ok");
    server.stop();
}
