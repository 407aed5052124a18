//! An event loop whose turns are all long (`docs/overload.md`): streams are refused, then new connections wait.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::support::h2::frame::setting;
use crate::support::h2::{Connection, Lost};
use crate::support::{Server, Setup, eventually};

/// Connections that ask without a pause. Each has some milliseconds of work in the kernel's buffers at any time, so that no turn
/// finds nothing to do.
const BUSY: usize = 16;
/// What these connections ask for is small; asking is not.
const FILLER_BYTES: usize = 1000;

/// Ends the flood, also where the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Sends requests on all connections as fast as they are taken, and drops the answers.
fn flood(address: SocketAddr, over: &AtomicBool) {
    let request =
        format!("GET /none HTTP/1.1\r\nHost: localhost\r\nX-Filler: {}\r\n\r\n", "x".repeat(FILLER_BYTES));
    let requests = request.repeat(100).into_bytes();
    let connect = |_| {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nonblocking(true).unwrap();
        (stream, 0)
    };
    let mut all: Vec<(TcpStream, usize)> = (0..BUSY).map(connect).collect();
    let mut answers = vec![0; 1 << 18];
    let soon = Timespec::try_from(std::time::Duration::from_millis(100)).unwrap();
    while !over.load(Relaxed) {
        for (stream, sent) in &mut all {
            let waits = |result: std::io::Result<usize>| match result {
                Ok(0) => panic!("the server has closed"),
                Ok(bytes) => Some(bytes),
                Err(error) if error.kind() == ErrorKind::WouldBlock => None,
                Err(error) => panic!("{error}"),
            };
            while waits(stream.read(&mut answers)).is_some() {}
            while let Some(bytes) = waits(stream.write(&requests[*sent..])) {
                *sent = (*sent + bytes) % requests.len();
            }
        }
        let wanted = PollFlags::IN | PollFlags::OUT;
        let mut polled: Vec<PollFd<'_>> = all.iter().map(|(stream, _)| PollFd::new(stream, wanted)).collect();
        poll(&mut polled, Some(&soon)).unwrap();
    }
}

fn delay(server: &Server) -> u64 {
    server.status()["threads"][0]["overload"]["delay"].as_u64().unwrap()
}

/// The limit of streams that is sent to an HTTP/2 client.
fn streams_max(connection: &mut Connection) -> u32 {
    connection.sync();
    connection.settings[&setting::MAX_CONCURRENT_STREAMS]
}

#[test]
fn where_all_turns_are_long_streams_are_refused_and_connections_wait() {
    let limits = "loop_delay_max = \"1ms\"\nrequests_per_connection_max = 1_000_000_000";
    let server = Setup::with_files().limit(limits).start();
    let mut kept = Connection::new(server.address);
    assert_eq!((kept.get("/a.txt").status, streams_max(&mut kept)), (200, 128));
    let mut stalled = Connection::with(server.address, &[(setting::INITIAL_WINDOW_SIZE, 0)]);
    stalled.sync();
    let over = AtomicBool::new(false);
    let mut newcomer = std::thread::scope(|scope| {
        let flood = scope.spawn(|| flood(server.address, &over));
        let _over = Over(&over);
        eventually("the delay is critical, and clients get fewer streams", || {
            assert!(!flood.is_finished(), "the flood goes on");
            delay(&server) == 2 && streams_max(&mut kept) == 1
        });
        server.wait_for("not accepting for now: the critical level of overload is reached");
        // A client that takes its responses is served, one by one; what is beyond is refused.
        assert_eq!(kept.get("/a.txt").text(), "file a\n");
        eventually("streams are refused", || {
            stalled.request("GET", "/a.txt", &[], true);
            stalled.sync();
            server.total("streams_refused") > 0
        });
        let mut newcomer = None;
        eventually("a new connection waits", || {
            let before = delay(&server);
            let mut client = server.connect();
            client.send("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
            // The new connection was there before this request: had it been accepted, its answer would have left first.
            assert_eq!(kept.get("/b.txt").text(), "file b\n");
            let waits = client.is_quiet() && (before, delay(&server)) == (2, 2);
            newcomer = Some(client);
            waits
        });
        newcomer.unwrap()
    });
    // Events do not wait any more: so the level falls by itself.
    assert_eq!(newcomer.response("GET").text(), "file a\n");
    eventually("the level is normal again", || delay(&server) == 0);
    assert_eq!(streams_max(&mut kept), 128, "as before");
    let id = stalled.request("GET", "/a.txt", &[], true);
    stalled.open_window(id, 100);
    match stalled.try_response(id) {
        Ok(response) => assert_eq!(response.text(), "file a\n"),
        Err(lost @ (Lost::Reset(_) | Lost::Ended)) => panic!("{lost:?}"),
    }
    server.stop();
}
