//! Sessions that are resumed: by all threads, after a reload, or not at all.

use rustls::version::{TLS12, TLS13};

use crate::support::stage::{Authority, resumes, resumes_and_stays, setup};
use crate::support::{Client, Server, eventually};

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
        // The connections stay, so that threads which have some leave others to those that have none.
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

#[test]
fn an_address_can_begin_only_so_many_handshakes_that_resume_nothing() {
    let authority = Authority::new();
    let limits = "tls_handshakes_per_address_per_second_max = 1\nconnections_per_address_exempt = []";
    let server = setup(&authority, "").server("threads = 2").limit(limits).start();
    let refused = || server.status()["limits"]["tls_handshakes"]["refused"].as_u64().unwrap();
    // A session that is resumed does not count: these are more than ten.
    let client = authority.client();
    assert!(!resumes(&server, &client));
    assert!((0..15).all(|_| resumes(&server, &client)));
    assert_eq!(refused(), 0);
    // Nine more at once, and one in each second that passes meanwhile.
    let anew =
        || Client::try_connect_tls(server.address_of("https"), &authority.client(), "localhost").is_ok();
    eventually("no more are taken", || !anew());
    assert!(refused() > 0);
    server.wait_for("connection closed: tls_handshakes_per_address_per_second_max is reached");
    // After a reload it goes on.
    assert!(server.command(&["reload"]).0.success());
    eventually("another worker process answers", || server.status()["generation"] == 2);
    assert!(refused() > 0);
    eventually("time makes up for them", anew);
    server.stop();
}

#[test]
fn handshakes_are_not_counted_where_the_address_is_exempt_or_there_is_no_limit() {
    let authority = Authority::new();
    for limits in [
        "tls_handshakes_per_address_per_second_max = 1",
        "tls_handshakes_per_address_per_second_max = 0\nconnections_per_address_exempt = []",
    ] {
        let server = setup(&authority, "").limit(limits).start();
        assert!((0..15).all(|_| !resumes(&server, &authority.client())), "{limits}");
        server.stop();
    }
}
