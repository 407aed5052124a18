//! Entity tags (9110-8.8.3) and the lists of them in `If-Match` and `If-None-Match`.

/// An entity tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntityTag<'a> {
    /// Whether it stands for equivalent rather than for identical bytes.
    pub weak: bool,
    /// What stands between the quotes.
    pub opaque: &'a [u8],
}

/// The two ways to compare entity tags (9110-8.8.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// Neither may be weak.
    Strong,
    /// Only what stands between the quotes counts.
    Weak,
}

impl<'a> EntityTag<'a> {
    /// Reads a value that is exactly one entity tag.
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        Self::split_from(value).and_then(|(tag, rest)| rest.is_empty().then_some(tag))
    }

    /// Compares two tags.
    pub fn matches(self, other: EntityTag<'_>, comparison: Comparison) -> bool {
        self.opaque == other.opaque && (comparison == Comparison::Weak || !(self.weak || other.weak))
    }

    /// Splits the tag off that `value` starts with.
    fn split_from(value: &'a [u8]) -> Option<(Self, &'a [u8])> {
        // The W is case-sensitive.
        let (weak, quoted) = match value.strip_prefix(b"W/") {
            Some(rest) => (true, rest),
            None => (false, value),
        };
        let inner = quoted.strip_prefix(b"\"")?;
        let (opaque, rest) = inner.split_at_checked(memchr::memchr(b'"', inner)?)?;
        let valid = opaque.iter().all(|byte| matches!(byte, 0x21 | 0x23..=0x7e | 0x80..));
        valid.then_some((Self { weak, opaque }, rest.strip_prefix(b"\"")?))
    }
}

/// Whether the value of an `If-Match` or `If-None-Match` field names `current`: the tag of the representation
/// that exists, if it has one. `*` names every representation. A list is read up to its first malformed
/// element.
pub fn list_names(list: &[u8], current: Option<EntityTag<'_>>, comparison: Comparison) -> bool {
    if list == b"*" {
        return true;
    }
    let Some(current) = current else { return false };
    let mut rest = list;
    loop {
        // Empty elements are allowed (9110-5.6.1.2), and spaces around the commas.
        while let [b',' | b' ' | b'\t', after @ ..] = rest {
            rest = after;
        }
        let Some((tag, after)) = EntityTag::split_from(rest) else { return false };
        if tag.matches(current, comparison) {
            return true;
        }
        rest = after.trim_ascii_start();
        if !rest.starts_with(b",") {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn strong(opaque: &[u8]) -> EntityTag<'_> {
        EntityTag { weak: false, opaque }
    }

    const fn weak(opaque: &[u8]) -> EntityTag<'_> {
        EntityTag { weak: true, opaque }
    }

    #[test]
    fn reads_tags() {
        assert_eq!(EntityTag::parse(b"\"xyzzy\""), Some(strong(b"xyzzy")));
        assert_eq!(EntityTag::parse(b"W/\"xyzzy\""), Some(weak(b"xyzzy")));
        assert_eq!(EntityTag::parse(b"\"\""), Some(strong(b"")));
        for bad in ["", "xyzzy", "\"", "\"a", "w/\"a\"", "W/a", "\"a b\"", "\"a\" ", "\"a\"\"b\"", "W/ \"a\""]
        {
            assert_eq!(EntityTag::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    /// The table of 9110-8.8.3.2.
    #[test]
    fn compares_strongly_and_weakly() {
        for (one, other, strongly, weakly) in [
            (weak(b"1"), weak(b"1"), false, true),
            (weak(b"1"), weak(b"2"), false, false),
            (weak(b"1"), strong(b"1"), false, true),
            (strong(b"1"), strong(b"1"), true, true),
        ] {
            assert_eq!(one.matches(other, Comparison::Strong), strongly);
            assert_eq!(one.matches(other, Comparison::Weak), weakly);
        }
    }

    #[test]
    fn finds_tags_in_lists() {
        let found = |list: &str| list_names(list.as_bytes(), Some(strong(b"b")), Comparison::Strong);
        assert!(found("\"b\""));
        assert!(found("\"a\", \"b\""));
        assert!(found("\"a\",\"b\",\"c\""));
        assert!(found(", ,\"a\" ,\t\"b\""));
        assert!(found("\"a,\", \"b\""));
        assert!(found("*"));
        assert!(!found(""));
        assert!(!found("b"));
        assert!(!found("W/\"b\""));
        assert!(!found("\"a\" \"b\""));
        assert!(!found("a, \"b\""));
        assert!(!found("*, \"b\""));
        assert!(list_names(b"W/\"b\"", Some(strong(b"b")), Comparison::Weak));
    }

    #[test]
    fn only_the_asterisk_names_what_has_no_tag() {
        assert!(list_names(b"*", None, Comparison::Strong));
        assert!(!list_names(b"\"a\"", None, Comparison::Weak));
    }

    proptest! {
        #[test]
        fn never_panics(list in "[W/\",* a\t]{0,24}") {
            let _ = list_names(list.as_bytes(), Some(strong(b"a")), Comparison::Weak);
        }
    }
}
