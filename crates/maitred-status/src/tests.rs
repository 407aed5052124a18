use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use maitred_cache::Counts;
use maitred_control::Report;
use maitred_log::recent::Line;
use maitred_log::trace::SpanFacts;
use maitred_tls::server::CertificateFacts;

use super::cache::{self, CacheFacts};
use super::facts::{
    BodiesFacts, BudgetFacts, Facts, LimitFacts, ListenFacts, Live, PoolFacts, Queue, ServerFacts,
};
use super::fields::{self, Field, Kind, Unit};
use super::histogram::HistogramFacts;
use super::history::{self, Past};
use super::latency::{PoolWindow, Timing, TimingFacts, Took};
use super::rates::{HISTORY_SECS_MAX, PerSecond, PoolRates, PoolSample, Rates, Second, ThreadRates};
use super::routes::{ROUTES_SHOWN_MAX, RouteFacts, RouteName};
use super::scoreboard::{Scoreboard, SlotState};
use super::slowest::SlowRequest;
use super::{json, metrics, text};

mod health;

fn facts() -> Facts {
    Facts {
        version: "1.2.3",
        pid: 71,
        master_pid: 70,
        generation: 2,
        reuseport: true,
        ktls: "the kernel has it; not used".to_owned(),
        affinity_why: "auto: 2 threads".to_owned(),
        usable_cpus: vec![0, 1, 2],
        listens: vec![ListenFacts {
            listen: 0,
            address: "127.0.0.1:8080".parse().expect("an address"),
            buckets: 2,
        }],
        threads: vec![Some(0), Some(1)],
        pools: vec![
            PoolFacts {
                addresses: Vec::new(),
                first_bucket: 0,
                buckets: 0,
                name: "web".to_owned(),
                first_slot: 0,
                slots: 3,
                start: 3,
                max: 3,
                retired_max: 2,
                transport: "direct",
                queue_max: 8,
            },
            PoolFacts {
                addresses: Vec::new(),
                first_bucket: 0,
                buckets: 0,
                name: "a\"b\\c".to_owned(),
                first_slot: 3,
                slots: 1,
                start: 1,
                max: 1,
                retired_max: 2,
                transport: "auto",
                queue_max: 8,
            },
        ],
    }
}

/// So many requests that took so long each, half of it at the application, and so many failed.
fn timing(requests: &[(u64, usize)], failed: usize) -> TimingFacts {
    let timing = Timing::default();
    let mut left = failed;
    for whole_us in requests.iter().flat_map(|(took, count)| std::iter::repeat_n(*took, *count)) {
        let failed = left > 0;
        left -= usize::from(failed);
        timing.add(&Took { whole_us, queue_us: whole_us / 10, answer_us: whole_us / 2, failed });
    }
    let mut facts = TimingFacts::default();
    timing.add_to(&mut facts);
    facts
}

fn live() -> Live {
    Live {
        automatic: vec![
            Report { name: "b.example".into(), not_after: Some(7), renew_at: Some(5), ..Report::default() },
            Report { name: "c.example".into(), retry_at: Some(9), failures: 3, ..Report::default() },
        ],
        unix_secs: 1_000_090,
        queues: vec![Queue { listen: 0, bucket: 1, length: 3, max: 4096 }],
        pool_queues: vec![4, 0],
        spans: Some(SpanFacts { sent: 5, dropped: 6 }),
        cache: Some(CacheFacts {
            counts: Counts {
                entries: 3,
                bytes: 12_288,
                hot_bytes: 900,
                rebuilt: 128,
                off: true,
                ..Counts::default()
            },
            bytes_max: 1_000_000,
            ..CacheFacts::default()
        }),
        servers: ["up", "unwell"]
            .into_iter()
            .zip(1_u64..)
            .map(|(state, number)| ServerFacts {
                pool: 1,
                address: format!("10.0.0.{number}:80"),
                state,
                requests: 10 * number,
                response_us: (number == 1).then_some(1_500),
                ..ServerFacts::default()
            })
            .collect(),
        routes: vec![
            RouteFacts {
                responses: [0, 7, 0, 1, 0],
                body_bytes: 512,
                timing: timing(&[(2_000, 3), (900_000, 1)], 0),
                name: RouteName {
                    site: "a.test".into(),
                    number: 1,
                    route: "GET /\"*".into(),
                    target: "files".into(),
                },
            },
            RouteFacts::default(),
        ],
        route_windows: vec![timing(&[(2_000, 7)], 0), TimingFacts::default()],
        pool_windows: vec![PoolWindow::default(), PoolWindow::default()],
        slowest: vec![SlowRequest {
            at: Instant::now(),
            unix_secs: 1_000_070,
            method: "GET".into(),
            path: "/report".into(),
            route: 0,
            status: 200,
            took: Took { whole_us: 1_500_000, queue_us: 200_000, answer_us: 1_250_000, failed: false },
            request_id: "abc".into(),
        }],
        under_way: Vec::new(),
        answers: vec![HistogramFacts {
            buckets: [0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            sum_us: 12_003_000,
        }],
        budgets: [("unsent", 7_000), ("descriptors", 3), ("unsent_files", 8_000)]
            .map(|(name, used)| BudgetFacts { name, used, max: 9_000 }),
        limits: vec![LimitFacts {
            name: "login".to_owned(),
            keys: 6,
            keys_max: 100,
            refused: 5,
            dry_run: 4,
            evicted: 3,
            under_way: 2,
        }],
        bodies: [("memory", 1_000), ("disk", 0)].map(|(place, bytes)| BodiesFacts {
            place,
            bytes,
            bytes_max: 5_000,
        }),
        rates: PerSecond {
            requests: 12.345,
            connections: 1.0,
            bytes: 1_500_000.0,
            threads: vec![ThreadRates { requests: 7.0, cpu: 0.5, run_delay: 0.01 }],
            pools: vec![PoolRates { requests: 3.0, wait_us: Some(1234.56) }],
        },
        last_second: Second { requests: 20.0, queued: 2, ..Second::default() },
        ends: BTreeMap::from([(2, "exited with status 1".to_owned())]),
        certificates: [("b.example", 1_000_090 + 3 * 86_400), ("a\"example", 1_000_090 + 86_400)]
            .into_iter()
            .enumerate()
            .map(|(number, (name, not_after))| CertificateFacts {
                site: 4,
                number,
                name: name.into(),
                not_after,
            })
            .collect(),
        lost: (None, None),
        errors: vec![Line { unix_secs: 1_000_080, level: "error", text: "no room".to_owned(), times: 3 }],
        troubles: BTreeMap::from([(1, "its command does not exist".to_owned())]),
    }
}

fn board() -> Box<Scoreboard> {
    let board = Scoreboard::private();
    board.master.started_at.set(1_000_000);
    board.master.reloads.set(1);
    for (thread, row) in board.threads.iter().take(2).enumerate() {
        row.cpu_plus_1.set(thread as u64 * 2 + 1);
        row.connections.set(5);
        row.responses[1].set(100);
        row.responses[3].set(7);
        row.bytes_sent.set(12_345);
        row.cpu_ns.set(1_000_000_007);
        row.log_dropped.set(4);
    }
    // A row beyond the threads that there are: an old generation's, to be left out everywhere.
    board.threads[2].connections.set(99);
    for (slot, state) in [SlotState::Idle, SlotState::Busy].into_iter().enumerate() {
        board.slots[slot].state.set(state as u64);
        board.slots[slot].pid.set(200 + slot as u64);
    }
    board.slots[1].in_flight.set(2);
    board.slots[1].service_us.set(1_500);
    board.slots[3].state.set(u64::MAX);
    board
}

#[test]
fn json_shows_rows_totals_and_letters() {
    let status = json::render(&board(), &facts(), &live());
    assert_eq!(status["version"], "1.2.3");
    assert_eq!(status["uptime_secs"], 90);
    assert_eq!(status["rates"]["requests_per_second"], 12.3);
    assert_eq!(status["listens"][0]["address"], "127.0.0.1:8080");
    assert_eq!(status["listens"][0]["buckets"][0]["queue"], serde_json::Value::Null);
    assert_eq!(status["listens"][0]["buckets"][1]["queue"], 3);
    assert_eq!(status["threads"].as_array().map(Vec::len), Some(2));
    assert_eq!(status["threads"][1]["cpu"], 2);
    assert_eq!(status["threads"][1]["home_cpu"], 1);
    assert_eq!(status["threads"][0]["responses"]["4xx"], 7);
    assert_eq!(status["totals"]["connections"], 10);
    assert_eq!(status["totals"]["responses"]["2xx"], 200);
    assert_eq!(status["totals"].get("cpu"), None);
    assert_eq!(
        status["errors"][0],
        serde_json::json!({ "unix_time": 1_000_080, "level": "error", "text": "no room", "times": 3 })
    );
    assert_eq!(status["pools"][0]["letters"], "_W.");
    assert_eq!(status["pools"][0]["slots"][1]["pid"], 201);
    assert_eq!(status["pools"][0]["slots"][2]["last_end"], "exited with status 1");
    assert_eq!(status["pools"][0]["slots"][1]["last_end"], serde_json::Value::Null);
    assert_eq!(status["rates"]["last_second"]["requests_per_second"], 20.0);
    assert_eq!(status["threads"][0]["cpu_percent"], 50.0);
    assert_eq!(status["threads"][0]["run_delay_percent"], 1.0);
    assert_eq!(status["threads"][1]["requests_per_second"], 0.0);
    assert_eq!((&status["pools"][0]["queued"], &status["pools"][0]["queue_max"]), (&4.into(), &8.into()));
    assert_eq!(status["pools"][0]["queue_wait_us"], 1234.6);
    assert_eq!(status["pools"][1]["queue_wait_us"], serde_json::Value::Null);
    assert_eq!(status["pools"][0]["trouble"], serde_json::Value::Null);
    assert_eq!(status["pools"][1]["trouble"], "its command does not exist");
    assert_eq!(status["pools"][1]["letters"], "?");
    assert_eq!(status["pools"][0]["servers"], serde_json::json!([]));
    let servers = &status["pools"][1]["servers"];
    assert_eq!((&servers[1]["address"], &servers[1]["state"]), (&"10.0.0.2:80".into(), &"unwell".into()));
    assert_eq!(
        (&servers[0]["response_us"], &servers[1]["response_us"]),
        (&1_500.into(), &serde_json::Value::Null)
    );
    assert_eq!(status["pools"][1]["slots"][0]["state"], "unknown");
}

#[test]
fn uptime_survives_a_clock_that_was_set_back() {
    let live = Live { unix_secs: 1, ..live() };
    assert_eq!(json::render(&board(), &facts(), &live)["uptime_secs"], 0);
}

#[test]
fn facts_beyond_the_board_are_harmless() {
    let mut facts = facts();
    facts.threads = vec![None; 1000];
    facts.pools[1] = PoolFacts { first_slot: usize::MAX, slots: usize::MAX, ..facts.pools[1].clone() };
    let live = Live { queues: vec![Queue { listen: 9, bucket: 9, length: 0, max: 0 }], ..live() };
    let status = json::render(&board(), &facts, &live);
    assert_eq!(status["threads"].as_array().map(Vec::len), Some(maitred_base::bounds::THREADS_MAX));
    assert_eq!(status["pools"][1]["letters"], "");
    metrics::render(&board(), &facts, &live);
}

/// Reads the text format as strictly as its description: every family has its head first, its samples together, and no
/// series twice. Gives family → kind, and series → value.
fn parse_metrics(text: &str) -> (BTreeMap<String, String>, BTreeMap<String, f64>) {
    let (mut kinds, mut series) = (BTreeMap::new(), BTreeMap::new());
    let mut family = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').expect("a help text");
            assert!(words.ends_with('.'), "{line}");
            let kind = lines.next().and_then(|line| line.strip_prefix(&format!("# TYPE {name} ")));
            let kind = kind.expect("the type follows").to_owned();
            assert!(["gauge", "counter", "histogram"].contains(&kind.as_str()));
            assert_eq!(kinds.insert(name.to_owned(), kind), None, "{name} twice");
            family = name.to_owned();
            continue;
        }
        let (name, value) = line.rsplit_once(' ').expect("a value");
        let of_histogram = ["_bucket", "_sum", "_count"].map(|end| format!("{family}{end}"));
        let own = match kinds.get(&family).is_some_and(|kind| kind == "histogram") {
            true => of_histogram.iter().any(|sample| name.split('{').next() == Some(sample)),
            false => name.split('{').next() == Some(family.as_str()),
        };
        assert!(own, "{line}");
        let value: f64 = value.parse().expect("a number");
        assert_eq!(series.insert(name.to_owned(), value), None, "{name} twice");
    }
    assert!(text.ends_with('\n'));
    (kinds, series)
}

#[test]
fn metrics_have_the_routes_that_have_answered_and_stay_small() {
    let page = metrics::render(&board(), &facts(), &live());
    let labels = "site=\"a.test\",number=\"1\",route=\"GET /\\\"*\"";
    for line in [
        format!("maitred_route_responses_total{{{labels},class=\"2xx\"}} 7"),
        format!("maitred_route_body_bytes_total{{{labels}}} 512"),
    ] {
        assert!(page.lines().any(|one| one == line), "{line}\n{page}");
    }
    for line in [
        format!("maitred_route_request_seconds_bucket{{{labels},le=\"0.0025\"}} 3"),
        format!("maitred_route_request_seconds_bucket{{{labels},le=\"+Inf\"}} 4"),
        format!("maitred_route_request_seconds_sum{{{labels}}} 0.906000"),
        format!("maitred_route_request_seconds_count{{{labels}}} 4"),
        format!("maitred_route_queue_seconds_total{{{labels}}} 0.090600"),
        format!("maitred_route_answer_seconds_total{{{labels}}} 0.453000"),
    ] {
        assert!(page.lines().any(|one| one == line), "{line}\n{page}");
    }
    assert_eq!(page.matches("maitred_route_body_bytes_total{").count(), 1);
    let name =
        RouteName { site: "a".repeat(255), number: 999_999, route: "\"".repeat(120), target: String::new() };
    let route =
        RouteFacts { name, responses: [u64::MAX / 5; 5], body_bytes: u64::MAX, ..RouteFacts::default() };
    let many = Live { routes: vec![route; ROUTES_SHOWN_MAX], ..live() };
    let added = metrics::render(&board(), &facts(), &many).len() - page.len();
    assert!(added < 4 << 20, "{added} bytes");
    let series = metrics::render(&board(), &facts(), &many).matches("{site=\"aa").count();
    assert_eq!(series, 24 * ROUTES_SHOWN_MAX);
}

#[test]
fn metrics_keep_to_the_format() {
    let text = metrics::render(&board(), &facts(), &live());
    let (kinds, series) = parse_metrics(&text);
    for (name, kind) in &kinds {
        assert!(name.starts_with("maitred_"));
        assert!(
            name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'),
            "{name}"
        );
        assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
    }
    for (name, value) in [
        ("maitred_info{version=\"1.2.3\"}", 1.0),
        ("maitred_start_time_seconds", 1_000_000.0),
        ("maitred_listen_queue{listen=\"127.0.0.1:8080\",bucket=\"1\"}", 3.0),
        ("maitred_thread_cpu{thread=\"1\"}", 2.0),
        ("maitred_thread_responses_total{thread=\"0\",class=\"4xx\"}", 7.0),
        ("maitred_thread_cpu_seconds_total{thread=\"0\"}", 1.000_000_007),
        ("maitred_slot_service_seconds{pool=\"web\",slot=\"1\"}", 0.0015),
        ("maitred_pool_slots{pool=\"web\",state=\"busy\"}", 1.0),
        ("maitred_pool_queue{pool=\"web\"}", 4.0),
        ("maitred_pool_response_seconds_bucket{pool=\"web\",le=\"0.0025\"}", 2.0),
        ("maitred_pool_response_seconds_bucket{pool=\"web\",le=\"10\"}", 2.0),
        ("maitred_pool_response_seconds_bucket{pool=\"web\",le=\"+Inf\"}", 3.0),
        ("maitred_pool_response_seconds_count{pool=\"web\"}", 3.0),
        ("maitred_pool_response_seconds_sum{pool=\"web\"}", 12.003),
        ("maitred_pool_queue_max{pool=\"web\"}", 8.0),
        ("maitred_spans_sent_total", 5.0),
        ("maitred_cache_entries", 3.0),
        ("maitred_cache_max_bytes", 1_000_000.0),
        ("maitred_cache_index_percent", 50.0),
        ("maitred_cache_off", 1.0),
        ("maitred_spans_dropped_total", 6.0),
        (
            "maitred_certificate_not_after_seconds{site=\"4\",certificate=\"0\",name=\"b.example\"}",
            1_259_290.0,
        ),
        ("maitred_automatic_certificate_not_after_seconds{name=\"b.example\"}", 7.0),
        ("maitred_automatic_certificate_renew_at_seconds{name=\"b.example\"}", 5.0),
        ("maitred_automatic_certificate_retry_at_seconds{name=\"c.example\"}", 9.0),
        ("maitred_automatic_certificate_failures{name=\"b.example\"}", 0.0),
        ("maitred_automatic_certificate_failures{name=\"c.example\"}", 3.0),
        ("maitred_bodies_bytes{place=\"memory\"}", 1_000.0),
        ("maitred_bodies_max_bytes{place=\"disk\"}", 5_000.0),
        ("maitred_budget_used{budget=\"unsent\"}", 7_000.0),
        ("maitred_budget_max{budget=\"descriptors\"}", 9_000.0),
        ("maitred_limit_refused_total{limit=\"login\"}", 5.0),
        ("maitred_limit_dry_run_total{limit=\"login\"}", 4.0),
        ("maitred_limit_evicted_total{limit=\"login\"}", 3.0),
        ("maitred_limit_under_way{limit=\"login\"}", 2.0),
        ("maitred_limit_keys{limit=\"login\"}", 6.0),
        ("maitred_limit_keys_max{limit=\"login\"}", 100.0),
        ("maitred_slot_requests{pool=\"a\\\"b\\\\c\",slot=\"0\"}", 0.0),
    ] {
        assert_eq!(series.get(name), Some(&value), "{name}");
    }
    assert!(!series.contains_key("maitred_automatic_certificate_not_after_seconds{name=\"c.example\"}"));
    assert!(!series.contains_key("maitred_automatic_certificate_retry_at_seconds{name=\"b.example\"}"));
    assert!(!series.keys().any(|name| name.contains("thread=\"2\"")));
}

#[test]
fn a_thread_that_is_not_pinned_has_no_cpu() {
    let board = board();
    board.threads[0].cpu_plus_1.set(0);
    let (_, series) = parse_metrics(&metrics::render(&board, &facts(), &live()));
    assert!(!series.contains_key("maitred_thread_cpu{thread=\"0\"}"));
    assert!(text::render(&json::render(&board, &facts(), &live())).contains("any*"));
}

#[test]
fn text_is_a_page_for_people() {
    let text = text::render(&json::render(&board(), &facts(), &live()));
    let expected = "\
maitred 1.2.3, up 1 min 30 s, generation 2, worker process 71, master 70
health      bad: certificates: no new one for c.example: the last order failed; 2 more to look at; read the error, mend what it \
names (often the DNS or a firewall): the order is repeated automatically
health      bad: cache: nothing is stored, because of trouble with the disk; read the reason in the error log: the disk of the \
cache's directory is full, read-only, or fails
health      warn: pool a\"b\\c: its command does not exist; read what the application wrote to the error log, mend it, and run \
`maitred pool a\"b\\c restart`
health      warn: servers a\"b\\c: 1 of 2 servers up: 10.0.0.2:80 is unwell; look at the log and the load of these servers: they \
get no requests until they answer well again
affinity    auto: 2 threads
reuseport   detected
kTLS        the kernel has it; not used
reloads     1 done, 0 refused; 0 worker crashes; application processes: 0 started, 0 crashed, 0 delayed
listening   127.0.0.1:8080, 2 buckets, waiting: - 3 (of 4096)
certificates 2; a\"example is good for another 1 day
requests    12.3 /s; since start: 2xx 200, 4xx 14
connections 10 open, 1.0 /s; 0 accepted since start
sent        1.5 MB /s; 24.7 kB since start
cache       3 responses, 12.3 kB of 1.0 MB; 900 B in memory; since start: 0 hits, 0 stale, 0 misses; 50 % of its directory is \
read; nothing is stored at the moment: see the error log
trouble     8 log lines dropped

thread  cpu  conns  idle  writing  handed off  queued  accepted  requests  cpu time  cpu wait
     0    0      5     0        0           0       0         0       107     1.0 s     0.0 s
     1   2*      5     0        0           0       0         0       107     1.0 s     0.0 s
* not on its home CPU, because something else takes it

pool web (direct): 3 slots, 2 requests in progress
  _W.

pool a\"b\\c (auto): 1 slot, 0 requests in progress
  10.0.0.1:80: up, 0 in progress, 10 requests, 0 failed
  10.0.0.2:80: unwell, 0 in progress, 20 requests, 0 failed
  its command does not exist
  ?

_ waiting for a request  W working  S starting  D draining  . no process

slowest requests of the last 5 minutes
 took   waiting  application  status      request                  route   id
1.5 s  200.0 ms        1.2 s     200  GET /report  a.test GET /\"*: files  abc
";
    assert_eq!(text, expected);
}

#[test]
fn a_pool_without_a_process_is_pointed_out() {
    let shown = |letters: &str| {
        text::render(&serde_json::json!({ "pools": [{ "name": "web", "letters": letters }] }))
    };
    assert!(shown("..").contains("  none of its processes is there: the error log says why\n  ..\n"));
    for letters in ["", ".S", "_."] {
        assert!(!shown(letters).contains("none of its processes"), "{letters}");
    }
}

#[test]
fn text_of_nonsense_is_no_panic_and_no_escape_sequence() {
    for status in [
        serde_json::json!(null),
        serde_json::json!({ "version": "\u{1b}[31m", "listens": 3, "threads": [null, {}], "pools": [{}] }),
    ] {
        let text = text::render(&status);
        assert!(text.chars().all(|char| char == '\n' || !char.is_control()), "{text:?}");
    }
}

/// Names of the cells of a row, as its `Debug` shows them.
fn cells(row: &impl std::fmt::Debug) -> BTreeSet<String> {
    let debug = format!("{row:?}");
    let starts = debug.match_indices(": Cell(").chain(debug.match_indices(": [Cell("));
    starts.filter_map(|(end, _)| debug[..end].rsplit([' ', '{']).next()).map(str::to_owned).collect()
}

fn keys<Row>(fields: &[Field<Row>], others: &[&str]) -> BTreeSet<String> {
    fields.iter().map(|field| field.key).chain(others.iter().copied()).map(str::to_owned).collect()
}

#[test]
fn every_cell_is_shown() {
    let board = Scoreboard::private();
    assert_eq!(cells(&board.master), keys(fields::MASTER, &[]));
    assert_eq!(cells(&board.old_workers[0]), keys(fields::OLD_WORKER, &["pid", "generation"]));
    let mut threads = cells(&board.threads[0]);
    // Shown by another name than the cell has.
    for (cell, key) in [
        ("cpu_plus_1", "cpu"),
        ("aborted", "client_aborts"),
        ("retried", "handoff_retries"),
        ("multiplexed", "http2"),
        ("proxied", "upstream_requests"),
        ("sent_to_threads", "requests_transferred"),
    ] {
        assert!(threads.remove(cell) && threads.insert(key.to_owned()), "{cell}");
    }
    assert_eq!(threads, keys(fields::THREAD, &[]));
    assert_eq!(cells(&board.slots[0]), keys(fields::SLOT, &["state", "pid"]));
    assert_eq!(cells(&board.starts[0]), keys(fields::START, &[]));
}

#[test]
fn a_slot_counts_how_long_it_was_busy() {
    let board = Scoreboard::private();
    let row = &board.slots[0];
    row.begin(7, 1_000_000_500_000);
    assert_eq!(fields::state(row), ('S', "starting"));
    assert_eq!((row.pid.get(), row.started_at.get(), row.starts.get()), (7, 1_000_000, 1));
    row.enter(SlotState::Busy, 1_000_001_000_000);
    row.enter(SlotState::Busy, 1_000_002_000_000);
    assert_eq!((row.busy_us.get(), row.since_us.get()), (0, 1_000_001_000_000));
    row.enter(SlotState::Idle, 1_000_004_000_000);
    assert_eq!((row.busy_us.get(), row.since_us.get()), (3_000_000, 1_000_004_000_000));
    row.enter(SlotState::Busy, 1_000_005_000_000);
    row.enter(SlotState::Dead, 1_000_000_000_000);
    assert_eq!(row.busy_us.get(), 3_000_000, "a clock that was set back counts nothing");
    row.begin(8, 1_000_006_000_000);
    assert_eq!((row.busy_us.get(), row.starts.get()), (0, 2));
}

#[test]
fn rates_are_those_of_the_last_ten_seconds() {
    let board = Scoreboard::private();
    let mut rates = Rates::new();
    let start = Instant::now();
    assert_eq!(rates.per_second(), PerSecond::default());
    let mut last = None;
    for second in 0..60 {
        let pool = PoolSample { requests: second * 2, wait_us: second * 1000 };
        last = rates.tick(start + Duration::from_secs(second), &board, 2, vec![pool]);
        // Slow at first; a third row belongs to no thread.
        let requests = if second < 40 { 1 } else { 100 };
        board.threads[0].responses[1].add(requests);
        board.threads[1].bytes_handed_off.add(10);
        board.threads[1].cpu_ns.add(250_000_000);
        board.threads[2].accepted.add(1000);
    }
    let first = ThreadRates { requests: 100.0, cpu: 0.0, run_delay: 0.0 };
    let expected = PerSecond {
        requests: 100.0,
        connections: 0.0,
        bytes: 10.0,
        threads: vec![first, ThreadRates { requests: 0.0, cpu: 0.25, run_delay: 0.0 }],
        pools: vec![PoolRates { requests: 2.0, wait_us: Some(500.0) }],
    };
    assert_eq!(rates.per_second(), expected);
    assert_eq!(last, Some(Second { requests: 100.0, bytes: 10.0, connections: 0, queued: 0, cpu: 0.25 }));
}

#[test]
fn the_history_is_bounded_and_second_by_second() {
    let (board, mut rates, start) = (Scoreboard::private(), Rates::new(), Instant::now());
    let past = Past::new(None, &history::tests::config(&[], &[])).expect("a memory file");
    for second in 0..HISTORY_SECS_MAX as u64 + 50 {
        board.threads[0].connections.set(second);
        let ticked = rates.tick(start + Duration::from_secs(second), &board, 1, Vec::new());
        ticked.into_iter().for_each(|one| past.add_second(1_000 + second, &one));
        board.threads[0].responses[1].add(second);
        board.threads[0].cpu_ns.add(500_000_000);
    }
    let history = json::history(77, &past.seconds(1_000 + HISTORY_SECS_MAX as u64 + 49));
    let seconds = history["seconds"].as_array().expect("a list");
    assert_eq!((seconds.len(), &history["unix_time"]), (HISTORY_SECS_MAX, &77.into()));
    assert_eq!(seconds.last().map(|second| &second["requests_per_second"]), Some(&348.0.into()));
    assert_eq!((&seconds[0]["connections"], &seconds[9]["cpu_percent"]), (&50.into(), &50.0.into()));
}

/// Rows of the tables in docs/metrics.md.
fn rows<Row>(out: &mut String, fields: &[Field<Row>]) {
    out.push_str("| metric | kind | JSON | what it is |\n|---|---|---|---|\n");
    rows_only(out, fields);
}

fn rows_only<Row>(out: &mut String, fields: &[Field<Row>]) {
    let mut family = "";
    for field in fields.iter().filter(|field| std::mem::replace(&mut family, field.metric) != field.metric) {
        let unit = match field.unit {
            Unit::One | Unit::Bytes => "",
            Unit::Micros => ", in microseconds",
            Unit::Nanos => ", in nanoseconds",
        };
        let label = field.label.map(|(label, _)| format!(", label `{label}`")).unwrap_or_default();
        writeln!(
            out,
            "| `{}`{label} | {} | `{}`{unit} | {} |",
            field.metric,
            field.kind.text(),
            field.key,
            field.help
        )
        .expect("a String");
    }
}

/// `docs/metrics.md` between its marks is made from the tables. To write it anew: `MAITRED_WRITE_DOCS=1 cargo test`.
#[test]
fn the_document_has_every_metric() {
    let mut tables = String::from("\n## Server\n\n");
    let other = [
        ("maitred_info`, label `version", "`version`", "Version of Maitred, in a label."),
        ("maitred_reuseport", "`reuseport`", "1 if SO_REUSEPORT was found to work."),
    ];
    tables.push_str("| metric | kind | JSON | what it is |\n|---|---|---|---|\n");
    for (metric, key, help) in other {
        writeln!(tables, "| `{metric}` | {} | {key} | {help} |", Kind::Gauge.text()).expect("a String");
    }
    for ((metric, help), key) in [(metrics::QUEUE, "queue"), (metrics::QUEUE_MAX, "queue_max")] {
        writeln!(
            tables,
            "| `{metric}`, labels `listen` and `bucket` | gauge | `listens[].buckets[].{key}` | {help} |"
        )
        .expect("a String");
    }
    for ((metric, help), key) in [(metrics::BODIES, "bytes"), (metrics::BODIES_MAX, "bytes_max")] {
        writeln!(tables, "| `{metric}`, label `place` | gauge | `bodies.*.{key}` | {help} |")
            .expect("a String");
    }
    for ((metric, help), key) in [(metrics::BUDGET, "used"), (metrics::BUDGET_MAX, "max")] {
        writeln!(tables, "| `{metric}`, label `budget` | gauge | `budgets.*.{key}` | {help} |")
            .expect("a String");
    }
    for (metric, kind, help, key, _) in metrics::LIMITS {
        writeln!(tables, "| `{metric}`, label `limit` | {} | `limits.*.{key}` | {help} |", kind.text())
            .expect("a String");
    }
    for (metric, kind, _, help, key, _) in metrics::SERVERS {
        writeln!(
            tables,
            "| `{metric}`, labels `pool` and `server` | {} | `pools[].servers[].{key}` | {help} |",
            kind.text()
        )
        .expect("a String");
    }
    for (metric, kind, help, key) in super::routes::METRICS {
        let class = if key == "responses" { ", `class`" } else { "" };
        writeln!(
            tables,
            "| `{metric}`, labels `site`, `number`, `route`{class} | {} | `routes[].{key}` | {help} |",
            kind.text()
        )
        .expect("a String");
    }
    let (metric, help) = super::routes::TOOK;
    writeln!(
        tables,
        "| `{metric}`, labels `site`, `number`, `route` and `le` | histogram | `routes[].recent` | {help} |"
    )
    .expect("a String");
    for ((metric, help), key) in [(metrics::SPANS_SENT, "sent"), (metrics::SPANS_DROPPED, "dropped")] {
        writeln!(tables, "| `{metric}` | counter | `spans.{key}` | {help} |").expect("a String");
    }
    for field in cache::FIELDS {
        let (metric, kind, key, help) = (field.metric, field.kind.text(), field.key, field.help);
        writeln!(tables, "| `{metric}` | {kind} | `cache.{key}` | {help} |").expect("a String");
    }
    let (metric, help) = metrics::CERTIFICATE;
    writeln!(
        tables,
        "| `{metric}`, labels `site`, `certificate` and `name` | gauge | `certificates[].not_after` | {help} |"
    )
    .expect("a String");
    tables.push_str("\nIn JSON within `master`:\n\n");
    rows(&mut tables, fields::MASTER);
    tables.push_str(
        "\n## Worker processes that were replaced\n\nAs long as they have connections. Labels `generation` and `pid`; in JSON within \
         `old_workers[]`.\n\n",
    );
    rows(&mut tables, fields::OLD_WORKER);
    tables.push_str(
        "\n## Automatic certificates\n\nLabel `name`; in JSON within `automatic_certificates[]`.\n\n",
    );
    rows(&mut tables, fields::AUTOMATIC);
    tables.push_str(
        "\n## Threads\n\nLabel `thread`; in JSON within `threads[]`, and summed up in `totals`.\n\n",
    );
    rows(&mut tables, fields::THREAD);
    tables.push_str("\n## Pools\n\nLabels `pool` and `slot`; in JSON within `pools[].slots[]`.\n\n");
    rows(&mut tables, fields::SLOT);
    rows_only(&mut tables, fields::START);
    for ((metric, help), key) in [
        (metrics::POOL_QUEUE, "queued"),
        (metrics::POOL_QUEUE_MAX, "queue_max"),
        (metrics::POOL_ACCEPT, "buckets[].queue"),
    ] {
        writeln!(tables, "| `{metric}`, label `pool` | gauge | `pools[].{key}` | {help} |")
            .expect("a String");
    }
    let (metric, help) = (metrics::ANSWER, metrics::ANSWER_HELP);
    writeln!(tables, "| `{metric}`, labels `pool` and `le` | histogram | `pools[].responses` | {help} |")
        .expect("a String");
    let (metric, help) = metrics::SLOTS;
    writeln!(tables, "| `{metric}`, labels `pool` and `state` | gauge | `letters` | {help} |\n")
        .expect("a String");

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let document = std::fs::read_to_string(&path).expect("docs/metrics.md");
    let (begin, end) = ("<!-- tables begin -->\n", "<!-- tables end -->");
    let (before, rest) = document.split_once(begin).expect("the first mark");
    let (present, after) = rest.split_once(end).expect("the second mark");
    if std::env::var_os("MAITRED_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{begin}{tables}{end}{after}")).expect("docs/metrics.md");
        return;
    }
    assert_eq!(present, tables, "run this test with MAITRED_WRITE_DOCS=1 to write the tables anew");
}
