//! The life of application processes in their home thread: start, health checks, and end.
//!
//! | what | caused by | what is done |
//! |---|---|---|
//! | started | the master | its channel is watched; it is `Starting` until HELLO |
//! | retire | the master | no more requests; when it has none left, and no tunnel, SHUTDOWN |
//! | release | the master | its channel is returned when nothing is under way on it, for another worker process |
//! | not answering | `health_interval` | an idle process that does not answer PING is failed |
//! | stuck | `request_timeout` | a process that does not finish a request whose client has gone is failed |
//! | lost | the kernel, the protocol, `request_timeout` | failed: the master ends it |
//! | exited | the master | its last messages are read; its other requests are lost |

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use rustix::event::epoll;

use super::Processes;
use crate::connection::retry::RetryState;
use crate::handoff::{
    Allowance, Channel, DrainMode, Health, OPEN_FILES_DEFAULT, Phase, RELAY_BIT, Received, Relay,
};
use crate::keys::ChannelKey;
use crate::processes::links::LINK_ENDED;
use crate::processes::reasons::CLOSED;
use crate::shared::Outgoing;
use crate::token::Token;
use crate::upstream::relay::unwatch;
use maitred_config::Source;
use maitred_control::{FromWorker, SlotId, Started};
use maitred_status::scoreboard::{SlotRow, SlotState};

/// How the master reports the end of a process without an error.
const CLEAN_EXIT: &str = "exited with status 0";

/// How often the health of processes is looked at; a pool's `health_interval` is met to within this.
const HEALTH_TICK: Duration = Duration::from_millis(500);

/// The master gets a message about waiting requests at most this often for each pool; after one, it checks by itself ten times a
/// second.
const PRESS_INTERVAL: Duration = Duration::from_millis(10);

impl Processes {
    /// Takes in a new application process.
    pub(crate) fn open_channel(&mut self, id: SlotId, started: Started, socket: OwnedFd) {
        let Started { pid, greeting, borrowed, linked, guest } = started;
        let lane = self.shared.lane(id);
        let mut channel = Channel::new(id, pid, self.shared.slot_row(id), socket, lane);
        let pool = self.shared.start.config.pools.get(usize::from(id.pool));
        let configured = pool.and_then(|pool| u32::try_from(pool.open_files?).ok());
        let stated = greeting.as_ref().and_then(|greeting| greeting.open_files);
        channel.allowance = Allowance::of(stated.or(configured).unwrap_or(OPEN_FILES_DEFAULT));
        if let Some(greeting) = greeting {
            channel.phase = Phase::Live;
            channel.capacity = greeting.capacity;
            channel.sockets_only = greeting.sockets_only;
            channel.streams = greeting.streams;
            if let Some(pool) = self.shared.pools.get(usize::from(id.pool)) {
                pool.streams.fetch_or(greeting.streams, Relaxed);
            }
        }
        // The owner sends a message about how to use it.
        (channel.linked, channel.joining) = (guest, guest);
        channel.leave = if borrowed { DrainMode::WhenQueueEmpty } else { DrainMode::Stays };
        let key = self.pools.channels.insert(channel);
        if let Some(pool) = self.pools.pools.get_mut(usize::from(id.pool)) {
            pool.channels.push(key);
        }
        // The requests that another worker process has there have to be known before anything is read.
        let begun = if linked { self.join(key) } else { self.watch_channel(key) };
        if let Err(why) = begun {
            return self.fail_worker(key, &why);
        }
        if let Some(row) = self.slot_row(key) {
            row.begin(pid, self.clock.unix_us());
        }
        self.next_health.get_or_insert(self.clock.now + HEALTH_TICK);
        self.show_slot(key);
        self.agenda.room(id.pool, key);
    }

    /// Has epoll report what comes on a channel.
    pub(crate) fn watch_channel(&self, key: ChannelKey) -> Result<(), String> {
        let channel = &self.pools.channels[key];
        let token = Token::Channel { key, epoch: channel.id.epoch as u32 };
        use epoll::EventFlags as F;
        let flags = F::IN | F::OUT | F::RDHUP | F::ET;
        let added = epoll::add(&self.epoll, channel.socket(), token.pack(), flags);
        added.map_err(|error| format!("its channel cannot be watched: {error}"))
    }

    /// Takes a process out of use, and ends it when it has answered what it has.
    pub(crate) fn on_retire(&mut self, id: SlotId) {
        self.part_with(id, DrainMode::Retires);
    }

    /// Takes all processes whose home is this thread out of use, and ends them.
    pub(crate) fn retire_processes(&mut self) {
        let own = |channel: &Channel| channel.leave == DrainMode::Stays && !channel.linked;
        let stays = self.pools.channels.iter().filter(|(_, channel)| own(channel));
        let ids: Vec<SlotId> = stays.map(|(_, channel)| channel.id).collect();
        ids.into_iter().for_each(|id| self.part_with(id, DrainMode::Retires));
    }

    /// Returns a process to the master as soon as nothing is under way; `at_once` if it gets no more requests until then.
    pub(crate) fn on_release(&mut self, id: SlotId, at_once: bool) {
        self.part_with(id, if at_once { DrainMode::WhenIdle } else { DrainMode::WhenQueueEmpty });
    }

    fn part_with(&mut self, id: SlotId, leave: DrainMode) {
        let Some(key) = self.key_of(id) else { return };
        if self.pools.channels[key].linked {
            // The owner gets the same message.
            return;
        }
        self.pools.channels[key].leave = leave;
        if leave == DrainMode::Retires {
            self.close_links(key);
        }
        self.show_slot(key);
        self.publish_room(usize::from(id.pool));
        self.settle_process(key);
    }

    pub(crate) fn key_of(&self, id: SlotId) -> Option<ChannelKey> {
        self.pools.channels.iter().find(|(_, channel)| channel.id.epoch == id.epoch).map(|(key, _)| key)
    }

    /// Ends, returns or hands over a process that is to go, once nothing is under way on its channel.
    pub(crate) fn settle_process(&mut self, key: ChannelKey) {
        let shared = self.shared;
        let Some(channel) = self.pools.channels.get(key) else { return };
        if channel.leave == DrainMode::HandsOver && channel.phase == Phase::Live {
            return self.try_hand_over(key);
        }
        let going =
            channel.leave != DrainMode::Stays && matches!(channel.phase, Phase::Live | Phase::Starting);
        if !going || !channel.is_quiet() || !self.are_links_drained(channel) || self.has_tunnels(key) {
            return;
        }
        let Some(channel) = self.pools.channels.get_mut(key) else { return };
        let pool = usize::from(channel.id.pool);
        match channel.leave {
            DrainMode::Retires => {
                channel.leave = DrainMode::Told;
                channel.shut_down();
                let id = channel.id;
                self.touch(key);
                self.shared.outbox.send(Outgoing::Tell(FromWorker::SlotDismissed(id)));
            }
            DrainMode::WhenQueueEmpty if shared.queued(pool) > 0 => {}
            // A process without a HELLO yet has nothing under way: its channel is released, not handed over with a link.
            DrainMode::WhenQueueEmpty | DrainMode::WhenIdle | DrainMode::HandsOver => self.release(key),
            DrainMode::Stays | DrainMode::Told => {}
        }
    }

    /// Whether a process that is to end has connections that it has taken over through relays: they go on, unless the server
    /// stops.
    fn has_tunnels(&self, key: ChannelKey) -> bool {
        let of = |relay: &Relay| relay.channel == key && relay.detached && relay.index.is_some();
        let retires = self.pools.channels.get(key).is_some_and(|channel| channel.leave == DrainMode::Retires);
        let stops = self.drain.as_ref().is_some_and(|drain| !drain.has_successor());
        retires && !stops && self.pools.relays.iter().any(|(_, relay)| of(relay))
    }

    /// The same for all that are to go: what they wait for may have ended in another thread.
    pub(crate) fn settle_leaving(&mut self) {
        let leaving = self.pools.channels.iter().filter(|(_, channel)| channel.leave != DrainMode::Stays);
        let keys: Vec<ChannelKey> = leaving.map(|(key, _)| key).collect();
        keys.into_iter().for_each(|key| self.settle_process(key));
    }

    /// Returns a channel on which nothing is under way. The next worker process starts from nothing: the process gets the message
    /// to drop all descriptors that it keeps.
    fn release(&mut self, key: ChannelKey) {
        let Some(channel) = self.pools.channels.get_mut(key) else { return };
        channel.leave = DrainMode::WhenIdle;
        channel.forget_all();
        channel.idle_relays.clear();
        let mut idle = Vec::new();
        let own = |relay: &Relay| relay.channel == key && !relay.orphan;
        for (number, relay) in self.pools.relays.iter_mut().filter(|(_, relay)| own(relay)) {
            channel.forget_number(number.known_as());
            // A response may still be on its way to a slow client.
            (relay.orphan, relay.spoilt) = (true, true);
            if relay.index.is_none() {
                idle.push(number);
            }
        }
        for number in idle {
            if let Some(relay) = self.pools.relays.try_remove(number) {
                unwatch(&self.clients.base.epoll, &relay);
            }
        }
        if channel.has_output() {
            // The rest is sent when epoll reports room; then this is tried again.
            return self.touch(key);
        }
        let id = channel.id;
        self.take_out(key);
        self.shared.outbox.send(Outgoing::Tell(FromWorker::SlotReleased(id, false)));
        self.publish_room(usize::from(id.pool));
    }

    /// Takes a channel out of everything that refers to it.
    fn take_out(&mut self, key: ChannelKey) -> Option<Channel> {
        let mut channel = self.pools.channels.try_remove(key)?;
        self.drop_links(&mut channel);
        let _ = epoll::delete(&self.epoll, channel.socket());
        if let Some(pool) = self.pools.pools.get_mut(usize::from(channel.id.pool)) {
            pool.channels.retain(|other| *other != key);
        }
        if let Some(row) = self.row_of(channel.row) {
            row.enter(SlotState::Dead, self.clock.unix_us());
            row.in_flight.set(0);
        }
        Some(channel)
    }

    /// Sends PING to idle processes, and fails those that have not answered the last one, or that do not end orphaned requests.
    pub(crate) fn check_health(&mut self) {
        let shared = self.shared;
        let now = self.clock.now;
        if self.next_health.is_none_or(|at| now < at) {
            return;
        }
        self.next_health = (!self.pools.channels.is_empty()).then(|| now + HEALTH_TICK);
        self.check_orphans();
        self.settle_leaving();
        let (mut silent, mut asked) = (Vec::new(), Vec::new());
        for (key, channel) in self.pools.channels.iter_mut() {
            let pool = shared.start.config.pools.get(usize::from(channel.id.pool));
            let Some(interval) = pool.map(|pool| pool.health_interval).filter(|time| !time.is_zero()) else {
                continue;
            };
            match channel.health(now, interval) {
                Health::Good => {}
                Health::Asked => asked.push(key),
                Health::Silent => silent.push(key),
            }
        }
        asked.into_iter().for_each(|key| self.touch(key));
        silent.into_iter().for_each(|key| self.fail_worker(key, "it is idle and does not answer"));
    }

    /// Reports to the master that requests wait, so that it does not notice at its next check only.
    pub(crate) fn report_pressure(&mut self, pool: usize) {
        let now = self.clock.now;
        let Some(local) = self.pools.pools.get_mut(pool) else { return };
        if local.pressure_at.is_none_or(|at| now.saturating_duration_since(at) >= PRESS_INTERVAL) {
            local.pressure_at = Some(now);
            self.shared.outbox.send(Outgoing::Tell(FromWorker::QueuePressure(pool as u16)));
        }
    }

    /// The process reads no more frames, but finishes what it has. Requests that it cannot have read go to another one.
    pub(crate) fn let_leave(&mut self, key: ChannelKey) {
        let Some(channel) = self.pools.channels.get_mut(key) else { return };
        if channel.phase == Phase::Live {
            channel.phase = Phase::Leaving;
        }
        let pool = usize::from(channel.id.pool);
        self.give_back_unsent(key);
        let unsent = self.pools.channels[key].take_unsent();
        self.close_links(key);
        self.answer_unsent(unsent);
        self.show_slot(key);
        self.publish_room(pool);
    }

    /// Marks a process as failed, and has the master end it. The requests of the process stay with it until it has exited.
    pub(crate) fn fail_worker(&mut self, key: ChannelKey, why: &str) {
        let Some(channel) = self.pools.channels.get_mut(key) else { return };
        if matches!(channel.phase, Phase::Failed(_)) {
            return;
        }
        channel.phase = Phase::Failed(why.to_owned());
        let _ = epoll::delete(&self.clients.base.epoll, channel.socket());
        let id = channel.id;
        self.give_back_unsent(key);
        let unsent = self.pools.channels[key].take_unsent();
        self.answer_unsent(unsent);
        let message =
            if why == CLOSED { FromWorker::SlotClosed(id) } else { FromWorker::SlotLost(id, why.to_owned()) };
        self.shared.outbox.send(Outgoing::Tell(message));
        self.show_slot(key);
        self.publish_room(usize::from(id.pool));
        let exited = self.pools.channels.get_mut(key).and_then(|channel| channel.exited.take());
        if let Some(how) = exited {
            // The process has exited, and its last messages have waited for helpers until now.
            self.on_slot_exited(id, &how);
        }
    }

    /// The master reports that a process has exited. The channel may hold answers that it sent before.
    pub(crate) fn on_slot_exited(&mut self, id: SlotId, how: &str) {
        let Some(key) = self.key_of(id) else { return self.note_end(id, how) };
        if self.pools.channels[key].linked && !matches!(self.pools.channels[key].phase, Phase::Failed(_)) {
            // The last messages of the process come over the link, which ends after them.
            self.pools.channels[key].exited = Some(how.to_owned());
            return;
        }
        if self.pools.channels[key].joining && !matches!(self.pools.channels[key].phase, Phase::Failed(_)) {
            // The last messages of the process are read when it is known which worker process each request belongs to
            // ([`Processes::take_over`]).
            self.pools.channels[key].exited = Some(how.to_owned());
            return;
        }
        self.lose_process(key, how);
    }

    /// The process of a channel has exited; or its link has ended, and there will be no more messages of it here.
    pub(crate) fn lose_process(&mut self, key: ChannelKey, how: &str) {
        let id = self.pools.channels[key].id;
        let heard = match &self.pools.channels[key].phase {
            Phase::Failed(why) => Err(why.clone()),
            _ => self.read_channel(key, true),
        };
        if heard == Ok(Received::Waits) && self.is_awaited(key) {
            // The last messages of the process wait for helpers; but it gets no more requests.
            self.let_leave(key);
            if let Some(channel) = self.pools.channels.get_mut(key) {
                channel.exited = Some(how.to_owned());
            }
            return;
        }
        let said = heard.as_ref().err().filter(|why| why.as_str() != CLOSED);
        self.note_end(id, &said.map_or_else(|| how.to_owned(), |why| format!("{why}; {how}")));
        let Some(leaving) = self.pools.channels.get(key).map(|channel| channel.phase == Phase::Leaving)
        else {
            return;
        };
        // The process has not read the requests that were sent after its last message.
        self.let_leave(key);
        let Some(channel) = self.take_out(key) else { return };
        if channel.linked {
            // The slot has to be reached in another way: requests may wait for it.
            self.shared.outbox.send(Outgoing::Tell(FromWorker::SlotReleased(id, false)));
        }
        // An external server may close channels at any time, and may go on running after it has failed here.
        let foreign = self.shared.start.config.pools.get(usize::from(id.pool));
        let foreign = foreign.is_some_and(|pool| matches!(pool.source, Source::Channel(_)));
        let closed = matches!(&channel.phase, Phase::Failed(why) if why == CLOSED);
        let expected =
            self.drain.is_some() || leaving || channel.leave == DrainMode::Told || foreign && closed;
        self.log_end(&channel, expected, heard.as_ref().err().map(String::as_str), how);
        // Requests of a process that may go on running must not be sent to another one.
        let given_up = foreign && !closed && matches!(&channel.phase, Phase::Failed(_));
        let may_live = given_up || how == LINK_ENDED;
        self.lose_handed_off(key, &channel, may_live);
        self.lose_relays(key);
        self.publish_room(usize::from(id.pool));
    }

    /// What the log says of a process that has gone: of an expected end only that requests are lost by it.
    fn log_end(&self, channel: &Channel, expected: bool, heard: Option<&str>, how: &str) {
        let (pool, slot, pid) = (self.shared.pool_name(channel.id.pool), channel.id.slot, channel.pid);
        let requests = channel.in_flight.len();
        let clean = how == CLEAN_EXIT && heard.is_none_or(|why| why == CLOSED);
        if !expected && requests == 0 && clean {
            tracing::info!(pool, slot, pid, "application process has ended: {how}");
        } else if !expected || requests > 0 {
            let why = heard.map(|why| format!("{why}; ")).unwrap_or_default();
            tracing::warn!(pool, slot, pid, requests, "application process lost: {why}{how}");
        }
    }

    /// The requests whose connections such a process had, in the order in which they came.
    fn lose_handed_off(&mut self, key: ChannelKey, channel: &Channel, may_live: bool) {
        let mut lost: Vec<_> = channel.in_flight.iter().collect();
        lost.sort_unstable_by_key(|(request, _)| **request);
        for (request, found) in lost {
            let (false, Some(index)) = (found.number & RELAY_BIT != 0, found.index) else { continue };
            self.row.handoff_lost.add(1);
            let has = (key, *request);
            let found = self.connections.get(index);
            debug_assert!(found.is_some_and(|found| found.is_handed_off_as(has)));
            if may_live {
                self.exchange(index).dispatch.retry = RetryState::Never;
            }
            self.lose(index);
        }
    }

    /// Whether a request waits for messages of this process.
    fn is_awaited(&self, key: ChannelKey) -> bool {
        let channel = self.pools.channels.get(key);
        channel.is_some_and(|channel| {
            channel.in_flight.values().any(|found| found.index.is_some())
                || channel.away.values().any(|away| away.link.is_some())
        })
    }

    fn row_of(&self, row: Option<usize>) -> Option<&'static SlotRow> {
        self.shared.board.slots.get(row?)
    }

    pub(crate) fn slot_row(&self, key: ChannelKey) -> Option<&'static SlotRow> {
        self.row_of(self.pools.channels.get(key)?.row)
    }

    /// Brings the scoreboard's row of a process up to date.
    pub(crate) fn show_slot(&self, key: ChannelKey) {
        let (Some(channel), Some(row)) = (self.pools.channels.get(key), self.slot_row(key)) else { return };
        let state = match channel.phase {
            Phase::Starting => SlotState::Starting,
            Phase::Live if matches!(channel.leave, DrainMode::Retires | DrainMode::Told) => {
                SlotState::Draining
            }
            Phase::Live if channel.load() == 0 => SlotState::Idle,
            Phase::Live => SlotState::Busy,
            Phase::Leaving | Phase::Failed(_) => SlotState::Draining,
        };
        row.enter(state, self.clock.unix_us());
        row.in_flight.set(u64::from(channel.load()));
        row.capacity.set(u64::from(channel.capacity));
        row.service_us.set(u64::from(channel.service_us()));
    }
}
