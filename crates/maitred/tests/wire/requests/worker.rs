//! A worker that listens (`connect = "unix:…"`), every byte of which the test decides.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use maitred_handoff::{
    Done, FromServer, Hello, MESSAGE_DESCRIPTORS_MAX, Outcome, PAYLOAD_BYTES_MAX, RequestFlags, VERSION,
    encode_done, encode_hello, encode_streams,
};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::support::{Setup, TIMEOUT};

/// What a channel has brought, but for WELCOME.
#[derive(Debug)]
pub(crate) enum Heard {
    Request(Given),
    Cancel(u32),
    Forget,
}

/// A request.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) connection: u32,
    pub(crate) request: u32,
    pub(crate) flags: RequestFlags,
    pub(crate) meta: String,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// The response descriptor came along.
    pub(crate) passed: bool,
    /// A file with the body came along.
    pub(crate) in_file: bool,
    /// The response descriptor. Dropping it shuts nothing down: the worker keeps a copy.
    pub(crate) answer: UnixStream,
}

impl Given {
    /// So many bytes of the body.
    #[track_caller]
    pub(crate) fn take(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.answer.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// The rest of what comes, up to the end of the stream.
    #[track_caller]
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.answer.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[track_caller]
    pub(crate) fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.answer.write_all(bytes.as_ref()).unwrap();
    }
}

/// A worker at one channel.
#[derive(Debug)]
pub(crate) struct Worker {
    channel: UnixStream,
    input: Vec<u8>,
    received: VecDeque<OwnedFd>,
    kept: std::collections::HashMap<u32, OwnedFd>,
}

/// Where it listens.
pub(crate) fn listen(setup: &Setup) -> UnixListener {
    UnixListener::bind(setup.directory.path().join("worker.sock")).unwrap()
}

impl Worker {
    /// Takes the next channel; `streams`: it takes bodies while they come.
    pub(crate) fn accept(listener: &UnixListener, capacity: u32, streams: bool) -> Worker {
        let (mut channel, _) = listener.accept().unwrap();
        channel.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut hello = Vec::new();
        let (version_min, version_max, name) = (VERSION, VERSION, "worker of a test");
        let (sockets_only, recovers) = (false, false);
        encode_hello(&mut hello, &Hello { version_min, version_max, capacity, sockets_only, recovers, name });
        if streams {
            encode_streams(&mut hello);
        }
        channel.write_all(&hello).unwrap();
        Worker { channel, input: Vec::new(), received: VecDeque::new(), kept: Default::default() }
    }

    /// The next frame, but for WELCOME.
    pub(crate) fn hear(&mut self) -> Heard {
        loop {
            let input = std::mem::take(&mut self.input);
            let decoded = FromServer::decode(&input, PAYLOAD_BYTES_MAX).unwrap();
            let (heard, used) = match decoded {
                None => {
                    self.input = input;
                    self.receive().unwrap();
                    continue;
                }
                Some((frame, used)) => (self.act(&frame), used),
            };
            self.input = input[used..].to_vec();
            if let Some(heard) = heard {
                return heard;
            }
        }
    }

    /// The next frame, which has to be a request; those that close descriptors are passed over.
    #[track_caller]
    pub(crate) fn request(&mut self) -> Given {
        loop {
            match self.hear() {
                Heard::Request(given) => return given,
                Heard::Forget => {}
                other @ Heard::Cancel(_) => panic!("instead of a request: {other:?}"),
            }
        }
    }

    /// Reports a request as done.
    pub(crate) fn done(&mut self, given: &Given, status: u16) {
        let outcome = if status == 0 { Outcome::Broken } else { Outcome::Clean };
        let (connection, request) = (given.connection, given.request);
        let done = Done { connection, request, status, outcome, service_us: 100, body_bytes: 0 };
        let mut bytes = Vec::new();
        encode_done(&mut bytes, &done);
        self.channel.write_all(&bytes).unwrap();
    }

    /// Writes a short response, and reports it.
    #[track_caller]
    pub(crate) fn answer(&mut self, given: &mut Given, text: &str) {
        given.write(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()));
        self.done(given, 200);
    }

    fn act(&mut self, frame: &FromServer<'_>) -> Option<Heard> {
        match frame {
            FromServer::Welcome(_) => None,
            FromServer::Request(request) => {
                if request.passes_connection() {
                    let passed = self.received.pop_front().expect("its descriptor has come");
                    self.kept.insert(request.connection, passed);
                }
                let in_file = request.flags.body_fd;
                drop(self.received.pop_front().filter(|_| in_file));
                let answer = UnixStream::from(self.kept[&request.connection].try_clone().unwrap());
                answer.set_nonblocking(false).unwrap();
                answer.set_read_timeout(Some(TIMEOUT)).unwrap();
                Some(Heard::Request(Given {
                    connection: request.connection,
                    request: request.request,
                    flags: request.flags,
                    meta: request.meta.to_owned(),
                    head: String::from_utf8(request.head.to_vec()).unwrap(),
                    body: request.body.to_vec(),
                    passed: request.passes_connection(),
                    in_file,
                    answer,
                }))
            }
            FromServer::Cancel { request, .. } => Some(Heard::Cancel(*request)),
            FromServer::Forget { connection } => {
                self.kept.remove(connection);
                Some(Heard::Forget)
            }
            other => panic!("an unexpected frame: {other:?}"),
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE_DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut room);
        let mut bytes = vec![0; 65536];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received =
            recvmsg(self.channel.as_fd(), &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                self.received.extend(rights);
            }
        }
        assert!(received.bytes > 0, "the channel has ended");
        self.input.extend_from_slice(&bytes[..received.bytes]);
        Ok(())
    }
}
