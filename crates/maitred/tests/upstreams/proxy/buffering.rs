//! `response_buffering`: what is kept of a response for a client that is slower than what answers.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use crate::support::framed::{self, head};
use crate::support::h2::{Connection, frame};
use crate::support::upstream::Upstream;
use crate::support::{Client, Server, Setup, TIMEOUT, eventually};

/// More than the sockets between a server, Maitred and a client take.
const MUCH: usize = 32 << 20;

/// Content of which each part can be recognised.
fn content(bytes: usize) -> Vec<u8> {
    (0..bytes as u32 / 4).flat_map(u32::to_be_bytes).collect()
}

/// A server that says when it has written a whole response.
fn telling() -> (Upstream, Receiver<()>) {
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    let upstream = Upstream::start(move |peer| {
        loop {
            let asked = peer.request()?;
            let much = asked.target().starts_with("/much");
            peer.answer(if much { content(MUCH) } else { b"little".to_vec() })?;
            if much {
                let _ = tell.lock().unwrap().send(());
            }
        }
    });
    (upstream, told)
}

fn setup(connect: &str, buffering: &str) -> Setup {
    Setup::with_files()
        .server("threads = 1")
        .route("/much", &format!("pool = \"app\"\nresponse_buffering = {buffering}"))
        .route("/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = [\"{connect}\"]\n"))
}

fn ask(server: &Server) -> Client {
    let mut client = server.connect();
    client.send("GET /much HTTP/1.1\r\nHost: h\r\n\r\n");
    client
}

fn on_disk(server: &Server) -> u64 {
    server.status()["bodies"]["disk"]["bytes"].as_u64().unwrap()
}

fn is_free(server: &Server) {
    let under_way = || server.status()["pools"][0]["servers"][0]["under_way"].as_u64();
    eventually("the server has no request", || under_way() == Some(0));
}

fn done(told: &Receiver<()>) {
    told.recv_timeout(TIMEOUT).expect("the server is free, although the client has read nothing");
}

#[test]
fn a_slow_client_does_not_hold_the_server() {
    for buffering in [
        "{ memory = \"33MiB\", disk = 0 }",
        "{ memory = \"1MiB\" }",
        "{ memory = \"4KiB\", disk = \"40MiB\" }",
    ] {
        let (upstream, told) = telling();
        let server = setup(upstream.name(), buffering).start();
        let mut client = ask(&server);
        done(&told);
        is_free(&server);
        // The connection to the server behind is free for others.
        assert_eq!(server.connect().get("/other").text(), "little");
        assert_eq!((upstream.connections(), upstream.requests()), (1, 2), "{buffering}");
        assert!(client.response("GET").body == content(MUCH), "{buffering}: it is whole");
        assert_eq!(client.get("/other").text(), "little", "the connection goes on");
        eventually("nothing is kept any more", || on_disk(&server) == 0);
        server.stop();
    }
}

#[test]
fn what_finds_no_room_is_not_lost() {
    for (buffering, limits) in [
        ("{ memory = \"4KiB\", disk = 0 }", ""),
        ("{ memory = \"4KiB\", disk = \"1MiB\" }", ""),
        ("{ memory = \"4KiB\" }", "bodies_disk_bytes_max = \"2MiB\"\nbody_bytes_max = \"1MiB\"\n"),
        ("\"off\"", ""),
    ] {
        let (upstream, told) = telling();
        let server = setup(upstream.name(), buffering).limit(limits).start();
        let mut client = ask(&server);
        assert!(client.response("GET").body == content(MUCH), "{buffering}");
        done(&told);
        eventually("nothing is kept any more", || on_disk(&server) == 0);
        server.stop();
    }
}

#[test]
fn a_client_that_goes_away_leaves_nothing_behind() {
    let (upstream, told) = telling();
    let server = setup(upstream.name(), "{ memory = \"4KiB\" }").start();
    let client = ask(&server);
    done(&told);
    eventually("a part of it is on the disk", || on_disk(&server) > 0);
    client.reset();
    eventually("nothing is kept any more", || on_disk(&server) == 0);
    server.stop();
}

#[test]
fn a_response_that_breaks_off_is_not_made_whole() {
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    let upstream = Upstream::start(move |peer| {
        peer.request()?;
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", MUCH + 1))?;
        peer.send(content(MUCH))?;
        let _ = tell.lock().unwrap().send(());
        Ok(())
    });
    let server = setup(upstream.name(), "{ memory = \"4KiB\" }").start();
    let mut client = ask(&server);
    done(&told);
    assert!(client.try_response("GET").is_err(), "it is not whole");
    server.stop();
}

#[test]
fn streams_to_clients_are_kept_as_well() {
    let (upstream, told) = telling();
    let server = setup(upstream.name(), "{ memory = \"1MiB\" }").start();
    let mut connection = Connection::silent(server.address);
    connection.begin(&[]);
    let id = connection.request("GET", "/much", &[], true);
    // The window of the stream is never opened.
    done(&told);
    connection.open_window(0, MUCH as u32);
    connection.open_window(id, MUCH as u32);
    assert!(connection.response(id).body == content(MUCH));
    server.stop();
}

#[test]
fn streams_of_servers_end_early_too() {
    let upstream = framed::start(&[], |far| {
        loop {
            let (id, _, _) = far.request()?;
            far.send(head(id, &[(":status", "200")], false))?;
            // What the stream's window allows.
            for piece in 1..=16 {
                far.send(frame::data(id, &[b'y'; 16 << 10], piece == 16))?;
            }
        }
    });
    let server = setup(&framed::name(&upstream), "{ memory = \"2MiB\" }").start();
    let mut connection = Connection::silent(server.address);
    connection.begin(&[]);
    let id = connection.request("GET", "/much", &[], true);
    connection.head(id);
    is_free(&server);
    connection.open_window(0, 2 << 20);
    connection.open_window(id, 2 << 20);
    assert_eq!(connection.response(id).body.len(), 256 << 10);
    server.stop();
}

/// A process with one request at a time.
const APPLICATION: &[u8] = b"
def application(environ, start_response):
    much = environ['PATH_INFO'] == '/much'
    start_response('200 OK', [('Content-Type', 'text/plain')])
    if not much:
        return [b'little']
    return (bytes([number % 256]) * 65536 for number in range(512))
";

#[test]
fn a_process_is_free_for_the_next_request() {
    let buffering = "response_buffering = { memory = \"1MiB\" }";
    let server = Setup::with_files()
        .outside("large.py", APPLICATION)
        .route("/*", &format!("pool = \"app\"\n{buffering}"))
        .python("app", "large:application", "UNUSED = \"\"", "workers = 1\ntransport = \"relay\"")
        .start();
    server.wait_for_processes();
    let mut client = ask(&server);
    assert_eq!(server.connect().get("/other").text(), "little");
    let body = client.response("GET").body;
    let expected: Vec<u8> = (0..512_u32).flat_map(|number| [(number % 256) as u8; 65536]).collect();
    assert!(body == expected, "it is whole");
    server.stop();
}
