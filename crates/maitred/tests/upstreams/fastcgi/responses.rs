//! What PHP answers.

use crate::fastcgi::site::{FRONT, at, on_both, setup};
use crate::support::h2;
use crate::support::php::Php;
use crate::support::{End, Gate, Response};

fn cookies(response: &Response) -> Vec<&str> {
    let fields = response.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
    fields.map(|(_, value)| value.as_str()).collect()
}

#[test]
fn statuses_and_fields_pass() {
    let Some(php) = Php::fpm(2) else { return };
    on_both(&php, |front| {
        let mut client = front.connect();
        let mut case = |name: &str| client.get(&format!("/respond.php?case={name}"));
        let response = case("conflict");
        assert_eq!((response.status, response.text()), (409, "two at a time"), "{}", front.name);
        assert_eq!(response.need("x-one"), "1");
        assert_eq!(cookies(&response), ["a=1", "b=2; HttpOnly"]);
        assert!(response.need("content-type").starts_with("text/html"));
        let response = case("phrase");
        assert_eq!((response.status, response.text()), (404, "not here"));
        let response = case("redirect");
        assert_eq!((response.status, response.need("location")), (302, "/elsewhere?a=b"));
        let response = case("length");
        assert_eq!((response.status, response.text(), response.need("content-length")), (200, "fives", "5"));
        let response = case("nothing");
        assert_eq!((response.status, response.text()), (204, ""));
        let response = case("unchanged");
        assert_eq!((response.status, response.text()), (200, "changed"));
        let response = client.method("GET", "/respond.php?case=unchanged", "If-None-Match: \"one\"\r\n");
        assert_eq!((response.status, response.need("etag"), response.text()), (304, "\"one\"", ""));
        let response = client.method("HEAD", "/respond.php?case=conflict", "");
        assert_eq!((response.status, response.text(), cookies(&response).len()), (409, "", 2));
        // The connection is still in order.
        assert_eq!(client.get("/page").text(), "index.php of root: GET /page");
    });
}

#[test]
fn large_responses_are_whole() {
    let Some(php) = Php::fpm(2) else { return };
    on_both(&php, |front| {
        for mut client in [front.connect(), front.connect_tls()] {
            let response = client.get("/respond.php?case=large");
            is_large(response.status, &response.body);
        }
    });
    let server = setup(&php, FRONT).start();
    let mut connection = h2::Connection::new(server.address);
    let response = connection.get("/respond.php?case=large");
    is_large(response.status, &response.body);
    drop(connection);
    server.stop();
}

#[track_caller]
fn is_large(status: u16, body: &[u8]) {
    assert_eq!((status, body.len()), (200, 20_000_000));
    let line = |at: usize| format!("{at:015} and {at:079}\n");
    for (at, found) in body.chunks(100).enumerate() {
        assert!(found == line(at).as_bytes(), "line {at}: {:?}", String::from_utf8_lossy(found));
    }
}

/// What a script has flushed is sent while it goes on.
#[test]
fn responses_are_passed_on_as_they_come() {
    let Some(php) = Php::fpm(2) else { return };
    let gate = Gate::new();
    on_both(&php, |front| {
        for mut client in [front.connect(), front.connect_tls()] {
            client.send(format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", at(&gate, "halves")));
            assert_eq!(client.head().unwrap().status, 200, "{}", front.name);
            assert_eq!(client.exactly(16).unwrap(), b"b\r\nfirst half\n\r\n");
            gate.arrival().release();
            assert_eq!(client.exactly(22).unwrap(), b"c\r\nsecond half\n\r\n0\r\n\r\n");
        }
    });
    let server = setup(&php, FRONT).start();
    let mut connection = h2::Connection::new(server.address);
    let id = connection.request("GET", &at(&gate, "halves"), &[], true);
    connection.content(id, 11);
    gate.arrival().release();
    assert_eq!(connection.response(id).body, b"first half\nsecond half\n");
    drop(connection);
    server.stop();
}

/// Fields of one hop end at the server.
#[test]
fn fields_of_one_hop_are_dropped() {
    let Some(php) = Php::fpm(2) else { return };
    let server = setup(&php, FRONT).start();
    let response = server.connect().get("/respond.php?case=hops");
    assert_eq!((response.status, response.text(), response.need("x-kept")), (200, "kept", "1"));
    assert_eq!(response.field("keep-alive"), None);
    server.stop();
}

/// A script that fails is answered with 500, and what PHP says of it stands in the server's log.
#[test]
fn errors_of_scripts_are_logged() {
    let Some(php) = Php::fpm(2) else { return };
    on_both(&php, |front| {
        let mut client = front.connect();
        assert_eq!(client.get("/fatal.php").status, 500, "{}", front.name);
        // The response had begun: PHP ends it in order.
        let response = client.get("/fatal.php?late");
        assert_eq!((response.status, response.body.len()), (200, 14_000));
        assert_eq!(client.get("/page").status, 200);
    });
    let server = setup(&php, FRONT).start();
    assert_eq!(server.connect().get("/fatal.php").status, 500);
    let line = server.wait_for("no_such_function");
    assert!(line.contains("PHP Fatal error") && line.contains("php"), "{line}");
    server.wait_for("a note of the script");
    server.stop();
}

/// HTTP/1.0 has no chunks: the end of the connection is that of the response.
#[test]
fn clients_of_http_1_0_are_answered() {
    let Some(php) = Php::fpm(2) else { return };
    let server = setup(&php, FRONT).start();
    let mut client = server.connect();
    client.send("GET /respond.php?case=large HTTP/1.0\r\nHost: localhost\r\n\r\n");
    let response = client.response("GET");
    is_large(response.status, &response.body);
    assert_eq!(client.end(), End::Closed);
    server.stop();
}
