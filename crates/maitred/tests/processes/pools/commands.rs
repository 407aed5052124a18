//! `maitred pool`: what an operator does with a pool while it works.

use serde_json::Value;

use crate::pools::load::under_load;
use crate::pools::look::{letters, pids, ready, settled, there};
use crate::support::{Gate, Server, Setup, eventually};

const PATIENT: &str = "queue = { timeout = \"60s\" }";

fn start(workers: &str) -> Server {
    let server = Setup::new().pool("app", None, &format!("workers = {workers}\n{PATIENT}")).start();
    server.wait_for_processes();
    server
}

#[test]
fn a_pool_is_shown_with_its_processes() {
    let server = start("2");
    assert_eq!(server.connect().get("/app/hello?x").status, 200);
    let (status, said) = server.command(&["pool", "app"]);
    assert!(status.success(), "{said}");
    for pid in pids(&server, "app") {
        assert!(said.contains(&pid.to_string()), "{said}");
    }
    assert!(said.contains("pool app (auto): 3 slots") && said.contains("in progress"), "{said}");
    let (status, said) = server.command(&["pool", "app", "--json"]);
    let shown: Value = serde_json::from_str(&said).unwrap();
    assert!(status.success() && shown["name"] == "app" && shown["slots"].is_array(), "{said}");
    server.stop();
}

#[test]
fn whoever_asks_for_what_cannot_be_is_told_why() {
    let server = start("2");
    for (arguments, code, wanted) in [
        (&["pool", "ap"][..], 1, "there is: app"),
        (&["pool", "ap", "restart"], 1, "there is: app"),
        (&["pool", "app", "drain", "2"], 1, "slot 2 of pool app is empty; filled are: 0, 1"),
        (&["pool", "app", "drain", "3"], 1, "pool app has no slot 3: they are numbered from 0 to 2"),
        (&["pool", "app", "scale", "0"], 1, "1 to 2 processes"),
        (&["pool", "app", "scale", "3"], 1, "1 to 2 processes"),
        (&["pool", "app", "scale"], 2, "<NUMBER>"),
        (&["pool", "app", "drain"], 2, "<NUMBER>"),
        (&["pool", "app", "drain", "first"], 2, "invalid"),
        (&["pool", "app", "restart", "1"], 2, "restart takes no number"),
        (&["pool", "app", "stop"], 2, "invalid"),
        (&["pool", "../reload", "restart"], 2, "letters, digits"),
    ] {
        let (status, said) = server.command(arguments);
        assert_eq!(status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(wanted), "{arguments:?}: {said}");
    }
    let get = server.admin("GET /pool/app/restart HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((get.status, get.need("allow")), (405, "POST"));
    let page = "POST /pool/app/restart HTTP/1.1\r\nHost: localhost\r\nOrigin: http://example.com\r\n\r\n";
    assert_eq!(server.admin(page).status, 403, "a page in a browser may not");
    assert_eq!(pids(&server, "app").len(), 2);
    server.stop();
}

#[test]
fn a_restart_replaces_every_process_and_no_request_fails() {
    let server = start("3");
    let before = pids(&server, "app");
    under_load(&server, 6, "/app/hello?x", |found| {
        found.more(20);
        let (status, said) = server.command(&["pool", "app", "restart"]);
        assert!(status.success() && said.contains("3 processes of pool app were replaced"), "{said}");
        eventually("all processes are others", || {
            let now = pids(&server, "app");
            now.len() == 3
                && now.iter().all(|pid| !before.contains(pid))
                && ready(&letters(&server, "app")) == 3
        });
        found.more(20);
    });
    server.stop();
}

#[test]
fn a_slot_is_drained_and_what_it_had_is_answered() {
    let gate = Gate::new();
    let server = Setup::new().pool("app", Some(&gate), &format!("workers = 2\n{PATIENT}")).start();
    server.wait_for_processes();
    let mut client = server.connect();
    client.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    let slot = pids(&server, "app").iter().position(|pid| *pid == waiting.pid).unwrap();
    let (status, said) = server.command(&["pool", "app", "drain", &slot.to_string()]);
    assert!(status.success() && said.contains(&format!("app/{slot} finishes what it has")), "{said}");
    eventually("it drains, and another one is started", || {
        let letters = letters(&server, "app");
        letters.contains('D') && ready(&letters) == 2
    });
    let (status, said) = server.command(&["pool", "app", "drain", &slot.to_string()]);
    assert!(status.code() == Some(1) && said.contains("is ending already"), "{said}");
    waiting.release();
    assert_eq!(client.response("GET").text(), "waited\n");
    settled(&server, "app", 2);
    server.stop();
}

#[test]
fn a_pool_is_scaled_up_and_down_under_load() {
    let server = start("{ start = 2, min_spare = 1, max_spare = 8, max = 8 }");
    under_load(&server, 8, "/app/hello?x", |found| {
        for processes in [6, 2, 4] {
            let (status, said) = server.command(&["pool", "app", "scale", &processes.to_string()]);
            assert!(status.success() && said.contains(&format!("keeps {processes} processes")), "{said}");
            eventually("there are so many", || {
                let letters = letters(&server, "app");
                ready(&letters) == processes && there(&letters) == processes
            });
            found.more(20);
        }
    });
    server.stop();
}
