//! Integers of variable length, as QUIC and HTTP/3 write them (RFC 9000 section 16).
//!
//! The upper two bits of the first byte say how many bytes there are: 1, 2, 4 or 8. So no bytes are malformed: there are enough
//! of them, or not yet. The shortest form is not asked for by the RFC, and not by [`read`].

/// The largest value: 62 bits.
pub const VALUE_MAX: u64 = (1 << 62) - 1;

/// Bytes of the longest form.
pub const BYTES_MAX: usize = 8;

/// Reads the integer that `bytes` begin with, and says how many bytes it has (1, 2, 4 or 8).
///
/// `None`: there are fewer bytes than the first one announces, or none at all.
///
/// ```
/// use maitred_http::h3::varint;
/// assert_eq!(varint::read(&[0x7b, 0xbd, 0xff]), Some((15_293, 2)));
/// assert_eq!(varint::read(&[0x7b]), None);
/// ```
#[inline]
pub fn read(bytes: &[u8]) -> Option<(u64, usize)> {
    let length = length_announced(*bytes.first()?);
    let bytes = bytes.get(..length)?;
    let value = bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    // The two bits of the length are the upper ones of the first byte.
    Some((value & (u64::MAX >> (66 - 8 * length)), length))
}

/// How many bytes (1, 2, 4 or 8) an integer has that begins with this one.
#[inline]
pub fn length_announced(first: u8) -> usize {
    1 << (first >> 6)
}

/// How many bytes (1, 2, 4 or 8) [`write()`] appends.
#[inline]
pub fn length(value: u64) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

/// Appends an integer in its shortest form. A value larger than [`VALUE_MAX`], which has none, is written as `VALUE_MAX`.
#[inline]
pub fn write(out: &mut Vec<u8>, value: u64) {
    let value = value.min(VALUE_MAX);
    match length(value) {
        1 => out.push(value as u8),
        2 => out.extend_from_slice(&(value as u16 | 1 << 14).to_be_bytes()),
        4 => out.extend_from_slice(&(value as u32 | 2 << 30).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 3 << 62).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The examples of RFC 9000 Appendix A.1.
    const EXAMPLES: [(&[u8], u64); 5] = [
        (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c], 151_288_809_941_952_652),
        (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
        (&[0x7b, 0xbd], 15_293),
        (&[0x25], 37),
        (&[0x40, 0x25], 37),
    ];

    #[test]
    fn the_examples_of_the_rfc_are_read_and_written() {
        for (bytes, value) in EXAMPLES {
            assert_eq!(read(bytes), Some((value, bytes.len())));
            let longer = [bytes, &[0xff; 9]].concat();
            assert_eq!(read(&longer), Some((value, bytes.len())));
            let mut out = Vec::new();
            write(&mut out, value);
            // The last example is not the shortest form.
            assert_eq!(out, if bytes == [0x40, 0x25] { &[0x25] } else { bytes });
        }
    }

    #[test]
    fn fewer_bytes_than_announced_are_not_enough() {
        assert_eq!(read(&[]), None);
        for (bytes, _) in EXAMPLES {
            (0..bytes.len()).for_each(|end| assert_eq!(read(&bytes[..end]), None));
        }
    }

    #[test]
    fn each_length_has_the_values_of_the_rfcs_table() {
        let ends = [(63, 1), (64, 2), (16_383, 2), (16_384, 4), (1_073_741_823, 4), (1_073_741_824, 8)];
        for (value, bytes) in ends.into_iter().chain([(0, 1), (VALUE_MAX, 8)]) {
            let mut out = Vec::new();
            write(&mut out, value);
            assert_eq!((out.len(), length(value)), (bytes, bytes), "{value}");
            assert_eq!(read(&out), Some((value, bytes)));
        }
        let mut out = Vec::new();
        write(&mut out, u64::MAX);
        assert_eq!(read(&out), Some((VALUE_MAX, BYTES_MAX)));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value in 0..=VALUE_MAX, shift in 0..62_u32, behind in any::<Vec<u8>>()) {
            let value = value >> shift;
            let mut out = Vec::new();
            write(&mut out, value);
            let length = out.len();
            out.extend(behind);
            prop_assert_eq!(read(&out), Some((value, length)));
        }

        #[test]
        fn any_bytes_are_an_integer_or_too_few(bytes in proptest::collection::vec(any::<u8>(), 0..10)) {
            match read(&bytes) {
                Some((value, length)) => prop_assert!(value <= VALUE_MAX && length <= bytes.len()),
                None => prop_assert!(bytes.first().is_none_or(|first| length_announced(*first) > bytes.len())),
            }
        }
    }
}
