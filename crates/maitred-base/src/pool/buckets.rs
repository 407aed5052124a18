//! A listen pool: its workers are partitioned among the buckets of a listener, and each bucket is sized by itself,
//! because their traffic may differ. How many workers are started at a time is limited for all of them together.

use std::time::{Duration, Instant};

use super::sizing::{Decision, SPAWN_INTERVAL, Settings, Sizing, SlotView, Trouble, Wish};

/// One bucket, as the master sees it.
#[derive(Debug, Clone, Copy)]
pub struct BucketView<'a> {
    /// The slots of the bucket.
    pub slots: &'a [SlotView],
    /// Connections in its accept queue.
    pub queued: u32,
}

/// The sizing of all buckets of one pool.
#[derive(Debug, Clone)]
pub struct Buckets {
    sizings: Vec<Sizing>,
    spawn_max: u16,
    /// What may still be started before `renewed` + [`SPAWN_INTERVAL`].
    budget: u16,
    renewed: Instant,
    /// The bucket that is served first, when there is not enough for all.
    first: usize,
}

impl Buckets {
    /// Buckets without workers; `settings` are those of the whole pool, see [`Settings::split`].
    pub fn new(now: Instant, settings: &Settings, buckets: u16) -> Buckets {
        let sizings: Vec<_> =
            settings.split(buckets).into_iter().map(|part| Sizing::new(now, part)).collect();
        // At first all of `start` are wanted at once, as in a pool without buckets.
        let budget = settings.start.max(buckets).max(settings.spawn_max);
        Buckets { sizings, spawn_max: settings.spawn_max.max(1), budget, renewed: now, first: 0 }
    }

    /// Other settings of the whole pool from now on.
    pub fn resize(&mut self, now: Instant, settings: &Settings) {
        let buckets = u16::try_from(self.sizings.len()).unwrap_or(u16::MAX).max(1);
        self.spawn_max = settings.spawn_max.max(1);
        for (sizing, part) in self.sizings.iter_mut().zip(settings.split(buckets)) {
            sizing.resize(now, part);
        }
    }

    /// One decision for each bucket, in their order.
    pub fn decide(&mut self, now: Instant, views: &[BucketView<'_>]) -> Vec<Decision> {
        if now.saturating_duration_since(self.renewed) >= SPAWN_INTERVAL {
            self.renewed = now;
            self.budget = self.spawn_max;
        }
        let wish = |(sizing, view): (&mut Sizing, &BucketView<'_>)| sizing.wish(now, view.slots, view.queued);
        let wishes: Vec<Wish> = self.sizings.iter_mut().zip(views).map(wish).collect();
        let wanted: Vec<u16> = wishes.iter().map(|wish| wish.start).collect();
        let granted = self.share(&wanted);
        let renewal = self.renewed + SPAWN_INTERVAL;
        let parts = self.sizings.iter_mut().zip(views).zip(wishes.iter().zip(granted));
        let decide = |((sizing, view), (wish, start)): ((&mut Sizing, &BucketView<'_>), (&Wish, u16))| {
            let mut decision = sizing.grant(now, view.slots, wish, start);
            if start < wish.start {
                let earlier = decision.look_again.map_or(renewal, |at| at.min(renewal));
                decision.look_again = Some(earlier);
            }
            decision
        };
        parts.map(decide).collect()
    }

    /// As [`Sizing::died`], of a worker of this bucket.
    pub fn died(&mut self, bucket: u16, now: Instant, lived: Duration, was_ready: bool) {
        if let Some(sizing) = self.sizings.get_mut(usize::from(bucket)) {
            sizing.died(now, lived, was_ready);
        }
    }

    /// As [`Sizing::trouble`], of this bucket.
    pub fn trouble(&self, bucket: u16) -> Option<Trouble> {
        self.sizings.get(usize::from(bucket))?.trouble()
    }

    /// Divides the budget: one for each that still needs one, round after round, beginning with another bucket each time.
    fn share(&mut self, wanted: &[u16]) -> Vec<u16> {
        let mut granted = vec![0; wanted.len()];
        let mut turn = self.first;
        let mut passed_over = 0;
        while self.budget > 0 && passed_over < wanted.len() {
            let bucket = turn % wanted.len();
            turn += 1;
            match (wanted.get(bucket), granted.get_mut(bucket)) {
                (Some(wanted), Some(granted)) if *granted < *wanted => {
                    *granted += 1;
                    self.budget -= 1;
                    passed_over = 0;
                    self.first = turn % self.sizings.len().max(1);
                }
                _ => passed_over += 1,
            }
        }
        granted
    }
}
