//! The last minutes of routes and pools: what the [`history`](super::history) has of them, and what this process has counted
//! since it has added to that.

use super::history::Past;
use super::latency::{PoolWindow, TimingFacts};

/// What of the counts of this process is in the history. Belongs to the control thread.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    routes: Vec<TimingFacts>,
    pools: Vec<TimingFacts>,
}

impl Latencies {
    /// Adds what was `counted` of routes and of pools, as far as it is new.
    pub(crate) fn publish(&mut self, past: &Past, now: u64, counted: (Vec<TimingFacts>, Vec<TimingFacts>)) {
        let (routes, pools) = counted;
        publish(&mut self.routes, routes, |number, more| past.add_route(number, now, more));
        publish(&mut self.pools, pools, |number, more| past.add_pool(number, now, more));
    }

    /// The last minutes of each route, of which so much is counted now.
    pub(crate) fn routes<'a>(
        &self,
        past: &Past,
        now: u64,
        counted: impl Iterator<Item = &'a TimingFacts>,
    ) -> Vec<TimingFacts> {
        let one = |(number, new)| past.route_window(number, now).with(&new);
        differences(counted, &self.routes).enumerate().map(one).collect()
    }

    /// The same of pools, with the hour before.
    pub(crate) fn pools(&self, past: &Past, now: u64, counted: &[TimingFacts]) -> Vec<PoolWindow> {
        let one = |(number, new)| {
            let PoolWindow { recent, before } = past.pool_window(number, now);
            PoolWindow { recent: recent.with(&new), before }
        };
        differences(counted.iter(), &self.pools).enumerate().map(one).collect()
    }
}

/// What cannot be added now is tried again.
fn publish(
    published: &mut Vec<TimingFacts>,
    counted: Vec<TimingFacts>,
    add: impl Fn(usize, &TimingFacts) -> bool,
) {
    published.resize_with(counted.len(), TimingFacts::default);
    for (number, (counted, published)) in counted.into_iter().zip(published).enumerate() {
        if counted != *published && add(number, &counted.since(published)) {
            *published = counted;
        }
    }
}

fn differences<'a>(
    counted: impl Iterator<Item = &'a TimingFacts>,
    before: &[TimingFacts],
) -> impl Iterator<Item = TimingFacts> {
    let nothing = TimingFacts::default();
    let before = before.iter().cloned().chain(std::iter::repeat(nothing));
    counted.zip(before).map(|(now, before)| now.since(&before))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::{config, facts};

    #[test]
    fn without_a_past_everything_is_recent() {
        let now = facts(&[(2_000, false); 4]);
        let past = Past::new(None, &config(&[], &["web"])).unwrap();
        let mut latencies = Latencies::default();
        let expected = [PoolWindow { recent: now.clone(), before: TimingFacts::default() }];
        assert_eq!(latencies.pools(&past, 1_000, std::slice::from_ref(&now)), expected);
        latencies.publish(&past, 1_000, (Vec::new(), vec![now.clone()]));
        assert_eq!(latencies.pools(&past, 1_000, std::slice::from_ref(&now)), expected, "counted once");
        let json = now.json();
        assert_eq!((&json["requests"], &json["failed_percent"]), (&4.into(), &0.0.into()));
        assert_eq!((&json["mean_us"], &json["mean_queue_us"]), (&2_000.into(), &200.into()));
        assert!(TimingFacts::default().json()["p50_us"].is_null());
    }
}
