//! Limits by client: `[limit.NAME]`, each with its table, which all threads of all worker processes share.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use maitred_http::request::Request;
use rustix::time::ClockId;

use super::origin::is_within;
use maitred_base::rates::{AddressKey, Entered, Gcra, Key, Place, Process, Table, Verdict};
use maitred_config::{ClientLimit, LimitKey};
use maitred_files::exchange::Field;
use maitred_policy::rewrite::cookie;
use maitred_status::facts::LimitFacts;

/// The monotonic clock as worker processes share it: [`Instant`]s mean nothing outside of theirs.
#[derive(Debug, Clone, Copy)]
struct MonotonicClock {
    start: Instant,
    start_ns: u64,
}

impl MonotonicClock {
    fn new() -> MonotonicClock {
        let time = rustix::time::clock_gettime(ClockId::Monotonic);
        let since = Duration::try_from(time).unwrap_or_default();
        MonotonicClock { start: Instant::now(), start_ns: u64::try_from(since.as_nanos()).unwrap_or(0) }
    }

    fn nanos(&self, moment: Instant) -> u64 {
        let since = moment.saturating_duration_since(self.start).as_nanos();
        self.start_ns.saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }
}

/// One limit.
#[derive(Debug)]
pub(crate) struct Limit {
    config: ClientLimit,
    rate: Option<Gcra>,
    table: Table,
    /// As which this process counts requests under way.
    process: Process,
    /// Requests under way that are counted, of this process.
    under_way: AtomicU64,
    clock: MonotonicClock,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beyond {
    /// A request that comes so much later is within the rate.
    Rate(Duration),
    /// As many requests are under way as may be.
    Concurrent,
}

/// A request that counts as under way, until this is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    limit: &'static Limit,
    place: Place,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.limit.table.leave(self.place, self.limit.process);
        self.limit.under_way.fetch_sub(1, Relaxed);
    }
}

/// What is counted.
pub(super) struct Counted<'a> {
    pub(super) request: &'a Request<'a, 'a>,
    /// The client's address; `None` over a Unix socket.
    pub(super) client: Option<IpAddr>,
    /// What stands for the route.
    pub(super) route: u64,
}

impl Limit {
    /// All limits of a configuration. Tables are those of the master, by the limits' indexes; where there is none (in tests), a
    /// table of its own is made.
    ///
    /// # Errors
    /// When a table cannot be used.
    pub(super) fn all(limits: &[ClientLimit], tables: Vec<(usize, OwnedFd)>) -> std::io::Result<Vec<Limit>> {
        let mut opened: Vec<Option<Table>> = limits.iter().map(|_| None).collect();
        for (index, file) in tables {
            if let Some(place) = opened.get_mut(index) {
                *place = Some(Table::open(file)?);
            }
        }
        let of = |(config, table): (&ClientLimit, Option<Table>)| {
            let table = table.map_or_else(|| Table::create(config.layout()), Ok)?;
            let rate = config.rate.map(|rate| Gcra::new(rate.count, rate.period, rate.burst));
            let process = table.join(std::process::id());
            let under_way = AtomicU64::new(0);
            Ok(Limit {
                config: config.clone(),
                rate,
                table,
                process,
                under_way,
                clock: MonotonicClock::new(),
            })
        };
        limits.iter().zip(opened).map(of).collect()
    }

    pub(super) fn name(&self) -> &str {
        &self.config.name
    }

    pub(super) fn is_dry_run(&self) -> bool {
        self.config.dry_run
    }

    pub(super) fn status(&self) -> u16 {
        self.config.status
    }

    /// Counts a request, for as long as its lease is kept if it has one. If it is beyond the limit, that is counted, too.
    ///
    /// # Errors
    /// What it is beyond.
    pub(super) fn ask(&'static self, counted: &Counted<'_>, now: Instant) -> Result<Option<Lease>, Beyond> {
        if counted.client.is_some_and(|client| is_within(client, &self.config.exempt)) {
            return Ok(None);
        }
        let Some(key) = self.key(counted) else { return Ok(None) };
        let beyond = |beyond| {
            self.table.note_refused(self.config.dry_run);
            Err(beyond)
        };
        if let Some(rate) = &self.rate
            && let Verdict::Refuse(wait) = self.table.ask(key, rate, self.clock.nanos(now))
        {
            return beyond(Beyond::Rate(Duration::from_nanos(wait)));
        }
        let Some(max) = self.config.concurrent else { return Ok(None) };
        match self.table.enter_up_to(key, max, self.process) {
            Entered::Counted(place) => {
                self.under_way.fetch_add(1, Relaxed);
                Ok(Some(Lease { limit: self, place }))
            }
            Entered::Uncounted => Ok(None),
            Entered::Beyond => beyond(Beyond::Concurrent),
        }
    }

    /// The limit of `[limits]` with this name, which stand at the end.
    pub(super) fn named(limits: &'static [Limit], name: &str) -> Option<&'static Limit> {
        limits.iter().rev().find(|limit| limit.config.name == name)
    }

    /// Counts something that this address does. False, and that is counted, if it is beyond the rate.
    pub(super) fn admits(&self, address: Option<SocketAddr>, now: Instant) -> bool {
        let (Some(key), Some(rate)) = (self.key_of(address), &self.rate) else { return true };
        let within = self.table.ask(key, rate, self.clock.nanos(now)) == Verdict::Pass;
        if !within {
            self.table.note_refused(false);
        }
        within
    }

    /// What was counted last does not count.
    pub(super) fn take_back(&self, address: Option<SocketAddr>) {
        if let (Some(key), Some(rate)) = (self.key_of(address), &self.rate) {
            self.table.take_back(key, rate);
        }
    }

    /// `None` for what is not counted: addresses that are exempt, and Unix sockets.
    fn key_of(&self, address: Option<SocketAddr>) -> Option<Key<'static>> {
        let address = address?.ip();
        (!is_within(address, &self.config.exempt)).then(|| Key::Address(AddressKey::of(address)))
    }

    /// What the request is counted by; `None` if there is nothing.
    fn key<'a>(&self, counted: &Counted<'a>) -> Option<Key<'a>> {
        let request = counted.request;
        let text = match &self.config.key {
            LimitKey::Address => None,
            LimitKey::Route => return Some(Key::Route(counted.route)),
            LimitKey::Header(name) => request
                .fields
                .iter()
                .find(|field| field.name.eq_ignore_ascii_case(name))
                .map(|field| field.value),
            LimitKey::Cookie(name) => cookie(request, name),
        };
        // What has no such field must not go without a limit.
        let text = text.map(<[u8]>::trim_ascii).filter(|text| !text.is_empty());
        text.map(Key::Text).or_else(|| Some(Key::Address(AddressKey::of(counted.client?))))
    }

    /// The fields of a refusal: `Retry-After` (RFC 9110 section 10.2.3), and those of
    /// [draft-ietf-httpapi-ratelimit-headers-10](https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/).
    pub(super) fn fields(&self, beyond: Beyond) -> Vec<Field<'static>> {
        let name = &self.config.name;
        let (seconds, policy) = match (beyond, self.config.rate) {
            (Beyond::Rate(wait), Some(rate)) => {
                let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
                let mut policy = format!("\"{name}\";q={}", rate.count);
                // A window is in whole seconds.
                if rate.period.subsec_nanos() == 0 {
                    policy.push_str(&format!(";w={}", rate.period.as_secs()));
                }
                (seconds, policy)
            }
            // When another request ends is not known.
            _ => {
                let max = self.config.concurrent.unwrap_or_default();
                (1, format!("\"{name}\";q={max};qu=\"concurrent-requests\""))
            }
        };
        vec![
            Field::of("Retry-After", seconds.max(1).to_string()),
            Field::of("RateLimit", format!("\"{name}\";r=0;t={}", seconds.max(1))),
            Field::of("RateLimit-Policy", policy),
        ]
    }

    /// For the status.
    pub(super) fn facts(&self, now: Instant) -> LimitFacts {
        let counts = self.table.counts();
        LimitFacts {
            name: self.config.name.clone(),
            keys: self.table.keys(self.clock.nanos(now)),
            keys_max: self.config.keys_max.into(),
            refused: counts.refused,
            dry_run: counts.dry_run,
            evicted: counts.evicted,
            under_way: self.under_way.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests;
