//! Field sections of requests and trailers, judged and put into the values that the rest of the server knows (9114-4.2,
//! 9114-4.3).
//!
//! The rules are those of HTTP/2, and so is the code: a [`RequestHead`] is the same whichever of both it came by.

use super::error::{Code, Error};
use super::qpack::{Bounds, Decoded, Decoder, Outcome};
use crate::fields::FieldLines;
use crate::priority::Priority;
use crate::request::{RequestHead, Version};
use crate::section::{Trailers, Translator};

/// What was found in a request besides its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// The stated length of the content, in bytes. The caller checks that so many come (9114-4.1.2).
    pub content_length: Option<u64>,
    /// The value of a `priority` field (RFC 9218).
    pub priority: Option<Priority>,
    /// An extended CONNECT (RFC 9220).
    pub tunnel: bool,
}

/// What has become of a section.
#[derive(Debug, PartialEq, Eq)]
pub enum Section<T> {
    /// The section is what it should be.
    Taken(T),
    /// The section waits for entries of the dynamic table, and has to be passed again ([`Outcome::Blocked`]).
    Blocked,
    /// The section is larger than its [`Bounds`]. A request is to be answered with status 431.
    TooLarge,
    /// The message is malformed: an error of the stream, H3_MESSAGE_ERROR (9114-4.1.2).
    Malformed(Error),
}

fn malformed<T>(reason: &'static str) -> Section<T> {
    Section::Malformed(Error::new(Code::MessageError, reason))
}

/// Decodes the section that a request on `stream` begins with into `head`, in place of what was in it; it has to be judged then
/// by [`RequestHead::judge`]. If it is refused, what was read so far is there: [`RequestHead::request_line`] if that much was
/// known.
///
/// `connect_protocol`: extended CONNECT was advertised. `ended`: the stream is known to end with this section.
///
/// # Errors
///
/// The errors of [`Decoder::decode`], which end the connection.
pub fn take_request(
    decoder: &mut Decoder,
    (stream, section): (u64, &[u8]),
    bounds: Bounds,
    (connect_protocol, ended): (bool, bool),
    head: &mut RequestHead,
) -> Result<Section<Facts>, Error> {
    let mut translator = Translator::new(head, Version::Http3, connect_protocol, ended);
    let outcome = decoder.decode(stream, section, bounds, |name, value| translator.field(name, value))?;
    Ok(match outcome {
        Outcome::Blocked => Section::Blocked,
        Outcome::Decoded(Decoded::TooLarge) => {
            translator.abandon();
            Section::TooLarge
        }
        Outcome::Decoded(Decoded::Complete) => match translator.finish() {
            Ok(facts) => Section::Taken(Facts {
                content_length: facts.content_length,
                priority: facts.priority,
                tunnel: facts.tunnel,
            }),
            Err(reason) => malformed(reason),
        },
    })
}

/// Decodes the section behind the content of `stream`. What means nothing there
/// ([`NOT_IN_TRAILERS`](crate::fields::NOT_IN_TRAILERS)) is left out.
///
/// # Errors
///
/// The errors of [`Decoder::decode`], which end the connection.
pub fn take_trailers(
    decoder: &mut Decoder,
    (stream, section): (u64, &[u8]),
    bounds: Bounds,
) -> Result<Section<FieldLines>, Error> {
    let mut trailers = Trailers::default();
    let outcome = decoder.decode(stream, section, bounds, |name, value| trailers.field(name, value))?;
    Ok(match outcome {
        Outcome::Blocked => Section::Blocked,
        Outcome::Decoded(Decoded::TooLarge) => Section::TooLarge,
        Outcome::Decoded(Decoded::Complete) => match trailers.finish() {
            Ok(fields) => Section::Taken(fields),
            Err(reason) => malformed(reason),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::http1_text;
    use crate::h3::qpack::{BOUNDS, Encoder};
    use crate::request::{Framing, HeadLimits, HeadRoom};

    const LIMITS: HeadLimits =
        HeadLimits { head_bytes_max: 8192, header_count_max: 14, target_bytes_max: 100, body_bytes_max: 100 };

    const GET: [(&str, &str); 4] =
        [(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/")];

    fn section(fields: &[(&str, &str)]) -> Vec<u8> {
        let mut out = Vec::new();
        Encoder::begin(&mut out);
        fields.iter().for_each(|(name, value)| Encoder::field(name.as_bytes(), value.as_bytes(), &mut out));
        out
    }

    fn taken_within(bounds: Bounds, fields: &[(&str, &str)], ended: bool) -> (RequestHead, Section<Facts>) {
        let (mut decoder, mut head) = (Decoder::new(0, 0), RequestHead::default());
        let taken =
            take_request(&mut decoder, (0, &section(fields)), bounds, (true, ended), &mut head).unwrap();
        (head, taken)
    }

    fn taken(fields: &[(&str, &str)], ended: bool) -> (RequestHead, Section<Facts>) {
        taken_within(BOUNDS, fields, ended)
    }

    fn reason(fields: &[(&str, &str)]) -> &'static str {
        match taken(fields, true).1 {
            Section::Malformed(error) => {
                assert_eq!(error.code, Code::MessageError);
                error.reason
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_request_becomes_a_head() {
        let fields = [&GET[..], &[("cookie", "a=b"), ("cookie", "c=d"), ("priority", "u=1, i")]].concat();
        let (mut head, taken) = taken(&fields, true);
        let priority = Priority { urgency: 1, incremental: true };
        let facts = Facts { content_length: None, priority: Some(priority), tunnel: false };
        assert_eq!(taken, Section::Taken(facts));
        let text = String::from_utf8(http1_text(&head, b"")).unwrap();
        assert_eq!(text, "GET / HTTP/1.1\r\nhost: a.example\r\ncookie: a=b; c=d\r\npriority: u=1, i\r\n\r\n");
        head.judge(&LIMITS).unwrap();
        let mut room = HeadRoom::default();
        assert_eq!(head.view(&mut room).unwrap().framing, Framing::None);
    }

    #[test]
    fn content_has_a_length_or_ends_with_the_stream() {
        let post = [(":method", "POST"), GET[1], GET[2], GET[3], ("content-length", "7")];
        let length = |fields: &[(&str, &str)]| match taken(fields, false).1 {
            Section::Taken(facts) => facts.content_length,
            other => panic!("{other:?}"),
        };
        assert_eq!((length(&post), length(&post[..4])), (Some(7), None));
        assert_eq!(reason(&post), "content is missing");
    }

    #[test]
    fn an_extended_connect_is_a_tunnel() {
        let fields = [(":method", "CONNECT"), (":protocol", "websocket"), GET[1], GET[2], GET[3]];
        let (_, taken) = taken(&fields, false);
        assert!(matches!(taken, Section::Taken(Facts { tunnel: true, .. })));
    }

    #[test]
    fn malformed_requests_are_errors_of_the_stream() {
        let with = |name: &'static str, value: &'static str| [&GET[..], &[(name, value)]].concat();
        // 9114-4.2, 9114-4.3, 9114-4.3.1.
        let cases = [
            (with("connection", "close"), "field of the connection"),
            (with("transfer-encoding", "chunked"), "field of the connection"),
            (with("te", "gzip"), "field of the connection"),
            (with(":status", "200"), "unknown pseudo-field"),
            (with(":path", "/a"), "pseudo-field more than once"),
            (with("x", "a\nb"), "line end or NUL in a value"),
            (with("host", "b.example"), "host is not :authority"),
            (with("content-length", "x"), "invalid content-length"),
            (GET[1..].to_vec(), "no :method"),
            (GET[..3].to_vec(), "no :path"),
            (vec![GET[0], GET[2], GET[3]], "no :scheme"),
            ([&[("x", "y")], &GET[..]].concat(), "no :method"),
            (vec![], "no :method"),
        ];
        for (fields, wanted) in cases {
            assert_eq!(reason(&fields), wanted, "{fields:?}");
        }
        assert!(matches!(taken(&with("te", "trailers"), true).1, Section::Taken(_)));
        // The encoder writes small letters only.
        let upper = [&section(&GET)[..], b"\x21X\x00"].concat();
        let (mut decoder, mut head) = (Decoder::new(0, 0), RequestHead::default());
        let taken = take_request(&mut decoder, (0, &upper), BOUNDS, (true, true), &mut head).unwrap();
        let error = Error { code: Code::MessageError, reason: "name is no token in small letters" };
        assert_eq!(taken, Section::Malformed(error));
    }

    #[test]
    fn a_request_that_is_too_large_has_its_first_line() {
        let bounds = Bounds { fields_max: 5, ..BOUNDS };
        let fields = [&GET[..], &[("a", "b"), ("c", "d")]].concat();
        let (head, taken) = taken_within(bounds, &fields, true);
        assert_eq!(taken, Section::TooLarge);
        assert_eq!(head.request_line(), Some(("GET", "/")));
    }

    #[test]
    fn a_section_that_waits_leaves_an_empty_head() {
        let (mut decoder, mut head) = (Decoder::new(220, 1), RequestHead::default());
        let taken = take_request(&mut decoder, (0, &[2, 0, 0x80]), BOUNDS, (true, true), &mut head);
        assert_eq!((taken, head.is_empty()), (Ok(Section::Blocked), true));
        let broken = take_request(&mut decoder, (0, &[0]), BOUNDS, (true, true), &mut head);
        assert_eq!(broken.unwrap_err().code, Code::DecompressionFailed);
    }

    #[test]
    fn trailers_are_fields_without_those_that_mean_nothing_there() {
        let take = |bounds, fields: &[(&str, &str)]| {
            take_trailers(&mut Decoder::new(0, 0), (0, &section(fields)), bounds).unwrap()
        };
        let fields = [("grpc-status", "0"), ("content-length", "7")];
        match take(BOUNDS, &fields) {
            Section::Taken(lines) => assert_eq!(lines.all().text(), b"grpc-status: 0\r\n"),
            other => panic!("{other:?}"),
        }
        assert!(matches!(take(BOUNDS, &[(":path", "/")]), Section::Malformed(_)));
        assert!(matches!(take(Bounds { fields_max: 1, ..BOUNDS }, &fields), Section::TooLarge));
    }
}
