//! What requests take up of something that all of them share: bytes of their bodies, descriptors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A bound on what requests take up together, shared by all threads.
#[derive(Debug)]
pub struct Budget {
    used: AtomicU64,
    max: u64,
}

impl Budget {
    /// A budget of so many bytes, or descriptors.
    pub fn new(max: u64) -> Arc<Budget> {
        Arc::new(Budget { used: AtomicU64::new(0), max })
    }

    /// What is taken at the moment.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// The bound of the budget.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Whether so many more would fit at this moment.
    pub fn has(&self, more: u64) -> bool {
        self.used().saturating_add(more) <= self.max
    }

    /// Takes so many, if they fit.
    pub fn take(self: &Arc<Budget>, wanted: u64) -> Option<Permit> {
        let mut permit = self.begin();
        permit.grow(wanted).then_some(permit)
    }

    /// Takes so many, whether they fit or not: what is taken is there already, and has to be counted.
    pub fn charge(self: &Arc<Budget>, taken: u64) -> Permit {
        let mut permit = self.begin();
        permit.set(taken);
        permit
    }

    /// Takes nothing yet.
    pub fn begin(self: &Arc<Budget>) -> Permit {
        Permit { budget: Arc::clone(self), taken: 0 }
    }
}

/// What one request takes of a [`Budget`]; given back when dropped. The permit of a body goes with its file: to an application
/// process, for instance.
#[derive(Debug)]
pub struct Permit {
    budget: Arc<Budget>,
    taken: u64,
}

impl Permit {
    /// Takes so many more, if they fit; otherwise nothing changes.
    #[must_use]
    pub fn grow(&mut self, more: u64) -> bool {
        let sum = |used: u64| used.checked_add(more).filter(|sum| *sum <= self.budget.max);
        let fits = self.budget.used.fetch_update(Relaxed, Relaxed, sum).is_ok();
        if fits {
            self.taken += more;
        }
        fits
    }

    /// What it has taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Has so many taken from now on, whether they fit or not.
    pub fn set(&mut self, taken: u64) {
        match taken.checked_sub(self.taken) {
            Some(more) => self.budget.used.fetch_add(more, Relaxed),
            None => self.budget.used.fetch_sub(self.taken - taken, Relaxed),
        };
        self.taken = taken;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.taken, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_takes_what_fits_and_gets_it_back() {
        let budget = Budget::new(10);
        let (mut first, mut second) = (budget.begin(), budget.begin());
        assert!(first.grow(6) && second.grow(3));
        assert!(!second.grow(2) && budget.has(1) && !budget.has(2));
        assert!(second.grow(1));
        assert_eq!(budget.used(), 10);
        drop(first);
        assert_eq!(budget.used(), 4);
        assert!(!second.grow(u64::MAX) && !budget.has(u64::MAX));
        drop(second);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_is_there_already_is_counted_beyond_the_bound() {
        let budget = Budget::new(10);
        let mut permit = budget.charge(8);
        permit.set(25);
        assert_eq!((budget.used(), permit.taken()), (25, 25));
        assert!(budget.take(1).is_none() && !permit.grow(1), "others get nothing more");
        permit.set(3);
        assert!(budget.used() == 3 && permit.grow(7));
        drop(permit);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn an_empty_budget_takes_nothing() {
        assert!(Budget::new(1).take(2).is_none() && Budget::new(2).take(2).is_some());
        let mut permit = Budget::new(0).begin();
        assert!(permit.grow(0) && !permit.grow(1));
    }

    #[test]
    fn threads_together_take_no_more_than_there_is() {
        let budget = Budget::new(1000);
        let most = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let mut permits: Vec<Permit> = Vec::new();
                        (0..1000)
                            .map(|turn| {
                                if turn % 7 == 0 {
                                    permits.clear();
                                }
                                let mut one = budget.begin();
                                if one.grow(90) {
                                    permits.push(one);
                                }
                                budget.used()
                            })
                            .max()
                    })
                })
                .collect();
            takers.into_iter().filter_map(|taker| taker.join().unwrap()).max()
        });
        assert!(most.is_some_and(|most| (90..=1000).contains(&most)), "{most:?}");
        assert_eq!(budget.used(), 0);
    }
}
