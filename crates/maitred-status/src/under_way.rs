//! Requests under way, for the status: which have been there longest, and where each is.
//!
//! Threads look for theirs when the status is asked for, and at no other time; a thread notes here what it has found. An answer
//! has what the thread that answers finds at that moment, and of each other thread what that one found when the status was asked
//! for before, unless that was [long](KEPT) ago: no thread waits for another.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::slowest::{LEAST_US, shorten};

/// Requests that a thread notes, and that are shown of all.
pub const UNDER_WAY_MAX: usize = 20;
/// How long a request has to be under way to be shown.
pub const LEAST: Duration = Duration::from_micros(LEAST_US);
/// How long what a thread has found is shown.
const KEPT: Duration = Duration::from_secs(10);
/// How soon after a thread has looked it is to look once more.
const ASKED_EVERY: Duration = Duration::from_millis(100);

/// Where a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// The body of the request is coming.
    Receiving,
    /// A gate of its route has not decided.
    Gate,
    /// The request waits for a process or a server.
    Queue,
    /// A process or a server has it.
    Application,
    /// What answers it is read from a disk.
    Disk,
    /// The response has begun, and is not with the client as a whole.
    Sending,
}

impl Where {
    fn name(self) -> &'static str {
        match self {
            Where::Receiving => "receiving",
            Where::Gate => "gate",
            Where::Queue => "queue",
            Where::Application => "application",
            Where::Disk => "disk",
            Where::Sending => "sending",
        }
    }
}

/// A request under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestUnderWay {
    /// When its first byte was seen.
    pub began: Instant,
    /// The method of the request.
    pub method: String,
    /// The path, without the query, which may be secret.
    pub path: String,
    /// The number of its route's plan.
    pub route: usize,
    /// Where it is.
    pub place: Where,
    /// By which it will stand in logs; empty if it has none yet.
    pub request_id: String,
}

/// What one thread has found.
#[derive(Debug, Default)]
pub struct Found(Mutex<Option<(Instant, Vec<RequestUnderWay>)>>);

impl Found {
    /// The thread has looked.
    pub fn note(&self, now: Instant, mut requests: Vec<RequestUnderWay>) {
        for request in &mut requests {
            shorten(&mut request.path);
            shorten(&mut request.request_id);
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, requests));
    }

    /// Whether it is time to have the thread look again.
    pub fn is_stale(&self, now: Instant) -> bool {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.as_ref().is_none_or(|(at, _)| now.saturating_duration_since(*at) >= ASKED_EVERY)
    }

    /// What several threads have found of late, the oldest requests first.
    pub fn of_all<'a>(threads: impl IntoIterator<Item = &'a Found>, now: Instant) -> Vec<RequestUnderWay> {
        let mut all = Vec::new();
        for thread in threads {
            let found = thread.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((at, requests)) = &*found
                && now.saturating_duration_since(*at) <= KEPT
            {
                all.extend_from_slice(requests);
            }
        }
        all.sort_by_key(|one| one.began);
        all.truncate(UNDER_WAY_MAX);
        all
    }
}

/// As in JSON; `route` is its name.
pub(crate) fn json(request: &RequestUnderWay, route: Value, now: Instant) -> Value {
    let since = now.saturating_duration_since(request.began).as_micros();
    json!({
        "method": request.method,
        "path": request.path,
        "route": route,
        "where": request.place.name(),
        "since_us": u64::try_from(since).unwrap_or(u64::MAX),
        "request_id": request.request_id,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_that_threads_have_found_of_late_are_shown() {
        let (threads, begin) = ([Found::default(), Found::default(), Found::default()], Instant::now());
        let after = |secs| begin + Duration::from_secs(secs);
        let request = |secs| RequestUnderWay {
            began: after(secs),
            method: "GET".into(),
            path: "/ä".repeat(200),
            route: 0,
            place: Where::Queue,
            request_id: String::new(),
        };
        assert!(threads[0].is_stale(begin));
        threads[0].note(after(50), (0..15).map(|number| request(2 * number)).collect());
        threads[1].note(after(50), (0..15).map(|number| request(2 * number + 1)).collect());
        threads[2].note(after(40), vec![request(1)]);
        assert!(!threads[0].is_stale(after(50)) && threads[0].is_stale(after(51)));
        let shown = Found::of_all(&threads, after(51));
        let began: Vec<_> = shown.iter().map(|one| one.began).collect();
        assert_eq!(began, (0..20).map(after).collect::<Vec<_>>(), "the third has not looked of late");
        assert!(shown.iter().all(|one| one.path.len() <= 200 && one.path.ends_with('…')));
        let json = json(&shown[0], "r".into(), after(51));
        assert_eq!((&json["where"], &json["since_us"]), (&"queue".into(), &51_000_000.into()));
        assert!(Found::of_all(&threads, after(61)).is_empty());
    }
}
