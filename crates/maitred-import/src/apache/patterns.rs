//! Regular expressions of httpd (PCRE): as patterns of paths where they are that simple, otherwise as expressions of the crate
//! `regex`.

use regex::bytes::{Regex, RegexBuilder};

use super::globs::Glob;

/// The longest expression that a route can have, in bytes, and the memory that it may take.
const BYTES_MAX: usize = 4000;
const MEMORY_MAX: usize = 1 << 20;
/// Texts that an expression may stand for, at most, to be written as these.
const TEXTS_MAX: usize = 24;

/// An expression that is compiled as the server does: about bytes, as those of httpd.
pub(crate) struct Compiled(Regex);

impl Compiled {
    /// Whether it is found in a text.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text.as_bytes())
    }
}

/// The expression, compiled.
///
/// # Errors
/// It is none here.
pub(crate) fn compiled(text: &str) -> Result<Compiled, String> {
    let built = (text.len() <= BYTES_MAX).then(|| {
        let mut builder = RegexBuilder::new(text);
        builder.unicode(false).size_limit(MEMORY_MAX).dfa_size_limit(MEMORY_MAX).build().ok()
    });
    built.flatten().map(Compiled).ok_or_else(|| {
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

/// How all that fits an expression ends, in small letters; `None` if that is not plain.
pub(crate) fn ends(regex: &str) -> Option<Vec<String>> {
    let body = regex.strip_prefix("(?i)").unwrap_or(regex).replace("(?i:", "(?:");
    let repeated = [".*", ".+", "[^/]*", "[^/]+"];
    let tail = repeated.iter().filter_map(|any| body.rfind(any).map(|at| at + any.len())).max().unwrap_or(0);
    let fine = alternatives_at_top(&body).len() == 1;
    let found = texts(body.get(tail..)?).filter(|found| fine && found.end)?;
    Some(found.texts.iter().map(|text| text.to_ascii_lowercase()).collect())
}

/// Whether nothing has an end of both lists.
pub(crate) fn ends_apart(ours: &[String], theirs: &[String]) -> bool {
    let apart = |our: &String| {
        theirs.iter().all(|their| !our.ends_with(their.as_str()) && !their.ends_with(our.as_str()))
    };
    ours.iter().all(apart)
}

/// An expression about the name of a file, as one about the whole path. What `protects` scripts is for what stands behind their
/// names, too: that is `PATH_INFO`.
///
/// # Errors
/// It is none here.
pub(crate) fn of_name(regex: &str, protects: bool) -> Result<String, String> {
    let scripts = ends(regex).is_none_or(|ends| !ends_apart(&ends, &[".php".to_owned()]));
    let end = if protects && scripts { "(?:/|$)" } else { "$" };
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
    let alone = |out: &str| alternatives_at_top(out).len() == 1;
    let whole = match out.strip_suffix('$').filter(|begin| !begin.ends_with('\\') && alone(begin)) {
        Some(begin) => format!("{flags}{begin}{end}"),
        None => format!("{flags}(?:{})[^/]*{end}", out.replace('$', end)),
    };
    compiled(&whole)?;
    Ok(whole)
}

/// An expression as a text.
pub(crate) fn escaped(text: &str) -> String {
    regex::escape(text).replace("\\-", "-").replace("\\#", "#").replace("\\&", "&").replace("\\~", "~")
}

/// The letters of an expression that are no part of a class and not escaped, with the depth of their groups.
fn bare(regex: &str) -> Vec<(usize, char, usize)> {
    let (mut found, mut depth, mut class, mut escaped) = (Vec::new(), 0_usize, None, false);
    for (at, letter) in regex.char_indices() {
        match (letter, class) {
            _ if escaped => escaped = false,
            ('\\', _) => escaped = true,
            // A `]` in the first place is a letter.
            (']', Some(begin)) if at > begin + 1 && !regex[begin..].starts_with("[^]") => class = None,
            (']', Some(begin)) if at > begin + 2 => class = None,
            (_, Some(_)) => {}
            ('[', None) => class = Some(at),
            _ => {
                depth -= usize::from(letter == ')' && depth > 0);
                found.push((at, letter, depth));
                depth += usize::from(letter == '(');
            }
        }
    }
    found
}

/// The alternatives of an expression that are in no group.
pub(crate) fn alternatives_at_top(regex: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut begin = 0;
    for (at, _, _) in bare(regex).into_iter().filter(|(_, letter, depth)| *letter == '|' && *depth == 0) {
        parts.push(regex[begin..at].to_owned());
        begin = at + 1;
    }
    parts.push(regex[begin..].to_owned());
    parts
}

/// Whether there is a `^` in an expression.
pub(crate) fn has_anchor(regex: &str) -> bool {
    bare(regex).iter().any(|(_, letter, _)| *letter == '^')
}

/// `(^|/)x` as `^x` and `/x`: an expression that begins with a group, without it.
pub(crate) fn unfolded(regex: &str) -> Option<Vec<String>> {
    let inner = regex
        .strip_prefix("(?:")
        .or_else(|| regex.strip_prefix('(').filter(|rest| !rest.starts_with('?')))?;
    let skipped = regex.len() - inner.len();
    let (end, _, _) = bare(regex).into_iter().find(|(_, letter, depth)| *letter == ')' && *depth == 0)?;
    let (group, behind) = (regex.get(skipped..end)?, regex.get(end + 1..)?);
    if behind.starts_with(['?', '*', '+', '{']) || has_anchor(behind) || behind.contains('|') {
        return None;
    }
    let parts = alternatives_at_top(group);
    let fine = |part: &String| !has_anchor(part.strip_prefix('^').unwrap_or(part));
    parts.iter().all(fine).then(|| parts.iter().map(|part| format!("{part}{behind}")).collect())
}

/// How many groups an expression has.
pub(crate) fn groups(regex: &str) -> usize {
    compiled(regex).map_or(0, |regex| regex.0.captures_len().saturating_sub(1))
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
    fn anchors_are_told_from_classes() {
        assert!(has_anchor("a|^b") && !has_anchor(r"([^/]*)\.js$") && !has_anchor(r"[^]^]x\^"));
        assert_eq!(alternatives_at_top("^a(b|c)|[|]d"), ["^a(b|c)", "[|]d"]);
        assert_eq!(unfolded(r"(^|/)\.").unwrap(), [r"^\.", r"/\."]);
        for regex in ["(^a)?b", "(a(^b))", "x(^|/)y", "(a|b)+c"] {
            assert_eq!(unfolded(regex), None, "{regex}");
        }
    }

    #[test]
    fn names_are_the_last_part_of_a_path() {
        let is = |regex: &str, path: &str| compiled(&of_name(regex, false).unwrap()).unwrap().is_match(path);
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
        let closed = |regex: &str| compiled(&of_name(regex, true).unwrap()).unwrap();
        for regex in [r"(?i)\.php$", "^set.*", r"(?i)\.(php|bak)$|~$"] {
            assert!(
                closed(regex).is_match("/x/setup.php/a") && closed(regex).is_match("/setup.php"),
                "{regex}"
            );
        }
        assert!(!closed(r"(?i)\.sql$").is_match("/x.sql/a"));
        assert_eq!(ends(r"(?i)^.*\.(?:JPG|png)$").unwrap(), [".jpg", ".png"]);
        assert!(ends(r"^a|b$").is_none() && ends("a").is_none());
    }
}
