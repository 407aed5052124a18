//! Modules that do not give an event loop back.

use crate::in_process::scene::{ask_only, finish, metric, wait_for_all, wait_for_metric, with_faulty};
use crate::support::processes::runs;
use crate::support::{End, eventually};

/// 300 ms, and more on a machine without time.
#[test]
fn a_module_that_holds_an_event_loop_is_named() {
    let server = with_faulty("").start();
    let worker = server.worker();
    let mut client = server.connect();
    assert_eq!(client.get("/faulty/hold").text(), "fine\n");
    wait_for_all(&server, &["WARN", "a module holds an event loop", "module=libfaulty.so", "ms="]);
    assert_eq!(server.total("modules_slow"), 1);
    assert_eq!(client.get("/faulty/x").text(), "fine\n");
    assert_eq!(server.worker(), worker);
    assert_eq!(metric(&server, "maitred_module_crashes_total"), 0);
    server.stop();
}

/// The event loop with the loop serves no others; another thread does, until the worker process is replaced.
#[test]
fn an_endless_loop_is_named_and_is_the_end_of_the_worker_process() {
    let server = with_faulty("").start();
    let old = server.worker();
    let mut client = server.connect();
    ask_only(&mut client, "/faulty/loop");
    wait_for_all(&server, &["WARN", "no other client of the thread is served", "module=libfaulty.so"]);
    assert!(runs(old));
    // The next connection waits in the socket meanwhile.
    assert_eq!(server.connect().get("/a.txt").text(), "file a\n");
    wait_for_all(&server, &["ERROR", "a module does not give an event loop back", "module=libfaulty.so"]);
    eventually("the worker process is replaced", || server.worker_is_not(old) && !runs(old));
    assert!(matches!(client.end(), End::Closed | End::Reset));
    wait_for_metric(&server, "maitred_module_crashes_total", 1);
    assert_eq!(server.connect().get("/faulty/x").text(), "fine\n");
    finish(server);
}
