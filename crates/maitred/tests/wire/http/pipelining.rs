//! Pipelined requests, however their bytes are split: the responses are those that single requests get.

use std::io::Write as _;

use crate::support::{Client, Response, Server, Setup};

/// xorshift64*: the same splits in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }
}

fn requests() -> Vec<String> {
    let plain = |method: &str, target: &str, fields: &str| {
        format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
    };
    vec![
        plain("GET", "/a.txt", ""),
        plain("GET", "/large.bin", ""),
        plain("HEAD", "/large.bin", ""),
        plain("GET", "/not-there", ""),
        plain("GET", "/a.txt", "If-None-Match: *\r\n"),
        plain("GET", "/large.bin", "Range: bytes=3-70000\r\n"),
        plain("OPTIONS", "*", ""),
        plain("GET", "/dir", ""),
        plain("GET", "/app/hello?pipelined", ""),
        plain("HEAD", "/app/hello", ""),
        plain("GET", "/app/stream", ""),
        plain("GET", "/app/large?200000", ""),
        plain("GET", "/app/nothing", ""),
        plain("POST", "/app/echo", "Content-Length: 5\r\n") + "hello",
        plain("POST", "/app/echo", "Transfer-Encoding: chunked\r\n") + "3\r\nabc\r\n0\r\n\r\n",
        plain("POST", "/a.txt", "Content-Length: 20\r\n") + "GET / HTTP/1.1\r\n\r\n..",
        plain("GET", "/b.txt", "Transfer-Encoding: chunked\r\n") + "4;ext\r\nbody\r\n0\r\nTrailer: x\r\n\r\n",
        "\r\n".to_owned() + &plain("GET", "/b.txt", ""),
    ]
}

fn method(request: &str) -> &str {
    request.trim_start().split(' ').next().unwrap()
}

fn serve(threads: u32) -> Server {
    let server = Setup::with_files()
        .server(&format!("threads = {threads}"))
        .file("large.bin", &(0..150_000_usize).map(|at| (at ^ at >> 8) as u8).collect::<Vec<_>>())
        .pool("app", None, "workers = 1\nqueue = { timeout = \"60s\" }")
        .start();
    server.wait_for_processes();
    server
}

/// Sends `bytes` in pieces of up to `piece_max` bytes, while responses are read.
fn exchange(server: &Server, order: &[&String], random: &mut Random, piece_max: usize) -> Vec<Response> {
    let bytes: Vec<u8> = order.iter().flat_map(|request| request.bytes()).collect();
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let end = (at + 1 + random.below(piece_max)).min(bytes.len());
        pieces.push(at..end);
        at = end;
    }
    let mut client = server.connect();
    let mut sending = client.tcp().try_clone().unwrap();
    std::thread::scope(|scope| {
        let bytes = &bytes;
        scope.spawn(move || {
            for piece in pieces {
                sending.write_all(&bytes[piece]).unwrap();
            }
        });
        order.iter().map(|request| client.response(method(request)).undated()).collect()
    })
}

fn one_by_one(server: &Server, requests: &[String]) -> Vec<Response> {
    let mut client: Client = server.connect();
    requests
        .iter()
        .map(|request| {
            client.send(request);
            client.response(method(request)).undated()
        })
        .collect()
}

fn splits_change_nothing(threads: u32, rounds: u64) {
    let server = serve(threads);
    let requests = requests();
    let expected = one_by_one(&server, &requests);
    for seed in 1..=rounds {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let count = 1 + random.below(30);
        let order: Vec<usize> = (0..count).map(|_| random.below(requests.len())).collect();
        let piece_max = [1, 3, 20, 100, 1000, 100_000][random.below(6)];
        let sent: Vec<&String> = order.iter().map(|which| &requests[*which]).collect();
        let responses = exchange(&server, &sent, &mut random, piece_max);
        for (place, (which, response)) in order.iter().zip(&responses).enumerate() {
            assert!(
                *response == expected[*which],
                "seed {seed}, pieces of {piece_max}, place {place}: {:?} got {} {:?} with {} bytes, alone {} {:?} with {}",
                requests[*which],
                response.status,
                response.fields,
                response.body.len(),
                expected[*which].status,
                expected[*which].fields,
                expected[*which].body.len()
            );
        }
    }
    server.stop();
}

#[test]
fn odd_splits_of_pipelined_requests_change_nothing() {
    splits_change_nothing(1, 60);
}

/// With two threads and one process, connections move to the thread that the process belongs to.
#[test]
fn odd_splits_change_nothing_when_connections_migrate() {
    splits_change_nothing(2, 60);
}

/// Each request split in two at every place.
#[test]
fn every_split_of_two_requests_gives_the_same() {
    let server = Setup::with_files().start();
    let request = "POST /a.txt HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nxy\r\n0\r\n\r\n\
                   GET /b.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut other = server.connect();
    for at in 1..request.len() {
        let mut client = server.connect();
        client.send(&request[..at]);
        // A round trip elsewhere: the first piece has been looked at by then.
        assert_eq!(other.get("/b.txt").status, 200);
        client.send(&request[at..]);
        assert_eq!(client.response("POST").status, 405, "split at {at}");
        assert_eq!(client.response("GET").text(), "file b\n", "split at {at}");
    }
    server.stop();
}
