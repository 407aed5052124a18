//! System calls of the event loop per request, counted by strace(1): the one figure of speed that does not depend on the machine.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy.toml does not know to be such")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// After this, something hangs.
const PATIENCE: Duration = Duration::from_secs(30);
/// Requests that are counted.
const REQUESTS: usize = 500;
/// Calls besides those of the requests, in the whole time: checks of the file once a second, a full log buffer.
const OTHERS_MAX: usize = 40;

/// Ends a process by SIGINT, and reaps it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            kill_process(Pid::from_child(&self.0), Signal::INT).unwrap();
        }
        self.0.wait().unwrap();
    }
}

/// The event-loop thread of the worker process of this master.
fn event_loop(master: u32) -> String {
    let children = std::fs::read_to_string(format!("/proc/{master}/task/{master}/children")).unwrap();
    let tasks = children.split_whitespace().map(|child| Path::new("/proc").join(child).join("task"));
    let mut tasks = tasks.flat_map(|tasks| std::fs::read_dir(tasks).unwrap()).map(|task| task.unwrap());
    let named = |name: String| name.trim() == "loop-0";
    let task = tasks.find(|task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(named));
    task.unwrap().file_name().into_string().unwrap()
}

/// One request after another on one connection, each answered with `hot` before the next is sent.
fn ask(stream: &mut TcpStream, path: &str, times: usize) {
    let mut bytes = [0; 4096];
    for _ in 0..times {
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).unwrap();
        let mut got = 0;
        while !bytes[..got].ends_with(b"hot\n") {
            let more = stream.read(&mut bytes[got..]).unwrap();
            assert!(more > 0, "the connection was closed");
            got += more;
        }
    }
}

/// System calls of the event loop by name, while [`REQUESTS`] requests are answered. `None`, with a word on why, where they
/// cannot be counted.
fn calls(dir: &Path, master: u32, stream: &mut TcpStream, path: &str) -> Option<BTreeMap<String, usize>> {
    ask(stream, path, 20);
    let output = dir.join("calls");
    let strace = Command::new("strace")
        .args(["-p", &event_loop(master)])
        .arg("-o")
        .arg(&output)
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut strace) = strace else {
        eprintln!("SKIPPED: there is no strace(1) here");
        return None;
    };
    let mut said = BufReader::new(strace.stderr.take().unwrap()).lines();
    let strace = Running(strace);
    match said.next() {
        Some(Ok(line)) if line.contains("attached") => {}
        other => {
            eprintln!("SKIPPED: strace(1) may not look at a process here: {other:?}");
            return None;
        }
    }
    ask(stream, path, REQUESTS);
    drop(strace);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for line in std::fs::read_to_string(&output).unwrap().lines() {
        if let Some((name, _)) = line.split_once('(') {
            let kinds = ["recv", "send", "epoll_wait", "epoll_pwait"];
            let kind = kinds.into_iter().find(|kind| name.starts_with(kind)).unwrap_or(name);
            *counts.entry(kind.replace("pwait", "wait")).or_default() += 1;
        }
    }
    Some(counts)
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[test]
fn a_hot_request_takes_one_receive_one_send_and_a_share_of_the_wait() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("hot.txt"), "hot\n").unwrap();
    let arguments = ["serve", ".", "--listen", "127.0.0.1:0", "--threads", "1", "--log", "combined"];
    let (server, address) = start(dir.path(), &arguments);
    let Some(mut counts) = calls(dir.path(), server.0.id(), &mut connect(&address), "/hot.txt") else {
        return;
    };
    let mut of = |kind: &str| counts.remove(kind).unwrap_or_default();
    let (receives, sends, waits) = (of("recv"), of("send"), of("epoll_wait"));
    assert_eq!(sends, REQUESTS, "sends; and {counts:?}");
    assert_eq!(receives, REQUESTS, "receives; and {counts:?}");
    // With this one connection nothing is shared: each request costs a wait of its own, and no more.
    assert!(waits <= REQUESTS + OTHERS_MAX, "{waits} waits; and {counts:?}");
    let others: usize = counts.values().sum();
    assert!(others <= OTHERS_MAX, "{counts:?}");
}

#[test]
fn a_handed_off_request_takes_one_message_each_way_and_no_change_of_the_epoll_set() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("hot.py"),
        "def application(environ, start_response):\n    \
         start_response('200 OK', [('Content-Length', '4')])\n    return [b'hot\\n']\n",
    )
    .unwrap();
    let adapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters/python").canonicalize().unwrap();
    let config = format!(
        "[server]\nthreads = 1\n[log]\nerror_file = \"output\"\naccess_file = \"access.log\"\n\
         [[listen]]\naddress = \"127.0.0.1:0\"\n[[site]]\nroot = \".\"\n\
         [[site.route]]\npath = \"/app/*\"\npool = \"web\"\n\
         [pool.web]\ncommand = [\"python3\", \"-m\", \"maitred\", \"hot:application\"]\nworkers = 1\ntransport = \"direct\"\n\
         env = {{ PYTHONPATH = \"{}\" }}\n",
        adapter.display()
    );
    std::fs::write(dir.path().join("maitred.toml"), config).unwrap();
    let (server, address) = start(dir.path(), &["run"]);
    let Some(mut counts) = calls(dir.path(), server.0.id(), &mut connect(&address), "/app/") else { return };
    let mut of = |kind: &str| counts.remove(kind).unwrap_or_default();
    let (receives, sends, waits) = (of("recv"), of("send"), of("epoll_wait"));
    assert_eq!(sends, REQUESTS, "one message to the process; and {counts:?}");
    assert!(
        receives <= 2 * REQUESTS + OTHERS_MAX,
        "{receives}: the request, and the report on it; and {counts:?}"
    );
    // One for each of these two; and a third where what the process sends is acknowledged in between, which is an event of
    // the connection (edge-triggered, EPOLLOUT).
    assert!(waits <= 3 * REQUESTS + OTHERS_MAX, "{waits} waits; and {counts:?}");
    assert_eq!(of("epoll_ctl"), 0, "the connection stays where it is registered");
    // The process shares the socket's flags: it is made non-blocking again when it comes home.
    assert!(of("ioctl") <= REQUESTS, "and {counts:?}");
    let others: usize = counts.values().sum();
    assert!(others <= OTHERS_MAX, "{counts:?}");
}

/// A server in that directory, and where it listens.
fn start(dir: &Path, arguments: &[&str]) -> (Running, String) {
    let output = dir.join("output");
    let stdout = std::fs::File::create(&output).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_maitred"));
    command.args(arguments).current_dir(dir).env_remove("XDG_RUNTIME_DIR");
    let spawned = command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::null()).spawn();
    let mut server = Running(spawned.unwrap());
    let address = announcement(&mut server.0, &output);
    (server, address)
}

/// Where the server listens, from what it says when it is ready.
fn announcement(server: &mut Child, output: &Path) -> String {
    let end = std::time::Instant::now() + PATIENCE;
    loop {
        let said = std::fs::read_to_string(output).unwrap();
        if let Some((address, _)) = said.split_once("http://").and_then(|(_, rest)| rest.split_once(' ')) {
            return address.to_owned();
        }
        assert!(std::time::Instant::now() < end && matches!(server.try_wait(), Ok(None)), "it did not start");
        std::thread::yield_now();
    }
}
