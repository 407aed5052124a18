//! Crashes: the worker process is replaced, the module is named, and one that crashes too often is turned off.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::in_process::scene::{
    ask_only, finish, hello, metric, module, wait_for_all, wait_for_metric, with_faulty,
};
use crate::support::h2::{self, Connection};
use crate::support::h3::reload;
use crate::support::libraries::library_of;
use crate::support::processes::{runs, send_signal};
use crate::support::{Client, End, Server, Setup, eventually};

/// How long a crash may keep others waiting: far more than a machine under load takes to start a process.
const BACK_WITHIN: Duration = Duration::from_secs(10);
const CRASHES: &str = "maitred_module_crashes_total";
const OFF: &str = "maitred_modules_off";

/// Sends a request in which the module crashes; the connection ends.
#[track_caller]
fn crash(server: &Server, target: &str) {
    let mut client = server.connect();
    ask_only(&mut client, target);
    assert!(matches!(client.end(), End::Closed | End::Reset));
}

/// Waits until another worker process than this one answers.
#[track_caller]
fn wait_for_another(server: &Server, old: i32) {
    eventually("another worker process answers", || server.worker_is_not(old) && !runs(old));
    assert_eq!(server.connect().get("/a.txt").text(), "file a\n");
}

#[test]
fn the_worker_process_is_replaced_and_the_module_is_named() {
    let server = with_faulty("").route("/hello", &format!("module = {}", hello("Hello"))).start();
    let old = server.worker();
    let mut other = server.connect();
    assert_eq!(other.get("/faulty/x").text(), "fine\n");
    let began = Instant::now();
    crash(&server, "/faulty/crash");
    // A connection waits at the socket, which stays, until there is a process that takes it.
    assert_eq!(server.connect().get("/a.txt").text(), "file a\n");
    let took = began.elapsed();
    eprintln!("from the crash to the next answer: {took:?}");
    assert!(took < BACK_WITHIN, "{took:?}");
    wait_for_another(&server, old);
    let line = wait_for_all(&server, &["ERROR", "in a module", "module=libfaulty.so"]);
    assert!(line.contains("SIGSEGV") || line.contains("signal 11"), "{line}");
    assert!(matches!(other.end(), End::Closed | End::Reset), "its process is gone");
    assert_eq!(server.connect().get("/faulty/x").text(), "fine\n");
    assert_eq!(server.connect().get("/hello").text(), "Hello, world\n");
    assert_eq!(Connection::new(server.address).get("/faulty/x").text(), "fine\n");
    wait_for_metric(&server, CRASHES, 1);
    assert_eq!(metric(&server, OFF), 0);
    assert_eq!(server.status()["master"]["worker_crashes"], 1);
    finish(server);
}

/// Each crash is in a server of its own, so that no crash counts for another.
#[test]
fn crashes_of_all_kinds_name_the_module() {
    for (path, signal) in [("abort", "6"), ("crash/helper", "11"), ("filter/crash", "11")] {
        let server = with_faulty("").start();
        let old = server.worker();
        crash(&server, &format!("/faulty/{path}"));
        wait_for_another(&server, old);
        let line = wait_for_all(&server, &["ERROR", "in a module", "module=libfaulty.so"]);
        assert!(line.contains(signal) || line.contains("SIG"), "{path}: {line}");
        wait_for_metric(&server, CRASHES, 1);
        finish(server);
    }
}

#[test]
fn a_crash_over_http2_ends_the_connection_only() {
    let server = with_faulty("").start();
    let old = server.worker();
    let mut connection = Connection::new(server.address);
    assert_eq!(connection.get("/faulty/x").text(), "fine\n");
    let id = connection.request("GET", "/faulty/crash", &[], true);
    assert_eq!(connection.try_response(id).unwrap_err(), h2::Lost::Ended);
    wait_for_another(&server, old);
    assert_eq!(Connection::new(server.address).get("/faulty/x").text(), "fine\n");
    finish(server);
}

/// A process that was killed has crashed in no module.
#[test]
fn another_end_of_the_worker_process_is_not_the_modules() {
    let server = with_faulty("").start();
    assert_eq!(server.connect().get("/faulty/x").text(), "fine\n");
    let old = server.worker();
    send_signal(old, Signal::KILL);
    wait_for_another(&server, old);
    wait_for_metric(&server, "maitred_worker_crashes_total", 1);
    assert_eq!(metric(&server, CRASHES), 0);
    let stopped = finish(server);
    assert!(!stopped.said.iter().any(|line| line.contains("in a module")), "{:?}", stopped.said);
}

/// Three crashes in a minute; what comes between them does not count.
fn crash_until_off(server: &Server) {
    for number in 1..=3 {
        let old = server.worker();
        crash(server, "/faulty/crash");
        wait_for_another(server, old);
        wait_for_metric(server, CRASHES, number);
    }
    wait_for_all(server, &["ERROR", "the module is turned off", "module=libfaulty.so"]);
}

#[test]
fn a_module_that_has_crashed_three_times_in_a_minute_is_turned_off_until_a_reload() {
    let setup = with_faulty("");
    let library = setup.directory.path().join("libfaulty.so");
    let server = setup
        .route("/action", &format!("respond = {{ body = \"said\" }}\n{}", module(&library, "", "")))
        .route("/other/*", &module(&library, "n = 2", ""))
        .route("/hello", &format!("module = {}", hello("Hello")))
        .start();
    let mut client = server.connect();
    assert_eq!(client.get("/action").text(), "fine\n");
    crash_until_off(&server);
    wait_for_metric(&server, OFF, 1);
    assert_eq!(server.status()["master"]["modules_off"], 1);
    assert_eq!(server.status()["master"]["module_crashes"], 3);
    let worker = server.worker();
    let mut client = server.connect();
    let mut connection = Connection::new(server.address);
    for target in ["/faulty/x", "/faulty/crash", "/action"] {
        assert_eq!(client.get(target).status, 503, "{target}");
        assert_eq!(connection.get(target).status, 503, "{target}");
    }
    assert_eq!(client.get("/hello").text(), "Hello, world\n");
    assert_eq!(client.get("/a.txt").text(), "file a\n");
    // The same library with another configuration is another module.
    assert_eq!(client.get("/other/x").text(), "fine\n");
    assert_eq!(server.worker(), worker);
    reload(&server, server.status()["generation"].as_u64().unwrap() + 1);
    eventually("its routes are answered again", || server.connect().get("/faulty/x").status == 200);
    assert_eq!(server.connect().get("/action").text(), "fine\n");
    wait_for_metric(&server, OFF, 0);
    assert_eq!(metric(&server, CRASHES), 3, "crashes are counted on");
    finish(server);
}

/// The module sees responses only. A filter may be there to remove what should not be sent: without it, nothing is.
#[test]
fn what_a_filter_that_is_turned_off_should_have_changed_is_not_sent() {
    let source = "#include <string.h>\n#include \"maitred_module.h\"\n\
         static const maitred_server *server;\nstatic volatile int *volatile nowhere;\n\
         static void on_response(void *d, const maitred_request *r, maitred_head *h) {\n\
         maitred_text path = server->part(r, MAITRED_PATH); (void)d; (void)h;\n\
         if (path.bytes == 6 && memcmp(path.at, \"/b.txt\", 6) == 0) *nowhere = 1; }\n\
         static int init(const maitred_server *s, maitred_text c, maitred_instance *i, maitred_reason *r) {\n\
         (void)c; (void)r; server = s; i->on_response = on_response; return 0; }\n\
         const maitred_module *maitred_module_v1(void) {\n\
         static const maitred_module module = { sizeof(module), 1, init }; return &module; }\n";
    let setup = Setup::with_files();
    let library = library_of(setup.directory.path(), "filter", source);
    let server = setup
        .route("/hello", &format!("module = {}", hello("Hello")))
        .route("/*", &format!("root = \"root\"\n{}", module(&library, "", "")))
        .start();
    for number in 1..=3 {
        let old = server.worker();
        crash(&server, "/b.txt");
        eventually("another worker process answers", || server.worker_is_not(old) && !runs(old));
        wait_for_metric(&server, CRASHES, number);
    }
    wait_for_metric(&server, OFF, 1);
    for target in ["/a.txt", "/b.txt", "/none"] {
        assert_eq!(server.connect().get(target).status, 503, "{target}");
    }
    assert_eq!(server.connect().get("/hello").text(), "Hello, world\n");
    finish(server);
}

/// A module whose requests crash, and whose `init` crashes, refuses or exits while there is a file: what `config` says.
fn marked(mark: &Path) -> String {
    format!(
        "#include <stdlib.h>\n#include <unistd.h>\n#include \"maitred_module.h\"\n\
         static volatile int *volatile nowhere;\n\
         static uint32_t on_request(void *d, maitred_request *r) {{ (void)d; (void)r; *nowhere = 1; return 1; }}\n\
         static int init(const maitred_server *s, maitred_text c, maitred_instance *i, maitred_reason *r) {{\n\
         (void)s; (void)r; i->on_request = on_request;\n\
         if (access(\"{}\", F_OK) != 0) return 0;\n\
         /* {{\"how\":\"crash\"}} */\n\
         if (c.bytes > 8 && c.at[8] == 'c') *nowhere = 1;\n\
         if (c.bytes > 8 && c.at[8] == 'e') exit(5);\n\
         return 1; }}\n\
         const maitred_module *maitred_module_v1(void) {{\n\
         static const maitred_module module = {{ sizeof(module), 1, init }}; return &module; }}\n",
        mark.display()
    )
}

/// What a module reads in the beginning may have changed by the time of the next worker process, which is started because of a
/// crash. A start is tried until the module is turned off, and then the rest of the site is served.
#[test]
fn a_module_that_cannot_begin_at_a_restart_is_turned_off() {
    for (how, told) in [
        ("crash", "was killed by SIGSEGV"),
        ("refuse", "exited with status 1"),
        ("exit", "exited with status 5"),
    ] {
        let setup = Setup::with_files();
        let mark = setup.directory.path().join("mark");
        let library = library_of(setup.directory.path(), "marked", &marked(&mark));
        let server = setup.route("/marked", &module(&library, &format!("how = \"{how}\""), "")).start();
        let old = server.worker();
        std::fs::write(&mark, "").unwrap();
        crash(&server, "/marked");
        assert_eq!(
            server.connect().get("/a.txt").text(),
            "file a\n",
            "the socket stays, and is served at last"
        );
        wait_for_all(&server, &["ERROR", &format!("{told} in a module"), "module=libmarked.so"]);
        wait_for_all(&server, &["ERROR", "the module is turned off", "module=libmarked.so"]);
        assert!(server.worker_is_not(old));
        assert_eq!(server.connect().get("/marked").status, 503, "{how}");
        wait_for_metric(&server, OFF, 1);
        assert_eq!(metric(&server, CRASHES), 3, "{how}");
        let (status, said) = server.command(&["reload"]);
        assert!(!status.success() && said.contains("libmarked.so"), "{said}");
        assert_eq!(server.connect().get("/a.txt").text(), "file a\n");
        assert_eq!(metric(&server, OFF), 1, "a reload that is refused turns nothing on");
        let old = server.worker();
        send_signal(old, Signal::KILL);
        wait_for_another(&server, old);
        assert_eq!(server.connect().get("/marked").status, 503, "{how}");
        std::fs::remove_file(&mark).unwrap();
        reload(&server, server.status()["generation"].as_u64().unwrap() + 1);
        wait_for_metric(&server, OFF, 0);
        let old = server.answering_worker();
        crash(&server, "/marked");
        wait_for_another(&server, old);
        finish(server);
    }
}

#[test]
fn clients_that_come_while_it_crashes_are_answered() {
    let server = with_faulty("").server("threads = 2").start();
    let old = server.worker();
    let mut waiting: Vec<Client> = Vec::new();
    let mut bad = server.connect();
    ask_only(&mut bad, "/faulty/crash");
    assert!(matches!(bad.end(), End::Closed | End::Reset));
    for _ in 0..50 {
        let mut client = server.connect();
        ask_only(&mut client, "/a.txt");
        waiting.push(client);
    }
    for client in &mut waiting {
        assert_eq!(client.response("GET").text(), "file a\n");
    }
    assert!(server.worker_is_not(old));
    finish(server);
}
