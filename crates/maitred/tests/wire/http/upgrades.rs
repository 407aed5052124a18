//! Connections that an application process takes over: what a client sees is the same whether the process has got the
//! client's own socket or one end of a relay.

use std::io::Read as _;

use crate::support::{Client, Server, Setup, eventually};

const TRANSPORTS: [&str; 2] = ["direct", "relay"];

fn setup(transport: &str) -> Setup {
    let pool = format!(
        "[pool.app]\ncommand = [\"python3\", \"-u\", \"upgrades.py\"]\nworkers = 1\ntransport = \"{transport}\"\n\
         request_timeout = \"2s\"\nupgrade = [\"websocket\", \"x\"]\nqueue = {{ timeout = \"30s\" }}\n"
    );
    Setup::with_files()
        .outside("upgrades.py", include_bytes!("upgrades.py"))
        .route("/a.txt", "root = \"root\"")
        .route("/*", "pool = \"app\"")
        .table(&pool)
}

fn start(setup: Setup) -> Server {
    let server = setup.start();
    server.wait_for_processes();
    server
}

fn with(transport: &str) -> Server {
    start(setup(transport))
}

fn ask(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
}

#[track_caller]
fn upgrade(server: &Server, path: &str, early: &[u8]) -> Client {
    let mut client = server.connect();
    client.send([ask(path).as_bytes(), early].concat());
    let head = String::from_utf8(client.raw_head().unwrap()).unwrap().to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 101 ") && head.contains("\r\nupgrade: x\r\n"), "{path}: {head}");
    client
}

/// Everything up to the end.
fn rest(mut client: Client) -> Vec<u8> {
    let mut all = client.take_received();
    client.tcp().read_to_end(&mut all).unwrap();
    all
}

#[test]
fn bytes_go_both_ways() {
    for transport in TRANSPORTS {
        let server = with(transport);
        for path in ["/echo", "/late/echo"] {
            let mut client = upgrade(&server, path, b"");
            client.is_echoed();
            client.finish_sending();
            assert_eq!(rest(client), b"bye", "{transport} {path}");
        }
        assert_eq!(server.total("detached"), 2);
        let stopped = server.stop();
        assert_eq!(stopped.access.len(), 2, "{transport}");
        let ends = |line: &&String| {
            line.contains("\" 101 ") && (transport == "direct" || line.contains(" 3000603 "))
        };
        assert_eq!(stopped.access.iter().filter(ends).count(), 2, "{:?}", stopped.access);
    }
}

/// On the client's own socket these bytes would be lost for the process, so that it is not offered there.
#[test]
fn what_came_behind_the_head_belongs_to_the_other_protocol() {
    let server = with("relay");
    let mut client = upgrade(&server, "/echo", b"early");
    assert_eq!(client.exactly(5).unwrap(), b"early");
    client.finish_sending();
    assert_eq!(rest(client), b"bye");
    server.stop();
}

#[test]
fn a_process_may_finish_first_and_still_listen() {
    for transport in TRANSPORTS {
        let server = with(transport);
        let mut client = upgrade(&server, "/first-half", b"");
        let mut all = client.take_received();
        client.tcp().read_to_end(&mut all).unwrap();
        assert_eq!(all, b"that is all", "{transport}");
        client.send(vec![b'x'; 2_000_000]);
        client.finish_sending();
        eventually("it has received it", || server.connect().get("/heard").text() == "2000000 bytes");
        eventually("the connection is closed", || server.total("connections") == 1);
        server.stop();
    }
}

#[test]
fn what_was_said_last_arrives_although_nobody_listens() {
    for transport in TRANSPORTS {
        let server = with(transport);
        let client = upgrade(&server, "/close", b"");
        assert_eq!(rest(client).len(), 100_000, "{transport}");
        server.stop();
    }
}

#[test]
fn a_slow_client_slows_the_process_down() {
    for transport in TRANSPORTS {
        let server = with(transport);
        let slow = upgrade(&server, "/flood", b"");
        let mut quick = upgrade(&server, "/echo", b"");
        quick.send("quick");
        assert_eq!(quick.exactly(5).unwrap(), b"quick");
        drop(quick);
        let all = rest(slow);
        assert_eq!(all.len(), 40_000_000, "{transport}");
        assert!(all.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at % 250), "{transport}");
        server.stop();
    }
}

#[test]
fn an_upgrade_may_be_refused_and_the_connection_goes_on() {
    for transport in TRANSPORTS {
        let server = with(transport);
        let mut client = server.connect();
        for _ in 0..3 {
            assert_eq!(client.get("/plain").text(), "no upgrade");
            assert_eq!(client.ask(ask("/heard")).text(), "nothing", "{transport}");
            // HTTP/1.0 knows no upgrades (9110-7.8).
            let old = ask("/plain").replace("HTTP/1.1", "HTTP/1.0");
            assert_eq!(server.connect().ask(old).text(), "no upgrade");
        }
        assert_eq!(client.get("/a.txt").text(), "file a\n");
        server.stop();
    }
}

/// What is not allowed is no upgrade for the process; of several protocols it gets the one that is.
#[test]
fn only_what_the_pool_allows_is_an_upgrade() {
    for transport in TRANSPORTS {
        let server = with(transport);
        let mut client = server.connect();
        for protocol in ["h2c", "tls/1.0", "HTTP/2.0", "y", "x/2", "h2c, TLS/1.2"] {
            let ask =
                ask("/echo").replace("Upgrade: x", &format!("HTTP2-Settings: AAMA\r\nUpgrade: {protocol}"));
            assert_eq!(client.ask(ask).text(), "no upgrade", "{transport} {protocol}");
        }
        for protocol in ["h2c, X, websocket", "h2c\r\nUpgrade: x"] {
            let mut client = server.connect();
            client.send(ask("/echo").replace("Upgrade: x", &format!("Upgrade: {protocol}")));
            let head = String::from_utf8(client.raw_head().unwrap()).unwrap();
            assert!(head.starts_with("HTTP/1.1 101 ") && head.contains("\r\nUpgrade: x\r\n"), "{head}");
            client.is_echoed();
        }
        server.stop();
    }
}

/// On the client's own socket that cannot be seen.
#[test]
fn a_process_cannot_switch_to_what_was_not_asked_for() {
    let server = with("relay");
    let mut client = server.connect();
    let response = client.ask(ask("/stranger"));
    assert_eq!((response.status, response.says_close()), (502, true));
    assert_eq!(rest(client), b"");
    let stopped = server.stop();
    assert_eq!(stopped.access.len(), 1);
}

/// The process has the connection, but does not do with it what it said.
#[test]
fn a_process_that_does_not_switch_is_held_to_http() {
    let server = with("relay");
    let mut client = server.connect();
    assert_eq!(client.ask(ask("/other")).text(), "other");
    assert_eq!(client.get("/a.txt").text(), "file a\n", "it was a response as any other");
    let response = client.ask(ask("/mute"));
    assert_eq!((response.status, response.says_close()), (502, true));
    let stopped = server.stop();
    assert_eq!(stopped.access.len(), 3);
}

#[test]
fn a_client_that_is_gone_ends_its_tunnel() {
    let server = with("relay");
    for path in ["/echo", "/flood"] {
        let client = upgrade(&server, path, b"");
        drop(client);
        eventually("it is closed", || server.total("connections") == 1);
    }
    let stopped = server.stop();
    assert!(stopped.access.iter().all(|line| line.contains("\" 101 ")), "{:?}", stopped.access);
}

#[test]
fn a_process_that_dies_ends_its_tunnels() {
    let server = with("relay");
    let mut client = upgrade(&server, "/echo", b"");
    client.send("x");
    assert_eq!(client.exactly(1).unwrap(), b"x");
    assert_eq!(server.connect().post("/die", b"").status, 502);
    assert_eq!(rest(client), b"");
    server.wait_for_processes();
    let mut client = upgrade(&server, "/echo", b"");
    client.send("y");
    assert_eq!(client.exactly(1).unwrap(), b"y");
    drop(client);
    server.stop();
}

/// `stop` does not take the whole grace period only because the processes are asked to end their tunnels.
#[test]
fn processes_end_their_tunnels_when_the_server_stops() {
    for transport in TRANSPORTS {
        let server = start(setup(transport).server("grace = \"10m\""));
        let mut client = upgrade(&server, "/until-the-end", b"");
        assert_eq!(client.exactly(4).unwrap(), b"here");
        let reader = std::thread::spawn(move || rest(client));
        server.stop();
        assert_eq!(reader.join().unwrap(), b"the end", "{transport}");
    }
}

#[test]
fn a_tunnel_in_which_nothing_moves_is_closed_after_tunnel_idle_timeout() {
    let server = start(setup("relay").limit("tunnel_idle_timeout = \"2s\""));
    let mut client = upgrade(&server, "/echo", b"");
    client.is_echoed();
    assert_eq!(rest(client), b"");
    assert_eq!(server.total("timeouts"), 1);
    server.stop();
}
