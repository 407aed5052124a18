//! Answers that break a rule, and panics: the client gets an error, and the process goes on.

use crate::in_process::scene::{finish, module, wait_for_all, with_faulty};
use crate::support::Setup;
use crate::support::h2::Connection;
use crate::support::libraries::{example, faulty, probe};

#[test]
fn answers_that_break_a_rule_are_refused() {
    let server = with_faulty("").start();
    let worker = server.worker();
    let mut client = server.connect();
    let mut connection = Connection::new(server.address);
    for path in ["/bad/name", "/bad/value", "/bad/status"] {
        let response = client.get(&format!("/faulty{path}"));
        assert_eq!((response.status, response.text()), (200, "refused\n"), "{path}");
        assert_eq!(response.field("a"), None);
        let response = connection.get(&format!("/faulty{path}"));
        assert_eq!((response.status, response.text()), (200, "refused\n"), "{path}");
    }
    // What frames a message is the server's, which leaves it out.
    let response = client.get("/faulty/bad/framing");
    assert_eq!((response.status, response.need("Content-Length")), (200, "0"));
    assert_eq!(response.field("Transfer-Encoding"), None);
    let response = connection.get("/faulty/bad/framing");
    assert_eq!((response.status, response.field("transfer-encoding")), (200, None));
    assert_eq!(client.get("/a.txt").text(), "file a\n");
    assert_eq!(server.worker(), worker);
    server.stop();
}

#[test]
fn a_module_that_does_not_do_what_it_says_gets_500_and_a_line_in_the_log() {
    let server = with_faulty("").start();
    let worker = server.worker();
    for (path, line) in [
        ("/silent", "500: its answer cannot be one of HTTP"),
        ("/nothing/later", "500: it answers later without a ticket"),
        ("/number", "500: the module has failed"),
    ] {
        let mut client = server.connect();
        let target = format!("/faulty{path}");
        let response = client.get(&target);
        assert_eq!(response.status, 500, "{path}");
        assert!(!response.says_close(), "{path}: {response:?}");
        wait_for_all(&server, &["ERROR", line, "module=libfaulty.so"]);
        assert_eq!(client.get("/a.txt").text(), "file a\n", "{path}");
        assert_eq!(Connection::new(server.address).get(&target).status, 500, "{path}");
    }
    assert_eq!(server.connect().get("/faulty/failed").status, 500);
    assert_eq!(server.connect().get("/faulty/pass").status, 404);
    assert_eq!(server.worker(), worker);
    finish(server);
}

#[test]
fn one_that_may_not_answer_later_gets_no_ticket() {
    let setup = Setup::with_files();
    let library = faulty(setup.directory.path());
    let server = setup.route("/faulty/*", &module(&library, "n = \"at once\"", "")).start();
    let mut client = server.connect();
    for path in ["/faulty/never", "/faulty/thread", "/faulty/twice"] {
        assert_eq!(client.get(path).status, 500, "{path}");
    }
    assert_eq!(client.get("/faulty/x").text(), "fine\n");
    finish(server);
}

#[test]
fn a_panic_is_an_error_of_one_request() {
    let setup = Setup::with_files();
    let server = setup.route("/*", &module(&example("panics"), "", "")).start();
    let worker = server.worker();
    let mut client = server.connect();
    for (path, line) in [
        ("/panic", "in a handler, as told"),
        ("/panic/number", "500: the module has failed"),
        ("/later/panic", "in a helper, as told"),
        ("/later/drop", ""),
        ("/later/bad", ""),
    ] {
        assert_eq!(client.get(path).status, 500, "{path}");
        wait_for_all(&server, &[line]);
        assert_eq!(client.get("/other").text(), "fine\n", "{path}");
    }
    assert_eq!(client.get("/later").text(), "{}");
    assert_eq!(client.get("/later/thread").text(), "from a thread\n");
    assert_eq!(client.get("/later/pass").status, 404);
    let response = client.get("/filter");
    assert_eq!((response.status, response.need("X-Before"), response.field("X-After")), (200, "set", None));
    wait_for_all(&server, &["in the filter, as told"]);
    let response = client.get("/other");
    assert_eq!((response.need("X-Before"), response.need("X-After")), ("set", "set"));
    assert_eq!(server.worker(), worker, "the process goes on");
    finish(server);
}

/// What cannot say whether a request is admitted does not admit it.
#[test]
fn an_action_that_fails_lets_nothing_pass() {
    let setup = Setup::with_files();
    let (faulty, probe) = (faulty(setup.directory.path()), probe(setup.directory.path()));
    let server = setup
        .file("silent", b"secret\n")
        .file("nothing/later", b"secret\n")
        .file("number", b"secret\n")
        .file("never", b"secret\n")
        .route("/probe", &format!("root = \"root\"\n{}", module(&probe, "", "")))
        .route("/panic", &format!("root = \"root\"\n{}", module(&example("panics"), "", "")))
        .route("/*", &format!("root = \"root\"\n{}", module(&faulty, "", "timeout = \"50ms\"")))
        .start();
    let mut client = server.connect();
    let mut connection = Connection::new(server.address);
    for (path, status) in [
        ("/silent", 500),
        ("/nothing/later", 500),
        ("/number", 500),
        ("/panic", 500),
        ("/probe?failed", 500),
        ("/never", 504),
    ] {
        let response = client.get(path);
        assert_eq!(response.status, status, "{path}");
        assert!(!response.text().contains("secret"), "{path}");
        assert_eq!(connection.get(path).status, status, "{path}");
    }
    assert_eq!(client.get("/other").text(), "fine\n");
    finish(server);
}
