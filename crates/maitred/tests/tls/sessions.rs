//! Sessions that are resumed: by all threads, after a reload, or not at all.

use rustls::version::{TLS12, TLS13};

use crate::stage::{Authority, resumes, resumes_and_stays, setup};
use crate::support::{Server, eventually};

/// Handshakes that each thread has made.
fn handshakes(server: &Server) -> Vec<u64> {
    let status = server.status();
    let threads = status["threads"].as_array().unwrap();
    threads.iter().map(|thread| thread["tls_handshakes"].as_u64().unwrap()).collect()
}

#[test]
fn any_thread_resumes_what_another_began_also_after_a_reload() {
    let authority = Authority::new();
    let server = setup(&authority, "").server("threads = 3").start();
    for version in [&TLS12, &TLS13] {
        let client = authority.client_of(&[version], None);
        assert!(!resumes(&server, &client), "{version:?}: the first one");
        // They stay, so that threads which have some leave others to those that have none.
        let (earlier, mut connections) = (handshakes(&server), Vec::new());
        eventually("each thread has resumed one", || {
            let (resumed, connection) = resumes_and_stays(&server, &client);
            connections.push(connection);
            assert!(resumed, "{version:?}: number {}", connections.len());
            handshakes(&server).iter().zip(&earlier).all(|(now, earlier)| now > earlier)
        });
        drop(connections);
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
