//! `rate`: what passes, what is refused, and by what it is counted. All rates are so slow that no test sees a second request
//! pass by time.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::limits::count;
use crate::support::h2::Connection;
use crate::support::upstream::Upstream;
use crate::support::{Response, Server, Setup, eventually};

/// A limit of five in an hour.
const FIVE: &str = "[limit.x]\nrate = \"5/h\"\nkeys_max = 1000\n";

#[track_caller]
fn is_refused(response: &Response) {
    assert_eq!(response.status, 429);
    let seconds: u64 = response.need("retry-after").parse().unwrap();
    assert!((1..=720).contains(&seconds), "one more is allowed every 12 minutes: {seconds}");
    assert_eq!(response.need("ratelimit"), format!("\"x\";r=0;t={seconds}"));
    assert_eq!(response.need("ratelimit-policy"), "\"x\";q=5;w=3600");
}

#[test]
fn requests_beyond_the_rate_are_refused_and_counted() {
    let server = Setup::with_files()
        .file("429.html", b"not so fast\n")
        .site("error_pages = { 429 = \"/429.html\" }")
        .site("limit = [\"x\"]")
        .table(&format!(
            "[[site.route]]\npath = \"/free\"\nrespond = {{ body = \"free\" }}\nlimit = []\n{FIVE}"
        ))
        .start();
    let mut client = server.connect();
    let targets = ["/a.txt", "/b.txt", "/", "/none", "/dir/"];
    let said: Vec<_> = targets.iter().map(|target| client.get(target).status).collect();
    assert_eq!(said, [200, 200, 200, 404, 200], "what no route matches is counted, too");
    assert_eq!((count(&server, "x", "refused"), count(&server, "x", "keys")), (0, 1));
    let refused = client.get("/a.txt");
    is_refused(&refused);
    assert_eq!(refused.text(), "not so fast\n");
    // On another connection, and by another method.
    is_refused(&server.connect().method("HEAD", "/b.txt", ""));
    assert_eq!(client.get("/free").text(), "free");
    assert_eq!(count(&server, "x", "refused"), 2);
    let metrics = server.admin("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").text().to_owned();
    assert!(metrics.contains("maitred_limit_refused_total{limit=\"x\"} 2\n"), "{metrics}");
    assert!(metrics.contains("maitred_limit_keys_max{limit=\"x\"} 1000\n"), "{metrics}");
    let stopped = server.stop();
    assert_eq!(stopped.access.iter().filter(|line| line.contains(" 429 ")).count(), 2);
    assert!(stopped.said.iter().any(|line| line.contains("429: beyond its limit")), "{:?}", stopped.said);
}

#[test]
fn a_request_is_counted_once_however_it_comes() {
    let upstream = Upstream::start(|peer| {
        loop {
            peer.request()?;
            peer.answer("app")?;
        }
    });
    // Each file is read from the disk the first time; a body of this size is kept in a file before it goes on.
    let server = (0..20)
        .fold(Setup::with_files(), |setup, number| setup.file(&format!("{number}"), b"x"))
        .limit("body_inline_bytes_max = 10")
        .site("limit = [\"x\"]")
        .route("/app/*", "pool = \"app\"\nlimit = [\"y\"]")
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", upstream.name()))
        .table("[limit.x]\nrate = \"10/h\"\n[limit.y]\nrate = \"3/h\"\n")
        .start();
    let mut client = server.connect();
    let pipelined: String =
        (0..15).map(|number| format!("GET /{number} HTTP/1.1\r\nHost: h\r\n\r\n")).collect();
    client.send(pipelined);
    let said: Vec<_> = (0..15).map(|_| client.response("GET").status).collect();
    assert_eq!((&said[..10], &said[10..]), (&[200; 10][..], &[429; 5][..]));
    let body = [b'x'; 100_000];
    let said: Vec<_> = (0..4).map(|_| server.connect().post("/app/x", &body).status).collect();
    assert_eq!(said, [200, 200, 200, 429]);
    assert_eq!(upstream.requests(), 3);
    server.stop();
}

#[test]
fn streams_are_counted_like_requests_of_http_1() {
    let server = Setup::with_files().site("limit = [\"x\"]").table(FIVE).start();
    let mut connection = Connection::new(server.address);
    let ids: Vec<_> = (0..8).map(|_| connection.request("GET", "/a.txt", &[], true)).collect();
    let said: Vec<_> = ids.into_iter().map(|id| connection.response(id)).collect();
    assert_eq!(said.iter().filter(|response| response.status == 200).count(), 5);
    let refused: Vec<_> = said.iter().filter(|response| response.status == 429).collect();
    assert_eq!(refused.len(), 3);
    assert!(refused.iter().all(|response| response.field("ratelimit-policy") == Some("\"x\";q=5;w=3600")));
    is_refused(&server.connect().get("/a.txt"));
    server.stop();
}

#[test]
fn all_threads_count_together() {
    let server = Setup::with_files()
        .server("threads = 4")
        .listen("buckets = \"per-thread\"")
        .site("limit = [\"x\"]")
        .table("[limit.x]\nrate = \"100/h\"\n")
        .start();
    let passed = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..4 {
                    let mut client = server.connect();
                    let said = (0..5).map(|_| client.get("/a.txt").status);
                    passed.fetch_add(said.filter(|status| *status == 200).count(), Relaxed);
                }
            });
        }
    });
    assert_eq!(passed.into_inner(), 100);
    assert_eq!(count(&server, "x", "refused"), 16 * 4 * 5 - 100);
    server.stop();
}

/// The statuses of requests with these fields, each on a connection of its own.
fn statuses(server: &Server, target: &str, fields: &[&str]) -> Vec<u16> {
    let ask = |field: &&str| server.connect().method("GET", target, &format!("{field}\r\n")).status;
    fields.iter().map(ask).collect()
}

#[test]
fn what_is_counted_together_is_configured() {
    let server = Setup::with_files()
        .server("trusted_proxies = [\"127.0.0.0/8\"]")
        .route("/address", "respond = {}\nlimit = [\"address\"]")
        .route("/key", "respond = {}\nlimit = [\"key\"]")
        .route("/cookie", "respond = {}\nlimit = [\"cookie\"]")
        .route("/all", "respond = {}\nlimit = [\"all\"]")
        .route("/all-of-this", "respond = {}\nlimit = [\"all\"]")
        .table(
            "[limit.address]\nrate = \"1/h\"\nexempt = [\"198.51.100.0/24\"]\n\
             [limit.key]\nrate = \"1/h\"\nkey = \"header:X-Api-Key\"\n\
             [limit.cookie]\nrate = \"1/h\"\nkey = \"cookie:id\"\n[limit.all]\nrate = \"1/h\"\nkey = \"route\"\n",
        )
        .start();
    let from = |address: &str| format!("X-Forwarded-For: {address}");
    let addresses =
        ["192.0.2.1", "192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2", "198.51.100.1", "198.51.100.1"];
    let fields = addresses.map(from);
    let fields: Vec<_> = fields.iter().map(String::as_str).collect();
    assert_eq!(statuses(&server, "/address", &fields), [200, 429, 200, 200, 429, 200, 200]);
    let fields = ["X-Api-Key: a", "x-api-key: a", "X-Api-Key: b", "X-None: a", "X-None: b"];
    assert_eq!(statuses(&server, "/key", &fields), [200, 429, 200, 200, 429]);
    let fields = ["Cookie: id=1", "Cookie: a=b; id=1", "Cookie: id=2", "Cookie: a=b", "Cookie: a=c"];
    assert_eq!(statuses(&server, "/cookie", &fields), [200, 429, 200, 200, 429]);
    assert_eq!(statuses(&server, "/all", &fields), [200, 429, 429, 429, 429]);
    assert_eq!(
        statuses(&server, "/all-of-this", &fields[..2]),
        [200, 429],
        "each route has a count of its own"
    );
    server.stop();
}

#[test]
fn a_dry_run_refuses_nothing() {
    let server =
        Setup::with_files().site("limit = [\"x\"]").table(&format!("{FIVE}dry_run = true\n")).start();
    let mut client = server.connect();
    assert!((0..8).all(|_| client.get("/a.txt").status == 200));
    assert_eq!((count(&server, "x", "refused"), count(&server, "x", "dry_run")), (0, 3));
    let stopped = server.stop();
    assert!(stopped.said.iter().any(|line| line.contains("which is a dry run")), "{:?}", stopped.said);
}

#[test]
fn one_more_passes_when_its_time_has_come() {
    let server =
        Setup::with_files().site("limit = [\"x\"]").table("[limit.x]\nrate = \"2/s\"\nburst = 0\n").start();
    let mut client = server.connect();
    assert_eq!(client.get("/a.txt").status, 200);
    eventually("another one passes", || client.get("/a.txt").status == 200);
    assert!(count(&server, "x", "refused") > 0, "and not at once");
    server.stop();
}

#[test]
fn many_keys_take_no_more_than_their_places() {
    let server = Setup::with_files()
        .site("limit = [\"x\"]")
        .table("[limit.x]\nrate = \"1/h\"\nkey = \"header:X-Key\"\nkeys_max = 16\n")
        .start();
    let mut client = server.connect();
    for number in 0..200 {
        assert_eq!(client.method("GET", "/a.txt", &format!("X-Key: {number}\r\n")).status, 200);
    }
    let (keys, evicted) = (count(&server, "x", "keys"), count(&server, "x", "evicted"));
    assert_eq!((keys, evicted), (40, 160), "five places for each two of `keys_max`");
    server.stop();
}
