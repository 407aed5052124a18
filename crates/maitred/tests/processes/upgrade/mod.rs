//! The executable of a running server is replaced (`SIGUSR2`, `maitred upgrade`), and no client notices; or it cannot be, and
//! nothing changes.

mod between;
mod obstacles;
mod secure;
mod unnoticed;

use crate::support::{Client, Gate, Server, Setup, Waiting, eventually};

/// A server with one application process, and a client whose request stands at the gate there.
fn busy() -> (Server, Client, Waiting) {
    let gate = Gate::new();
    let server = Setup::with_files().pool("app", Some(&gate), "workers = 1").start();
    server.wait_for_processes();
    let mut client = server.connect();
    client.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    (server, client, waiting)
}

/// Has the executable replaced, and waits until the worker process of this generation is the one that answers.
fn upgrade(server: &Server, generation: u64) {
    // Until the one before has gone, it may be the one that is asked, and cannot pass the command on.
    eventually("the executable is replaced", || {
        let (status, said) = server.command(&["upgrade"]);
        assert!(status.success() || said.contains("try again"), "{said}");
        status.success()
    });
    eventually("the new worker process answers", || server.status()["generation"] == generation);
}
