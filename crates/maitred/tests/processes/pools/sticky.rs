//! Clients that are led to one process.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;

use crate::pools::look::{breathing, pids, pool, settled};
use crate::support::h2;
use crate::support::processes::send_signal;
use crate::support::{Gate, Response, Server, Setup, eventually};

/// Four processes, on two threads.
fn start(sticky: &str, gate: Option<&Gate>) -> Server {
    let lines = format!("workers = 4\nsticky = {sticky}\nqueue = {{ timeout = \"60s\" }}");
    let setup = Setup::new().server("threads = 2").server("trusted_proxies = [\"127.0.0.0/8\"]");
    let server = breathing(setup, "app", gate, "", &lines).start();
    server.wait_for_processes();
    settled(&server, "app", 4);
    server
}

/// Asks on a connection of its own which process answers.
fn ask(server: &Server, fields: &str) -> (i32, Response) {
    let response = server.connect().method("GET", "/app/pid", fields);
    assert_eq!(response.status, 200, "{response:?}");
    (response.text().parse().unwrap(), response)
}

/// How long a process has had a request.
fn busy_for(server: &Server, pid: i32) -> Duration {
    let app = pool(&server.status(), "app");
    let slots = app["slots"].as_array().unwrap();
    let slot = slots.iter().find(|slot| slot["pid"] == pid && slot["in_flight"] != 0);
    let since = slot
        .and_then(|slot| slot["since_us"].as_u64())
        .map(|since| UNIX_EPOCH + Duration::from_micros(since));
    since.and_then(|since| SystemTime::now().duration_since(since).ok()).unwrap_or_default()
}

/// The cookie that a response sets, as a request says it; and the line.
fn cookie_of(response: &Response) -> (String, String) {
    let line = response.need("set-cookie").to_owned();
    let pair = line.split(';').next().unwrap();
    (format!("Cookie: theme=dark; {pair}\r\n"), line)
}

#[test]
fn a_cookie_leads_to_the_process_that_set_it() {
    let gate = Gate::new();
    let server = start("\"cookie\"", Some(&gate));
    // Each client keeps its process busy, so that the next one gets another.
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (pid, response) = ask(&server, "");
            let (cookie, line) = cookie_of(&response);
            assert!(line.starts_with("maitred-app=") && line.ends_with("; Path=/; HttpOnly"), "{line}");
            let mut client = server.connect();
            client.send(format!("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n{cookie}\r\n"));
            let waiting = gate.arrival();
            // A process that has just begun is expected to be done soon, and may get a further request behind this one.
            eventually("it has been at it for longer", || busy_for(&server, pid) > Duration::from_millis(2));
            (pid, cookie, client, waiting)
        })
        .collect();
    let of: BTreeSet<i32> = clients.iter().map(|(pid, ..)| *pid).collect();
    assert_eq!(of.len(), 4);
    for (pid, cookie, mut client, waiting) in clients {
        waiting.release();
        assert_eq!(client.response("GET").text(), "waited\n");
        // From whatever connection, on whatever thread that is.
        for _ in 0..8 {
            let (again, response) = ask(&server, &cookie);
            assert_eq!(again, pid);
            assert_eq!(response.field("set-cookie"), None, "it was set");
        }
        let pair = cookie.trim_end().strip_prefix("Cookie: ").unwrap();
        let mut h2 = h2::Connection::new(server.address);
        let response = h2.method("GET", "/app/pid", &[("cookie", pair)]);
        assert_eq!(response.text().parse::<i32>().unwrap(), pid, "streams as well");
    }
    server.stop();
}

#[test]
fn a_busy_process_is_waited_for() {
    let gate = Gate::new();
    let server = start("{ cookie = \"at\" }", Some(&gate));
    let (pid, response) = ask(&server, "");
    let (cookie, line) = cookie_of(&response);
    assert!(line.starts_with("at="), "{line}");
    let mut first = server.connect();
    first.send(format!("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n{cookie}\r\n"));
    let waiting = gate.arrival();
    let mut second = server.connect();
    second.send(format!("GET /app/pid HTTP/1.1\r\nHost: localhost\r\n{cookie}\r\n"));
    eventually("it waits, though three processes are idle", || server.total("queued") == 1);
    // Others pass it by.
    let (other, _) = ask(&server, "");
    assert_ne!(other, pid);
    waiting.release();
    assert_eq!(first.response("GET").text(), "waited\n");
    assert_eq!(second.response("GET").text().parse::<i32>().unwrap(), pid);
    server.stop();
}

#[test]
fn another_process_takes_the_clients_of_one_that_went() {
    let server = start("\"cookie\"", None);
    let (pid, response) = ask(&server, "");
    let (cookie, _) = cookie_of(&response);
    send_signal(pid, Signal::KILL);
    eventually("it is gone", || !pids(&server, "app").contains(&pid));
    let (next, response) = ask(&server, &cookie);
    assert_ne!(next, pid);
    // Nothing was set if the slot has its next process already.
    let cookie = match response.field("set-cookie") {
        Some(_) => cookie_of(&response).0,
        None => cookie,
    };
    settled(&server, "app", 4);
    assert_eq!(ask(&server, &cookie).0, next, "and that is where it stays");
    server.stop();
}

#[test]
fn an_address_is_led_to_one_process() {
    let server = start("\"address\"", None);
    let from = |address: &str| {
        let (pid, response) = ask(&server, &format!("X-Forwarded-For: {address}\r\n"));
        assert_eq!(response.field("set-cookie"), None);
        pid
    };
    let mut found = BTreeSet::new();
    for number in 0..32 {
        let address = format!("192.0.2.{number}");
        let pid = from(&address);
        found.insert(pid);
        assert_eq!(from(&address), pid);
    }
    // All of 32 at one or two of four: once in a billion.
    assert!(found.len() >= 3, "{found:?}");
    assert_eq!(from("2001:db8::1"), from("2001:db8::2"), "the same network");
    server.stop();
}
