//! Numbers from a seed.

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014). The ten lines of the generator stand
/// here, because generators of libraries may change with a version, and then every kept figure would change.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The generator of this seed.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// Any number.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// From 0 to below 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From 0 to below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.bits()) * end as u128) >> 64) as usize
    }

    /// Exponentially distributed.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.unit())
    }

    /// Bounded Pareto between `least` and `most`: the smaller `shape`, the heavier the tail.
    pub fn pareto(&mut self, shape: f64, least: f64, most: f64) -> f64 {
        let ratio = libm::pow(least / most, shape);
        least / libm::pow(1.0 - self.unit() * (1.0 - ratio), 1.0 / shape)
    }

    /// An index, by weight.
    pub fn weighted(&mut self, weights: &[f64]) -> usize {
        let mut left = self.unit() * weights.iter().sum::<f64>();
        for (index, weight) in weights.iter().enumerate() {
            left -= weight;
            if left < 0.0 {
                return index;
            }
        }
        weights.len().saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_published_sequence() {
        let mut random = Random::new(1_234_567);
        assert_eq!([random.bits(), random.bits()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn distributions_have_their_means() {
        let mut random = Random::new(1);
        let mut mean = |draw: &mut dyn FnMut(&mut Random) -> f64| {
            (0..200_000).map(|_| draw(&mut random)).sum::<f64>() / 200_000.0
        };
        assert!((mean(&mut Random::unit) - 0.5).abs() < 0.005);
        assert!((mean(&mut |random| random.exponential(3.0)) - 3.0).abs() < 0.05);
        assert!((mean(&mut |random| random.below(11) as f64) - 5.0).abs() < 0.05);
        assert!((mean(&mut |random| random.weighted(&[1.0, 3.0]) as f64) - 0.75).abs() < 0.01);
        // Mean of a Pareto between 1 and 1,000 with shape 2: 2 × (1 − 1/1,000) / (1 − 1/1,000,000).
        assert!((mean(&mut |random| random.pareto(2.0, 1.0, 1_000.0)) - 1.998).abs() < 0.05);
    }
}
