//! Pools that cannot start, or that eat memory: status and log say which and why, others are untouched, and the master does not
//! spin.

use std::time::Duration;

use serde_json::Value;

use crate::pools::load::under_load;
use crate::pools::look::{breathing, pool, processes_of};
use crate::support::processes::cpu_ticks;
use crate::support::{Server, Setup, eventually};

/// No request waits in the queue until its end: then the test would fail.
const PATIENT: &str = "queue = { timeout = \"10 min\" }";
/// How long the master is watched, and how much CPU time it may take in that time, in ticks of 10 ms: 5 %. The master is built
/// without optimisation, and takes about 3 ticks where this was written; one that does not wait takes hundreds.
const WATCHED: Duration = Duration::from_secs(5);
const TICKS_MAX: u64 = 25;

/// A pool that cannot start: its name, command and further lines, and what is said of it.
struct Bad {
    name: &'static str,
    command: &'static str,
    lines: &'static str,
    why: &'static str,
}

const BAD: [Bad; 4] = [
    Bad { name: "absent", command: "[\"no-such-program\"]", lines: "", why: "No such file" },
    Bad { name: "exits", command: "[\"false\"]", lines: "", why: "exited with status 1" },
    Bad {
        name: "mute",
        command: "[\"sleep\", \"1000\"]",
        lines: "start_timeout = \"300ms\"",
        why: "start timeout",
    },
    Bad {
        name: "forks",
        command: "[\"sh\", \"-c\", \"sleep 2 & exit 0\"]",
        lines: "",
        why: "exited with status 0",
    },
];

fn with_bad_pools() -> Server {
    let setup = BAD.iter().fold(Setup::with_files(), |setup, bad| {
        let Bad { name, command, lines, .. } = bad;
        setup
            .route(&format!("/{name}/*"), &format!("pool = \"{name}\""))
            .table(&format!("[pool.{name}]\ncommand = {command}\n{PATIENT}\n{lines}\n"))
    });
    breathing(setup, "good", None, "", &format!("workers = 1\n{PATIENT}")).start()
}

/// What the slots of a pool say of its delayed starts: deaths in a row, and when the next one is.
fn delay(status: &Value, name: &str) -> (u64, u64) {
    let pool = pool(status, name);
    let slots = pool["slots"].as_array().unwrap();
    let most = |key: &str| slots.iter().filter_map(|slot| slot[key].as_u64()).max().unwrap_or(0);
    (most("deaths"), most("delayed_until"))
}

#[test]
fn which_pool_cannot_start_and_why_is_said_everywhere() {
    let server = with_bad_pools();
    for bad in &BAD {
        let Bad { name, why, .. } = bad;
        let response = server.connect().get(&format!("/{name}/hello"));
        assert_eq!(response.status, 503, "{name}");
        // The client gets the number of the request, and nothing of what is inside.
        let id = response.text().trim_end().strip_prefix("503 Service Unavailable\nRequest ID: ").unwrap();
        let said = server.wait_for_line(|line| line.contains(id));
        assert!(said.contains(&format!("pool \"{name}\" cannot start")) && said.contains(why), "{said}");
        server.wait_for_line(|line| line.contains(&format!("{name}/")) && line.contains(why));
        eventually("the status says so", || {
            let status = server.status();
            let trouble = pool(&status, name)["trouble"].as_str().map(str::to_owned);
            let (deaths, until) = delay(&status, name);
            trouble.is_some_and(|trouble| trouble.contains(why)) && deaths >= 3 && until > 0
        });
        let (_, shown) = server.command(&["pool", name]);
        assert!(shown.contains("cannot start") && shown.contains(why), "{shown}");
    }
    server.wait_for_line(|line| line.contains("forks/") && line.contains("keep it in the foreground"));
    under_load(&server, 2, "/good/hello?x", |found| found.more(50));
    assert_eq!(server.connect().get("/a.txt").text(), "file a\n");
    server.stop();
}

/// All bad pools at a time, with the delays that they have after some deaths.
#[test]
fn the_master_takes_no_time_for_pools_that_cannot_start() {
    let server = with_bad_pools();
    eventually("delays have grown", || {
        let status = server.status();
        BAD.iter().all(|bad| delay(&status, bad.name).0 >= 4)
    });
    let starts = || server.status()["master"]["slots_started"].as_u64().unwrap();
    let (before, started) = (cpu_ticks(server.pid().as_raw_nonzero().get()), starts());
    assert!(watch(&server), "it is quiet");
    let ticks = cpu_ticks(server.pid().as_raw_nonzero().get()) - before;
    assert!(ticks <= TICKS_MAX, "{ticks} ticks of CPU time in {WATCHED:?}");
    let attempts = starts() - started;
    // After 4 deaths the next delays are at least 0.8, 1.6, 3.2 and 6.4 seconds.
    assert!(attempts <= 4 * BAD.len() as u64, "{attempts} attempts in {WATCHED:?}");
    server.stop();
}

/// Lets the time pass in which the master is watched, with a client that gets no answer.
fn watch(server: &Server) -> bool {
    let client = server.connect();
    client.tcp().set_read_timeout(Some(WATCHED)).unwrap();
    let waited = client.tcp().peek(&mut [0]);
    waited.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

/// Each process of the pool is over the limit as soon as it is there: they are replaced, one at a time, and that is all.
#[test]
fn a_pool_that_eats_memory_is_bounded_and_costs_the_master_nothing() {
    let setup = breathing(Setup::with_files(), "good", None, "", &format!("workers = 1\n{PATIENT}"));
    let lines = format!(
        "workers = {{ start = 1, min_spare = 1, max_spare = 1, max = 2, max_memory = \"80 MB\" }}\n{PATIENT}"
    );
    let server = breathing(setup, "eats", None, "GROWS = \"120\"", &lines).start();
    server.wait_for_line(|line| line.contains("eats/") && line.contains("it takes too much memory"));
    let before = cpu_ticks(server.pid().as_raw_nonzero().get());
    assert!(watch(&server), "it is quiet");
    let ticks = cpu_ticks(server.pid().as_raw_nonzero().get()) - before;
    assert!(ticks <= TICKS_MAX, "{ticks} ticks of CPU time in {WATCHED:?}");
    assert!(processes_of(&server).len() <= 1 + 3, "{:?}", processes_of(&server));
    assert_eq!(server.connect().get("/eats/hello?x").text(), "hello x\n", "it works all the same");
    assert_eq!(server.connect().get("/good/hello?x").text(), "hello x\n");
    server.stop();
}

/// A pool that comes to its senses serves again.
#[test]
fn a_pool_that_can_start_again_does() {
    let adapter = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../adapters/python")
        .canonicalize()
        .unwrap();
    let env =
        format!("env = {{ PYTHONPATH = \"{}:.\", PYTHONDONTWRITEBYTECODE = \"1\" }}", adapter.display());
    let server = Setup::with_files()
        .outside("breathing.py", include_bytes!("breathing.py"))
        .outside("start.sh", b"exit 3\n")
        .route("/app/*", "pool = \"app\"")
        .table(&format!("[pool.app]\ncommand = [\"sh\", \"start.sh\"]\n{env}\n{PATIENT}\n"))
        .start();
    let response = server.connect().get("/app/hello?x");
    assert_eq!(response.status, 503);
    server.wait_for_line(|line| line.contains("503") && line.contains("exited with status 3"));
    std::fs::write(server.path("start.sh"), "exec python3 -m maitred breathing:application\n").unwrap();
    eventually("it serves", || server.connect().get("/app/hello?x").status == 200);
    eventually("and says so", || pool(&server.status(), "app")["trouble"].is_null());
    server.wait_for_line(|line| line.contains("INFO") && line.contains("pool \"app\" has recovered"));
    server.stop();
}

/// An application that answers half of the requests with 500.
const HALF: &str = "number = 0\ndef application(environ, start_response):\n    global number\n    number += 1\n    \
                    start_response('200 OK' if number % 2 else '500 Internal Server Error', [])\n    return [b'x']\n";

#[test]
fn an_application_that_answers_with_errors_is_named() {
    let server = Setup::with_files()
        .outside("half.py", HALF.as_bytes())
        .route("/half/*", "pool = \"half\"")
        .python("half", "half:application", "A = \"1\"", "workers = 1")
        .start();
    for _ in 0..30 {
        assert!([200, 500].contains(&server.connect().get("/half/?secret").status));
    }
    eventually("the pool's last minutes have them", || {
        pool(&server.status(), "half")["recent"]["requests"] == 30
    });
    let status = server.status();
    let recent = &pool(&status, "half")["recent"];
    assert_eq!((&recent["failed"], &recent["failed_percent"]), (&15.into(), &50.0.into()));
    assert!(recent["p50_us"].as_u64() > Some(0) && recent["mean_answer_us"].as_u64() > Some(0), "{recent}");
    let verdicts = status["health"].as_array().unwrap();
    let verdict = verdicts.iter().find(|one| one["subject"] == "pool" && one["name"] == "half").unwrap();
    let reason = verdict["reason"].as_str().unwrap();
    assert_eq!(verdict["state"], "bad", "{verdict}");
    assert!(
        reason.starts_with("50.0 % of 30 requests in the last five minutes were answered with 5xx"),
        "{reason}"
    );
    let routes = status["routes"].as_array().unwrap();
    let route = routes.iter().find(|route| route["route"] == "/half/*").unwrap();
    assert_eq!((&route["recent"]["requests"], &route["recent"]["failed"]), (&30.into(), &15.into()));
    let (_, shown) = server.command(&["status"]);
    assert!(shown.contains("last 5 min: 30 requests, 50.0 % failed; half within"), "{shown}");
    server.stop();
}

/// An application that computes for a while.
const SLOW: &str = "import time\ndef application(environ, start_response):\n    end = time.monotonic() + 0.15\n    \
                    while time.monotonic() < end:\n        pass\n    start_response('200 OK', [])\n    return [b'x']\n";

#[test]
fn a_slow_request_is_named_with_where_its_time_went() {
    let server = Setup::with_files()
        .outside("slow.py", SLOW.as_bytes())
        .route("/slow/*", "pool = \"slow\"")
        .python("slow", "slow:application", "A = \"1\"", "workers = 1")
        .start();
    assert_eq!(server.connect().get("/slow/report?secret").status, 200);
    eventually("the request is there", || server.status()["slowest"][0]["path"] == "/slow/report");
    let slow = server.status()["slowest"][0].clone();
    assert_eq!((&slow["method"], &slow["status"]), (&"GET".into(), &200.into()), "{slow}");
    assert!(slow["answer_us"].as_u64() >= Some(150_000), "{slow}");
    assert!(slow["took_us"].as_u64() >= slow["answer_us"].as_u64(), "{slow}");
    assert!(slow["route"].as_str().unwrap().contains("/slow/*: pool slow"), "{slow}");
    assert_eq!(slow["request_id"].as_str().map(str::len), Some(32), "{slow}");
    assert!(!slow.to_string().contains("secret"), "a query may be secret");
    server.stop();
}
