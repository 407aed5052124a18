//! `maitred-load make-tree`, and a log replayed against Maitred itself with the tree that it implies.

#![allow(clippy::unwrap_used, reason = "the helpers of a test may panic as the test may")]

mod support;

use support::maitred::{Maitred, maitred};
use support::*;

#[test]
fn a_log_can_be_verified_against_the_tree_that_it_implies() {
    let Some(binary) = maitred() else {
        skip::skip_missing("no maitred binary beside maitred-load; build the workspace first");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let root = directory.path().join("site");
    let text = [
        ("GET / HTTP/1.1", 200, "1000"),
        ("GET /images/logo.png HTTP/1.1", 200, "203023"),
        ("HEAD /images/logo.png HTTP/1.1", 200, "-"),
        ("GET /images/logo.png HTTP/1.1", 304, "-"),
        ("GET /images/logo.png HTTP/1.1", 206, "77"),
        ("GET /images/logo.png HTTP/1.1", 416, "-"),
        ("GET /a%20b.css?v=3 HTTP/1.1", 200, "12"),
        ("GET /big.iso HTTP/1.1", 200, "5000000"),
        ("GET /nothing HTTP/1.1", 404, "14"),
    ]
    .map(|(request, status, bytes)| line("192.0.2.1", 10, request, status, bytes))
    .concat();
    let log = write(directory.path(), "access.log", text.as_bytes());
    let output = program(&["make-tree", &log, root.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8(output.stdout).unwrap().starts_with("4 files made"));

    let serve = ["serve", root.to_str().unwrap(), "--listen", "127.0.0.1:0", "--log", "off"];
    for (tls, count, paces) in [
        (&[][..], "900", &[&["-c", "3"][..], &["--speed", "100x"], &["--no-keep-alive"]][..]),
        (&["--tls"], "90", &[&["--insecure"], &["--insecure", "--no-keep-alive", "--full-handshakes"]]),
    ] {
        let server = Maitred::start(&binary, &[&serve[..], tls].concat());
        assert_eq!(server.url.starts_with("https:"), !tls.is_empty());
        for pace in paces {
            let common = ["replay", &log, "--to", &server.url, "--verify", "-n", count, "--loop"];
            let (code, report) = json(&[&common[..], pace].concat());
            assert_eq!(report["verified"]["examples"], serde_json::json!([]), "{pace:?}");
            assert_eq!(code, 0, "{pace:?}: {report}");
        }
    }
}

#[test]
fn a_tree_stays_in_its_directory() {
    let directory = tempfile::tempdir().unwrap();
    let text = ["/../../../escape", "/%2e%2e/escape", "/..%2f..%2fescape", "/ok"]
        .map(|target| line("::1", 0, &format!("GET {target} HTTP/1.1"), 200, "5"))
        .concat();
    let log = write(directory.path(), "access.log", text.as_bytes());
    let root = directory.path().join("root");
    let (code, made) = json(&["make-tree", &log, root.to_str().unwrap()]);
    assert_eq!((code, &made["files"]["made"], &made["log"]["impossible"]), (0, &1.into(), &3.into()));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "the log and the root");
    assert_eq!(std::fs::read_dir(&root).unwrap().count(), 1);
}

#[test]
fn a_log_without_files_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let log = write(directory.path(), "access.log", b"what\n");
    let (code, message) = failing(&["make-tree", &log, directory.path().join("root").to_str().unwrap()]);
    assert!(code == 2 && message.contains("names no file: 1 lines, 1 of them malformed"), "{message}");
    assert!(!directory.path().join("root").exists());
}
