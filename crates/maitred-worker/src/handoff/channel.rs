//! One application process as its home thread sees it: the socket, what is on its way, and what the process keeps.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::keys::{ConnKey, LinkKey};
use hashbrown::{HashMap, HashSet};
use maitred_handoff::MESSAGE_DESCRIPTORS_MAX;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, send, sendmsg};

pub(crate) use self::away::Away;
use super::in_flight::{InFlight, SentBody, Unsent, UnsentBody};
use super::known::{Allowance, Known, OPEN_FILES_DEFAULT};
use super::relay::IdleRelays;
use super::socket::{ClientSockets, Flushed, RECEIVE_BYTES, Received};
use maitred_base::budget::{Budget, Permit};
use maitred_base::passed::{Lane, Passed, Reading};
use maitred_control::SlotId;

/// A request may wait inside an application process for about so long, behind others that are expected to take no
/// longer altogether. Batches come from this: without it each short request would cost two context switches.
const PREFETCH_US: u32 = 1_000;
/// The most requests that wait inside one application process, however short they are.
const PREFETCH_MAX: u32 = 64;
/// Descriptors that an application process may have sent without their frames: those of one message.
const RECEIVED_MAX: usize = MESSAGE_DESCRIPTORS_MAX;
/// Bytes that a process has not read, beyond which it gets no requests: what a channel holds is no more than this and what one
/// turn brings, however many requests the process says that it takes.
const BEHIND_BYTES_MAX: u64 = 1024 * 1024;
/// Sent bytes that stay in the buffer of a channel whose process is behind, to save moving the rest.
const SENT_KEPT_BYTES: usize = 64 * 1024;

/// A descriptor that has still to be sent.
#[derive(Debug)]
struct Passing {
    /// Where its frame begins in `out`.
    offset: usize,
    /// What it is.
    carried: Carried,
}

/// What a frame carries.
#[derive(Debug)]
enum Carried {
    /// A duplicate of this connection's socket, by its index.
    Connection(ConnKey),
    /// The far end of a relay, or what another worker process passes, of which this process keeps nothing.
    Relay(OwnedFd),
    /// A spooled body, of which this process keeps nothing either, and its place among the descriptors.
    Body(OwnedFd, Permit),
}

/// A descriptor that came, in the order in which frames take them.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// Helpers look at it.
    Judging,
    /// A regular file.
    File(Passed, Reading),
    /// Anything else.
    Other(Passed),
}

/// How far an application process has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The process has not said HELLO yet.
    Starting,
    /// The process takes requests.
    Live,
    /// The process takes no more, but still reports what it has: it has shut down its receiving side.
    Leaving,
    /// The process has failed: it cannot be trusted any more, and the master was asked to end it. Until it has, it may
    /// still write to the connections that it has, so nothing is done with them.
    Failed(String),
}

/// Whether, and how, an application process is about to leave this thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DrainMode {
    /// The channel stays.
    Stays,
    /// The channel goes back to the master when it has no request, and none waits.
    WhenQueueEmpty,
    /// The process gets no more requests, and the channel goes back to the master when it has none.
    WhenIdle,
    /// The channel goes to another worker process between two frames; what is under way, and what comes, goes on over a link.
    HandsOver,
    /// The process gets no more requests, and is asked to end when it has none.
    Retires,
    /// The process was asked to end.
    Told,
}

/// How a process does that was asked whether it is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    /// Nothing is to be done.
    Good,
    /// The process is being asked: there is something to flush.
    Asked,
    /// The process has nothing to do, and has not answered the last question.
    Silent,
}

/// A channel to one application process.
#[derive(Debug)]
pub(crate) struct Channel {
    /// Which process.
    pub id: SlotId,
    /// The process id, to show.
    pub pid: u32,
    /// The row of the process in the scoreboard, if there is one for it.
    pub row: Option<usize>,
    /// How far it has come.
    pub phase: Phase,
    /// How many requests it takes at a time.
    pub capacity: u32,
    /// The process takes one descriptor per message, and no files.
    pub sockets_only: bool,
    /// The process takes bodies while they come.
    pub streams: bool,
    /// Requests that it has, by their numbers.
    pub in_flight: HashMap<u32, InFlight>,
    /// Requests of these may be orphaned: no client waits for them.
    has_orphans: bool,
    /// Descriptors that it has sent, and whose frames have not been looked at yet.
    pub received: VecDeque<Arrival>,
    /// Descriptors out of `received` that helpers have still to be given.
    pub unjudged: Vec<Passed>,
    /// Whether helpers look at descriptors.
    pub judging: bool,
    /// Descriptors were lost, because this process had no room for them: which frames the others belong to cannot be known. The
    /// process gets no requests until it has none, when nothing of either is left.
    pub astray: bool,
    /// The process has exited, as wait(2) said in words, and what it said before waits for helpers.
    pub exited: Option<String>,
    /// Requests of other worker processes that it has, by their numbers there.
    pub away: HashMap<u32, Away>,
    /// Keys of the links to these ([`super::link`]).
    pub links: Vec<LinkKey>,
    /// What the numbers of this worker process's connections have in their upper bits there.
    pub tag: u32,
    /// The channel belongs to another worker process, and is reached over a link.
    pub linked: bool,
    /// The owner of the channel says that there is no room for a request.
    pub full: bool,
    /// The worker process that had it before has yet to say what is under way.
    pub joining: bool,
    /// The way to the worker process that is to have it.
    pub next_owner: Option<OwnedFd>,
    /// The way to the helpers for what it passes.
    pub lane: Lane,
    /// Relays that are free for the next request.
    pub idle_relays: IdleRelays,
    /// Frames that were received and not yet looked at.
    pub input: Vec<u8>,
    /// Which descriptors it keeps.
    pub known: Known,
    /// How many it may have.
    pub allowance: Allowance,
    /// Relays that it has, idle or not.
    pub relays: usize,
    /// Descriptors that it was asked to forget, by the number of the first request behind that. Once that one is done, they
    /// are gone.
    forgotten: VecDeque<(u32, usize)>,
    /// Whether it is in the list of channels that have something to flush.
    pub dirty: bool,
    /// Whether it is about to leave.
    pub leave: DrainMode,
    /// By when it has to say that it is still there, which it was asked because a request of it was silent.
    probed: Option<Instant>,
    /// When it was asked whether it is still there, or was last known to be; `true` if the answer is open.
    asked: Option<(Instant, bool)>,
    /// Closed by helpers: what it has sent and what was not received is closed with it.
    socket: Passed,
    next_request: u32,
    out: Vec<u8>,
    sent: usize,
    /// The kernel has not taken all of the last message.
    partly: bool,
    /// What `out` has in the budget for what is unsent, since the process did not take all of it.
    unsent: Option<Permit>,
    passing: Vec<Passing>,
    /// Where each frame in `out` begins, and the number of its request, if it is one.
    frames: Vec<(usize, Option<u32>)>,
    /// Since when it has been at the requests that it has: the first one's arrival, or the last one's end.
    busy_since: Option<Instant>,
    /// Decaying estimate of what one request takes, in microseconds; 0 while unknown.
    service_us: u32,
}

impl Channel {
    /// A channel on which nothing has been said.
    pub(crate) fn new(id: SlotId, pid: u32, row: Option<usize>, socket: OwnedFd, lane: Lane) -> Self {
        Channel {
            id,
            pid,
            row,
            phase: Phase::Starting,
            capacity: 0,
            sockets_only: false,
            streams: false,
            in_flight: HashMap::new(),
            has_orphans: false,
            received: VecDeque::new(),
            unjudged: Vec::new(),
            judging: false,
            astray: false,
            exited: None,
            away: HashMap::new(),
            links: Vec::new(),
            tag: 0,
            linked: false,
            full: false,
            joining: false,
            next_owner: None,
            idle_relays: IdleRelays::default(),
            input: Vec::new(),
            known: Known::default(),
            allowance: Allowance::of(OPEN_FILES_DEFAULT),
            relays: 0,
            forgotten: VecDeque::new(),
            dirty: false,
            leave: DrainMode::Stays,
            probed: None,
            asked: None,
            socket: Passed::own(socket, None, lane.clone()),
            lane,
            next_request: 0,
            out: Vec::new(),
            sent: 0,
            partly: false,
            unsent: None,
            passing: Vec::new(),
            frames: Vec::new(),
            busy_since: None,
            service_us: 0,
        }
    }

    /// Whether it takes requests.
    pub(crate) fn is_live(&self) -> bool {
        let takes = matches!(self.leave, DrainMode::Stays | DrainMode::WhenQueueEmpty | DrainMode::HandsOver);
        self.phase == Phase::Live && !self.astray && !self.joining && takes
    }

    /// Whether nothing is under way on it, in either direction.
    pub(crate) fn is_quiet(&self) -> bool {
        let heard = self.input.is_empty() && self.received.is_empty();
        self.load() == 0 && heard && !self.has_output() && !self.joining
    }

    /// Whether another worker process has asked for it, and will get it.
    pub(crate) fn is_pending_return(&self) -> bool {
        matches!(self.leave, DrainMode::WhenQueueEmpty | DrainMode::WhenIdle | DrainMode::HandsOver)
            && matches!(self.phase, Phase::Live | Phase::Starting)
    }

    /// Tells the process to end.
    pub(crate) fn shut_down(&mut self) {
        self.frames.push((self.out.len(), None));
        maitred_handoff::encode_shutdown(&mut self.out);
    }

    /// Has the process drop its descriptors of all connections.
    pub(crate) fn forget_all(&mut self) {
        while let Some(connection) = self.known.order.front().copied() {
            self.forget(connection);
        }
    }

    /// Asks an idle process every `interval` whether it is still there. A process that has a request answers when it is done
    /// with that, so it is not asked.
    pub(crate) fn health(&mut self, now: Instant, interval: Duration) -> Health {
        // The owner of a linked channel asks, which knows the requests of other worker processes there.
        let asks = self.phase == Phase::Live && !self.joining && !self.linked;
        if !asks || self.load() > 0 || self.leave == DrainMode::Told {
            self.asked = None;
            return Health::Good;
        }
        let (since, open) = *self.asked.get_or_insert((now, false));
        if now.saturating_duration_since(since) < interval {
            return Health::Good;
        }
        if open {
            return Health::Silent;
        }
        self.asked = Some((now, true));
        self.frames.push((self.out.len(), None));
        maitred_handoff::encode_ping(&mut self.out, 0);
        Health::Asked
    }

    /// Asks whether it is still there, because a request of it was silent for too long; it has until then to answer.
    pub(crate) fn probe(&mut self, until: Instant) {
        if self.phase == Phase::Live && self.probed.is_none() {
            self.probed = Some(until);
            self.frames.push((self.out.len(), None));
            maitred_handoff::encode_ping(&mut self.out, 0);
        }
    }

    /// Whether it has not answered that in time.
    pub(crate) fn is_mute(&self, now: Instant) -> bool {
        self.phase == Phase::Live && self.probed.is_some_and(|until| until <= now)
    }

    /// The process has answered.
    pub(crate) fn answered(&mut self) {
        self.probed = None;
        if let Some((_, open)) = &mut self.asked {
            *open = false;
        }
    }

    /// The client does not wait for the response to this request any more. The request counts as stuck when `late` is over,
    /// unless it ends before, and a relay that it is written to is shut down at `cut_at`.
    pub(crate) fn give_up(&mut self, request: u32, now: Instant, late: Duration, cut_at: Option<Instant>) {
        self.has_orphans = true;
        let late_at = now + late;
        if self.linked && self.phase == Phase::Live && self.in_flight.contains_key(&request) {
            self.say_given_up(request, late);
        }
        if let Some(found) = self.in_flight.get_mut(&request) {
            found.late_at = Some(found.late_at.map_or(late_at, |at| at.min(late_at)));
            found.cut_at = found.cut_at.or(cut_at);
        }
    }

    /// Whether it has not ended a request of an earlier connection of this number. A request of the next one would wait for that:
    /// responses of one connection keep the order of their requests (PROTOCOL.md, section 11).
    pub(crate) fn is_taken(&mut self, number: u32) -> bool {
        if !self.has_orphans {
            return false;
        }
        let mut orphans = self.in_flight.values().filter(|found| found.index.is_none()).peekable();
        self.has_orphans = orphans.peek().is_some();
        orphans.any(|found| found.number == number)
    }

    /// Relays that are to be shut down by now, as the process knows them; each is named once.
    pub(crate) fn take_cuts(&mut self, now: Instant) -> Vec<u32> {
        let due = self.in_flight.values_mut().filter(|found| found.cut_at.is_some_and(|at| at <= now));
        let cut = due.map(|found| {
            found.cut_at = None;
            found.number
        });
        let mut cut: Vec<u32> = cut.collect();
        cut.sort_unstable();
        cut
    }

    /// Whether orphaned requests that do not end hold all that it could do: its capacity, or, if it gets no more
    /// requests, those that it has. To end it then takes nothing from other requests.
    pub(crate) fn is_stuck(&self, now: Instant) -> bool {
        let is_late = |found: &&InFlight| found.late_at.is_some_and(|at| at <= now);
        let late = self.in_flight.values().filter(is_late).count();
        let late = late + self.away.values().filter(|away| away.late_at.is_some_and(|at| at <= now)).count();
        let bound = match self.phase {
            Phase::Live if self.is_live() => self.capacity.max(1) as usize,
            // The owner of a linked channel knows the requests of other worker processes there, and has it end.
            Phase::Leaving if self.linked => return false,
            Phase::Live | Phase::Leaving if self.exited.is_none() => self.load() as usize,
            Phase::Live | Phase::Leaving => 1,
            Phase::Starting | Phase::Failed(_) => return false,
        };
        late > 0 && late >= bound
    }

    /// How many more requests it can start on at once.
    pub(crate) fn room(&self) -> u32 {
        let takes = self.is_live() && !self.full && !self.is_cramped() && !self.is_behind();
        if takes { self.capacity.saturating_sub(self.load()) } else { 0 }
    }

    /// Whether one more request may wait in it, and how long that is expected to take, in microseconds. A process that has
    /// been at its present request for longer than it usually takes may be at it for ever.
    pub(crate) fn prefetch_wait(&self, now: Instant) -> Option<u32> {
        let busy_us = self.busy_since.map_or(0, |since| now.saturating_duration_since(since).as_micros());
        if !self.is_live()
            || self.full
            || self.is_cramped()
            || self.is_behind()
            || self.service_us == 0
            || busy_us > u128::from(PREFETCH_US)
        {
            return None;
        }
        if !self.away.is_empty() && self.load() >= self.capacity {
            // Nothing is known of how long these take.
            return None;
        }
        let waiting = (self.load() + 1).saturating_sub(self.capacity);
        let wait = waiting.saturating_mul(self.service_us) / self.capacity.max(1);
        (waiting <= PREFETCH_MAX && wait <= PREFETCH_US).then_some(wait)
    }

    /// Learns from one finished request: an eighth of the news, as TCP does with round-trip times.
    pub(crate) fn learn(&mut self, took_us: u32, now: Instant) {
        self.busy_since = (!self.in_flight.is_empty()).then_some(now);
        let took = took_us.clamp(1, u32::MAX / 8);
        self.service_us = match self.service_us {
            0 => took,
            known => (known / 8 * 7 + known % 8 * 7 / 8 + took.div_ceil(8)).max(1),
        };
    }

    /// The estimate, in microseconds; 0 while unknown.
    pub(crate) fn service_us(&self) -> u32 {
        self.service_us
    }

    /// Numbers a new request of the connection at `index`, to be answered on its own socket, and says whether the
    /// descriptor has to come with it. The frame must be written to [`Channel::out`] next.
    pub(crate) fn enter_direct(&mut self, index: ConnKey, now: Instant) -> (u32, bool) {
        let passes = !self.known.has(index);
        if passes {
            self.make_room();
            self.known.insert(index);
        } else {
            self.known.touch(index);
        }
        (self.enter(index.number(), index, passes.then_some(Carried::Connection(index)), now), passes)
    }

    /// The same for a request that is answered on the relay of this number, whose far end comes along the first time.
    pub(crate) fn enter_relay(
        &mut self,
        number: u32,
        index: ConnKey,
        far_end: Option<OwnedFd>,
        now: Instant,
    ) -> (u32, bool) {
        let passes = far_end.is_some();
        if passes {
            self.make_room();
            self.relays += 1;
        }
        (self.enter(number, index, far_end.map(Carried::Relay), now), passes)
    }

    /// Descriptors that it has of what it was given: connections, relays, and files of bodies.
    fn given(&self) -> usize {
        let kept = self.known.len() + self.relays + self.away.len();
        if kept + self.in_flight.len() < self.allowance.given {
            // Not even a body for each request would make a difference.
            return kept;
        }
        kept + self.in_flight.values().filter(|found| found.body == SentBody::Carried).count()
    }

    /// Whether it has no room for one more relay, or connection, unless one is forgotten.
    pub(crate) fn is_full(&self) -> bool {
        self.given() >= self.allowance.given
    }

    /// Has it forget the connection that was unused for longest, if it has no room for another one.
    fn make_room(&mut self) {
        if self.is_full() {
            let busy: HashSet<u32> = self.in_flight.values().map(|found| found.number).collect();
            if let Some(unused) = self.known.unused(|other| !busy.contains(&other.number())) {
                self.forget(unused);
            }
        }
    }

    /// Whether it is better not to give it anything more before it has answered something: all that it has is in use, or it may
    /// still have too many descriptors that it was asked to forget.
    fn is_cramped(&self) -> bool {
        let forgotten: usize = self.forgotten.iter().map(|(_, count)| count).sum();
        self.load() > 0
            && (forgotten > self.allowance.forgotten || self.load() as usize >= self.allowance.given)
    }

    /// Notes that it is asked to forget something.
    fn note_forgotten(&mut self) {
        match self.forgotten.back_mut() {
            Some((before, count)) if *before == self.next_request => *count += 1,
            _ => self.forgotten.push_back((self.next_request, 1)),
        }
    }

    /// A request is done: the process has also handled all frames before that request.
    pub(crate) fn note_done(&mut self, request: u32) {
        let is_before = |before: u32| request.wrapping_sub(before) < 1 << 31;
        while self.forgotten.front().is_some_and(|(before, _)| is_before(*before)) {
            self.forgotten.pop_front();
        }
    }

    fn enter(&mut self, number: u32, index: ConnKey, carried: Option<Carried>, now: Instant) -> u32 {
        self.busy_since.get_or_insert(now);
        self.asked = None;
        let request = self.take_request_number();
        let offset = self.out.len();
        self.passing.extend(carried.map(|carried| Passing { offset, carried }));
        self.frames.push((offset, Some(request)));
        self.in_flight.insert(
            request,
            InFlight {
                index: Some(index),
                number,
                body: SentBody::default(),
                late_at: None,
                cut_at: None,
                kept: None,
            },
        );
        request
    }

    /// Has the spooled body of the request that was entered last go with its frame.
    pub(crate) fn carry_body(&mut self, (body, held): (OwnedFd, Permit), kept: Permit) {
        let Some((offset, request)) = self.frames.last() else { return };
        self.passing.push(Passing { offset: *offset, carried: Carried::Body(body, held) });
        if let Some(found) = request.and_then(|request| self.in_flight.get_mut(&request)) {
            found.kept = Some(kept);
        }
    }

    /// Notes where the body of a request is, so that it can be taken back as long as the process has not seen it.
    pub(crate) fn note_body(&mut self, request: u32, body: SentBody) {
        if let Some(found) = self.in_flight.get_mut(&request) {
            found.body = body;
        }
    }

    /// Takes back what was done for the request that was entered last, whose frame could not be written.
    pub(crate) fn withdraw(&mut self, request: u32) {
        let Some((offset, _)) = self.frames.pop() else { return };
        self.out.truncate(offset);
        self.in_flight.remove(&request);
        while self.passing.last().is_some_and(|passing| passing.offset == offset) {
            if let Some(Passing { carried: Carried::Connection(index), .. }) = self.passing.pop() {
                self.known.remove(index);
            }
        }
    }

    /// Tells the process that the client of a request has gone.
    pub(crate) fn cancel(&mut self, request: u32, number: u32) {
        if matches!(self.phase, Phase::Live | Phase::Starting) {
            self.frames.push((self.out.len(), None));
            maitred_handoff::encode_cancel(&mut self.out, number | self.tag, request);
        }
    }

    /// Has the process drop its descriptor of a connection, if it keeps one. Gives back whether there is something
    /// to flush.
    pub(crate) fn forget(&mut self, connection: ConnKey) -> bool {
        let kept = self.known.remove(connection);
        if kept && matches!(self.phase, Phase::Starting | Phase::Live) {
            self.frames.push((self.out.len(), None));
            maitred_handoff::encode_forget(&mut self.out, connection.number() | self.tag);
            self.note_forgotten();
        }
        kept
    }

    /// Has the process drop the descriptor that it knows by a relay's number.
    pub(crate) fn forget_number(&mut self, number: u32) {
        self.relays = self.relays.saturating_sub(1);
        self.note_forgotten();
        if matches!(self.phase, Phase::Starting | Phase::Live) {
            self.frames.push((self.out.len(), None));
            maitred_handoff::encode_forget(&mut self.out, number | self.tag);
        }
    }

    /// Where frames are written; they leave with the next [`Channel::flush`].
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Whether frames wait.
    pub(crate) fn has_output(&self) -> bool {
        self.sent < self.out.len()
    }

    /// Whether the process has not read so much that it gets no more.
    fn is_behind(&self) -> bool {
        self.unsent.as_ref().is_some_and(|unsent| unsent.taken() > BEHIND_BYTES_MAX)
    }

    /// Counts what was not sent. True if the process has read some of what it had not.
    pub(crate) fn count_unsent(&mut self, budget: &Arc<Budget>) -> bool {
        let before = self.unsent.as_ref().map_or(0, Permit::taken);
        if !self.has_output() {
            self.unsent = None;
            return before > 0;
        }
        let bytes = (self.out.len() - self.sent) as u64;
        self.unsent.get_or_insert_with(|| budget.begin()).set(bytes);
        bytes < before
    }

    /// Whether the descriptor of this connection has still to be sent.
    pub(crate) fn is_passing(&self, connection: ConnKey) -> bool {
        let is_it =
            |passing: &Passing| matches!(passing.carried, Carried::Connection(index) if index == connection);
        self.passing.iter().any(is_it)
    }

    /// Sends what waits: everything in one message, unless there are more descriptors than one can carry. A descriptor
    /// never leaves later than the first byte of its frame. `counts` gets the descriptors of each message that is not about
    /// something else than requests.
    ///
    /// # Errors
    /// What sendmsg(2) says, but for a full socket.
    pub(crate) fn flush(
        &mut self,
        clients: &impl ClientSockets,
        mut counts: impl FnMut(usize),
    ) -> io::Result<Flushed> {
        while self.sent < self.out.len() {
            let first = self.passing.first().map_or(usize::MAX, |first| first.offset);
            // Behind a message that was not taken as a whole, none goes ahead of its frame: the reader would have those of that
            // message, of which it has not all frames, and more than it may.
            let most = if self.partly && first > self.sent { 0 } else { self.message_descriptors_max() };
            let carried = self.passing.len().min(most);
            let end = self.passing.get(carried).map_or(self.out.len(), |next| next.offset);
            let bytes = self.out.get(self.sent..end).unwrap_or_default();
            let result = match carried {
                0 => send(&self.socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT),
                _ => self.send_with_descriptors(bytes, carried, clients),
            };
            match result {
                Ok(sent) => {
                    self.partly = sent < bytes.len();
                    self.sent += sent;
                    self.passing.drain(..carried);
                    if !self.frames.is_empty() {
                        counts(carried);
                    }
                }
                Err(error @ (Errno::AGAIN | Errno::TOOMANYREFS)) => {
                    self.drop_sent();
                    return Ok(if error == Errno::AGAIN { Flushed::Blocked } else { Flushed::Crowded });
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.drop_output();
        Ok(Flushed::All)
    }

    fn message_descriptors_max(&self) -> usize {
        // Over a link another worker process reads.
        if self.sockets_only && !self.linked { 1 } else { MESSAGE_DESCRIPTORS_MAX }
    }

    /// Whether the kernel has not taken all of a request's frame yet.
    pub(crate) fn is_unsent(&self, request: u32) -> bool {
        let ends = self.frames.iter().skip(1).map(|(start, _)| *start).chain([self.out.len()]);
        self.frames.iter().zip(ends).any(|((_, found), end)| *found == Some(request) && end > self.sent)
    }

    /// Drops what was not sent. Gives back the requests that the process cannot have seen as a whole; they are not in
    /// flight any more.
    pub(crate) fn take_unsent(&mut self) -> Vec<Unsent> {
        let ends = self.frames.iter().skip(1).map(|(start, _)| *start).chain([self.out.len()]);
        let mut unsent = Vec::new();
        for ((start, request), end) in self.frames.iter().zip(ends).filter(|(_, end)| *end > self.sent) {
            let Some(request) = request.and_then(|request| self.in_flight.remove(&request)) else { continue };
            let is_body =
                |passing: &Passing| passing.offset == *start && matches!(passing.carried, Carried::Body(..));
            let body = match request.body {
                // The beginning of the frame may have been sent, and be gone from the buffer.
                SentBody::Inline(bytes) => {
                    let body = end.checked_sub(bytes).filter(|body| body >= start);
                    body.and_then(|body| self.out.get(body..end))
                        .map(|body| UnsentBody::Inline(body.to_vec()))
                }
                SentBody::Carried => {
                    let at = self.passing.iter().position(is_body);
                    at.and_then(|at| match self.passing.remove(at).carried {
                        Carried::Body(body, held) => Some(UnsentBody::Spooled(body, held)),
                        Carried::Connection(_) | Carried::Relay(_) => None,
                    })
                }
                SentBody::Elsewhere => None,
            };
            unsent.push(Unsent { request, body });
        }
        self.drop_output();
        self.unsent = None;
        unsent
    }

    /// Forgets what was sent, once it is most of what is there: to a process that is always a little behind, the end of
    /// the output never comes.
    fn drop_sent(&mut self) {
        if self.sent < SENT_KEPT_BYTES || self.sent < self.out.len() / 2 {
            return;
        }
        // A frame that was sent in part keeps its place, which `take_unsent` compares with its end.
        let whole = self.frames.iter().skip(1).take_while(|(start, _)| *start <= self.sent).count();
        self.frames.drain(..whole);
        self.out.drain(..self.sent);
        let sent = std::mem::take(&mut self.sent);
        self.frames.iter_mut().for_each(|(start, _)| *start = start.saturating_sub(sent));
        self.passing.iter_mut().for_each(|passing| passing.offset -= sent);
    }

    fn drop_output(&mut self) {
        self.out.clear();
        self.passing.clear();
        self.frames.clear();
        (self.sent, self.partly) = (0, false);
    }

    fn send_with_descriptors(
        &self,
        bytes: &[u8],
        carried: usize,
        clients: &impl ClientSockets,
    ) -> rustix::io::Result<usize> {
        let mut descriptors: Vec<BorrowedFd<'_>> = Vec::with_capacity(carried);
        for passing in self.passing.iter().take(carried) {
            descriptors.push(match &passing.carried {
                // The connection is there: one that goes away is first taken out of `passing`, with the channel.
                Carried::Connection(index) => clients.client_socket(*index).ok_or(Errno::BADF)?,
                Carried::Relay(descriptor) | Carried::Body(descriptor, _) => descriptor.as_fd(),
            });
        }
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE_DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, flags)
    }

    /// The socket, for epoll.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

mod arrivals;
mod away;
#[cfg(test)]
mod tests;
