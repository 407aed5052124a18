//! The page that lists a directory.

use std::os::fd::{AsFd, OwnedFd};

use maitred_http::{date, uri};
use rustix::fs::{AtFlags, Dir, FileType, Stat};
use rustix::io::Errno;

/// Entries of one listing. More are read neither from the disk nor into memory; the page says that some are missing.
/// About 1 MB of page.
pub(super) const LISTING_ENTRIES_MAX: usize = 4096;

/// What is shown of a directory.
#[derive(Debug)]
pub(super) struct Listing {
    items: Vec<Item>,
    /// Whether there are more entries than are listed.
    cut: bool,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Item {
    /// Directories come first.
    is_file: bool,
    name: Vec<u8>,
    size: u64,
    /// Seconds since the Unix epoch.
    mtime: u64,
}

/// Reads a directory. Names with a dot at the start are shown if `hidden`; only files and directories are. `follow`
/// says what a symbolic link leads to, or nothing if it may not be followed.
pub(super) fn read(
    directory: OwnedFd,
    hidden: bool,
    follow: &mut dyn FnMut(&[u8]) -> Option<Stat>,
) -> Result<Listing, Errno> {
    let at = rustix::io::dup(directory.as_fd())?;
    let mut listing = Listing { items: Vec::new(), cut: false };
    for entry in Dir::new(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_bytes().starts_with(b".") && (!hidden || matches!(name.to_bytes(), b"." | b"..")) {
            continue;
        }
        if listing.items.len() == LISTING_ENTRIES_MAX {
            listing.cut = true;
            break;
        }
        // An entry that is gone by now is left out.
        let Ok(mut stat) = rustix::fs::statat(&at, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            let Some(target) = follow(name.to_bytes()) else { continue };
            stat = target;
        }
        listing.items.extend(Item::of(name.to_bytes(), &stat));
    }
    listing.items.sort_unstable();
    Ok(listing)
}

impl Item {
    #[allow(clippy::unnecessary_cast, reason = "widths differ between architectures")]
    fn of(name: &[u8], stat: &Stat) -> Option<Item> {
        let is_file = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => true,
            FileType::Directory => false,
            _ => return None,
        };
        let mtime = u64::try_from(stat.st_mtime as i64).unwrap_or(0);
        Some(Item { is_file, name: name.to_vec(), size: u64::try_from(stat.st_size).unwrap_or(0), mtime })
    }
}

const STYLE: &str = "<style>:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;\
max-width:60rem;padding:0 1rem}table{border-collapse:collapse;width:100%}td{padding:.15rem .5rem;\
border-top:1px solid #8884}td+td{text-align:right;white-space:nowrap;color:GrayText;\
font-variant-numeric:tabular-nums}a{text-decoration:none;overflow-wrap:anywhere}a:hover{text-decoration:underline}\
h1{font-size:1.25rem;overflow-wrap:anywhere}</style>";

/// The page, in UTF-8. `path` is the request's path; `parent` says whether a link leads up.
pub(super) fn html(path: &[u8], listing: &Listing, parent: bool) -> Vec<u8> {
    let mut page = Vec::with_capacity(1024 + listing.items.len() * 192);
    page.extend_from_slice(
        b"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
        <meta name=\"viewport\" content=\"width=device-width\"><title>Index of ",
    );
    escape(path, &mut page);
    page.extend_from_slice(b"</title>");
    page.extend_from_slice(STYLE.as_bytes());
    page.extend_from_slice(b"</head>\n<body><h1>Index of ");
    escape(path, &mut page);
    page.extend_from_slice(b"</h1>\n<table>\n");
    if parent {
        page.extend_from_slice(b"<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
    }
    for item in &listing.items {
        row(item, &mut page);
    }
    page.extend_from_slice(b"</table>\n");
    if listing.cut {
        let note =
            format!("<p>Only the first {LISTING_ENTRIES_MAX} entries that were found are listed.</p>\n");
        page.extend_from_slice(note.as_bytes());
    }
    page.extend_from_slice(b"</body></html>\n");
    page
}

fn row(item: &Item, page: &mut Vec<u8>) {
    let slash: &[u8] = if item.is_file { b"" } else { b"/" };
    // The dot keeps a name with a colon from being read as a scheme (RFC 3986 section 4.2).
    page.extend_from_slice(b"<tr><td><a href=\"./");
    uri::encode_path(&item.name, page);
    page.extend_from_slice(slash);
    page.extend_from_slice(b"\">");
    escape(&item.name, page);
    page.extend_from_slice(slash);
    page.extend_from_slice(b"</a></td><td>");
    if item.is_file {
        page.extend_from_slice(human_size(item.size).as_bytes());
    }
    page.extend_from_slice(b"</td><td>");
    // `06 Nov 1994 08:49` out of the middle of an HTTP date.
    page.extend_from_slice(date::format(item.mtime).get(5..22).unwrap_or_default());
    page.extend_from_slice(b"</td></tr>\n");
}

/// `12 B`, `3.4 KiB`, `5.6 GiB`
fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = "KiB";
    for larger in UNITS.iter().skip(1) {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    format!("{value:.1} {unit}")
}

/// Appends text for HTML content or a quoted attribute; what is not UTF-8 becomes replacement characters.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    for byte in String::from_utf8_lossy(text).bytes() {
        match byte {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            b'\'' => out.extend_from_slice(b"&#39;"),
            _ => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str, is_file: bool, size: u64) -> Item {
        Item { is_file, name: name.as_bytes().to_vec(), size, mtime: 784_111_777 }
    }

    #[test]
    fn names_cannot_break_out_of_the_page() {
        let items = vec![item("<script>alert('x')</script>\"&", true, 1), item("javascript:x", true, 0)];
        let page = html(b"/<b>/", &Listing { items, cut: false }, true);
        let page = String::from_utf8(page).unwrap();
        assert!(!page.contains("<script") && !page.contains("<b>"), "{page}");
        assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;"));
        assert!(page.contains("href=\"./%3Cscript%3Ealert(%27x%27)%3C/script%3E%22%26\""));
        assert!(page.contains("href=\"./javascript:x\""));
        assert!(page.contains("06 Nov 1994 08:49"));
    }

    #[test]
    fn directories_come_first_and_hidden_names_only_when_asked_for() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("zoo")).unwrap();
        for name in ["b", "a", ".secret"] {
            std::fs::write(root.path().join(name), "x").unwrap();
        }
        std::os::unix::fs::symlink("/etc/passwd", root.path().join("link")).unwrap();
        let names = |hidden| {
            let directory = std::fs::File::open(root.path()).unwrap().into();
            let listing = read(directory, hidden, &mut |_| None).unwrap();
            listing.items.into_iter().map(|item| String::from_utf8(item.name).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(names(false), ["zoo", "a", "b"]);
        assert_eq!(names(true), ["zoo", ".secret", "a", "b"]);
    }

    #[test]
    fn a_large_directory_is_cut() {
        let root = tempfile::tempdir().unwrap();
        for nth in 0..=LISTING_ENTRIES_MAX {
            std::fs::File::create(root.path().join(nth.to_string())).unwrap();
        }
        let directory = std::fs::File::open(root.path()).unwrap().into();
        let listing = read(directory, false, &mut |_| None).unwrap();
        assert_eq!((listing.items.len(), listing.cut), (LISTING_ENTRIES_MAX, true));
    }

    #[test]
    fn sizes_are_readable() {
        for (bytes, expected) in [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB")] {
            assert_eq!(human_size(bytes), expected);
        }
    }
}
