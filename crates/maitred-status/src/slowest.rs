//! The slowest requests of the last minutes, for the status: which they were, and where their time went.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};

use super::latency::{Took, WINDOW};

/// Requests that are kept of each thread, and shown of all.
pub(crate) const SLOWEST_MAX: usize = 10;
/// What takes less is nothing to look at.
pub(super) const LEAST_US: u64 = 100_000;
/// Bytes that are kept of a path and of a request id.
const TEXT_BYTES_MAX: usize = 200;

/// A slow request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowRequest {
    /// When it ended.
    pub at: Instant,
    /// The same in seconds of Unix time.
    pub unix_secs: u64,
    /// The method of the request.
    pub method: String,
    /// The path, without the query, which may be secret.
    pub path: String,
    /// The number of its route's plan.
    pub route: usize,
    /// The status of the response.
    pub status: u16,
    /// Where the time went.
    pub took: Took,
    /// By which it stands in logs; empty if it has none.
    pub request_id: String,
}

/// The slowest requests of one thread. Only that thread writes; the lock is taken for a request that is among the slowest, and
/// to show them.
#[derive(Debug, Default)]
pub struct Slowest {
    /// What a request has to exceed to be kept, in microseconds; 0 stands for [`LEAST_US`].
    floor_us: AtomicU64,
    kept: Mutex<Vec<SlowRequest>>,
}

impl Slowest {
    /// Whether a request that took so long is among them.
    #[inline]
    pub fn is_one(&self, whole_us: u64) -> bool {
        whole_us >= LEAST_US && whole_us > self.floor_us.load(Relaxed)
    }

    /// Keeps a request.
    pub fn note(&self, mut request: SlowRequest) {
        shorten(&mut request.path);
        shorten(&mut request.request_id);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let now = request.at;
        kept.retain(|one| is_recent(one, now));
        kept.push(request);
        kept.sort_by_key(|one| Reverse(one.took.whole_us));
        kept.truncate(SLOWEST_MAX);
        self.set_floor(&kept);
    }

    fn set_floor(&self, kept: &[SlowRequest]) {
        let floor = kept.get(SLOWEST_MAX - 1).map_or(0, |last| last.took.whole_us);
        self.floor_us.store(floor, Relaxed);
    }

    /// To be called now and then: what was slow long ago keeps nothing out that is slow now.
    pub fn tick(&self, now: Instant) {
        if self.floor_us.load(Relaxed) > 0 {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.retain(|one| is_recent(one, now));
            self.set_floor(&kept);
        }
    }

    /// The slowest requests of several threads, the slowest first.
    pub fn of_all<'a>(threads: impl IntoIterator<Item = &'a Slowest>, now: Instant) -> Vec<SlowRequest> {
        let mut all = Vec::new();
        for thread in threads {
            let kept = thread.kept.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(kept.iter().filter(|one| is_recent(one, now)).cloned());
        }
        all.sort_by_key(|one| Reverse(one.took.whole_us));
        all.truncate(SLOWEST_MAX);
        all
    }
}

fn is_recent(request: &SlowRequest, now: Instant) -> bool {
    now.saturating_duration_since(request.at) <= WINDOW
}

pub(super) fn shorten(text: &mut String) {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX - '…'.len_utf8()));
        text.push('…');
    }
}

/// As in JSON; `route` is its name.
pub(crate) fn json(request: &SlowRequest, route: Value) -> Value {
    let Took { whole_us, queue_us, answer_us, .. } = request.took;
    json!({
        "unix_time": request.unix_secs,
        "method": request.method,
        "path": request.path,
        "route": route,
        "status": request.status,
        "took_us": whole_us,
        "queue_us": queue_us,
        "answer_us": answer_us,
        "request_id": request.request_id,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn request(at: Instant, whole_us: u64) -> SlowRequest {
        let took = Took { whole_us, ..Took::default() };
        let path = "/ä".repeat(200);
        SlowRequest {
            at,
            unix_secs: 7,
            method: "GET".into(),
            path,
            route: 0,
            status: 200,
            took,
            request_id: String::new(),
        }
    }

    #[test]
    fn the_slowest_of_the_last_minutes_are_kept() {
        let (threads, began) = ([Slowest::default(), Slowest::default()], Instant::now());
        let after = |secs| began + Duration::from_secs(secs);
        for number in 0..40 {
            let took = 100_000 + (number * 7919) % 1_000 * 1_000;
            let thread = &threads[number as usize % 2];
            if thread.is_one(took) {
                thread.note(request(after(number), took));
            }
        }
        let shown = Slowest::of_all(&threads, after(40));
        assert_eq!(shown.len(), SLOWEST_MAX);
        assert!(shown.is_sorted_by_key(|one| Reverse(one.took.whole_us)));
        let all: Vec<u64> = (0..40).map(|number| 100_000 + (number * 7919) % 1_000 * 1_000).collect();
        let faster = all.iter().filter(|took| **took > shown[SLOWEST_MAX - 1].took.whole_us).count();
        assert_eq!(faster, SLOWEST_MAX - 1);
        assert!(shown.iter().all(|one| one.path.len() <= TEXT_BYTES_MAX && one.path.ends_with('…')));
        assert!(!threads[0].is_one(100_000), "others were slower");
        let later = after(40 + WINDOW.as_secs() + 1);
        assert!(Slowest::of_all(&threads, later).is_empty());
        threads.iter().for_each(|thread| thread.tick(later));
        assert!(threads[0].is_one(100_000) && !threads[0].is_one(99_999));
    }
}
