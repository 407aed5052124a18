//! Request bodies that are kept in files: how many bytes there are of them all, and how many there may be.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Room for request bodies in one place, shared by all threads.
#[derive(Debug)]
pub struct Room {
    used: AtomicU64,
    max: u64,
}

impl Room {
    /// An empty room for so many bytes.
    pub fn new(max: u64) -> Arc<Room> {
        Arc::new(Room { used: AtomicU64::new(0), max })
    }

    /// Bytes that are kept at the moment.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Bytes that there is room for.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Whether so many more would fit at this moment.
    pub fn has(&self, bytes: u64) -> bool {
        self.used().saturating_add(bytes) <= self.max
    }

    /// A body of which nothing has come yet.
    pub fn begin(self: &Arc<Room>) -> Kept {
        Kept { room: Arc::clone(self), bytes: 0 }
    }
}

/// What one body takes of a [`Room`]. It belongs to whoever has the file, an application process included, and is given back
/// when that is dropped.
#[derive(Debug)]
pub struct Kept {
    room: Arc<Room>,
    bytes: u64,
}

impl Kept {
    /// Takes so many bytes more, if they fit; otherwise nothing changes.
    #[must_use]
    pub fn grow(&mut self, bytes: u64) -> bool {
        let more = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.room.max);
        let fits = self.room.used.fetch_update(Relaxed, Relaxed, more).is_ok();
        if fits {
            self.bytes += bytes;
        }
        fits
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.room.used.fetch_sub(self.bytes, Relaxed);
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
