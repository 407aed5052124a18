//! An executable or a configuration that cannot be used changes nothing; signals that come in between are not lost.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use crate::support::{Server, Setup, copy_program, eventually};
use crate::upgrade::upgrade;

/// Puts something in the place of the running executable.
fn put(server: &Server, content: Option<&str>) {
    let (path, beside) = (server.path("maitred"), server.path("beside"));
    fs::remove_file(&path).unwrap();
    if let Some(content) = content {
        fs::write(&beside, content).unwrap();
        fs::set_permissions(&beside, PermissionsExt::from_mode(0o755)).unwrap();
        copy_program(&beside, &path);
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
    copy_program(&server.path("maitred"), &good);
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
    copy_program(&good, &server.path("maitred"));
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
    fs::write(&file, good.replace("[limits]", "[limits]\nanother_key = 1\n")).unwrap();
    server.signal(Signal::USR2);
    server.wait_for_line(|line| line.contains("another_key"));
    fs::write(&file, good).unwrap();
    upgrade(&server, 2);
    let stopped = server.terminate(Signal::TERM);
    assert!(stopped.status.success());
}

#[test]
fn two_signals_are_one_upgrade_or_two_and_never_a_loss() {
    let server = Setup::with_files().start();
    let mut idle = server.connect();
    assert_eq!(idle.get("/a.txt").status, 200);
    for _ in 0..2 {
        server.signal(Signal::USR2);
    }
    eventually("it is upgraded", || server.status()["generation"].as_u64() >= Some(2));
    assert_eq!(idle.get("/b.txt").text(), "file b\n");
    eventually("one worker process is left", || server.children().len() == 1);
    // A second upgrade may be under way, and is refused then.
    assert!(server.terminate(Signal::TERM).status.success());
}

#[test]
fn a_stop_that_follows_at_once_is_obeyed() {
    // Each time at another moment: during the check, around the exec, after it.
    for wanted in ["is being checked", "replacing the executable", "upgraded from", "has taken over"] {
        let server = Setup::with_files().start();
        server.signal(Signal::USR2);
        server.wait_for_line(|line| line.contains(wanted));
        let stopped = server.terminate(Signal::TERM);
        assert!(stopped.status.success(), "{wanted}: {} {:#?}", stopped.status, stopped.said);
        let path = stopped.setup.directory.path().join("admin.sock");
        assert!(!path.exists(), "{wanted}: the admin socket is left behind");
    }
}
