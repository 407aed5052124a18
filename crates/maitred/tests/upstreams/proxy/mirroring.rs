//! Copies of requests for another pool.

use std::sync::{Arc, Mutex};

use crate::support::upstream::{Asked, Upstream};
use crate::support::{Server, Setup, eventually};

/// A server that notes what it is asked, and answers nothing.
fn silent(seen: &Arc<Mutex<Vec<Asked>>>) -> Upstream {
    let seen = seen.clone();
    Upstream::start(move |peer| {
        let asked = peer.request()?;
        seen.lock().unwrap().push(asked);
        peer.wait_for_end()
    })
}

fn answering() -> Upstream {
    Upstream::start(|peer| {
        loop {
            peer.request()?;
            peer.answer("app")?;
        }
    })
}

fn start(app: &Upstream, next: &Upstream, mirror: &str) -> Server {
    Setup::with_files()
        .site(&format!("mirror = {{ pool = \"next\", {mirror} }}"))
        .route("/app/*", "pool = \"app\"")
        .route("/off/*", "pool = \"app\"\nmirror = \"off\"")
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", app.name()))
        .table(&format!("[pool.next]\nconnect = \"{}\"\n", next.name()))
        .start()
}

fn counts(server: &Server) -> (u64, u64) {
    (server.total("mirrored"), server.total("mirrors_left_out"))
}

#[test]
fn a_copy_has_what_the_request_has_and_no_request_waits_for_it() {
    let seen = Arc::default();
    let (app, next) = (answering(), silent(&seen));
    let server = start(&app, &next, "concurrent = 100");
    let mut client = server.connect();
    let request = "PUT /app/x?q=1 HTTP/1.1\r\nHost: shop.example\r\nX-A: 1\r\nCookie: a=b\r\nContent-Length: 5\r\n\r\nhello";
    assert_eq!(client.ask(request).text(), "app");
    let chunked = "POST /app/y HTTP/1.1\r\nHost: shop.example\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    assert_eq!(client.ask(chunked).text(), "app");
    assert_eq!(client.get("/app/z").text(), "app");
    assert_eq!(client.get("/off/x").text(), "app");
    assert_eq!(client.get("/a.txt").status, 200, "files have no copies");
    eventually("the copies are there", || seen.lock().unwrap().len() == 3);
    {
        let mut seen = seen.lock().unwrap();
        seen.sort_by_key(|asked| asked.target().to_owned());
        let targets: Vec<&str> = seen.iter().map(Asked::target).collect();
        assert_eq!(targets, ["/app/x?q=1", "/app/y", "/app/z"]);
        let first = &seen[0];
        assert!(first.line.starts_with("PUT "), "{first:?}");
        for (name, value) in
            [("host", "shop.example"), ("x-a", "1"), ("cookie", "a=b"), ("x-forwarded-for", "127.0.0.1")]
        {
            assert_eq!(first.field(name), Some(value), "{first:?}");
        }
        assert_eq!(
            (first.body.as_slice(), seen[1].body.as_slice()),
            (b"hello".as_slice(), b"hello".as_slice())
        );
        assert_eq!(seen[2].field("content-length"), None);
    }
    assert_eq!(counts(&server), (3, 0));
    assert_eq!(app.requests(), 4);
    server.terminate(rustix::process::Signal::INT);
}

#[test]
fn copies_are_bounded_and_chosen() {
    let seen = Arc::default();
    let (app, next) = (answering(), silent(&seen));
    let server = start(&app, &next, "concurrent = 2");
    let mut client = server.connect();
    (0..5).for_each(|_| assert_eq!(client.get("/app/x").text(), "app"));
    assert_eq!(counts(&server), (2, 3), "nothing is answered");
    let long = vec![b'x'; 200_000];
    assert_eq!(client.post("/app/x", &long).text(), "app");
    assert_eq!(counts(&server), (2, 4));
    server.terminate(rustix::process::Signal::INT);
    let server = start(&app, &next, "share = \"0%\"");
    (0..20).for_each(|_| assert_eq!(server.connect().get("/app/x").text(), "app"));
    assert_eq!(counts(&server), (0, 0));
    server.stop();
}

#[test]
fn what_is_answered_to_a_copy_is_dropped() {
    // One answers at length, one with rubbish, and one is not there.
    let long = Upstream::start(|peer| {
        loop {
            peer.request()?;
            peer.answer(vec![b'x'; 1 << 20])?;
        }
    });
    let wrong = Upstream::start(|peer| {
        peer.request()?;
        peer.send("rubbish\r\n\r\n")
    });
    let app = answering();
    for next in [&long, &wrong] {
        let server = start(&app, next, "concurrent = 1");
        let mut client = server.connect();
        for round in 1..5 {
            assert_eq!(client.get("/app/x").text(), "app");
            // Each request makes room for the next one.
            eventually("it has its copy", || {
                assert_eq!(client.get("/app/x").text(), "app");
                counts(&server).0 > round
            });
        }
        assert!(server.terminate(rustix::process::Signal::TERM).status.success());
    }
}

#[test]
fn applications_get_and_have_copies() {
    let server = Setup::with_files()
        .site("mirror = { pool = \"next\" }")
        .pool("app", None, "workers = 1")
        .pool("next", None, "workers = 1")
        .start();
    let mut client = server.connect();
    (0..3).for_each(|_| assert_eq!(client.get("/app/hello").status, 200));
    let requests = |name: &str| {
        let status = server.status();
        let pools = status["pools"].as_array().unwrap();
        let pool = pools.iter().find(|pool| pool["name"] == name).unwrap();
        pool["slots"].as_array().unwrap().iter().filter_map(|slot| slot["requests"].as_u64()).sum::<u64>()
    };
    eventually("both have served them", || (requests("app"), requests("next")) == (3, 3));
    assert_eq!(counts(&server), (3, 0));
    assert_eq!(
        server.stop().access.iter().filter(|line| line.contains("/app/hello")).count(),
        3,
        "copies are not logged"
    );
}
