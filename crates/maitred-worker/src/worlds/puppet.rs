//! An application process: the far end of a channel, controlled by the world.

use std::collections::{BTreeMap, VecDeque};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use maitred_handoff::{
    FromServer, Hello, MESSAGE_DESCRIPTORS_MAX, PAYLOAD_BYTES_MAX, RequestFlags, VERSION, encode_hello,
    encode_pong,
};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg,
};

use super::time;
use maitred_control::{Greeting, SlotId};

/// What a process can still do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Everything.
    Live,
    /// It receives no more, and finishes what it has.
    Leaving,
    /// It has done what makes the server end it, or has got the message to end.
    Doomed,
    /// It has exited, which the master has yet to report.
    Dead,
}

/// A request as it came over the channel.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) connection: u32,
    pub(super) request: u32,
    pub(super) flags: RequestFlags,
    pub(super) target: String,
    pub(super) body: Vec<u8>,
    /// What its response descriptor leads to.
    pub(super) inode: u64,
}

/// What a look at the channel brought.
#[derive(Debug)]
pub(super) enum Heard {
    Request(Given),
    Cancel(u32),
    Forget(u32),
    Shutdown,
    End,
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
    /// Another one uses it as well.
    pub(super) shared: bool,
    /// The master has asked it to end; it knows that it has to.
    pub(super) retired: bool,
    pub(super) lost: bool,
    /// What it has said of itself, as the master knows it; the server's end of its channel, and of a link to the next owner.
    pub(super) greeting: Option<Greeting>,
    pub(super) held: Option<OwnedFd>,
    pub(super) link: Option<OwnedFd>,
    /// The response descriptors that it keeps.
    pub(super) kept: BTreeMap<u32, OwnedFd>,
    channel: Option<OwnedFd>,
    input: Vec<u8>,
    received: VecDeque<OwnedFd>,
    payload_bytes_max: u32,
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
            kept: BTreeMap::new(),
            channel: Some(near),
            input: Vec::new(),
            received: VecDeque::new(),
            payload_bytes_max: PAYLOAD_BYTES_MAX,
            out: Vec::new(),
        };
        (puppet, far)
    }

    pub(super) fn may_speak(&self) -> bool {
        matches!(self.phase, Phase::Live | Phase::Leaving) && self.channel.is_some() && self.greeted
    }

    pub(super) fn greet(&mut self, capacity: u32) {
        let hello = Hello {
            version_min: VERSION,
            version_max: VERSION,
            capacity,
            sockets_only: false,
            recovers: false,
            name: "puppet",
        };
        let mut frame = Vec::new();
        encode_hello(&mut frame, &hello);
        self.greeted = true;
        self.say(&frame);
    }

    /// Everything of it is closed, as the kernel does it.
    pub(super) fn die(&mut self) {
        (self.phase, self.channel) = (Phase::Dead, None);
        self.kept.clear();
        self.received.clear();
    }

    /// It closes its end of the channel, and goes on running.
    pub(super) fn close_channel(&mut self) {
        (self.phase, self.channel) = (Phase::Doomed, None);
        self.kept.clear();
    }

    /// It will read nothing more.
    pub(super) fn leave(&mut self) {
        if let Some(channel) = &self.channel {
            rustix::net::shutdown(channel, rustix::net::Shutdown::Read).unwrap();
        }
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
        let Some(channel) = &self.channel else { return false };
        let before = self.out.len();
        while !self.out.is_empty() {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match rustix::net::send(channel, &self.out, flags) {
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
        let (Some(channel), true) = (&self.channel, self.out.is_empty()) else { return false };
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        let descriptors = [descriptor];
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(channel, &[IoSlice::new(frame)], &mut control, flags).is_ok_and(|sent| sent == frame.len())
    }

    /// Everything that the server has sent, as far as it has arrived.
    pub(super) fn hear(&mut self) -> Result<Vec<Heard>, String> {
        let mut heard = Vec::new();
        let mut buffer = vec![0; 16 * 1024];
        while let Some(channel) = &self.channel {
            match receive(channel.as_fd(), &mut buffer) {
                Ok((0, _)) | Err(Errno::CONNRESET) => {
                    // A process that leaves reads the end of its own shutdown.
                    if self.phase != Phase::Leaving {
                        self.channel = None;
                        heard.push(Heard::End);
                    }
                    break;
                }
                Ok((bytes, descriptors)) => {
                    self.input.extend_from_slice(&buffer[..bytes]);
                    self.received.extend(descriptors);
                    self.take_frames(&mut heard)?;
                }
                Err(_) => break,
            }
        }
        Ok(heard)
    }

    fn take_frames(&mut self, heard: &mut Vec<Heard>) -> Result<(), String> {
        let input = std::mem::take(&mut self.input);
        let mut at = 0;
        while let Some((frame, used)) =
            FromServer::decode(&input[at..], self.payload_bytes_max).map_err(|error| error.to_string())?
        {
            at += used;
            match frame {
                FromServer::Welcome(welcome) => self.payload_bytes_max = welcome.payload_bytes_max,
                FromServer::Request(request) => {
                    let given = self.take_request(&request)?;
                    heard.push(Heard::Request(given));
                }
                FromServer::Forget { connection } => {
                    self.kept.remove(&connection);
                    heard.push(Heard::Forget(connection));
                }
                FromServer::Cancel { request, .. } => heard.push(Heard::Cancel(request)),
                FromServer::Shutdown => heard.push(Heard::Shutdown),
                FromServer::Ping { request } => {
                    if self.may_speak() {
                        let mut pong = Vec::new();
                        encode_pong(&mut pong, request);
                        self.say(&pong);
                    }
                }
                other => return Err(format!("an unexpected frame: {other:?}")),
            }
        }
        self.input = input[at..].to_vec();
        Ok(())
    }

    fn take_request(&mut self, request: &maitred_handoff::Request<'_>) -> Result<Given, String> {
        let missing = || "a descriptor that was announced did not come".to_owned();
        if request.passes_connection() {
            let descriptor = self.received.pop_front().ok_or_else(missing)?;
            self.kept.insert(request.connection, descriptor);
        } else if !self.kept.contains_key(&request.connection) {
            return Err(format!("connection {:#x} is not known to it", request.connection));
        }
        let head = String::from_utf8(request.head.to_vec()).map_err(|error| error.to_string())?;
        let mut body = request.body.to_vec();
        if request.flags.body_fd {
            let file = std::fs::File::from(self.received.pop_front().ok_or_else(missing)?);
            let length = head.split("\r\ncontent-length: ").nth(1).and_then(|rest| rest.split('\r').next());
            body = vec![0; length.and_then(|length| length.parse().ok()).ok_or("no content-length")?];
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut body, 0)
                .map_err(|error| error.to_string())?;
        }
        let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let (connection, number) = (request.connection, request.request);
        let inode = self.kept.get(&connection).map_or(0, time::inode);
        Ok(Given { connection, request: number, flags: request.flags, target, body, inode })
    }
}

/// One recvmsg(2): how many bytes, and the descriptors that came with them.
fn receive(from: BorrowedFd<'_>, bytes: &mut [u8]) -> rustix::io::Result<(usize, VecDeque<OwnedFd>)> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE_DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = recvmsg(from, &mut [IoSliceMut::new(bytes)], &mut control, flags)?;
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    });
    Ok((received.bytes, rights.flatten().collect()))
}
