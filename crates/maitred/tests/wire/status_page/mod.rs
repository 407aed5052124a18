//! The status page and its stream of events, from outside: as bytes, and in a browser.

mod browser;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use serde_json::Value;

use crate::support::processes::send_signal;
use crate::support::{Client, Gate, Server, Setup, TIMEOUT, eventually};

/// As many may watch at a time.
const WATCHERS_MAX: usize = 32;
const ASK: &str = "GET /status/events HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// A watcher of `/status/events`.
struct Watcher {
    lines: std::io::Lines<BufReader<UnixStream>>,
}

impl Watcher {
    /// Connects, and reads the head of the response.
    fn new(server: &Server) -> Watcher {
        let mut watcher = Watcher { lines: BufReader::new(ask(server)).lines() };
        assert_eq!(watcher.line().unwrap(), "HTTP/1.1 200 OK");
        let head: Vec<String> =
            std::iter::from_fn(|| watcher.line().filter(|line| !line.is_empty())).collect();
        assert!(head.iter().any(|field| field == "Content-Type: text/event-stream"), "{head:?}");
        watcher
    }

    fn line(&mut self) -> Option<String> {
        self.lines.next().map(|line| line.unwrap().trim_end().to_owned())
    }

    /// Name and data of the next event; `None` at the end of the stream.
    fn event(&mut self) -> Option<(String, Value)> {
        let (mut name, mut data) = (String::from("message"), None);
        loop {
            let line = self.line()?;
            match line.split_once(": ") {
                Some(("event", text)) => name = text.to_owned(),
                Some(("data", text)) => data = Some(serde_json::from_str(text).expect(text)),
                Some(("retry", _)) => {}
                None if line.is_empty() => {
                    if let Some(data) = data.take() {
                        return Some((name, data));
                    }
                }
                _ => panic!("{line}"),
            }
        }
    }
}

/// A connection to the admin socket on which the stream was asked for.
fn ask(server: &Server) -> UnixStream {
    let mut stream = UnixStream::connect(server.path("admin.sock")).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(ASK.as_bytes()).unwrap();
    stream
}

/// The admin address of a server that has it on TCP.
fn admin_address(server: &Server) -> SocketAddr {
    let line = server.wait_for_line(|line| line.contains("admin 127."));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn events_come_once_a_second_and_are_the_status() {
    let server = Setup::with_files().pool("app", None, "workers = 1").start();
    let mut watcher = Watcher::new(&server);
    let (name, history) = watcher.event().unwrap();
    assert_eq!(name, "history");
    assert!(history["seconds"].is_array(), "{history}");
    let (name, mut last) = watcher.event().unwrap();
    assert_eq!(name, "message");
    (0..7).for_each(|_| assert_eq!(server.connect().get("/a.txt").status, 200));
    let keys = |status: &Value| status.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&last), keys(&server.status()));
    let time = |status: &Value| status["unix_time"].as_u64().unwrap();
    // One of the events may have been on its way before the requests were.
    while last["totals"]["responses"]["2xx"] != 7 {
        let (_, next) = watcher.event().unwrap();
        assert!(time(&next) > time(&last), "{} {}", time(&last), time(&next));
        last = next;
    }
    // What a page that is opened later will be shown. Rates are differences of two samples, so a request may come too early.
    let busy = (0..30).any(|_| {
        server.connect().get("/a.txt");
        watcher.event().unwrap().1["rates"]["last_second"]["requests_per_second"].as_f64() > Some(0.0)
    });
    assert!(busy, "a rate is shown");
    let (_, history) = Watcher::new(&server).event().unwrap();
    let seconds = history["seconds"].as_array().unwrap();
    assert!(seconds.iter().any(|second| second["requests_per_second"].as_f64() > Some(0.0)), "{history}");
    server.stop();
}

#[test]
fn watchers_are_bounded_and_make_room_when_they_go() {
    let server = Setup::with_files().start();
    let mut watchers: Vec<Watcher> = (0..WATCHERS_MAX).map(|_| Watcher::new(&server)).collect();
    let refused = server.admin(ASK);
    assert_eq!((refused.status, refused.need("retry-after")), (503, "10"));
    assert_eq!(server.status()["totals"]["writing"], WATCHERS_MAX);
    watchers.truncate(WATCHERS_MAX / 2);
    eventually("the connections are closed", || server.total("writing") == WATCHERS_MAX as u64 / 2);
    // A watcher that has gone is noticed with the next event. What the others have not read may be older than that.
    eventually("there is room again", || {
        BufReader::new(ask(&server)).lines().next().unwrap().unwrap() == "HTTP/1.1 200 OK"
    });
    Watcher::new(&server).event().unwrap();
    watchers.iter_mut().for_each(|watcher| assert!(watcher.event().is_some()));
    server.stop();
}

#[test]
fn a_watcher_that_does_not_read_is_closed_and_others_are_not() {
    // Many threads make a long document, which soon fills the socket.
    let server = Setup::with_files().server("threads = 64").start();
    let mut reader = Watcher::new(&server);
    let idle = ask(&server);
    let reading = std::thread::spawn(move || {
        let mut events = 0;
        while reader.event().is_some() {
            events += 1;
        }
        events
    });
    let mut closed = [PollFd::new(&idle, PollFlags::HUP)];
    assert_eq!(poll(&mut closed, Some(&Timespec::try_from(TIMEOUT).unwrap())).unwrap(), 1, "it stays open");
    // The thread that answers is another one than the one that has just closed it.
    eventually("that is counted", || server.total("timeouts") == 1 && server.total("writing") == 1);
    server.stop();
    assert!(reading.join().unwrap() > 5);
}

#[test]
fn a_reload_and_a_stop_end_the_stream() {
    let server = Setup::with_files().start();
    let mut watcher = Watcher::new(&server);
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
    while let Some((_, status)) = watcher.event() {
        assert!(status["generation"] != 2, "an old stream has news of its successor only");
    }
    let mut watcher = Watcher::new(&server);
    assert_eq!(watcher.event().unwrap().0, "history");
    assert_eq!(watcher.event().unwrap().1["generation"], 2);
    let stopped = server.stop();
    assert!(!stopped.said.iter().any(|line| line.contains("grace")), "{stopped:?}");
    while watcher.event().is_some() {}
}

#[test]
fn a_refused_reload_is_shown_until_a_good_one() {
    let server = Setup::with_files().start();
    let path = server.path("maitred.toml");
    let good = std::fs::read_to_string(&path).unwrap();
    let shown = |state: &str| {
        let status = server.status();
        let verdicts = status["health"].as_array().unwrap();
        verdicts.iter().any(|verdict| verdict["subject"] == "reload" && verdict["state"] == state)
    };
    assert!(shown("ok"));
    std::fs::write(&path, format!("{good}\nnonsense = 1\n")).unwrap();
    assert!(!server.command(&["reload"]).0.success());
    eventually("the refusal is shown", || shown("warn"));
    let (_, text) = server.command(&["status"]);
    assert!(text.contains("health      warn: reload: the last reload was refused"), "{text}");
    std::fs::write(&path, good).unwrap();
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
    eventually("the refusal is forgotten", || shown("ok"));
    // The refusal is an error of the log, which `stop` would not have.
    assert!(server.terminate(rustix::process::Signal::TERM).status.success());
}

#[test]
fn a_name_that_is_not_this_machines_is_refused() {
    let server = Setup::with_files().server("admin = \"127.0.0.1:0\"").start();
    let address = admin_address(&server);
    let ask = |method: &str, path: &str, host: &str| {
        Client::connect(address).ask(format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
    };
    for host in [address.to_string(), "127.0.0.1".into(), "localhost:1".into(), "[::1]:80".into()] {
        assert_eq!(ask("GET", "/status", &host).status, 200, "{host}");
    }
    for host in
        ["evil.example", "evil.example:80", "localhost.evil.example", "192.0.2.1", "127.0.0.1.nip.example"]
    {
        for path in ["/status", "/status.json", "/status/events", "/metrics"] {
            assert_eq!(ask("GET", path, host).status, 421, "{host} {path}");
        }
        let refused = ask("POST", "/stop", host);
        assert_eq!(refused.status, 421, "{host}");
        assert!(refused.text().contains("localhost and loopback addresses only"), "{refused:?}");
    }
    // HTTP/1.0 without Host: no browser.
    let response = Client::connect(address).ask("GET /status.json HTTP/1.0\r\n\r\n");
    assert_eq!(response.status, 200);
    let found = ask("GET", "/", "localhost");
    assert_eq!((found.status, found.need("location")), (302, "/status"));
    server.stop();
}

#[test]
fn the_page_is_one_file_with_a_strict_policy() {
    let server = Setup::with_files().start();
    let response = server.admin("GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((response.status, response.need("content-type")), (200, "text/html; charset=utf-8"));
    let (page, policy) = (response.text(), response.need("content-security-policy"));
    for (tag, directive) in [("style", "style-src"), ("script", "script-src")] {
        let inside =
            page.split(&format!("<{tag}>")).nth(1).unwrap().split(&format!("</{tag}>")).next().unwrap();
        let expected = format!("{directive} 'sha256-{}'", sha256(inside));
        assert!(policy.contains(&expected), "status/page.rs has to say {expected}");
        assert_eq!(page.matches(&format!("<{tag}")).count(), 1);
    }
    assert!(policy.starts_with("default-src 'none'; connect-src 'self'; "), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    for banned in
        ["https://", " style=", "@import", "url(", "innerHTML", " onclick", " onload", "<script src", "<img"]
    {
        assert!(!page.contains(banned), "{banned}");
    }
    let namespace = "\"http://www.w3.org/2000/svg\"";
    assert_eq!(page.matches("http://").count(), page.matches(namespace).count());
    let head = server.admin("HEAD /status HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((head.status, head.need("content-length")), (200, page.len().to_string().as_str()));
    let post = server.admin("POST /status/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((post.status, post.need("allow")), (405, "GET"));
    server.stop();
}

/// The digest of a text, in base64.
fn sha256(text: &str) -> String {
    let script = "import base64, hashlib, sys\n\
                  digest = hashlib.sha256(sys.stdin.buffer.read()).digest()\n\
                  print(base64.b64encode(digest).decode())";
    let mut python = Command::new("python3");
    let mut python =
        python.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3");
    python.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let mut said = String::new();
    python.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(python.wait().unwrap().success());
    said.trim().to_owned()
}

#[test]
fn a_client_that_goes_away_in_the_middle_is_no_watcher() {
    let server = Setup::with_files().start();
    drop(ask(&server));
    eventually("the connection is closed", || server.total("writing") == 0);
    let mut half = ask(&server);
    half.shutdown(std::net::Shutdown::Write).unwrap();
    let mut rest = Vec::new();
    let ended = half.read_to_end(&mut rest);
    assert!(ended.is_ok() || ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    server.stop();
}

/// An application that answers every other request with 500.
const HALF: &str = "number = 0\ndef application(environ, start_response):\n    global number\n    number += 1\n    \
                    start_response('200 OK' if number % 2 else '500 Internal Server Error', [])\n    return [b'x']\n";

/// The last five minutes of a pool and of the route to it: requests, and how many failed.
fn last_minutes(status: &Value, pool: &str, route: &str) -> [(u64, u64); 2] {
    let find = |list: &str, key: &str, name: &str| {
        let all = status[list].as_array().unwrap().iter();
        let recent = &all.clone().find(|one| one[key] == name).unwrap()["recent"];
        (recent["requests"].as_u64().unwrap(), recent["failed"].as_u64().unwrap())
    };
    [find("pools", "name", pool), find("routes", "route", route)]
}

#[test]
fn figures_and_charts_go_on_over_a_reload_a_crash_and_an_upgrade() {
    let gate = Gate::new();
    let server = Setup::with_files()
        .server("threads = 2")
        .outside("half.py", HALF.as_bytes())
        .pool("app", Some(&gate), "workers = 1")
        .route("/half/*", "pool = \"half\"")
        .python("half", "half:application", "A = \"1\"", "workers = 1")
        .start();
    server.wait_for_processes();
    let ask = || (0..10).for_each(|_| assert!([200, 500].contains(&server.connect().get("/half/").status)));
    let half = |requests| [(requests, requests / 2); 2];
    let is = |requests| last_minutes(&server.status(), "half", "/half/*") == half(requests);
    ask();
    eventually("they are in the last minutes", || is(10));
    let seconds = || -> Vec<Value> {
        let said = server.admin("GET /status/history.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let history: Value = serde_json::from_slice(&said.body).unwrap();
        history["seconds"].as_array().unwrap().clone()
    };
    let busy =
        || seconds().iter().filter(|second| second["requests_per_second"].as_f64() >= Some(1.0)).count();
    eventually("a chart has them", || busy() > 0);
    let before = seconds().len();
    // A request that the old worker process answers later counts, too.
    let mut slow = server.connect();
    slow.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    // Another number of threads, and other places for the route and the pool.
    let path = server.path("maitred.toml");
    let text = std::fs::read_to_string(&path).unwrap().replace("threads = 2", "threads = 3");
    let route = "[[site.route]]\npath = \"/first/*\"\nrespond = { status = 204 }\n";
    let text = text.replacen("[[site.route]]", &format!("{route}[[site.route]]"), 1);
    let text = text.replacen("[pool.app]", "[pool.aaa]\nconnect = \"http://127.0.0.1:9\"\n\n[pool.app]", 1);
    std::fs::write(&path, text).unwrap();
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
    eventually("the new worker process answers", || server.status()["generation"] == 2);
    assert_eq!(server.status()["threads"].as_array().unwrap().len(), 3);
    eventually("the figures are still there", || is(10));
    assert!(seconds().len() >= before && busy() > 0, "the chart is still there");
    ask();
    eventually("those of both processes count", || is(20));
    waiting.release();
    assert_eq!(slow.response("GET").status, 200);
    eventually("a request of the old one as well", || {
        last_minutes(&server.status(), "app", "/app/*") == [(1, 0); 2]
    });
    let seen = seconds().len();
    eventually("what is counted is in the history", || seconds().len() >= seen + 3);
    let worker = server.answering_worker();
    send_signal(worker, Signal::KILL);
    eventually("there is another one", || {
        server.worker_is_not(worker) && server.answering_worker() != worker
    });
    eventually("it has them as well", || is(20));
    eventually("the executable is replaced", || {
        let (status, said) = server.command(&["upgrade"]);
        assert!(status.success() || said.contains("try again"), "{said}");
        status.success()
    });
    eventually("so does the next executable", || server.status()["generation"] == 4 && is(20));
    server.terminate(Signal::TERM);
}

#[test]
fn requests_under_way_are_named_with_where_they_are() {
    let gate = Gate::new();
    let server = Setup::with_files()
        .server("threads = 2")
        .file("large", &vec![0; 64 << 20])
        .pool("app", Some(&gate), "workers = 1\nqueue = { timeout = \"60s\" }")
        .start();
    server.wait_for_processes();
    let begin = |text: &str| {
        let mut client = server.connect();
        client.send(text);
        client
    };
    let mut slow = begin("GET /app/wait?secret HTTP/1.1\r\nHost: h\r\n\r\n");
    let waiting = gate.arrival();
    let mut others =
        ["GET /app/hello HTTP/1.1\r\nHost: h\r\n\r\n", "GET /large HTTP/1.1\r\nHost: h\r\n\r\n"].map(begin);
    let half = begin("POST /app/body HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc");
    let found = |method: &str, path: &str| {
        let status = server.status();
        let all = status["under_way"].as_array().unwrap();
        all.iter().find(|one| one["method"] == method && one["path"] == path).cloned()
    };
    for (method, path, place) in [
        ("GET", "/app/wait", "application"),
        ("GET", "/app/hello", "queue"),
        ("GET", "/large", "sending"),
        ("POST", "/app/body", "receiving"),
    ] {
        eventually(place, || found(method, path).is_some_and(|one| one["where"] == place));
    }
    let one = found("GET", "/app/wait").unwrap();
    assert!(one["since_us"].as_u64() >= Some(100_000), "{one}");
    assert!(one["route"].as_str().unwrap().contains("/app/*: pool app"), "{one}");
    assert_eq!(one["request_id"].as_str().map(str::len), Some(32), "{one}");
    assert!(!server.status()["under_way"].to_string().contains("secret"), "a query may be secret");
    eventually("`maitred status` has them", || {
        let (_, said) = server.command(&["status"]);
        said.contains("requests under way") && said.contains("GET /app/hello") && said.contains("queue")
    });
    waiting.release();
    assert_eq!(slow.response("GET").status, 200);
    assert_eq!(others[0].response("GET").status, 200);
    drop((others, half));
    eventually("none is left", || server.status()["under_way"] == serde_json::json!([]));
    server.stop();
}
