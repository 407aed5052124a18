//! What has happened on the sending side of a TCP socket that another process writes to.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::time::Duration;

/// How much longer ago than in truth the last send may seem: the kernel notes it in jiffies, the longest of which are
/// 10 ms (`CONFIG_HZ=100`), and both ends of the difference are rounded.
const MARGIN: Duration = Duration::from_millis(20);

/// Whether it is certain that no process has written to this TCP socket for `period`: nothing was sent since,
/// and nothing waits to be sent. In doubt the answer is no.
///
/// A process that was given the socket and has died cannot be asked whether it had begun to answer. `TCP_INFO` says how
/// long ago the last segment with data left (tcp(7), `tcpi_last_data_sent`, in milliseconds), and how many bytes have not
/// left yet (`tcpi_notsent_bytes`, since Linux 4.6).
pub fn quiet_for(socket: BorrowedFd<'_>, period: Duration) -> bool {
    match tcp_info(socket) {
        Ok(info) => {
            let last = Duration::from_millis(u64::from(info.tcpi_last_data_sent));
            // A socket on which nothing was ever sent counts from its creation, so this holds there too.
            info.tcpi_notsent_bytes == 0 && last > period + MARGIN || never_sent(&info)
        }
        Err(_) => false,
    }
}

/// What a socket's sending side has been doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// Data has left.
    Moves,
    /// Data waits, and none has left: the peer does not read.
    Stuck,
    /// Nothing was to be sent; or nothing is known.
    Idle,
}

/// What this TCP socket, to which another process writes, has been doing for `period`.
pub fn sending(socket: BorrowedFd<'_>, period: Duration) -> Sending {
    match tcp_info(socket) {
        Ok(info) => {
            let last = Duration::from_millis(u64::from(info.tcpi_last_data_sent));
            if info.tcpi_data_segs_out > 0 && last + MARGIN < period {
                Sending::Moves
            } else if info.tcpi_notsent_bytes > 0 {
                Sending::Stuck
            } else {
                Sending::Idle
            }
        }
        Err(_) => Sending::Idle,
    }
}

/// Whether the peer has yet to acknowledge something that was written to this socket (`SIOCOUTQ`, tcp(7)). In doubt the answer is
/// yes.
pub fn is_under_way(socket: BorrowedFd<'_>) -> bool {
    let mut bytes: libc::c_int = 0;
    // SAFETY: `TIOCOUTQ`, which is the same number, makes the kernel write one int to the address that it is given.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    result != 0 || bytes > 0
}

/// How long ago data has last left this TCP socket: as long as that goes on, its peer reads, if slowly. `None` if what has
/// left is sent again because it was not acknowledged, or if nothing is known.
///
/// The kernel takes more from a writer only when a third of its buffer is free (tcp(7), `tcp_wmem`), which a slow peer
/// may need minutes for.
pub fn last_left(socket: BorrowedFd<'_>) -> Option<Duration> {
    let info = tcp_info(socket).ok()?;
    let [_, _, tcpi_retransmits, ..] = info.octets;
    let moves = tcpi_retransmits == 0 && info.tcpi_data_segs_out > 0;
    moves.then(|| Duration::from_millis(u64::from(info.tcpi_last_data_sent)))
}

/// How far a peer has come with what it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Bytes that it has acknowledged, since the connection was made.
    pub acknowledged: u64,
    /// For how long something was there for it that it had not acknowledged.
    pub busy: Duration,
    /// Something has not left yet, because the peer, or the network, takes no more at the moment.
    pub unsent: bool,
}

/// How far the peer of this TCP socket has come. `None` if nothing is known, as of a socket that is no TCP one.
pub fn progress(socket: BorrowedFd<'_>) -> Option<Progress> {
    let info = tcp_info(socket).ok()?;
    let [_, _, acknowledged, _] = info.rates;
    Some(Progress {
        acknowledged,
        busy: Duration::from_micros(info.tcpi_busy_time),
        unsent: info.tcpi_notsent_bytes > 0,
    })
}

/// No data segment at all has left, and none waits.
fn never_sent(info: &TcpInfo) -> bool {
    info.tcpi_data_segs_out == 0 && info.tcpi_notsent_bytes == 0
}

/// The beginning of `struct tcp_info` of linux/tcp.h as of Linux 4.10; later kernels append to it, and getsockopt(2)
/// fills as much as there is room for.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
struct TcpInfo {
    octets: [u8; 8],
    before: [u32; 9],
    tcpi_last_data_sent: u32,
    between: [u32; 14],
    /// Two pacing rates, bytes acknowledged, bytes received.
    rates: [u64; 4],
    segments: [u32; 2],
    tcpi_notsent_bytes: u32,
    min_rtt: u32,
    tcpi_data_segs_in: u32,
    tcpi_data_segs_out: u32,
    delivery_rate: u64,
    /// Microseconds.
    tcpi_busy_time: u64,
}

const _: () = assert!(size_of::<TcpInfo>() == 176);

fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    let mut info = TcpInfo::default();
    let mut size = size_of::<TcpInfo>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes into `info`, which is plain integers, and updates `size`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut size,
        )
    };
    match result {
        0 if size as usize == size_of::<TcpInfo>() => Ok(info),
        0 => Err(io::ErrorKind::Unsupported.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd as _;
    use std::time::Instant;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn a_socket_that_was_never_written_to_is_quiet() {
        let (_client, server) = pair();
        assert!(quiet_for(server.as_fd(), Duration::ZERO));
        assert!(quiet_for(server.as_fd(), Duration::from_secs(1000)));
    }

    #[test]
    fn what_the_peer_has_no_room_for_is_under_way() {
        let (mut client, mut server) = pair();
        assert!(!is_under_way(server.as_fd()));
        server.set_nonblocking(true).unwrap();
        let mut written = 0;
        while let Ok(bytes) = server.write(&[0; 65536]) {
            written += bytes;
        }
        assert!(is_under_way(server.as_fd()));
        client.read_exact(&mut vec![0; written]).unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        while is_under_way(server.as_fd()) {
            assert!(Instant::now() < deadline, "it is never acknowledged");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_write_is_noticed() {
        let (mut client, mut server) = pair();
        let since = Instant::now();
        server.write_all(b"x").unwrap();
        client.read_exact(&mut [0]).unwrap();
        assert!(!quiet_for(server.as_fd(), since.elapsed()));
    }

    #[test]
    fn an_earlier_write_does_not_count_once_it_is_clearly_earlier() {
        let (mut client, mut server) = pair();
        server.write_all(b"x").unwrap();
        client.read_exact(&mut [0]).unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        while !quiet_for(server.as_fd(), Duration::from_millis(1)) {
            assert!(Instant::now() < deadline, "the write never becomes old");
            std::thread::yield_now();
        }
    }

    #[test]
    fn bytes_that_wait_to_be_sent_count_as_written() {
        let (_client, server) = pair();
        server.set_nonblocking(true).unwrap();
        let mut server_writer = &server;
        while server_writer.write(&[0; 65536]).is_ok() {}
        assert!(!quiet_for(server.as_fd(), Duration::from_secs(1000)));
    }

    #[test]
    fn what_is_no_tcp_socket_is_not_quiet() {
        let (one, _two) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(!quiet_for(one.as_fd(), Duration::ZERO));
    }

    #[test]
    fn data_leaves_as_long_as_the_peer_reads() {
        let (mut client, server) = pair();
        assert_eq!(last_left(server.as_fd()), None, "nothing was ever sent");
        server.set_nonblocking(true).unwrap();
        let mut writer = &server;
        while writer.write(&[0; 65536]).is_ok() {}
        // The peer does not read: the last bytes that left grow old.
        let old = Duration::from_millis(100);
        let deadline = Instant::now() + Duration::from_secs(10);
        let wait_until = |what: &str, check: &dyn Fn(Duration) -> bool| {
            while !last_left(server.as_fd()).is_some_and(check) {
                assert!(Instant::now() < deadline, "{what}: {:?}", last_left(server.as_fd()));
                std::thread::yield_now();
            }
        };
        wait_until("it grows old", &|ago| ago > old);
        // Enough for the window to open again. Nothing is written meanwhile.
        let mut room = vec![0; 1 << 20];
        client.read_exact(&mut room).unwrap();
        wait_until("more has left", &|ago| ago < old);
    }

    #[test]
    fn progress_is_what_the_peer_has_acknowledged() {
        let (mut client, mut server) = pair();
        let before = progress(server.as_fd()).unwrap();
        server.write_all(&[0; 1000]).unwrap();
        client.read_exact(&mut [0; 1000]).unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        let taken = || progress(server.as_fd()).unwrap().acknowledged - before.acknowledged;
        while taken() < 1000 {
            assert!(Instant::now() < deadline, "{} bytes", taken());
            std::thread::yield_now();
        }
        assert!(!progress(server.as_fd()).unwrap().unsent);
        server.set_nonblocking(true).unwrap();
        let mut writer = &server;
        while writer.write(&[0; 65536]).is_ok() {}
        let full = progress(server.as_fd()).unwrap();
        assert!(full.unsent);
        while progress(server.as_fd()).unwrap().busy <= full.busy {
            assert!(Instant::now() < deadline, "what is not taken keeps the socket busy");
            std::thread::yield_now();
        }
        let (one, _two) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(progress(one.as_fd()), None);
    }

    #[test]
    fn what_a_socket_does_depends_on_its_peer() {
        let (mut client, mut server) = pair();
        let long = Duration::from_secs(1000);
        assert_eq!(sending(server.as_fd(), long), Sending::Idle);
        server.write_all(b"x").unwrap();
        client.read_exact(&mut [0]).unwrap();
        assert_eq!(sending(server.as_fd(), long), Sending::Moves);
        assert_eq!(sending(server.as_fd(), Duration::ZERO), Sending::Idle);
        server.set_nonblocking(true).unwrap();
        let mut server_writer = &server;
        while server_writer.write(&[0; 65536]).is_ok() {}
        assert_eq!(sending(server.as_fd(), Duration::ZERO), Sending::Stuck);
    }
}
