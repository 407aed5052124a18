//! How a connection ends: by time, by a reload, by a stop, after too many requests.

use std::time::Duration;

use rustix::process::Signal;

use crate::support::h2::frame::code;
use crate::support::h2::{Connection, Lost};
use crate::support::load::{Load, reload_under_load};
use crate::support::{Gate, Server, Setup, eventually, pace};

#[test]
fn an_idle_connection_is_told_to_go_after_keep_alive_timeout() {
    // A slow machine gets to the request of a new connection within this time.
    let server = Setup::with_files().limit("keep_alive_timeout = \"1s\"").start();
    let join = || {
        let mut connection = Connection::new(server.address);
        assert_eq!(connection.get("/a.txt").status, 200);
        connection
    };
    let mut idle: Vec<_> = (0..10).map(|_| join()).collect();
    let mut unused = Connection::new(server.address);
    for connection in &mut idle {
        assert_eq!(connection.end(), Some(code::NO_ERROR));
    }
    assert_eq!(unused.end(), Some(code::NO_ERROR), "one that has never asked, too");
    server.stop();
}

/// As over HTTP/1, the last request that began on the connection decides.
#[test]
fn the_last_stream_says_how_long_its_connection_may_be_idle() {
    let server = Setup::with_files()
        .limit("keep_alive_timeout = \"10m\"")
        .route("/short/*", "respond = { body = \"short\" }\nlimits = { keep_alive_timeout = \"1s\" }")
        .start();
    let [mut stays, mut goes] = [(); 2].map(|()| Connection::new(server.address));
    for (connection, paths) in [(&mut stays, ["/short/x", "/a.txt"]), (&mut goes, ["/a.txt", "/short/x"])] {
        paths.iter().for_each(|path| assert_eq!(connection.get(path).status, 200));
    }
    assert_eq!(goes.end(), Some(code::NO_ERROR));
    assert_eq!(stays.get("/a.txt").status, 200);
    server.stop();
}

/// A stream that is open keeps its connection, however quiet it is.
#[test]
fn a_connection_with_an_open_stream_is_not_idle() {
    let gate = Gate::new();
    let server = Setup::with_files()
        .limit("keep_alive_timeout = \"1s\"")
        .pool("app", Some(&gate), "workers = 1\nqueue = { timeout = \"60s\" }")
        .start();
    server.wait_for_processes();
    let mut connection = Connection::new(server.address);
    let id = connection.request("GET", "/app/wait", &[], true);
    let waiting = gate.arrival();
    // A connection that is idle since then has been closed meanwhile.
    let mut other = Connection::new(server.address);
    other.get("/a.txt");
    other.end();
    waiting.release();
    assert_eq!(connection.response(id).text(), "waited\n");
    assert_eq!(connection.end(), Some(code::NO_ERROR));
    server.stop();
}

/// A deadline that has passed when a request is found is that of a connection that was idle, and it is not any more.
#[test]
fn a_request_that_comes_together_with_a_deadline_is_answered() {
    let server = Setup::with_files().start();
    let mut connection = Connection::new(server.address);
    assert_eq!(connection.get("/a.txt").status, 200);
    let id = server.while_worker_sleeps(|| {
        // The deadline is that for giving buffers back, a second after the last stream.
        pace(Duration::from_millis(1500));
        connection.request("GET", "/b.txt", &[], true)
    });
    assert_eq!(connection.response(id).text(), "file b\n");
    assert_eq!(connection.get("/a.txt").status, 200, "it is kept");
    server.stop();
}

#[test]
fn a_connection_that_never_begins_is_closed_after_head_timeout() {
    let server = Setup::with_files().limit("head_timeout = \"200ms\"").start();
    let preface = crate::support::h2::frame::PREFACE;
    let begin = [preface, &crate::support::h2::frame::settings(&[])].concat();
    // Half a frame, and half a head, in one piece with what is before them: the time runs.
    let half_frame = [&begin[..], &crate::support::h2::frame::ping(1)[..12]].concat();
    let half_head = [&begin[..], &crate::support::h2::frame::frame(1, 1, 1, &[0x82])].concat();
    let parts = [1, 10, preface.len() - 1, preface.len()].map(|part| preface[..part].to_vec());
    for bytes in parts.into_iter().chain([half_frame, half_head]) {
        let mut connection = Connection::silent(server.address);
        connection.send(bytes);
        connection.end();
    }
    eventually("all are counted", || server.total("connections") == 1);
    server.stop();
}

/// What an application says after the connection has ended is dropped, and does no harm.
#[test]
fn an_answer_that_comes_behind_the_end_of_its_connection_goes_nowhere() {
    let gate = Gate::new();
    let server =
        Setup::with_files().pool("app", Some(&gate), "workers = 1\nqueue = { timeout = \"60s\" }").start();
    server.wait_for_processes();
    let mut connection = Connection::new(server.address);
    connection.request("GET", "/app/wait", &[], true);
    let waiting = gate.arrival();
    // A PING on a stream breaks the rules.
    connection.send(crate::support::h2::frame::frame(6, 0, 1, &[0; 8]));
    assert_eq!(connection.end(), Some(code::PROTOCOL_ERROR));
    drop(connection);
    eventually("it has gone", || server.total("connections") == 1);
    eventually("its stream has gone, too", || server.total("cancelled") == 1);
    let mut other = Connection::new(server.address);
    assert_eq!(other.get("/a.txt").status, 200);
    waiting.release();
    // The process has one place: what it answers now comes behind the answer that was dropped.
    assert_eq!(other.get("/app/hello").status, 200);
    assert_eq!(server.total("panics"), 0);
    server.stop();
}

#[test]
fn a_client_that_reads_nothing_is_dropped_after_write_timeout() {
    let setup = Setup::with_files().limit("write_timeout = \"300ms\"");
    std::fs::File::create(setup.directory.path().join("root/zeros.bin"))
        .unwrap()
        .set_len(200_000_000)
        .unwrap();
    let server = setup.start();
    // A window that is closed, and a window that is open on a socket that is not read.
    let mut stalled = Connection::new(server.address);
    stalled.reads = false;
    let id = stalled.request("GET", "/zeros.bin", &[], true);
    assert_eq!(stalled.try_response(id), Err(Lost::Reset(code::CANCEL)), "nothing is wrong with the server");
    let mut deaf = Connection::new(server.address);
    deaf.open_window(0, 1 << 30);
    let id = deaf.request("GET", "/zeros.bin", &[], true);
    deaf.open_window(id, 1 << 30);
    eventually("both are dropped", || server.total("timeouts") >= 2);
    assert_eq!(server.connect().get("/a.txt").status, 200);
    server.stop();
}

/// The same where the response is an application's.
#[test]
fn a_client_that_reads_nothing_of_an_application_is_given_up() {
    let server = Setup::with_files()
        .limit("write_timeout = \"300ms\"")
        .pool("app", None, "workers = 1\nqueue = { timeout = \"60s\" }")
        .start();
    server.wait_for_processes();
    let mut stalled = Connection::new(server.address);
    stalled.reads = false;
    let id = stalled.request("GET", "/app/large?1000000", &[], true);
    assert_eq!(stalled.try_response(id), Err(Lost::Reset(code::CANCEL)));
    stalled.reads = true;
    stalled.open_window(0, 1 << 20);
    assert_eq!(stalled.get("/app/hello?x").text(), "hello x\n", "its connection and the process are well");
    server.stop();
}

#[test]
fn a_stop_finishes_what_is_there() {
    let gate = Gate::new();
    let server = Setup::with_files()
        .file("large.bin", &vec![b'l'; 3_000_000])
        .pool("app", Some(&gate), "workers = 1\nqueue = { timeout = \"60s\" }")
        .start();
    server.wait_for_processes();
    let mut connection = Connection::new(server.address);
    connection.reads = false;
    let large = connection.request("GET", "/large.bin", &[], true);
    connection.content(large, 65_535);
    let wait = connection.request("GET", "/app/wait", &[], true);
    let waiting = gate.arrival();
    let mut idle = Connection::new(server.address);
    idle.get("/none");
    server.signal(Signal::TERM);
    assert_eq!(idle.end(), Some(code::NO_ERROR), "no stream is open");
    while connection.goaway.is_none() {
        connection.step().unwrap();
    }
    waiting.release();
    connection.reads = true;
    connection.open_window(0, 1 << 24);
    connection.open_window(large, 1 << 24);
    assert_eq!(connection.response(wait).status, 200);
    assert_eq!(connection.response(large).body.len(), 3_000_000);
    assert_eq!(connection.end(), Some(code::NO_ERROR));
    let stopped = server.wait_for_exit();
    assert!(stopped.status.success(), "{stopped:?}");
    assert_eq!(stopped.access.len(), 3);
}

/// A well-behaved client until the load is over: always some streams open, and a new connection when the server has said GOAWAY.
/// What the server has not taken (RFC 9113, 6.8: a stream above the last one of GOAWAY, or REFUSED_STREAM) is asked for again;
/// anything else that is lost fails the test.
fn ask_until_over(server: &Server, load: &Load, path: &str, bytes: usize) {
    let mut connection = Connection::new(server.address);
    let mut open = Vec::new();
    loop {
        if connection.goaway.is_none() && !load.is_over() {
            while open.len() < 5 {
                open.push(connection.request("GET", path, &[], true));
            }
        }
        let Some(id) = (!open.is_empty()).then(|| open.remove(0)) else {
            if load.is_over() {
                return;
            }
            assert_eq!(connection.end(), Some(code::NO_ERROR), "{path}");
            connection = Connection::new(server.address);
            continue;
        };
        match connection.try_response(id) {
            Ok(response) => {
                assert_eq!((response.status, response.body.len()), (200, bytes), "{path}");
                load.answered(1);
            }
            Err(lost) => {
                let (last, found) =
                    connection.goaway.unwrap_or_else(|| panic!("{path}: {lost:?} without GOAWAY"));
                assert_eq!(found, code::NO_ERROR, "{path}");
                let refused = lost == Lost::Reset(code::REFUSED_STREAM);
                assert!(id > last || refused, "{path}: {lost:?} of stream {id}, but {last} was promised");
            }
        }
    }
}

#[test]
fn no_request_is_lost_while_the_configuration_is_reloaded() {
    reload_under_load(5, 50, ask_until_over);
}

#[test]
fn a_request_outlives_a_reload_and_the_grace_period() {
    let gate = Gate::new();
    let server = Setup::with_files()
        .server("grace = \"100ms\"")
        .pool("app", Some(&gate), "workers = 2\nqueue = { timeout = \"60s\" }")
        .start();
    server.wait_for_processes();
    let mut connection = Connection::new(server.address);
    let id = connection.request("GET", "/app/wait", &[], true);
    let waiting = gate.arrival();
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
    while connection.goaway.is_none() {
        connection.step().unwrap();
    }
    assert_eq!(connection.goaway.map(|(_, code)| code), Some(code::NO_ERROR));
    eventually("the grace period is over", || {
        let status = server.status();
        status["old_workers"][0]["since"]
            .as_u64()
            .is_some_and(|since| Some(since) < status["unix_time"].as_u64())
    });
    waiting.release();
    assert_eq!(connection.response(id).text(), "waited\n");
    assert_eq!(connection.end(), Some(code::NO_ERROR));
    assert_eq!(Connection::new(server.address).get("/app/hello?x").text(), "hello x\n");
    server.stop();
}

#[test]
fn a_connection_ends_after_requests_per_connection_max() {
    let server = Setup::with_files().limit("requests_per_connection_max = 10").start();
    let mut connection = Connection::new(server.address);
    let ids: Vec<u32> = (0..15).map(|_| connection.request("GET", "/a.txt", &[], true)).collect();
    let mut answered = 0;
    for id in ids {
        match connection.try_response(id) {
            Ok(response) => {
                assert_eq!(response.text(), "file a\n");
                answered += 1;
            }
            Err(_) => {
                assert!(connection.goaway.is_some_and(|(last, _)| id > last), "{:?}", connection.goaway)
            }
        }
    }
    assert_eq!(connection.end(), Some(code::NO_ERROR));
    assert!((10..=15).contains(&answered), "those on their way may be answered: {answered}");
    let stopped = server.stop();
    assert_eq!(stopped.access.len(), answered);
}

/// RFC 9113, 6.8: what GOAWAY names last is the last request that is answered, also of those that were on their way.
#[test]
fn requests_on_their_way_count_for_the_last_stream_of_goaway() {
    let server = Setup::with_files().limit("requests_per_connection_max = 10").start();
    let mut connection = Connection::new(server.address);
    connection.sync();
    let (mut ids, mut bytes) = (Vec::new(), Vec::new());
    for _ in 0..15 {
        let id = connection.open();
        bytes.extend(connection.request_bytes(id, "GET", "/a.txt", &[], true));
        ids.push(id);
    }
    connection.send(bytes);
    for id in &ids {
        assert_eq!(connection.response(*id).text(), "file a\n");
    }
    while connection.goaways < 2 {
        connection.step().unwrap();
    }
    assert_eq!(connection.goaway, Some((ids[14], code::NO_ERROR)), "the tenth was not the last");
    assert_eq!(connection.end(), Some(code::NO_ERROR));
    assert_eq!(server.stop().access.len(), 15);
}

/// The same while the last one is still being answered: what comes later is refused, and above what was named.
#[test]
fn requests_behind_the_last_stream_of_goaway_are_refused() {
    let gate = Gate::new();
    let server = Setup::with_files()
        .limit("requests_per_connection_max = 1")
        .pool("app", Some(&gate), "workers = 1\nqueue = { timeout = \"60s\" }")
        .start();
    server.wait_for_processes();
    let mut connection = Connection::new(server.address);
    let first = connection.request("GET", "/app/wait", &[], true);
    let waiting = gate.arrival();
    while connection.goaway.is_none() {
        connection.step().unwrap();
    }
    assert_eq!(connection.goaway, Some((u32::MAX >> 1, code::NO_ERROR)), "that it will leave");
    while connection.goaways < 2 {
        connection.step().unwrap();
    }
    assert_eq!(connection.goaway, Some((first, code::NO_ERROR)));
    let late = connection.request("GET", "/a.txt", &[], true);
    assert_eq!(connection.try_response(late), Err(Lost::Reset(code::REFUSED_STREAM)));
    waiting.release();
    assert_eq!(connection.response(first).text(), "waited\n");
    assert_eq!(connection.end(), Some(code::NO_ERROR));
    assert_eq!(server.stop().access.len(), 1);
}

/// A client that says GOAWAY gets what it has asked for.
#[test]
fn a_client_may_leave() {
    let server = Setup::with_files().file("large.bin", &vec![b'l'; 1_000_000]).start();
    let mut connection = Connection::new(server.address);
    let id = connection.request("GET", "/large.bin", &[], true);
    connection.send(crate::support::h2::frame::goaway(0, code::NO_ERROR));
    assert_eq!(connection.response(id).body.len(), 1_000_000);
    connection.end();
    let mut connection = Connection::new(server.address);
    let id = connection.request("GET", "/large.bin", &[], true);
    connection.socket().shutdown(std::net::Shutdown::Write).unwrap();
    // Half-closed without GOAWAY: what it cannot acknowledge any more bounds what it gets.
    let _ = connection.try_response(id);
    eventually("it is closed", || server.total("connections") == 1);
    server.stop();
}

/// At the limit of connections the longest idle one is asked to go, and one with a stream is not.
#[test]
fn an_idle_connection_makes_room_for_a_new_one() {
    let gate = Gate::new();
    let server = Setup::with_files()
        .limit("connections_per_thread_max = 2")
        .pool("app", Some(&gate), "workers = 1\nqueue = { timeout = \"60s\" }")
        .start();
    server.wait_for_processes();
    let mut busy = Connection::new(server.address);
    let id = busy.request("GET", "/app/wait", &[], true);
    let waiting = gate.arrival();
    let mut idle = Connection::new(server.address);
    assert_eq!(idle.get("/a.txt").status, 200);
    let mut new = Connection::new(server.address);
    assert_eq!(new.get("/b.txt").text(), "file b\n");
    assert_eq!(idle.end(), Some(code::NO_ERROR));
    assert_eq!(server.total("reclaimed"), 1);
    waiting.release();
    assert_eq!(busy.response(id).text(), "waited\n");
    server.stop();
}
