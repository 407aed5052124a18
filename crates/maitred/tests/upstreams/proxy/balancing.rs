//! Several servers of one pool.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::proxy::setup;
use crate::support::upstream::{Peer, Upstream};
use crate::support::{Server, Setup, eventually};

fn say(text: &'static str) -> impl Fn(&mut Peer) -> std::io::Result<()> + Send + Sync + 'static {
    move |peer| {
        loop {
            peer.request()?;
            peer.answer(text)?;
        }
    }
}

/// How often a server that goes on failing may have been tried again: one second after it was taken out, then after two
/// more, after four more. On a machine that is slow some requests come as late as that.
fn trials_in(time: Duration) -> u64 {
    u64::from((time.as_secs() + 1).ilog2())
}

#[test]
fn the_server_with_the_fewest_requests_gets_the_next() {
    let (release, gate) = channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let slow = Upstream::start(move |peer| {
        loop {
            let asked = peer.request()?;
            if asked.target() == "/wait" {
                gate.lock().unwrap().recv().unwrap();
            }
            peer.answer("slow")?;
        }
    });
    let quick = Upstream::start(say("quick"));
    let server = setup(&[&slow, &quick], "").start();
    let mut waiting = server.connect();
    // Of two that have none, they take turns.
    let mut client = server.connect();
    let mut seen: Vec<_> = (0..4).map(|_| client.get("/x").text().to_owned()).collect();
    seen.sort();
    assert_eq!(seen, ["quick", "quick", "slow", "slow"]);
    for asked in 5.. {
        waiting.send("GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
        eventually("it is there", || slow.requests() + quick.requests() == asked);
        if slow.requests() == 3 {
            break;
        }
        assert_eq!(waiting.response("GET").text(), "quick");
    }
    // One of the servers is busy now.
    assert!((0..10).all(|_| client.get("/x").text() == "quick"));
    release.send(()).unwrap();
    assert_eq!(waiting.response("GET").text(), "slow");
    server.stop();
}

#[test]
fn a_dead_server_is_left_out_and_comes_back() {
    let gone = Upstream::start(say("gone"));
    let here = Upstream::start(say("here"));
    let server = setup(&[&gone, &here], "").start();
    let mut client = server.connect();
    let address = gone.address();
    drop(gone);
    eventually("there is no listener", || std::net::TcpStream::connect(address).is_err());
    // No client notices, whatever is asked.
    let began = Instant::now();
    for number in 0..20 {
        let response = if number % 2 == 0 { client.get("/x") } else { client.post("/x", b"body") };
        assert_eq!((response.status, response.text()), (200, "here"));
    }
    let failures = server.total("upstream_failures");
    assert!((1..=1 + trials_in(began.elapsed())).contains(&failures), "it was asked {failures} times");
    assert_eq!(server.total("upstream_retries"), failures);
    let back = Upstream::on(address, say("back"));
    eventually("it gets requests again", || client.get("/x").text() == "back");
    let answers: Vec<_> = (0..10).map(|_| client.get("/x").text().to_owned()).collect();
    assert_eq!(answers.iter().filter(|text| *text == "back").count(), 5);
    assert!(back.requests() > 5);
    server.stop();
}

#[test]
fn what_one_server_breaks_off_another_one_answers_if_it_is_safe() {
    let bad = Upstream::start(|peer| peer.request().map(drop));
    let good = Upstream::start(say("good"));
    let server = setup(&[&bad, &good], "").start();
    let mut client = server.connect();
    let began = Instant::now();
    assert!((0..10).all(|_| client.get("/x").text() == "good"));
    let asked = bad.requests() as u64;
    assert!(
        (3..=3 + trials_in(began.elapsed())).contains(&asked),
        "it was asked {asked} times, and not left out"
    );
    assert_eq!(server.total("upstream_retries"), asked);
    server.stop();
}

/// Which of these servers answer, of so many requests.
fn shares(server: &Server, clients: usize, target: impl Fn(usize) -> String) -> BTreeMap<String, usize> {
    let mut client = server.connect();
    let mut seen = BTreeMap::new();
    for number in 0..clients {
        *seen.entry(client.get(&target(number)).text().to_owned()).or_default() += 1;
    }
    seen
}

#[test]
fn requests_are_shared_by_weight_and_backups_wait() {
    let [one, two, spare] = ["one", "two", "spare"].map(|name| Upstream::start(say(name)));
    let table = |upstream: &Upstream, rest: &str| format!("{{ url = \"{}\", {rest} }}", upstream.name());
    let connect = [table(&one, "weight = 3"), format!("\"{}\"", two.name()), table(&spare, "backup = true")];
    for balance in ["least_requests", "round_robin"] {
        let pool = format!("[pool.app]\nconnect = [{}]\nbalance = \"{balance}\"\n", connect.join(", "));
        let server = Setup::with_files().route("/*", "pool = \"app\"").table(&pool).start();
        let seen = shares(&server, 40, |_| "/x".to_owned());
        assert_eq!(seen, BTreeMap::from([("one".to_owned(), 30), ("two".to_owned(), 10)]), "{balance}");
        server.stop();
    }
    let pool = format!("[pool.app]\nconnect = [{}]\n", connect.join(", "));
    let server = Setup::with_files().route("/*", "pool = \"app\"").table(&pool).start();
    let addresses = [one.address(), two.address()];
    drop((one, two));
    addresses.iter().for_each(|address| {
        eventually("there is no listener", || std::net::TcpStream::connect(address).is_err());
    });
    assert!((0..10).all(|_| server.connect().get("/x").text() == "spare"));
    server.stop();
}

#[test]
fn a_key_leads_to_one_server() {
    let upstreams = ["0", "1", "2", "3"].map(|name| Upstream::start(say(name)));
    let all: Vec<&Upstream> = upstreams.iter().collect();
    let server = setup(&all, "balance = \"hash\"\nhash_key = \"query:user\"").start();
    let once = shares(&server, 40, |number| format!("/{number}?a=b&user={}", number % 20));
    let again = shares(&server, 20, |number| format!("/{number}?user={number}"));
    assert!(once.len() > 2, "{once:?}");
    assert_eq!(once, again.iter().map(|(name, count)| (name.clone(), 2 * count)).collect());
    // Of one key, all requests go to one server.
    assert_eq!(shares(&server, 10, |_| "/?user=7".to_owned()).len(), 1);
    server.stop();
    let server = setup(&all, "balance = \"hash\"").start();
    assert_eq!(shares(&server, 10, |number| format!("/{number}")).len(), 1, "all come from one address");
    server.stop();
}

#[test]
fn a_server_that_answers_with_errors_is_ejected() {
    let bad = Upstream::start(|peer| {
        loop {
            peer.request()?;
            peer.send("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 3\r\n\r\nbad")?;
        }
    });
    let good: Vec<Upstream> = (0..2).map(|_| Upstream::start(say("good"))).collect();
    let server = setup(&[&bad, &good[0], &good[1]], "outliers = { errors = 2 }").start();
    let seen = shares(&server, 30, |_| "/x".to_owned());
    assert_eq!(seen.get("bad"), Some(&2), "{seen:?}");
    server.stop();
}

#[test]
fn servers_come_and_go_while_requests_are_under_way() {
    let upstreams: Vec<Upstream> = (0..4).map(|_| Upstream::start(say("ok"))).collect();
    let server = setup(&[&upstreams[0]], "").start();
    let (begun, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..3)
        .map(|_| {
            let (mut client, begun, over) = (server.connect(), begun.clone(), over.clone());
            std::thread::spawn(move || {
                while !over.load(SeqCst) {
                    begun.fetch_add(1, SeqCst);
                    let response = client.get("/x");
                    assert_eq!((response.status, response.text()), (200, "ok"));
                }
            })
        })
        .collect();
    for round in 0..40 {
        let upstream = &upstreams[1 + round % 3];
        let one = upstream.address();
        let told = |action: &str| {
            let target = format!("/upstreams/app/{action}?address={one}");
            let answer = server.admin(&format!("POST {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            assert_eq!(answer.status, 200, "{target}: {}", answer.text());
        };
        told("add");
        let before = (begun.load(SeqCst), upstream.requests());
        eventually("it gets requests, and others go on", || {
            begun.load(SeqCst) > before.0 + 5 && upstream.requests() > before.1
        });
        told(if round % 2 == 0 { "remove" } else { "drain" });
    }
    over.store(true, SeqCst);
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert_eq!(server.total("upstream_failures"), 0);
    server.stop();
}
