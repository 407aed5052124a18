//! `retry` of a pool: what is sent to another server, how often, and what the client gets otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::proxy::setup;
use crate::support::framed::{self, field, head};
use crate::support::h2::frame;
use crate::support::upstream::Upstream;
use crate::support::{Server, Setup};

/// Answers each request with this status, and the same text.
fn answering(status: &'static str) -> Upstream {
    Upstream::start(move |peer| {
        loop {
            peer.request()?;
            let bytes = status.len();
            peer.send(format!(
                "HTTP/1.1 {status}\r\nX-From: here\r\nContent-Length: {bytes}\r\n\r\n{status}"
            ))?;
        }
    })
}

fn retries(server: &Server) -> u64 {
    server.total("upstream_retries")
}

#[test]
fn a_status_is_retried_and_the_last_answer_is_the_clients() {
    let (bad, good) = (answering("503 Busy"), answering("200 Fine"));
    let server = setup(&[&bad, &good], "retry = { on = [\"503\"] }").start();
    for _ in 0..6 {
        let response = server.connect().get("/x");
        assert_eq!((response.status, response.text()), (200, "200 Fine"));
    }
    assert!(retries(&server) >= 1 && retries(&server) == bad.requests() as u64);
    server.stop();
    // Where no other server is left, the answer is passed on as it is.
    let other = answering("503 Busy");
    let server = setup(&[&bad, &other], "retry = { on = [\"503\"] }").start();
    let response = server.connect().get("/x");
    assert_eq!((response.status, response.text(), response.need("x-from")), (503, "503 Busy", "here"));
    assert_eq!(retries(&server), 1);
    server.stop();
}

#[test]
fn only_named_methods_and_statuses_are_retried() {
    let (bad, good) = (answering("503 Busy"), answering("200 Fine"));
    let other = answering("502 Bad");
    let server = setup(&[&bad, &other], "retry = { on = [\"500\"] }").start();
    assert!([502, 503].contains(&server.connect().get("/x").status));
    assert_eq!(retries(&server), 0);
    server.stop();
    let server = setup(&[&bad, &good], "retry = { on = [\"503\"] }").start();
    let statuses: Vec<u16> = (0..8).map(|_| server.connect().post("/x", b"body").status).collect();
    assert!(statuses.contains(&503), "a POST may have been acted on: {statuses:?}");
    assert_eq!(retries(&server), 0);
    server.stop();
    let server = setup(&[&bad, &good], "retry = { on = [\"503\"], methods = [\"POST\"] }").start();
    for body in [&b"body"[..], &[b'x'; 300_000]] {
        for _ in 0..4 {
            assert_eq!(server.connect().post("/x", body).status, 200, "{} bytes", body.len());
        }
    }
    server.stop();
}

#[test]
fn attempts_are_counted() {
    let gone: Vec<Upstream> = (0..4).map(|_| Upstream::start(|peer| peer.request().map(drop))).collect();
    let all: Vec<&Upstream> = gone.iter().collect();
    let asked = || gone.iter().map(Upstream::requests).sum::<usize>();
    for (attempts, before) in [(1, 0), (3, 1)] {
        let server = setup(&all, &format!("retry = {{ attempts = {attempts} }}")).start();
        assert_eq!(server.connect().get("/x").status, 502);
        assert_eq!(asked(), before + attempts);
        server.stop();
    }
}

#[test]
fn what_is_not_named_is_not_retried() {
    let gone: Vec<Upstream> = (0..2).map(|_| Upstream::start(|peer| peer.request().map(drop))).collect();
    let all: Vec<&Upstream> = gone.iter().collect();
    let server = setup(&all, "retry = { on = [\"unreachable\"] }").start();
    assert_eq!(server.connect().get("/x").status, 502);
    assert_eq!((retries(&server), gone[0].requests() + gone[1].requests()), (0, 1));
    server.stop();
}

#[test]
fn a_silent_server_is_left_for_another_one() {
    let silent = Upstream::start(|peer| {
        peer.request()?;
        peer.wait_for_end()
    });
    let good = answering("200 Fine");
    let keys = "retry = { on = [\"timeout\"], per_try_timeout = \"300ms\" }\nrequest_timeout = \"60s\"";
    let server = setup(&[&silent, &good], keys).start();
    while silent.requests() == 0 {
        assert_eq!(server.connect().get("/x").text(), "200 Fine");
    }
    assert_eq!(retries(&server), 1);
    assert!(server.stop().access.iter().all(|line| line.split(' ').nth(8) == Some("200")));
    let server = setup(&[&silent], keys).start();
    assert_eq!(server.connect().get("/x").status, 504, "there is no other one");
    server.stop();
}

#[test]
fn a_pool_that_fails_gets_no_more_than_its_budget() {
    let failing = Arc::new(AtomicBool::new(true));
    let serve = |failing: Arc<AtomicBool>| {
        Upstream::start(move |peer| {
            loop {
                peer.request()?;
                let status = if failing.load(SeqCst) { "503 Busy" } else { "200 Fine" };
                peer.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"))?;
            }
        })
    };
    let all = [serve(failing.clone()), serve(failing.clone())];
    let server = setup(&[&all[0], &all[1]], "retry = { on = [\"503\"], budget_percent = 0 }").start();
    assert_eq!((server.connect().get("/x").status, retries(&server)), (503, 0));
    server.stop();
    let gone: Vec<Upstream> = (0..2).map(|_| Upstream::start(|peer| peer.request().map(drop))).collect();
    let server = setup(&[&gone[0], &gone[1]], "retry = { budget_percent = 0 }").start();
    assert_eq!(server.connect().get("/x").status, 502);
    assert_eq!((retries(&server), server.total("upstream_retries_refused")), (0, 1));
    server.stop();
    let server = setup(&[&all[0], &all[1]], "retry = { on = [\"503\"], budget_percent = 10 }").start();
    let mut client = server.connect();
    for _ in 0..60 {
        assert_eq!(client.get("/x").status, 503);
    }
    // 10 in any case, and a tenth of 60.
    assert!((10..=16).contains(&retries(&server)), "{}", retries(&server));
    failing.store(false, SeqCst);
    assert_eq!(client.get("/x").status, 200);
    server.stop();
}

#[test]
fn a_status_is_retried_in_every_dialect_and_for_every_client() {
    let busy = framed::start(&[], |far| {
        loop {
            let (id, _, _) = far.request()?;
            far.send([head(id, &[(":status", "503")], false), frame::data(id, b"busy", true)].concat())?;
        }
    });
    let good = framed::start(&[], |far| {
        loop {
            let (id, fields, _) = far.request()?;
            far.answer(id, field(&fields, ":path").unwrap())?;
        }
    });
    let connect = format!("\"{}\", \"{}\"", framed::name(&busy), framed::name(&good));
    let pool = format!("[pool.app]\nconnect = [{connect}]\nretry = {{ on = [\"503\"] }}\n");
    let server = Setup::with_files().route("/*", "pool = \"app\"").table(&pool).start();
    let mut client = server.connect();
    for number in 0..6 {
        assert_eq!(client.get(&format!("/{number}")).text(), format!("/{number}"));
    }
    assert!(retries(&server) >= 1);
    server.stop();
}

#[test]
fn a_body_that_has_gone_on_is_not_sent_twice() {
    let (bad, other) = (answering("503 Busy"), answering("503 Busy"));
    let pool = format!(
        "[pool.app]\nconnect = [\"{}\", \"{}\"]\nretry = {{ on = [\"503\"], methods = [\"POST\"] }}\n",
        bad.name(),
        other.name()
    );
    let route = "pool = \"app\"\nrequest_buffering = \"off\"";
    let server = Setup::with_files().route("/*", route).table(&pool).start();
    assert_eq!(server.connect().post("/x", &vec![b'x'; 3_000_000]).status, 503);
    assert_eq!((retries(&server), bad.requests() + other.requests()), (0, 1));
    // A body that came with its head is still whole.
    assert_eq!(server.connect().post("/x", b"body").status, 503);
    assert_eq!(retries(&server), 1);
    server.stop();
}

#[test]
fn a_server_whose_answers_are_retried_is_ejected_for_them() {
    let (bad, good) = (answering("500 Oops"), [answering("200 Fine"), answering("200 Fine")]);
    let lines = "retry = { on = [\"500\"] }\noutliers = { errors = 2 }";
    let server = setup(&[&bad, &good[0], &good[1]], lines).start();
    let mut client = server.connect();
    for _ in 0..30 {
        assert_eq!(client.get("/x").status, 200);
    }
    assert_eq!((bad.requests(), retries(&server)), (2, 2));
    server.wait_for("a server is ejected");
    server.stop();
}
