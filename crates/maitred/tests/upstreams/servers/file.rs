//! `endpoints`: servers in a file.

use std::fs;

use rustix::process::Signal;

use crate::servers::{listed, says, setup};
use crate::support::eventually;

#[test]
fn a_file_is_read_again_when_it_changes_and_a_broken_one_changes_nothing() {
    let fixed = says("fixed");
    let pool = format!("connect = \"{}\"\nendpoints = \"servers.json\"", fixed.name());
    let first = br#"[{"address": "127.0.0.1:8001", "weight": 7}]"#;
    let server = setup(&pool).outside("servers.json", first).start();
    let file = server.path("servers.json");
    let of_file = |rest: &str| [format!("{} 1 active configuration", fixed.address()), rest.to_owned()];
    assert_eq!(listed(&server), of_file("127.0.0.1:8001 7 active file"));
    fs::write(&file, r#"[{"address": "unix:/run/x.sock", "backup": true, "drain": true}]"#).unwrap();
    eventually("it was read", || listed(&server) == of_file("unix:/run/x.sock 1 draining file backup"));
    fs::write(&file, "[{").unwrap();
    server.wait_for("servers.json cannot be used; its servers stay as they are");
    assert_eq!(listed(&server), of_file("unix:/run/x.sock 1 draining file backup"));
    fs::write(&file, "[]").unwrap();
    eventually("it was read", || listed(&server).len() == 1);
    // The server has logged an error.
    assert!(server.terminate(Signal::TERM).status.success());
}
