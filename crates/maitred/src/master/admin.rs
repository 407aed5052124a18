//! The admin listener: a Unix socket of mode 0600, or a loopback address.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use maitred_sys::sockopt::refuse_descriptors;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::config::AdminAddress;

/// Few clients connect at the same time: a short queue is enough.
const BACKLOG: i32 = 64;

/// The listener. A Unix socket's file is removed when this is dropped, if it is still ours.
#[derive(Debug)]
pub struct AdminListener {
    /// The address as it was asked for.
    pub asked: AdminAddress,
    /// The port really bound, for a TCP address.
    pub local: Option<SocketAddr>,
    socket: OwnedFd,
    /// The socket's file, with device and inode.
    file: Option<(PathBuf, u64, u64)>,
}

impl AdminListener {
    /// Binds it.
    ///
    /// # Errors
    /// A text for the operator that names the address.
    pub fn bind(address: &AdminAddress) -> Result<Self, String> {
        match address {
            AdminAddress::Unix(path) => Self::bind_unix(address, path),
            AdminAddress::Tcp(at) => Self::bind_tcp(address, *at)
                .map_err(|error| format!("admin address {at}: {}", io::Error::from(error))),
        }
    }

    /// Uses a listening Unix socket that a service manager passed.
    pub fn inherited(address: AdminAddress, socket: OwnedFd) -> Self {
        // Older kernels do not know it; the worker process is prepared for what they let through.
        let _ = refuse_descriptors(&socket);
        AdminListener { asked: address, local: None, socket, file: None }
    }

    /// One that this process has bound before another program was put into it.
    pub fn left(
        asked: AdminAddress,
        local: Option<SocketAddr>,
        socket: OwnedFd,
        file: Option<(PathBuf, u64, u64)>,
    ) -> Self {
        AdminListener { asked, local, socket, file }
    }

    /// The socket's file, with device and inode.
    pub fn file(&self) -> Option<&(PathBuf, u64, u64)> {
        self.file.as_ref()
    }

    fn bind_tcp(address: &AdminAddress, at: SocketAddr) -> Result<Self, Errno> {
        let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags(), None)?;
        rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
        rustix::net::bind(&socket, &at)?;
        rustix::net::listen(&socket, BACKLOG)?;
        let local = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
        Ok(AdminListener { asked: address.clone(), local: Some(local), socket, file: None })
    }

    fn bind_unix(address: &AdminAddress, path: &Path) -> Result<Self, String> {
        let failed = |error: Errno| format!("admin socket {}: {}", path.display(), io::Error::from(error));
        let at = SocketAddrUnix::new(path).map_err(failed)?;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags(), None)
            .map_err(failed)?;
        match bind_private(&socket, &at) {
            Err(Errno::ADDRINUSE) => {
                remove_stale(path, &at)?;
                bind_private(&socket, &at).map_err(failed)?;
            }
            other => other.map_err(failed)?,
        }
        // As above.
        let _ = refuse_descriptors(&socket);
        rustix::net::listen(&socket, BACKLOG).map_err(failed)?;
        let file =
            std::fs::symlink_metadata(path).ok().map(|found| (path.to_owned(), found.dev(), found.ino()));
        Ok(AdminListener { asked: address.clone(), local: None, socket, file })
    }
}

impl AsFd for AdminListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for AdminListener {
    fn drop(&mut self) {
        let Some((path, device, inode)) = &self.file else { return };
        let ours = |found: &std::fs::Metadata| found.dev() == *device && found.ino() == *inode;
        if std::fs::symlink_metadata(path).is_ok_and(|found| ours(&found)) {
            // A file that stays is stale, and is removed by the next start.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn flags() -> SocketFlags {
    SocketFlags::CLOEXEC | SocketFlags::NONBLOCK
}

/// Binds with mode 0600 from the first moment: a chmod of the file afterwards would leave a gap. On Linux the file gets the
/// mode that the socket itself has, less the process's file-mode mask.
fn bind_private(socket: &OwnedFd, at: &SocketAddrUnix) -> Result<(), Errno> {
    rustix::fs::fchmod(socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(socket, at)
}

/// Removes a socket file without a listener.
fn remove_stale(path: &Path, at: &SocketAddrUnix) -> Result<(), String> {
    let name = path.display();
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if !is_socket {
        return Err(format!("admin socket {name}: there is a file of this name that is no socket"));
    }
    let probe = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags(), None)
        .map_err(|error| format!("admin socket {name}: {}", io::Error::from(error)))?;
    match rustix::net::connect(&probe, at) {
        Err(Errno::CONNREFUSED) => std::fs::remove_file(path)
            .map_err(|error| format!("admin socket {name}: removing the stale file: {error}")),
        _ => Err(format!(
            "admin socket {name}: another process answers there; is this server running already?"
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_unix_socket_is_private_and_goes_with_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        let listener = AdminListener::bind(&AdminAddress::Unix(path.clone())).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        UnixStream::connect(&path).unwrap();
        let error = AdminListener::bind(&AdminAddress::Unix(path.clone())).unwrap_err();
        assert!(error.contains("another process answers there"), "{error}");
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn a_stale_file_is_replaced_and_a_strange_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let listener = AdminListener::bind(&AdminAddress::Unix(path.clone())).unwrap();
        // Another process's file of the same name stays when ours is removed.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        drop(listener);
        assert!(AdminListener::bind(&AdminAddress::Unix(path.clone())).unwrap_err().contains("no socket"));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn a_missing_directory_is_named() {
        let error = AdminListener::bind(&AdminAddress::Unix("/no/such/dir/a.sock".into())).unwrap_err();
        assert!(error.contains("/no/such/dir/a.sock"), "{error}");
    }

    #[test]
    fn a_loopback_address_is_bound() {
        let listener = AdminListener::bind(&AdminAddress::Tcp("127.0.0.1:0".parse().unwrap())).unwrap();
        std::net::TcpStream::connect(listener.local.unwrap()).unwrap();
    }
}
