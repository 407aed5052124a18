use super::Health::{Asked, Good, Silent};
use super::*;
use crate::handoff::RELAY_BIT;
use crate::handoff::link::{Frame, HandedOver, Link};
use crate::keys::{ChannelKey, ConnKey, Key, LinkKey, conn};
use maitred_base::budget::Budget;
use maitred_base::passed::Helpers;
use maitred_handoff::{HEADER_BYTES, Header};
use proptest::prelude::*;
use rustix::net::RecvFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

fn channel() -> (Channel, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
    let mut channel =
        Channel::new(SlotId { pool: 0, slot: 0, epoch: 0 }, 1, None, ours, Helpers::new(0).lane(0));
    channel.phase = Phase::Live;
    channel.capacity = 1;
    (channel, theirs)
}

/// Connections of clients, by index.
struct Clients(Vec<OwnedFd>);

impl ClientSockets for Clients {
    fn client_socket(&self, index: ConnKey) -> Option<BorrowedFd<'_>> {
        self.0.get(index.place()).map(AsFd::as_fd)
    }
}

fn connections(count: usize) -> Clients {
    let socket = |_| rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    Clients((0..count).map(socket).collect())
}

/// Reads everything, and gives back the bytes and, per message, the number of descriptors.
fn drain(socket: &OwnedFd) -> (usize, Vec<usize>) {
    let (mut bytes, mut descriptors) = (0, Vec::new());
    loop {
        let mut buffer = [0u8; 65536];
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE_DESCRIPTORS_MAX))];
        let mut control = rustix::net::RecvAncillaryBuffer::new(&mut room);
        let mut slices = [io::IoSliceMut::new(&mut buffer)];
        match rustix::net::recvmsg(socket, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(message) if message.bytes > 0 => bytes += message.bytes,
            _ => return (bytes, descriptors),
        }
        let passed = control.drain().map(|message| match message {
            rustix::net::RecvAncillaryMessage::ScmRights(rights) => rights.count(),
            _ => 0,
        });
        descriptors.push(passed.sum());
    }
}

#[test]
fn one_message_carries_a_whole_turn() {
    let (mut channel, theirs) = channel();
    let connections = connections(20);
    for connection in 0..20 {
        let (_, passes) = channel.enter_direct(conn(connection), Instant::now());
        assert!(passes);
        channel.out().extend_from_slice(&[0; 100]);
    }
    let mut messages = Vec::new();
    assert_eq!(channel.flush(&connections, |count| messages.push(count)).unwrap(), Flushed::All);
    assert_eq!(messages, [20]);
    assert_eq!(drain(&theirs), (2000, vec![20]));
}

#[test]
fn a_descriptor_is_passed_once() {
    let (mut channel, _theirs) = channel();
    assert!(channel.enter_direct(conn(7), Instant::now()).1);
    assert!(!channel.enter_direct(conn(7), Instant::now()).1);
    channel.forget(conn(7));
    assert!(channel.enter_direct(conn(7), Instant::now()).1);
}

#[test]
fn more_descriptors_than_one_message_carries_go_in_several() {
    let (mut channel, theirs) = channel();
    let connections = connections(300);
    for connection in 0..300 {
        channel.enter_direct(conn(connection), Instant::now());
        channel.out().extend_from_slice(&[0; 10]);
    }
    let mut messages = Vec::new();
    assert_eq!(channel.flush(&connections, |count| messages.push(count)).unwrap(), Flushed::All);
    assert_eq!(messages, [253, 47]);
    assert_eq!(drain(&theirs), (3000, vec![253, 47]));
}

#[test]
fn a_process_that_takes_sockets_only_gets_them_one_by_one() {
    let (mut channel, theirs) = channel();
    channel.sockets_only = true;
    let connections = connections(3);
    for connection in [0, 1, 0, 2] {
        channel.enter_direct(conn(connection), Instant::now());
        channel.out().extend_from_slice(&[0; 10]);
    }
    let mut messages = Vec::new();
    assert_eq!(channel.flush(&connections, |count| messages.push(count)).unwrap(), Flushed::All);
    assert_eq!(messages, [1, 1, 1]);
    assert_eq!(drain(&theirs), (40, vec![1, 1, 1]));
}

#[test]
fn a_process_that_does_not_read_blocks_nobody() {
    let (mut channel, theirs) = channel();
    let connections = connections(1);
    channel.out().resize(4 << 20, 0);
    assert_eq!(channel.flush(&connections, |_| ()).unwrap(), Flushed::Blocked);
    assert!(channel.has_output());
    while channel.flush(&connections, |_| ()).unwrap() == Flushed::Blocked {
        assert!(drain(&theirs).0 > 0);
    }
    assert!(!channel.has_output());
}

#[test]
fn what_was_sent_in_part_counts_as_unsent() {
    let (mut channel, theirs) = channel();
    let connections = connections(3);
    for connection in 0..3 {
        channel.enter_direct(conn(connection), Instant::now());
        channel.out().resize((connection as usize + 1) * (1 << 20), 0);
    }
    while channel.sent < (1 << 20) {
        assert_eq!(channel.flush(&connections, |_| ()).unwrap(), Flushed::Blocked);
        drain(&theirs);
    }
    let unsent: Vec<_> = channel.take_unsent().iter().map(|unsent| unsent.request.number).collect();
    assert_eq!(unsent, [1, 2]);
    assert!(!channel.has_output());
    assert_eq!(channel.in_flight.len(), 1);
}

#[test]
fn bodies_of_unsent_requests_come_back() {
    let (mut channel, _theirs) = channel();
    for (connection, body) in [(0, b"one".as_slice()), (1, b"".as_slice())] {
        let (request, _) = channel.enter_direct(conn(connection), Instant::now());
        channel.out().extend_from_slice(b"head");
        channel.out().extend_from_slice(body);
        channel.note_body(request, SentBody::Inline(body.len()));
    }
    let (request, _) = channel.enter_direct(conn(2), Instant::now());
    channel.out().extend_from_slice(b"head");
    channel.note_body(request, SentBody::Carried);
    let file = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    let room = Budget::new(7);
    let mut kept = room.begin();
    assert!(kept.grow(7));
    channel.carry_body((file, room.begin()), kept);
    channel.enter_direct(conn(3), Instant::now());
    channel.out().extend_from_slice(b"head");
    let unsent = channel.take_unsent();
    // The permit for the body's bytes goes with the body.
    assert_eq!(room.used(), 7);
    let bodies: Vec<_> = unsent.into_iter().map(|unsent| unsent.body).collect();
    assert_eq!(room.used(), 0);
    let [Some(UnsentBody::Inline(one)), Some(UnsentBody::Inline(none)), Some(UnsentBody::Spooled(..)), None] =
        bodies.as_slice()
    else {
        panic!("{bodies:?}")
    };
    assert_eq!((one.as_slice(), none.as_slice()), (&b"one"[..], &b""[..]));
}

#[test]
fn a_body_whose_beginning_was_sent_does_not_come_back() {
    let (mut channel, theirs) = channel();
    let connections = connections(1);
    let (request, _) = channel.enter_direct(conn(0), Instant::now());
    channel.out().resize(4 << 20, 0);
    channel.note_body(request, SentBody::Inline((4 << 20) - 100));
    while channel.out.len() > 3 << 20 {
        assert_eq!(channel.flush(&connections, |_| ()).unwrap(), Flushed::Blocked);
        drain(&theirs);
    }
    let unsent = channel.take_unsent();
    assert_eq!(unsent.len(), 1);
    assert!(unsent.iter().all(|unsent| unsent.body.is_none()));
}

#[test]
fn a_request_that_was_sent_stays_in_flight_whatever_follows_it() {
    let (mut channel, theirs) = channel();
    let connections = connections(1);
    channel.enter_direct(conn(0), Instant::now());
    channel.out().resize(100, 0);
    channel.flush(&connections, |_| ()).unwrap();
    channel.enter_direct(conn(0), Instant::now());
    channel.out().resize(100, 0);
    channel.forget(conn(0));
    channel.sent = 100;
    assert!(channel.take_unsent().is_empty(), "only FORGET is unsent");
    assert_eq!(drain(&theirs).0, 100);
}

#[test]
fn a_process_that_is_always_behind_costs_no_memory() {
    let (mut channel, theirs) = channel();
    let connections = connections(1);
    let mut sent = 0;
    for _ in 0..100 {
        let (request, _) = channel.enter_direct(conn(0), Instant::now());
        channel.in_flight.remove(&request);
        let before = channel.out().len();
        channel.out().resize(before + (1 << 18), 7);
        sent += 1 << 18;
        while channel.flush(&connections, |_| ()).unwrap() == Flushed::Blocked
            && channel.out.len() - channel.sent > 1 << 18
        {
            sent -= drain(&theirs).0;
        }
        assert!(channel.has_output(), "it is behind");
        assert!(channel.out.len() < 1 << 20, "{} bytes", channel.out.len());
    }
    while channel.flush(&connections, |_| ()).unwrap() == Flushed::Blocked {
        sent -= drain(&theirs).0;
    }
    assert_eq!(drain(&theirs).0, sent);
}

#[test]
fn what_is_kept_is_bounded_and_spares_the_busy() {
    let (mut channel, _theirs) = channel();
    for connection in 0..2_000 {
        let (request, _) = channel.enter_direct(conn(connection), Instant::now());
        if connection != 0 {
            channel.in_flight.remove(&request);
        }
    }
    assert_eq!(channel.known.len(), channel.allowance.given);
    assert!(channel.known.has(conn(0)), "connection 0 is in use");
    assert!(!channel.known.has(conn(1)));
}

#[test]
fn what_is_used_is_kept_and_what_was_forgotten_counts_until_it_is_gone() {
    let (mut channel, _theirs) = channel();
    channel.allowance = Allowance { given: 10, forgotten: 3 };
    channel.capacity = 100;
    let answer = |channel: &mut Channel, connection: u32| {
        let (request, passes) = channel.enter_direct(conn(connection), Instant::now());
        channel.in_flight.remove(&request);
        channel.note_done(request);
        passes
    };
    (0..10).for_each(|connection| assert!(answer(&mut channel, connection)));
    assert!(!answer(&mut channel, 0), "it is kept");
    assert!(answer(&mut channel, 10));
    assert!(channel.known.has(conn(0)) && !channel.known.has(conn(1)), "1 was unused for longest");
    // A relay, and a body, take the place of connections.
    let far_end = || Some(rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap());
    let (request, _) = channel.enter_relay(1 << 31, conn(20), far_end(), Instant::now());
    assert_eq!((channel.known.len(), channel.relays), (9, 1));
    channel.note_body(request, SentBody::Carried);
    channel.enter_direct(conn(30), Instant::now());
    assert_eq!((channel.known.len(), channel.relays, channel.given()), (9, 1, 11));
    // Three more that it has to forget, and nothing says yet that it has.
    for connection in 31..34 {
        channel.enter_direct(conn(connection), Instant::now());
    }
    assert!(channel.is_cramped() && channel.room() == 0);
    channel.note_done(request + 2);
    assert!(!channel.is_cramped(), "{:?}", channel.forgotten);
}

#[test]
fn only_short_requests_wait_in_the_process() {
    let (mut channel, _theirs) = channel();
    let now = Instant::now();
    channel.enter_direct(conn(0), now);
    assert_eq!(channel.prefetch_wait(now), None, "nothing is known yet");
    (0..50).for_each(|_| channel.learn(100, now));
    assert_eq!(channel.prefetch_wait(now), Some(100));
    let later = now + std::time::Duration::from_millis(2);
    assert_eq!(channel.prefetch_wait(later), None, "the present request is not one of the short ones");
    (0..50).for_each(|_| channel.learn(50_000, now));
    assert_eq!(channel.prefetch_wait(now), None);
}

#[test]
fn an_idle_process_is_asked_in_each_interval_and_silent_after_the_second() {
    let (mut channel, _theirs) = channel();
    let interval = Duration::from_millis(1000);
    let begin = Instant::now();
    let health_at = |channel: &mut Channel, ms| channel.health(begin + Duration::from_millis(ms), interval);
    assert_eq!([0, 999, 1000, 1999].map(|ms| health_at(&mut channel, ms)), [Good, Good, Asked, Good]);
    channel.answered();
    assert_eq!([2000, 2999, 3000].map(|ms| health_at(&mut channel, ms)), [Asked, Good, Silent]);
    // A process that has a request is asked nothing, and what it was asked before is forgotten.
    channel.enter_direct(conn(0), begin);
    assert_eq!([3000, 9000].map(|ms| health_at(&mut channel, ms)), [Good, Good]);
}

#[test]
fn descriptors_do_not_hide_what_comes_behind_them() {
    let (mut channel, theirs) = channel();
    let file = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    let descriptors = [file.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
    sendmsg(&theirs, &[IoSlice::new(b"tail")], &mut control, SendFlags::NOSIGNAL).unwrap();
    send(&theirs, b"done", SendFlags::NOSIGNAL).unwrap();
    let mut room = [0; RECEIVE_BYTES];
    while matches!(channel.receive(&mut room, &Budget::new(10)).unwrap(), Received::More) {}
    assert_eq!((channel.input.as_slice(), channel.received.len()), (&b"taildone"[..], 1));
}

/// unix(7): closing a socket with unread bytes in it is a reset for the other side.
#[test]
fn a_channel_that_was_closed_with_frames_in_it_has_ended() {
    let (mut channel, theirs) = channel();
    channel.cancel(1, 1);
    channel.flush(&connections(0), |_| ()).unwrap();
    drop(theirs);
    let mut room = Box::new([0; RECEIVE_BYTES]);
    while channel.receive(&mut room, &Budget::new(10)).unwrap() != Received::End {}
}

proptest! {
    #[test]
    fn the_estimate_stays_within_what_was_seen(seen in prop::collection::vec(1u32..1_000_000, 1..100)) {
        let (mut channel, _theirs) = channel();
        seen.iter().for_each(|took| channel.learn(*took, Instant::now()));
        let (least, most) = (seen.iter().min().unwrap(), seen.iter().max().unwrap());
        // Rounding up each time may add one per step.
        prop_assert!(channel.service_us() + 2 >= least / 8 * 7 && channel.service_us() <= most + 8);
    }
}

#[test]
fn a_process_is_stuck_when_given_up_requests_hold_all_that_it_could_do() {
    let now = Instant::now();
    let after = Duration::from_secs(10);
    let late = now + after;
    let (mut channel, _theirs) = channel();
    channel.capacity = 2;
    let requests: Vec<u32> = (0..3).map(|index| channel.enter_direct(conn(index), now).0).collect();
    channel.give_up(requests[0], now, after, None);
    // The first moment that was named holds.
    channel.give_up(requests[0], now, Duration::from_secs(60), None);
    assert!(!channel.is_stuck(late), "one of two places is free");
    channel.give_up(requests[1], now, after, None);
    assert!(!channel.is_stuck(late - Duration::from_millis(1)), "they have time until then");
    assert!(channel.is_stuck(late));
    // A process that gets no more requests is good for what it has.
    channel.leave = DrainMode::Retires;
    assert!(!channel.is_stuck(late), "one request may still end well");
    channel.in_flight.remove(&requests[2]);
    assert!(channel.is_stuck(late));
    channel.phase = Phase::Leaving;
    assert!(channel.is_stuck(late));
    channel.linked = true;
    assert!(!channel.is_stuck(late), "others may have more there");
    channel.phase = Phase::Failed(String::new());
    assert!(!channel.is_stuck(late), "it is being ended");
}

#[test]
fn a_process_is_stuck_whoever_has_given_its_requests_up() {
    let (now, after) = (Instant::now(), Duration::from_secs(10));
    let (mut user, far) = channel();
    user.linked = true;
    let (theirs, _) = user.enter_direct(conn(0), now);
    user.give_up(theirs, now, after, None);
    let header = Header::from_bytes(*user.out().first_chunk().unwrap());

    let ((mut owner, _process), mut link) = (channel(), Link::new(ChannelKey::of(0), 0, 0, far));
    owner.capacity = 2;
    let of_user = Away { link: Some(LinkKey::of(3)), request: theirs, number: 0, late_at: None };
    owner.away.insert(5, of_user);
    let frame = Frame { header, payload: Vec::new(), trailers: Vec::new(), descriptors: Vec::new() };
    assert!(!owner.pass_on((LinkKey::of(3), &mut link), frame, now), "the process gets CANCEL");
    let (own, _) = owner.enter_direct(conn(1), now);
    assert!(!owner.is_stuck(now + after), "one of two may still end well");
    owner.give_up(own, now, after, None);
    assert!(owner.is_stuck(now + after) && !owner.is_stuck(now));

    // The next owner knows it as well, and what a user has left that has gone.
    owner.away.insert(6, Away { link: None, late_at: Some(now + after), ..of_user });
    let (link_end, _user) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    owner.hand_over(link_end, vec![(LinkKey::of(3), link)], std::iter::empty(), now);
    let said: HandedOver = serde_json::from_slice(&owner.out()[HEADER_BYTES..]).unwrap();
    let (mut next, _process) = channel();
    next.capacity = 3;
    next.take_over(&said, &[0, 1].map(LinkKey::of), now);
    assert_eq!((next.load(), next.away[&6].link, next.away[&5].link), (3, None, Some(LinkKey::of(1))));
    assert!(next.is_stuck(now + after) && !next.is_stuck(now));
}

#[test]
fn a_silent_process_is_asked_once_and_any_answer_will_do() {
    let now = Instant::now();
    let until = now + Duration::from_secs(5);
    let (mut channel, _theirs) = channel();
    channel.probe(until);
    let asked = channel.out().len();
    channel.probe(until + Duration::from_secs(1));
    assert_eq!(channel.out().len(), asked, "it is asked already");
    assert!(!channel.is_mute(now) && channel.is_mute(until));
    channel.answered();
    assert!(!channel.is_mute(until));
}

#[test]
fn relays_of_requests_that_were_given_up_are_cut_once() {
    let now = Instant::now();
    let (mut channel, _theirs) = channel();
    let (request, _) = channel.enter_direct(conn(7), now);
    channel.give_up(request, now, Duration::ZERO, Some(now + Duration::from_secs(1)));
    assert_eq!(channel.take_cuts(now), [0; 0]);
    assert_eq!(channel.take_cuts(now + Duration::from_secs(1)), [7]);
    assert_eq!(channel.take_cuts(now + Duration::from_secs(1)), [0; 0]);
}

#[test]
fn a_request_is_unsent_until_the_kernel_has_all_of_it() {
    let now = Instant::now();
    let (mut channel, theirs) = channel();
    let connections = connections(2);
    let (first, _) = channel.enter_direct(conn(0), now);
    // More than the socket takes.
    channel.out().extend_from_slice(&vec![0; 4 << 20]);
    assert_eq!(channel.flush(&connections, |_| ()).unwrap(), Flushed::Blocked);
    assert!(channel.is_unsent(first) && !channel.is_unsent(first + 1));
    while channel.flush(&connections, |_| ()).unwrap() == Flushed::Blocked {
        drain(&theirs);
    }
    assert!(!channel.is_unsent(first));
}

/// Descriptors of frames behind a message that was taken in part would come before the frames of that message are whole, with its
/// own: more than any reader has room for.
#[test]
fn a_reader_never_has_more_descriptors_than_one_message_carries() {
    let now = Instant::now();
    let (mut user, far) = channel();
    let connections = connections(700);
    for index in 0..700 {
        user.enter_direct(conn(index), now);
        let header = Header { kind: 1, payload_bytes: 4000, descriptors: 1, ..Header::default() };
        user.out().extend_from_slice(&header.to_bytes());
        user.out().extend_from_slice(&[0; 4000]);
    }
    let (mut link, mut room, mut frames) = (Link::new(ChannelKey::of(0), 0, 0, far), [0; RECEIVE_BYTES], 0);
    while frames < 700 {
        user.flush(&connections, |_| ()).unwrap();
        link.receive(&mut room).unwrap();
        while let Some(frame) = link.next_frame().unwrap() {
            assert_eq!(frame.descriptors.len(), 1);
            frames += 1;
        }
    }
}

fn file() -> OwnedFd {
    rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap()
}

#[test]
fn requests_of_users_that_the_process_cannot_have_seen_are_given_back() {
    let now = Instant::now();
    let ((mut owner, process), (_, far)) = (channel(), channel());
    let mut link = Link::new(ChannelKey::of(0), 0, 0, far);
    let flags = maitred_handoff::RequestFlags { body_fd: true, ..Default::default() };
    let mut pass = |owner: &mut Channel, request: u32, bytes: usize, trailers: &[u8]| {
        let header = Header {
            kind: maitred_handoff::kind::REQUEST,
            request,
            connection: 7,
            descriptors: 2,
            flags: flags.bits(),
            payload_bytes: bytes as u32,
        };
        let frame = Frame {
            header,
            payload: vec![b'p'; bytes],
            trailers: trailers.to_vec(),
            descriptors: vec![file(), file()],
        };
        assert!(owner.pass_on((LinkKey::of(3), &mut link), frame, now));
    };
    pass(&mut owner, 40, 10, b"");
    assert_eq!(owner.flush(&connections(0), |_| ()).unwrap(), Flushed::All);
    // More than the socket takes, and one behind it.
    pass(&mut owner, 41, 4 << 20, b"");
    assert_eq!(owner.flush(&connections(0), |_| ()).unwrap(), Flushed::Blocked);
    pass(&mut owner, 42, 10, b"x-sum: 1\r\n");
    let given_up = owner.take_unsent_of_users();
    let said: Vec<_> = given_up
        .iter()
        .map(|(link, frame)| (*link, frame.header.request, frame.header.connection, frame.descriptors.len()))
        .collect();
    assert_eq!(said, [(LinkKey::of(3), 41, 7, 0), (LinkKey::of(3), 42, 7, 2)], "with what was not sent");
    assert_eq!((given_up[1].1.header.flags, given_up[1].1.payload.len()), (flags.bits(), 10));
    assert_eq!(owner.load(), 1, "the process may have seen the first");
    drop(process);
}

#[test]
fn descriptors_are_in_step_again_when_no_user_has_a_request_there_either() {
    let (mut owner, _process) = channel();
    owner.astray = true;
    owner.away.insert(5, Away { link: Some(LinkKey::of(3)), request: 1, number: 0, late_at: None });
    assert!(!owner.find_way_back(), "a frame with a descriptor may come for it");
    owner.away.clear();
    assert!(owner.find_way_back());
}

#[test]
fn a_process_that_a_user_has_asked_has_to_answer_when_the_user_is_gone() {
    let now = Instant::now();
    let until = now + Duration::from_secs(5);
    let ((mut owner, _process), (_, far)) = (channel(), channel());
    let mut link = Link::new(ChannelKey::of(0), 0, 0, far);
    let header = Header { kind: maitred_handoff::kind::PING, ..Header::default() };
    let frame = Frame { header, payload: Vec::new(), trailers: Vec::new(), descriptors: Vec::new() };
    assert!(owner.pass_on((LinkKey::of(3), &mut link), frame, now));
    owner.link_ended(LinkKey::of(3), &link, until);
    assert!(!owner.is_mute(now) && owner.is_mute(until));
    owner.answered();
    assert!(!owner.is_mute(until));
}

#[test]
fn trailers_go_over_a_link_with_their_request() {
    let now = Instant::now();
    let ((mut user, far), (mut owner, process)) = (channel(), channel());
    user.linked = true;
    let mut link = Link::new(ChannelKey::of(0), 0, 0, far);
    let lines = [("x-sum", b"17".as_slice())];
    let (number, _) = user.enter_relay(RELAY_BIT, conn(0), None, now);
    assert!(maitred_handoff::encode_trailers(user.out(), RELAY_BIT, number, lines));
    let head = maitred_handoff::begin_request(user.out(), RELAY_BIT, number, Default::default(), 0);
    assert!(head.head("POST", "/").body(None).finish(1 << 20));
    let frames = user.out().clone();
    // However the bytes are split, the two arrive together.
    for cut in 0..=frames.len() {
        rustix::io::write(&user.socket, &frames[..cut]).unwrap();
        let mut room = [0; RECEIVE_BYTES];
        while matches!(link.receive(&mut room), Ok(Received::More)) {}
        let first = link.next_frame().unwrap();
        assert_eq!(first.is_some(), cut == frames.len(), "{cut} bytes");
        rustix::io::write(&user.socket, &frames[cut..]).unwrap();
        while matches!(link.receive(&mut room), Ok(Received::More)) {}
        let frame = first.or_else(|| link.next_frame().unwrap()).unwrap();
        assert_eq!((frame.header.request, frame.trailers.as_slice()), (number, &b"x-sum: 17\r\n"[..]));
        assert!(owner.pass_on((LinkKey::of(3), &mut link), frame, now) && link.is_quiet());
    }
    // The two frames have the number that the owner has given the request.
    owner.flush(&connections(0), |_| ()).unwrap();
    let mut got = vec![0; 1 << 20];
    let length = rustix::io::read(&process, &mut got).unwrap();
    let mut rest = &got[..length];
    for number in 0..=frames.len() as u32 {
        for expected in [maitred_handoff::kind::TRAILERS, maitred_handoff::kind::REQUEST] {
            let header = Header::from_bytes(*rest.first_chunk().unwrap());
            assert_eq!((header.kind, header.request, header.connection), (expected, number, RELAY_BIT));
            rest = &rest[HEADER_BYTES + header.payload_bytes as usize..];
        }
    }
    assert!(rest.is_empty());
}

#[test]
fn a_request_that_cannot_be_sent_leaves_no_trailers() {
    let (mut channel, _theirs) = channel();
    let (first, _) = channel.enter_relay(RELAY_BIT, conn(0), None, Instant::now());
    let before = channel.out().len();
    assert!(maitred_handoff::encode_trailers(channel.out(), RELAY_BIT, first, [("a", b"b".as_slice())]));
    channel.withdraw(first);
    assert_eq!((channel.out().len(), channel.has_output()), (before, false));
}

/// Set in the process that has few open files and no privileges.
const ALONE: &str = "MAITRED_TEST_FEW_FILES";

/// PROTOCOL.md section 2: `ETOOMANYREFS` is no end. What is under way counts for all processes of a user, and only for those
/// without privileges: a process of its own tries it.
#[test]
fn more_descriptors_under_way_than_may_be_open_are_no_end() {
    use Flushed::{All, Crowded};
    if std::env::var_os(ALONE).is_none() {
        let name = "handoff::channel::tests::more_descriptors_under_way_than_may_be_open_are_no_end";
        let mut test = std::process::Command::new(std::env::current_exe().unwrap());
        let output = test.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let none = rustix::thread::CapabilitySet::empty();
    let sets = rustix::thread::CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets).unwrap();
    let few = rustix::process::Rlimit { current: Some(64), maximum: Some(64) };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, few).unwrap();
    let connections = connections(20);
    let flush = |channel: &mut Channel| {
        for connection in 0..20 {
            channel.enter_direct(conn(connection), Instant::now());
            channel.out().extend_from_slice(&[0; 10]);
        }
        channel.flush(&connections, |_| ()).unwrap()
    };
    // The kernel counts what was under way before a message: 80 is more than 64.
    let mut pairs: Vec<(Channel, OwnedFd)> = (0..5).map(|_| channel()).collect();
    let flushed: Vec<Flushed> = pairs.iter_mut().map(|(channel, _)| flush(channel)).collect();
    assert_eq!(flushed, [All, All, All, All, Crowded]);
    drain(&pairs[0].1);
    let (last, far_end) = pairs.last_mut().unwrap();
    assert_eq!(last.flush(&connections, |_| ()).unwrap(), All);
    assert_eq!(drain(far_end), (200, vec![20]), "nothing is lost");
}
