//! Requests that are small on the wire, and whose answers are not taken: what they make the server hold.

use super::{Bounds, Stage};
use crate::support::h2::Connection;
use crate::support::h2::frame::{self, setting};
use crate::support::h2::hpack::{self, Literal};
use crate::support::{Server, Setup};

/// Streams of one connection, as many as it may have.
const STREAMS: usize = 128;

/// A file that the server keeps in memory, 32 kB.
fn site() -> Setup {
    let setup = Stage::site();
    std::fs::write(setup.directory.path().join("root/hot.bin"), vec![b'h'; 32_000]).unwrap();
    setup
}

/// Opens connections with windows of nothing, and asks for `path` on all streams of each, with 12 kB of fields that are three
/// bytes on the wire.
fn ask_and_take_nothing(server: &Server, connections: usize, path: &str) -> Vec<Connection> {
    let fields = [(":method", "GET"), (":scheme", "http"), (":path", path), (":authority", "localhost")];
    let mut sent = 0;
    let mut all: Vec<Connection> = (0..connections)
        .map(|_| Connection::with(server.address, &[(setting::INITIAL_WINDOW_SIZE, 0)]))
        .collect();
    for connection in &mut all {
        let mut bytes = Vec::new();
        for number in 0..STREAMS {
            let mut block = hpack::block(&fields);
            if number == 0 {
                hpack::literal(Literal::Indexed, b"x-large", &[b'x'; 3900], &mut block);
                block.extend([0xbe; 2]);
            } else {
                block.extend([0xbe; 3]);
            }
            let id = connection.open();
            bytes.extend(frame::headers(id, &block, true));
        }
        sent += bytes.len();
        connection.send(bytes);
    }
    all.iter_mut().for_each(Connection::sync);
    println!("{sent} bytes were sent");
    all
}

/// 6,400 streams of 32 kB that cannot be sent made the server hold 206 MB, for 645 kB that it had received. Neither the file's
/// bytes nor the request's head are held for each stream.
#[test]
fn hot_files_to_windows_that_never_open() {
    let bounds = Bounds { memory_bytes_max: 20_000_000, ..Bounds::default() };
    Stage::new(site()).play(bounds, |server| {
        let mut connections = ask_and_take_nothing(server, 50, "/hot.bin");
        // A client that opens a window gets the file all the same.
        let connection = &mut connections[0];
        connection.open_window(1, 1 << 20);
        assert_eq!(connection.response(1).body, vec![b'h'; 32_000]);
        connections.iter_mut().for_each(Connection::sync);
    });
}

/// The same with a file that is read as it is sent: of its request, no more is held than the access log wants.
#[test]
fn large_files_to_windows_that_never_open() {
    let bounds = Bounds { memory_bytes_max: 20_000_000, ..Bounds::default() };
    Stage::new(site()).play(bounds, |server| {
        let mut connections = ask_and_take_nothing(server, 50, "/zeros.bin");
        connections.iter_mut().for_each(Connection::sync);
    });
}
