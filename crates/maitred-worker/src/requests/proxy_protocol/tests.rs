use std::os::fd::OwnedFd;

use super::*;
use crate::connection::table::Phase;
use crate::keys::ConnKey;
use crate::reactor::Reactor;
use crate::testing::{client, is_closed, reactor, shared};

const LISTEN: &str = "[[listen]]\naddress = \"127.0.0.1:8080\"\nproxy_protocol = true\n\
                      proxy_protocol_from = [\"10.0.0.0/8\", \"2001:db8::/32\"]\n\
                      [[listen]]\naddress = \"127.0.0.1:8081\"\n\
                      [[listen]]\naddress = \"unix:x.sock\"\nproxy_protocol = true\n[limits]\nconnections_per_address_max = 2\n";

fn thread() -> Reactor {
    reactor(shared(LISTEN, 1), 0)
}

/// A connection of a proxy from which a header is expected.
fn proxied(thread: &mut Reactor) -> (ConnKey, OwnedFd) {
    let (index, far_end) = client(thread, "10.0.0.1:5000");
    thread.connections[index].awaits_proxy = true;
    (index, far_end)
}

#[test]
fn only_proxies_may_connect_where_a_header_is_believed() {
    let mut thread = thread();
    for (listen, remote, expected) in [
        (0, "10.1.2.3:1", Ok(true)),
        (0, "[::ffff:10.1.2.3]:1", Ok(true)),
        (0, "[2001:db8::1]:1", Ok(true)),
        (0, "11.0.0.1:1", Err(NotAProxy)),
        (0, "127.0.0.1:1", Err(NotAProxy)),
        (0, "unix", Err(NotAProxy)),
        (1, "11.0.0.1:1", Ok(false)),
        (1, "10.1.2.3:1", Ok(false)),
        (2, "unix", Ok(true)),
        (7, "11.0.0.1:1", Ok(false)),
    ] {
        let before = thread.row.malformed.get();
        assert_eq!(thread.may_connect(listen, remote.parse().ok()), expected, "{listen} {remote}");
        assert_eq!(thread.row.malformed.get() - before, u64::from(expected.is_err()));
    }
}

#[test]
fn a_header_says_who_the_client_is_however_it_arrives() {
    const HEADER: &[u8] = b"PROXY TCP4 203.0.113.9 10.0.0.1 56324 443\r\n";
    let mut thread = thread();
    for last in 1..=HEADER.len() {
        let (index, _far_end) = proxied(&mut thread);
        let mut at = 0;
        let stop = thread.take_proxy_header(index, &HEADER[..last], &mut at);
        let connection = &thread.connections[index];
        if last < HEADER.len() {
            assert_eq!(
                (stop, at, connection.state.phase()),
                (Some(Stop::Starved), 0, Phase::Head),
                "{last} bytes"
            );
            assert!(connection.awaits_proxy && connection.remote.text() == "10.0.0.1");
        } else {
            assert_eq!((stop, at, connection.state.phase()), (None, HEADER.len(), Phase::Idle));
            assert!(
                !connection.awaits_proxy && connection.counted && connection.remote.text() == "203.0.113.9"
            );
        }
        thread.close(index);
    }
}

#[test]
fn a_proxy_that_speaks_for_itself_is_its_own_client() {
    let mut thread = thread();
    for header in [&b"PROXY UNKNOWN\r\n"[..], b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"] {
        let (index, _far_end) = proxied(&mut thread);
        let mut at = 0;
        let rest = [header, b"GET / HTTP/1.1"].concat();
        assert_eq!(thread.take_proxy_header(index, &rest, &mut at), None);
        let connection = &thread.connections[index];
        assert_eq!((at, connection.remote.text(), connection.counted), (header.len(), "10.0.0.1", false));
        thread.close(index);
    }
}

#[test]
fn without_a_header_there_is_no_answer() {
    let mut thread = thread();
    for bad in
        [&b"GET / HTTP/1.1\r\n"[..], b"PROXY TCP9 x\r\n", b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\0\0"]
    {
        let (index, far_end) = proxied(&mut thread);
        assert_eq!(thread.take_proxy_header(index, bad, &mut 0), Some(Stop::Gone));
        assert!(!thread.connections.contains(index));
        assert!(is_closed(&far_end), "not a byte");
    }
}

#[test]
fn clients_behind_a_proxy_are_counted_by_their_own_address() {
    const HEADER: &[u8] = b"PROXY TCP4 203.0.113.9 10.0.0.1 1 443\r\n";
    let mut thread = thread();
    let taken: Vec<(ConnKey, Option<Stop>)> = (0..3)
        .map(|_| {
            let (index, _far_end) = proxied(&mut thread);
            (index, thread.take_proxy_header(index, HEADER, &mut 0))
        })
        .collect();
    let stops: Vec<Option<Stop>> = taken.iter().map(|(_, stop)| *stop).collect();
    assert_eq!(stops, [None, None, Some(Stop::Gone)]);
    thread.close(taken[0].0);
    let (index, _far_end) = proxied(&mut thread);
    assert_eq!(thread.take_proxy_header(index, HEADER, &mut 0), None, "one has gone");
    [index, taken[1].0].into_iter().for_each(|index| thread.close(index));
    assert_eq!(thread.row.connections.get(), 0);
}
