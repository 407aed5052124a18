//! When which certificate is ordered, renewed, or asked about. Pure: the clocks come with each call, and what a task led to
//! comes back as a call.
//!
//! Two clocks: the wall clock says how old certificates are, and may be stepped; the monotonic one bounds how often the
//! authority is asked, so that no step of the wall clock can make that more often. A caller that sleeps until
//! [`Schedule::next_wake`] wakes at least every [`WAKE_MAX`], and notices a step then.
//!
//! | a site | is |
//! |---|---|
//! | has no certificate, or one that does not fit the configuration | due at once |
//! | has one whose time to renew has come | due |
//! | has one that begins in the future | left alone: the clock is wrong |
//!
//! What is due is ordered when its [`Site::allowed_at`] has come, [`ORDERS_MAX`] at a time, the one that waited longest first.
//! After failures, a site's orders go from one authority to the next ([`Schedule::authority`]).

use std::collections::BTreeMap;
use std::time::Duration;

/// Orders under way at a time. Authorities bound orders per account; a few at a time keep one slow validation from delaying
/// all others.
pub(crate) const ORDERS_MAX: usize = 4;
/// The longest sleep: how late a step of the wall clock may be noticed.
pub(crate) const WAKE_MAX: Duration = Duration::from_secs(60 * 60);
/// The longest `Retry-After` that is honoured; the longest period of common rate limits.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(7 * DAY);
/// The longest delay after refusals: twice a day still repairs itself in time when a certificate is renewed 30 days ahead.
pub(crate) const REFUSED_DELAY_MAX: Duration = Duration::from_secs(12 * 60 * 60);
/// The longest delay while the authority cannot be reached; that costs it nothing.
pub(crate) const UNREACHABLE_DELAY_MAX: Duration = Duration::from_secs(60 * 60);
/// When renewal information is asked for again if the authority does not say (RFC 9773 section 4.3.2).
pub(crate) const ASK_AGAIN: Duration = Duration::from_secs(6 * 60 * 60);
/// The least and the most of what it may say.
pub(crate) const ASK_AGAIN_RANGE: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(DAY));
/// The first delay while the authority cannot be reached is this part of that after a refusal: networks come up seconds after
/// servers do.
pub(crate) const UNREACHABLE_PART: u32 = 8;

const DAY: u64 = 24 * 60 * 60;

/// What both clocks say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Now {
    /// The wall clock, in seconds of Unix time.
    pub unix: u64,
    /// The monotonic clock, since any fixed moment.
    pub up: Duration,
}

/// A certificate that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    /// The first second of the certificate, in Unix time.
    pub not_before: u64,
    /// The last second of the certificate.
    pub not_after: u64,
    /// Whether it is what the configuration asks for: the names, the authority.
    pub fits: bool,
    /// Any number that differs from certificate to certificate. Where in its interval a renewal falls comes from it, so that a
    /// restart does not throw the dice again.
    pub seed: u64,
}

impl Held {
    fn lifetime(&self) -> u64 {
        self.not_after.saturating_sub(self.not_before)
    }

    /// A third of the lifetime is left for renewal to fail in, and up to a thirtieth of it is jitter.
    fn renew_at(&self) -> u64 {
        let lifetime = self.lifetime();
        self.not_after.saturating_sub(lifetime / 3).saturating_sub(spread(self.seed, lifetime / 30))
    }

    /// The latest that any advice may move a renewal to.
    fn latest(&self) -> u64 {
        self.not_after.saturating_sub(self.lifetime() / 10)
    }
}

/// What the authority suggests (RFC 9773 section 4.2): renew between these, in seconds of Unix time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// The begin of the window.
    pub start: u64,
    /// The end of the window.
    pub end: u64,
}

/// Why an order came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blame {
    /// The authority could not be reached, or had trouble of its own, or this process was ended meanwhile.
    Unreachable,
    /// The authority refused, or could not validate a name.
    Refused,
}

/// An order that came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Why.
    pub blame: Blame,
    /// What the authority said about the next try.
    pub retry_after: Option<Duration>,
}

/// Something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// Order a certificate for this site; ends with [`Schedule::ordered`].
    Order(usize),
    /// Ask for renewal information about the certificate of this site; ends with [`Schedule::informed`].
    Ask(usize),
}

/// What of a site is stored beyond the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Past {
    /// Failures in a row.
    pub failures: u32,
    /// The wall clock when the next order is allowed.
    pub allowed_unix: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Busy {
    No,
    Ordering,
    Asking,
}

#[derive(Debug, Clone)]
struct Site {
    held: Option<Held>,
    window: Option<Window>,
    failures: u32,
    /// No order begins before this.
    allowed_at: Duration,
    /// What authorities have said about their next try (`Retry-After`), by their numbers.
    barred: BTreeMap<u32, Duration>,
    /// When renewal information is asked for next.
    ask_at: Duration,
    busy: Busy,
}

/// What the configuration says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules {
    /// The delay after the first refusal; doubles with each further one.
    pub first_delay: Duration,
    /// How many authorities there are, at least one.
    pub authorities: u32,
    /// Failures in a row after which the next one is tried, at least one.
    pub fallback_after: u32,
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    sites: Vec<Site>,
    rules: Rules,
    random: u64,
}

impl Schedule {
    /// No sites yet. `seed` may be any number, and differs from one process to another.
    pub(crate) fn new(rules: Rules, seed: u64) -> Schedule {
        Schedule { sites: Vec::new(), rules, random: seed }
    }

    /// Adds a site, with what is stored of it. The number of the site is the count of those before it.
    pub(crate) fn add(&mut self, now: Now, held: Option<Held>, past: Past) {
        // However wrong either clock was, no site waits longer than the longest delay.
        let left = Duration::from_secs(past.allowed_unix.saturating_sub(now.unix)).min(RETRY_AFTER_MAX);
        let allowed_at = now.up.saturating_add(left);
        let (window, failures, busy, barred) = (None, past.failures, Busy::No, BTreeMap::new());
        self.sites.push(Site { held, window, failures, allowed_at, barred, ask_at: now.up, busy });
    }

    /// The next thing to do, if there is one now. To be called until there is none.
    pub(crate) fn next(&mut self, now: Now) -> Option<Task> {
        let running = self.sites.iter().filter(|site| site.busy == Busy::Ordering).count();
        let free = |site: &&(usize, &Site)| site.1.busy == Busy::No;
        let ripe = |(_, site): &(usize, &Site)| site.is_due(now) && site.allowed_at <= now.up;
        let sites = || self.sites.iter().enumerate().filter(|one| free(&one));
        if running < ORDERS_MAX
            && let Some((index, _)) = sites().filter(ripe).min_by_key(|(_, site)| site.allowed_at)
        {
            let distance = self.rules.first_delay / UNREACHABLE_PART;
            let site = self.sites.get_mut(index)?;
            site.busy = Busy::Ordering;
            // Whatever comes of it, and if this process does not live to see it, the next one keeps its distance.
            site.allowed_at = now.up.saturating_add(distance);
            return Some(Task::Order(index));
        }
        let (index, _) = sites().find(|(_, site)| site.asks() && site.ask_at <= now.up)?;
        self.sites.get_mut(index)?.busy = Busy::Asking;
        Some(Task::Ask(index))
    }

    /// An order has ended: the new certificate, or why there is none.
    pub(crate) fn ordered(&mut self, now: Now, site: usize, outcome: Result<Held, Failure>) {
        let delay = match outcome {
            Ok(_) => Duration::ZERO,
            Err(failure) => self.delay(site, failure),
        };
        let (first_delay, rules) = (self.rules.first_delay, self.rules);
        let Some(site) = self.sites.get_mut(site) else { return };
        site.busy = Busy::No;
        match outcome {
            Ok(held) => {
                (site.held, site.window, site.failures) = (Some(held), None, 0);
                site.barred.clear();
                site.ask_at = now.up;
                // An authority whose certificates are always due already is not asked without a pause.
                site.allowed_at = now.up.saturating_add(first_delay);
            }
            Err(failure) => {
                if let Some(wait) = failure.retry_after {
                    let until = now.up.saturating_add(wait.min(RETRY_AFTER_MAX));
                    site.barred.insert(rules.authority(site.failures), until);
                }
                site.failures = site.failures.saturating_add(1);
                site.allowed_at = now.up.saturating_add(delay);
                // What one authority says of its next try is not for the others.
                if let Some(until) = site.barred.remove(&rules.authority(site.failures)) {
                    site.allowed_at = site.allowed_at.max(until);
                }
            }
        }
    }

    /// Renewal information has come, or not: then what was known stays. `again` is when the authority expects the next query.
    pub(crate) fn informed(
        &mut self,
        now: Now,
        site: usize,
        window: Option<Window>,
        again: Option<Duration>,
    ) {
        let Some(site) = self.sites.get_mut(site) else { return };
        site.busy = Busy::No;
        // A window that ends before it starts says nothing (RFC 9773 section 4.2).
        if let Some(window) = window.filter(|window| window.start < window.end) {
            site.window = Some(window);
        }
        let (least, most) = ASK_AGAIN_RANGE;
        site.ask_at = now.up.saturating_add(again.unwrap_or(ASK_AGAIN).clamp(least, most));
    }

    /// How long to sleep before the next call of [`Schedule::next`], if nothing else happens.
    pub(crate) fn next_wake(&self, now: Now) -> Duration {
        let running = self.sites.iter().filter(|site| site.busy == Busy::Ordering).count();
        let wait = |site: &Site| {
            let until = |at: Duration| at.saturating_sub(now.up);
            let ask = if site.asks() { until(site.ask_at) } else { WAKE_MAX };
            let order = match site.due_in(now) {
                // The end of another order wakes us.
                Some(_) if running >= ORDERS_MAX => WAKE_MAX,
                Some(due) => due.max(until(site.allowed_at)),
                None => WAKE_MAX,
            };
            ask.min(order)
        };
        self.sites
            .iter()
            .filter(|site| site.busy == Busy::No)
            .map(wait)
            .min()
            .unwrap_or(WAKE_MAX)
            .min(WAKE_MAX)
    }

    /// The number of the authority that the site's next order goes to: the next one after each
    /// [`fallback_after`](Rules::fallback_after) failures, and the first one again after the last.
    pub(crate) fn authority(&self, site: usize) -> usize {
        let failures = self.sites.get(site).map_or(0, |site| site.failures);
        self.rules.authority(failures) as usize
    }

    /// What is to be stored of a site.
    pub(crate) fn past(&self, now: Now, site: usize) -> Past {
        let Some(site) = self.sites.get(site) else { return Past::default() };
        let left = site.allowed_at.saturating_sub(now.up).as_secs();
        Past { failures: site.failures, allowed_unix: now.unix.saturating_add(left) }
    }

    /// When a site's certificate is going to be renewed, in seconds of Unix time; `None` without one.
    pub(crate) fn renew_at(&self, site: usize) -> Option<u64> {
        self.sites.get(site).and_then(Site::renew_at)
    }

    /// How long until the next order of a site is allowed.
    pub(crate) fn allowed_in(&self, now: Now, site: usize) -> Duration {
        self.sites.get(site).map_or(Duration::ZERO, |site| site.allowed_at.saturating_sub(now.up))
    }

    fn delay(&mut self, site: usize, failure: Failure) -> Duration {
        let failures = self.sites.get(site).map_or(0, |site| site.failures);
        let first = self.rules.first_delay;
        let (first, most) = match failure.blame {
            Blame::Refused => (first, REFUSED_DELAY_MAX),
            Blame::Unreachable => (first / UNREACHABLE_PART, UNREACHABLE_DELAY_MAX),
        };
        let factor = 1_u32.checked_shl(self.rules.failures_at_one(failures)).unwrap_or(u32::MAX);
        let delay = match self.rules.authority(failures.saturating_add(1)) > self.rules.authority(failures) {
            // Another one has refused nothing yet.
            true => self.rules.first_delay / UNREACHABLE_PART,
            false => first.saturating_mul(factor).min(most),
        };
        self.random = self.random.wrapping_add(1);
        // From three quarters to five quarters of it.
        let millis = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(millis - millis / 4 + spread(self.random, millis / 2))
    }
}

impl Rules {
    /// Whose turn it is after so many failures in a row.
    fn authority(&self, failures: u32) -> u32 {
        failures / self.fallback_after.max(1) % self.authorities.max(1)
    }

    /// How many of so many failures in a row one authority has seen: all of them, if it is the only one.
    fn failures_at_one(&self, failures: u32) -> u32 {
        let after = self.fallback_after.max(1);
        let round = after.saturating_mul(self.authorities.max(1));
        (failures / round).saturating_mul(after).saturating_add(failures % after)
    }
}

impl Site {
    fn renew_at(&self) -> Option<u64> {
        let held = self.held?;
        Some(match self.window {
            None => held.renew_at(),
            Some(Window { start, end }) => {
                start.saturating_add(spread(held.seed ^ start, end - start)).min(held.latest())
            }
        })
    }

    /// How long until it is due; `None` if that is not known.
    fn due_in(&self, now: Now) -> Option<Duration> {
        match &self.held {
            Some(held) if held.fits && now.unix < held.not_before => None,
            Some(held) if held.fits => Some(Duration::from_secs(self.renew_at()?.saturating_sub(now.unix))),
            _ => Some(Duration::ZERO),
        }
    }

    fn is_due(&self, now: Now) -> bool {
        self.due_in(now) == Some(Duration::ZERO)
    }

    /// Whether renewal information is of any use.
    fn asks(&self) -> bool {
        self.held.is_some_and(|held| held.fits)
    }
}

/// A number below or equal to `most` that comes from `seed` (the output function of SplitMix64; Steele, Lea and Flood, 2014).
fn spread(seed: u64, most: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    match most.checked_add(1) {
        Some(count) => mixed % count,
        None => mixed,
    }
}

#[cfg(test)]
mod tests;
