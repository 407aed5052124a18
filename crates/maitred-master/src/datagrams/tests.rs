use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use super::*;
use maitred_config::{Buckets, Misdirected, Tls, UnixFile};
use maitred_tls::quic::ids::{Ids, Place};
use maitred_tls::quic::secrets::Secret;

fn listen(address: &str, http3: bool) -> Listen {
    Listen {
        name: None,
        address: address.parse().unwrap(),
        unix_file: UnixFile::default(),
        buckets: Buckets::Number(1),
        backlog: 16,
        steer_by_cpu: false,
        defer_accept: false,
        proxy_protocol_from: None,
        tls: http3.then(Tls::default),
        http2: false,
        redirect_http: false,
        redirect_status: 308,
        http3,
        misdirected: Misdirected::default(),
    }
}

fn mask() -> Mask {
    Secret::new().unwrap().mask().unwrap()
}

fn tcp(listens: &[Listen], present: &[Group]) -> Vec<Group> {
    sockets::bind_all(listens, 1, true, present).unwrap()
}

fn numbers(group: &Group) -> Vec<i32> {
    group.buckets.iter().map(|socket| socket.as_raw_fd()).collect()
}

fn bound_at(socket: &OwnedFd) -> SocketAddr {
    rustix::net::getsockname(socket).unwrap().try_into().unwrap()
}

/// UDP and TCP sockets of one entry at a port that both can have.
fn bound(entry: &Listen, threads: u16, mask: Mask) -> (Group, Vec<Group>) {
    // Another process may have the UDP port of the TCP port that the kernel has chosen.
    loop {
        let groups = tcp(std::slice::from_ref(entry), &[]);
        let udp = bind_all(std::slice::from_ref(entry), &groups, threads, (true, mask), [].iter());
        if let Ok(mut udp) = udp {
            return (udp.remove(0).unwrap(), groups);
        }
    }
}

#[test]
fn each_thread_has_a_socket_at_the_port_of_tcp() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let mask = mask();
        let (group, groups) = bound(&listen(address, true), 4, mask);
        assert_eq!((group.buckets.len(), &group.local), (4, &groups[0].local));
        let at = group.local.inet().unwrap();
        for socket in &group.buckets {
            assert_eq!(bound_at(socket), at);
            assert!(!option::socket_reuseaddr(socket.as_ref()).unwrap());
            assert!(rustix::fs::fcntl_getfl(socket).unwrap().contains(rustix::fs::OFlags::NONBLOCK));
            assert!(option::socket_recv_buffer_size(socket.as_ref()).unwrap() > 0);
        }
        let client = UdpSocket::bind(SocketAddr::new(at.ip(), 0)).unwrap();
        for number in 0..4 {
            let id = Ids::new(mask, Place { socket: number, generation: 1 }).unwrap().give();
            client.send_to(&[&[0x40], &id[..]].concat(), at).unwrap();
            let mut room = [0; 16];
            let socket = &group.buckets[usize::from(number)];
            rustix::event::poll(
                &mut [rustix::event::PollFd::new(socket.as_ref(), rustix::event::PollFlags::IN)],
                None,
            )
            .unwrap();
            let (length, _) = rustix::net::recv(socket, &mut room, rustix::net::RecvFlags::empty()).unwrap();
            assert_eq!(&room[1..length], id, "socket {number}");
        }
    }
}

#[test]
fn they_are_kept_as_they_are_however_many_threads_there_are() {
    let entry = listen("127.0.0.1:0", true);
    let (group, groups) = bound(&entry, 2, mask());
    let again = |listens: &[Listen], threads, udp: &[Group]| {
        let groups = tcp(listens, &groups);
        bind_all(listens, &groups, threads, (true, mask()), udp.iter()).unwrap()
    };
    let present = [group];
    for threads in [1, 2, 8] {
        let kept = again(std::slice::from_ref(&entry), threads, &present);
        assert_eq!(numbers(kept[0].as_ref().unwrap()), numbers(&present[0]), "{threads} threads");
    }
    let without = Listen { http3: false, ..entry };
    assert!(again(&[without], 2, &present)[0].is_none());
    let at = present[0].local.inet().unwrap();
    drop(present);
    UdpSocket::bind(at).unwrap();
}

#[test]
fn only_entries_with_http3_have_some() {
    let listens = [listen("127.0.0.1:0", false), listen("127.0.0.1:0", true)];
    let groups = loop {
        let groups = tcp(&listens, &[]);
        if let Ok(udp) = bind_all(&listens, &groups, 300, (true, mask()), [].iter()) {
            assert_eq!(udp[1].as_ref().map(|group| &group.local), Some(&groups[1].local));
            break udp;
        }
    };
    assert!(groups[0].is_none());
    assert_eq!(groups[1].as_ref().unwrap().buckets.len(), usize::from(SOCKETS_MAX));
}

#[test]
fn without_reuseport_there_is_one_socket() {
    let listens = [listen("127.0.0.1:0", true)];
    let groups = loop {
        let groups = tcp(&listens, &[]);
        if let Ok(udp) = bind_all(&listens, &groups, 4, (false, mask()), [].iter()) {
            break udp;
        }
    };
    assert_eq!(groups[0].as_ref().unwrap().buckets.len(), 1);
}

#[test]
fn a_port_of_somebody_else_is_an_error_even_with_reuseport() {
    let theirs = UdpSocket::bind("127.0.0.1:0").unwrap();
    // A socket that would share its port with any other process of its user.
    let sharing = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
    option::set_socket_reuseport(&sharing, true).unwrap();
    rustix::net::bind(&sharing, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    for address in [theirs.local_addr().unwrap(), bound_at(&sharing)] {
        let listens = [listen(&address.to_string(), true)];
        let Ok(groups) = sockets::bind_all(&listens, 1, true, &[]) else { continue };
        let error = bind_all(&listens, &groups, 2, (true, mask()), [].iter()).unwrap_err();
        let expected = format!("UDP port of address {address}, for `http3`, is in use by another process");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn all_addresses_of_ipv6_are_those_of_ipv4_too_unless_another_entry_has_these() {
    let wide = listen("[::]:0", true);
    let (group, _groups) = bound(&wide, 1, mask());
    let port = group.local.port().unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.send_to(b"datagram", ("127.0.0.1", port)).unwrap();
    let wait = rustix::event::PollFlags::IN;
    rustix::event::poll(&mut [rustix::event::PollFd::new(group.buckets[0].as_ref(), wait)], None).unwrap();
    drop((group, _groups));
    let both = [listen(&format!("0.0.0.0:{port}"), true), listen(&format!("[::]:{port}"), true)];
    let groups = tcp(&both, &[]);
    let udp = bind_all(&both, &groups, 2, (true, mask()), [].iter()).unwrap();
    assert!(udp.iter().all(Option::is_some));
}
