//! What the headers of QUIC say without keys (RFC 9000 section 17.2).

/// Of the first byte: the form of the header, and the type of a long one. The bits between them and below are masked, or may be
/// anything (RFC 9287).
const FORM_AND_TYPE: u8 = 0xb0;
/// A packet of the handshake (17.2.4).
const HANDSHAKE: u8 = 0xa0;
/// Bytes of the version.
const VERSION_BYTES: usize = 4;

/// Whether a datagram has nothing but packets of the handshake. A client that makes one which can be read has received what was
/// sent to its address (RFC 9000 section 8.1).
pub fn is_handshake(datagram: &[u8]) -> bool {
    let mut rest = datagram;
    while let Some(next) = behind_handshake(rest) {
        if next.is_empty() {
            return true;
        }
        rest = next;
    }
    false
}

/// What stands behind a packet of the handshake.
fn behind_handshake(packet: &[u8]) -> Option<&[u8]> {
    let (first, rest) = packet.split_first()?;
    if first & FORM_AND_TYPE != HANDSHAKE {
        return None;
    }
    let rest = behind_id(behind_id(rest.get(VERSION_BYTES..)?)?)?;
    let length = rest.first().map(|first| 1_usize << (first >> 6))?;
    let (length, rest) = rest.split_at_checked(length)?;
    let value = length.iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
    let mask = (1_u64 << (8 * length.len() - 2)) - 1;
    rest.get(usize::try_from(value & mask).ok()?..)
}

fn behind_id(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first()?;
    rest.get(usize::from(*length)..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(first: u8, length: &[u8], payload: usize) -> Vec<u8> {
        let mut packet = vec![first, 0, 0, 0, 1, 3, 1, 2, 3, 0];
        packet.extend_from_slice(length);
        packet.resize(packet.len() + payload, 7);
        packet
    }

    #[test]
    fn packets_of_the_handshake_are_known() {
        let short = packet(0xe0, &[20], 20);
        let long = packet(0xa3, &[0x41, 0x00], 256);
        for datagram in [&short, &long, &[&short[..], &long].concat()] {
            assert!(is_handshake(datagram), "{datagram:?}");
            assert!((0..datagram.len()).all(|end| end == short.len() || !is_handshake(&datagram[..end])));
        }
        let initial = packet(0xc0, &[0, 20], 20);
        for other in
            [&initial[..], &[&initial[..], &short].concat(), &[&short[..], &initial].concat(), &[], &[0xe0]]
        {
            assert!(!is_handshake(other), "{other:?}");
        }
        assert!(!is_handshake(&[&short[..], &[0x40; 30]].concat()), "behind it stands another packet");
        let endless = packet(0xe0, &[0xff; 8], 20);
        assert!(!is_handshake(&endless));
    }
}
