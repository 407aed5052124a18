//! What `maitred status` prints, made from `/status.json`: the server can be of another version than the command, so
//! whatever is missing is shown as `-`.

use std::fmt::Write as _;

use serde_json::Value;

/// The letter of a slot without a process.
const NO_PROCESS: char = '.';
/// What the letters mean.
const LEGEND: &str = "_ waiting for a request  W working  S starting  D draining  . no process";
/// Servers of a pool that are listed; `status.json` has all.
const SERVERS_MAX: usize = 32;
/// Letters in one line of a pool's row.
const LETTERS_PER_LINE: usize = 64;

/// The whole report, each line with its end.
pub fn render(status: &Value) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = head(status, &mut out);
    let _ = old_workers(status, &mut out);
    let _ = listens(status, &mut out);
    let _ = certificates(status, &mut out);
    let _ = automatic(status, &mut out);
    let _ = traffic(status, &mut out);
    threads(status, &mut out);
    let _ = pools(status, &mut out);
    let _ = under_way(status, &mut out);
    let _ = slowest(status, &mut out);
    out
}

fn head(status: &Value, out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "maitred {}, up {}, generation {}, worker process {}, master {}",
        show(&status["version"]),
        duration(status["uptime_secs"].as_u64()),
        show(&status["generation"]),
        show(&status["pid"]),
        show(&status["master_pid"]),
    )?;
    write_health(status, out)?;
    writeln!(out, "affinity    {}", show(&status["affinity"]["why"]))?;
    let detected = match status["reuseport"].as_bool() {
        Some(true) => "detected",
        Some(false) => "not available: one bucket per address",
        None => "-",
    };
    writeln!(out, "reuseport   {detected}")?;
    if let Some(ktls) = status["ktls"].as_str() {
        writeln!(out, "kTLS        {ktls}")?;
    }
    let master = &status["master"];
    writeln!(
        out,
        "reloads     {} done, {} refused; {} worker crashes; application processes: {} started, {} crashed, {} delayed",
        show(&master["reloads"]),
        show(&master["reloads_refused"]),
        show(&master["worker_crashes"]),
        show(&master["slots_started"]),
        show(&master["slot_crashes"]),
        show(&master["slots_delayed"]),
    )
}

/// What the worker processes that were replaced still do.
fn old_workers(status: &Value, out: &mut String) -> std::fmt::Result {
    const DOES: [(&str, &str); 5] = [
        ("handed_off", "at applications"),
        ("reading", "arriving"),
        ("writing", "being sent"),
        ("queued", "waiting"),
        ("idle", "idle"),
    ];
    for old in list(&status["old_workers"]) {
        let count = |(key, text): &(&str, &str)| {
            Some(format!("{} {text}", old[key].as_u64().filter(|count| *count > 0)?))
        };
        let does: Vec<String> = DOES.iter().filter_map(count).collect();
        let age = status["unix_time"].as_u64().zip(old["since"].as_u64());
        writeln!(
            out,
            "replaced    worker process {} (generation {}), {} ago; connections: {}{}{}",
            show(&old["pid"]),
            show(&old["generation"]),
            duration(age.map(|(now, since)| now.saturating_sub(since))),
            show(&old["connections"]),
            if does.is_empty() { "" } else { ", " },
            does.join(", "),
        )?;
    }
    Ok(())
}

fn listens(status: &Value, out: &mut String) -> std::fmt::Result {
    for listen in list(&status["listens"]) {
        let buckets = list(&listen["buckets"]);
        let queues: Vec<String> = buckets.iter().map(|bucket| show(&bucket["queue"])).collect();
        let max = buckets.iter().map(|bucket| &bucket["queue_max"]).find(|max| !max.is_null());
        let max = max.map_or_else(|| "-".to_owned(), show);
        writeln!(
            out,
            "listening   {}, {}, waiting: {} (of {max})",
            show(&listen["address"]),
            plural(buckets.len(), "bucket"),
            queues.join(" "),
        )?;
    }
    Ok(())
}

/// The certificate that ends first, because that is the one to look after.
fn certificates(status: &Value, out: &mut String) -> std::fmt::Result {
    const DAY_SECS: u64 = 24 * 60 * 60;
    let all = list(&status["certificates"]);
    let ends = |certificate: &&Value| certificate["not_after"].as_u64();
    let Some(first) = all.iter().min_by_key(ends) else { return Ok(()) };
    let left = ends(&first).unwrap_or(0).checked_sub(status["unix_time"].as_u64().unwrap_or(0));
    let left = match left {
        Some(secs) => format!("is good for another {}", plural((secs / DAY_SECS) as usize, "day")),
        None => "has expired".to_owned(),
    };
    writeln!(out, "certificates {}; {} {left}", all.len(), show(&first["name"]))
}

/// Sites whose last order of an automatic certificate failed.
fn automatic(status: &Value, out: &mut String) -> std::fmt::Result {
    for site in list(&status["automatic_certificates"]) {
        if site["error"].is_string() {
            writeln!(out, "no new certificate for {}: {}", show(&site["name"]), show(&site["error"]))?;
        }
    }
    Ok(())
}

fn traffic(status: &Value, out: &mut String) -> std::fmt::Result {
    let (rates, totals) = (&status["rates"], &status["totals"]);
    let classes: Vec<String> = ["1xx", "2xx", "3xx", "4xx", "5xx"]
        .iter()
        .filter_map(|class| Some((class, totals["responses"][class].as_u64().filter(|count| *count > 0)?)))
        .map(|(class, count)| format!("{class} {count}"))
        .collect();
    let bytes = totals["bytes_sent"]
        .as_u64()
        .zip(totals["bytes_handed_off"].as_u64())
        .map(|(own, handed_off)| own.saturating_add(handed_off) as f64);
    writeln!(
        out,
        "requests    {} /s; since start: {}",
        show(&rates["requests_per_second"]),
        if classes.is_empty() { "none".to_owned() } else { classes.join(", ") },
    )?;
    writeln!(
        out,
        "connections {} open, {} /s; {} accepted since start",
        show(&totals["connections"]),
        show(&rates["connections_per_second"]),
        show(&totals["accepted"]),
    )?;
    writeln!(
        out,
        "sent        {} /s; {} since start",
        size(rates["bytes_per_second"].as_f64()),
        size(bytes)
    )?;
    if let Some(text) = cache(status) {
        writeln!(out, "cache       {text}")?;
    }
    if let Some(text) = overload(status) {
        writeln!(out, "overload    {text}")?;
    }
    let troubles = troubles(totals);
    if !troubles.is_empty() {
        writeln!(out, "trouble     {}", troubles.join(", "))?;
    }
    Ok(())
}

/// What is kept of responses, and what came of it.
/// The store of responses and what it has answered; `None` without one.
pub fn cache(status: &Value) -> Option<String> {
    let (cache, totals) = (&status["cache"], &status["totals"]);
    if !cache.is_object() {
        return None;
    }
    let bytes = |key: &str| size(cache[key].as_u64().map(|bytes| bytes as f64));
    let index = match cache["index_percent"].as_u64() {
        Some(percent) if percent < 100 => format!("; {percent} % of its directory is read"),
        _ => String::new(),
    };
    let off = if cache["off"] == true { "; nothing is stored at the moment: see the error log" } else { "" };
    Some(format!(
        "{} responses, {} of {}; {} in memory; since start: {} hits, {} stale, {} misses{index}{off}",
        show(&cache["entries"]),
        bytes("bytes"),
        bytes("bytes_max"),
        bytes("memory_bytes"),
        show(&totals["response_cache_hits"]),
        show(&totals["response_cache_stale"]),
        show(&totals["response_cache_misses"]),
    ))
}

/// What is short, where anything is: the highest level of each resource, and on how many threads.
pub(super) fn overload(status: &Value) -> Option<String> {
    const LEVELS: [&str; 3] = ["normal", "elevated", "critical"];
    let threads = list(&status["threads"]);
    let text = |(resource, name): (&str, &str)| {
        let levels = threads.iter().filter_map(|thread| thread["overload"][resource].as_u64());
        let levels: Vec<u64> = levels.filter(|level| *level > 0).collect();
        let level = LEVELS.get(usize::try_from(*levels.iter().max()?).ok()?)?;
        Some(format!("{name} {level} on {}", plural(levels.len(), "thread")))
    };
    let resources = [("memory", "memory"), ("descriptors", "descriptors"), ("delay", "event loop")];
    let short: Vec<String> = resources.into_iter().filter_map(text).collect();
    (!short.is_empty()).then(|| short.join(", "))
}

/// Counters that are shown only when they are not zero.
const TROUBLES: [(&str, &str); 9] = [
    ("malformed", "malformed requests"),
    ("timeouts", "timeouts"),
    ("queue_refused", "refused by a queue"),
    ("streams_refused", "HTTP/2 streams refused"),
    ("unsent_aborted", "responses aborted for want of memory"),
    ("handoff_lost", "lost with their application process"),
    ("log_dropped", "log lines dropped"),
    ("slow_turns", "slow turns of an event loop"),
    ("panics", "panics"),
];

/// What of `totals` is trouble.
pub fn troubles(totals: &Value) -> Vec<String> {
    let count = |key: &str| totals[key].as_u64().filter(|count| *count > 0);
    let told = TROUBLES.iter().filter_map(|(key, text)| Some(format!("{} {text}", count(key)?)));
    told.collect()
}

/// What is wrong with a pool, as the server says.
pub fn failing(pool: &Value) -> Vec<String> {
    list(&pool["failing"]).iter().map(show).collect()
}

/// The verdicts that are not `ok`, the worst first, each with its state; empty if all is well. `None` from a server that gives
/// none.
pub fn health(status: &Value) -> Option<Vec<(&'static str, String)>> {
    let verdicts = status["health"].as_array()?;
    let of_state = |state: &'static str| {
        verdicts.iter().filter(move |verdict| verdict["state"] == state).map(move |verdict| {
            let name = verdict["name"].as_str().filter(|name| !name.is_empty());
            let name = name.map(|_| format!(" {}", show(&verdict["name"]))).unwrap_or_default();
            let (subject, reason) = (show(&verdict["subject"]), show(&verdict["reason"]));
            (state, format!("{state}: {subject}{name}: {reason}; {}", show(&verdict["advice"])))
        })
    };
    Some(of_state("bad").chain(of_state("warn")).collect())
}

fn write_health(status: &Value, out: &mut String) -> std::fmt::Result {
    match health(status) {
        None => writeln!(out, "health      -"),
        Some(lines) if lines.is_empty() => writeln!(out, "health      all is well"),
        Some(lines) => lines.iter().try_for_each(|(_, line)| writeln!(out, "health      {line}")),
    }
}

/// Titles and what stands below them.
type Column = (&'static str, fn(&Value) -> String);

const COLUMNS: [Column; 11] = [
    ("thread", |thread| show(&thread["thread"])),
    ("cpu", cpu),
    ("conns", |thread| show(&thread["connections"])),
    ("idle", |thread| show(&thread["idle"])),
    ("writing", |thread| show(&thread["writing"])),
    ("handed off", |thread| show(&thread["handed_off"])),
    ("queued", |thread| show(&thread["queued"])),
    ("accepted", |thread| show(&thread["accepted"])),
    ("requests", |thread| {
        let classes = thread["responses"].as_object();
        let sum = |classes: &serde_json::Map<String, Value>| {
            classes.values().filter_map(Value::as_u64).sum::<u64>()
        };
        classes.map_or_else(|| "-".to_owned(), |classes| sum(classes).to_string())
    }),
    ("cpu time", |thread| seconds(thread["cpu_ns"].as_u64())),
    ("cpu wait", |thread| seconds(thread["run_delay_ns"].as_u64())),
];

/// Where the thread runs: its home CPU, another one, or any (marked, since that was not the plan).
pub fn cpu(thread: &Value) -> String {
    let (home, cpu) = (thread["home_cpu"].as_u64(), thread["cpu"].as_u64());
    match (home, cpu) {
        (None, None) => "any".to_owned(),
        (Some(_), None) => "any*".to_owned(),
        (home, Some(cpu)) if home == Some(cpu) => cpu.to_string(),
        (_, Some(cpu)) => format!("{cpu}*"),
    }
}

fn threads(status: &Value, out: &mut String) {
    let mut table: Vec<Vec<String>> = vec![COLUMNS.iter().map(|(title, _)| (*title).to_owned()).collect()];
    for thread in list(&status["threads"]) {
        table.push(COLUMNS.iter().map(|(_, text)| text(thread)).collect());
    }
    out.push('\n');
    for row in aligned(&table) {
        out.push_str(&row);
        out.push('\n');
    }
    if table.iter().filter_map(|row| row.get(1)).any(|cpu| cpu.ends_with('*')) {
        out.push_str("* not on its home CPU, because something else takes it\n");
    }
}

fn pools(status: &Value, out: &mut String) -> std::fmt::Result {
    let pools = list(&status["pools"]);
    for pool in pools {
        writeln!(out)?;
        pool_summary(pool, out)?;
    }
    if !pools.is_empty() {
        writeln!(out, "\n{LEGEND}")?;
    }
    Ok(())
}

/// How many slots, what is wrong, and the letters.
fn pool_summary(pool: &Value, out: &mut String) -> std::fmt::Result {
    let letters: Vec<char> = pool["letters"].as_str().unwrap_or_default().chars().collect();
    let busy: u64 = list(&pool["slots"]).iter().filter_map(|slot| slot["in_flight"].as_u64()).sum();
    writeln!(
        out,
        "pool {} ({}): {}, {} in progress",
        show(&pool["name"]),
        show(&pool["transport"]),
        plural(letters.len(), "slot"),
        plural(usize::try_from(busy).unwrap_or(usize::MAX), "request"),
    )?;
    if let Some(text) = accept_queues(pool) {
        writeln!(out, "  {text}")?;
    }
    if let Some(text) = latency(&pool["recent"]) {
        writeln!(out, "  {text}")?;
    }
    for server in list(&pool["servers"]).iter().take(SERVERS_MAX) {
        let count = |key: &str| show(&server[key]);
        writeln!(
            out,
            "  {}: {}, {} in progress, {} requests, {} failed",
            count("address"),
            count("state"),
            count("under_way"),
            count("requests"),
            count("failures")
        )?;
    }
    let failing = failing(pool);
    for text in &failing {
        writeln!(out, "  {text}")?;
    }
    if failing.is_empty() && !letters.is_empty() && letters.iter().all(|letter| *letter == NO_PROCESS) {
        writeln!(out, "  none of its processes is there: the error log says why")?;
    }
    for line in letters.chunks(LETTERS_PER_LINE) {
        writeln!(out, "  {}", line.iter().collect::<String>())?;
    }
    Ok(())
}

/// How long requests took in the last five minutes, and how many have failed; `None` without requests.
pub fn latency(recent: &Value) -> Option<String> {
    let time = |key: &str| micros(recent[key].as_u64());
    let requests = recent["requests"].as_u64().filter(|requests| *requests > 0)?;
    Some(format!(
        "last 5 min: {}, {} % failed; half within {}, 90 % {}, 99 % {}; on average {} waiting, {} at the application, {} in all",
        plural(usize::try_from(requests).unwrap_or(usize::MAX), "request"),
        show(&recent["failed_percent"]),
        time("p50_us"),
        time("p90_us"),
        time("p99_us"),
        time("mean_queue_us"),
        time("mean_answer_us"),
        time("mean_us"),
    ))
}

/// Microseconds, for people.
fn micros(us: Option<u64>) -> String {
    match us {
        None => "-".to_owned(),
        Some(us @ ..1_000) => format!("{us} µs"),
        Some(us @ ..1_000_000) => format!("{:.1} ms", us as f64 / 1e3),
        Some(us) => format!("{:.1} s", us as f64 / 1e6),
    }
}

/// Requests under way, the oldest first.
fn under_way(status: &Value, out: &mut String) -> std::fmt::Result {
    let requests = list(&status["under_way"]);
    if requests.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nrequests under way")?;
    let mut table = vec![["for", "where", "request", "route", "id"].map(str::to_owned).to_vec()];
    for request in requests {
        table.push(vec![
            micros(request["since_us"].as_u64()),
            show(&request["where"]),
            format!("{} {}", show(&request["method"]), show(&request["path"])),
            show(&request["route"]),
            show(&request["request_id"]),
        ]);
    }
    aligned(&table).into_iter().try_for_each(|row| writeln!(out, "{row}"))
}

/// The slowest requests of the last five minutes.
fn slowest(status: &Value, out: &mut String) -> std::fmt::Result {
    let slowest = list(&status["slowest"]);
    if slowest.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nslowest requests of the last 5 minutes")?;
    let took = |request: &Value, key: &str| micros(request[key].as_u64());
    let mut table = vec![
        ["took", "waiting", "application", "status", "request", "route", "id"].map(str::to_owned).to_vec(),
    ];
    for request in slowest {
        table.push(vec![
            took(request, "took_us"),
            took(request, "queue_us"),
            took(request, "answer_us"),
            show(&request["status"]),
            format!("{} {}", show(&request["method"]), show(&request["path"])),
            show(&request["route"]),
            show(&request["request_id"]),
        ]);
    }
    aligned(&table).into_iter().try_for_each(|row| writeln!(out, "{row}"))
}

/// Where the processes of a listen pool accept connections, and how many wait in each bucket.
pub fn accept_queues(pool: &Value) -> Option<String> {
    let addresses: Vec<String> = list(&pool["addresses"]).iter().map(show).collect();
    let queues: Vec<String> = list(&pool["buckets"]).iter().map(|bucket| show(&bucket["queue"])).collect();
    let text = format!("listening {}  accept queues {}", addresses.join(" "), queues.join(" "));
    (!addresses.is_empty()).then_some(text)
}

/// What `maitred pool NAME` prints: the pool's part of `status`, with a row for each process that is there, and for each slot
/// whose last process has left word.
pub fn pool(pool: &Value) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = pool_details(pool, &mut out);
    out
}

const PROCESS_COLUMNS: [Column; 6] = [
    ("slot", |slot| show(&slot["slot"])),
    ("state", |slot| if slot["state"] == "dead" { "empty".to_owned() } else { show(&slot["state"]) }),
    ("pid", |slot| if slot["state"] == "dead" { "-".to_owned() } else { show(&slot["pid"]) }),
    ("requests", |slot| show(&slot["requests"])),
    ("in progress", |slot| show(&slot["in_flight"])),
    ("started", |slot| show(&slot["starts"])),
];

fn pool_details(pool: &Value, out: &mut String) -> std::fmt::Result {
    pool_summary(pool, out)?;
    let queue = &pool["queued"];
    writeln!(out, "  waiting: {} (of {})\n", show(queue), show(&pool["queue_max"]))?;
    let told = |slot: &&Value| slot["state"] != "dead" || slot["last_end"].is_string();
    let slots: Vec<&Value> = list(&pool["slots"]).iter().filter(told).collect();
    let mut table: Vec<Vec<String>> =
        vec![PROCESS_COLUMNS.iter().map(|(title, _)| (*title).to_owned()).collect()];
    table.extend(slots.iter().map(|slot| PROCESS_COLUMNS.iter().map(|(_, text)| text(slot)).collect()));
    let ends = slots.iter().map(|slot| show(&slot["last_end"]));
    let last = std::iter::once("last end".to_owned()).chain(ends);
    for (row, end) in aligned(&table).into_iter().zip(last) {
        writeln!(out, "{row}  {end}")?;
    }
    writeln!(out, "\n{LEGEND}")
}

/// The rows of a table, its columns right-aligned.
fn aligned(table: &[Vec<String>]) -> Vec<String> {
    let columns = table.first().map_or(0, Vec::len);
    let width = |column: usize| table.iter().filter_map(|row| row.get(column)).map(String::len).max();
    let widths: Vec<usize> = (0..columns).filter_map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        cells.join("  ")
    };
    table.iter().map(line).collect()
}

/// The elements of an array; none of anything else.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A value without quotes and without control characters: the text goes to a terminal.
pub fn show(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.chars().filter(|char| !char.is_control()).collect(),
        other => other.to_string(),
    }
}

pub(super) fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// A time in words; `-` if it is not known.
pub fn duration(seconds: Option<u64>) -> String {
    let Some(seconds) = seconds else { return "-".to_owned() };
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

fn seconds(nanoseconds: Option<u64>) -> String {
    nanoseconds.map_or_else(|| "-".to_owned(), |nanoseconds| format!("{:.1} s", nanoseconds as f64 / 1e9))
}

/// A size in words; `-` if it is not known.
pub fn size(bytes: Option<f64>) -> String {
    match bytes {
        None => "-".to_owned(),
        Some(bytes) if bytes < 1e3 => format!("{bytes:.0} B"),
        Some(bytes) if bytes < 1e6 => format!("{:.1} kB", bytes / 1e3),
        Some(bytes) if bytes < 1e9 => format!("{:.1} MB", bytes / 1e6),
        Some(bytes) => format!("{:.1} GB", bytes / 1e9),
    }
}
