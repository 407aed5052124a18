//! Options of listening sockets that rustix does not have.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Attaches the classic-BPF program that gives a new connection to bucket (CPU that received its SYN) mod `buckets` of
/// the `SO_REUSEPORT` group that `socket` belongs to: socket(7), `SO_ATTACH_REUSEPORT_CBPF`. Buckets count in the order
/// in which they began to listen.
///
/// # Errors
/// What setsockopt(2) says; `InvalidInput` for zero buckets.
pub fn steer_by_cpu(socket: impl AsFd, buckets: u16) -> io::Result<()> {
    if buckets == 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let step = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    // SKF_AD_OFF is negative by design: the kernel takes loads from there as ancillary data, here the CPU's number.
    let cpu = (libc::SKF_AD_OFF + libc::SKF_AD_CPU) as u32;
    let mut program = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, cpu),
        step(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, u32::from(buckets)),
        step(libc::BPF_RET | libc::BPF_A, 0),
    ];
    let option = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &option)
}

/// Takes the program away again, if there is one: connections go to the buckets by hash (`SO_DETACH_REUSEPORT_BPF`).
///
/// # Errors
/// What setsockopt(2) says, but for the absence of a program.
pub fn steer_by_hash(socket: impl AsFd) -> io::Result<()> {
    match set(socket, libc::SOL_SOCKET, libc::SO_DETACH_REUSEPORT_BPF, &0_i32) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        other => other,
    }
}

/// Holds new connections back until their first bytes are there, for about `timeout` (whole seconds); none for zero.
/// See tcp(7), `TCP_DEFER_ACCEPT`.
///
/// # Errors
/// What setsockopt(2) says.
pub fn defer_accept(socket: impl AsFd, timeout: Duration) -> io::Result<()> {
    let seconds = i32::try_from(timeout.as_secs()).unwrap_or(i32::MAX);
    set(socket, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, &seconds)
}

/// Sets the protocol that the kernel speaks above TCP on a connection, `"tls"` for one: `TCP_ULP` of linux/tcp.h.
///
/// # Errors
/// What setsockopt(2) says; `NotFound` if the kernel has no such protocol, `InvalidInput` for a name of 16 bytes or more.
pub fn set_upper_protocol(socket: impl AsFd, name: &str) -> io::Result<()> {
    // TCP_ULP_NAME_MAX, with the NUL at the end.
    let mut room = [0_u8; 16];
    match room.get_mut(..name.len()) {
        Some(place) if name.len() < 16 => place.copy_from_slice(name.as_bytes()),
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    }
    set(socket, libc::IPPROTO_TCP, libc::TCP_ULP, &room)
}

fn set<T>(socket: impl AsFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `size` bytes at `value`, which is that large; what a `sock_fprog` points to lives in the
    // caller until this returns, and the kernel copies it.
    let result = unsafe {
        libc::setsockopt(socket.as_fd().as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), size)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn both_are_accepted_by_the_kernel() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        defer_accept(&listener, Duration::from_secs(5)).unwrap();
        defer_accept(&listener, Duration::ZERO).unwrap();
        let group =
            rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None)
                .unwrap();
        rustix::net::sockopt::set_socket_reuseport(&group, true).unwrap();
        steer_by_cpu(&group, 4).unwrap();
        assert!(steer_by_cpu(&group, 0).is_err());
    }

    #[test]
    fn a_protocol_that_is_not_there_is_not_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let missing = set_upper_protocol(&client, "no-such").unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert_eq!(
            set_upper_protocol(&client, &"x".repeat(16)).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
    }
}
