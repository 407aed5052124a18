//! What a peer may do too often, and how often that is.
//!
//! Every act that costs the server more than the peer, and that well-behaved peers do now and then, adds one to its level. A
//! level sinks with time (all of its limit in [`FORGIVEN_IN`]) and with useful work: legitimate traffic of any length stays
//! below the limits, and an attack reaches them after as many acts as the limit says. Then the connection ends with
//! ENHANCE_YOUR_CALM, or H3_EXCESSIVE_LOAD. Levels are numbers, so the memory of this is constant.

use std::time::{Duration, Instant};

/// In this time a level at its limit sinks to nothing.
pub const FORGIVEN_IN: Duration = Duration::from_secs(10);

/// Window updates that one DATA frame may be answered with: the connection's and the stream's, and some clients send
/// one per read.
const WINDOW_UPDATES_PER_DATA: i32 = 8;

/// Window updates that DATA frames sent have made up for before they come: a client with large windows may get all of a
/// response before it reads anything, and opens them piece by piece then. As many as 64 MiB of the smallest full frames allow;
/// to take them all costs the server milliseconds.
const PREPAID_MAX: i32 = WINDOW_UPDATES_PER_DATA << 12;

/// How many priority frames belong to a request, and how many window updates: clients change priorities, and open
/// windows ahead.
const PER_REQUEST: u32 = 4;

/// Limits on what a peer does too often: so many at once, and a tenth of it per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floods {
    /// Requests that the peer takes back (CVE-2023-44487, "rapid reset"). Each answered one makes up for one. A browser that
    /// leaves a page takes back some hundred at once.
    pub resets_max: u32,
    /// Stream errors that the peer provokes (CVE-2025-8671, "made you reset"), refused streams and requests with a head
    /// that is too large among them. Well-behaved peers make none, except for the streams that they open before they know
    /// how many they may.
    pub stream_errors_max: u32,
    /// PINGs (CVE-2019-9512). Each DATA frame sent makes up for one: some clients measure their bandwidth by PINGs.
    pub pings_max: u32,
    /// SETTINGS (CVE-2019-9515).
    pub settings_max: u32,
    /// DATA without content and end, HEADERS and CONTINUATION without a byte of the block (CVE-2019-9518).
    pub empty_frames_max: u32,
    /// WINDOW_UPDATEs (CVE-2019-9511). Requests and DATA frames sent make up for several.
    pub window_updates_max: u32,
    /// PRIORITY and PRIORITY_UPDATE. Requests make up for several.
    pub priorities_max: u32,
    /// Frames that mean nothing: of unknown types, and for streams that have ended. What was under way when an upload
    /// was refused is among them, so that this is a full window of frames.
    pub ignored_max: u32,
}

impl Default for Floods {
    fn default() -> Self {
        Self {
            resets_max: 200,
            stream_errors_max: 200,
            pings_max: 200,
            settings_max: 50,
            empty_frames_max: 100,
            window_updates_max: 1000,
            priorities_max: 500,
            ignored_max: 1000,
        }
    }
}

/// Something was done too often: what, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMany(pub(crate) &'static str);

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Reset,
    StreamError,
    Ping,
    Settings,
    EmptyFrame,
    WindowUpdate,
    Priority,
    Ignored,
}

const ACTS: [Act; 8] = [
    Act::Reset,
    Act::StreamError,
    Act::Ping,
    Act::Settings,
    Act::EmptyFrame,
    Act::WindowUpdate,
    Act::Priority,
    Act::Ignored,
];

/// The levels of one connection.
#[derive(Debug)]
pub(crate) struct Ledger {
    limits: Floods,
    /// Below zero: what was made up for before it came.
    levels: [i32; ACTS.len()],
    /// Until when time has been made up for.
    since: Instant,
}

impl Ledger {
    pub(crate) fn new(limits: Floods, now: Instant) -> Self {
        Self { limits, levels: [0; ACTS.len()], since: now }
    }

    /// Notes an act.
    ///
    /// # Errors
    ///
    /// The act was one too many.
    pub(crate) fn charge(&mut self, act: Act, now: Instant) -> Result<(), TooMany> {
        self.forgive(now);
        let limit = self.limit(act);
        let level = &mut self.levels[act as usize];
        *level = level.saturating_add(1);
        if i64::from(*level) <= i64::from(limit) {
            return Ok(());
        }
        Err(TooMany(act.name()))
    }

    /// A request was answered to its end.
    #[inline]
    pub(crate) fn answered(&mut self) {
        self.make_up(Act::Reset, 1);
    }

    /// A request came.
    #[inline]
    pub(crate) fn requested(&mut self) {
        self.make_up(Act::Priority, PER_REQUEST);
        self.make_up(Act::WindowUpdate, PER_REQUEST);
    }

    /// A DATA frame was sent.
    #[inline]
    pub(crate) fn data_sent(&mut self) {
        let level = &mut self.levels[Act::WindowUpdate as usize];
        *level = (*level - WINDOW_UPDATES_PER_DATA).max(-PREPAID_MAX);
        self.make_up(Act::Ping, 1);
    }

    #[inline]
    fn make_up(&mut self, act: Act, count: u32) {
        let level = &mut self.levels[act as usize];
        // What was made up for beforehand stays.
        *level = level.saturating_sub_unsigned(count).max((*level).min(0));
    }

    fn forgive(&mut self, now: Instant) {
        const STEP: Duration = Duration::from_secs(1);
        let passed = now.saturating_duration_since(self.since);
        if passed < STEP {
            return;
        }
        let seconds = passed.as_secs().min(FORGIVEN_IN.as_secs());
        self.since += Duration::from_secs(passed.as_secs());
        for act in ACTS {
            let share = u64::from(self.limit(act)) * seconds / FORGIVEN_IN.as_secs();
            // A limit below ten sinks, too.
            self.make_up(act, u32::try_from(share.max(1)).unwrap_or(u32::MAX));
        }
    }

    fn limit(&self, act: Act) -> u32 {
        let limits = &self.limits;
        match act {
            Act::Reset => limits.resets_max,
            Act::StreamError => limits.stream_errors_max,
            Act::Ping => limits.pings_max,
            Act::Settings => limits.settings_max,
            Act::EmptyFrame => limits.empty_frames_max,
            Act::WindowUpdate => limits.window_updates_max,
            Act::Priority => limits.priorities_max,
            Act::Ignored => limits.ignored_max,
        }
    }
}

impl Act {
    fn name(self) -> &'static str {
        match self {
            Self::Reset => "requests taken back too often",
            Self::StreamError => "too many stream errors",
            Self::Ping => "too many PINGs",
            Self::Settings => "too many SETTINGS",
            Self::EmptyFrame => "too many empty frames",
            Self::WindowUpdate => "too many WINDOW_UPDATEs",
            Self::Priority => "too many priorities",
            Self::Ignored => "too many frames without meaning",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_may_be_opened_long_after_the_content_was_sent() {
        let now = Instant::now();
        let floods = Floods::default();
        let mut ledger = Ledger::new(floods, now);
        // 32 MiB in frames of 16 KiB, of which each opens two windows when the client has time.
        (0..2048).for_each(|_| ledger.data_sent());
        (0..4096).for_each(|at| assert!(ledger.charge(Act::WindowUpdate, now).is_ok(), "{at}"));
        // What is made up for beforehand has a bound, too.
        (0..1_000_000).for_each(|_| ledger.data_sent());
        let accepted = (0..).take_while(|_| ledger.charge(Act::WindowUpdate, now).is_ok()).count();
        assert_eq!(accepted as u32, PREPAID_MAX.unsigned_abs() + floods.window_updates_max);
    }
}
