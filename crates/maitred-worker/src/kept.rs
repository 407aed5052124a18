//! How responses are named and described in the store of the cache, which knows nothing of HTTP.

use maitred_http::cache::{self, Lifetime, Tag, Target, Wanted, put_key};
use maitred_http::request::Request;
use maitred_http::uri::Slashes;

use maitred_cache::Entry;
use maitred_policy as policy;
use maitred_policy::filter::cache::Caching;

/// Whom a response is for, as far as this server tells clients apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ToldApart {
    /// No gate has asked who the client is, and no proxy has said.
    NoOne,
    /// A gate or a certificate has decided about the request. What it gets is kept only if that says that others may have it, and
    /// is given to all of these.
    Someone,
    /// The same, and the client has responses of its own: those that are kept by this digest of what it is known by.
    By(Box<str>),
}

/// The line of a key that stands for clients that are told apart. No line of a field or a cookie is like it.
const SOMEONE: &[u8] = b"client told apart\n";

/// What stands among the names of `Vary` where a response depends on [`besides`], which is no field.
pub(super) const BESIDES: &str = ":besides";

/// What a response depends on besides its key and the fields that it names itself: the client, where `key_identity` says so, and
/// what its pool is asked for. The text tells variants apart, so that one note is all that a purge has to remove.
pub(super) fn besides(request: &Request<'_, '_>, caching: &Caching, client: &ToldApart) -> Vec<u8> {
    let mut text = Vec::new();
    if caching.key_identity {
        let known = if let ToldApart::By(digest) = client { digest } else { "" };
        text.extend([b"client ", known.as_bytes(), b"\n"].concat());
    }
    if caching.by_spelling {
        let asked = policy::target::Target::asked(request, Slashes::Keep);
        text.extend([b"path ", asked.encoded_path().as_bytes(), b"\n"].concat());
    }
    if caching.by_target {
        let query = cache::reduced(request, sent_query(request), &caching.keys).query;
        let (between, query) = query.as_deref().map_or(("", ""), |query| ("?", query));
        text.extend(
            [b"target ", request.path.as_bytes(), between.as_bytes(), query.as_bytes(), b"\n"].concat(),
        );
    }
    text
}

/// The query as the client has sent it, whatever its route has made of it.
pub(super) fn sent_query<'a>(request: &Request<'_, 'a>) -> Option<&'a str> {
    policy::target::Target::asked(request, Slashes::Keep).query()
}

/// The text of the key of a target, without what its response varies with.
pub(super) fn primary_text(
    target: &Target<'_>,
    request: &Request<'_, '_>,
    caching: &Caching,
    client: &ToldApart,
) -> Vec<u8> {
    let mut text = Vec::with_capacity(256);
    put_key(target, request, (&caching.keys, &caching.rules), &mut text);
    if *client == ToldApart::Someone {
        text.extend_from_slice(SOMEONE);
    }
    text
}

/// What the rules of the cache look at in a request. Clients that are told apart are, to them, as those with `Authorization`
/// (RFC 9111 section 3.5).
pub(super) fn wanted(request: &Request<'_, '_>, caching: &Caching, client: &ToldApart) -> Wanted {
    let mut wanted = Wanted::of(request, &caching.rules);
    wanted.authorization = match client {
        ToldApart::NoOne => wanted.authorization,
        ToldApart::Someone => true,
        ToldApart::By(_) => false,
    };
    wanted
}

/// What tells variants apart: what the request has in the fields of these names, and [`besides`].
pub(super) fn variant_text(
    names: &str,
    request: &Request<'_, '_>,
    caching: &Caching,
    besides: &[u8],
) -> Vec<u8> {
    let mut text = Vec::new();
    cache::put_variant_key(names, request, &caching.rules, &mut text);
    text.extend_from_slice(besides);
    text
}

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

/// Times as the store keeps them; `None` if they are none, which cannot be.
pub(super) fn decode(words: &[u64; 8]) -> Option<Lifetime> {
    let mut bytes = [0; cache::LIFETIME_BYTES];
    for (part, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *part = word.to_le_bytes();
    }
    Lifetime::decode(&bytes)
}

/// Times of a response that is kept.
pub(super) fn lifetime_of(entry: &Entry) -> Option<Lifetime> {
    let lifetime = decode(&entry.head.lifetime)?;
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
    let asked = policy::target::Target::asked(request, Slashes::Keep);
    let scheme = if https { "https" } else { "http" };
    Target { scheme, authority: request.authority, path: asked.encoded_path(), query: asked.query() }
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
        assert_eq!(decode(&encode(&lifetime)), Some(lifetime));
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
