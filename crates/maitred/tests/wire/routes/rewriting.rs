//! What is done with the target of a request before it is answered: prefixes, rewrites, queries, other routes, files first.

use crate::routes::target;
use crate::support::{End, Server, Setup};

const APPLICATION: &str = "
def application(environ, start_response):
    body = environ['wsgi.input'].read()
    start_response('200 OK', [('Content-Type', 'text/plain')])
    query = environ['QUERY_STRING']
    text = environ['SCRIPT_NAME'] + environ['PATH_INFO'] + ('?' + query if query else '')
    return [(environ['REQUEST_METHOD'] + ' ' + text + ' ' + str(len(body))).encode()]
";

fn setup() -> Setup {
    Setup::with_files().outside("echo.py", APPLICATION.as_bytes()).python(
        "web",
        "echo:application",
        "",
        "workers = 1",
    )
}

fn served(routes: &[(&str, &str)]) -> Server {
    let route = |setup: Setup, (path, lines): &(&str, &str)| setup.route(path, lines);
    let server = routes.iter().fold(setup(), route).start();
    server.wait_for_processes();
    server
}

#[test]
fn a_pool_gets_the_target_that_its_route_makes() {
    let server = served(&[
        ("/api/*", "strip_prefix = \"/api/\"\npool = \"web\""),
        ("/old/*", "strip_prefix = \"/old/\"\nreplace_prefix = \"/v2/\"\npool = \"web\""),
        (
            "/user/*",
            "path_regex = '^/user/(\\d+)/(?<rest>.*)$'\nrewrite = \"/u/{capture.rest}?id={capture.1}\"\npool = \"web\"",
        ),
        (
            "/q",
            "query = { set = { from = \"{client}\", x = \"a b\" }, remove = [\"utm_*\"] }\npool = \"web\"",
        ),
        ("/same/*", "pool = \"web\""),
    ]);
    let mut client = server.connect();
    for (path, expected) in [
        ("/api/x/y?a=1", "GET /x/y?a=1 0"),
        ("/api/x/%2e%2e/y", "GET /y 0"),
        ("/api/", "GET / 0"),
        ("/old/x", "GET /v2/x 0"),
        ("/user/17/a%20b?q=1", "GET /u/a b?id=17 0"),
        ("/q?utm_source=a&y=1&from=evil", "GET /q?y=1&from=127.0.0.1&x=a%20b 0"),
        ("/same/x?y", "GET /same/x?y 0"),
    ] {
        assert_eq!(target(&mut client, path), expected, "{path}");
    }
    // With a body that is not there at once, the request waits, and is the same afterwards.
    client.send("POST /api/late HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n");
    client.send("12345");
    assert_eq!(client.response("GET").text(), "POST /late 5");
    let stopped = server.stop();
    assert!(
        stopped.access.iter().any(|line| line.contains("GET /api/x/y?a=1 HTTP/1.1")),
        "the log has what was sent"
    );
}

#[test]
fn what_a_client_sends_stays_within_its_parameter() {
    let server = served(&[
        (
            "/r/*",
            "path_regex = '^/r/(.*)$'\nrewrite = \"/index.php?title={capture.1}&of={header.X-Of}\"\npool = \"web\"",
        ),
        ("/again/*", "path_regex = '^/again/(.*)$'\nreroute = \"/q?title={capture.1}\""),
        ("/set/*", "query = { set = { from = \"x&{header.X-Of}\" } }\npool = \"web\""),
        ("/to/*", "path_regex = '^/to/(.*)$'\nredirect = \"/new?title={capture.1}&from={uri}\""),
        ("/q", "pool = \"web\""),
    ]);
    let mut client = server.connect();
    for (sent, encoded) in [
        ("C%2B%2B", "C%2B%2B"),
        ("C++", "C%2B%2B"),
        ("a&b=c;d", "a%26b%3Dc%3Bd"),
        ("a%23b%3Fc%25%20d", "a%23b%3Fc%25%20d"),
        ("%C3%A9/x", "%C3%A9/x"),
    ] {
        let mut ask = |path: &str| {
            let of = "X-Of: 1+2&admin=1\r\n";
            client.ask(format!("GET {path} HTTP/1.1\r\nHost: h\r\n{of}\r\n"))
        };
        let of = "1%2B2%26admin%3D1";
        assert_eq!(ask(&format!("/r/{sent}")).text(), format!("GET /index.php?title={encoded}&of={of} 0"));
        assert_eq!(ask(&format!("/again/{sent}")).text(), format!("GET /q?title={encoded} 0"));
        assert_eq!(ask("/set/?from=y").text(), format!("GET /set/?from=x%26{of} 0"));
        let redirect = ask(&format!("/to/{sent}?a=1&b=2"));
        let place = redirect.need("location");
        assert!(place.starts_with(&format!("/new?title={encoded}&from=/to/")), "{place}");
        assert!(place.ends_with("%3Fa%3D1%26b%3D2"), "{place}");
    }
    server.stop();
}

#[test]
fn a_request_goes_through_the_routes_again_and_not_for_ever() {
    let server = served(&[
        ("/start/*", "reroute = \"/middle{path}?n=1\""),
        ("/middle/*", "path_regex = '^/middle/start/(.*)'\nreroute = \"/api/{capture.1}\""),
        ("/api/*", "strip_prefix = \"/api/\"\npool = \"web\""),
        ("/file", "reroute = \"/a.txt\""),
        ("/loop/*", "reroute = \"/loop{path}\""),
        ("/up/*", "path_regex = '^/up/(.*)'\nreroute = \"/{query.to}\""),
    ]);
    let mut client = server.connect();
    assert_eq!(target(&mut client, "/start/x"), "GET /x?n=1 0");
    assert_eq!(client.get("/file").text(), "file a\n");
    assert_eq!(client.get("/loop/x").status, 500);
    // A client can choose a path with that, but none outside of the root.
    assert_eq!(client.get("/up/?to=a.txt").text(), "file a\n");
    assert_eq!(client.get("/up/?to=..%2f..%2fmaitred.toml").status, 400);
    assert_eq!(client.end(), End::Closed, "as after every request that is refused");
    assert!(server.stop().said.iter().any(|line| line.contains("`reroute` leads to itself")));
}

#[test]
fn what_is_no_file_is_the_pools() {
    let server = setup().site("try = [\"{path}\", \"{path}/\", \"pool:web\"]").start();
    server.wait_for_processes();
    let mut client = server.connect();
    for _ in 0..2 {
        assert_eq!(client.get("/a.txt").text(), "file a\n");
        assert_eq!(client.get("/dir/").text(), "<p>dir</p>\n");
        assert_eq!(target(&mut client, "/none?x=1"), "GET /none?x=1 0");
        assert_eq!(client.post("/a.txt", b"body").text(), "POST /a.txt 4", "files take no POST");
        assert_eq!(client.post("/large", &vec![b'x'; 3_000_000]).text(), "POST /large 3000000");
        assert_eq!(target(&mut client, "/.env"), "GET /.env 0", "a hidden file is not there");
    }
    let response = client.ask("GET /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab");
    assert_eq!(response.text(), "file a\n");
    assert_eq!(target(&mut client, "/next"), "GET /next 0", "no request has the body of another one");
    server.stop();
}

#[test]
fn files_are_looked_up_by_a_rewritten_path() {
    let server =
        served(&[("/v/*", "path_regex = '^/v/[0-9]+/(.*)'\nroot = \"root\"\nrewrite = \"/{capture.1}\"")]);
    let mut client = server.connect();
    assert_eq!(client.get("/v/12/a.txt").text(), "file a\n");
    assert_eq!(client.get("/v/13/a.txt").text(), "file a\n");
    assert_eq!(client.get("/v/x/a.txt").status, 404);
    server.stop();
}

#[test]
fn a_redirect_is_filled_in() {
    let server = served(&[
        ("/to/*", "path_regex = '^/to/(.*)'\nredirect = \"https://{host}/new/{capture.1}?from={uri}\""),
        ("/host/*", "redirect = \"{scheme}://www.{host}:{port}{uri}\""),
    ]);
    let port = server.address.port();
    let mut client = server.connect();
    let place = |client: &mut crate::routes::Client, path: &str, host: &str| {
        let response = client.ask(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        response.field("location").unwrap_or_default().to_owned()
    };
    assert_eq!(
        place(&mut client, "/to/a%20b?q=1", "example.com:81"),
        "https://example.com/new/a%20b?from=/to/a%2520b%3Fq%3D1",
        "what it was for is one value"
    );
    assert_eq!(
        place(&mut client, "/host/x?y", "example.com"),
        format!("http://www.example.com:{port}/host/x?y")
    );
    server.stop();
}

#[test]
fn nothing_is_answered_where_the_route_says_so() {
    let server = served(&[("/bad/*", "respond = { status = 444 }")]);
    let mut client = server.connect();
    client.send("GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\nGET /bad/x HTTP/1.1\r\nHost: h\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.response("GET").text(), "file a\n", "what was asked for before is answered");
    assert_eq!(client.end(), End::Closed);
    let stopped = server.stop();
    assert!(
        stopped.access.iter().any(|line| line.contains("GET /bad/x") && line.contains(" 444 ")),
        "{:?}",
        stopped.access
    );
}
