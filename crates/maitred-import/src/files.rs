//! Reading what is imported: bounded, and below a directory if one is given.

use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

/// Largest file, in bytes: lists of blocked addresses have some megabytes.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// A text, whatever its bytes are. Pipes and devices are refused: they would be waited for.
///
/// # Errors
/// Why it cannot be read.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let pipe_of_a_shell = path.starts_with("/dev") || path.starts_with("/proc");
    if !std::fs::metadata(path)?.is_file() && !pipe_of_a_shell {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is not a file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 8 MiB"));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Where an absolute path of a configuration is on this machine: below `root`, if one is given. `..` stays inside.
pub(crate) fn below(root: Option<&Path>, path: &Path) -> PathBuf {
    let Some(root) = root else { return path.to_owned() };
    let mut found = root.to_owned();
    let mut depth = 0;
    for part in path.components() {
        match part {
            Component::Normal(name) => {
                found.push(name);
                depth += 1;
            }
            Component::ParentDir if depth > 0 => {
                found.pop();
                depth -= 1;
            }
            _ => {}
        }
    }
    found
}

/// The files that a pattern with `*`, `?` and `[…]` names, in alphabetical order; a path without them names itself.
pub(crate) fn matching(pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for part in pattern.components() {
        let name = part.as_os_str().to_string_lossy();
        if !name.contains(['*', '?', '[']) {
            for path in &mut found {
                path.push(part);
            }
            continue;
        }
        found = found.iter().flat_map(|directory| entries(directory, &name)).collect();
    }
    found.retain(|path| path.exists());
    found
}

fn entries(directory: &Path, pattern: &str) -> Vec<PathBuf> {
    let Ok(listing) = std::fs::read_dir(directory) else { return Vec::new() };
    let names = listing.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names
        .filter(|name| name.starts_with('.') == pattern.starts_with('.') && glob(pattern, name))
        .collect();
    names.sort();
    names.into_iter().map(|name| directory.join(name)).collect()
}

/// Whether a name matches. Backtracking goes to the last star only, so that no pattern takes long.
fn glob(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n, mut star) = (0, 0, None);
    while let Some(c) = name.get(n) {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
                continue;
            }
            Some('[') => {
                if let Some((true, after)) = class(&pattern, p, *c) {
                    (p, n) = (after, n + 1);
                    continue;
                }
            }
            Some(wanted) if *wanted == '?' || wanted == c => {
                (p, n) = (p + 1, n + 1);
                continue;
            }
            _ => {}
        }
        let Some((at, taken)) = star else { return false };
        star = Some((at, taken + 1));
        (p, n) = (at + 1, taken + 1);
    }
    pattern.iter().skip(p).all(|c| *c == '*')
}

/// Whether a character is in the class that begins at `[`, and what stands behind the class.
fn class(pattern: &[char], open: usize, c: char) -> Option<(bool, usize)> {
    let mut at = open + 1;
    let negated = matches!(pattern.get(at), Some('!' | '^'));
    at += usize::from(negated);
    let first = at;
    let mut inside = false;
    loop {
        let from = *pattern.get(at)?;
        if from == ']' && at > first {
            return Some((inside != negated, at + 1));
        }
        match (pattern.get(at + 1), pattern.get(at + 2)) {
            (Some('-'), Some(to)) if *to != ']' => {
                inside |= (from..=*to).contains(&c);
                at += 3;
            }
            _ => {
                inside |= from == c;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_as_in_a_shell() {
        for (pattern, name) in
            [("*.conf", "a.conf"), ("a?c", "abc"), ("[0-9]*", "10-x"), ("*a*b*", "xaxbx"), ("[!a]", "b")]
        {
            assert!(glob(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("*.conf", "a.confx"), ("a?c", "ac"), ("[0-9]*", "x"), ("[a", "a"), ("*a", "b")]
        {
            assert!(!glob(pattern, name), "{pattern} {name}");
        }
        assert!(!glob(&"*a".repeat(50), &"a".repeat(49)));
    }

    #[test]
    fn nothing_leads_out_of_the_root() {
        let below = |path: &str| below(Some(Path::new("/r")), Path::new(path));
        assert_eq!(below("/etc/x"), Path::new("/r/etc/x"));
        assert_eq!(below("/../../etc/../x"), Path::new("/r/x"));
    }
}
