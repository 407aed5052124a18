//! Clients that are neither silent nor of any use: minimal rates, and bounds on the whole.
//!
//! What a client **sends** has a deadline that its bytes put off: a head `head_timeout`, and a second more for each
//! `head_bytes_per_second_min` bytes, up to `head_timeout_max`; a body `body_rate_grace` likewise. That is one sum for each
//! piece that comes, and nothing while none does.
//!
//! What a client **takes** is looked at four times in `response_rate_window`. One that has had something unsent at each
//! look, for all that time, must have taken `response_bytes_per_second_min` bytes a second. Nothing is counted where bytes
//! are sent: the kernel counts what was acknowledged (tcp(7), `tcpi_bytes_acked`), whoever wrote it, TLS and applications
//! included. What HTTP/2 holds back, because the client opens no window, is counted by the session as it makes frames.
//!
//! | who | has something unsent | what counts |
//! |---|---|---|
//! | a response that Maitred sends | its state says so | what was acknowledged |
//! | one that an application writes to the client's socket | the kernel holds bytes that may not leave yet | the same |
//! | the end of the last response | the kernel holds bytes | the same |
//! | an HTTP/2 connection | its frames do not leave | the same |
//! | | its window is used up, and a stream waits | content in frames |
//! | a stream | its own window is used up | its content in frames |
//!
//! An event stream with nothing to send is in none of these rows. What waits for a disk is not the client's fault.

use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use maitred_http::h2::StreamKey;
use maitred_sys::delivery::{self, Progress};

use super::connection::{Exchange, State};
use super::http2::Http2Connection;
use super::layers::{Admission, Clients};
use super::wire::Wire;
use crate::config::Limits;

/// Looks at one client in the time in which it has to take what it has to take.
const LOOKS_PER_WINDOW: u32 = 4;
/// Shortest time between two looks: a tick of the timers.
const LOOK_EVERY_MIN: Duration = super::timers::TICK;
/// Connections that are looked at in one turn: each may take a system call.
const LOOKS_PER_TURN: usize = 512;

/// How far a body has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    since: Instant,
    bytes: u64,
    paused: Option<Instant>,
}

impl Pace {
    fn new(now: Instant) -> Self {
        Pace { since: now, bytes: 0, paused: None }
    }

    /// Nothing is read from now on, which is not the client's fault.
    pub(super) fn pause(&mut self, now: Instant) {
        self.paused.get_or_insert(now);
    }

    /// So many bytes more have come.
    pub(super) fn count(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    fn go_on(&mut self, now: Instant) {
        if let Some(at) = self.paused.take() {
            self.since += now.saturating_duration_since(at);
        }
    }
}

/// By when a head has to be there of which so many bytes have come, and whose first one came at `began`.
pub(super) fn head_deadline(limits: &Limits, began: Instant, bytes: u64) -> Instant {
    let time = extended(limits.head_timeout, bytes, limits.head_bytes_per_second_min);
    bounded(began + time.min(limits.head_timeout_max.max(limits.head_timeout)), began, limits)
}

/// By when the next piece of a body has to be there, or its end.
fn body_deadline(limits: &Limits, began: Instant, pace: &Pace, now: Instant) -> Instant {
    let next = now + limits.body_timeout;
    let until = match limits.body_bytes_per_second_min {
        0 => next,
        rate => next.min(pace.since + extended(limits.body_rate_grace, pace.bytes, rate)),
    };
    bounded(until, began, limits)
}

/// A time that is longer by a second for so many bytes each; 0: not at all.
fn extended(time: Duration, bytes: u64, per_second: u32) -> Duration {
    match per_second {
        0 => time,
        // Far beyond any bound of a body, and far below what an `Instant` can take.
        rate => time + Duration::from_millis(bytes.min(1 << 40).saturating_mul(1000) / u64::from(rate)),
    }
}

fn bounded(until: Instant, began: Instant, limits: &Limits) -> Instant {
    limits.request_total_timeout.map_or(until, |total| until.min(began + total))
}

/// What keeps something from leaving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeldBy {
    /// The client acknowledges nothing, or its socket is full.
    Socket,
    /// It opens no window of HTTP/2.
    Window,
}

/// What a client that has something to take has taken so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    held_by: HeldBy,
    /// What the kernel says of the connection.
    socket: Progress,
    /// Bytes of content in frames of HTTP/2.
    framed: u64,
}

/// A client that had something unsent at each look since.
#[derive(Debug, Clone, Copy)]
struct Record {
    serial: u32,
    since: Instant,
    first: Seen,
    /// The pass of looks that has seen it last.
    pass: u64,
}

/// Who takes what at which rate.
#[derive(Debug, Default)]
pub(super) struct Rates {
    records: HashMap<u32, Record>,
    pass: u64,
    /// Where this pass of looks has come to.
    cursor: usize,
    next: Option<Instant>,
}

impl Rates {
    /// Whether the client at `index`, which has something unsent, has taken too little for too long. One that is held back now
    /// by this and now by that is judged by what holds it back in the end: over all that time it has taken so much, or not.
    fn is_slow(&mut self, (index, serial): (u32, u32), seen: Seen, now: Instant, limits: &Limits) -> bool {
        let new = Record { serial, since: now, first: seen, pass: self.pass };
        let record = self.records.entry(index).or_insert(new);
        if record.serial != serial {
            *record = new;
        }
        record.pass = new.pass;
        let passed = now.saturating_duration_since(record.since);
        if passed < limits.response_rate_window {
            return false;
        }
        let first = std::mem::replace(record, new).first;
        let wanted = passed.as_millis() as u64 * u64::from(limits.response_bytes_per_second_min) / 1000;
        match seen.held_by {
            HeldBy::Window => seen.framed.saturating_sub(first.framed) < wanted,
            HeldBy::Socket => {
                let busy = seen.socket.busy.saturating_sub(first.socket.busy);
                // Otherwise the kernel was waiting for bytes some of the time, not for the client.
                let waited = busy >= passed / 10 * 9;
                waited && seen.socket.acknowledged.saturating_sub(first.socket.acknowledged) < wanted
            }
        }
    }

    /// All connections were looked at: what had nothing unsent is forgotten.
    fn end_pass(&mut self) {
        let pass = self.pass;
        self.records.retain(|_, record| record.pass == pass);
        (self.pass, self.cursor) = (pass + 1, 0);
    }
}

/// How often is looked; `None` if nothing has a bound.
fn look_every(limits: &Limits) -> Option<Duration> {
    let rate = (limits.response_bytes_per_second_min > 0).then_some(limits.response_rate_window);
    let shortest = rate.into_iter().chain(limits.response_total_timeout).min()?;
    Some((shortest / LOOKS_PER_WINDOW).max(LOOK_EVERY_MIN))
}

impl Admission {
    /// When to look again.
    pub(super) fn next_look(&self) -> Option<Instant> {
        let row = self.row;
        let some =
            [&row.writing, &row.handed_off, &row.multiplexed, &row.lingering, &row.queued, &row.waiting];
        self.rates.next.filter(|_| some.iter().any(|gauge| gauge.get() > 0))
    }

    /// Once per turn: ends those that take too little, or are at it for too long.
    pub(super) fn look_at_rates(&mut self) {
        let now = self.clock.now;
        if self.rates.next.is_some_and(|at| now < at) {
            return;
        }
        let Some(every) = look_every(&self.shared.start.config.limits) else { return };
        let all = self.connections.capacity();
        let end = (self.rates.cursor + LOOKS_PER_TURN).min(all);
        for index in self.rates.cursor..end {
            self.look_at(index as u32);
        }
        self.rates.cursor = end;
        // With more to look at, the next turn goes on.
        let done = end == all;
        self.rates.next = Some(if done { now + every } else { now });
        if done {
            self.rates.end_pass();
        }
    }

    fn look_at(&mut self, index: u32) {
        let Some(connection) = self.connections.get(index as usize) else { return };
        if connection.admin || connection.internal {
            return;
        }
        let (now, limits) = (self.clock.now, &self.shared.start.config.limits);
        let (serial, began, state) = (connection.serial, connection.began, connection.state);
        let answers = !matches!(
            state,
            State::Idle | State::Head | State::Body | State::Spooling | State::Http2 { .. } | State::Linger
        );
        let over = |total: Duration| now.saturating_duration_since(began) >= total;
        if answers && limits.response_total_timeout.is_some_and(over) && !self.is_tunnel(index) {
            return self.end_slow(index, "its response is not out within response_total_timeout");
        }
        if limits.response_bytes_per_second_min > 0
            && let Some(seen) = self.seen(index)
            && self.rates.is_slow((index, serial), seen, now, limits)
        {
            self.end_slow(index, "it takes less than response_bytes_per_second_min");
        }
    }

    fn end_slow(&mut self, index: u32, why: &'static str) {
        self.row.timeouts.add(1);
        self.row.slow.add(1);
        let peer = self.connections[index as usize].remote;
        self.log_limited(|| {
            tracing::info!(peer = peer.text(), "client connection aborted: {why}");
        });
        match self.connections[index as usize].state {
            State::Linger => self.close(index),
            State::Writing | State::Upstream(_) => self.abort_stalled(index),
            _ => self.abort_any(index),
        }
    }
}

impl Clients {
    /// Whether something of a response waits for the client.
    pub(super) fn waits_for_client(&self, index: u32) -> bool {
        let exchange =
            self.connections.get(index as usize).and_then(|connection| connection.exchange.as_deref());
        let waits = |exchange: &Exchange| {
            !exchange.awaits_disk && (self.has_output(index) || !exchange.segments.is_empty())
        };
        exchange.is_some_and(waits)
    }

    /// What a client has taken so far that has something to take; `None` for any other, and where nothing is known.
    fn seen(&self, index: u32) -> Option<Seen> {
        let connection = self.connections.get(index as usize)?;
        let exchange = connection.exchange.as_deref();
        let socket = || delivery::progress(connection.socket.as_ref()?.as_fd());
        let waits = match connection.state {
            // What TLS holds back is not in the buffers.
            State::Writing => exchange.is_some_and(|exchange| !exchange.awaits_disk),
            State::Upstream(_) => self.waits_for_client(index),
            State::HandedOff { .. } => return socket().filter(|found| found.unsent).map(Seen::by_socket),
            State::Linger => delivery::is_under_way(connection.socket.as_ref()?.as_fd()),
            State::Http2 { session } => {
                let (held_by, framed) = self.sessions.get(session as usize)?.held()?;
                return Some(Seen { held_by, socket: socket()?, framed });
            }
            _ => false,
        };
        if !waits {
            return None;
        }
        match connection.wire {
            Wire::Stream { session, stream } => {
                let framed = self.sessions.get(session as usize)?.held_stream(stream)?;
                Some(Seen { held_by: HeldBy::Window, socket: Progress::default(), framed })
            }
            Wire::Clear | Wire::Tls { .. } => socket().map(Seen::by_socket),
        }
    }

    /// Sets the deadline of a head of which so many bytes are there.
    pub(super) fn arm_head(&mut self, index: u32, bytes: usize) {
        let began = self.connections[index as usize].began;
        let until = head_deadline(&self.shared.start.config.limits, began, bytes as u64);
        self.wheel.arm(index, until);
    }

    /// A body begins.
    pub(super) fn begin_pace(&mut self, index: u32) {
        self.exchange(index).pace = None;
        self.arm_body(index);
    }

    /// Sets the deadline of a body.
    pub(super) fn arm_body(&mut self, index: u32) {
        let (now, limits) = (self.clock.now, &self.shared.start.config.limits);
        let began = self.connections[index as usize].began;
        let pace = self.exchange(index).pace.get_or_insert_with(|| Pace::new(now));
        pace.go_on(now);
        let until = body_deadline(limits, began, pace, now);
        self.wheel.arm(index, until);
    }

    /// Nothing of a body is read for now.
    pub(super) fn pause_body(&mut self, index: u32) {
        let now = self.clock.now;
        self.exchange(index).pace.get_or_insert_with(|| Pace::new(now)).pause(now);
        self.wheel.disarm(index);
    }
}

impl Seen {
    fn by_socket(socket: Progress) -> Seen {
        Seen { held_by: HeldBy::Socket, socket, framed: 0 }
    }
}

impl Http2Connection {
    /// If the connection has something to send that the client does not take: why, and the content that is in frames so far.
    fn held(&self) -> Option<(HeldBy, u64)> {
        let held_by = match () {
            () if self.is_unsent() => HeldBy::Socket,
            () if self.session.waits_for_connection() => HeldBy::Window,
            () => return None,
        };
        Some((held_by, self.framed))
    }

    /// The same of a stream whose own window is used up.
    fn held_stream(&self, stream: u32) -> Option<u64> {
        let key = StreamKey(stream);
        let found = self.streams.get(key.slot()).filter(|_| self.session.waits_for_window(key))?;
        Some(found.framed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        let directory = tempfile::tempdir().unwrap();
        let text = "[[listen]]\naddress = \"127.0.0.1:0\"\n[[site]]\nroot = \".\"\n";
        crate::tls::testing::config(directory.path(), text).limits
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_head_has_more_time_as_it_comes_but_not_for_ever() {
        let (mut limits, began) = (limits(), Instant::now());
        let time = |limits: &Limits, bytes| head_deadline(limits, began, bytes) - began;
        assert_eq!(time(&limits, 1), seconds(20) + Duration::from_millis(2));
        assert_eq!(time(&limits, 5000), seconds(30));
        assert_eq!(time(&limits, 16_000), seconds(40));
        assert_eq!(time(&limits, u64::MAX), seconds(40));
        limits.request_total_timeout = Some(seconds(15));
        assert_eq!(time(&limits, 5000), seconds(15));
        limits.head_bytes_per_second_min = 0;
        limits.request_total_timeout = None;
        assert_eq!(time(&limits, 5000), seconds(20));
        limits.head_timeout = seconds(60);
        assert_eq!(time(&limits, 5000), seconds(60), "the longer of the two holds");
    }

    #[test]
    fn a_body_has_to_come_at_the_minimal_rate_after_the_grace_period() {
        let (mut limits, began) = (limits(), Instant::now());
        let mut pace = Pace::new(began);
        let time = |limits: &Limits, pace: &Pace, at| {
            body_deadline(limits, began, pace, began + seconds(at)) - began
        };
        assert_eq!(time(&limits, &pace, 0), seconds(20));
        pace.bytes = 5000;
        assert_eq!(time(&limits, &pace, 19), seconds(30));
        assert_eq!(time(&limits, &pace, 29), seconds(30));
        // 1.4 bytes a second, as long as that is allowed.
        pace.bytes = 28;
        assert_eq!(time(&limits, &pace, 20), seconds(20) + Duration::from_millis(56));
        // Quick, and then silent.
        pace.bytes = 10_000_000;
        assert_eq!(time(&limits, &pace, 10), seconds(10) + limits.body_timeout);
        limits.request_total_timeout = Some(seconds(25));
        assert_eq!(time(&limits, &pace, 10), seconds(25));
        limits.body_bytes_per_second_min = 0;
        limits.request_total_timeout = None;
        pace.bytes = 0;
        assert_eq!(time(&limits, &pace, 500), seconds(530));
    }

    #[test]
    fn time_in_which_nothing_is_read_does_not_count() {
        let began = Instant::now();
        let mut pace = Pace::new(began);
        pace.pause(began + seconds(5));
        pace.pause(began + seconds(7));
        pace.go_on(began + seconds(105));
        pace.go_on(began + seconds(200));
        assert_eq!(pace.since, began + seconds(100));
    }

    fn socket(acknowledged: u64, busy: u64) -> Seen {
        Seen::by_socket(Progress { acknowledged, busy: seconds(busy), unsent: true })
    }

    fn window(framed: u64) -> Seen {
        Seen { held_by: HeldBy::Window, socket: Progress::default(), framed }
    }

    /// Looks every 15 seconds, and gives back when the client was found to be slow.
    fn found(seen: impl Fn(u64) -> Option<Seen>) -> Option<u64> {
        let (limits, start, mut rates) = (limits(), Instant::now(), Rates::default());
        (0..1000).step_by(15).find(|at| {
            let look = |seen| rates.is_slow((3, 1), seen, start + seconds(*at), &limits);
            let slow = seen(*at).is_some_and(look);
            rates.end_pass();
            slow
        })
    }

    #[test]
    fn a_client_has_to_take_what_it_is_sent_at_the_minimal_rate() {
        assert_eq!(found(|at| Some(socket(at * 1700, at))), None, "1.7 kB/s is quick enough");
        assert_eq!(found(|at| Some(socket(at * 499, at))), Some(60));
        assert_eq!(found(|at| Some(socket(at.min(300) * 1000, at))), Some(360), "first quick, then slow");
        assert_eq!(found(|at| Some(window(at * 500))), None);
        assert_eq!(found(|at| Some(window(at))), Some(60));
    }

    #[test]
    fn a_client_that_has_nothing_to_take_is_not_slow() {
        assert_eq!(found(|at| (at % 60 != 45).then_some(socket(0, at))), None);
        assert_eq!(found(|at| Some(socket(0, at / 2))), None, "half of the time there was nothing to send");
        assert_eq!(found(|_| None), None);
    }

    #[test]
    fn what_holds_a_client_back_may_change() {
        let turns = |at: u64, acknowledged, framed| match at % 30 {
            0 => Seen { framed, ..socket(acknowledged, at) },
            _ => Seen { framed, held_by: HeldBy::Window, ..socket(acknowledged, at) },
        };
        assert_eq!(found(|at| Some(turns(at, at * 600, at * 600))), None);
        assert_eq!(found(|at| Some(turns(at, at * 10, at * 10))), Some(60));
    }

    #[test]
    fn another_connection_of_the_same_index_begins_anew() {
        let (limits, start, mut rates) = (limits(), Instant::now(), Rates::default());
        assert!(!rates.is_slow((3, 1), socket(0, 0), start, &limits));
        assert!(!rates.is_slow((3, 2), socket(0, 60), start + seconds(60), &limits));
        assert!(rates.is_slow((3, 2), socket(0, 120), start + seconds(120), &limits));
    }

    #[test]
    fn nothing_is_looked_at_without_a_bound() {
        let mut limits = limits();
        assert_eq!(look_every(&limits), Some(seconds(15)));
        limits.response_total_timeout = Some(seconds(8));
        assert_eq!(look_every(&limits), Some(seconds(2)));
        limits.response_bytes_per_second_min = 0;
        limits.response_total_timeout = None;
        assert_eq!(look_every(&limits), None);
    }
}
