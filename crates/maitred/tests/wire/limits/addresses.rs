//! What an address may do over all its connections, by `[limits]`.

use crate::limits::count;
use crate::support::h2::Connection;
use crate::support::h2::frame::code;
use crate::support::{Setup, eventually};

const RESETS: &str = "http2_resets_per_address_per_second_max = 1\n";

/// Has a connection reset three streams whose responses are under way. Gives back how it was ended, if it was.
fn three_resets(server: &crate::support::Server) -> Option<u32> {
    let mut connection = Connection::new(server.address);
    for _ in 0..3 {
        let id = connection.request("POST", "/a.txt", &[], false);
        connection.cancel(id);
    }
    let _ = connection.try_sync();
    connection.goaway.map(|(_, code)| code)
}

#[test]
fn an_address_can_reset_only_so_many_streams_over_all_connections() {
    let server = Setup::with_files()
        .server("threads = 2")
        .limit(&format!("{RESETS}connections_per_address_exempt = []"))
        .start();
    for _ in 0..3 {
        assert_eq!(three_resets(&server), None, "these are nine");
    }
    eventually("a connection is ended", || three_resets(&server) == Some(code::ENHANCE_YOUR_CALM));
    assert!(count(&server, "http2_resets", "refused") > 0);
    server.wait_for("its address resets too many streams");
    // Connections that reset nothing are none the worse for it.
    assert_eq!(Connection::new(server.address).get("/a.txt").status, 200);
    server.stop();
}

#[test]
fn addresses_that_are_exempt_are_not_counted() {
    for limits in [RESETS, "http2_resets_per_address_per_second_max = 0\nconnections_per_address_exempt = []"]
    {
        let server = Setup::with_files().limit(limits).start();
        assert!((0..10).all(|_| three_resets(&server).is_none()), "{limits}");
        server.stop();
    }
}
