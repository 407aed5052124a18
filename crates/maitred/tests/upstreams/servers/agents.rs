//! The processes that resolve names and check servers are killed, while requests go on.

use std::net::{IpAddr, Ipv4Addr};

use rustix::process::Signal;

use crate::servers::churn::{PATHS, change_under_load, listed, servers, setup};
use crate::servers::dns::{NameServer, addresses};
use crate::support::processes::send_signal;
use crate::support::upstream::{Upstream, nowhere};
use crate::support::{Server, eventually};

fn ip(number: u8) -> IpAddr {
    IpAddr::from(Ipv4Addr::new(127, 0, 0, number))
}

/// Kills it three times under load: it is back later and later, and `check` holds all the time.
fn kill_under_load(server: &Server, name: &str, whole: &str, check: impl Fn()) {
    change_under_load(server, 3, |round| {
        let killed = server.agent(name);
        send_signal(killed, Signal::KILL);
        let later = format!("the next one starts in {} s", 1 << round);
        server.wait_for_line(|line| line.contains(whole) && line.contains(&later));
        check();
        // For the last one this would take too long.
        if round < 2 {
            eventually("there is another one", || server.agent(name) != killed);
            check();
        }
    });
}

#[test]
fn names_stay_when_the_process_that_resolves_them_is_killed() {
    let names = NameServer::start(|_| addresses([ip(1)]));
    let (ones, twos) = servers(1);
    let (one, two) = (ones[0].address().port(), twos[0].address().port());
    let server = setup(
        &format!("connect = \"http://app.test:{one}\"\nresolve = true"),
        &format!("connect = \"h2://app.test:{two}\"\nresolve = true"),
        &[&ones[0]],
    )
    .server(&format!("resolver = \"{}\"", names.address))
    .start();
    eventually("there are servers", || PATHS.iter().all(|path| server.connect().get(path).status == 200));
    // Whether the next one finds the name or not.
    kill_under_load(&server, "names", "the process that resolves names", || {
        assert_eq!(listed(&server, "one"), [format!("{}:{one}", ip(1))]);
        names.set(|_| None);
    });
    names.set(|_| addresses([ip(1), ip(2)]));
    let both = [format!("{}:{one}", ip(1)), format!("{}:{one}", ip(2))];
    eventually("it resolves names", || listed(&server, "one") == both);
    // The server has logged errors.
    assert!(server.terminate(Signal::TERM).status.success());
}

#[test]
fn what_was_checked_stays_when_the_process_that_checks_is_killed() {
    let (ones, twos) = servers(2);
    let (_socket, dead) = nowhere();
    let health = "health = { path = \"/up\", interval = \"100ms\", healthy_after = 2, unhealthy_after = 2 }";
    let pool = |scheme: &str, servers: &[Upstream]| {
        let (first, second) = (servers[0].address(), servers[1].address());
        format!(
            "connect = [\"{scheme}://{first}\", \"{scheme}://{second}\", \"{scheme}://{dead}\"]\n{health}"
        )
    };
    let server = setup(&pool("http", &ones), &pool("h2", &twos), &[&ones[0]]).start();
    let unwell_of = |pool: &str| {
        let answer = server.admin(&format!("GET /upstreams/{pool} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        let document: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        let servers = document["servers"].as_array().unwrap();
        let found = servers.iter().filter(|server| server["health"] == "unwell");
        found.map(|server| server["address"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    eventually("it is found out", || ["one", "two"].iter().all(|pool| unwell_of(pool) == [dead.to_string()]));
    let unwell = || unwell_of("one");
    let requests = || ones.iter().map(Upstream::requests).sum::<usize>();
    kill_under_load(&server, "checks", "the process that checks servers", || {
        assert_eq!(unwell(), [dead.to_string()]);
    });
    let before = requests();
    eventually("servers are checked", || requests() > before + 4);
    assert_eq!(unwell(), [dead.to_string()]);
    // The server has logged errors.
    assert!(server.terminate(Signal::TERM).status.success());
}
