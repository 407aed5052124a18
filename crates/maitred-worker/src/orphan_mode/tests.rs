use rustix::net::SocketType;

use super::*;
use crate::keys::ConnId;
use crate::shared::{Outgoing, Shared};
use crate::testing::{hang_up, shared, sockets};
use maitred_control::{Command, Greeting};

const TIME: DrainTime = DrainTime { grace_ms: 5, streams_ms: None };

const ID: SlotId = SlotId { pool: 0, slot: 0, epoch: 1 };

/// A worker process of one thread with clients that have sent commands. The master has exited, and has announced another one.
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
            let asked = Outgoing::Ask {
                command,
                thread: 0,
                connection: ConnId::of(index, 0),
                interim: true,
                text: None,
            };
            shared.outbox.send(asked);
        }
        control.take_outgoing();
        hang_up(&master);
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
            Message::CommandDone { connection, well, text, .. } => {
                format!("{} {well} {text}", connection.key)
            }
            Message::CommandWaits { connection, text, .. } => format!("{} {text}", connection.key),
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
        let asked = Outgoing::Ask {
            command,
            thread: 0,
            connection: ConnId::of(10 + index, 0),
            interim: true,
            text: None,
        };
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
fn a_new_image_that_cannot_take_over_says_why_and_may_do_so_later() {
    let mut world = World::alone(true);
    world.told();
    world.say(&[SERVE_ON, b"pool \"web\" has no process"].concat());
    assert_eq!(world.told(), ["1 false pool \"web\" has no process"]);
    world.say(GO);
    assert_eq!(world.told(), ["drain 5 None true"]);
    world.close();
    assert_eq!(world.told(), [between(2)]);
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
    hang_up(world.end.as_ref().unwrap());
    world.control.take_orders();
    assert!(world.control.is_alone() && world.control.orphaned);
    let told = world.told();
    let ended = [1, 2].map(|index| format!("{index} false {NEW_IMAGE_ENDED}"));
    assert!(told[..2] == ended && told[2].starts_with("drain 10000 Some"), "{told:?}");

    let mut world = World::new(true);
    hang_up(world.end.as_ref().unwrap());
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

#[test]
fn a_broken_process_is_killed_and_one_that_leaves_is_told_to() {
    let greeting = Greeting {
        capacity: 1,
        sockets_only: false,
        open_files: None,
        streams: false,
        recovers: false,
        name: "a".to_owned(),
    };
    for (message, expected) in [
        (FromWorker::SlotLost(ID, "broken".to_owned()), Some((ID, Signal::KILL))),
        (FromWorker::SlotClosed(ID), Some((ID, Signal::TERM))),
        (FromWorker::SlotReleased(ID, true), None),
        (FromWorker::SlotDismissed(ID), None),
        (FromWorker::SlotReady(ID, greeting), None),
        (FromWorker::QueuePressure(0), None),
        (FromWorker::Outlives, None),
    ] {
        assert_eq!(given_up(&message), expected, "{message:?}");
    }
}

#[test]
fn a_process_that_has_ended_is_reported_once_and_only_while_there_is_no_master() {
    let mut world = World::new(true);
    let (process, far_end) = sockets(SocketType::STREAM);
    world.control.orphan_mode.watch(ID, process);
    world.control.take_orders();
    hang_up(&far_end);
    world.control.take_orders();
    assert!(world.told().is_empty(), "the master says so");
    world.control.take_messages();
    world.control.take_orders();
    world.control.take_orders();
    assert_eq!(world.told(), [between(3), "exited 0 has ended".to_owned()]);
}

/// The master may be replaced before it reads the message.
#[test]
fn what_the_master_was_asked_last_is_done_here_unless_it_has_answered() {
    let mut world = World::new(true);
    let other = SlotId { slot: 1, ..ID };
    for id in [ID, other] {
        world.control.orphan_mode.note(&FromWorker::SlotLost(id, "broken".to_owned()));
    }
    world.control.orphan_mode.forget(other);
    world.control.take_messages();
    assert_eq!(world.told(), [between(3), "exited 0 has no channel any more".to_owned()]);
}

#[test]
fn a_process_that_is_not_watched_counts_as_gone() {
    let world = World::alone(true);
    world.told();
    world.control.act_without_master(&FromWorker::SlotClosed(ID));
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
    hang_up(&two);
    assert!(is_readable(&mode.watched[0].1), "it is the second one");
    mode.forget(SlotId { epoch: 2, ..ID });
    assert_eq!(mode.watched.len(), 1, "another process of the slot");
}
