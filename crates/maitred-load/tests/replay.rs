//! `maitred-load replay` against a server that follows a script.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use support::*;

#[test]
fn every_request_of_the_log_is_sent_once_in_order() {
    let (server, directory) = (Server::answering("ok"), tempfile::tempdir().unwrap());
    let log = log_of(directory.path(), 1000);
    let (code, report) = json(&["replay", &log, "--to", &server.url(), "-c", "4"]);
    assert_eq!(code, 0);
    assert_eq!((&report["responses"], &report["failures"]), (&1000.into(), &0.into()));
    assert_eq!(report["statuses"], serde_json::json!([[200, 1000]]));
    assert_eq!(report["body_bytes"], 2000);
    assert_eq!(report["connections"], 1, "one client has one connection");
    let targets: Vec<_> = server.seen().iter().map(|seen| seen.target().to_owned()).collect();
    assert_eq!(targets, (0..1000).map(|number| format!("/{number}")).collect::<Vec<_>>());
}

#[test]
fn sessions_are_kept_together_by_address() {
    let (server, directory) = (Server::answering("ok"), tempfile::tempdir().unwrap());
    let text: String = (0..600)
        .map(|number| {
            let client = number % 7;
            line(&format!("192.0.2.{client}"), 0, &format!("GET /{client}/{number} HTTP/1.1"), 200, "2")
        })
        .collect();
    let log = write(directory.path(), "access.log", text.as_bytes());
    let (_, report) = json(&["replay", &log, "--to", &server.url(), "-c", "3"]);
    assert_eq!(report["responses"], 600);
    let mut clients: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    let mut orders: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for seen in server.seen() {
        let mut parts = seen.target().split('/').skip(1);
        let (client, number) = (parts.next().unwrap().to_owned(), parts.next().unwrap().parse().unwrap());
        clients.entry(seen.connection).or_default().insert(client.clone());
        orders.entry(client).or_default().push(number);
    }
    assert!(
        clients.values().all(|clients| clients.len() == 1),
        "a connection belongs to one client: {clients:?}"
    );
    assert!(orders.values().all(|order| order.is_sorted()), "a client's requests keep their order");
    assert_eq!(orders.len(), 7);

    let (_, report) = json(&["replay", &log, "--to", &server.url(), "-c", "3", "--sessions", "none"]);
    assert_eq!((&report["responses"], &report["connections"]), (&600.into(), &3.into()));
}

#[test]
fn keep_alive_can_be_turned_off() {
    let (server, directory) = (Server::answering("ok"), tempfile::tempdir().unwrap());
    let log = log_of(directory.path(), 20);
    let (_, report) = json(&["replay", &log, "--to", &server.url(), "--no-keep-alive"]);
    assert_eq!((&report["responses"], &report["connections"]), (&20.into(), &20.into()));
    assert!(server.seen().iter().all(|seen| seen.head.contains("Connection: close\r\n")));
}

#[test]
fn requests_can_be_limited_and_the_log_repeated() {
    let (server, directory) = (Server::answering("ok"), tempfile::tempdir().unwrap());
    let log = log_of(directory.path(), 10);
    let (_, report) = json(&["replay", &log, "--to", &server.url(), "-n", "7"]);
    assert_eq!(report["responses"], 7);
    let (_, report) =
        json(&["replay", &log, "--to", &server.url(), "-n", "25", "--loop", "--sessions", "none"]);
    assert_eq!((&report["responses"], &report["log"]["passes"]), (&25.into(), &3.into()));
    let (_, report) = json(&["replay", &log, "--to", &server.url(), "-d", "300ms", "--loop"]);
    let elapsed = report["elapsed"].as_f64().unwrap();
    assert!((0.3..60.0).contains(&elapsed), "{elapsed}");
}

#[test]
fn several_threads_share_the_log() {
    let (server, directory) = (Server::answering("ok"), tempfile::tempdir().unwrap());
    let text: String = (0..5000)
        .map(|number| {
            line(&format!("10.0.0.{}", number % 50), 0, &format!("GET /{number} HTTP/1.1"), 200, "2")
        })
        .collect();
    let log = write(directory.path(), "access.log", text.as_bytes());
    for sessions in ["address", "none"] {
        let before = server.seen().len();
        let arguments = ["replay", &log, "--to", &server.url(), "-t", "3", "-c", "6", "--sessions", sessions];
        let (_, report) = json(&arguments);
        assert_eq!(report["responses"], 5000);
        let targets: BTreeSet<_> =
            server.seen()[before..].iter().map(|seen| seen.target().to_owned()).collect();
        assert_eq!(targets.len(), 5000);
    }
}

/// `-c` is for all threads together, however they share it.
#[test]
fn there_are_never_more_connections_than_asked_for() {
    // Connections that are not closed: each is a part of what is open at a time.
    let (server, directory) = (Server::answering("ok"), tempfile::tempdir().unwrap());
    let log = log_of(directory.path(), 600);
    for (threads, connections) in [("8", 2), ("3", 4)] {
        let count = connections.to_string();
        let arguments =
            ["replay", &log, "--to", &server.url(), "--sessions", "none", "-t", threads, "-c", &count];
        let (_, report) = json(&arguments);
        assert_eq!((&report["responses"], &report["sent_again"]), (&600.into(), &0.into()));
        assert!(report["connections"].as_u64().unwrap() <= connections, "{threads} threads: {report}");
    }
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    let (server, directory) = (Server::answering("ok"), tempfile::tempdir().unwrap());
    let log = log_of(directory.path(), 3);
    let curve = write(directory.path(), "curve", b"0 10\n1 10\n");
    for (more, told) in [
        (&["--rate", &curve, "--ramp", "1s"][..], "--ramp is not for --rate"),
        (&["--rate", &curve, "--reorder", "1s"], "--reorder is for --speed"),
        (&["--reorder", "1s"], "--reorder is for --speed"),
        (&["--timeout", "0s"], "no time at all"),
        (&["--duration", "0"], "no time at all"),
    ] {
        let (code, message) = failing(&[&["replay", &log, "--to", &server.url()][..], more].concat());
        assert!(code == 2 && message.contains(told), "{message}");
    }
    assert!(server.seen().is_empty());
}

#[test]
fn the_logs_own_timing_is_kept() {
    let (server, directory) = (Server::answering("ok"), tempfile::tempdir().unwrap());
    // Two requests at once, and two a hundred seconds later.
    let text: String = [0, 0, 100, 100]
        .iter()
        .enumerate()
        .map(|(number, second)| line("::1", *second, &format!("GET /{number} HTTP/1.1"), 200, "2"))
        .collect();
    let log = write(directory.path(), "access.log", text.as_bytes());
    let (_, report) = json(&["replay", &log, "--to", &server.url(), "--speed", "200x"]);
    assert_eq!(report["responses"], 4);
    let elapsed = report["elapsed"].as_f64().unwrap();
    assert!((0.5..60.0).contains(&elapsed), "100 s at 200x take half a second: {elapsed}");
    let counts: Vec<u64> = report["series"]["responses"]
        .as_array()
        .unwrap()
        .iter()
        .map(|count| count.as_u64().unwrap())
        .collect();
    let points = (0.5 / report["series"]["width"].as_f64().unwrap()).round() as usize;
    assert_eq!(counts[..points].iter().sum::<u64>(), 2, "the first two come before the others: {counts:?}");
}

#[test]
fn latency_is_counted_from_the_intended_time() {
    // Every response takes 50 ms, on one connection; twenty requests are due at once.
    let server = Server::start(|_, _, _| Act::Late(Duration::from_millis(50), response(200, "ok")));
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), 20);
    let (_, report) =
        json(&["replay", &log, "--to", &server.url(), "--speed", "100000x", "--per-client", "1"]);
    assert_eq!(report["responses"], 20);
    let (latency, service) = (&report["latency_us"]["max"], &report["service_us"]["quantiles"][0][1]);
    let (latency, service) = (latency.as_f64().unwrap(), service.as_f64().unwrap());
    assert!(latency > 900_000.0, "the last one waited for 19 others: {latency}");
    // Half of them take no longer than this. From the intended time it would be half as long as the last one's latency.
    assert!(
        service * 4.0 < latency,
        "each by itself took 50 ms, or as long as this machine takes: {service}"
    );
}

#[test]
fn what_was_due_and_not_sent_is_counted() {
    let server = Server::start(|_, _, _| Act::Late(Duration::from_millis(200), response(200, "ok")));
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), 2000);
    let arguments = [
        "replay",
        &log,
        "--to",
        &server.url(),
        "--speed",
        "1000x",
        "-c",
        "1",
        "-d",
        "500ms",
        "--timeout",
        "2s",
    ];
    let (_, report) = json(&arguments);
    let count = |name: &str| report[name].as_u64().unwrap();
    assert!(count("responses") >= 1);
    assert_eq!(
        count("responses") + count("unsent") + count("unfinished") + count("failures"),
        2000,
        "{report}"
    );
}

#[test]
fn a_rate_curve_sets_the_arrivals() {
    let (server, directory) = (Server::answering("ok"), tempfile::tempdir().unwrap());
    let log = log_of(directory.path(), 5000);
    let curve = write(directory.path(), "curve", b"# rise\n0 0\n0.5 400\n");
    let (_, report) = json(&["replay", &log, "--to", &server.url(), "--rate", &curve]);
    // On a busy machine the last ones may come when the time is over.
    let count = |name: &str| report[name].as_u64().unwrap();
    let due = count("responses") + count("unsent") + count("unfinished");
    assert_eq!((due, count("failures")), (100, 0), "half of 0.5 s times 400 per second: {report}");
    assert!(count("responses") > 50, "{report}");
    let elapsed = report["elapsed"].as_f64().unwrap();
    assert!((0.45..60.0).contains(&elapsed), "{elapsed}");
    let bad = write(directory.path(), "bad", b"0 0\nx\n");
    let (code, message) = failing(&["replay", &log, "--to", &server.url(), "--rate", &bad]);
    assert!(code == 2 && message.contains("line 2: wanted"), "{message}");
}

#[test]
fn a_ramp_opens_connections_one_after_another() {
    let server = Server::start(|_, _, _| Act::Late(Duration::from_millis(20), response(200, "ok")));
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), 10);
    let arguments = [
        "replay",
        &log,
        "--to",
        &server.url(),
        "-c",
        "10",
        "--sessions",
        "none",
        "--loop",
        "-d",
        "1s",
        "--ramp",
        "1s",
    ];
    let (_, report) = json(&arguments);
    // Within one run, since whatever slows the machine slows all connections: the first one has all of the time to ask, and
    // the last one that was opened has the least.
    let mut counts = vec![0; report["connections"].as_u64().unwrap() as usize];
    server.seen().iter().for_each(|seen| counts[seen.connection] += 1);
    let (first, last) = (counts[0], counts[counts.len() - 1]);
    assert!(last * 2 < first, "requests of each connection: {counts:?}");
}

#[test]
fn other_methods_are_sent_only_if_asked_for() {
    let (server, directory) = (Server::answering("ok"), tempfile::tempdir().unwrap());
    let text =
        ["GET /a HTTP/1.1", "POST /b HTTP/1.1", "DELETE /c HTTP/1.1", "HEAD /d HTTP/1.1", "-", "GET /a\\tb"]
            .map(|request| line("::1", 0, request, 200, "2"))
            .concat();
    let log = write(directory.path(), "access.log", text.as_bytes());
    // A response to HEAD has no body, which the script does not know; so HEAD is last on its connection.
    let (_, report) = json(&["replay", &log, "--to", &server.url(), "--no-keep-alive"]);
    assert_eq!((&report["responses"], &report["log"]["other_methods"]), (&2.into(), &2.into()));
    assert_eq!((&report["log"]["unsendable"], &report["log"]["without_request"]), (&1.into(), &1.into()));
    let (_, report) = json(&["replay", &log, "--to", &server.url(), "--no-keep-alive", "--all-methods"]);
    assert_eq!(report["responses"], 4);
    let post = server.seen().into_iter().find(|seen| seen.head.starts_with("POST")).unwrap();
    assert!(post.head.contains("Content-Length: 0\r\n"));
}

#[test]
fn responses_are_compared_with_the_log() {
    let server = Server::start(|_, _, head| match head.split(' ').nth(1) {
        Some("/gone") => Act::Send(response(404, "gone")),
        _ => Act::Send(response(200, "ok")),
    });
    let directory = tempfile::tempdir().unwrap();
    let text = [
        ("/same", 200, "2"),
        ("/longer", 200, "3"),
        ("/gone", 200, "2"),
        ("/gone", 404, "77"),
        ("/any", 200, "-"),
    ]
    .map(|(target, status, bytes)| line("::1", 0, &format!("GET {target} HTTP/1.1"), status, bytes))
    .concat();
    let log = write(directory.path(), "access.log", text.as_bytes());
    let (code, report) = json(&["replay", &log, "--to", &server.url(), "--verify"]);
    assert_eq!(code, 3);
    let verified = &report["verified"];
    assert_eq!(verified["compared"], 5);
    assert_eq!((&verified["status_differs"], &verified["length_differs"]), (&1.into(), &1.into()));
    assert_eq!(verified["examples"][0]["request"], "GET /longer");
    assert_eq!(verified["examples"][1]["status"], 404);
    let same = write(directory.path(), "same.log", line("::1", 0, "GET /same HTTP/1.1", 200, "2").as_bytes());
    assert_eq!(json(&["replay", &same, "--to", &server.url(), "--verify"]).0, 0);
}

#[test]
fn the_summary_is_readable() {
    let (server, directory) = (Server::answering("ok"), tempfile::tempdir().unwrap());
    let log = log_of(directory.path(), 10);
    let output = program(&["replay", &log, "--to", &server.url()]);
    let text = String::from_utf8(output.stdout).unwrap();
    for wanted in [
        "responses       10 in",
        "status          200: 10",
        "failed          0",
        "latency         p50",
        "10 lines",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(output.stderr.is_empty(), "no progress bar where there is no terminal");
}

#[test]
fn the_report_is_one_page_without_scripts() {
    let server = Server::start(|_, _, head| match head.contains("script") {
        true => Act::Send(response(404, "no")),
        false => Act::Send(response(200, "ok")),
    });
    let directory = tempfile::tempdir().unwrap();
    let mut text = line("::1", 0, "GET /<script>alert(1)</script> HTTP/1.1", 200, "2");
    (0..200).for_each(|_| text.push_str(&line("::1", 0, "GET /a HTTP/1.1", 200, "2")));
    let log = write(directory.path(), "access.log", text.as_bytes());
    let path = directory.path().join("out.html");
    let output =
        program(&["replay", &log, "--to", &server.url(), "--verify", "--report", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3));
    let page = std::fs::read_to_string(path).unwrap();
    for wanted in [
        "<!DOCTYPE html>",
        "prefers-color-scheme: dark",
        "Latency by percentile",
        "Throughput",
        "Errors",
        "Settings",
        "Status 200</td><td class=\"n\">200",
        "&lt;script&gt;alert",
    ] {
        assert!(page.contains(wanted), "{wanted}");
    }
    for unwanted in ["<script", "http://www", "https://", "src=", "href=", "NaN"] {
        assert!(!page.contains(unwanted), "{unwanted}");
    }
    assert_eq!(page.matches("<svg").count(), 4);
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
}

#[test]
fn a_log_that_is_not_in_order_is_put_in_order() {
    let (server, directory) = (Server::answering("ok"), tempfile::tempdir().unwrap());
    // As httpd writes it: at the end of each request, with the time of its start; the last line is later than any window.
    let seconds = [30, 20, 40, 10, 100, 90, 50, 200, 5];
    let text: String = seconds
        .iter()
        .map(|second| line("::1", *second, &format!("GET /{second} HTTP/1.1"), 200, "2"))
        .collect();
    let log = write(directory.path(), "access.log", text.as_bytes());
    let common = ["replay", &log, "--to", &server.url(), "--speed", "1000x", "--per-client", "1"];
    let (_, report) = json(&common);
    let order = |skip: usize| -> Vec<u32> {
        server.seen().iter().skip(skip).map(|seen| seen.target()[1..].parse().unwrap()).collect()
    };
    assert_eq!(order(0), [10, 20, 30, 40, 50, 90, 100, 5, 200]);
    assert_eq!((&report["log"]["reordered"], &report["log"]["late"]), (&4.into(), &1.into()));
    let output = program(&common);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("4 put in order, 1 too late for that"), "{text}");

    let before = server.seen().len();
    let (_, report) = json(&[&common[..], &["--reorder", "0s"]].concat());
    assert_eq!(order(before), seconds);
    assert_eq!((&report["log"]["reordered"], &report["log"]["late"]), (&0.into(), &5.into()));
    let (code, message) = failing(&[&common[..], &["--reorder", "2h"]].concat());
    assert!(code == 2 && message.contains("--reorder is at most"), "{message}");
}

#[test]
fn a_terminal_sees_progress() {
    let there = std::process::Command::new("script").arg("--version").output();
    if !there.is_ok_and(|output| output.status.success()) {
        skip::skip_missing("no script (Debian: bsdutils)");
        return;
    }
    let server = Server::start(|_, _, _| Act::Late(Duration::from_millis(20), response(200, "ok")));
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), 50);
    let seen = |more: &str| {
        let command =
            format!("{} replay {log} --to {} -c 1 {more}", env!("CARGO_BIN_EXE_maitred-load"), server.url());
        let mut script = std::process::Command::new("script");
        let output = script.args(["-qec", &command, "/dev/null"]).env("TERM", "xterm").output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let text = seen("");
    assert!(text.contains(" responses · ") && text.contains("/s"), "a bar: {text:?}");
    assert!(text.contains("responses       50 in"), "and the summary: {text:?}");
    assert!(!seen("--quiet").contains(" responses · "));
}
