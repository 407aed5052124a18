//! A tunnel: the bytes from a client to the upstream after an upgrade, and which side has ended.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown};

/// The bytes from a client to the other end, and which side has ended.
#[derive(Debug, Default)]
pub struct Tunnel {
    /// What the client has sent.
    pub(in crate::worker) out: Vec<u8>,
    /// How much of `out` has been sent on.
    pub(in crate::worker) sent: usize,
    /// All that the client has to send was read.
    pub(in crate::worker) client_ended: bool,
    /// All that the other end has to send was read.
    pub(in crate::worker) far_end_ended: bool,
    /// The sending side towards the client was shut down.
    pub(in crate::worker) client_told: bool,
    /// So was the sending side towards the other end. Once is enough, and each time makes an event of its own on the socket: it
    /// would never end.
    pub(in crate::worker) far_end_told: bool,
}

impl Tunnel {
    /// Memory that the other end has yet to take.
    pub(in crate::worker) fn unsent_bytes(&self) -> usize {
        if self.sent < self.out.len() { self.out.capacity() } else { 0 }
    }

    /// Sends what was read. True if that is out, and more may be read.
    pub(in crate::worker) fn send_to(&mut self, far_end: BorrowedFd<'_>) -> bool {
        while let Some(rest) = self.out.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match send(far_end, rest, SendFlags::NOSIGNAL) {
                Ok(sent) => self.sent += sent,
                Err(Errno::INTR) => {}
                // That it takes nothing any more shows when it is read.
                Err(_) => return false,
            }
        }
        self.out.clear();
        self.sent = 0;
        if self.client_ended && !std::mem::replace(&mut self.far_end_told, true) {
            let _ = shutdown(far_end, Shutdown::Write);
        }
        !self.client_ended
    }
}

#[cfg(test)]
mod tests {
    use rustix::buffer::spare_capacity;
    use rustix::event::{Timespec, epoll};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn the_other_end_is_told_once_that_the_client_has_ended() {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (near, _far) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let both = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&poll, &near, epoll::EventData::new_u64(0), both).unwrap();
        let events = || {
            let mut events: Vec<epoll::Event> = Vec::with_capacity(4);
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            epoll::wait(&poll, spare_capacity(&mut events), Some(&now)).unwrap()
        };
        assert_eq!((events(), events()), (1, 0), "there is room");
        let mut tunnel = Tunnel { client_ended: true, ..Tunnel::default() };
        assert!(!tunnel.send_to(near.as_fd()));
        assert_eq!(events(), 1, "a shutdown makes an event on the socket itself");
        assert!(!tunnel.send_to(near.as_fd()));
        assert_eq!(events(), 0, "what acts on it must not make another one");
    }
}
