//! Servers that say nothing more, from any point on.

use super::relay::{End, Relay};
use super::{KINDS, Kind, Seen, TEXT, response, seen};
use crate::proxy::secure::Authority;
use crate::support::{Setup, eventually};

/// Bytes of the server's that arrive: nothing, some of its first words, some of its head, some of its content.
fn points(kind: Kind) -> &'static [usize] {
    match kind {
        Kind::Http => &[0, 1, 16, 37, 38, 40, 47],
        // In the handshake, whose length is not always the same.
        Kind::Https => &[0, 3, 100, 400],
        // SETTINGS and its acknowledgement have nine bytes each.
        Kind::Http2 => &[0, 8, 9, 18, 20, 28, 40, 44, 48, 56],
        Kind::FastCgi => &[0, 7, 8, 20, 36, 44, 47, 60],
    }
}

/// A client gets an answer or the end of one in time, and nothing stays open.
#[test]
fn servers_may_stall_at_any_point() {
    let authority = Authority::new();
    let upstreams = KINDS.map(|kind| (kind, kind.upstream(&authority, move |_, id| response(kind, id))));
    let mut setup = Setup::with_files().server("threads = 1").outside("ca.pem", authority.pem.as_bytes());
    let mut relays = Vec::new();
    for (kind, upstream) in &upstreams {
        for bytes in points(*kind) {
            let (relay, name) =
                (Relay::start(upstream.address(), *bytes, End::Stall), format!("{kind:?}-{bytes}"));
            // Long enough that a slow machine has passed on by then what has come.
            let lines = "connect_timeout = \"2s\"\nrequest_timeout = \"2s\"";
            setup = setup.route(&format!("/{name}"), &format!("pool = \"{name}\"")).table(&kind.pool(
                &name,
                relay.address,
                lines,
            ));
            relays.push((name, relay));
        }
    }
    let server = setup.start();
    std::thread::scope(|scope| {
        for (name, _) in &relays {
            for method in ["GET", "POST"] {
                let (server, path) = (&server, format!("/{name}"));
                scope.spawn(move || {
                    let seen = seen(server, method, &path, TEXT);
                    assert!([Seen::Failed(504), Seen::Cut].contains(&seen), "{method} {path}: {seen:?}");
                });
            }
        }
    });
    // Also those that have many streams: no other request goes where nothing comes any more.
    eventually("all connections are closed", || relays.iter().all(|(_, relay)| relay.open() == 0));
    server.stop();
}
