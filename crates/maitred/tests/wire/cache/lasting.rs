//! What is kept stays when processes are replaced, killed or started anew; what is damaged on the disk is not given.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;

use crate::cache::failing::entries;
use crate::cache::origin::{Origin, Steps, response};
use crate::cache::{HIT, setup, status};
use crate::support::processes::send_signal;
use crate::support::{Server, eventually};

pub(crate) const LONG: usize = 200_000;

/// Short and long responses, and such that vary.
fn origin() -> Origin {
    Origin::start(|peer, asked| match asked.target() {
        "/long" => peer.send(response("Cache-Control: max-age=6000\r\n", vec![b'l'; LONG])),
        "/varies" => {
            let kind = asked.field("x-kind").unwrap_or("none");
            peer.send(response("Cache-Control: max-age=6000\r\nVary: X-Kind\r\n", kind))
        }
        target => peer.send(response("Cache-Control: max-age=6000\r\n", target)),
    })
}

/// Asks for all that [`origin`] has: how many were hits.
fn ask(server: &Server) -> usize {
    let mut hits = 0;
    for (target, kind, body) in [
        ("/a", "", b"/a".to_vec()),
        ("/b?c", "", b"/b?c".to_vec()),
        ("/long", "", vec![b'l'; LONG]),
        ("/varies", "x", b"x".to_vec()),
        ("/varies", "y", b"y".to_vec()),
    ] {
        let response = server.connect().method("GET", target, &format!("X-Kind: {kind}\r\n"));
        assert!(response.status == 200 && response.body == body, "{target}: {}", response.status);
        hits += usize::from(status(&response) == HIT);
    }
    hits
}

const ONLY_KEPT: &str = "Cache-Control: only-if-cached\r\n";

/// Waits until a server that was started anew has found all of it in its directory, which it reads while it answers.
fn wait_for_directory(server: &Server) {
    let all = [("/a", ""), ("/b?c", ""), ("/long", ""), ("/varies", "x"), ("/varies", "y")];
    for (target, kind) in all {
        let fields = format!("X-Kind: {kind}\r\n{ONLY_KEPT}");
        eventually("it is found", || server.connect().method("GET", target, &fields).status == 200);
    }
}

/// Has all of it kept, in files.
fn fill(server: &Server) {
    assert_eq!(ask(server), 0);
    // Five responses, and the note that one varies.
    eventually("all is on the disk", || entries(&server.path("store")) == 6);
}

pub(crate) fn reload(server: &Server, generation: u64) {
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
    eventually("the new worker process answers", || server.status()["generation"] == generation);
}

#[test]
fn a_reload_keeps_everything() {
    let origin = origin();
    let server = setup(&origin, "true").start();
    fill(&server);
    for generation in 2..=3 {
        reload(&server, generation);
        assert_eq!((ask(&server), origin.count()), (5, 5));
    }
    server.stop();
}

#[test]
fn a_worker_process_that_is_killed_leaves_everything() {
    let origin = origin();
    let server = setup(&origin, "true").start();
    fill(&server);
    let old = server.worker();
    send_signal(old, Signal::KILL);
    eventually("another worker process is there", || server.worker_is_not(old));
    assert_eq!((ask(&server), origin.count()), (5, 5));
    server.terminate(Signal::TERM);
}

#[test]
fn an_upgrade_keeps_everything() {
    let origin = origin();
    let server = setup(&origin, "true").start_copy();
    fill(&server);
    eventually("the executable is replaced", || server.command(&["upgrade"]).0.success());
    eventually("the new worker process answers", || server.status()["generation"] == 2);
    assert_eq!((ask(&server), origin.count()), (5, 5));
    server.stop();
}

#[test]
fn a_restart_keeps_everything() {
    let origin = origin();
    let mut server = setup(&origin, "true").start();
    fill(&server);
    for _ in 0..2 {
        server = server.stop().setup.start();
        wait_for_directory(&server);
        assert_eq!((ask(&server), origin.count()), (5, 5));
    }
    let stopped = server.terminate(Signal::KILL);
    let server = stopped.setup.start();
    wait_for_directory(&server);
    assert_eq!((ask(&server), origin.count()), (5, 5));
    server.stop();
}

#[test]
fn what_was_changed_stays_so_after_a_restart() {
    let origin = origin();
    let server = setup(&origin, "true").start();
    fill(&server);
    assert_eq!(server.connect().post("/a", b"").status, 200);
    assert_eq!(server.connect().post("/varies", b"").status, 200);
    eventually("the files are removed", || entries(&server.path("store")) <= 4);
    let server = server.stop().setup.start();
    for target in ["/b?c", "/long"] {
        eventually("it is found", || server.connect().method("GET", target, ONLY_KEPT).status == 200);
    }
    assert_eq!((ask(&server), origin.count()), (2, 10));
    server.stop();
}

/// Two pieces of a long response; the second one when the test allows it.
pub(crate) fn in_two(steps: &Steps) -> Origin {
    let allowed = steps.clone();
    Origin::start(move |peer, _| {
        let all = response("Cache-Control: max-age=6000\r\n", vec![b'x'; 2 * LONG]);
        let (first, second) = all.split_at(all.len() - LONG);
        peer.send(first)?;
        allowed.wait_for(1)?;
        peer.send(second)
    })
}

#[test]
fn a_response_that_is_being_kept_comes_whole_over_a_reload() {
    let steps = Steps::default();
    let origin = in_two(&steps);
    let server = setup(&origin, "true").start();
    let mut client = server.connect();
    client.send("GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.head().unwrap();
    client.exactly(LONG).unwrap();
    reload(&server, 2);
    steps.allow();
    assert!(client.exactly(LONG).unwrap() == vec![b'x'; LONG]);
    eventually("it is on the disk", || entries(&server.path("store")) == 1);
    let hit = server.connect().get("/long");
    assert_eq!((hit.body.len(), status(&hit).as_str(), origin.count()), (2 * LONG, HIT, 1));
    server.stop();
}

#[test]
fn a_worker_process_that_is_killed_leaves_nothing_partial() {
    let steps = Steps::default();
    let origin = in_two(&steps);
    let server = setup(&origin, "true").start();
    let mut client = server.connect();
    client.send("GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.head().unwrap();
    client.exactly(LONG).unwrap();
    let old = server.worker();
    send_signal(old, Signal::KILL);
    assert!(client.exactly(LONG).is_err());
    eventually("another worker process is there", || server.worker_is_not(old));
    steps.allow();
    assert_eq!(entries(&server.path("store")), 0);
    for _ in 0..2 {
        assert!(server.connect().get("/long").body == vec![b'x'; 2 * LONG]);
    }
    assert_eq!(origin.count(), 2);
    server.terminate(Signal::TERM);
}

fn files(server: &Server) -> Vec<PathBuf> {
    let folders = fs::read_dir(server.path("store")).unwrap().map(|entry| entry.unwrap().path());
    let folders = folders.filter(|path| path.is_dir());
    folders.flat_map(|path| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path())).collect()
}

#[test]
fn what_is_damaged_is_fetched_anew() {
    let origin = origin();
    let server = setup(&origin, "true").start();
    let targets: Vec<String> = (0..7).map(|at| format!("/target{at}")).collect();
    let ask = |server: &Server| {
        for target in &targets {
            assert_eq!(server.connect().get(target).text(), target);
        }
    };
    ask(&server);
    eventually("all is on the disk", || entries(&server.path("store")) == targets.len());
    let files = files(&server);
    let stopped = server.stop();
    let change = |at: usize, how: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = fs::read(&files[at]).unwrap();
        how(&mut bytes);
        fs::write(&files[at], bytes).unwrap();
    };
    change(0, &|bytes| bytes.truncate(bytes.len() - 1));
    change(1, &|bytes| bytes.truncate(30));
    change(2, &|bytes| bytes.clear());
    change(3, &|bytes| *bytes = vec![b'?'; 100_000]);
    // Another version of the format.
    change(4, &|bytes| bytes[8] = bytes[8].wrapping_add(1));
    change(5, &|bytes| {
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
    });
    // The file of another key.
    fs::copy(&files[6], files[6].with_file_name("0123456789abcdef0123456789abcdef")).unwrap();
    fs::write(files[6].with_file_name("tmp-0-0"), "left over").unwrap();
    fs::write(stopped.setup.directory.path().join("store/stray"), "no file of the store").unwrap();
    let server = stopped.setup.start();
    let is_kept = |target: &String| server.connect().method("GET", target, ONLY_KEPT).status == 200;
    eventually("the one that is not damaged is found", || targets.iter().any(is_kept));
    ask(&server);
    assert_eq!(origin.count(), targets.len() + 6);
    ask(&server);
    assert_eq!(origin.count(), targets.len() + 6);
    server.stop();
}
