//! How long the turns of an event loop take. Nothing in one may wait, so that a long one is a bug, a disk that was not expected,
//! or a thread that got no CPU; it is counted, and logged with what it was about.

use std::fmt::Write as _;
use std::ops::Range;
use std::time::{Duration, Instant};

use rustix::event::epoll;

use super::layers::Admission;
use super::reactor::Reactor;
use super::token::Token;

/// A turn that takes longer is counted and logged. Clients notice a tenth of a second; an honest turn takes some milliseconds.
const SLOW: Duration = Duration::from_millis(100);
/// Events between two looks at the clock. One look has about as many instructions as a hundredth of a request.
pub(super) const EVENTS_PER_MARK: usize = 16;
/// Events of a slow turn that the log names.
const NAMED_MAX: usize = 4;

/// A turn while it lasts.
#[derive(Debug)]
pub(super) struct Turn {
    began: Instant,
    marked: Instant,
    /// Events before the last mark.
    done: usize,
    /// What took longest until then: for how long, and which events.
    slowest: (Duration, Range<usize>),
}

impl Turn {
    pub(super) fn begin(now: Instant) -> Turn {
        Turn { began: now, marked: now, done: 0, slowest: (Duration::ZERO, 0..0) }
    }

    /// So many more events are dealt with.
    pub(super) fn mark(&mut self, now: Instant, events: usize) {
        let took = now.saturating_duration_since(self.marked);
        let end = self.done + events;
        if took > self.slowest.0 {
            self.slowest = (took, self.done..end);
        }
        (self.marked, self.done) = (now, end);
    }
}

impl Reactor {
    /// The turn is over, with so many events.
    pub(super) fn end_watch(&mut self, mut turn: Turn, now: Instant, events: &[epoll::Event]) {
        let took = now.saturating_duration_since(turn.began);
        let micros = took.as_micros() as u64;
        if micros > self.row.longest_turn_us.get() {
            self.row.longest_turn_us.set(micros);
        }
        if took < SLOW {
            return;
        }
        turn.mark(now, events.len().saturating_sub(turn.done));
        self.row.slow_turns.add(1);
        let (longest, range) = turn.slowest;
        // The last part is also what is done once per turn.
        let last = range.end == events.len();
        let what = self.describe(events.get(range).unwrap_or_default(), last);
        let (thread, took_ms, part_ms) = (self.number, took.as_millis(), longest.as_millis());
        self.log_limited(|| {
            tracing::warn!(
                thread,
                took_ms,
                part_ms,
                events = events.len(),
                "slow iteration of the event loop: {what}"
            );
        });
    }
}

impl Admission {
    fn describe(&self, events: &[epoll::Event], last: bool) -> String {
        let mut text = String::new();
        for event in events.iter().take(NAMED_MAX) {
            let separator = if text.is_empty() { "" } else { ", " };
            let _ = write!(text, "{separator}{}", self.name_of(Token::unpack(event.data)));
        }
        if events.len() > NAMED_MAX {
            let _ = write!(text, " and {} more", events.len() - NAMED_MAX);
        }
        if last {
            text.push_str(if text.is_empty() {
                "what is done once per turn"
            } else {
                ", and what is done once per turn"
            });
        }
        text
    }

    /// What an event was about, if that is still there.
    fn name_of(&self, token: Token) -> String {
        let process = |key: u32| match self.pools.channels.get(key as usize) {
            Some(channel) => {
                format!("application process {}/{}", self.shared.pool_name(channel.id.pool), channel.id.slot)
            }
            None => "an application process that is gone".to_owned(),
        };
        match token {
            Token::Connection { index, serial } if self.is_current(index, serial) => {
                let connection = &self.connections[index as usize];
                match connection.remote.address {
                    Some(address) => format!("connection of {address}"),
                    None => "connection on a Unix socket".to_owned(),
                }
            }
            Token::Connection { .. } => "a connection that is gone".to_owned(),
            Token::Listener(which) => format!("listener {which}"),
            Token::Channel { key, .. } => format!("channel of {}", process(key)),
            Token::Link { key, .. } => match self.pools.links.get(key as usize) {
                Some(link) => format!("link to another user of {}", process(link.channel as u32)),
                None => "a link that is gone".to_owned(),
            },
            Token::Relay { key, .. } => match self.pools.relays.get(key as usize) {
                Some(relay) => format!("relay of {}", process(relay.channel)),
                None => "a relay that is gone".to_owned(),
            },
            Token::Upstream { .. } => "connection to a server".to_owned(),
            Token::Inbox => "messages of other threads".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_part_of_a_turn_is_known() {
        let began = Instant::now();
        let at = |ms: u64| began + Duration::from_millis(ms);
        let mut turn = Turn::begin(began);
        turn.mark(at(1), 16);
        turn.mark(at(150), 16);
        turn.mark(at(160), 3);
        assert_eq!(turn.slowest, (Duration::from_millis(149), 16..32));
        assert_eq!((turn.done, turn.marked), (35, at(160)));
    }
}
