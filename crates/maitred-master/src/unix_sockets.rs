//! Unix sockets that the master listens on, and their files.
//!
//! A file is removed with the last use of its socket, if it is still the one that was made. What a server that was killed has
//! left is replaced by the next one: connecting to it is refused. While that is found out, the directory is locked, so that of
//! two servers that start at the same time neither takes the file of the other for stale before it listens.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use maitred_sys::sockopt::refuse_descriptors;
use rustix::event::{Timespec, poll};
use rustix::fs::{AtFlags, FlockOperation, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::own_files::may_make;
use maitred_config::UnixFile;

/// How long another server may take to bind a socket in the same directory.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// How often the lock is tried meanwhile.
const LOCK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// The file of a socket, by device and inode; removed when this is dropped, if it is still ours.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl SocketFile {
    /// A file that this process has made before another program was put into it.
    pub(crate) fn left((path, device, inode): (PathBuf, u64, u64)) -> SocketFile {
        SocketFile { path, device, inode }
    }

    /// Path, device and inode.
    pub(crate) fn parts(&self) -> (PathBuf, u64, u64) {
        (self.path.clone(), self.device, self.inode)
    }

    /// Sets owner, group and permissions of the file; of no other one that is there by now.
    ///
    /// # Errors
    /// A text for the operator, which does not name the file.
    pub(crate) fn give(&self, to: &UnixFile) -> Result<(), String> {
        let failed = |error: Errno| io::Error::from(error).to_string();
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(&self.path, flags, Mode::empty()).map_err(failed)?;
        let found = rustix::fs::fstat(&file).map_err(failed)?;
        if (found.st_dev, found.st_ino) != (self.device, self.inode) {
            return Err("its file was replaced by another one".to_owned());
        }
        let owner = to.owner.filter(|owner| *owner != found.st_uid).map(Uid::from_raw);
        let group = to.group.filter(|group| *group != found.st_gid).map(Gid::from_raw);
        if owner.is_some() || group.is_some() {
            rustix::fs::chownat(&file, "", owner, group, AtFlags::EMPTY_PATH).map_err(given_away)?;
        }
        // fchmod(2) does not take a descriptor that only names a file.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mode = std::fs::Permissions::from_mode(to.mode);
        std::fs::set_permissions(path, mode).map_err(|error| format!("`unix_mode`: {error}"))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = |found: &std::fs::Metadata| (found.dev(), found.ino()) == (self.device, self.inode);
        if std::fs::symlink_metadata(&self.path).is_ok_and(|found| ours(&found)) {
            // A file that stays is stale, and is removed by the next start.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Binds a socket, with this file, and listens.
///
/// # Errors
/// A text for the operator, which does not name the socket.
pub(crate) fn bind(
    path: &Path,
    permissions: &UnixFile,
    backlog: i32,
) -> Result<(OwnedFd, SocketFile), String> {
    let failed = |error: Errno| io::Error::from(error).to_string();
    let at = SocketAddrUnix::new(path).map_err(failed)?;
    let socket = new_socket().map_err(failed)?;
    make_directory(path);
    let _lock = lock_directory(path)?;
    match bind_closed(&socket, &at) {
        Err(Errno::ADDRINUSE) => {
            remove_stale(path, &at)?;
            bind_closed(&socket, &at).map_err(failed)?;
        }
        other => other.map_err(|error| explain(path, error))?,
    }
    let found = std::fs::symlink_metadata(path).map_err(|error| error.to_string())?;
    let file = SocketFile { path: path.to_owned(), device: found.dev(), inode: found.ino() };
    file.give(permissions)?;
    // Older kernels do not know it; the worker process is prepared for what they let through.
    let _ = refuse_descriptors(&socket);
    rustix::net::listen(&socket, backlog).map_err(failed)?;
    Ok((socket, file))
}

fn is_missing(directory: &Path) -> bool {
    // A path without a directory is in the present one.
    !directory.as_os_str().is_empty()
        && std::fs::symlink_metadata(directory).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Makes the directory of a socket if nothing else is missing, as that of a package in `/run`, which is empty after a boot, and
/// which a service manager makes for its unit alone. What keeps it from being made, the bind says.
fn make_directory(path: &Path) {
    if let Some(directory) = path.parent().filter(|directory| is_missing(directory)) {
        let _ = std::fs::DirBuilder::new().mode(0o755).create(directory);
    }
}

/// Whether [`bind`] could bind a socket with this file, if nothing else listens there. Makes nothing.
///
/// # Errors
/// What that would say.
pub(crate) fn judge(path: &Path, permissions: &UnixFile) -> Result<(), String> {
    SocketAddrUnix::new(path).map_err(|error| io::Error::from(error).to_string())?;
    let directory = path.parent().filter(|directory| is_missing(directory));
    if let Err(error) = may_make(directory.unwrap_or(path)) {
        let number = error.raw_os_error().map(Errno::from_raw_os_error);
        return Err(number.map_or_else(|| error.to_string(), |number| explain(path, number)));
    }
    if std::fs::symlink_metadata(path).is_ok_and(|found| !found.file_type().is_socket()) {
        return Err(STRANGE_FILE.to_owned());
    }
    let own = rustix::process::geteuid();
    let (owner, group) = (permissions.owner, permissions.group);
    let groups = rustix::process::getgroups().unwrap_or_default();
    let is_member = |group: u32| {
        rustix::process::getegid().as_raw() == group || groups.iter().any(|one| one.as_raw() == group)
    };
    let allowed =
        own.is_root() || owner.is_none_or(|owner| owner == own.as_raw()) && group.is_none_or(is_member);
    if allowed { Ok(()) } else { Err(given_away(Errno::PERM)) }
}

fn given_away(error: Errno) -> String {
    format!(
        "`unix_user` and `unix_group`: {}; only root can give a file away, and a group takes membership",
        io::Error::from(error)
    )
}

const STRANGE_FILE: &str = "there is a file of this name that is no socket";

/// The path that a socket is bound to.
///
/// # Errors
/// A text for the operator: it has none, or one that this server cannot use.
pub(crate) fn path_of(socket: impl AsFd) -> Result<PathBuf, String> {
    let bound = rustix::net::getsockname(socket).map_err(|error| io::Error::from(error).to_string())?;
    let bound = SocketAddrUnix::try_from(bound).ok();
    let path =
        bound.as_ref().and_then(SocketAddrUnix::path_bytes).and_then(|path| std::str::from_utf8(path).ok());
    path.map(PathBuf::from).ok_or_else(|| "it is bound to no path in UTF-8".to_owned())
}

fn new_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Binds with mode 0600 from the first moment: a chmod of the file afterwards alone would leave a gap. On Linux the file gets the
/// mode that the socket itself has, less the process's file-mode mask.
fn bind_closed(socket: &OwnedFd, at: &SocketAddrUnix) -> Result<(), Errno> {
    rustix::fs::fchmod(socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(socket, at)
}

fn explain(path: &Path, error: Errno) -> String {
    let directory = path.parent().unwrap_or(path).display();
    match error {
        Errno::NOENT => format!("there is no directory {directory}; make it, or choose another path"),
        Errno::ACCESS => format!("no permission to make a file in {directory}"),
        _ => io::Error::from(error).to_string(),
    }
}

/// Keeps other servers from binding in this directory until it is dropped. A directory that cannot be opened is not locked.
fn lock_directory(path: &Path) -> Result<Option<File>, String> {
    let Some(Ok(directory)) = path.parent().map(File::open) else { return Ok(None) };
    let until = Instant::now() + LOCK_TIMEOUT;
    loop {
        match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(directory)),
            // flock(2) has no time limit of its own, and nothing reports that a lock is free.
            Err(Errno::WOULDBLOCK) if Instant::now() < until => drop(poll(&mut [], Some(&LOCK_INTERVAL))),
            Err(Errno::WOULDBLOCK) => {
                return Err("another process keeps its directory locked (flock(2)): stop that one".to_owned());
            }
            // Not on this file system.
            Err(_) => return Ok(None),
        }
    }
}

/// Removes a socket file without a listener.
fn remove_stale(path: &Path, at: &SocketAddrUnix) -> Result<(), String> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if !is_socket {
        return Err(STRANGE_FILE.to_owned());
    }
    let probe = new_socket().map_err(|error| io::Error::from(error).to_string())?;
    match rustix::net::connect(&probe, at) {
        Err(Errno::CONNREFUSED) => {
            std::fs::remove_file(path).map_err(|error| format!("removing the stale file: {error}"))
        }
        Err(Errno::NOENT) => Ok(()),
        // EAGAIN is a full queue.
        Ok(()) | Err(Errno::AGAIN) => Err(format!(
            "{} listens there; is this server running already? Stop that one, or choose another path",
            listener_of(&probe)
        )),
        Err(error) => Err(format!(
            "whether another process listens there cannot be found out: {}",
            io::Error::from(error)
        )),
    }
}

/// The process that has made a socket listen, as far as it is known: it may have passed it on since.
fn listener_of(connected: impl AsFd) -> String {
    let Ok(peer) = socket_peercred(&connected) else { return "another process".to_owned() };
    let pid = peer.pid.as_raw_nonzero();
    match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("process {pid} ({})", name.trim_end()),
        Err(_) => format!("process {pid}"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn a_file_has_its_mode_and_goes_with_its_socket() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("http.sock");
        for mode in [0o660, 0o606, 0o777] {
            let (socket, file) = bind(&path, &UnixFile { mode, ..UnixFile::default() }, 8).unwrap();
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, mode);
            file.give(&UnixFile { mode: 0o600, ..UnixFile::default() }).unwrap();
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            UnixStream::connect(&path).unwrap();
            drop((socket, file));
            assert!(!path.exists());
        }
    }

    #[test]
    fn what_another_has_put_in_its_place_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("http.sock");
        let (_socket, file) = bind(&path, &UnixFile::default(), 8).unwrap();
        std::fs::remove_file(&path).unwrap();
        let other = UnixListener::bind(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        assert!(file.give(&UnixFile::default()).unwrap_err().contains("replaced"));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        drop(file);
        assert!(path.exists());
        drop(other);
    }

    #[test]
    fn a_live_socket_is_named_and_a_stale_one_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("http.sock");
        let theirs = UnixListener::bind(&path).unwrap();
        let error = bind(&path, &UnixFile::default(), 8).unwrap_err();
        assert!(error.contains(&format!("process {} (", std::process::id())), "{error}");
        drop(theirs);
        assert!(path.exists());
        drop(bind(&path, &UnixFile::default(), 8).unwrap());
        std::fs::write(&path, "precious").unwrap();
        assert!(bind(&path, &UnixFile::default(), 8).unwrap_err().contains("no socket"));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        let path = directory.path().join("none/of/x.sock");
        for error in [bind(&path, &UnixFile::default(), 8).map(drop), judge(&path, &UnixFile::default())] {
            assert!(error.unwrap_err().contains("there is no directory"));
        }
        let path = directory.path().join("run/x.sock");
        judge(&path, &UnixFile::default()).unwrap();
        assert!(!path.parent().unwrap().exists(), "a check makes nothing");
        drop(bind(&path, &UnixFile::default(), 8).unwrap());
        assert_eq!(path.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o755);
    }

    #[test]
    fn of_many_that_start_at_once_one_gets_a_stale_socket() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("http.sock");
        for _ in 0..20 {
            drop(UnixListener::bind(&path).unwrap());
            let start = || bind(&path, &UnixFile::default(), 8);
            let results: Vec<_> = std::thread::scope(|scope| {
                let all: Vec<_> = (0..4).map(|_| scope.spawn(start)).collect();
                all.into_iter().map(|one| one.join().unwrap()).collect()
            });
            assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
            UnixStream::connect(&path).unwrap();
        }
    }
}
