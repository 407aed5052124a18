//! Priorities (RFC 9218). The connection's window is closed while requests come, and opened bit by bit: what the server sends
//! then is its choice alone.

use crate::support::h2::Connection;
use crate::support::h2::frame::{self, setting};
use crate::support::{Server, Setup};

/// More than a server may have sent ahead, so that an order shows.
const BYTES: usize = 2_000_000;
/// How much is let through at a time.
const PORTION: u32 = 100_000;

fn start() -> Server {
    Setup::with_files().file("large.bin", &vec![b'x'; BYTES]).start()
}

/// A connection whose window is used up by a response that is not waited for.
fn closed(server: &Server) -> Connection {
    let mut connection = Connection::with(server.address, &[(setting::INITIAL_WINDOW_SIZE, 1 << 30)]);
    connection.reads = false;
    let id = connection.request("GET", "/large.bin", &[], true);
    while connection.window() > 0 {
        connection.step().unwrap();
    }
    connection.cancel(id);
    connection.sync();
    connection
}

fn ask(connection: &mut Connection, priority: &str) -> u32 {
    let id = connection.request("GET", "/large.bin", &[("priority", priority)], true);
    assert_eq!(connection.head(id).status, 200);
    id
}

/// Opens the window by one portion, and waits until it is used up.
fn portion(connection: &mut Connection) {
    connection.open_window(0, PORTION);
    while connection.window() > 0 {
        connection.step().unwrap();
    }
}

fn bytes(connection: &mut Connection, id: u32) -> usize {
    connection.stream(id).body.len()
}

#[test]
fn the_server_says_that_it_obeys() {
    let server = start();
    let mut connection = Connection::new(server.address);
    connection.sync();
    assert_eq!(connection.settings.get(&setting::NO_RFC7540_PRIORITIES), Some(&1));
    server.stop();
}

#[test]
fn what_is_urgent_overtakes_what_is_not() {
    let server = start();
    let mut connection = closed(&server);
    let slow = ask(&mut connection, "u=7");
    portion(&mut connection);
    assert_eq!(bytes(&mut connection, slow), PORTION as usize);
    let urgent = ask(&mut connection, "u=0");
    let usual = ask(&mut connection, "");
    for _ in 0..BYTES / PORTION as usize {
        portion(&mut connection);
    }
    assert_eq!(bytes(&mut connection, urgent), BYTES, "first what is urgent");
    assert!(connection.stream(urgent).ended);
    for _ in 0..BYTES / PORTION as usize {
        portion(&mut connection);
    }
    assert_eq!(bytes(&mut connection, usual), BYTES, "then what has the default, 3");
    assert_eq!(bytes(&mut connection, slow), PORTION as usize);
    connection.open_window(0, 1 << 30);
    assert_eq!(connection.response(slow).body.len(), BYTES);
    server.stop();
}

#[test]
fn of_the_same_urgency_one_comes_after_the_other() {
    let server = start();
    let mut connection = closed(&server);
    let ids: Vec<u32> = (0..3).map(|_| ask(&mut connection, "u=4")).collect();
    for _ in 0..BYTES / PORTION as usize {
        portion(&mut connection);
    }
    let sent: Vec<usize> = ids.iter().map(|id| bytes(&mut connection, *id)).collect();
    assert_eq!(sent, [BYTES, 0, 0]);
    server.terminate(rustix::process::Signal::KILL);
}

#[test]
fn incremental_ones_come_side_by_side() {
    let server = start();
    let mut connection = closed(&server);
    let ids: Vec<u32> = (0..4).map(|_| ask(&mut connection, "u=4, i")).collect();
    for _ in 0..BYTES / PORTION as usize {
        portion(&mut connection);
    }
    for id in ids {
        let sent = bytes(&mut connection, id);
        assert!((BYTES / 8..BYTES / 2).contains(&sent), "a quarter is about fair: {sent} of {BYTES}");
    }
    server.terminate(rustix::process::Signal::KILL);
}

#[test]
fn a_client_may_change_its_mind() {
    let server = start();
    let mut connection = closed(&server);
    let first = ask(&mut connection, "u=1");
    let second = ask(&mut connection, "u=2");
    portion(&mut connection);
    assert_eq!((bytes(&mut connection, first), bytes(&mut connection, second)), (PORTION as usize, 0));
    connection.send(frame::priority_update(second, "u=0"));
    connection.sync();
    for _ in 0..BYTES / PORTION as usize {
        portion(&mut connection);
    }
    assert_eq!((bytes(&mut connection, first), bytes(&mut connection, second)), (PORTION as usize, BYTES));
    // For a stream that is not open yet, too.
    let third = first + 4;
    connection.send(frame::priority_update(third, "u=0"));
    assert_eq!(ask(&mut connection, "u=7"), third);
    portion(&mut connection);
    assert_eq!(bytes(&mut connection, third), PORTION as usize);
    server.terminate(rustix::process::Signal::KILL);
}

#[test]
fn a_priority_that_is_nonsense_is_the_default() {
    let server = start();
    let mut connection = closed(&server);
    let nonsense = ask(&mut connection, "u=9, i=maybe, ((");
    let less = ask(&mut connection, "u=4");
    portion(&mut connection);
    assert_eq!((bytes(&mut connection, nonsense), bytes(&mut connection, less)), (PORTION as usize, 0));
    connection.send(frame::priority_update(less, "u=0, ))"));
    connection.sync();
    server.terminate(rustix::process::Signal::KILL);
}
