//! What clients do to connections.

use std::time::Duration;

use rustix::process::Signal;

use crate::abuse::{ends, get, next, open_gate, post, setup};
use crate::support::{Client, eventually};

#[test]
fn a_client_that_has_finished_sending_gets_every_answer() {
    let server = setup("").start();
    let mut client = server.connect();
    assert_eq!(client.get("/small").status, 200);
    // More than are answered in one turn, so that the end of the stream is seen before the last of them.
    server.while_worker_sleeps(|| {
        client.send(get("/small").repeat(700));
        client.finish_sending();
    });
    for number in 0..700 {
        assert_eq!(next(&mut client).body, b"small\n", "response {number}");
    }
    ends(&mut client);
    server.stop();
}

#[test]
fn the_same_from_an_application() {
    let server = setup("").start();
    let mut client = server.connect();
    server.while_worker_sleeps(|| {
        client.send(["/app/ok", "/small", "/app/ok", "/large", "/app/ok"].map(get).concat());
        client.finish_sending();
    });
    for bytes in [3, 6, 3, 8 << 20, 3] {
        assert_eq!(next(&mut client).body.len(), bytes);
    }
    ends(&mut client);
    server.stop();
}

#[test]
fn an_end_that_comes_together_with_a_request_is_seen() {
    let server = setup("").start();
    for path in ["/small", "/app/ok", "/large", "/old"] {
        let mut client = server.connect();
        assert_eq!(client.get("/small").status, 200);
        server.while_worker_sleeps(|| {
            client.send(get(path));
            client.finish_sending();
        });
        next(&mut client);
        ends(&mut client);
    }
    server.stop();
}

#[test]
fn no_reset_overtakes_the_last_response() {
    let server = setup("").start();
    let last = "GET /small HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let malformed = "GET /small HTTP/1.1\r\nHost: localhost\r\n folded: no\r\n\r\n";
    let too_long = "POST /small HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n";
    for (request, status) in [(last, 200), (malformed, 400), (too_long, 413)] {
        let mut client = server.connect();
        assert_eq!(client.get("/small").status, 200);
        let mut sender = client.tcp().try_clone().unwrap();
        let writer = std::thread::spawn(move || {
            let junk = format!("{request}{}", "x".repeat(1 << 20));
            std::io::Write::write_all(&mut sender, junk.as_bytes()).unwrap();
            sender.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let response = next(&mut client);
        assert_eq!((response.status, response.says_close()), (status, true));
        // Not the other way round: when it has seen the end, the client closes both sides.
        writer.join().unwrap();
        ends(&mut client);
    }
    server.stop();
}

/// Bytes that a connection reads at a time: 64 KiB, and twice the largest head. A test that fails after a change of
/// this has to follow it.
const READ_BYTES: usize = 64 * 1024 + 2 * 1024;

#[test]
fn a_read_that_fills_the_buffer_to_its_last_byte_is_followed_by_another() {
    let server = setup("").limit("head_bytes_max = \"1KiB\"\ntarget_bytes_max = 1024").start();
    let mut client = server.connect();
    let body_bytes = READ_BYTES - post("/app/length", 0).len() - 4;
    let big = post("/app/length", body_bytes);
    assert_eq!(big.len(), READ_BYTES, "so that it ends where the buffer ends");
    let (begin, end) = big.split_at(40_000);
    client.send(get("/app/hold") + begin);
    // The end comes while the first request is at the application, and with it one more request.
    server.while_worker_sleeps(|| client.send(end.to_owned() + &get("/app/ok")));
    open_gate(&server);
    assert_eq!(next(&mut client).body, b"ok\n");
    assert_eq!(next(&mut client).body, format!("{body_bytes}\n").as_bytes());
    assert_eq!(next(&mut client).body, b"ok\n");
    server.stop();
}

#[test]
fn pipelined_requests_survive_a_change_of_thread() {
    let server = setup("").server("threads = 4").start();
    let mut clients: Vec<Client> = (0..24).map(|_| server.connect()).collect();
    let paths = ["/small", "/app/ok", "/app/length", "/small", "/old", "/app/ok", "/none", "/app/ok"];
    let burst = paths.map(|path| if path == "/app/length" { post(path, 5) } else { get(path) }).concat();
    server.while_worker_sleeps(|| clients.iter_mut().for_each(|client| client.send(burst.repeat(10))));
    for client in &mut clients {
        for _ in 0..10 {
            let statuses = paths.map(|_| next(client).status);
            assert_eq!(statuses, [200, 200, 200, 200, 302, 200, 404, 200]);
        }
    }
    server.stop();
}

#[test]
fn a_thousand_pipelined_requests_of_all_kinds() {
    let server = setup("").start();
    let mut client = server.connect();
    let mut sender = client.tcp().try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        let burst = get("/small") + &post("/app/length", 3000) + &get("/old") + &post("/small", 70_000);
        let burst = burst + &get("/app/ok") + &get("/none") + &get("/app/nothing");
        for _ in 0..142 {
            std::io::Write::write_all(&mut sender, burst.as_bytes()).unwrap();
        }
    });
    let expected = [200, 200, 302, 405, 200, 404, 502];
    for status in expected {
        assert_eq!(next(&mut client).status, status);
    }
    drop(client);
    drop(writer.join());
    server.stop();
}

#[test]
fn a_body_that_is_not_asked_for_is_no_request() {
    let server = setup("").start();
    let expecting = |method: &str, path: &str, body: &str| {
        let length = body.len();
        format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    };
    let hidden = get("/small");
    for (method, path, status) in
        [("GET", "/small", 200), ("GET", "/large", 200), ("POST", "/small", 405), ("GET", "/old", 302)]
    {
        // The first time, a file has to be looked up; the second time it is at hand.
        for before in ["", "/small", "/none"] {
            let mut client = server.connect();
            let first = if before.is_empty() { String::new() } else { get(before) };
            client.send(first + &expecting(method, path, ""));
            if !before.is_empty() {
                next(&mut client);
            }
            assert_eq!(next(&mut client).status, status, "{method} {path}");
            let mut client = server.connect();
            client.send(expecting(method, path, &hidden));
            assert_eq!(next(&mut client).status, status, "{method} {path} with a body");
            client.finish_sending();
            ends(&mut client);
        }
    }
    let mut client = server.connect();
    client.send(
        "POST /app/length HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
    );
    assert_eq!(client.head().unwrap().status, 100);
    client.send("12345");
    assert_eq!(next(&mut client).body, b"5\n");
    client.send("POST /app/length HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n12345");
    assert_eq!(next(&mut client).body, b"5\n", "no 100 if the body is there");
    server.stop();
}

#[test]
fn resets_at_every_state_leave_a_server_that_serves() {
    let server = setup("").start();
    let cut = |bytes: &str| {
        let mut client = server.connect();
        client.send(bytes);
        client
    };
    for round in 0..8 {
        let open = [
            cut(""),
            cut("GET /sm"),
            cut("POST /app/length HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc"),
            cut("POST /app/length HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"),
            cut(&get("/large")),
            cut(&get("/app/hold")),
            cut(&(get("/app/ok") + &get("/large") + &get("/app/ok"))),
            cut("GET /small HTTP/1.0\r\n\r\n"),
            cut("BAD\r\n\r\n"),
        ];
        if round % 2 == 0 {
            open.into_iter().for_each(Client::reset);
        } else {
            server.while_worker_sleeps(|| open.into_iter().for_each(Client::reset));
        }
        open_gate(&server);
        assert_eq!(server.connect().get("/app/ok").status, 200);
        assert_eq!(server.connect().get("/small").status, 200);
    }
    server.stop();
}

#[test]
fn one_byte_at_a_time() {
    let server = setup("").start();
    let mut client = server.connect();
    let chunked =
        "POST /app/length HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\n\r\n";
    for byte in (get("/small") + chunked + &get("/app/ok")).as_bytes() {
        client.send([*byte]);
    }
    assert_eq!(next(&mut client).body, b"small\n");
    assert_eq!(next(&mut client).body, b"3\n");
    assert_eq!(next(&mut client).body, b"ok\n");
    server.stop();
}

#[test]
fn a_reload_in_the_middle_of_everything() {
    let server = setup("").server("threads = 2").start();
    let mut held = server.connect();
    held.send(get("/app/hold") + &get("/small") + &get("/app/ok"));
    let mut queued = server.connect();
    queued.send(get("/app/ok") + &get("/small"));
    let mut half = server.connect();
    half.send("POST /app/length HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab");
    let mut idle = server.connect();
    assert_eq!(idle.get("/small").status, 200);
    let before = server.worker();
    server.signal(Signal::HUP);
    server.wait_for("has taken over");
    eventually("the old process gives the sockets up", || !server.listens(before));
    assert_eq!(server.connect().get("/small").status, 200, "the new worker process serves");
    // The pool has one process, which lives on; it is still busy for the old worker process.
    let mut new = server.connect();
    new.send(get("/app/ok"));
    idle.send(get("/app/ok"));
    open_gate(&server);
    assert_eq!(next(&mut new).body, b"ok\n");
    assert_eq!(next(&mut idle).body, b"ok\n");
    half.send("cd");
    assert_eq!(next(&mut half).body, b"4\n");
    for client in [&mut held, &mut queued] {
        assert_eq!(next(client).body, b"ok\n");
        assert_eq!(next(client).body, b"small\n");
    }
    assert_eq!(next(&mut held).body, b"ok\n");
    for client in [&mut held, &mut queued, &mut half, &mut idle] {
        assert_eq!(client.get("/app/ok").status, 200, "kept over the reload");
    }
    eventually("the old process is gone", || server.worker_is_not(before));
    assert!(idle.is_silent_for(Duration::from_millis(10)));
    server.stop();
}
