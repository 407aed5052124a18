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
/// Requests that are counted; where several come in one write, the writes.
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

/// Requests on one connection, so many in each write, which are answered with `hot` before the next are sent.
fn ask(stream: &mut TcpStream, path: &str, writes: usize, batch: usize) {
    let mut bytes = vec![0; 16 * 1024];
    let requests = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").repeat(batch);
    for _ in 0..writes {
        stream.write_all(requests.as_bytes()).unwrap();
        let mut got = 0;
        while bytes[..got].windows(5).filter(|bytes| bytes == b"\nhot\n").count() < batch {
            let more = stream.read(&mut bytes[got..]).unwrap();
            assert!(more > 0, "the connection was closed");
            got += more;
        }
    }
}

/// System calls of the event loop by name, while [`REQUESTS`] writes of so many requests are answered. `None`, with a word on
/// why, where they cannot be counted.
fn calls(dir: &Path, master: u32, path: &str, batch: usize) -> Option<BTreeMap<String, usize>> {
    let address = announced(&std::fs::read_to_string(dir.join("output")).unwrap()).unwrap();
    let stream = &mut connect(&address);
    ask(stream, path, 20, batch);
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
    ask(stream, path, REQUESTS, batch);
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

/// What each request, or write of several, may cost at most: name, and calls of it. All others together stay below
/// [`OTHERS_MAX`].
fn assert_at_most(mut counts: BTreeMap<String, usize>, budget: &[(&str, usize)]) {
    let all = format!("{counts:?}");
    for &(kind, each) in budget {
        let count = counts.remove(kind).unwrap_or_default();
        assert!(count <= each * REQUESTS + OTHERS_MAX, "{kind}: {each} a request are allowed; {all}");
    }
    assert!(counts.values().sum::<usize>() <= OTHERS_MAX, "{all}");
}

/// Files of a directory with `hot.txt`.
fn files(dir: &Path) -> Running {
    std::fs::write(dir.join("hot.txt"), "hot\n").unwrap();
    start(dir, &["serve", ".", "--listen", "127.0.0.1:0", "--threads", "1", "--log", "combined"])
}

/// `/app/*` leads to the pool that is described so.
fn pool(dir: &Path, pool: &str) -> Running {
    let config = format!(
        "[server]\nthreads = 1\n[log]\nerror_file = \"output\"\naccess_file = \"access.log\"\n\
         [[listen]]\naddress = \"127.0.0.1:0\"\n[[site]]\nroot = \".\"\n\
         [[site.route]]\npath = \"/app/*\"\npool = \"web\"\n[pool.web]\n{pool}\n"
    );
    std::fs::write(dir.join("maitred.toml"), config).unwrap();
    start(dir, &["run"])
}

/// An application in Python, which answers by that transport.
fn application(dir: &Path, transport: &str) -> Running {
    std::fs::write(
        dir.join("hot.py"),
        "def application(environ, start_response):\n    \
         start_response('200 OK', [('Content-Length', '4')])\n    return [b'hot\\n']\n",
    )
    .unwrap();
    let adapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters/python").canonicalize().unwrap();
    let command = "command = [\"python3\", \"-m\", \"maitred\", \"hot:application\"]\nworkers = 1";
    let env = format!("env = {{ PYTHONPATH = \"{}\" }}", adapter.display());
    pool(dir, &format!("{command}\ntransport = \"{transport}\"\n{env}"))
}

/// An HTTP server that answers every request on every connection with `hot`, as long as this process lives.
fn origin() -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                let mut got = 0;
                while let Ok(more @ 1..) = stream.read(&mut bytes[got..]) {
                    got += more;
                    if bytes[..got].ends_with(b"\r\n\r\n") {
                        got = 0;
                        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhot\n").unwrap();
                    }
                }
            });
        }
    });
    address
}

#[test]
fn a_hot_request_takes_one_receive_one_send_and_a_share_of_the_wait() {
    let dir = tempfile::tempdir().unwrap();
    let server = files(dir.path());
    let Some(counts) = calls(dir.path(), server.0.id(), "/hot.txt", 1) else { return };
    assert_eq!(counts.get("send"), Some(&REQUESTS), "{counts:?}");
    assert_eq!(counts.get("recv"), Some(&REQUESTS), "{counts:?}");
    // With this one connection nothing is shared: each request costs a wait of its own, and no more.
    assert_at_most(counts, &[("send", 1), ("recv", 1), ("epoll_wait", 1)]);
}

#[test]
fn sixteen_requests_in_one_write_take_one_receive_and_one_send() {
    let dir = tempfile::tempdir().unwrap();
    let server = files(dir.path());
    let Some(counts) = calls(dir.path(), server.0.id(), "/hot.txt", 16) else { return };
    assert_at_most(counts, &[("send", 1), ("recv", 1), ("epoll_wait", 1)]);
}

#[test]
fn a_handed_off_request_takes_one_message_each_way_and_no_change_of_the_epoll_set() {
    let dir = tempfile::tempdir().unwrap();
    let server = application(dir.path(), "direct");
    let Some(counts) = calls(dir.path(), server.0.id(), "/app/", 1) else { return };
    assert_eq!(counts.get("send"), Some(&REQUESTS), "one message to the process; {counts:?}");
    assert_eq!(counts.get("epoll_ctl"), None, "the connection stays where it is registered: {counts:?}");
    // The request, and the report on it. One wait for each of these two; and a third where what the process sends is
    // acknowledged in between, which is an event of the connection (edge-triggered, EPOLLOUT). The process shares the
    // socket's flags: it is made non-blocking again when it comes home.
    assert_at_most(counts, &[("send", 1), ("recv", 2), ("epoll_wait", 3), ("ioctl", 1)]);
}

#[test]
fn a_relayed_request_takes_one_message_each_way_and_one_pass_through_the_relay() {
    let dir = tempfile::tempdir().unwrap();
    let server = application(dir.path(), "relay");
    let Some(counts) = calls(dir.path(), server.0.id(), "/app/", 1) else { return };
    // To the process and to the client; the request, the report, the response. A relay that nothing has come through for a
    // millisecond is watched.
    assert_at_most(counts, &[("send", 2), ("recv", 3), ("epoll_wait", 3), ("epoll_ctl", 1)]);
}

#[test]
fn a_proxied_request_takes_one_receive_and_one_send_on_each_side_and_a_look() {
    let dir = tempfile::tempdir().unwrap();
    let server = pool(dir.path(), &format!("connect = \"http://{}\"", origin()));
    let Some(counts) = calls(dir.path(), server.0.id(), "/app/", 1) else { return };
    // The third receive looks whether the kept connection is still there (MSG_PEEK) before it gets the request.
    assert_at_most(counts, &[("send", 2), ("recv", 3), ("epoll_wait", 2)]);
}

/// A server in that directory, which listens and says where in `output`.
fn start(dir: &Path, arguments: &[&str]) -> Running {
    let output = dir.join("output");
    let stdout = std::fs::File::create(&output).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_maitred"));
    command.args(arguments).current_dir(dir).env_remove("XDG_RUNTIME_DIR");
    let spawned = command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::null()).spawn();
    let mut server = Running(spawned.unwrap());
    wait_for_announcement(&mut server.0, &output);
    server
}

/// Where the server listens, from what it says when it is ready.
fn announced(said: &str) -> Option<String> {
    said.split_once("http://")
        .and_then(|(_, rest)| rest.split_once(' '))
        .map(|(address, _)| address.to_owned())
}

fn wait_for_announcement(server: &mut Child, output: &Path) {
    let end = std::time::Instant::now() + PATIENCE;
    loop {
        let said = std::fs::read_to_string(output).unwrap();
        if announced(&said).is_some() {
            return;
        }
        assert!(std::time::Instant::now() < end && matches!(server.try_wait(), Ok(None)), "it did not start");
        std::thread::yield_now();
    }
}
