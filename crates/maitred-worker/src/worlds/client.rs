//! A client: the near end of a socketpair, whose far end the server has. The world chooses what it sends and takes, and when.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use maitred_testing::model::{Connection, Fate, Progress};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType};

use super::stage::{CLIENT_TIMEOUT, QUEUE_TIMEOUT, REQUEST_TIMEOUT};
use super::time;
use crate::upstream::HALF_CLOSED_TIMEOUT;

/// What a socket of a client with little room holds that has not been read; the kernel makes more of it.
const NARROW_BYTES: usize = 2304;

/// How long a thread may take to read what is there.
pub(super) const MARGIN: Duration = Duration::from_secs(1);

/// One connection of a client, and the model of it.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) socket: Option<OwnedFd>,
    /// The client is a stream of an HTTP/2 connection, and has no socket of its own.
    pub(super) is_stream: bool,
    /// The inode of the server's end.
    pub(super) inode: u64,
    pub(super) model: Connection,
    /// Where in its bytes each request ends.
    pub(super) boundaries: Vec<usize>,
    /// When each request was there as a whole.
    pub(super) sent_at: Vec<Option<Instant>>,
    came: Instant,
    /// When it last sent anything.
    pub(super) active: Instant,
    half_closed_at: Option<Instant>,
    /// When it closed its own connection.
    pub(super) left_at: Option<Instant>,
    out: Vec<u8>,
    pub(super) sent: usize,
    pub(super) received: Vec<u8>,
    /// The server has ended the connection; `early` if the client had not finished sending.
    pub(super) ended: bool,
    pub(super) early: bool,
}

impl Client {
    /// A client, and the server's end of its connection.
    pub(super) fn new(
        model: Connection,
        out: Vec<u8>,
        boundaries: Vec<usize>,
        narrow: bool,
    ) -> (Client, OwnedFd) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (near, far) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        if narrow {
            for end in [&near, &far] {
                rustix::net::sockopt::set_socket_send_buffer_size(end, NARROW_BYTES).unwrap();
            }
        }
        let client = Client {
            socket: Some(near),
            is_stream: false,
            inode: time::inode(&far),
            sent_at: vec![None; boundaries.len()],
            came: time::now(),
            active: time::now(),
            half_closed_at: None,
            left_at: None,
            model,
            boundaries,
            out,
            sent: 0,
            received: Vec::new(),
            ended: false,
            early: false,
        };
        (client, far)
    }

    /// A stream with one request.
    pub(super) fn of_stream(model: Connection) -> Client {
        Client {
            socket: None,
            is_stream: true,
            inode: 0,
            sent_at: vec![None],
            came: time::now(),
            active: time::now(),
            half_closed_at: None,
            left_at: None,
            model,
            boundaries: vec![0],
            out: Vec::new(),
            sent: 0,
            received: Vec::new(),
            ended: false,
            early: false,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        !self.ended && if self.is_stream { !self.model.left } else { self.has_socket() }
    }

    /// Whether it has a connection of its own, which is open.
    pub(super) fn has_socket(&self) -> bool {
        self.socket.is_some() && !self.ended
    }

    /// Whether anything is left to send, and can be sent.
    pub(super) fn may_send(&self) -> bool {
        self.has_socket() && !self.model.half_closed && self.sent < self.out.len()
    }

    /// Sends at most this many bytes. Whether any were sent.
    pub(super) fn send(&mut self, at_most: usize) -> bool {
        let Some(socket) = &self.socket else { return false };
        let end = self.out.len().min(self.sent.saturating_add(at_most));
        let piece = &self.out[self.sent..end];
        // The server may have closed; the next read shows how.
        let Ok(sent) = rustix::net::send(socket, piece, SendFlags::NOSIGNAL) else { return false };
        self.sent += sent;
        // What comes so late may be unread when the time is over.
        self.model.cut |= time::now().saturating_duration_since(self.active) >= CLIENT_TIMEOUT - MARGIN;
        self.active = time::now();
        let all = self.model.requests.iter_mut().zip(&self.boundaries).zip(&mut self.sent_at);
        for ((request, end), at) in all {
            if *end <= self.sent && !request.sent {
                (request.sent, *at) = (true, Some(time::now()));
            }
        }
        sent > 0
    }

    /// Reads at most this many bytes. Whether anything came.
    pub(super) fn read(&mut self, at_most: usize) -> bool {
        let (mut piece, mut left) = ([0; 4096], at_most);
        while left > 0 && !self.ended {
            let Some(socket) = &self.socket else { break };
            let room = left.min(piece.len());
            match rustix::net::recv(socket, &mut piece[..room], RecvFlags::empty()) {
                Ok((0, _)) | Err(Errno::CONNRESET) => self.ended = true,
                Ok((bytes, _)) => {
                    self.received.extend_from_slice(&piece[..bytes]);
                    left -= bytes;
                }
                Err(Errno::AGAIN) => break,
                Err(error) => panic!("a client reads: {error}"),
            }
        }
        let came = left < at_most || self.ended;
        self.early |= self.ended && !self.model.half_closed;
        came
    }

    /// The bytes that have left.
    pub(super) fn bytes_sent(&self) -> &[u8] {
        &self.out[..self.sent]
    }

    pub(super) fn half_close(&mut self) {
        self.model.half_closed = true;
        // After that, a request that no process has read is not retried.
        self.model.requests.iter_mut().for_each(|request| request.may_be_unseen = true);
        self.active = time::now();
        self.half_closed_at = Some(self.active);
        if let Some(socket) = &self.socket {
            let _ = rustix::net::shutdown(socket, Shutdown::Write);
        }
    }

    /// Closes; what it has not read makes that a reset.
    pub(super) fn leave(&mut self) {
        self.model.left = true;
        self.left_at = self.socket.take().map(|_| time::now());
    }

    /// Whether it has all of its responses, and may close.
    pub(super) fn is_content(&self, progress: Progress, unfinished: bool) -> bool {
        if self.model.half_closed || progress.partly {
            return false;
        }
        if progress.over {
            // The server has to end it, unless an application has taken it over.
            return self.model.requests.iter().any(|request| request.fate == Fate::Detached);
        }
        let sent = self.model.requests.iter().filter(|request| request.sent).count();
        progress.answered >= sent && (unfinished || !self.may_send())
    }

    /// Time has passed: notes what the server may end because of that.
    pub(super) fn note_time(&mut self) {
        let now = time::now();
        if now.saturating_duration_since(self.active) >= CLIENT_TIMEOUT {
            self.model.cut = true;
        }
        for (request, at) in self.model.requests.iter_mut().zip(&self.sent_at) {
            let waited = at.map(|at| now.saturating_duration_since(at));
            // What is there may be unread: a thread may be late, and look at some of what has happened.
            let unread = at.is_none() || request.fate == Fate::Waiting;
            request.late |= unread && now.saturating_duration_since(self.came) >= CLIENT_TIMEOUT;
            if waited.is_some_and(|waited| waited >= QUEUE_TIMEOUT) {
                self.model.refusals = true;
            }
            request.timed_out |= waited.is_some_and(|waited| waited >= REQUEST_TIMEOUT);
            // A server is given less time for a client that may have gone.
            let ago = self.half_closed_at.map(|at| now.saturating_duration_since(at));
            request.timed_out |=
                request.server.is_some() && ago.is_some_and(|ago| ago >= HALF_CLOSED_TIMEOUT);
        }
    }
}
