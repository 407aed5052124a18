//! What a client connection is made of: a socket, TLS over a socket, or one stream of an HTTP/2 or HTTP/3 connection.
//!
//! Everything above receives and sends through the functions here and nothing else:
//!
//! | | `Clear` | `Tls` | `Stream` |
//! |---|---|---|---|
//! | bytes come | from recv(2) | decrypted from it | in `Exchange::input`, put there by `requests::streams` |
//! | bytes go | to send(2), sendfile(2) | encrypted, to sendmsg(2)¹ | as frames, to the HTTP/2 connection |
//! | an application can get the socket | yes | no¹ | there is none |
//! | another thread can take it over | yes | yes | no |
//! | the end of a response that ends the connection | shutdown(2) | `close_notify`, shutdown(2) | END_STREAM |
//! | a response that is aborted | close(2) | close(2), without `close_notify` | RST_STREAM |
//!
//! ¹ As with `Clear` where the kernel encrypts: see [`tls_kernel`](super::tls_kernel).
//!
//! `O_NONBLOCK` belongs to the open socket and not to a descriptor, so that an application which has had the client's socket may
//! have cleared it. To set it again would be a system call for each request that is handed off: so each call here says by itself
//! that it must not wait. Only sendfile(2) cannot.
//!
//! A connection enters the epoll set once, edge-triggered, both ways, for life: no epoll call is made per request, per handoff or
//! per full socket. A short read means that the socket is empty, so that there is no second one.

use std::os::fd::AsFd as _;
use std::rc::Rc;

use maitred_sys::file::append_at;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use super::Clients;
use super::tls_kernel::BY_KERNEL_BYTES_MIN;
use crate::connection::wire::{FILE_PIECE_BYTES, Received, Then, Wire};
use crate::entry::Entry;
use crate::foreign;
use crate::keys::ConnKey;
use maitred_files::ServedFile;

/// Has the kernel send a part of a file. 0: the file is shorter than that.
fn send_from_file(connection: &Entry, file: &ServedFile, offset: &mut u64, bytes: u64) -> Result<u64, Errno> {
    let socket = connection.socket.as_ref().ok_or(Errno::CONNRESET)?;
    if connection.shared {
        rustix::io::ioctl_fionbio(socket, true)?;
    }
    rustix::fs::sendfile(socket, file, Some(offset), bytes as usize).map(|sent| sent as u64)
}

impl Clients {
    /// Appends to `rx` what has come, up to its capacity.
    pub(crate) fn receive(&mut self, index: ConnKey, rx: &mut Vec<u8>) -> Received {
        let Some(connection) = self.connections.get(index) else { return Received::Broken };
        let (Wire::Clear, Some(socket)) = (connection.wire, &connection.socket) else {
            return match connection.wire {
                Wire::Tls { session } => self.receive_secure(index, session, rx),
                Wire::Stream { session, stream } => self.receive_stream(index, session, stream, rx),
                Wire::Quic => Received::Nothing,
                Wire::Clear => Received::Broken,
            };
        };
        let room = rx.capacity() - rx.len();
        let received = match connection.is_foreign() {
            true => foreign::receive(socket.as_fd(), rx),
            false => recv(socket, spare_capacity(rx), RecvFlags::DONTWAIT).map(|(_, received)| received),
        };
        match received {
            Ok(0) if room > 0 => Received::End,
            // A short read has emptied the socket: the next bytes make a new edge, and no second call is needed. Only
            // the end of the stream, if it came together with them, does not.
            Ok(received) => Received::Bytes { more: received == room || connection.hung_up },
            Err(Errno::AGAIN | Errno::INTR) => Received::Nothing,
            Err(_) => Received::Broken,
        }
    }

    /// Sends what is taken of `bytes`, and gives back how many that were.
    ///
    /// # Errors
    /// `AGAIN` when nothing is taken at the moment, otherwise what send(2) says.
    pub(crate) fn send(&mut self, index: ConnKey, bytes: &[u8], then: Then) -> Result<usize, Errno> {
        let room = self.room_for(index, bytes.len() as u64)?;
        let then = room.then(bytes.len() as u64, then);
        let bytes = bytes.get(..room.bytes as usize).unwrap_or(bytes);
        let sent = self.send_at_once(index, bytes, then)?;
        self.note_left(index, room, sent as u64);
        Ok(sent)
    }

    /// The same, however fast.
    fn send_at_once(&mut self, index: ConnKey, bytes: &[u8], then: Then) -> Result<usize, Errno> {
        let Some(connection) = self.connections.get(index) else { return Err(Errno::CONNRESET) };
        match (connection.wire, &connection.socket) {
            (Wire::Clear, Some(socket)) => {
                let more = if then == Then::More { SendFlags::MORE } else { SendFlags::empty() };
                send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT | more)
            }
            (Wire::Tls { session }, _) => self.send_secure(index, session, bytes, then),
            (Wire::Stream { session, stream }, _) => self.send_stream(session, stream, bytes, then),
            (Wire::Clear, None) | (Wire::Quic, _) => Err(Errno::CONNRESET),
        }
    }

    /// Sends up to `bytes` of a file from `offset` on, and moves that forward. 0: the file is shorter than that.
    ///
    /// # Errors
    /// As [`Clients::send`].
    pub(crate) fn send_file_piece(
        &mut self,
        index: ConnKey,
        file: &Rc<ServedFile>,
        offset: &mut u64,
        bytes: u64,
        then: Then,
    ) -> Result<u64, Errno> {
        let room = self.room_for(index, bytes)?;
        let sent = self.send_file_at_once(index, file, offset, room.bytes, room.then(bytes, then))?;
        self.note_left(index, room, sent);
        Ok(sent)
    }

    fn send_file_at_once(
        &mut self,
        index: ConnKey,
        file: &Rc<ServedFile>,
        offset: &mut u64,
        bytes: u64,
        then: Then,
    ) -> Result<u64, Errno> {
        let Some(connection) = self.connections.get(index) else { return Err(Errno::CONNRESET) };
        match connection.wire {
            Wire::Clear => return send_from_file(connection, file, offset, bytes),
            Wire::Stream { session, stream } => {
                return self.send_stream_file(session, stream, file, offset, bytes, then);
            }
            Wire::Quic => return Err(Errno::CONNRESET),
            Wire::Tls { session } => {
                if bytes >= BY_KERNEL_BYTES_MIN && self.send_by_kernel(index, session)? {
                    return send_from_file(&self.connections[index], file, offset, bytes);
                }
            }
        }
        let piece_bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(FILE_PIECE_BYTES);
        let mut piece = self.buffers.piece.take();
        let sent = match append_at(file.as_fd(), &mut piece, piece_bytes, *offset) {
            Ok(0) => Ok(0),
            Ok(_) => self.send_at_once(index, &piece, then),
            Err(error) => Err(error),
        };
        self.buffers.piece.put_back(piece);
        *offset += *sent.as_ref().unwrap_or(&0) as u64;
        sent.map(|sent| sent as u64)
    }

    /// Whether everything that was taken has left this process; what has not is tried again.
    pub(crate) fn is_flushed(&mut self, index: ConnKey) -> Result<bool, Errno> {
        match self.connections.get(index).map(|connection| connection.wire) {
            Some(Wire::Tls { session }) => self.flush_secure(index, session),
            _ => Ok(true),
        }
    }

    /// Ends the sending side. False if the connection has failed already.
    pub(crate) fn shut_down_sending(&mut self, index: ConnKey) -> bool {
        match self.connections.get(index).map(|connection| connection.wire) {
            Some(Wire::Tls { session }) => self.notify_close(index, session),
            Some(Wire::Stream { session, stream }) => {
                self.end_sending(session, stream);
                return true;
            }
            Some(Wire::Clear | Wire::Quic) | None => {}
        }
        self.socket(index).is_some_and(|socket| shutdown(socket, Shutdown::Write).is_ok())
    }
}
