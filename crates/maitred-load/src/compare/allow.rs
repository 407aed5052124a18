//! Differences that are accepted: a file with one to a line.
//!
//! ```text
//! # the kind, where it may be, and why
//! status 404 -> 403                     # hidden files are refused here
//! field cache-control * at /static/*    # the new policy
//! ```
//!
//! `*` stands for any text. `at` names paths, without the query; without it all paths are meant. The reason has to be there.

/// Bytes of a file; each line is one decision of a person.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// A difference that is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowance {
    /// What kinds match.
    pub kind: String,
    /// What paths match; absent: all.
    pub path: Option<String>,
    /// Why.
    pub reason: String,
    /// The line that it stands in.
    pub line: usize,
}

impl Allowance {
    /// Whether a difference is accepted by it.
    pub fn accepts(&self, kind: &str, path: &[u8]) -> bool {
        matches(self.kind.as_bytes(), kind.as_bytes())
            && self.path.as_ref().is_none_or(|pattern| matches(pattern.as_bytes(), path))
    }

    /// As it stands in the file.
    pub fn shown(&self) -> String {
        self.path.as_ref().map_or_else(|| self.kind.clone(), |path| format!("{} at {path}", self.kind))
    }
}

/// Reads a file's text.
///
/// # Errors
/// The first line that is wrong, and what is wrong with it.
pub fn parse(text: &str) -> Result<Vec<Allowance>, String> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let told = |what: &str| format!("line {number}: {what}: {line:?}");
        let (what, reason) = line.split_once('#').unwrap_or((line, ""));
        if reason.trim().is_empty() {
            return Err(told("the reason behind # is missing"));
        }
        let what = what.trim();
        let parts = what.split_once(" at ").or_else(|| what.strip_prefix("at ").map(|path| ("", path)));
        let (kind, path) = match parts {
            Some((kind, path)) => (kind.trim(), Some(path.trim().to_owned())),
            None => (what, None),
        };
        if kind.is_empty() {
            return Err(told("the kind is missing"));
        }
        if path.as_ref().is_some_and(|path| !path.starts_with(['/', '*']) || path.contains(' ')) {
            return Err(told("a path begins with / or *, and has no spaces"));
        }
        found.push(Allowance { kind: kind.to_owned(), path, reason: reason.trim().to_owned(), line: number });
    }
    Ok(found)
}

/// Whether a pattern with `*` matches, in time that does not explode: only the last `*` is ever taken back.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut star = None;
    while from < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(byte) if text.get(from) == Some(byte) => {
                at += 1;
                from += 1;
            }
            _ => {
                let Some((star_at, star_from)) = star else { return false };
                star = Some((star_at, star_from + 1));
                (at, from) = (star_at + 1, star_from + 1);
            }
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_a_kind_a_path_and_a_reason() {
        let found = parse("# first\n\nstatus 404 -> 403 # hidden\n field x-* at /a/*#b c\n").unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].line, found[0].path.as_deref(), found[0].reason.as_str()), (3, None, "hidden"));
        assert_eq!((found[1].shown().as_str(), found[1].reason.as_str()), ("field x-* at /a/*", "b c"));
        assert!(found[0].accepts("status 404 -> 403", b"/x") && !found[0].accepts("status 404 -> 40", b"/x"));
        assert!(
            found[1].accepts("field x-a differs", b"/a/b") && !found[1].accepts("field x-a differs", b"/b")
        );
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, said) in [
            ("\nstatus 404 -> 403", "line 2: the reason"),
            ("status 404 #  ", "the reason"),
            (" at /a # b", "the kind"),
            ("body differs at a # b", "a path begins"),
            ("body differs at /a b # c", "a path begins"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abcdef", false),
            ("a**b", "ab", true),
            ("*ab", "aab", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
        let (pattern, text) = ("*a".repeat(200) + "b", "a".repeat(5000));
        assert!(!matches(pattern.as_bytes(), text.as_bytes()));
    }
}
