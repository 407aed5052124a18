//! Files that become code of this program: whether another account can decide what they are.
//!
//! An account decides that which may write the file, or which may put another one in its place: its name in a directory, a link
//! on the way to it, or a directory above. So each step of a path is looked at, as the kernel takes it (path_resolution(7)).
//! Access control lists are not seen.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// How many links one path may lead over: as many as the kernel follows.
const LINKS_MAX: usize = 40;
/// Names that a path may have, with those of its links: the kernel takes no path of more than 4,096 bytes.
const STEPS_MAX: usize = 2048;

/// What stands in the way of trusting a file.
#[derive(Debug)]
pub enum Distrust {
    /// A path cannot be looked at.
    Unseen(PathBuf, io::Error),
    /// Another account may write it.
    Writable(PathBuf, Why),
}

/// Who may write a path, and by what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The path belongs to this account.
    Owner(u32),
    /// The mode of the path lets this group write.
    Group(u32),
    /// The mode of the path lets all accounts write.
    Everyone,
}

impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Owner(uid) => write!(out, "it belongs to the account {uid}"),
            Why::Group(gid) => write!(out, "its mode lets the group {gid} write"),
            Why::Everyone => out.write_str("its mode lets all accounts write"),
        }
    }
}

impl fmt::Display for Distrust {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distrust::Unseen(path, error) => write!(out, "{}: {error}", path.display()),
            Distrust::Writable(path, why) => write!(
                out,
                "another account could decide what is loaded: {} can be written by others than root and the account that \
                 starts the server ({why}); give it to root, and take the right to write from all others (chmod go-w)",
                path.display()
            ),
        }
    }
}

/// Checks that only root and `owner` decide what a path leads to. A group without other members counts as they do: where each
/// account has a group of its own, files are often writable for that.
///
/// # Errors
/// The first path on the way that others may write, or that cannot be looked at.
pub fn check(path: &Path, owner: u32) -> Result<(), Distrust> {
    check_with(path, owner, |gid| {
        let read = |path| std::fs::read_to_string(path).ok();
        let databases = read("/etc/passwd").zip(read("/etc/group"));
        databases.is_some_and(|(accounts, groups)| is_private(&accounts, &groups, gid, owner))
    })
}

/// Whether no other account than root and `owner` has this group, by passwd(5) and group(5). A group that is not among the local
/// ones may have any members.
fn is_private(accounts: &str, groups: &str, gid: u32, owner: u32) -> bool {
    let is_own = |uid: u32| uid == 0 || uid == owner;
    let mut own_names = vec![];
    for line in accounts.lines() {
        let mut fields = line.split(':');
        let (Some(name), Some(uid)) = (fields.next(), fields.nth(1).and_then(|uid| uid.parse().ok())) else {
            continue;
        };
        let primary = fields.next().and_then(|gid| gid.parse().ok());
        if is_own(uid) {
            own_names.push(name);
        } else if primary == Some(gid) {
            return false;
        }
    }
    let mut known = false;
    for line in groups.lines() {
        let mut fields = line.split(':').skip(2);
        if fields.next().and_then(|number| number.parse().ok()) != Some(gid) {
            continue;
        }
        known = true;
        let mut members =
            fields.next().unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty());
        if !members.all(|name| own_names.contains(&name)) {
            return false;
        }
    }
    known
}

fn check_with(path: &Path, owner: u32, private: impl Fn(u32) -> bool) -> Result<(), Distrust> {
    let path = std::path::absolute(path).map_err(|error| Distrust::Unseen(path.to_owned(), error))?;
    let mut present = PathBuf::from("/");
    judge(&present, owner, &private)?;
    let mut left: VecDeque<Step> = steps(&path).collect();
    let (mut links, mut taken) = (0, 0);
    while let Some(step) = left.pop_front() {
        taken += 1;
        let name = match step {
            _ if taken > STEPS_MAX => return Err(Distrust::Unseen(path, io::ErrorKind::InvalidInput.into())),
            Step::Root => {
                present = PathBuf::from("/");
                continue;
            }
            Step::Up => {
                present.pop();
                continue;
            }
            Step::Name(name) => name,
        };
        let next = present.join(name);
        if judge(&next, owner, &private)? {
            links += 1;
            if links > LINKS_MAX {
                let error = rustix::io::Errno::LOOP.into();
                return Err(Distrust::Unseen(next, error));
            }
            let target = std::fs::read_link(&next).map_err(|error| Distrust::Unseen(next, error))?;
            steps(&target).collect::<Vec<_>>().into_iter().rev().for_each(|step| left.push_front(step));
        } else {
            present = next;
        }
    }
    // What a library needs may be sought beside it, by names that are not there yet: in a directory like /tmp, by those of
    // others.
    let Some(directory) = present.parent() else { return Ok(()) };
    let found = look(directory)?;
    match writer(&found, owner, false, &private) {
        Some(why) => Err(Distrust::Writable(directory.to_owned(), why)),
        None => Ok(()),
    }
}

/// What a path leads over.
enum Step {
    Root,
    Up,
    Name(OsString),
}

fn steps(path: &Path) -> impl Iterator<Item = Step> {
    path.components().filter_map(|component| match component {
        Component::RootDir => Some(Step::Root),
        Component::ParentDir => Some(Step::Up),
        Component::Normal(name) => Some(Step::Name(name.to_owned())),
        Component::CurDir | Component::Prefix(_) => None,
    })
}

fn look(path: &Path) -> Result<Metadata, Distrust> {
    path.symlink_metadata().map_err(|error| Distrust::Unseen(path.to_owned(), error))
}

/// Whether it is a link, if others may not write it.
fn judge(path: &Path, owner: u32, private: &impl Fn(u32) -> bool) -> Result<bool, Distrust> {
    let found = look(path)?;
    let is_link = found.file_type().is_symlink();
    // The mode of a link means nothing. In a directory like /tmp each name belongs to its owner, who is looked at next.
    let sticky = found.is_dir() && found.mode() & 0o1000 != 0;
    match writer(&found, owner, is_link || sticky, private) {
        Some(why) => Err(Distrust::Writable(path.to_owned(), why)),
        None => Ok(is_link),
    }
}

/// By what others may write what this describes; `owner_only` leaves out the mode.
fn writer(found: &Metadata, owner: u32, owner_only: bool, private: &impl Fn(u32) -> bool) -> Option<Why> {
    if found.uid() != 0 && found.uid() != owner {
        return Some(Why::Owner(found.uid()));
    }
    if owner_only {
        return None;
    }
    if found.mode() & 0o002 != 0 {
        return Some(Why::Everyone);
    }
    (found.mode() & 0o020 != 0 && !private(found.gid())).then_some(Why::Group(found.gid()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A directory of the account of this test, with a file `a/lib.so` that no other account may write.
    fn scene() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        mode(dir.path(), 0o755);
        let inner = dir.path().join("a");
        std::fs::create_dir(&inner).unwrap();
        mode(&inner, 0o755);
        let file = inner.join("lib.so");
        std::fs::write(&file, "").unwrap();
        mode(&file, 0o755);
        (dir, file)
    }

    fn own() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn verdict(path: &Path) -> Result<(), Distrust> {
        check_with(path, own(), |_| false)
    }

    /// What is refused, as the path below the scene's directory and why.
    #[track_caller]
    fn refused(dir: &Path, path: &Path) -> (PathBuf, Why) {
        match verdict(path) {
            Err(Distrust::Writable(path, why)) => (path.strip_prefix(dir).unwrap().to_owned(), why),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_file_and_each_directory_above_it_count() {
        let (dir, file) = scene();
        verdict(&file).unwrap();
        for (path, shown) in [(file.as_path(), "a/lib.so"), (file.parent().unwrap(), "a"), (dir.path(), "")] {
            for (bits, why) in [(0o777, Why::Everyone), (0o757, Why::Everyone)] {
                mode(path, bits);
                assert_eq!(refused(dir.path(), &file), (shown.into(), why), "{bits:o}");
            }
            mode(path, 0o775);
            assert!(matches!(refused(dir.path(), &file), (_, Why::Group(_))), "{shown}");
            check_with(&file, own(), |_| true).expect("a group without other members");
            mode(path, 0o755);
        }
        verdict(&file).unwrap();
    }

    #[test]
    fn a_group_is_private_if_no_other_account_has_it() {
        let accounts =
            "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/srv/ann:/bin/sh\nbob:x:1001:50::/srv/bob:/bin/sh\n";
        let groups =
            "root:x:0:\nann:x:1000:\nstaff:x:50:\nboth:x:60:ann,bob\nadmins:x:70:ann,root\nempty:x:80:\n";
        let private = |gid, owner| is_private(accounts, groups, gid, owner);
        assert!(private(1000, 1000) && private(70, 1000) && private(80, 1000) && private(0, 1000));
        assert!(!private(1000, 0), "the group of another");
        assert!(!private(50, 1000), "the first group of another");
        assert!(!private(60, 1000), "another is a member");
        assert!(!private(90, 1000), "its members are not known");
    }

    #[test]
    fn names_in_a_sticky_directory_belong_to_their_owners_but_not_those_beside_the_file() {
        let (dir, file) = scene();
        mode(dir.path(), 0o1777);
        verdict(&file).unwrap();
        mode(file.parent().unwrap(), 0o1777);
        assert_eq!(refused(dir.path(), &file), ("a".into(), Why::Everyone));
    }

    #[test]
    fn each_link_on_the_way_counts_with_the_directory_that_it_stands_in() {
        let (dir, file) = scene();
        let links = dir.path().join("links");
        std::fs::create_dir(&links).unwrap();
        mode(&links, 0o755);
        symlink("../a", links.join("to_directory")).unwrap();
        symlink("to_directory/lib.so", links.join("lib.so")).unwrap();
        symlink(&file, links.join("whole.so")).unwrap();
        let all = ["lib.so", "whole.so", "to_directory/lib.so", "../links/lib.so"];
        for name in all {
            verdict(&links.join(name)).unwrap();
        }
        mode(&links, 0o777);
        for name in all {
            assert_eq!(refused(dir.path(), &links.join(name)), ("links".into(), Why::Everyone), "{name}");
        }
        mode(&links, 0o755);
        mode(&file, 0o666);
        for name in all {
            assert_eq!(refused(dir.path(), &links.join(name)), ("a/lib.so".into(), Why::Everyone), "{name}");
        }
    }

    #[test]
    fn another_owner_decides_whatever_the_mode() {
        let (dir, file) = scene();
        let stranger = own().wrapping_add(1);
        match check_with(&file, stranger, |_| false) {
            // Root may write anything.
            Ok(()) => assert_eq!(own(), 0),
            Err(Distrust::Writable(path, why)) => {
                assert_eq!((path.as_path(), why), (dir.path(), Why::Owner(own())));
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn links_in_a_circle_and_files_that_are_not_there_are_said() {
        let (dir, file) = scene();
        symlink("round", dir.path().join("round")).unwrap();
        assert!(matches!(verdict(&dir.path().join("round")), Err(Distrust::Unseen(..))));
        let missing = file.with_file_name("missing.so");
        let said = verdict(&missing).unwrap_err().to_string();
        assert!(said.contains("missing.so: No such file"), "{said}");
    }
}
