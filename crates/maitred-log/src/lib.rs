//! Access log and error log.
//!
//! | module | what it holds |
//! |---|---|
//! | [`access`] | one request → one line, in the format that the configuration chose |
//! | [`writer`] | lines of the event-loop threads → one descriptor, by a thread that may block |
//! | [`thread_logs`] | all access logs as one event-loop thread sees them |
//! | [`console`] | the same for a person who has started an application by one line |
//! | [`error`] | what goes to standard error: `tracing`, one line an event, and a bound on what peers can provoke |
//! | [`recent`] | the latest warnings and errors, for the status |
//! | [`trace`] | which trace a request belongs to, and what is reported of it |
//!
//! An event loop never waits for a log: what the writer cannot take in time is dropped and counted.

pub mod access;
pub mod console;
pub mod error;
pub mod recent;
pub mod thread_logs;
pub mod trace;
pub mod writer;

/// `1994-11-06T08:49:37` of `Sun, 06 Nov 1994 08:49:37 GMT`: the calendar was done already.
pub fn iso(date: &[u8; 29]) -> [u8; 19] {
    const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let month =
        MONTHS.chunks_exact(3).position(|name| *name == date[8..11]).map_or(0, |index| index as u8 + 1);
    let mut text = *b"0000-00-00T00:00:00";
    text[..4].copy_from_slice(&date[12..16]);
    text[5..7].copy_from_slice(&[b'0' + month / 10, b'0' + month % 10]);
    text[8..10].copy_from_slice(&date[5..7]);
    text[11..].copy_from_slice(&date[17..25]);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_month_is_known() {
        for month in 0..12 {
            let date = maitred_http::date::format(month * 2_629_746 + 1_300_000);
            assert_eq!(iso(&date)[..8], *format!("1970-{:02}-", month + 1).as_bytes());
        }
        assert_eq!(iso(b"Sun, 06 Nov 1994 08:49:37 GMT"), *b"1994-11-06T08:49:37");
    }
}
