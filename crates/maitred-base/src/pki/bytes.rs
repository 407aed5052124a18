//! Bytes of keys and certificates: written in hexadecimal, overwritten when they are dropped.

use std::fmt;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroize as _;

/// Bytes that are written as hexadecimal digits, and not shown. What they were is overwritten when they are dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Drop for Bytes {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} bytes", self.0.len())
    }
}

impl Serialize for Bytes {
    /// Digit by digit to where they go, with no text of all of them in between.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&Hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Digits)
    }
}

/// Takes a text where it stands.
struct Digits;

impl Visitor<'_> for Digits {
    type Value = Bytes;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("hexadecimal digits")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Bytes, E> {
        unhex(text).ok_or_else(|| E::custom("not hexadecimal"))
    }
}

/// Shows bytes as hexadecimal digits, in lower case.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |value: u8| char::from(*DIGITS.get(usize::from(value)).unwrap_or(&b'0'));
        self.0.iter().try_for_each(|byte| {
            fmt::Write::write_char(out, digit(byte >> 4))?;
            fmt::Write::write_char(out, digit(byte & 15))
        })
    }
}

/// Hexadecimal digits, in lower case.
pub fn hex(bytes: &[u8]) -> String {
    Hex(bytes).to_string()
}

fn unhex(text: &str) -> Option<Bytes> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    // At once as large as it gets: one that grows leaves copies behind.
    let mut bytes = Bytes(Vec::with_capacity(pairs.len()));
    for [high, low] in pairs {
        bytes.0.push(digit(high)? << 4 | digit(low)?);
    }
    Some(bytes)
}
