//! `request_buffering = "off"`, with applications of Python's interfaces.

use std::process::Command;

use crate::support::h2::{Connection, frame};
use crate::support::{Client, Server, Setup, processes::send_signal};

const MIB: usize = 1 << 20;

/// What the long uploads have.
const LONG: usize = 200;

/// A server with one process of this callable of `uploads.py`.
fn start(callable: &str) -> Server {
    let pool = "workers = 1\nearly_hints = \"always\"";
    let server = Setup::with_files()
        .outside("uploads.py", include_bytes!("uploads.py"))
        .listen("http2 = true")
        .limit("body_bytes_max = \"1GiB\"\nbodies_disk_bytes_max = \"1GiB\"")
        .log("access = \"json\"")
        .site("request_buffering = \"off\"")
        .route("/*", "pool = \"app\"")
        .python("app", &format!("uploads:{callable}"), "", pool)
        .start();
    server.wait_for_processes();
    server
}

/// A piece of an upload: no two are alike.
fn piece(number: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..MIB).map(|at| (at % 251) as u8).collect();
    bytes[..8].copy_from_slice(&(number as u64).to_le_bytes());
    bytes
}

/// The SHA-256 of so many of them, as another program has it.
fn digest(pieces: usize) -> String {
    let program = "import hashlib, sys\nd = hashlib.sha256()\nb = bytes(i % 251 for i in range(1 << 20))\n\
                   for n in range(int(sys.argv[1])): d.update(n.to_bytes(8, 'little') + b[8:])\n\
                   print(d.hexdigest(), end='')";
    let output = Command::new("python3").args(["-c", program, &pieces.to_string()]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn post(server: &Server, fields: &str) -> Client {
    let mut client = server.connect();
    client.send(format!("POST /a HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\n"));
    client
}

/// Uploads so many pieces: with their length, or in chunks.
fn upload(server: &Server, pieces: usize, chunked: bool) -> (String, String) {
    let mut client = match chunked {
        true => post(server, "Transfer-Encoding: chunked"),
        false => post(server, &format!("Content-Length: {}", pieces * MIB)),
    };
    for number in 0..pieces {
        if chunked {
            client.send(format!("{MIB:x}\r\n"));
        }
        client.send(piece(number));
        if chunked {
            client.send("\r\n");
        }
        if number == pieces / 2 {
            let status = server.status();
            let kept = ["memory", "disk"].map(|place| status["bodies"][place]["bytes"].as_u64().unwrap());
            assert_eq!(kept, [0, 0], "nothing is kept");
            let unsent = status["budgets"]["unsent"]["used"].as_u64().unwrap();
            assert!(unsent <= MIB as u64, "{}", status["budgets"]);
        }
    }
    if chunked {
        client.send("0\r\n\r\n");
    }
    let response = client.response("POST");
    (response.need("x-length").to_owned(), response.text().to_owned())
}

/// Memory of a process, in bytes, by its name in `/proc/PID/status`.
fn memory(pid: i32, name: &str) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

#[test]
fn a_long_upload_takes_no_memory_and_no_disk() {
    for callable in ["wsgi", "asgi"] {
        let server = start(callable);
        for chunked in [false, true] {
            upload(&server, 1, chunked);
        }
        let before = memory(server.worker(), "VmHWM:");
        for chunked in [false, true] {
            let length = if chunked { "unknown".to_owned() } else { (LONG * MIB).to_string() };
            assert_eq!(upload(&server, LONG, chunked), (length, digest(LONG)), "{callable}");
        }
        let grown = memory(server.worker(), "VmHWM:").saturating_sub(before);
        assert!(grown <= MIB, "{callable}: {grown} bytes");
        server.stop();
    }
}

#[test]
fn a_stream_of_http2_is_uploaded_while_the_application_reads() {
    for callable in ["wsgi", "asgi"] {
        let server = start(callable);
        let mut client = Connection::new(server.address);
        let id = client.request("POST", "/a", &[], false);
        client.upload(id, &piece(0), false);
        server.wait_for("a body has begun");
        client.upload(id, &piece(1), true);
        assert_eq!(client.response(id).text(), digest(2), "{callable}");
        drop(client);
        server.stop();
    }
}

#[test]
fn the_client_is_asked_when_the_application_reads() {
    for callable in ["wsgi", "asgi"] {
        let server = start(callable);
        let mut client = post(&server, &format!("Expect: 100-continue\r\nContent-Length: {MIB}"));
        assert!(client.raw_head().unwrap().starts_with(b"HTTP/1.1 100 Continue\r\n"), "{callable}");
        client.send(piece(0));
        assert_eq!(client.response("POST").text(), digest(1), "{callable}");
        assert_eq!(client.post("/a", &piece(0)).text(), digest(1), "the connection goes on");
        server.stop();
    }
}

#[test]
fn an_application_never_takes_a_part_of_a_body_for_all_of_it() {
    for (callable, lost) in
        [("wsgi", "a body was lost: BodyLost"), ("asgi", "a body was lost: http.disconnect")]
    {
        let server = start(callable);
        for framing in ["Content-Length: 50", "Transfer-Encoding: chunked"] {
            let mut client = post(&server, framing);
            client.send("5\r\nfirst\r\n");
            server.wait_for("a body has begun");
            client.finish_sending();
            server.wait_for(lost);
        }
        let mut client = Connection::new(server.address);
        let id = client.request("POST", "/a", &[], false);
        client.send(frame::data(id, b"first", false));
        server.wait_for("a body has begun");
        client.cancel(id);
        server.wait_for(lost);
        // The process is fine.
        assert_eq!(server.connect().post("/a", &piece(0)).text(), digest(1), "{callable}");
        drop(client);
        server.stop();
    }
}

#[test]
fn a_process_that_dies_in_the_middle_of_a_body_means_502() {
    for callable in ["wsgi", "asgi"] {
        let server = start(callable);
        let mut client = post(&server, "Content-Length: 50");
        client.send("first");
        server.wait_for("a body has begun");
        let pid = server.status()["pools"][0]["slots"][0]["pid"].as_i64().unwrap();
        send_signal(i32::try_from(pid).unwrap(), rustix::process::Signal::KILL);
        assert_eq!(client.response("POST").status, 502, "{callable}");
        assert_eq!(upload(&server, 1, false), (MIB.to_string(), digest(1)), "the next process takes it");
        server.stop();
    }
}

/// The channel goes to the next worker process, which gets to know what the adapter has said; a body that is under way goes on in
/// the process before it.
#[test]
fn a_reload_changes_nothing_for_bodies() {
    for callable in ["wsgi", "asgi"] {
        let server = start(callable);
        let mut client = post(&server, &format!("Content-Length: {}", 2 * MIB));
        client.send(piece(0));
        server.wait_for("a body has begun");
        let old = server.answering_worker();
        let (status, said) = server.command(&["reload"]);
        assert!(status.success(), "{said}");
        assert_ne!(server.answering_worker(), old);
        client.send(piece(1));
        assert_eq!(client.response("POST").text(), digest(2), "{callable}");
        let mut client = post(&server, &format!("Content-Length: {}", 2 * MIB));
        client.send(piece(0));
        // The body is not whole, and with the application all the same.
        server.wait_for("a body has begun");
        client.send(piece(1));
        assert_eq!(client.response("POST").text(), digest(2), "{callable}");
        server.stop();
    }
}
