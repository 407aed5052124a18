use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command as Program, Stdio};

use rustix::net::SocketType;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::*;
use crate::control::Command;
use crate::worker::shared::{Outgoing, Shared};
use crate::worker::testing::{shared, sockets};

const TIME: DrainTime = DrainTime { grace_ms: 5, streams_ms: None };

const ID: SlotId = SlotId { pool: 0, slot: 0, epoch: 1 };

/// A worker process of one thread with clients that have sent commands. Its master has exited, and has announced another one.
struct World {
    control: Control<'static>,
    end: Option<OwnedFd>,
}

const ASKED: [(u32, Command); 3] = [(1, Command::Upgrade), (2, Command::Stop), (3, Command::Reload)];

impl World {
    fn new(hears: bool) -> World {
        let shared = shared("[pool.p]\ncommand = [\"a\"]\n", 1);
        let (master, socket) = sockets(SocketType::SEQPACKET);
        let mut control = Control::new(shared, Box::leak(Box::new(socket)), 1);
        let (ours, theirs) = sockets(SocketType::SEQPACKET);
        control.orphan_mode.promise(hears.then_some(ours), TIME);
        for (index, command) in ASKED {
            let asked = Outgoing::Ask { command, thread: 0, index, serial: 0, interim: true };
            shared.outbox.send(asked);
        }
        control.take_outgoing();
        drop(master);
        World { control, end: hears.then_some(theirs) }
    }

    fn alone(hears: bool) -> World {
        let mut world = World::new(hears);
        world.control.take_messages();
        assert!(world.control.orphan_mode.alone && world.shared().alone.load(Relaxed));
        world
    }

    fn shared(&self) -> &'static Shared {
        self.control.shared
    }

    /// Messages that the thread has got since the last look: answers to clients by their index, and the rest.
    fn told(&self) -> Vec<String> {
        let text = |message| match message {
            Message::CommandDone { index, well, text, .. } => format!("{index} {well} {text}"),
            Message::CommandWaits { index, text, .. } => format!("{index} {text}"),
            Message::Drain { time, successor } => {
                format!("drain {} {:?} {}", time.grace_ms, time.streams_ms, successor.is_some())
            }
            Message::SlotExited { id, how } => format!("exited {} {how}", id.slot),
            other => format!("{other:?}"),
        };
        let mut told: Vec<String> = self.shared().inboxes[0].take().into_iter().map(text).collect();
        told.sort();
        told
    }

    fn say(&mut self, word: &[u8]) {
        send(self.end.as_ref().unwrap(), word, SendFlags::NOSIGNAL).unwrap();
        self.control.take_orders();
    }

    /// The thread does not accept any more: answers wait for that.
    fn close(&mut self) {
        self.shared().outbox.send(Outgoing::Closed);
        self.control.take_outgoing();
    }
}

fn between(index: u32) -> String {
    format!("{index} false {BETWEEN_IMAGES}")
}

#[test]
fn who_can_be_answered_by_the_new_image_waits_for_it() {
    let world = World::alone(true);
    assert_eq!(world.told(), [between(3)]);
    let mut word = [0; WORD_BYTES_MAX];
    let (length, _) = recv(world.end.as_ref().unwrap(), &mut word, RecvFlags::DONTWAIT).unwrap();
    assert_eq!(&word[..length], STOP, "a stop cannot wait");
    let world = World::alone(false);
    assert_eq!(world.told(), [between(1), between(2), between(3)]);
}

#[test]
fn commands_that_come_between_the_images_are_answered_at_once_but_a_stop() {
    let mut world = World::alone(true);
    world.told();
    for (index, command) in ASKED {
        let asked = Outgoing::Ask { command, thread: 0, index: 10 + index, serial: 0, interim: true };
        world.shared().outbox.send(asked);
    }
    world.control.take_outgoing();
    assert_eq!(world.told(), [between(11), between(13)]);
    world.say(GO_FOR_GOOD);
    world.close();
    assert!(world.told().contains(&"12 true stopping".to_owned()));
}

#[test]
fn the_new_image_takes_over() {
    let mut world = World::alone(true);
    world.told();
    world.say(b"ok");
    assert!(world.told().is_empty(), "not a word that is known here");
    world.say(GO);
    assert_eq!(world.told(), ["drain 5 None true"]);
    world.close();
    assert_eq!(world.told(), ["1 true upgraded".to_owned(), between(2)]);
}

#[test]
fn the_server_stops_while_its_executable_is_replaced() {
    let mut world = World::alone(true);
    world.told();
    // A later version may send more.
    world.say(&[GO_FOR_GOOD, b", it says"].concat());
    assert_eq!(world.told(), ["drain 5 Some(5) false"]);
    world.close();
    assert_eq!(world.told(), ["1 false the server is stopping", "2 true stopping"]);
}

#[test]
fn a_new_image_that_dies_leaves_an_orphan_and_one_that_never_came_changes_nothing() {
    let mut world = World::alone(true);
    world.told();
    world.end = None;
    world.control.take_orders();
    assert!(world.control.is_alone() && world.control.orphaned);
    let told = world.told();
    let ended = [1, 2].map(|index| format!("{index} false {NEW_IMAGE_ENDED}"));
    assert!(told[..2] == ended && told[2].starts_with("drain 10000 Some"), "{told:?}");

    let mut world = World::new(true);
    world.end = None;
    world.control.take_orders();
    assert!(!world.control.is_alone() && world.told().is_empty());
    world.control.take_messages();
    assert!(world.control.orphaned, "the promise does not hold any more");
}

#[test]
fn who_waits_for_the_upgrade_is_told_so_now_and_then_and_not_for_ever() {
    let mut world = World::alone(true);
    world.told();
    let (first, until) = world.control.orphan_mode.tell.unwrap();
    let waits = format!("1 {WAITS}");
    world.control.tell_waiting(first - Duration::from_millis(1));
    assert!(world.told().is_empty());
    world.control.tell_waiting(first);
    world.control.tell_waiting(first + TELL_EVERY / 2);
    assert_eq!(world.told(), [&*waits]);
    world.control.tell_waiting(first + TELL_EVERY);
    assert_eq!(world.told(), [waits]);
    world.control.tell_waiting(until);
    assert!(world.told().is_empty());
}

/// A process that ends when its input ends, or on a signal.
fn process() -> Child {
    Program::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

fn watched(child: &Child) -> OwnedFd {
    let pid = Pid::from_raw(child.id() as i32).unwrap();
    pidfd_open(pid, PidfdFlags::empty()).unwrap()
}

#[test]
fn processes_that_the_master_would_have_ended_are_ended_here() {
    for (message, signal) in
        [(FromWorker::SlotLost(ID, "broken".to_owned()), 9), (FromWorker::SlotClosed(ID), 15)]
    {
        let mut child = process();
        let mut world = World::alone(true);
        world.told();
        world.control.orphan_mode.watch(ID, watched(&child));
        world.control.tell_nobody(&FromWorker::QueuePressure(0));
        assert!(child.try_wait().unwrap().is_none(), "that is not about its end");
        world.control.tell_nobody(&message);
        assert_eq!(child.wait().unwrap().signal(), Some(signal));
        world.control.take_orders();
        world.control.take_orders();
        assert_eq!(world.told(), ["exited 0 has ended"], "once");
    }
}

/// The master may be replaced before it reads the message.
#[test]
fn what_the_master_was_asked_last_is_done_again_unless_it_has_answered() {
    let mut child = process();
    let mut world = World::new(true);
    let other = SlotId { slot: 1, ..ID };
    world.control.orphan_mode.watch(ID, watched(&child));
    for id in [ID, other] {
        world.control.orphan_mode.note(&FromWorker::SlotLost(id, "broken".to_owned()));
    }
    world.control.orphan_mode.forget(other);
    world.control.take_messages();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert_eq!(world.told(), [between(3)], "the other one has exited");
}

#[test]
fn a_process_that_is_not_watched_counts_as_gone() {
    let world = World::alone(true);
    world.told();
    world.control.tell_nobody(&FromWorker::SlotClosed(ID));
    assert_eq!(world.told(), ["exited 0 has no channel any more"]);
}

#[test]
fn a_slot_has_one_process_and_descriptors_are_waited_for_when_they_say_something() {
    let mut mode = OrphanMode::default();
    let ends = [0; 3].map(|_| sockets(SocketType::STREAM));
    let [(first, _one), (second, two), (end, _three)] = ends;
    mode.watch(ID, first);
    mode.watch(ID, second);
    mode.promise(Some(end), TIME);
    assert_eq!(mode.descriptors().count(), 1, "the master sees to the processes itself");
    mode.alone = true;
    assert_eq!(mode.descriptors().count(), 2);
    drop(two);
    assert!(is_readable(&mode.watched[0].1), "it is the second one");
    mode.forget(SlotId { epoch: 2, ..ID });
    assert_eq!(mode.watched.len(), 1, "another process of the slot");
}
