//! `/status.json`: everything, for programs and for `maitred status`. `docs/metrics.md` describes it.

use std::time::Instant;

use serde_json::{Map, Value, json};

use maitred_control::Report;
use maitred_log::recent::Line;
use maitred_tls::server::CertificateFacts;

use super::facts::{BodiesFacts, BudgetFacts, Facts, LimitFacts, ListenFacts, Live, PoolFacts, ServerFacts};
use super::fields::{self, Field};
use super::health;
use super::histogram::{BOUNDS_US, HistogramFacts};
use super::rates::Second;
use super::routes;
use super::scoreboard::{BucketRow, OldWorkerRow, Scoreboard, SlotRow, StartRow};

/// The whole document.
pub(crate) fn render(board: &Scoreboard, facts: &Facts, live: &Live) -> Value {
    json!({
        "version": facts.version,
        "pid": facts.pid,
        "master_pid": facts.master_pid,
        "generation": facts.generation,
        "unix_time": live.unix_secs,
        "health": health::json(&health::verdicts(board, facts, live)),
        "uptime_secs": live.unix_secs.saturating_sub(board.master.started_at.get()),
        "reuseport": facts.reuseport,
        "ktls": if facts.ktls.is_empty() { Value::Null } else { facts.ktls.as_str().into() },
        "affinity": { "why": facts.affinity_why, "usable_cpus": facts.usable_cpus },
        "master": row(&board.master, fields::MASTER),
        "old_workers": old_workers(board),
        "rates": rates(live),
        "listens": listens(facts, live),
        "bodies": bodies(live),
        "budgets": budgets(live),
        "spans": live.spans.map(|facts| json!({ "sent": facts.sent, "dropped": facts.dropped })),
        "cache": live.cache.as_ref().map(super::cache::json),
        "limits": limits(live),
        "certificates": certificates(live),
        "automatic_certificates": automatic(live),
        "errors": errors(live),
        "totals": totals(board, facts),
        "threads": threads(board, facts, live),
        "pools": pools(board, facts, live),
        "routes": live.routes.iter().zip(&live.route_windows).map(routes::json).collect::<Vec<_>>(),
        "slowest": slowest(live),
        "under_way": under_way(live),
    })
}

/// The name of a route.
fn route(live: &Live, number: usize) -> Value {
    let name = live.routes.get(number).map(|route| &route.name);
    name.map(|name| format!("{} {}: {}", name.site, name.route, name.target)).into()
}

fn slowest(live: &Live) -> Vec<Value> {
    live.slowest.iter().map(|one| super::slowest::json(one, route(live, one.route))).collect()
}

fn under_way(live: &Live) -> Vec<Value> {
    let now = Instant::now();
    live.under_way.iter().map(|one| super::under_way::json(one, route(live, one.route), now)).collect()
}

fn old_workers(board: &Scoreboard) -> Vec<Value> {
    let one = |old: &OldWorkerRow| {
        let mut object = row(old, fields::OLD_WORKER);
        object.insert("pid".to_owned(), old.pid.get().into());
        object.insert("generation".to_owned(), old.generation.get().into());
        Value::Object(object)
    };
    fields::old_workers(board).map(one).collect()
}

/// One row as an object.
fn row<Row>(row: &Row, fields: &[Field<Row>]) -> Map<String, Value> {
    let mut object = Map::new();
    for field in fields {
        put(&mut object, field, (field.read)(row));
    }
    object
}

fn put<Row>(object: &mut Map<String, Value>, field: &Field<Row>, value: Option<u64>) {
    let value = Value::from(value);
    match field.label {
        None => _ = object.insert(field.key.to_owned(), value),
        Some((_, label)) => {
            let inner = object.entry(field.key).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                inner.insert(label.to_owned(), value);
            }
        }
    }
}

/// A rate with one decimal: more would be noise.
fn round(rate: f64) -> f64 {
    (rate * 10.0).round() / 10.0
}

fn rates(live: &Live) -> Value {
    let rates = &live.rates;
    json!({
        "requests_per_second": round(rates.requests),
        "connections_per_second": round(rates.connections),
        "bytes_per_second": round(rates.bytes),
        "last_second": second(&live.last_second),
    })
}

fn second(second: &Second) -> Value {
    json!({
        "requests_per_second": round(second.requests),
        "bytes_per_second": round(second.bytes),
        "connections": second.connections,
        "queued": second.queued,
        "cpu_percent": round(second.cpu * 100.0),
    })
}

fn listens(facts: &Facts, live: &Live) -> Vec<Value> {
    let one = |facts: &ListenFacts| {
        let buckets: Vec<Value> = (0..facts.buckets)
            .map(|bucket| {
                let queue =
                    live.queues.iter().find(|queue| queue.listen == facts.listen && queue.bucket == bucket);
                json!({
                    "bucket": bucket,
                    "queue": queue.map(|queue| queue.length),
                    "queue_max": queue.map(|queue| queue.max),
                })
            })
            .collect();
        json!({ "address": facts.address.to_string(), "buckets": buckets })
    };
    facts.listens.iter().map(one).collect()
}

fn errors(live: &Live) -> Vec<Value> {
    let one = |line: &Line| json!({ "unix_time": line.unix_secs, "level": line.level, "text": line.text, "times": line.times });
    live.errors.iter().map(one).collect()
}

fn automatic(live: &Live) -> Vec<Value> {
    let one = |report: &Report| {
        let mut object = row(report, fields::AUTOMATIC);
        object.insert("name".to_owned(), report.name.clone().into());
        object.insert("error".to_owned(), report.error.clone().into());
        Value::Object(object)
    };
    live.automatic.iter().map(one).collect()
}

fn bodies(live: &Live) -> Map<String, Value> {
    let one = |facts: &BodiesFacts| {
        (facts.place.to_owned(), json!({ "bytes": facts.bytes, "bytes_max": facts.bytes_max }))
    };
    live.bodies.iter().map(one).collect()
}

fn limits(live: &Live) -> Map<String, Value> {
    let one = |facts: &LimitFacts| {
        let of_limit = json!({
            "keys": facts.keys,
            "keys_max": facts.keys_max,
            "refused": facts.refused,
            "dry_run": facts.dry_run,
            "evicted": facts.evicted,
            "under_way": facts.under_way,
        });
        (facts.name.clone(), of_limit)
    };
    live.limits.iter().map(one).collect()
}

fn budgets(live: &Live) -> Map<String, Value> {
    let one = |facts: &BudgetFacts| (facts.name.to_owned(), json!({ "used": facts.used, "max": facts.max }));
    live.budgets.iter().map(one).collect()
}

fn certificates(live: &Live) -> Vec<Value> {
    let one = |facts: &CertificateFacts| {
        json!({
            "site": facts.site,
            "certificate": facts.number,
            "name": facts.name,
            "not_after": facts.not_after,
        })
    };
    live.certificates.iter().map(one).collect()
}

fn threads(board: &Scoreboard, facts: &Facts, live: &Live) -> Vec<Value> {
    let rows = facts.threads.iter().zip(&board.threads).enumerate();
    rows.map(|(thread, (home, cells))| {
        let mut object = Map::new();
        object.insert("thread".to_owned(), thread.into());
        object.insert("home_cpu".to_owned(), (*home).into());
        object.extend(row(cells, fields::THREAD));
        let rates = live.rates.threads.get(thread).copied().unwrap_or_default();
        object.insert("requests_per_second".to_owned(), round(rates.requests).into());
        object.insert("cpu_percent".to_owned(), round(rates.cpu * 100.0).into());
        object.insert("run_delay_percent".to_owned(), round(rates.run_delay * 100.0).into());
        Value::Object(object)
    })
    .collect()
}

const OF_ONE_THREAD: [&str; 3] = ["cpu", "overload", "loop_delay_us"];

/// Sums over all threads, of the longest turn the longest; a CPU's number, a level and a delay have none.
fn totals(board: &Scoreboard, facts: &Facts) -> Map<String, Value> {
    let mut object = Map::new();
    for field in fields::THREAD.iter().filter(|field| !OF_ONE_THREAD.contains(&field.key)) {
        let rows = board.threads.iter().take(facts.threads.len());
        let add = if field.key == "longest_turn_us" { u64::max } else { u64::wrapping_add };
        let sum = rows.filter_map(field.read).fold(0_u64, add);
        put(&mut object, field, Some(sum));
    }
    object
}

fn pools(board: &Scoreboard, facts: &Facts, live: &Live) -> Vec<Value> {
    facts.pools.iter().enumerate().map(|(number, facts)| pool(board, facts, live, number)).collect()
}

fn pool(board: &Scoreboard, pool: &PoolFacts, live: &Live, number: usize) -> Value {
    let rates = live.rates.pools.get(number).copied().unwrap_or_default();
    let rows = || slots(board, pool);
    let letters: String = rows().map(|row| fields::state(row).0).collect();
    let slots: Vec<Value> = rows()
        .enumerate()
        .map(|(slot, cells)| {
            let mut object = Map::new();
            object.insert("slot".to_owned(), slot.into());
            object.insert("state".to_owned(), fields::state(cells).1.into());
            object.insert("pid".to_owned(), cells.pid.get().into());
            object.extend(row(cells, fields::SLOT));
            if let Some(start) = starts(board, pool).nth(slot) {
                object.extend(row(start, fields::START));
            }
            let index = pool.first_slot.saturating_add(slot);
            object.insert("last_end".to_owned(), live.ends.get(&index).cloned().into());
            Value::Object(object)
        })
        .collect();
    json!({
        "name": pool.name,
        "transport": pool.transport,
        "start": pool.start,
        "max": pool.max,
        "retired_max": pool.retired_max,
        "queued": live.pool_queues.get(number),
        "queue_max": pool.queue_max,
        "queue_wait_us": rates.wait_us.map(round),
        "requests_per_second": round(rates.requests),
        "responses": live.answers.get(number).map(answers),
        "recent": live.pool_windows.get(number).map(|window| window.recent.json()),
        "trouble": live.troubles.get(&number),
        "failing": health::failing(board, pool, live, number),
        "letters": letters,
        "addresses": pool.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "buckets": buckets(board, pool),
        "servers": live.servers.iter().filter(|server| server.pool == number).map(server).collect::<Vec<_>>(),
        "slots": slots,
    })
}

fn server(facts: &ServerFacts) -> Value {
    json!({
        "address": facts.address,
        "name": facts.name,
        "state": facts.state,
        "requests": facts.requests,
        "failures": facts.failures,
        "under_way": facts.under_way,
        "response_us": facts.response_us,
    })
}

/// How long answers took: the buckets by their bounds in microseconds, not cumulated.
fn answers(facts: &HistogramFacts) -> Value {
    let bounds = BOUNDS_US.iter().map(ToString::to_string).chain(["more".to_owned()]);
    let took: Map<String, Value> =
        bounds.zip(&facts.buckets).map(|(bound, count)| (bound, (*count).into())).collect();
    json!({ "count": facts.count(), "sum_us": facts.sum_us, "took_us": took })
}

/// Accept queues of a listen pool.
fn buckets(board: &Scoreboard, pool: &PoolFacts) -> Vec<Value> {
    let rows = board.buckets.iter().skip(pool.first_bucket).take(pool.buckets);
    let one = |(bucket, row): (usize, &BucketRow)| json!({ "bucket": bucket, "queue": row.queue.get(), "queue_max": row.queue_max.get() });
    rows.enumerate().map(one).collect()
}

/// The rows of one pool.
pub(super) fn slots<'a>(
    board: &'a Scoreboard,
    pool: &PoolFacts,
) -> impl Iterator<Item = &'a SlotRow> + use<'a> {
    board.slots.iter().skip(pool.first_slot).take(pool.slots)
}

/// What the master knows of the same slots.
pub(super) fn starts<'a>(
    board: &'a Scoreboard,
    pool: &PoolFacts,
) -> impl Iterator<Item = &'a StartRow> + use<'a> {
    board.starts.iter().skip(pool.first_slot).take(pool.slots)
}

/// The last minutes, the oldest second first.
pub(crate) fn history(unix_secs: u64, seconds: &[Second]) -> Value {
    let seconds: Vec<Value> = seconds.iter().map(second).collect();
    json!({ "unix_time": unix_secs, "seconds": seconds })
}
