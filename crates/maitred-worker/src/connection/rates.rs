//! Rates: how long a head and a body may take, and which clients take too little of a response.

use std::time::{Duration, Instant};

use crate::keys::{ConnId, ConnKey};
use hashbrown::HashMap;
use maitred_http::framed::StreamKey;
use maitred_sys::delivery::Progress;

use crate::connection::multiplexed::Multiplexed;
use maitred_config::{LimitOverrides, Limits};

/// Looks at one client in one window of the minimal rate.
const LOOKS_PER_WINDOW: u32 = 4;

/// Shortest time between two looks: a tick of the timers.
const LOOK_EVERY_MIN: Duration = crate::timers::TICK;

/// How far a body has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    since: Instant,
    bytes: u64,
    paused: Option<Instant>,
}

impl Pace {
    pub(crate) fn new(now: Instant) -> Self {
        Pace { since: now, bytes: 0, paused: None }
    }

    /// Nothing is read from now on: the time until the next read does not count against the client.
    pub(crate) fn pause(&mut self, now: Instant) {
        self.paused.get_or_insert(now);
    }

    /// Counts more bytes that have come.
    pub(crate) fn count(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    pub(crate) fn go_on(&mut self, now: Instant) {
        if let Some(at) = self.paused.take() {
            self.since += now.saturating_duration_since(at);
        }
    }
}

/// The deadline of a head whose first byte came at `began`, and of which this many bytes have come.
pub(crate) fn head_deadline(limits: &Limits, began: Instant, bytes: u64) -> Instant {
    let time = extended(limits.head_timeout, bytes, limits.head_bytes_per_second_min);
    bounded(began + time.min(limits.head_timeout_max.max(limits.head_timeout)), began, limits)
}

/// By when the next piece of a body has to be there, or its end: by the limits of the server, and those of its route.
pub(crate) fn body_deadline(
    (limits, own): (&Limits, &LimitOverrides),
    began: Instant,
    pace: &Pace,
    now: Instant,
) -> Instant {
    let next = now + own.body_timeout.unwrap_or(limits.body_timeout);
    let until = match own.body_bytes_per_second_min.unwrap_or(limits.body_bytes_per_second_min) {
        0 => next,
        rate => next.min(pace.since + extended(limits.body_rate_grace, pace.bytes, rate)),
    };
    bounded(until, began, limits)
}

/// `time`, and a second more for each `per_second` bytes; 0: as it is.
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
pub(crate) enum HeldBy {
    /// The client acknowledges nothing, or its socket is full.
    Socket,
    /// The client opens no window of HTTP/2.
    Window,
}

/// How much a client that has something to take has taken so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) held_by: HeldBy,
    /// The progress of the connection in the kernel.
    pub(crate) socket: Progress,
    /// Bytes of content in frames of HTTP/2.
    pub(crate) framed: u64,
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

/// The rates at which clients take responses.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    records: HashMap<ConnKey, Record>,
    pass: u64,
    /// Where this pass of looks has come to.
    pub(crate) cursor: usize,
    pub(crate) next: Option<Instant>,
}

impl Rates {
    /// Whether a client, which has something unsent, has taken too little for too long. The reason (socket or
    /// window) may change from look to look; the last one decides which count of bytes is used, over the whole time.
    pub(crate) fn is_slow(
        &mut self,
        ConnId { key, serial }: ConnId,
        seen: Seen,
        now: Instant,
        limits: &Limits,
    ) -> bool {
        let new = Record { serial, since: now, first: seen, pass: self.pass };
        let record = self.records.entry(key).or_insert(new);
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
    pub(crate) fn end_pass(&mut self) {
        let pass = self.pass;
        self.records.retain(|_, record| record.pass == pass);
        (self.pass, self.cursor) = (pass + 1, 0);
    }
}

/// The time between two looks; `None` if nothing has a bound.
pub(crate) fn look_every(limits: &Limits) -> Option<Duration> {
    let rate = (limits.response_bytes_per_second_min > 0).then_some(limits.response_rate_window);
    let shortest = rate.into_iter().chain(limits.response_total_timeout).min()?;
    Some((shortest / LOOKS_PER_WINDOW).max(LOOK_EVERY_MIN))
}

impl Seen {
    pub(crate) fn by_socket(socket: Progress) -> Seen {
        Seen { held_by: HeldBy::Socket, socket, framed: 0 }
    }
}

impl Multiplexed {
    /// If the connection has something to send that the client does not take: why, and the content that is in frames so far.
    pub(crate) fn held(&self) -> Option<(HeldBy, u64)> {
        let held_by = match () {
            () if self.is_unsent() => HeldBy::Socket,
            () if self.session.waits_for_connection() => HeldBy::Window,
            () => return None,
        };
        Some((held_by, self.framed))
    }

    /// The same of a stream whose own window is used up.
    pub(crate) fn held_stream(&self, stream: u32) -> Option<u64> {
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
        maitred_testing::config(directory.path(), text).limits
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
            body_deadline((limits, &LimitOverrides::default()), began, pace, began + seconds(at)) - began
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
        let own = LimitOverrides {
            body_timeout: Some(seconds(5)),
            body_bytes_per_second_min: Some(1),
            ..LimitOverrides::default()
        };
        limits.body_bytes_per_second_min = 500;
        let of_route =
            |pace: &Pace, at| body_deadline((&limits, &own), began, pace, began + seconds(at)) - began;
        assert_eq!((of_route(&pace, 1), of_route(&pace, 19)), (seconds(6), seconds(20)));
        pace.bytes = 100;
        assert_eq!(of_route(&pace, 60), seconds(65));
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
            let look = |seen| rates.is_slow(ConnId::of(3, 1), seen, start + seconds(*at), &limits);
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
        assert!(!rates.is_slow(ConnId::of(3, 1), socket(0, 0), start, &limits));
        assert!(!rates.is_slow(ConnId::of(3, 2), socket(0, 60), start + seconds(60), &limits));
        assert!(rates.is_slow(ConnId::of(3, 2), socket(0, 120), start + seconds(120), &limits));
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
