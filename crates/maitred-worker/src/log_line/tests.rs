use super::*;
use crate::connection::State;
use crate::connection::dispatch::Dispatch;
use crate::connection::remote::Remote;
use crate::connection::wire::Wire;
use crate::keys::{ChannelKey, Key, RelayKey};
use crate::testing::{filter, shared, sockets};
use crate::upstream::By;
use crate::upstream::relay::Handed;

#[test]
fn a_request_is_known_by_its_whole_first_line() {
    let parsed = |head: &str| match first_line(head.as_bytes()) {
        Some(RequestLine::Parsed { method, target, version }) => format!("{method} {target} {version:?}"),
        Some(RequestLine::Refused(bytes)) => format!("refused {}", String::from_utf8_lossy(bytes)),
        None => "nothing".to_owned(),
    };
    assert_eq!(parsed("GET /a?b HTTP/1.1\r\nHost: lo"), "GET /a?b Http11");
    assert_eq!(parsed("\r\nGET / HTTP/1.0\r\n"), "GET / Http10");
    assert_eq!(parsed("GET /\r\n"), "refused GET /");
    ["", "\r\n", "GET / HTTP/1.1", "GET / HTTP/1.1\r"]
        .into_iter()
        .for_each(|head| assert_eq!(parsed(head), "nothing"));
}

#[test]
fn bytes_that_are_no_request_line_are_shown_as_they_came() {
    for (head, expected) in [
        (&b"GET / HTTP/1.1 \r\n"[..], "GET / HTTP/1.1 "),
        (b"GET  / HTTP/1.1\r\n", "GET  / HTTP/1.1"),
        (b"GET / HTTP/2.0\r\n", "GET / HTTP/2.0"),
        (b"\x16\x03\x01\n", "\x16\x03\x01"),
        (b"GET /\xff HTTP/1.1\n", "GET /\u{fffd} HTTP/1.1"),
        (b" \n", " "),
    ] {
        match first_line(head) {
            Some(RequestLine::Refused(shown)) => assert_eq!(String::from_utf8_lossy(shown), expected),
            other => panic!("{other:?}"),
        }
    }
}

fn connection() -> Connection {
    let remote = Remote::new("192.0.2.1:1".parse().ok());
    Connection::new(Wire::Clear, remote, false, std::time::Instant::now())
}

/// A response that ends in its middle, by what has happened before.
#[test]
fn the_status_of_an_aborted_response_names_the_cause() {
    let handed = |lost| {
        let handed = Handed { lost, ..Handed::new(RelayKey::of(0), (ChannelKey::of(0), 1), false) };
        Box::new(Attempt::new(filter(), true, None, By::Process(handed), std::time::Instant::now()))
    };
    for (overdue, lost, cancelled, expected) in [
        (false, false, false, ABORTED),
        (false, false, true, ABORTED),
        (false, true, false, LOST),
        // The client had gone before the process did.
        (false, true, true, ABORTED),
        (true, false, false, TIMED_OUT),
        (true, true, true, TIMED_OUT),
    ] {
        let dispatch = |lost| Dispatch { overdue, lost, cancelled, ..Dispatch::default() };
        let mut direct = connection();
        direct.exchange().dispatch = dispatch(lost);
        let mut relayed = connection();
        (relayed.exchange().dispatch, relayed.state) = (dispatch(false), State::Upstream(handed(lost)));
        assert_eq!(aborted_status(&direct), expected, "{overdue} {lost} {cancelled}");
        assert_eq!(aborted_status(&relayed), expected, "through a relay: {overdue} {lost} {cancelled}");
    }
}

#[test]
fn a_line_names_the_pool_and_how_long_everything_took() {
    let shared = shared("[pool.a]\ncommand = [\"a\"]\n[pool.b]\ncommand = [\"b\"]\n", 1);
    let began = std::time::Instant::now();
    let now = began + std::time::Duration::from_millis(1500);
    let clock = Clock { now, unix_secs: 0, unix_micros: 0, steady_us: 0, http_date: [b' '; 29] };
    let socket = sockets(rustix::net::SocketType::STREAM).0;
    let mut connection = Entry::new(socket, 0, "[2001:db8::1]:80".parse().ok(), began);
    let shown = |connection: &Entry| {
        let summary = Summary { status: 200, body_bytes: 7 };
        let line = line(shared, &clock, connection, RequestLine::Refused(b""), summary);
        assert_eq!((line.remote, line.status, line.body_bytes), (b"2001:db8::1".as_slice(), 200, 7));
        (line.pool.map(str::to_owned), line.queue_us, line.duration_us)
    };
    assert_eq!(shown(&connection), (None, 0, 1_500_000));
    (connection.exchange().dispatch.pool, connection.exchange().dispatch.queue_us) = (Some(1), 250);
    assert_eq!(shown(&connection), (Some("b".to_owned()), 250, 1_500_000));
    connection.exchange().dispatch.pool = Some(2);
    connection.began = now + std::time::Duration::from_secs(1);
    assert_eq!(shown(&connection), (None, 250, 0), "a pool that is not there, and a clock that lags");
}
