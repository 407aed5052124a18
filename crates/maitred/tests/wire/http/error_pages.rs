//! `error_pages` hold for every error that the server itself answers with, whatever the request was for; what an application
//! answers stays as it is.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::Path;

use maitred_sys::page_cache::cachestat;
use rustix::fs::{Advice, fadvise};

use crate::support::{Client, End, Gate, Response, Server, Setup, Waiting, eventually};

const PATIENT: &str = "queue = { timeout = \"60s\" }";
/// Far more than is kept in memory of a file, so that it is streamed.
const LARGE_BYTES: usize = 300_000;

/// A site with a page for each of these; that for 504 is large.
fn paged() -> Setup {
    let statuses = [400, 403, 404, 405, 408, 413, 500, 502, 503];
    let pages: Vec<String> =
        statuses.iter().chain(&[504]).map(|status| format!("{status} = \"/pages/{status}.html\"")).collect();
    let setup = Setup::with_files().site(&format!("error_pages = {{ {} }}", pages.join(", ")));
    let setup = statuses
        .iter()
        .fold(setup, |setup, status| setup.file(&format!("pages/{status}.html"), page(*status).as_bytes()));
    setup.file("pages/504.html", &vec![b'4'; LARGE_BYTES])
}

fn page(status: u16) -> String {
    format!("<p>page for {status}</p>\n")
}

#[track_caller]
fn is_page(response: &Response, status: u16) {
    assert_eq!((response.status, response.text()), (status, page(status).as_str()), "{response:?}");
    assert_eq!(response.need("content-type"), "text/html; charset=utf-8");
    assert_eq!(response.field("etag"), None, "the page's validators do not speak for what was asked for");
}

/// What keeps a pool busy, until this is dropped.
struct Busy {
    _waiting: Waiting,
    _gate: Gate,
    _clients: [Client; 2],
}

/// With a pool of one process, which is busy with one request while another waits: the queue is full.
fn full(setup: Setup) -> (Server, Busy) {
    let gate = Gate::new();
    let lines = "workers = 1\nqueue = { max = 1, timeout = \"60s\" }";
    let server = setup.pool("app", Some(&gate), lines).start();
    server.wait_for_processes();
    let [mut first, mut second] = [server.connect(), server.connect()];
    first.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    second.send("GET /app/hello?2 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    eventually("the second request is queued", || server.total("queued") == 1);
    (server, Busy { _waiting: waiting, _gate: gate, _clients: [first, second] })
}

#[test]
fn a_full_queue_has_the_page_and_the_connection_goes_on() {
    let (server, busy) = full(paged().log("access = \"json\""));
    let mut client = server.connect();
    for _ in 0..3 {
        let response = client.get("/app/hello");
        is_page(&response, 503);
        assert_eq!((response.need("retry-after"), response.says_close()), ("1", false));
        let head = client.method("HEAD", "/app/hello", "");
        assert_eq!((head.status, head.need("content-length")), (503, "20"));
        is_page(&client.post("/app/echo", &[b'x'; 200_000]), 503);
        assert_eq!(client.get("/a.txt").text(), "file a\n");
    }
    // Several at once, with a file between them.
    let [hello, file] = ["/app/hello", "/a.txt"]
        .map(|target| format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nReferer: here\r\n\r\n"));
    client.send([&hello, &file, &hello, &file].map(String::as_str).concat());
    for _ in 0..2 {
        is_page(&client.response("GET"), 503);
        assert_eq!(client.response("GET").text(), "file a\n");
    }
    drop(busy);
    let stopped = server.stop();
    let lines = stopped.json_lines();
    let of = |target: &str| lines.iter().filter(|line| line["target"] == target).collect::<Vec<_>>();
    for line in of("/app/hello").iter().filter(|line| line["status"] == 503) {
        assert_eq!(line["pool"], "app", "{line}");
        assert_eq!(line["request_id"].as_str().map(str::len), Some(32), "{line}");
    }
    assert!(of("/a.txt").iter().all(|line| line["pool"].is_null()), "a file is no pool's");
}

#[test]
fn the_public_text_names_a_request_and_nothing_inside() {
    let setup = Setup::with_files()
        .log("access = \"json\"")
        .route("/absent/*", "pool = \"absent\"")
        .table("[pool.absent]\ncommand = [\"/no/such/program\"]\nqueue = { timeout = \"60s\" }\n");
    let server = setup.start();
    let mut client = server.connect();
    let response = client.get("/absent/x");
    assert_eq!((response.status, response.need("retry-after")), (503, "1"));
    let (reason, id) = response.text().trim_end().split_once("\nRequest ID: ").unwrap();
    assert_eq!((reason, id.len()), ("503 Service Unavailable", 32));
    let said = server.wait_for_line(|line| line.contains("no process for a request"));
    assert!(said.contains(id) && said.contains("/no/such/program"), "the reason is in the log: {said}");
    let stopped = server.stop();
    let line = &stopped.json_lines()[0];
    assert_eq!((&line["request_id"], &line["pool"]), (&id.into(), &"absent".into()));
}

#[test]
fn a_pool_that_cannot_start_has_the_page() {
    let server = paged()
        .route("/absent/*", "pool = \"absent\"")
        .table("[pool.absent]\ncommand = [\"/no/such/program\"]\nqueue = { timeout = \"60s\" }\n")
        .start();
    let mut client = server.connect();
    let response = client.get("/absent/x");
    is_page(&response, 503);
    assert_eq!(response.need("retry-after"), "1");
    assert_eq!(client.get("/a.txt").status, 200);
    server.stop();
}

/// On both transports, and with both answers: 502 fits in memory, 504 is streamed. A slow machine has as long for the first as
/// the second takes.
#[test]
fn lost_and_late_requests_have_the_page() {
    for transport in ["direct", "relay"] {
        let gate = Gate::new();
        let lines = format!("workers = 1\ntransport = \"{transport}\"\nrequest_timeout = \"2s\"\n{PATIENT}");
        let server = paged().pool("app", Some(&gate), &lines).start();
        server.wait_for_processes();
        let mut client = server.connect();
        let response = client.get("/app/die");
        is_page(&response, 502);
        assert!(response.says_close(), "{transport}");
        assert_eq!(client.end(), End::Closed);
        // Two processes in a row may have died before the master was told that they were ready: so requests are refused until
        // one is.
        server.wait_for_processes();
        let mut client = server.connect();
        let response = client.get("/app/wait");
        assert_eq!((response.status, response.body.len()), (504, LARGE_BYTES), "{transport}");
        assert!(response.says_close() && response.body.iter().all(|byte| *byte == b'4'), "{transport}");
        assert_eq!(client.end(), End::Closed);
        let mut client = server.connect();
        let response = client.method("HEAD", "/app/wait", "");
        assert_eq!((response.status, response.need("content-length")), (504, "300000"), "{transport}");
        assert_eq!(client.end(), End::Closed);
        server.stop();
    }
}

#[test]
fn bodies_that_are_bad_or_late_have_the_page() {
    let server = paged()
        .log("access = \"combined\"")
        .limit("body_bytes_max = 1000")
        .limit("body_timeout = \"300ms\"")
        .pool("app", None, &format!("workers = 1\n{PATIENT}"))
        .start();
    server.wait_for_processes();
    let chunk = format!("2f0\r\n{}\r\n", "x".repeat(0x2f0));
    let chunked = "Transfer-Encoding: chunked\r\n\r\n";
    for (status, rest) in [
        (413, "Content-Length: 1001\r\n\r\n".to_owned()),
        (413, format!("Content-Length: 1001\r\n\r\n{}", "x".repeat(1001))),
        (413, format!("{chunked}{chunk}{chunk}0\r\n\r\n")),
        (400, format!("{chunked}5\r\nhelloX\r\n")),
        (400, format!("{chunked}1;{}\r\nx\r\n0\r\n\r\n", "x".repeat(20_000))),
        (408, "Content-Length: 10\r\n\r\nhalf".to_owned()),
        (408, format!("{chunked}5\r\nhe")),
    ] {
        let head = "POST /app/echo HTTP/1.1\r\nHost: localhost\r\nReferer: from\r\nUser-Agent: me\r\n";
        for before in ["", "GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n"] {
            let mut client = server.connect();
            client.send(format!("{before}{head}{rest}"));
            if !before.is_empty() {
                assert_eq!(client.response("GET").text(), "file a\n");
            }
            let response = client.response("POST");
            is_page(&response, status);
            assert!(response.says_close(), "{status}");
            assert_eq!(client.end(), End::Closed);
        }
    }
    let stopped = server.stop();
    let posts: Vec<_> = stopped.access.iter().filter(|line| line.contains("POST")).collect();
    assert_eq!(posts.len(), 14);
    assert!(posts.iter().all(|line| line.contains("\"from\" \"me\"")), "{posts:#?}");
}

#[test]
fn a_fixed_response_without_a_body_has_the_page() {
    let server = paged()
        .route("/forbidden", "respond = { status = 403 }")
        .route("/busy", "respond = { status = 503 }")
        .route("/gone", "respond = { status = 410 }")
        .route("/own", "respond = { status = 403, body = \"my own\" }")
        .route("/fine", "respond = { status = 200 }")
        .start();
    let mut client = server.connect();
    for method in ["GET", "POST", "DELETE"] {
        is_page(&client.method(method, "/forbidden", ""), 403);
    }
    let busy = client.get("/busy");
    is_page(&busy, 503);
    assert_eq!(busy.field("retry-after"), None, "it is the operator's, and for as long as it stands there");
    assert_eq!(client.get("/gone").text(), "410 Gone\n");
    assert_eq!(client.get("/own").text(), "my own");
    assert_eq!(client.get("/fine").text(), "");
    let head = client.method("HEAD", "/forbidden", "");
    assert_eq!((head.status, head.need("content-length")), (403, "20"));
    server.stop();
}

#[test]
fn what_an_application_answers_stays_its_own() {
    let server = paged().pool("app", None, &format!("workers = 1\n{PATIENT}")).start();
    server.wait_for_processes();
    let mut client = server.connect();
    let missing = client.get("/app/not-there");
    assert_eq!((missing.status, missing.text()), (404, "no such page\n"));
    let failed = client.get("/app/fail");
    assert_eq!(failed.status, 500);
    assert_ne!(failed.text(), page(500));
    server.stop();
}

/// Drops a file from memory, and waits until it has gone: the kernel need not drop pages that it writes back at the moment, or
/// that a CPU has in a batch. A kernel before Linux 6.5 cannot say what is there, and is trusted.
fn evict(path: &Path) {
    let file = File::open(path).unwrap();
    eventually("the file is not in memory", || {
        file.sync_all().unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        cachestat(file.as_fd(), 0, 0).map_or(true, |stat| stat.cached == 0)
    });
}

/// A page that is on the disk only is fetched by a helper, and the application gets no second request meanwhile.
#[test]
fn a_page_that_is_not_in_memory_is_waited_for() {
    // What the server keeps itself would not be read again.
    let (server, busy) = full(
        paged()
            .limit("body_bytes_max = \"1MB\"")
            .limit("file_cache_bytes_max = 0")
            .limit("inline_file_bytes_max = 0"),
    );
    let waits = || server.total("disk_waits");
    let mut client = server.connect();
    let mut refused = 0;
    // A read that must not wait begins to read ahead, and finds the page if the disk is faster than the rest of the system call:
    // then it is tried again.
    eventually("a helper has fetched it", || {
        evict(&server.path("root/pages/503.html"));
        let before = waits();
        is_page(&client.get("/app/hello"), 503);
        refused += 1;
        waits() > before
    });
    is_page(&client.get("/app/hello"), 503);
    assert_eq!(client.get("/a.txt").text(), "file a\n");
    assert_eq!(server.total("queue_refused"), refused + 1, "each request was refused once");

    // Behind responses that have yet to leave.
    eventually("a helper has fetched it", || {
        evict(&server.path("root/pages/413.html"));
        let before = waits();
        let mut client = server.connect();
        client.send(
            "GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n\
             POST /app/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000000\r\n\r\nsome of it",
        );
        assert_eq!(client.response("GET").text(), "file a\n");
        is_page(&client.response("POST"), 413);
        assert_eq!(client.end(), End::Closed);
        waits() > before
    });
    drop(busy);
    server.stop();
}

#[test]
fn a_page_that_cannot_be_served_gives_way_to_the_text() {
    let (server, busy) = full(paged());
    std::fs::remove_file(server.path("root/pages/503.html")).unwrap();
    let mut client = server.connect();
    let response = client.get("/app/hello");
    assert_eq!((response.status, response.need("retry-after")), (503, "1"));
    assert!(response.text().starts_with("503 Service Unavailable\nRequest ID: "), "{}", response.text());
    assert_eq!(client.get("/a.txt").text(), "file a\n");
    server.wait_for("an error page cannot be served");
    drop(busy);
    server.stop();
}
