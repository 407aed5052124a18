use proptest::prelude::*;

use super::*;

fn head() -> StoredHead {
    let mut fields = FieldLines::default();
    fields.push(b"content-type", b"text/plain");
    fields.push(b"x", b"");
    StoredHead {
        key: b"https://example.com/".as_slice().into(),
        head: Head {
            kind: Kind::Response,
            status: 200,
            fields,
            lifetime: [1, 2, 3, 4, 5, 6, 7, u64::MAX],
            keep_until: 99,
            tags: vec![b"a".as_slice().into(), b"".as_slice().into()],
        },
        file: 7,
        stamp: 8,
        soft_purged: false,
    }
}

#[test]
fn a_header_is_read_as_it_was_written_and_nothing_else_is() {
    let header = Header { body_bytes: 1 << 40, body_crc: 3, file: 4, boot: 5 };
    let bytes = encode_header(&header);
    assert_eq!(decode_header(&bytes), Some(header));
    for at in 0..HEADER_BYTES {
        assert_eq!(decode_header(&bytes[..at]), None);
        for bit in 0..8 {
            let mut other = bytes;
            other[at] ^= 1 << bit;
            assert_eq!(decode_header(&other), None, "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn a_header_of_another_version_is_none() {
    for version in [0_u32, 2, u32::MAX] {
        let mut bytes = encode_header(&Header { body_bytes: 1, body_crc: 2, file: 3, boot: 4 });
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        let sum = crc(&bytes[..60]).to_le_bytes();
        bytes[60..].copy_from_slice(&sum);
        assert_eq!(decode_header(&bytes), None);
    }
}

#[test]
fn the_last_whole_head_is_valid() {
    let first = head();
    let second = StoredHead { stamp: 9, soft_purged: true, ..head() };
    let (one, two) = (encode_head(&first).unwrap(), encode_head(&second).unwrap());
    let both = [one.clone(), two.clone()].concat();
    for end in 0..=both.len() {
        let tail = decode_tail(&both[..end], 7);
        let expected = match end {
            _ if end < one.len() => None,
            _ if end < both.len() => Some(Tail { last: first.clone(), heads: 1, bytes: one.len() }),
            _ => Some(Tail { last: second.clone(), heads: 2, bytes: both.len() }),
        };
        assert_eq!(tail, expected, "{end}");
    }
    assert_eq!(decode_tail(&both, 6), None, "of another file");
    for at in 0..one.len() {
        let mut other = one.clone();
        other[at] ^= 0x10;
        assert_eq!(decode_tail(&other, 7), None, "byte {at}");
    }
}

#[test]
fn a_note_of_varying_is_read_as_it_was_written() {
    let mut stored = head();
    stored.head.kind = Kind::Vary { names: vec![b"accept".as_slice().into()], epoch: u64::MAX };
    stored.head.fields = FieldLines::default();
    let bytes = encode_head(&stored).unwrap();
    assert_eq!(decode_tail(&bytes, 7).unwrap().last, stored);
}

#[test]
fn what_is_too_large_is_not_written() {
    let mut stored = head();
    stored.head.fields.push(b"x", &vec![b'x'; HEAD_BYTES_MAX]);
    assert_eq!(encode_head(&stored), None);
    let mut stored = head();
    stored.head.tags = vec![b"".as_slice().into(); ITEMS_MAX + 1];
    assert_eq!(encode_head(&stored), None);
    let stored = StoredHead { key: vec![b'x'; KEY_BYTES_MAX + 1].into(), ..head() };
    assert_eq!(encode_head(&stored), None);
}

/// As a head that was made on purpose: its sum is right.
fn forged(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = encode_head(&head()).unwrap();
    change(&mut bytes);
    let length = (bytes.len() as u32).to_le_bytes();
    bytes[4..8].copy_from_slice(&length);
    let sum = crc(&bytes[12..]).to_le_bytes();
    bytes[8..12].copy_from_slice(&sum);
    bytes
}

#[test]
fn fields_that_would_split_a_response_are_refused() {
    let at = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).position(|part| part == text).unwrap();
    for (text, by) in
        [(b"text/plain", b"te\r\n/plain"), (b"content-ty", b"conte:t-ty"), (b"text/plain", b"te\0t/plain")]
    {
        let bytes = forged(|bytes| {
            let at = at(bytes, text);
            bytes[at..at + text.len()].copy_from_slice(by);
        });
        assert_eq!(decode_tail(&bytes, 7), None);
    }
    assert!(decode_tail(&forged(|_| ()), 7).is_some());
    assert_eq!(decode_tail(&forged(|bytes| bytes.push(0)), 7), None, "something behind its end");
    assert_eq!(decode_tail(&forged(|bytes| bytes[38] = 2), 7), None, "an unknown kind");
}

proptest! {
    #[test]
    fn whatever_is_found_there_is_none_or_well_formed(
        at in 12..200_usize, value in any::<[u8; 4]>(), junk in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let _ = decode_tail(&junk, 7);
        let _ = decode_header(&junk);
        let bytes = forged(|bytes| {
            for (to, from) in bytes.iter_mut().skip(at).zip(value) {
                *to = from;
            }
        });
        if let Some(tail) = decode_tail(&bytes, 7) {
            prop_assert!(is_storable(&tail.last.head));
            prop_assert_eq!(encode_head(&tail.last), Some(bytes));
        }
    }
}
