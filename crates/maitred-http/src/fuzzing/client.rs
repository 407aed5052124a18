//! A client that takes nothing amiss: it reads a response with a parser of its own, and panics at whatever is
//! not as RFC 9112 has it.

#![allow(clippy::expect_used, reason = "an invariant that does not hold is a panic")]

use crate::fields::is_for_trailers;
use crate::request::is_token_byte;
use crate::response::ResponsePolicy;

/// What a client sees of a response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Status and fields of each interim response.
    interim: Vec<(u16, Fields)>,
    /// Of the final response.
    pub(super) status: Option<u16>,
    fields: Fields,
    pub(super) content: Vec<u8>,
    /// Whether the content is complete, as far as one can see.
    pub(super) complete: bool,
    /// Whether the end of the connection ends the content.
    pub(super) until_close: bool,
    /// Whether the connection is closed behind the response.
    pub(super) close: bool,
    /// What follows the content.
    trailers: Fields,
    /// The most fields that a head has.
    pub(super) fields_max: usize,
}

type Fields = Vec<(String, Vec<u8>)>;

/// Reads one response and those that are interim to it; there must be nothing behind it.
pub(super) fn read(bytes: &[u8], wanted: ResponsePolicy) -> Seen {
    let mut seen = Seen {
        interim: Vec::new(),
        status: None,
        fields: Vec::new(),
        content: Vec::new(),
        complete: false,
        until_close: false,
        close: false,
        trailers: Vec::new(),
        fields_max: 0,
    };
    let mut rest = bytes.to_vec();
    while !rest.is_empty() {
        let (status, fields, behind) = head(&rest);
        seen.fields_max = seen.fields_max.max(fields.len());
        if status >= 200 {
            judge(status, &fields, wanted);
            (seen.status, seen.fields) = (Some(status), fields);
            content(&mut seen, &behind, status, wanted);
            break;
        }
        assert!(status != 101 && !wanted.http10);
        for name in ["content-length", "transfer-encoding", "connection"] {
            assert_eq!(values(&fields, name).len(), 0, "{name} in an interim response");
        }
        seen.interim.push((status, fields));
        rest = behind;
    }
    seen
}

/// Status and fields of a head, and what is behind it.
fn head(bytes: &[u8]) -> (u16, Fields, Vec<u8>) {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head without end");
    let text: Vec<&[u8]> = bytes[..end].split(|byte| *byte == b'\n').collect();
    let (last, others) = text.split_last().expect("a split has a part");
    let mut lines: Vec<&[u8]> =
        others.iter().map(|line| line.strip_suffix(b"\r").expect("bare LF")).collect();
    lines.push(last);
    let legal = |byte: &u8| *byte == b'\t' || *byte == b' ' || byte.is_ascii_graphic() || *byte >= 0x80;
    assert!(lines.iter().all(|line| line.iter().all(legal)), "a control character in a head");

    let status_line = lines[0].strip_prefix(b"HTTP/1.1 ").expect("the version");
    assert!(status_line.len() >= 4 && status_line[3] == b' ', "no space before the phrase");
    let status: u16 = std::str::from_utf8(&status_line[..3]).expect("digits").parse().expect("a status");
    assert!((100..=999).contains(&status));
    let fields = lines[1..].iter().map(|line| {
        let colon = line.iter().position(|byte| *byte == b':').expect("a colon");
        let (name, value) = line.split_at(colon);
        assert!(!name.is_empty() && name.iter().all(is_token_byte), "no name");
        (String::from_utf8_lossy(name).to_ascii_lowercase(), value[1..].trim_ascii().to_vec())
    });
    let mut fields: Fields = fields.collect();
    // Among fields of different names order means nothing (9110-5.3).
    fields.sort_by(|one, other| one.0.cmp(&other.0));
    (status, fields, bytes[end + 4..].to_vec())
}

fn values<'f>(fields: &'f Fields, name: &str) -> Vec<&'f [u8]> {
    fields.iter().filter(|field| field.0 == name).map(|field| field.1.as_slice()).collect()
}

/// What holds for the head of a final response whatever its content.
fn judge(status: u16, fields: &Fields, wanted: ResponsePolicy) {
    for name in ["te", "keep-alive", "proxy-connection"] {
        assert_eq!(values(fields, name).len(), 0, "{name} is for one hop");
    }
    assert!(
        wanted.trailers || values(fields, "trailer").is_empty(),
        "trailers that do not come are announced"
    );
    assert!(values(fields, "upgrade").is_empty() || status == 426);
    assert!(!values(fields, "date").is_empty());
    assert!(values(fields, "connection").len() <= 1);
    let (lengths, codings) = (values(fields, "content-length"), values(fields, "transfer-encoding"));
    assert!(lengths.len() + codings.len() <= 1, "more than one framing");
    let no_content = wanted.head_request || matches!(status, 204 | 205 | 304);
    assert!(codings.is_empty() || !(wanted.http10 || no_content), "chunks that must not be");
    assert!(lengths.is_empty() || status != 204);
}

/// Reads the content of a final response (9112-6.3).
fn content(seen: &mut Seen, bytes: &[u8], status: u16, wanted: ResponsePolicy) {
    let options: Vec<String> = values(&seen.fields, "connection")
        .iter()
        .flat_map(|value| value.split(|byte| *byte == b','))
        .map(|option| String::from_utf8_lossy(option.trim_ascii()).to_ascii_lowercase())
        .collect();
    let has = |name: &str| options.iter().any(|option| option == name);
    assert!(!(has("close") && has("keep-alive")));
    seen.close = has("close") || (wanted.http10 && !has("keep-alive"));
    let length = values(&seen.fields, "content-length").first().map(|value| {
        std::str::from_utf8(value).ok().and_then(|value| value.parse::<u64>().ok()).expect("a number")
    });
    if wanted.head_request || matches!(status, 204 | 304) {
        assert!(bytes.is_empty(), "content where none can be");
        seen.complete = true;
    } else if !values(&seen.fields, "transfer-encoding").is_empty() {
        assert_eq!(values(&seen.fields, "transfer-encoding"), [b"chunked"]);
        (seen.content, seen.complete, seen.trailers) = chunks(bytes);
        assert!(wanted.trailers || seen.trailers.is_empty(), "trailers that were not asked for");
    } else if let Some(length) = length {
        assert!(bytes.len() as u64 <= length, "more content than stated");
        assert!(status != 205 || length == 0);
        (seen.content, seen.complete) = (bytes.to_vec(), bytes.len() as u64 == length);
    } else {
        assert!(seen.close && (wanted.http10 || wanted.framed), "no end of the content");
        (seen.content, seen.complete, seen.until_close) = (bytes.to_vec(), true, true);
    }
}

/// Content of chunks, whether the last one is there, and the trailers behind it; each is there as a whole.
fn chunks(bytes: &[u8]) -> (Vec<u8>, bool, Fields) {
    let (mut content, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let line_end = rest.windows(2).position(|window| window == b"\r\n").expect("a size");
        let digits = std::str::from_utf8(&rest[..line_end]).expect("digits");
        assert!(digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "an extension");
        let size = usize::from_str_radix(digits, 16).expect("a size");
        let (chunk, behind) = rest[line_end + 2..].split_at(size);
        content.extend_from_slice(chunk);
        if size == 0 {
            // The lines of a head, without one for the status.
            let (_, fields, rest) = head(&[b"HTTP/1.1 200 \r\n", behind].concat());
            assert!(rest.is_empty(), "something behind the last chunk");
            assert!(fields.iter().all(|(name, _)| is_for_trailers(name.as_bytes())), "{fields:?}");
            return (content, true, fields);
        }
        rest = behind.strip_prefix(b"\r\n").expect("the end of a chunk");
    }
    (content, false, Vec::new())
}
