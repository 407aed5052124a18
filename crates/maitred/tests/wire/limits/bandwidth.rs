//! `response_bytes_per_second_max`: a response takes as long as it has to, whatever it comes from, and others are not slowed
//! down.

use std::time::{Duration, Instant};

use crate::support::h2::Connection;
use crate::support::upstream::Upstream;
use crate::support::{Server, Setup};

/// A megabyte a second after the first 100,000 bytes: responses of 600,000 take half a second.
const SLOW: &str = "limits = { response_bytes_per_second_max = 1000000, response_burst_bytes = 100000 }";
const BYTES: usize = 600_000;
/// A little less: what is sent first may be a tenth of a second ahead.
const AT_LEAST: Duration = Duration::from_millis(390);

fn body() -> Vec<u8> {
    (0..BYTES).map(|at| (at % 251) as u8).collect()
}

fn setup(upstream: &Upstream) -> Setup {
    Setup::with_files()
        .limit("inline_file_bytes_max = 1000")
        .file("large", &body())
        .file("slow/large", &body())
        .file("slowest/large", &body())
        .route("/slowest/*", "root = \"root\"\nlimits = { response_bytes_per_second_max = \"10k\" }")
        .route("/slow/*", &format!("root = \"root\"\n{SLOW}"))
        .route("/proxied/*", &format!("pool = \"proxied\"\n{SLOW}"))
        .route("/direct/*", &format!("pool = \"app\"\n{SLOW}"))
        .pool("app", None, "workers = 1\ntransport = \"direct\"")
        .table(&format!("[pool.proxied]\nconnect = \"{}\"\n", upstream.name()))
}

fn upstream() -> Upstream {
    Upstream::start(|peer| {
        loop {
            peer.request()?;
            peer.answer(body())?;
        }
    })
}

const TARGETS: [&str; 3] = ["/slow/large", "/proxied/x", "/direct/large?600000"];

#[test]
fn a_response_leaves_no_faster_than_it_may() {
    let upstream = upstream();
    let server = setup(&upstream).start();
    let mut client = server.connect();
    for target in TARGETS {
        // The second one on the same connection is as slow as the first.
        for _ in 0..2 {
            let start = Instant::now();
            let response = client.get(target);
            assert_eq!((response.status, response.body.len()), (200, BYTES), "{target}");
            assert!(target.starts_with("/direct") || response.body == body(), "{target}");
            assert!(start.elapsed() >= AT_LEAST, "{target}: {:?}", start.elapsed());
        }
    }
    assert!(server.total("relayed") >= 2, "no process writes to the client's socket");
    server.stop();
}

#[test]
fn streams_are_slowed_down_each_by_itself() {
    let upstream = upstream();
    let server = setup(&upstream).start();
    let mut connection = Connection::new(server.address);
    let start = Instant::now();
    let slow: Vec<_> = TARGETS.iter().map(|target| connection.request("GET", target, &[], true)).collect();
    // A stream that has no limit overtakes one that takes a minute.
    let slowest = connection.request("GET", "/slowest/large", &[], true);
    assert_eq!(connection.get("/large").body.len(), BYTES);
    assert!(connection.stream(slowest).body.len() < BYTES);
    connection.cancel(slowest);
    for (id, target) in slow.into_iter().zip(TARGETS) {
        let response = connection.response(id);
        assert_eq!((response.status, response.body.len()), (200, BYTES), "{target}");
        assert!(start.elapsed() >= AT_LEAST, "{target}: {:?}", start.elapsed());
    }
    server.stop();
}

#[test]
fn what_is_slowed_down_keeps_no_thread_busy() {
    let upstream = upstream();
    let server = setup(&upstream).server("threads = 1").start();
    let turns = |server: &Server| server.total("turns");
    let mut clients: Vec<_> = (0..5).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /slow/large HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    let before = turns(&server);
    for client in &mut clients {
        assert_eq!(client.response("GET").body.len(), BYTES);
    }
    // Ten pieces each, a few turns for each piece, and those of the clients' reads.
    let took = turns(&server) - before;
    assert!(took < 500, "{took} turns");
    // A client that goes away in the middle is forgotten.
    let mut gone = server.connect();
    gone.send("GET /slow/large HTTP/1.1\r\nHost: h\r\n\r\n");
    gone.exactly(1000).unwrap();
    drop(gone);
    assert_eq!(server.connect().get("/a.txt").status, 200);
    server.stop();
}

/// What an application says in `X-Accel-Limit-Rate` counts for its response, or for the file that it names,
/// whatever its route says.
#[test]
fn an_application_says_how_fast_its_response_may_leave() {
    // The query has a field, or several with `&` between them.
    let server = Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            let (_, said) = asked.target().split_once('?').unwrap_or_default();
            let fields: String =
                said.split('&').map(|field| format!("{}\r\n", field.replace(':', ": "))).collect();
            let head = format!("HTTP/1.1 200 OK\r\nX-Own: 1\r\n{fields}Content-Length: {BYTES}\r\n\r\n");
            let content = if asked.line.starts_with("HEAD") { Vec::new() } else { body() };
            peer.send([head.as_bytes(), &content].concat())?;
        }
    });
    let maitred = Setup::with_files()
        .limit("inline_file_bytes_max = 1000")
        .outside("named/large", &body())
        .route("/slow/*", &format!("pool = \"named\"\n{SLOW}"))
        .route("/passed/*", "pool = \"passed\"")
        .route("/*", "pool = \"named\"")
        .table(&format!(
            "[pool.named]\nconnect = \"{0}\"\nnamed_files = {{ \"/n/\" = \"named\" }}\n\
             [pool.passed]\nconnect = \"{0}\"\n",
            server.name()
        ))
        .start();
    let mut streams = Connection::new(maitred.address);
    let slow = "X-Accel-Limit-Rate:1000000";
    let (wait, no_wait) = (Duration::from_millis(490), Duration::ZERO);
    for (target, at_least) in [
        (format!("/?{slow}"), wait),
        (format!("/?{slow}&X-Accel-Buffering:no&X-Accel-Expires:10&X-Accel-Charset:utf-8"), wait),
        (format!("/?X-Accel-Redirect:/n/large&{slow}"), wait),
        (format!("/slow/?{slow}"), AT_LEAST),
        ("/slow/?X-Accel-Limit-Rate:fast".to_owned(), AT_LEAST),
        ("/slow/?X-Accel-Limit-Rate:off".to_owned(), no_wait),
        ("/?X-Accel-Limit-Rate:0".to_owned(), no_wait),
    ] {
        let start = Instant::now();
        let response = maitred.connect().get(&target);
        assert_eq!((response.status, response.body.len()), (200, BYTES), "{target}");
        assert!(start.elapsed() >= at_least, "{target}: {:?}", start.elapsed());
        let told = |name: &str| name.to_ascii_lowercase().starts_with("x-accel");
        assert!(!response.fields.iter().any(|(name, _)| told(name)), "{target}: {:?}", response.fields);
        let start = Instant::now();
        let response = streams.get(&target);
        assert_eq!((response.status, response.body.len()), (200, BYTES), "{target}");
        assert!(start.elapsed() >= at_least, "{target}: {:?}", start.elapsed());
    }
    // The next response of a connection is not bound by what this one has said: it would take a minute.
    let (mut client, start) = (maitred.connect(), Instant::now());
    assert_eq!(client.method("HEAD", "/?X-Accel-Limit-Rate:10000", "").status, 200);
    assert_eq!(client.get("/?X-None:1").body.len(), BYTES);
    assert!(start.elapsed() < Duration::from_secs(30));
    let passed = client.get(&format!("/passed/?{slow}"));
    assert_eq!(passed.need("x-accel-limit-rate"), "1000000", "a field as any other: for a server in front");
    maitred.stop();
}
