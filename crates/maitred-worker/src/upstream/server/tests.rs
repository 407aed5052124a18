use std::time::Instant;

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::net::{RecvFlags, SocketType, recv};

use super::*;
use crate::connection::spool::Spool;
use crate::testing::{config, hang_up, sockets};
use maitred_base::budget::Budget;

const HEAD: &[u8] = b"POST / HTTP/1.1\r\n\r\n";

fn call(dialect: Dialect) -> Call {
    // What is before the start belongs to another request.
    Call::new(
        3,
        Written { out: [b"before", HEAD].concat(), start: 6, dialect, host: None, handshake: None },
        false,
    )
}

fn http1() -> Dialect {
    Dialect::Http1(Ending::default())
}

fn fastcgi() -> Dialect {
    Dialect::FastCgi(Box::default())
}

/// A spooled body whose file has this many bytes, and whose announced length may be another.
fn feed(bytes: usize, announced: u64) -> Option<Feed> {
    let mut file: File = tempfile::tempfile().unwrap();
    let content: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
    file.write_all(&content).unwrap();
    let permit = || Budget::new(0).begin();
    let spool = Spool { file, bytes: announced, on_disk: false, kept: permit(), held: permit() };
    Some(Feed { spool: Box::new(spool), sent: 0 })
}

fn take(from: &OwnedFd, got: &mut Vec<u8>) {
    got.reserve(1 << 20);
    while recv(from, spare_capacity(got), RecvFlags::empty()).is_ok_and(|(_, bytes)| bytes > 0) {
        got.reserve(1 << 20);
    }
}

/// Sends all of a request turn by turn, and gives back what came out, and in how many turns.
fn send_all(call: &mut Call, feed: &mut Option<Feed>) -> (Vec<u8>, usize) {
    let (near, far) = sockets(SocketType::STREAM);
    let mut got = Vec::new();
    for turn in 1..10_000 {
        let mut moved = 0;
        let more = call.send(&mut FarEnd::Clear(near.as_fd()), (feed, &mut None), &mut moved).unwrap();
        assert!(moved <= SENT_PER_TURN + 8192, "{moved} bytes in one turn");
        take(&far, &mut got);
        let fed = feed.as_ref().is_none_or(|feed| feed.sent == feed.spool.bytes);
        if !more && moved == 0 && call.is_sent() && fed {
            return (got, turn);
        }
    }
    panic!("it never ends: {} bytes came", got.len());
}

#[test]
fn a_server_gets_what_is_its_own_and_the_whole_body() {
    for bytes in [0, 1, 65_535, 65_536, 65_537, 3_000_000] {
        let mut http = call(http1());
        assert!(!http.is_sent());
        let mut body = feed(bytes, bytes as u64);
        let (got, turns) = send_all(&mut http, &mut body);
        assert!(got.starts_with(HEAD), "{bytes}");
        let content = &got[HEAD.len()..];
        assert_eq!(content.len(), bytes);
        assert!(content.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8), "{bytes}");
        assert!(turns > bytes / SENT_PER_TURN as usize, "each turn has its bound");
        assert_eq!((http.unsent_bytes(), http.is_sent()), (0, true));
    }
}

#[test]
fn fastcgi_puts_records_around_the_same_body() {
    for bytes in [0, 1, 70_000, 600_000] {
        let mut body = feed(bytes, bytes as u64);
        let (got, _) = send_all(&mut call(fastcgi()), &mut body);
        let (mut rest, mut content) = (&got[HEAD.len()..], Vec::new());
        loop {
            let (header, behind) = rest.split_at(8);
            assert_eq!(header[..4], [1, 5, 0, 1], "STDIN of request 1");
            let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
            content.extend_from_slice(&behind[..length]);
            rest = &behind[length + usize::from(header[6])..];
            if length == 0 {
                break;
            }
        }
        assert!(rest.is_empty(), "nothing follows the empty record");
        assert_eq!(content.len(), bytes);
        assert!(content.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8), "{bytes}");
    }
}

#[test]
fn a_full_socket_is_waited_for() {
    let (near, far) = sockets(SocketType::STREAM);
    let (mut http, mut body, mut sent) = (call(http1()), feed(4_000_000, 4_000_000), 0);
    // No bound of a turn, so that it is the socket that stops it.
    while http.send(&mut FarEnd::Clear(near.as_fd()), (&mut body, &mut None), &mut 0) == Ok(true) {}
    let first = body.as_ref().unwrap().sent;
    assert!(first < 4_000_000, "the socket took all of it");
    assert_eq!(http.send(&mut FarEnd::Clear(near.as_fd()), (&mut body, &mut None), &mut sent), Ok(false));
    assert_eq!(sent, 0);
    let mut got = Vec::new();
    take(&far, &mut got);
    assert_eq!(got.len() as u64, HEAD.len() as u64 + first);
    http.send(&mut FarEnd::Clear(near.as_fd()), (&mut body, &mut None), &mut sent).unwrap();
    assert!(sent > 0 && body.unwrap().sent == first + sent);
}

#[test]
fn a_file_that_is_shorter_than_it_was_ends_the_request() {
    let (near, _far) = sockets(SocketType::STREAM);
    let (mut http, mut body, mut moved) = (call(http1()), feed(10, 11), 0);
    assert_eq!(http.send(&mut FarEnd::Clear(near.as_fd()), (&mut body, &mut None), &mut moved), Err(()));
    assert_eq!((moved, body.unwrap().sent), (HEAD.len() as u64 + 10, 10));
}

#[test]
fn what_a_server_does_not_take_any_more_is_no_memory_that_waits_for_it() {
    let (near, far) = sockets(SocketType::STREAM);
    let mut http = call(http1());
    assert!(http.unsent_bytes() >= HEAD.len());
    hang_up(&far);
    assert_eq!(http.send(&mut FarEnd::Clear(near.as_fd()), (&mut None, &mut None), &mut 0), Err(()));
    assert!(http.unsent_bytes() > 0, "the caller notes the error");
    http.send_failed = true;
    assert_eq!((http.unsent_bytes(), http.is_sent()), (0, false));
}

#[test]
fn what_comes_behind_a_spooled_body_is_sent_once_in_each_attempt() {
    for bytes in [0, 1, 600_000] {
        let mut http = call(Dialect::Http1(Ending::new(b"<end>".to_vec())));
        let mut body = feed(bytes, bytes as u64);
        assert!(!http.is_sent());
        for _ in 0..2 {
            let (got, _) = send_all(&mut http, &mut body);
            assert_eq!(got.len(), HEAD.len() + bytes + 5, "{bytes} bytes");
            assert!(got.ends_with(b"<end>"));
            (http.sent, body.as_mut().unwrap().sent) = (http.start, 0);
            http.dialect.reset();
            assert!(!http.is_sent(), "the end is not sent yet");
        }
    }
}

/// Another attempt sends all of it again, records included.
#[test]
fn each_server_gets_its_own_name() {
    let out = b"before GET / HTTP/1.1\r\nhost: a:1\r\nx: y\r\n\r\n".to_vec();
    let written = |host| Written { out: out.clone(), start: 7, dialect: http1(), host, handshake: None };
    let config =
        config("[pool.p]\nconnect = [\"http://127.0.0.1:80\", \"http+unix:/a\", \"http://[::1]:8\"]\n");
    let servers = config.pools[0].source.servers().unwrap();
    let mut call = Call::new(0, written(Some(29..32)), true);
    for (server, name) in servers.iter().zip(["127.0.0.1:80", "localhost", "[::1]:8"]) {
        call.name_host(server);
        call.renew(Instant::now());
        let expected = format!("GET / HTTP/1.1\r\nhost: {name}\r\nx: y\r\n\r\n");
        assert_eq!(String::from_utf8_lossy(&send_all(&mut call, &mut None).0), expected);
    }
    let mut call = Call::new(0, written(None), true);
    call.name_host(&servers[0]);
    assert_eq!(send_all(&mut call, &mut None).0, &out[7..]);
}

#[test]
fn a_new_attempt_begins_anew() {
    let mut call = call(fastcgi());
    let mut body = feed(1000, 1000);
    let (first, _) = send_all(&mut call, &mut body);
    (call.sent, body.as_mut().unwrap().sent) = (call.start, 0);
    call.dialect.reset();
    assert_eq!(send_all(&mut call, &mut body).0, first);
}

#[test]
fn a_turn_has_its_bound_which_other_parts_of_it_have_used_already() {
    let (near, far) = sockets(SocketType::STREAM);
    let (mut http, mut body, mut got) = (call(http1()), feed(1000, 1000), Vec::new());
    assert_eq!(
        http.send(&mut FarEnd::Clear(near.as_fd()), (&mut body, &mut None), &mut SENT_PER_TURN.clone()),
        Ok(true)
    );
    take(&far, &mut got);
    assert!(got.is_empty(), "nothing is left of the turn");
    let mut moved = SENT_PER_TURN - HEAD.len() as u64 - 100;
    assert_eq!(http.send(&mut FarEnd::Clear(near.as_fd()), (&mut body, &mut None), &mut moved), Ok(true));
    take(&far, &mut got);
    assert_eq!((got.len(), moved), (HEAD.len() + 100, SENT_PER_TURN));
    assert_eq!(http.send(&mut FarEnd::Clear(near.as_fd()), (&mut body, &mut None), &mut 0), Ok(false));
    take(&far, &mut got);
    assert_eq!(got.len(), HEAD.len() + 1000);
}
