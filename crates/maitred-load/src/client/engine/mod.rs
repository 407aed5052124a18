//! The loop of one client thread: `place` finds a connection for each request, `transfer` moves bytes, `finish` ends requests.

mod finish;
mod place;
mod transfer;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::connection::{Connections, State};
use super::groups::Groups;
use super::{Next, Request, Rules, Shared, Workload};
use crate::measure::{Failure, Measurements, Nanos};

/// Events taken from the kernel at a time.
const EVENTS_PER_TURN: usize = 512;
/// Bytes of the receive buffer that all connections of a thread share.
const RECEIVE_BYTES: usize = 64 * 1024;
/// Full buffers that one event may bring before other connections have their turn.
const RECEIVES_PER_EVENT_MAX: usize = 16;
/// How often deadlines are looked at, which is also how exact they are.
const SWEEP_EVERY: Nanos = 50_000_000;
/// How long no connection is opened after one was refused, so that an unreachable server does not use up the whole
/// workload within a second.
const CONNECT_PAUSE: Nanos = 50_000_000;
/// How long to wait for a workload that has nothing yet.
const STARVED_WAIT: Nanos = 1_000_000;
/// How often the ramp opens further connections.
const RAMP_STEP: Nanos = 2_000_000;
/// How long responses are waited for after the end of the run; then they count as unfinished.
pub(super) const DRAIN_MAX: Nanos = 5_000_000_000;
/// How long the rest of a workload is waited for, in order to count what was not sent.
const UNSENT_WAIT_MAX: Duration = Duration::from_millis(200);
/// Requests whose buffers are kept for the next ones.
const SPARE_REQUESTS: usize = 4096;

/// One thread's part of a run.
pub struct Engine<W> {
    rules: Rules,
    workload: W,
    shared: Arc<Shared>,
    start: Instant,
    epoll: OwnedFd,
    connections: Connections,
    groups: Groups,
    seen: Measurements,
    rx: Vec<u8>,
    /// What was decrypted.
    plain: Vec<u8>,
    #[expect(clippy::vec_box, reason = "the boxes are what is kept: connections take and return them")]
    spare: Vec<Box<Request>>,
    /// Events whose handling was interrupted: index, serial.
    again: Vec<(u32, u32)>,
    serial: u32,
    in_flight: usize,
    waiting: usize,
    /// No request is taken from the workload before this.
    next_due: Nanos,
    no_connect_until: Nanos,
    sweep_at: Nanos,
    /// The workload has ended.
    is_finished: bool,
    is_starved: bool,
    /// Set when nothing is sent any more: when waiting for responses ends.
    drain_until: Option<Nanos>,
    /// What was reported to [`Shared`] last: responses, failures, bytes.
    told: [u64; 3],
}

impl<W: Workload> Engine<W> {
    /// A thread's part; `start` is the start of the run, the same for all threads.
    ///
    /// # Errors
    /// When the kernel gives no epoll descriptor.
    pub fn new(rules: Rules, workload: W, shared: Arc<Shared>, start: Instant) -> io::Result<Self> {
        Ok(Engine {
            rules,
            workload,
            shared,
            start,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            connections: Connections::new(),
            groups: Groups::default(),
            seen: Measurements::default(),
            rx: vec![0; RECEIVE_BYTES],
            plain: Vec::new(),
            spare: Vec::new(),
            again: Vec::new(),
            serial: 0,
            in_flight: 0,
            waiting: 0,
            next_due: 0,
            no_connect_until: 0,
            sweep_at: SWEEP_EVERY,
            is_finished: false,
            is_starved: false,
            drain_until: None,
            told: [0; 3],
        })
    }

    /// Runs to the end, and returns what was seen, the workload, and when it ended.
    ///
    /// # Errors
    /// When epoll_wait(2) fails.
    pub fn run(mut self) -> io::Result<(Measurements, W, Nanos)> {
        let mut events = Vec::with_capacity(EVENTS_PER_TURN);
        let ended_at = loop {
            let now = self.now();
            self.end_turn(now);
            if self.is_over(now) {
                break now;
            }
            events.clear();
            let timeout = self.timeout(now);
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                let bits = event.data.u64();
                self.on_event(bits as u32, (bits >> 32) as u32, event.flags);
            }
            for (index, serial) in std::mem::take(&mut self.again) {
                self.on_event(index, serial, epoll::EventFlags::IN);
            }
        };
        self.seen.unfinished += self.in_flight as u64;
        self.tell();
        Ok((self.seen, self.workload, ended_at))
    }

    fn now(&self) -> Nanos {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(Nanos::MAX)
    }

    fn end_turn(&mut self, now: Nanos) {
        if now >= self.sweep_at {
            self.sweep(now);
            self.sweep_at = now + SWEEP_EVERY;
            self.tell();
        }
        if self.drain_until.is_none() && (now >= self.rules.end || self.shared.stop.load(Relaxed)) {
            self.stop(now);
        }
        self.feed_hungry(now);
        self.is_starved = false;
        self.pull(now);
    }

    fn is_over(&self, now: Nanos) -> bool {
        let is_idle = self.in_flight == 0 && self.waiting == 0;
        match self.drain_until {
            Some(until) => is_idle || now >= until,
            None => is_idle && self.is_finished,
        }
    }

    /// Ends the sending: what waits is dropped, and what was due by now is counted.
    fn stop(&mut self, now: Nanos) {
        self.drain_until = Some(now.saturating_add(DRAIN_MAX.min(self.rules.timeout)));
        let end = now.min(self.rules.end);
        for request in self.groups.drain_waiting() {
            self.seen.unsent += u64::from(request.due.is_some_and(|due| due <= end));
            self.workload.failed(&request, now);
        }
        self.waiting = 0;
        if self.rules.is_open && !self.is_finished {
            self.count_unsent(end);
        }
        self.is_finished = true;
    }

    /// Counts what was due by `end` and has not been taken from the workload.
    fn count_unsent(&mut self, end: Nanos) {
        let give_up = Instant::now() + UNSENT_WAIT_MAX;
        let mut request = Request::default();
        loop {
            request.bytes.clear();
            match self.workload.next(end, &mut request) {
                Next::Request => self.seen.unsent += 1,
                Next::Starved if Instant::now() < give_up => std::thread::yield_now(),
                _ => break,
            }
        }
    }

    fn timeout(&self, now: Nanos) -> Timespec {
        let mut at = self.sweep_at;
        if self.drain_until.is_none() {
            at = at.min(self.rules.end);
            if !self.is_finished && self.waiting < self.rules.waiting_max {
                if self.is_starved {
                    at = at.min(now + STARVED_WAIT);
                }
                if !self.rules.is_open && now < self.rules.ramp {
                    at = at.min(now + RAMP_STEP);
                }
                if self.next_due > now {
                    at = at.min(self.next_due);
                }
            }
            if self.groups.has_hungry() && self.no_connect_until > now {
                at = at.min(self.no_connect_until);
            }
        }
        let left = if self.again.is_empty() { at.saturating_sub(now) } else { 0 };
        Timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as _ }
    }

    /// Looks for deadlines that have passed.
    fn sweep(&mut self, now: Nanos) {
        let late: Vec<u32> = self
            .connections
            .slab
            .iter()
            .filter(|(_, connection)| connection.deadline <= now)
            .map(|(index, _)| index as u32)
            .collect();
        for index in late {
            match self.connections.get(index).map(|connection| connection.state) {
                Some(State::Idle) => self.close(index),
                Some(_) => self.fail(index, Failure::Timeout, now),
                None => {}
            }
        }
    }

    fn recycle(&mut self, mut request: Box<Request>) {
        if self.spare.len() < SPARE_REQUESTS {
            request.bytes.clear();
            self.spare.push(request);
        }
    }

    /// Tells the thread that draws the progress.
    fn tell(&mut self) {
        let now = [self.seen.responses, self.seen.failures(), self.seen.body_bytes];
        let [responses, failures, bytes] = std::mem::replace(&mut self.told, now);
        self.shared.responses.fetch_add(now[0] - responses, Relaxed);
        self.shared.failures.fetch_add(now[1] - failures, Relaxed);
        self.shared.body_bytes.fetch_add(now[2] - bytes, Relaxed);
    }
}
