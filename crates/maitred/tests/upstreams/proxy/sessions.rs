//! `sticky` of a pool of servers: a cookie leads each client back to its server.

use std::collections::BTreeSet;

use crate::proxy::setup;
use crate::support::upstream::{Peer, Upstream};
use crate::support::{Client, Server, eventually};

fn say(text: &'static str) -> impl Fn(&mut Peer) -> std::io::Result<()> + Send + Sync + 'static {
    move |peer| {
        loop {
            peer.request()?;
            peer.answer(text)?;
        }
    }
}

const STICKY: &str = "sticky = { cookie = \"to\", secret = \"0123456789abcdef\" }";

/// Who answers a client with this cookie, and the `Set-Cookie` that comes along.
fn ask(client: &mut Client, cookie: &str, rest: &str) -> (String, Option<String>) {
    let cookie = if cookie.is_empty() { String::new() } else { format!("Cookie: a=b; {cookie}\r\n") };
    let response = client.method("GET", "/x", &format!("{cookie}{rest}"));
    assert_eq!(response.status, 200);
    (response.text().to_owned(), response.field("set-cookie").map(str::to_owned))
}

/// A client's first request: who answers, and the cookie as it is sent back.
fn first(server: &Server) -> (String, String) {
    let (name, set) = ask(&mut server.connect(), "", "");
    let set = set.expect("a cookie");
    let (pair, attributes) = set.split_once("; ").unwrap();
    assert_eq!(attributes, "Path=/; HttpOnly; SameSite=Lax");
    (name, pair.to_owned())
}

fn told(server: &Server, action: &str, upstream: &Upstream) {
    let target = format!("/upstreams/app/{action}?address={}", upstream.address());
    let answer = server.admin(&format!("POST {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn a_client_comes_back_to_its_server() {
    let upstreams = ["one", "two", "three"].map(|name| Upstream::start(say(name)));
    let all: Vec<&Upstream> = upstreams.iter().collect();
    let server = setup(&all, STICKY).start();
    let clients: BTreeSet<(String, String)> = (0..12).map(|_| first(&server)).collect();
    assert_eq!(clients.len(), 3, "one cookie for each server: {clients:?}");
    for (name, pair) in &clients {
        let value = pair.strip_prefix("to=").unwrap();
        assert!(value.len() == 16 && value.bytes().all(|byte| byte.is_ascii_hexdigit()), "{value}");
        for _ in 0..6 {
            assert_eq!(ask(&mut server.connect(), pair, ""), (name.clone(), None));
        }
    }
    // What is not of its making is as no cookie.
    for other in ["to=", "to=0000000000000000", "to=127.0.0.1", "tot=x"] {
        let (name, set) = ask(&mut server.connect(), other, "");
        let set = set.unwrap();
        assert!(clients.iter().any(|(known, pair)| *known == name && set.starts_with(pair.as_str())));
    }
    server.stop();
    // Another process, and another machine with the same secret, know them.
    let server = setup(&all, STICKY).start();
    for (name, pair) in &clients {
        assert_eq!(ask(&mut server.connect(), pair, ""), (name.clone(), None));
    }
    server.stop();
    let other = STICKY.replace("abcdef", "ghijkl");
    let server = setup(&all, &other).start();
    assert!(clients.iter().all(|(_, pair)| ask(&mut server.connect(), pair, "").1.is_some()));
    server.stop();
}

#[test]
fn a_server_that_drains_keeps_its_clients_and_one_that_goes_does_not() {
    let [one, two] = ["one", "two"].map(|name| Upstream::start(say(name)));
    let server = setup(&[&one, &two], STICKY).start();
    let mut found = (String::new(), String::new());
    eventually("a client of the first", || {
        found = first(&server);
        found.0 == "one"
    });
    let pair = found.1;
    told(&server, "drain", &one);
    for _ in 0..6 {
        assert_eq!(ask(&mut server.connect(), &pair, ""), ("one".to_owned(), None));
        assert_eq!(first(&server).0, "two", "new clients");
    }
    told(&server, "remove", &one);
    let (name, set) = ask(&mut server.connect(), &pair, "");
    assert_eq!(name, "two");
    let again = set.unwrap().split_once("; ").unwrap().0.to_owned();
    assert_eq!(ask(&mut server.connect(), &again, ""), ("two".to_owned(), None));
    server.stop();
}

#[test]
fn a_server_that_fails_gives_its_clients_to_another_one_with_one_cookie() {
    let bad = Upstream::start(|peer| peer.request().map(drop));
    let good = Upstream::start(say("good"));
    let server = setup(&[&bad, &good], STICKY).start();
    let mut client = server.connect();
    for _ in 0..4 {
        let response = client.get("/x");
        let cookies = response.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
        assert_eq!((response.text(), cookies.count()), ("good", 1), "only that of the one that has answered");
    }
    let (_, pair) = first(&server);
    assert_eq!(ask(&mut client, &pair, ""), ("good".to_owned(), None));
    server.stop();
}

#[test]
fn a_client_with_tls_sends_its_cookie_only_there() {
    let one = Upstream::start(say("one"));
    let server = setup(&[&one], STICKY).server("trusted_proxies = [\"127.0.0.1\"]").start();
    let (_, set) = ask(&mut server.connect(), "", "X-Forwarded-Proto: https\r\n");
    assert!(set.unwrap().ends_with("; Path=/; HttpOnly; SameSite=Lax; Secure"));
    server.stop();
}
