//! What goes on across a reload: responses, uploads and WebSockets that are under way, and the application processes that they
//! are at.

use std::io::Read as _;

use crate::support::processes::runs;
use crate::support::{Client, End, Server, Setup, eventually};

const TRANSPORTS: [&str; 2] = ["direct", "relay"];
const TWO_AT_A_TIME: &str = "env = { CAPACITY = \"2\" }\n";

fn setup(server: &str, transport: &str) -> Setup {
    setup_of("", server, transport)
}

/// With more lines for the pool.
fn setup_of(more: &str, server: &str, transport: &str) -> Setup {
    let pool = format!(
        "[pool.app]\ncommand = [\"python3\", \"-u\", \"reloading.py\"]\nworkers = 1\ntransport = \"{transport}\"\n\
         upgrade = [\"x\"]\nqueue = {{ timeout = \"30s\" }}\n{more}"
    );
    let large: Vec<u8> = (0..4_000_000_u32).map(|at| at as u8).collect();
    Setup::with_files()
        .server(server)
        .outside("reloading.py", include_bytes!("reloading.py"))
        .file("large", &large)
        .route("/app/*", "pool = \"app\"")
        .table(&pool)
}

fn start(setup: Setup) -> Server {
    let server = setup.start();
    server.wait_for_processes();
    server
}

#[track_caller]
fn reload(server: &Server) {
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
}

/// One request on a connection of its own.
fn ask(server: &Server, target: &str) -> String {
    server.connect().get(target).text().to_owned()
}

/// A response without an end, with the process that it comes from.
struct Events {
    client: Client,
    pid: String,
}

impl Events {
    fn new(server: &Server) -> Events {
        let mut client = server.connect();
        client.send("GET /app/events HTTP/1.1\r\nHost: h\r\n\r\n");
        assert!(client.raw_head().unwrap().starts_with(b"HTTP/1.1 200 "));
        let mut events = Events { client, pid: String::new() };
        events.pid = events.next().trim_end_matches(';').to_owned();
        events
    }

    /// The next event.
    #[track_caller]
    fn next(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n") {
            head.extend(self.client.exactly(1).unwrap());
        }
        let length = usize::from_str_radix(std::str::from_utf8(&head).unwrap().trim(), 16).unwrap();
        let chunk = self.client.exactly(length + 2).unwrap();
        String::from_utf8(chunk[..length].to_vec()).unwrap()
    }

    #[track_caller]
    fn ended(mut self) {
        assert_eq!(self.next(), "");
    }
}

/// A connection that the process has taken over.
fn socket(server: &Server) -> Client {
    let mut client = server.connect();
    client.send("GET /app/socket HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    assert!(client.raw_head().unwrap().starts_with(b"HTTP/1.1 101 "));
    client.is_echoed();
    client
}

/// Only short requests are bounded by `grace`.
#[test]
fn what_is_under_way_outlasts_the_grace_period() {
    for transport in TRANSPORTS {
        let server = start(setup("grace = \"100ms\"", transport));
        let old = server.answering_worker();
        let mut events = Events::new(&server);
        // More than the sockets between take at once.
        let mut download = server.connect();
        download.send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
        let mut upload = server.connect();
        upload.send("POST /app/length HTTP/1.1\r\nHost: h\r\nContent-Length: 300000\r\n\r\n");
        upload.send(vec![b'x'; 1000]);
        let mut websocket = socket(&server);
        reload(&server);
        eventually("the grace period is over, and the old process is shown with what it has", || {
            let status = server.status();
            let shown = &status["old_workers"][0];
            shown["pid"] == old
                && shown["since"].as_u64() < status["unix_time"].as_u64()
                && shown["reading"] == 1
                && shown["connections"].as_u64() >= Some(if transport == "relay" { 3 } else { 2 })
        });
        let metrics = server.admin("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").text().to_owned();
        let labels = format!("{{generation=\"1\",pid=\"{old}\"}} 1\n");
        assert!(metrics.contains(&format!("maitred_old_worker_reading{labels}")), "{metrics}");
        let (_, text) = server.command(&["status"]);
        assert!(text.contains(&format!("replaced    worker process {old} (generation 1), ")), "{text}");

        upload.send(vec![b'x'; 299_000]);
        assert_eq!(upload.response("POST").text(), "300000", "{transport}");
        assert_eq!(download.response("GET").body.len(), 4_000_000, "{transport}");
        websocket.send("still here");
        assert_eq!(websocket.exactly(10).unwrap(), b"still here", "{transport}");
        assert_eq!(ask(&server, "/app/say?on"), "1", "{transport}");
        assert_eq!(events.next(), "on", "{transport}");
        ask(&server, "/app/finish");
        events.ended();
        drop(websocket);
        eventually("nothing keeps the old worker process", || !runs(old));
        server.stop();
    }
}

#[test]
fn grace_streams_bounds_them() {
    for transport in TRANSPORTS {
        let server = start(setup("grace = \"50ms\"\ngrace_streams = \"500ms\"", transport));
        let old = server.answering_worker();
        let mut events = Events::new(&server);
        let mut upload = server.connect();
        upload.send("POST /app/length HTTP/1.1\r\nHost: h\r\nContent-Length: 300000\r\n\r\nx");
        reload(&server);
        server.wait_for("aborted at the end of the grace period");
        assert!(matches!(upload.end(), End::Closed | End::Reset), "{transport}");
        let mut rest = events.client.take_received();
        let _ = events.client.tcp().read_to_end(&mut rest);
        assert_eq!(rest, b"", "{transport}: it is aborted, not ended");
        eventually("the old worker process is gone", || !runs(old));
        eventually("the request is cancelled", || ask(&server, "/app/cancelled") == "1");
        server.stop();
    }
}

/// One process too many ends the oldest.
#[test]
fn no_more_old_worker_processes_stay_than_there_may_be() {
    let server = start(setup("grace = \"100ms\"\nold_workers_max = 2", "relay"));
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push((server.answering_worker(), Events::new(&server)));
        reload(&server);
    }
    server.wait_for("worker process 1 has to finish: there are more than old_workers_max = 2");
    eventually("the first one is gone", || !runs(held[0].0));
    assert!(runs(held[1].0) && runs(held[2].0));
    // The process receives CANCEL after the exit, by way of the worker process that has its channel.
    eventually("its request is cancelled", || ask(&server, "/app/say?on") == "2");
    for (_, events) in &mut held[1..] {
        assert_eq!(events.next(), "on");
    }
    eventually("two are shown", || server.status()["old_workers"].as_array().unwrap().len() == 2);
    server.stop();
}

/// A stop is bounded, also for worker processes that were replaced before.
#[test]
fn a_stop_waits_for_streams_no_longer_than_the_grace_period() {
    let server = start(setup("grace = \"300ms\"", "direct"));
    let mut held = [Events::new(&server)];
    reload(&server);
    assert_eq!(ask(&server, "/app/say?on"), "1");
    assert_eq!(held[0].next(), "on");
    let old = server.workers();
    server.stop();
    assert!(old.len() == 2 && !old.into_iter().any(runs));
    let mut rest = held[0].client.take_received();
    let _ = held[0].client.tcp().read_to_end(&mut rest);
    assert_eq!(rest, b"", "it is aborted, not ended");
}

/// The process stays the same one, whichever worker process has requests at it.
#[test]
fn a_pool_of_one_process_has_no_second_one_because_of_a_reload() {
    for transport in TRANSPORTS {
        let server = start(setup("grace = \"50ms\"", transport));
        let mut all = vec![Events::new(&server)];
        let mut websocket = socket(&server);
        for round in 1..=3 {
            reload(&server);
            assert_eq!(ask(&server, "/app/pid"), all[0].pid, "{transport}");
            assert_eq!(ask(&server, &format!("/app/say?{round}")), all.len().to_string());
            for events in &mut all {
                assert_eq!(events.next(), round.to_string(), "{transport}");
            }
            all.push(Events::new(&server));
            assert_eq!(ask(&server, "/app/tail").len(), 300_000);
            websocket.send("on");
            assert_eq!(websocket.exactly(2).unwrap(), b"on", "{transport}");
        }
        assert_eq!(server.applications().len(), 1, "{transport}");
        ask(&server, "/app/finish");
        all.into_iter().for_each(Events::ended);
        websocket.is_echoed();
        assert_eq!(server.status()["master"]["slots_started"], 1, "{transport}");
        let stopped = server.stop();
        let lost = |line: &&String| line.contains("lost") || line.contains("is replaced");
        assert_eq!(stopped.said.iter().find(lost), None);
    }
}

/// The middle one of three worker processes goes when it has nothing left itself.
#[test]
fn a_worker_process_does_not_stay_for_the_streams_of_another() {
    let server = start(setup("grace = \"50ms\"", "direct"));
    let mut events = Events::new(&server);
    reload(&server);
    assert_eq!(ask(&server, "/app/say?1"), "1");
    reload(&server);
    server.wait_for_line(|line| line.contains("worker process 2 exited"));
    assert_eq!(events.next(), "1");
    assert_eq!(ask(&server, "/app/say?2"), "1");
    assert_eq!(events.next(), "2");
    drop(events);
    eventually("the request is cancelled, since the client has gone", || {
        ask(&server, "/app/cancelled") == "1"
    });
    server.wait_for_line(|line| line.contains("worker process 1 exited"));
    server.stop();
}

/// A request that comes to the old worker process after the reload is answered by the same process.
#[test]
fn a_request_that_arrives_during_a_reload_goes_to_the_same_process() {
    for transport in TRANSPORTS {
        let server = start(setup("", transport));
        let events = Events::new(&server);
        let mut kept = server.connect();
        kept.send("POST /app/pid HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\nx");
        eventually("it is being read", || server.total("reading") == 1);
        reload(&server);
        let later = Events::new(&server);
        assert_eq!(later.pid, events.pid, "{transport}");
        kept.send(vec![b'x'; 99_999]);
        assert_eq!(kept.response("POST").text(), events.pid, "{transport}");
        // The connection goes on at the new one.
        assert_eq!(kept.get("/app/pid").text(), events.pid, "{transport}");
        ask(&server, "/app/finish");
        events.ended();
        later.ended();
        server.wait_for_line(|line| line.contains("worker process 1 exited"));
        // One for the connection that is kept, and one for this; or two relays.
        eventually("nothing is left of it in the process", || {
            ask(&server, "/app/kept").parse::<u32>().is_ok_and(|kept| kept <= 2)
        });
        server.stop();
    }
}

/// A worker process that dies takes its own requests with it, and no others.
#[test]
fn the_death_of_an_old_worker_process_cancels_its_requests() {
    for transport in TRANSPORTS {
        let server = start(setup("grace = \"50ms\"", transport));
        let old = server.answering_worker();
        let mut events = Events::new(&server);
        reload(&server);
        let mut later = Events::new(&server);
        crate::support::processes::send_signal(old, rustix::process::Signal::KILL);
        let mut rest = events.client.take_received();
        let _ = events.client.tcp().read_to_end(&mut rest);
        assert_eq!(rest, b"", "{transport}");
        eventually("the request is cancelled", || ask(&server, "/app/cancelled") == "1");
        assert_eq!(ask(&server, "/app/say?on"), "1");
        assert_eq!(later.next(), "on", "{transport}");
        assert_eq!(server.applications().len(), 1);
        server.stop();
    }
}

/// What has the channel dies: the process gets another one, and what others had there is lost, but nothing else.
#[test]
fn the_death_of_the_new_worker_process_loses_what_the_old_one_has_at_the_process() {
    for transport in TRANSPORTS {
        let server = start(setup("grace = \"100ms\"", transport));
        let mut events = Events::new(&server);
        let mut download = server.connect();
        download.send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
        reload(&server);
        assert_eq!(ask(&server, "/app/say?on"), "1");
        assert_eq!(events.next(), "on");
        crate::support::processes::send_signal(server.answering_worker(), rustix::process::Signal::KILL);
        let mut rest = events.client.take_received();
        let _ = events.client.tcp().read_to_end(&mut rest);
        assert_eq!(rest, b"", "{transport}");
        assert_eq!(download.response("GET").body.len(), 4_000_000, "{transport}: the old one serves on");
        // The application does not recover, and is replaced.
        assert_eq!(ask(&server, "/app/say?on"), "0", "{transport}");
        server.terminate(rustix::process::Signal::TERM);
    }
}

/// A process that is replaced while an old worker process uses it: that one is not asked for anything more.
#[test]
fn a_process_that_others_use_over_a_link_can_be_replaced() {
    for transport in TRANSPORTS {
        let server = start(setup("grace = \"100ms\"", transport));
        let mut events = Events::new(&server);
        let mut kept = server.connect();
        kept.send("POST /app/pid HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nx");
        eventually("it is being read", || server.total("reading") == 1);
        reload(&server);
        assert_eq!(ask(&server, "/app/say?on"), "1");
        let (status, said) = server.command(&["pool", "app", "restart"]);
        assert!(status.success(), "{said}");
        server.wait_for("is retired: it is replaced");
        eventually("it takes nothing more", || {
            server.status()["pools"][0]["letters"].as_str().unwrap().contains('D')
        });
        assert_eq!(events.next(), "on", "{transport}");
        let new = ask(&server, "/app/pid");
        kept.send("123456789");
        assert_eq!(kept.response("POST").text(), new, "{transport}");
        drop(events);
        server.terminate(rustix::process::Signal::TERM);
    }
}

/// A request that the process does not end when it is cancelled.
fn stubborn(server: &Server) -> Client {
    let mut client = server.connect();
    client.send("GET /app/stubborn HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(client.raw_head().unwrap().starts_with(b"HTTP/1.1 200 "));
    client
}

/// The worker process of the request has gone, and the one that had the channel then as well.
#[test]
fn what_a_worker_process_leaves_behind_is_known_to_all_that_follow() {
    for transport in TRANSPORTS {
        let server = start(setup("grace = \"50ms\"", transport));
        let (old, pid) = (server.answering_worker(), ask(&server, "/app/pid"));
        let _client = stubborn(&server);
        reload(&server);
        crate::support::processes::send_signal(old, rustix::process::Signal::KILL);
        eventually("the request is cancelled", || ask(&server, "/app/cancelled") == "1");
        reload(&server);
        assert_eq!(ask(&server, "/app/pid"), pid, "{transport}");
        assert_eq!(ask(&server, "/app/release"), "1", "{transport}");
        assert_eq!(ask(&server, "/app/pid"), pid, "{transport}");
        assert_eq!(server.status()["master"]["slots_started"], 1, "{transport}");
        let stopped = server.stop();
        let lost = |line: &&String| line.contains("application process") && line.contains("lost");
        assert_eq!(stopped.said.iter().find(lost), None);
    }
}

/// The request was refused by one owner, and the next one reports that there is room.
#[test]
fn a_request_that_waits_for_room_outlasts_another_reload() {
    for transport in TRANSPORTS {
        let server = start(setup_of(TWO_AT_A_TIME, "grace = \"50ms\"", transport));
        let _first = Events::new(&server);
        let mut kept = server.connect();
        kept.send("POST /app/pid HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nx");
        eventually("it is being read", || server.total("reading") == 1);
        reload(&server);
        let second = Events::new(&server);
        kept.send("123456789");
        eventually("it is read", || server.status()["old_workers"][0]["reading"] == 0);
        reload(&server);
        let pid = second.pid.clone();
        drop(second);
        assert_eq!(kept.response("POST").text(), pid, "{transport}");
        server.terminate(rustix::process::Signal::TERM);
    }
}
