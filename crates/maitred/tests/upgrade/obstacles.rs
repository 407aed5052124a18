//! An executable or a configuration that cannot be used changes nothing; signals that come in between are not lost.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use rustix::process::{Signal, kill_process};

use crate::support::{Server, Setup, eventually};
use crate::upgrade;

/// Puts something in the place of the running executable.
fn put(server: &Server, content: Option<&str>) {
    let path = server.path("maitred");
    fs::remove_file(&path).unwrap();
    if let Some(content) = content {
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }
}

/// What an upgrade that must fail says; the same worker process serves afterwards.
fn refused(server: &Server) -> String {
    let before = server.status();
    let (status, said) = server.command(&["upgrade"]);
    assert!(!status.success(), "{said}");
    let after = server.status();
    for key in ["pid", "master_pid", "generation"] {
        assert_eq!(after[key], before[key], "{key}");
    }
    assert_eq!(server.connect().get("/a.txt").text(), "file a\n");
    said
}

#[test]
fn a_broken_executable_changes_nothing() {
    let server = Setup::with_files().start_copy();
    let good = server.path("good");
    fs::copy(server.path("maitred"), &good).unwrap();
    let mut idle = server.connect();
    assert_eq!(idle.get("/a.txt").status, 200);
    for (content, text) in [
        (Some("#!/bin/sh\nexit 1\n"), "exited with status 1: it said nothing"),
        (Some("#!/bin/sh\nexit 0\n"), "exited with status 0: it said nothing"),
        (Some("#!/bin/sh\necho maitred-upgrade 99.0.0 98 99\n"), "is version 99.0.0, which cannot take over"),
        (Some("this is no program\n"), "Exec format error"),
    ] {
        put(&server, content);
        let said = refused(&server);
        assert!(said.contains(text), "{said}");
    }
    put(&server, Some("gone in a moment"));
    fs::remove_file(server.path("maitred")).unwrap();
    let said = refused(&server);
    assert!(said.contains("No such file"), "{said}");
    assert_eq!(idle.get("/b.txt").text(), "file b\n");

    // And a good one at the same place does what was asked.
    fs::copy(good, server.path("maitred")).unwrap();
    upgrade(&server, 2);
    assert_eq!(idle.get("/a.txt").text(), "file a\n");
    let stopped = server.terminate(Signal::TERM);
    assert!(stopped.status.success());
    assert!(stopped.said.iter().any(|line| line.contains("everything runs on")));
}

#[test]
fn a_bad_configuration_changes_nothing() {
    let server = Setup::with_files().start();
    let file = server.path("maitred.toml");
    let good = fs::read_to_string(&file).unwrap();
    fs::write(&file, good.replace("[limits]", "[limits]\nno_such_key = 1\n")).unwrap();
    // The command reads the address of the server from the same file, and would stumble itself.
    let response = server.admin("POST /upgrade HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(response.status, 409);
    assert!(response.text().contains("no_such_key"), "{}", response.text());
    assert_eq!(server.status()["generation"], 1);
    kill_process(server.pid(), Signal::USR2).unwrap();
    server.wait_for_line(|line| line.contains("everything runs on"));
    fs::write(&file, good).unwrap();
    upgrade(&server, 2);
    let stopped = server.terminate(Signal::TERM);
    assert!(stopped.status.success());
}

/// A check binds nothing, so that an address which is in use is found after the exec. The old worker process serves until
/// somebody has dealt with that.
#[test]
fn the_old_worker_process_serves_while_the_new_image_cannot_come_up() {
    let server = Setup::with_files().start();
    let mut idle = server.connect();
    assert_eq!(idle.get("/a.txt").status, 200);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let more = format!("[[listen]]\naddress = \"{}\"\n", taken.local_addr().unwrap());
    let file = server.path("maitred.toml");
    let good = fs::read_to_string(&file).unwrap();
    fs::write(&file, good.replacen("[limits]", &format!("{more}[limits]"), 1)).unwrap();
    kill_process(server.pid(), Signal::USR2).unwrap();
    server.wait_for_line(|line| line.contains("the old worker process serves on"));
    assert_eq!(server.status()["generation"], 1);
    assert_eq!(idle.get("/b.txt").text(), "file b\n");
    assert_eq!(server.connect().get("/a.txt").text(), "file a\n");
    let response = server.admin("POST /reload HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((response.status, response.text()), (409, "the executable is being replaced; ask again\n"));
    // Somebody has: the next attempt succeeds by itself.
    drop(taken);
    eventually("the new worker process answers", || server.status()["generation"] == 2);
    assert_eq!(idle.get("/a.txt").text(), "file a\n");
    let stopped = server.terminate(Signal::TERM);
    assert!(stopped.status.success());
}

#[test]
fn two_signals_are_one_upgrade_or_two_and_never_a_loss() {
    let server = Setup::with_files().start();
    let mut idle = server.connect();
    assert_eq!(idle.get("/a.txt").status, 200);
    for _ in 0..2 {
        kill_process(server.pid(), Signal::USR2).unwrap();
    }
    eventually("it is upgraded", || server.status()["generation"].as_u64() >= Some(2));
    assert_eq!(idle.get("/b.txt").text(), "file b\n");
    eventually("one worker process is left", || server.children().len() == 1);
    server.stop();
}

#[test]
fn a_stop_that_follows_at_once_is_obeyed() {
    // Each time at another moment: during the check, around the exec, after it.
    for wanted in ["is being checked", "replacing the executable", "goes on where", "has taken over"] {
        let server = Setup::with_files().start();
        kill_process(server.pid(), Signal::USR2).unwrap();
        server.wait_for_line(|line| line.contains(wanted));
        let stopped = server.terminate(Signal::TERM);
        assert!(stopped.status.success(), "{wanted}: {} {:#?}", stopped.status, stopped.said);
        let path = stopped.setup.directory.path().join("admin.sock");
        assert!(!path.exists(), "{wanted}: the admin socket is left behind");
    }
}
