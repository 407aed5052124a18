//! The files that the master writes: logs, secrets of TLS sessions, the process id, the token of the admin address.
//!
//! The master may be root, and their directories may lie where others can write: an account that may put a symbolic link in the
//! place of a log would have root write into any file, as in CVE-2016-1247. So neither links nor anything but regular files are
//! opened, and a directory that an account of Maitred's other processes may write is refused.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use maitred_sys::spawn::Account;
use rustix::fs::{Access, AtFlags, OFlags};

use maitred_config::{Config, Identity};

/// The accounts that clients and applications may get hold of.
#[derive(Debug, Default)]
pub(crate) struct Outsiders(Vec<(String, Account)>);

impl Outsiders {
    /// The accounts of a configuration; none if the master is not root, since all are its own then.
    ///
    /// # Errors
    /// What looking up their groups says.
    pub(crate) fn of(config: &Config) -> io::Result<Outsiders> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Outsiders::default());
        }
        let users = config.pools.iter().filter_map(|pool| pool.user.as_ref());
        let account =
            |user: &Identity| Ok((user.name.clone(), Account::new(&user.name, user.uid, user.gid)?));
        let all = config.server.user.iter().chain(users).filter(|user| user.uid != 0).map(account);
        Ok(Outsiders(all.collect::<io::Result<_>>()?))
    }

    /// The first of them that may put another file in the place of one in this directory.
    fn writer_of(&self, directory: &Path) -> io::Result<Option<(&str, PathBuf)>> {
        for path in directory.ancestors() {
            let found = path.metadata()?;
            // In a directory like /tmp an account cannot move the files of others; but there may be a file before ours.
            let sticky = found.mode() & 0o1000 != 0 && path != directory;
            let writer = self.0.iter().find(|(_, account)| may_write(account, &found));
            if let Some((name, _)) = writer.filter(|_| !sticky) {
                return Ok(Some((name, path.to_owned())));
            }
        }
        Ok(None)
    }

    /// The path with its directory resolved, if no other account may write that directory or one above it.
    ///
    /// # Errors
    /// A text for the operator.
    pub(crate) fn check(&self, path: &Path) -> Result<PathBuf, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let name = path.file_name().ok_or_else(|| failed(&"this is no name of a file"))?;
        let directory =
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let directory = directory.canonicalize().map_err(|error| failed(&error))?;
        match self.writer_of(&directory).map_err(|error| failed(&error))? {
            None => Ok(directory.join(name)),
            Some((user, writable)) => Err(failed(&format_args!(
                "the account {user} may write the directory {}, and could have this server, as root, write to any file: \
                 give the directory to root",
                writable.display()
            ))),
        }
    }

    /// Opens a file to append to it; makes it, with this mode, if it is not there.
    ///
    /// # Errors
    /// A text for the operator.
    pub(crate) fn append(&self, path: &Path, mode: u32) -> Result<File, String> {
        let file = self.open(path, Missing::Make(mode))?;
        file.ok_or_else(|| format!("{}: it was not made", path.display()))
    }

    /// Whether [`Outsiders::append`] would open it. Makes and changes nothing.
    ///
    /// # Errors
    /// What that would say.
    pub(crate) fn judge_append(&self, path: &Path) -> Result<(), String> {
        self.open(path, Missing::Leave).map(drop)
    }

    /// `None` for a file that is missing, and could be made.
    fn open(&self, path: &Path, missing: Missing) -> Result<Option<File>, String> {
        let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        let nowhere = path == Path::new(NOWHERE);
        // A link of the system's own, which would lead to what standard output already is.
        if ["/dev", "/proc"].iter().any(|special| path.starts_with(special)) && !nowhere {
            return Err(failed(
                &"not a regular file; without a file, the access log goes to standard output and the error log to \
                                standard error",
            ));
        }
        let checked = self.check(path)?;
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = i32::try_from(flags.bits()).unwrap_or_default();
        let mut options = File::options();
        options.append(true).custom_flags(flags);
        if let Missing::Make(mode) = missing {
            options.create(true).mode(mode);
        }
        let file = match options.open(&checked) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound && missing == Missing::Leave => {
                return may_make(&checked).map(|()| None).map_err(|error| failed(&error));
            }
            Err(error) => {
                return Err(match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
                    Some(rustix::io::Errno::LOOP) => {
                        failed(&"this is a symbolic link, which is not followed: name the file itself")
                    }
                    // A pipe without a reader.
                    Some(rustix::io::Errno::NXIO) => failed(&NOT_REGULAR),
                    _ => failed(&error),
                });
            }
        };
        match file.metadata() {
            Ok(found) if found.is_file() || nowhere && found.file_type().is_char_device() => Ok(Some(file)),
            Ok(found) if found.file_type().is_fifo() => Err(failed(&NOT_REGULAR)),
            Ok(_) => Err(failed(&"this is not a regular file")),
            Err(error) => Err(failed(&error)),
        }
    }
}

/// What is done about a file that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// The file is made, with this mode.
    Make(u32),
    Leave,
}

/// Where lines go that are not kept: other servers' configurations turn logs off by this name.
const NOWHERE: &str = "/dev/null";

/// Whether this process may make a file of this name, in a directory that is there.
///
/// # Errors
/// What access(2) says of the directory.
pub(crate) fn may_make(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let wanted = Access::WRITE_OK | Access::EXEC_OK;
    Ok(rustix::fs::accessat(rustix::fs::CWD, directory, wanted, AtFlags::EACCESS)?)
}

const NOT_REGULAR: &str = "this is a pipe, whose reader could hold the server up: have it read standard output or standard error \
                           instead";

/// Whether an account may open what it knows the name of in a directory.
pub(crate) fn may_search(account: &Account, directory: &Path) -> bool {
    let searches = |path: &Path| path.metadata().is_ok_and(|found| may(account, &found, 0o1));
    account.uid() == 0 || directory.canonicalize().is_ok_and(|directory| directory.ancestors().all(searches))
}

/// Whether an account may write to what has this mode; access control lists are not seen.
fn may_write(account: &Account, found: &Metadata) -> bool {
    // A file's owner can make it writable.
    found.uid() == account.uid() || may(account, found, 0o2)
}

/// Whether the mode gives an account this right.
fn may(account: &Account, found: &Metadata, right: u32) -> bool {
    let group = found.gid() == account.gid() || account.groups().contains(&found.gid());
    let shift = match (found.uid() == account.uid(), group) {
        (true, _) => 6,
        (false, true) => 3,
        (false, false) => 0,
    };
    found.mode() >> shift & right != 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn stranger() -> Outsiders {
        Outsiders(vec![("web".into(), Account::of(u32::MAX - 1, u32::MAX - 1, vec![u32::MAX - 2]))])
    }

    #[test]
    fn only_regular_files_are_appended_to() {
        let dir = tempfile::tempdir().unwrap();
        let [link, pipe, file] = ["link", "pipe", "file"].map(|name| dir.path().join(name));
        std::os::unix::fs::symlink(dir.path().join("target"), &link).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        let refused = |path: &Path| {
            let why = Outsiders::default().append(path, 0o640).unwrap_err();
            assert_eq!(Outsiders::default().judge_append(path).unwrap_err(), why);
            why
        };
        assert!(refused(&link).contains("symbolic link"), "{}", refused(&link));
        assert!(!dir.path().join("target").exists());
        // Without a reader and with one.
        assert!(refused(&pipe).contains("this is a pipe"), "{}", refused(&pipe));
        let _reader = File::options().read(true).write(true).open(&pipe).unwrap();
        assert!(refused(&pipe).contains("this is a pipe"), "{}", refused(&pipe));
        assert!(refused(Path::new("/dev/stdout")).contains("goes to standard output"));
        assert!(refused(dir.path()).contains("Is a directory"), "{}", refused(dir.path()));
        let nowhere = dir.path().join("none/file");
        assert!(refused(&nowhere).contains("No such file"), "{}", refused(&nowhere));
        Outsiders::default().judge_append(&file).unwrap();
        assert!(!file.exists(), "it is judged, and not made");
        Outsiders::default().append(&file, 0o640).unwrap();
        Outsiders::default().append(Path::new(NOWHERE), 0o640).unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o640);
    }

    #[test]
    fn a_directory_that_others_may_write_is_refused_and_so_is_one_below_it() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("below");
        std::fs::create_dir(&below).unwrap();
        mode(&below, 0o755);
        let judge = |directory: &Path| stranger().check(&directory.join("a.log")).map(drop);
        for (bits, good) in [(0o755, true), (0o777, false), (0o775, true), (0o757, false), (0o1777, false)] {
            mode(dir.path(), bits);
            assert_eq!(judge(dir.path()).is_ok(), good, "{bits:o}");
            // What is in a sticky directory belongs to its owner.
            assert_eq!(judge(&below).is_ok(), good || bits == 0o1777, "{bits:o}");
        }
        assert!(judge(dir.path()).unwrap_err().contains("the account web may write the directory"));
        assert!(Outsiders::default().check(&dir.path().join("a.log")).is_ok());
    }

    #[test]
    fn groups_and_owners_count() {
        let dir = tempfile::tempdir().unwrap();
        mode(dir.path(), 0o770);
        let found = dir.path().metadata().unwrap();
        assert!(may_write(&Account::of(1, found.gid(), vec![]), &found));
        assert!(may_write(&Account::of(1, u32::MAX - 1, vec![found.gid()]), &found));
        assert!(!may_write(&Account::of(1, u32::MAX - 1, vec![]), &found) || found.uid() == 1);
        mode(dir.path(), 0o500);
        assert!(may_write(&Account::of(found.uid(), found.gid(), vec![]), &dir.path().metadata().unwrap()));
    }
}
