use std::net::{TcpListener, TcpStream};
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SocketType, sendmsg};

use super::*;
use crate::drain::{Carried, Note, send_connection};
use crate::keys::ConnId;
use crate::testing::{hang_up, shared, sockets};
use maitred_control::{PoolCommand, SlotId, Started};
use maitred_policy::plan::IdleTime;

const POOLS: &str = "[pool.own]\ncommand = [\"a\"]\n[pool.other]\nconnect = \"unix:/run/other.sock\"\n";

const ID: SlotId = SlotId { pool: 0, slot: 1, epoch: 9 };

fn started() -> Started {
    Started { pid: 1, greeting: None, borrowed: false, linked: false, guest: false }
}

/// Messages that the threads have got since the last look, as text.
fn told(shared: &Shared) -> Vec<Vec<String>> {
    let text = |message: Message| match message {
        Message::Adopt(transfer) => format!("adopt {:?} {}", transfer.remote, transfer.listen),
        Message::SlotStarted { id, .. } => format!("started {}", id.slot),
        Message::Retire(id) => format!("retire {}", id.slot),
        Message::Release(id, at_once) => format!("release {} {at_once}", id.slot),
        Message::HandOn(id, _) => format!("hand on {}", id.slot),
        Message::LinkComes(id, _) => format!("link {}", id.slot),
        Message::GuestComes(id, _) => format!("guest {}", id.slot),
        Message::SlotExited { id, how } => format!("exited {}: {how}", id.slot),
        Message::PoolUnavailable(pool) => format!("unavailable {pool}"),
        Message::ServersChanged(pool) => format!("servers of {pool}"),
        Message::CommandWaits { connection, interim, text } => {
            format!("waits {}/{} {interim}: {text}", connection.key, connection.serial)
        }
        Message::CommandDone { connection, well, text } => {
            format!("done {}/{} {well}: {text}", connection.key, connection.serial)
        }
        Message::Successor(_) => "successor".to_owned(),
        Message::Hurry(left) => format!("hurry {left:?}"),
        Message::Drain { time, successor } => {
            format!("drain {} {:?} {}", time.grace_ms, time.streams_ms, successor.is_some())
        }
        other => format!("{other:?}"),
    };
    shared.inboxes.iter().map(|inbox| inbox.take().into_iter().map(text).collect()).collect()
}

/// Messages that the master has received.
fn heard(master: &OwnedFd) -> Vec<FromWorker> {
    let mut text = vec![0; MESSAGE_BYTES_MAX];
    let mut heard = Vec::new();
    while let Ok((length, _)) = rustix::net::recv(master, &mut text, RecvFlags::DONTWAIT) {
        heard.push(serde_json::from_slice(&text[..length]).unwrap());
    }
    heard
}

fn say(master: &OwnedFd, text: &[u8], descriptor: Option<BorrowedFd<'_>>) {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    let passed: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
    assert!(passed.is_empty() || control.push(SendAncillaryMessage::ScmRights(&passed)));
    sendmsg(master, &[io::IoSlice::new(text)], &mut control, SendFlags::NOSIGNAL).unwrap();
}

fn tell(master: &OwnedFd, message: &ToWorker, descriptor: Option<BorrowedFd<'_>>) {
    say(master, &serde_json::to_vec(message).unwrap(), descriptor);
}

#[test]
fn what_is_about_a_process_goes_to_the_thread_that_is_home_to_it() {
    let shared = shared(POOLS, 2);
    let (_master, socket) = sockets(SocketType::SEQPACKET);
    let mut control = Control::new(shared, &socket, 2);
    let any = || Some(sockets(SocketType::STREAM).0);
    for (message, descriptor, expected) in [
        (ToWorker::SlotStarted(ID, started()), any(), "started 1"),
        (ToWorker::Retire(ID), None, "retire 1"),
        (ToWorker::Release(ID, false), None, "release 1 false"),
        (ToWorker::Release(ID, true), None, "release 1 true"),
        (ToWorker::Release(ID, false), any(), "hand on 1"),
        (ToWorker::Link(ID), any(), "link 1"),
        (ToWorker::Guest(ID), any(), "guest 1"),
        (ToWorker::SlotExited(ID, "status 1".to_owned()), None, "exited 1: status 1"),
    ] {
        control.on_message(message, descriptor);
        assert_eq!(told(shared), [vec![], vec![expected.to_owned()]]);
    }
    control.on_message(ToWorker::Retire(SlotId { slot: 2, ..ID }), None);
    assert_eq!(told(shared), [vec!["retire 2".to_owned()], vec![]]);
}

#[test]
fn what_concerns_all_is_said_to_all_threads() {
    let shared = shared(POOLS, 3);
    let (_master, socket) = sockets(SocketType::SEQPACKET);
    let mut control = Control::new(shared, &socket, 3);
    for (message, descriptor, expected) in [
        (ToWorker::Hurry(1500), None, "hurry 1.5s"),
        (ToWorker::Successor, Some(sockets(SocketType::STREAM).0), "successor"),
        (ToWorker::Drain(DrainTime { grace_ms: 7, streams_ms: None }), None, "drain 7 None false"),
        (ToWorker::Drain(DrainTime::bounded(8)), Some(sockets(SocketType::STREAM).0), "drain 8 Some(8) true"),
    ] {
        control.on_message(message, descriptor);
        assert_eq!(told(shared), vec![vec![expected.to_owned()]; 3]);
    }
}

#[test]
fn a_message_that_comes_without_its_descriptor_changes_nothing() {
    let shared = shared(POOLS, 1);
    let (master, socket) = sockets(SocketType::SEQPACKET);
    let mut control = Control::new(shared, &socket, 1);
    for message in [
        ToWorker::SlotStarted(ID, started()),
        ToWorker::Link(ID),
        ToWorker::Guest(ID),
        ToWorker::Adopt(1),
        ToWorker::Successor,
        ToWorker::Watch(ID),
        ToWorker::Certificates,
    ] {
        control.on_message(message, None);
    }
    assert_eq!(told(shared), [Vec::<String>::new()]);
    assert!(heard(&master).is_empty() && control.predecessors.is_empty());
    assert_eq!(shared.predecessors.load(Relaxed), 0);
}

#[test]
fn requests_are_refused_only_where_no_process_comes_back_by_itself() {
    let shared = shared(POOLS, 2);
    let (_master, socket) = sockets(SocketType::SEQPACKET);
    let mut control = Control::new(shared, &socket, 2);
    let own = shared.start.config.pools.iter().position(|pool| pool.name == "own").unwrap();
    let other = 1 - own;
    let trouble = |why: Option<&str>, pool| ToWorker::Trouble(pool as u16, why.map(str::to_owned));
    control.on_message(trouble(Some("no such file"), own), None);
    assert_eq!(told(shared), vec![vec![format!("unavailable {own}")]; 2]);
    assert_eq!(shared.trouble(own).as_deref(), Some("no such file"));
    control.on_message(trouble(None, own), None);
    assert_eq!(
        (told(shared), shared.trouble(own)),
        (vec![vec![]; 2], None),
        "no request is refused for that"
    );
    control.on_message(trouble(Some("not there"), other), None);
    assert_eq!(shared.trouble(other).as_deref(), Some("not there"));
    assert_eq!(told(shared), vec![Vec::<String>::new(); 2], "it starts by itself, and may take its time");
}

fn ask(shared: &Shared, command: Command, index: u32) {
    let interim = index != 5;
    shared.outbox.send(Outgoing::Ask {
        command,
        thread: 1,
        connection: ConnId::of(index, 7),
        interim,
        text: None,
    });
}

#[test]
fn a_command_is_answered_where_it_was_asked() {
    let shared = shared(POOLS, 2);
    let (master, socket) = sockets(SocketType::SEQPACKET);
    let mut control = Control::new(shared, &socket, 2);
    let restart = Command::Pool("own".to_owned(), PoolCommand::Restart);
    ask(shared, Command::Reload, 5);
    ask(shared, restart.clone(), 6);
    control.take_outgoing();
    assert_eq!(heard(&master), [FromWorker::Command(1, Command::Reload), FromWorker::Command(2, restart)]);
    control.on_message(ToWorker::CommandWaits(1, "for a".to_owned()), None);
    control.on_message(ToWorker::CommandWaits(2, "for b".to_owned()), None);
    control.on_message(ToWorker::CommandWaits(3, "for c".to_owned()), None);
    assert_eq!(told(shared)[1], ["waits 5/7 false: for a", "waits 6/7 true: for b"]);
    for _ in 0..2 {
        control.on_message(ToWorker::CommandDone(2, true, "restarted".to_owned()), None);
    }
    assert_eq!(told(shared)[1], ["done 6/7 true: restarted"], "once");
    control.on_message(ToWorker::CommandDone(1, false, "bad".to_owned()), None);
    assert_eq!(told(shared)[1], ["done 5/7 false: bad"]);
}

/// When a client gets the answer to a reload, all threads have stopped accepting.
#[test]
fn an_answer_waits_until_no_thread_accepts_any_more() {
    let shared = shared(POOLS, 2);
    let (_master, socket) = sockets(SocketType::SEQPACKET);
    let mut control = Control::new(shared, &socket, 2);
    ask(shared, Command::Reload, 5);
    control.take_outgoing();
    control.on_message(ToWorker::Drain(DrainTime::bounded(1)), None);
    control.on_message(ToWorker::Drain(DrainTime::bounded(2)), None);
    told(shared);
    control.on_message(ToWorker::CommandDone(1, true, "reloaded".to_owned()), None);
    shared.outbox.send(Outgoing::Closed);
    control.take_outgoing();
    assert!(told(shared).concat().is_empty(), "one thread accepts still");
    shared.outbox.send(Outgoing::Closed);
    shared.outbox.send(Outgoing::Drained);
    control.take_outgoing();
    assert_eq!(told(shared)[1], ["done 5/7 true: reloaded"]);
    assert_eq!(control.running, 1);
}

#[test]
fn messages_arrive_whole_in_their_order_and_with_their_own_descriptors() {
    let (master, socket) = sockets(SocketType::SEQPACKET);
    let (passed, far_end) = sockets(SocketType::STREAM);
    tell(&master, &ToWorker::Retire(ID), None);
    tell(&master, &ToWorker::Link(ID), Some(passed.as_fd()));
    tell(&master, &ToWorker::Hurry(3), None);
    say(&master, b"{\"Fly\": 1}", None);
    say(&master, &[0xff; 10], None);
    tell(&master, &ToWorker::Hurry(4), None);
    hang_up(&master);
    drop(passed);
    assert!(matches!(receive(&socket), Ok(Some((ToWorker::Retire(ID), None)))));
    let Ok(Some((ToWorker::Link(ID), Some(descriptor)))) = receive(&socket) else { panic!("no link") };
    rustix::io::write(&descriptor, b"x").unwrap();
    assert_eq!(rustix::io::read(&far_end, &mut [0; 2]), Ok(1), "it is the one that was passed");
    assert!(matches!(receive(&socket), Ok(Some((ToWorker::Hurry(3), None)))));
    for _ in 0..2 {
        assert!(receive(&socket).is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock));
    }
    assert!(matches!(receive(&socket), Ok(Some((ToWorker::Hurry(4), None)))));
    assert!(matches!(receive(&socket), Ok(None)));
}

#[test]
fn keys_are_waited_for_and_what_was_said_before_is_not_lost() {
    let (master, socket) = sockets(SocketType::SEQPACKET);
    say_private(&socket).unwrap();
    assert_eq!(heard(&master), [FromWorker::Private]);
    let file = tempfile::tempfile().unwrap();
    tell(&master, &ToWorker::Retire(ID), None);
    // Without its file the message is not accepted.
    tell(&master, &ToWorker::Certificates, None);
    tell(&master, &ToWorker::Certificates, Some(file.as_fd()));
    let (_, early) = wait_for_keys(&socket).unwrap();
    let early: Vec<ToWorker> = early.into_iter().map(|(message, _)| message).collect();
    assert_eq!(early, [ToWorker::Retire(ID), ToWorker::Certificates]);
    hang_up(&master);
    let ended = wait_for_keys(&socket).map(|_| ()).unwrap_err();
    assert_eq!(ended.kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn without_a_master_what_is_under_way_is_finished() {
    let shared = shared(POOLS, 1);
    let (master, socket) = sockets(SocketType::SEQPACKET);
    let mut control = Control::new(shared, &socket, 1);
    tell(&master, &ToWorker::Retire(ID), None);
    hang_up(&master);
    control.take_messages();
    assert!(control.is_alone() && !control.orphan_mode.alone);
    let drain = format!("drain {ORPHAN_GRACE_MS} Some({ORPHAN_GRACE_MS}) false");
    assert_eq!(told(shared), [vec!["retire 1".to_owned(), drain]]);
}

#[test]
fn connections_of_predecessors_are_spread_over_the_threads() {
    let shared = shared(POOLS, 2);
    let (_master, socket) = sockets(SocketType::SEQPACKET);
    let mut control = Control::new(shared, &socket, 2);
    let (old, new) = sockets(SocketType::SEQPACKET);
    control.on_message(ToWorker::Adopt(1), Some(new));
    assert_eq!(shared.predecessors.load(Relaxed), 1);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let clients: Vec<TcpStream> =
        (0..3).map(|_| TcpStream::connect(listener.local_addr().unwrap()).unwrap()).collect();
    for client in &clients {
        let (remote, idle) = (client.local_addr().ok(), IdleTime::default());
        let note = Note { awaits_proxy: false, requests: 2, idle, remote };
        let accepted = listener.accept().unwrap().0;
        send_connection(old.as_fd(), accepted.as_fd(), &note, Carried::default()).unwrap();
        // What is no connection is dropped, and what follows is taken all the same.
        rustix::net::send(&old, b"?", SendFlags::empty()).unwrap();
    }
    control.take_connections();
    let expected = |at: usize| format!("adopt {:?} {}", clients[at].local_addr().ok(), u16::MAX);
    assert_eq!(told(shared), [vec![expected(0), expected(2)], vec![expected(1)]]);
    let loads: Vec<u32> = shared.loads.iter().map(|load| load.load(Relaxed)).collect();
    assert_eq!((loads, shared.in_transit.load(Relaxed)), (vec![2, 1], 3));
    assert_eq!(control.predecessors.len(), 1, "more may come");
    hang_up(&old);
    control.take_connections();
    assert!(control.predecessors.is_empty() && control.room.is_empty());
    assert_eq!(shared.predecessors.load(Relaxed), 0);
}
