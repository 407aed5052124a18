//! Patterns of paths and of values.

use maitred_http::paths::Shape;

use maitred_config::PathPattern;

/// Whether a pattern covers a normalised path.
pub(super) fn matches(pattern: &PathPattern, path: &[u8]) -> bool {
    match pattern {
        PathPattern::All => true,
        PathPattern::Exact(exact) => path == exact.as_bytes(),
        PathPattern::Prefix(prefix) => path.starts_with(prefix.as_bytes()),
        PathPattern::Suffix(suffix) => path.ends_with(suffix.as_bytes()),
        PathPattern::Glob(pieces) => glob(pieces, path),
    }
}

/// Pieces with "anything" between them: the first and the last are anchored, and a single one is the whole; taking each of the
/// others at its first place is enough, because nothing but the order of the pieces is asked for.
pub(super) fn glob(pieces: &[String], text: &[u8]) -> bool {
    let (first, middle, last) = match pieces {
        [only] => return text == only.as_bytes(),
        [first, middle @ .., last] => (first, middle, last),
        [] => return false,
    };
    let Some(mut rest) = text.strip_prefix(first.as_bytes()) else { return false };
    for piece in middle {
        let Some(at) = memchr::memmem::find(rest, piece.as_bytes()) else { return false };
        rest = rest.get(at + piece.len()..).unwrap_or_default();
    }
    rest.ends_with(last.as_bytes())
}

/// Whether one of the patterns of a route covers the path.
#[inline]
pub(super) fn any_matches(patterns: &[PathPattern], path: &[u8]) -> bool {
    patterns.iter().any(|one| matches(one, path))
}

/// The form of a pattern, for the index of the routes.
pub(super) fn shape(pattern: &PathPattern) -> Shape<'_> {
    match pattern {
        PathPattern::All => Shape::Any,
        PathPattern::Exact(path) => Shape::Whole(path),
        PathPattern::Prefix(start) => Shape::Start(start),
        PathPattern::Suffix(end) => Shape::End(end),
        PathPattern::Glob(pieces) => {
            let (first, last) = (pieces.first(), pieces.last());
            Shape::Both(first.map_or("", String::as_str), last.map_or("", String::as_str))
        }
    }
}
