//! What one client thread saw, and the sum over threads.

mod series;

pub use series::{Point, SERIES_POINTS_MAX, Series};

use hdrhistogram::Histogram;

/// Nanoseconds since the start of the run, or of a duration.
pub type Nanos = u64;

/// Longest latency that is distinguished from longer ones; these count as this long.
pub const LATENCY_MAX: Nanos = 3_600 * 1_000_000_000;
/// Shortest latency that is distinguished from 0.
const LATENCY_MIN: Nanos = 100;
/// Significant digits of a latency.
const LATENCY_DIGITS: u8 = 3;
/// Differences from the log that are shown.
pub const EXAMPLES_MAX: usize = 10;
/// Status codes are counted below this one.
const STATUS_END: usize = 1000;

/// Why a request got no complete response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No connection: refused, unreachable, or no local port left.
    Connect,
    /// No connection, or not the whole response, within `--timeout`.
    Timeout,
    /// A connection, but no TLS session: certificate, version, or no TLS at all.
    Handshake,
    /// The connection was reset.
    Reset,
    /// The server closed before the first byte of the response.
    Closed,
    /// The server closed in the middle of the response.
    Cut,
    /// What came is no HTTP response.
    Malformed,
}

impl Failure {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Failure; 7] = [
        Failure::Connect,
        Failure::Timeout,
        Failure::Handshake,
        Failure::Reset,
        Failure::Closed,
        Failure::Cut,
        Failure::Malformed,
    ];

    /// A word for machines.
    pub fn name(self) -> &'static str {
        match self {
            Failure::Connect => "connect",
            Failure::Timeout => "timeout",
            Failure::Handshake => "handshake",
            Failure::Reset => "reset",
            Failure::Closed => "closed",
            Failure::Cut => "cut",
            Failure::Malformed => "malformed",
        }
    }

    /// Words for people.
    pub fn text(self) -> &'static str {
        match self {
            Failure::Connect => "no connection",
            Failure::Timeout => "timed out",
            Failure::Handshake => "without a TLS session",
            Failure::Reset => "connection reset",
            Failure::Closed => "closed without a response",
            Failure::Cut => "aborted in the middle of a response",
            Failure::Malformed => "not an HTTP response",
        }
    }
}

/// A response that differs from what was logged.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Difference {
    /// Method and target.
    pub request: String,
    /// Status that was logged.
    pub logged_status: u16,
    /// Status that came.
    pub status: u16,
    /// Length that was logged, if one was.
    pub logged_bytes: Option<u64>,
    /// Bytes of the body that came.
    pub bytes: u64,
}

/// What was seen. All counts are of requests unless they say otherwise.
#[derive(Debug, Clone)]
pub struct Measurements {
    /// From the intended time, where there is one, else from the choice of a connection, to the last byte, in nanoseconds.
    pub latency: Histogram<u64>,
    /// From the first byte sent to the last byte received, in nanoseconds.
    pub service: Histogram<u64>,
    /// Complete responses by status code.
    statuses: Vec<u64>,
    failures: [u64; Failure::ALL.len()],
    /// Complete responses.
    pub responses: u64,
    /// Bytes of bodies, as the application sees them.
    pub body_bytes: u64,
    /// Bytes received, heads and framing included.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Connections that were opened.
    pub connections: u64,
    /// Requests that were sent again, because a kept connection was closed before the first byte of the response.
    pub sent_again: u64,
    /// Requests that were due before the end and could not be sent.
    pub unsent: u64,
    /// Requests whose response was not complete when the run ended.
    pub unfinished: u64,
    /// Responses whose status differs from the logged one.
    pub status_differs: u64,
    /// Responses with the logged status whose length differs.
    pub length_differs: u64,
    /// Responses that were compared with the log.
    pub compared: u64,
    /// The first of those that differ.
    pub differences: Vec<Difference>,
    /// The first thing that was wrong with TLS.
    pub tls_error: Option<String>,
    /// The same over time.
    pub series: Series,
}

impl Default for Measurements {
    fn default() -> Self {
        Measurements {
            latency: histogram(),
            service: histogram(),
            statuses: vec![0; STATUS_END],
            failures: [0; Failure::ALL.len()],
            responses: 0,
            body_bytes: 0,
            received_bytes: 0,
            sent_bytes: 0,
            connections: 0,
            sent_again: 0,
            unsent: 0,
            unfinished: 0,
            status_differs: 0,
            length_differs: 0,
            compared: 0,
            differences: Vec::new(),
            tls_error: None,
            series: Series::default(),
        }
    }
}

#[allow(clippy::expect_used, reason = "the bounds are constants, and a test makes one")]
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(LATENCY_MIN, LATENCY_MAX, LATENCY_DIGITS).expect("the bounds are sound")
}

impl Measurements {
    /// A complete response, at `now`.
    #[inline]
    pub fn response(&mut self, now: Nanos, status: u16, body_bytes: u64, latency: Nanos, service: Nanos) {
        self.latency.saturating_record(latency);
        self.service.saturating_record(service);
        if let Some(count) = self.statuses.get_mut(usize::from(status)) {
            *count += 1;
        }
        self.responses += 1;
        self.body_bytes += body_bytes;
        self.series.response(now, body_bytes, latency);
    }

    /// A request without a complete response, at `now`.
    pub fn failure(&mut self, now: Nanos, failure: Failure) {
        if let Some(count) = self.failures.get_mut(failure as usize) {
            *count += 1;
        }
        self.series.failure(now);
    }

    /// How many requests failed for this reason.
    pub fn failed(&self, failure: Failure) -> u64 {
        self.failures.get(failure as usize).copied().unwrap_or(0)
    }

    /// How many requests failed.
    pub fn failures(&self) -> u64 {
        self.failures.iter().sum()
    }

    /// Status codes that came, and how often, in their order.
    pub fn statuses(&self) -> impl Iterator<Item = (u16, u64)> {
        self.statuses
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(code, count)| (code as u16, *count))
    }

    /// Compares a response with what was logged.
    pub fn compare(&mut self, difference: impl FnOnce() -> Difference, status: bool, length: bool) {
        self.compared += 1;
        self.status_differs += u64::from(status);
        self.length_differs += u64::from(length && !status);
        if (status || length) && self.differences.len() < EXAMPLES_MAX {
            self.differences.push(difference());
        }
    }

    /// Adds what another thread saw.
    pub fn add(&mut self, other: &Measurements) {
        // Both histograms have the same bounds, so nothing can be out of them.
        let _ = self.latency.add(&other.latency);
        let _ = self.service.add(&other.service);
        for (sum, count) in self.statuses.iter_mut().zip(&other.statuses) {
            *sum += count;
        }
        for (sum, count) in self.failures.iter_mut().zip(&other.failures) {
            *sum += count;
        }
        self.responses += other.responses;
        self.body_bytes += other.body_bytes;
        self.received_bytes += other.received_bytes;
        self.sent_bytes += other.sent_bytes;
        self.connections += other.connections;
        self.sent_again += other.sent_again;
        self.unsent += other.unsent;
        self.unfinished += other.unfinished;
        self.status_differs += other.status_differs;
        self.length_differs += other.length_differs;
        self.compared += other.compared;
        self.tls_error = self.tls_error.take().or_else(|| other.tls_error.clone());
        let room = EXAMPLES_MAX.saturating_sub(self.differences.len());
        self.differences.extend(other.differences.iter().take(room).cloned());
        self.series.add(&other.series);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up() {
        let (mut one, mut two) = (Measurements::default(), Measurements::default());
        one.response(5, 200, 10, 1_000_000, 900_000);
        two.response(7, 404, 20, 3_000_000, 900_000);
        two.response(7, 200, 20, 2 * LATENCY_MAX, 900_000);
        two.failure(8, Failure::Reset);
        one.add(&two);
        assert_eq!(one.statuses().collect::<Vec<_>>(), [(200, 2), (404, 1)]);
        assert_eq!((one.responses, one.body_bytes, one.failures()), (3, 50, 1));
        assert_eq!((one.failed(Failure::Reset), one.failed(Failure::Cut)), (1, 0));
        let median = one.latency.value_at_quantile(0.5);
        assert!((2_995_000..3_005_000).contains(&median), "{median}");
        assert!(one.latency.max() >= LATENCY_MAX);
        assert_eq!(one.series.points().iter().map(|point| point.responses).sum::<u64>(), 3);
    }

    #[test]
    fn differences_are_counted_and_the_first_are_kept() {
        let mut seen = Measurements::default();
        let difference = || Difference {
            request: "GET /".into(),
            logged_status: 200,
            status: 404,
            logged_bytes: None,
            bytes: 3,
        };
        for _ in 0..20 {
            seen.compare(difference, true, true);
        }
        seen.compare(difference, false, true);
        seen.compare(difference, false, false);
        assert_eq!((seen.compared, seen.status_differs, seen.length_differs), (22, 20, 1));
        assert_eq!(seen.differences.len(), EXAMPLES_MAX);
    }
}
