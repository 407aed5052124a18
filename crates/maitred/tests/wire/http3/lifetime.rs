//! How connections end: by time, by a reload, by a kill of the worker process.

use std::time::Duration;

use maitred_http::h3::Code;
use maitred_load::http3::client::{Client, Closed, Failed};
use rustix::process::Signal;

use crate::support::h3::{Asks, Guest, Incoming, PATIENT, Text, connect, connector, join, reload, setup};
use crate::support::processes::send_signal;
use crate::support::{Gate, eventually};

/// How soon a client knows that its connection is no more: far less than an idle timeout, which is 30 seconds at these clients,
/// and far more than it takes on a slow machine.
const AT_ONCE: Duration = Duration::from_secs(15);

/// How soon an idle connection ends. The time has to be more than a slow machine takes from a handshake to the request behind
/// it.
const SOON: &str = "keep_alive_timeout = \"1s\"";

fn no_error() -> Closed {
    Closed::Application { code: Code::NoError.number(), reason: String::new() }
}

#[test]
fn an_idle_connection_is_closed_after_keep_alive_timeout() {
    let server = setup("").limit(SOON).start();
    let join = || {
        let mut client = connect(&server);
        assert_eq!(client.get("/a.txt").unwrap().status, 200);
        client
    };
    let mut idle: Vec<_> = (0..5).map(|_| join()).collect();
    for client in &mut idle {
        assert_eq!(client.wait_closed().unwrap(), no_error());
    }
    server.stop();
}

/// A stream that is open keeps its connection, however quiet it is.
#[test]
fn a_connection_with_an_open_stream_is_not_idle() {
    let gate = Gate::new();
    let server = setup("").limit(SOON).pool("app", Some(&gate), PATIENT).start();
    server.wait_for_processes();
    let mut client = connect(&server);
    let stream = client.send_get("/app/wait", &[]);
    client.wait_go_on(&gate, |client| {
        // A connection that is idle since then has been closed meanwhile.
        let mut other = connect(&server);
        assert_eq!(other.get("/a.txt").unwrap().status, 200);
        assert_eq!(other.wait_closed().unwrap(), no_error());
        assert!(client.closed().is_none());
    });
    assert_eq!(client.response(stream).unwrap().text(), "waited\n");
    assert_eq!(client.wait_closed().unwrap(), no_error());
    server.stop();
}

/// Lets a request stand at the gate while something else is done.
trait WaitGoOn {
    fn wait_go_on(&mut self, gate: &Gate, meanwhile: impl FnOnce(&mut Client));
}

impl WaitGoOn for Client {
    fn wait_go_on(&mut self, gate: &Gate, meanwhile: impl FnOnce(&mut Client)) {
        self.flush();
        let waiting = gate.arrival();
        meanwhile(self);
        waiting.release();
    }
}

#[test]
fn a_reload_says_go_away_and_then_ends_the_connection() {
    let gate = Gate::new();
    let server = setup("").pool("app", Some(&gate), PATIENT).start();
    server.wait_for_processes();
    let (mut busy, mut idle) = (connect(&server), connect(&server));
    assert_eq!(idle.get("/a.txt").unwrap().status, 200);
    let stream = busy.send_get("/app/wait", &[]);
    busy.wait_go_on(&gate, |busy| {
        reload(&server, 2);
        let first = busy.wait_go_away(u64::MAX).unwrap();
        assert!(first > u64::from(stream), "{first}");
        // The second one names the first request that is not served.
        assert_eq!(busy.wait_go_away(1 << 40).unwrap(), u64::from(stream) + 4);
        let late = busy.send_get("/a.txt", &[]);
        let refused = busy.response(late).unwrap_err();
        assert!(
            matches!(refused, Failed::Reset(code) if code == Code::RequestRejected.number()),
            "{refused:?}"
        );
        assert_eq!(idle.wait_closed().unwrap(), no_error(), "one without a request");
    });
    assert_eq!(busy.response(stream).unwrap().text(), "waited\n");
    assert_eq!(busy.wait_closed().unwrap(), no_error());
    assert_eq!(connect(&server).get("/app/hello?x").unwrap().text(), "hello x\n");
    server.stop();
}

/// The response is read slowly, and the process that has begun it goes on with it, while the next one has the new clients.
#[test]
fn a_long_response_is_completed_by_the_process_that_began_it() {
    const BYTES: usize = 20_000_000;
    let server = setup("").route("/which", "respond = { body = \"one\" }");
    let path = server.directory.path().join("root/zeros.bin");
    std::fs::File::create(path).unwrap().set_len(BYTES as u64).unwrap();
    let server = server.start();
    let old = server.worker();
    let mut client = connect(&server);
    let mut long = Incoming::new(client.send_get("/zeros.bin", &[]));
    long.wait(&mut client, |long| !long.body.is_empty()).unwrap();
    let file = server.path("maitred.toml");
    let text = std::fs::read_to_string(&file).unwrap().replace("body = \"one\"", "body = \"two\"");
    std::fs::write(file, text).unwrap();
    reload(&server, 2);
    for step in 1..=10 {
        long.wait(&mut client, |long| long.body.len() >= step * BYTES / 10).unwrap();
        assert_eq!(connect(&server).get("/which").unwrap().text(), "two");
        assert!(step == 10 || server.workers().contains(&old), "it is still at it");
    }
    long.wait(&mut client, |long| long.end.is_some()).unwrap();
    assert_eq!((long.status, long.body.len()), (Some(200), BYTES));
    assert_eq!(client.wait_closed().unwrap(), no_error());
    eventually("the old process has gone", || server.worker_is_not(old));
    server.stop();
}

/// At an address of both families, a client of IPv4 is the same for the process that gets its datagrams and for that which has
/// its connection.
#[test]
fn a_client_of_ipv4_stays_at_an_address_of_both_families() {
    let gate = Gate::new();
    let server = setup("").replacing_address("[::]:0").pool("app", Some(&gate), PATIENT).start();
    server.wait_for_processes();
    let mut connector = connector(&server);
    connector.dialer.remote = ([127, 0, 0, 1], server.address_of("https").port()).into();
    connector.dialer.local = "127.0.0.1:0".parse().unwrap();
    let mut busy = join(&connector);
    let stream = busy.send_get("/app/wait", &[]);
    busy.wait_go_on(&gate, |busy| {
        reload(&server, 2);
        let first = busy.wait_go_away(u64::MAX).unwrap();
        assert!(first > u64::from(stream), "{first}");
        busy.ping();
        busy.flush();
        assert_eq!(join(&connector).get("/a.txt").unwrap().status, 200);
    });
    assert_eq!(busy.response(stream).unwrap().text(), "waited\n");
    drop(busy);
    server.stop();
}

#[test]
fn after_a_kill_only_what_was_in_flight_fails_and_clients_know_at_once() {
    let gate = Gate::new();
    let server = setup("").server("threads = 2").pool("app", Some(&gate), PATIENT).start();
    server.wait_for_processes();
    let mut connector = connector(&server);
    let mut idle: Vec<Guest> = (0..8).map(|_| join(&connector)).collect();
    idle.iter_mut().for_each(|client| assert_eq!(client.get("/a.txt").unwrap().status, 200));
    let mut busy = join(&connector);
    let stream = busy.send_get("/app/wait", &[]);
    let waiting = gate.arrival();
    let old = server.worker();
    send_signal(old, Signal::KILL);
    eventually("there is another worker process", || server.worker_is_not(old));
    drop(waiting);
    connector.timeout = AT_ONCE;
    let begun = std::time::Instant::now();
    busy.ping();
    let failed = busy.response(stream).unwrap_err();
    assert!(matches!(failed, Failed::Closed(Closed::Reset)), "{failed:?}");
    for client in &mut idle {
        client.ping();
        assert_eq!(client.wait_closed().unwrap(), Closed::Reset);
    }
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    for _ in 0..8 {
        let mut again = join(&connector);
        assert_eq!(again.get("/a.txt").unwrap().text(), "file a\n");
        assert_eq!(again.get("/app/hello?x").unwrap().text(), "hello x\n");
    }
    server.terminate(Signal::TERM);
}

/// What is sent after the kill, before the next process reads, waits in the sockets, which are the master's.
#[test]
fn clients_that_come_back_after_a_kill_with_early_data_are_served() {
    let server = setup("early_data = true").start();
    let connector = connector(&server);
    let mut first = join(&connector);
    assert_eq!(first.get("/a.txt").unwrap().status, 200);
    let old = server.worker();
    send_signal(old, Signal::KILL);
    let mut again = Guest(connector.begin().unwrap());
    let response = if again.has_early_data() {
        // The process that knew the session has gone, and refuses it; the request is sent again by the client then.
        let stream = again.send_get("/a.txt", &[]);
        again.response(stream).or_else(|_| again.get("/a.txt"))
    } else {
        drop(again);
        again = join(&connector);
        again.get("/a.txt")
    };
    assert_eq!(response.unwrap().text(), "file a\n");
    first.ping();
    assert_eq!(first.wait_closed().unwrap(), Closed::Reset);
    drop(again);
    server.terminate(Signal::TERM);
}

#[test]
fn a_stop_finishes_what_is_there() {
    let gate = Gate::new();
    let server = setup("").pool("app", Some(&gate), PATIENT).start();
    server.wait_for_processes();
    let mut client = connect(&server);
    let stream = client.send_get("/app/wait", &[]);
    let waiting = gate.arrival();
    server.signal(Signal::TERM);
    client.wait_go_away(u64::MAX).unwrap();
    waiting.release();
    assert_eq!(client.response(stream).unwrap().text(), "waited\n");
    assert_eq!(client.wait_closed().unwrap(), no_error());
    let stopped = server.wait_for_exit();
    assert!(stopped.status.success());
    assert_eq!(stopped.access.len(), 1);
}

/// The process that is left has the socket as long as it has connections, and would have new ones for ever.
#[test]
fn without_http3_after_a_reload_no_connection_begins() {
    let gate = Gate::new();
    let server = setup("").pool("app", Some(&gate), PATIENT).start();
    server.wait_for_processes();
    let mut busy = connect(&server);
    let stream = busy.send_get("/app/wait", &[]);
    busy.wait_go_on(&gate, |busy| {
        let path = server.path("maitred.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("http3 = true"));
        std::fs::write(&path, text.replace("http3 = true", "http3 = false")).unwrap();
        reload(&server, 2);
        busy.wait_go_away(u64::MAX).unwrap();
        let mut late = connector(&server);
        late.timeout = Duration::from_secs(2);
        assert!(late.connect().is_err(), "a process that drains has taken it");
    });
    assert_eq!(
        busy.response(stream).unwrap().text(),
        "waited\n",
        "what was there is served on the same socket"
    );
    server.stop();
}
