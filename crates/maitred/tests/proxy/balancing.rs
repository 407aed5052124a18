//! Several servers of one pool.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::setup;
use crate::support::eventually;
use crate::upstream::{Peer, Upstream};

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
    // One of them is busy now.
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
