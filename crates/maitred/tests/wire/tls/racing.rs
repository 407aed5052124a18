//! What another process of the worker process's account gets to see while worker processes start.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use crate::support::stage::{Authority, connect, setup};
use crate::support::{Server, TIMEOUT};

/// Reloads that are raced with.
const RELOADS: usize = 10;

struct Racer {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Racer {
    /// Polls what the children of `server` have open, as this account.
    fn start(server: &Server, (uid, gid): (u32, u32)) -> Racer {
        let mut child = Command::new("python3")
            .args(["-u", "-c", include_str!("racer.py")])
            .args([server.pid().as_raw_nonzero().to_string(), std::process::id().to_string()])
            .current_dir("/")
            .uid(uid)
            .gid(gid)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)))
        });
        let mut racer = Racer { child, lines, said: Vec::new() };
        racer.wait_for("racing");
        racer
    }

    fn wait_for(&mut self, wanted: &str) {
        while !self.said.iter().any(|line| line == wanted) {
            let line = self.lines.recv_timeout(TIMEOUT);
            self.said.push(line.unwrap_or_else(|_| panic!("no {wanted}: {:#?}", self.said)));
        }
    }
}

impl Drop for Racer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The user and the group of a process.
fn account(pid: i32) -> (u32, u32) {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let id = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    (id("Uid:"), id("Gid:"))
}

#[test]
fn a_process_of_the_same_account_sees_nothing_of_a_worker_process_that_starts() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("SKIPPED: only root can have a worker process of another user");
    }
    let authority = Authority::new();
    let server = setup(&authority, "").server("user = \"nobody\"").start();
    let mut racer = Racer::start(&server, account(server.answering_worker()));
    for _ in 0..RELOADS {
        let (status, said) = server.command(&["reload"]);
        assert!(status.success(), "{said}");
        let pid = server.answering_worker();
        // So that it cannot have been too slow.
        racer.wait_for(&format!("LIVES {pid}"));
        assert_eq!(connect(&server, &authority.client()).get("/a.txt").text(), "file a\n");
    }
    let seen: Vec<_> = racer.said.iter().filter(|line| !line.starts_with("LIVES")).collect();
    assert_eq!(seen, ["racing"]);
    server.stop();
}
