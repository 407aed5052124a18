//! What clients ask, and what applications answer: bytes that say whose they are.

use std::fmt::Write as _;

use maitred_handoff::RequestFlags;

use crate::model::{Answer, Asked, Id, Transport};
use crate::random::Random;

/// So many bytes that belong to this request and to no other: each 16 of them say whose they are, and where they belong.
pub fn pattern(id: Id, bytes: usize) -> Vec<u8> {
    let mut text = String::with_capacity(bytes + 16);
    for block in 0..bytes.div_ceil(16) {
        let _ = writeln!(text, "{id:07x}@{block:07x}");
    }
    text.truncate(bytes);
    text.into_bytes()
}

/// Lengths of bodies: of none, of a few bytes, of a few packets, and more than a socket buffer takes.
pub fn length(random: &mut Random) -> usize {
    let (from, to) =
        random.weighted(&[(1, (0, 1)), (5, (1, 300)), (4, (300, 70_000)), (3, (300_000, 900_000))]);
    random.within(from..to)
}

/// The bytes of a request to the pool that answers by its transport.
pub fn request_bytes(asked: &Asked, random: &mut Random) -> Vec<u8> {
    let pool = match asked.transport {
        Transport::Direct => "direct",
        Transport::Relay => "relay",
    };
    request_to(pool, asked, random)
}

/// The bytes of a request to this pool.
pub fn request_to(pool: &str, asked: &Asked, random: &mut Random) -> Vec<u8> {
    let version = if asked.http10 { "1.0" } else { "1.1" };
    let mut text = format!("{} /{pool}/{} HTTP/{version}\r\nHost: localhost\r\n", asked.method, asked.id);
    match (asked.keep, asked.http10, asked.upgrade) {
        (_, _, true) => text.push_str("Connection: upgrade\r\nUpgrade: puppet\r\n"),
        (true, true, _) => text.push_str("Connection: keep-alive\r\n"),
        (false, false, _) => text.push_str("Connection: close\r\n"),
        _ => {}
    }
    if asked.method != "POST" {
        return (text + "\r\n").into_bytes();
    }
    if asked.http10 || random.percent(60) {
        let _ = write!(text, "Content-Length: {}\r\n\r\n", asked.body.len());
        return [text.as_bytes(), &asked.body].concat();
    }
    let mut bytes = (text + "Transfer-Encoding: chunked\r\n\r\n").into_bytes();
    chunk(&asked.body, random, &mut bytes);
    bytes
}

/// Appends a body in chunks of any size.
fn chunk(body: &[u8], random: &mut Random, out: &mut Vec<u8>) {
    let mut rest = body;
    while !rest.is_empty() {
        let size = random.within(1..60_000).min(rest.len());
        out.extend_from_slice(format!("{size:x}\r\n").as_bytes());
        out.extend_from_slice(&rest[..size]);
        out.extend_from_slice(b"\r\n");
        rest = &rest[size..];
    }
    out.extend_from_slice(b"0\r\n\r\n");
}

/// A response as PROTOCOL.md, section 5, has it.
pub fn answer(id: Id, flags: RequestFlags, random: &mut Random) -> Answer {
    answer_of(id, flags, length, random)
}

/// The same, with a body whose length the caller chooses.
pub fn answer_of(
    id: Id,
    flags: RequestFlags,
    length: fn(&mut Random) -> usize,
    random: &mut Random,
) -> Answer {
    let status = random.weighted(&[(20, 200), (2, 404), (1, 204), (1, 304), (1, 500)]);
    let bare = flags.head || matches!(status, 204 | 304);
    let bytes = length(random);
    let mut body = pattern(id, bytes);
    let mut head =
        format!("HTTP/1.1 {status} Puppet\r\nX-Id: {id}\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n");
    let known = random.percent(60);
    let open_ended = !bare && !known && flags.http10;
    let closes = !flags.keep || open_ended;
    match (closes, flags.http10) {
        (true, _) => head.push_str("Connection: close\r\n"),
        (false, true) => head.push_str("Connection: keep-alive\r\n"),
        (false, false) => {}
    }
    let mut framed = Vec::new();
    if bare {
        if flags.head && !matches!(status, 204 | 304) {
            let _ = write!(head, "Content-Length: {}\r\n", body.len());
        }
        body.clear();
    } else if known {
        let _ = write!(head, "Content-Length: {}\r\n", body.len());
        framed.clone_from(&body);
    } else if open_ended {
        framed.clone_from(&body);
    } else {
        head.push_str("Transfer-Encoding: chunked\r\n");
        chunk(&body, random, &mut framed);
    }
    head.push_str("\r\n");
    let head_bytes = head.len();
    Answer { status, full: [head.into_bytes(), framed].concat(), head_bytes, body, closes, open_ended }
}

/// The response of an upgrade, and the first word of the new protocol.
pub fn upgrade(id: Id) -> Answer {
    let head = format!("HTTP/1.1 101 Puppet\r\nX-Id: {id}\r\nConnection: upgrade\r\nUpgrade: puppet\r\n\r\n");
    let head_bytes = head.len();
    let body = format!("welcome {id}\n").into_bytes();
    Answer {
        status: 101,
        full: [head.as_bytes(), &body].concat(),
        head_bytes,
        body,
        closes: true,
        open_ended: false,
    }
}
