use proptest::prelude::*;

use super::*;
use crate::connection::table::Phase;
use crate::keys::{ConnId, ConnKey};
use crate::reactor::Reactor;
use crate::testing::{client, reactor, shared};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[test]
fn the_preface_of_http2_is_known_by_its_first_line_however_little_has_come() {
    for length in 0..PREFACE.len() {
        assert_eq!(http2_preface(&PREFACE[..length]), Some(length >= 16), "{length} bytes");
    }
    for other in [&b"PRIX"[..], b"POST / HTTP/1.1", b"PRI * HTTP/2.1\r\n", b"PRI / HTTP/2.0\r\n", b"pri"] {
        assert_eq!(http2_preface(other), None, "{}", String::from_utf8_lossy(other));
    }
    for at in 0..16 {
        let mut bytes = PREFACE.to_vec();
        bytes[at] ^= 0x20;
        assert_eq!(http2_preface(&bytes), None, "byte {at} is another one");
    }
}

#[test]
fn only_a_stated_length_is_known_to_be_too_long() {
    for (framing, expected) in [
        (Framing::None, false),
        (Framing::Chunked, false),
        (Framing::Length(1), false),
        (Framing::Length(100), false),
        (Framing::Length(101), true),
        (Framing::Length(u64::MAX), true),
    ] {
        assert_eq!(announces_over(framing, 100), expected, "{framing:?}");
    }
}

#[test]
fn a_body_that_will_not_be_read_to_its_end_shows_that_early() {
    let status =
        |framing, come: &[u8]| flaw(Decoder::new(framing, 1000), come, 4).map(|reject| reject.status);
    for (framing, come, expected) in [
        (Framing::None, &b""[..], None),
        (Framing::Length(4), b"abcd", None),
        (Framing::Length(4), b"abcdGET / HTTP/1.1", None),
        (Framing::Length(1000), b"abcd", None),
        (Framing::Length(1000), b"abcde", Some(413)),
        (Framing::Chunked, b"", None),
        (Framing::Chunked, b"4\r\nabcd\r\n0\r\n\r\nGET /", None),
        (Framing::Chunked, b"2\r\nab\r\n2\r\ncd\r\n1\r\n", None),
        (Framing::Chunked, b"2\r\nab\r\n2\r\ncd\r\n1\r\ne", Some(413)),
        (Framing::Chunked, b"zz\r\n", Some(400)),
        (Framing::Chunked, b"2\r\nabc\r\n", Some(400)),
    ] {
        assert_eq!(status(framing, come), expected, "{framing:?} {}", String::from_utf8_lossy(come));
    }
}

proptest! {
    /// The decoder that goes on with the body is not the one that has looked ahead.
    #[test]
    fn looking_ahead_takes_nothing(come in prop::collection::vec(any::<u8>(), 0..64), length in 1u64..64) {
        let decoder = Decoder::new(Framing::Length(length), 1000);
        let found = flaw(decoder, &come, 16);
        let content = (come.len() as u64).min(length);
        prop_assert_eq!(found.map(|reject| reject.status), (content > 16).then_some(413));
        let (mut decoder, mut body) = (decoder, Vec::new());
        let progress = decoder.decode(&come, &mut body).unwrap();
        prop_assert_eq!(progress.consumed as u64, content);
        prop_assert_eq!(&body[..], &come[..progress.consumed]);
    }
}

/// What a client gets for these pieces, each received in a turn of its own; and whether its connection is still there.
fn answered(pieces: &[&[u8]]) -> (Vec<u8>, bool) {
    let mut thread = reactor(shared("", 1), 0);
    let (index, far_end) = client(&mut thread, "192.0.2.1:1");
    for piece in pieces {
        if !thread.connections.contains(index) {
            break;
        }
        rustix::net::send(&far_end, piece, rustix::net::SendFlags::NOSIGNAL).unwrap();
        thread.on_readable(index);
        settle(&mut thread, index);
    }
    let mut got = Vec::with_capacity(1 << 16);
    let room = rustix::buffer::spare_capacity(&mut got);
    let _ = rustix::net::recv(&far_end, room, rustix::net::RecvFlags::empty());
    let open = thread.connections.get(index).is_some_and(|found| !found.is(Phase::Linger));
    thread.close(index);
    (got, open)
}

/// Looks again as often as the connection asks for it.
fn settle(thread: &mut Reactor, index: ConnKey) {
    while let Some(ConnId { key: again, .. }) = thread.again.pop() {
        assert_eq!(again, index);
        thread.connections[index].again = false;
        thread.on_readable(index);
    }
}

const GET: &str = "GET /fixed HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &str = "POST /fixed HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";

/// However the bytes of some requests are split among packets, the answers are the same.
#[test]
fn answers_do_not_depend_on_how_requests_arrive() {
    let chunked =
        "POST /fixed HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let all = [GET, POST, "\r\n", chunked, "GET /none HTTP/1.1\r\nHost: a\r\n\r\n", GET].concat();
    let date_free = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        text.lines().filter(|line| !line.starts_with("Date:")).collect::<Vec<_>>().join("\n")
    };
    let (whole, open) = answered(&[all.as_bytes()]);
    let whole = date_free(&whole);
    assert!(open && whole.matches("HTTP/1.1 200").count() == 4 && whole.matches("HTTP/1.1 404").count() == 1);
    for size in [1, 2, 3, 5, 17, 64] {
        let (got, open) = answered(&all.as_bytes().chunks(size).collect::<Vec<_>>());
        assert!(open, "pieces of {size}");
        assert_eq!(date_free(&got), whole, "pieces of {size}");
    }
}

#[test]
fn what_breaks_the_rules_gets_one_answer_and_is_not_read_on() {
    for (bad, status) in [
        ("GET /fixed HTTP/1.1\r\n\r\n", "400"),
        ("GET /fixed HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"),
        ("GET /fixed HTTP/3.0\r\nHost: a\r\n\r\n", "505"),
        ("POST /fixed HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", "400"),
        ("POST /fixed HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 2\r\n\r\n", "400"),
        ("GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
        ("nonsense\r\n\r\n", "400"),
    ] {
        let (got, _) = answered(&[GET.as_bytes(), bad.as_bytes(), GET.as_bytes()]);
        let text = String::from_utf8_lossy(&got);
        let statuses: Vec<&str> = text.split("HTTP/1.1 ").skip(1).filter_map(|rest| rest.get(..3)).collect();
        let well_formed = bad.contains("%00");
        assert_eq!(statuses[..2], ["200", status], "{bad}: {text}");
        assert!(statuses.len() == 2 || well_formed, "{bad}: {text}");
    }
}
