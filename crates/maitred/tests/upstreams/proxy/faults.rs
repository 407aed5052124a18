//! Faults that are injected: delays, and errors beside them.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::h2::Connection;
use crate::support::h2::frame::{code, rst_stream};
use crate::support::upstream::Upstream;
use crate::support::{Server, Setup, eventually};

/// Longer than any test that passes.
const LONG: &str = "delay = \"1min\"";

fn answering() -> Upstream {
    Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            peer.answer(format!("app {}", asked.body.len()))?;
        }
    })
}

fn setup(app: &Upstream, lines: &str) -> Setup {
    Setup::with_files()
        .route("/slow/*", &format!("pool = \"app\"\n{lines}"))
        .route("/fixed", &format!("respond = {{ body = \"fixed\" }}\n{lines}"))
        .route("/closed", &format!("respond = {{ body = \"fixed\" }}\ndeny = [\"@all\"]\n{lines}"))
        .route("/fast/*", "pool = \"app\"\ndelay = 0")
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", app.name()))
}

fn counts(server: &Server) -> (u64, u64) {
    (server.total("delayed"), server.total("delays_left_out"))
}

const GET: &str = "GET /slow/x HTTP/1.1\r\nHost: a.example\r\n\r\n";

#[test]
fn requests_wait_before_they_go_on() {
    let app = answering();
    let time = Duration::from_millis(300);
    let server = setup(&app, "delay = \"300ms\"").start();
    let mut client = server.connect();
    let timed = |ask: &mut dyn FnMut()| {
        let began = Instant::now();
        ask();
        began.elapsed()
    };
    let body = vec![b'x'; 300_000];
    assert!(timed(&mut || assert_eq!(client.get("/slow/x").text(), "app 0")) >= time);
    assert!(timed(&mut || assert_eq!(client.post("/slow/x", b"hello").text(), "app 5")) >= time);
    assert!(timed(&mut || assert_eq!(client.post("/slow/x", &body).text(), "app 300000")) >= time);
    assert!(timed(&mut || assert_eq!(client.get("/fixed").text(), "fixed")) >= time);
    let both = "GET /fast/x HTTP/1.1\r\nHost: a\r\n\r\nGET /fixed HTTP/1.1\r\nHost: a\r\n\r\n";
    client.send(both.repeat(2));
    let waited = timed(&mut || {
        for expected in ["app 0", "fixed", "app 0", "fixed"] {
            assert_eq!(client.response("GET").text(), expected);
        }
    });
    assert!(waited >= time * 2, "{waited:?}");
    assert_eq!(counts(&server), (6, 0));
    assert_eq!(client.get("/closed").status, 403);
    assert_eq!(client.get("/fast/x").text(), "app 0");
    let mut client = Connection::new(server.address_of("http"));
    let waited = timed(&mut || {
        let slow = client.request("GET", "/slow/x", &[], true);
        let upload = client.request("POST", "/slow/x", &[], false);
        client.upload(upload, &body, true);
        let fast = client.request("GET", "/fast/x", &[], true);
        assert_eq!(client.response(fast).text(), "app 0", "streams do not wait for one another");
        assert_eq!(client.response(slow).text(), "app 0");
        assert_eq!(client.response(upload).text(), "app 300000");
    });
    assert!(waited >= time, "{waited:?}");
    assert_eq!((counts(&server), server.total("timeouts")), ((8, 0), 0));
    server.stop();
}

#[test]
fn a_client_that_goes_away_ends_its_delay() {
    let app = answering();
    // The server has room for one: each next request says whether the one before has ended.
    let server = setup(&app, LONG).limit("delayed_requests_max = 1").start();
    let delayed = |number: u64| eventually("it waits", || server.total("delayed") == number);
    let is_free = |number: u64| {
        eventually("there is room again", || {
            let mut other = server.connect();
            other.send(GET);
            let held = || counts(&server).0 > number;
            eventually("it is held or answered", || held() || !other.is_quiet());
            if held() {
                other.reset();
                return true;
            }
            false
        });
    };
    let mut client = server.connect();
    client.send(GET);
    delayed(1);
    client.reset();
    is_free(1);
    // The last client was reset, too; now one that has only finished sending.
    let mut left = server.connect();
    eventually("it waits", || {
        left = server.connect();
        left.send(GET);
        eventually("it is held or answered", || counts(&server).0 == 3 || !left.is_quiet());
        counts(&server).0 == 3
    });
    left.finish_sending();
    is_free(3);
    let mut client = Connection::new(server.address_of("http"));
    let mut stream = 0;
    eventually("it waits", || {
        stream = client.request("GET", "/slow/x", &[], true);
        client.sync();
        counts(&server).0 == 5
    });
    client.send(rst_stream(stream, code::CANCEL));
    client.sync();
    is_free(5);
    server.terminate(Signal::INT);
}

#[test]
fn requests_beyond_the_bound_are_not_delayed() {
    let app = answering();
    let server = setup(&app, LONG).limit("delayed_requests_max = 2").start();
    let mut held: Vec<_> = (0..2).map(|_| server.connect()).collect();
    held.iter_mut().for_each(|client| client.send(GET));
    eventually("two wait", || counts(&server) == (2, 0));
    let mut client = server.connect();
    (1..4).for_each(|number| {
        assert_eq!(client.get("/slow/x").text(), "app 0");
        assert_eq!(counts(&server), (2, number));
    });
    assert!(held.iter().all(|client| client.is_quiet()), "these wait");
    server.terminate(Signal::INT);
}

#[test]
fn a_reload_does_not_end_delays() {
    let app = answering();
    let server = setup(&app, "delay = \"2s\"").start();
    let (mut client, mut other) = (server.connect(), Connection::new(server.address_of("http")));
    client.send(GET);
    let stream = other.request("GET", "/slow/x", &[], true);
    eventually("both wait", || counts(&server) == (2, 0));
    let old = server.worker();
    server.signal(Signal::HUP);
    eventually("another process answers", || server.worker_is_not(old) && server.answering_worker() != old);
    assert_eq!(client.response("GET").text(), "app 0");
    assert_eq!(other.response(stream).text(), "app 0");
    server.stop();
}

#[test]
fn the_example_of_the_manual_fails_and_delays_as_it_says() {
    let manual = include_str!("../../../../../docs/routing.md");
    let section = manual.split("## Fault injection\n").nth(1).unwrap();
    let example = section.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let app = answering();
    let text = example.replace("\":80\"", "\"127.0.0.1:0\"").replace("http://127.0.0.1:3000", app.name());
    assert!(text.contains(app.name()) && text.contains("127.0.0.1:0"));
    let text = format!("[server]\nthreads = 1\nadmin = \"unix:admin.sock\"\nshare_user = true\n{text}");
    let server = Setup::with_files().start_as(&text);
    let (mut failed, mut closed) = (0, 0);
    for number in 0..200 {
        let request = format!(
            "GET /reports/x HTTP/1.1\r\nHost: a\r\nX-Request-Id: {number}\r\nConnection: close\r\n\r\n"
        );
        let mut client = server.connect();
        client.send(request);
        match client.try_response("GET") {
            Ok(response) if response.status == 503 => failed += 1,
            Ok(response) => assert_eq!(response.text(), "app 0"),
            Err(_) => closed += 1,
        }
    }
    assert!((1..16).contains(&failed) && (1..10).contains(&closed), "{failed} {closed}");
    let (delayed, left_out) = counts(&server);
    assert!((5..45).contains(&delayed) && left_out == 0, "{delayed}");
    let began = Instant::now();
    assert_eq!(server.connect().method("GET", "/", "X-Fault-Delay: 3s\r\n").text(), "app 0");
    assert!(began.elapsed() >= Duration::from_secs(3));
    server.stop();
}
