//! FastCGI and CGI against readers that are written plainly: whole inputs, with copies.

#![allow(clippy::expect_used, reason = "an invariant that does not hold is a panic")]

use crate::fastcgi::decode::{Bad, Decoder, Event, IGNORED_BYTES_MAX, ProtocolStatus};
use crate::fastcgi::encode::{put_params, put_stdin, put_stdin_end};
use crate::fastcgi::head::{self, HeadBuffer};
use crate::fastcgi::record::{CONTENT_BYTES_MAX, HEADER_BYTES, RecordHeader, kind};
use crate::fastcgi::script::{self, Refused, Script};
use crate::fastcgi::variables::{self, Variables};
use crate::limits::{RESPONSE_FIELDS_MAX, RESPONSE_HEAD_BYTES_MAX, ResponseBounds};
use crate::response;

const BOUNDS: &ResponseBounds = &ResponseBounds::DEFAULT;

/// Name and value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// What an application said.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Output and messages in their order, joined as far as nothing is between; `true` for output.
    parts: Vec<(bool, Vec<u8>)>,
    end: Option<(u32, ProtocolStatus)>,
    bad: Option<Bad>,
    idle: bool,
    complete: bool,
}

impl Seen {
    fn part(&mut self, stdout: bool, bytes: &[u8]) {
        assert!(!bytes.is_empty(), "an event about nothing");
        match self.parts.last_mut() {
            Some((last, part)) if *last == stdout => part.extend_from_slice(bytes),
            _ => self.parts.push((stdout, bytes.to_vec())),
        }
    }
}

/// Records, in both directions. From an application: every split gives the same events, which are those of the plain reader,
/// and never more bytes than came in. To an application: pairs and content that the bytes describe are read back.
pub fn fastcgi(data: &[u8]) {
    let whole = decode(data, usize::MAX);
    for part_bytes in [1, 3, data.len() / 2 + 1] {
        assert_eq!(decode(data, part_bytes), whole, "the way the bytes arrive changes what they say");
    }
    assert_eq!(plain(data), whole);
    assert!(whole.parts.iter().map(|part| part.1.len()).sum::<usize>() <= data.len());

    let pairs = pairs_of(data);
    let mut out = Vec::new();
    let put = put_params(&mut out, |params| pairs.iter().for_each(|(name, value)| params.put(name, value)));
    // Names that the bytes describe have one byte of length up to 127, long values four.
    let big = |(name, value): &Pair| {
        value.len() + name.len() + if name.len() < 128 { 5 } else { 8 } > CONTENT_BYTES_MAX
    };
    assert_eq!(put.is_err(), pairs.iter().any(big));
    if put.is_ok() {
        let (params, rest) = stream(&out, kind::PARAMS);
        assert_eq!((read_pairs(&params), rest), (pairs, &b""[..]));
    }
    out.clear();
    put_stdin(&mut out, data);
    put_stdin_end(&mut out);
    assert_eq!(stream(&out, kind::STDIN), (data.to_vec(), &b""[..]));
}

fn decode(data: &[u8], part_bytes: usize) -> Seen {
    let (mut decoder, mut seen) = (Decoder::new(), Seen::default());
    for mut part in data.chunks(part_bytes.max(1)) {
        loop {
            match decoder.next(&mut part) {
                Ok(Some(Event::Stdout(bytes))) => seen.part(true, bytes),
                Ok(Some(Event::Stderr(bytes))) => seen.part(false, bytes),
                Ok(Some(Event::End { app_status, protocol_status })) => {
                    assert_eq!(seen.end.replace((app_status, protocol_status)), None, "two ends");
                }
                Ok(None) => break assert!(part.is_empty()),
                Err(bad) => {
                    seen.bad = Some(bad);
                    break;
                }
            }
        }
    }
    assert_eq!(decoder.end().is_ok(), decoder.output_complete() && seen.bad.is_none());
    (seen.idle, seen.complete) = (decoder.is_idle(), decoder.end().is_ok());
    seen
}

/// The same, one record after the other.
fn plain(mut data: &[u8]) -> Seen {
    let (mut seen, mut closed, mut cut, mut ignored) = (Seen::default(), false, false, 0);
    while let Some((header, rest)) = data.split_first_chunk::<HEADER_BYTES>() {
        let RecordHeader { version, kind, request_id, content_bytes, padding_bytes } =
            RecordHeader::parse(header);
        let content = rest.get(..usize::from(content_bytes)).unwrap_or(rest);
        let bytes = usize::from(content_bytes) + usize::from(padding_bytes);
        let mut ignore = || {
            ignored += bytes + HEADER_BYTES;
            (ignored > IGNORED_BYTES_MAX as usize).then_some(Bad::TooMuchIgnored)
        };
        seen.bad = match (version, request_id, kind) {
            (0 | 2.., _, _) => Some(Bad::Version(version)),
            (_, 2.., _) | (_, 0, 1..=8) => Some(Bad::RequestId(request_id)),
            (_, _, 0 | 9..) => ignore(),
            (_, _, kind) if seen.end.is_some() => Some(Bad::AfterEnd(kind)),
            (_, _, kind::END_REQUEST) if content_bytes != 8 => Some(Bad::EndBytes(content_bytes)),
            (_, _, kind::END_REQUEST) => None,
            (_, _, kind::STDOUT) if closed => Some(Bad::AfterStdout),
            (_, _, kind::STDERR) if content_bytes == 0 => ignore(),
            (_, _, kind::STDOUT | kind::STDERR) => None,
            (_, _, kind) => Some(Bad::Kind(kind)),
        };
        if seen.bad.is_some() {
            return seen;
        }
        closed |= kind == kind::STDOUT && content_bytes == 0;
        match kind {
            kind::STDOUT | kind::STDERR if !content.is_empty() => seen.part(kind == kind::STDOUT, content),
            kind::END_REQUEST => {
                if let Some([a, b, c, d, status, ..]) = content.first_chunk::<8>() {
                    seen.end = Some((u32::from_be_bytes([*a, *b, *c, *d]), protocol_status(*status)));
                }
            }
            _ => {}
        }
        cut = rest.len() < bytes;
        data = rest.get(bytes..).unwrap_or_default();
    }
    seen.idle = seen.end.is_some() && data.is_empty() && !cut;
    seen.complete = closed || seen.end.is_some();
    seen
}

fn protocol_status(byte: u8) -> ProtocolStatus {
    use ProtocolStatus::*;
    [RequestComplete, CantMultiplex, Overloaded, UnknownRole]
        .get(usize::from(byte))
        .copied()
        .unwrap_or(Unknown(byte))
}

/// Pairs that bytes describe: lengths of a name and of a value, large ones among them, and both.
fn pairs_of(mut data: &[u8]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    while let [name_bytes, value_bytes, rest @ ..] = data {
        let (name, rest) = rest.split_at(rest.len().min(usize::from(*name_bytes)));
        let (value, rest) = rest.split_at(rest.len().min(usize::from(*value_bytes)));
        let times = if value_bytes % 16 == 15 { 1 << (name_bytes % 16) } else { 1 };
        pairs.push((name.to_vec(), value.repeat(times.min(1 + 300_000 / value.len().max(1)))));
        data = rest;
    }
    pairs
}

/// The content of a stream of records that ends with an empty one, and what follows it. Holds all of them against what is
/// promised of every record that is written.
pub(crate) fn stream(mut bytes: &[u8], kind: u8) -> (Vec<u8>, &[u8]) {
    let mut content = Vec::new();
    loop {
        let (header, rest) = bytes.split_first_chunk().expect("a header");
        let header = RecordHeader::parse(header);
        assert_eq!((header.version, header.kind, header.request_id), (1, kind, 1));
        let end = usize::from(header.content_bytes);
        let padded = end + usize::from(header.padding_bytes);
        assert!(padded <= CONTENT_BYTES_MAX && padded % 8 == 0 && header.padding_bytes < 8);
        assert!(rest[end..padded].iter().all(|byte| *byte == 0));
        content.extend_from_slice(&rest[..end]);
        bytes = &rest[padded..];
        if end == 0 {
            return (content, bytes);
        }
    }
}

/// Name-value pairs (section 3.4).
pub(crate) fn read_pairs(mut bytes: &[u8]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    while !bytes.is_empty() {
        let [name_bytes, value_bytes] = std::array::from_fn(|_| {
            let long = bytes[0] >= 128;
            let (length, rest) = bytes.split_at(if long { 4 } else { 1 });
            bytes = rest;
            length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)) & 0x7fff_ffff
        });
        let (name, rest) = bytes.split_at(name_bytes);
        let (value, rest) = rest.split_at(value_bytes);
        pairs.push((name.to_vec(), value.to_vec()));
        bytes = rest;
    }
    pairs
}

/// CGI: the header of a response, the same for every split and as another parser reads it; the script in a path, as the
/// expression finds it; and the variables that fields become.
pub fn cgi(data: &[u8]) {
    head(data);
    for path in [data.to_vec(), [b"/", data].concat()] {
        script(&path);
    }
    fields(data);
}

fn head(data: &[u8]) {
    let whole = head::parse(data, BOUNDS);
    let answer =
        (0..data.len()).map(|end| head::parse(&data[..end], BOUNDS)).find(|answer| *answer != Ok(None));
    assert!(answer.is_none_or(|answer| answer == whole), "the way the bytes arrive changes the answer");
    for part_bytes in [1, 7, data.len() / 2 + 1] {
        let mut buffer = HeadBuffer::default();
        let mut parts = data.chunks(part_bytes).map(|part| (part.len(), buffer.feed(part, BOUNDS)));
        let found = parts.find(|part| part.1 != Ok(None));
        let Some((_, Ok(Some(_)))) = found else {
            assert!(matches!(whole, Ok(None) | Err(response::Bad::HeadTooBig(_))));
            continue;
        };
        let again = head::parse(buffer.head(), BOUNDS);
        assert_eq!(again, whole);
        assert!(
            again.is_err() || again == Ok(again.ok().flatten().map(|head| (head.0, buffer.head().len())))
        );
    }
    if data.len() < RESPONSE_HEAD_BYTES_MAX {
        check_head(data, whole);
    }
}

/// Holds a header against what httparse says of it.
fn check_head(data: &[u8], whole: Result<Option<(head::Head<'_>, usize)>, response::Bad>) {
    let mut room = [httparse::EMPTY_HEADER; RESPONSE_FIELDS_MAX];
    let parsed = httparse::parse_headers(data, &mut room);
    match (whole, parsed) {
        (Ok(Some((head, end))), Ok(httparse::Status::Complete((parsed_end, headers)))) => {
            assert_eq!(end, parsed_end);
            assert!((200..=999).contains(&head.status));
            let fields: Vec<_> = head.fields().collect();
            let mut headers = headers.iter();
            for (name, value) in fields {
                assert!(headers.any(|header| (header.name, header.value) == (name, value)), "{name}");
            }
            if let Some(target) = head.local_redirect {
                assert!(target.starts_with('/') && target.bytes().all(|byte| byte.is_ascii_graphic()));
            }
        }
        // What these fields say is no business of httparse's.
        (Err(response::Bad::Status(_) | response::Bad::Framing(_)), Ok(httparse::Status::Complete(_))) => {}
        (Err(response::Bad::Syntax(reason)), Ok(httparse::Status::Complete(_))) => {
            assert!(reason.contains("more than once") || reason.starts_with("Status is"), "{reason}");
        }
        (Err(_) | Ok(None), Err(_)) | (Ok(None), Ok(httparse::Status::Partial)) => {}
        (whole, parsed) => panic!("{whole:?}, but httparse says {parsed:?}"),
    }
}

fn script(path: &[u8]) {
    let found = script::split(path, Some(b"index.php"), b".php");
    // ^(.+?\.php)(/.*)?$ with a dot that is any byte.
    let ends = |at: &usize| path[*at..].starts_with(b".php") && matches!(path.get(at + 4), None | Some(b'/'));
    let expression = (1..path.len()).find(ends).map(|at| at + 4);
    match found {
        Ok(Some(Script { name, index: b"", path_info })) => {
            assert_eq!(expression, Some(name.len()));
            assert_eq!([name, path_info].concat(), path);
            assert!(path_info.is_empty() || path_info[0] == b'/');
        }
        Ok(Some(Script { name, index, path_info })) => {
            assert_eq!((name, index, path_info), (path, &b"index.php"[..], &b""[..]));
            assert!(path.ends_with(b"/") && expression.is_none());
        }
        Ok(None) => {
            assert!(expression.is_none() && path[0] == b'/' && !path.ends_with(b"/"));
            assert!(!script::has_ending(path, b".php"), "a source that would be served");
        }
        Err(Refused::NotAbsolute) => assert!(!path.starts_with(b"/")),
        Err(Refused::Nul) => assert!(path.contains(&0)),
        Err(Refused::NoName | Refused::Case) => {
            let mut segments = path.split(|byte| *byte == b'/');
            assert!(segments.any(|segment| segment.to_ascii_lowercase().ends_with(b".php")));
        }
    }
}

/// Lines as fields of a request.
fn fields(data: &[u8]) {
    let lines = data.split(|byte| *byte == b'\n').take(100);
    let fields = lines.filter_map(|line| {
        let at = line.iter().position(|byte| *byte == b':')?;
        Some((std::str::from_utf8(&line[..at]).ok()?, &line[at + 1..]))
    });
    let mut out = Vec::new();
    let put = put_params(&mut out, |params| variables::put(params, &Variables::default(), fields.clone()));
    if put.is_err() {
        return assert!(out.is_empty() && data.len() * 2 > CONTENT_BYTES_MAX);
    }
    let pairs = read_pairs(&stream(&out, kind::PARAMS).0);
    let mut names: Vec<&[u8]> = pairs.iter().map(|pair| pair.0.as_slice()).collect();
    for name in &names {
        assert!(name.iter().all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_')));
        assert!(![&b"HTTP_PROXY"[..], b"HTTP_CONTENT_LENGTH", b"HTTP_"].contains(name));
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "a variable comes twice");
    let bytes = |prefix: &[u8]| -> usize {
        pairs.iter().filter(|pair| pair.0.starts_with(prefix)).map(|pair| pair.1.len()).sum()
    };
    assert!(bytes(b"HTTP_") <= data.len() * 2, "more than the fields have");
}
