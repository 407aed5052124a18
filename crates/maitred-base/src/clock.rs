//! The time as one turn of an event loop sees it.

/// The clock as one turn of an event loop sees it: read once a turn.
#[derive(Debug, Clone)]
pub struct Clock {
    /// Monotonic time.
    pub now: std::time::Instant,
    /// Wall-clock time in seconds since the Unix epoch.
    pub unix_secs: u64,
    /// Fraction of that second, in microseconds.
    pub unix_micros: u32,
    /// `Sun, 06 Nov 1994 08:49:37 GMT` of `unix_secs` (RFC 9110 section 5.6.7).
    pub http_date: [u8; 29],
}

impl Clock {
    /// Wall-clock time in microseconds since the Unix epoch.
    pub fn unix_us(&self) -> u64 {
        self.unix_secs.saturating_mul(1_000_000).saturating_add(self.unix_micros.into())
    }
}
