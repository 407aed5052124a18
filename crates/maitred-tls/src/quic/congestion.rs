//! Congestion control: CUBIC (RFC 9438), which does not take a few lost datagrams for congestion as long as nothing else speaks
//! for it.
//!
//! CUBIC answers each loss by sending less, and on a path of 40 ms that loses one datagram of a hundred (a bad radio link), it
//! carries 0.45 MB/s, whatever the path could. There, losses say nothing. So a loss is only passed on to CUBIC if
//!
//! - round trips have become longer: datagrams wait in a queue; or
//! - more is lost than [`TOLERATED`] of what was sent in the last round trips: the threshold of BBRv3
//!   (draft-ietf-ccwg-bbr). A short queue that overflows is found by that; or
//! - the peer reports marks of congestion (ECN), or nothing has arrived for long (persistent congestion, RFC 9002 section 7.6).
//!
//! BBR as the QUIC library has it carries as much, but half of what it sends is lost where a queue is short: measured on
//! 2026-11-27, 5 MB/s with room for 20 ms, 14,806 of 29,258 datagrams (bench/runs/2026-11-27-http3).

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, CubicConfig};

/// One byte of so many may be lost.
const TOLERATED: u64 = 50;
/// Datagrams that may be lost while few were sent. A connection that loses one of a hundred loses some of its first hundred now
/// and then, and takes a minute to open its window again if it gives way then: with 2, 20 MB took seven times as long.
const DATAGRAMS_TOLERATED: u64 = 5;
/// What is counted loses one of so many parts with each round trip: enough of them that chance is not taken for congestion.
const FADES: u64 = 16;
/// Round trips that are longer than the shortest one by this part of it, and by [`QUEUE_MIN`], mean a queue.
const QUEUE_PART: u32 = 8;
/// What the clocks and threads of both sides make of a round trip.
const QUEUE_MIN: Duration = Duration::from_millis(3);
/// So many in a row: a queue that overflows lasts, and a thread that was kept waiting does not.
const LONG_ROUNDS: u32 = 2;

/// What is known of the losses of a connection.
#[derive(Debug, Clone, Copy)]
struct Losses {
    /// Bytes of a datagram.
    mtu: u64,
    /// What is sent from now on belongs to this round trip.
    round_began: Instant,
    /// Bytes that have arrived, and that were lost, in this round trip and, fading, in those before.
    arrived: u64,
    lost: u64,
    /// The shortest round trip of the connection.
    shortest: Duration,
    /// The shortest one of the present round trip: its other datagrams may have waited for anything.
    of_round: Option<Duration>,
    /// Round trips in a row that were longer than they have to be.
    long_rounds: u32,
}

impl Losses {
    fn new(now: Instant, mtu: u16) -> Losses {
        Losses {
            mtu: mtu.into(),
            round_began: now,
            arrived: 0,
            lost: 0,
            shortest: Duration::MAX,
            of_round: None,
            long_rounds: 0,
        }
    }

    /// Bytes have arrived that were sent at this time. `shortest`: the shortest round trip that is known.
    fn arrived(&mut self, now: Instant, sent: Instant, bytes: u64, shortest: Duration) {
        self.arrived += bytes;
        let took = now.saturating_duration_since(sent);
        self.of_round = Some(self.of_round.map_or(took, |shortest| shortest.min(took)));
        self.shortest = self.shortest.min(took).min(shortest);
        if sent < self.round_began {
            return;
        }
        let longest = self.shortest + (self.shortest / QUEUE_PART).max(QUEUE_MIN);
        let is_long = self.of_round.is_some_and(|of_round| of_round > longest);
        self.long_rounds = if is_long { self.long_rounds.saturating_add(1) } else { 0 };
        (self.round_began, self.of_round) = (now, None);
        self.arrived -= self.arrived / FADES;
        self.lost -= self.lost / FADES;
    }

    /// Bytes were lost: whether that may be chance.
    fn are_chance(&mut self, bytes: u64) -> bool {
        self.lost += bytes;
        let few = DATAGRAMS_TOLERATED * self.mtu;
        self.long_rounds < LONG_ROUNDS && self.lost <= few.max((self.arrived + self.lost) / TOLERATED)
    }

    /// What was lost has been answered.
    fn answered(&mut self) {
        (self.arrived, self.lost) = (0, 0);
    }
}

/// Makes a controller for each connection.
#[derive(Debug, Default)]
pub(crate) struct Config {
    cubic: Arc<CubicConfig>,
}

impl ControllerFactory for Config {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        Box::new(Tolerant { cubic: Arc::clone(&self.cubic).build(now, mtu), losses: Losses::new(now, mtu) })
    }
}

struct Tolerant {
    cubic: Box<dyn Controller>,
    losses: Losses,
}

impl Controller for Tolerant {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.cubic.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.losses.arrived(now, sent, bytes, rtt.min());
        self.cubic.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        self.cubic.on_end_acks(now, in_flight, app_limited, largest);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost: u64) {
        let chance = self.losses.are_chance(lost);
        // Marks of congestion have no lost bytes.
        if lost > 0 && !persistent && chance {
            return;
        }
        self.losses.answered();
        self.cubic.on_congestion_event(now, sent, persistent, lost);
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.losses.mtu = mtu.into();
        self.cubic.on_mtu_update(mtu);
    }

    fn window(&self) -> u64 {
        self.cubic.window()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Tolerant { cubic: self.cubic.clone_box(), losses: self.losses })
    }

    fn initial_window(&self) -> u64 {
        self.cubic.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: u16 = 1200;
    const SHORTEST: Duration = Duration::from_millis(40);

    /// Round trips of so many datagrams, each of which takes so long; then the present time.
    fn rounds(
        losses: &mut Losses,
        mut now: Instant,
        number: usize,
        datagrams: u64,
        takes: Duration,
    ) -> Instant {
        for _ in 0..number {
            let sent = now;
            now += takes;
            (0..datagrams).for_each(|_| losses.arrived(now, sent, MTU.into(), SHORTEST));
        }
        now
    }

    #[test]
    fn a_datagram_in_a_hundred_is_chance_and_one_in_thirty_is_not() {
        let began = Instant::now();
        let mut losses = Losses::new(began, MTU);
        let mut now = began;
        for _ in 0..50 {
            now = rounds(&mut losses, now, 1, 300, SHORTEST);
            assert!(losses.are_chance(3 * u64::from(MTU)));
        }
        let congested = (0..50).find(|_| {
            now = rounds(&mut losses, now, 1, 300, SHORTEST);
            !losses.are_chance(10 * u64::from(MTU))
        });
        assert!(congested.is_some(), "more than one of fifty");
        losses.answered();
        assert!(losses.are_chance(5 * u64::from(MTU)), "it is counted anew");
        assert!(!losses.are_chance(u64::from(MTU)), "six, and nothing has arrived since");
    }

    #[test]
    fn any_loss_is_congestion_while_datagrams_wait_in_a_queue() {
        let began = Instant::now();
        let mut losses = Losses::new(began, MTU);
        let now = rounds(&mut losses, began, 3, 300, SHORTEST);
        assert!(losses.are_chance(MTU.into()));
        let now = rounds(&mut losses, now, 1, 300, SHORTEST + Duration::from_millis(8));
        assert!(losses.are_chance(MTU.into()), "one may be long for any reason");
        let now = rounds(&mut losses, now, 2, 300, SHORTEST + Duration::from_millis(8));
        assert!(!losses.are_chance(MTU.into()));
        rounds(&mut losses, now, 2, 300, SHORTEST + Duration::from_millis(2));
        assert!(losses.are_chance(MTU.into()), "the queue is gone");
    }

    #[test]
    fn marks_and_silence_reach_cubic_and_chance_does_not() {
        let now = Instant::now();
        let window = |persistent, lost| {
            let mut controller = Arc::new(Config::default()).build(now, MTU);
            let before = controller.window();
            controller.on_congestion_event(now, now + SHORTEST, persistent, lost);
            (before, controller.window())
        };
        let (before, after) = window(false, MTU.into());
        assert_eq!(before, after, "chance");
        for (persistent, lost) in [(false, 0), (true, MTU.into()), (false, 6 * u64::from(MTU))] {
            let (before, after) = window(persistent, lost);
            assert!(after < before, "persistent: {persistent}, lost: {lost}");
        }
    }
}
