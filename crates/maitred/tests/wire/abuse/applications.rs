//! What application processes do to the server, and how they end.

use std::io::Read;
use std::time::Duration;

use rustix::process::Signal;

use crate::abuse::{ends, get, next, post, setup};
use crate::support::processes::{descriptors, runs, send_signal};
use crate::support::{Client, eventually};

#[test]
fn whatever_an_application_says_its_client_gets_an_answer() {
    let cases = [
        ("/app/nothing", 502),
        ("/app/other-connection", 502),
        ("/app/other-request", 502),
        ("/app/hello-again", 502),
        ("/app/garbage", 502),
        ("/app/huge", 502),
        ("/app/endless", 502),
        ("/app/close", 502),
        ("/app/exit", 502),
        ("/app/stop", 504),
        ("/app/never", 504),
        ("/app/twice", 200),
    ];
    // A server for each, at the same time: processes that end badly are replaced ever more slowly.
    std::thread::scope(|scope| {
        for (path, status) in cases {
            scope.spawn(move || answers(path, status));
        }
    });
}

fn answers(path: &str, status: u16) {
    // Where it is not what ends the request, it is not in the way of a process that is slow to answer.
    let server = setup(if status == 504 { "request_timeout = \"3s\"" } else { "" }).start();
    let mut client = server.connect();
    assert_eq!(client.get(path).status, status, "{path}");
    match status {
        // What is wrong here comes after the response; a request that the process got before would be lost with it.
        200 => drop(server.wait_for("is replaced")),
        _ => ends(&mut client),
    }
    let mut other = server.connect();
    assert_eq!(other.get("/small").status, 200, "files, after {path}");
    assert_eq!(other.get("/app/ok").status, 200, "the next process, after {path}");
    assert_eq!(other.get("/app/ok").status, 200);
    server.stop();
}

#[test]
fn half_a_response_is_not_completed_by_another() {
    for transport in ["direct", "relay"] {
        let server = crate::abuse::setup_with(transport, "").start();
        let mut client = server.connect();
        client.send(get("/app/half") + &get("/small"));
        let mut received = Vec::new();
        let _ = client.tcp().read_to_end(&mut received);
        assert!(received.ends_with(b"half"), "{transport}: {}", String::from_utf8_lossy(&received));
        assert_eq!(server.connect().get("/app/ok").status, 200);
        server.wait_for("application process lost: ");
        let stopped = server.stop();
        let line = stopped.access.iter().find(|line| line.contains("/app/half")).unwrap();
        assert!(line.contains("/app/half HTTP/1.1\" 502 "), "{transport}: whose fault it is: {line}");
    }
}

/// A client that takes nothing is aborted, and its process lives on, having other requests.
#[test]
fn what_is_said_of_a_request_that_was_cut_off_reaches_no_other_client() {
    let pool = "request_timeout = \"3s\"\nenv = { CAPACITY = \"2\" }";
    let server = setup(pool).start();
    let mut slow = server.connect();
    slow.send(get("/app/flood"));
    let log = server.path("access.log");
    eventually("the client is aborted", || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.contains("/app/flood HTTP/1.1\" 499"))
    });
    // The next client gets the place in the server that the other one had.
    let mut other = server.connect();
    assert_eq!(other.get("/app/afterthought").body, b"ok\n");
    assert_eq!(other.get("/small").body, b"small\n");
    assert_eq!(other.get("/app/ok").body, b"ok\n");
    server.stop();
}

#[test]
fn an_application_that_does_not_read_costs_only_its_own_requests() {
    let server = setup("request_timeout = \"3s\"\nenv = { CAPACITY = \"100\" }").start();
    let mut clients: Vec<_> = (0..40).map(|_| server.connect()).collect();
    assert_eq!(clients[0].get("/app/ok").status, 200);
    let application = server.applications()[0];
    send_signal(application, Signal::STOP);
    // More than a channel takes, so that frames stay in the worker process. Some of their clients go.
    clients.iter_mut().for_each(|client| client.send(post("/app/length", 100_000)));
    clients.drain(..10).for_each(Client::reset);
    assert_eq!(server.connect().get("/large").status, 200);
    let mut given_again = 0;
    for client in &mut clients {
        let response = next(client);
        match response.status {
            // The frame of the request had not left, so that it could go to the next process.
            200 => {
                assert_eq!(response.body, b"100000\n");
                given_again += 1;
            }
            status => {
                assert!(matches!(status, 502 | 504), "{status}");
                ends(client);
            }
        }
    }
    // The few frames that a channel takes may all have been of clients that have gone.
    assert!(given_again > 0);
    assert_eq!(server.connect().get("/app/ok").status, 200);
    server.stop();
}

/// The flag belongs to the open socket, so that an application can clear it for the server, too.
#[test]
fn a_socket_that_an_application_makes_block_holds_nobody_up() {
    let server = setup("").file("middle", &vec![b'm'; 30_000]).start();
    // More than sockets take, so that it is sent whenever there is room: by sendfile(2), by send(2), and by sendfile(2) of what
    // the application returns.
    for (path, count, bytes) in
        [("/large", 1, 8 << 20), ("/middle", 400, 30_000), ("/app/blocks/8388608", 1, 8 << 20)]
    {
        let mut slow = server.connect();
        slow.send(get("/app/blocks"));
        assert_eq!(next(&mut slow).body, b"ok\n");
        slow.send(get(path).repeat(count));
        let first = slow.head().unwrap();
        assert_eq!(first.status, 200, "{path}");
        for _ in 0..10 {
            assert_eq!(server.connect().get("/small").body, b"small\n", "{path}");
        }
        assert_eq!(slow.exactly(bytes).unwrap().len(), bytes, "{path}");
        for _ in 1..count {
            assert_eq!(next(&mut slow).body.len(), bytes, "{path}");
        }
        assert_eq!(slow.get("/small").body, b"small\n", "{path}");
    }
    server.stop();
}

/// What it says that it takes, and does not read, counts as what clients do not take, and is bounded: the other requests wait in
/// the queue.
#[test]
fn frames_that_an_application_does_not_read_are_bounded() {
    let server = setup("env = { CAPACITY = \"1000\" }").start();
    let used = || server.status()["budgets"]["unsent"]["used"].as_u64().unwrap();
    let mut clients: Vec<_> = (0..60).map(|_| server.connect()).collect();
    assert_eq!(clients[0].get("/app/ok").status, 200);
    let application = server.applications()[0];
    send_signal(application, Signal::STOP);
    // One by one, since what one turn brings is written as a whole.
    for client in &mut clients {
        client.send(post("/app/length", 100_000));
        assert_eq!(server.connect().get("/small").status, 200);
    }
    let queued = || server.status()["pools"][0]["queued"].as_u64().unwrap();
    eventually("the rest waits in the queue", || queued() > 30);
    assert!((1 << 20..2 << 20).contains(&used()), "{}", used());
    send_signal(application, Signal::CONT);
    for client in &mut clients {
        assert_eq!(next(client).body, b"100000\n");
    }
    assert_eq!((used(), queued()), (0, 0));
    server.stop();
}

#[test]
fn frames_that_leave_in_pieces_arrive_whole() {
    let server = setup("env = { CAPACITY = \"100\" }").start();
    let mut clients: Vec<_> = (0..30).map(|_| server.connect()).collect();
    assert_eq!(clients[0].get("/app/ok").status, 200);
    let application = server.applications()[0];
    for round in 0..4 {
        send_signal(application, Signal::STOP);
        clients.iter_mut().for_each(|client| client.send(post("/app/length", 90_000 + round)));
        assert_eq!(server.connect().get("/small").status, 200);
        send_signal(application, Signal::CONT);
        for client in &mut clients {
            assert_eq!(next(client).body, format!("{}\n", 90_000 + round).as_bytes());
        }
    }
    server.stop();
}

#[test]
fn a_stop_ends_it_all_within_the_grace_period() {
    std::thread::scope(|scope| {
        for path in ["/app/never", "/app/stop", "/app/close", "/app/hold"] {
            scope.spawn(move || stops(path));
        }
    });
}

fn stops(path: &str) {
    let server = setup("").server("grace = \"1s\"").start();
    let mut held = server.connect();
    held.send(get(path));
    let mut queued = server.connect();
    queued.send(get("/app/ok"));
    assert_eq!(server.connect().get("/small").status, 200);
    let worker = server.worker();
    let said = server.stop().said;
    assert!(!runs(worker), "{path}: {said:#?}");
    let mut rest = Vec::new();
    let _ = held.tcp().read_to_end(&mut rest);
}

#[test]
fn a_killed_worker_process_is_replaced() {
    let server = setup("").start();
    let mut held = server.connect();
    held.send(get("/app/never"));
    let mut idle = server.connect();
    assert_eq!(idle.get("/small").status, 200);
    let worker = server.worker();
    send_signal(worker, Signal::KILL);
    eventually("a new worker process", || server.worker_is_not(worker));
    assert_eq!(server.connect().get("/app/ok").status, 200);
    let mut rest = Vec::new();
    let _ = held.tcp().read_to_end(&mut rest);
    // A worker process that was killed is an error for the log.
    let stopped = server.terminate(Signal::TERM);
    let panicked = stopped.said.iter().any(|line| line.contains("panic"));
    assert!(stopped.status.success() && !panicked, "{:#?}", stopped.said);
}

#[test]
fn no_descriptor_is_left_behind() {
    let server = setup("").server("threads = 2").start();
    let round = |number: usize| {
        let mut client = server.connect();
        match number % 8 {
            0 => client.send(get("/small")),
            1 => drop(client.get("/app/ok")),
            2 => client.send(get("/large")),
            3 => client.send("GET /sma"),
            4 => client.send(get("/app/ok")),
            5 => client.send(get("/small") + &post("/app/length", 10_000) + &get("/app/ok")),
            6 => drop(client.get("/none")),
            _ => client.send("POST /app/length HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc"),
        }
        if number.is_multiple_of(3) {
            client.reset();
        }
    };
    let processes = [server.pid().as_raw_nonzero().get(), server.worker(), server.applications()[0]];
    // The first rounds open what stays open: files, spare buffers, helper threads.
    (0..200).for_each(round);
    let settled = || {
        let mut last = server.connect();
        assert_eq!(last.get("/app/ok").status, 200);
        drop(last);
        processes.map(descriptors)
    };
    let mut before = settled();
    eventually("the first rounds end", || {
        let now = settled();
        std::mem::replace(&mut before, now) == now
    });
    (0..2000).for_each(round);
    eventually("all is closed", || {
        let now = settled();
        now.iter().zip(before).all(|(now, before)| *now <= before + 2)
    });
    server.stop();
}

#[test]
fn an_application_that_says_nothing_stops_nobody() {
    let pool = "env = { MUTE = \"1\" }\nqueue = { max = 10, timeout = \"300ms\" }";
    let server = setup(pool).server("grace = \"1s\"").start();
    assert_eq!(server.connect().get("/small").status, 200);
    assert_eq!(server.connect().get("/app/ok").status, 503);
    assert!(server.connect().is_silent_for(Duration::from_millis(10)));
    server.stop();
}
