//! Files that are source code, in a site with applications that would run them.
//!
//! All sets of such a site refuse these files where a found file is made into a response (`resolve::with_siblings`), the one
//! place that routes, index files, `try`, error pages and codings have in common. So do sets of other sites whose files are, by
//! whatever links, those of a FastCGI pool (`maitred_policy::route::may_show`).

use maitred_http::fastcgi::script::{self, ENDING};

use super::prepare;
use maitred_config::Coding;

/// Endings of the copies that editors, patches and their users leave beside a file: Emacs (`a.php~`, `#a.php#`), Vim (`.swp`
/// and the names that it takes next, `.un~`), nano (`.save`), Kate, Midnight Commander, patch(1), and what people call a copy.
/// docs/php.md has the list.
const COPIES: [&[u8]; 22] = [
    b"~",
    b"#",
    b".swp",
    b".swo",
    b".swn",
    b".swx",
    b".un",
    b".kate-swp",
    b".mcswp",
    b".save",
    b".bak",
    b".bkp",
    b".back",
    b".backup",
    b".old",
    b".orig",
    b".rej",
    b".tmp",
    b".temp",
    b".copy",
    b".new",
    b".disabled",
];

/// The length of a number at the end, as copies have it: `.1`, `.20261123`, and `.~1` of Emacs, which writes `a.php.~1~`.
fn number(name: &[u8]) -> Option<usize> {
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let before = name.get(..name.len() - digits).filter(|_| digits > 0)?;
    let dot = [b".~".as_slice(), b"."].into_iter().find(|dot| before.ends_with(dot))?;
    Some(digits + dot.len())
}

/// Whether a file of this name is source code: its name ends in `.php`, in any case, or that has behind it the endings of codings
/// or of copies, numbers, or the dots and blanks that some file systems do not look at.
pub(super) fn is_source(path: &[u8]) -> bool {
    const CODINGS: [Coding; 3] = [Coding::Brotli, Coding::Zstd, Coding::Gzip];
    let endings = || CODINGS.iter().map(|coding| prepare::extension(*coding).as_bytes()).chain(COPIES);
    let ignored = |name: &[u8]| name.iter().rev().take_while(|byte| matches!(byte, b'.' | b' ')).count();
    let mut name = path;
    loop {
        name = name.get(..name.len() - ignored(name)).unwrap_or_default();
        let end = endings().find(|end| script::has_ending(name, end)).map(<[u8]>::len);
        match end.or_else(|| number(name)) {
            Some(bytes) => name = name.get(..name.len() - bytes).unwrap_or_default(),
            None => return script::has_ending(name, ENDING),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_sources_are_sources() {
        for end in COPIES {
            let name = [b"/a.PHP".as_slice(), &end.to_ascii_uppercase()].concat();
            assert!(is_source(&name), "{}", name.escape_ascii());
            assert!(!is_source(&[b"/a.html".as_slice(), end].concat()), "{}", end.escape_ascii());
        }
        for name in [
            "/a.php",
            "/a.php.gz",
            "/a.php.bak.zst",
            "/a.php.~1~",
            "/a.php.~12~",
            "/a.php.save.1",
            "/a.php.2026.bak.",
            "/#a.php#",
            "/.a.php.swp",
            "/.a.php.un~",
            "/a.php. .",
            "/a.php.orig.old~",
        ] {
            assert!(is_source(name.as_bytes()), "{name}");
        }
        for name in [
            "/a.phpx",
            "/php",
            "/a.php.html",
            "/a.php/x.js",
            "/1",
            "/.1",
            "",
            "/a.php1",
            "/a.php.txt",
            "/php.1",
        ] {
            assert!(!is_source(name.as_bytes()), "{name}");
        }
    }
}
