//! What the client gets when its server fails.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;

use rustix::process::Signal;

use crate::proxy::{setup, start};
use crate::support::processes::descriptors;
use crate::support::upstream::{Upstream, nowhere};
use crate::support::{Setup, eventually, h2};

#[test]
fn a_dead_kept_connection_is_replaced_for_what_is_safe() {
    // The first request of each connection is answered, and the second one read and dropped.
    let upstream = Upstream::start(|peer| {
        peer.request()?;
        peer.answer(format!("connection {}", peer.number))?;
        peer.request().map(drop)
    });
    let server = start(&upstream, "");
    let mut client = server.connect();
    for number in 0..5 {
        assert_eq!(client.get("/x").text(), format!("connection {number}"));
    }
    assert_eq!((server.total("upstream_retries"), server.total("upstream_failures")), (4, 0));
    // A POST may have been acted on.
    assert_eq!(client.post("/x", b"body").status, 502);
    assert_eq!((upstream.connections(), upstream.requests()), (5, 10));
    // With a new connection it is as good as any.
    assert_eq!(server.connect().post("/x", b"body").text(), "connection 5");
    server.stop();
}

#[test]
fn a_connection_that_was_closed_while_idle_is_not_used() {
    let upstream = Upstream::start(|peer| {
        peer.request()?;
        peer.answer("once")
    });
    let server = start(&upstream, "");
    let mut client = server.connect();
    for done in 1..=5 {
        assert_eq!(client.post("/x", b"body").text(), "once");
        eventually("the server has closed", || upstream.open() == 0 && upstream.connections() == done);
    }
    assert_eq!(server.total("upstream_failures"), 0);
    server.stop();
}

#[test]
fn nobody_there_is_502() {
    let (_socket, address) = nowhere();
    let setup = Setup::with_files()
        .route("/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = \"http://{address}\"\n"));
    let server = setup.start();
    for _ in 0..3 {
        assert_eq!(server.connect().get("/x").status, 502);
        assert_eq!(server.connect().post("/x", &[b'x'; 100_000]).status, 502);
    }
    assert!(server.total("upstream_failures") >= 6);
    assert_eq!(server.stop().access.len(), 6);
}

#[test]
fn silence_is_504_and_a_broken_response_is_cut() {
    let upstream = Upstream::start(|peer| {
        let asked = peer.request()?;
        match asked.target() {
            "/silent" => {}
            "/stops" => peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst")?,
            "/half-a-head" => peer.send("HTTP/1.1 200 OK\r\nContent-Le")?,
            _ => return Ok(()),
        }
        peer.wait_for_end()
    });
    // Long enough that a slow machine has begun with `/stops` by then.
    let server = start(&upstream, "request_timeout = \"2s\"");
    std::thread::scope(|scope| {
        let server = &server;
        for target in ["/silent", "/half-a-head"] {
            scope.spawn(move || assert_eq!(server.connect().get(target).status, 504, "{target}"));
            scope.spawn(move || assert_eq!(server.connect().post(target, b"x").status, 504, "{target}"));
        }
    });
    let mut client = server.connect();
    client.send("GET /stops HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.head().unwrap().need("content-length"), "10");
    assert_eq!(client.exactly(5).unwrap(), b"first");
    assert!(client.exactly(1).is_err());
    eventually("all its connections are closed", || upstream.open() == 0);
    let stopped = server.stop();
    let statuses: Vec<_> = stopped.access.iter().map(|line| line.split(' ').nth(8).unwrap()).collect();
    assert_eq!(statuses, ["504", "504", "504", "504", "598"]);
}

#[test]
fn garbage_is_502_and_half_a_response_is_cut() {
    let upstream = Upstream::start(|peer| {
        let asked = peer.request()?;
        match asked.target() {
            "/garbage" => peer.send("SSH-2.0-OpenSSH\r\n"),
            "/framing" => peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx"),
            "/switch" => peer.send("HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n"),
            "/half-a-head" => peer.send("HTTP/1.1 200 OK\r\nContent-Le"),
            "/half" => peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"),
            "/half-chunk" => peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nhalf"),
            _ => Ok(()),
        }
    });
    let server = start(&upstream, "");
    for target in ["/garbage", "/framing", "/switch", "/half-a-head", "/nothing"] {
        assert_eq!(server.connect().get(target).status, 502, "{target}");
    }
    for target in ["/half", "/half-chunk"] {
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        assert!(client.try_response("GET").is_err(), "{target}");
    }
    server.stop();
}

#[test]
fn an_answer_before_the_whole_request_is_passed_on() {
    // The server behind reads the head only, answers, and closes with most of the body unread.
    let upstream = Upstream::start(|peer| {
        peer.piece()?;
        peer.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nno\n")?;
        peer.finish()?;
        peer.wait_for_end()
    });
    let server = setup(&[&upstream], "").limit("body_bytes_max = \"20MiB\"").start();
    for _ in 0..3 {
        let response = server.connect().post("/x", &vec![b'x'; 10_000_000]);
        assert_eq!((response.status, response.text()), (413, "no\n"));
    }
    server.stop();
}

#[test]
fn a_client_that_goes_away_takes_its_connection_with_it() {
    let (sender, ended) = channel();
    let upstream = Upstream::start(move |peer| {
        let asked = peer.request()?;
        match asked.target() {
            "/begun" => {
                peer.send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")?;
                while peer.send([b'x'; 65536]).is_ok() {}
            }
            // Events, of which none comes any more: nothing that is sent meets a client that has gone.
            "/events" => {
                peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nevent\r\n")?;
                peer.wait_for_end()?;
            }
            _ => peer.wait_for_end()?,
        }
        sender.send(()).unwrap();
        Ok(())
    });
    // A silent server is not what ends it.
    let server = start(&upstream, "request_timeout = \"1h\"");
    for (target, number) in [("/waiting", 1), ("/begun", 2), ("/events", 3)] {
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        eventually("the request is there", || upstream.requests() == number);
        assert_eq!((upstream.connections(), upstream.open()), (number, 1));
        if target == "/events" {
            client.head().unwrap();
            assert_eq!(client.exactly(10).unwrap(), b"5\r\nevent\r\n");
        }
        drop(client);
        ended.recv_timeout(crate::support::TIMEOUT).unwrap();
        eventually("it is closed", || upstream.open() == 0);
    }
    let stopped = server.stop();
    assert!(stopped.access.iter().all(|line| line.contains("\" 499 ")), "{:?}", stopped.access);
    assert_eq!(stopped.access.len(), 3);
}

#[test]
fn a_response_that_its_server_breaks_off_is_no_fault_of_the_client() {
    let upstream = Upstream::start(|peer| {
        let broken: &[u8] = match peer.request()?.target() {
            "/short" => b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789",
            "/chunked" => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n",
            _ => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\nno number\r\n",
        };
        peer.send(broken)
    });
    let server = start(&upstream, "");
    for target in ["/short", "/chunked", "/wrong"] {
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        assert!(client.try_response("GET").is_err(), "{target}: it is not whole");
        let mut client = h2::Connection::new(server.address);
        let id = client.request("GET", target, &[], true);
        assert!(client.try_response(id).is_err(), "{target}: it is not whole");
    }
    assert_eq!(server.total("client_aborts"), 0);
    let stopped = server.terminate(Signal::TERM);
    assert_eq!(stopped.access.len(), 6);
    assert!(stopped.access.iter().all(|line| line.contains("\" 502 ")), "{:?}", stopped.access);
}

#[test]
fn a_client_that_only_stops_sending_gets_its_answer() {
    let upstream = Upstream::start(|peer| match peer.request()?.target() {
        "/large" => peer.answer(vec![b'x'; 3_000_000]),
        _ => peer.answer("answer"),
    });
    let server = start(&upstream, "");
    for (target, bytes) in [("/small", 6), ("/large", 3_000_000)] {
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        client.finish_sending();
        assert_eq!(client.response("GET").body.len(), bytes);
    }
    server.stop();
}

#[test]
fn no_descriptor_is_left_behind() {
    let upstream = Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            match asked.target() {
                "/drop" => return Ok(()),
                "/cut" => return peer.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"),
                _ => peer.answer(&asked.body)?,
            }
        }
    });
    let server = start(&upstream, "");
    let tour = || {
        for target in ["/drop", "/cut", "/fine"] {
            let _ = server.connect().try_send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
            let mut client = server.connect();
            client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
            let _ = client.try_response("GET");
            assert_eq!(server.connect().post("/echo", &[b'x'; 300_000]).status, 200);
        }
    };
    tour();
    eventually("one connection is left", || upstream.open() <= 2);
    let before = descriptors(server.worker());
    (0..10).for_each(|_| tour());
    eventually("as many as before", || descriptors(server.worker()) <= before + 1);
    server.stop();
}

#[test]
fn a_reload_loses_nothing() {
    let upstream = Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            peer.answer(&asked.body)?;
        }
    });
    let server = start(&upstream, "");
    let over = AtomicBool::new(false);
    let asked = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = server.connect();
                    let mut number = 0;
                    // Bounded, for when another thread fails.
                    while number < 50_000 && !over.load(SeqCst) {
                        let body = vec![b'x'; 100 + number % 400];
                        assert!(client.post("/echo", &body).body == body);
                        number += 1;
                    }
                    number
                })
            })
            .collect();
        for worker in 2..5 {
            server.signal(Signal::HUP);
            // A signal that came while the server stops would be refused.
            server.wait_for(&format!("worker process {worker} has taken over"));
            let requests = upstream.requests();
            eventually("work goes on", || upstream.requests() > requests + 50);
        }
        over.store(true, SeqCst);
        clients.into_iter().map(|client| client.join().unwrap()).sum::<usize>()
    });
    assert_eq!(server.stop().access.len(), asked);
}

/// The site's pages stand for whatever is wrong with a server; what a server answers itself stays as it is.
#[test]
fn failing_servers_have_the_page_of_the_site() {
    let upstream = Upstream::start(|peer| {
        let asked = peer.request()?;
        match asked.target() {
            "/silent" => peer.wait_for_end(),
            "/garbage" => peer.send("SSH-2.0-OpenSSH\r\n"),
            "/own" => peer.send("HTTP/1.1 502 Mine\r\nContent-Length: 4\r\n\r\nmine"),
            _ => Ok(()),
        }
    });
    let (_socket, nowhere) = nowhere();
    let server = setup(&[&upstream], "request_timeout = \"1s\"")
        .file("502.html", b"<p>bad</p>")
        .file("504.html", &[b'x'; 200_000])
        .file("413.html", b"<p>long</p>")
        .site("error_pages = { 502 = \"/502.html\", 504 = \"/504.html\", 413 = \"/413.html\" }")
        .limit("body_bytes_max = 1000")
        .table("[[site]]\nhosts = [\"down.test\"]\nroot = \"root\"\nerror_pages = { 502 = \"/502.html\" }\n")
        .route("/*", "pool = \"down\"")
        .table(&format!("[pool.down]\nconnect = \"http://{nowhere}\"\n"))
        .start();
    let get = |target: &str| server.connect().get(target);
    for target in ["/garbage", "/nothing"] {
        let response = get(target);
        assert_eq!((response.status, response.text()), (502, "<p>bad</p>"), "{target}");
        assert_eq!(response.need("content-type"), "text/html; charset=utf-8");
    }
    let late = get("/silent");
    assert_eq!((late.status, late.body.len()), (504, 200_000));
    let long = server.connect().post("/x", &[b'x'; 2000]);
    assert_eq!((long.status, long.text()), (413, "<p>long</p>"));
    let own = get("/own");
    assert_eq!((own.status, own.text()), (502, "mine"));
    for (method, text) in [("GET", "<p>bad</p>"), ("POST", "<p>bad</p>"), ("HEAD", "")] {
        let request = format!("{method} /x HTTP/1.1\r\nHost: down.test\r\nContent-Length: 0\r\n\r\n");
        let response = server.connect().ask(request);
        assert_eq!((response.status, response.text()), (502, text), "{method}");
        assert_eq!(response.need("content-length"), "10", "{method}");
    }
    server.stop();
}

#[test]
fn a_server_on_a_unix_socket_is_called_by_its_path_in_the_log() {
    let server = Setup::with_files()
        .route("/*", "pool = \"app\"")
        .table("[pool.app]\nconnect = \"http+unix:/nowhere/app.sock\"\n")
        .start();
    assert_eq!(server.connect().get("/x").status, 502);
    server
        .wait_for_line(|line| line.contains("a server failed") && line.contains("server=/nowhere/app.sock"));
    server.stop();
}
