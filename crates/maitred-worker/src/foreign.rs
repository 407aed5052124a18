//! Unix sockets whose other end is another program: clients of Unix listeners and of the admin address, external servers
//! (`http+unix:`). The other ends may pass descriptors, which are not used here. recv(2) without room for them has the kernel
//! close them before it returns, and so has close(2) with those that were not received, each for as long as the sender of the
//! descriptors chooses: a socket with `SO_LINGER` blocked both for its three seconds, however non-blocking they were (Linux
//! 6.18). So they are received, and closed by a thread that does nothing else. From Linux 6.16 on the kernel refuses them at
//! the sender ([`refuse_descriptors`]).
//!
//! [`refuse_descriptors`]: maitred_sys::sockopt::refuse_descriptors

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{Shutdown, shutdown};

use maitred_base::passed::{Passed, closer};
use maitred_config::{AdminAddress, Config, Upstream};

/// Whether there are such sockets.
pub(super) fn is_wanted(config: &Config) -> bool {
    let unix = |upstream: &Upstream| matches!(upstream, Upstream::Unix(_));
    matches!(config.server.admin, Some(AdminAddress::Unix(_)))
        || config.listens.iter().any(|listen| listen.address.path().is_some())
        || config.pools.iter().filter_map(|pool| pool.source.servers()).flatten().any(unix)
}

/// Appends what has come, up to the buffer's capacity.
///
/// # Errors
/// What recvmsg(2) says; `CONNABORTED` if descriptors came along: the connection to such a peer is closed.
pub(super) fn receive(socket: BorrowedFd<'_>, bytes: &mut Vec<u8>) -> Result<usize, Errno> {
    let mut passed = Vec::new();
    let received = maitred_sys::receive::receive(socket, bytes, &mut passed);
    if !passed.is_empty() {
        passed.into_iter().for_each(|descriptor| drop(Passed::new(descriptor, None, closer().clone())));
        return Err(Errno::CONNABORTED);
    }
    received.map_err(|error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::CONNABORTED))
}

/// Closes such a socket. If bytes were not received, with or without descriptors, the thread closes it; most have none.
pub(super) fn close(socket: OwnedFd) {
    // Nothing more can come after this.
    let _ = shutdown(&socket, Shutdown::Both);
    match ioctl_fionread(&socket) {
        Ok(0) => drop(socket),
        _ => drop(Passed::own(socket, None, closer().clone())),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{IoSlice, Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg, sockopt};

    use super::*;

    /// How long closing it takes.
    const LINGERS: Duration = Duration::from_secs(20);

    /// A socket with something to send that is not read, and its other end.
    fn lingering() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far_end, _) = listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        while socket.write(&[0; 65536]).is_ok() {}
        sockopt::set_socket_linger(&socket, Some(LINGERS)).unwrap();
        (socket, far_end)
    }

    /// Passes one, of which there is no other copy then.
    fn pass(through: &UnixStream) -> TcpStream {
        let (socket, far_end) = lingering();
        let passed = [socket.as_fd()];
        let mut room = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        assert!(control.push(SendAncillaryMessage::ScmRights(&passed)));
        sendmsg(through, &[IoSlice::new(b"x")], &mut control, SendFlags::empty()).unwrap();
        far_end
    }

    #[test]
    fn neither_receiving_nor_closing_waits_for_what_was_passed() {
        let began = Instant::now();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut bytes = Vec::with_capacity(100);
        theirs.write_all(b"ab").unwrap();
        assert_eq!(receive(ours.as_fd(), &mut bytes), Ok(2));
        assert_eq!(receive(ours.as_fd(), &mut bytes), Err(Errno::AGAIN));
        let _one = pass(&theirs);
        assert_eq!(receive(ours.as_fd(), &mut bytes), Err(Errno::CONNABORTED));
        let _other = pass(&theirs);
        close(ours.into());
        assert!(began.elapsed() < LINGERS, "{:?}", began.elapsed());
        // What was left unread makes the end a reset, if it is closed by then.
        let end = theirs.read(&mut [0; 1]);
        assert!(
            matches!(&end, Ok(0)) || end.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset)
        );
        assert!(theirs.write_all(b"x").is_err());
    }
}
