//! What must not get out: files outside of the root, hidden names, what is not a regular file.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use proptest::prelude::*;

use super::super::testing::{Bench, files};
use super::tree;
use maitred_config::Files;

#[test]
fn links_that_leave_the_root_are_not_there() {
    let outside = tree(&[("secret", "secret"), ("dir/secret", "secret")]);
    let root = tree(&[("in/file", "inside")]);
    symlink(outside.path().join("secret"), root.path().join("absolute")).unwrap();
    symlink(outside.path().join("dir"), root.path().join("dir")).unwrap();
    symlink("../../../../../../../../etc/passwd", root.path().join("in/relative")).unwrap();
    symlink("in/file", root.path().join("good")).unwrap();
    symlink("loop", root.path().join("loop")).unwrap();
    let mut bench = Bench::of(files(root.path()));
    for path in ["/absolute", "/dir/secret", "/dir", "/dir/", "/in/relative", "/loop"] {
        assert_eq!(bench.get(path).status, 404, "{path}");
    }
    assert_eq!(bench.get("/good").text(), "inside");

    let mut bench = Bench::of(Files { symlinks_may_leave: true, ..files(root.path()) });
    for path in ["/absolute", "/dir/secret"] {
        assert_eq!(bench.get(path).text(), "secret", "{path}");
    }
}

#[test]
fn paths_that_are_not_normal_find_nothing() {
    let outside = tree(&[("secret", "secret"), ("root/file", "inside")]);
    let root = outside.path().join("root");
    for symlinks_may_leave in [false, true] {
        let mut bench = Bench::of(Files { symlinks_may_leave, hidden: true, ..files(&root) });
        for path in [&b"/../secret"[..], b"/x/../../secret", b"/..", b"/file\0", b"", b"file", b"/file/"] {
            let answer = bench.ask(path, Default::default());
            assert_eq!(answer.status, 404, "{}", path.escape_ascii());
        }
        assert_eq!(bench.get("/file").text(), "inside");
    }
}

#[test]
fn a_link_may_be_swapped_for_a_worse_one_at_any_time() {
    let outside = tree(&[("secret", "secret")]);
    let root = tree(&[("a", "inside")]);
    symlink("a", root.path().join("link")).unwrap();
    let mut bench = Bench::of(files(root.path()));
    assert_eq!(bench.get("/link").text(), "inside");
    fs::remove_file(root.path().join("link")).unwrap();
    symlink(outside.path().join("secret"), root.path().join("link")).unwrap();
    bench.pass(std::time::Duration::from_secs(2));
    assert_eq!(bench.get("/link").status, 404);
}

#[test]
fn magic_links_are_not_followed() {
    for symlinks_may_leave in [false, true] {
        let mut bench = Bench::of(Files { symlinks_may_leave, ..files("/proc/self".as_ref()) });
        for path in ["/exe", "/cwd/Cargo.toml", "/root/etc/passwd"] {
            assert_eq!(bench.get(path).status, 404, "{path}");
        }
    }
}

#[test]
fn only_regular_files_are_served_and_none_holds_the_thread() {
    let root = tree(&[]);
    let fifo = root.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    let _socket = UnixListener::bind(root.path().join("socket")).unwrap();
    symlink("/dev/null", root.path().join("null")).unwrap();
    symlink("/dev/tty", root.path().join("tty")).unwrap();
    let mut bench = Bench::of(Files { symlinks_may_leave: true, ..files(root.path()) });
    for path in ["/fifo", "/socket", "/null", "/tty"] {
        assert_eq!(bench.get(path).status, 404, "{path}");
    }
}

#[test]
fn hidden_names_are_served_only_on_demand() {
    let root =
        tree(&[(".env", "secret"), (".git/config", "secret"), (".well-known/x", "open"), ("a/.b", "secret")]);
    let mut bench = Bench::of(files(root.path()));
    for path in ["/.env", "/.git/config", "/.git/", "/.git", "/a/.b", "/.well-known/.x"] {
        assert_eq!(bench.get(path).status, 404, "{path}");
    }
    assert_eq!(bench.get("/.well-known/x").text(), "open");
    let mut bench = Bench::of(Files { hidden: true, ..files(root.path()) });
    assert_eq!(bench.get("/.env").text(), "secret");
}

#[test]
fn what_may_not_be_read_is_forbidden() {
    let root = tree(&[("locked", "secret")]);
    let locked = root.path().join("locked");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    // Root may read everything.
    let expected = if fs::read(&locked).is_ok() { 200 } else { 403 };
    assert_eq!(Bench::of(files(root.path())).get("/locked").status, expected);
}

#[test]
fn odd_names_find_nothing_and_break_nothing() {
    let root = tree(&[("a", "x")]);
    let mut bench = Bench::of(files(root.path()));
    let long = format!("/{}", "n".repeat(300));
    let deep = "/d".repeat(5000);
    for path in [long.as_str(), deep.as_str(), "/a/b", "/a/b/"] {
        assert_eq!(bench.get(path).status, 404);
    }
}

/// Segments that a path may be made of: names of the tree below, ways up, links out.
fn path() -> impl Strategy<Value = String> {
    let segment = prop::sample::select(vec![
        "..",
        ".",
        "",
        "in",
        "file",
        "secret",
        "absolute",
        "up",
        "root",
        "dir",
        "...",
        "%2e%2e",
        "index.html",
    ]);
    prop::collection::vec(segment, 0..8).prop_map(|segments| format!("/{}", segments.join("/")))
}

proptest! {
    #[test]
    fn no_path_leads_out(paths in prop::collection::vec(path(), 1..20)) {
        let outside = tree(&[("secret", "secret"), ("dir/secret", "secret"), ("root/in/file", "inside")]);
        let root = outside.path().join("root");
        symlink(outside.path().join("secret"), root.join("absolute")).unwrap();
        symlink("../../dir", root.join("in/up")).unwrap();
        symlink("..", root.join("up")).unwrap();
        for hidden in [false, true] {
            let mut bench = Bench::of(Files { hidden, listing: true, ..files(&root) });
            for path in &paths {
                let answer = bench.get(path);
                prop_assert!(answer.text() != "secret", "{path}");
                prop_assert!(matches!(answer.status, 200 | 301 | 404), "{path}: {}", answer.status);
            }
        }
    }
}
