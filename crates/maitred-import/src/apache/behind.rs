//! What rules are for: paths behind their directory, and the files that are there.

use std::collections::BTreeSet;

use super::patterns;

/// Expressions that every path fits.
pub(crate) fn is_all(pattern: &str) -> bool {
    const ALL: &[&str] = &[
        "^", ".*", "^(.*)$", "(.*)", "^(.+)$", "(.+)", ".", "^.*$", "^.+$", "^(.*)", "^/?(.*)$", ".?", "^.*",
        "^/(.*)$", "^/(.*)", "^/", "/.*", ".+", "^/?", "/(.*)", "^/?(.*)",
    ];
    ALL.contains(&pattern)
}

/// Files that a rule is not for, at most.
pub(crate) const EXCEPT_MAX: usize = 40;

/// Whether groups stand behind a slash alone, as in `/x/$1`.
pub(crate) fn only_behind_slash(path: &str) -> bool {
    !path.is_empty()
        && path.match_indices('$').all(|(at, _)| at == 0 || path[..at].ends_with('/'))
        && !path.contains("$2")
}

/// An expression about what stands behind the directory of the rules, as one about the whole path.
pub(crate) fn below(prefix: &str, pattern: &str) -> Result<String, String> {
    let from = patterns::escaped(prefix);
    let own = "the alternatives of the expression have anchors of their own";
    let parts = patterns::alternatives_at_top(pattern);
    if let [_] = parts.as_slice() {
        let Some(rest) = pattern.strip_prefix('^') else {
            if patterns::has_anchor(pattern) {
                return patterns::unfolded(pattern)
                    .map(|parts| format!("^{from}(?:{})", joined_parts(&parts)))
                    .ok_or_else(|| own.to_owned());
            }
            let plain = patterns::texts(pattern)
                .is_some_and(|texts| texts.texts.iter().all(|text| !text.starts_with('/')))
                && prefix == "/";
            return Ok(if plain { pattern.to_owned() } else { format!("^{from}.*?(?:{pattern})") });
        };
        if patterns::has_anchor(rest) {
            return Err(own.into());
        }
        return Ok(format!("^{from}{}", rest.strip_prefix("/?").unwrap_or(rest)));
    }
    match parts.iter().any(|part| patterns::has_anchor(part.strip_prefix('^').unwrap_or(part))) {
        true => Err(own.into()),
        false => Ok(format!("^{from}(?:{})", joined_parts(&parts))),
    }
}

/// Alternatives behind the directory: what has no anchor stands anywhere.
fn joined_parts(parts: &[String]) -> String {
    let one = |part: &String| match part.strip_prefix('^') {
        Some(rest) => rest.strip_prefix("/?").unwrap_or(rest).to_owned(),
        None => format!(".*?{part}"),
    };
    parts.iter().map(one).collect::<Vec<_>>().join("|")
}

/// What the rule of [`directories`] comes to.
pub(crate) const MISSING: &str = "without the files that are there now: what is missing beside some of them, and a \
                                  script that is missing, is 404";

/// What a rule is not for.
pub(crate) enum Excepted {
    /// Nothing.
    Nothing,
    /// Files.
    Files,
    /// Directories, with what may be missing in them; and whether some have no files themselves.
    Directories(bool),
}

/// The same paths, with the directories of files in the place of these, and an ending in the place of the scripts; and whether
/// some directories have no files themselves.
pub(crate) fn directories(paths: &[String], prefix: &str) -> (Vec<String>, bool) {
    let parent = |path: &str| path.trim_end_matches('/').rfind('/').map(|at| path[..=at].to_owned());
    let mut own: BTreeSet<String> = BTreeSet::new();
    let mut found: Vec<String> = Vec::new();
    for path in paths.iter().filter(|path| !path.ends_with('/')) {
        let directory = parent(path).unwrap_or_default();
        let beside = directory.len() <= prefix.len();
        match path.ends_with(".php") {
            true if path.ends_with("/index.php") && !beside => {
                found.extend([directory.trim_end_matches('/').to_owned(), directory]);
            }
            true => {}
            false if beside => found.push(path.clone()),
            false => {
                own.insert(directory);
            }
        }
    }
    let scripts = format!("{prefix}*.php");
    found.extend([scripts.clone(), format!("{scripts}/*")]);
    let mut emptier = false;
    loop {
        let within = |path: &String| {
            own.iter().any(|other| path.starts_with(other.as_str()) && path.len() > other.len())
        };
        let outer: BTreeSet<String> = own.iter().filter(|path| !within(path)).cloned().collect();
        let deepest = outer.iter().map(|path| path.matches('/').count()).max().unwrap_or(0);
        own = outer;
        if own.len() * 2 + found.len() <= EXCEPT_MAX || deepest <= prefix.matches('/').count() + 1 {
            break;
        }
        emptier = true;
        let up = |path: &String| match path.matches('/').count() == deepest {
            true => parent(path).unwrap_or_default(),
            false => path.clone(),
        };
        own = own.iter().map(up).collect();
    }
    let both = |path: &String| [path.trim_end_matches('/').to_owned(), format!("{path}*")];
    found.retain(|path| !own.iter().any(|directory| path.starts_with(directory.as_str())));
    found.extend(own.iter().flat_map(both));
    found.dedup();
    (found, emptier)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_files_become_directories() {
        let mut paths: Vec<String> =
            ["/", "/index.php", "/robots.txt", "/blog/", "/blog/index.php", "/lib/", "/lib/deep/"]
                .map(str::to_owned)
                .to_vec();
        paths.extend((0..50).map(|number| format!("/lib/deep/{number}.js")));
        let (found, emptier) = directories(&paths, "/");
        assert_eq!(
            found,
            ["/robots.txt", "/blog", "/blog/", "/*.php", "/*.php/*", "/lib/deep", "/lib/deep/*"]
        );
        assert!(!emptier);
        // Directories of directories, where even these are too many.
        paths.extend((0..50).map(|number| format!("/pages/{number}/text.html")));
        let (found, emptier) = directories(&paths, "/");
        assert!(emptier && found.contains(&"/pages/*".to_owned()) && found.len() < EXCEPT_MAX, "{found:?}");
    }

    #[test]
    fn expressions_are_about_what_is_behind_their_directory() {
        for (pattern, whole) in [
            ("^a/(.*)$", "^/x/a/(.*)$"),
            (r"(^|/)\.", r"^/x/(?:\.|.*?/\.)"),
            ("^a$|^b$", "^/x/(?:a$|b$)"),
            (r"([^/]*)\.js$", r"^/x/.*?(?:([^/]*)\.js$)"),
            ("^/?a", "^/x/a"),
        ] {
            assert_eq!(below("/x/", pattern).unwrap(), whole, "{pattern}");
        }
        assert!(below("/x/", "a(b|^c)").is_err());
    }
}
