//! What the encoder writes.

use crate::h2::hpack::{Bounds, Decoded, Decoder, Encoder};

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
fn a_head_that_repeats_is_one_byte_for_each_field() {
    let mut pair = Pair::new();
    let first = pair.send(200, &HEAD);
    let second = pair.send(200, &HEAD);
    assert!(second.len() <= first.len());
    for _ in 0..3 {
        assert_eq!(pair.send(200, &HEAD).len(), 1 + HEAD.len());
    }
}
