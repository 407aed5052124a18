//! `maitred-load specweb`: the data set, runs against the servers of `examples/specweb`, and the search.

#![allow(clippy::unwrap_used, reason = "the helpers of a test may panic as the test may")]

mod support;

use std::sync::Mutex;
use std::time::Duration;

use support::sites::Site;
use support::*;

/// Requests of each kind, good and bad.
fn requests() -> Vec<String> {
    let get = |target: &str, cookie: &str| {
        format!("GET /app/{target} HTTP/1.1\r\nHost: h\r\n{cookie}Connection: close\r\n\r\n")
    };
    let post = |body: &str| {
        format!(
            "POST /app/post HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    };
    let mut all = vec![
        get("get?/file_set/dir00000/class0_0", ""),
        get("get?/file_set/dir00001/class3_8", ""),
        get("get?/file_set/dir00002/class0_0", ""),
        get("get?/file_set/dir00000/class4_0", ""),
        get("get?/file_set/dir00000/class0_0/../class0_1", ""),
        get("get?/post.log", ""),
        get("get", ""),
        get("rotate?/file_set/dir00000/class1_3", ""),
        get("rotate?/nothing", "Cookie: user_id=7; last_ad=3\r\n"),
        post("urlroot=/file_set/dir00001/class2_4&user_id=4711"),
        post("urlroot=/file_set/dir00001/class2_4&user_id=me"),
        post("urlroot=/etc/passwd&user_id=1"),
    ];
    for number in 0..40 {
        let (user, last) = (number * 997 % 36_000, number * 9);
        let cookie = format!("Cookie: user_id={user}; last_ad={last}\r\n");
        all.push(get(&format!("rotate?/file_set/dir00000/class0_{}", number % 9), &cookie));
    }
    all
}

/// Starts a variant, or says why it cannot run here.
type Start = fn() -> Result<Site, String>;
type Answer = (u16, Option<String>, Vec<u8>);

fn answers(site: &Site) -> Vec<Answer> {
    requests().iter().map(|request| site.ask(request)).collect()
}

/// What the application is said to do, of the variant in Python.
fn check(answers: &[Answer]) {
    let statuses: Vec<u16> = answers.iter().map(|(status, ..)| *status).collect();
    assert_eq!(statuses[..12], [200, 200, 404, 404, 404, 404, 404, 200, 404, 200, 404, 404]);
    let page = String::from_utf8(answers[0].2.clone()).unwrap();
    assert!(
        page.starts_with("<html>") && page.contains("<p>a page</p>\n<pre>\nfile_set/dir00000/class0_0\n"),
        "{page}"
    );
    assert!((921_600..922_000).contains(&answers[1].2.len()));
    assert!(answers[..7].iter().all(|(_, cookie, _)| cookie.is_none()), "only an advertisement has a cookie");
    assert!(String::from_utf8_lossy(&answers[9].2).contains("<p>registered</p>"));
    let cookies: std::collections::BTreeSet<_> =
        answers[12..].iter().map(|(_, cookie, _)| cookie.clone()).collect();
    assert!(
        cookies.len() > 30 && !cookies.contains(&None),
        "users see different advertisements: {cookies:?}"
    );
}

/// All variants that can run here answer the same, and bear a short load.
#[test]
fn the_application_is_the_same_everywhere() {
    let python = match Site::maitred("maitred.toml") {
        Ok(site) => site,
        Err(why) => return skip::skip_missing(why),
    };
    let wanted = answers(&python);
    check(&wanted);
    let variants: [(&str, Start); 4] = [
        ("Maitred with Rust", || Site::maitred("maitred-rust.toml")),
        ("Maitred with Apache and PHP", || Site::apache(true)),
        ("Apache with PHP", || Site::apache(false)),
        ("nginx with PHP", Site::nginx),
    ];
    bears_load("Maitred with Python", &python);
    for (name, start) in variants {
        let site = match start() {
            Ok(site) => site,
            Err(why) => {
                skip::skip_missing(format_args!("{name}: {why}"));
                continue;
            }
        };
        for ((request, wanted), found) in requests().iter().zip(&wanted).zip(answers(&site)) {
            // A server may have its own page for what is not found.
            let is_same = if wanted.0 == 404 { found.0 == 404 } else { found == *wanted };
            let head = request.lines().next().unwrap();
            assert!(
                is_same,
                "{name}: {head}: {} {:?} instead of {} {:?}",
                found.0, found.1, wanted.0, wanted.1
            );
        }
        let log = std::fs::read_to_string(site.data.join("post.log")).unwrap();
        assert_eq!(log, "4711 /file_set/dir00001/class2_4\n", "{name}");
        bears_load(name, &site);
    }
}

fn bears_load(name: &str, site: &Site) {
    let (code, report) = json(&["specweb", "--to", &site.url(), "-c", "4", "--directories", "2", "-d", "2s"]);
    assert_eq!((code, &report["failures"]), (0, &0.into()), "{name}: {report}");
    let statuses = report["statuses"].as_array().unwrap();
    assert!(statuses.len() == 1 && statuses[0][0] == 200, "{name}: {statuses:?}");
    assert!(report["responses"].as_u64().unwrap() > 10, "{name}: {report}");
    assert_eq!(report["specweb"]["connections"], 4);
    let mean = report["specweb"]["mean_bits_per_second"].as_f64().unwrap();
    assert!((1.0..=400_001.0).contains(&mean), "{name}: no connection is faster than its line: {mean}");
    assert!(report["notes"][0].as_str().unwrap().contains("no SPEC metric"));
}

#[test]
fn the_data_set_is_made_once() {
    let directory = tempfile::tempdir().unwrap();
    let make = || {
        let output =
            program(&["specweb", directory.path().to_str().unwrap(), "--make", "--directories", "3"]);
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(make().starts_with("108 files made, 0 were there: 3 directories"));
    assert!(make().starts_with("0 files made, 108 were there"));
}

#[test]
fn a_run_needs_a_server_or_a_directory() {
    for arguments in [
        &["specweb"][..],
        &["specweb", "d"],
        &["specweb", "--make"],
        &["specweb", "d", "--make", "--search"],
        &["specweb", "--to", "http://127.0.0.1:1", "--first", "3"],
    ] {
        let (code, message) = failing(arguments);
        assert_eq!(code, 2, "{message}");
    }
}

/// A server that gives one answer of 5000 bytes after another, each after 5 ms: enough for 20 connections of 400 kbit/s, and
/// for 25 of 320.
fn of_one_at_a_time() -> Server {
    let turn = Mutex::new(());
    Server::start(move |_, _, _| {
        let _turn = turn.lock();
        wait::pace(Duration::from_millis(5));
        Act::Send(response(200, &"x".repeat(5000)))
    })
}

#[test]
fn a_search_finds_how_many_conform() {
    let server = of_one_at_a_time();
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("out.html");
    let arguments = [
        "specweb",
        "--to",
        &server.url(),
        "--search",
        "-c",
        "80",
        "--first",
        "3",
        "--repeats",
        "2",
        "-d",
        "1s",
        "--report",
        page.to_str().unwrap(),
    ];
    let (code, report) = json(&arguments);
    assert_eq!(code, 0);
    let search = &report["search"];
    let number = |name: &str| search[name].as_u64().unwrap();
    // On a busy machine the server takes longer. The server can never do more than 26 for long; in a second, what is under way
    // at its ends counts, too.
    assert!((1..=30).contains(&number("connections")), "{search}");
    assert!(number("fails_at") > number("connections") && number("passed") >= 2, "{search}");
    assert_eq!((&search["is_complete"], &search["is_bound"]), (&true.into(), &false.into()));
    assert_eq!(report["specweb"]["connections"], search["connections"], "the report is that of the answer");
    let trials = search["trials"].as_array().unwrap();
    assert!((5..=64).contains(&trials.len()));
    assert!(trials.iter().any(|trial| trial["passed"] == false && trial["conforming"].as_u64() < Some(80)));
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("Trials of the search") && page.contains("a further trial passes"));
}

#[test]
fn a_search_is_bounded_in_time_and_says_so() {
    let server = Server::answering("ok");
    let arguments = ["specweb", "--to", &server.url(), "--search", "-d", "500ms", "--search-time", "1s"];
    let output = program(&arguments);
    assert_eq!(output.status.code(), Some(0));
    let (text, lines) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(lines.lines().count(), 1, "one trial: {lines}");
    assert!(text.contains("the search ended before it was sure"), "{text}");
}

#[test]
fn a_search_without_any_response_is_an_error() {
    let server = Server::start(|_, _, _| Act::SendAndClose(Vec::new()));
    let (code, message) = failing(&["specweb", "--to", &server.url(), "--search", "-d", "500ms"]);
    assert!(code == 1 && message.contains("no request got a response"), "{message}");
}
