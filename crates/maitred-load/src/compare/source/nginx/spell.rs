//! Other spellings of a target: what servers merge, decode, resolve or refuse.

/// A spelling, and what it is called in the report.
pub(super) type Spelling = (&'static str, String);

/// Spellings of a path that begins with `/`, in the form of a target.
pub(super) fn spellings(path: &str) -> Vec<Spelling> {
    let bare = path.trim_end_matches('/');
    let (directory, last) = bare.rsplit_once('/').unwrap_or(("", ""));
    let letter = path.char_indices().find(|(_, char)| char.is_ascii_alphanumeric());
    let mut all = vec![
        ("two slashes at the start", format!("/{path}")),
        ("/./ at the start", format!("/.{path}")),
        ("/x/../ at the start", format!("/x/..{path}")),
        ("/.. at the start", format!("/..{path}")),
        ("a dot at the end", format!("{path}.")),
        ("/. at the end", format!("{bare}/.")),
        ("/.. at the end", format!("{bare}/..")),
        ("%20 at the end", format!("{path}%20")),
        ("%00 at the end", format!("{path}%00")),
        ("%zz at the end", format!("{path}%zz")),
        ("%2F at the end", format!("{bare}%2F")),
        ("%3F for a question mark", format!("{path}%3Fa=b")),
        ("%C3%A9 at the end", format!("{path}%C3%A9")),
        ("a parameter", format!("{path};a=b")),
        ("an empty query", format!("{path}?")),
        ("a query", format!("{path}?a=b&c=%20d+e")),
        ("..%2f at the end", format!("{bare}/..%2f..%2fetc/passwd")),
        ("%2e%2e/ in the middle", format!("{directory}/x/%2e%2e/{last}")),
        ("a backslash", format!("{directory}\\{last}")),
        ("two slashes in the middle", format!("{directory}//{last}")),
        ("%2F in the middle", format!("{directory}%2F{last}")),
        ("upper case", path.to_ascii_uppercase()),
        ("lower case", path.to_ascii_lowercase()),
        (
            "with or without / at the end",
            if path.ends_with('/') { bare.to_owned() } else { format!("{path}/") },
        ),
    ];
    if let Some((at, char)) = letter {
        let (before, after) = (path.get(..at).unwrap_or_default(), path.get(at + 1..).unwrap_or_default());
        all.push(("an encoded letter", format!("{before}%{:02x}{after}", u32::from(char))));
    }
    let is_target = |target: &str| target.starts_with('/') || target.starts_with("%2F");
    let mut seen = vec![path.to_owned()];
    all.retain(|(_, target)| {
        let is_new = !seen.contains(target) && is_target(target);
        seen.push(target.clone());
        is_new
    });
    all
}

/// A path as a target: what may not stand in one is encoded.
pub(super) fn encoded(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_many_spellings_and_each_once() {
        let all = spellings("/a/B.txt");
        let get =
            |name: &str| all.iter().find(|(other, _)| *other == name).map(|(_, target)| target.as_str());
        for (name, target) in [
            ("two slashes at the start", "//a/B.txt"),
            ("two slashes in the middle", "/a//B.txt"),
            ("%2F in the middle", "/a%2FB.txt"),
            ("%20 at the end", "/a/B.txt%20"),
            ("/./ at the start", "/./a/B.txt"),
            ("..%2f at the end", "/a/B.txt/..%2f..%2fetc/passwd"),
            ("upper case", "/A/B.TXT"),
            ("with or without / at the end", "/a/B.txt/"),
            ("an encoded letter", "/%61/B.txt"),
        ] {
            assert_eq!(get(name), Some(target));
        }
        for path in ["/", "/a", "/a/", "/a/B.txt"] {
            let mut targets: Vec<String> = spellings(path).into_iter().map(|(_, target)| target).collect();
            assert!(targets.len() > 12 && !targets.iter().any(|target| target == path || target.is_empty()));
            targets.sort();
            let count = targets.len();
            targets.dedup();
            assert_eq!(targets.len(), count, "{path}");
        }
    }

    #[test]
    fn what_may_not_stand_in_a_target_is_encoded() {
        assert_eq!(encoded("/a b?c#é%"), "/a%20b%3Fc%23%C3%A9%25");
    }
}
