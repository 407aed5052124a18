//! A worker that listens (`connect = "unix:…"`), every byte of which the test decides.

use std::io::{Read as _, Write as _};
use std::ops::Deref;
use std::os::unix::net::{UnixListener, UnixStream};

use maitred_handoff::{Done, Outcome, encode_done, encode_streams};
use maitred_testing::channel::{self, Channel, hello};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

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
    given: channel::Given,
    /// The response descriptor. Dropping it shuts nothing down: the worker keeps a copy.
    pub(crate) answer: UnixStream,
}

impl Deref for Given {
    type Target = channel::Given;

    fn deref(&self) -> &channel::Given {
        &self.given
    }
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
    channel: Channel,
    /// The channel's socket, to write to it.
    writer: UnixStream,
}

/// Where it listens.
pub(crate) fn listen(setup: &Setup) -> UnixListener {
    UnixListener::bind(setup.directory.path().join("worker.sock")).unwrap()
}

impl Worker {
    /// Takes the next channel; `streams`: it takes bodies while they come.
    pub(crate) fn accept(listener: &UnixListener, capacity: u32, streams: bool) -> Worker {
        let (mut writer, _) = listener.accept().unwrap();
        let mut frames = hello(capacity, false);
        if streams {
            encode_streams(&mut frames);
        }
        writer.write_all(&frames).unwrap();
        Worker { channel: Channel::new(writer.try_clone().unwrap().into()), writer }
    }

    /// The next frame, but for WELCOME.
    pub(crate) fn hear(&mut self) -> Heard {
        loop {
            match self.channel.hear().unwrap() {
                Some(channel::Heard::Welcome) => {}
                Some(channel::Heard::Request(given)) => return Heard::Request(self.take(given)),
                Some(channel::Heard::Cancel { request, .. }) => return Heard::Cancel(request),
                Some(channel::Heard::Forget { .. }) => return Heard::Forget,
                Some(other) => panic!("unexpected: {other:?}"),
                None => self.wait(),
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
        self.writer.write_all(&bytes).unwrap();
    }

    /// Writes a short response, and reports it.
    #[track_caller]
    pub(crate) fn answer(&mut self, given: &mut Given, text: &str) {
        given.write(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()));
        self.done(given, 200);
    }

    fn take(&self, given: channel::Given) -> Given {
        let answer = UnixStream::from(self.channel.kept[&given.connection].try_clone().unwrap());
        answer.set_nonblocking(false).unwrap();
        answer.set_read_timeout(Some(TIMEOUT)).unwrap();
        Given { given, answer }
    }

    fn wait(&self) {
        let mut readable = [PollFd::new(&self.writer, PollFlags::IN)];
        let timeout = Timespec::try_from(TIMEOUT).ok();
        assert_ne!(poll(&mut readable, timeout.as_ref()), Ok(0), "nothing comes over the channel");
    }
}
