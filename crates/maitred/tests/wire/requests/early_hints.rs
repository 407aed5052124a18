//! Informational responses (9110-15.2, RFC 8297) on their way from applications and HTTP servers to clients.

use crate::requests::{setup, start};
use crate::support::h2::Connection;
use crate::support::upstream::Upstream;
use crate::support::{Setup, eventually};

#[test]
fn hints_come_before_the_response_to_those_who_may_have_them() {
    for (key, http1, http2) in
        [("", 0, 3), ("early_hints = \"never\"", 0, 0), ("early_hints = \"always\"", 3, 3)]
    {
        // The process does not ask what it may.
        let server = start("relay", key);
        let mut client = server.connect();
        for _ in 0..2 {
            let response = client.get("/hints/3/100");
            assert_eq!((response.text(), &response.interim), ("ok", &vec![103; http1]), "{key}");
        }
        let old = server.connect().ask("GET /hints/3/100 HTTP/1.0\r\nHost: h\r\n\r\n");
        assert_eq!((old.text(), old.interim.len()), ("ok", 0), "{key}: HTTP/1.0 has none");
        let mut connection = Connection::new(server.address);
        for _ in 0..2 {
            let response = connection.get("/hints/3/100");
            assert_eq!((response.text(), &response.interim), ("ok", &vec![103; http2]), "{key}");
        }
        assert_eq!(client.get("/continue").interim, [0; 0], "a 100 was not asked for");
        assert_eq!(connection.get("/continue").interim, [0; 0]);
        let stopped = server.stop();
        assert!(stopped.json_lines().iter().all(|line| line["status"] == 200), "{:#?}", stopped.access);
    }
}

#[test]
fn on_the_clients_own_socket_the_process_writes_them_itself() {
    let server = start("direct", "early_hints = \"always\"");
    let mut client = server.connect();
    for _ in 0..2 {
        let response = client.get("/hints/2/100");
        assert_eq!((response.text(), response.interim.as_slice()), ("ok", &[103, 103][..]));
    }
    assert_eq!(server.total("relayed"), 0);
    server.stop();
}

#[test]
fn hints_without_an_end_or_a_measure_break_the_response_off() {
    let server = start("relay", "");
    let mut connection = Connection::new(server.address);
    assert_eq!(connection.get("/hints/16/16384").interim, [103; 16]);
    for (path, why) in [
        ("/hints/17/100", "more than 16 interim responses"),
        ("/hints/1/16385", "interim response over 16384 bytes"),
    ] {
        assert_eq!(connection.get(path).status, 502, "{path}");
        server.wait_for(why);
        // Clients that get no hints are protected, too.
        assert_eq!(server.connect().get(path).status, 502, "{path}");
    }
    assert_eq!(connection.get("/meta").status, 200, "the process lives on");
    server.stop();
}

/// A client that has got anything would notice that another process begins anew.
#[test]
fn a_request_is_not_given_again_once_a_hint_has_gone_out() {
    for (key, again) in [("", 0), ("early_hints = \"never\"", 1)] {
        let server = start("relay", key);
        let response = Connection::new(server.address).get("/hints-die");
        assert_eq!((response.status, response.interim.len()), (502, 1 - again), "{key}");
        assert_eq!(server.total("handoff_retries"), again as u64, "{key}");
        server.stop();
    }
}

/// Threads that have no process send requests of HTTP/2 to the one that has.
#[test]
fn hints_go_across() {
    for transport in ["direct", "relay"] {
        let setup = setup(transport, "").server("threads = 2").listen("buckets = 1");
        let server = setup.start();
        server.wait_for_processes();
        // The connections stay, so that the thread that took the first of them leaves some to the other.
        let mut connections = Vec::new();
        eventually("some have gone across", || {
            let mut connection = Connection::new(server.address);
            for _ in 0..2 {
                let response = connection.get("/hints/2/100");
                assert_eq!(
                    (response.text(), response.interim.as_slice()),
                    ("ok", &[103, 103][..]),
                    "{transport}"
                );
                assert_eq!(
                    connection.get("/meta").text().matches("early_hints=1\n").count(),
                    1,
                    "{transport}"
                );
            }
            connections.push(connection);
            server.total("requests_transferred") > 0
        });
        drop(connections);
        server.stop();
    }
}

#[test]
fn an_http_servers_hints_go_by_the_same_rule() {
    let upstream = Upstream::start(|peer| {
        loop {
            let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nConnection: x\r\n\r\n";
            let interim = match peer.request()?.target() {
                "/17" => hints.repeat(17),
                _ => format!("HTTP/1.1 100 Continue\r\n\r\n{hints}{hints}"),
            };
            peer.send(format!("{interim}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))?;
        }
    });
    for (key, http1, http2) in
        [("", 0, 2), ("early_hints = \"never\"", 0, 0), ("early_hints = \"always\"", 2, 2)]
    {
        let pool = format!("[pool.app]\nconnect = \"{}\"\n{key}\n", upstream.name());
        let server = Setup::with_files().route("/*", "pool = \"app\"").table(&pool).start();
        let response = server.connect().get("/");
        assert_eq!((response.text(), &response.interim), ("ok", &vec![103; http1]), "{key}");
        let mut connection = Connection::new(server.address);
        let response = connection.get("/");
        assert_eq!((response.text(), &response.interim), ("ok", &vec![103; http2]), "{key}");
        assert_eq!(connection.get("/17").status, 502, "{key}");
        server.stop();
    }
}
