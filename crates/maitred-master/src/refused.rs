//! Why the system does not let an account execute a program: the error of execve(2) names neither.

use std::fs::Metadata;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use maitred_config::Identity;

/// The right to execute a file, or to enter a directory, of each class (inode(7)).
const EXECUTE: u32 = 0o1;

/// Who is to execute it.
struct Account {
    /// For messages.
    name: String,
    uid: u32,
    groups: Vec<u32>,
}

impl Account {
    fn of(user: Option<&Identity>) -> Account {
        // Only root's processes change to another account.
        let Some(user) = user.filter(|_| rustix::process::geteuid().is_root()) else {
            let uid = rustix::process::geteuid().as_raw();
            let own = rustix::process::getgroups().unwrap_or_default();
            let groups = own.into_iter().chain([rustix::process::getegid()]).map(|group| group.as_raw());
            return Account {
                name: format!("that started the server (uid {uid})"),
                uid,
                groups: groups.collect(),
            };
        };
        let listed = std::fs::read_to_string("/etc/group").unwrap_or_default();
        let mut groups = groups_of(&user.name, &listed);
        groups.push(user.gid);
        Account { name: user.name.clone(), uid: user.uid, groups }
    }

    /// Whether it may execute the file, or enter the directory, by the classes of its mode.
    fn may_execute(&self, meta: &Metadata) -> bool {
        let mode = meta.mode();
        match () {
            // Root may enter any directory, and execute what any account may.
            () if self.uid == 0 => meta.is_dir() || mode & 0o111 != 0,
            () if self.uid == meta.uid() => mode >> 6 & EXECUTE != 0,
            () if self.groups.contains(&meta.gid()) => mode >> 3 & EXECUTE != 0,
            () => mode & EXECUTE != 0,
        }
    }
}

/// The same error, with the account and what refuses, where that can be found out.
pub(crate) fn explain(error: Error, program: &str, cwd: &Path, user: Option<&Identity>) -> Error {
    if error.kind() != ErrorKind::PermissionDenied || !program.contains('/') {
        return error;
    }
    let account = Account::of(user);
    match obstacle(&account, &cwd.join(program)).or_else(|| obstacle(&account, cwd)) {
        Some(why) => Error::new(ErrorKind::PermissionDenied, format!("{error}: {why}")),
        None => error,
    }
}

/// The first directory above a program that the account may not enter, or the program.
fn obstacle(account: &Account, program: &Path) -> Option<String> {
    let mut above: Vec<&Path> = program.ancestors().filter(|path| !path.as_os_str().is_empty()).collect();
    above.reverse();
    above.into_iter().find_map(|path| {
        let meta = path.metadata().ok().filter(|meta| !account.may_execute(meta))?;
        let what = if meta.is_dir() { "enter the directory" } else { "execute the file" };
        let (name, mode, path) = (&account.name, meta.mode() & 0o7777, path.display());
        Some(format!(
            "the account {name} may not {what} {path} (mode {mode:03o}, owner {}, group {})",
            meta.uid(),
            meta.gid()
        ))
    })
}

/// The groups that list an account, in the text of group(5).
fn groups_of(name: &str, listed: &str) -> Vec<u32> {
    let entries = listed.lines().filter_map(|line| {
        let mut parts = line.split(':').skip(2);
        let number = parts.next()?.parse().ok()?;
        parts.next()?.split(',').any(|member| member == name).then_some(number)
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn allow(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn the_directory_or_the_file_that_refuses_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let (inner, program) = (dir.path().join("inner"), dir.path().join("inner/program"));
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(&program, "").unwrap();
        let stranger = Account { name: "stranger".to_owned(), uid: 4_000_000, groups: Vec::new() };
        allow(dir.path(), 0o755);
        allow(&inner, 0o700);
        allow(&program, 0o755);
        let why = obstacle(&stranger, &program).unwrap();
        assert!(
            why.contains(&format!("stranger may not enter the directory {} (mode 700", inner.display())),
            "{why}"
        );
        allow(&inner, 0o711);
        assert_eq!(obstacle(&stranger, &program), None);
        allow(&program, 0o644);
        let why = obstacle(&stranger, &program).unwrap();
        assert!(why.contains(&format!("may not execute the file {} (mode 644", program.display())), "{why}");
        let meta = program.metadata().unwrap();
        let member = Account { groups: vec![meta.gid()], ..stranger };
        allow(&program, 0o654);
        assert_eq!(obstacle(&member, &program), None);
    }

    #[test]
    fn other_errors_stay_as_they_are() {
        let error = explain(Error::from(ErrorKind::NotFound), "./a", Path::new("/"), None);
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn groups_are_those_that_list_the_account() {
        let listed = "root:x:0:\nweb:x:33:ann,bob\nstaff:x:50:bobby\n";
        assert_eq!(groups_of("bob", listed), [33]);
    }
}
