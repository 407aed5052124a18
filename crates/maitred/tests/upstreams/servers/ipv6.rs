//! Servers with addresses of IPv6.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use crate::servers::dns::{NameServer, addresses};
use crate::servers::{listed, setup};
use crate::support::framed::{self, field};
use crate::support::upstream::Upstream;
use crate::support::{Server, eventually, skip_here};

fn is_missing() -> bool {
    let missing = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err();
    if missing {
        skip_here("this machine has no address of IPv6");
    }
    missing
}

/// Says what stood in `Host`.
fn says_host(ip: IpAddr, port: u16) -> Upstream {
    Upstream::on(SocketAddr::new(ip, port), |peer| {
        loop {
            let asked = peer.request()?;
            peer.answer(asked.field("host").unwrap())?;
        }
    })
}

fn local(port: u16) -> Upstream {
    says_host(Ipv6Addr::LOCALHOST.into(), port)
}

fn get(server: &Server) -> String {
    server.connect().get("/x").text().to_owned()
}

#[test]
fn an_address_stands_in_brackets() {
    if is_missing() {
        return;
    }
    let upstream = local(0);
    let address = upstream.address();
    let health = "health = { interval = \"100ms\" }";
    let server = setup(&format!("connect = \"http://{address}\"\nhost = \"server\"\n{health}")).start();
    assert_eq!(get(&server), address.to_string());
    eventually("it is checked", || upstream.requests() >= 4);
    assert_eq!(listed(&server), [format!("{address} 1 active configuration")]);
    server.stop();
    let upstream = framed::on(SocketAddr::from((Ipv6Addr::LOCALHOST, 0)), &[], |far| {
        loop {
            let (id, fields, _) = far.request()?;
            far.answer(id, field(&fields, ":authority").unwrap())?;
        }
    });
    let server = setup(&format!("connect = \"h2://{}\"\nhost = \"server\"", upstream.address())).start();
    assert_eq!(get(&server), upstream.address().to_string());
    server.stop();
}

#[test]
fn files_and_commands_may_name_them() {
    if is_missing() {
        return;
    }
    let (one, two) = (local(0), local(0));
    let (first, second) = (one.address().to_string(), two.address().to_string());
    let file = format!("[{{\"address\": \"{first}\"}}]");
    let server = setup("endpoints = \"servers.json\"\nhost = \"server\"")
        .outside("servers.json", file.as_bytes())
        .start();
    eventually("it is there", || get(&server) == first);
    for arguments in [["add", &second], ["remove", &first]] {
        let (status, said) = server.command(&[&["upstream", "app"], &arguments[..]].concat());
        assert!(status.success(), "{said}");
    }
    eventually("the other one is there", || get(&server) == second);
    let answer =
        server.admin(&format!("POST /upstreams/app/add?address={first} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(listed(&server).len(), 2);
    server.stop();
}

#[test]
fn a_name_may_have_addresses_of_both_families() {
    if is_missing() {
        return;
    }
    let one = says_host(Ipv4Addr::LOCALHOST.into(), 0);
    let port = one.address().port();
    let two = local(port);
    let (ip4, ip6) = (IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST));
    let names = NameServer::start(move |_| addresses([ip6]));
    let server = setup(&format!("connect = \"http://app.test:{port}\"\nresolve = true\nhost = \"server\""))
        .server(&format!("resolver = \"{}\"", names.address))
        .start();
    let at = |ip: IpAddr| format!("{} 1 active name", SocketAddr::new(ip, port));
    eventually("it is there", || listed(&server) == [at(ip6)]);
    assert_eq!(get(&server), format!("app.test:{port}"));
    assert_eq!((one.requests(), two.requests()), (0, 1));
    names.set(move |_| addresses([ip4, ip6]));
    eventually("both are there", || listed(&server) == [at(ip4), at(ip6)]);
    eventually("both get requests", || {
        get(&server);
        one.requests() > 0 && two.requests() > 1
    });
    server.stop();
}
