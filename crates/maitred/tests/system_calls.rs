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
    let tasks = Path::new("/proc").join(children.trim()).join("task");
    let mut tasks = std::fs::read_dir(tasks).unwrap().map(|task| task.unwrap());
    let named = |name: String| name.trim() == "loop-0";
    let task = tasks.find(|task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(named));
    task.unwrap().file_name().into_string().unwrap()
}

/// One request after another on one connection, each answered before the next is sent.
fn ask(stream: &mut TcpStream, times: usize) {
    let mut bytes = [0; 4096];
    for _ in 0..times {
        stream.write_all(b"GET /hot.txt HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut got = 0;
        while !bytes[..got].ends_with(b"hot\n") {
            let more = stream.read(&mut bytes[got..]).unwrap();
            assert!(more > 0, "the connection was closed");
            got += more;
        }
    }
}

#[test]
fn a_hot_request_takes_one_receive_one_send_and_a_share_of_the_wait() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("hot.txt"), "hot\n").unwrap();
    let log = std::fs::File::create(dir.path().join("access.log")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_maitred"));
    command.args(["serve", ".", "--listen", "127.0.0.1:0", "--threads", "1", "--log", "combined"]);
    command.current_dir(dir.path()).env_remove("XDG_RUNTIME_DIR");
    let mut server = Running(command.stdin(Stdio::null()).stdout(log).stderr(Stdio::null()).spawn().unwrap());
    let announced = announcement(&mut server.0, &dir.path().join("access.log"));

    let mut stream = TcpStream::connect(announced).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    ask(&mut stream, 20);
    let calls = dir.path().join("calls");
    let strace = Command::new("strace")
        .args(["-p", &event_loop(server.0.id())])
        .arg("-o")
        .arg(&calls)
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut strace) = strace else {
        return eprintln!("SKIPPED: there is no strace(1) here");
    };
    let mut said = BufReader::new(strace.stderr.take().unwrap()).lines();
    let strace = Running(strace);
    match said.next() {
        Some(Ok(line)) if line.contains("attached") => {}
        other => return eprintln!("SKIPPED: strace(1) may not look at a process here: {other:?}"),
    }
    ask(&mut stream, REQUESTS);
    drop(strace);

    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for line in std::fs::read_to_string(&calls).unwrap().lines() {
        if let Some((name, _)) = line.split_once('(') {
            let kind =
                ["recv", "send", "epoll"].into_iter().find(|kind| name.starts_with(kind)).unwrap_or(name);
            *counts.entry(kind.to_owned()).or_default() += 1;
        }
    }
    let mut of = |kind: &str| counts.remove(kind).unwrap_or_default();
    let (receives, sends, waits) = (of("recv"), of("send"), of("epoll"));
    assert_eq!(sends, REQUESTS, "sends; and {counts:?}");
    assert_eq!(receives, REQUESTS, "receives; and {counts:?}");
    // One at a time, nothing is shared: with this one connection each request costs a wait of its own, and no more.
    assert!((REQUESTS..=REQUESTS + OTHERS_MAX).contains(&waits), "{waits} waits; and {counts:?}");
    let others: usize = counts.values().sum();
    assert!(others <= OTHERS_MAX, "{counts:?}");
}

/// Where the server listens, from its line on standard output.
fn announcement(server: &mut Child, output: &Path) -> String {
    let end = std::time::Instant::now() + PATIENCE;
    loop {
        let said = std::fs::read_to_string(output).unwrap();
        if let Some((line, _)) = said.split_once('\n') {
            return line.strip_prefix("http://").unwrap().split(' ').next().unwrap().to_owned();
        }
        assert!(std::time::Instant::now() < end && matches!(server.try_wait(), Ok(None)), "it did not start");
        std::thread::yield_now();
    }
}
