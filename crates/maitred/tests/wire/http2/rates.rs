//! Clients that open windows so slowly that they hold what they never take.

use std::fs;
use std::io::Read as _;
use std::time::Duration;

use rustix::net::sockopt::set_socket_recv_buffer_size;

use crate::http2::secure::Door;
use crate::support::h2::frame::{code, setting};
use crate::support::h2::{Connection, Lost};
use crate::support::{Setup, eventually, pace};

/// Between two openings of a window.
const PAUSE: Duration = Duration::from_millis(50);
/// By how much it is opened: less than the rate by far.
const STEP: u32 = 100;
/// The file: more than all buffers take.
const LARGE: usize = 10_000_000;

fn setup() -> Setup {
    let setup = Setup::with_files().limit(
        "response_bytes_per_second_min = 100000\nresponse_rate_window = \"1s\"\nwrite_timeout = \"10m\"",
    );
    fs::File::create(setup.directory.path().join("root/zeros.bin")).unwrap().set_len(LARGE as u64).unwrap();
    setup
}

#[test]
fn a_stream_whose_window_stays_small_is_reset() {
    let server = setup().start();
    let mut connection = Connection::with(server.address, &[(setting::INITIAL_WINDOW_SIZE, STEP)]);
    let slow = connection.request("GET", "/zeros.bin", &[], true);
    eventually("the stream is aborted", || {
        connection.open_window(slow, STEP);
        pace(PAUSE);
        server.total("slow") == 1
    });
    assert_eq!(connection.try_response(slow).unwrap_err(), Lost::Reset(code::CANCEL));
    // Others go on.
    assert_eq!(connection.get("/a.txt").text(), "file a\n");
    server.stop();
}

#[test]
fn a_connection_whose_window_stays_small_is_closed() {
    let server = setup().start();
    let mut connection = Connection::with(server.address, &[(setting::INITIAL_WINDOW_SIZE, 10_000_000)]);
    let slow = connection.request("GET", "/zeros.bin", &[], true);
    eventually("the connection is aborted", || {
        // The window of the connection, which is 65,535 bytes at first.
        connection.open_window(0, STEP);
        pace(PAUSE);
        server.total("slow") == 1
    });
    assert_eq!(connection.try_response(slow).unwrap_err(), Lost::Ended);
    assert_eq!(Connection::new(server.address).get("/a.txt").text(), "file a\n");
    server.stop();
}

/// Over TLS, with windows that are open wide: it is the socket that nothing leaves.
#[test]
fn a_connection_whose_socket_is_read_slowly_is_closed() {
    let (setup, roots) = Door::prepare(setup(), "");
    let server = setup.start();
    let door = Door::of(&server, roots);
    let settings = [(setting::INITIAL_WINDOW_SIZE, 1 << 30)];
    let (mut connection, socket) = door.connect_to_socket(&settings);
    set_socket_recv_buffer_size(&socket, 64 * 1024).unwrap();
    connection.open_window(0, 1 << 30);
    connection.request("GET", "/zeros.bin", &[], true);
    eventually("the connection is aborted", || {
        let _ = (&socket).read(&mut [0; 1000]);
        pace(PAUSE);
        server.total("slow") == 1
    });
    server.wait_for("it takes less than response_bytes_per_second_min");
    let mut other = door.connect_with(&settings);
    other.open_window(0, 1 << 30);
    assert_eq!(other.get("/zeros.bin").body.len(), LARGE);
    assert_eq!(server.total("slow"), 1);
    server.stop();
}

#[test]
fn a_body_that_trickles_gets_408() {
    let server = Setup::with_files()
        .limit("body_bytes_per_second_min = 1000\nbody_rate_grace = \"500ms\"")
        .pool("app", None, "workers = 1\nqueue = { timeout = \"60s\" }")
        .start();
    server.wait_for_processes();
    let mut connection = Connection::new(server.address);
    let id = connection.request("POST", "/app/length", &[("content-length", "100000")], false);
    eventually("the request is aborted", || {
        connection.upload(id, b"x", false);
        pace(PAUSE);
        server.total("timeouts") == 1
    });
    assert_eq!(connection.response(id).status, 408);
    assert_eq!(connection.get("/a.txt").text(), "file a\n");
    server.stop();
}
