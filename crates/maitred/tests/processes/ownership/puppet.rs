//! The application's side of a channel, in the hands of the test.
//!
//! A puppet is a process that Maitred has started, that passed its end of the channel to the test, and that does nothing
//! but stay. The test reads what Maitred says to it, and answers in its name.

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use maitred_handoff::{
    FromServer, Hello, MESSAGE_DESCRIPTORS_MAX, PAYLOAD_BYTES_MAX, RequestFlags, VERSION, encode_hello,
    encode_pong,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use crate::support::TIMEOUT;

/// Bytes that are asked of the channel at a time.
const RECEIVE_BYTES: usize = 64 * 1024;

/// Whether a puppet may still speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Yes.
    Live,
    /// It has shut down its receiving side, and finishes what it has.
    Leaving,
    /// No: it has done what makes Maitred end it, or what it says could come too late.
    Doomed,
    /// Its process has exited.
    Dead,
}

/// A request as it came over the channel.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) connection: u32,
    pub(crate) request: u32,
    pub(crate) flags: RequestFlags,
    pub(crate) target: String,
    pub(crate) body: Vec<u8>,
}

/// What a look at the channel brought.
#[derive(Debug)]
pub(crate) enum Heard {
    Request(Given),
    Cancel {
        connection: u32,
        request: u32,
    },
    Forget {
        connection: u32,
    },
    Welcome,
    /// Maitred has closed its end.
    End,
}

/// One puppet.
#[derive(Debug)]
pub(crate) struct Puppet {
    /// The test's name for it.
    pub(crate) number: u32,
    /// The pool that it belongs to.
    pub(crate) pool: String,
    pub(crate) phase: Phase,
    /// It takes several requests at a time.
    pub(crate) concurrent: bool,
    /// It takes and returns no files.
    pub(crate) sockets_only: bool,
    /// It has been welcomed, and may be sent requests.
    pub(crate) welcomed: bool,
    /// The response descriptors that it keeps.
    pub(crate) kept: HashMap<u32, OwnedFd>,
    control: UnixStream,
    channel: Option<OwnedFd>,
    input: Vec<u8>,
    received: VecDeque<OwnedFd>,
    payload_bytes_max: u32,
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
            kept: HashMap::new(),
            control,
            channel: Some(channel),
            input: Vec::new(),
            received: VecDeque::new(),
            payload_bytes_max: PAYLOAD_BYTES_MAX,
        };
        let mut hello = Vec::new();
        encode_hello(
            &mut hello,
            &Hello {
                version_min: VERSION,
                version_max: VERSION,
                capacity,
                sockets_only,
                recovers: false,
                name: "puppet",
            },
        );
        puppet.say(&hello, &[]);
        Some(puppet)
    }

    /// What to wait for: the end of its process, and what Maitred says.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let control = (self.phase != Phase::Dead).then_some(self.control.as_fd());
        control.into_iter().chain(self.channel.as_ref().map(AsFd::as_fd))
    }

    /// Whether it may say or write anything. The only ways in which Maitred ends a process lead through [`Phase::Doomed`] or
    /// the end of the channel, so one that may speak does not die between this and the next call.
    pub(crate) fn may_speak(&self) -> bool {
        matches!(self.phase, Phase::Live | Phase::Leaving) && self.channel.is_some()
    }

    /// Whether nothing can come from it or to it any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.phase == Phase::Dead && self.channel.is_none()
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
            self.kept.clear();
        }
        exited
    }

    /// Has its process kill itself, or exit in order.
    pub(crate) fn end(&mut self, kill: bool) {
        let _ = self.control.write_all(if kill { b"k" } else { b"q" });
    }

    /// Closes its end of the channel.
    pub(crate) fn close_channel(&mut self) {
        self.channel = None;
        self.kept.clear();
    }

    /// Shuts down its receiving side: it will be sent nothing more.
    pub(crate) fn leave(&mut self) {
        if let Some(channel) = &self.channel {
            rustix::net::shutdown(channel, rustix::net::Shutdown::Read).unwrap();
        }
        self.phase = Phase::Leaving;
    }

    /// Sends frames, and descriptors with their first byte. False if the other end is closed.
    pub(crate) fn say(&mut self, mut frames: &[u8], descriptors: &[BorrowedFd<'_>]) -> bool {
        let Some(channel) = &self.channel else { return false };
        let mut descriptors = descriptors;
        while !frames.is_empty() {
            let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
            let mut control = SendAncillaryBuffer::new(&mut room);
            if !descriptors.is_empty() {
                assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
            }
            match sendmsg(channel, &[IoSlice::new(frames)], &mut control, SendFlags::NOSIGNAL) {
                Ok(sent) => frames = &frames[sent..],
                Err(Errno::INTR) => continue,
                Err(_) => return false,
            }
            descriptors = &[];
        }
        true
    }

    /// Everything that Maitred has said, as far as it has arrived.
    pub(crate) fn hear(&mut self) -> Result<Vec<Heard>, String> {
        let mut heard = Vec::new();
        let mut buffer = vec![0; RECEIVE_BYTES];
        while let Some(channel) = &self.channel {
            match receive(channel.as_fd(), &mut buffer, RecvFlags::DONTWAIT) {
                Ok((0, _)) | Err(Errno::CONNRESET) => {
                    // One that leaves reads an end that it has made itself.
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
                Err(Errno::INTR) => {}
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
                FromServer::Welcome(welcome) => {
                    self.payload_bytes_max = welcome.payload_bytes_max;
                    self.welcomed = true;
                    heard.push(Heard::Welcome);
                }
                FromServer::Request(request) => {
                    let given = self.take_request(&request)?;
                    heard.push(Heard::Request(given));
                }
                FromServer::Forget { connection } => {
                    self.kept.remove(&connection);
                    heard.push(Heard::Forget { connection });
                }
                FromServer::Cancel { connection, request } => {
                    heard.push(Heard::Cancel { connection, request })
                }
                FromServer::Ping { request } => self.answer_ping(request),
                other => return Err(format!("an unexpected frame: {other:?}")),
            }
        }
        self.input = input[at..].to_vec();
        Ok(())
    }

    /// One that does not answer is ended.
    fn answer_ping(&mut self, request: u32) {
        if self.may_speak() {
            let mut pong = Vec::new();
            encode_pong(&mut pong, request);
            self.say(&pong, &[]);
        }
    }

    fn take_request(&mut self, request: &maitred_handoff::Request<'_>) -> Result<Given, String> {
        let missing = || "a descriptor that was announced did not come".to_owned();
        if request.passes_connection() {
            let descriptor = self.received.pop_front().ok_or_else(missing)?;
            self.kept.insert(request.connection, descriptor);
        } else if self.may_speak() && !self.kept.contains_key(&request.connection) {
            return Err(format!("connection {:#x} is not known to it", request.connection));
        }
        let mut body = request.body.to_vec();
        let head = String::from_utf8(request.head.to_vec()).map_err(|error| error.to_string())?;
        let length = || -> Option<usize> {
            head.split("\r\ncontent-length: ").nth(1)?.split('\r').next()?.parse().ok()
        };
        if request.flags.body_fd {
            let file = std::fs::File::from(self.received.pop_front().ok_or_else(missing)?);
            body = vec![0; length().ok_or("no content-length")?];
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut body, 0)
                .map_err(|error| error.to_string())?;
        }
        if let Some(from) = self.kept.get(&request.connection).filter(|_| request.flags.body_stream) {
            body = read_stream(from, length().ok_or("no content-length")?);
        }
        let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let (connection, number) = (request.connection, request.request);
        Ok(Given { connection, request: number, flags: request.flags, target, body })
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

/// One recvmsg(2): how many bytes, and the descriptors that came with them.
fn receive(
    from: BorrowedFd<'_>,
    bytes: &mut [u8],
    flags: RecvFlags,
) -> rustix::io::Result<(usize, VecDeque<OwnedFd>)> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE_DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(from, &mut [IoSliceMut::new(bytes)], &mut control, flags)?;
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    });
    Ok((received.bytes, rights.flatten().collect()))
}
