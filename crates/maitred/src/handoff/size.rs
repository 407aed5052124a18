//! How large a route's responses are, as far as is known: what `transport = "auto"` goes by.

/// Up to this size a relay is cheaper than the client's own socket, and above it dearer (`bench/runs` has the
/// measurement). An estimate has to leave the band around it before the choice changes.
pub const CROSSOVER_BYTES: u32 = 16 * 1024;

/// A decaying estimate of the body size of one route's responses.
#[derive(Debug, Clone, Copy, Default)]
pub struct Size {
    /// In bytes; meaningful once something was learnt.
    estimate: u32,
    known: bool,
    small: bool,
}

impl Size {
    /// Learns from one response: an eighth of the news.
    pub fn learn(&mut self, body_bytes: u64) {
        let seen = u32::try_from(body_bytes).unwrap_or(u32::MAX);
        self.estimate = match self.known {
            false => seen,
            true => self.estimate - self.estimate / 8 + seen / 8,
        };
        self.known = true;
        let limit = if self.small { CROSSOVER_BYTES + CROSSOVER_BYTES / 4 } else { CROSSOVER_BYTES };
        self.small = self.estimate <= limit;
    }

    /// Whether the next response is expected to be cheaper through a relay. Not before anything is known.
    pub fn is_small(self) -> bool {
        self.known && self.small
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_responses_are_relayed_once_they_are_known_to_be_small() {
        let mut size = Size::default();
        assert!(!size.is_small());
        size.learn(1_000);
        assert!(size.is_small());
        (0..100).for_each(|_| size.learn(1_000_000));
        assert!(!size.is_small());
        (0..100).for_each(|_| size.learn(0));
        assert!(size.is_small());
    }

    #[test]
    fn a_size_around_the_crossover_does_not_flap() {
        let mut size = Size::default();
        size.learn(u64::from(CROSSOVER_BYTES) - 100);
        let mut changes = 0;
        for round in 0..1_000u64 {
            let before = size.is_small();
            size.learn(u64::from(CROSSOVER_BYTES) + (round % 2) * 1_000 - 500);
            changes += u32::from(before != size.is_small());
        }
        assert_eq!(changes, 0);
    }

    #[test]
    fn no_size_overflows_the_estimate() {
        let mut size = Size::default();
        (0..100).for_each(|_| size.learn(u64::MAX));
        assert!(!size.is_small());
    }
}
