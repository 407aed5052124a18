//! Whether all is well: a verdict on each subject, with a reason and what to do. `maitred status`, `maitred top` and the page
//! show the same ones. Pure: made from what [`super::json::render`] is made from.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::facts::{Facts, LimitFacts, Live, PoolFacts, ServerFacts};
use super::fields;
use super::latency::{PoolWindow, TimingFacts};
use super::losses::Lost;
use super::scoreboard::{Scoreboard, SlotRow, StartRow};
use super::text::plural;

/// A renewal by hand takes days: an order, a validation, a date for the change.
const CERTIFICATE_WARN_DAYS: u64 = 14;
/// The last working days before clients see errors.
const CERTIFICATE_BAD_DAYS: u64 = 3;
/// How late a renewal may be that is made automatically: the server may just have been started.
const RENEWAL_LATE_SECS: u64 = DAY_SECS;
/// From this share of a queue's room on, a short burst fills it, and requests are refused.
const QUEUE_WARN_PERCENT: u64 = 75;
/// Names of servers in one reason; `status.json` has all servers.
const NAMES_MAX: usize = 3;
/// A log that has lost lines within this time is still losing them: a full disk is tried again with each buffer, several times a
/// second while there are requests.
const LOG_BAD_SECS: u64 = 5 * 60;
/// So many requests within five minutes are enough to judge a pool by.
const REQUESTS_LEAST: u64 = 20;
/// From this share of responses with 5xx on, something is wrong with the application; and from this on, it does not work.
const FAILED_WARN_PERCENT: f64 = 2.0;
const FAILED_BAD_PERCENT: f64 = 20.0;
/// From a second on a request is slow, whatever is usual: a person has begun to wait.
const SLOW_US: u64 = 1_000_000;
/// Slower than usual is so many times the hour before, and at least this: below, it is not noticed.
const SLOWER_TIMES: u64 = 2;
const SLOW_US_LEAST: u64 = 100_000;
/// For so long an operator is told of lines that are missing.
const LOG_WARN_SECS: u64 = DAY_SECS;
const DAY_SECS: u64 = 86_400;

/// How a subject stands, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// Nothing to do.
    Ok,
    /// The subject works, and will not for long, or not for everything.
    Warn,
    /// The subject does not work.
    Bad,
}

impl State {
    /// As in JSON.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Warn => "warn",
            State::Bad => "bad",
        }
    }
}

/// What is to be said of one subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// `reload`, `overload`, `pool`, `servers`, `certificates`, `limits`, `cache`, `modules`,
    /// `log`, `traces` or `bodies`.
    pub subject: &'static str,
    /// Which one, where there are several.
    pub name: String,
    /// How it stands.
    pub state: State,
    /// Why, in words.
    pub reason: String,
    /// What an operator can do; empty where there is nothing to do.
    pub advice: String,
}

impl Verdict {
    fn new(subject: &'static str, state: State, reason: impl Into<String>, advice: &'static str) -> Verdict {
        let advice = advice.to_owned();
        Verdict { subject, name: String::new(), state, reason: reason.into(), advice }
    }

    fn ok(subject: &'static str, reason: impl Into<String>) -> Verdict {
        Verdict::new(subject, State::Ok, reason, "")
    }

    /// Of this one, whose name takes the place of `NAME` in the advice.
    fn of(self, name: &str) -> Verdict {
        let advice = self.advice.replace("NAME", name);
        Verdict { name: name.to_owned(), advice, ..self }
    }
}

/// All verdicts. What is not configured has none.
pub(crate) fn verdicts(board: &Scoreboard, facts: &Facts, live: &Live) -> Vec<Verdict> {
    let mut all = vec![reload(board), overload(board, facts)];
    for (number, pool) in facts.pools.iter().enumerate() {
        let servers: Vec<&ServerFacts> = live.servers.iter().filter(|server| server.pool == number).collect();
        all.push(of_pool(board, pool, live, number).of(&pool.name));
        if !servers.is_empty() {
            all.push(of_servers(&servers).of(&pool.name));
        }
    }
    all.extend(certificates(live));
    all.extend(limits(&live.limits));
    all.extend(cache(live));
    all.extend(modules(board));
    all.extend(log(board, facts, live));
    all.extend(lost(live));
    all
}

/// `health` of `/status.json`.
pub(super) fn json(verdicts: &[Verdict]) -> Vec<Value> {
    let one = |verdict: &Verdict| {
        json!({
            "subject": verdict.subject,
            "name": verdict.name,
            "state": verdict.state.text(),
            "reason": verdict.reason,
            "advice": verdict.advice,
        })
    };
    verdicts.iter().map(one).collect()
}

fn reload(board: &Scoreboard) -> Verdict {
    if board.master.reload_refused.get() == 0 {
        return Verdict::ok("reload", "no reload was refused since the configuration was read");
    }
    Verdict::new(
        "reload",
        State::Warn,
        "the last reload was refused: the earlier configuration stays in use",
        "read the reason in the error log, mend the configuration, and run `maitred reload` again",
    )
}

fn overload(board: &Scoreboard, facts: &Facts) -> Verdict {
    const RESOURCES: [&str; 3] = ["memory", "descriptors", "event loop"];
    let rows = || board.threads.iter().take(facts.threads.len());
    let level = |index: usize| rows().filter_map(|row| row.overload.get(index)).map(|cell| cell.get()).max();
    let short: Vec<(u64, &str)> = RESOURCES
        .into_iter()
        .enumerate()
        .filter_map(|(index, name)| Some((level(index).filter(|level| *level > 0)?, name)))
        .collect();
    let full = rows().filter(|row| row.full.get() > 0).count();
    let mut reasons: Vec<String> = short
        .iter()
        .map(|(level, name)| format!("{name} {}", if *level > 1 { "critical" } else { "elevated" }))
        .collect();
    if full > 0 {
        reasons.push(format!("{} at `connections_per_thread_max`", plural(full, "thread")));
    }
    let state = match short.iter().map(|(level, _)| *level).max() {
        Some(level) if level > 1 => State::Bad,
        None if full == 0 => return Verdict::ok("overload", "no resource is short"),
        _ => State::Warn,
    };
    let advice = "find out what takes the resource, or give the server more of it: docs/overload.md lists the measures";
    Verdict::new("overload", state, reasons.join(", "), advice)
}

/// Processes and queue of a pool.
fn of_pool(board: &Scoreboard, pool: &PoolFacts, live: &Live, number: usize) -> Verdict {
    let failing = failing(board, pool, live, number);
    let slots = super::json::slots(board, pool).count();
    let lives = super::json::slots(board, pool).filter(|row| !is_dead(row)).count();
    if !failing.is_empty() {
        let state = if lives == 0 { State::Bad } else { State::Warn };
        let advice =
            "read what the application wrote to the error log, mend it, and run `maitred pool NAME restart`";
        return Verdict::new("pool", state, failing.join("; "), advice);
    }
    let queued = u64::from(live.pool_queues.get(number).copied().unwrap_or(0));
    let room = u64::from(pool.queue_max);
    if room > 0 && queued * 100 >= room * QUEUE_WARN_PERCENT {
        let state = if queued >= room { State::Bad } else { State::Warn };
        let advice =
            "give the pool more processes (`maitred pool NAME scale`), or make its application faster";
        return Verdict::new(
            "pool",
            state,
            format!("{queued} of {room} places of its queue are taken"),
            advice,
        );
    }
    if let Some(verdict) = live.pool_windows.get(number).and_then(of_window) {
        return verdict;
    }
    match (slots, lives) {
        (0, _) => Verdict::ok("pool", plural(queued as usize, "request") + " in its queue"),
        (slots, 0) => Verdict::ok("pool", format!("none of {} has a process", plural(slots, "slot"))),
        (slots, lives) => Verdict::ok("pool", format!("{lives} of {} in use", plural(slots, "slot"))),
    }
}

/// The last minutes of a pool: how many requests have failed, and how long they took, against the hour before.
fn of_window(window: &PoolWindow) -> Option<Verdict> {
    let (recent, before) = (&window.recent, &window.before);
    if recent.took.count() < REQUESTS_LEAST {
        return None;
    }
    let was = |known: Option<String>| {
        known.map(|known| format!("; {known} in the hour before")).unwrap_or_default()
    };
    let usual = (before.took.count() >= REQUESTS_LEAST).then_some(before);
    let failed = recent.failed_percent().filter(|share| *share >= FAILED_WARN_PERCENT);
    if let Some(share) = failed {
        let state = if share >= FAILED_BAD_PERCENT { State::Bad } else { State::Warn };
        let usual = was(usual.and_then(TimingFacts::failed_percent).map(|share| format!("{share:.1} %")));
        let requests = plural(recent.took.count() as usize, "request");
        let reason =
            format!("{share:.1} % of {requests} in the last five minutes were answered with 5xx{usual}");
        let advice = "read what the application wrote to the error log: docs/slow.md";
        return Some(Verdict::new("pool", state, reason, advice));
    }
    let slow = recent.took.percentile(90)?;
    let normal = usual.and_then(|before| before.took.percentile(90));
    let is_slower =
        normal.is_some_and(|normal| slow >= SLOW_US_LEAST && slow >= normal.saturating_mul(SLOWER_TIMES));
    if slow < SLOW_US && !is_slower {
        return None;
    }
    let reason = format!(
        "one of ten requests took longer than {} in the last five minutes, mostly {}{}",
        seconds(slow),
        recent.mostly(),
        was(normal.map(seconds)),
    );
    let advice = "look at the slowest requests below, and at docs/slow.md for what helps";
    Some(Verdict::new("pool", State::Warn, reason, advice))
}

/// A time of that many microseconds, for people.
fn seconds(us: u64) -> String {
    if us < 1_000_000 { format!("{} ms", us / 1000) } else { format!("{:.1} s", us as f64 / 1e6) }
}

fn is_dead(row: &SlotRow) -> bool {
    fields::state(row).1 == "dead"
}

/// What is wrong with a pool: what the master says, and empty slots by the last exit reason of their process. A slot whose
/// process was released is nothing to show.
pub(super) fn failing(board: &Scoreboard, pool: &PoolFacts, live: &Live, number: usize) -> Vec<String> {
    let now = live.unix_secs;
    let none_lives = super::json::slots(board, pool).all(is_dead);
    let delayed = |start: &StartRow| Some(start.delayed_until.get()).filter(|until| *until > now);
    let mut groups: BTreeMap<&str, Vec<(usize, &StartRow)>> = BTreeMap::new();
    for (slot, (row, start)) in
        super::json::slots(board, pool).zip(super::json::starts(board, pool)).enumerate()
    {
        let end = live.ends.get(&pool.first_slot.saturating_add(slot)).map(String::as_str);
        let early = start.deaths.get() > 0 || delayed(start).is_some();
        // A worker process that came after the end knows only that there was one.
        let Some(why) = end.or_else(|| early.then_some("ended early")) else { continue };
        if is_dead(row) && (none_lives || early) {
            groups.entry(why).or_default().push((slot, start));
        }
    }
    let told = groups.into_iter().map(|(why, slots)| {
        let numbers: Vec<String> = slots.iter().map(|(slot, _)| slot.to_string()).collect();
        let deaths = slots.iter().map(|(_, start)| start.deaths.get()).max().filter(|deaths| *deaths > 1);
        let again = deaths.map(|deaths| format!("; {deaths} times in a row")).unwrap_or_default();
        let next = slots.iter().filter_map(|(_, start)| delayed(start)).min();
        let next = next.map(|until| format!("; next start in {} s", until - now)).unwrap_or_default();
        format!("slot {} failing: {why}{again}{next}", numbers.join(", "))
    });
    live.troubles.get(&number).cloned().into_iter().chain(told).collect()
}

/// The servers of one pool.
fn of_servers(servers: &[&ServerFacts]) -> Verdict {
    let away: Vec<&&ServerFacts> =
        servers.iter().filter(|server| ["out", "unwell", "ejected"].contains(&server.state)).collect();
    let up = servers.iter().filter(|server| server.state == "up").count();
    let mut names: Vec<String> =
        away.iter().take(NAMES_MAX).map(|server| format!("{} is {}", server.address, server.state)).collect();
    if away.len() > NAMES_MAX {
        names.push(format!("and {} more", away.len() - NAMES_MAX));
    }
    let unknown = servers.iter().filter(|server| server.state == "unknown").count();
    let counted = match unknown {
        0 => format!("{up} of {} up", plural(servers.len(), "server")),
        _ if unknown == servers.len() => {
            format!("{}, of which nothing has been asked yet", plural(servers.len(), "server"))
        }
        _ => format!("{up} of {} up, {unknown} not known yet", plural(servers.len(), "server")),
    };
    if up + unknown == 0 {
        let reason = if names.is_empty() { counted } else { format!("{counted}: {}", names.join(", ")) };
        let advice =
            "every request of this pool fails: start a server, or name another with `maitred upstream`";
        return Verdict::new("servers", State::Bad, reason, advice);
    }
    if away.is_empty() {
        return Verdict::ok("servers", counted);
    }
    let advice =
        "look at the log and the load of these servers: they get no requests until they answer well again";
    Verdict::new("servers", State::Warn, format!("{counted}: {}", names.join(", ")), advice)
}

/// The worst certificate stands for all of them.
fn certificates(live: &Live) -> Option<Verdict> {
    if live.certificates.is_empty() && live.automatic.is_empty() {
        return None;
    }
    const RENEW: &str =
        "renew the certificate, put it where the configuration names it, and run `maitred reload`";
    const ORDER: &str = "read the error, mend what it names (often the DNS or a firewall): the order is repeated automatically";
    let now = live.unix_secs;
    // A short-lived one that is renewed on time is no reason to worry.
    let renewed = |name: &str| {
        live.automatic.iter().any(|report| {
            let due = report.renew_at.is_some_and(|at| at.saturating_add(RENEWAL_LATE_SECS) > now);
            report.name == name && report.failures == 0 && due
        })
    };
    let worst = live.certificates.iter().filter_map(|certificate| {
        let days = certificate.not_after.saturating_sub(now) / DAY_SECS;
        let name = &certificate.name;
        if certificate.not_after <= now {
            Some((State::Bad, 0, format!("the one of {name} has expired"), RENEW))
        } else if days < CERTIFICATE_WARN_DAYS && !renewed(name) {
            let state = if days < CERTIFICATE_BAD_DAYS { State::Bad } else { State::Warn };
            Some((
                state,
                days,
                format!("the one of {name} expires in {}", plural(days as usize, "day")),
                RENEW,
            ))
        } else {
            None
        }
    });
    let orders =
        live.automatic.iter().filter(|report| report.failures > 0 || report.error.is_some()).map(|report| {
            let error = report.error.as_deref().unwrap_or("the last order failed");
            let valid = report.not_after.is_some_and(|end| end > now);
            let state = if valid { State::Warn } else { State::Bad };
            (state, 0, format!("no new one for {}: {error}", report.name), ORDER)
        });
    let found: Vec<_> = worst.chain(orders).collect();
    let count = live.certificates.len();
    let Some((state, _, reason, advice)) =
        found.iter().max_by_key(|(state, days, ..)| (*state, std::cmp::Reverse(*days)))
    else {
        let first = live.certificates.iter().map(|one| one.not_after.saturating_sub(now) / DAY_SECS).min();
        let first = first.map(|days| format!("; the first expires in {}", plural(days as usize, "day")));
        return Some(Verdict::ok("certificates", format!("{count} in use{}", first.unwrap_or_default())));
    };
    let others = found.len() - 1;
    let more = if others > 0 { format!("; {others} more to look at") } else { String::new() };
    Some(Verdict::new("certificates", *state, format!("{reason}{more}"), advice))
}

/// Only a count: limits are there to refuse.
fn limits(limits: &[LimitFacts]) -> Option<Verdict> {
    let sum = |read: fn(&LimitFacts) -> u64| limits.iter().map(read).fold(0_u64, u64::saturating_add);
    let refused = plural(sum(|limit| limit.refused) as usize, "request");
    (!limits.is_empty()).then(|| Verdict::ok("limits", format!("{refused} refused since start")))
}

/// Modules that are turned off: there is nothing to say of others.
fn modules(board: &Scoreboard) -> Option<Verdict> {
    let off = usize::try_from(board.master.modules_off.get()).ok().filter(|off| *off > 0)?;
    let reason = format!(
        "{} turned off, because the worker process has crashed in it again and again: its routes answer 503",
        plural(off, "module")
    );
    let advice = "find its name in the error log, mend or replace its library, and run `maitred reload`";
    Some(Verdict::new("modules", State::Bad, reason, advice))
}

/// Lines of access logs that are missing: there is nothing to say of a log that has all of them.
fn log(board: &Scoreboard, facts: &Facts, live: &Live) -> Option<Verdict> {
    let rows = || board.threads.iter().take(facts.threads.len());
    let last = rows().map(|row| row.log_dropped_at.get()).max().filter(|at| *at > 0)?;
    let ago = live.unix_secs.saturating_sub(last);
    let state = match ago {
        ..LOG_BAD_SECS => State::Bad,
        LOG_BAD_SECS..LOG_WARN_SECS => State::Warn,
        _ => return None,
    };
    let lost = rows().map(|row| row.log_dropped.get()).fold(0_u64, u64::saturating_add);
    let reason = format!("{} of access logs lost, the last one {ago} s ago", plural(lost as usize, "line"));
    let advice = "look whether the disk of the log is full, and the error log for why lines could not be written; \
                  a log that is written too slowly needs a faster disk, or `sample`";
    Some(Verdict::new("log", state, reason, advice))
}

/// Spans and request bodies that were lost of late: there is nothing to say of a server that has lost none.
fn lost(live: &Live) -> Vec<Verdict> {
    let (spans, bodies) = live.lost;
    let verdict = |subject, lost: Lost, what: &str, why: &str, advice| {
        let count = plural(lost.count as usize, what);
        Verdict::new(
            subject,
            State::Warn,
            format!("{count} {why}, the last one {} s ago", lost.secs_ago),
            advice,
        )
    };
    let spans = spans.map(|lost| {
        let advice =
            "look whether the collector that `[trace]` names answers, and is fast enough: docs/traces.md";
        verdict("traces", lost, "span", "not delivered", advice)
    });
    let bodies = bodies.map(|lost| {
        let advice = "give `bodies_disk_bytes_max` and `bodies_memory_bytes_max` more room, or look what takes it: docs/limits.md";
        verdict("bodies", lost, "request", "refused because there was no room for the body", advice)
    });
    spans.into_iter().chain(bodies).collect()
}

fn cache(live: &Live) -> Option<Verdict> {
    let facts = live.cache.as_ref()?;
    if facts.counts.off {
        let advice = "read the reason in the error log: the disk of the cache's directory is full, read-only, or fails";
        return Some(Verdict::new(
            "cache",
            State::Bad,
            "nothing is stored, because of trouble with the disk",
            advice,
        ));
    }
    let read = super::cache::index_percent(facts);
    let note = if read < 100 { format!("; {read} % of its directory is read") } else { String::new() };
    Some(Verdict::ok("cache", format!("{} responses kept{note}", facts.counts.entries)))
}
