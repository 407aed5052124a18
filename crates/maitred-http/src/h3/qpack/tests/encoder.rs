//! What the encoder writes.

use super::bytes;
use crate::h3::Code;
use crate::h3::qpack::{DecoderStream, Encoder};

fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::begin(&mut out);
    fields.iter().for_each(|(name, value)| Encoder::field(name.as_bytes(), value.as_bytes(), &mut out));
    out
}

#[test]
fn fields_of_the_static_table_are_one_or_two_bytes() {
    assert_eq!(section(&[(":path", "/"), (":method", "GET")]), bytes("0000 c1 d1"));
    assert_eq!(section(&[("X-Frame-Options", "sameorigin")]), bytes("0000 ff23"));
    assert_eq!(section(&[("server", "")]), bytes("0000 ff1d"));
}

#[test]
fn every_status_is_written() {
    for status in 100..1000 {
        let mut out = Vec::new();
        Encoder::status(status, &mut out);
        let indexed =
            [100, 103, 200, 204, 206, 302, 304, 400, 403, 404, 421, 425, 500, 503].contains(&status);
        assert!(out.len() <= if indexed { 2 } else { 6 }, "{status}");
        assert_eq!(out[0] & 0xc0 == 0xc0, indexed, "{status}");
    }
}

#[test]
fn other_values_are_in_huffmans_code_where_that_is_shorter() {
    // 9204-B.1 has this value as it is.
    let coded = section(&[(":path", "/index.html")]);
    assert_eq!(coded[..3], [0, 0, 0x51]);
    assert!(coded[3] > 0x80 && coded.len() < bytes("0000 510b 2f69 6e64 6578 2e68 746d 6c").len());
    // The code of these would be longer.
    assert_eq!(section(&[(":path", "\u{1}\u{2}")]), bytes("0000 5102 0102"));
    assert_eq!(
        section(&[("custom-key", "custom-value")]),
        bytes("0000 2f01 25a849e95ba97d7f 89 25a849e95bb8e8b4bf")
    );
    assert_eq!(section(&[("Custom-Key", "custom-value")]), section(&[("custom-key", "custom-value")]));
    assert_eq!(section(&[("", "")]), bytes("0000 2000"));
}

#[test]
fn secrets_are_marked() {
    for (name, first) in
        [("cookie", 0x75), ("Set-Cookie", 0x7e), ("authorization", 0x7f), ("Proxy-Authorization", 0x3f)]
    {
        assert_eq!(section(&[(name, "secret")])[2], first, "{name}");
    }
    assert_eq!(section(&[("referer", "secret")])[2], 0x5d);
}

#[test]
fn the_decoder_stream_has_cancellations_only() {
    let refused = |hex: &str| DecoderStream::default().read(&bytes(hex)).unwrap_err();
    // A section acknowledgement and insert count increments.
    for hex in ["84", "ff", "01", "3f", "00"] {
        let error = refused(hex);
        assert_eq!(error.code, Code::DecoderStreamError, "{hex}");
    }
    let cancellations = bytes("48 7f00 7f80feffffffffffff3f 41");
    for at in 0..cancellations.len() {
        let mut stream = DecoderStream::default();
        assert_eq!(stream.read(&cancellations[..at]), Ok(()));
        assert_eq!(stream.read(&cancellations[at..]), Ok(()));
        let mut stream = DecoderStream::default();
        cancellations.iter().for_each(|byte| assert_eq!(stream.read(&[*byte]), Ok(())));
        assert_eq!(stream.read(&[0x80]).unwrap_err().code, Code::DecoderStreamError);
    }
    // More than 62 bits.
    assert_eq!(refused("7f ffffffffffffffffffff").code, Code::DecoderStreamError);
}
