//! The overload manager: how near a thread is to its bounds, and what is dropped or refused at which level.
//! Pure: readings and time go in, levels come out. `docs/overload.md` is for operators.
//!
//! Once per turn a thread gives it the budgets and the length of the last turn, and gets the levels, which have hysteresis.
//! [`Levels`] has the measures at each of them; the worker carries these out (`worker::admission::unsent`).
//!
//! | resource | pressure | its bound |
//! |---|---|---|
//! | memory | bytes that clients have not taken | `unsent_memory_bytes_max` |
//! | descriptors | descriptors that requests hold | what `RLIMIT_NOFILE` leaves for them |
//! | delay | the shortest turn of the event loop in the last second | `loop_delay_max` |

use std::time::{Duration, Instant};

/// A pressure is in thousandths of its bound. From here on a level holds …
const ELEVATED_FROM: u32 = 700;
const CRITICAL_FROM: u32 = 900;
/// … until the pressure has been below this …
const ELEVATED_UNTIL: u32 = 600;
const CRITICAL_UNTIL: u32 = 800;
/// … for so long: a level does not fall because of one quiet moment. One level at a time.
const FALLS_AFTER: Duration = Duration::from_secs(1);

/// Over how long the shortest turn is looked for, and in how many turns at least: a long turn now and then delays few events, but
/// where all are long, each event waits.
const DELAY_WINDOW: Duration = Duration::from_secs(1);
const DELAY_TURNS_MIN: u32 = 4;

/// Streams of each HTTP/2 connection at the levels. At the last one, a client that takes its responses is served one by one.
const ELEVATED_STREAMS: u32 = 16;
const CRITICAL_STREAMS: u32 = 1;
/// How long connections may be idle while memory is short.
const ELEVATED_IDLE: Duration = Duration::from_secs(5);
/// How long a client may take nothing of a response while memory is short, or descriptors: it may hold both.
const ELEVATED_WRITE: Duration = Duration::from_secs(10);
const CRITICAL_WRITE: Duration = Duration::from_secs(2);

// A level that ends where it begins would come and go with each byte.
const _: () = assert!(ELEVATED_UNTIL < ELEVATED_FROM && ELEVATED_FROM < CRITICAL_UNTIL);
const _: () = assert!(CRITICAL_UNTIL < CRITICAL_FROM && CRITICAL_FROM < 1000);

/// How much is dropped or refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing.
    #[default]
    Normal,
    /// What clients ask for beyond the ordinary.
    Elevated,
    /// New clients.
    Critical,
}

impl Level {
    /// What a pressure comes to, whose levels begin at these.
    fn of(pressure: u32, elevated: u32, critical: u32) -> Level {
        match pressure {
            _ if pressure >= critical => Level::Critical,
            _ if pressure >= elevated => Level::Elevated,
            _ => Level::Normal,
        }
    }

    fn lower(self) -> Level {
        match self {
            Level::Critical => Level::Elevated,
            Level::Elevated | Level::Normal => Level::Normal,
        }
    }

    /// The name of the level.
    pub fn text(self) -> &'static str {
        match self {
            Level::Normal => "normal",
            Level::Elevated => "elevated",
            Level::Critical => "critical",
        }
    }
}

/// The level of one resource.
#[derive(Debug, Default)]
struct Gauge {
    level: Level,
    /// Since when the pressure has been too low for it.
    low_since: Option<Instant>,
}

impl Gauge {
    fn update(&mut self, pressure: u32, now: Instant) {
        let raised = Level::of(pressure, ELEVATED_FROM, CRITICAL_FROM);
        let held = Level::of(pressure, ELEVATED_UNTIL, CRITICAL_UNTIL);
        if raised > self.level {
            self.level = raised;
        }
        if held >= self.level {
            self.low_since = None;
            return;
        }
        let since = *self.low_since.get_or_insert(now);
        if now.saturating_duration_since(since) >= FALLS_AFTER {
            self.level = self.level.lower();
            self.low_since = Some(now);
        }
    }
}

/// How long events wait for the loop to come to them.
#[derive(Debug)]
struct LoopDelay {
    since: Instant,
    shortest: Duration,
    turns: u32,
    delay: Duration,
}

impl LoopDelay {
    fn new(now: Instant) -> LoopDelay {
        LoopDelay { since: now, shortest: Duration::MAX, turns: 0, delay: Duration::ZERO }
    }

    /// A turn has taken so long. A short one shows at once that events do not wait any more.
    fn turn(&mut self, took: Duration, now: Instant) {
        self.shortest = self.shortest.min(took);
        self.turns = self.turns.saturating_add(1);
        self.delay = self.delay.min(took);
        if self.turns >= DELAY_TURNS_MIN && now.saturating_duration_since(self.since) >= DELAY_WINDOW {
            *self = LoopDelay { delay: self.shortest, ..LoopDelay::new(now) };
        }
    }
}

/// What is taken of something, and how much there may be.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    /// Taken.
    pub used: u64,
    /// At most.
    pub max: u64,
}

impl Share {
    /// In thousandths. Of nothing, nothing can be taken, and nothing is short.
    fn pressure(self) -> u32 {
        let thousandths = self.used.saturating_mul(1000).checked_div(self.max).unwrap_or(0);
        u32::try_from(thousandths).unwrap_or(u32::MAX)
    }
}

/// The levels of all resources.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Levels {
    /// Memory for what clients have not taken.
    pub memory: Level,
    /// Descriptors of requests.
    pub descriptors: Level,
    /// Time of the event loop.
    pub delay: Level,
}

impl Levels {
    /// The highest of them.
    pub fn highest(self) -> Level {
        self.memory.max(self.descriptors).max(self.delay)
    }

    /// Whether new connections are accepted.
    pub fn accepts(self) -> bool {
        self.highest() < Level::Critical
    }

    /// Streams that an HTTP/2 connection may have at a time.
    pub fn streams_max(self, configured: u32) -> u32 {
        match self.highest() {
            Level::Normal => configured,
            Level::Elevated => configured.min(ELEVATED_STREAMS),
            Level::Critical => configured.min(CRITICAL_STREAMS),
        }
    }

    /// How long a connection may be idle between two requests.
    pub fn idle_timeout(self, configured: Duration) -> Duration {
        match self.memory {
            Level::Normal => configured,
            Level::Elevated | Level::Critical => configured.min(ELEVATED_IDLE),
        }
    }

    /// How long a client may take nothing of its response.
    pub fn write_timeout(self, configured: Duration) -> Duration {
        match self.memory.max(self.descriptors) {
            Level::Normal => configured,
            Level::Elevated => configured.min(ELEVATED_WRITE),
            Level::Critical => configured.min(CRITICAL_WRITE),
        }
    }
}

/// One thread's.
#[derive(Debug)]
pub struct Overload {
    memory: Gauge,
    descriptors: Gauge,
    delay: Gauge,
    turns: LoopDelay,
    delay_max: Duration,
}

impl Overload {
    /// Nothing is short yet.
    pub fn new(delay_max: Duration, now: Instant) -> Overload {
        let (memory, descriptors, delay) = Default::default();
        Overload { memory, descriptors, delay, turns: LoopDelay::new(now), delay_max }
    }

    /// To be called once per turn, which took so long.
    pub fn update(&mut self, now: Instant, took: Duration, memory: Share, descriptors: Share) {
        self.turns.turn(took, now);
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let delay = Share { used: micros(self.turns.delay), max: micros(self.delay_max) };
        self.memory.update(memory.pressure(), now);
        self.descriptors.update(descriptors.pressure(), now);
        self.delay.update(delay.pressure(), now);
    }

    /// How things stand.
    pub fn levels(&self) -> Levels {
        Levels { memory: self.memory.level, descriptors: self.descriptors.level, delay: self.delay.level }
    }

    /// How long events wait.
    pub fn delay(&self) -> Duration {
        self.turns.delay
    }
}

#[cfg(test)]
mod tests;
