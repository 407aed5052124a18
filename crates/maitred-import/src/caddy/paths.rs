//! Patterns of paths: what two of them have in common, and what becomes of one behind a prefix that is taken away.

/// Whether a path fits a pattern, in which each `*` stands for anything. Caddy compares without case.
pub(crate) fn fits(pattern: &str, path: &str) -> bool {
    let (pattern, path) = (pattern.to_ascii_lowercase(), path.to_ascii_lowercase());
    let mut parts = pattern.split('*');
    let Some(mut rest) = path.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((end, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(end)
}

/// Whether each path that fits `narrow` fits `wide`, by their shape.
pub(crate) fn covers(wide: &str, narrow: &str) -> bool {
    match wide.strip_suffix('*') {
        _ if !narrow.contains('*') => fits(wide, narrow),
        Some(begin) if !begin.contains('*') => narrow.starts_with(begin),
        _ => wide == narrow,
    }
}

/// Whether no path fits both.
fn is_apart(one: &str, other: &str) -> bool {
    let begin = |path: &str| path.split('*').next().unwrap_or_default().to_ascii_lowercase();
    match (one.contains('*'), other.contains('*')) {
        (false, _) => !fits(other, one),
        (_, false) => !fits(one, other),
        (true, true) => {
            let (ours, theirs) = (begin(one), begin(other));
            !ours.starts_with(&theirs) && !theirs.starts_with(&ours)
        }
    }
}

/// The patterns of paths that fit one of each list; `None` if that cannot be said by patterns.
pub(crate) fn common(ours: &[String], theirs: &[String]) -> Option<Vec<String>> {
    let mut both: Vec<String> = Vec::new();
    for one in ours {
        for other in theirs {
            if is_apart(one, other) {
                continue;
            }
            let found = match (covers(one, other), covers(other, one)) {
                (true, _) => other,
                (false, true) => one,
                (false, false) => return None,
            };
            if !both.contains(found) {
                both.push(found.clone());
            }
        }
    }
    Some(both)
}

/// A pattern of what is behind a prefix, as one of the whole path.
pub(crate) fn behind(prefix: &str, pattern: &str) -> String {
    match pattern.starts_with('/') {
        true => format!("{}{pattern}", prefix.trim_end_matches('/')),
        false => format!("{prefix}{pattern}"),
    }
}

/// The patterns of the paths that fit some of these behind a beginning; `None` if that cannot be said.
pub(crate) fn after(begin: &str, patterns: &[String]) -> Option<Vec<String>> {
    let mut found = Vec::new();
    for pattern in patterns {
        let literal = pattern.strip_suffix('*').unwrap_or(pattern);
        let (ours, theirs) = (begin.to_ascii_lowercase(), literal.to_ascii_lowercase());
        match (pattern.ends_with('*'), theirs.strip_prefix(&ours)) {
            _ if literal.contains('*') => return None,
            (true, _) if ours.starts_with(&theirs) => found.push("/*".to_owned()),
            (_, Some(rest)) if rest.starts_with('/') => found.push(pattern[begin.len()..].to_owned()),
            _ => {}
        }
    }
    Some(found)
}

/// The same of an expression; `None` if it may begin anywhere.
pub(crate) fn regex_behind(prefix: &str, regex: &str) -> Option<String> {
    let (flags, rest) = match regex.strip_prefix("(?i)") {
        Some(rest) => ("(?i)", rest),
        None => ("", regex),
    };
    let rest = rest.strip_prefix("^/")?;
    (!rest.contains('|')).then(|| format!("{flags}^{}{rest}", escaped(prefix)))
}

/// A text as an expression that it alone fits.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if r"\.+*?()|[]{}^$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Patterns, in which each `*` stands for anything, as an expression that looks at no case.
pub(crate) fn any_case(patterns: &[String]) -> String {
    let expression = |pattern: &String| {
        let middle = escaped(pattern.trim_matches('*')).replace(r"\*", ".*");
        let begin = if pattern.starts_with('*') { "" } else { "^" };
        let end = if pattern.ends_with('*') { "" } else { "$" };
        format!("{begin}{middle}{end}")
    };
    let all: Vec<String> = patterns.iter().map(expression).collect();
    format!("(?i){}", all.join("|"))
}

/// What Caddy's patterns are: a `*` at an end stands for anything, another one for anything but slashes.
#[derive(Debug, PartialEq)]
pub(crate) enum Patterns {
    /// Every path.
    All,
    /// As `path` has them.
    Plain(Vec<String>),
    /// As an expression.
    Regex(String),
}

/// Reads the patterns of a matcher.
///
/// # Errors
/// What means something else in a path here.
pub(crate) fn read(args: &[String]) -> Result<Patterns, String> {
    if let Some(wrong) = args.iter().find(|path| path.contains(['{', '?', '#', '%', '[', '\\'])) {
        return Err(format!("`{wrong}` is no path that can be asked for here"));
    }
    if args.iter().any(|path| path == "*" || path == "/*") {
        return Ok(Patterns::All);
    }
    let inner = |path: &str| {
        let stars = path.matches('*').count();
        match (path.starts_with('*'), path.ends_with('*')) {
            (true, true) => stars > 2,
            (false, false) => stars > 0,
            _ => stars > 1,
        }
    };
    if args.iter().any(|path| path.contains("//") || !path.starts_with(['/', '*'])) {
        return Err("no path that is asked for here is like that".into());
    }
    if !args.iter().any(|path| inner(path)) {
        return Ok(Patterns::Plain(args.to_vec()));
    }
    let expression = |path: &String| match inner(path) {
        true => format!("^{}$", escaped(path).replace(r"\*", "[^/]*")),
        false => {
            let (begin, end) = (path.starts_with('*'), path.ends_with('*'));
            let middle = escaped(path.trim_matches('*'));
            format!("{}{middle}{}", if begin { "" } else { "^" }, if end { "" } else { "$" })
        }
    };
    let all: Vec<String> = args.iter().map(expression).collect();
    Ok(Patterns::Regex(format!("(?i){}", all.join("|"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(|one| (*one).to_owned()).collect()
    }

    #[test]
    fn what_two_lists_have_in_common() {
        let of = |ours: &[&str], theirs: &[&str]| common(&texts(ours), &texts(theirs));
        assert_eq!(of(&["/api/*"], &["/api/v1", "/other"]), Some(texts(&["/api/v1"])));
        assert_eq!(of(&["/api/*"], &["/other/*"]), Some(Vec::new()));
        assert_eq!(of(&["/a", "/b"], &["*b"]), Some(texts(&["/b"])));
        assert_eq!(of(&["/api/*"], &["*.php"]), None);
    }

    #[test]
    fn patterns_behind_a_beginning() {
        let of = |patterns: &[&str]| after("/a", &texts(patterns));
        assert_eq!(of(&["/a*"]), Some(texts(&["/*"])));
        assert_eq!(of(&["/a/x/*", "/A/y", "/a", "/b/*"]), Some(texts(&["/x/*", "/y"])));
        assert_eq!((of(&["/b"]), of(&["*.php"])), (Some(Vec::new()), None));
    }

    #[test]
    fn expressions_without_case() {
        assert_eq!(any_case(&texts(&["/a.b/*", "*.php", "/x/*/y"])), r"(?i)^/a\.b/|\.php$|^/x/.*/y$");
    }

    #[test]
    fn patterns_of_caddy() {
        assert_eq!(read(&texts(&["/a/*", "*.php"])), Ok(Patterns::Plain(texts(&["/a/*", "*.php"]))));
        assert_eq!(read(&texts(&["/a/*/b", "/c*"])), Ok(Patterns::Regex("(?i)^/a/[^/]*/b$|^/c".into())));
        assert_eq!(read(&texts(&["/*"])), Ok(Patterns::All));
        assert!(read(&texts(&["/a?"])).is_err() && read(&texts(&["a"])).is_err());
        assert_eq!(behind("/api/", "/v1/*"), "/api/v1/*");
        assert_eq!(behind("/api/", "*.php"), "/api/*.php");
        assert_eq!(regex_behind("/a.b/", "^/x$").as_deref(), Some(r"^/a\.b/x$"));
        assert_eq!(regex_behind("/a/", "x$"), None);
    }
}
