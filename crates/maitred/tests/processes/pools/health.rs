//! Processes that are there, and do nothing any more.

use rustix::process::Signal;

use crate::pools::look::{pids, processes_of, settled};
use crate::support::processes::send_signal;
use crate::support::{Gate, Setup, TIMEOUT, eventually};

/// The other one has a request, so that only the health check can find out. When it has to is in the tests of
/// `Channel::health`.
#[test]
fn an_idle_process_that_is_stopped_is_replaced() {
    let gate = Gate::new();
    let lines = "workers = 2\nhealth_interval = \"1s\"\nqueue = { timeout = \"60s\" }";
    let server = Setup::new().pool("app", Some(&gate), lines).start();
    server.wait_for_processes();
    let mut slow = server.connect();
    slow.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    let idle = pids(&server, "app").into_iter().find(|pid| *pid != waiting.pid).unwrap();
    send_signal(idle, Signal::STOP);
    eventually("the process that does not answer is gone", || !processes_of(&server).contains(&idle));
    server.wait_for_line(|line| line.contains("is replaced: it is idle and does not answer"));
    assert_eq!(server.connect().get("/app/hello?x").text(), "hello x\n", "its successor answers");
    waiting.release();
    assert_eq!(slow.response("GET").text(), "waited\n");
    settled(&server, "app", 2);
    assert_eq!(server.total("handoff_lost"), 0);
    server.stop();
}

/// A busy process is asked nothing, however long its request takes.
#[test]
fn a_busy_process_is_left_alone() {
    let gate = Gate::new();
    let lines = "workers = 1\nhealth_interval = \"300ms\"\nqueue = { timeout = \"60s\" }";
    let server = Setup::new().pool("app", Some(&gate), lines).start();
    let mut slow = server.connect();
    slow.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    slow.tcp().set_read_timeout(Some(TIMEOUT / 30)).unwrap();
    assert!(slow.tcp().peek(&mut [0]).is_err(), "several intervals pass");
    slow.tcp().set_read_timeout(Some(TIMEOUT)).unwrap();
    assert_eq!(pids(&server, "app"), [waiting.pid]);
    waiting.release();
    assert_eq!(slow.response("GET").text(), "waited\n");
    server.stop();
}
