//! An application's end of a channel, in the hands of a test: bytes and descriptors become frames, one after the other.
//!
//! The owner of the channel says everything that is said over it: HELLO, PONG, and what the application does with its requests.
//! The owner also decides what the end of the channel means, and closes it.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;

use maitred_handoff::{
    FromServer, Hello, MESSAGE_DESCRIPTORS_MAX, PAYLOAD_BYTES_MAX, Request, RequestFlags, VERSION,
    encode_hello, encode_pong,
};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, Shutdown, recvmsg, shutdown};

/// Bytes that are asked of a channel at a time.
const RECEIVE_BYTES: usize = 64 * 1024;

/// A request as it came over the channel.
#[derive(Debug)]
pub struct Given {
    pub connection: u32,
    pub request: u32,
    pub flags: RequestFlags,
    /// Lines of `key=value`.
    pub meta: String,
    pub head: String,
    pub target: String,
    /// The whole body, also if it came in a file; nothing of one that follows as a stream.
    pub body: Vec<u8>,
    /// The response descriptor came along.
    pub passed: bool,
    inode: Option<u64>,
}

impl Given {
    /// The length of its body, as its head has it.
    pub fn length(&self) -> Option<usize> {
        self.head.split("\r\ncontent-length: ").nth(1)?.split('\r').next()?.parse().ok()
    }

    /// The inode of its response descriptor, when it came.
    ///
    /// # Errors
    /// If the application kept none for its connection.
    pub fn inode(&self) -> Result<u64, String> {
        self.inode.ok_or_else(|| format!("connection {:#x} is not known to it", self.connection))
    }
}

/// One thing that a channel has brought.
#[derive(Debug)]
pub enum Heard {
    Welcome,
    Request(Given),
    Cancel {
        connection: u32,
        request: u32,
    },
    Forget {
        connection: u32,
    },
    /// To be answered with [`pong`].
    Ping {
        request: u32,
    },
    Shutdown,
    /// Nothing more comes: the other end is closed, or this one has shut down its receiving side.
    End,
}

/// The application's end of one channel.
#[derive(Debug)]
pub struct Channel {
    socket: Option<OwnedFd>,
    /// The response descriptors that the application keeps, by connection.
    pub kept: BTreeMap<u32, OwnedFd>,
    /// Descriptors whose frames are not complete.
    received: VecDeque<OwnedFd>,
    input: Vec<u8>,
    /// Bytes of `input` that were heard.
    heard_bytes: usize,
    payload_bytes_max: u32,
    /// Where the kernel writes.
    buffer: Vec<u8>,
}

impl Channel {
    /// Nothing has come so far.
    pub fn new(socket: OwnedFd) -> Channel {
        Channel {
            socket: Some(socket),
            kept: BTreeMap::new(),
            received: VecDeque::new(),
            input: Vec::new(),
            heard_bytes: 0,
            payload_bytes_max: PAYLOAD_BYTES_MAX,
            buffer: vec![0; RECEIVE_BYTES],
        }
    }

    /// `None` if this end is closed.
    pub fn socket(&self) -> Option<&OwnedFd> {
        self.socket.as_ref()
    }

    /// Closes this end. Descriptors that came over it stay open.
    pub fn close(&mut self) {
        self.socket = None;
    }

    /// Closes the descriptors that came over it, as the kernel does when a process exits.
    pub fn close_descriptors(&mut self) {
        self.kept.clear();
        self.received.clear();
    }

    /// Shuts down its receiving side: an application that is sent nothing more.
    pub fn stop_receiving(&self) {
        if let Some(socket) = &self.socket {
            shutdown(socket, Shutdown::Read).unwrap();
        }
    }

    /// The next thing that has arrived; it does not wait. [`Heard::End`] comes again until this end is closed.
    ///
    /// # Errors
    /// If Maitred has broken the protocol. Nothing after that can be trusted.
    pub fn hear(&mut self) -> Result<Option<Heard>, String> {
        loop {
            if let Some(heard) = self.take_frame()? {
                return Ok(Some(heard));
            }
            let Some(socket) = &self.socket else { return Ok(None) };
            match receive(socket.as_fd(), &mut self.buffer, RecvFlags::DONTWAIT) {
                Ok((0, _)) | Err(Errno::CONNRESET) => return Ok(Some(Heard::End)),
                Ok((bytes, descriptors)) => {
                    self.input.extend_from_slice(&self.buffer[..bytes]);
                    self.received.extend(descriptors);
                }
                Err(Errno::INTR) => {}
                Err(_) => return Ok(None),
            }
        }
    }

    fn take_frame(&mut self) -> Result<Option<Heard>, String> {
        let input = std::mem::take(&mut self.input);
        let heard = match FromServer::decode(&input[self.heard_bytes..], self.payload_bytes_max) {
            Ok(Some((frame, used))) => {
                self.heard_bytes += used;
                self.take_in(frame).map(Some)
            }
            Ok(None) => Ok(None),
            Err(error) => Err(error.to_string()),
        };
        self.input = input;
        if let Ok(None) = heard {
            self.input.drain(..std::mem::take(&mut self.heard_bytes));
        }
        heard
    }

    fn take_in(&mut self, frame: FromServer<'_>) -> Result<Heard, String> {
        Ok(match frame {
            FromServer::Welcome(welcome) => {
                self.payload_bytes_max = welcome.payload_bytes_max;
                Heard::Welcome
            }
            FromServer::Request(request) => Heard::Request(self.take_request(&request)?),
            FromServer::Forget { connection } => {
                self.kept.remove(&connection);
                Heard::Forget { connection }
            }
            FromServer::Cancel { connection, request } => Heard::Cancel { connection, request },
            FromServer::Ping { request } => Heard::Ping { request },
            FromServer::Shutdown => Heard::Shutdown,
            other => return Err(format!("an unexpected frame: {other:?}")),
        })
    }

    fn take_request(&mut self, asked: &Request<'_>) -> Result<Given, String> {
        let Request { connection, request, flags, .. } = *asked;
        let passed = asked.passes_connection();
        if passed {
            let descriptor = self.take_descriptor()?;
            self.kept.insert(connection, descriptor);
        }
        let (meta, body) = (asked.meta.to_owned(), asked.body.to_vec());
        let head = String::from_utf8(asked.head.to_vec()).map_err(|error| error.to_string())?;
        let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let inode = self.kept.get(&connection).map(inode);
        let mut given = Given { connection, request, flags, meta, head, target, body, passed, inode };
        if flags.body_fd {
            let file = File::from(self.take_descriptor()?);
            given.body = vec![0; given.length().ok_or("no content-length")?];
            file.read_exact_at(&mut given.body, 0).map_err(|error| error.to_string())?;
        }
        Ok(given)
    }

    fn take_descriptor(&mut self) -> Result<OwnedFd, String> {
        self.received.pop_front().ok_or_else(|| "a descriptor that was announced did not come".to_owned())
    }
}

/// HELLO of an application that speaks this version only.
pub fn hello(capacity: u32, sockets_only: bool) -> Vec<u8> {
    let (version_min, version_max, name) = (VERSION, VERSION, "puppet");
    let hello = Hello { version_min, version_max, capacity, sockets_only, recovers: false, name };
    let mut frame = Vec::new();
    encode_hello(&mut frame, &hello);
    frame
}

/// PONG for this PING.
pub fn pong(request: u32) -> Vec<u8> {
    let mut frame = Vec::new();
    encode_pong(&mut frame, request);
    frame
}

/// One recvmsg(2): how many bytes, and the descriptors that came with them.
///
/// # Errors
/// Errors of the system call.
pub fn receive(
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

fn inode(of: &OwnedFd) -> u64 {
    rustix::fs::fstat(of).map_or(0, |stat| stat.st_ino)
}
