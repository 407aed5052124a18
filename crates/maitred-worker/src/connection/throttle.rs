//! How fast a response may leave: `response_bytes_per_second_max`, after its first `response_burst_bytes`.
//!
//! What was sent is paid for by time: `paid` is when that is so for all of it. A response may be [`PIECE`] ahead, and waits until
//! it is not ahead at all: so the timers wake the thread about ten times a second for it, and not for each byte. Of time in
//! which it did not send what it could have, it keeps [`KEPT`].

use std::time::{Duration, Instant};

/// How far a response may be ahead: two ticks of the timers.
const PIECE: Duration = Duration::from_millis(100);
/// What is smaller is not sent by itself.
const PIECE_MIN: Duration = Duration::from_millis(50);
/// Unused time that counts. A client that took nothing for long does not get all that was left at once.
const KEPT: Duration = Duration::from_secs(1);

/// What is known of one response.
#[derive(Debug)]
pub(crate) struct Throttle {
    /// When its request began: the next one has another time.
    began: Instant,
    /// Bytes in a second; at least 1.
    rate: u64,
    /// Bytes that may leave at full speed.
    free: u64,
    paid: Instant,
}

impl Throttle {
    /// Of a response of which nothing was sent.
    pub(crate) fn new(began: Instant, rate: u64, burst: u64, now: Instant) -> Throttle {
        Throttle { began, rate: rate.max(1), free: burst, paid: now }
    }

    /// Whether it is the one of the request that has begun then.
    pub(crate) fn is_of(&self, began: Instant) -> bool {
        self.began == began
    }

    /// How many bytes may leave now.
    ///
    /// # Errors
    /// None, and when some may.
    pub(crate) fn room(&self, now: Instant) -> Result<u64, Instant> {
        if self.free == 0 && self.paid > now + PIECE_MIN {
            return Err(self.paid);
        }
        let ahead = (now + PIECE).saturating_duration_since(self.since(now));
        let bytes = ahead.as_nanos() * u128::from(self.rate) / Duration::from_secs(1).as_nanos();
        Ok(self.free.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX)).max(1))
    }

    /// So many bytes have left.
    pub(crate) fn note_sent(&mut self, bytes: u64, now: Instant) {
        let free = bytes.min(self.free);
        self.free -= free;
        let nanos = u128::from(bytes - free) * Duration::from_secs(1).as_nanos() / u128::from(self.rate);
        self.paid = self.since(now) + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
    }

    fn since(&self, now: Instant) -> Instant {
        now.checked_sub(KEPT).map_or(self.paid, |kept| kept.max(self.paid))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Sends all that it may until so many bytes have left; gives back how long that took, and in how many pieces.
    fn send(throttle: &mut Throttle, mut left: u64, start: Instant) -> (Duration, u32) {
        let (mut now, mut pieces) = (start, 0);
        while left > 0 {
            match throttle.room(now) {
                Ok(room) => {
                    let bytes = room.min(left);
                    throttle.note_sent(bytes, now);
                    left -= bytes;
                    pieces += 1;
                }
                Err(until) => {
                    assert!(until > now);
                    now = until;
                }
            }
        }
        (now - start, pieces)
    }

    #[test]
    fn the_first_bytes_leave_at_once_and_the_others_at_the_rate() {
        let start = Instant::now() + 100 * SECOND;
        let mut throttle = Throttle::new(start, 1000, 5000, start);
        let (took, pieces) = send(&mut throttle, 15_000, start);
        assert!((9 * SECOND..=10 * SECOND).contains(&took), "{took:?}");
        assert!(pieces < 120, "{pieces}");
        // Without a burst, and however slow.
        let mut throttle = Throttle::new(start, 1, 0, start);
        let (took, pieces) = send(&mut throttle, 10, start);
        assert!((8 * SECOND..=10 * SECOND).contains(&took) && pieces == 10, "{took:?} {pieces}");
    }

    #[test]
    fn a_client_that_took_nothing_for_long_does_not_get_all_at_once() {
        let start = Instant::now() + 100 * SECOND;
        let throttle = Throttle::new(start, 1000, 0, start);
        assert_eq!(throttle.room(start), Ok(100));
        assert_eq!(throttle.room(start + 3600 * SECOND), Ok(1100));
    }

    proptest! {
        #[test]
        fn never_more_than_the_rate(
            rate in 1_u64..1_000_000_000,
            burst in 0_u64..10_000_000,
            steps in prop::collection::vec((0_u64..400, 0_u64..10_000_000), 1..200),
        ) {
            let start = Instant::now() + 100 * SECOND;
            let mut throttle = Throttle::new(start, rate, burst, start);
            let (mut now, mut sent) = (start, 0_u64);
            for (millis, wanted) in steps {
                now += Duration::from_millis(millis);
                if let Ok(room) = throttle.room(now) {
                    let bytes = room.min(wanted);
                    throttle.note_sent(bytes, now);
                    sent += bytes;
                    let time = (now - start + PIECE).as_secs_f64();
                    // Rounding gives one byte more for each piece.
                    prop_assert!(sent as f64 <= burst as f64 + rate as f64 * time + 200.0, "{sent}");
                }
            }
        }
    }
}
