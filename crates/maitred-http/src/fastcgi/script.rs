//! Which part of a path is a script, and which is its `PATH_INFO`: for PHP, as nginx's
//! `fastcgi_split_path_info ^(.+?\.php)(/.*)$` and `fastcgi_index` say it, with what that leaves open closed.
//!
//! **What the caller has to do as well:** look whether the file of the script exists, wherever the files are on this machine,
//! and answer 404 if not. `/upload/evil.jpg/x.php` is a script by its name. PHP looks for that file, does not find it, and with
//! its default `cgi.fix_pathinfo = 1` takes `/upload/evil.jpg` instead: an image that was uploaded, with code inside. php-fpm
//! refuses that by `security.limit_extensions` (default `.php`); php-cgi has no such list, and runs it (both seen with 8.2).

use std::fmt;

/// The ending of PHP's scripts.
pub const ENDING: &[u8] = b".php";

/// A script, and what follows it in the path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Script<'p> {
    /// The path up to the end of the script's name; up to the last slash if `index` is not empty.
    pub name: &'p [u8],
    /// The file that was added to a path with a slash at its end, or empty.
    pub index: &'p [u8],
    /// `PATH_INFO`: empty, or what begins with the slash behind the script.
    pub path_info: &'p [u8],
}

/// Why a path is neither a script nor a file. The client gets 404; nothing of it may be run, or served as a file: source
/// code has passwords in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The path does not begin with a slash.
    NotAbsolute,
    /// The path has a NUL byte, where C programs see its end: `/evil.jpg\0.php` would run `evil.jpg` (CVE-2006-7243). The
    /// server's own URI parser refuses it before.
    Nul,
    /// A segment is the ending alone (`/.php`): a hidden file. No script has no name.
    NoName,
    /// A segment has the ending in another case before any that has it exactly (`/a.PHP`). Whether that is a script depends
    /// on the file system and on PHP's list of endings, which compares by the letter; on a file system that ignores case it
    /// is the source of `/a.php`.
    Case,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAbsolute => "path of a script does not begin with a slash",
            Self::Nul => "NUL byte in the path of a script",
            Self::NoName => "script without a name",
            Self::Case => "ending of a script in another case",
        })
    }
}

impl std::error::Error for Refused {}

/// Finds the script in `path`, which is decoded and without dot segments: it ends with the first segment that has `ending`
/// (`.php`, its dot included), as the expression above finds it, and what follows is `PATH_INFO`. So `/a.php/b.php` is `/a.php`
/// with the `PATH_INFO` `/b.php`. A path without a script that ends in a slash is that of the `index` in that directory.
///
/// `None`: not a script. The path may be a file, or belongs to the front controller; for that, make a [`Script`] with its name,
/// such as `/index.php`.
///
/// Nothing here folds the case of letters outside ASCII, which changes their length (CVE-2026-27590). A line break is a byte as
/// any other: nginx's expression does not match `/index.php/a%0Ab`, and php-fpm overran a buffer with the empty `PATH_INFO` that
/// it then got (CVE-2019-11043).
///
/// # Errors
/// [`Refused`]: neither a script nor a file.
pub fn split<'p>(
    path: &'p [u8],
    index: Option<&'p [u8]>,
    ending: &[u8],
) -> Result<Option<Script<'p>>, Refused> {
    if path.first() != Some(&b'/') {
        return Err(Refused::NotAbsolute);
    }
    if path.contains(&0) {
        return Err(Refused::Nul);
    }
    let mut end = 0;
    for segment in path.split(|byte| *byte == b'/') {
        end += segment.len();
        if has_ending(segment, ending) {
            let (name, path_info) = path.split_at_checked(end).unwrap_or((path, b""));
            return match segment.len() == ending.len() {
                true => Err(Refused::NoName),
                false if !segment.ends_with(ending) => Err(Refused::Case),
                false => Ok(Some(Script { name, index: b"", path_info })),
            };
        }
        // The slash.
        end += 1;
    }
    let is_script =
        |index: &&[u8]| has_ending(index, ending) && index.ends_with(ending) && index.len() > ending.len();
    let index = index.filter(|index| path.ends_with(b"/") && is_script(index));
    Ok(index.map(|index| Script { name: path, index, path_info: b"" }))
}

/// Whether a name ends in `ending`, in any case of its ASCII letters. A file of such a name is source code, and is not
/// served as a file, whatever the routes say.
pub fn has_ending(name: &[u8], ending: &[u8]) -> bool {
    let start = name.len().checked_sub(ending.len());
    let found = start.and_then(|start| name.get(start..));
    !ending.is_empty() && found.is_some_and(|found| found.eq_ignore_ascii_case(ending))
}
