//! Between two images the old worker process serves alone: until the new one is up, or for good.

use std::fs;
use std::net::TcpListener;

use rustix::process::Signal;

use crate::support::processes::send_signal;
use crate::support::{Client, End, Server, Setup, eventually};
use crate::upgrade::busy;

/// A new image that cannot come up until `taken` is dropped, and the client that has asked for it.
struct Between {
    taken: TcpListener,
    asker: Client,
}

impl Between {
    /// A check binds nothing, so that an address which is in use is found after the exec.
    fn images(server: &Server) -> Between {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let more = format!("[[listen]]\naddress = \"{}\"\n", taken.local_addr().unwrap());
        let file = server.path("maitred.toml");
        let good = fs::read_to_string(&file).unwrap();
        fs::write(&file, good.replacen("[limits]", &format!("{more}[limits]"), 1)).unwrap();
        let mut asker = Client::connect_unix(&server.path("admin.sock"));
        asker.send("POST /upgrade HTTP/1.1\r\nHost: localhost\r\n\r\n");
        server.wait_for_line(|line| line.contains("the old worker process serves on"));
        Between { taken, asker }
    }

    /// Removes the obstacle, and sends SIGHUP.
    fn over(mut self, server: &Server) {
        drop(self.taken);
        server.signal(Signal::HUP);
        let response = self.asker.response("POST");
        assert_eq!((response.status, response.text()), (200, "upgraded\n"));
        // Three, if the new image has found out by itself at the same moment, and takes the signal for a reload.
        eventually("the new worker process answers", || server.status()["generation"].as_u64() >= Some(2));
    }
}

#[test]
fn the_old_worker_process_serves_while_the_new_image_cannot_come_up() {
    let server = Setup::with_files().start();
    let mut idle = server.connect();
    assert_eq!(idle.get("/a.txt").status, 200);
    let between = Between::images(&server);
    assert_eq!(server.status()["generation"], 1);
    assert_eq!(idle.get("/b.txt").text(), "file b\n");
    assert_eq!(server.connect().get("/a.txt").text(), "file a\n");
    for command in ["reload", "upgrade"] {
        let response = server.admin(&format!("POST /{command} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        let said = "the executable is being replaced; try again\n";
        assert_eq!((response.status, response.text()), (409, said), "{command}");
    }
    between.over(&server);
    assert_eq!(idle.get("/a.txt").text(), "file a\n");
    let stopped = server.terminate(Signal::TERM);
    assert!(stopped.status.success());
}

#[test]
fn it_succeeds_by_itself_when_the_obstacle_is_gone() {
    let server = Setup::with_files().start();
    let Between { taken, mut asker } = Between::images(&server);
    drop(taken);
    assert_eq!(asker.response("POST").text(), "upgraded\n");
    eventually("the new worker process answers", || server.status()["generation"] == 2);
    assert!(server.terminate(Signal::TERM).status.success());
}

/// No processes are started meanwhile. What waits for one goes to the new worker process, with its connection.
#[test]
fn a_request_that_nobody_is_left_for_is_answered_by_the_new_image() {
    let server = Setup::with_files().pool("app", None, "workers = 1\nqueue = { timeout = \"60s\" }").start();
    server.wait_for_processes();
    let between = Between::images(&server);
    let process = server.status()["pools"][0]["slots"][0]["pid"].as_i64().unwrap() as i32;
    send_signal(process, Signal::KILL);
    eventually("it is gone", || !server.children().contains(&process));
    let (mut asks, mut sends) = (server.connect(), server.connect());
    // One request is followed by another one in the same piece.
    asks.send("GET /app/hello?x HTTP/1.1\r\nHost: a\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    sends.send("POST /app/echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345");
    eventually("both wait", || server.status()["pools"][0]["queued"] == 2);
    between.over(&server);
    assert_eq!(asks.response("GET").text(), "hello x\n");
    assert_eq!(asks.response("GET").text(), "file a\n");
    assert_eq!(sends.response("POST").body, b"12345");
    assert_eq!(sends.get("/b.txt").text(), "file b\n");
    eventually("no process of the old image is left", || server.children().len() == 2);
    let stopped = server.terminate(Signal::TERM);
    assert!(stopped.status.success());
    assert_eq!(stopped.access.len(), 4, "each is in the access log once: {:#?}", stopped.access);
}

#[test]
fn the_old_worker_process_finishes_what_it_has_when_the_new_image_dies() {
    let (server, mut busy, waiting) = busy();
    let Between { taken: _taken, mut asker } = Between::images(&server);
    server.signal(Signal::KILL);
    let response = asker.response("POST");
    assert_eq!((response.status, response.text()), (409, "the new executable has ended\n"));
    waiting.release();
    assert_eq!(busy.response("GET").text(), "waited\n");
    let stopped = server.wait_for_exit();
    assert!(!stopped.status.success());
    assert!(stopped.said.iter().any(|line| line.contains("the master process has died")));
}

#[test]
fn a_stop_in_between_is_obeyed() {
    let server = Setup::with_files().start();
    let mut idle = server.connect();
    assert_eq!(idle.get("/a.txt").status, 200);
    let Between { taken: _taken, mut asker } = Between::images(&server);
    server.signal(Signal::TERM);
    let response = asker.response("POST");
    assert_eq!((response.status, response.text()), (409, "the server is stopping\n"));
    assert_eq!(idle.end(), End::Closed);
    let path = server.path("admin.sock");
    assert!(server.wait_for_exit().status.success());
    assert!(!path.exists(), "the admin socket is left behind");
}

/// By the command as well: the old worker process, which is the one that is asked, has it reach the new image.
#[test]
fn a_stop_by_command_in_between_is_obeyed() {
    let server = Setup::with_files().start();
    let Between { taken: _taken, mut asker } = Between::images(&server);
    let (status, said) = server.command(&["stop"]);
    assert!(status.success(), "{said}");
    assert_eq!(said.trim_end(), "stopped");
    let response = asker.response("POST");
    assert_eq!((response.status, response.text()), (409, "the server is stopping\n"));
    assert!(server.wait_for_exit().status.success());
}
