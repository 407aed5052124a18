//! The loop of one thread.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use maitred_http::h3::Code;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use slab::Slab;

use super::peer::{Peer, State};
use super::{Ledger, Load};
use crate::client::Shared;
use crate::http3::{Buffers, Dialer, idle_transport};
use crate::measure::{Measurements, Nanos};

/// Events taken from the kernel at a time.
const EVENTS_PER_TURN: usize = 256;
/// How often requests are looked at that take too long.
const SWEEP_EVERY: Nanos = 50_000_000;
/// Handshakes at a time, so that the first packets of thousands of connections are not lost in the server's socket.
const HANDSHAKES_MAX: usize = 32;
/// How long no connection is begun after one has failed.
const CONNECT_PAUSE: Nanos = 50_000_000;
/// How long responses are waited for after the end of the run.
const DRAIN_MAX: Nanos = 5_000_000_000;

/// Why a connection is looked at.
#[derive(Debug, Clone, Copy)]
enum Cause {
    /// The connection has just been begun.
    New,
    /// Datagrams have come.
    Readable,
    /// A timer of QUIC has expired.
    Timer,
    /// Something takes too long.
    Late,
}

/// One thread's part of a run.
#[derive(Debug)]
pub struct Engine {
    load: Load,
    idle_dialer: Dialer,
    shared: Arc<Shared>,
    start: Instant,
    epoll: OwnedFd,
    peers: Slab<Peer>,
    ledger: Ledger,
    buffers: Buffers,
    timers: BinaryHeap<Reverse<(Instant, usize, u32)>>,
    /// Peers whose sockets have more than one turn has taken.
    again: Vec<(usize, u32)>,
    serial: u32,
    /// Connections that are kept busy, or are about to be.
    busy: usize,
    /// Connections that stay, or are about to.
    idle: usize,
    handshakes: usize,
    no_connect_until: Nanos,
    sweep_at: Nanos,
    drain_until: Option<Nanos>,
    told: [u64; 3],
}

impl Engine {
    /// A thread's part; `start` is the start of the run, the same for all threads.
    ///
    /// # Errors
    /// When the kernel gives no epoll descriptor.
    pub fn new(load: Load, shared: Arc<Shared>, start: Instant) -> io::Result<Engine> {
        let mut idle_dialer = load.dialer.clone();
        idle_dialer.set_transport(idle_transport());
        let ledger = Ledger {
            seen: Measurements::default(),
            begun: 0,
            turn: 0,
            requests_max: load.requests.unwrap_or(u64::MAX),
            in_flight: 0,
            is_over: false,
            now: 0,
        };
        Ok(Engine {
            idle_dialer,
            load,
            shared,
            start,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            peers: Slab::new(),
            ledger,
            buffers: Buffers::default(),
            timers: BinaryHeap::new(),
            again: Vec::new(),
            serial: 0,
            busy: 0,
            idle: 0,
            handshakes: 0,
            no_connect_until: 0,
            sweep_at: SWEEP_EVERY,
            drain_until: None,
            told: [0; 3],
        })
    }

    /// Runs to the end, and returns what was seen, and when it ended.
    ///
    /// # Errors
    /// When epoll_wait(2) fails, or there can be no socket.
    pub fn run(mut self) -> io::Result<(Measurements, Nanos)> {
        let mut events = Vec::with_capacity(EVENTS_PER_TURN);
        let ended_at = loop {
            self.look_at_clock();
            if self.is_over() {
                break self.ledger.now;
            }
            self.connect()?;
            events.clear();
            let timeout = self.timeout();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            self.tick();
            for event in &events {
                let bits = event.data.u64();
                self.on_readable(bits as u32 as usize, (bits >> 32) as u32);
            }
            for (key, serial) in std::mem::take(&mut self.again) {
                self.on_readable(key, serial);
            }
            self.expire_timers();
        };
        for (_, mut peer) in std::mem::take(&mut self.peers) {
            self.ledger.seen.unfinished += peer.unfinished();
            if peer.state != State::Ended {
                peer.close(Code::NoError, &mut self.ledger);
                peer.link.transmit(Instant::now(), &mut self.buffers);
            }
        }
        self.tell();
        Ok((self.ledger.seen, ended_at))
    }

    fn tick(&mut self) {
        self.ledger.now = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(Nanos::MAX);
    }

    fn look_at_clock(&mut self) {
        self.tick();
        let now = self.ledger.now;
        let is_late = now >= self.load.end || self.shared.stop.load(Relaxed);
        if is_late && self.drain_until.is_none() {
            self.ledger.is_over = true;
            self.drain_until = Some(now.saturating_add(DRAIN_MAX.min(nanos(self.load.timeout))));
        }
        if now >= self.sweep_at {
            self.sweep_at = now + SWEEP_EVERY;
            self.sweep();
            self.tell();
        }
    }

    /// The end: all requests were answered, or it is time. Connections that stay are waited for until then.
    fn is_over(&self) -> bool {
        match self.drain_until {
            Some(until) => self.ledger.in_flight == 0 || self.ledger.now >= until,
            None => self.ledger.in_flight == 0 && !self.ledger.may_begin() && self.load.idle == 0,
        }
    }

    /// Begins connections, as long as some are missing.
    fn connect(&mut self) -> io::Result<()> {
        while self.handshakes < HANDSHAKES_MAX && self.ledger.now >= self.no_connect_until {
            let is_idle = if self.ledger.may_begin() && self.busy < self.load.connections {
                false
            } else if !self.ledger.is_over && self.idle < self.load.idle {
                true
            } else {
                break;
            };
            let dialer = if is_idle { &self.idle_dialer } else { &self.load.dialer };
            let link = dialer.dial(Instant::now())?;
            self.serial = self.serial.wrapping_add(1);
            let peer = Peer::new(link, self.load.streams, is_idle, self.serial, self.ledger.now);
            let entry = self.peers.vacant_entry();
            let data = epoll::EventData::new_u64(u64::from(self.serial) << 32 | entry.key() as u64);
            epoll::add(&self.epoll, &peer.link, data, epoll::EventFlags::IN)?;
            let key = entry.key();
            entry.insert(peer);
            *(if is_idle { &mut self.idle } else { &mut self.busy }) += 1;
            self.handshakes += 1;
            self.drive(key, Cause::New);
        }
        Ok(())
    }

    fn on_readable(&mut self, key: usize, serial: u32) {
        if self.peers.get(key).is_some_and(|peer| peer.serial == serial) {
            self.drive(key, Cause::Readable);
        }
    }

    /// Does what a connection has a cause for, all that follows from it, and sends what comes of that.
    fn drive(&mut self, key: usize, cause: Cause) {
        let Engine { peers, ledger, buffers, load, .. } = self;
        let Some(peer) = peers.get_mut(key) else { return };
        let (before, now) = (peer.state, Instant::now());
        match cause {
            Cause::New => {}
            Cause::Readable => match peer.link.receive(now, buffers) {
                Ok(false) => {}
                Ok(true) => self.again.push((key, peer.serial)),
                Err(_) => peer.refused(ledger),
            },
            Cause::Timer => peer.link.expire(now),
            Cause::Late => peer.expire(ledger.now.saturating_sub(nanos(load.timeout)), ledger),
        }
        peer.drive(&load.samples, ledger);
        peer.link.transmit(now, buffers);
        let (state, is_idle) = (peer.state, peer.is_idle);
        let is_gone = peer.counts && matches!(state, State::Leaving | State::Ended);
        peer.counts &= !is_gone;
        if is_gone {
            *(if is_idle { &mut self.idle } else { &mut self.busy }) -= 1;
        }
        if before == State::Handshake && state != State::Handshake {
            self.handshakes -= 1;
            if state == State::Ended {
                self.no_connect_until = self.ledger.now + CONNECT_PAUSE;
            }
        }
        if state == State::Ended {
            self.peers.remove(key);
        } else {
            self.queue_timer(key);
        }
    }

    /// Makes sure that a connection is looked at when its timer expires. Timers move to later times more often than to earlier
    /// ones: what is queued too early is queued again when it comes.
    fn queue_timer(&mut self, key: usize) {
        let Some(peer) = self.peers.get_mut(key) else { return };
        let Some(at) = peer.link.timeout() else { return };
        if peer.queued.is_none_or(|queued| at < queued) {
            peer.queued = Some(at);
            self.timers.push(Reverse((at, key, peer.serial)));
        }
    }

    fn expire_timers(&mut self) {
        let now = Instant::now();
        while let Some(Reverse((at, key, serial))) =
            self.timers.peek().copied().filter(|first| first.0.0 <= now)
        {
            self.timers.pop();
            let Some(peer) = self.peers.get_mut(key) else { continue };
            if peer.serial != serial || peer.queued != Some(at) {
                continue;
            }
            peer.queued = None;
            if peer.link.timeout().is_some_and(|timer| timer <= now) {
                self.drive(key, Cause::Timer);
            } else {
                self.queue_timer(key);
            }
        }
    }

    /// Gives up what takes too long.
    fn sweep(&mut self) {
        let before = self.ledger.now.saturating_sub(nanos(self.load.timeout));
        let late = self.peers.iter().filter(|(_, peer)| peer.is_late(before)).map(|(key, _)| key);
        for key in late.collect::<Vec<_>>() {
            self.drive(key, Cause::Late);
        }
    }

    fn timeout(&self) -> Timespec {
        let mut at = self.sweep_at;
        at = at.min(self.drain_until.unwrap_or(self.load.end));
        if self.no_connect_until > self.ledger.now {
            at = at.min(self.no_connect_until);
        }
        let mut left = at.saturating_sub(self.ledger.now);
        if let Some(Reverse((first, ..))) = self.timers.peek() {
            left = left.min(nanos(first.saturating_duration_since(Instant::now())));
        }
        if !self.again.is_empty() {
            left = 0;
        }
        Timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as _ }
    }

    /// Tells the thread that draws the progress.
    fn tell(&mut self) {
        let seen = &self.ledger.seen;
        let now = [seen.responses, seen.failures(), seen.body_bytes];
        let [responses, failures, bytes] = std::mem::replace(&mut self.told, now);
        self.shared.responses.fetch_add(now[0] - responses, Relaxed);
        self.shared.failures.fetch_add(now[1] - failures, Relaxed);
        self.shared.body_bytes.fetch_add(now[2] - bytes, Relaxed);
    }
}

fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}
