//! The worker process dies, and application processes live on.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::process::Signal;

use crate::pools::look::{breathing, pids, settled, starts_and_crashes};
use crate::support::load::SetOnDrop;
use crate::support::processes::send_signal;
use crate::support::{End, Gate, Server, Setup, eventually};

const LINES: &str = "workers = 2\nqueue = { timeout = \"60s\" }";

/// Kills the worker process, and waits until it is gone: the kernel closes its sockets before.
fn kill_worker_process(server: &Server) {
    let worker = server.answering_worker();
    send_signal(worker, Signal::KILL);
    eventually("the worker process is gone", || !server.workers().contains(&worker));
}

/// The process that answers; `None` if the connection ends first.
fn ask(server: &Server) -> Option<i32> {
    let mut client = server.connect();
    client.try_send("GET /app/pid HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let response = client.try_response("GET").ok()?;
    assert_eq!(response.status, 200, "{response:?}");
    Some(response.text().parse().unwrap())
}

/// An application that takes a second to start, under load.
#[test]
fn application_processes_outlive_their_worker_process() {
    let server = breathing(Setup::new(), "app", None, "STARTS_IN = \"1\"", LINES).start();
    server.wait_for_processes();
    settled(&server, "app", 2);
    let before = pids(&server, "app");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = SetOnDrop(&over);
        for _ in 0..3 {
            // Requests that were under way are lost, and only processes that were there before answer.
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    assert!(ask(&server).is_none_or(|pid| before.contains(&pid)));
                }
            });
        }
        for _ in 0..3 {
            kill_worker_process(&server);
            let next = server.connect().get("/app/pid").text().parse().unwrap();
            assert!(before.contains(&next), "{next} has answered, there were {before:?}");
        }
    });
    settled(&server, "app", 2);
    let now = pids(&server, "app");
    let counts = starts_and_crashes(&server);
    let said = server.terminate(Signal::TERM).said;
    assert_eq!((now, counts), (before, (2, 0)), "no other was started: {said:#?}");
    assert!(!said.iter().any(|line| line.contains("protocol error")), "{said:#?}");
}

/// A process that is at a request has it finished, whether or not its report is read, and serves then. Clients
/// whose connections it keeps see their end.
#[test]
fn a_process_comes_to_the_end_of_its_request_before_it_recovers() {
    let gate = Gate::new();
    let lines = "workers = 1\ntransport = \"direct\"\nqueue = { timeout = \"60s\" }";
    let server = breathing(Setup::new(), "app", Some(&gate), "", lines).start();
    server.wait_for_processes();
    let mut idle = server.connect();
    let before = idle.get("/app/pid").text().to_owned();
    let mut first = server.connect();
    first.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    kill_worker_process(&server);
    let mut next = server.connect();
    next.send("GET /app/pid HTTP/1.1\r\nHost: localhost\r\n\r\n");
    eventually("the next request is queued", || server.total("queued") == 1);
    waiting.release();
    assert_eq!(
        first.response("GET").text(),
        "waited\n",
        "the client's own socket was the process's to write to"
    );
    assert_eq!(next.response("GET").text(), before);
    assert_eq!((first.end(), idle.end()), (End::Closed, End::Closed));
    assert_eq!(starts_and_crashes(&server), (1, 0));
    server.terminate(Signal::TERM);
}

/// After a reload the old worker process has the channel of a process that is busy. When it dies, the process goes to the new
/// one.
#[test]
fn a_process_of_an_old_worker_process_recovers_to_the_new_one() {
    let gate = Gate::new();
    let lines = "workers = 1\nqueue = { timeout = \"60s\" }";
    let server = breathing(Setup::new(), "app", Some(&gate), "", lines).start();
    server.wait_for_processes();
    let before = server.connect().get("/app/pid").text().to_owned();
    let mut first = server.connect();
    first.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    let old = server.answering_worker();
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
    eventually("the new worker process answers", || server.status()["generation"] == 2);
    send_signal(old, Signal::KILL);
    eventually("the old worker process is gone", || !server.workers().contains(&old));
    let mut next = server.connect();
    next.send("GET /app/pid HTTP/1.1\r\nHost: localhost\r\n\r\n");
    eventually("the next request is queued", || server.total("queued") == 1);
    waiting.release();
    assert_eq!(next.response("GET").text(), before);
    assert_eq!(starts_and_crashes(&server), (1, 0));
    server.terminate(Signal::TERM);
}

/// A pool whose processes say nothing of recovery ends with the worker process, and begins anew.
#[test]
fn processes_that_do_not_recover_are_replaced() {
    let adapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters/python").canonicalize().unwrap();
    let env =
        format!("env = {{ PYTHONPATH = \"{}:.\", PYTHONDONTWRITEBYTECODE = \"1\" }}", adapter.display());
    let command = "unset MAITRED_RECOVERY; exec python3 -m maitred breathing:application";
    let server = Setup::new()
        .outside("breathing.py", include_bytes!("breathing.py"))
        .route("/app/*", "pool = \"app\"")
        .table(&format!("[pool.app]\ncommand = [\"sh\", \"-c\", \"{command}\"]\n{env}\n{LINES}\n"))
        .start();
    server.wait_for_processes();
    settled(&server, "app", 2);
    let before = pids(&server, "app");
    kill_worker_process(&server);
    let next: i32 = server.connect().get("/app/pid").text().parse().unwrap();
    assert!(!before.contains(&next), "{next} was there before");
    eventually("the former processes are gone", || {
        pids(&server, "app").iter().all(|pid| !before.contains(pid))
    });
    settled(&server, "app", 2);
    server.terminate(Signal::TERM);
}
