//! Patterns of paths, as routes and their conditions have them.

use super::super::finding::At;
use super::super::foreign::path_hint;
use super::super::meaning::PathPattern;
use super::super::reader::{Section, shorten};

/// The patterns of a key.
pub(super) fn paths(section: &Section<'_>, key: &str) -> Vec<PathPattern> {
    patterns(section, key).into_iter().map(|pattern| pattern.value).collect()
}

pub(super) fn patterns(section: &Section<'_>, key: &str) -> Vec<At<PathPattern>> {
    let pattern = |text: At<String>| {
        let what = format!("`{key}`: \"{}\" is not a pattern", shorten(&text.value));
        let value = section.cx.accept(&text.span, &what, pattern(&text.value))?;
        Some(At { value, span: text.span })
    };
    section.texts(key).into_iter().filter_map(pattern).collect()
}

/// A pattern of paths; what is wrong with it otherwise.
pub(super) fn pattern(text: &str) -> Result<PathPattern, String> {
    if !text.starts_with(['/', '*']) {
        return Err(path_hint(&shorten(text)));
    }
    if text.contains(['?', '#']) {
        return Err("only the path is matched, without query and fragment".into());
    }
    if text.contains('\0') || text.split('/').any(|part| part == "." || part == "..") {
        return Err("paths have no `.` and `..` in them when they are matched".into());
    }
    // Two stars in a row are one: an empty piece between stars says nothing.
    let count = text.split('*').count();
    let says_something = |i: usize, piece: &str| i == 0 || i + 1 == count || !piece.is_empty();
    let pieces = text.split('*').enumerate().filter(|(i, piece)| says_something(*i, piece));
    let mut pieces: Vec<String> = pieces.map(|(_, piece)| piece.to_owned()).collect();
    Ok(match pieces.as_mut_slice() {
        [only] => PathPattern::Exact(std::mem::take(only)),
        [before, after] if after.is_empty() && (before.is_empty() || before == "/") => PathPattern::All,
        [before, after] if after.is_empty() => PathPattern::Prefix(std::mem::take(before)),
        [before, after] if before.is_empty() => PathPattern::Suffix(std::mem::take(after)),
        _ => PathPattern::Glob(pieces),
    })
}

/// `strip_prefix`, with which all paths of the route have to begin.
pub(super) fn strip_prefix(section: &Section<'_>, patterns: &[At<PathPattern>]) -> Option<String> {
    let strip = section.text("strip_prefix")?;
    let text = strip.value.as_str();
    if !text.starts_with('/') || !text.ends_with('/') {
        section.cx.error_with(
            &strip.span,
            format!("`strip_prefix`: \"{}\" is not the start of a path", shorten(text)),
            "it starts and ends with `/`: \"/static/\"",
        );
    } else if let Some(pattern) = patterns.iter().find(|pattern| !below(&pattern.value, text)) {
        section.cx.conflict(
            &strip.span,
            format!("`path` also takes paths that do not start with \"{}\"", shorten(text)),
            "this is the route's path",
            &pattern.span,
        );
    }
    Some(strip.value)
}

/// Whether all paths that the pattern takes start with this.
pub(super) fn below(pattern: &PathPattern, prefix: &str) -> bool {
    match pattern {
        PathPattern::All | PathPattern::Suffix(_) => prefix == "/",
        PathPattern::Exact(path) | PathPattern::Prefix(path) => path.starts_with(prefix),
        PathPattern::Glob(pieces) => {
            prefix == "/" || pieces.first().is_some_and(|first| first.starts_with(prefix))
        }
    }
}
