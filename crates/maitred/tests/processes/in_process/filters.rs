//! Modules that change the fields of responses.

use crate::in_process::scene::{hello, module, modules, table};
use crate::support::h2::Connection;
use crate::support::h3::{self, Asks as _, Text as _};
use crate::support::libraries::{example, faulty};
use crate::support::stage;
use crate::support::upstream::Upstream;
use crate::support::{Client, Setup};

fn stamp() -> String {
    let config = "set = { X-Served-By = \"alpha\" }, remove = [\"X-Powered-By\"]";
    table(&example("stamp"), config, "")
}

/// What an old server says of itself.
fn old_server() -> Upstream {
    Upstream::start(|peer| {
        loop {
            peer.request()?;
            peer.send(
                "HTTP/1.1 200 OK\r\nX-Powered-By: old\r\nX-Served-By: old\r\nContent-Length: 4\r\n\r\nold\n",
            )?;
        }
    })
}

fn setup(upstream: &Upstream) -> Setup {
    stage::setup(&stage::Authority::new(), "")
        .listen("http3 = true")
        .file("large.bin", &vec![b'l'; 300_000])
        .site(&format!("module = {}", stamp()))
        .table("[[listen]]\naddress = \"127.0.0.1:0\"\n")
        .route("/old/*", "redirect = \"/new\"")
        .route("/said", "respond = { body = \"said\", status = 418 }")
        .route("/hello", &format!("module = {}", hello("Hello")))
        .route("/server", "pool = \"server\"")
        .pool("app", None, "workers = 1")
        .table(&format!("[pool.server]\nconnect = \"{}\"\n", upstream.name()))
}

/// Target, further fields of the request, and the status of the response.
const ASKED: [(&str, &str, u16); 16] = [
    ("/a.txt", "", 200),
    // From memory, where the first one has left it.
    ("/a.txt", "", 200),
    ("/a.txt", "If-None-Match: *\r\n", 304),
    ("/a.txt", "Range: bytes=1-2\r\n", 206),
    ("/a.txt", "Range: bytes=100-\r\n", 416),
    ("/large.bin", "", 200),
    ("/dir", "", 301),
    ("/none", "", 404),
    ("/old/x", "", 302),
    ("/said", "", 418),
    ("/hello", "", 200),
    ("/server", "", 200),
    ("/app/hello?x", "", 200),
    ("/app/stream", "", 200),
    ("/app/nothing", "", 204),
    ("/app/fail", "", 500),
];

/// Ranges are for GET only.
fn status_of(method: &str, fields: &str, status: u16) -> u16 {
    if method == "HEAD" && fields.starts_with("Range") { 200 } else { status }
}

#[test]
fn heads_of_all_responses_of_the_site_go_through_it() {
    let upstream = old_server();
    let server = setup(&upstream).start();
    server.wait_for_processes();
    let mut client = Client::connect(server.address_of("http"));
    for (target, fields, status) in ASKED {
        for method in ["GET", "HEAD"] {
            let response = client.method(method, target, fields);
            let status = status_of(method, fields, status);
            let told = format!("{method} {target} {fields:?}: {response:?}");
            assert!(response.status == status, "{told}");
            assert!(response.need("X-Served-By") == "alpha", "{told}");
            assert!(response.field("X-Powered-By").is_none(), "{told}");
            let timing = response.need("Server-Timing");
            assert!(timing == format!("maitred;desc=\"{method} {status}\""), "{told}");
        }
    }
    // A request that is refused as it is read, and one that no route has.
    let refused = client.ask("POST /a.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert_eq!((refused.status, refused.need("X-Served-By")), (405, "alpha"));
    drop(client);
    // `fail` writes what happened to the log of errors, by which the server is not found wanting.
    crate::in_process::scene::finish(server);
}

#[test]
fn the_same_over_http2_and_http3() {
    let upstream = old_server();
    let server = setup(&upstream).start();
    server.wait_for_processes();
    let mut connection = Connection::new(server.address_of("http"));
    let mut guest = h3::connect(&server);
    for (target, range, status) in ASKED {
        let fields: Vec<(String, &str)> = range
            .lines()
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value))
            .collect();
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        for method in ["GET", "HEAD"] {
            let status = status_of(method, range, status);
            let timing = format!("maitred;desc=\"{method} {status}\"");
            let response = connection.method(method, target, &fields);
            let told = format!("HTTP/2: {method} {target}: {response:?}");
            assert!(response.status == status && response.need("x-served-by") == "alpha", "{told}");
            assert!(response.need("server-timing") == timing, "{told}");
            assert!(response.field("x-powered-by").is_none(), "{told}");
            let response = guest.ask(method, target, &fields, b"");
            let told = format!("HTTP/3: {method} {target}: {response:?}");
            assert!(response.status == status && response.need("x-served-by") == "alpha", "{told}");
            assert!(response.need("server-timing") == timing, "{told}");
            assert!(response.field("x-powered-by").is_none(), "{told}");
        }
    }
    drop((connection, guest));
    crate::in_process::scene::finish(server);
}

/// What is kept of a response is what the server said, so that no filter sees its own work.
#[test]
fn responses_from_the_cache_go_through_it_once() {
    let upstream = Upstream::start(|peer| {
        loop {
            peer.request()?;
            peer.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 4\r\n\r\nold\n")?;
        }
    });
    let server = Setup::with_files()
        .table("[cache]\n")
        .route("/server", &format!("pool = \"server\"\ncache = {{}}\nmodule = {}", stamp()))
        .table(&format!("[pool.server]\nconnect = \"{}\"\n", upstream.name()))
        .start();
    let mut client = server.connect();
    for _ in 0..3 {
        let response = client.get("/server");
        assert_eq!((response.status, response.text()), (200, "old\n"));
        assert_eq!(response.need("X-Served-By"), "alpha");
        assert_eq!(response.need("Server-Timing"), "maitred;desc=\"GET 200\"");
    }
    assert_eq!(upstream.requests(), 1, "the others came from the cache");
    server.stop();
}

#[test]
fn a_filter_of_a_route_does_not_see_others() {
    let server = Setup::with_files()
        .route("/a.txt", &format!("root = \"root\"\nmodule = {}", stamp()))
        .route("/said", "respond = { body = \"said\" }")
        .start();
    let mut client = server.connect();
    assert_eq!(client.get("/a.txt").need("X-Served-By"), "alpha");
    for target in ["/b.txt", "/said", "/none"] {
        assert_eq!(client.get(target).field("X-Served-By"), None, "{target}");
    }
    server.stop();
}

/// Each filter sees what those before it have made.
#[test]
fn several_filters_act_in_their_order() {
    let tables = ["first", "second"].map(|value| {
        table(&example("stamp"), &format!("set = {{ X-Served-By = \"{value}\", X-{value} = \"1\" }}"), "")
    });
    let server = Setup::with_files().site(&modules(&tables)).start();
    // `Server-Timing` is added by both, which is a list in two fields; other responses here have no field twice.
    let mut client = server.connect();
    client.send("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let head = String::from_utf8(client.raw_head().unwrap()).unwrap();
    let has = |line: &str| head.lines().filter(|found| *found == line).count();
    assert_eq!((has("X-Served-By: first"), has("X-Served-By: second")), (0, 1), "{head}");
    assert_eq!((has("X-first: 1"), has("X-second: 1")), (1, 1), "{head}");
    assert_eq!(has("Server-Timing: maitred;desc=\"GET 200\""), 2, "{head}");
    server.stop();
}

#[test]
fn what_frames_a_message_cannot_be_changed() {
    let setup = Setup::with_files();
    let library = faulty(setup.directory.path());
    let server = setup
        .file("filter/framing", b"framed\n")
        .file("filter/bad", b"bad\n")
        .route("/*", &format!("root = \"root\"\n{}", module(&library, "", "")))
        .start();
    // The faulty module answers each request itself, with what its path says.
    let mut client = server.connect();
    for _ in 0..2 {
        let response = client.get("/filter/framing");
        assert_eq!((response.status, response.text()), (200, "fine\n"));
        assert_eq!(response.field("X-Edited"), None, "no edit was done");
        assert_eq!(response.field("Bad Name"), None);
        assert!(!response.says_close());
        let response = client.get("/filter/bad");
        assert_eq!((response.status, response.text()), (200, "fine\n"));
        assert_eq!(response.field("X-Bad"), None);
    }
    let head = client.method("HEAD", "/filter/framing", "");
    assert_eq!((head.need("Content-Length"), head.field("X-Edited")), ("5", None));
    let mut connection = Connection::new(server.address);
    let response = connection.get("/filter/framing");
    assert_eq!((response.need("content-length"), response.field("x-edited")), ("5", None));
    server.stop();
}
