//! Descriptors that application processes pass, and that may be anything.

use std::io::{IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};

use crate::abuse::{get, open_gate, setup};
use crate::support::processes::{descriptors, send_signal};
use crate::support::{Server, eventually};

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
    let server = crate::abuse::setup_with(transport, "").limit("linger_timeout = \"100ms\"").start();
    // A client that connects to this can send no more than fits into sockets.
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

/// A socket whose last close waits, with an end that has to be kept open meanwhile.
fn lingering() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far_end, _) = listener.accept().unwrap();
    socket.set_nonblocking(true).unwrap();
    while socket.write(&[0; 65536]).is_ok() {}
    rustix::net::sockopt::set_socket_linger(&socket, Some(LINGERS)).unwrap();
    (socket, far_end)
}

/// Sends bytes with such a socket, and keeps no copy. From Linux 6.16 on, the kernel may refuse that.
fn send_with_lingering(through: &UnixStream, bytes: &[u8]) -> TcpStream {
    let (socket, far_end) = lingering();
    let passed = [socket.as_fd()];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    assert!(control.push(SendAncillaryMessage::ScmRights(&passed)));
    let sent = sendmsg(through, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
    assert!(matches!(sent, Ok(_) | Err(Errno::PERM | Errno::PIPE)), "{sent:?}");
    if sent.is_err() {
        // The socket is closed here, then.
        rustix::net::sockopt::set_socket_linger(&socket, None).unwrap();
    }
    far_end
}

/// Descriptors that were not asked for, from operators and from HTTP servers on Unix sockets: received, and left unread.
#[test]
fn what_others_pass_on_unix_sockets_holds_nobody_up() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("server");
    let listener = UnixListener::bind(&path).unwrap();
    let upstream = format!("[pool.far]\nconnect = \"http+unix:{}\"\n", path.display());
    let server = setup("").route("/far", "pool = \"far\"").table(&upstream).start();
    let (began, mut kept) = (Instant::now(), Vec::new());
    for unread in [false, true] {
        let operator = UnixStream::connect(server.path("admin.sock")).unwrap();
        if unread {
            // Behind what ends the connection.
            (&operator).write_all(b"GARBAGE\r\n\r\n").unwrap();
        }
        kept.push((send_with_lingering(&operator, b"GET / HTTP/1.1\r\n"), operator));
        is_not_held_up(&server, "a descriptor from an operator", began);
        let mut client = server.connect();
        client.send(get("/far"));
        let (far, _) = listener.accept().unwrap();
        (&far).read_exact(&mut [0; 10]).unwrap();
        if unread {
            (&far).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
        }
        kept.push((send_with_lingering(&far, b"HTTP/1.1 200 OK\r\n"), far));
        is_not_held_up(&server, "a descriptor from an HTTP server", began);
        drop(client);
    }
    drop(kept);
    assert_eq!(server.connect().get("/app/ok").status, 200);
    is_not_held_up(&server, "all of them", began);
    server.terminate(Signal::TERM);
}

/// What its worker process has not read when that dies: the master has the last copy of this end of the channel.
#[test]
fn what_is_unread_in_a_channel_does_not_hold_the_master_up() {
    let server = setup("").start();
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = server.connect();
    assert_eq!(client.get("/app/ok").status, 200);
    client.send(get(&format!("/app/linger/orphan/{}", peer.local_addr().unwrap().port())));
    // The frame of the request leaves at the end of the turn that has counted it, before which the worker process must not be
    // stopped.
    eventually("the application has the request", || server.path("at-the-gate").exists());
    let worker = server.worker();
    send_signal(worker, Signal::STOP);
    open_gate(&server);
    eventually("the application has passed it", || server.path("passed").exists());
    let began = Instant::now();
    send_signal(worker, Signal::KILL);
    eventually("there is another worker process", || server.worker_is_not(worker));
    is_not_held_up(&server, "what was unread in a channel", began);
    assert_eq!(server.connect().get("/app/ok").status, 200);
    // Less than the 30 seconds after which a worker process is replaced that has inherited a copy, and waits in exec(2).
    is_not_held_up(&server, "what was unread in a channel", began);
    server.terminate(Signal::TERM);
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
        let server = crate::abuse::setup_with(transport, "").start();
        let mut client = server.connect();
        for path in ["/app/proc/length", "/app/proc/chunked", "/app/proc/length"] {
            assert_eq!(client.get(path).body, text, "{transport}: {path}");
        }
        let before = server.total("disk_waits");
        assert_eq!(server.connect().get("/app/proc/length").body, text);
        assert!(server.total("disk_waits") > before);
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
        let server = crate::abuse::setup_with(transport, "").outside("file.txt", b"five!").start();
        assert_eq!(server.connect().get("/app/ok").status, 200);
        let before = server.applications();
        let mut cut = server.connect();
        cut.send(get("/app/beyond"));
        let mut received = Vec::new();
        let _ = cut.tcp().read_to_end(&mut received);
        assert!(received.ends_with(b"five!"), "{}", String::from_utf8_lossy(&received));
        server.wait_for_line(|line| {
            line.contains("shorter than announced") && line.contains("pool=fake") && line.contains("slot=0")
        });
        assert_eq!(server.total("files_broken"), 1, "{transport}");
        assert_eq!(server.connect().get("/app/ok").status, 200);
        assert_eq!(server.applications(), before, "{transport}: the process lives on");
        server.stop();
    }
}

/// Files that only the server has open take space that is not seen elsewhere: of those there is a bound, beyond which a
/// response is aborted. What has a name in a directory is the operator's.
#[test]
fn what_is_kept_in_files_for_slow_clients_is_bounded() {
    // More than a socket takes of it while its client reads nothing.
    const BYTES: u64 = 8 << 20;
    let used = |server: &Server| server.status()["budgets"]["unsent_files"]["used"].as_u64().unwrap();
    std::thread::scope(|scope| {
        for transport in ["direct", "relay"] {
            scope.spawn(move || {
                let server = crate::abuse::setup_with(transport, "")
                    .limit("unsent_files_bytes_max = \"12MiB\"")
                    .start();
                for place in ["memory", "disk"] {
                    let path = format!("/app/kept/{place}/{BYTES}");
                    let mut slow = server.connect();
                    slow.send(get(&path));
                    eventually("it is counted", || used(&server) == BYTES);
                    let mut second = server.connect();
                    second.send(get(&path));
                    let mut received = Vec::new();
                    let _ = second.tcp().read_to_end(&mut received);
                    let refused = received.starts_with(b"HTTP/1.1 503 ");
                    assert!(
                        refused || received.len() < 1000,
                        "{transport} {place}: it got {}",
                        received.len()
                    );
                    server.wait_for("would exceed unsent_files_bytes_max");
                    let named = server.connect().get(&format!("/app/kept/named/{BYTES}"));
                    assert_eq!(named.body.len() as u64, BYTES, "{transport}: a file with a name");
                    assert_eq!(slow.response("GET").body.len() as u64, BYTES, "{transport} {place}");
                    eventually("its room is free", || used(&server) == 0);
                    assert_eq!(server.connect().get(&path).body.len() as u64, BYTES, "{transport} {place}");
                }
                server.stop();
            });
        }
    });
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
        let server = crate::abuse::setup_with(transport, "").outside("file.txt", b"file\n").start();
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
        server.wait_for("response aborted: no descriptor is left for its file");
        set(given);
        assert_eq!(server.connect().get("/app/files/2").body, b"file\nfile\n", "{transport}");
        assert_eq!(server.applications(), process, "{transport}");
        assert!(server.terminate(Signal::TERM).status.success());
    }
}
