//! Sessions that are resumed: by all threads, after a reload, or not at all.

use rustls::version::{TLS12, TLS13};

use crate::stage::{Authority, resumes, setup};
use crate::support::eventually;

/// Handshakes after which every thread has had one.
const MANY: usize = 24;

#[test]
fn any_thread_resumes_what_another_began_also_after_a_reload() {
    let authority = Authority::new();
    let server = setup(&authority, "").server("threads = 3").start();
    for version in [&TLS12, &TLS13] {
        let client = authority.client_of(&[version], None);
        assert!(!resumes(&server, &client), "{version:?}: the first one");
        for number in 0..MANY {
            assert!(resumes(&server, &client), "{version:?}: number {number}");
        }
        let before = server.status()["pid"].clone();
        assert!(server.command(&["reload"]).0.success());
        eventually("another worker process answers", || server.status()["pid"] != before);
        assert!(resumes(&server, &client), "{version:?}: after a reload");
    }
    server.stop();
}

#[test]
fn nothing_is_resumed_without_tickets() {
    let authority = Authority::new();
    let server = setup(&authority, "tickets = false").start();
    for version in [&TLS12, &TLS13] {
        let client = authority.client_of(&[version], None);
        assert!(!resumes(&server, &client) && !resumes(&server, &client), "{version:?}");
    }
    server.stop();
}

#[test]
fn versions_that_are_left_out_are_refused() {
    let authority = Authority::new();
    let server = setup(&authority, "versions = [\"1.3\"]").start();
    let address = server.address_of("https");
    let connect = |version| {
        let client = authority.client_of(&[version], None);
        crate::support::Client::try_connect_tls(address, &client, "localhost")
    };
    assert!(connect(&TLS12).is_err());
    assert_eq!(connect(&TLS13).unwrap().get("/a.txt").text(), "file a\n");
    server.stop();
}
