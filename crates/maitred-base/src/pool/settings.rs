//! The directives of a pool's size.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How large a pool is, may become, and how fast. `docs/pools.md` gives the reason for each default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Workers that are started at first, all at once.
    pub start: u16,
    /// Spare workers below which more are started. Spare is free capacity that no queued request is about to take,
    /// counted in workers.
    pub min_spare: u16,
    /// Spare workers above which one is retired, if that lasts for [`Settings::retire_after`].
    pub max_spare: u16,
    /// The most workers; one that drains is no longer counted.
    pub max: u16,
    /// The most workers that are started at a time.
    pub spawn_max: u16,
    /// How long workers must have been superfluous before the first of them is retired.
    pub retire_after: Duration,
    /// Requests after which a worker is replaced.
    pub max_requests: Option<u64>,
    /// Age at which a worker is replaced.
    pub max_age: Option<Duration>,
    /// Memory at which a worker is replaced, in bytes.
    pub max_memory: Option<u64>,
    /// Retired workers that may stay because of what is under way there; [`Settings::lingering_max`] says what it is without.
    pub retired_max: Option<u16>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            start: 2,
            min_spare: 1,
            max_spare: 4,
            max: 32,
            spawn_max: 32,
            retire_after: Duration::from_secs(60),
            max_requests: None,
            max_age: None,
            max_memory: None,
            retired_max: None,
        }
    }
}

impl Settings {
    /// A pool of always `workers` workers: as many are spare as can be, so one that dies is replaced, and none is retired.
    pub fn fixed(workers: u16) -> Settings {
        Settings {
            start: workers,
            min_spare: workers,
            max_spare: workers,
            max: workers,
            ..Settings::default()
        }
    }

    /// Whether the pool never changes its size by itself.
    pub fn is_fixed(&self) -> bool {
        self.start >= self.max && self.min_spare >= self.max
    }

    /// How many slots the pool needs: [`Settings::max`], and room for workers that drain, which do not delay others.
    pub fn slots(&self) -> u16 {
        self.max.saturating_add(self.max.div_ceil(4).max(self.lingering_max()))
    }

    /// How many retired workers may stay because of what is under way there.
    pub fn lingering_max(&self) -> u16 {
        self.retired_max.unwrap_or_else(|| self.max.div_ceil(4))
    }

    /// The settings of each of `buckets` buckets, which add up to these. But each bucket gets at least one of everything
    /// that is not 0 here: a bucket without a worker would leave its connections waiting. So there should be no more
    /// buckets than `max`.
    ///
    /// `spawn_max` is not divided, because [`super::buckets::Buckets`] shares it among those that need it.
    pub fn split(&self, buckets: u16) -> Vec<Settings> {
        let share = |whole: u16, bucket: u16| match whole {
            0 => 0,
            _ => (whole / buckets + u16::from(bucket < whole % buckets)).max(1),
        };
        let of_bucket = |bucket: u16| Settings {
            start: share(self.start, bucket),
            min_spare: share(self.min_spare, bucket),
            max_spare: share(self.max_spare, bucket),
            max: share(self.max, bucket),
            retired_max: self.retired_max.map(|most| share(most, bucket)),
            ..*self
        };
        (0..buckets).map(of_bucket).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_fixed_pool_is_fixed() {
        assert!(Settings::fixed(4).is_fixed());
        assert!(!Settings::default().is_fixed());
    }

    #[test]
    fn an_uneven_split_gives_the_rest_to_the_first_buckets() {
        let max: Vec<u16> =
            Settings { max: 10, ..Settings::default() }.split(4).iter().map(|part| part.max).collect();
        assert_eq!(max, [3, 3, 2, 2]);
    }

    proptest! {
        #[test]
        fn a_split_adds_up(start in 0_u16..99, min_spare in 0_u16..99, max_spare in 0_u16..99, max in 1_u16..999,
                           buckets in 1_u16..64) {
            let whole = Settings { start, min_spare, max_spare, max, ..Settings::default() };
            let parts = whole.split(buckets);
            prop_assert_eq!(parts.len(), usize::from(buckets));
            type Field = fn(&Settings) -> u16;
            let fields: [Field; 4] = [|s| s.start, |s| s.min_spare, |s| s.max_spare, |s| s.max];
            for field in fields {
                let sum: u16 = parts.iter().map(field).sum();
                let expected = if field(&whole) == 0 { 0 } else { field(&whole).max(buckets) };
                prop_assert_eq!(sum, expected);
                let least = parts.iter().map(field).min().unwrap();
                let most = parts.iter().map(field).max().unwrap();
                prop_assert!(most - least <= 1);
            }
        }
    }
}
