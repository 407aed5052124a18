//! Channels and links whose next descriptor does not fit: more are under way than this user may have open.
//!
//! That is no fault of the process that they lead to (PROTOCOL.md section 2), and nothing reports when there is room again.

use crate::keys::{ChannelKey, LinkKey};
use std::time::{Duration, Instant};

/// When it is tried again: descriptors are received within a turn of a process.
const AGAIN: Duration = Duration::from_millis(5);

/// What waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// A channel, by its key.
    Channel(ChannelKey),
    /// A link, by its key.
    Link(LinkKey),
}

/// All that waits, and until when.
#[derive(Debug, Default)]
pub(crate) struct Crowded {
    waiting: Vec<Waiting>,
    until: Option<Instant>,
}

impl Crowded {
    /// Tries this again in a moment.
    pub(crate) fn add(&mut self, waiting: Waiting, now: Instant) {
        if !self.waiting.contains(&waiting) {
            self.waiting.push(waiting);
        }
        self.until.get_or_insert(now + AGAIN);
    }

    /// When something is tried again.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.until
    }

    /// What is due.
    pub(crate) fn take(&mut self, now: Instant) -> Vec<Waiting> {
        match self.until.is_some_and(|until| until <= now) {
            true => {
                self.until = None;
                std::mem::take(&mut self.waiting)
            }
            false => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Key as _;

    #[test]
    fn what_waits_is_tried_once_and_not_at_once() {
        let (mut crowded, now) = (Crowded::default(), Instant::now());
        assert_eq!(crowded.next(), None);
        crowded.add(Waiting::Channel(ChannelKey::of(3)), now);
        crowded.add(Waiting::Link(LinkKey::of(3)), now + AGAIN / 2);
        crowded.add(Waiting::Channel(ChannelKey::of(3)), now + AGAIN / 2);
        assert_eq!(crowded.next(), Some(now + AGAIN));
        assert!(crowded.take(now).is_empty());
        assert_eq!(
            crowded.take(now + AGAIN),
            [Waiting::Channel(ChannelKey::of(3)), Waiting::Link(LinkKey::of(3))]
        );
        assert!(crowded.next().is_none() && crowded.take(now + AGAIN).is_empty());
    }
}
