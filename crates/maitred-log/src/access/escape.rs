//! Escaping, with a fast path: nearly every field has nothing to escape, and is then one copy.

/// Width of one step of the scan; the compiler turns it into vector instructions.
const STEP: usize = 16;

/// Whether a byte needs an escape between double quotes: all but printable ASCII, the quote and the backslash.
#[inline(always)]
const fn is_special(byte: u8) -> bool {
    // `|` rather than `||`: no branch, so that a whole step is compared at once.
    (byte < 0x20) | (byte > 0x7e) | (byte == b'"') | (byte == b'\\')
}

/// The same for one byte at a time, of what is shorter than a step.
static SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        special[byte] = is_special(byte as u8);
        byte += 1;
    }
    special
};

/// Whether no byte needs an escape.
#[inline]
pub(super) fn is_plain(bytes: &[u8]) -> bool {
    let is_plain = |step: &[u8; STEP]| !step.iter().fold(false, |any, &byte| any | is_special(byte));
    match bytes.last_chunk::<STEP>() {
        // The last step may have some bytes of the one before it.
        Some(last) => bytes.as_chunks::<STEP>().0.iter().all(is_plain) && is_plain(last),
        None => !bytes.iter().fold(false, |any, &byte| any | SPECIAL[usize::from(byte)]),
    }
}

/// Appends `bytes` so that they can stand between double quotes in one line of ASCII text: `\"`, `\\`, and `\xHH` for
/// all that is not printable, in the manner of httpd's and nginx's logs.
#[inline]
pub(super) fn quoted(bytes: &[u8], out: &mut Vec<u8>) {
    if is_plain(bytes) {
        out.extend_from_slice(bytes);
    } else {
        quoted_slowly(bytes, out);
    }
}

#[cold]
fn quoted_slowly(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            _ if is_special(byte) => out.extend_from_slice(&[b'\\', b'x', hex(byte >> 4), hex(byte & 15)]),
            _ => out.push(byte),
        }
    }
}

/// Appends `bytes` as a JSON string, quotes included (RFC 8259 section 7). What is not UTF-8 becomes U+FFFD.
#[inline]
pub(super) fn json(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    if is_plain(bytes) {
        out.extend_from_slice(bytes);
    } else {
        json_slowly(bytes, out);
    }
    out.push(b'"');
}

#[cold]
fn json_slowly(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        for byte in chunk.valid().bytes() {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                0..0x20 | 0x7f => {
                    out.extend_from_slice(&[b'\\', b'u', b'0', b'0', hex(byte >> 4), hex(byte & 15)]);
                }
                _ => out.push(byte),
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        0..10 => b'0' + digit,
        _ => b'a' + digit - 10,
    }
}
