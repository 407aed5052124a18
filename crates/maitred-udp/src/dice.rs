//! The seeded decisions: SplitMix64, which is small, and good enough for which datagram is lost.

/// Decisions of one client and one direction, so that another client's datagrams change nothing of them.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

/// The increment and the two factors of SplitMix64.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
const FACTORS: [u64; 2] = [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];

impl Dice {
    /// `stream` tells those apart that have the same seed.
    pub(crate) fn new(seed: u64, stream: u64) -> Dice {
        let mut dice = Dice(seed ^ stream.wrapping_mul(GAMMA));
        // Neighbouring streams would otherwise be the same numbers, one later.
        Dice(dice.next())
    }

    /// True for so many of a thousand.
    pub(crate) fn hits(&mut self, per_mille: u16) -> bool {
        self.next() % 1000 < u64::from(per_mille)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(FACTORS[0]);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(FACTORS[1]);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_and_its_streams_differ() {
        let draw = |seed, stream| {
            let mut dice = Dice::new(seed, stream);
            (0..1000).map(|_| dice.hits(300)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7, 1), draw(7, 1));
        assert_ne!(draw(7, 1), draw(7, 2));
        assert_ne!(draw(7, 1), draw(8, 1));
        let hits = draw(7, 1).into_iter().filter(|hit| *hit).count();
        assert!((250..350).contains(&hits), "{hits} of a thousand");
        let mut dice = Dice::new(7, 1);
        assert!((0..1000).all(|_| !dice.hits(0)) && (0..1000).all(|_| dice.hits(1000)));
    }
}
