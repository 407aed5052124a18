//! What is dropped or refused when clients take nothing (`docs/overload.md`): streams, then connections, then responses.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::http2::secure::Door;
use crate::support::h2::frame::{code, setting};
use crate::support::h2::{Connection, Lost};
use crate::support::upstream::Upstream;
use crate::support::{Server, Setup, TIMEOUT, binary, eventually};

/// A response of 60 KB that an application has made, so that each stream that cannot send it holds it.
const LARGE: usize = 60_000;
const PATH: &str = "/app/large?60000";

fn start(limits: &str) -> Server {
    let server = Setup::with_files().limit(limits).pool("app", None, "workers = 1").start();
    server.wait_for_processes();
    server
}

/// Waits until the head of a response has come, and what follows is held, or the stream was reset: the code of that.
#[track_caller]
fn refused(connection: &mut Connection, id: u32) -> Option<u32> {
    loop {
        let stream = connection.stream(id);
        if stream.reset.is_some() || stream.head.is_some() {
            return stream.reset;
        }
        connection.step().unwrap();
    }
}

/// A connection whose streams may send nothing.
fn stalled(server: &Server) -> Connection {
    Connection::with(server.address, &[(setting::INITIAL_WINDOW_SIZE, 0)])
}

fn level(server: &Server, resource: &str) -> u64 {
    server.status()["threads"][0]["overload"][resource].as_u64().unwrap()
}

fn used(server: &Server) -> u64 {
    server.status()["budgets"]["unsent"]["used"].as_u64().unwrap()
}

/// One connection gets no more than its part, and as much as it likes once it takes what is there.
#[test]
fn a_connection_that_takes_nothing_gets_no_more_streams() {
    let server = start("unsent_connection_bytes_max = \"1MiB\"");
    let mut connection = stalled(&server);
    let mut held = Vec::new();
    let refused = loop {
        let id = connection.request("GET", PATH, &[], true);
        match refused(&mut connection, id) {
            None => held.push(id),
            Some(code) => break code,
        }
        assert!(held.len() < 100, "{} bytes are held", held.len() * LARGE);
    };
    assert_eq!(refused, code::REFUSED_STREAM);
    assert!((8..=18).contains(&held.len()), "{}", held.len());
    assert_eq!(server.total("streams_refused"), 1);
    assert!(used(&server) >= (held.len() * LARGE) as u64);
    // Other connections are not concerned.
    assert_eq!(Connection::new(server.address).get(PATH).body.len(), LARGE);
    for id in held {
        connection.open_window(id, 1 << 20);
        connection.open_window(0, 1 << 20);
        assert_eq!(connection.response(id).body.len(), LARGE);
    }
    let id = connection.request("GET", PATH, &[], true);
    connection.open_window(id, 1 << 20);
    assert_eq!(connection.response(id).body.len(), LARGE);
    drop(connection);
    eventually("nothing is held any more", || used(&server) == 0);
    server.stop();
}

/// Under pressure there are fewer streams, then no new connections, and slow clients have less time: so the pressure ends
/// without any doing of theirs, and requests that wait are served.
#[test]
fn under_pressure_streams_are_refused_then_connections_wait_and_it_passes() {
    let server = start(
        "unsent_memory_bytes_max = \"2MiB\"\nunsent_connection_bytes_max = \"1MiB\"\nwrite_timeout = \"60s\"",
    );
    let mut kept = Connection::new(server.address);
    assert_eq!(kept.get("/a.txt").status, 200);
    let mut connections: Vec<Connection> = Vec::new();
    let begun = Instant::now();
    while level(&server, "memory") == 0 {
        assert!(begun.elapsed() < TIMEOUT, "no pressure");
        let mut connection = stalled(&server);
        let ids: Vec<u32> = (0..8).map(|_| connection.request("GET", PATH, &[], true)).collect();
        assert!(ids.into_iter().all(|id| refused(&mut connection, id).is_none()));
        connections.push(connection);
    }
    // All get a lower limit of streams, and what is beyond is refused.
    let first = &mut connections[0];
    for _ in 0..40 {
        first.request("GET", "/a.txt", &[], true);
    }
    first.sync();
    let most = first.settings[&setting::MAX_CONCURRENT_STREAMS];
    assert!(most <= 16, "{most}");
    assert!(server.total("streams_refused") >= 20, "{}", server.total("streams_refused"));
    // A client that takes its responses is served.
    assert_eq!(kept.get("/a.txt").text(), "file a\n");
    while level(&server, "memory") < 2 {
        assert!(begun.elapsed() < TIMEOUT, "no pressure");
        let mut connection = stalled(&server);
        for _ in 0..4 {
            connection.request("GET", PATH, &[], true);
        }
        // The connection may have to wait already.
        connections.push(connection);
    }
    let (_, text) = server.command(&["status"]);
    assert!(text.contains("overload    memory critical on 1 thread"), "{text}");
    // A connection that is accepted now has waited until the others had lost their time.
    assert_eq!(Connection::new(server.address).get("/a.txt").text(), "file a\n");
    eventually("the level is normal again", || level(&server, "memory") == 0);
    assert!(server.total("timeouts") > 0);
    assert_eq!(kept.get("/a.txt").text(), "file a\n");
    kept.sync();
    assert_eq!(kept.settings[&setting::MAX_CONCURRENT_STREAMS], 128, "as before");
    drop(connections);
    eventually("nothing is held any more", || used(&server) == 0);
    server.stop();
}

/// What stands in the configuration is there once, however many streams have still to send it.
#[test]
fn a_fixed_text_is_not_copied_for_each_stream() {
    const TEXT: usize = 60_000;
    let text: String = ('a'..='z').cycle().take(TEXT).collect();
    let server = Setup::with_files()
        .route("/large", &format!("respond = {{ status = 200, body = \"{text}\" }}"))
        .limit("unsent_connection_bytes_max = \"1MiB\"")
        .start();
    let mut connection = stalled(&server);
    let ids: Vec<u32> = (0..100).map(|_| connection.request("GET", "/large", &[], true)).collect();
    connection.sync();
    assert!(ids.iter().all(|id| connection.stream(*id).reset.is_none()));
    assert!((1..10 * TEXT as u64).contains(&used(&server)), "{} bytes are held", used(&server));
    for (number, id) in ids.into_iter().enumerate() {
        // In pieces of all lengths.
        connection.open_window(id, 1 + 613 * number as u32);
        connection.sync();
        connection.open_window(id, 1 << 20);
        connection.open_window(0, 1 << 20);
        assert!(connection.response(id).text() == text, "{number}");
    }
    // Over HTTP/1.1, whose responses follow one another on a socket that is full.
    let mut client = server.connect();
    client.send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(200));
    eventually("its socket is full", || used(&server) > 0);
    for _ in 0..200 {
        assert!(client.response("GET").text() == text);
    }
    assert_eq!(client.method("HEAD", "/large", "").need("content-length"), "60000");
    drop((connection, client));
    eventually("nothing is held any more", || used(&server) == 0);
    server.stop();
}

/// What finds no room at all is aborted: many at once, before any level could be looked at.
#[test]
fn responses_that_find_no_room_are_aborted() {
    // A file that has no place in the cache, so that each response has read it for itself.
    let content = vec![b'x'; 60 * 1024];
    let server = Setup::with_files()
        .file("large", &content)
        .limit("file_cache_bytes_max = \"60KiB\"\ninline_file_bytes_max = \"60KiB\"")
        .limit("unsent_memory_bytes_max = \"1MiB\"\nunsent_connection_bytes_max = \"1MiB\"")
        .start();
    let mut connection = stalled(&server);
    // In one piece, so that all of them come in one turn.
    let ids: Vec<u32> = (0..24).map(|_| connection.open()).collect();
    let requests = ids.iter().map(|id| connection.request_bytes(*id, "GET", "/large", &[], true));
    let bytes = requests.collect::<Vec<_>>().concat();
    connection.send(bytes);
    connection.sync();
    // The first sync is answered in the same turn; what is aborted at its end is known in the next.
    connection.sync();
    let resets: Vec<Option<u32>> = ids.iter().map(|id| connection.stream(*id).reset).collect();
    let count = |wanted| resets.iter().filter(|reset| **reset == wanted).count() as u64;
    let (held, aborted) = (count(None), count(Some(code::CANCEL)));
    assert!((10..=18).contains(&held) && aborted > 0, "{resets:?}");
    assert_eq!(
        (server.total("unsent_aborted"), held + aborted + count(Some(code::REFUSED_STREAM))),
        (aborted, 24)
    );
    assert!(used(&server) <= 1 << 20, "{}", used(&server));
    drop(connection);
    eventually("nothing is held any more", || used(&server) == 0);
    eventually("a client that takes its response gets it", || {
        let mut connection = Connection::new(server.address);
        let id = connection.request("GET", "/large", &[], true);
        match connection.try_response(id) {
            Ok(response) => response.body == content,
            Err(Lost::Reset(_) | Lost::Ended) => false,
        }
    });
    server.stop();
}

/// What TLS has encrypted and the socket does not take is counted, and given back when the client has gone.
#[test]
fn what_tls_holds_is_counted() {
    let (setup, roots) = Door::prepare(Setup::with_files(), "");
    let path = setup.directory.path().join("root/zeros.bin");
    std::fs::File::create(path).unwrap().set_len(50_000_000).unwrap();
    let server = setup.start();
    let mut stream = Door::of(&server, roots).offer(&["http/1.1"]).unwrap();
    stream.write_all(b"GET /zeros.bin HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut head = [0; 15];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK");
    // A socket may have taken the last of what was encrypted when it became full: then nothing is held until there is room again.
    let mut looks = 0;
    eventually("its socket takes a part of something", || {
        looks += 1;
        if looks % 500 == 0 {
            stream.read_exact(&mut vec![0; 1_000_000]).unwrap();
        }
        used(&server) >= 32 * 1024
    });
    assert!(used(&server) <= 256 * 1024, "{}", used(&server));
    drop(stream);
    eventually("nothing is held any more", || used(&server) == 0);
    server.stop();
}

/// A response of a pool that is not taken: what of it is here is counted. Of the request's head, which is large, the log has all
/// that it wants.
#[test]
fn what_a_pool_has_answered_is_counted() {
    let server = Setup::with_files().pool("app", None, "workers = 1").start();
    server.wait_for_processes();
    let mut connection = stalled(&server);
    let large = "x".repeat(12_000);
    let fields = [("x-large", large.as_str()), ("user-agent", "slow/1"), ("referer", "http://a.example/")];
    let id = connection.request("GET", "/app/large?400000", &fields, true);
    assert_eq!(connection.head(id).status, 200);
    eventually("the response waits", || used(&server) > 32 * 1024);
    assert!(used(&server) < 320 * 1024, "{}", used(&server));
    connection.open_window(0, 1 << 24);
    connection.open_window(id, 1 << 24);
    assert_eq!(connection.response(id).body.len(), 400_000);
    drop(connection);
    eventually("nothing is held any more", || used(&server) == 0);
    let log = server.stop().access;
    let line = log.iter().find(|line| line.contains("\"GET /app/large?400000 HTTP/2")).expect("its line");
    assert!(line.contains("400000 \"http://a.example/\" \"slow/1\""), "{line}");
}

/// Files that the cache has evicted while clients do not take them are open all the same, and count among the descriptors.
#[test]
fn files_that_only_slow_clients_need_count_among_the_descriptors() {
    const FILES: u64 = 40;
    let mut setup = Setup::with_files().limit("file_cache_files_max = 4");
    for number in 0..FILES {
        setup = setup.file(&format!("{number}.bin"), &[b'x'; 40_000]);
    }
    let server = setup.start();
    let mut connection = stalled(&server);
    for number in 0..FILES {
        let id = connection.request("GET", &format!("/{number}.bin"), &[], true);
        assert_eq!(connection.head(id).status, 200);
    }
    let held = || server.status()["budgets"]["descriptors"]["used"].as_u64().unwrap();
    eventually("all but the cache's are counted", || held() == FILES - 4);
    drop(connection);
    eventually("they are closed", || held() == 0);
    server.stop();
}

/// Requests that hold descriptors, here connections to an HTTP server that does not answer: streams are refused, then connections
/// wait, before requests find none.
#[test]
fn where_descriptors_are_short_streams_are_refused_and_connections_wait() {
    const OPEN_FILES: u32 = 300;
    let (go, goes) = std::sync::mpsc::channel::<()>();
    let goes = std::sync::Mutex::new(goes);
    let upstream = Upstream::start(move |peer| {
        peer.request()?;
        assert!(goes.lock().unwrap().recv().is_err());
        peer.answer("slow\n")
    });
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit -n {OPEN_FILES}; exec \"$0\" \"$@\"")]).arg(binary());
    limited.args(["run", "-c", "maitred.toml"]).stdin(Stdio::null());
    let server = Setup::with_files()
        .limit("file_cache_files_max = 0")
        .route("/slow", "pool = \"slow\"")
        .table(&format!("[pool.slow]\nconnect = \"{}\"\n", upstream.name()))
        .start_by(limited);
    let mut kept = Connection::new(server.address);
    assert_eq!(kept.get("/a.txt").status, 200);
    let descriptors = || server.status()["budgets"]["descriptors"].clone();
    let max = descriptors()["max"].as_u64().unwrap();
    let mut connections: Vec<Connection> = (0..4).map(|_| Connection::new(server.address)).collect();
    connections.iter_mut().for_each(Connection::sync);
    let mut slow = Vec::new();
    for number in 0..=max * 9 / 10 {
        let connection = (number % 4) as usize;
        slow.push((connection, connections[connection].request("GET", "/slow", &[], true)));
        connections[connection].sync();
    }
    assert_eq!((level(&server, "descriptors"), level(&server, "memory")), (2, 0));
    kept.sync();
    assert_eq!(kept.settings[&setting::MAX_CONCURRENT_STREAMS], 1);
    let refused = connections[0].request("GET", "/a.txt", &[], true);
    assert_eq!(connections[0].reset_of(refused), code::REFUSED_STREAM);
    server.wait_for("not accepting for now: the critical level of overload is reached");
    let mut newcomer = server.connect();
    newcomer.send("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(kept.get("/b.txt").text(), "file b\n", "clients that are there are served");
    assert!(newcomer.is_quiet() && level(&server, "descriptors") == 2);
    drop(go);
    for (connection, id) in slow {
        assert_eq!(connections[connection].response(id).text(), "slow\n", "none had to do without");
    }
    assert_eq!(newcomer.response("GET").text(), "file a\n");
    eventually("the level is normal again", || level(&server, "descriptors") == 0);
    server.stop();
}
