//! How responses are named and described in the store of the cache, which knows nothing of HTTP.

use std::borrow::Cow;

use maitred_http::cache::{self, Lifetime, Tag, Target};
use maitred_http::request::Request;

use maitred_cache::Entry;

/// The key of a variant: that of the resource, the number of the note about it, and the values of the request.
pub(super) fn variant_key(primary: &[u8], epoch: u64, variant: &[u8]) -> Vec<u8> {
    [primary, b"\nvariant ", format!("{epoch:016x}").as_bytes(), b"\n", variant].concat()
}

/// Times of a response as the store keeps them.
pub(super) fn encode(lifetime: &Lifetime) -> [u64; 8] {
    let bytes = lifetime.encode();
    let mut words = [0; 8];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

/// Times of a response that is kept; `None` if they are none, which cannot be.
pub(super) fn lifetime_of(entry: &Entry) -> Option<Lifetime> {
    let mut bytes = [0; cache::LIFETIME_BYTES];
    for (part, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(entry.head.lifetime) {
        *part = word.to_le_bytes();
    }
    let lifetime = Lifetime::decode(&bytes)?;
    Some(if entry.is_soft_purged() { lifetime.outdated() } else { lifetime })
}

/// A tag as the store has it: groups are those of one origin (RFC 9875 section 2).
pub(super) fn tag_text(tag: Tag<'_>, origin: &[u8]) -> Box<[u8]> {
    match tag {
        Tag::Key(tag) => [b"k ", tag].concat().into(),
        Tag::Group(group) => [b"g ", origin, b" ", group].concat().into(),
    }
}

/// Scheme and host of a key.
pub(super) fn origin_of(key: &[u8]) -> &[u8] {
    let start = key.windows(3).position(|three| three == b"://").map_or(0, |at| at + 3);
    let ends = |byte: &u8| matches!(byte, b'/' | b'?' | b'\n');
    let length = key.get(start..).and_then(|rest| rest.iter().position(ends));
    key.get(..length.map_or(key.len(), |length| start + length)).unwrap_or_default()
}

/// What a request is for, as the rules of the cache name it: by the target that the client has sent, whatever its route makes of
/// it.
pub(super) fn target<'a>(request: &Request<'a, 'a>, https: bool) -> Target<'a> {
    let (path, query) = match request.origin_form() {
        Cow::Borrowed(target) => match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        },
        // It has no path, and the rest of it is its query.
        Cow::Owned(_) => ("/", request.target.split_once('?').map(|(_, query)| query)),
    };
    let scheme = if https { "https" } else { "http" };
    Target { scheme, authority: request.authority, path, query }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_were_written() {
        let lifetime = Lifetime {
            date: 1,
            response_time: u64::MAX,
            initial_age: 3,
            fresh_for: 4,
            stale_while_revalidate: 5,
            stale_if_error: u32::MAX,
            must_revalidate: true,
            no_cache: false,
            heuristic: true,
        };
        let words = encode(&lifetime);
        let mut bytes = [0; cache::LIFETIME_BYTES];
        for (part, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *part = word.to_le_bytes();
        }
        assert_eq!(Lifetime::decode(&bytes), Some(lifetime));
    }

    #[test]
    fn groups_are_those_of_an_origin() {
        for (key, origin) in [
            ("https://a.example/b?c\n", "https://a.example"),
            ("http://a:8080\nx", "http://a:8080"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(origin_of(key.as_bytes()), origin.as_bytes());
        }
        assert_ne!(tag_text(Tag::Key(b"x"), b""), tag_text(Tag::Group(b"x"), b""));
    }
}
