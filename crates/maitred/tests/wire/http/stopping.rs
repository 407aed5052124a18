//! What clients see while the server stops.

use std::net::TcpStream;

use rustix::process::Signal;

use crate::support::{Setup, eventually};

#[test]
fn a_stop_finishes_what_is_there_and_refuses_what_comes() {
    let server = Setup::with_files().pool("app", None, "workers = 1").start();
    server.wait_for_processes();
    let mut client = server.connect();
    client.send("POST /app/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n01234");
    eventually("the half request is there", || server.total("reading") == 1);
    server.signal(Signal::TERM);
    eventually("the port is closed", || TcpStream::connect(server.address).is_err());
    client.send("56789");
    let response = client.response("POST");
    assert_eq!((response.status, response.field("connection")), (200, Some("close")));
    let stopped = server.wait_for_exit();
    assert!(stopped.status.success(), "{:?}", stopped.said);
    assert_eq!(stopped.access.len(), 1);
}

#[test]
fn an_interrupt_keeps_the_lines_of_what_was_answered() {
    let server = Setup::with_files().start();
    assert_eq!(server.connect().get("/a.txt").status, 200);
    let stopped = server.terminate(Signal::INT);
    assert!(stopped.status.success(), "{:?}", stopped.said);
    assert_eq!(stopped.access.len(), 1);
    assert!(!stopped.said.iter().any(|line| line.contains("SIGKILL")), "{:?}", stopped.said);
}
