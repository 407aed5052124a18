//! What a client cannot do: too much, too slowly, too often, or without being there.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use maitred_http::h3::Code;
use maitred_load::http3::client::{Closed, Connector, Failed, Read, headers};
use maitred_load::http3::quinn_proto::{StreamId, VarInt};

use crate::support::h3::{Asks, Guest, Incoming, PATIENT, Text, connect, connector, head, join, setup};
use crate::support::{Gate, Server, eventually};

fn ended_with(code: Code) -> impl Fn(&Closed) -> bool {
    move |closed| matches!(closed, Closed::Application { code: found, .. } if *found == code.number())
}

fn used(server: &Server) -> u64 {
    server.status()["budgets"]["unsent"]["used"].as_u64().unwrap()
}

#[test]
fn heads_and_bodies_that_are_too_large_are_refused() {
    let server = setup("")
        .limit("head_bytes_max = \"8KiB\"\nheader_count_max = 50\nbody_bytes_max = \"100KiB\"")
        .pool("app", None, PATIENT)
        .start();
    server.wait_for_processes();
    let mut client = connect(&server);
    let large = "x".repeat(10_000);
    assert_eq!(client.ask("GET", "/a.txt", &[("x-large", &large)], b"").status, 431);
    assert_eq!(client.ask("GET", "/a.txt", &[("x-small", "x"); 60], b"").status, 431);
    let stream = client.begin("POST", "/app/length", &[("content-length", "102401")]);
    assert_eq!(client.response(stream).unwrap().status, 413, "before a byte of it came");
    let stream = client.begin("POST", "/app/length", &[]);
    client.upload(stream, &[b'x'; 150_000]);
    assert_eq!(client.response(stream).unwrap().status, 413, "as soon as it is too long");
    assert_eq!(client.ask("POST", "/app/length", &[], &[b'x'; 102_400]).text(), "102400");
    drop(client);
    server.stop();
}

#[test]
fn what_never_becomes_a_head_ends_its_connection() {
    // A slow machine has to complete a handshake in this time.
    let server = setup("").limit("head_timeout = \"2s\"").start();
    let mut client = connect(&server);
    assert_eq!(client.get("/a.txt").unwrap().status, 200);
    let stream = client.open_bidi().unwrap();
    let whole = headers(&head("GET", "/a.txt", &[]));
    client.write(stream, &whole[..whole.len() / 2]).unwrap();
    let closed = client.wait_closed().unwrap();
    assert!(ended_with(Code::ExcessiveLoad)(&closed), "{closed:?}");
    // A connection that asks for nothing at all.
    let mut unused = connect(&server);
    let closed = unused.wait_closed().unwrap();
    assert!(ended_with(Code::NoError)(&closed), "{closed:?}");
    // A connection that never ends its handshake.
    let mut silent = Guest(connector(&server).begin().unwrap());
    silent.flush();
    eventually("it has come", || server.total("http3_connections") == 3);
    eventually("it has gone", || server.total("connections") == 1);
    server.stop();
}

#[test]
fn a_slow_body_loses_its_stream_and_no_other() {
    let server = setup("").limit("body_timeout = \"300ms\"").pool("app", None, PATIENT).start();
    server.wait_for_processes();
    let mut client = connect(&server);
    let stream = client.begin("POST", "/app/echo", &[("content-length", "10")]);
    client.upload(stream, b"half");
    match client.response(stream) {
        Ok(response) => assert_eq!(response.status, 408),
        Err(failed) => assert!(matches!(failed, Failed::Reset(_)), "{failed:?}"),
    }
    assert_eq!(client.get("/app/hello?x").unwrap().text(), "hello x\n");
    drop(client);
    server.stop();
}

#[test]
fn a_client_that_reads_nothing_loses_its_stream() {
    let setup = setup("").limit("write_timeout = \"300ms\"");
    let path = setup.directory.path().join("root/zeros.bin");
    std::fs::File::create(path).unwrap().set_len(200_000_000).unwrap();
    let server = setup.start();
    let mut client = connect(&server);
    let stream = client.send_get("/zeros.bin", &[]);
    // The client acknowledges what comes, and reads none of it: the window of the stream is used up.
    let log = server.path("access.log");
    let is_over = || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("/zeros.bin"));
    eventually("the response is aborted", || {
        client.run_for(Duration::from_millis(5));
        is_over()
    });
    let failed = client.response(stream).map(|response| response.body.len()).unwrap_err();
    assert!(matches!(failed, Failed::Reset(code) if code == Code::RequestCancelled.number()), "{failed:?}");
    assert_eq!(client.get("/a.txt").unwrap().text(), "file a\n");
    drop(client);
    server.stop();
}

#[test]
fn a_client_opens_no_more_streams_than_it_may() {
    let gate = Gate::new();
    let server = setup("")
        .limit("streams_per_connection_max = 4")
        .pool("app", Some(&gate), "workers = 4\nqueue = { timeout = \"60s\" }")
        .start();
    server.wait_for_processes();
    let mut connector = connector(&server);
    // The fifth waits for as long as this, and the others for much less, also on a slow machine.
    connector.timeout = Duration::from_secs(15);
    let mut client = join(&connector);
    let streams: Vec<StreamId> = (0..4).map(|_| client.send_get("/app/wait", &[])).collect();
    let standing: Vec<_> = (0..4).map(|_| gate.arrival()).collect();
    assert!(matches!(client.open_bidi(), Err(Failed::TimedOut)));
    standing.into_iter().for_each(crate::support::Waiting::release);
    streams.into_iter().for_each(|stream| assert_eq!(client.response(stream).unwrap().text(), "waited\n"));
    assert_eq!(client.get("/a.txt").unwrap().text(), "file a\n");
    drop(client);
    server.stop();
}

/// Sends the head of a request whose content is to come, and takes it back.
fn take_back(client: &mut Guest) -> Result<(), Failed> {
    let cancelled = Code::RequestCancelled.number();
    let stream = client.open_bidi()?;
    client.write(stream, &headers(&head("POST", "/a.txt", &[])))?;
    client.reset(stream, cancelled)?;
    client.stop_sending(stream, cancelled)
}

#[test]
fn a_client_that_takes_its_requests_back_is_sent_away() {
    let server = setup("").start();
    let mut client = connect(&server);
    let tried = (0..1000).map_while(|_| take_back(&mut client).ok()).count();
    let closed = client.wait_closed().unwrap();
    // The only datagram that says so is not sent while the pace of QUIC holds it back; then there is a stateless reset.
    let ended = ended_with(Code::ExcessiveLoad)(&closed) || closed == Closed::Reset;
    assert!(ended && (150..500).contains(&tried), "{closed:?} after {tried}");
    server.wait_for("HTTP/3 connection ended: ");
    assert_eq!(connect(&server).get("/a.txt").unwrap().text(), "file a\n");
    server.stop();
}

/// As many as anyone likes, if others are answered between them.
#[test]
fn cancelled_uploads_give_their_streams_back() {
    let server = setup("").start();
    let mut client = connect(&server);
    for number in 0..300 {
        take_back(&mut client).unwrap_or_else(|failed| panic!("{number}: {failed}"));
        assert_eq!(client.get("/a.txt").unwrap().text(), "file a\n");
    }
    drop(client);
    server.stop();
}

#[test]
fn an_address_has_no_more_connections_than_it_may() {
    const MAX: usize = 5;
    let limits = format!("connections_per_address_max = {MAX}\nconnections_per_address_exempt = []");
    let server = setup("").limit(&limits).server("threads = 2").start();
    let connector = connector(&server);
    let mut clients: Vec<Guest> = (0..MAX).map(|_| join(&connector)).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.get("/a.txt").unwrap().status, 200));
    // CONNECTION_REFUSED
    let refused = |closed: &Failed| matches!(closed, Failed::Closed(Closed::Transport { code: 2, .. }));
    let failed = connector.connect().unwrap_err();
    assert!(refused(&failed), "{failed:?}");
    assert!(server.total("refused_by_address") > 0);
    // Connections that are there are none the worse for it, and each that goes lets another in.
    clients.iter_mut().for_each(|client| assert_eq!(client.get("/a.txt").unwrap().status, 200));
    clients.pop();
    eventually("its place is free", || server.total("connections") == MAX as u64);
    let mut last = join(&connector);
    assert_eq!(last.get("/a.txt").unwrap().status, 200);
    assert!(refused(&connector.connect().unwrap_err()));
    drop((last, clients));
    server.stop();
}

/// One connection gets no more than its part, and as much as it likes once it takes what is there.
#[test]
fn a_connection_that_takes_nothing_gets_no_more_streams() {
    const LARGE: usize = 60_000;
    let server = setup("")
        .limit("unsent_connection_bytes_max = \"1MiB\"\nunsent_memory_bytes_max = \"4MiB\"")
        .pool("app", None, PATIENT)
        .start();
    server.wait_for_processes();
    let mut connector = connector(&server);
    let mut transport = maitred_load::http3::transport();
    transport.stream_receive_window(VarInt::from_u32(1000));
    connector.dialer.set_transport(Arc::new(transport));
    let mut client = join(&connector);
    let mut held = Vec::new();
    let refused = loop {
        let mut incoming = Incoming::new(client.send_get(&format!("/app/large?{LARGE}"), &[]));
        incoming.wait(&mut client, |incoming| incoming.status.is_some() || incoming.end.is_some()).unwrap();
        if let Some(end) = incoming.end {
            break end;
        }
        held.push(incoming);
        assert!(held.len() < 100, "{} bytes are held", held.len() * LARGE);
    };
    assert_eq!(refused, Read::Reset(Code::RequestRejected.number()));
    assert!((4..=20).contains(&held.len()), "{}", held.len());
    assert!(used(&server) <= 2 << 20, "{}", used(&server));
    // Other connections are not concerned.
    assert_eq!(connect(&server).get("/app/large?60000").unwrap().body.len(), LARGE);
    for mut incoming in held {
        incoming.wait(&mut client, |incoming| incoming.end.is_some()).unwrap();
        assert_eq!(incoming.body.len(), LARGE);
    }
    assert_eq!(client.get("/app/large?60000").unwrap().body.len(), LARGE);
    drop(client);
    eventually("nothing is held any more", || used(&server) == 0);
    server.stop();
}

/// Neither acknowledges nor reads: what the library holds for it is bounded.
#[test]
fn what_a_silent_client_has_asked_for_takes_little_memory() {
    let setup = setup("");
    let path = setup.directory.path().join("root/zeros.bin");
    std::fs::File::create(path).unwrap().set_len(500_000_000).unwrap();
    let server = setup.start();
    let mut client = connect(&server);
    for _ in 0..20 {
        client.send_get("/zeros.bin", &[]);
    }
    eventually("it holds something", || used(&server) > 0);
    let begun = Instant::now();
    let mut most = 0;
    eventually("a while has passed", || {
        most = most.max(used(&server));
        begun.elapsed() > Duration::from_secs(1)
    });
    assert!(most <= 4 << 20, "{most}");
    drop(client);
    eventually("nothing is held any more", || used(&server) == 0);
    server.stop();
}

/// The datagrams with which a client begins a connection, which it does not send itself.
fn first_flight(connector: &Connector) -> Vec<Vec<u8>> {
    let mut client = connector.begin().unwrap();
    let mut datagrams = Vec::new();
    let mut buffer = Vec::new();
    while let Some(transmit) = client.link().connection.poll_transmit(Instant::now(), 1, &mut buffer) {
        datagrams.push(buffer[..transmit.size].to_vec());
        buffer.clear();
    }
    assert!(!datagrams.is_empty());
    datagrams
}

/// Bytes that look like nothing.
fn garbage(seed: &mut u64, bytes: usize) -> Vec<u8> {
    let next = |_| {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 56) as u8
    };
    (0..bytes).map(next).collect()
}

#[test]
fn garbage_disturbs_no_client() {
    let server = setup("").server("threads = 2").start();
    let address = server.address_of("https");
    let mut client = connect(&server);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut seed = 7;
    let flight = first_flight(&connector(&server));
    for round in 0..100 {
        for number in 0..100 {
            let bytes = garbage(&mut seed, 1 + (round * 37 + number * 101) % 1400);
            socket.send_to(&bytes, address).unwrap();
            // A datagram that begins well, and goes on with something else.
            let mut bent = flight[0].clone();
            let at = bytes[0] as usize * 4 % bent.len();
            bent[at] ^= bytes[0] | 1;
            if number % 10 == 0 {
                socket.send_to(&bent, address).unwrap();
            }
        }
        assert_eq!(client.get("/a.txt").unwrap().text(), "file a\n", "{round}");
    }
    assert_eq!(connect(&server).get("/b.txt").unwrap().text(), "file b\n");
    assert_eq!(server.total("panics"), 0);
    drop(client);
    // Connections that never end their handshakes would be waited for.
    drop(server);
}

/// Handshakes that no client ends: those that come then have to prove their address.
#[test]
fn clients_prove_their_address_while_many_handshakes_are_under_way() {
    let server = setup("").limit("head_timeout = \"60s\"").start();
    let address = server.address_of("https");
    let mut there = connect(&server);
    let connector = connector(&server);
    for number in 0..300 {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(&first_flight(&connector)[0], address).unwrap();
        if number % 50 == 0 {
            assert_eq!(there.get("/a.txt").unwrap().text(), "file a\n");
        }
    }
    eventually("the last are asked for a proof", || server.total("quic_retries") > 0);
    let before = server.total("quic_retries");
    let mut late = connect(&server);
    assert_eq!(late.get("/a.txt").unwrap().text(), "file a\n");
    assert!(server.total("quic_retries") > before, "it was asked, and gave it");
    assert_eq!(there.get("/b.txt").unwrap().text(), "file b\n");
    // Connections that never end their handshakes would be waited for.
    drop(server);
}
