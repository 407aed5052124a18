//! A new release of an application: it takes the place of the one before, or changes nothing.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::process::Signal;

use crate::pools::look::{pids, settled};
use crate::support::load::SetOnDrop;
use crate::support::{Server, Setup, eventually};

/// An application that answers with this status and content.
fn release(status: &str, content: &str) -> String {
    format!(
        "def application(environ, start_response):\n    start_response('{status}', [])\n    return [b'{content}']\n"
    )
}

/// An application that cannot be loaded, and takes its time to end.
const BROKEN: &str = "import atexit, time\natexit.register(time.sleep, 0.1)\nraise RuntimeError('the database is not configured')\n";

/// A pool whose application answers `old`.
fn serving(lines: &str) -> Setup {
    Setup::with_files()
        .outside("shop.py", release("200 OK", "old").as_bytes())
        .route("/app/*", "pool = \"web\"")
        .python("web", "shop:application", "A = \"1\"", lines)
}

/// Ends a server that has said that something was refused.
fn stop(server: Server) {
    let ended = server.terminate(Signal::TERM);
    assert!(ended.status.success(), "{:?}", ended.said);
}

fn put(server: &Server, text: &str) {
    std::fs::write(server.path("shop.py"), text).unwrap();
}

fn get(server: &Server) -> (u16, String) {
    let response = server.connect().get("/app/");
    (response.status, response.text().to_owned())
}

/// What is said of a release that cannot start, by whatever puts it in place; the one before goes on.
fn is_refused(server: &Server, arguments: &[&str]) {
    let before = pids(server, "web");
    put(server, BROKEN);
    let (status, said) = server.command(arguments);
    assert!(status.code() == Some(1) && said.contains("the database is not configured"), "{said}");
    assert_eq!(get(server), (200, "old".to_owned()));
    eventually("the process before is the only one", || pids(server, "web") == before);
}

#[test]
fn a_release_that_cannot_start_is_refused_by_a_restart() {
    for workers in [1, 2] {
        let server = serving(&format!("workers = {workers}")).start();
        settled(&server, "web", workers);
        assert_eq!(get(&server), (200, "old".to_owned()));
        is_refused(&server, &["pool", "web", "restart"]);
        put(&server, &release("200 OK", "new"));
        let (status, said) = server.command(&["pool", "web", "restart"]);
        assert!(status.success() && said.contains("processes of pool web were replaced"), "{said}");
        assert_eq!(get(&server), (200, "new".to_owned()), "the last one has been replaced");
        stop(server);
    }
}

#[test]
fn a_release_that_cannot_start_is_refused_by_an_upgrade() {
    let server = serving("workers = 1").start_copy();
    assert_eq!(get(&server), (200, "old".to_owned()));
    is_refused(&server, &["upgrade"]);
    put(&server, &release("200 OK", "new"));
    eventually("the new executable takes over", || get(&server) == (200, "new".to_owned()));
    stop(server);
}

#[test]
fn a_release_that_cannot_start_is_refused_by_a_configuration_that_is_sent() {
    let server = serving("workers = 1").start();
    assert_eq!(get(&server), (200, "old".to_owned()));
    let file = server.path("maitred.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    put(&server, BROKEN);
    let next = text.replace("A = \"1\"", "A = \"2\"");
    let length = next.len();
    let response = server.admin(&format!(
        "PUT /config HTTP/1.1\r\nHost: localhost\r\nIf-Match: *\r\nContent-Length: {length}\r\n\r\n{next}"
    ));
    assert_eq!(response.status, 422, "{}", response.text());
    assert!(response.text().contains("the database is not configured"), "{}", response.text());
    assert_eq!(get(&server), (200, "old".to_owned()));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "the file is as it was");
    stop(server);
}

#[test]
fn a_restart_brings_up_a_pool_that_has_failed() {
    let server = serving("workers = 1").outside("shop.py", BROKEN.as_bytes()).start();
    eventually("the pool cannot start", || get(&server).0 == 503);
    put(&server, &release("200 OK", "new"));
    let (status, said) = server.command(&["pool", "web", "restart"]);
    assert!(status.success(), "{said}");
    assert_eq!(get(&server), (200, "new".to_owned()));
    server.stop();
}

#[test]
fn who_does_not_wait_is_told_so() {
    let server = serving("workers = 1").start();
    assert_eq!(get(&server), (200, "old".to_owned()));
    put(&server, "import os\nos.read(os.open('gate', os.O_RDONLY), 1)\n");
    let gate = server.path("gate");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &gate,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let (status, said) = server.command(&["pool", "web", "restart", "--no-wait"]);
    assert!(status.success() && said.contains("under way"), "{said}");
    let (status, said) = server.command(&["pool", "web", "drain", "0", "--no-wait"]);
    assert!(status.code() == Some(2) && said.contains("for restart"), "{said}");
    server.stop();
}

/// Tries a release with one process, while clients ask; what the command says.
fn canary(server: &Server, text: &str) -> (Option<i32>, String) {
    put(server, text);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = SetOnDrop(&done);
        scope.spawn(|| {
            while !done.load(Relaxed) {
                let mut client = server.connect();
                client.send("GET /app/ HTTP/1.1\r\nHost: localhost\r\n\r\n");
                let _ = client.try_response("GET");
            }
        });
        let (status, said) = server.command(&["pool", "web", "restart", "--canary", "1"]);
        (status.code(), said)
    })
}

#[test]
fn a_release_is_tried_with_one_process_and_goes_on_or_back_by_itself() {
    let lines = "workers = 2\ntransport = \"direct\"\ncanary = { time = \"1s\", requests = 20, errors = 5, latency = 10000 }";
    let server = serving(lines).start();
    assert_eq!(get(&server), (200, "old".to_owned()));
    settled(&server, "web", 2);
    let before = pids(&server, "web");
    let (code, said) = canary(&server, &release("500 Internal Server Error", "bad"));
    assert!(code == Some(1) && said.contains("more errors"), "{said}");
    eventually("the canary goes", || pids(&server, "web") == before);
    assert_eq!(get(&server), (200, "old".to_owned()));
    let (code, said) = canary(&server, BROKEN);
    assert!(code == Some(1) && said.contains("the database is not configured"), "{said}");
    let (code, said) = canary(&server, &release("200 OK", "new"));
    assert!(code == Some(0), "{said}");
    assert_eq!(get(&server), (200, "new".to_owned()));
    eventually("no process of the old release is left", || {
        let now = pids(&server, "web");
        now.len() == 2 && now.iter().all(|pid| !before.contains(pid))
    });
    stop(server);
}
