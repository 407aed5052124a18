//! Bytes as the hot path looks at them: sets that are asked for one byte after the other, and names of fields.

/// Which of the 256 bytes are in the set.
pub(crate) type ByteSet = [bool; 256];

/// The bytes of `ranges`, ends included, and those of `others`.
pub(crate) const fn byte_set(ranges: &[(u8, u8)], others: &[u8]) -> ByteSet {
    let mut set = [false; 256];
    let mut at = 0;
    while at < ranges.len() {
        let (mut byte, last) = (ranges[at].0 as usize, ranges[at].1 as usize);
        while byte <= last {
            set[byte] = true;
            byte += 1;
        }
        at += 1;
    }
    let mut at = 0;
    while at < others.len() {
        set[others[at] as usize] = true;
        at += 1;
    }
    set
}

/// Whether a token is this name, which is written in small letters and hyphens. Setting bit 5 makes letters small, and changes no
/// byte that a field may have, in its name or value, into a small letter or a hyphen that was not one but for case.
#[inline(always)]
pub(crate) fn is_name(token: &[u8], name: &[u8]) -> bool {
    const BIT_5: u64 = u64::from_ne_bytes([0x20; 8]);
    let half = |bytes: &[u8; 4]| u32::from_ne_bytes(*bytes) | BIT_5 as u32;
    let word = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes) | BIT_5;
    if token.len() != name.len() {
        return false;
    }
    match name.len() {
        0..4 => token.eq_ignore_ascii_case(name),
        4..8 => {
            token.first_chunk().map(half) == name.first_chunk().map(half)
                && token.last_chunk().map(half) == name.last_chunk().map(half)
        }
        // The last word may have some bytes of the one before it.
        _ => {
            let mut words = token.as_chunks().0.iter().zip(name.as_chunks().0);
            words.all(|(token, name)| word(token) == word(name))
                && token.last_chunk().map(word) == name.last_chunk().map(word)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_in_any_case_and_nothing_else_is() {
        let name = b"a-name-with-z-and-more-than-four-words";
        for length in 0..name.len() {
            let name = &name[..length];
            assert!(is_name(name, name) && is_name(&name.to_ascii_uppercase(), name));
            assert!(!is_name(&[name, b"a"].concat(), name) && !is_name(name, &[name, b"a"].concat()));
            for at in 0..length {
                for byte in (b'!'..=b'~').filter(crate::request::is_token_byte) {
                    let mut token = name.to_vec();
                    token[at] = byte;
                    assert_eq!(is_name(&token, name), token.eq_ignore_ascii_case(name), "{token:?}");
                }
            }
        }
    }
}
