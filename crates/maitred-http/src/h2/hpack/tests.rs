//! The examples of RFC 7541 Appendix C, and what each part promises.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::fuzzing::hpack::CODES;

mod decoder;
mod encoder;
mod huffman;
mod properties;
mod rfc;

/// Number of bits and number of each symbol's code.
static CODES_BY_SYMBOL: LazyLock<HashMap<usize, (u8, u32)>> =
    LazyLock::new(|| CODES.iter().map(|(code, symbol)| (*symbol, *code)).collect());

/// A string in Huffman's code, padded.
pub(crate) fn huffman_coded(string: &[u8]) -> Vec<u8> {
    let mut bits: Vec<bool> = Vec::new();
    for byte in string {
        let (count, code) = CODES_BY_SYMBOL[&usize::from(*byte)];
        bits.extend((0..count).rev().map(|shift| code >> shift & 1 == 1));
    }
    bits.resize(bits.len().next_multiple_of(8), true);
    bits.chunks(8).map(|bits| bits.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit))).collect()
}
