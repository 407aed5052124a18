//! A path between real sockets: a client, and a server that answers what the test says.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, ErrorKind, IoSliceMut, Write};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use maitred_udp::{Config, Counts, Faults, Handle, Path, Rate, Rebind};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};

/// After this, something hangs.
const TIMEOUT: Duration = Duration::from_secs(30);
const MS: Duration = Duration::from_millis(1);

struct Ends {
    client: UdpSocket,
    server: UdpSocket,
    path: Handle,
}

impl Ends {
    fn new(config: Config) -> Ends {
        let server = socket();
        let path = Path::start(config, server.local_addr().unwrap()).unwrap();
        Ends { client: client(&path), server, path }
    }

    /// Sends these from the client.
    fn send(&self, names: impl IntoIterator<Item = u8>) {
        names.into_iter().for_each(|name| assert_eq!(self.client.send(&[name; 100]).unwrap(), 100));
    }

    /// Receives one at the server: what it is called, and where it came from.
    fn at_server(&self) -> (u8, SocketAddr) {
        receive(&self.server)
    }

    /// Waits until the counts are as they should be. Each look at them is a turn of the path's loop.
    fn until(&self, what: &str, is_so: impl Fn(&Counts) -> bool) -> Counts {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let counts = self.path.counts().unwrap();
            if is_so(&counts) {
                return counts;
            }
            assert!(Instant::now() < deadline, "not {what}: {counts:?}");
        }
    }

    /// All that is at the server, when no more is on its way.
    fn all_at_server(&self) -> Vec<u8> {
        self.server.set_nonblocking(true).unwrap();
        let mut names = Vec::new();
        let mut room = [0; 2000];
        loop {
            match self.server.recv(&mut room) {
                Ok(_) => names.push(room[0]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        self.server.set_nonblocking(false).unwrap();
        names
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

fn client(path: &Handle) -> UdpSocket {
    let client = socket();
    client.connect(path.address()).unwrap();
    client
}

fn receive(socket: &UdpSocket) -> (u8, SocketAddr) {
    let mut room = [0; 2000];
    let (_, sender) = socket.recv_from(&mut room).unwrap();
    (room[0], sender)
}

#[test]
fn each_client_has_a_socket_of_its_own_and_gets_its_answers() {
    let ends = Ends::new(Config::default());
    let clients: Vec<_> = (0..20).map(|_| client(&ends.path)).collect();
    let mut senders = Vec::new();
    for (name, client) in (0..).zip(&clients) {
        client.send(&[name; 10]).unwrap();
        let (seen, sender) = ends.at_server();
        assert_eq!(seen, name);
        assert!(!senders.contains(&sender));
        senders.push(sender);
    }
    for (name, sender) in (0..).zip(&senders) {
        ends.server.send_to(&[name + 100; 10], sender).unwrap();
    }
    for (name, client) in (0..).zip(&clients) {
        assert_eq!(receive(client), (name + 100, ends.path.address()));
    }
    // What was received is counted.
    let counts = ends.path.finish().unwrap();
    assert_eq!((counts.clients, counts.to_server.sent, counts.to_client.sent), (20, 20, 20));
    assert_eq!((counts.to_server.sent_bytes, counts.to_client.received_bytes), (200, 200));
}

#[test]
fn what_does_not_come_from_the_server_is_not_passed_on() {
    let ends = Ends::new(Config::default());
    ends.send([1]);
    let (_, sender) = ends.at_server();
    socket().send_to(&[66; 10], sender).unwrap();
    ends.server.send_to(&[2; 10], sender).unwrap();
    assert_eq!(receive(&ends.client).0, 2);
    assert_eq!(ends.path.counts().unwrap().to_client.received, 1);
}

#[test]
fn a_seed_decides_what_is_lost() {
    let arrived = |seed| {
        let lossy = Faults { loss_per_mille: 300, ..Faults::default() };
        let ends = Ends::new(Config { seed, ..Config::both(lossy) });
        ends.send(0..200);
        let counts = ends.until("all came", |counts| counts.to_server.received == 200);
        let names = ends.all_at_server();
        assert_eq!(
            (names.len() as u64, counts.to_server.lost),
            (counts.to_server.sent, 200 - names.len() as u64)
        );
        assert!(names.is_sorted() && (100..180).contains(&names.len()), "{names:?}");
        names
    };
    assert_eq!(arrived(1), arrived(1));
    assert_ne!(arrived(1), arrived(2));
}

#[test]
fn faults_of_one_direction_are_not_those_of_the_other() {
    let ends = Ends::new(Config {
        to_server: Faults { duplicate_per_mille: 1000, ..Faults::default() },
        to_client: Faults { delay: 5 * MS, ..Faults::default() },
        ..Config::default()
    });
    ends.send([1]);
    let (first, second) = (ends.at_server(), ends.at_server());
    assert_eq!(first, second);
    let sent = Instant::now();
    ends.server.send_to(&[2; 10], first.1).unwrap();
    assert_eq!(receive(&ends.client).0, 2);
    assert!(sent.elapsed() >= 5 * MS, "{:?}", sent.elapsed());
    assert_eq!(ends.path.counts().unwrap().to_client.sent, 1);
}

#[test]
fn a_delay_passes_in_both_directions() {
    let ends = Ends::new(Config::both(Faults { delay: 15 * MS, ..Faults::default() }));
    let sent = Instant::now();
    ends.send([1]);
    let (_, sender) = ends.at_server();
    assert!(sent.elapsed() >= 15 * MS);
    ends.server.send_to(&[2; 10], sender).unwrap();
    receive(&ends.client);
    assert!(sent.elapsed() >= 30 * MS, "{:?}", sent.elapsed());
}

#[test]
fn late_datagrams_are_overtaken_and_arrive() {
    let ends =
        Ends::new(Config::both(Faults { reorder_per_mille: 300, reorder_delay: MS, ..Faults::default() }));
    ends.send(0..100);
    let mut names: Vec<_> = (0..100).map(|_| ends.at_server().0).collect();
    assert!(ends.path.counts().unwrap().to_server.reordered > 0);
    names.sort_unstable();
    assert!(names.into_iter().eq(0..100));
}

#[test]
fn a_bandwidth_takes_its_time_and_drops_what_has_no_room() {
    // 100 bytes take a millisecond.
    let rate = Some(Rate { bytes_per_second: 100_000, queue_bytes: 2000 });
    let ends = Ends::new(Config::both(Faults { rate, ..Faults::default() }));
    let began = Instant::now();
    ends.send(0..20);
    (0..20).for_each(|name| assert_eq!(ends.at_server().0, name));
    assert!(began.elapsed() >= 20 * MS, "{:?}", began.elapsed());
    // More than its queue takes, in one burst: with GSO, so that it is one.
    let contents = [7; 60 * 500];
    let transmit = Transmit {
        destination: ends.path.address(),
        ecn: None,
        contents: &contents,
        segment_size: Some(500),
        src_ip: None,
    };
    let state = UdpSocketState::new(UdpSockRef::from(&ends.client)).unwrap();
    state.try_send(UdpSockRef::from(&ends.client), &transmit).unwrap();
    let counts = ends.until("all came", |counts| counts.to_server.received == 80);
    assert!(counts.to_server.overflowed >= 40, "{counts:?}");
}

#[test]
fn joined_datagrams_are_treated_one_by_one() {
    let ends = Ends::new(Config::both(Faults { mtu_bytes: Some(1200), ..Faults::default() }));
    let state = UdpSocketState::new(UdpSockRef::from(&ends.client)).unwrap();
    for size in [1200, 1201] {
        let contents = vec![1; size * 10];
        let transmit = Transmit {
            destination: ends.path.address(),
            ecn: None,
            contents: &contents,
            segment_size: Some(size),
            src_ip: None,
        };
        state.try_send(UdpSockRef::from(&ends.client), &transmit).unwrap();
    }
    let counts = ends.until("all came", |counts| counts.to_server.received == 20);
    assert_eq!((counts.to_server.sent, counts.to_server.too_large), (10, 10));
    let mut room = [0; 20_000];
    (0..10).for_each(|_| assert_eq!(ends.server.recv(&mut room).unwrap(), 1200));
}

#[test]
fn ecn_marks_are_passed_on_or_cleared() {
    for (bleach_ecn, expected) in [(false, Some(EcnCodepoint::Ect0)), (true, None)] {
        let ends = Ends::new(Config::both(Faults { bleach_ecn, ..Faults::default() }));
        let sender = UdpSocketState::new(UdpSockRef::from(&ends.client)).unwrap();
        let transmit = Transmit {
            destination: ends.path.address(),
            ecn: Some(EcnCodepoint::Ect0),
            contents: &[1; 100],
            segment_size: None,
            src_ip: None,
        };
        let receiver = UdpSocketState::new(UdpSockRef::from(&ends.server)).unwrap();
        sender.try_send(UdpSockRef::from(&ends.client), &transmit).unwrap();
        let counts = ends.until("it came", |counts| counts.to_server.sent == 1);
        assert_eq!((counts.to_server.marked, counts.to_server.bleached), (1, u64::from(bleach_ecn)));
        let (mut room, mut meta) = ([0; 2000], RecvMeta::default());
        let mut slices = [IoSliceMut::new(&mut room)];
        let meta = std::slice::from_mut(&mut meta);
        assert_eq!(receiver.recv(UdpSockRef::from(&ends.server), &mut slices, meta).unwrap(), 1);
        assert_eq!(meta[0].ecn, expected);
    }
}

#[test]
fn after_a_rebinding_the_server_sees_another_port_and_the_old_one_is_dead() {
    let ends = Ends::new(Config::default());
    ends.send([1]);
    let (_, before) = ends.at_server();
    ends.path.rebind().unwrap();
    ends.server.send_to(&[66; 10], before).unwrap();
    ends.send([2]);
    let (name, after) = ends.at_server();
    assert_eq!(name, 2);
    assert_eq!(after.ip(), before.ip());
    assert_ne!(after.port(), before.port());
    ends.server.send_to(&[3; 10], after).unwrap();
    assert_eq!(receive(&ends.client).0, 3);
    assert_eq!(ends.path.counts().unwrap().rebound, 1);
}

#[test]
fn rebinding_can_follow_a_count_and_change_the_address() {
    let rebind = Rebind { every: Some(10), address: true, ..Rebind::default() };
    let ends = Ends::new(Config { rebind, ..Config::default() });
    ends.send(0..35);
    let senders: Vec<_> = (0..35).map(|_| ends.at_server().1).collect();
    let mut different = senders.clone();
    different.dedup();
    assert_eq!(different.len(), 4);
    assert!(senders.chunks(10).all(|of_ten| of_ten.iter().all(|sender| *sender == of_ten[0])));
    assert_eq!(
        different.iter().map(|sender| sender.ip().to_string()).collect::<Vec<_>>(),
        ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"]
    );
    assert_eq!(ends.path.counts().unwrap().rebound, 3);
}

#[test]
fn rebinding_can_follow_the_time() {
    let rebind = Rebind { after: Some(5 * MS), ..Rebind::default() };
    let ends = Ends::new(Config { rebind, ..Config::default() });
    ends.send([1]);
    let (_, before) = ends.at_server();
    let deadline = Instant::now() + TIMEOUT;
    let mut now = before;
    while now == before {
        assert!(Instant::now() < deadline);
        ends.send([2]);
        now = ends.at_server().1;
    }
    // Once only.
    ends.send([3]);
    assert_eq!((ends.at_server().1, ends.path.counts().unwrap().rebound), (now, 1));
}

#[test]
fn faults_can_change_on_the_way() {
    let ends = Ends::new(Config::default());
    let dead = Faults { loss_per_mille: 1000, ..Faults::default() };
    ends.path.change(dead, Faults::default()).unwrap();
    ends.send([1]);
    ends.until("it was lost", |counts| counts.to_server.lost == 1);
    ends.path.change(Faults::default(), Faults::default()).unwrap();
    ends.send([2]);
    assert_eq!(ends.at_server().0, 2);
}

#[test]
fn a_path_ends_with_its_handle() {
    let ends = Ends::new(Config::default());
    let address = ends.path.address();
    drop(ends);
    // Only a closed socket leaves its port to another one.
    UdpSocket::bind(address).unwrap();
    assert!(Path::start(Config::default(), "192.0.2.1:443".parse().unwrap()).is_err(), "it is for loopback");
}

#[test]
fn the_program_takes_commands() {
    let server = socket();
    let mut proxy = Command::new(env!("CARGO_BIN_EXE_maitred-udp-proxy"))
        .args(["--to", &server.local_addr().unwrap().to_string(), "--delay", "1ms,0"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(proxy.stdout.take().unwrap()).lines();
    let mut commands = proxy.stdin.take().unwrap();
    let address = lines.next().unwrap().unwrap();
    let client = socket();
    client.connect(address.strip_prefix("listening on ").unwrap()).unwrap();
    client.send(&[1; 10]).unwrap();
    let (_, before) = receive(&server);
    writeln!(commands, "rebind").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "rebound");
    client.send(&[2; 10]).unwrap();
    assert_ne!(receive(&server).1, before);
    writeln!(commands, "counts").unwrap();
    let counts: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!((&counts["rebound"], &counts["to_server"]["sent"]), (&1.into(), &2.into()));
    drop(commands);
    assert!(proxy.wait().unwrap().success());
}
