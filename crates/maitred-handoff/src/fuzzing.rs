//! Entry points for fuzzers; the seeded test below runs them on stable Rust.

use crate::{
    FromApp, FromServer, HEADER_BYTES, PAYLOAD_BYTES_MAX, Request, begin_request, encode_cancel,
    encode_detach, encode_done, encode_forget, encode_hello, encode_limits, encode_ping, encode_pong,
    encode_shutdown, encode_streams, encode_tail, encode_tail_file, encode_trailers, encode_welcome,
};

/// Reads `data` as a channel of either side. Whatever it is, decoding must end without a panic, never claim more bytes
/// than there are, and what decodes must come out the same after it was written again.
///
/// # Panics
/// If one of these properties does not hold.
pub fn decode_channel(data: &[u8]) {
    let mut rest = data;
    while let Ok(Some((frame, used))) = FromServer::decode(rest, PAYLOAD_BYTES_MAX) {
        assert!(used > 0 && used <= rest.len());
        if let FromServer::Request(request) = frame {
            rewrite(&request);
        } else {
            write_from_server(&frame);
        }
        rest = rest.get(used..).unwrap_or_default();
    }
    let mut rest = data;
    while let Ok(Some((frame, used))) = FromApp::decode(rest) {
        assert!(used > 0 && used <= rest.len());
        write_from_app(&frame);
        rest = rest.get(used..).unwrap_or_default();
    }
}

/// Frames other than REQUEST.
fn write_from_server(frame: &FromServer<'_>) {
    let mut out = Vec::new();
    match frame {
        FromServer::Welcome(welcome) => encode_welcome(&mut out, welcome),
        FromServer::Trailers(trailers) => {
            assert!(encode_trailers(&mut out, trailers.connection, trailers.request, trailers.fields()));
        }
        FromServer::Forget { connection } => encode_forget(&mut out, *connection),
        FromServer::Cancel { connection, request } => encode_cancel(&mut out, *connection, *request),
        FromServer::Ping { request } => encode_ping(&mut out, *request),
        FromServer::Shutdown => encode_shutdown(&mut out),
        FromServer::Request(_) | FromServer::Skipped { .. } => return,
    }
    assert_eq!(FromServer::decode(&out, PAYLOAD_BYTES_MAX), Ok(Some((*frame, out.len()))));
}

fn write_from_app(frame: &FromApp<'_>) {
    let mut out = Vec::new();
    match frame {
        FromApp::Hello(hello) => encode_hello(&mut out, hello),
        FromApp::Done(done) => encode_done(&mut out, done),
        FromApp::Tail { connection, request, bytes } => encode_tail(&mut out, *connection, *request, bytes),
        FromApp::TailFile { connection, request, offset, length } => {
            encode_tail_file(&mut out, *connection, *request, *offset, *length);
        }
        FromApp::Detach { connection, request, .. } => encode_detach(&mut out, *connection, *request),
        FromApp::Limits { open_files } => encode_limits(&mut out, *open_files),
        FromApp::Streams => encode_streams(&mut out),
        FromApp::Pong { request } => encode_pong(&mut out, *request),
        FromApp::Skipped { .. } => return,
    }
    assert!(out.len() >= HEADER_BYTES);
    assert_eq!(FromApp::decode(&out), Ok(Some((*frame, out.len()))));
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
    use crate::RequestFlags;

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
        assert!(encode_trailers(&mut server, 7, 10, [("x-checksum", b"17".as_slice())]));
        encode_forget(&mut server, 7);
        encode_cancel(&mut server, 7, 9);
        encode_ping(&mut server, 1);
        let mut app = Vec::new();
        let hello = crate::Hello {
            version_min: 1,
            version_max: 1,
            capacity: 1,
            name: "x",
            sockets_only: false,
            recovers: false,
        };
        encode_hello(&mut app, &hello);
        encode_streams(&mut app);
        let done = crate::Done {
            connection: 7,
            request: 9,
            status: 200,
            outcome: crate::Outcome::Clean,
            service_us: 5,
            body_bytes: 6,
        };
        encode_done(&mut app, &done);
        encode_tail(&mut app, 7, 9, b"rest");
        encode_tail_file(&mut app, 7, 9, 5, 6);
        encode_detach(&mut app, 7, 9);
        encode_pong(&mut app, 1);
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
