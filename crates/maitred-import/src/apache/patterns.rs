//! Regular expressions of httpd (PCRE): as patterns of paths where they are that simple, otherwise as expressions of the crate
//! `regex`.

use regex::{Regex, RegexBuilder};

use super::globs::Glob;

/// The longest expression that a route can have, in bytes, and the memory that it may take.
const BYTES_MAX: usize = 4000;
const MEMORY_MAX: usize = 1 << 20;
/// Texts that an expression may stand for, at most, to be written as these.
const TEXTS_MAX: usize = 24;

/// The expression, compiled.
///
/// # Errors
/// It is none here.
pub(crate) fn compiled(text: &str) -> Result<Regex, String> {
    let built = (text.len() <= BYTES_MAX)
        .then(|| RegexBuilder::new(text).size_limit(MEMORY_MAX).dfa_size_limit(MEMORY_MAX).build().ok());
    built.flatten().ok_or_else(|| {
        "the expression has what those of Maitred do not have: look-around, or references to groups"
            .to_owned()
    })
}

/// Texts that an expression without repetitions stands for, and whether they are the beginning and the end of what fits.
#[derive(Debug, PartialEq)]
pub(crate) struct Texts {
    pub(crate) start: bool,
    pub(crate) texts: Vec<String>,
    pub(crate) end: bool,
}

/// `\.(css|jpe?g)$` as `.css`, `.jpg`, `.jpeg` at the end.
pub(crate) fn texts(regex: &str) -> Option<Texts> {
    let start = regex.starts_with('^');
    let body = regex.strip_prefix('^').unwrap_or(regex);
    let end = body.ends_with('$') && !body.ends_with("\\$");
    let body = if end { &body[..body.len() - 1] } else { body };
    let letters: Vec<char> = body.chars().collect();
    let mut at = 0;
    let texts = alternatives(&letters, &mut at, 0)?;
    // An alternative at the top would have the anchors for itself.
    let alone = texts.1 == 1 || (!start && !end);
    (at == letters.len() && alone).then_some(Texts { start, texts: texts.0, end })
}

/// The texts, and how many alternatives they come from.
fn alternatives(letters: &[char], at: &mut usize, depth: usize) -> Option<(Vec<String>, usize)> {
    let (mut all, mut count) = (Vec::new(), 1);
    let mut own = vec![String::new()];
    while let Some(letter) = letters.get(*at) {
        let mut part: Vec<String> = match letter {
            '|' => {
                *at += 1;
                count += 1;
                all.append(&mut own);
                own = vec![String::new()];
                continue;
            }
            ')' if depth > 0 => break,
            '(' if depth < 4 => {
                *at += 1;
                if letters.get(*at) == Some(&'?') {
                    (letters.get(*at + 1) == Some(&':')).then_some(())?;
                    *at += 2;
                }
                let (texts, _) = alternatives(letters, at, depth + 1)?;
                (letters.get(*at) == Some(&')')).then_some(texts)?
            }
            '\\' => {
                *at += 1;
                let next = letters.get(*at).filter(|next| !next.is_ascii_alphanumeric())?;
                vec![next.to_string()]
            }
            '.' | '*' | '+' | '?' | '[' | ']' | '{' | '}' | '^' | '$' | '(' | ')' => return None,
            plain => vec![plain.to_string()],
        };
        *at += 1;
        match letters.get(*at) {
            Some('?') => {
                part.push(String::new());
                *at += 1;
            }
            Some('*' | '+' | '{') => return None,
            _ => {}
        }
        own = own.iter().flat_map(|before| part.iter().map(move |part| format!("{before}{part}"))).collect();
        if own.len() + all.len() > TEXTS_MAX {
            return None;
        }
    }
    all.append(&mut own);
    (all.len() <= TEXTS_MAX).then_some((all, count))
}

/// Patterns for an expression that is looked for in a whole path; `None`, if it is more than patterns can say.
pub(crate) fn of_path(regex: &str) -> Option<Vec<Glob>> {
    if [
        "", "^", "^/", ".*", "^.*", "^.*$", "(.*)", "^(.*)$", "^/(.*)$", "^/.*", "^/.*$", "/", ".",
        "^/?(.*)$", "^/(.*)",
    ]
    .contains(&regex)
    {
        return Some(vec![Glob::between("/", "")]);
    }
    let open = ["(.*)$", ".*$", "(.*)", ".*"].iter().find_map(|end| regex.strip_suffix(end));
    let Texts { start, texts, end } = texts(open.unwrap_or(regex))?;
    let end = end && open.is_none();
    if start && texts.iter().any(|text| !text.starts_with('/')) {
        return None;
    }
    if texts.iter().any(|text| text.contains('*')) {
        return None;
    }
    let one = |text: &String| match (start, end) {
        (true, true) => Glob::exact(text),
        (true, false) => Glob::between(text, ""),
        (false, true) => Glob::between("", text),
        (false, false) => Glob::containing(text),
    };
    Some(texts.iter().map(one).collect())
}

/// Whether two paths are apart in the beginning of an expression: what is literal in it behind `^`.
pub(crate) fn literal_head(regex: &str) -> String {
    let Some(body) = regex.strip_prefix('^').filter(|body| !body.contains('|')) else { return String::new() };
    let mut head = String::new();
    let mut letters = body.chars().peekable();
    while let Some(letter) = letters.next() {
        let plain = match letter {
            '\\' => letters.next().filter(|next| !next.is_ascii_alphanumeric()),
            '.' | '*' | '+' | '?' | '[' | ']' | '{' | '}' | '(' | ')' | '^' | '$' => None,
            plain => Some(plain),
        };
        let Some(plain) = plain else { break };
        if matches!(letters.peek(), Some('?' | '*' | '+' | '{')) {
            break;
        }
        head.push(plain);
    }
    head
}

/// An expression about the name of a file, as one about the whole path.
///
/// # Errors
/// It is none here.
pub(crate) fn of_name(regex: &str) -> Result<String, String> {
    let (flags, body) = match regex.strip_prefix("(?i)") {
        Some(body) => ("(?i)", body),
        None => ("", regex),
    };
    let mut out = String::new();
    let mut letters = body.chars().peekable();
    let mut class = false;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                out.push(letter);
                out.extend(letters.next());
            }
            '[' if !class => {
                class = true;
                out.push(letter);
                if letters.next_if_eq(&'^').is_some() {
                    out.push_str("^/");
                }
                out.extend(letters.next_if_eq(&']').map(|_| "\\]"));
            }
            ']' if class => {
                class = false;
                out.push(letter);
            }
            '.' if !class => out.push_str("[^/]"),
            '^' if !class => out.push('/'),
            other => out.push(other),
        }
    }
    let whole = match out.ends_with('$') && !out.contains('|') {
        true => format!("{flags}{out}"),
        false => format!("{flags}(?:{out})[^/]*$"),
    };
    compiled(&whole)?;
    Ok(whole)
}

/// An expression as a text.
pub(crate) fn escaped(text: &str) -> String {
    regex::escape(text).replace("\\-", "-").replace("\\#", "#").replace("\\&", "&").replace("\\~", "~")
}

/// How many groups an expression has.
pub(crate) fn groups(regex: &str) -> usize {
    compiled(regex).map_or(0, |regex| regex.captures_len().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(regex: &str) -> Option<Vec<String>> {
        Some(of_path(regex)?.iter().map(Glob::show).collect())
    }

    #[test]
    fn simple_expressions_are_patterns() {
        for (regex, globs) in [
            (r"\.(css|jpe?g)$", &["*.css", "*.jpeg", "*.jpg"][..]),
            (r"^/a/(b|c)/", &["/a/b/*", "/a/c/*"]),
            (r"^/x\.html$", &["/x.html"]),
            (r"/\.git", &["*/.git*"]),
            (r"^/old/(.*)$", &["/old/*"]),
            ("^(.*)$", &["/*"]),
        ] {
            assert_eq!(
                shown(regex).as_deref(),
                Some(&globs.iter().map(|x| x.to_string()).collect::<Vec<_>>()[..]),
                "{regex}"
            );
        }
        for regex in [r"^/a|b$", r"[0-9]", r"a+", r"^\d", "(?!x)y", r"\bx"] {
            assert_eq!(shown(regex), None, "{regex}");
        }
        assert_eq!(literal_head(r"^/a/b\.c(x)"), "/a/b.c");
    }

    #[test]
    fn names_are_the_last_part_of_a_path() {
        let is = |regex: &str, path: &str| compiled(&of_name(regex).unwrap()).unwrap().is_match(path);
        for (regex, path) in [
            ("^a.*b$", "/x/a1b"),
            ("a", "/x/cad"),
            (r"~$|^#", "/#x"),
            (r"\.(inc|bak)$", "/a.inc"),
            ("[^a]$", "/b"),
        ] {
            assert!(is(regex, path), "{regex} {path}");
        }
        for (regex, path) in [("^a.*b$", "/a/b"), ("a", "/a/x"), ("^#", "/x/y#"), ("^b[^x]*c", "/b/c")] {
            assert!(!is(regex, path), "{regex} {path}");
        }
    }
}
