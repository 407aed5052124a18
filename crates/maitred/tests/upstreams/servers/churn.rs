//! Servers that change all the time, while requests go to them over connections that are kept.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::servers::dns::{NameServer, addresses};
use crate::support::framed::{self, field};
use crate::support::h2::Connection;
use crate::support::h2::frame::code;
use crate::support::load::{Load, replace_under_load};
use crate::support::upstream::Upstream;
use crate::support::{Server, Setup, eventually, pace};

/// What clients ask for: servers of HTTP/1, and of HTTP/2.
pub(crate) const PATHS: [&str; 2] = ["/one", "/two"];
/// Requests that are answered after each step.
const ANSWERS: usize = 100;

/// Servers of both kinds, that say their paths and how much they got.
pub(crate) fn servers(count: usize) -> (Vec<Upstream>, Vec<Upstream>) {
    let one = |_| {
        Upstream::start(|peer| {
            loop {
                let asked = peer.request()?;
                peer.answer(format!("{} {}", asked.target(), asked.body.len()))?;
            }
        })
    };
    ((0..count).map(one).collect(), (0..count).map(|_| streams(None)).collect())
}

/// A server of HTTP/2.
pub(crate) fn streams(address: Option<SocketAddr>) -> Upstream {
    framed::on(address.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0))), &[], |far| {
        loop {
            let (id, fields, content) = far.request()?;
            far.answer(id, &format!("{} {}", field(&fields, ":path").unwrap(), content.len()))?;
        }
    })
}

/// Both pools, and the routes to them.
pub(crate) fn setup(one: &str, two: &str, others: &[&Upstream]) -> Setup {
    // So that the worker process may connect to all ports from its beginning on.
    let others: Vec<String> = others.iter().map(|upstream| format!("\"{}\"", upstream.name())).collect();
    Setup::with_files()
        .server("threads = 2")
        .route("/one", "pool = \"one\"")
        .route("/two", "pool = \"two\"")
        .route("/others", "pool = \"others\"")
        .table(&format!(
            "[pool.one]\n{one}\n[pool.two]\n{two}\n[pool.others]\nconnect = [{}]\n",
            others.join(", ")
        ))
}

/// A client of either version: a request that may be repeated, and one that may not, by turns. None may fail.
fn ask_until_over(server: &Server, load: &Load, (path, http2): (&str, bool)) {
    match http2 {
        false => ask_by_lines(server, load, path),
        true => ask_by_streams(server, load, path),
    }
}

fn ask_by_lines(server: &Server, load: &Load, path: &str) {
    let mut client = server.connect();
    while !load.is_over() {
        for response in [client.get(path), client.post(path, b"12345")] {
            // The client's connection ends if another worker process has taken over, as after a reload.
            if response.says_close() {
                client = server.connect();
            }
            let expected = [format!("{path} 0"), format!("{path} 5")];
            assert!(
                expected.iter().any(|text| response.text() == text),
                "{}: {}",
                response.status,
                response.text()
            );
            load.answered(1);
        }
    }
}

fn ask_by_streams(server: &Server, load: &Load, path: &str) {
    let mut connection = Connection::new(server.address);
    while !load.is_over() {
        let get = connection.request("GET", path, &[], true);
        let post = connection.request("POST", path, &[("content-length", "5")], false);
        connection.upload(post, b"12345", true);
        for (id, expected) in [(get, format!("{path} 0")), (post, format!("{path} 5"))] {
            match connection.try_response(id) {
                Ok(response) => {
                    assert_eq!(response.text(), expected, "{}", response.status);
                    load.answered(1);
                }
                Err(lost) => {
                    let (last, why) = connection.goaway.unwrap_or_else(|| panic!("{path}: {lost:?}"));
                    assert!(
                        why == code::NO_ERROR && id > last,
                        "{path}: {lost:?} of stream {id}, after {last}"
                    );
                }
            }
        }
        if connection.goaway.is_some() {
            connection = Connection::new(server.address);
        }
    }
}

/// Calls `change` so many times while clients of both versions ask both pools without a break.
pub(crate) fn change_under_load(server: &Server, times: u64, change: impl Fn(u64)) {
    let clients: Vec<(&str, bool)> = PATHS.iter().flat_map(|path| [(*path, false), (*path, true)]).collect();
    let client = |load: &Load, what| ask_until_over(server, load, what);
    replace_under_load(&clients, client, times + 1, ANSWERS, |step| change(step - 2));
    assert_eq!(server.total("upstream_failures"), 0);
}

/// The state of a pool, as a list of addresses.
pub(crate) fn listed(server: &Server, pool: &str) -> Vec<String> {
    let answer = server.admin(&format!("GET /upstreams/{pool} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let document: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let address = |one: &serde_json::Value| one["address"].as_str().unwrap().to_owned();
    document["servers"].as_array().unwrap().iter().map(address).collect()
}

/// Hundreds of changes by the admin address.
#[test]
fn servers_that_are_commanded_all_the_time_lose_no_request() {
    let (ones, twos) = servers(3);
    let all: Vec<&Upstream> = ones.iter().chain(&twos).collect();
    let connect =
        |upstream: &Upstream, scheme: &str| format!("connect = \"{scheme}://{}\"", upstream.address());
    let server = setup(&connect(&ones[0], "http"), &connect(&twos[0], "h2"), &all).start();
    let command = |pool: &str, what: &str, upstream: &Upstream| {
        let target = format!("/upstreams/{pool}/{what}address={}", upstream.address());
        let answer = server.admin(&format!("POST {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(answer.status, 200, "{what}: {}", answer.text());
    };
    change_under_load(&server, 10, |round| {
        for step in 0..5 {
            for (pool, servers) in [("one", &ones), ("two", &twos)] {
                // At least one server always takes requests, and each is left in each of the ways.
                let at = |number: usize| &servers[(5 * round as usize + step + number) % 3];
                command(pool, "add?", at(1));
                command(pool, "weight?weight=7&", at(1));
                command(pool, "drain?", at(0));
                command(pool, "add?", at(2));
                command(pool, "remove?", at(0));
                command(pool, "remove?", at(2));
            }
        }
    });
    // Ten rounds of sixty commands each.
    for (pool, servers) in [("one", &ones), ("two", &twos)] {
        assert_eq!(listed(&server, pool).len(), 1);
        let busy = servers.iter().filter(|upstream| upstream.connections() > 0);
        assert_eq!(busy.count(), 3, "requests have followed");
        eventually("connections to servers that have gone are closed", || {
            servers.iter().filter(|upstream| upstream.open() > 0).count() <= 1
        });
    }
    server.stop();
}

/// Files that are replaced a hundred times a second; each look at them finds other servers.
#[test]
fn files_that_change_all_the_time_lose_no_request() {
    let (ones, twos) = servers(3);
    let entry = |upstream: &Upstream| format!("{{\"address\": \"{}\"}}", upstream.address());
    let text = |servers: &[Upstream], which: usize| format!("[{}]", entry(&servers[which % 3]));
    let connect =
        |upstream: &Upstream| format!("connect = \"h2://{}\"\nendpoints = \"two.json\"", upstream.address());
    // One server of HTTP/2 stays, because a file alone makes servers of HTTP/1.
    let server = setup("endpoints = \"one.json\"", &connect(&twos[0]), &[&ones[0]])
        .outside("one.json", text(&ones, 0).as_bytes())
        .outside("two.json", text(&twos, 1).as_bytes())
        .start();
    let written = AtomicUsize::new(0);
    change_under_load(&server, 4, |_| {
        let (before, first) = (listed(&server, "one"), written.load(SeqCst));
        eventually("other servers are there", || {
            for (name, servers) in [("one.json", &ones), ("two.json", &twos)] {
                let beside = server.path(name).with_extension("new");
                fs::write(&beside, text(servers, written.load(SeqCst))).unwrap();
                fs::rename(&beside, server.path(name)).unwrap();
            }
            let count = written.fetch_add(1, SeqCst) + 1;
            pace(Duration::from_millis(8));
            count >= first + 20 && listed(&server, "one") != before
        });
    });
    server.stop();
}

/// Every answer of the name server is another one, good for no time.
#[test]
fn names_that_change_all_the_time_lose_no_request() {
    let ip = |number: usize| IpAddr::from(Ipv4Addr::new(127, 0, 0, 1 + (number % 3) as u8));
    let (mut ones, mut twos) = servers(1);
    for number in 1..3 {
        let at = |upstream: &Upstream| SocketAddr::from((ip(number), upstream.address().port()));
        ones.push(Upstream::on(at(&ones[0]), |peer| {
            loop {
                let asked = peer.request()?;
                peer.answer(format!("{} {}", asked.target(), asked.body.len()))?;
            }
        }));
        twos.push(streams(Some(at(&twos[0]))));
    }
    let mut asked = 0;
    let names = NameServer::start(move |_| {
        asked += 1;
        addresses([ip(asked)])
    });
    let connect = |servers: &[Upstream], scheme: &str| {
        format!("connect = \"{scheme}://app.test:{}\"\nresolve = true", servers[0].address().port())
    };
    let server = setup(&connect(&ones, "http"), &connect(&twos, "h2"), &[&ones[0]])
        .server(&format!("resolver = \"{}\"", names.address))
        .start();
    eventually("there are servers", || PATHS.iter().all(|path| server.connect().get(path).status == 200));
    change_under_load(&server, 3, |_| {
        let before = listed(&server, "one");
        eventually("it leads elsewhere", || listed(&server, "one") != before);
    });
    server.stop();
}
