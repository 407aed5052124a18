//! `connect = "unix:…"`: pools of a server that runs already, and comes and goes as it likes.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Gate, Server, Setup, eventually};

/// The server that runs already.
struct Running(Child);

impl Running {
    /// Started, and listening at `app.sock` in the directory of the configuration.
    fn start(directory: &Path, gate: &Gate) -> Running {
        Running::start_with(directory, gate, 0, false)
    }

    /// The same; so many of the first workers leave before they have seen any request, and say that they take no files.
    fn start_with(directory: &Path, gate: &Gate, leaving: u32, sockets_only: bool) -> Running {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let adapter = manifest.join("../../adapters/python").canonicalize().unwrap();
        let mut child = Command::new("python3")
            .arg(manifest.join("tests/support/channels.py"))
            .args([directory.join("app.sock").as_os_str(), "application:application".as_ref()])
            .current_dir(directory)
            .env("PYTHONPATH", format!("{}:.", adapter.display()))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("LEAVING", leaving.to_string())
            .env("LEAVING_FLAGS", u8::from(sockets_only).to_string())
            .env("GATE", gate.address().to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "listening\n");
        Running(child)
    }

    fn stop(self) {
        drop(self);
    }
}

impl Drop for Running {
    /// Also when a test fails.
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

fn setup(lines: &str) -> Setup {
    Setup::with_files()
        .outside("application.py", include_bytes!("../support/application.py"))
        .route("/app/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = \"unix:app.sock\"\n{lines}"))
}

fn directory(server: &Server) -> &Path {
    server.setup.directory.path()
}

#[test]
fn a_server_that_runs_already_gets_requests_and_may_come_and_go() {
    for transport in ["direct", "relay"] {
        let gate = Gate::new();
        let lines =
            format!("workers = 2\ntransport = \"{transport}\"\nqueue = {{ max = 100, timeout = \"30s\" }}");
        let server = setup(&lines).start();
        let mut early = server.connect();
        early.send("GET /app/hello?early HTTP/1.1\r\nHost: h\r\n\r\n");
        server.wait_for_line(|line| line.contains("connecting to"));
        let running = Running::start(directory(&server), &gate);
        assert_eq!(early.response("GET").text(), "hello early\n", "it waited for the server");
        server.wait_for_processes();
        assert_eq!(early.get("/app/hello?again").text(), "hello again\n");
        assert_eq!(early.post("/app/length", &vec![b'x'; 300_000]).text(), "300000");

        // One of its processes leaves; the channel is replaced.
        let pid: i32 = early.get("/app/pid").text().parse().unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
        eventually("it has left", || !Path::new(&format!("/proc/{pid}/fd/0")).exists());
        assert_eq!(early.get("/app/hello?on").text(), "hello on\n");

        // The whole server is restarted, with a request under way and one in the queue.
        let mut under_way = server.connect();
        under_way.send("GET /app/wait HTTP/1.1\r\nHost: h\r\n\r\n");
        drop(gate.arrival());
        assert_eq!(under_way.response("GET").text(), "waited\n");
        running.stop();
        let mut late = server.connect();
        late.send("GET /app/hello?late HTTP/1.1\r\nHost: h\r\n\r\n");
        let running = Running::start(directory(&server), &gate);
        assert_eq!(late.response("GET").text(), "hello late\n", "{transport}");
        assert_eq!(early.get("/app/hello?still").text(), "hello still\n", "the connection was kept");
        server.stop();
        running.stop();
    }
}

#[test]
fn what_no_process_has_seen_goes_to_another_one_whatever_its_method() {
    let (direct, relay, streams) = (("direct", false), ("relay", false), ("auto", true));
    let cases = [(direct, 10), (direct, 1_000_000), (relay, 10), (relay, 1_000_000), (streams, 100_000)];
    for ((transport, sockets_only), bytes) in [&cases[..], &[(streams, 1_000_000)]].concat() {
        let gate = Gate::new();
        // Those that are leaving would not answer, were they asked.
        let setup = setup(&format!("workers = 4\nhealth_interval = \"0s\"\ntransport = \"{transport}\""));
        let running = Running::start_with(setup.directory.path(), &gate, 3, sockets_only);
        let server = setup.start();
        server.wait_for_processes();
        // The only process that takes anything is busy, so that the second request meets all others.
        let mut busy = server.connect();
        busy.send("GET /app/wait HTTP/1.1\r\nHost: h\r\n\r\n");
        let arrival = gate.arrival();
        let mut client = server.connect();
        client.send(format!("POST /app/length HTTP/1.1\r\nHost: h\r\nContent-Length: {bytes}\r\n\r\n"));
        client.send(vec![b'x'; bytes]);
        eventually("it waits", || server.status()["pools"][0]["queued"].as_u64() == Some(1));
        drop(arrival);
        assert_eq!(client.response("POST").text(), bytes.to_string(), "{transport}");
        assert_eq!((server.total("given_again"), server.total("handoff_lost")), (3, 0), "{transport}");
        server.stop();
        running.stop();
    }
}

#[test]
fn a_channel_lives_through_a_reload() {
    let gate = Gate::new();
    let setup = setup("workers = 1\nqueue = { timeout = \"30s\" }");
    let running = Running::start(setup.directory.path(), &gate);
    let server = setup.start();
    server.wait_for_processes();
    let mut client = server.connect();
    let before = client.get("/app/pid").text().to_owned();
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
    assert_eq!(client.get("/app/pid").text(), before);
    assert_eq!(server.connect().get("/app/pid").text(), before);
    server.stop();
    running.stop();
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let server = setup("workers = 1\nqueue = { timeout = \"60s\" }").start();
    let trouble = || server.status()["pools"][0]["trouble"].as_str().map(str::to_owned);
    eventually("the pool is in trouble", || trouble().is_some());
    let response = server.connect().get("/app/hello");
    assert_eq!(response.status, 503);
    let text = response.text();
    assert!(text.contains("pool \"app\" cannot be reached") && text.contains("app.sock"), "{text}");
    assert_eq!(server.connect().get("/a.txt").status, 200);
    server.stop();
}
