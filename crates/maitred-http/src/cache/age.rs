//! How old a response is when it arrives (9111-4.2.3, 5.1).

use super::Times;
use super::directives::{SECONDS_MAX, seconds};

/// The value of `Age` if it is one: of a list the first member counts, and what is no number of seconds is ignored (9111-5.1).
pub(super) fn parse(value: &[u8]) -> Option<u32> {
    let first = value.split(|byte| *byte == b',').next().unwrap_or_default();
    seconds(first.trim_ascii())
}

/// The corrected initial age, in seconds: what the server's clock and the path say, whichever is more.
pub(super) fn initial(age: Option<u32>, date: u64, times: Times) -> u32 {
    let clamp = |seconds: u64| seconds.min(u64::from(SECONDS_MAX)) as u32;
    let apparent = clamp(times.response_time.saturating_sub(date));
    let delay = clamp(times.response_time.saturating_sub(times.request_time));
    apparent.max(age.unwrap_or(0).saturating_add(delay)).min(SECONDS_MAX)
}
