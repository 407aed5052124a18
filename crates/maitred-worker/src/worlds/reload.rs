//! Reloads: a second worker process beside the first one, which drains. The world does what the master does then: it connects the
//! two for idle connections, and has application processes handed over, returned, or retired.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use maitred_testing::model::Fate;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::puppet::Puppet;
use super::stage::GENERATIONS;
use super::world::World;
use crate::drain::{ROOM_BYTES, receive_connection};
use crate::inbox::Message;
use crate::shared::Shared;
use maitred_control::{DrainTime, FromWorker, Greeting, SlotId, Started};

/// What a reload has left to do.
#[derive(Debug, Default)]
pub(super) struct Reload {
    /// Connections come from the former worker process.
    predecessor: Option<OwnedFd>,
    room: Vec<u8>,
    /// Processes that have exited while they were handed over.
    unheard: Vec<Moving>,
}

/// A process whose channel goes from one worker process to the next.
#[derive(Debug)]
pub(super) struct Moving {
    id: SlotId,
    channel: OwnedFd,
    link: OwnedFd,
    greeting: Option<Greeting>,
}

/// What becomes of a process.
#[derive(Debug, Clone, Copy)]
enum Fortune {
    /// The channel of the process goes to the next worker process at once, with a link for what is under way.
    HandedOn,
    /// The same when nothing is under way on it, without a link.
    Released,
    /// The process ends, and another is started for the next worker process.
    Retired,
}

fn pair(kind: SocketType) -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socketpair(AddressFamily::UNIX, kind, flags, None).unwrap()
}

fn started(id: SlotId, greeting: Option<Greeting>) -> Started {
    Started { pid: id.epoch as u32, greeting, borrowed: false, linked: false, guest: false }
}

impl World<'_> {
    /// What the threads share that accept now.
    pub(super) fn shared(&self) -> &'static Shared {
        self.stage.shared[self.generation]
    }

    /// A thread that accepts now.
    pub(super) fn accepting_thread(&mut self) -> usize {
        let threads = self.stage.kind.threads;
        self.random.within(0..threads)
    }

    /// Whether some of the threads say that a response is the last one.
    pub(super) fn is_drained(&self) -> bool {
        self.draining || self.generation > 0
    }

    /// Sends a message about a process to the thread that has its channel.
    pub(super) fn tell(&self, generation: usize, id: SlotId, message: Message) {
        let shared = self.stage.shared[generation];
        shared.inboxes[shared.home_of(id)].send(message);
    }

    /// A new worker process begins to accept, and the old one drains.
    pub(super) fn reload(&mut self) {
        if self.generation + 1 == GENERATIONS || self.draining {
            return;
        }
        self.note(|| "a reload".into());
        self.generation += 1;
        self.reactors.extend(self.stage.reactors(self.generation).into_iter().map(Some));
        let (old_end, new_end) = pair(SocketType::SEQPACKET);
        self.shared().predecessors.fetch_add(1, AcqRel);
        self.reload.predecessor = Some(new_end);
        self.reload.room.resize(ROOM_BYTES, 0);
        let grace_ms = self.random.weighted(&[(2, 600_000), (1, 100)]);
        let (time, successor) = (DrainTime { grace_ms, streams_ms: None }, Arc::new(old_end));
        for inbox in &self.stage.shared[self.generation - 1].inboxes {
            inbox.send(Message::Drain { time, successor: Some(Arc::clone(&successor)) });
        }
        for at in 0..self.puppets.len() {
            if !self.puppets[at].retired && !self.puppets[at].lost {
                self.move_process(at);
            }
        }
    }

    fn move_process(&mut self, at: usize) {
        use Fortune as F;
        let fortune = self.random.weighted(&[(4, F::HandedOn), (2, F::Released), (1, F::Retired)]);
        let Puppet { id, generation, .. } = self.puppets[at];
        self.note(|| format!("process {} is to be {fortune:?}", id.epoch));
        let message = match fortune {
            F::HandedOn => {
                let (theirs, next) = pair(SocketType::STREAM);
                self.puppets[at].link = Some(next);
                Message::HandOn(id, theirs)
            }
            F::Released => Message::Release(id, false),
            F::Retired => return self.retire(at),
        };
        self.tell(generation, id, message);
    }

    /// A worker process has returned a channel, or has handed it on.
    pub(super) fn on_released(&mut self, from: usize, id: SlotId, linked: bool) {
        let found = self.puppets.iter().position(|puppet| puppet.id == id);
        if !linked && found.is_none_or(|at| self.puppets[at].generation != from) {
            return self.on_link_ended(found);
        }
        let Some(at) = found else { return self.on_released_late(id, linked) };
        let puppet = &mut self.puppets[at];
        let Some(channel) = puppet.held.as_ref().map(|held| held.try_clone().unwrap()) else { return };
        let link = puppet.link.take();
        if puppet.lost {
            return;
        }
        (puppet.generation, puppet.shared) = (self.generation, linked);
        let (greeting, retired) = (puppet.greeting.clone(), puppet.retired);
        match link.filter(|_| linked) {
            Some(link) => self.pass_linked(Moving { id, channel, link, greeting }),
            None => {
                let started = started(id, greeting);
                self.tell(self.generation, id, Message::SlotStarted { id, started, channel });
            }
        }
        if retired {
            self.tell(self.generation, id, Message::Retire(id));
        }
    }

    /// The link of a worker process to a process of another one has ended. What it had sent there may not have come that far,
    /// which is not known, so that it is not sent again.
    fn on_link_ended(&mut self, puppet: Option<usize>) {
        if let Some(at) = puppet {
            self.puppets[at].shared = false;
        }
        let all = self.clients.iter_mut().flat_map(|client| &mut client.model.requests);
        let waiting = all.filter(|request| request.sent && request.fate == Fate::Waiting);
        waiting.filter(|request| request.server.is_none()).for_each(|request| request.may_be_unseen = true);
    }

    fn pass_linked(&mut self, Moving { id, channel, link, greeting }: Moving) {
        let started = Started { linked: true, ..started(id, greeting) };
        self.tell(self.generation, id, Message::LinkComes(id, link));
        self.tell(self.generation, id, Message::SlotStarted { id, started, channel });
    }

    /// The same of a process that has exited: what it said last is for the next worker process.
    fn on_released_late(&mut self, id: SlotId, linked: bool) {
        let Some(at) = self.reload.unheard.iter().position(|moving| moving.id == id) else { return };
        let moving = self.reload.unheard.swap_remove(at);
        if linked {
            self.pass_linked(moving);
            self.tell(self.generation, id, Message::SlotExited { id, how: "killed".into() });
        }
    }

    /// A process has exited whose channel may be on its way.
    pub(super) fn note_unheard(&mut self, puppet: &mut Puppet) {
        let (Some(link), Some(channel)) = (puppet.link.take(), puppet.held.take()) else { return };
        let (id, greeting) = (puppet.id, puppet.greeting.clone());
        self.reload.unheard.push(Moving { id, channel, link, greeting });
    }

    /// Requests wait in a worker process that has no channel of its own for them: it gets a link.
    pub(super) fn lend(&mut self, generation: usize, pool: u16) {
        if generation == self.generation {
            return;
        }
        let home = self.generation;
        let ready = |puppet: &Puppet| {
            let there = puppet.generation == home && puppet.greeting.is_some() && !puppet.shared;
            puppet.id.pool == pool && there && !puppet.lost && !puppet.retired
        };
        let Some(at) = self.puppets.iter().position(ready) else { return };
        let (owners, guests) = pair(SocketType::STREAM);
        let puppet = &mut self.puppets[at];
        puppet.shared = true;
        let (id, greeting) = (puppet.id, puppet.greeting.clone());
        self.note(|| format!("process {} is lent", id.epoch));
        self.tell(home, id, Message::GuestComes(id, owners));
        let started = Started { guest: true, ..started(id, greeting) };
        self.tell(generation, id, Message::SlotStarted { id, started, channel: guests });
    }

    /// The new worker process takes connections of the old one. Whether any came.
    pub(super) fn adopt(&mut self) -> bool {
        let mut moved = false;
        while let Some(predecessor) = &self.reload.predecessor {
            match receive_connection(predecessor.as_fd(), &mut self.reload.room) {
                Ok(Some(mut transfer)) => {
                    let (shared, thread) = (self.shared(), self.accepting_thread());
                    (transfer.listen, moved) = (0, true);
                    self.note(|| format!("a connection is passed on to thread {thread}"));
                    shared.force_claim(thread);
                    shared.transfer(thread, transfer);
                }
                Ok(None) => {
                    self.note(|| "the old worker process has passed on everything".into());
                    self.reload.predecessor = None;
                    self.shared().predecessors.fetch_sub(1, AcqRel);
                    moved = true;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(error) => self.fail(&format!("a connection is not passed on: {error}")),
            }
        }
        moved
    }

    /// Whether all threads of a worker process have ended.
    pub(super) fn has_ended(&self, generation: usize) -> bool {
        let threads = self.stage.kind.threads;
        self.reactors[generation * threads..][..threads].iter().all(Option::is_none)
    }

    /// A thread has ended; if it was the last one of its worker process, the processes end that this still had.
    pub(super) fn note_end(&mut self, generation: usize) {
        if !self.has_ended(generation) {
            return;
        }
        self.note(|| format!("worker process {generation} ends"));
        for puppet in self.puppets.iter_mut().filter(|puppet| puppet.generation == generation) {
            (puppet.held, puppet.link) = (None, None);
        }
        self.reload.unheard.clear();
    }

    /// Whether connections are on their way between worker processes.
    pub(super) fn is_passing(&self) -> bool {
        self.stage.shared.iter().any(|shared| shared.predecessors.load(Acquire) > 0)
    }

    /// Acts on a message of a worker process that is about more than one of them.
    pub(super) fn on_said(&mut self, generation: usize, said: &FromWorker) {
        match said {
            FromWorker::SlotReady(id, greeting) => {
                if let Some(puppet) = self.puppets.iter_mut().find(|puppet| puppet.id == *id) {
                    puppet.greeting = Some(greeting.clone());
                }
            }
            FromWorker::SlotReleased(id, linked) => self.on_released(generation, *id, *linked),
            FromWorker::QueuePressure(pool) => self.lend(generation, *pool),
            _ => {}
        }
    }
}
