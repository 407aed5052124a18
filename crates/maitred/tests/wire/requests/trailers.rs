//! What a client sends behind the body of a request (RFC 9110, section 6.5), as processes get it.

use crate::requests::{setup, setup_with, start};
use crate::support::eventually;
use crate::support::h2::{Connection, frame, hpack};

/// A request over HTTP/1.1 whose body has so many bytes, and these trailers.
fn chunked(bytes: usize, trailers: &str) -> Vec<u8> {
    let mut request = b"POST /trailers HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    if bytes > 0 {
        request.extend(format!("{bytes:x}\r\n").bytes());
        request.resize(request.len() + bytes, b'x');
        request.extend(b"\r\n");
    }
    request.extend(format!("0\r\n{trailers}\r\n").bytes());
    request
}

/// What the process got behind the body of a request over HTTP/2.
fn framed(
    connection: &mut Connection,
    fields: &[(&str, &str)],
    bytes: usize,
    trailers: &[(&str, &str)],
) -> String {
    let id = connection.request("POST", "/trailers", fields, false);
    if bytes > 0 {
        connection.upload(id, &vec![b'x'; bytes], false);
    }
    connection.send(frame::headers(id, &hpack::block(trailers), true));
    connection.response(id).text().to_owned()
}

#[test]
fn trailers_of_a_request_reach_the_process() {
    for transport in ["direct", "relay"] {
        let server = start(transport, "");
        let mut client = server.connect();
        // The last body is kept in a file.
        for bytes in [0, 5, 3_000_000] {
            let response = client.ask(chunked(bytes, "X-Sum: 17\r\nETag: \"a\"\r\n"));
            assert_eq!(response.text(), "x-sum: 17\r\netag: \"a\"\r\n", "{transport}, {bytes} bytes");
            // Trailers belong to one request.
            assert_eq!(client.ask(chunked(5, "")).text(), "none", "{transport}");
            assert_eq!(client.post("/trailers", b"body").text(), "none", "{transport}");
            assert_eq!(client.get("/trailers").text(), "none", "{transport}");
        }
        drop(client);
        let mut connection = Connection::new(server.address);
        for bytes in [0, 5, 3_000_000] {
            let got = framed(&mut connection, &[], bytes, &[("x-sum", "17"), ("x-a", "b")]);
            assert_eq!(got, "x-sum: 17\r\nx-a: b\r\n", "{transport}, {bytes} bytes");
        }
        let length = [("content-length", "5")];
        assert_eq!(framed(&mut connection, &length, 5, &[("x-sum", "17")]), "x-sum: 17\r\n");
        assert_eq!(connection.post("/trailers", b"body").text(), "none");
        drop(connection);
        server.stop();
    }
}

#[test]
fn what_means_something_in_a_head_does_not_come_behind_a_body() {
    let server = start("auto", "");
    let mut client = server.connect();
    let dropped = "Host: evil\r\nContent-Length: 3\r\nAuthorization: Basic eDp5\r\nX-Forwarded-For: 6.6.6.6\r\n\
                   X-Remote-User: root\r\nX_Sum: 1\r\nX-Request-Id: 1\r\nProxy: x\r\nTE: trailers\r\n";
    assert_eq!(client.ask(chunked(5, dropped)).text(), "none");
    assert_eq!(client.ask(chunked(5, &format!("{dropped}X-Sum: 1\r\n"))).text(), "x-sum: 1\r\n");
    // What `Connection` names is about this hop.
    let request = String::from_utf8(chunked(5, "X-Hop: 1\r\nX-Sum: 1\r\n")).unwrap();
    let named = request.replacen("Host: h", "Host: h\r\nConnection: x-hop", 1);
    assert_eq!(client.ask(named).text(), "x-sum: 1\r\n");
    server.stop();
}

#[test]
fn a_route_decides_about_trailers_as_about_other_fields() {
    let rules = "request_headers = { set = { X-Sum = \"ours\" }, remove = [\"X-Gone\"] }";
    let setup = setup_with(rules, "auto", "");
    let server = setup.start();
    let response = server.connect().ask(chunked(5, "X-Sum: 1\r\nX-Gone: 1\r\nX-Other: 1\r\n"));
    assert_eq!(response.text(), "x-other: 1\r\n");
    server.stop();
}

#[test]
fn trailers_have_their_bounds() {
    let server = start("auto", "");
    let field = "X-A: 1\r\n";
    assert_eq!(server.connect().ask(chunked(5, &field.repeat(32))).text(), "x-a: 1\r\n".repeat(32));
    assert_eq!(
        server.connect().ask(chunked(5, &field.repeat(33))).text(),
        "none",
        "all of them are left out"
    );
    let long = |bytes: usize| format!("X-A: {}\r\n", "y".repeat(bytes - 7));
    assert_eq!(server.connect().ask(chunked(5, &long(8190))).body.len(), 8190);
    assert_eq!(server.connect().ask(chunked(5, &long(8191))).status, 431);
    let many: Vec<(&str, &str)> = vec![("x-a", "1"); 33];
    let mut connection = Connection::new(server.address);
    assert_eq!(framed(&mut connection, &[], 5, &many), "none");
    assert_eq!(framed(&mut connection, &[], 5, &many[1..]).len(), 8 * 32);
    drop(connection);
    server.stop();
}

#[test]
fn a_request_that_changes_its_thread_keeps_its_trailers() {
    for transport in ["direct", "relay"] {
        let server = setup(transport, "").server("threads = 2").listen("buckets = 1").start();
        server.wait_for_processes();
        // The connections stay, so that the thread that took the first of them leaves some to the other.
        let mut connections = Vec::new();
        eventually("a stream has to change its thread", || {
            let mut client = server.connect();
            assert_eq!(client.ask(chunked(5, "X-Sum: 17\r\n")).text(), "x-sum: 17\r\n", "{transport}");
            let mut connection = Connection::new(server.address);
            let got = framed(&mut connection, &[], 5, &[("x-sum", "17")]);
            assert_eq!(got, "x-sum: 17\r\n", "{transport}");
            connections.push(connection);
            server.total("requests_transferred") > 0
        });
        drop(connections);
        server.stop();
    }
}
