//! What was counted is kept when worker processes, the configuration, or the executable are replaced.

use rustix::process::Signal;

use crate::limits::count;
use crate::support::processes::send_signal;
use crate::support::{Server, Setup, eventually};

const LIMIT: &str = "[limit.x]\nrate = \"5/h\"\n[limit.y]\nrate = \"2/h\"\n";

fn setup() -> Setup {
    Setup::with_files()
        .site("limit = [\"x\"]")
        .route("/y", "respond = { body = \"y\" }\nlimit = [\"y\"]")
        .table(LIMIT)
}

/// How many of so many requests pass.
fn passed(server: &Server, target: &str, requests: usize) -> usize {
    (0..requests).filter(|_| server.connect().get(target).status == 200).count()
}

#[track_caller]
fn reload(server: &Server) {
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
}

/// Changes the configuration file.
fn change(server: &Server, from: &str, to: &str) {
    let path = server.path("maitred.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    std::fs::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn a_reload_forgets_nothing() {
    let server = setup().start();
    assert_eq!((passed(&server, "/a.txt", 4), passed(&server, "/y", 3)), (4, 2));
    reload(&server);
    assert_eq!((passed(&server, "/a.txt", 3), passed(&server, "/y", 3)), (1, 0));
    assert_eq!((count(&server, "x", "refused"), count(&server, "y", "refused")), (2, 4));
    // Another limit before it, and another rate.
    change(
        &server,
        LIMIT,
        "[limit.a]\nrate = \"9/h\"\n[limit.x]\nrate = \"5/h\"\n[limit.y]\nrate = \"3/h\"\nburst = 4\n",
    );
    reload(&server);
    assert_eq!(passed(&server, "/a.txt", 2), 0);
    assert!(passed(&server, "/y", 6) > 0, "a larger burst");
    // Another size.
    change(&server, "[limit.x]\n", "[limit.x]\nkeys_max = 7\n");
    reload(&server);
    assert_eq!(passed(&server, "/a.txt", 6), 5);
    assert_eq!(count(&server, "x", "keys_max"), 7);
    server.stop();
}

#[test]
fn a_reload_that_is_refused_changes_nothing() {
    let server = setup().start();
    assert_eq!(passed(&server, "/a.txt", 5), 5);
    change(&server, "limit = [\"y\"]", "limit = [\"z\"]");
    let (status, said) = server.command(&["reload"]);
    assert!(!status.success() && said.contains("there is no limit \"z\""), "{said}");
    assert_eq!(passed(&server, "/a.txt", 2), 0);
    server.terminate(Signal::TERM);
}

#[test]
fn what_was_counted_survives_the_worker_process() {
    let server = setup().start();
    assert_eq!(passed(&server, "/a.txt", 5), 5);
    let old = server.worker();
    send_signal(old, Signal::KILL);
    eventually("there is another one", || server.worker_is_not(old));
    assert_eq!(passed(&server, "/a.txt", 2), 0);
    server.terminate(Signal::TERM);
}

#[test]
fn what_was_counted_survives_an_upgrade() {
    let server = setup().start();
    assert_eq!(passed(&server, "/a.txt", 5), 5);
    let (status, said) = server.command(&["upgrade"]);
    assert!(status.success(), "{said}");
    eventually("the new worker process answers", || server.status()["generation"] == 2);
    assert_eq!(passed(&server, "/a.txt", 2), 0);
    assert_eq!(count(&server, "x", "refused"), 2);
    server.stop();
}
