//! Names in `connect` that are resolved while the server runs.

use std::net::{IpAddr, Ipv4Addr};

use rustix::process::Signal;

use crate::servers::dns::{NameServer, Records, addresses};
use crate::servers::{listed, setup};
use crate::support::{Server, eventually};

fn ip(number: u32) -> IpAddr {
    IpAddr::from(Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + number))
}

fn start(names: &NameServer, pool: &str) -> Server {
    setup(pool).server(&format!("resolver = \"{}\"", names.address)).start()
}

#[test]
fn a_name_leads_to_all_of_its_addresses_as_they_are_now() {
    let names = NameServer::start(|_| addresses([ip(1), ip(0)]));
    let server = start(&names, "connect = \"http://app.test:8000\"\nresolve = true");
    let at = |ips: &[u32]| -> Vec<String> {
        ips.iter().map(|number| format!("{}:8000 1 active name", ip(*number))).collect()
    };
    eventually("both are there", || listed(&server) == at(&[0, 1]));
    names.set(|_| addresses([ip(2)]));
    eventually("another one is there", || listed(&server) == at(&[2]));
    // Neither no name, nor a name without addresses, takes a server away.
    for nothing in [None, addresses([])] {
        names.set(move |_| nothing.clone());
        let before = names.questions();
        eventually("it was asked", || names.questions() >= before + 3);
        assert_eq!(listed(&server), at(&[2]));
    }
    server.wait_for("the name cannot be resolved; its servers stay as they are");
    names.set(|_| addresses([ip(3)]));
    eventually("it is back", || listed(&server) == at(&[3]));
    // The server has logged an error.
    assert!(server.terminate(Signal::TERM).status.success());
}

#[test]
fn a_thousand_addresses_are_cut() {
    let names = NameServer::start(|_| addresses((0..1000).map(ip)));
    let server = start(&names, "connect = \"http://app.test:8000\"\nresolve = true");
    eventually("there are as many as a pool can have", || listed(&server).len() == 256);
    server.wait_for("it leads to more servers than a pool can have");
    server.stop();
}

#[test]
fn a_name_that_changes_all_the_time_is_not_resolved_all_the_time() {
    let mut number = 0;
    let names = NameServer::start(move |_| {
        number += 1;
        addresses([ip(number % 7)])
    });
    // The first question may come long before a slow machine says that the server has started.
    let begun = std::time::Instant::now();
    let server = start(&names, "connect = \"http://app.test:8000\"\nresolve = true");
    eventually("it was asked several times", || names.questions() >= 6);
    // Each resolution has a question for each family.
    let (times, seconds) = (names.questions() / 2, begun.elapsed().as_secs() + 2);
    assert!(times as u64 <= seconds, "{times} times in {seconds} s");
    assert_eq!(listed(&server).len(), 1);
    server.stop();
}

#[test]
fn a_service_has_ports_weights_and_backups() {
    let names = NameServer::start(|name| match name {
        "_http._tcp.app.test" => {
            let service = |priority, weight, port, target: &str| (priority, weight, port, target.to_owned());
            let services = vec![
                service(20, 5, 8003, "c.test"),
                service(10, 60, 8001, "a.test"),
                service(10, 40, 8002, "b.test"),
            ];
            Some(Records { services, ttl: 1, ..Records::default() })
        }
        "a.test" => addresses([ip(1)]),
        "b.test" => addresses([ip(2)]),
        "c.test" => addresses([ip(3)]),
        _ => None,
    });
    let server = start(&names, "connect = \"http+srv://_http._tcp.app.test\"");
    let expected = [
        format!("{}:8001 60 active name", ip(1)),
        format!("{}:8002 40 active name", ip(2)),
        format!("{}:8003 5 active name backup", ip(3)),
    ];
    eventually("all are there", || listed(&server) == expected);
    // The worker process was confined to ports that were known then.
    eventually("a worker process has taken over", || server.status()["generation"] == 2);
    server.stop();
}

/// No answer at all: requests do not wait for one, nor does a reload.
#[test]
fn a_name_server_that_says_nothing_holds_nothing_up() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let fixed = crate::servers::says("fixed");
    let pool = format!("connect = [\"http://app.test:8000\", \"{}\"]\nresolve = true", fixed.name());
    let server = setup(&pool).server(&format!("resolver = \"{}\"", silent.local_addr().unwrap())).start();
    silent.set_read_timeout(Some(crate::support::TIMEOUT)).unwrap();
    silent.recv(&mut [0; 512]).expect("it is asked");
    assert_eq!(server.connect().get("/x").text(), "fixed");
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
    assert_eq!(server.connect().get("/x").text(), "fixed");
    assert_eq!(listed(&server), [format!("{} 1 active configuration", fixed.address())]);
    server.wait_for("the name cannot be resolved; its servers stay as they are");
    // The server has logged an error.
    assert!(server.terminate(Signal::TERM).status.success());
}
