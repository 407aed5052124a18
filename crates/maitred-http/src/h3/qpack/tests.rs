//! The examples of RFC 9204 Appendix B, and what each part promises.

use super::{BOUNDS, Bounds, Decoder, Outcome};
use crate::h3::Code;

mod decoder;
mod encoder;
mod properties;
mod rfc;

pub(super) fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// Decodes a section; what comes out are lines "name: value".
pub(super) fn decode(decoder: &mut Decoder, stream: u64, section: &[u8]) -> Result<(Outcome, String), Code> {
    decode_within(decoder, BOUNDS, stream, section)
}

pub(super) fn decode_within(
    decoder: &mut Decoder,
    bounds: Bounds,
    stream: u64,
    section: &[u8],
) -> Result<(Outcome, String), Code> {
    let mut lines = String::new();
    let outcome = decoder.decode(stream, section, bounds, |name, value| {
        let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        lines += &format!("{name}: {value}\n");
    });
    outcome.map(|outcome| (outcome, lines)).map_err(|error| error.code)
}

/// What the decoder says to its peer.
pub(super) fn said(decoder: &mut Decoder) -> Vec<u8> {
    let mut out = Vec::new();
    decoder.take_out(&mut out);
    out
}
