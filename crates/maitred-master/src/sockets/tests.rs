use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use super::*;
use maitred_config::{Buckets, Misdirected, UnixFile};

fn listen(address: &str, buckets: u16) -> Listen {
    Listen {
        name: None,
        address: address.parse().unwrap(),
        unix_file: UnixFile::default(),
        buckets: Buckets::Number(buckets),
        backlog: 16,
        steer_by_cpu: false,
        defer_accept: false,
        proxy_protocol_from: None,
        tls: None,
        http2: false,
        redirect_http: false,
        redirect_status: 308,
        http3: false,
        misdirected: Misdirected::default(),
    }
}

fn numbers(group: &Group) -> Vec<i32> {
    group.buckets.iter().map(|bucket| bucket.as_raw_fd()).collect()
}

/// The IP address that a group is bound to.
fn at(group: &Group) -> SocketAddr {
    group.local.inet().unwrap()
}

/// Connects, and says which bucket got the connection.
fn connect(group: &Group) -> (TcpStream, usize) {
    let stream = TcpStream::connect(at(group)).unwrap();
    let mut wait: Vec<_> = group
        .buckets
        .iter()
        .map(|bucket| rustix::event::PollFd::new(bucket.as_ref(), rustix::event::PollFlags::IN))
        .collect();
    rustix::event::poll(&mut wait, None).unwrap();
    let ready = wait.iter().position(|one| !one.revents().is_empty()).unwrap();
    drop(wait);
    rustix::net::accept(&group.buckets[ready]).unwrap();
    (stream, ready)
}

#[test]
fn all_buckets_share_the_port_that_the_kernel_chose() {
    assert!(detect_reuseport());
    let groups = bind_all(&[listen("127.0.0.1:0", 4)], 1, true, &[]).unwrap();
    let group = &groups[0];
    assert_eq!(group.buckets.len(), 4);
    assert_ne!(at(group).port(), 0);
    for bucket in &group.buckets {
        assert_eq!(local_address(bucket).unwrap(), at(group));
        assert!(option::tcp_nodelay(bucket.as_ref()).unwrap());
    }
    let mut seen = std::collections::BTreeSet::new();
    // The kernel spreads by hash; that 256 connections meet one of four buckets only is not to be feared.
    for _ in 0..256 {
        seen.insert(connect(group).1);
    }
    assert!(seen.len() > 1, "{seen:?}");
}

#[test]
fn without_reuseport_there_is_one_bucket() {
    let groups = bind_all(&[listen("127.0.0.1:0", 4)], 4, false, &[]).unwrap();
    assert_eq!(groups[0].buckets.len(), 1);
    connect(&groups[0]);
}

#[test]
fn an_address_of_somebody_else_is_an_error_even_with_reuseport() {
    let theirs = bind_all(&[listen("127.0.0.1:0", 2)], 1, true, &[]).unwrap();
    let address = theirs[0].local.to_string();
    let error = bind_all(&[listen(&address, 2)], 1, true, &[]).unwrap_err();
    assert_eq!(
        error,
        format!("address {address} is in use by another process; stop that one, or choose another address")
    );
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = plain.local_addr().unwrap().to_string();
    assert!(
        bind_all(&[listen(&address, 1)], 1, true, &[]).unwrap_err().contains("in use by another process")
    );
}

#[test]
fn a_reload_keeps_what_is_there_and_adds_what_is_new() {
    let before = bind_all(&[listen("127.0.0.1:0", 2)], 1, true, &[]).unwrap();
    let queued = TcpStream::connect(at(&before[0])).unwrap();
    let mut more = listen("127.0.0.1:0", 3);
    let second = listen("127.0.0.1:0", 1);
    let after = bind_all(&[more.clone(), second.clone()], 1, true, &before).unwrap();
    assert_eq!(numbers(&after[0])[..2], numbers(&before[0]));
    assert_eq!(after[0].buckets.len(), 3);
    assert_ne!(after[1].local, after[0].local);
    more.buckets = Buckets::Number(1);
    let fewer = bind_all(&[more], 1, true, &after).unwrap();
    assert_eq!(numbers(&fewer[0]), numbers(&after[0]), "queued connections would be reset");
    drop((before, after));
    connect(&fewer[0]);
    drop(queued);
}

#[test]
fn a_failure_leaves_nothing_bound() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let free = at(&bind_all(&[listen("127.0.0.1:0", 1)], 1, true, &[]).unwrap()[0]);
    let bad = listen(&taken.local_addr().unwrap().to_string(), 1);
    assert!(bind_all(&[listen(&free.to_string(), 1), bad], 1, true, &[]).is_err());
    TcpListener::bind(free).unwrap();
}

#[test]
fn an_overlap_with_ourselves_is_called_so() {
    let wide = bind_all(&[listen("0.0.0.0:0", 1)], 1, true, &[]).unwrap();
    let port = at(&wide[0]).port();
    let error = bind_all(&[listen(&format!("127.0.0.1:{port}"), 1)], 1, true, &wide).unwrap_err();
    assert!(error.contains(&format!("overlaps with 0.0.0.0:{port}")), "{error}");
}

#[test]
fn options_of_a_group_that_stays_can_change() {
    let mut entry = listen("127.0.0.1:0", 2);
    let group = bind_all(std::slice::from_ref(&entry), 1, true, &[]).unwrap().remove(0);
    assert_eq!(apply(&group, &entry, &[], &[]), [""; 0]);
    entry.steer_by_cpu = true;
    entry.backlog = 99;
    assert_eq!(apply(&group, &entry, &[], &[]), [""; 0]);
    // All connections of a pinned client meet one bucket: that of its CPU.
    let cpu = 0;
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    let group = std::thread::spawn({
        let local = at(&group);
        move || {
            if rustix::thread::sched_setaffinity(None, &set).is_ok() {
                (0..16).map(|_| TcpStream::connect(local).unwrap()).collect()
            } else {
                Vec::new()
            }
        }
    })
    .join()
    .map(|streams| (group, streams))
    .unwrap();
    let (group, streams) = group;
    let mut accepted = 0;
    while rustix::net::accept(&group.buckets[cpu]).is_ok() {
        accepted += 1;
    }
    assert_eq!(accepted, streams.len());
}

#[test]
fn sockets_of_a_service_manager_are_taken_as_they_are() {
    let groups = bind_all(&[listen("127.0.0.1:0", 2)], 1, true, &[]).unwrap();
    let local = at(&groups[0]);
    let passed =
        groups[0].buckets.iter().map(|bucket| (bucket.try_clone().unwrap(), "web".to_owned())).collect();
    let inherited = sort_inherited(passed).unwrap();
    assert_eq!((inherited.len(), inherited[0].buckets.len()), (1, 2));
    let kept = bind_all(&[listen(&local.to_string(), 5)], 1, true, &inherited).unwrap();
    assert_eq!(numbers(&kept[0]), numbers(&inherited[0]));
    let unconnected = socket(local).unwrap();
    let error = sort_inherited(vec![(unconnected, "web".to_owned())]).unwrap_err();
    assert!(error.contains("\"web\"") && error.contains("does not listen"), "{error}");
    let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let error = sort_inherited(vec![(datagrams.into(), "web".to_owned())]).unwrap_err();
    assert!(error.contains("take `ListenDatagram` out"), "{error}");
}

#[test]
fn wildcards_are_shown_as_loopback() {
    assert_eq!(reachable(&"0.0.0.0:80".parse().unwrap()).to_string(), "127.0.0.1:80");
    assert_eq!(reachable(&"[::]:80".parse().unwrap()).to_string(), "[::1]:80");
    assert_eq!(reachable(&"10.0.0.1:80".parse().unwrap()).to_string(), "10.0.0.1:80");
}
