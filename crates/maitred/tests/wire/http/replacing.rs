//! Clients do not notice that the worker process is replaced.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::process::Signal;

use crate::support::load::{SetOnDrop, reload_under_load, reloadable};
use crate::support::processes::send_signal;
use crate::support::{Client, Gate, Setup};

/// One request; whether it was answered as it must be.
fn ask(client: &mut Client, target: &str, bytes: usize) -> bool {
    let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let response = client.try_send(request).and_then(|()| client.try_response("GET"));
    response.is_ok_and(|response| (response.status, response.body.len()) == (200, bytes))
}

#[test]
fn no_request_fails_while_the_configuration_is_reloaded() {
    reload_under_load(6, 20, |server, load, target, bytes| {
        // One connection for each request, and one that is kept as long as the server keeps it.
        let mut kept = server.connect();
        while !load.is_over() {
            assert!(ask(&mut server.connect(), target, bytes), "{target} on a new connection");
            assert!(ask(&mut kept, target, bytes), "{target} on a kept connection");
            load.answered(2);
        }
    });
}

#[test]
fn no_connection_is_refused_when_the_worker_process_is_killed() {
    let server = reloadable();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (server, done) = (&server, &done);
        let client = scope.spawn(move || {
            let mut lost = 0;
            while !done.load(Relaxed) {
                // Connecting must not fail; a request in the process that is killed may.
                lost += usize::from(!ask(&mut server.connect(), "/a.txt", 7));
            }
            lost
        });
        let stop = SetOnDrop(done);
        for _ in 0..3 {
            send_signal(server.answering_worker(), Signal::KILL);
            assert!(
                (0..20).filter(|_| ask(&mut server.connect(), "/a.txt", 7)).count() >= 19,
                "the next process takes what waits in the accept queue"
            );
            assert_eq!(server.connect().get("/app/hello?x").text(), "hello x\n");
        }
        drop(stop);
        let lost = client.join().unwrap();
        assert!(lost <= 3, "at most the one request that was in the process, each time: {lost}");
    });
    let stopped = server.terminate(Signal::TERM);
    assert!(stopped.status.success(), "{stopped:?}");
}

/// The connections that a worker process takes over came in by addresses that its own configuration may count otherwise.
#[test]
fn a_connection_stays_with_its_address_when_a_reload_puts_another_one_first() {
    let server = Setup::new().pool("app", None, "").start();
    server.wait_for_processes();
    let mut client = server.connect();
    let port = |shown: &str| serde_json::from_str::<serde_json::Value>(shown).unwrap()["SERVER_PORT"].clone();
    let before = port(client.get("/app/show").text());
    assert_eq!(before, server.address.port().to_string());
    let file = server.path("maitred.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let first = "[[listen]]\naddress = \"127.0.0.2:0\"\n\n[[listen]]";
    std::fs::write(&file, text.replacen("[[listen]]", first, 1)).unwrap();
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
    server.wait_for_line(|line| line.contains("worker process 1 exited"));
    assert_eq!(port(client.get("/app/show").text()), before);
    server.stop();
}

/// A request that lasts longer than two reloads: its connection is kept, at the newest of the three worker processes.
#[test]
fn a_connection_outlives_several_reloads_in_one_request() {
    let gate = Gate::new();
    let lines = "workers = 2\nqueue = { timeout = \"60s\" }";
    let server = Setup::with_files().server("threads = 2").pool("app", Some(&gate), lines).start();
    server.wait_for_processes();
    let mut client = server.connect();
    client.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    for _ in 0..2 {
        let (status, said) = server.command(&["reload"]);
        assert!(status.success(), "{said}");
    }
    server.wait_for_line(|line| line.contains("worker process 2 exited"));
    waiting.release();
    assert_eq!(client.response("GET").text(), "waited\n");
    server.wait_for_line(|line| line.contains("worker process 1 exited"));
    assert_eq!(client.get("/app/hello?on").text(), "hello on\n");
    server.stop();
}

/// A client that is informed of the end of a reload gets the new configuration on every new connection.
#[test]
fn a_reload_is_reported_when_the_old_worker_process_has_stopped_accepting() {
    let server = Setup::with_files()
        .server("threads = 4")
        .route("/generation", "respond = { status = 200, body = \"1\" }")
        .start();
    let path = server.path("maitred.toml");
    let configuration = std::fs::read_to_string(&path).unwrap();
    for generation in 2..=8 {
        let new = configuration.replace("body = \"1\"", &format!("body = \"{generation}\""));
        std::fs::write(&path, new).unwrap();
        let mut admin = Client::connect_unix(&server.path("admin.sock"));
        let response = admin.ask("POST /reload HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!((response.status, response.text()), (200, "reloaded\n"));
        for _ in 0..20 {
            assert_eq!(server.connect().get("/generation").text(), generation.to_string());
        }
    }
    server.stop();
}
