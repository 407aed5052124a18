use proptest::prelude::*;

use super::web::{NotBase64, Reply, TextDecoder};
use super::*;
use crate::fields::FieldLines;
use crate::response::FramedHead;

#[test]
fn calls_are_known_by_their_type() {
    let form = |value: &'static str| Form::of_type(value.as_bytes());
    assert_eq!(form("application/grpc"), Some((Form::Grpc, &b""[..])));
    assert_eq!(form("Application/gRPC+proto"), Some((Form::Grpc, &b"+proto"[..])));
    assert_eq!(form("application/grpc;charset=utf-8"), Some((Form::Grpc, &b";charset=utf-8"[..])));
    assert_eq!(form("application/grpc-web"), Some((Form::Web, &b""[..])));
    assert_eq!(form("application/grpc-web-text+proto"), Some((Form::WebText, &b"+proto"[..])));
    for other in
        ["application/grpcx", "application/grpc-websocket", "application/json", "", "application/grp"]
    {
        assert_eq!(form(other), None, "{other}");
    }
}

/// The document "HTTP to gRPC Status Code Mapping".
#[test]
fn statuses_of_http_have_one_of_grpc() {
    let table = [(400, 13), (401, 16), (403, 7), (404, 12), (429, 14), (502, 14), (503, 14), (504, 14)];
    for http in 300..600 {
        let expected = table.into_iter().find(|(from, _)| *from == http).map_or(2, |(_, to)| to);
        assert_eq!(status_of(http), expected, "{http}");
    }
}

#[test]
fn a_message_is_percent_encoded() {
    let message = |text: &str| {
        let mut out = Vec::new();
        put_message(text, &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(message("503 Service Unavailable ~!"), "503 Service Unavailable ~!");
    assert_eq!(message("100 %\r\n\tü\u{7f}"), "100 %25%0D%0A%09%C3%BC%7F");
}

#[test]
fn times_have_six_units_and_eight_digits() {
    let second = Duration::from_secs(1);
    let table = [
        ("1H", second * 3600),
        ("2M", second * 120),
        ("3S", second * 3),
        ("4m", Duration::from_millis(4)),
        ("5u", Duration::from_micros(5)),
        ("6n", Duration::from_nanos(6)),
        ("0S", Duration::ZERO),
        ("00000001S", second),
        ("99999999H", second * 3600 * 99_999_999),
    ];
    for (value, time) in table {
        assert_eq!(timeout(value.as_bytes()), Some(time), "{value}");
    }
    for none in ["", "S", "1", "1s", "1h", "-1S", "+1S", " 1S", "1.5S", "100000000S", "1 S", "1SS"] {
        assert_eq!(timeout(none.as_bytes()), None, "{none}");
    }
}

#[test]
fn a_time_is_rounded_down() {
    let table = [
        (Duration::ZERO, "0n"),
        (Duration::from_millis(99), "99000000n"),
        (Duration::from_millis(100), "100000u"),
        (Duration::from_micros(99_999_999), "99999999u"),
        (Duration::from_micros(100_000_999), "100000m"),
        (Duration::from_secs(100_000), "100000S"),
        (Duration::from_secs(100_000_000), "1666666M"),
        (Duration::MAX, "99999999H"),
    ];
    for (time, value) in table {
        assert_eq!(timeout_value(time), value);
    }
}

fn response(fields: &[(&str, &str)]) -> FramedHead {
    let mut lines = FieldLines::default();
    fields.iter().for_each(|(name, value)| lines.push(name.as_bytes(), value.as_bytes()));
    FramedHead { status: 200, content_length: Some(7), fields: lines, ended: false }
}

#[test]
fn trailers_become_the_last_message() {
    let mut trailers = FieldLines::default();
    trailers.push(b"grpc-status", b"0");
    trailers.push(b"X-Sum", b"17");
    let frame = b"\x80\0\0\0\x1bgrpc-status: 0\r\nx-sum: 17\r\n";
    for (form, name) in
        [(Form::Web, "application/grpc-web+proto"), (Form::WebText, "application/grpc-web-text+proto")]
    {
        let mut reply = Reply::new(form);
        let mut head =
            response(&[("content-type", "application/grpc+proto"), ("trailer", "x"), ("x-a", "b")]);
        reply.head(&mut head);
        let fields: Vec<_> = head.fields.all().iter().collect();
        assert_eq!(fields, [(&b"content-type"[..], name.as_bytes()), (b"x-a", b"b")]);
        assert_eq!(head.content_length, None);
        let mut came = reply.content(b"\0\0\0\0\x02hi").to_vec();
        came.extend_from_slice(reply.trailers(trailers.all()).unwrap());
        if form == Form::WebText {
            let mut plain = Vec::new();
            TextDecoder::default().decode(&came, &mut plain).unwrap();
            came = plain;
        }
        assert_eq!(came, [&b"\0\0\0\0\x02hi"[..], frame].concat());
    }
}

#[test]
fn a_response_that_is_none_of_grpc_stays_what_it_is() {
    let mut reply = Reply::new(Form::WebText);
    let mut head = response(&[("content-type", "text/html")]);
    reply.head(&mut head);
    assert_eq!((head.content_length, reply.content(b"<p>")), (Some(7), &b"<p>"[..]));
    assert_eq!(reply.trailers(FieldLines::default().all()), None);
}

#[test]
fn what_is_no_base64_is_refused() {
    for text in ["*aaa", "a===", "aa=a", "=aaa", "aaaaa b="] {
        assert_eq!(TextDecoder::default().decode(text.as_bytes(), &mut Vec::new()), Err(NotBase64), "{text}");
    }
    let mut decoder = TextDecoder::default();
    decoder.decode(b"aGk", &mut Vec::new()).unwrap();
    assert_eq!(decoder.finish(), Err(NotBase64));
}

proptest! {
    /// Pieces that were encoded one by one, and are cut anywhere.
    #[test]
    fn text_is_decoded_however_it_comes(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8),
        cuts in prop::collection::vec(1_usize..9, 1..20),
    ) {
        let mut reply = Reply::new(Form::WebText);
        reply.head(&mut response(&[("content-type", "application/grpc")]));
        let text: Vec<u8> = pieces.iter().flat_map(|piece| reply.content(piece).to_vec()).collect();
        let (mut decoder, mut out, mut rest) = (TextDecoder::default(), Vec::new(), &text[..]);
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at(rest.len().min(*cut));
            decoder.decode(piece, &mut out).unwrap();
            rest = after;
        }
        prop_assert_eq!(decoder.finish(), Ok(()));
        prop_assert_eq!(out, pieces.concat());
    }

    #[test]
    fn a_time_that_goes_on_is_never_longer(nanos in any::<u64>()) {
        let time = Duration::from_nanos(nanos);
        let value = timeout_value(time);
        let read = timeout(value.as_bytes()).unwrap();
        prop_assert!(read <= time && (time - read).as_nanos() <= time.as_nanos() / 100_000, "{value}");
    }
}
