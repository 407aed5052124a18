//! What goes on over reloads, upgrades and crashes, and what a confined process may do.

use std::path::Path;

use crate::in_process::scene::{ask_only, finish, hello, module, tell, with_faulty, with_probe};
use crate::support::h2::Connection;
use crate::support::h3::{reload, upgrade};
use crate::support::libraries::example;
use crate::support::load::{Load, replace_under_load};
use crate::support::processes::runs;
use crate::support::{Server, Setup, eventually, skip_here};

/// EACCES (errno(3)): what Landlock says.
const REFUSED: &str = "13";

/// `counter` at `/count`, with a file in the directory of the configuration.
fn with_counter(setup: Setup) -> Setup {
    let config = format!("counters = \"{}\"", setup.directory.path().join("counters").display());
    setup.route("/count", &module(&example("counter"), &config, ""))
}

/// How many requests there were, and which process says so.
#[track_caller]
fn count(server: &Server) -> (u64, i64) {
    let response = server.connect().get("/count");
    let answer: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
    (answer["requests"].as_u64().unwrap(), answer["worker"].as_i64().unwrap())
}

#[test]
fn counters_go_on_over_reloads_and_crashes() {
    let server = with_counter(with_faulty("")).start();
    let (first, worker) = count(&server);
    assert_eq!((first, worker), (1, i64::from(server.worker())));
    assert_eq!(count(&server), (2, worker));
    reload(&server, 2);
    eventually("the old worker process has gone", || !runs(worker as i32));
    let (third, after_reload) = count(&server);
    assert!(third == 3 && after_reload != worker, "{third}");
    let mut client = server.connect();
    ask_only(&mut client, "/faulty/crash");
    client.end();
    let (fourth, after_crash) = count(&server);
    assert!(fourth == 4 && after_crash != after_reload, "{fourth}");
    drop(client);
    let stopped = finish(server);
    // The file is there for the next start as well.
    let server = stopped.setup.start();
    assert_eq!(count(&server).0, 5);
    server.stop();
}

#[test]
fn two_worker_processes_count_in_one_file() {
    let server = with_counter(with_probe("")).start();
    let mut old = server.connect();
    assert_eq!(old.get("/count").status, 200);
    // A request that has begun keeps the old process, and with it this connection.
    old.send("GET /count HTTP/1.1\r\nHost: localhost\r\n");
    reload(&server, 2);
    let (count_of_new, _) = count(&server);
    assert_eq!(count_of_new, 2);
    old.send("\r\n");
    let answer: serde_json::Value = serde_json::from_slice(&old.response("GET").body).unwrap();
    assert_eq!(answer["requests"], 3, "{answer}");
    assert_eq!(count(&server).0, 4);
    server.stop();
}

#[test]
fn no_request_is_lost_in_reloads_and_upgrades() {
    let setup = with_counter(Setup::with_files()).server("threads = 2");
    let server = setup.route("/hello", &format!("module = {}", hello("Hello"))).start();
    let client = |load: &Load, target: &str| {
        while !load.is_over() {
            let response = server.connect().method("GET", target, "Connection: close\r\n");
            assert_eq!(response.status, 200, "{target}: {response:?}");
            load.answered(1);
        }
    };
    let answered = replace_under_load(&["/hello", "/count"], client, 5, 20, |generation| {
        if generation == 3 { upgrade(&server, generation) } else { reload(&server, generation) }
    });
    assert_eq!(server.status()["master"]["upgrades"], 1);
    let counted = count(&server).0;
    let stopped = server.stop();
    assert_eq!(stopped.access.len(), answered + 1, "each is in the access log once");
    let of_counter = stopped.access.iter().filter(|line| line.contains("GET /count ")).count();
    assert_eq!(counted, of_counter as u64, "and each was counted");
}

#[test]
fn an_upgrade_begins_modules_anew() {
    let server = with_counter(with_faulty("")).start();
    let (_, worker) = count(&server);
    upgrade(&server, 2);
    eventually("the old worker process has gone", || !runs(worker as i32));
    let (second, other) = count(&server);
    assert!(second == 2 && other != worker, "{second}");
    assert_eq!(Connection::new(server.address).get("/faulty/x").text(), "fine\n");
    // The new image knows the names of modules, too.
    let mut client = server.connect();
    ask_only(&mut client, "/faulty/crash");
    client.end();
    crate::in_process::scene::wait_for_all(&server, &["ERROR", "in a module", "module=libfaulty.so"]);
    assert_eq!(count(&server).0, 3);
    finish(server);
}

/// Whether this kernel confines processes.
fn has_landlock() -> bool {
    std::fs::read_to_string("/sys/kernel/security/lsm").is_ok_and(|list| list.contains("landlock"))
}

#[test]
fn a_confined_module_reads_what_it_opened_in_the_beginning_and_nothing_else() {
    let secret = tempfile::tempdir().unwrap();
    let file = secret.path().join("list.txt");
    std::fs::write(&file, "one\ntwo\n").unwrap();
    let config = format!("file = \"{}\", waiting_max = 8", file.display());
    let server = with_probe("").route("/lines", &module(&example("slow"), &config, "")).start();
    let mut client = server.connect();
    let open = |path: &Path| format!("open={}", path.display());
    assert_eq!(tell(&mut client, &open(&server.path("root/a.txt"))), "0", "what is served can be read");
    assert_eq!(client.get("/lines").text(), "2\n");
    match has_landlock() {
        true => assert_eq!(tell(&mut client, &open(&file)), REFUSED),
        false => skip_here("this kernel has no Landlock"),
    }
    server.stop();
}

#[test]
fn what_begins_is_read_anew_with_each_worker_process() {
    let setup = Setup::with_files().outside("links.txt", b"docs https://old.example/\n");
    let config =
        format!("table = \"{}\", prefix = \"/go/\"", setup.directory.path().join("links.txt").display());
    let server = setup.route("/go/*", &module(&example("links"), &config, "")).start();
    let target = || server.connect().get("/go/docs").need("Location").to_owned();
    assert_eq!(target(), "https://old.example/");
    std::fs::write(server.path("links.txt"), "docs https://new.example/\n").unwrap();
    assert_eq!(target(), "https://old.example/", "not before a reload");
    reload(&server, 2);
    eventually("the new table is in force", || target() == "https://new.example/");
    std::fs::write(server.path("links.txt"), "docs no-target\n").unwrap();
    let (status, said) = server.command(&["reload"]);
    assert!(!status.success() && said.contains("a target begins with"), "{said}");
    assert_eq!(target(), "https://new.example/");
    finish(server);
}
