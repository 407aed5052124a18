//! What a site or a route says otherwise than the server: limits, methods, error pages, `server_header`.

use crate::support::{End, Gate, Setup, eventually};

#[test]
fn limits_of_a_route_come_before_those_of_its_site() {
    let server = Setup::with_files()
        .pool("app", None, "")
        .site("limits = { body_bytes_max = 1000 }")
        .table("[[site.route]]\npath = \"/up/*\"\npool = \"app\"\nlimits = { body_bytes_max = \"1m\" }\n")
        .start();
    let mut client = server.connect();
    assert_eq!(client.post("/app/length", &[b'x'; 1000]).text(), "1000");
    assert_eq!(server.connect().post("/app/length", &[b'x'; 1001]).status, 413);
    assert_eq!(client.post("/up/length", &[b'x'; 500_000]).text(), "500000");
    assert_eq!(server.connect().post("/up/length", &vec![b'x'; (1 << 20) + 1]).status, 413);
    server.stop();
}

#[test]
fn a_route_has_its_own_time_for_a_body() {
    let server = Setup::with_files()
        .pool("app", None, "")
        .table("[[site.route]]\npath = \"/soon/*\"\npool = \"app\"\nlimits = { body_timeout = \"200ms\" }\n")
        .start();
    let mut client = server.connect();
    client.send("POST /soon/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc");
    assert_eq!(client.response("POST").status, 408);
    assert_eq!(client.end(), End::Closed);
    server.stop();
}

#[test]
fn a_route_has_its_own_time_for_an_answer() {
    let gate = Gate::new();
    // A process that is ended never gets to the gate: it has so long on a slow machine.
    let server = Setup::with_files()
        .pool("app", Some(&gate), "workers = 1\nrequest_timeout = \"1h\"")
        .table("[[site.route]]\npath = \"/soon/*\"\npool = \"app\"\nlimits = { request_timeout = \"2s\" }\n")
        .table("[[site.route]]\npath = \"/all/*\"\npool = \"app\"\nlimits = { request_total_timeout = \"2s\" }\n")
        .start();
    for path in ["/soon/wait", "/all/wait"] {
        let mut client = server.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
        let waiting = gate.arrival();
        assert_eq!(client.response("GET").status, 504, "{path}");
        drop(waiting);
    }
    server.stop();
}

#[test]
fn a_reader_of_a_route_is_waited_for_as_long_as_the_route_says() {
    let large = vec![b'x'; 64 << 20];
    let server = Setup::with_files()
        .file("large.bin", &large)
        .limit("write_timeout = \"1h\"")
        .table("[[site.route]]\npath = \"/large.bin\"\nroot = \"root\"\nlimits = { write_timeout = \"300ms\" }\n")
        .start();
    let mut client = server.connect();
    client.send("GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.head().unwrap().status, 200);
    // Nothing more is read: the log has the end.
    let log = server.path("access.log");
    eventually("it is given up", || std::fs::read_to_string(&log).is_ok_and(|text| !text.is_empty()));
    let stopped = server.stop();
    assert!(stopped.access[0].contains("/large.bin"), "{:?}", stopped.access);
}

#[test]
fn routes_without_methods_have_those_of_their_site() {
    let server = Setup::with_files()
        .site("methods = [\"GET\", \"POST\"]")
        .pool("app", None, "")
        .table("[[site.route]]\npath = \"/own/*\"\npool = \"app\"\nmethods = [\"PUT\"]\n")
        .start();
    let mut client = server.connect();
    for (method, path, expected) in [
        ("GET", "/app/hello", 200),
        ("POST", "/app/hello", 200),
        ("PUT", "/app/hello", 405),
        ("PUT", "/own/hello", 200),
        ("GET", "/own/hello", 404),
        ("GET", "/index.html", 200),
    ] {
        let said = client.method(method, path, "Content-Length: 0\r\n");
        assert_eq!(said.status, expected, "{method} {path}");
    }
    assert_eq!(client.method("DELETE", "/app/hello", "").need("allow"), "GET, POST");
    server.stop();
}

#[test]
fn error_pages_of_a_route_come_before_those_of_its_site() {
    let server = Setup::with_files()
        .file("site.html", b"of the site")
        .file("route.html", b"of the route")
        .site("error_pages = { 404 = \"/site.html\", 403 = \"/site.html\" }")
        .table(
            "[[site.route]]\npath = \"/a/*\"\nrespond = { status = 404 }\n\
             error_pages = { 404 = \"/route.html\" }\n",
        )
        .table("[[site.route]]\npath = \"/a2/*\"\nrespond = { status = 403 }\nerror_pages = { 404 = \"/route.html\" }\n")
        .table("[[site.route]]\npath = \"/files/*\"\nroot = \"root\"\nerror_pages = { 404 = \"/route.html\" }\n")
        .start();
    let mut client = server.connect();
    for (path, expected) in [
        ("/a/x", "of the route"),
        ("/a2/x", "of the site"),
        ("/files/none", "of the route"),
        ("/none", "of the site"),
    ] {
        assert_eq!(client.get(path).text(), expected, "{path}");
    }
    server.stop();
}

#[test]
fn a_site_and_a_route_say_whether_the_server_names_itself() {
    let server = Setup::with_files()
        .site("server_header = false")
        .table("[[site.route]]\npath = \"/named\"\nrespond = {}\nserver_header = true\n")
        .table("[[site.route]]\npath = \"/plain\"\nrespond = {}\n")
        .start();
    let mut client = server.connect();
    assert_eq!(client.get("/named").field("server"), Some("maitred"));
    assert_eq!(client.get("/plain").field("server"), None);
    assert_eq!(client.get("/index.html").field("server"), None);
    server.stop();
}

#[test]
fn an_application_names_the_server_where_the_server_does() {
    for transport in ["direct", "relay"] {
        let server = Setup::with_files()
            .server("server_header = false")
            .pool("app", None, &format!("transport = \"{transport}\"\nworkers = 1"))
            .table("[[site]]\nhosts = [\"named\"]\nserver_header = true\n")
            .table("[[site.route]]\npath = \"/app/*\"\npool = \"app\"\n")
            .start();
        server.wait_for_processes();
        let mut client = server.connect();
        for (host, wanted) in [("h", None), ("named", Some("maitred")), ("h", None)] {
            for page in ["hello", "stream", "nothing", "fail", "large?700000"] {
                let lie = "server_header: 1\r\nServer-Header: 0\r\n";
                let response = client.ask(format!("GET /app/{page} HTTP/1.1\r\nHost: {host}\r\n{lie}\r\n"));
                assert_eq!(response.field("server"), wanted, "{transport} {host} {page}");
            }
        }
        assert_eq!(server.total("relayed") == 0, transport == "direct");
        server.stop();
    }
}
