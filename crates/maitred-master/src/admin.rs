//! The admin listener: a Unix socket of mode 0600, or a loopback address.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use maitred_sys::sockopt::refuse_descriptors;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::unix_sockets::{self, SocketFile};
use maitred_config::{AdminAddress, UnixFile};

/// Few clients connect at the same time: a short queue is enough.
const BACKLOG: i32 = 64;

/// The listener. A Unix socket's file is removed when this is dropped, if it is still ours.
#[derive(Debug)]
pub(crate) struct AdminListener {
    /// The address as it was asked for.
    pub asked: AdminAddress,
    /// The port really bound, for a TCP address.
    pub local: Option<SocketAddr>,
    socket: OwnedFd,
    /// The socket's file.
    file: Option<SocketFile>,
}

impl AdminListener {
    /// Binds it.
    ///
    /// # Errors
    /// A text for the operator that names the address.
    pub(crate) fn bind(address: &AdminAddress) -> Result<Self, String> {
        match address {
            AdminAddress::Unix(path) => Self::bind_unix(address, path),
            AdminAddress::Tcp(at) => Self::bind_tcp(address, *at)
                .map_err(|error| format!("admin address {at}: {}", io::Error::from(error))),
        }
    }

    /// Uses a listening Unix socket that a service manager passed.
    pub(crate) fn inherited(address: AdminAddress, socket: OwnedFd) -> Self {
        // Older kernels do not know it; the worker process is prepared for what they let through.
        let _ = refuse_descriptors(&socket);
        AdminListener { asked: address, local: None, socket, file: None }
    }

    /// A listener that this process has bound before another program was put into it.
    pub(crate) fn left(
        asked: AdminAddress,
        local: Option<SocketAddr>,
        socket: OwnedFd,
        file: Option<(PathBuf, u64, u64)>,
    ) -> Self {
        AdminListener { asked, local, socket, file: file.map(SocketFile::left) }
    }

    /// The socket's file, with device and inode.
    pub(crate) fn file(&self) -> Option<(PathBuf, u64, u64)> {
        self.file.as_ref().map(SocketFile::parts)
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
        let permissions = UnixFile { mode: 0o600, ..UnixFile::default() };
        let (socket, file) = unix_sockets::bind(path, &permissions, BACKLOG)
            .map_err(|why| format!("admin socket {}: {why}", path.display()))?;
        Ok(AdminListener { asked: address.clone(), local: None, socket, file: Some(file) })
    }
}

impl AsFd for AdminListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn flags() -> SocketFlags {
    SocketFlags::CLOEXEC | SocketFlags::NONBLOCK
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
        assert!(error.contains("listens there"), "{error}");
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
