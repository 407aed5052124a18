//! `request_timeout` and `request_total_timeout`: a request that takes too long ends, and no other one does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::requests::{setup, start};
use crate::support::h2::{Connection, Lost};
use crate::support::upstream::Upstream;
use crate::support::{Client, End, Server, Setup, eventually, pace};

const TRANSPORTS: [&str; 2] = ["direct", "relay"];

fn ask(server: &Server, path: &str) -> Client {
    let mut client = server.connect();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
    client
}

/// A stream of which a first piece has come.
fn stream(server: &Server) -> Client {
    let mut client = ask(server, "/stream");
    assert_eq!(client.head().unwrap().status, 200);
    client.exactly(10).unwrap();
    client
}

/// Keeps streams going while `meanwhile` runs.
fn while_ticking<T>(server: &Server, meanwhile: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut ticker = server.connect();
            eventually("the streams are not needed any more", || {
                ticker.get("/tick");
                // Often enough for the shortest timeout here, and not as a flood.
                pace(Duration::from_millis(100));
                over.load(Ordering::Relaxed)
            });
        });
        let result = meanwhile();
        over.store(true, Ordering::Relaxed);
        result
    })
}

fn pid(server: &Server) -> String {
    server.connect().get("/pid").text().to_owned()
}

/// Requests that the processes have.
fn in_flight(server: &Server) -> u64 {
    let status = server.status();
    let slots = status["pools"][0]["slots"].as_array().unwrap();
    slots.iter().map(|slot| slot["in_flight"].as_u64().unwrap()).sum()
}

/// Statuses in the access log of requests for this path.
fn logged(lines: &[serde_json::Value], path: &str) -> Vec<u64> {
    let of = lines.iter().filter(|line| line["target"] == path);
    of.map(|line| line["status"].as_u64().unwrap()).collect()
}

/// Reads until the end, which is no orderly one.
fn is_cut(client: &mut Client) {
    while client.exactly(1).is_ok() {
        client.take_received();
    }
}

#[test]
fn a_silent_request_gets_504_and_its_neighbours_live_on() {
    for transport in TRANSPORTS {
        let server = start(transport, "request_timeout = \"2s\"");
        let before = pid(&server);
        let mut live = stream(&server);
        while_ticking(&server, || {
            let mut silent = ask(&server, "/silent");
            assert_eq!(silent.response("GET").status, 504, "{transport}");
            // Twice as long as it may be silent.
            let again = Connection::new(server.address).get("/silent");
            assert_eq!(again.status, 504, "{transport}");
        });
        assert_eq!(server.connect().get("/finish").status, 200);
        let mut rest = Vec::new();
        while !rest.ends_with(b"0\r\n\r\n") {
            rest.extend(live.exactly(1).unwrap());
        }
        assert_eq!(pid(&server), before, "{transport}: the process lives on");
        assert_eq!((server.total("request_timeouts"), server.total("handoff_lost")), (2, 0), "{transport}");
        let stopped = server.stop();
        let lines = stopped.json_lines();
        assert_eq!(logged(&lines, "/silent"), [504, 504], "{transport}");
        assert_eq!(logged(&lines, "/stream"), [200], "{transport}");
        let said = stopped.said.iter().find(|line| line.contains("was silent for request_timeout")).unwrap();
        let id =
            lines.iter().find(|line| line["target"] == "/silent").unwrap()["request_id"].as_str().unwrap();
        assert!(said.contains(&format!("request_id={id}")), "{said}");
        assert!(!stopped.said.iter().any(|line| line.contains("lost")), "{:#?}", stopped.said);
    }
}

#[test]
fn a_response_that_falls_silent_is_cut_off_and_the_log_says_by_whom() {
    for transport in TRANSPORTS {
        let server = start(transport, "request_timeout = \"1s\"");
        let before = pid(&server);
        let mut client = ask(&server, "/begun");
        assert_eq!(client.head().unwrap().status, 200);
        is_cut(&mut client);
        let mut connection = Connection::new(server.address);
        let id = connection.request("GET", "/begun", &[], true);
        assert!(matches!(connection.try_response(id), Err(Lost::Reset(_))), "{transport}");
        assert_eq!(pid(&server), before, "{transport}");
        let counted =
            ["request_timeouts", "timed_out_in_response", "client_aborts"].map(|key| server.total(key));
        assert_eq!(counted, [2, 2, 0], "{transport}");
        let lines = server.stop().json_lines();
        assert_eq!(logged(&lines, "/begun"), [598, 598], "{transport}");
    }
}

/// What comes within the time that a process has for that goes out.
#[test]
fn a_response_that_comes_upon_cancel_is_sent() {
    let server = start("direct", "request_timeout = \"1s\"");
    let mut client = ask(&server, "/late");
    assert_eq!(client.response("GET").text(), "late");
    assert_eq!(client.get("/pid").status, 200, "the connection goes on");
    server.stop();
    let server = start("relay", "request_timeout = \"1s\"");
    let mut client = ask(&server, "/late");
    assert_eq!(client.response("GET").status, 504, "the request has timed out");
    eventually("the request has ended", || in_flight(&server) == 0);
    assert_eq!(server.connect().get("/meta").status, 200);
    server.stop();
}

/// The process does not act upon CANCEL: what it writes to is shut down, which it notices.
#[test]
fn a_process_that_does_not_end_a_request_finds_its_descriptor_shut_down() {
    std::thread::scope(|scope| {
        for transport in TRANSPORTS {
            scope.spawn(move || {
                let server = start(transport, "request_timeout = \"1s\"");
                let before = pid(&server);
                let mut clients = ["/until-cut", "/begun-until-cut"].map(|path| ask(&server, path));
                // The client of this request goes: the process has as little to write for.
                let gone = ask(&server, "/until-cut");
                eventually("the process has them", || in_flight(&server) == 3);
                gone.reset();
                assert_eq!(clients[0].response("GET").status, 504, "{transport}");
                if transport == "direct" {
                    assert_eq!(clients[0].end(), End::Closed, "nothing of the process is behind it");
                }
                assert_eq!(clients[1].head().unwrap().status, 200, "{transport}");
                is_cut(&mut clients[1]);
                eventually("it has noticed", || in_flight(&server) == 0);
                assert_eq!(pid(&server), before, "{transport}");
                let lines = server.stop().json_lines();
                assert_eq!(logged(&lines, "/begun-until-cut"), [598], "{transport}");
                let others = logged(&lines, "/until-cut");
                // Whether the process or the server notices first that a client has gone is not for this test.
                assert!(others.len() == 2 && others.contains(&504), "{transport}: {others:?}");
            });
        }
    });
}

/// The next client gets the number of a connection whose request has not ended, and must not wait behind that.
#[test]
fn a_request_that_does_not_end_keeps_its_number() {
    let server = start("direct", "request_timeout = \"1s\"");
    let mut stuck = ask(&server, "/never");
    assert_eq!(stuck.response("GET").status, 504);
    drop(stuck);
    // One after another, so that each gets the lowest free place.
    for _ in 0..3 {
        assert_eq!(server.connect().get("/alone").text(), "alone");
    }
    server.stop();
}

#[test]
fn a_process_is_ended_that_does_not_answer_or_has_no_room_left() {
    std::thread::scope(|scope| {
        for transport in TRANSPORTS {
            scope.spawn(move || {
                let server = start(transport, "request_timeout = \"1s\"");
                let mut client = ask(&server, "/mute");
                assert_eq!(client.response("GET").status, 504, "{transport}");
                server.wait_for("and it does not answer");
                assert_eq!(
                    server.connect().get("/pid").status,
                    200,
                    "{transport}: another one takes its place"
                );
                server.stop();
            });
            scope.spawn(move || {
                let server = start(transport, "request_timeout = \"1s\"\nenv = { CAPACITY = \"3\" }");
                let before = pid(&server);
                let mut clients = ["/never", "/never"].map(|path| ask(&server, path));
                clients
                    .iter_mut()
                    .for_each(|client| assert_eq!(client.response("GET").status, 504, "{transport}"));
                // The shutdown of what they write to is over, and there is room for one more.
                let mut third = ask(&server, "/until-cut");
                assert_eq!(third.response("GET").status, 504);
                eventually("the third one ends", || in_flight(&server) == 2);
                assert_eq!(pid(&server), before, "{transport}: two of three are stuck");
                let mut third = ask(&server, "/never");
                assert_eq!(third.response("GET").status, 504, "{transport}");
                server.wait_for("no room for requests but cancelled ones");
                assert_ne!(pid(&server), before, "{transport}");
                server.stop();
            });
        }
    });
}

#[test]
fn the_whole_of_a_request_may_have_a_bound() {
    for transport in TRANSPORTS {
        let server = start(transport, "request_total_timeout = \"2s\"");
        let before = pid(&server);
        let mut live = stream(&server);
        while_ticking(&server, || is_cut(&mut live));
        let response = server.connect().get("/silent");
        assert_eq!(response.status, 504, "{transport}");
        assert_eq!(pid(&server), before, "{transport}");
        let stopped = server.stop();
        assert_eq!(logged(&stopped.json_lines(), "/stream"), [598], "{transport}");
        assert!(stopped.said.iter().any(|line| line.contains("took longer than request_total_timeout")));
    }
}

/// A stream of HTTP/2 whose process belongs to another thread: what is silent is known there by what its own thread has read.
#[test]
fn both_hold_across_threads() {
    for transport in TRANSPORTS {
        let lines = "request_timeout = \"2s\"";
        let server = setup(transport, lines).server("threads = 2").listen("buckets = 1").start();
        server.wait_for_processes();
        let before = pid(&server);
        let mut connections: Vec<Connection> = Vec::new();
        eventually("some go across", || {
            let mut connection = Connection::new(server.address);
            connection.get("/meta");
            connections.push(connection);
            server.total("requests_transferred") > 0
        });
        let streams: Vec<u32> = connections
            .iter_mut()
            .map(|connection| connection.request("GET", "/stream", &[], true))
            .collect();
        for (connection, id) in connections.iter_mut().zip(&streams) {
            connection.content(*id, 5);
        }
        while_ticking(&server, || {
            for _ in 0..2 {
                let ids: Vec<u32> = connections
                    .iter_mut()
                    .map(|connection| connection.request("GET", "/silent", &[], true))
                    .collect();
                for (connection, id) in connections.iter_mut().zip(ids) {
                    assert_eq!(connection.response(id).status, 504, "{transport}");
                }
            }
        });
        assert_eq!(server.connect().get("/finish").status, 200);
        for (connection, id) in connections.iter_mut().zip(streams) {
            assert!(connection.response(id).text().starts_with("firsttick"), "{transport}");
        }
        let begun: Vec<u32> =
            connections.iter_mut().map(|connection| connection.request("GET", "/begun", &[], true)).collect();
        for (connection, id) in connections.iter_mut().zip(begun) {
            assert!(matches!(connection.try_response(id), Err(Lost::Reset(_))), "{transport}");
        }
        assert_eq!(pid(&server), before, "{transport}");
        let lines = server.stop().json_lines();
        assert_eq!(logged(&lines, "/begun"), vec![598; connections.len()], "{transport}");
        assert_eq!(logged(&lines, "/silent"), vec![504; 2 * connections.len()], "{transport}");
    }
}

#[test]
fn an_http_server_has_the_same_limits() {
    let upstream = Upstream::start(|peer| {
        match peer.request()?.target() {
            "/silent" => {}
            "/begun" => peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")?,
            _ => {
                peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
                while peer.send("4\r\ntick\r\n").is_ok() {
                    pace(Duration::from_millis(20));
                }
            }
        }
        peer.wait_for_end()
    });
    let with = |lines: &str| {
        let pool = format!("[pool.app]\nconnect = \"{}\"\n{lines}\n", upstream.name());
        Setup::with_files().log("access = \"json\"").route("/*", "pool = \"app\"").table(&pool).start()
    };
    for (lines, silent, cut) in [
        ("request_timeout = \"1s\"", "/silent", "/begun"),
        ("request_total_timeout = \"1s\"", "/silent", "/stream"),
    ] {
        let server = with(lines);
        assert_eq!(server.connect().get(silent).status, 504, "{lines}");
        let mut client = ask(&server, cut);
        assert_eq!(client.head().unwrap().status, 200, "{lines}");
        is_cut(&mut client);
        let counted =
            ["request_timeouts", "timed_out_in_response", "client_aborts"].map(|key| server.total(key));
        assert_eq!(counted, [2, 1, 0], "{lines}");
        let logs = server.stop().json_lines();
        assert_eq!((logged(&logs, silent), logged(&logs, cut)), (vec![504], vec![598]), "{lines}");
    }
}
