//! What becomes of requests when PHP, or the client, does not do its part.

use crate::fastcgi::site::{at, on_both, on_both_within, start};
use crate::support::h2;
use crate::support::php::{BACKLOG, Kind, Php};
use crate::support::{Gate, eventually};

#[test]
fn a_php_that_does_not_run_is_said_and_found_again() {
    for kind in [Kind::FpmUnix, Kind::FpmTcp, Kind::CgiUnix, Kind::CgiTcp] {
        let Some(mut php) = Php::stopped(kind, 2) else { return };
        let server = start(&php, "");
        let page = || server.connect().get("/page").status;
        assert_eq!(page(), 502, "{kind:?}");
        // Files need no PHP.
        assert_eq!(server.connect().get("/a.txt").text(), "file a\n");
        for _ in 0..2 {
            php.start();
            eventually("PHP is found", || page() == 200);
            php.stop();
            assert_eq!(page(), 502, "{kind:?}");
        }
        server.stop();
    }
}

/// Nothing is kept of a PHP that was restarted between two requests: the next one is answered.
#[test]
fn a_restart_of_php_is_not_noticed() {
    let Some(mut php) = Php::fpm(2) else { return };
    let server = start(&php, "");
    let mut client = server.connect();
    for _ in 0..5 {
        assert_eq!(client.get("/page").status, 200);
        php.stop();
        php.start();
    }
    assert_eq!(client.get("/page").status, 200);
    server.stop();
}

/// One process, and many clients: all are answered, one after another.
#[test]
fn one_process_answers_all() {
    let Some(php) = Php::fpm(1) else { return };
    let gate = Gate::new();
    on_both(&php, |front| {
        let mut clients: Vec<_> = (0..BACKLOG).map(|_| front.connect()).collect();
        for client in &mut clients {
            client.send(format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", at(&gate, "wait")));
        }
        let mut pids: Vec<_> = clients
            .iter()
            .map(|_| {
                let waiting = gate.arrival();
                assert!(gate.is_empty(), "{}: two at a time", front.name);
                let pid = waiting.pid;
                waiting.release();
                pid
            })
            .collect();
        pids.dedup();
        assert_eq!(pids.len(), 1);
        for client in &mut clients {
            assert_eq!(client.response("GET").text(), "waited");
        }
    });
}

/// More clients than the process and its backlog take: each is answered, by PHP or with an error; and then all is well again.
#[test]
fn a_full_backlog_hangs_no_client() {
    for kind in [Kind::FpmUnix, Kind::FpmTcp] {
        let Some(php) = Php::of(kind, 1) else { return };
        let gate = Gate::new();
        on_both(&php, |front| {
            let mut first = front.connect();
            first.send(format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", at(&gate, "wait")));
            let waiting = gate.arrival();
            let mut clients: Vec<_> = (0..4 * BACKLOG).map(|_| front.connect()).collect();
            for client in &mut clients {
                client.send("GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n");
            }
            waiting.release();
            assert_eq!(first.response("GET").text(), "waited", "{}", front.name);
            let statuses = clients.iter_mut().map(|client| client.response("GET").status);
            let statuses: Vec<_> = statuses.collect();
            let known = |status: &u16| [200, 502, 503, 504].contains(status);
            assert!(
                statuses.iter().all(known) && statuses.contains(&200),
                "{} {kind:?}: {statuses:?}",
                front.name
            );
            eventually("all is well again", || front.get("/page").status == 200);
        });
    }
}

/// A client that takes nothing of a response keeps no process that has written it: PHP waits behind the end of a request until
/// its connection has ended.
#[test]
fn a_slow_client_frees_the_process() {
    let Some(php) = Php::fpm(1) else { return };
    let server = start(&php, "");
    // SETTINGS_INITIAL_WINDOW_SIZE: nothing may be sent.
    let mut slow = h2::Connection::with(server.address, &[(4, 0)]);
    let ids: Vec<_> = (0..3).map(|_| slow.request("GET", "/page", &[], true)).collect();
    for id in &ids {
        assert_eq!(slow.head(*id).status, 200);
    }
    let mut client = server.connect();
    assert_eq!(client.get("/page").status, 200);
    for id in ids {
        slow.open_window(id, 1 << 20);
        assert_eq!(slow.response(id).status, 200);
    }
    server.stop();
}

/// A process that ends in the middle of a response: the client sees that it is not whole.
#[test]
fn a_process_that_dies_aborts_its_response() {
    let Some(php) = Php::fpm(2) else { return };
    let gate = Gate::new();
    on_both(&php, |front| {
        let mut client = front.connect();
        client.send(format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", at(&gate, "halves")));
        let waiting = gate.arrival();
        Php::kill(waiting.pid);
        assert!(client.try_response("GET").is_err(), "{}", front.name);
        let mut client = front.connect();
        client.send(format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", at(&gate, "wait")));
        let waiting = gate.arrival();
        Php::kill(waiting.pid);
        assert_eq!(client.response("GET").status, 502, "{}", front.name);
        eventually("PHP has another process", || front.get("/page").status == 200);
    });
    let server = start(&php, "");
    let mut connection = h2::Connection::new(server.address);
    let id = connection.request("GET", &at(&gate, "halves"), &[], true);
    connection.content(id, 11);
    Php::kill(gate.arrival().pid);
    assert!(connection.try_response(id).is_err());
    assert_eq!(connection.get("/a.txt").status, 200);
    drop(connection);
    server.stop();
}

/// After `request_timeout` the client gets 504. PHP notices that the request was aborted when the script
/// writes, and its process is free again.
#[test]
fn a_script_that_never_ends_is_given_up() {
    let Some(php) = Php::fpm(1) else { return };
    let gate = Gate::new();
    on_both_within(&php, "1s", |front| {
        let mut client = front.connect();
        client.send(format!("GET {}&silent HTTP/1.1\r\nHost: localhost\r\n\r\n", at(&gate, "endless")));
        let waiting = gate.arrival();
        assert_eq!(client.response("GET").status, 504, "{}", front.name);
        let pid = waiting.pid;
        waiting.release();
        let ended = gate.arrival();
        assert_eq!(ended.pid, pid);
        ended.release();
        assert_eq!(front.get("/page").status, 200);
    });
}

/// The same, once its response has begun: that is aborted.
#[test]
fn a_script_that_falls_silent_is_given_up() {
    let Some(php) = Php::fpm(1) else { return };
    let gate = Gate::new();
    on_both_within(&php, "1s", |front| {
        let mut client = front.connect();
        client.send(format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", at(&gate, "halves")));
        let waiting = gate.arrival();
        assert!(client.try_response("GET").is_err(), "{}", front.name);
        waiting.release();
        assert_eq!(front.get("/page").status, 200);
    });
}

/// A client that leaves: its script ends, and its process answers others.
#[test]
fn a_client_that_leaves_frees_the_process() {
    let Some(php) = Php::fpm(1) else { return };
    let gate = Gate::new();
    on_both(&php, |front| {
        let mut client = front.connect();
        client.send(format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", at(&gate, "endless")));
        assert_eq!(client.head().unwrap().status, 200, "{}", front.name);
        client.exactly(20).unwrap();
        client.reset();
        gate.arrival().release();
        assert_eq!(front.get("/page").status, 200);
    });
    let server = start(&php, "");
    let mut connection = h2::Connection::new(server.address);
    let id = connection.request("GET", &at(&gate, "endless"), &[], true);
    connection.content(id, 20);
    connection.cancel(id);
    gate.arrival().release();
    assert_eq!(connection.get("/page").status, 200);
    drop(connection);
    server.stop();
}

/// A client that leaves before there is anything of a response.
#[test]
fn a_client_that_does_not_wait_frees_the_process() {
    let Some(php) = Php::fpm(1) else { return };
    let gate = Gate::new();
    on_both(&php, |front| {
        let mut client = front.connect();
        client.send(format!("GET {}&silent HTTP/1.1\r\nHost: localhost\r\n\r\n", at(&gate, "endless")));
        let waiting = gate.arrival();
        client.reset();
        waiting.release();
        gate.arrival().release();
        assert_eq!(front.get("/page").status, 200, "{}", front.name);
    });
}
