//! Links of the documents: where they lead, and whether that is there. Addresses on other hosts are left alone.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::process::Command;

use crate::Result;

/// A link in a page: the line, the byte where its target begins, and the target as it is written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) line: usize,
    pub(crate) at: usize,
    pub(crate) target: String,
}

/// The Markdown documents that git knows or would add, without what runs have left behind.
///
/// # Errors
/// If git does not list them.
pub(crate) fn documents(root: &Path) -> Result<Vec<String>> {
    let listing = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.md"])
        .current_dir(root)
        .output()?;
    if !listing.status.success() {
        return Err(format!("git lists no files: {}", String::from_utf8_lossy(&listing.stderr)).into());
    }
    let names = String::from_utf8(listing.stdout)?;
    let wanted = names.lines().filter(|name| !name.starts_with("bench/runs/") && root.join(name).exists());
    Ok(wanted.map(str::to_owned).collect())
}

/// Fenced blocks and code spans are made blank, byte by byte, so that places stay.
fn without_code(text: &str) -> String {
    let mut out = String::new();
    let mut fenced = false;
    for line in text.split_inclusive('\n') {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        if fenced || fence {
            out.extend(line.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
            continue;
        }
        let odd = line.matches('`').count() % 2 == 1;
        for (number, part) in line.split('`').enumerate() {
            if number > 0 {
                out.push(' ');
            }
            // A span that goes on in the next line has no link in it.
            if number % 2 == 1 && !odd {
                out.extend(part.bytes().map(|_| ' '));
            } else {
                out += part;
            }
        }
    }
    out
}

/// The links and pictures of a page.
pub(crate) fn links(text: &str) -> Vec<Link> {
    let code = without_code(text);
    let mut found = Vec::new();
    for (begin, _) in code.match_indices("](") {
        let at = begin + 2;
        let Some(end) = code.get(at..).and_then(|rest| rest.find([')', '\n'])) else { continue };
        let target = code.get(at..at + end).unwrap_or_default();
        let line = code.get(..at).unwrap_or_default().matches('\n').count() + 1;
        found.push(Link { line, at, target: target.to_owned() });
    }
    found
}

/// The path that a target leads to, from the root of the repository; `None` for addresses elsewhere, and within the page.
pub(crate) fn resolve(page: &str, target: &str) -> Option<String> {
    let path = target.split('#').next()?;
    if path.is_empty() || path.contains("://") || path.starts_with("mailto:") || path.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            other => parts.push(other),
        }
    }
    Some(parts.join("/"))
}

/// The anchors of a page: its headings, as GitHub and mdBook name them, and those that are written.
fn anchors(text: &str) -> HashSet<String> {
    let mut found = HashSet::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced {
            continue;
        }
        found.extend(line.split("id=\"").skip(1).filter_map(|rest| Some(rest.split('"').next()?.to_owned())));
        let heading = line.trim_start_matches('#');
        if heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let shown: String =
            heading.trim().split("](").enumerate().fold(String::new(), |shown, (at, part)| {
                shown + if at == 0 { part } else { part.split_once(')').map_or(part, |(_, rest)| rest) }
            });
        let name: String = shown
            .to_lowercase()
            .chars()
            .filter_map(|c| match c {
                ' ' => Some('-'),
                c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
                _ => None,
            })
            .collect();
        let before = seen.entry(name.clone()).and_modify(|count| *count += 1).or_default();
        found.insert(if *before == 0 { name } else { format!("{name}-{before}") });
    }
    found
}

/// Relative links of these pages that lead to no file, or to no heading of it.
///
/// # Errors
/// If a page cannot be read.
pub(crate) fn check(root: &Path, pages: &[String]) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(root.join(page))?;
        for Link { line, target, .. } in links(&text) {
            let path = match resolve(page, &target) {
                Some(path) => path,
                None if target.starts_with('#') => page.clone(),
                None => continue,
            };
            let fragment = target.split_once('#').map(|(_, fragment)| fragment);
            if path.starts_with("..") || !root.join(&path).exists() {
                wrong.push(format!("{page}:{line}: {target}: there is no {path}"));
            } else if let Some(fragment) = fragment.filter(|_| path.ends_with(".md"))
                && !anchors(&std::fs::read_to_string(root.join(&path))?).contains(fragment)
            {
                wrong.push(format!("{page}:{line}: {target}: {path} has no heading of that name"));
            }
        }
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_the_documents_lead_somewhere() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let pages = documents(&root).unwrap();
        assert!(pages.len() > 50, "{pages:?}");
        let wrong = check(&root, &pages).unwrap();
        assert!(wrong.is_empty(), "{} links:\n  {}", wrong.len(), wrong.join("\n  "));
    }

    #[test]
    fn links_are_read() {
        let text = "[a](b.md) `[c](d.md)`\n```\n[e](f.md)\n```\n![ä](g.svg)\n";
        let found = links(text);
        let targets: Vec<_> = found.iter().map(|link| (link.line, link.target.as_str())).collect();
        assert_eq!(targets, [(1, "b.md"), (5, "g.svg")]);
        assert!(found.iter().all(|link| text[link.at..].starts_with(&link.target)));
    }

    #[test]
    fn what_is_not_there_is_found() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("docs")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(place.path().join(name), text).unwrap();
        write(
            "README.md",
            "# A `b` (c)\n## Two\n## Two\n[x](docs/a.md#one-word)\n[x](#two-1) [x](https://a/b)\n",
        );
        write(
            "docs/a.md",
            "# One word\n[x](../README.md#a-b-c) [x](b.md)\n[x](../README.md#three) [x](../../x)\n",
        );
        let pages = ["README.md".to_owned(), "docs/a.md".to_owned()];
        assert_eq!(
            check(place.path(), &pages).unwrap(),
            [
                "docs/a.md:2: b.md: there is no docs/b.md",
                "docs/a.md:3: ../README.md#three: README.md has no heading of that name",
                "docs/a.md:3: ../../x: there is no ../x",
            ]
        );
    }
}
