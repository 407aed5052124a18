//! Servers whose responses are wrong, or have too much in them.

use super::{KINDS, Kind, Seen, TEXT, response, seen};
use crate::proxy::fastcgi::{self, STDOUT};
use crate::proxy::secure::{self, Authority};
use crate::support::Setup;
use crate::support::framed::head;
use crate::support::h2::frame::{self, flag, kind};
use crate::support::h2::hpack;
use crate::support::upstream::{Peer, Upstream};

/// What the client of a response may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Is {
    /// An answer of Maitred's: nothing of it may go on.
    Bad,
    /// An answer of Maitred's, or the end of the connection: the head was good.
    Broken,
    /// All of it: what is wrong, or too much, comes behind it or means nothing.
    Good,
}

/// A name, what it is, and the bytes of a stream.
type Case = (&'static str, Is, fn(u32) -> Vec<u8>);

/// Sends each of these as the response to a path of its name; what comes next is answered well.
fn meet(kind: Kind, cases: &'static [Case]) {
    let authority = Authority::new();
    let upstream = kind.upstream(&authority, move |path, id| {
        match cases.iter().find(|(name, ..)| path.trim_start_matches('/') == *name) {
            Some((.., bytes)) => vec![bytes(id)],
            None => response(kind, id),
        }
    });
    let server = kind.start(&authority, upstream.address());
    let mut wrong = Vec::new();
    for (name, is, _) in cases {
        for method in ["GET", "POST"] {
            let seen = seen(&server, method, &format!("/{name}"), TEXT);
            let right = match is {
                Is::Bad => seen == Seen::Failed(502),
                Is::Broken => [Seen::Failed(502), Seen::Cut].contains(&seen),
                Is::Good => seen == Seen::Whole,
            };
            if !right {
                wrong.push((name, method, is, seen));
            }
            assert_eq!(self::seen(&server, method, "/fine", TEXT), Seen::Whole, "after {name}");
        }
    }
    assert!(wrong.is_empty(), "{kind:?}: {wrong:#?}");
    server.stop();
}

/// A head of HTTP/1 with these lines, and content.
fn text(lines: &str, content: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\n{lines}\r\n{content}").into_bytes()
}

const HTTP: &[Case] = &[
    ("two-lengths", Is::Bad, |_| text("Content-Length: 10\r\nContent-Length: 9\r\n", TEXT)),
    ("negative", Is::Bad, |_| text("Content-Length: -10\r\n", TEXT)),
    ("signed", Is::Bad, |_| text("Content-Length: +10\r\n", TEXT)),
    ("huge", Is::Bad, |_| text("Content-Length: 99999999999999999999\r\n", TEXT)),
    ("no-number", Is::Bad, |_| text("Content-Length: ten\r\n", TEXT)),
    ("unknown-coding", Is::Bad, |_| text("Transfer-Encoding: gzip\r\n", TEXT)),
    ("chunked-twice", Is::Bad, |_| {
        text("Transfer-Encoding: chunked, chunked\r\n", "a\r\n0123456789\r\n0\r\n\r\n")
    }),
    ("chunked-in-1.0", Is::Good, |_| {
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n".to_vec()
    }),
    ("other-version", Is::Bad, |_| b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()),
    ("long-status", Is::Bad, |_| b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n".to_vec()),
    ("short-status", Is::Bad, |_| b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n".to_vec()),
    ("low-status", Is::Bad, |_| b"HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n".to_vec()),
    ("no-version", Is::Bad, |_| b"200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()),
    ("space-in-name", Is::Bad, |_| text("X One: 1\r\nContent-Length: 10\r\n", TEXT)),
    ("space-before-colon", Is::Bad, |_| text("Content-Length : 10\r\n", TEXT)),
    ("no-colon", Is::Bad, |_| text("X-One\r\nContent-Length: 10\r\n", TEXT)),
    ("no-name", Is::Bad, |_| text(": 1\r\nContent-Length: 10\r\n", TEXT)),
    ("nul", Is::Bad, |_| text("X-One: \0\r\nContent-Length: 10\r\n", TEXT)),
    ("lone-cr", Is::Bad, |_| text("X-One: a\rContent-Length: 5\r\nContent-Length: 10\r\n", TEXT)),
    ("folded", Is::Bad, |_| text("X-One: a\r\n b\r\nContent-Length: 10\r\n", TEXT)),
    ("no-size", Is::Broken, |_| text("Transfer-Encoding: chunked\r\n", "zz\r\n0123456789\r\n0\r\n\r\n")),
    ("huge-size", Is::Broken, |_| {
        text("Transfer-Encoding: chunked\r\n", "FFFFFFFFFFFFFFFFF\r\n0123456789\r\n0\r\n\r\n")
    }),
    ("negative-size", Is::Broken, |_| {
        text("Transfer-Encoding: chunked\r\n", "-a\r\n0123456789\r\n0\r\n\r\n")
    }),
    ("size-with-0x", Is::Broken, |_| {
        text("Transfer-Encoding: chunked\r\n", "0xa\r\n0123456789\r\n0\r\n\r\n")
    }),
    ("long-chunk", Is::Broken, |_| text("Transfer-Encoding: chunked\r\n", "9\r\n0123456789\r\n0\r\n\r\n")),
    ("trailer-without-colon", Is::Broken, |_| {
        text("Transfer-Encoding: chunked\r\n", "a\r\n0123456789\r\n0\r\nX-One\r\n\r\n")
    }),
    ("more-than-its-length", Is::Good, |_| text("Content-Length: 10\r\n", "0123456789 and more")),
    ("more-than-its-chunks", Is::Good, |_| {
        text("Transfer-Encoding: chunked\r\n", "a\r\n0123456789\r\n0\r\n\r\nand more")
    }),
    ("another-response", Is::Good, |_| {
        text("Content-Length: 10\r\n", "0123456789HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
    }),
    ("interim-without-end", Is::Bad, |_| {
        [&b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(10_000)[..], &text("Content-Length: 10\r\n", TEXT)]
            .concat()
    }),
    ("head-without-end", Is::Bad, |_| text(&"X-One: a\r\n".repeat(200_000), TEXT)),
    ("line-without-end", Is::Bad, |_| text(&format!("X-One: {}\r\n", "a".repeat(2_000_000)), TEXT)),
    ("trailers-without-end", Is::Broken, |_| {
        text(
            "Transfer-Encoding: chunked\r\n",
            &format!("a\r\n0123456789\r\n0\r\n{}\r\n", "X-One: a\r\n".repeat(200_000)),
        )
    }),
];

#[test]
fn wrong_responses_do_not_go_on() {
    meet(Kind::Http, HTTP);
}

#[test]
fn wrong_responses_do_not_go_on_from_tls() {
    meet(Kind::Https, HTTP);
}

/// A response whose head has these fields, and content.
fn with(id: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    [head(id, &[&[(":status", "200")], fields].concat(), false), frame::data(id, TEXT.as_bytes(), true)]
        .concat()
}

/// The right response.
fn right(id: u32) -> Vec<u8> {
    response(Kind::Http2, id).concat()
}

/// A frame, and the right response.
fn before(kind: u8, flags: u8, stream: u32, payload: &[u8], id: u32) -> Vec<u8> {
    [frame::frame(kind, flags, stream, payload), right(id)].concat()
}

const HTTP2: &[Case] = &[
    ("no-status", Is::Bad, |id| head(id, &[("x-one", "1")], true)),
    ("two-statuses", Is::Bad, |id| with(id, &[(":status", "200")])),
    ("short-status", Is::Bad, |id| head(id, &[(":status", "20")], true)),
    ("status-behind", Is::Bad, |id| head(id, &[("x-one", "1"), (":status", "200")], true)),
    ("unknown-pseudo-field", Is::Bad, |id| with(id, &[(":path", "/")])),
    ("upper-case", Is::Bad, |id| with(id, &[("X-One", "1")])),
    ("connection", Is::Bad, |id| with(id, &[("connection", "close")])),
    ("transfer-encoding", Is::Bad, |id| with(id, &[("transfer-encoding", "chunked")])),
    ("line-break", Is::Bad, |id| with(id, &[("x-one", "a\r\nb: c")])),
    ("space-in-name", Is::Bad, |id| with(id, &[("x one", "1")])),
    ("two-lengths", Is::Bad, |id| with(id, &[("content-length", "10"), ("content-length", "9")])),
    ("more-than-its-length", Is::Broken, |id| with(id, &[("content-length", "9")])),
    ("less-than-its-length", Is::Broken, |id| with(id, &[("content-length", "11")])),
    ("data-first", Is::Bad, |id| before(kind::DATA, 0, id, b"x", id)),
    ("interim-that-ends", Is::Bad, |id| head(id, &[(":status", "103")], true)),
    ("no-block", Is::Bad, |id| before(kind::HEADERS, flag::END_HEADERS, id, &[0xff; 20], id)),
    ("padding-only", Is::Bad, |id| {
        before(kind::HEADERS, flag::END_HEADERS | flag::PADDED, id, &[200, 0x88], id)
    }),
    ("head-of-no-stream", Is::Bad, |id| before(kind::HEADERS, flag::END_HEADERS, 0, &[0x88], id)),
    ("data-of-no-stream", Is::Bad, |id| before(kind::DATA, 0, 0, b"x", id)),
    ("data-of-an-idle-stream", Is::Bad, |id| before(kind::DATA, 0, id + 100, b"x", id)),
    ("head-of-an-even-stream", Is::Bad, |id| before(kind::HEADERS, flag::END_HEADERS, 2, &[0x88], id)),
    ("push", Is::Bad, |id| before(kind::PUSH_PROMISE, flag::END_HEADERS, id, &[0, 0, 0, 2, 0x88], id)),
    ("continuation-of-nothing", Is::Bad, |id| before(kind::CONTINUATION, flag::END_HEADERS, id, &[0x88], id)),
    ("block-in-between", Is::Bad, |id| {
        [frame::frame(kind::HEADERS, 0, id, &[0x88]), frame::ping(1), right(id)].concat()
    }),
    ("long-frame", Is::Bad, |id| before(kind::DATA, 0, id, &[0; 16_385], id)),
    ("no-window", Is::Bad, |id| before(kind::WINDOW_UPDATE, 0, 0, &[0; 4], id)),
    ("no-window-of-a-stream", Is::Bad, |id| before(kind::WINDOW_UPDATE, 0, id, &[0; 4], id)),
    ("large-window", Is::Bad, |id| before(kind::WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff], id)),
    ("half-settings", Is::Bad, |id| before(kind::SETTINGS, 0, 0, &[0; 5], id)),
    ("settings-of-a-stream", Is::Bad, |id| before(kind::SETTINGS, 0, id, &[], id)),
    ("large-initial-window", Is::Bad, |id| before(kind::SETTINGS, 0, 0, &[0, 4, 0xff, 0xff, 0xff, 0xff], id)),
    ("short-ping", Is::Bad, |id| before(kind::PING, 0, 0, &[0; 7], id)),
    ("short-reset", Is::Bad, |id| before(kind::RST_STREAM, 0, id, &[0; 3], id)),
    ("short-goaway", Is::Bad, |id| before(kind::GOAWAY, 0, 0, &[0; 7], id)),
    ("unknown-frame", Is::Good, |id| before(0x77, 0xff, id, b"what", id)),
    ("priority", Is::Good, |id| before(kind::PRIORITY, 0, id, &[0, 0, 0, 0, 1], id)),
    ("data-behind", Is::Good, |id| [right(id), frame::data(id, b"more", false)].concat()),
    ("head-behind", Is::Good, |id| [right(id), head(id, &[(":status", "200")], true)].concat()),
    ("trailers-without-end", Is::Broken, |id| {
        [
            head(id, &[(":status", "200")], false),
            frame::data(id, TEXT.as_bytes(), false),
            head(id, &[("x", "1")], false),
        ]
        .concat()
    }),
    ("status-in-trailers", Is::Broken, |id| {
        [
            head(id, &[(":status", "200")], false),
            frame::data(id, TEXT.as_bytes(), false),
            head(id, &[(":status", "200")], true),
        ]
        .concat()
    }),
    ("more-than-any-window", Is::Broken, |id| {
        [head(id, &[(":status", "200")], false), frame::data(id, &[b'x'; 16_384], false).repeat(10_000)]
            .concat()
    }),
    ("interim-without-end", Is::Bad, |id| {
        [head(id, &[(":status", "103")], false).repeat(10_000), right(id)].concat()
    }),
    ("empty-frames-without-end", Is::Broken, |id| {
        [
            head(id, &[(":status", "200")], false),
            frame::data(id, b"", false).repeat(100_000),
            frame::data(id, TEXT.as_bytes(), true),
        ]
        .concat()
    }),
    ("pings-without-end", Is::Bad, |id| [frame::ping(1).repeat(1_000_000), right(id)].concat()),
    ("settings-without-end", Is::Bad, |id| [frame::settings(&[]).repeat(1_000_000), right(id)].concat()),
    ("blocks-without-end", Is::Bad, |id| {
        [
            frame::frame(kind::HEADERS, 0, id, &[0x88]),
            frame::frame(kind::CONTINUATION, 0, id, b"").repeat(1_000_000),
        ]
        .concat()
    }),
];

#[test]
fn wrong_frames_end_their_stream_or_their_connection() {
    meet(Kind::Http2, HTTP2);
}

/// A record of FastCGI, whatever it says.
fn record(version: u8, kind: u8, request: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[version, kind, 0, request, high, low, padding, 0], content, &vec![0; padding.into()]].concat()
}

const PAGE: &[u8] = b"Content-Type: text/plain\r\n\r\n0123456789";

const FASTCGI: &[Case] = &[
    ("other-version", Is::Bad, |_| record(2, STDOUT, 1, PAGE, 0)),
    ("other-request", Is::Bad, |_| record(1, STDOUT, 2, PAGE, 0)),
    ("unknown-record", Is::Good, |_| {
        [record(1, 99, 1, b"what", 0), record(1, STDOUT, 1, PAGE, 0), fastcgi::end(0)].concat()
    }),
    ("its-own-input", Is::Bad, |_| record(1, 5, 1, b"what", 0)),
    ("short-end", Is::Broken, |_| [record(1, STDOUT, 1, PAGE, 0), record(1, 3, 1, &[0; 4], 0)].concat()),
    ("failed-end", Is::Broken, |_| [record(1, STDOUT, 1, PAGE, 0), fastcgi::end(2)].concat()),
    ("no-head", Is::Bad, |_| [fastcgi::of(STDOUT, TEXT), fastcgi::end(0)].concat()),
    ("no-colon", Is::Bad, |_| [fastcgi::of(STDOUT, "Status\r\n\r\n0123456789"), fastcgi::end(0)].concat()),
    ("no-status", Is::Bad, |_| {
        [fastcgi::of(STDOUT, "Status: fine\r\n\r\n0123456789"), fastcgi::end(0)].concat()
    }),
    ("nul", Is::Bad, |_| [fastcgi::of(STDOUT, "X-One: \0\r\n\r\n0123456789"), fastcgi::end(0)].concat()),
    ("two-lengths", Is::Bad, |_| {
        [fastcgi::of(STDOUT, "Content-Length: 10\r\nContent-Length: 9\r\n\r\n0123456789"), fastcgi::end(0)]
            .concat()
    }),
    ("only-messages", Is::Bad, |_| [fastcgi::of(7, "PHP message"), fastcgi::end(0)].concat()),
    ("less-than-its-length", Is::Broken, |_| {
        [fastcgi::of(STDOUT, "Content-Length: 11\r\n\r\n0123456789"), fastcgi::end(0)].concat()
    }),
    ("more-than-its-length", Is::Good, |_| {
        [fastcgi::of(STDOUT, "Content-Length: 10\r\n\r\n0123456789 and more"), fastcgi::end(0)].concat()
    }),
    ("padded", Is::Good, |_| [record(1, STDOUT, 1, PAGE, 255), fastcgi::end(0)].concat()),
    ("byte-by-byte", Is::Good, |_| {
        [PAGE.chunks(1).flat_map(|byte| record(1, STDOUT, 1, byte, 1)).collect(), fastcgi::end(0)].concat()
    }),
    ("records-behind", Is::Good, |_| {
        [record(1, STDOUT, 1, PAGE, 0), fastcgi::end(0), record(1, STDOUT, 1, b"more", 0)].concat()
    }),
    ("head-without-end", Is::Bad, |_| fastcgi::of(STDOUT, "X-One: a\r\n".repeat(200_000))),
];

#[test]
fn wrong_records_do_not_go_on() {
    meet(Kind::FastCgi, FASTCGI);
}

#[test]
fn a_response_has_no_ten_thousand_fields() {
    let authority = Authority::new();
    for kind in KINDS {
        let upstream = kind.upstream(&authority, move |path, id| {
            if path == "/fine" {
                return response(kind, id);
            }
            let names: Vec<String> = (0..10_000).map(|number| format!("x-{number}")).collect();
            let lines: String = names.iter().map(|name| format!("{name}: 1\r\n")).collect();
            vec![match kind {
                Kind::Http | Kind::Https => text(&format!("Content-Length: 10\r\n{lines}"), TEXT),
                Kind::FastCgi => {
                    [fastcgi::of(STDOUT, format!("{lines}\r\n{TEXT}")), fastcgi::end(0)].concat()
                }
                Kind::Http2 => {
                    let fields: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();
                    let block = hpack::block(&[&[(":status", "200")], &fields[..]].concat());
                    let pieces =
                        block.chunks(16_384).map(|piece| frame::frame(kind::CONTINUATION, 0, id, piece));
                    let last = frame::frame(kind::CONTINUATION, flag::END_HEADERS, id, b"");
                    let first = frame::frame(kind::HEADERS, flag::END_STREAM, id, b"");
                    [first, pieces.collect::<Vec<_>>().concat(), last].concat()
                }
            }]
        });
        let server = kind.start(&authority, upstream.address());
        for method in ["GET", "POST"] {
            assert_eq!(seen(&server, method, "/many", TEXT), Seen::Failed(502), "{kind:?}");
            assert_eq!(seen(&server, method, "/fine", TEXT), Seen::Whole, "{kind:?}");
        }
        server.stop();
    }
}

/// HTTP/2 in TLS is no other TLS.
#[test]
fn a_server_of_http_2_with_a_wrong_certificate_gets_nothing() {
    let authority = Authority::new();
    for (made, reason) in [
        (authority.sign("other.example", 2100), "NotValidForName"),
        (authority.sign("inner.example", 2022), "Expired"),
        (Authority::new().sign("inner.example", 2100), "UnknownIssuer"),
    ] {
        let mut config = (*secure::config(&made, None)).clone();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let upstream = Upstream::secure(std::sync::Arc::new(config), |peer: &mut Peer| {
            peer.take(1).map(|_| panic!("it has got something"))
        });
        let server = Setup::with_files()
            .outside("ca.pem", authority.pem.as_bytes())
            .route("/*", "pool = \"app\"")
            .table(&format!(
                "[pool.app]\nconnect = \"{}\"\n\
                 tls = {{ http2 = true, ca = \"ca.pem\", server_name = \"inner.example\" }}\n",
                upstream.name()
            ))
            .start();
        assert_eq!(server.connect().post("/", b"x").status, 502);
        let line = server.wait_for("a server failed");
        assert!(line.contains("certificate") || line.contains(reason), "{line}");
        server.stop();
    }
}
