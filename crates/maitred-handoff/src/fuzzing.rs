//! Entry points for fuzzers; the seeded test below runs them on stable Rust.

use crate::{FromApp, FromServer, PAYLOAD_BYTES_MAX, Request, begin_request};

/// Reads `data` as a channel of either side. Whatever it is, decoding must end without a panic, never claim more bytes
/// than there are, and what decodes as a REQUEST must come out the same after it was written again.
///
/// # Panics
/// If one of these properties does not hold.
pub fn decode_channel(data: &[u8]) {
    let mut rest = data;
    while let Ok(Some((frame, used))) = FromServer::decode(rest, PAYLOAD_BYTES_MAX) {
        assert!(used > 0 && used <= rest.len());
        if let FromServer::Request(request) = frame {
            rewrite(&request);
        }
        rest = rest.get(used..).unwrap_or_default();
    }
    let mut rest = data;
    while let Ok(Some((_, used))) = FromApp::decode(rest) {
        assert!(used > 0 && used <= rest.len());
        rest = rest.get(used..).unwrap_or_default();
    }
}

fn rewrite(request: &Request<'_>) {
    let Some((line, fields)) = canonical(request.head) else { return };
    let Some((method, target)) = line.strip_suffix(" HTTP/1.1").and_then(|line| line.split_once(' ')) else {
        return;
    };
    let mut out = Vec::new();
    let mut head =
        begin_request(&mut out, request.connection, request.request, request.flags, request.descriptors)
            .prepared(request.meta.as_bytes())
            .head(method, target);
    for (name, value) in fields {
        head.field(name, value.as_bytes());
    }
    let mut body = head.body(None);
    body.extend(request.body);
    assert!(body.finish(PAYLOAD_BYTES_MAX));
    let again = FromServer::decode(&out, PAYLOAD_BYTES_MAX);
    assert_eq!(again, Ok(Some((FromServer::Request(*request), out.len()))));
}

/// Request line and fields of a head that is in canonical form; of others `None`.
fn canonical(head: &[u8]) -> Option<(&str, Vec<(&str, &str)>)> {
    let text = std::str::from_utf8(head).ok()?.strip_suffix("\r\n\r\n")?;
    let mut lines = text.split("\r\n");
    let line = lines.next()?;
    let mut fields = Vec::new();
    for field in lines {
        let (name, value) = field.split_once(": ")?;
        if name.bytes().any(|b| b.is_ascii_uppercase()) || value.contains(['\r', '\n']) {
            return None;
        }
        fields.push((name, value));
    }
    Some((line, fields))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RequestFlags, encode_forget, encode_ping};

    /// Sample channels; mutations of them reach deeper than noise does.
    fn samples() -> Vec<Vec<u8>> {
        let mut server = Vec::new();
        let mut head = begin_request(&mut server, 7, 9, RequestFlags::default(), 1)
            .line("remote", "127.0.0.1:5")
            .head("POST", "/a?b");
        head.field("Host", b"x");
        let mut body = head.body(Some(3));
        body.extend(b"abc");
        assert!(body.finish(PAYLOAD_BYTES_MAX));
        encode_forget(&mut server, 7);
        encode_ping(&mut server, 1);
        let mut app = Vec::new();
        let hello = crate::Hello { version_min: 1, version_max: 1, capacity: 1, name: "x" };
        crate::encode_hello(&mut app, &hello);
        let done = crate::Done {
            connection: 7,
            request: 9,
            status: 200,
            outcome: crate::Outcome::Clean,
            service_us: 5,
            body_bytes: 6,
        };
        crate::encode_done(&mut app, &done);
        crate::encode_pong(&mut app, 1);
        vec![server, app, vec![0; 64]]
    }

    /// A step of xorshift64*: the same sequence for the same seed, everywhere.
    fn step(state: &mut u64) -> u64 {
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    #[test]
    fn mutated_channels_never_panic() {
        let mut state = 0x6d61_6974_7265_6421;
        for sample in samples() {
            decode_channel(&sample);
            for _ in 0..20_000 {
                let mut bytes = sample.clone();
                for _ in 0..=step(&mut state) % 4 {
                    let at = step(&mut state) as usize % bytes.len();
                    bytes[at] = step(&mut state) as u8;
                }
                bytes.truncate(step(&mut state) as usize % (bytes.len() + 1));
                decode_channel(&bytes);
            }
        }
    }
}
