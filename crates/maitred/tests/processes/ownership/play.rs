//! A server whose puppets do what a test says, one step after the other.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use maitred_handoff::{Done, Outcome, encode_done, encode_tail_file};
use maitred_testing::channel::{Given, Heard};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::ownership::client::Client;
use crate::ownership::puppet::Puppet;
use crate::ownership::world::{Kind, SEVERAL, start};
use crate::support::{Server, TIMEOUT, eventually};

/// A server, its puppets, and what they have received and the test has not asked for yet.
pub(crate) struct Play {
    pub(crate) server: Server,
    listener: UnixListener,
    pub(crate) puppets: Vec<Puppet>,
    heard: Vec<(usize, Given)>,
    sockets_only: bool,
}

impl Play {
    /// With puppets of capacity 1, and a queue of this length.
    pub(crate) fn new(queue: usize) -> Play {
        Play::with(queue, false)
    }

    /// With puppets that take no files, and get bodies in streams.
    pub(crate) fn of_sockets_only() -> Play {
        Play::with(100, true)
    }

    fn with(queue: usize, sockets_only: bool) -> Play {
        let request_timeout = TIMEOUT;
        let kind = Kind { threads: 1, slots: SEVERAL, defer_accept: true, queue, request_timeout };
        let (server, listener) = start(&kind);
        let mut play = Play { server, listener, puppets: Vec::new(), heard: Vec::new(), sockets_only };
        for _ in 0..4 {
            play.meet();
        }
        play
    }

    /// Waits for the next process to start.
    fn meet(&mut self) {
        let number = self.puppets.len() as u32;
        let mut puppet = Puppet::accept(&self.listener, number, 1, self.sockets_only).unwrap();
        eventually("a puppet is welcome", || {
            puppet.hear().unwrap().iter().any(|heard| matches!(heard, Heard::Welcome))
        });
        self.puppets.push(puppet);
    }

    /// Waits for the next request, and says which puppet got it.
    pub(crate) fn request(&mut self) -> (usize, Given) {
        let Play { puppets, heard, .. } = self;
        eventually("a puppet gets a request", || {
            for (at, puppet) in puppets.iter_mut().enumerate() {
                for news in puppet.hear().unwrap() {
                    if let Heard::Request(given) = news {
                        heard.push((at, given));
                    }
                }
            }
            !heard.is_empty()
        });
        self.heard.remove(0)
    }

    /// Answers with two bytes.
    pub(crate) fn answer(&mut self, who: usize, given: &Given) {
        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        send(&self.puppets[who].channel.kept[&given.connection], response, SendFlags::NOSIGNAL).unwrap();
        self.report(who, given, Vec::new(), None);
    }

    /// Answers with a head and a whole file: writes what the socket takes, and returns the rest as a tail.
    /// The socket is taken to be full when it has had no room for `timeout`.
    pub(crate) fn answer_with(
        &mut self,
        who: usize,
        given: &Given,
        (head, file, bytes): (&str, &File, &[u8]),
        timeout: Duration,
    ) {
        let descriptor = &self.puppets[who].channel.kept[&given.connection];
        send(descriptor, head.as_bytes(), SendFlags::NOSIGNAL).unwrap();
        let mut written = 0;
        loop {
            match send(descriptor, &bytes[written..], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => written += sent,
                Err(error) => {
                    assert_eq!(error, Errno::AGAIN);
                    let mut room = [PollFd::new(descriptor, PollFlags::OUT)];
                    if poll(&mut room, Timespec::try_from(timeout).ok().as_ref()) == Ok(0) {
                        break;
                    }
                }
            }
            assert!(written < bytes.len(), "the response has to be larger than all buffers");
        }
        let mut tail = Vec::new();
        let left = (bytes.len() - written) as u64;
        encode_tail_file(&mut tail, given.connection, given.request, written as u64, left);
        self.report(who, given, tail, Some(file));
    }

    /// Answers with a head and as much as the client's socket takes; the response ends with the connection.
    pub(crate) fn answer_to_the_brim(&mut self, who: usize, given: &Given) -> usize {
        let descriptor = &self.puppets[who].channel.kept[&given.connection];
        let head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
        let mut written = send(descriptor, head, SendFlags::NOSIGNAL).unwrap();
        while let Ok(sent) = send(descriptor, &[b'r'; 65536], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            written += sent;
        }
        self.report_as(Outcome::Close, who, given, Vec::new(), None);
        written
    }

    fn report(&mut self, who: usize, given: &Given, frames: Vec<u8>, file: Option<&File>) {
        self.report_as(Outcome::Clean, who, given, frames, file);
    }

    fn report_as(
        &mut self,
        outcome: Outcome,
        who: usize,
        given: &Given,
        mut frames: Vec<u8>,
        file: Option<&File>,
    ) {
        let (connection, request) = (given.connection, given.request);
        // As long as if it had not been short, so that no request waits behind another one.
        let (service_us, body_bytes) = (300_000, 2);
        encode_done(&mut frames, &Done { connection, request, status: 200, outcome, service_us, body_bytes });
        let descriptors: Vec<_> = file.iter().map(|file| file.as_fd()).collect();
        assert!(self.puppets[who].say(&frames, &descriptors));
    }

    /// A client that sends these bytes at once.
    pub(crate) fn connect(&self, bytes: impl Into<Vec<u8>>) -> Client {
        let mut client = Client::connect(self.server.address, bytes.into());
        client.send(usize::MAX);
        client
    }
}

/// Waits until the client has received `text`.
pub(crate) fn receives(client: &mut Client, text: &str) {
    eventually("a response", || {
        client.read(usize::MAX);
        client.received.windows(text.len()).any(|window| window == text.as_bytes())
    });
}

/// A plain request.
pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}
