//! What the kernel knows of a TCP socket (tcp(7), `TCP_INFO`).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Connections that wait in a listening socket's accept queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptQueue {
    /// How many wait.
    pub length: u32,
    /// How many may: the backlog as the kernel took it, bounded by `net.core.somaxconn`. One more than this fits.
    pub max: u32,
}

/// The accept queue of a listening socket.
///
/// # Errors
/// What getsockopt(2) says; `InvalidInput` for a socket that does not listen.
pub fn accept_queue(socket: BorrowedFd<'_>) -> io::Result<AcceptQueue> {
    /// `TCP_LISTEN` of include/net/tcp_states.h.
    const LISTEN: u8 = 10;
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut size = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: `info` has room for `size` bytes, and the kernel writes no more than that.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &mut size,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was zeroed, and all of its fields are integers: any bytes are a value.
    let info = unsafe { info.assume_init() };
    if info.tcpi_state != LISTEN {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // tcp_get_info() in net/ipv4/tcp.c: listeners report their queue in these two fields.
    Ok(AcceptQueue { length: info.tcpi_unacked, max: info.tcpi_sacked })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn the_queue_grows_with_connections_and_shrinks_with_accepts() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let queue = || accept_queue(listener.as_fd()).unwrap();
        assert_eq!(queue().length, 0);
        assert!(queue().max > 0);
        let _clients = [TcpStream::connect(address).unwrap(), TcpStream::connect(address).unwrap()];
        // connect(2) can return just before the kernel has seen its own last acknowledgement.
        while queue().length < 2 {
            std::thread::yield_now();
        }
        drop(listener.accept().unwrap());
        assert_eq!(queue().length, 1);
    }

    #[test]
    fn other_descriptors_have_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(accept_queue(client.as_fd()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert!(accept_queue(io::stdin().as_fd()).is_err());
    }
}
