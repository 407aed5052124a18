//! `/metrics`: the text exposition format of Prometheus, version 0.0.4.

use std::fmt::Write as _;

use super::cache;
use super::facts::{Facts, Live};
use super::fields::{self, Field, Kind, Unit};
use super::histogram::HistogramFacts;
use super::json::{slots, starts};
use super::routes::{self, RouteFacts};
use super::scoreboard::{OldWorkerRow, Scoreboard};

/// `Content-Type` of what [`render`] gives.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All metrics.
pub(crate) fn render(board: &Scoreboard, facts: &Facts, live: &Live) -> String {
    let mut page = Page { text: String::with_capacity(16 * 1024) };
    page.family("maitred_info", Kind::Gauge, "Version of Maitred, in a label.");
    page.sample("maitred_info", &[("version", facts.version)], 1, Unit::One);
    page.family("maitred_reuseport", Kind::Gauge, "1 if SO_REUSEPORT was found to work.");
    page.sample("maitred_reuseport", &[], facts.reuseport.into(), Unit::One);
    page.rows(fields::MASTER, &[(&[], &board.master)]);
    page.old_workers(board);
    page.queues(facts, live);
    page.bodies(live);
    page.budgets(live);
    page.limits(live);
    page.servers(facts, live);
    page.routes(live);
    page.spans(live);
    page.cache(live);
    page.certificates(live);
    page.automatic(live);

    let names: Vec<String> = (0..facts.threads.len()).map(|thread| thread.to_string()).collect();
    let labels: Vec<[(&str, &str); 1]> = names.iter().map(|name| [("thread", name.as_str())]).collect();
    let rows: Vec<_> = labels.iter().map(|labels| labels.as_slice()).zip(&board.threads).collect();
    page.rows(fields::THREAD, &rows);
    page.pools(board, facts, live);
    page.text
}

/// Label names and values.
type Labels<'a> = &'a [(&'a str, &'a str)];

struct Page {
    text: String,
}

impl Page {
    fn family(&mut self, name: &str, kind: Kind, help: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {}", kind.text());
    }

    fn sample(&mut self, name: &str, labels: Labels<'_>, value: u64, unit: Unit) {
        self.text.push_str(name);
        for (index, (label, value)) in labels.iter().enumerate() {
            self.text.push(if index == 0 { '{' } else { ',' });
            self.text.push_str(label);
            self.text.push_str("=\"");
            self.escaped(value);
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = match unit {
            Unit::One | Unit::Bytes => writeln!(self.text, " {value}"),
            Unit::Micros => writeln!(self.text, " {}.{:06}", value / 1_000_000, value % 1_000_000),
            Unit::Nanos => writeln!(self.text, " {}.{:09}", value / 1_000_000_000, value % 1_000_000_000),
        };
    }

    fn escaped(&mut self, value: &str) {
        for char in value.chars() {
            match char {
                '\\' => self.text.push_str("\\\\"),
                '"' => self.text.push_str("\\\""),
                '\n' => self.text.push_str("\\n"),
                _ => self.text.push(char),
            }
        }
    }

    /// All samples of a family stand together, under one head.
    fn rows<Row>(&mut self, fields: &[Field<Row>], rows: &[(Labels<'_>, &Row)]) {
        let mut family = "";
        for field in fields {
            if field.metric != family {
                self.family(field.metric, field.kind, field.help);
                family = field.metric;
            }
            for (labels, row) in rows {
                let Some(value) = (field.read)(row) else { continue };
                let labels: Vec<_> = labels.iter().copied().chain(field.label).collect();
                self.sample(field.metric, &labels, value, field.unit);
            }
        }
    }

    fn old_workers(&mut self, board: &Scoreboard) {
        let all: Vec<_> = fields::old_workers(board).collect();
        let number = |row: &&OldWorkerRow| (row.generation.get().to_string(), row.pid.get().to_string());
        let names: Vec<_> = all.iter().map(number).collect();
        let labels: Vec<_> = names
            .iter()
            .map(|(generation, pid)| [("generation", generation.as_str()), ("pid", pid.as_str())])
            .collect();
        let rows: Vec<_> = labels.iter().map(|labels| labels.as_slice()).zip(all).collect();
        if !rows.is_empty() {
            self.rows(fields::OLD_WORKER, &rows);
        }
    }

    fn bodies(&mut self, live: &Live) {
        type Read = fn(&super::facts::BodiesFacts) -> u64;
        let families: [(_, Read); 2] = [(BODIES, |facts| facts.bytes), (BODIES_MAX, |facts| facts.bytes_max)];
        for ((name, help), read) in families {
            self.family(name, Kind::Gauge, help);
            for facts in &live.bodies {
                self.sample(name, &[("place", facts.place)], read(facts), Unit::Bytes);
            }
        }
    }

    fn budgets(&mut self, live: &Live) {
        type Read = fn(&super::facts::BudgetFacts) -> u64;
        let families: [(_, Read); 2] = [(BUDGET, |facts| facts.used), (BUDGET_MAX, |facts| facts.max)];
        for ((name, help), read) in families {
            self.family(name, Kind::Gauge, help);
            for facts in &live.budgets {
                self.sample(name, &[("budget", facts.name)], read(facts), Unit::One);
            }
        }
    }

    fn limits(&mut self, live: &Live) {
        if live.limits.is_empty() {
            return;
        }
        for (name, kind, help, _, read) in LIMITS {
            self.family(name, kind, help);
            for facts in &live.limits {
                self.sample(name, &[("limit", &facts.name)], read(facts), Unit::One);
            }
        }
    }

    fn servers(&mut self, facts: &Facts, live: &Live) {
        if live.servers.is_empty() {
            return;
        }
        for (name, kind, unit, help, _, read) in SERVERS {
            self.family(name, kind, help);
            for server in &live.servers {
                let (Some(pool), Some(value)) = (facts.pools.get(server.pool), read(server)) else {
                    continue;
                };
                let labels = [("pool", pool.name.as_str()), ("server", &server.address)];
                self.sample(name, &labels, value, unit);
            }
        }
    }

    /// The routes that have answered something.
    fn routes(&mut self, live: &Live) {
        let [responses, bytes, queue, answer] = routes::METRICS;
        let answered = || live.routes.iter().filter(|facts| facts.all() > 0);
        if answered().next().is_none() {
            return;
        }
        let number = |facts: &RouteFacts| facts.name.number.to_string();
        self.family(responses.0, responses.1, responses.2);
        for facts in answered() {
            let (number, name) = (number(facts), &facts.name);
            for (class, count) in routes::CLASSES.into_iter().zip(facts.responses) {
                let labels = [
                    ("site", name.site.as_str()),
                    ("number", &number),
                    ("route", &name.route),
                    ("class", class),
                ];
                self.sample(responses.0, &labels, count, Unit::One);
            }
        }
        let numbers: Vec<String> = answered().map(number).collect();
        let labels = |(facts, number): (&'_ RouteFacts, &'_ String)| {
            [
                ("site", facts.name.site.clone()),
                ("number", number.clone()),
                ("route", facts.name.route.clone()),
            ]
        };
        let labels: Vec<_> = answered().zip(&numbers).map(labels).collect();
        let rows =
            || labels.iter().map(|labels| labels.each_ref().map(|(name, value)| (*name, value.as_str())));
        type Read = fn(&RouteFacts) -> u64;
        let sums: [(_, Read, _); 3] = [
            (bytes, |facts| facts.body_bytes, Unit::One),
            (queue, |facts| facts.timing.queue_us, Unit::Micros),
            (answer, |facts| facts.timing.answer_us, Unit::Micros),
        ];
        for ((name, kind, help, _), read, unit) in sums {
            self.family(name, kind, help);
            for (facts, labels) in answered().zip(rows()) {
                self.sample(name, &labels, read(facts), unit);
            }
        }
        self.histogram_family(routes::TOOK);
        for (facts, labels) in answered().zip(rows()) {
            self.histogram(routes::TOOK.0, &labels, &facts.timing.took);
        }
    }

    fn spans(&mut self, live: &Live) {
        let Some(facts) = live.spans else { return };
        for ((name, help), value) in [(SPANS_SENT, facts.sent), (SPANS_DROPPED, facts.dropped)] {
            self.family(name, Kind::Counter, help);
            self.sample(name, &[], value, Unit::One);
        }
    }

    fn cache(&mut self, live: &Live) {
        let Some(facts) = &live.cache else { return };
        for field in cache::FIELDS {
            self.family(field.metric, field.kind, field.help);
            self.sample(field.metric, &[], (field.read)(facts), field.unit);
        }
    }

    fn certificates(&mut self, live: &Live) {
        if live.certificates.is_empty() {
            return;
        }
        self.family(CERTIFICATE.0, Kind::Gauge, CERTIFICATE.1);
        for facts in &live.certificates {
            let (site, number) = (facts.site.to_string(), facts.number.to_string());
            let labels = [("site", site.as_str()), ("certificate", &number), ("name", &facts.name)];
            self.sample(CERTIFICATE.0, &labels, facts.not_after, Unit::One);
        }
    }

    fn automatic(&mut self, live: &Live) {
        if live.automatic.is_empty() {
            return;
        }
        let labels: Vec<_> = live.automatic.iter().map(|report| [("name", report.name.as_str())]).collect();
        let rows: Vec<_> = labels.iter().map(|labels| labels.as_slice()).zip(&live.automatic).collect();
        self.rows(fields::AUTOMATIC, &rows);
    }

    fn queues(&mut self, facts: &Facts, live: &Live) {
        type Read = fn(&super::facts::Queue) -> u32;
        let families: [(&str, &str, Read); 2] =
            [(QUEUE.0, QUEUE.1, |queue| queue.length), (QUEUE_MAX.0, QUEUE_MAX.1, |queue| queue.max)];
        for (name, help, read) in families {
            self.family(name, Kind::Gauge, help);
            for queue in &live.queues {
                let listen = facts.listens.iter().find(|facts| facts.listen == queue.listen);
                let Some(listen) = listen else { continue };
                let (address, bucket) = (listen.address.to_string(), queue.bucket.to_string());
                self.sample(
                    name,
                    &[("listen", &address), ("bucket", &bucket)],
                    read(queue).into(),
                    Unit::One,
                );
            }
        }
    }

    /// A histogram is a family of three kinds of samples.
    fn histogram(&mut self, name: &str, labels: Labels<'_>, took: &HistogramFacts) {
        let bucket = format!("{name}_bucket");
        let bounds = took.cumulated().map(|(bound, below)| (Seconds(bound).to_string(), below));
        for (bound, below) in bounds.chain([("+Inf".to_owned(), took.count())]) {
            let labels: Vec<_> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            self.sample(&bucket, &labels, below, Unit::One);
        }
        self.sample(&format!("{name}_sum"), labels, took.sum_us, Unit::Micros);
        self.sample(&format!("{name}_count"), labels, took.count(), Unit::One);
    }

    fn histogram_family(&mut self, (name, help): (&str, &str)) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} histogram");
    }

    fn answers(&mut self, facts: &Facts, live: &Live) {
        self.histogram_family((ANSWER, ANSWER_HELP));
        for (pool, answers) in facts.pools.iter().zip(&live.answers) {
            self.histogram(ANSWER, &[("pool", &pool.name)], answers);
        }
    }

    fn pools(&mut self, board: &Scoreboard, facts: &Facts, live: &Live) {
        self.family(POOL_QUEUE.0, Kind::Gauge, POOL_QUEUE.1);
        for (pool, queued) in facts.pools.iter().zip(&live.pool_queues) {
            self.sample(POOL_QUEUE.0, &[("pool", &pool.name)], (*queued).into(), Unit::One);
        }
        self.family(POOL_QUEUE_MAX.0, Kind::Gauge, POOL_QUEUE_MAX.1);
        for pool in &facts.pools {
            self.sample(POOL_QUEUE_MAX.0, &[("pool", &pool.name)], pool.queue_max.into(), Unit::One);
        }
        self.family(POOL_ACCEPT.0, Kind::Gauge, POOL_ACCEPT.1);
        for pool in &facts.pools {
            for (bucket, row) in board.buckets.iter().skip(pool.first_bucket).take(pool.buckets).enumerate() {
                let labels = [("pool", pool.name.as_str()), ("bucket", &bucket.to_string())];
                self.sample(POOL_ACCEPT.0, &labels, row.queue.get(), Unit::One);
            }
        }
        self.answers(facts, live);
        self.family(SLOTS.0, Kind::Gauge, SLOTS.1);
        for pool in &facts.pools {
            for (state, name) in fields::STATES {
                let letter = char::from(state as u8);
                let count = slots(board, pool).filter(|row| fields::state(row).0 == letter).count();
                self.sample(SLOTS.0, &[("pool", &pool.name), ("state", name)], count as u64, Unit::One);
            }
        }
        let mut names = Vec::new();
        for pool in &facts.pools {
            names.extend(
                slots(board, pool)
                    .zip(starts(board, pool))
                    .enumerate()
                    .map(|(slot, rows)| (&pool.name, slot.to_string(), rows)),
            );
        }
        let labels: Vec<_> =
            names.iter().map(|(pool, slot, _)| [("pool", pool.as_str()), ("slot", slot)]).collect();
        let rows = || labels.iter().zip(&names).map(|(labels, (_, _, rows))| (labels.as_slice(), *rows));
        let of_thread: Vec<_> = rows().map(|(labels, (slot, _))| (labels, slot)).collect();
        self.rows(fields::SLOT, &of_thread);
        let of_master: Vec<_> = rows().map(|(labels, (_, start))| (labels, start)).collect();
        self.rows(fields::START, &of_master);
    }
}

/// A bound of a bucket, given in microseconds, as Prometheus writes it: `0.0025`, `10`.
struct Seconds(u64);

impl std::fmt::Display for Seconds {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}", self.0 as f64 / 1e6)
    }
}

/// The histogram of what pools take.
pub(super) const ANSWER: &str = "maitred_pool_response_seconds";
pub(super) const ANSWER_HELP: &str =
    "Time from giving a request to an application process or a server to the end of its response.";
/// Families that are not cells of the scoreboard: name and help.
pub(super) const QUEUE: (&str, &str) =
    ("maitred_listen_queue", "Connections in the accept queue of a bucket.");
pub(super) const QUEUE_MAX: (&str, &str) =
    ("maitred_listen_queue_max", "Connections that the accept queue of a bucket can hold.");
pub(super) const BODIES: (&str, &str) =
    ("maitred_bodies_bytes", "Size of the request bodies that are stored in files, in memory and on disk.");
pub(super) const BODIES_MAX: (&str, &str) =
    ("maitred_bodies_max_bytes", "Budget for these files; beyond it, bodies go to the disk, or are refused.");
pub(super) const BUDGET: (&str, &str) = (
    "maitred_budget_used",
    "Used part of a budget: bytes of memory, or of files, for unsent responses; descriptors of requests.",
);
pub(super) const BUDGET_MAX: (&str, &str) =
    ("maitred_budget_max", "Size of the budget; `docs/overload.md` says what happens near it.");
type ReadLimit = fn(&super::facts::LimitFacts) -> u64;
/// Of limits by client: name, kind, help, key in JSON.
pub(super) const LIMITS: [(&str, Kind, &str, &str, ReadLimit); 6] = [
    (
        "maitred_limit_refused_total",
        Kind::Counter,
        "Requests that a limit by client has refused.",
        "refused",
        |facts| facts.refused,
    ),
    (
        "maitred_limit_dry_run_total",
        Kind::Counter,
        "Requests that a limit with `dry_run` would have refused.",
        "dry_run",
        |facts| facts.dry_run,
    ),
    (
        "maitred_limit_keys",
        Kind::Gauge,
        "Keys that a limit remembers; an estimate where there are many.",
        "keys",
        |facts| facts.keys,
    ),
    ("maitred_limit_keys_max", Kind::Gauge, "Keys that a limit can remember.", "keys_max", |facts| {
        facts.keys_max
    }),
    (
        "maitred_limit_evicted_total",
        Kind::Counter,
        "Keys that a limit has forgotten too early, because others needed the place, and requests under way for which there was \
         none: raise `keys_max`.",
        "evicted",
        |facts| facts.evicted,
    ),
    (
        "maitred_limit_under_way",
        Kind::Gauge,
        "Requests under way that a limit with `concurrent` counts, of this worker process.",
        "under_way",
        |facts| facts.under_way,
    ),
];
type ReadServer = fn(&super::facts::ServerFacts) -> Option<u64>;
/// Of servers of pools: name, kind, unit, help, key in JSON.
pub(super) const SERVERS: [(&str, Kind, Unit, &str, &str, ReadServer); 5] = [
    (
        "maitred_server_up",
        Kind::Gauge,
        Unit::One,
        "1 if a server gets new requests: it neither drains, nor is out, unwell or ejected.",
        "state",
        |facts| Some(["up", "unknown"].contains(&facts.state).into()),
    ),
    (
        "maitred_server_requests_total",
        Kind::Counter,
        Unit::One,
        "Requests that a server was given by this worker process.",
        "requests",
        |facts| Some(facts.requests),
    ),
    (
        "maitred_server_failures_total",
        Kind::Counter,
        Unit::One,
        "Requests that a server has failed: it could not be reached, aborted them, or timed out.",
        "failures",
        |facts| Some(facts.failures),
    ),
    (
        "maitred_server_under_way",
        Kind::Gauge,
        Unit::One,
        "Requests that a server has.",
        "under_way",
        |facts| Some(facts.under_way),
    ),
    (
        "maitred_server_response_seconds",
        Kind::Gauge,
        Unit::Micros,
        "Mean time to the first byte of a server's last responses, with `balance = \"least_time\"`.",
        "response_us",
        |facts| facts.response_us,
    ),
];
pub(super) const SPANS_SENT: (&str, &str) =
    ("maitred_spans_sent_total", "Requests whose spans the collector of traces has taken.");
pub(super) const SPANS_DROPPED: (&str, &str) = (
    "maitred_spans_dropped_total",
    "Requests whose spans were dropped, because too many waited, or the collector did not take them.",
);
pub(super) const CERTIFICATE: (&str, &str) =
    ("maitred_certificate_not_after_seconds", "End of validity of a certificate in use, in Unix time.");
pub(super) const POOL_QUEUE: (&str, &str) = ("maitred_pool_queue", "Requests in the queue of a pool.");
pub(super) const POOL_QUEUE_MAX: (&str, &str) = ("maitred_pool_queue_max", "Length of the queue of a pool.");
pub(super) const POOL_ACCEPT: (&str, &str) = (
    "maitred_pool_accept_queue",
    "Connections in the accept queue of a bucket of a pool that accepts by itself.",
);
pub(super) const SLOTS: (&str, &str) = ("maitred_pool_slots", "Application processes of a pool, by state.");
