use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

use maitred_sys::sockopt::steer_datagrams;
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketType, sockopt};

use super::*;
use crate::quic::secrets::Secret;

fn mask() -> Mask {
    Secret::new().unwrap().mask().unwrap()
}

fn ids(mask: Mask, socket: u8, generation: u8) -> Ids {
    Ids::new(mask, Place { socket, generation }).unwrap()
}

proptest! {
    #[test]
    fn an_id_says_its_place(xor: u32, first: u32, second: u32, socket: u8, generation: u8, random: [u8; 5]) {
        let (mask, place) = (Mask::new(xor, first, second), Place { socket, generation });
        let id = mask.make(place, random);
        prop_assert_eq!(mask.place(&id), Some(place));
        prop_assert_eq!(&id[RANDOM], &random[..]);
    }

    #[test]
    fn one_changed_byte_of_those_that_are_not_mixed_is_noticed(at in 0_usize..4, change in 1_u8.., random: [u8; 5]) {
        let mask = Mask::new(0x1234_5678, 0x9e37_79b1, 0x85eb_ca77);
        let mut id = mask.make(Place { socket: 3, generation: 9 }, random);
        id[[0, 1, 6, 7][at]] ^= change;
        prop_assert_eq!(mask.place(&id), None);
    }

    #[test]
    fn a_destination_is_read_of_any_bytes(datagram: Vec<u8>) {
        if let Some(id) = destination(&datagram) {
            prop_assert!(id.len() < datagram.len());
        }
    }
}

#[test]
fn ids_of_others_are_refused_but_for_one_of_256() {
    let mut random = ids(mask(), 0, 0);
    let mask = mask();
    let taken = (0..65_536).filter(|_| mask.place(&random.give()).is_some()).count();
    // 256 are to be expected, with a standard deviation of 16.
    assert!((128..=384).contains(&taken), "{taken}");
    assert_eq!(mask.place(&[0; 7]), None);
    assert_eq!(mask.place(&[0; 9]), None);
    assert_eq!(mask.place(&[]), None);
}

#[test]
fn ids_of_one_place_differ_in_every_byte() {
    let mut one = ids(mask(), 1, 1);
    let all: Vec<[u8; ID_BYTES]> = (0..10_000).map(|_| one.give()).collect();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    for byte in 0..ID_BYTES {
        let mut counts = [0; 256];
        all.iter().for_each(|id| counts[usize::from(id[byte])] += 1);
        // 39 are to be expected, with a standard deviation of 6.
        assert!(counts.iter().all(|count| (5..100).contains(count)), "byte {byte}: {counts:?}");
    }
}

#[test]
fn ids_differ_even_when_the_kernel_gives_no_more_random_numbers() {
    let mut one = ids(mask(), 1, 1);
    let first = one.give();
    (one.used, one.again) = (0, 1);
    let second = one.give();
    assert_ne!(first, second);
    assert_eq!(one.mask.place(&second), Some(one.place()));
}

#[test]
fn the_library_gets_ids_that_it_takes_for_ours() {
    let (mut ours, theirs) = (ids(mask(), 7, 255), ids(mask(), 7, 255));
    let made: Vec<ConnectionId> = (0..64).map(|_| ours.generate_cid()).collect();
    assert!(made.iter().all(|id| id.len() == ours.cid_len() && ours.validate(id).is_ok()));
    assert!(made.iter().filter(|id| theirs.validate(id).is_ok()).count() < 16);
    assert_eq!(ours.cid_lifetime(), None);
}

#[test]
fn a_destination_is_where_the_header_has_it() {
    let short = [0x40, 1, 2, 3, 4, 5, 6, 7, 8, 9];
    assert_eq!(destination(&short), Some(&short[1..9]));
    assert_eq!(destination(&short[..8]), None);
    let long = [0xc0, 0, 0, 0, 1, 3, 1, 2, 3, 9];
    assert_eq!(destination(&long), Some(&[1, 2, 3][..]));
    assert_eq!(destination(&long[..8]), None);
    assert_eq!(destination(&long[..5]), None);
    assert_eq!(destination(&[]), None);
}

/// A group as the master makes it, on loopback.
fn group(address: &str, sockets: u16, mask: Mask) -> (Vec<OwnedFd>, SocketAddr) {
    let mut at: SocketAddr = address.parse().unwrap();
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let mut all = Vec::new();
    for _ in 0..sockets {
        let socket = rustix::net::socket(family, SocketType::DGRAM, None).unwrap();
        sockopt::set_socket_reuseport(&socket, true).unwrap();
        rustix::net::bind(&socket, &at).unwrap();
        at = rustix::net::getsockname(&socket).unwrap().try_into().unwrap();
        all.push(socket);
    }
    steer_datagrams(&all[0], mask.constants(), sockets).unwrap();
    (all, at)
}

/// Sends it, and says which socket has got it.
fn arrives(client: &UdpSocket, group: &[OwnedFd], at: SocketAddr, datagram: &[u8]) -> usize {
    client.send_to(datagram, at).unwrap();
    let mut wait: Vec<_> = group.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
    poll(&mut wait, None).unwrap();
    let ready: Vec<usize> = (0..group.len()).filter(|one| !wait[*one].revents().is_empty()).collect();
    assert_eq!(ready.len(), 1);
    let mut room = [0; 64];
    let (length, _) =
        rustix::net::recv(&group[ready[0]], &mut room, rustix::net::RecvFlags::empty()).unwrap();
    assert_eq!(&room[..length], datagram);
    ready[0]
}

fn short(id: &[u8]) -> Vec<u8> {
    [&[0x40], id, b"encrypted"].concat()
}

fn long(id: &[u8]) -> Vec<u8> {
    [&[0xc0, 0, 0, 0, 1, id.len() as u8], id, b"\0and more"].concat()
}

#[test]
fn the_kernel_gives_a_datagram_to_the_socket_that_its_id_names() {
    let mask = mask();
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (group, at) = group(address, 4, mask);
        let clients: Vec<UdpSocket> =
            (0..4).map(|_| UdpSocket::bind(SocketAddr::new(at.ip(), 0)).unwrap()).collect();
        for (socket, generation, client) in (0..4).flat_map(|socket| {
            [0, 77, 255].map(|generation| (socket, generation, &clients[usize::from(socket)]))
        }) {
            let mut ids = ids(mask, socket, generation);
            for _ in 0..32 {
                let id = ids.give();
                let expected = usize::from(mask.place(destination(&short(&id)).unwrap()).unwrap().socket);
                assert_eq!(expected, usize::from(socket));
                assert_eq!(arrives(client, &group, at, &short(&id)), expected, "{address}");
                assert_eq!(arrives(client, &group, at, &long(&id)), expected, "{address}");
            }
        }
    }
}

#[test]
fn an_id_of_a_client_leads_to_one_socket_wherever_it_comes_from() {
    let mask = mask();
    let (group, at) = group("127.0.0.1:0", 4, mask);
    let clients: Vec<UdpSocket> = (0..4).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let (mut random, mut seen) = (ids(super::tests::mask(), 0, 0), BTreeSet::new());
    for _ in 0..64 {
        // Clients choose at least eight bytes (RFC 9000 section 7.2), and at most twenty.
        let id = [random.give(), random.give()].concat();
        let first = arrives(&clients[0], &group, at, &long(&id));
        seen.insert(first);
        for client in &clients {
            assert_eq!(arrives(client, &group, at, &long(&id)), first);
            assert_eq!(arrives(client, &group, at, &long(&id[..8])), first);
        }
    }
    assert_eq!(seen.len(), 4, "{seen:?}");
}

#[test]
fn what_is_too_short_for_an_id_still_arrives() {
    let (group, at) = group("127.0.0.1:0", 4, mask());
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    for length in 0..14 {
        arrives(&client, &group, at, &vec![0x40; length]);
        arrives(&client, &group, at, &vec![0xc0; length]);
    }
}
