//! The channel: what all tasks share of it, and how reports leave.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use maitred_handoff::MESSAGE_DESCRIPTORS_MAX;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::Notify;

/// What goes to Maitred with the next message.
#[derive(Default)]
struct Queued {
    bytes: Vec<u8>,
    files: VecDeque<OwnedFd>,
}

/// What all tasks share.
pub(crate) struct Channel {
    pub(crate) socket: UnixStream,
    queued: RefCell<Queued>,
    /// Something is queued.
    pub(crate) more: Notify,
    /// What cancels each request that is under way.
    pub(crate) running: RefCell<HashMap<u32, Rc<Notify>>>,
}

impl Channel {
    pub(crate) fn new(socket: UnixStream) -> Self {
        let (queued, running) = (RefCell::default(), RefCell::default());
        Self { socket, queued, more: Notify::new(), running }
    }

    /// Queues frames. The frames leave when the tasks that can run now have run: what they finish goes along.
    pub(crate) fn report(&self, encode: impl FnOnce(&mut Vec<u8>)) {
        encode(&mut self.queued.borrow_mut().bytes);
        self.more.notify_one();
    }

    /// Queues a frame to which a descriptor belongs.
    pub(crate) fn report_file(&self, file: OwnedFd, encode: impl FnOnce(&mut Vec<u8>)) {
        self.queued.borrow_mut().files.push_back(file);
        self.report(encode);
    }

    /// A request ends, and can be cancelled no more.
    pub(crate) fn ended(&self, request: u32) {
        self.running.borrow_mut().remove(&request);
    }

    /// Sends whatever is queued. Descriptors leave with, or before, the first byte of their frame.
    pub(crate) async fn flush(&self) -> io::Result<()> {
        loop {
            let mut taken = std::mem::take(&mut *self.queued.borrow_mut());
            if taken.bytes.is_empty() {
                return Ok(());
            }
            let mut rest = taken.bytes.as_slice();
            while !rest.is_empty() {
                let count = taken.files.len().min(MESSAGE_DESCRIPTORS_MAX);
                // One byte is enough to carry descriptors that do not all fit into one message.
                let piece = if count < taken.files.len() { rest.split_at(1).0 } else { rest };
                let sent = self
                    .socket
                    .async_io(Interest::WRITABLE, || {
                        send(&self.socket, piece, taken.files.iter().take(count))
                    })
                    .await?;
                taken.files.drain(..count);
                rest = rest.split_at(sent).1;
            }
        }
    }
}

fn send<'f>(
    socket: &UnixStream,
    bytes: &[u8],
    files: impl Iterator<Item = &'f OwnedFd>,
) -> io::Result<usize> {
    let files: Vec<BorrowedFd<'_>> = files.map(AsFd::as_fd).collect();
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE_DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&files));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags)?)
}
