//! Messages to an event-loop thread from other threads: a list under a lock, and an eventfd that is readable while it is not
//! empty.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use super::connection::tls::TlsSession;
use super::connection::transfer::RequestTransfer;
use crate::handoff::Arrival;
use crate::keys::{ChannelKey, ConnId, FillId};
use crate::modules::Answer;
use crate::upstream::fill::writing::Written;
use maitred_control::{Document, DrainTime, SlotId, Started};
use maitred_files::Encoding;
use maitred_policy::plan::IdleTime;

/// Datagrams from another worker process.
#[derive(Debug)]
pub(crate) struct ForwardedDatagrams {
    /// As they have come over the link ([`super::datagram_link`]).
    pub word: Vec<u8>,
}

/// A message from one thread to another.
#[derive(Debug)]
pub(crate) enum Message {
    /// A connection to take over.
    Adopt(Box<ConnectionTransfer>),
    /// A new application process, of whose channel this thread becomes the owner.
    SlotStarted {
        /// Which one.
        id: SlotId,
        /// What the master knows of it.
        started: Started,
        /// The channel of the process.
        channel: OwnedFd,
    },
    /// Give an application process no more requests, and end it when it has none.
    Retire(SlotId),
    /// Return the channel of an application process to the master when it has no request; with `true`, send it none until then.
    Release(SlotId, bool),
    /// Hand the channel of an application process over to another worker process, and reach it by this link from then on.
    HandOn(SlotId, OwnedFd),
    /// The link to the worker processes that use the channel of this process as well. The channel itself comes next.
    LinkComes(SlotId, OwnedFd),
    /// Another worker process is to use this process as well, over this link.
    GuestComes(SlotId, OwnedFd),
    /// The application process has exited.
    SlotExited {
        /// Which one.
        id: SlotId,
        /// What wait(2) said, in words.
        how: String,
    },
    /// No process of this pool runs, and none can be started: waiting requests are refused.
    PoolUnavailable(u16),
    /// The servers of this pool are others.
    ServersChanged(u16),
    /// A server of this pool has room, and a request that waits here is the next.
    ServerRoom(u16),
    /// Another thread has room for a request that waits here.
    Offer {
        /// Index of the pool.
        pool: usize,
        /// The other thread.
        thread: usize,
    },
    /// The disk job of this connection is done.
    DiskDone {
        /// The connection: if it is closed, the message is void.
        connection: ConnId,
        /// How it went.
        result: std::io::Result<()>,
    },
    /// The password of this connection's request was checked.
    Checked {
        /// The connection: if it is closed, the message is void.
        connection: ConnId,
        /// The number of the check: if the request waits for it no more, the message is void.
        check: u32,
        /// Whether it was the right one; `None` if it was not checked, because other addresses have got the places.
        right: Option<bool>,
    },
    /// A module has answered that was to do so later.
    ModuleDone {
        /// The connection: if it is closed, the message is void.
        connection: ConnId,
        /// The number of the ticket: if the request waits for it no more, the message is void.
        number: u32,
        /// The answer; `None` to pass.
        answer: Option<Box<Answer>>,
    },
    /// A response that is being fetched for the cache has come further.
    Filled {
        /// The connection that waits for it: if it is closed, the message is void.
        connection: ConnId,
    },
    /// A helper has written a piece of such a response.
    FillWritten {
        /// The fill.
        fill: FillId,
        /// What goes on being written to, and how it went.
        result: std::io::Result<Written>,
    },
    /// Note which requests are under way: the status is asked for.
    Look,
    /// A coding of a file was made.
    Encoded(Arc<Encoding>),
    /// Helpers have checked what an application process has passed.
    Judged {
        /// Key of its channel.
        key: ChannelKey,
        /// The epoch of the process: if the process has been replaced, the message is void.
        epoch: u64,
        /// What the descriptors are.
        verdicts: Vec<Arrival>,
    },
    /// A helper has written a piece of a response that is kept for a slow client.
    Spilled {
        /// The connection: if it is closed, the message is void.
        connection: ConnId,
        /// How it went.
        result: std::io::Result<()>,
    },
    /// A helper has read a piece of a file that an application process has passed.
    Fetched {
        /// The connection: if it is closed, the message is void.
        connection: ConnId,
        /// The file is the first of what the process has returned; otherwise, of what is being sent.
        tail: bool,
        /// The piece.
        result: std::io::Result<Vec<u8>>,
    },
    /// The master reports what the command of this admin connection waits for.
    CommandWaits {
        /// The connection: if it is closed, the message is void.
        connection: ConnId,
        /// The text may be sent as an interim response.
        interim: bool,
        /// What, as a text for the operator.
        text: String,
    },
    /// The master has carried out the command of this admin connection.
    CommandDone {
        /// The connection: if it is closed, the message is void.
        connection: ConnId,
        /// Whether it went well.
        well: bool,
        /// A text for the operator.
        text: String,
    },
    /// The same, with a document as the answer.
    CommandDocument {
        /// The connection: if it is closed, the message is void.
        connection: ConnId,
        /// The answer.
        document: Box<Document>,
    },
    /// Certificates have changed, or it is known that one will not be made.
    Certificates,
    /// Idle connections go there from now on.
    Successor(Arc<OwnedFd>),
    /// Read the datagram sockets from now on.
    ReadDatagrams,
    /// Do not read those of this address any more: a later worker process does.
    LeaveDatagrams(SocketAddr),
    /// Datagrams that it has read.
    Datagrams(ForwardedDatagrams),
    /// Look at the listeners, although nothing was reported.
    Listen,
    /// Connections that are left are aborted after that time.
    Hurry(Duration),
    /// Stop accepting; finish what is there.
    Drain {
        /// For how long.
        time: DrainTime,
        /// Where idle connections go, if there is a successor.
        successor: Option<Arc<OwnedFd>>,
    },
}

/// A connection on its way from one thread, or one worker process, to another.
#[derive(Debug)]
pub(crate) struct ConnectionTransfer {
    /// The client's socket.
    pub socket: OwnedFd,
    /// The client's address; `None` on a Unix socket.
    pub remote: Option<SocketAddr>,
    /// Index of the listen entry that it came in by.
    pub listen: u16,
    /// Requests answered on it so far.
    pub requests: u32,
    /// How long it may be idle.
    pub idle: IdleTime,
    /// Bytes received and not yet acted on.
    pub input: Vec<u8>,
    /// A request that has yet to be answered.
    pub request: RequestTransfer,
    /// The head of the request as the predecessor has received it; empty if it does not come from there.
    pub text: Vec<u8>,
    /// How it came here, for the counters.
    pub origin: Origin,
    /// A PROXY header has to come before anything else.
    pub awaits_proxy: bool,
    /// The socket is a Unix socket.
    pub foreign: bool,
    /// The TLS session, if it had begun.
    pub secure: Option<Box<TlsSession>>,
}

impl ConnectionTransfer {
    /// An end of a pair of sockets, with a request that a process of another thread is to answer.
    pub(crate) fn of_request(
        socket: OwnedFd,
        remote: Option<SocketAddr>,
        listen: u16,
        request: RequestTransfer,
    ) -> Self {
        let origin = Origin::ForSlot;
        let accepted = ConnectionTransfer::accepted(socket, remote, listen, false);
        ConnectionTransfer { request, origin, foreign: false, ..accepted }
    }

    /// A connection on which nothing was read yet.
    pub(crate) fn accepted(
        socket: OwnedFd,
        remote: Option<SocketAddr>,
        listen: u16,
        awaits_proxy: bool,
    ) -> Self {
        ConnectionTransfer {
            socket,
            remote,
            listen,
            requests: 0,
            idle: IdleTime::default(),
            input: Vec::new(),
            request: RequestTransfer::default(),
            text: Vec::new(),
            origin: Origin::Accepted,
            awaits_proxy,
            foreign: remote.is_none(),
            secure: None,
        }
    }
}

/// Why a connection changed its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Just accepted, by a thread that had more to do.
    Accepted,
    /// The request needs an application process whose channel the other thread owns.
    ForSlot,
    /// From the predecessor of this worker process.
    Predecessor,
}

/// The inbox of one thread, which alone receives; any thread may send.
#[derive(Debug)]
pub(crate) struct Inbox<M> {
    messages: Mutex<Vec<M>>,
    wakeup_fd: OwnedFd,
}

impl<M> Inbox<M> {
    /// An empty inbox.
    ///
    /// # Errors
    /// When the kernel gives no eventfd.
    pub(crate) fn new() -> std::io::Result<Self> {
        let wakeup_fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Inbox { messages: Mutex::new(Vec::new()), wakeup_fd })
    }

    /// Adds a message. The eventfd is written only for the first of several that were not yet taken.
    pub(crate) fn send(&self, message: M) {
        let first = {
            let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
            messages.push(message);
            messages.len() == 1
        };
        if first {
            // EAGAIN means that the counter is full, so the reader is sure to wake; nothing else can go wrong.
            let _ = rustix::io::write(&self.wakeup_fd, &1u64.to_ne_bytes());
        }
    }

    /// Takes all messages, and resets the eventfd.
    pub(crate) fn take(&self) -> Vec<M> {
        let mut count = [0u8; 8];
        let _ = rustix::io::read(&self.wakeup_fd, &mut count);
        std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The descriptor that is readable while there are messages.
    pub(crate) fn wakeup_fd(&self) -> BorrowedFd<'_> {
        self.wakeup_fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bell_rings_until_messages_are_taken() {
        let inbox = Inbox::new().unwrap();
        let rings = || {
            let mut poll = [rustix::event::PollFd::new(&inbox.wakeup_fd, rustix::event::PollFlags::IN)];
            let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            rustix::event::poll(&mut poll, Some(&now)).unwrap() == 1
        };
        assert!(!rings());
        inbox.send(1);
        inbox.send(2);
        assert!(rings());
        assert_eq!(inbox.take(), [1, 2]);
        assert!(!rings());
    }
}
