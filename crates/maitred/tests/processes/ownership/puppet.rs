//! The application's side of a channel, in the hands of the test.
//!
//! A puppet is a process that Maitred has started, that passed its end of the channel to the test, and that does nothing
//! but stay. The test reads what Maitred says to it, and answers in its name.

use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use maitred_testing::channel::{Channel, Given, Heard, hello, pong, receive};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::support::TIMEOUT;

/// Whether a puppet may still speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Yes.
    Live,
    /// The puppet has shut down its receiving side, and finishes what it has.
    Leaving,
    /// No: it has done what makes Maitred end it, or what it says could come too late.
    Doomed,
    /// The puppet's process has exited.
    Dead,
}

/// One puppet.
#[derive(Debug)]
pub(crate) struct Puppet {
    /// The test's name for it.
    pub(crate) number: u32,
    /// The pool that it belongs to.
    pub(crate) pool: String,
    pub(crate) phase: Phase,
    /// Whether the puppet takes several requests at a time.
    pub(crate) concurrent: bool,
    /// Whether the puppet takes and returns no files.
    pub(crate) sockets_only: bool,
    /// Whether the puppet has been welcomed, and may be sent requests.
    pub(crate) welcomed: bool,
    /// The puppet's end of the channel.
    pub(crate) channel: Channel,
    control: UnixStream,
}

impl Puppet {
    /// Takes the channel of a process that has connected, and says HELLO in its name. `None` if it was ended before it could
    /// pass the channel.
    pub(crate) fn accept(
        listener: &UnixListener,
        number: u32,
        capacity: u32,
        sockets_only: bool,
    ) -> Option<Puppet> {
        let (control, _) = listener.accept().unwrap();
        control.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut text = [0; 256];
        let (bytes, mut descriptors) = receive(control.as_fd(), &mut text, RecvFlags::empty()).unwrap();
        let channel = descriptors.pop_front()?;
        let text = std::str::from_utf8(&text[..bytes]).unwrap();
        let mut puppet = Puppet {
            number,
            pool: text.trim().to_owned(),
            phase: Phase::Live,
            concurrent: capacity > 1,
            sockets_only,
            welcomed: false,
            channel: Channel::new(channel),
            control,
        };
        puppet.say(&hello(capacity, sockets_only), &[]);
        Some(puppet)
    }

    /// What to wait for: the end of its process, and what Maitred says.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let control = (self.phase != Phase::Dead).then_some(self.control.as_fd());
        control.into_iter().chain(self.channel.socket().map(AsFd::as_fd))
    }

    /// Whether it may say or write anything. The only ways in which Maitred ends a process lead through [`Phase::Doomed`] or
    /// the end of the channel, so one that may speak does not die between this and the next call.
    pub(crate) fn may_speak(&self) -> bool {
        matches!(self.phase, Phase::Live | Phase::Leaving) && self.channel.socket().is_some()
    }

    /// Whether nothing can come from it or to it any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.phase == Phase::Dead && self.channel.socket().is_none()
    }

    /// Notices the end of the process.
    pub(crate) fn has_exited(&mut self) -> bool {
        if self.phase == Phase::Dead {
            return false;
        }
        self.control.set_nonblocking(true).unwrap();
        let exited = match self.control.read(&mut [0]) {
            Ok(_) => true,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        };
        if exited {
            self.phase = Phase::Dead;
            self.channel.kept.clear();
        }
        exited
    }

    /// Has its process kill itself, or exit in order.
    pub(crate) fn end(&mut self, kill: bool) {
        let _ = self.control.write_all(if kill { b"k" } else { b"q" });
    }

    /// Closes its end of the channel.
    pub(crate) fn close_channel(&mut self) {
        self.channel.close();
        self.channel.kept.clear();
    }

    /// Shuts down its receiving side: it will be sent nothing more.
    pub(crate) fn leave(&mut self) {
        self.channel.stop_receiving();
        self.phase = Phase::Leaving;
    }

    /// Sends frames, and descriptors with their first byte. False if the other end is closed.
    pub(crate) fn say(&mut self, mut frames: &[u8], descriptors: &[BorrowedFd<'_>]) -> bool {
        let Some(socket) = self.channel.socket() else { return false };
        let mut descriptors = descriptors;
        while !frames.is_empty() {
            let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
            let mut control = SendAncillaryBuffer::new(&mut room);
            if !descriptors.is_empty() {
                assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
            }
            match sendmsg(socket, &[IoSlice::new(frames)], &mut control, SendFlags::NOSIGNAL) {
                Ok(sent) => frames = &frames[sent..],
                Err(Errno::INTR) => continue,
                Err(_) => return false,
            }
            descriptors = &[];
        }
        true
    }

    /// Everything that Maitred has said, as far as it has arrived, but for PING.
    pub(crate) fn hear(&mut self) -> Result<Vec<Heard>, String> {
        let mut all = Vec::new();
        while let Some(mut heard) = self.channel.hear()? {
            match &mut heard {
                // A puppet that does not answer is ended.
                Heard::Ping { request } => {
                    if self.may_speak() {
                        self.say(&pong(*request), &[]);
                    }
                    continue;
                }
                Heard::Shutdown => return Err("an unexpected frame: Shutdown".into()),
                // A puppet that leaves reads an end that it has made itself.
                Heard::End if self.phase == Phase::Leaving => break,
                Heard::End => self.channel.close(),
                Heard::Welcome => self.welcomed = true,
                Heard::Request(given) => self.complete(given)?,
                Heard::Cancel { .. } | Heard::Forget { .. } => {}
            }
            all.push(heard);
        }
        Ok(all)
    }

    /// Reads the body of a request that follows as a stream. A puppet that may not speak any more has forgotten its
    /// connections.
    fn complete(&self, given: &mut Given) -> Result<(), String> {
        if self.may_speak() {
            given.inode()?;
        }
        let from = self.channel.kept.get(&given.connection);
        if let Some(from) = from.filter(|_| given.flags.body_stream) {
            given.body = read_stream(from, given.length().ok_or("no content-length")?);
        }
        Ok(())
    }
}

/// So many bytes of a stream, or fewer if it ends.
fn read_stream(from: &OwnedFd, length: usize) -> Vec<u8> {
    let (mut bytes, mut at) = (vec![0; length], 0);
    let timeout = Timespec::try_from(TIMEOUT).ok();
    while at < length {
        match rustix::io::read(from, &mut bytes[at..]) {
            Ok(0) => break,
            Ok(read) => at += read,
            Err(Errno::AGAIN) => {
                let mut readable = [PollFd::new(from, PollFlags::IN)];
                assert_ne!(poll(&mut readable, timeout.as_ref()), Ok(0), "{at} bytes of a body of {length}");
            }
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    bytes.truncate(at);
    bytes
}
