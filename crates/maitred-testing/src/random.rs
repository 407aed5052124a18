//! A small random generator (xorshift64*, Vigna 2016): the same seed, the same choices.

use std::ops::Range;

/// The generator.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Adjacent seeds give unrelated sequences.
    pub fn new(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number of the range, which must not be empty.
    pub fn within(&mut self, range: Range<usize>) -> usize {
        range.start + (self.next() >> 16) as usize % (range.end - range.start)
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, chance: usize) -> bool {
        self.within(0..100) < chance
    }

    /// One of several, each with its weight.
    pub fn weighted<T: Copy>(&mut self, choices: &[(usize, T)]) -> T {
        let mut at = self.within(0..choices.iter().map(|(weight, _)| weight).sum());
        for (weight, choice) in choices {
            match at.checked_sub(*weight) {
                Some(rest) => at = rest,
                None => return *choice,
            }
        }
        unreachable!("the weights add up")
    }
}
