//! Modules that are what a route answers with.

use std::fmt::Write as _;

use crate::in_process::scene::{finish, hello, metric, module, modules, table};
use crate::support::h2::Connection;
use crate::support::h3::{self, Asks as _, Text as _};
use crate::support::libraries::{example, hello_in_c, probe};
use crate::support::stage;
use crate::support::{Client, Setup};

const HELLO: &str = "Hello, world\n";

/// As long as that of a client that is not in a hurry.
fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| b'a' + (at % 23) as u8).collect()
}

fn chunked(target: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut request = head.into_bytes();
    for chunk in body.chunks(7000) {
        request.extend(format!("{:x}\r\n", chunk.len()).bytes());
        request.extend(chunk);
        request.extend(b"\r\n");
    }
    request.extend(b"0\r\n\r\n");
    request
}

#[test]
fn get_head_and_post_are_answered_over_each_version() {
    let authority = stage::Authority::new();
    let setup = stage::setup(&authority, "").listen("http3 = true");
    let server = setup.table("[[listen]]\naddress = \"127.0.0.1:0\"\n");
    let server = server.route("/hello", &format!("module = {}", hello("Hello"))).start();
    let address = server.address_of("http");
    for mut client in [Client::connect(address), stage::connect(&server, &authority.client())] {
        let response = client.get("/hello");
        assert_eq!((response.status, response.text()), (200, HELLO));
        assert_eq!(response.need("Content-Type"), "text/plain; charset=utf-8");
        assert_eq!(response.need("Content-Length"), "13");
        assert!(response.field("Date").is_some());
        let head = client.method("HEAD", "/hello", "");
        assert_eq!((head.status, head.need("Content-Length"), head.body.len()), (200, "13", 0));
        assert_eq!(client.post("/hello", b"a body").text(), HELLO);
        assert_eq!(client.get("/a.txt").text(), "file a\n");
    }
    let mut connection = Connection::new(address);
    assert_eq!(connection.get("/hello").text(), HELLO);
    let head = connection.method("HEAD", "/hello", &[]);
    assert_eq!((head.status, head.need("content-length"), head.body.len()), (200, "13", 0));
    assert_eq!(connection.post("/hello", b"a body").text(), HELLO);
    let mut guest = h3::connect(&server);
    let response = guest.ask("GET", "/hello", &[], b"");
    assert_eq!((response.status, response.text(), response.need("content-length")), (200, HELLO, "13"));
    let head = guest.ask("HEAD", "/hello", &[], b"");
    assert_eq!((head.status, head.need("content-length"), head.body.len()), (200, "13", 0));
    assert_eq!(guest.ask("POST", "/hello", &[], b"a body").text(), HELLO);
    drop(guest);
    let stopped = server.stop();
    assert_eq!(stopped.access.iter().filter(|line| line.contains(" /hello HTTP/")).count(), 12);
    let logged = |part: &str| stopped.access.iter().any(|line| line.contains(part));
    assert!(logged("\"GET /hello HTTP/1.1\" 200 13"), "{:?}", stopped.access);
    assert!(logged("\"HEAD /hello HTTP/2.0\" 200 -"), "{:?}", stopped.access);
}

#[test]
fn the_client_and_its_version_are_shown() {
    let authority = stage::Authority::new();
    let setup = stage::setup(&authority, "").listen("http3 = true");
    let library = probe(setup.directory.path());
    let setup = setup.table("[[listen]]\naddress = \"127.0.0.1:0\"\n");
    let server = setup.route("/probe", &module(&library, "", "")).start();
    let address = server.address_of("http");
    let mut client = Client::connect(address);
    assert_eq!(client.get("/probe?client").text(), "11 0 4\n");
    assert_eq!(Client::connect(address).ask("GET /probe?client HTTP/1.0\r\n\r\n").text(), "10 0 4\n");
    let mut secure = stage::connect(&server, &authority.client());
    assert_eq!(secure.get("/probe?client").text(), "11 1 4\n");
    assert_eq!(Connection::new(address).get("/probe?client").text(), "20 0 4\n");
    assert_eq!(h3::connect(&server).ask("GET", "/probe?client", &[], b"").text(), "30 1 4\n");
    server.stop();
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let route = |greeting: &str| format!("module = {}", hello(greeting));
    let setup = Setup::with_files().route("/one", &route("One")).route("/two", &route("Two"));
    let server = setup.start();
    let mut client = server.connect();
    let mut requests = String::new();
    for number in 0..60 {
        let target = ["/one", "/a.txt", "/two", "/none"][number % 4];
        write!(requests, "GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    }
    client.send(&requests);
    for number in 0..60 {
        let response = client.response("GET");
        match ["One, world\n", "file a\n", "Two, world\n"].get(number % 4) {
            Some(wanted) => assert_eq!(response.text(), *wanted, "{number}"),
            None => assert_eq!(response.status, 404, "{number}"),
        }
    }
    assert_eq!(client.get("/one").text(), "One, world\n");
    let closed = client.method("GET", "/two", "Connection: close\r\n");
    assert!(closed.says_close() && closed.text() == "Two, world\n", "{closed:?}");
    server.stop();
}

/// `long` is more than `body_inline_bytes_max`, so that it is kept in a file.
#[test]
fn bodies_are_whole_however_they_come() {
    let setup = stage::setup(&stage::Authority::new(), "").listen("http3 = true");
    let library = probe(setup.directory.path());
    let setup = setup
        .table("[[listen]]\naddress = \"127.0.0.1:0\"\n")
        .limit("body_inline_bytes_max = \"4KiB\"")
        .route("/probe", &module(&library, "reads = true", "body_bytes_max = \"1MiB\""));
    let server = setup.start();
    let address = server.address_of("http");
    let mut client = Client::connect(address);
    let mut connection = Connection::new(address);
    let mut guest = h3::connect(&server);
    for bytes in [0, 1, 4096, 4097, 300_000] {
        let body = content(bytes);
        let target = "/probe?echo";
        assert!(client.post(target, &body).body == body, "{bytes} bytes with a length");
        assert!(client.ask(chunked(target, &body)).body == body, "{bytes} bytes in chunks");
        assert!(connection.post(target, &body).body == body, "{bytes} bytes over HTTP/2");
        assert!(guest.ask("POST", target, &[], &body).body == body, "{bytes} bytes over HTTP/3");
        let head = format!(
            "POST {target} HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: {bytes}\r\n\r\n"
        );
        client.send(head);
        if bytes > 0 {
            assert_eq!(client.head().unwrap().status, 100);
            // In pieces that the server sees one by one.
            let (first, second) = body.split_at(bytes / 2);
            client.send(first);
            assert_eq!(Client::connect(address).get("/a.txt").text(), "file a\n");
            client.send(second);
        }
        assert!(client.response("POST").body == body, "{bytes} bytes that were waited for");
    }
    server.stop();
}

#[test]
fn a_body_that_is_too_long_gets_413() {
    let setup = Setup::with_files();
    let library = probe(setup.directory.path());
    let server =
        setup.route("/probe", &module(&library, "reads = true", "body_bytes_max = \"10KiB\"")).start();
    let (fits, more) = (content(10 << 10), content((10 << 10) + 1));
    let target = "/probe?echo";
    assert!(server.connect().post(target, &fits).body == fits);
    assert_eq!(server.connect().post(target, &more).status, 413);
    assert!(server.connect().ask(chunked(target, &fits)).body == fits);
    assert_eq!(server.connect().ask(chunked(target, &more)).status, 413);
    assert!(Connection::new(server.address).post(target, &fits).body == fits);
    assert_eq!(Connection::new(server.address).post(target, &more).status, 413);
    // The bound is that of the route with the module.
    assert_eq!(server.connect().get("/a.txt").text(), "file a\n");
    server.stop();
}

/// The module does not wait for a body, which is dropped.
#[test]
fn a_module_that_reads_no_bodies_does_not_get_them() {
    let setup = Setup::with_files();
    let library = probe(setup.directory.path());
    let server = setup.route("/probe", &module(&library, "", "body_bytes_max = \"10B\"")).start();
    let mut client = server.connect();
    for bytes in [1, 11, 50_000] {
        let response = client.post("/probe?echo", &content(bytes));
        assert_eq!((response.status, response.body.len()), (200, 0), "{bytes}");
    }
    assert_eq!(client.get("/a.txt").text(), "file a\n");
    server.stop();
}

#[test]
fn arena_adds_numbers_and_makes_json() {
    let items = r#"[{ "id": 1, "name": "a \"b\"", "category": "c", "price": 3, "quantity": 5, "active": true,
        "tags": ["x", "y"], "rating": { "score": 4, "count": 2 } }]"#;
    let setup = Setup::with_files().outside("items.json", items.as_bytes());
    let data = setup.directory.path().join("items.json");
    let config = format!("data = \"{}\"", data.display());
    let server = setup.route("/*", &module(&example("arena"), &config, "")).start();
    let mut client = server.connect();
    assert_eq!(client.get("/baseline?a=1&b=2").text(), "3");
    assert_eq!(client.post("/baseline?a=1&b=2", b"39").text(), "42");
    assert_eq!(client.ask(chunked("/baseline?a=-1", b"1000000000000")).text(), "999999999999");
    assert_eq!(Connection::new(server.address).post("/baseline?a=1", b"2").text(), "3");
    assert_eq!(client.post("/baseline?a=1", b"two").status, 400);
    let made: serde_json::Value = serde_json::from_slice(&client.get("/json/1?m=2").body).unwrap();
    assert_eq!((&made["count"], &made["items"][0]["total"]), (&1.into(), &30.into()), "{made}");
    assert_eq!(made["items"][0]["name"], "a \"b\"");
    assert_eq!(client.get("/json/2?m=2").status, 404);
    assert_eq!(client.get("/elsewhere").status, 404, "it passes");
    server.stop();
}

#[test]
fn a_module_in_c_answers() {
    let setup = Setup::with_files();
    let library = hello_in_c(setup.directory.path());
    let server = setup.route("/c/*", &module(&library, "greeting = \"Hi\"", "")).start();
    assert_eq!(server.connect().get("/c/a%20b?q").text(), "Hi, /c/a b\n");
    let long = format!("/c/{}", "x".repeat(300));
    assert_eq!(server.connect().get(&long).status, 404, "it passes");
    server.stop();
}

/// The probe and `links` may answer later or not; what is asked is the same.
#[test]
fn the_first_module_of_a_list_that_answers_is_the_answer() {
    let setup = Setup::with_files().outside("links.txt", b"docs https://docs.example/\n");
    let library = probe(setup.directory.path());
    let links =
        format!("table = \"{}\", prefix = \"/list/\"", setup.directory.path().join("links.txt").display());
    let links = table(&example("links"), &links, "");
    let passes = table(&library, "passes = true", "");
    let server = setup
        .route("/none", &modules(std::slice::from_ref(&passes)))
        .route("/list/*", &modules(&[links.clone(), passes, hello("Second"), hello("Third")]))
        .route("/quick/*", &modules(&[links, hello("Second")]))
        .start();
    let mut client = server.connect();
    // Several times on one connection: what was asked for one request is not left out for the next.
    for _ in 0..3 {
        assert_eq!(client.get("/none").status, 404, "all pass");
        let found = client.get("/list/docs");
        assert_eq!((found.status, found.need("Location")), (302, "https://docs.example/"));
        assert_eq!(client.get("/list/other").text(), "Second, world\n");
        assert_eq!(client.get("/quick/other").text(), "Second, world\n");
        assert_eq!(client.post("/list/other", b"a body").text(), "Second, world\n");
    }
    let mut connection = Connection::new(server.address);
    assert_eq!(connection.get("/none").status, 404);
    assert_eq!(connection.get("/list/other").text(), "Second, world\n");
    server.stop();
}

#[test]
fn modules_of_the_site_come_before_those_of_the_route() {
    let setup = Setup::with_files().outside("links.txt", b"/route https://site.example/\n");
    let links = format!("table = \"{}\", prefix = \"\"", setup.directory.path().join("links.txt").display());
    let server = setup
        .site(&module(&example("links"), &links, ""))
        .route("/route", &format!("module = {}", hello("Route")))
        .route("/other", &format!("module = {}", hello("Other")))
        .start();
    let mut client = server.connect();
    assert_eq!(client.get("/route").need("Location"), "https://site.example/");
    assert_eq!(client.get("/other").text(), "Other, world\n");
    assert_eq!(client.get("/a.txt").text(), "file a\n", "it passes");
    server.stop();
}

#[test]
fn answers_are_counted_as_others_are() {
    let server = Setup::with_files()
        .route("/hello", &format!("module = {}", hello("Hello")))
        .server("threads = 2")
        .start();
    for _ in 0..10 {
        server.connect().get("/hello");
    }
    let status = server.status();
    assert_eq!(status["totals"]["responses"]["2xx"], 10, "{}", status["totals"]);
    let routes = status["routes"].as_array().unwrap();
    let route = routes.iter().find(|route| route["route"].as_str().unwrap().contains("/hello")).unwrap();
    assert_eq!(route["responses"]["2xx"], 10, "{route}");
    assert_eq!(route["body_bytes"], 130, "{route}");
    assert_eq!(
        (metric(&server, "maitred_modules_off"), metric(&server, "maitred_module_crashes_total")),
        (0, 0)
    );
    finish(server);
}
