//! Invariants of the parsers, as functions of arbitrary bytes: called by the fuzz targets in `fuzz/`, and by
//! the test suite with random and mutated input. Each panics if an invariant does not hold; the server calls
//! none of them.

mod cache;
mod client;
pub(crate) mod fastcgi;
mod h2;
mod h2_client;
mod h3;
mod h3_session;
pub(crate) mod hpack;
pub(crate) mod qpack;
mod response;

pub use cache::cache;
pub use fastcgi::{cgi, fastcgi};
pub use h2::h2_session;
#[cfg(test)]
pub(crate) use h2::http1_text;
pub use h2_client::h2_client;
pub use h3::h3_frames;
pub use h3_session::h3_session;
pub use hpack::{hpack_decoder, hpack_encoder};
pub use qpack::qpack_decoder;
pub use response::response;

use crate::body::{Decoder, Progress};
use crate::forwarded::{append_element, forwarded, walk, x_forwarded_for};
use crate::limits::EMPTY_LINES_MAX;
use crate::limits::FIELDS_MAX;
use crate::request::{Framing, HeadLimits, Method, Reject, Request, Version, field_room, parse};
use crate::{proxy_protocol, uri};

/// Small, so that short inputs reach them.
const LIMITS: HeadLimits =
    HeadLimits { head_bytes_max: 512, header_count_max: 8, target_bytes_max: 128, body_bytes_max: 4096 };

/// What a parser said, without the borrows.
type Answer = Result<Option<(String, usize)>, Reject>;

/// A request head: every answer is the same for the whole input and for the shortest part of it that has one,
/// and what is accepted keeps the promises of [`Request`].
pub fn head(data: &[u8]) {
    let whole = answer(data);
    // Every prefix is parsed, which is quadratic; beyond the limits nothing new can happen.
    let interesting = data.len().min(LIMITS.head_bytes_max + 2 * EMPTY_LINES_MAX + 1);
    let first =
        (0..interesting).find_map(|end| Some(answer(&data[..end])).filter(|answer| *answer != Ok(None)));
    match first {
        Some(first) => assert_eq!(first, whole, "the way the bytes arrive changes the answer"),
        None if interesting < data.len() => assert_ne!(whole, Ok(None), "a head without end"),
        None => {}
    }
    let mut room = field_room();
    if let Ok(Some((request, taken))) = parse(data, &mut room, &LIMITS) {
        assert!(taken <= LIMITS.head_bytes_max + 2 * EMPTY_LINES_MAX && taken <= data.len());
        assert_eq!(taken, end_of_head(data), "the head ends elsewhere");
        check_request(&request);
    }
}

fn answer(data: &[u8]) -> Answer {
    let mut room = field_room();
    Ok(parse(data, &mut room, &LIMITS)?.map(|(request, taken)| (format!("{request:?}"), taken)))
}

/// Where the first empty line behind a line that is not empty ends.
fn end_of_head(data: &[u8]) -> usize {
    let start = data.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or_default();
    let end = data[start..].windows(4).position(|window| window == b"\r\n\r\n");
    start + end.map_or(0, |end| end + 4)
}

fn check_request(request: &Request<'_, '_>) {
    assert!(request.fields.len() <= LIMITS.header_count_max.min(FIELDS_MAX));
    assert!(request.target.len() <= LIMITS.target_bytes_max);
    assert!(request.target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#'));
    match request.method {
        Method::Connect => assert!(request.path.is_empty()),
        Method::Options if request.path == "*" => {}
        _ => assert!(request.path.starts_with('/') && !request.path.contains('?')),
    }
    assert!(
        request.authority.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'/' | b'@' | b'\\'))
    );
    for field in request.fields {
        assert!(
            !field.name.is_empty() && field.name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':')
        );
        assert!(!field.value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
        assert_eq!(field.value.trim_ascii().len(), field.value.len());
    }
    check_framing(request);
}

fn check_framing(request: &Request<'_, '_>) {
    let values = |name: &str| -> Vec<&[u8]> {
        let named = request.fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        named.map(|field| field.value).collect()
    };
    let (lengths, codings) = (values("content-length"), values("transfer-encoding"));
    match request.framing {
        Framing::None => {
            assert!(codings.is_empty() && lengths.iter().all(|value| value.iter().all(|d| *d == b'0')))
        }
        Framing::Length(length) => {
            assert!(
                codings.is_empty() && lengths.len() == 1 && (1..=LIMITS.body_bytes_max).contains(&length)
            );
        }
        Framing::Chunked => {
            assert!(lengths.is_empty() && codings.len() == 1 && codings[0].eq_ignore_ascii_case(b"chunked"));
            assert_eq!(request.version, Version::Http11);
        }
    }
    let hosts = values("host").len();
    assert!(hosts == 1 || (hosts == 0 && request.version == Version::Http10));
}

/// A chunked body: byte by byte, in two parts and as a whole it gives the same content and answer, and never
/// more content than input or than the limit.
pub fn chunked(data: &[u8]) {
    const CONTENT_BYTES_MAX: u64 = 256;
    let decode = |part_bytes: usize| -> (Vec<u8>, Result<Progress, Reject>) {
        let mut decoder = Decoder::new(Framing::Chunked, CONTENT_BYTES_MAX);
        let (mut content, mut total) = (Vec::new(), Progress { consumed: 0, complete: false });
        for part in data.chunks(part_bytes.max(1)) {
            match decoder.decode(part, &mut content) {
                Ok(progress) => {
                    total = Progress {
                        consumed: total.consumed + progress.consumed,
                        complete: progress.complete,
                    };
                    assert!(progress.complete || progress.consumed == part.len());
                }
                Err(reject) => return (content, Err(reject)),
            }
            if total.complete {
                break;
            }
        }
        (content, Ok(total))
    };
    let whole = decode(data.len());
    assert_eq!(decode(1), whole);
    assert_eq!(decode(data.len() / 2 + 1), whole);
    assert!(whole.0.len() <= data.len() && whole.0.len() as u64 <= CONTENT_BYTES_MAX);
    if let Ok(Progress { consumed, complete: true }) = whole.1 {
        assert!(data[..consumed].ends_with(b"\r\n"));
    }
}

/// The path of a target: what normalises cannot leave its root, and normalises to itself once it is encoded
/// again.
pub fn uri(data: &[u8]) {
    let Ok(path) = std::str::from_utf8(data) else { return };
    let Ok(normal) = uri::normalise(path) else { return };
    assert_eq!(normal.first(), Some(&b'/'));
    assert!(!normal.contains(&0));
    let segments: Vec<&[u8]> = normal[1..].split(|byte| *byte == b'/').collect();
    assert!(!segments.iter().any(|segment| matches!(*segment, b"." | b"..")));
    // Only the last one can be empty: that is a slash at the end.
    assert!(!segments.iter().rev().skip(1).any(|segment| segment.is_empty()));

    let mut encoded = Vec::new();
    uri::encode_path(&normal, &mut encoded);
    assert!(encoded.iter().all(u8::is_ascii_graphic));
    let encoded = String::from_utf8_lossy(&encoded);
    assert_eq!(uri::normalise(&encoded).as_deref(), Ok(&*normal));
    for slashes in [uri::Slashes::Decode, uri::Slashes::Keep, uri::Slashes::Reject] {
        canonical(path, &normal, slashes);
    }
}

/// The path that an application gets has one form, the same for all adapters.
fn canonical(path: &str, normal: &[u8], slashes: uri::Slashes) {
    // No target holds a backslash, which would be an encoded one afterwards.
    if path.contains('\\') || uri::judge(path, slashes, true).is_err() {
        return;
    }
    let mut form = Vec::new();
    assert_eq!(uri::canonical_path(path, slashes, &mut form), Ok(()), "what normalises has a form");
    let form = String::from_utf8_lossy(&form);
    assert_eq!(uri::judge(&form, slashes, true).as_deref(), Ok(normal), "{form}");
    assert!(
        form.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}?#[]".contains(&byte)),
        "{form}"
    );
    let mut again = Vec::new();
    assert_eq!(uri::canonical_path(&form, slashes, &mut again), Ok(()));
    assert_eq!(again, form.as_bytes());
    if uri::is_canonical(path, None) && !path.contains('%') && normal == path.as_bytes() {
        assert_eq!(form, path, "what is canonical is left as it is");
    }
}

/// A header of the PROXY protocol: every answer is the same for the whole input and for the shortest part of it that has
/// one, and no header is longer than its version allows.
pub fn proxy_protocol(data: &[u8]) {
    let whole = proxy_protocol::parse(data);
    for end in 0..data.len() {
        match proxy_protocol::parse(&data[..end]) {
            Ok(None) => {}
            answer => {
                assert_eq!(answer, whole, "after {end} bytes");
                break;
            }
        }
    }
    if let Ok(Some((_, used))) = whole {
        assert!(used <= data.len() && used <= 16 + proxy_protocol::V2_PAYLOAD_BYTES_MAX);
        assert!(data[0] != b'P' || (used <= proxy_protocol::V1_BYTES_MAX && data[..used].ends_with(b"\r\n")));
    }
}

/// Lists of hops: none is longer than its field, no hop is trusted behind an untrusted one, and what is written is read back.
pub fn forwarded_lists(data: &[u8]) {
    let lists = [x_forwarded_for(data).collect::<Vec<_>>(), forwarded(data).collect::<Vec<_>>()];
    for hops in lists {
        assert!(hops.len() <= data.len());
        let known = hops.iter().rev().map_while(|hop| *hop);
        let last = known.clone().next();
        assert_eq!(walk(hops.iter().copied(), |_| false), last);
        assert_eq!(walk(hops.iter().copied(), |_| true), known.last());
        let Some(hop) = last else { continue };
        let mut written = Vec::new();
        append_element(&mut written, hop.address.to_string().as_bytes(), "a.example:80", "https");
        let mut read = forwarded(&written);
        let again = read.next().flatten().map(|again| (again.address, again.proto));
        assert_eq!(again, Some((hop.address, Some(b"https".as_slice()))));
        assert!(read.next().is_none());
    }
}
