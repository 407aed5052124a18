use proptest::prelude::*;

use super::*;
use crate::fuzzing;

fn chunked(input: &[u8]) -> Result<(Vec<u8>, Progress), Reject> {
    let mut out = Vec::new();
    let progress = Decoder::new(Framing::Chunked, 64).decode(input, &mut out)?;
    Ok((out, progress))
}

fn status(input: &[u8]) -> u16 {
    match chunked(input) {
        Ok((_, Progress { complete: true, .. })) => 200,
        Ok(_) => 100,
        Err(reject) => reject.status,
    }
}

#[test]
fn no_body_is_complete_at_once() {
    let progress = Decoder::new(Framing::None, 0).decode(b"GET", &mut Vec::new());
    assert_eq!(progress, Ok(Progress { consumed: 0, complete: true }));
}

#[test]
fn takes_a_stated_length_and_no_more() {
    let mut decoder = Decoder::new(Framing::Length(5), 5);
    let mut out = Vec::new();
    assert_eq!(decoder.decode(b"ab", &mut out), Ok(Progress { consumed: 2, complete: false }));
    assert_eq!(decoder.decode(b"", &mut out), Ok(Progress { consumed: 0, complete: false }));
    assert_eq!(decoder.decode(b"cdeGET", &mut out), Ok(Progress { consumed: 3, complete: true }));
    assert_eq!(decoder.decode(b"GET", &mut out), Ok(Progress { consumed: 0, complete: true }));
    assert_eq!(out, b"abcde");
}

#[test]
fn refuses_a_stated_length_over_the_limit() {
    let result = Decoder::new(Framing::Length(6), 5).decode(b"", &mut Vec::new());
    assert_eq!(result.map_err(|reject| reject.status), Err(413));
}

#[test]
fn joins_chunks() {
    let body = b"4\r\nWiki\r\n5\r\npedia\r\n0\r\n\r\nGET";
    let (out, progress) = chunked(body).unwrap();
    assert_eq!(out, b"Wikipedia");
    assert_eq!(progress, Progress { consumed: body.len() - 3, complete: true });
    assert_eq!(chunked(b"00A\r\n0123456789\r\n000\r\n\r\n").unwrap().0, b"0123456789");
    assert_eq!(chunked(b"0a;a=b;c=\"d;e\" ; f\r\n0123456789\r\n0 \t;x\r\n\r\n").unwrap().0, b"0123456789");
}

#[test]
fn chunk_sizes_are_hexadecimal_digits_only() {
    for bad in [
        "\r\n",
        " ;a\r\n\r\n",
        ";a\r\n",
        "g\r\n",
        "0x1\r\na",
        "+1\r\na",
        "-1\r\na",
        " 1\r\na",
        "1_0\r\n",
        "1 \r\na",
        "1 1\r\na",
    ] {
        assert_eq!(status(bad.as_bytes()), 400, "{bad:?}");
    }
}

#[test]
fn chunk_sizes_never_overflow() {
    assert_eq!(status(b"ffffffffffffffff\r\n"), 413);
    assert_eq!(status(b"10000000000000000\r\n"), 400);
    assert_eq!(status(b"00000000000000001\r\n"), 400);
}

#[test]
fn lines_end_in_both_bytes() {
    assert_eq!(status(b"1\r\na\r\n0\r\n\r\n"), 200);
    for bad in [
        "1\na\r\n0\r\n\r\n",
        "1\r\na\n0\r\n\r\n",
        "1\r\na\r\n0\n\r\n",
        "1\r\na\r\n0\r\n\n",
        "1\ra\r\n",
        "1;x\na\r\n",
        "1;x\r\ra\r\n",
        "1\r\nab\r\n",
        "1\r\na\r0\r\n",
        "1\r\na\rx0\r\n\r\n",
        "0\r\n\ra",
    ] {
        assert_eq!(status(bad.as_bytes()), 400, "{bad:?}");
    }
}

#[test]
fn content_over_the_limit_is_refused_as_soon_as_its_size_is_known() {
    let mut body = b"40\r\n".to_vec();
    body.extend([b'x'; 64]);
    body.extend(b"\r\n0\r\n\r\n");
    assert_eq!(status(&body), 200);
    assert_eq!(status(b"41\r\n"), 413);
    assert_eq!(status(b"20\r\n01234567890123456789012345678901\r\n21\r\n"), 413);
}

#[test]
fn trailer_fields_are_given_but_for_those_that_may_not_stand_there() {
    let whole: &[u8] = b"1\r\na\r\n0\r\nContent-Length: 5\r\nX:\r\nHost: b\r\nGrpc-Status:  0 \r\n\r\n";
    for part_bytes in [1, 2, 7, whole.len()] {
        let (mut decoder, mut section) = (Decoder::new(Framing::Chunked, 1), Vec::new());
        for part in whole.chunks(part_bytes) {
            decoder.decode_parts(part, |_| {}, |byte| section.push(byte)).unwrap();
        }
        let fields = trailers(&section);
        let fields: Vec<_> = fields.all().iter().collect();
        assert_eq!(fields, [(&b"X"[..], &b""[..]), (b"Grpc-Status", b"0")], "{part_bytes}");
    }
    let mut many = "X: y\r\n".repeat(TRAILERS_MAX + 1);
    many.push_str("\r\n");
    assert!(trailers(many.as_bytes()).is_empty() && trailers(b"").is_empty() && trailers(b"\r\n").is_empty());
}

#[test]
fn a_body_in_frames_ends_when_that_is_said() {
    let mut decoder = Decoder::framed(Framing::Chunked, 5);
    let mut out = Vec::new();
    assert!(decoder.ends_when_told());
    assert_eq!(decoder.decode(b"0\r\n", &mut out), Ok(Progress { consumed: 3, complete: false }));
    assert_eq!(decoder.decode(b"", &mut out), Ok(Progress { consumed: 0, complete: false }));
    assert_eq!(decoder.decode(b"abc", &mut out).map_err(|reject| reject.status), Err(413));
    decoder.end();
    assert_eq!(decoder.decode(b"rest", &mut out), Ok(Progress { consumed: 0, complete: true }));
    assert_eq!(out, b"0\r\n");
    // Trailers may follow however long it is, but nothing follows a body that was announced to have nothing.
    let mut stated = Decoder::framed(Framing::Length(2), 5);
    assert!(stated.ends_when_told());
    assert_eq!(stated.decode(b"ab", &mut out), Ok(Progress { consumed: 2, complete: false }));
    stated.end();
    assert_eq!(stated.decode(b"c", &mut out), Ok(Progress { consumed: 0, complete: true }));
    assert!(!Decoder::framed(Framing::Length(0), 5).ends_when_told());
}

#[test]
fn trailer_fields_are_no_content() {
    let (out, progress) = chunked(b"1\r\na\r\n0\r\nContent-Length: 5\r\nX:\r\nY: \xff\t\r\n\r\n").unwrap();
    assert_eq!((out.as_slice(), progress.complete), (&b"a"[..], true));
}

#[test]
fn trailer_fields_have_the_syntax_of_fields() {
    for bad in [
        "X\r\n",
        ": a\r\n",
        "X : a\r\n",
        "X: a\n",
        "X: a\rb",
        " X: a\r\n",
        "X: a\r\n b\r\n\r\n",
        "X: \0",
        "X: \x7f",
    ] {
        assert_eq!(status(format!("0\r\n{bad}").as_bytes()), 400, "{bad:?}");
    }
}

#[test]
fn extensions_are_bounded_over_the_whole_body() {
    let most = usize::try_from(CHUNK_EXTENSION_BYTES_MAX).unwrap();
    let with = |bytes: usize| format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(bytes - 1));
    assert_eq!(status(with(most).as_bytes()), 200);
    assert_eq!(status(with(most + 1).as_bytes()), 400);
    let many = "1;x\r\na\r\n".repeat(most / 2 + 1);
    let result = Decoder::new(Framing::Chunked, u64::MAX).decode(many.as_bytes(), &mut Vec::new());
    assert_eq!(result.map_err(|reject| reject.status), Err(400));
}

#[test]
fn trailers_are_bounded() {
    let most = usize::try_from(TRAILER_BYTES_MAX).unwrap();
    // "X:" and two line ends are six bytes.
    let with = |bytes: usize| format!("0\r\nX:{}\r\n\r\n", "y".repeat(bytes - 6));
    assert_eq!(status(with(most).as_bytes()), 200);
    assert_eq!(status(with(most + 1).as_bytes()), 431);
}

/// A chunked body, and its content.
fn body() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let chunk =
        (proptest::collection::vec(any::<u8>(), 1..40), prop_oneof![Just(""), Just(";a"), Just(" ;b=\"c\"")]);
    (proptest::collection::vec(chunk, 0..5), prop_oneof![Just(""), Just("X: y\r\n")]).prop_map(
        |(chunks, trailer)| {
            let (mut body, mut content) = (Vec::new(), Vec::new());
            for (data, extension) in chunks {
                body.extend(format!("{:x}{extension}\r\n", data.len()).as_bytes());
                body.extend(&data);
                body.extend(b"\r\n");
                content.extend(data);
            }
            body.extend(format!("0\r\n{trailer}\r\n").as_bytes());
            (body, content)
        },
    )
}

proptest! {
    #[test]
    fn any_split_gives_the_content(
        (body, content) in body(),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
        cuts.push(body.len());
        cuts.sort_unstable();
        let (mut decoder, mut out, mut at) = (Decoder::new(Framing::Chunked, 1000), Vec::new(), 0);
        for cut in cuts {
            let progress = decoder.decode(&body[at..cut], &mut out).unwrap();
            prop_assert_eq!(progress, Progress { consumed: cut - at, complete: cut == body.len() });
            at = cut;
        }
        prop_assert_eq!(out, content);
    }

    #[test]
    fn mutated_bodies_keep_the_invariants((mut body, _) in body(), at: prop::sample::Index, byte: u8, insert: bool) {
        let at = at.index(body.len());
        if insert { body.insert(at, byte) } else { body[at] = byte }
        fuzzing::chunked(&body);
    }

    #[test]
    fn random_bodies_keep_the_invariants(body in "[0-9a-f;: \t\r\nX\u{0}]{0,40}") {
        fuzzing::chunked(body.as_bytes());
    }
}

/// What becomes of the chunks of a response: whether they are whole, and their content.
fn response(input: &[u8]) -> Result<(bool, Vec<u8>), Reject> {
    let mut out = Vec::new();
    let progress = Decoder::of_response().decode(input, &mut out)?;
    Ok((progress.complete, out))
}

#[test]
fn blanks_behind_chunk_sizes_are_of_responses_only() {
    for body in
        ["5  \r\nhello\r\n0\r\n\r\n", "5\t\r\nhello\r\n0 \t \r\n\r\n", "5 ;a=b \r\nhello\r\n0\r\n\r\n"]
    {
        assert_eq!(response(body.as_bytes()), Ok((true, b"hello".to_vec())), "{body:?}");
        let extended = body.contains(';');
        assert_eq!(status(body.as_bytes()), if extended { 200 } else { 400 }, "{body:?}");
    }
    for bad in [
        " 5\r\nhello\r\n0\r\n\r\n",
        "5 6\r\nhello\r\n0\r\n\r\n",
        "5 \nhello\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5 \x0b\r\nhello\r\n0\r\n\r\n",
        "\r\n",
    ] {
        assert!(response(bad.as_bytes()).is_err(), "{bad:?}");
    }
}

#[test]
fn blanks_are_bounded_for_each_chunk_size_and_not_for_a_body() {
    let line = |blanks: usize| format!("1{}\r\na\r\n", " ".repeat(blanks));
    let most = usize::from(CHUNK_SIZE_BLANKS_MAX);
    let many = CHUNK_EXTENSION_BYTES_MAX as usize;
    let body = line(most).repeat(many) + "0\r\n\r\n";
    assert_eq!(response(body.as_bytes()), Ok((true, vec![b'a'; many])));
    assert!(response(line(most + 1).as_bytes()).is_err());
}

#[test]
fn trailers_are_announced_by_their_names() {
    let told = |values: &[&str]| {
        let fields: Vec<_> = values
            .iter()
            .map(|value| httparse::Header { name: "Trailer", value: value.as_bytes() })
            .chain([httparse::Header { name: "X", value: b"y" }])
            .collect();
        let lines = announced(&fields)?;
        let names = lines.all().iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned());
        Some(names.collect::<Vec<_>>().join(" "))
    };
    assert_eq!(told(&["X-Sum"]).as_deref(), Some("X-Sum"));
    assert_eq!(told(&["X-Sum , ,y", "Z"]).as_deref(), Some("X-Sum y Z"));
    for nothing in ["", ",", "content-length", "Transfer-Encoding, Host", "a b", "x:"] {
        assert_eq!(told(&[nothing]), None, "{nothing:?}");
    }
    let many = |count: usize| (0..count).map(|number| format!("x{number}")).collect::<Vec<_>>().join(",");
    assert!(told(&[&many(TRAILERS_MAX)]).is_some() && told(&[&many(TRAILERS_MAX + 1)]).is_none());
}
