//! What the encoder writes.

use crate::h2::hpack::{Bounds, Decoded, Decoder, Encoder, static_table};

const BOUNDS: Bounds = Bounds { list_bytes_max: 1 << 16, fields_max: 100 };

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// A connection's two ends.
struct Pair {
    encoder: Encoder,
    decoder: Decoder,
}

impl Pair {
    fn new() -> Pair {
        Pair { encoder: Encoder::new(), decoder: Decoder::new(4096) }
    }

    /// Sends a response; gives the bytes of its block.
    fn send(&mut self, status: u16, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        self.encoder.status(status, &mut block);
        for (name, value) in fields {
            self.encoder.field(name.as_bytes(), value.as_bytes(), &mut block);
        }
        let mut seen = Fields::new();
        let decoded =
            self.decoder.decode(&block, BOUNDS, |name, value| seen.push((name.to_vec(), value.to_vec())));
        assert_eq!(decoded, Ok(Decoded::Complete));
        let mut wanted: Fields = vec![(b":status".to_vec(), status.to_string().into_bytes())];
        wanted.extend(fields.iter().map(|(name, value)| (name.to_ascii_lowercase().into(), (*value).into())));
        assert_eq!(seen, wanted);
        block
    }
}

const HEAD: [(&str, &str); 8] = [
    ("Server", "maitred"),
    ("Date", "Fri, 20 Nov 2026 17:45:00 GMT"),
    ("Content-Type", "text/html; charset=utf-8"),
    ("Content-Length", "1024"),
    ("Last-Modified", "Thu, 19 Nov 2026 08:00:00 GMT"),
    ("ETag", "\"5f3a-65a1b2c3\""),
    ("Accept-Ranges", "bytes"),
    ("X-Request-Origin", "front"),
];

#[test]
fn a_head_that_repeats_is_one_byte_for_each_field_whatever_its_values_are() {
    for number in 0..500 {
        let values = HEAD.map(|(name, value)| (name, format!("{value}; {number}")));
        let fields: Vec<_> = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut pair = Pair::new();
        for _ in 0..2 {
            pair.send(200, &fields);
        }
        assert_eq!(pair.send(200, &fields).len(), 1 + HEAD.len(), "{number}");
    }
}

#[test]
fn a_head_that_repeats_is_one_byte_for_each_field() {
    let mut pair = Pair::new();
    let first = pair.send(200, &HEAD);
    let second = pair.send(200, &HEAD);
    assert!(second.len() <= first.len());
    for _ in 0..3 {
        assert_eq!(pair.send(200, &HEAD).len(), 1 + HEAD.len());
    }
}

#[test]
fn every_status_is_written() {
    let mut pair = Pair::new();
    for status in 100..1000 {
        let block = pair.send(status, &[]);
        let indexed = matches!(status, 200 | 204 | 206 | 304 | 400 | 404 | 500);
        assert_eq!(block.len(), if indexed { 1 } else { 5 }, "{status}");
    }
}

#[test]
fn names_of_the_static_table_are_not_spelt() {
    let mut pair = Pair::new();
    for (name, _) in &static_table::FIELDS[14..] {
        let block = pair.send(200, &[(name, "v")]);
        assert!(block.len() <= 1 + 2 + 2, "{name}");
        assert_eq!(pair.send(200, &[(&name.to_ascii_uppercase(), "w")]).len(), block.len());
    }
    // One letter more, less, or other.
    for name in ["servers", "erver", "sorver", "x"] {
        assert_eq!(pair.send(200, &[(name, "v")]).len(), 1 + 1 + 1 + name.len() + 2, "{name}");
    }
}

#[test]
fn values_that_differ_each_time_do_not_displace_those_that_repeat() {
    let mut pair = Pair::new();
    let respond = |pair: &mut Pair, number: usize| {
        let (etag, length) = (format!("\"{number:x}-{}\"", number * 7919), (number * 31).to_string());
        let fields =
            [("Server", "maitred"), ("ETag", &etag), ("Content-Length", &length), ("Vary", "Accept")];
        pair.send(200, &fields)
    };
    for number in 0..500 {
        let block = respond(&mut pair, number);
        // Behind the second response both are one byte at the ends of the block: the table's oldest entries.
        if number > 2 {
            assert_eq!((block[1], block.last()), (0x80 | 63, Some(&(0x80 | 62))), "{number}");
        }
    }
}

#[test]
fn secrets_are_never_indexed() {
    for (name, index) in
        [("authorization", 23), ("Cookie", 32), ("proxy-authorization", 49), ("Set-Cookie", 55)]
    {
        let mut pair = Pair::new();
        for _ in 0..4 {
            let block = pair.send(200, &[(name, "secret")]);
            assert_eq!(block[..3], [0x88, 0x10 | 0x0f, index - 15], "{name}");
            assert_eq!(pair.decoder.table_bytes(), 0);
        }
    }
}

#[test]
fn a_large_field_is_not_indexed() {
    let mut pair = Pair::new();
    let (fits, large) = ("x".repeat(2048 - 32 - 4), "x".repeat(2048 - 32 - 3));
    for _ in 0..3 {
        pair.send(200, &[("long", &large)]);
        assert_eq!(pair.decoder.table_bytes(), 0);
    }
    for _ in 0..3 {
        pair.send(200, &[("long", &fits)]);
    }
    assert_eq!(pair.decoder.table_bytes(), 2048);
}

#[test]
fn the_table_follows_the_peers_settings() {
    let update = |pair: &mut Pair, sizes: &[u32]| {
        sizes.iter().for_each(|size| pair.encoder.set_table_bytes_max(*size));
        pair.send(200, &[("server", "maitred")])
    };
    let mut pair = Pair::new();
    // Nothing to tell: that is what it was, and more than that is not wanted.
    assert_eq!(update(&mut pair, &[4096])[0], 0x88);
    assert_eq!(update(&mut pair, &[1 << 20])[0], 0x88);
    assert_eq!(update(&mut pair, &[u32::MAX, 4096])[..2], [0x88, 0x80 | 62]);
    // The smallest one in between, and the last one.
    assert_eq!(update(&mut pair, &[0])[..2], [0x20, 0x88]);
    assert_eq!(pair.decoder.table_bytes(), 0);
    assert_eq!(update(&mut pair, &[30])[..2], [0x20 | 30, 0x88]);
    assert_eq!(update(&mut pair, &[20, 10, 25])[..3], [0x20 | 10, 0x20 | 25, 0x88]);
    assert_eq!(update(&mut pair, &[20, 25])[..3], [0x20 | 20, 0x20 | 25, 0x88]);
    assert_eq!(update(&mut pair, &[4096, 25])[0], 0x88);
    // The former content of the table is not used again.
    update(&mut pair, &[4096]);
    update(&mut pair, &[]);
    assert_eq!(update(&mut pair, &[])[..2], [0x88, 0x80 | 62]);
}

#[test]
fn trailers_tell_the_size_too() {
    let (mut encoder, mut block) = (Encoder::new(), Vec::new());
    encoder.set_table_bytes_max(16);
    encoder.field(b"age", b"1", &mut block);
    encoder.field(b"age", b"1", &mut block);
    assert_eq!(block, [0x20 | 16, 0x0f, 21 - 15, 1, b'1', 0x0f, 21 - 15, 1, b'1']);
}
