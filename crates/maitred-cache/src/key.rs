//! Keys of entries: their full text, and a hash of it, which is also the name of the file.
//!
//! The hash is keyed ([SipHash-1-3](https://www.aumasson.jp/siphash/siphash.pdf), 128 bits) with random numbers that belong to
//! the directory: a client cannot find two keys of one file. If two keys had one hash after all, the file of one would take the
//! place of the other's: the full text is compared at each hit, so that this is a miss.

use siphasher::sip128::SipHasher13;

/// Bytes of a key's text at most. A request target may have fewer by far (`limits.uri_bytes_max`); what comes beside it are the
/// host and the values of fields that a response varies by.
pub const KEY_BYTES_MAX: usize = 32 * 1024;

/// 128 bits that stand for a key's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash {
    /// Chooses the place in tables.
    pub(super) hi: u64,
    pub(super) lo: u64,
}

/// What hashes are keyed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seed(pub(super) u64, pub(super) u64);

/// The key of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    pub(super) hash: Hash,
    pub(super) text: Box<[u8]>,
}

impl Key {
    /// The text of the key.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The hash of the key. Different keys have different ones for all that is known.
    pub(crate) fn hash(&self) -> Hash {
        self.hash
    }
}

impl Seed {
    pub(super) fn hash(self, text: &[u8]) -> Hash {
        let hash = SipHasher13::new_with_keys(self.0, self.1).hash(text);
        Hash { hi: hash.h1, lo: hash.h2 }
    }

    pub(super) fn key(self, text: &[u8]) -> Key {
        Key { hash: self.hash(text), text: text.into() }
    }

    /// What tells that a table is of another directory, and not what the seed is.
    pub(super) fn mark(self) -> u64 {
        self.hash(b"the table of this directory").hi | 1
    }
}

impl Hash {
    /// The directory among the 256 that the file is in.
    pub(super) fn folder(self) -> u8 {
        (self.hi >> 56) as u8
    }

    /// The file's name: 32 hexadecimal digits.
    pub(super) fn name(self) -> String {
        format!("{:016x}{:016x}", self.hi, self.lo)
    }

    /// The hash that a file's name says, if it is one as [`Hash::name`] makes it.
    pub(super) fn of_name(name: &[u8]) -> Option<Hash> {
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if name.len() != 32 || !name.iter().all(is_digit) {
            return None;
        }
        let name = std::str::from_utf8(name).ok()?;
        let part = |range| u64::from_str_radix(name.get(range)?, 16).ok();
        Some(Hash { hi: part(0..16)?, lo: part(16..32)? })
    }
}

/// The host that a key is about: what stands between `://` and the next `/` of its text. Keys of another form have none.
pub(super) fn host(text: &[u8]) -> Option<&[u8]> {
    let start = text.windows(3).position(|three| three == b"://")? + 3;
    let rest = text.get(start..)?;
    Some(rest.split(|byte| *byte == b'/').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_its_hash() {
        let seed = Seed(1, 2);
        let key = seed.key(b"https://example.com/a");
        assert_eq!(Hash::of_name(key.hash.name().as_bytes()), Some(key.hash));
        assert_eq!(key.hash.name().len(), 32);
        assert!(key.hash.name().starts_with(&format!("{:02x}", key.hash.folder())));
        assert_ne!(seed.hash(b"a"), seed.hash(b"b"));
        assert_ne!(seed.hash(b"a"), Seed(1, 3).hash(b"a"));
        let upper = key.hash.name().to_uppercase();
        for name in ["", ".", "..", "0", &upper, "+123456789abcdef0123456789abcdef", "tmp"] {
            assert_eq!(Hash::of_name(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn a_key_may_name_a_host() {
        assert_eq!(host(b"https://example.com:8443/a://b/c"), Some(&b"example.com:8443"[..]));
        assert_eq!(host(b"http://a"), Some(&b"a"[..]));
        assert_eq!(host(b"http:///x"), Some(&b""[..]));
        assert_eq!(host(b"a/b"), None);
        assert_eq!(host(b""), None);
    }
}
