//! What the program itself costs, in a figure that does not depend on what else the machine does: system calls. wrk makes four
//! per request: a write, a read, and two to watch the socket for another event each time.

mod support;

use std::process::{Command, Stdio};

use support::*;

/// Calls of a kind in strace's summary.
fn calls(summary: &str, name: &str) -> u64 {
    let rows = summary.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut rows = rows.filter(|row| row.last() == Some(&name));
    rows.next().and_then(|row| row.get(3)?.parse().ok()).unwrap_or(0)
}

#[test]
fn a_request_takes_one_send_and_one_receive() {
    let there = Command::new("strace").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        skip::skip_missing("no strace (Debian: strace)");
        return;
    }
    const REQUESTS: u64 = 3000;
    const CONNECTIONS: u64 = 16;
    let server = Server::answering("ok");
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), REQUESTS as usize);
    let summary = directory.path().join("summary");
    let output = Command::new("strace")
        .args(["-f", "-c", "-o"])
        .arg(&summary)
        .arg(env!("CARGO_BIN_EXE_maitred-load"))
        .args(["replay", &log, "--to", &server.url(), "--sessions", "none", "--json", "-c"])
        .arg(CONNECTIONS.to_string())
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["responses"], &report["connections"]), (&REQUESTS.into(), &CONNECTIONS.into()));
    let summary = std::fs::read_to_string(summary).unwrap();
    assert_eq!(calls(&summary, "sendto"), REQUESTS, "{summary}");
    assert_eq!(calls(&summary, "recvfrom"), REQUESTS, "{summary}");
    assert_eq!(
        calls(&summary, "epoll_ctl"),
        CONNECTIONS,
        "a connection is watched once, for life: {summary}"
    );
    // Waiting is shared by what has come meanwhile, but a slow server may answer one at a time.
    let waits =
        calls(&summary, "epoll_wait") + calls(&summary, "epoll_pwait") + calls(&summary, "epoll_pwait2");
    assert!(waits <= REQUESTS + 500, "{summary}");
}
