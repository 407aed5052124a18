//! The Huffman code of strings (7541-5.2 and its Appendix B), decoded and encoded.
//!
//! The code is canonical: codes of one length are consecutive numbers in the order of their symbols, and longer codes follow
//! shorter ones. So the lengths say everything, and the tables are made of them by the compiler.

use super::Malformed;

/// The symbol that ends nothing and must not occur.
pub(crate) const EOS: usize = 256;
/// Bits of the shortest code.
const SHORTEST_BITS: usize = 5;
/// Bits of the longest code.
const LONGEST_BITS: u32 = 30;
/// Bits that are looked up at once: codes of all printable characters but `<>\^{}|~#$@` and the like are at most that long.
const FAST_BITS: u32 = 10;

/// Bits of each symbol's code; the last one is [`EOS`].
#[rustfmt::skip]
pub(crate) const CODE_BITS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
     6, 10, 10, 12, 13,  6,  8, 11, 10, 10,  8, 11,  8,  6,  6,  6,
     5,  5,  5,  6,  6,  6,  6,  6,  6,  6,  7,  8, 15,  6, 12, 10,
    13,  6,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,
     7,  7,  7,  7,  7,  7,  7,  7,  8,  7,  8, 13, 19, 13, 14,  6,
    15,  5,  6,  5,  6,  5,  6,  6,  6,  5,  7,  7,  6,  6,  6,  5,
     6,  7,  6,  5,  5,  6,  7,  7,  7,  7,  7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// What decoding and encoding look up.
struct Tables {
    /// By the next [`FAST_BITS`]: the code's symbol in the upper byte, its length in the lower; 0 if the code is longer.
    fast: [u16; 1 << FAST_BITS],
    /// By a code's length: the number behind the last code of at most this length, as the upper bits of 32.
    end: [u64; LONGEST_BITS as usize + 1],
    /// By a code's length: what to add to a code, so that it becomes an index of `symbols`.
    offset: [i64; LONGEST_BITS as usize + 1],
    /// All symbols but [`EOS`], in the order of their codes.
    symbols: [u8; 256],
    /// By symbol: its code. Only encoding looks here.
    codes: [u32; 256],
}

static TABLES: Tables = tables();

const fn tables() -> Tables {
    let mut tables = Tables {
        fast: [0; 1 << FAST_BITS],
        end: [0; LONGEST_BITS as usize + 1],
        offset: [0; LONGEST_BITS as usize + 1],
        symbols: [0; 256],
        codes: [0; 256],
    };
    let (mut code, mut rank, mut bits) = (0_u64, 0, 1);
    while bits <= LONGEST_BITS as usize {
        code <<= 1;
        tables.offset[bits] = rank as i64 - code as i64;
        let mut symbol = 0;
        while symbol < CODE_BITS.len() {
            if CODE_BITS[symbol] as usize == bits {
                if symbol != EOS {
                    tables.symbols[rank] = symbol as u8;
                    tables.codes[symbol] = code as u32;
                }
                if bits <= FAST_BITS as usize {
                    let shift = FAST_BITS as usize - bits;
                    let mut index = (code as usize) << shift;
                    while index < (code as usize + 1) << shift {
                        tables.fast[index] = (symbol as u16) << 8 | bits as u16;
                        index += 1;
                    }
                }
                code += 1;
                rank += 1;
            }
            symbol += 1;
        }
        tables.end[bits] = code << (32 - bits);
        bits += 1;
    }
    // Every bit string begins with a code: none is missing, none is twice.
    assert!(rank == CODE_BITS.len() && code == 1 << LONGEST_BITS);
    tables
}

/// The most symbols that so many bytes can stand for.
pub(crate) const fn symbols_max(coded_bytes: usize) -> usize {
    coded_bytes.saturating_mul(8) / SHORTEST_BITS
}

/// Bytes of the pieces in which strings are given out: those of a register.
pub(crate) const PIECE_BYTES: usize = 8;

/// Decodes a whole string. `put` gets its bytes in pieces: the first ones of the piece, and how many.
///
/// Errors: [`Malformed::Huffman`] for EOS, and for padding that is longer than 7 bits or not all ones.
#[inline]
pub(crate) fn decode(coded: &[u8], mut put: impl FnMut([u8; PIECE_BYTES], usize)) -> Result<(), Malformed> {
    // The next bits are the upper ones of `bits`, and `known` of them are known: those of the first `taken` bytes.
    let (mut taken, mut bits, mut known) = (0, 0_u64, 0_u32);
    loop {
        // What does not fit as whole bytes is read again next time, and is the same then.
        bits |= word(coded, taken) >> known;
        let bytes = ((63 - known) as usize / 8).min(coded.len() - taken);
        taken += bytes;
        known += 8 * bytes as u32;

        // Gathered in a register: to be written one by one and then read at once would stall.
        let (mut piece, mut count) = (0_u64, 0);
        while count < PIECE_BYTES {
            let (symbol, length) = match TABLES.fast[(bits >> (64 - FAST_BITS)) as usize] {
                0 => long_symbol(bits >> 32).ok_or(Malformed::Huffman)?,
                entry => ((entry >> 8) as u8, u32::from(entry & 0xff)),
            };
            // Codes are known by their beginning: one that goes on in bits that are not known shows by its length.
            if length > known {
                break;
            }
            piece |= u64::from(symbol) << (8 * count);
            count += 1;
            bits <<= length;
            known -= length;
        }
        put(piece.to_le_bytes(), count);
        if count < PIECE_BYTES && taken == coded.len() {
            break;
        }
    }
    if known < 8 && bits.leading_ones() == known { Ok(()) } else { Err(Malformed::Huffman) }
}

/// Eight bytes of a string from a place on; behind its end there are zeros.
#[inline]
fn word(string: &[u8], place: usize) -> u64 {
    let rest = string.get(place..).unwrap_or_default();
    match (rest.first_chunk::<8>(), string.last_chunk::<8>()) {
        (Some(word), _) => u64::from_be_bytes(*word),
        (None, Some(last)) => {
            u64::from_be_bytes(*last).checked_shl(64 - 8 * rest.len() as u32).unwrap_or_default()
        }
        (None, None) => rest.iter().rev().fold(0, |word, byte| word >> 8 | u64::from(*byte) << 56),
    }
}

/// The symbol of a code that is longer than [`FAST_BITS`], at the upper end of 32 bits, and its length. `None` is EOS.
#[cold]
fn long_symbol(bits: u64) -> Option<(u8, u32)> {
    let longer = FAST_BITS + 1..=LONGEST_BITS;
    let length = longer.into_iter().find(|length| bits < TABLES.end[*length as usize])?;
    let rank = (bits >> (32 - length)) as i64 + TABLES.offset[length as usize];
    let symbol = TABLES.symbols.get(usize::try_from(rank).ok()?)?;
    Some((*symbol, length))
}

/// Bytes of a string in this code.
pub(crate) fn coded_bytes(string: impl Iterator<Item = u8>) -> usize {
    let bits = string.map(|byte| usize::from(CODE_BITS[usize::from(byte)]));
    bits.fold(0, usize::saturating_add).div_ceil(8)
}

/// Appends a string in this code, padded with the beginning of EOS: ones.
pub(crate) fn encode(string: impl Iterator<Item = u8>, out: &mut Vec<u8>) {
    // The lower `count` bits of `bits` are to be written: fewer than 8 between two symbols, and fewer than 38 within one.
    let (mut bits, mut count) = (0_u64, 0);
    for byte in string {
        let symbol = usize::from(byte);
        bits = bits << CODE_BITS[symbol] | u64::from(TABLES.codes[symbol]);
        count += u32::from(CODE_BITS[symbol]);
        while count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    if count > 0 {
        out.push((bits << (8 - count)) as u8 | 0xff >> count);
    }
}
