//! Descriptors that application processes pass, and that may be anything.

use std::io::Read as _;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};

use crate::support::processes::descriptors;
use crate::support::{Server, eventually};
use crate::{get, setup};

/// How long what the application passes waits when it is closed; an event loop that closes it waits as long.
const LINGERS: Duration = Duration::from_secs(50);

/// A file is answered long before that is over, whatever an application process has done.
#[track_caller]
fn is_not_held_up(server: &Server, path: &str, since: Instant) {
    assert_eq!(server.connect().get("/small").status, 200);
    let took = since.elapsed();
    assert!(took < LINGERS / 2, "a file was answered {took:?} after {path}");
}

#[test]
fn what_waits_when_it_is_closed_holds_nobody_up() {
    let cases = [
        ("skipped", Some(200)),
        ("file", Some(502)),
        ("unclaimed", Some(502)),
        ("unread", Some(502)),
        ("response", Some(502)),
        ("client", None),
    ];
    std::thread::scope(|scope| {
        for (case, status) in cases {
            scope.spawn(move || lingers(case, status));
        }
    });
}

fn lingers(case: &str, status: Option<u16>) {
    let transport = if case == "response" { "relay" } else { "direct" };
    let server = crate::setup_with(transport, "").limit("linger_timeout = \"100ms\"").start();
    // Whoever connects to this can send no more than fits into sockets.
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let path = format!("/app/linger/{case}/{}", peer.local_addr().unwrap().port());
    let (before, mut client) = (descriptors(server.worker()), server.connect());
    let began = Instant::now();
    client.send(get(&path));
    match status {
        Some(status) => assert_eq!(client.response("GET").status, status, "{path}"),
        // The response is never whole, and what the client does not take stays in the socket that it has.
        None => {
            let (log, worker) = (server.path("access.log"), server.worker());
            eventually("the response is over", || {
                std::fs::read_to_string(&log).is_ok_and(|text| text.contains(&path))
            });
            eventually("its socket is closed", || descriptors(worker) <= before);
        }
    }
    is_not_held_up(&server, &path, began);
    assert_eq!(server.connect().get("/app/ok").status, 200, "the process, or the next, after {path}");
    is_not_held_up(&server, &path, began);
    server.stop();
}

#[test]
fn a_file_that_is_none_is_refused() {
    let server = setup("").start();
    assert_eq!(server.connect().get("/app/fifo").status, 502);
    server.wait_for("not of a regular file");
    assert_eq!(server.connect().get("/app/ok").status, 200);
    server.stop();
}

#[test]
fn a_response_may_have_eight_files() {
    let server = setup("").outside("file.txt", b"file\n").start();
    let mut client = server.connect();
    assert_eq!(client.get("/app/files/8").body, b"file\n".repeat(8));
    let process = server.applications();
    assert_eq!(client.get("/app/ok").status, 200);
    assert_eq!(server.applications(), process);
    let before = descriptors(server.worker());
    client.send(get("/app/files/1000"));
    server.wait_for("more than 8 files");
    eventually("all of them are closed", || descriptors(server.worker()) <= before);
    server.stop();
}

/// A file of procfs, which refuses to be read without waiting (`RWF_NOWAIT`), as those of FUSE and NFS do.
#[test]
fn a_file_that_might_make_its_reader_wait_is_read_by_helpers() {
    let text = std::fs::read("/proc/version").unwrap();
    for transport in ["direct", "relay"] {
        let server = crate::setup_with(transport, "").start();
        let mut client = server.connect();
        for path in ["/app/proc/length", "/app/proc/chunked", "/app/proc/length"] {
            assert_eq!(client.get(path).body, text, "{transport}: {path}");
        }
        let before = server.total("disk_waits");
        assert_eq!(server.connect().get("/app/proc/length").body, text);
        assert_eq!(server.total("disk_waits"), before + 1);
        let mut cut = server.connect();
        cut.send(get("/app/proc/short"));
        let mut received = Vec::new();
        let _ = cut.tcp().read_to_end(&mut received);
        assert!(received.ends_with(&text), "{}", String::from_utf8_lossy(&received));
        server.wait_for("shorter than");
        assert_eq!(client.get("/app/ok").status, 200);
        server.stop();
    }
}

/// An ordinary file, which is sent without a helper: that it ends too early is said and counted, and costs its response only.
#[test]
fn a_file_that_ends_before_it_was_said_to_is_named() {
    for transport in ["direct", "relay"] {
        let server = crate::setup_with(transport, "").outside("file.txt", b"five!").start();
        assert_eq!(server.connect().get("/app/ok").status, 200);
        let before = server.applications();
        let mut cut = server.connect();
        cut.send(get("/app/beyond"));
        let mut received = Vec::new();
        let _ = cut.tcp().read_to_end(&mut received);
        assert!(received.ends_with(b"five!"), "{}", String::from_utf8_lossy(&received));
        server.wait_for_line(|line| {
            line.contains("shorter than it said") && line.contains("pool=fake") && line.contains("slot=0")
        });
        assert_eq!(server.total("files_broken"), 1, "{transport}");
        assert_eq!(server.connect().get("/app/ok").status, 200);
        assert_eq!(server.applications(), before, "{transport}: the process lives on");
        server.stop();
    }
}

/// The limit on open files of a process, as `/proc/PID/limits` has it: soft, and hard.
fn open_files(process: i32) -> Rlimit {
    let text = std::fs::read_to_string(format!("/proc/{process}/limits")).unwrap();
    let line = text.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let mut numbers = line.split_whitespace().skip(3).map(|number| number.parse().ok());
    Rlimit { current: numbers.next().unwrap(), maximum: numbers.next().unwrap() }
}

#[test]
fn a_shortage_of_our_own_costs_one_response_and_no_process() {
    for transport in ["direct", "relay"] {
        let server = crate::setup_with(transport, "").outside("file.txt", b"file\n").start();
        let mut client = server.connect();
        assert_eq!(client.get("/app/ok").status, 200);
        let (process, worker) = (server.applications(), server.worker());
        let before = descriptors(worker);
        assert_eq!(client.get("/app/files/1").body, b"file\n");
        eventually("the file is closed", || descriptors(worker) <= before);
        let is_used = |number: u64| std::fs::symlink_metadata(format!("/proc/{worker}/fd/{number}")).is_ok();
        let free = (0..).find(|number| !is_used(*number)).unwrap();
        let given = open_files(worker);
        let set = |limit| prlimit(Pid::from_raw(worker), Resource::Nofile, limit).unwrap();
        // Nothing more can be opened.
        set(Rlimit { current: Some(free), ..given });
        client.send(get("/app/files/1"));
        let mut received = Vec::new();
        let _ = client.tcp().read_to_end(&mut received);
        assert!(!received.ends_with(b"file\n"), "{}", String::from_utf8_lossy(&received));
        server.wait_for("no descriptor is left for a file of a response");
        set(given);
        assert_eq!(server.connect().get("/app/files/2").body, b"file\nfile\n", "{transport}");
        assert_eq!(server.applications(), process, "{transport}");
        assert!(server.terminate(Signal::TERM).status.success());
    }
}
