//! What requests take up of something that all of them share: bytes of their bodies, descriptors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Room for what requests take up, shared by all threads.
#[derive(Debug)]
pub struct Room {
    used: AtomicU64,
    max: u64,
}

impl Room {
    /// An empty room for so many bytes, or descriptors.
    pub fn new(max: u64) -> Arc<Room> {
        Arc::new(Room { used: AtomicU64::new(0), max })
    }

    /// What is taken at the moment.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// What there is room for.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Whether so many more would fit at this moment.
    pub fn has(&self, more: u64) -> bool {
        self.used().saturating_add(more) <= self.max
    }

    /// Takes so many, if they fit.
    pub fn take(self: &Arc<Room>, wanted: u64) -> Option<Kept> {
        let mut kept = self.begin();
        kept.grow(wanted).then_some(kept)
    }

    /// Takes nothing yet.
    pub fn begin(self: &Arc<Room>) -> Kept {
        Kept { room: Arc::clone(self), taken: 0 }
    }
}

/// What one request takes of a [`Room`]; given back when dropped. That of a body belongs to whoever has the file, an application
/// process included.
#[derive(Debug)]
pub struct Kept {
    room: Arc<Room>,
    taken: u64,
}

impl Kept {
    /// Takes so many more, if they fit; otherwise nothing changes.
    #[must_use]
    pub fn grow(&mut self, more: u64) -> bool {
        let sum = |used: u64| used.checked_add(more).filter(|sum| *sum <= self.room.max);
        let fits = self.room.used.fetch_update(Relaxed, Relaxed, sum).is_ok();
        if fits {
            self.taken += more;
        }
        fits
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.room.used.fetch_sub(self.taken, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_takes_what_fits_and_gets_it_back() {
        let room = Room::new(10);
        let (mut first, mut second) = (room.begin(), room.begin());
        assert!(first.grow(6) && second.grow(3));
        assert!(!second.grow(2) && room.has(1) && !room.has(2));
        assert!(second.grow(1));
        assert_eq!(room.used(), 10);
        drop(first);
        assert_eq!(room.used(), 4);
        assert!(!second.grow(u64::MAX) && !room.has(u64::MAX));
        drop(second);
        assert_eq!(room.used(), 0);
    }

    #[test]
    fn an_empty_room_takes_nothing() {
        assert!(Room::new(1).take(2).is_none() && Room::new(2).take(2).is_some());
        let mut kept = Room::new(0).begin();
        assert!(kept.grow(0) && !kept.grow(1));
    }

    #[test]
    fn threads_together_take_no_more_than_there_is() {
        let room = Room::new(1000);
        let most = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let mut kept: Vec<Kept> = Vec::new();
                        (0..1000)
                            .map(|turn| {
                                if turn % 7 == 0 {
                                    kept.clear();
                                }
                                let mut one = room.begin();
                                if one.grow(90) {
                                    kept.push(one);
                                }
                                room.used()
                            })
                            .max()
                    })
                })
                .collect();
            takers.into_iter().filter_map(|taker| taker.join().unwrap()).max()
        });
        assert!(most.is_some_and(|most| (90..=1000).contains(&most)), "{most:?}");
        assert_eq!(room.used(), 0);
    }
}
