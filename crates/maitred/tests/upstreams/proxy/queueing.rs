//! Servers with `max_connections`, all of which are full: requests wait (`queue`).

use std::io;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::support::framed::{self, field};
use crate::support::upstream::{Peer, Upstream};
use crate::support::{Client, Server, Setup, TIMEOUT, eventually};

/// Servers with these numbers of requests at most.
fn setup(upstreams: &[(&str, u32)], lines: &str) -> Setup {
    let entry = |(name, most): &(&str, u32)| format!("{{ url = \"{name}\", max_connections = {most} }}");
    let entries: Vec<String> = upstreams.iter().map(entry).collect();
    Setup::with_files()
        .server("threads = 2")
        .route("/off", "pool = \"app\"\nrequest_buffering = \"off\"")
        .route("/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = [{}]\n{lines}\n", entries.join(", ")))
}

/// A server that answers each request with its target and its body's length, when the test allows it.
struct Held {
    upstream: Upstream,
    release: Sender<()>,
    /// Targets, in the order in which the server has got them.
    seen: Receiver<String>,
}

fn held() -> Held {
    let (release, gate) = channel();
    let (tell, seen) = channel();
    let (gate, tell) = (Mutex::new(gate), Mutex::new(tell));
    let upstream = Upstream::start(move |peer| {
        loop {
            let asked = peer.request()?;
            tell.lock().unwrap().send(asked.target().to_owned()).unwrap();
            gate.lock().unwrap().recv().map_err(io::Error::other)?;
            peer.answer(format!("{} {}", asked.target(), asked.body.len()))?;
        }
    });
    Held { upstream, release, seen }
}

impl Held {
    fn hears(&self) -> String {
        self.seen.recv_timeout(TIMEOUT).expect("the server gets a request")
    }

    fn answers_next(&self) -> String {
        self.release.send(()).unwrap();
        self.hears()
    }
}

fn queued(server: &Server) -> u64 {
    server.status()["pools"][0]["queued"].as_u64().unwrap()
}

/// A client whose request is one more that waits.
fn waits(server: &Server, request: &str) -> Client {
    let before = queued(server);
    let mut client = server.connect();
    client.send(request);
    eventually("it waits", || queued(server) == before + 1);
    client
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n")
}

/// The first request, which the server has.
fn first(server: &Server, held: &Held) -> Client {
    let mut client = server.connect();
    client.send(get("/first"));
    assert_eq!(held.hears(), "/first");
    client
}

#[test]
fn requests_get_their_places_in_the_order_in_which_they_came() {
    let held = held();
    let server = setup(&[(held.upstream.name(), 1)], "").start();
    let mut clients = vec![first(&server, &held)];
    // The clients' connections belong to both threads.
    for number in 0..8 {
        clients.push(waits(&server, &get(&format!("/{number}"))));
    }
    for (number, client) in clients.iter_mut().enumerate() {
        if number < 8 {
            assert_eq!(held.answers_next(), format!("/{number}"));
        } else {
            held.release.send(()).unwrap();
        }
        let response = client.response("GET");
        assert_eq!(response.status, 200, "{}", response.text());
    }
    assert_eq!((queued(&server), server.total("queue_refused")), (0, 0));
    server.stop();
}

#[test]
fn a_queue_is_bounded_and_so_is_the_wait() {
    let held = held();
    let name = held.upstream.name();
    let server = setup(&[(name, 1)], "queue = { max = 1, timeout = \"1h\" }").start();
    let mut one = first(&server, &held);
    let mut two = waits(&server, &get("/two"));
    let refused = server.connect().get("/three");
    assert_eq!((refused.status, refused.field("retry-after").is_some()), (503, true));
    assert_eq!(server.total("queue_refused"), 1);
    assert_eq!(held.answers_next(), "/two");
    held.release.send(()).unwrap();
    assert_eq!((one.response("GET").status, two.response("GET").status), (200, 200));
    server.stop();

    let server = setup(&[(name, 1)], "queue = { timeout = \"20ms\" }").start();
    let mut one = first(&server, &held);
    let refused = server.connect().get("/late");
    assert_eq!((refused.status, refused.field("retry-after").is_some()), (503, true));
    held.release.send(()).unwrap();
    assert_eq!(one.response("GET").status, 200);
    server.stop();

    let server = setup(&[(name, 1)], "queue = { max = 0 }").start();
    let mut one = first(&server, &held);
    assert_eq!(server.connect().get("/late").status, 503);
    held.release.send(()).unwrap();
    assert_eq!(one.response("GET").status, 200);
    server.stop();
}

#[test]
fn a_client_that_goes_away_leaves_its_place_to_the_next() {
    let held = held();
    let server = setup(&[(held.upstream.name(), 1)], "").start();
    let mut one = first(&server, &held);
    let gone = waits(&server, &get("/gone"));
    let mut two = waits(&server, &get("/two"));
    gone.reset();
    eventually("one waits", || queued(&server) == 1);
    assert_eq!(held.answers_next(), "/two");
    held.release.send(()).unwrap();
    assert_eq!((one.response("GET").status, two.response("GET").status), (200, 200));
    server.stop();
}

#[test]
fn bodies_of_all_kinds_wait() {
    const LONG: usize = 2 << 20;
    let held = held();
    let server = setup(&[(held.upstream.name(), 1)], "").limit("body_bytes_max = 8388608\n").start();
    let mut one = first(&server, &held);
    let head = |target: &str, bytes: usize| {
        format!("POST {target} HTTP/1.1\r\nHost: h\r\nContent-Length: {bytes}\r\n\r\n")
    };
    let short = waits(&server, &format!("{}hello", head("/short", 5)));
    let long = waits(&server, &format!("{}{}", head("/long", LONG), "x".repeat(LONG)));
    let mut passed = waits(&server, &format!("{}begin", head("/off", 10)));
    for (client, target, bytes) in [(short, "/short", 5), (long, "/long", LONG)] {
        assert_eq!(held.answers_next(), target);
        assert_eq!(one.response("GET").status, 200);
        one = client;
        assert!(bytes > 0);
    }
    // The head of the last one goes on at once, and the rest of its body as it comes.
    held.release.send(()).unwrap();
    assert_eq!(one.response("POST").text(), format!("/long {LONG}"));
    passed.send("ended");
    assert_eq!(held.hears(), "/off");
    held.release.send(()).unwrap();
    assert_eq!(passed.response("POST").text(), "/off 10");
    server.stop();
}

#[test]
fn a_server_that_comes_back_takes_those_that_wait() {
    let (held, more) = (
        held(),
        Upstream::start(|peer| {
            loop {
                peer.request()?;
                peer.answer("more")?;
            }
        }),
    );
    let server = setup(&[(held.upstream.name(), 1), (more.name(), 1)], "").start();
    let told = |action: &str| {
        let target = format!("/upstreams/app/{action}?address={}", more.address());
        let answer = server.admin(&format!("POST {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    told("drain");
    let mut one = first(&server, &held);
    let mut waiting: Vec<Client> = (0..4).map(|_| waits(&server, &get("/x"))).collect();
    told("add");
    for client in &mut waiting {
        assert_eq!(client.response("GET").text(), "more");
    }
    held.release.send(()).unwrap();
    assert_eq!(one.response("GET").status, 200);
    server.stop();
}

#[test]
fn streams_of_http_2_wait_as_connections_do() {
    let (release, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    let upstream = framed::start(&[], move |far| {
        loop {
            let (id, fields, _) = far.request()?;
            gate.lock().unwrap().recv().map_err(io::Error::other)?;
            far.answer(id, field(&fields, ":path").unwrap())?;
        }
    });
    let server = setup(&[(&framed::name(&upstream), 1)], "").start();
    let mut one = server.connect();
    one.send(get("/one"));
    eventually("it is there", || server.total("upstream_requests") == 1);
    let mut two = waits(&server, &get("/two"));
    for (client, path) in [(&mut one, "/one"), (&mut two, "/two")] {
        release.send(()).unwrap();
        assert_eq!(client.response("GET").text(), path);
    }
    server.stop();
}

/// A server that counts how many requests it has at a time, and notes the most.
fn counting(most: &Arc<AtomicUsize>, ends: bool) -> Upstream {
    let (now, most) = (AtomicUsize::new(0), Arc::clone(most));
    Upstream::start(move |peer: &mut Peer| {
        loop {
            peer.request()?;
            most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
            std::thread::yield_now();
            now.fetch_sub(1, SeqCst);
            peer.answer("ok")?;
            if ends {
                return Ok(());
            }
        }
    })
}

#[test]
fn all_of_many_requests_are_answered_and_no_server_gets_too_many() {
    for ends in [false, true] {
        let counts: Vec<Arc<AtomicUsize>> = (0..3).map(|_| Arc::default()).collect();
        let upstreams: Vec<Upstream> = counts.iter().map(|most| counting(most, ends)).collect();
        let names: Vec<String> = upstreams.iter().map(Upstream::name).map(str::to_owned).collect();
        let bounded: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), 2)).collect();
        let server = setup(&bounded, "queue = { timeout = \"1h\" }").start();
        let clients: Vec<_> = (0..16)
            .map(|_| {
                let mut client = server.connect();
                std::thread::spawn(move || {
                    for _ in 0..40 {
                        let response = client.get("/x");
                        assert_eq!((response.status, response.text()), (200, "ok"));
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        assert_eq!(queued(&server), 0);
        for most in &counts {
            let most = most.load(SeqCst);
            assert!((1..=2).contains(&most), "{most} at a time");
        }
        server.stop();
    }
}
