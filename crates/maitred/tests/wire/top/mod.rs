//! `maitred top` from outside: one frame as text, and a terminal of its own.

use std::path::Path;
use std::process::Command;

use crate::support::{Gate, Setup};

#[test]
fn one_frame_is_printed_as_text() {
    let gate = Gate::new();
    let server = Setup::with_files().server("threads = 2").pool("app", Some(&gate), "workers = 3").start();
    server.wait_for_processes();
    let mut client = server.connect();
    client.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    let (status, text) = server.command(&["top", "--once"]);
    assert!(status.success(), "{text}");
    assert!(text.starts_with("maitred ") && text.contains("generation 1"), "{text}");
    let letters = text.lines().find(|line| line.len() == 6 && line.starts_with("  ")).expect(&text).trim();
    assert_eq!((letters.len(), letters.matches('W').count()), (4, 1), "{text}");
    assert!(text.contains(&format!("listening {}", server.address)) && text.contains("pool app"), "{text}");
    assert!(text.chars().all(|char| char == '\n' || !char.is_control()), "{text:?}");
    waiting.release();
    assert_eq!(client.response("GET").status, 200);
    server.stop();
}

#[test]
fn what_cannot_be_shown_is_said() {
    let server = Setup::with_files().start();
    // Standard output is a pipe here.
    let (status, said) = server.command(&["top"]);
    assert!(status.code() == Some(2) && said.contains("give --once"), "{said}");
    let (status, said) = server.command(&["top", "--once", "--interval", "0"]);
    assert!(status.code() == Some(2) && said.contains("give seconds from 0.1"), "{said}");
    let setup = server.stop().setup;
    let output = Command::new(crate::support::binary())
        .args(["top", "--once"])
        .current_dir(setup.directory.path())
        .output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("there is no such socket"), "{said}");
}

/// In a terminal: see `top/terminal.py`.
#[test]
fn a_terminal_is_drawn_resized_and_put_back() {
    let server = Setup::with_files().start();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire/top/terminal.py");
    let mut python = Command::new("python3");
    python.arg(script).arg(crate::support::binary()).arg(server.path("maitred.toml"));
    let output = python.output().expect("python3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    server.stop();
}
