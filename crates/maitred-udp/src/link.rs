//! One direction of a path. Pure: datagrams and the time go in, datagrams come out.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use quinn_udp::EcnCodepoint;

use crate::config::{Faults, Rate};
use crate::counts::DirectionCounts;
use crate::dice::Dice;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A datagram that passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Datagram<'a> {
    /// The client whose it is.
    pub(crate) flow: usize,
    pub(crate) bytes: &'a [u8],
    pub(crate) ecn: Option<EcnCodepoint>,
}

/// Takes what leaves a link; false if it was not taken.
pub(crate) trait Outlet {
    fn send(&mut self, datagram: Datagram<'_>) -> bool;
}

/// A datagram that is on its way. Datagrams are ordered by when they arrive, and those of the same time by when they were sent.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    at: Duration,
    number: u64,
    flow: usize,
    ecn: u8,
    bytes: Box<[u8]>,
}

/// One direction. Time is that since the start of the path.
#[derive(Debug)]
pub(crate) struct Link {
    faults: Faults,
    /// Until when the bandwidth is used up by what has come.
    busy_until: Duration,
    waiting: BinaryHeap<Reverse<Waiting>>,
    number: u64,
    pub(crate) counts: DirectionCounts,
}

impl Link {
    pub(crate) fn new(faults: Faults) -> Link {
        let waiting = BinaryHeap::new();
        Link { faults, busy_until: Duration::ZERO, waiting, number: 0, counts: DirectionCounts::default() }
    }

    /// Other faults from now on; what is on its way stays so.
    pub(crate) fn change(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// What becomes of a datagram that has come now. The first two decisions and the last are made of each one that is not too
    /// large, so that with another share of one fault the others hit the same ones.
    pub(crate) fn take(
        &mut self,
        now: Duration,
        dice: &mut Dice,
        mut datagram: Datagram<'_>,
        out: &mut impl Outlet,
    ) {
        self.counts.received += 1;
        self.counts.received_bytes += datagram.bytes.len() as u64;
        self.counts.marked += u64::from(datagram.ecn.is_some());
        if self.faults.mtu_bytes.is_some_and(|most| datagram.bytes.len() > most) {
            self.counts.too_large += 1;
            return;
        }
        let lost = dice.hits(self.faults.loss_per_mille);
        let late = dice.hits(self.faults.reorder_per_mille);
        let twice = dice.hits(self.faults.duplicate_per_mille);
        if lost {
            self.counts.lost += 1;
            return;
        }
        let Some(sent) = self.transmitted(now, datagram.bytes.len() as u64) else {
            self.counts.overflowed += 1;
            return;
        };
        if self.faults.bleach_ecn && datagram.ecn.take().is_some() {
            self.counts.bleached += 1;
        }
        self.counts.reordered += u64::from(late);
        self.counts.duplicated += u64::from(twice);
        let extra = if late { self.faults.reorder_delay } else { Duration::ZERO };
        let at = sent + self.faults.delay + extra;
        for _ in 0..=u8::from(twice) {
            if at <= now { self.send(datagram, out) } else { self.keep(at, datagram) }
        }
    }

    /// When the last byte has passed the bandwidth; `None` if there is no room before it.
    fn transmitted(&mut self, now: Duration, bytes: u64) -> Option<Duration> {
        let Some(Rate { bytes_per_second, queue_bytes }) = self.faults.rate else { return Some(now) };
        let rate = u128::from(bytes_per_second.max(1));
        let second = u128::from(NANOS_PER_SECOND);
        let queued = self.busy_until.saturating_sub(now).as_nanos() * rate / second;
        if queued + u128::from(bytes) > u128::from(queue_bytes) {
            return None;
        }
        let takes = u64::try_from(u128::from(bytes) * second / rate).unwrap_or(u64::MAX);
        self.busy_until = self.busy_until.max(now) + Duration::from_nanos(takes);
        Some(self.busy_until)
    }

    fn keep(&mut self, at: Duration, Datagram { flow, bytes, ecn }: Datagram<'_>) {
        self.number += 1;
        let ecn = ecn.map_or(0, |mark| mark as u8);
        self.waiting.push(Reverse(Waiting { at, number: self.number, flow, ecn, bytes: bytes.into() }));
    }

    fn send(&mut self, datagram: Datagram<'_>, out: &mut impl Outlet) {
        if out.send(datagram) {
            self.counts.sent += 1;
            self.counts.sent_bytes += datagram.bytes.len() as u64;
        } else {
            self.counts.failed += 1;
        }
    }

    /// When the next one arrives.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.waiting.peek().map(|Reverse(first)| first.at)
    }

    /// Passes on all that have arrived by now.
    pub(crate) fn arrive(&mut self, now: Duration, out: &mut impl Outlet) {
        while self.next().is_some_and(|at| at <= now) {
            let Some(Reverse(Waiting { flow, ecn, bytes, .. })) = self.waiting.pop() else { return };
            self.send(Datagram { flow, bytes: &bytes, ecn: EcnCodepoint::from_bits(ecn) }, out);
        }
    }
}

#[cfg(test)]
mod tests;
