//! Header blocks that never end, or that are small on the wire and large behind the decoder.

use super::{Bounds, Stage};
use crate::support::h2::frame::{self, code, flag, kind};
use crate::support::h2::hpack::{self, Literal};
use crate::support::h2::{Connection, Lost};

/// A block that begins as every request does.
fn begun() -> Vec<u8> {
    hpack::block(&[(":method", "GET"), (":scheme", "http"), (":path", "/a.txt"), (":authority", "localhost")])
}

/// What the server says to a header list that is too large: 431 or an error, and a connection that goes on or says why not.
#[track_caller]
fn is_refused(connection: &mut Connection, id: u32) {
    match connection.try_response(id) {
        Ok(response) => assert_eq!(response.status, 431),
        Err(Lost::Reset(found)) => {
            assert!([code::PROTOCOL_ERROR, code::ENHANCE_YOUR_CALM].contains(&found), "{found}");
        }
        Err(Lost::Ended) => {
            let found = connection.goaway.map(|(_, code)| code);
            let right = [code::ENHANCE_YOUR_CALM, code::COMPRESSION_ERROR, code::PROTOCOL_ERROR];
            assert!(found.is_some_and(|found| right.contains(&found)), "{found:?}");
        }
    }
}

/// CVE-2024-27316: CONTINUATION frames without an end, large, small and empty.
#[test]
fn continuation_flood() {
    let mut field = Vec::new();
    hpack::literal(Literal::Plain, b"x-a", &[b'x'; 16_000], &mut field);
    let mut indexed = Vec::new();
    hpack::literal(Literal::Indexed, b"x-b", b"y", &mut indexed);
    let pieces: [(&str, Vec<u8>, usize); 4] = [
        ("large", field, 2_000),
        ("small", indexed, 200_000),
        ("of one byte", vec![0x82], 200_000),
        ("empty", Vec::new(), 200_000),
    ];
    for (what, piece, most) in pieces {
        println!("{what}");
        Stage::new(Stage::site()).play(Bounds::default(), |server| {
            let mut connection = Connection::new(server.address);
            connection.sync();
            let id = connection.open();
            connection.send(frame::frame(kind::HEADERS, flag::END_STREAM, id, &begun()));
            let continuation = frame::frame(kind::CONTINUATION, 0, id, &piece);
            let at_once = (64 * 1024 / continuation.len()).max(1);
            let bytes = continuation.repeat(at_once);
            // What comes after the end is read and dropped for `linger_timeout`, so that the GOAWAY is not lost to a reset.
            let refused = (0..most / at_once).any(|_| connection.try_send(&bytes).is_err());
            connection.end();
            let right = [code::ENHANCE_YOUR_CALM, code::PROTOCOL_ERROR];
            let found = connection.goaway.map(|(_, code)| code);
            assert!(found.map_or(refused, |found| right.contains(&found)), "{what}: {found:?}");
        });
    }
}

/// A list that is too large as it stands.
#[test]
fn a_header_list_that_is_too_large() {
    Stage::new(Stage::site()).play(Bounds::default(), |server| {
        for bytes in [20_000, 60_000, 200_000] {
            let mut connection = Connection::new(server.address);
            connection.sync();
            let mut block = begun();
            for _ in 0..bytes / 1000 {
                hpack::literal(Literal::Plain, b"x-test", &[b'x'; 1000], &mut block);
            }
            let id = connection.open();
            let (mut flags, mut kind) = (flag::END_STREAM, kind::HEADERS);
            let pieces: Vec<&[u8]> = block.chunks(16_384).collect();
            for (at, piece) in pieces.iter().enumerate() {
                if at + 1 == pieces.len() {
                    flags |= flag::END_HEADERS;
                }
                if connection.try_send(frame::frame(kind, flags, id, piece)).is_err() {
                    break;
                }
                (flags, kind) = (0, kind::CONTINUATION);
            }
            is_refused(&mut connection, id);
        }
    });
}

/// One entry of 4,000 bytes, named sixteen thousand times in a block: 65 MB for 16 KB.
#[test]
fn an_indexed_bomb() {
    Stage::new(Stage::site()).play(Bounds::default(), |server| {
        for round in 0..20 {
            let mut connection = Connection::new(server.address);
            connection.sync();
            let mut block = begun();
            hpack::literal(Literal::Indexed, b"x-bomb", &[b'b'; 4000], &mut block);
            let id = connection.open();
            connection.send(frame::headers(id, &block, true));
            assert_eq!(connection.response(id).text(), "file a\n", "one such field is all right");
            let bomb = [begun(), vec![0xbe; 16_000]].concat();
            for _ in 0..20 {
                let id = connection.open();
                if connection.try_send(frame::headers(id, &bomb, true)).is_err() {
                    break;
                }
                is_refused(&mut connection, id);
                if connection.goaway.is_some() {
                    break;
                }
            }
            if round == 0 && connection.goaway.is_none() {
                assert_eq!(connection.get("/a.txt").text(), "file a\n", "the table is still in step");
            }
        }
    });
}

/// Many fields of hardly any bytes, and many crumbs of a cookie, which a server joins.
#[test]
fn many_fields() {
    let mut cookie = Vec::new();
    hpack::literal(Literal::Indexed, b"cookie", b"a=b", &mut cookie);
    for (what, first) in [("of the static table", vec![0x90]), ("crumbs", cookie)] {
        println!("{what}");
        Stage::new(Stage::site()).play(Bounds::default(), |server| {
            for _ in 0..20 {
                let mut connection = Connection::new(server.address);
                connection.sync();
                let again = if what == "crumbs" { 0xbe } else { 0x90 };
                let block = [begun(), first.clone(), vec![again; 15_000]].concat();
                let id = connection.open();
                connection.send(frame::headers(id, &block, true));
                is_refused(&mut connection, id);
            }
        });
    }
}

/// Sizes of the table that change again and again, and entries that are added to be evicted at once.
#[test]
fn a_table_in_unrest() {
    Stage::new(Stage::site()).play(Bounds::default(), |server| {
        for _ in 0..10 {
            let mut connection = Connection::new(server.address);
            connection.sync();
            let mut updates = Vec::new();
            for number in 0..3000 {
                hpack::integer(0x20, 5, number % 4096, &mut updates);
            }
            let id = connection.open();
            connection.send(frame::headers(id, &[updates, begun()].concat(), true));
            // RFC 7541, 4.2 has at most two at the beginning of a block; whether more are refused is the decoder's choice.
            let _ = connection.try_response(id);
            for number in 0..200 {
                let mut block = begun();
                for field in 0..50 {
                    let name = format!("x-{field}");
                    let value = format!("{number}");
                    hpack::literal(Literal::Indexed, name.as_bytes(), value.as_bytes(), &mut block);
                }
                let id = connection.open();
                if connection.try_send(frame::headers(id, &block, true)).is_err() {
                    break;
                }
                if connection.try_response(id).is_err() {
                    break;
                }
            }
        }
    });
}
