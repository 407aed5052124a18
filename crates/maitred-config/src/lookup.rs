//! What reading a configuration asks of the machine: accounts, directories, certificates. A trait, so that tests need neither.

use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::disk::{self, FILES_MAX};
use super::identity::Identity;

/// Answers about the machine.
pub trait Lookup {
    /// The account of that name; `None` if there is none.
    fn user(&self, name: &str) -> io::Result<Option<Identity>>;
    /// The number of the group of that name; `None` if there is none.
    fn group(&self, _name: &str) -> io::Result<Option<u32>> {
        Ok(None)
    }
    /// Whether this process is root.
    fn is_root(&self) -> bool;
    /// Whether there is a directory at this path.
    fn directory(&self, path: &Path) -> io::Result<()>;
    /// Whether there is a program of this name: a path that starts at `cwd`, or a name in one of the directories of `PATH`.
    fn program(&self, _name: &str, _cwd: &Path) -> bool {
        true
    }
    /// What stands in a file of certificates or keys.
    fn read(&self, _path: &Path) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }
    /// The text of a configuration file.
    fn text(&self, _path: &Path) -> io::Result<String> {
        Err(io::ErrorKind::NotFound.into())
    }
    /// The files that a pattern matches, in order: relative to `base`, unless the pattern is absolute. Otherwise why not.
    fn matching(&self, _base: &Path, _pattern: &str) -> Result<Vec<PathBuf>, String> {
        Ok(Vec::new())
    }
    /// A path without symbolic links, if it leads anywhere.
    fn real_path(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }
    /// What stands in the file of a secret.
    fn secret(&self, _path: &Path) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }
    /// A variable of the environment; an error if it is not UTF-8.
    fn variable(&self, _name: &str) -> Option<Result<String, ()>> {
        None
    }
    /// The beginning of a regular file that may be an application's source: 256 KiB, which hold what it imports.
    fn source(&self, _path: &Path) -> Option<String> {
        None
    }
    /// Whether all accounts can read a file.
    fn is_public(&self, _path: &Path) -> bool {
        false
    }
    /// The present time, as Unix time: certificates may not be good any more.
    fn unix_secs(&self) -> u64 {
        maitred_base::unix_time::secs()
    }
    /// Where the server keeps persistent state, if nothing else is said; absolute.
    fn state_directory(&self) -> PathBuf {
        PathBuf::from(SYSTEM_STATE)
    }
    /// Where it keeps what it can do without, likewise.
    fn cache_directory(&self) -> PathBuf {
        PathBuf::from(SYSTEM_CACHE)
    }
}

/// Of a source file this much is looked at.
const SOURCE_BYTES: u64 = 256 * 1024;
/// The state directory of a server that runs as root.
const SYSTEM_STATE: &str = "/var/lib/maitred";
/// The directory of its cache.
const SYSTEM_CACHE: &str = "/var/cache/maitred";

/// The machine that this runs on.
#[derive(Debug, Clone, Copy, Default)]
pub struct System;

impl Lookup for System {
    /// Local accounts are read from `/etc/passwd`; for all others (LDAP and the like) getent(1) is asked.
    fn user(&self, name: &str) -> io::Result<Option<Identity>> {
        find("passwd", name, find_account)
    }

    /// Likewise, in `/etc/group`.
    fn group(&self, name: &str) -> io::Result<Option<u32>> {
        find("group", name, find_group)
    }

    fn is_root(&self) -> bool {
        rustix::process::geteuid().is_root()
    }

    fn directory(&self, path: &Path) -> io::Result<()> {
        if !std::fs::metadata(path)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        // What lies in it can be reached only with the permission to search it, which this takes too.
        std::fs::metadata(path.join(".")).map(drop)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        maitred_base::pki::files::read(path)
    }

    fn text(&self, path: &Path) -> io::Result<String> {
        disk::contents(path)
    }

    fn matching(&self, base: &Path, pattern: &str) -> Result<Vec<PathBuf>, String> {
        let whole = match Path::new(pattern).is_absolute() {
            true => pattern.to_owned(),
            false => format!("{}/{pattern}", glob::Pattern::escape(&base.to_string_lossy())),
        };
        let options = glob::MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            require_literal_leading_dot: true,
        };
        let found = glob::glob_with(&whole, options).map_err(|error| error.msg.to_owned())?;
        let mut paths = Vec::new();
        for path in found.take(FILES_MAX + 1) {
            let path = path.map_err(|error| {
                let why = disk::unreadable(error.error());
                format!("{}: {why}", error.path().display())
            })?;
            paths.push(path.strip_prefix(base).map(Path::to_owned).unwrap_or(path));
        }
        paths.sort();
        match paths.is_empty() && !pattern.contains('*') {
            true => Err("it matches no file".to_owned()),
            false => Ok(paths),
        }
    }

    fn real_path(&self, path: &Path) -> PathBuf {
        path.canonicalize().unwrap_or_else(|_| path.to_owned())
    }

    fn secret(&self, path: &Path) -> io::Result<Vec<u8>> {
        disk::read_secret(path)
    }

    fn variable(&self, name: &str) -> Option<Result<String, ()>> {
        Some(std::env::var_os(name)?.into_string().map_err(drop))
    }

    fn source(&self, path: &Path) -> Option<String> {
        // A pipe or a device would be waited for.
        if !std::fs::metadata(path).ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        std::fs::File::open(path).ok()?.take(SOURCE_BYTES).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn is_public(&self, path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o004 != 0)
    }

    fn program(&self, name: &str, cwd: &Path) -> bool {
        let is_program = |path: &Path| {
            std::fs::metadata(path)
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        if name.contains('/') {
            return is_program(&cwd.join(name));
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|directory| is_program(&directory.join(name)))
    }

    fn state_directory(&self) -> PathBuf {
        self.own_directory(["STATE_DIRECTORY", "XDG_STATE_HOME"], ".local/state", SYSTEM_STATE)
    }

    fn cache_directory(&self) -> PathBuf {
        self.own_directory(["CACHE_DIRECTORY", "XDG_CACHE_HOME"], ".cache", SYSTEM_CACHE)
    }
}

impl System {
    /// What a service manager gives (systemd.exec(5)) by the first variable; a directory of the system for root; for others what
    /// the
    /// XDG Base Directory Specification says: the second variable, or a directory at home.
    fn own_directory(self, [managed, of_user]: [&str; 2], at_home: &str, system: &str) -> PathBuf {
        let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        if let Some(given) = std::env::var_os(managed) {
            let first = std::env::split_paths(&given).next();
            if let Some(path) = first.filter(|path| path.is_absolute()) {
                return path;
            }
        }
        if self.is_root() {
            return PathBuf::from(system);
        }
        let own = variable(of_user).or_else(|| Some(variable("HOME")?.join(at_home)));
        own.map_or_else(|| PathBuf::from(system), |place| place.join("maitred"))
    }
}

/// An entry of a database of nsswitch.conf(5): of the local file, or else of getent(1).
fn find<T>(database: &str, name: &str, find: fn(&str, &str) -> Option<T>) -> io::Result<Option<T>> {
    let local = std::fs::read_to_string(Path::new("/etc").join(database)).unwrap_or_default();
    if let Some(found) = find(&local, name) {
        return Ok(Some(found));
    }
    let asked = Command::new("getent").args([database, "--", name]).stdin(Stdio::null()).output();
    match asked {
        Ok(answer) => Ok(find(&String::from_utf8_lossy(&answer.stdout), name)),
        // Without getent there are only the local ones.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The number of a group in the format of group(5).
fn find_group(groups: &str, name: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (found, number) = (fields.next()?, fields.nth(1)?);
        number.parse().ok().filter(|_| found == name)
    })
}

/// An account in the format of passwd(5).
fn find_account(passwd: &str, name: &str) -> Option<Identity> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let found = fields.next()?;
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        let mut path =
            |skipped| fields.nth(skipped).map(str::trim).filter(|path| !path.is_empty()).map(PathBuf::from);
        let (home, shell) = (path(1), path(0));
        let default = Identity::new(found, uid, gid);
        let (home, shell) = (home.unwrap_or(default.home), shell.unwrap_or(default.shell));
        (found == name).then(|| Identity { name: found.to_owned(), uid, gid, home, shell })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_their_whole_name() {
        let passwd =
            "root:x:0:0:root:/root:/bin/sh\n# broken\nwww-data:x:33:34:www:/var/www:/bin/false\nbad:x:a:b\n";
        let found = find_account(passwd, "www-data").unwrap();
        assert_eq!((found.uid, found.gid), (33, 34));
        assert_eq!((found.home.to_str(), found.shell.to_str()), (Some("/var/www"), Some("/bin/false")));
        let bare = find_account("x:x:1:2::: \ny:x:1:2", "x").unwrap();
        assert_eq!((bare.home.to_str(), bare.shell.to_str()), (Some("/"), Some("/bin/sh")));
        assert_eq!(find_account(passwd, "www"), None);
        assert_eq!(find_account(passwd, "bad"), None);
    }

    #[test]
    fn groups_are_found_by_their_whole_name() {
        let groups = "root:x:0:\n# broken\nwww-data:x:33:a,b\nbad:x:y:\n";
        assert_eq!(find_group(groups, "www-data"), Some(33));
        assert_eq!((find_group(groups, "www"), find_group(groups, "bad")), (None, None));
    }

    #[test]
    fn programs_are_found_by_path_or_name() {
        assert!(System.program("sh", Path::new("/")) && System.program("bin/sh", Path::new("/")));
        assert!(
            !System.program("no-such-program", Path::new("/"))
                && !System.program("/etc/passwd", Path::new("/"))
        );
    }

    #[test]
    fn root_is_known_to_every_machine() {
        assert_eq!(System.user("root").unwrap().map(|user| user.uid), Some(0));
        assert_eq!(System.user("no such account").unwrap(), None);
    }
}
