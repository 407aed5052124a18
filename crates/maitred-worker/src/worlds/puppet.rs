//! An application process: the far end of a channel, controlled by the world.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use maitred_testing::channel::{Channel, Heard, hello, pong};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg,
};

use maitred_control::{Greeting, SlotId};

/// What a process can still do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Everything.
    Live,
    /// The process receives no more, and finishes what it has.
    Leaving,
    /// The process has done what makes the server end it, or has got the message to end.
    Doomed,
    /// The process has exited, which the master has yet to report.
    Dead,
}

/// One process.
#[derive(Debug)]
pub(super) struct Puppet {
    pub(super) id: SlotId,
    pub(super) phase: Phase,
    pub(super) greeted: bool,
    pub(super) told_to_end: bool,
    /// The worker process that has its channel.
    pub(super) generation: usize,
    /// Whether another worker process uses the channel as well.
    pub(super) shared: bool,
    /// The master has asked it to end; it knows that it has to.
    pub(super) retired: bool,
    pub(super) lost: bool,
    /// What it has said of itself, as the master knows it; the server's end of its channel, and of a link to the next owner.
    pub(super) greeting: Option<Greeting>,
    pub(super) held: Option<OwnedFd>,
    pub(super) link: Option<OwnedFd>,
    /// The end of the channel that the process has.
    pub(super) channel: Channel,
    /// What the channel had no room for.
    out: Vec<u8>,
}

impl Puppet {
    /// A process that has just been started, and the server's end of its channel.
    pub(super) fn new(id: SlotId) -> (Puppet, OwnedFd) {
        let (near, far) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                .unwrap();
        let puppet = Puppet {
            id,
            phase: Phase::Live,
            greeted: false,
            told_to_end: false,
            generation: 0,
            shared: false,
            retired: false,
            lost: false,
            greeting: None,
            held: None,
            link: None,
            channel: Channel::new(near),
            out: Vec::new(),
        };
        (puppet, far)
    }

    pub(super) fn may_speak(&self) -> bool {
        matches!(self.phase, Phase::Live | Phase::Leaving) && self.channel.socket().is_some() && self.greeted
    }

    pub(super) fn greet(&mut self, capacity: u32) {
        self.greeted = true;
        self.say(&hello(capacity, false));
    }

    /// Everything of it is closed, as the kernel does it.
    pub(super) fn die(&mut self) {
        self.phase = Phase::Dead;
        self.channel.close();
        self.channel.close_descriptors();
    }

    /// Closes the process's end of the channel; the process goes on running.
    pub(super) fn close_channel(&mut self) {
        self.phase = Phase::Doomed;
        self.channel.close();
        self.channel.kept.clear();
    }

    /// Stops receiving: the process will read nothing more.
    pub(super) fn leave(&mut self) {
        self.channel.stop_receiving();
        self.phase = Phase::Leaving;
    }

    /// Whether all frames that it has written have left.
    pub(super) fn has_spoken(&self) -> bool {
        self.out.is_empty()
    }

    /// Sends frames, as far as there is room.
    pub(super) fn say(&mut self, frames: &[u8]) {
        self.out.extend_from_slice(frames);
        self.flush();
    }

    /// Sends what there was no room for. Whether any was sent.
    pub(super) fn flush(&mut self) -> bool {
        let Some(socket) = self.channel.socket() else { return false };
        let before = self.out.len();
        while !self.out.is_empty() {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match rustix::net::send(socket, &self.out, flags) {
                Ok(sent) => drop(self.out.drain(..sent)),
                Err(Errno::AGAIN) => break,
                // The server has closed the channel.
                Err(_) => self.out.clear(),
            }
        }
        self.out.len() < before
    }

    /// Sends one frame and its descriptor, if that is possible at once.
    pub(super) fn say_with(&mut self, frame: &[u8], descriptor: BorrowedFd<'_>) -> bool {
        let (Some(socket), true) = (self.channel.socket(), self.out.is_empty()) else { return false };
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        let descriptors = [descriptor];
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(socket, &[IoSlice::new(frame)], &mut control, flags).is_ok_and(|sent| sent == frame.len())
    }

    /// Everything that the server has sent, as far as it has arrived, but for WELCOME and PING.
    pub(super) fn hear(&mut self) -> Result<Vec<Heard>, String> {
        let mut all = Vec::new();
        while let Some(heard) = self.channel.hear()? {
            match heard {
                Heard::Welcome => {}
                Heard::Ping { request } => {
                    if self.may_speak() {
                        self.say(&pong(request));
                    }
                }
                // A process that leaves reads the end of its own shutdown.
                Heard::End if self.phase == Phase::Leaving => break,
                Heard::End => {
                    self.channel.close();
                    all.push(heard);
                }
                _ => all.push(heard),
            }
        }
        Ok(all)
    }
}
