//! The master's end of the control socket of one worker process. Neither reading nor writing ever waits.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use maitred_sys::receive::receive;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use maitred_base::passed::{Passed, closer_apart};
use maitred_control::{FromWorker, MESSAGE_BYTES_MAX, ToWorker};

/// Longest text for a person in one message, so that the message stays below [`MESSAGE_BYTES_MAX`] whatever has to be escaped.
const TEXT_BYTES_MAX: usize = MESSAGE_BYTES_MAX / 8;

/// Messages that are taken from one worker process before signals, exits and the other processes have their turn. A worker
/// process may be in the hands of an attacker, and could otherwise keep the master reading.
pub(crate) const MESSAGES_PER_TURN_MAX: usize = 256;
/// Messages that may wait for a worker process that does not read. A reload of the largest configuration is some for each of a
/// few thousand slots; one that lets more wait has hung, or asks without reading the answers.
const WAITING_MAX: usize = 32 * 1024;

/// What arrived.
#[derive(Debug)]
pub(crate) enum Received {
    /// A message.
    Message(FromWorker),
    /// Nothing more for now.
    Empty,
    /// The other side is gone.
    End,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Channel {
    /// A worker process may have passed something, or not have received channels of application processes that have.
    socket: Passed,
    /// Messages that found the socket full.
    waiting: VecDeque<(Vec<u8>, Option<OwnedFd>)>,
    ended: bool,
}

impl Channel {
    /// A connected pair: the master's end, and the one to hand to the worker process.
    ///
    /// # Errors
    /// What socketpair(2) says.
    pub(crate) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        let socket = Passed::own(ours, None, closer_apart().clone());
        Ok((Channel { socket, waiting: VecDeque::new(), ended: false }, theirs))
    }

    /// Whether messages wait for the socket to become writable.
    pub(crate) fn is_full(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether the other side has not read for so long that more is not kept for it. The process is then ended.
    pub(crate) fn is_stuck(&self) -> bool {
        self.waiting.len() > WAITING_MAX
    }

    /// Forgets what waits, and takes the other side for gone, since its process is being killed.
    pub(crate) fn abandon(&mut self) {
        self.ended = true;
        self.waiting.clear();
    }

    /// Whether the other side is gone; nothing will come any more.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Sends a message, now or when there is room.
    pub(crate) fn send(&mut self, message: &ToWorker, descriptor: Option<OwnedFd>) {
        if self.is_stuck() {
            return;
        }
        let text = match message {
            ToWorker::CommandDone(number, well, text) => {
                serde_json::to_vec(&ToWorker::CommandDone(*number, *well, shortened(text)))
            }
            ToWorker::SlotExited(id, how) => serde_json::to_vec(&ToWorker::SlotExited(*id, shortened(how))),
            other => serde_json::to_vec(other),
        };
        match text {
            Ok(text) => self.waiting.push_back((text, descriptor)),
            Err(error) => tracing::error!(%error, "a message to the worker process cannot be written"),
        }
        self.flush();
    }

    /// Sends what waits, as far as there is room.
    pub(crate) fn flush(&mut self) {
        while let Some((text, descriptor)) = self.waiting.front() {
            match send(&self.socket, text, descriptor.as_ref()) {
                Err(Errno::AGAIN | Errno::NOBUFS) => return,
                Err(Errno::INTR) => {}
                Ok(_) => drop(self.waiting.pop_front()),
                Err(_) => {
                    // The other side is gone; the exit of its process is an event of its own.
                    self.abandon();
                }
            }
        }
    }

    /// The next message.
    ///
    /// # Errors
    /// A text when the other side sent something that is no message.
    pub(crate) fn receive(&mut self) -> Result<Received, String> {
        let (mut text, mut passed) = (Vec::with_capacity(MESSAGE_BYTES_MAX), Vec::new());
        loop {
            let received = receive(&self.socket, &mut text, &mut passed);
            // A worker process passes none. What it does pass is not closed here: that may take any time.
            passed
                .drain(..)
                .for_each(|descriptor| drop(Passed::new(descriptor, None, closer_apart().clone())));
            match received {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Received::Empty),
                Ok(0) | Err(_) => {
                    self.ended = true;
                    return Ok(Received::End);
                }
                Ok(_) => {
                    let message = serde_json::from_slice(&text);
                    return message.map(Received::Message).map_err(|error| error.to_string());
                }
            }
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sends a message, with a descriptor if there is one.
///
/// # Errors
/// What sendmsg(2) says.
pub(crate) fn send(socket: impl AsFd, text: &[u8], descriptor: Option<&OwnedFd>) -> Result<usize, Errno> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    let rights: Vec<BorrowedFd<'_>> = descriptor.iter().map(|one| one.as_fd()).collect();
    if !rights.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&rights));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::sendmsg(socket, &[IoSlice::new(text)], &mut control, flags)
}

fn shortened(text: &str) -> String {
    match text.len() <= TEXT_BYTES_MAX {
        true => text.to_owned(),
        false => format!("{} ...", text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::RecvFlags;

    use super::*;
    use maitred_control::{SlotId, Started};

    fn started() -> Started {
        Started { pid: 1, greeting: None, borrowed: false, linked: false, guest: false }
    }

    /// Reads one message as a worker process would; tells whether a descriptor came along.
    fn read(socket: &OwnedFd) -> (ToWorker, bool) {
        let mut text = vec![0; MESSAGE_BYTES_MAX];
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = rustix::net::RecvAncillaryBuffer::new(&mut room);
        let mut parts = [io::IoSliceMut::new(&mut text)];
        let got = rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
        let rights = control.drain().next().is_some();
        (serde_json::from_slice(&text[..got.bytes]).unwrap(), rights)
    }

    #[test]
    fn messages_wait_for_room_and_keep_their_order_and_descriptors() {
        let (mut channel, theirs) = Channel::pair().unwrap();
        let id = |slot| SlotId { pool: 0, slot, epoch: u64::from(slot) };
        let (passed, _other) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                .unwrap();
        let mut sent = 0;
        while !channel.is_full() {
            let descriptor = (sent % 2 == 0).then(|| passed.try_clone().unwrap());
            channel.send(&ToWorker::SlotStarted(id(sent), started()), descriptor);
            sent += 1;
        }
        for slot in 0..sent {
            assert_eq!(read(&theirs), (ToWorker::SlotStarted(id(slot), started()), slot % 2 == 0));
            channel.flush();
        }
        assert!(!channel.is_full());
    }

    #[test]
    fn what_waits_for_a_process_that_does_not_read_has_a_bound() {
        let (mut channel, theirs) = Channel::pair().unwrap();
        let mut sent = 0;
        while !channel.is_stuck() {
            channel.send(&ToWorker::Hurry(1), None);
            sent += 1;
            assert!(sent < 2 * WAITING_MAX, "there is no bound");
        }
        let waiting = channel.waiting.len();
        channel.send(&ToWorker::Hurry(1), None);
        assert_eq!(channel.waiting.len(), waiting);
        drop(theirs);
    }

    #[test]
    fn a_long_text_is_cut_to_a_packet() {
        let (mut channel, theirs) = Channel::pair().unwrap();
        channel.send(&ToWorker::CommandDone(1, false, "\u{1}é".repeat(1 << 20)), None);
        let (ToWorker::CommandDone(1, false, text), _) = read(&theirs) else { panic!("another message") };
        assert!(text.ends_with("é ...") || text.ends_with("\u{1} ..."));
    }

    #[test]
    fn the_end_and_nonsense_are_seen() {
        let (mut channel, theirs) = Channel::pair().unwrap();
        assert!(matches!(channel.receive(), Ok(Received::Empty)));
        rustix::net::send(&theirs, b"\"Ready\"", SendFlags::empty()).unwrap();
        rustix::net::send(&theirs, b"nonsense", SendFlags::empty()).unwrap();
        assert!(matches!(channel.receive(), Ok(Received::Message(FromWorker::Ready))));
        assert!(channel.receive().is_err());
        drop(theirs);
        assert!(matches!(channel.receive(), Ok(Received::End)));
        channel.send(&ToWorker::Hurry(1), None);
        assert!(channel.is_ended() && !channel.is_full());
    }
}
