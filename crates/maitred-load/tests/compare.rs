//! Comparisons of servers that differ in known ways, and of servers that misbehave.

#![allow(clippy::unwrap_used, reason = "the helpers of a test may panic as the test may")]

mod support;

#[path = "compare/tls.rs"]
mod tls;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use maitred_load::compare::source::Known;
use maitred_load::compare::{Case, Echo, FollowUp, Gathered, Options, Report, Request, Source, allow, run};
use maitred_load::target::Target;
use support::*;

fn options(left: &Server, right: &Server) -> Options {
    let target = |server: &Server| Target::parse(&server.url(), false).unwrap();
    Options { rate: 10_000, timeout: Duration::from_secs(20), ..Options::new(target(left), target(right)) }
}

fn gathered(requests: Vec<Request>) -> Gathered {
    let case = |request| Case { request, ..Case::default() };
    Gathered { cases: requests.into_iter().map(case).collect(), ..Gathered::default() }
}

fn targets(targets: &[&str]) -> Gathered {
    gathered(targets.iter().map(|target| Request::get(*target)).collect())
}

fn response_with(status: u16, fields: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} Status\r\nContent-Length: {}\r\n{fields}\r\n{body}", body.len()).into_bytes()
}

fn target_of(head: &str) -> String {
    head.split(' ').nth(1).unwrap().to_owned()
}

fn kinds(report: &Report) -> Vec<(&str, u64)> {
    report.kinds().into_iter().collect()
}

/// What both sides answer, by the target.
type Answers =
    &'static [(&'static str, (u16, &'static str, &'static str), (u16, &'static str, &'static str))];

const ANSWERS: Answers = &[
    (
        "/same",
        (200, "Server: nginx\r\nVary: A, B\r\nETag: \"1\"\r\n", "a"),
        (200, "ETag: \"2\"\r\nVary: b,a\r\n", "a"),
    ),
    ("/status", (200, "X-A: 1\r\n", "a"), (404, "", "b")),
    ("/field", (200, "X-A: 1\r\n", "a"), (200, "", "a")),
    ("/added", (200, "", "a"), (200, "X-A: 1\r\n", "a")),
    ("/value", (200, "Cache-Control: max-age=1\r\n", "a"), (200, "Cache-Control: max-age=2\r\n", "a")),
    ("/body", (200, "", "aaa"), (200, "", "aab")),
    ("/error", (404, "", "<p>Not here"), (404, "", "404 Not Found")),
    (
        "/own",
        (404, "Content-Type: text/html\r\n", ""),
        (404, "Content-Type: text/plain\r\n", "404 Not Found"),
    ),
    ("/cookie", (200, "Set-Cookie: a=1; Path=/\r\n", ""), (200, "Set-Cookie: a=2; Path=/b\r\n", "")),
    ("/to/here", (301, "Location: /to/there\r\n", ""), (301, "Location: there\r\n", "")),
    ("/to/other", (301, "Location: /a\r\n", ""), (301, "Location: /b\r\n", "")),
];

fn answering(answers: Answers, side: usize) -> Server {
    Server::start(move |_, _, head| {
        let target = target_of(head);
        let found = answers.iter().find(|(other, ..)| *other == target);
        let (_, left, right) = found.unwrap_or(&("", (500, "", ""), (501, "", "")));
        let (status, fields, body) = if side == 0 { left } else { right };
        Act::Send(response_with(*status, fields, body))
    })
}

#[test]
fn every_difference_is_found_and_no_other() {
    let (left, right) = (answering(ANSWERS, 0), answering(ANSWERS, 1));
    let all: Vec<&str> = ANSWERS.iter().map(|(target, ..)| *target).collect();
    let report = run(&options(&left, &right), targets(&all)).unwrap();
    assert_eq!(
        kinds(&report),
        [
            ("body differs", 1),
            ("body of 404 differs", 1),
            ("field cache-control differs", 1),
            ("field set-cookie differs", 1),
            ("field x-a missing on the left", 1),
            ("field x-a missing on the right", 1),
            ("redirect: field location differs", 1),
            ("status 200 -> 404", 1),
        ]
    );
    assert_eq!((report.compared, report.same, report.exit_code()), (11, 3, 3));
    let found = report.differences.iter().find(|group| group.kind == "body differs").unwrap();
    assert_eq!(found.example.request, "GET /body");
    assert!(
        found.example.left.ends_with("from byte 2: a") && found.example.right.ends_with("from byte 2: b")
    );
    assert_eq!(
        found.example.curl_left,
        format!("curl -si -H 'Host: localhost' --path-as-is -g 'http://{}/body'", left.address)
    );
    // One after the other, each as it is spelled, over one connection.
    assert_eq!(left.seen().iter().map(Seen::target).collect::<Vec<_>>(), all);
    assert!(left.seen().iter().all(|seen| seen.connection == 0));
}

#[test]
fn differences_that_are_meant_are_accepted() {
    let (left, right) = (answering(ANSWERS, 0), answering(ANSWERS, 1));
    let accepted = "field x-a * at /f* # known\nstatus 200 -> 404 # known\nbody differs at /other # never\n";
    let options = Options { allowances: allow::parse(accepted).unwrap(), ..options(&left, &right) };
    let report = run(&options, targets(&["/field", "/status"])).unwrap();
    assert_eq!((report.exit_code(), report.accepted.len()), (0, 2));
    assert_eq!(report.notes, ["line 3 of the accepted differences matched nothing: body differs at /other"]);
    let report = run(&options, targets(&["/field", "/added"])).unwrap();
    assert_eq!(kinds(&report), [("field x-a missing on the left", 1)]);
}

#[test]
fn methods_that_change_things_and_more_than_was_wanted_are_not_sent() {
    let (left, right) = (Server::answering("a"), Server::answering("a"));
    let post = || Request { method: "POST".to_owned(), body: b"abc".to_vec(), ..Request::get("/p") };
    let report = run(&options(&left, &right), gathered(vec![post(), Request::get("/g")])).unwrap();
    assert_eq!((report.compared, left.seen().len()), (1, 1));
    assert!(report.notes[0].contains("--unsafe-methods"), "{:?}", report.notes);
    let options = Options { unsafe_methods: true, requests_max: 2, ..options(&left, &right) };
    let report = run(&options, gathered(vec![post(), Request::get("/g"), Request::get("/h")])).unwrap();
    assert_eq!((report.compared, report.exit_code(), left.seen().len()), (2, 0, 3));
    assert!(
        left.seen()[1].head.starts_with("POST /p ") && left.seen()[1].head.contains("Content-Length: 3\r\n")
    );
    assert!(report.notes[0].starts_with("the first 2 requests"), "{:?}", report.notes);
}

#[test]
fn each_server_gets_its_own_validators() {
    let tagged = |tag: &'static str, answers: bool| {
        Server::start(move |_, _, head| {
            let is_known = head.contains(&format!("If-None-Match: {tag}\r\n"));
            let status = if is_known && answers { 304 } else { 200 };
            let body = if status == 304 { "" } else { "a" };
            Act::Send(response_with(status, &format!("ETag: {tag}\r\n"), body))
        })
    };
    let case = || {
        let (request, follow_ups) = (Request::get("/"), vec![FollowUp::Tag, FollowUp::Date]);
        Gathered { cases: vec![Case { request, follow_ups, about: "a".into() }], ..Gathered::default() }
    };
    let (left, right, broken) = (tagged("\"l\"", true), tagged("\"r\"", true), tagged("\"r\"", false));
    let report = run(&options(&left, &right), case()).unwrap();
    assert_eq!((report.compared, report.exit_code()), (2, 0));
    let report = run(&options(&left, &broken), case()).unwrap();
    assert_eq!(kinds(&report), [("status 304 -> 200", 1)]);
    let example = &report.differences[0].example;
    assert!(example.curl_left.contains("-H 'If-None-Match: \"l\"'"), "{}", example.curl_left);
    assert!(example.curl_right.contains("-H 'If-None-Match: \"r\"'"), "{}", example.curl_right);
}

/// A proxy that changes the head of each request, and passes on the response to it.
fn proxy(to: SocketAddr, change: fn(&str) -> String) -> Server {
    Server::start(move |_, _, head| {
        let mut upstream = TcpStream::connect(to).unwrap();
        upstream.write_all(change(head).replace("HTTP/1.1", "HTTP/1.0").as_bytes()).unwrap();
        let mut bytes = Vec::new();
        upstream.read_to_end(&mut bytes).unwrap();
        Act::SendAndClose(bytes)
    })
}

#[test]
fn what_applications_receive_is_compared() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let (one, two) = (Echo::start(any).unwrap(), Echo::start(any).unwrap());
    let left = proxy(one.address(), |head| head.replace("Host:", "X-Real-IP: 127.0.0.1\r\nVia: a\r\nHost:"));
    let right = proxy(two.address(), |head| {
        let head = head.replace("/spelled//so", "/spelled/so").replace("HEAD ", "GET ");
        if head.contains("/plain") {
            head.replace("Host:", "X-Real-IP: 127.0.0.1\r\nVia: b\r\nHost:")
        } else {
            head
        }
    });
    let options = Options { echo: Some((one, two)), ..options(&left, &right) };
    let head = Request { method: "HEAD".to_owned(), ..Request::get("/plain/head") };
    let requests = vec![Request::get("/plain"), Request::get("/spelled//so"), Request::get("/x"), head];
    let report = run(&options, gathered(requests)).unwrap();
    assert_eq!(
        kinds(&report),
        [
            ("application: field via missing on the right", 2),
            ("application: field x-real-ip missing on the right", 2),
            ("application: method differs", 1),
            ("application: target differs", 1),
        ]
    );
    assert_eq!(report.reached_applications, Some(4));
    let example = &report.differences[0].example;
    assert_eq!(example.request, "GET /x", "the smallest request");
}

#[test]
fn a_request_that_no_application_receives_is_a_difference() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let (one, two) = (Echo::start(any).unwrap(), Echo::start(any).unwrap());
    let left = proxy(one.address(), str::to_owned);
    let right = Server::answering("from a cache");
    let options = Options { echo: Some((one, two)), ..options(&left, &right) };
    let report = run(&options, targets(&["/"])).unwrap();
    let found = report.kinds();
    assert_eq!(found.get("application: request missing on the right"), Some(&1), "{found:?}");
}

/// A server that sends these bytes again and again, after a start, as long as they are taken.
fn endless(start: &'static str, again: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(start.as_bytes());
                let piece = again.repeat(4096 / again.len().max(1));
                while stream.write_all(&piece).is_ok() && !piece.is_empty() {}
            });
        }
    });
    address
}

#[test]
fn servers_that_misbehave_end_within_bounds() {
    let good = Server::answering("a");
    let cases: &[(&str, &'static str, &'static [u8], &str)] = &[
        ("an endless body", "HTTP/1.1 200 OK\r\n\r\n", b"a", "body differs"),
        ("an endless head", "HTTP/1.1 200 OK\r\nA: ", b"a", "status 200 -> no valid response"),
        ("endless fields", "HTTP/1.1 200 OK\r\n", b"A: b\r\n", "status 200 -> no valid response"),
        ("endless interim ones", "", b"HTTP/1.1 103 Early\r\n\r\n", "status 200 -> a response without end"),
        (
            "an endless trailer",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            b"A: b\r\n",
            "status 200 -> a response without end",
        ),
        (
            "an endless extension",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;",
            b"a",
            "status 200 -> no valid response",
        ),
        ("garbage", "\0\u{1}\u{2}", b"\xff\xfe", "status 200 -> no valid response"),
        ("another protocol", "SSH-2.0-OpenSSH_9\r\n", b"\r\n", "status 200 -> no valid response"),
    ];
    for (what, start, again, kind) in cases {
        let address = endless(start, again);
        let right = Target::parse(&format!("http://{address}"), false).unwrap();
        let options = Options { right, body_bytes_max: 64 << 10, ..options(&good, &good) };
        let began = Instant::now();
        let report = run(&options, targets(&["/"])).unwrap();
        assert!(report.kinds().contains_key(*kind), "{what}: {:?}", report.kinds());
        assert!(began.elapsed() < options.timeout, "{what}: it took {:?}", began.elapsed());
    }
}

#[test]
fn a_server_that_says_nothing_ends_the_run() {
    let (good, silent) = (Server::answering("a"), Server::start(|_, _, _| Act::Hang));
    let options = Options { timeout: Duration::from_millis(100), ..options(&good, &silent) };
    let all: Vec<Request> = (0..1000).map(|number| Request::get(format!("/{number}"))).collect();
    let report = run(&options, gathered(all.clone())).unwrap();
    assert_eq!(report.exit_code(), 3);
    assert!(report.compared <= 11 && !report.is_complete, "{} requests", report.compared);
    assert!(report.notes.iter().any(|note| note.starts_with("the right server has not answered 10")));
    // Both: that is no difference, but no proof either.
    let other = Server::start(|_, _, _| Act::Hang);
    let options = Options { timeout: Duration::from_millis(100), ..self::options(&silent, &other) };
    let report = run(&options, gathered(all.clone())).unwrap();
    assert_eq!((report.exit_code(), report.compared), (1, 0));
    assert_eq!(report.failed, BTreeMap::from([("timeout".to_owned(), 10)]));
    // The time of the whole run.
    let slow = Options { rate: 1, duration_max: Duration::from_millis(300), ..self::options(&good, &good) };
    let began = Instant::now();
    let report = run(&slow, gathered(all)).unwrap();
    assert!(began.elapsed() < Duration::from_secs(20) && !report.is_complete);
    assert_eq!(report.exit_code(), 1);
}

#[test]
fn a_kept_connection_that_the_server_closes_is_no_failure() {
    let closing = || {
        Server::start(|_, number, _| {
            let answer = response(200, "a");
            // The second request on a connection is read, and not answered.
            if number == 0 { Act::Send(answer) } else { Act::SendAndClose(Vec::new()) }
        })
    };
    let (left, right) = (closing(), closing());
    let report = run(&options(&left, &right), targets(&["/a", "/b", "/c"])).unwrap();
    assert_eq!((report.compared, report.exit_code()), (3, 0), "{:?}", report.kinds());
}

#[test]
fn several_threads_send_each_request_once() {
    let (left, right) = (Server::answering("a"), Server::answering("a"));
    let all: Vec<String> = (0..200).map(|number| format!("/{number}")).collect();
    let requests = all.iter().map(|target| Request::get(target.as_str())).collect();
    let report = run(&Options { threads: 4, ..options(&left, &right) }, gathered(requests)).unwrap();
    assert_eq!((report.compared, report.same, report.exit_code()), (200, 200, 0));
    for server in [left, right] {
        let mut seen: Vec<String> = server.seen().iter().map(|seen| seen.target().to_owned()).collect();
        seen.sort_by_key(|target| target[1..].parse::<u32>().unwrap());
        assert_eq!(seen, all);
    }
}

#[test]
fn the_program_shows_and_writes_what_it_finds() {
    let (left, right) = (answering(ANSWERS, 0), answering(ANSWERS, 1));
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| write(directory.path(), name, text.as_bytes());
    let requests = file("requests", "/field\n{\"target\": \"/value\", \"host\": \"a.example\"}\n");
    let (json, html) = (file("json", ""), file("html", ""));
    let both = ["compare", "--left", &left.url(), "--right", &right.url()].map(str::to_owned);
    let both: Vec<&str> = both.iter().map(String::as_str).collect();
    let output = program(&[&both[..], &["--requests", &requests, "--json", &json, "--html", &html]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(
        text.contains("The servers differ, in 2 ways.") && text.contains("field x-a missing on the right"),
        "{text}"
    );
    let value: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!((&value["compared"], value["differences"].as_array().unwrap().len()), (&2.into(), 2));
    assert!(std::fs::read_to_string(html).unwrap().contains("field cache-control differs"));
    let accepted = file("accepted", "field * # known\n");
    let output = program(&[&both[..], &["--requests", &requests, "--allow", &accepted]].concat());
    assert_eq!(output.status.code(), Some(0));
    // A log, and a configuration.
    let log = log_of(directory.path(), 3);
    assert_eq!(program(&[&both[..], &["--log", &log]].concat()).status.code(), Some(3));
    let nginx = file("nginx.conf", "server { listen 80; location = /same { } }");
    let output = program(&[&both[..], &["--from", &nginx, "--rate", "10000"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("status 500 -> 501"), "{text}");
}

#[test]
fn what_cannot_be_done_is_said() {
    let server = Server::answering("a");
    let (_socket, nothing) = reserved_address();
    let directory = tempfile::tempdir().unwrap();
    let requests = write(directory.path(), "requests", b"/a\n");
    let empty = write(directory.path(), "empty", b"\n");
    let url = server.url();
    let nowhere = format!("http://{nothing}");
    let (tls, source) = (url.replace("http:", "https:"), ["--requests", requests.as_str()]);
    let run = |left: &str, right: &str, rest: &[&str]| {
        failing(&[&["compare", "--left", left, "--right", right], rest].concat())
    };
    let (code, message) = run(&url, &nowhere, &source);
    assert_eq!((code, message.contains("no connection to the right server")), (1, true), "{message}");
    for (left, right, rest, said) in [
        (&url, &tls, &source[..], "both http:// or both https://"),
        (&url, &url, &[][..], "--log"),
        (&url, &url, &["--requests", &empty][..], "no request"),
        (&url, &url, &["--log", &empty][..], "no line of an access log"),
        (&url, &url, &["--from", &empty][..], "no `server`"),
        (&url, &url, &["--requests", "/nowhere"][..], "/nowhere"),
        (&url, &url, &["--requests", &requests, "--allow", &requests][..], "the reason"),
        (&url, &url, &["--requests", &requests, "--insecure"][..], "https://"),
        (&url, &"http://192.0.2.1".to_owned(), &source[..], "public address"),
    ] {
        let (code, message) = run(left, right, rest);
        assert_eq!((code, message.contains(said)), (2, true), "{said}: {message}");
    }
}

#[test]
fn a_configuration_is_read_with_what_it_includes() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("sites")).unwrap();
    write(
        directory.path(),
        "sites/a.conf",
        b"server { listen 80; include nginx.conf; location = /included { } }",
    );
    let file = write(directory.path(), "nginx.conf", b"http { include sites/*.conf; include missing.conf; }");
    let known = Known { cases_max: 1000, ..Known::default() };
    let found = Source::Nginx(file.into(), None).gather(&known).unwrap();
    assert!(found.cases.iter().any(|case| case.request.target == b"/included"));
}

/// Configurations in the shapes of public ones: each with a server gives requests that can be sent.
#[test]
fn real_configurations_give_requests() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../maitred/tests/upstreams/import/nginx");
    let known = Known { cases_max: 500, ports: [(443, (1, 2))].into(), ..Known::default() };
    let mut asked = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "conf") {
            continue;
        }
        match Source::Nginx(path.clone(), None).gather(&known) {
            Ok(found) => {
                asked += 1;
                assert!((1..=500).contains(&found.cases.len()));
                for case in &found.cases {
                    assert_eq!(case.request.check(), Ok(()), "{}: {}", path.display(), case.request.shown());
                }
            }
            Err(why) => assert!(why.contains("no `server`") || why.contains("no request"), "{why}"),
        }
    }
    assert!(asked >= 60, "only {asked} of the corpus");
}
