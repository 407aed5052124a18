//! The way to an upstream: a socket as it is, or TLS over it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;

use maitred_sys::file::append_at;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use crate::socket_writer::SocketWriter;

/// Bytes that a session keeps for a socket that is full, as towards clients.
const BUFFERED_BYTES_MAX: usize = 64 * 1024;
/// Bytes that are read from a socket at a time, to be decrypted: one record of the largest size.
const CIPHERTEXT_BYTES: usize = 17 * 1024;
/// Bytes of a file that are encrypted at a time.
const PIECE_BYTES: usize = 32 * 1024;

/// The near end of the way to an upstream.
pub(crate) enum FarEnd<'a> {
    /// The socket to the upstream.
    Clear(BorrowedFd<'a>),
    /// The socket to the upstream, by TLS.
    Tls(BorrowedFd<'a>, &'a mut Secured),
}

impl FarEnd<'_> {
    /// Sends what is taken of these bytes, and gives back how many that were.
    ///
    /// # Errors
    /// `AGAIN` when nothing is taken at the moment, otherwise what send(2) says.
    pub(crate) fn send(&mut self, bytes: &[u8], flags: SendFlags) -> Result<usize, Errno> {
        match self {
            FarEnd::Clear(socket) => send(*socket, bytes, SendFlags::NOSIGNAL | flags),
            FarEnd::Tls(socket, secured) => secured.send(*socket, bytes),
        }
    }

    /// Sends what is taken of a file, from `offset` on, and moves that forward. 0: the file is shorter than that.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn send_file(&mut self, file: &File, offset: &mut u64, bytes: usize) -> Result<usize, Errno> {
        match self {
            FarEnd::Clear(socket) => rustix::fs::sendfile(*socket, file, Some(offset), bytes),
            FarEnd::Tls(socket, secured) => {
                if !secured.flush(*socket)? {
                    return Err(Errno::AGAIN);
                }
                let mut piece = Vec::with_capacity(bytes.min(PIECE_BYTES));
                append_at(file.as_fd(), &mut piece, bytes.min(PIECE_BYTES), *offset)?;
                let sent = if piece.is_empty() { 0 } else { secured.send(*socket, &piece)? };
                *offset += sent as u64;
                Ok(sent)
            }
        }
    }

    /// Sends what TLS has kept. True if nothing is left.
    ///
    /// # Errors
    /// What sendmsg(2) says.
    pub(crate) fn flush(&mut self) -> Result<bool, Errno> {
        match self {
            FarEnd::Clear(_) => Ok(true),
            FarEnd::Tls(socket, secured) => secured.flush(*socket),
        }
    }

    /// Nothing more is sent.
    pub(crate) fn finish(&mut self) {
        match self {
            FarEnd::Clear(socket) => _ = shutdown(*socket, Shutdown::Write),
            FarEnd::Tls(socket, secured) => {
                secured.tls.send_close_notify();
                // What the socket does not take now is not sent later.
                let _ = secured.flush(*socket);
            }
        }
    }
}

/// A TLS session with a server.
#[derive(Debug)]
pub(crate) struct Secured {
    tls: ClientConnection,
    /// The server has sent `close_notify`.
    closed: bool,
}

/// What came of one read.
enum Step {
    /// Something, and perhaps more.
    More,
    /// Everything that is there for now.
    Drained,
    /// The server has finished sending.
    End,
}

impl Secured {
    /// A session that has yet to begin.
    ///
    /// # Errors
    /// What rustls says, if its configuration does not go together.
    pub(crate) fn new(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Box<Secured>, rustls::Error> {
        let mut tls = ClientConnection::new(config, name)?;
        tls.set_buffer_limit(Some(BUFFERED_BYTES_MAX));
        Ok(Box::new(Secured { tls, closed: false }))
    }

    /// Goes on with the handshake. True once it is over. `hung_up`: the end of the connection was reported, perhaps together with
    /// bytes.
    ///
    /// # Errors
    /// Why there is none, for the operator.
    pub(crate) fn shake_hands(&mut self, socket: BorrowedFd<'_>, hung_up: bool) -> Result<bool, String> {
        let mut early = Vec::new();
        let over = self.shake_hands_before(socket, hung_up, &mut early)?;
        match early.is_empty() {
            true => Ok(over),
            false => Err("it has sent something before a request".to_owned()),
        }
    }

    /// Whether the server has chosen HTTP/2 (RFC 7301).
    pub(crate) fn chose_http2(&self) -> bool {
        self.tls.alpn_protocol() == Some(b"h2")
    }

    /// The same for a server that may speak first: what it says is appended to `early`.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn shake_hands_before(
        &mut self,
        socket: BorrowedFd<'_>,
        hung_up: bool,
        early: &mut Vec<u8>,
    ) -> Result<bool, String> {
        loop {
            self.flush(socket).map_err(|error| error.to_string())?;
            if !self.tls.is_handshaking() {
                return Ok(true);
            }
            let step = self.read(socket, hung_up, early);
            if step.is_err() {
                // The alert that says what was wrong.
                let _ = self.flush(socket);
            }
            match step? {
                Step::More => {}
                Step::Drained if self.tls.is_handshaking() => return Ok(false),
                Step::Drained => {}
                Step::End => return Err("it closed the connection during the TLS handshake".to_owned()),
            }
        }
    }

    /// Reads and decrypts once; what comes of it is appended to `rx`. A short read has emptied the socket, except for its end.
    fn read(&mut self, socket: BorrowedFd<'_>, hung_up: bool, rx: &mut Vec<u8>) -> Result<Step, String> {
        let mut ciphertext = [0; CIPHERTEXT_BYTES];
        let received = match recv(socket, &mut ciphertext[..], RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return Ok(Step::End),
            Ok((_, received)) => received,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Step::Drained),
            Err(error) => return Err(error.to_string()),
        };
        let mut rest = ciphertext.get(..received).unwrap_or_default();
        while !rest.is_empty() && !self.closed {
            // A slice has no errors of its own: this one is about bytes after the end.
            if self.tls.read_tls(&mut rest).is_err() {
                break;
            }
            let state = self.tls.process_new_packets().map_err(|error| format!("TLS: {error}"))?;
            self.closed = state.peer_has_closed();
            let (bytes, before) = (state.plaintext_bytes_to_read(), rx.len());
            rx.resize(before + bytes, 0);
            let read = self.tls.reader().read(rx.get_mut(before..).unwrap_or_default()).unwrap_or(0);
            rx.truncate(before + read);
        }
        Ok(if received == CIPHERTEXT_BYTES || hung_up { Step::More } else { Step::Drained })
    }

    /// Appends what has come, about as much as there is room for. How many bytes that were, 0 at the end, and whether there may
    /// be more. `hung_up` as above.
    ///
    /// # Errors
    /// `AGAIN` if nothing is there; `PROTO` for what is no TLS; `CONNABORTED` if the connection has ended without
    /// `close_notify`: by whom is not known (RFC 8446 section 6.1).
    pub(crate) fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        hung_up: bool,
        rx: &mut Vec<u8>,
    ) -> Result<(usize, bool), Errno> {
        let (before, room) = (rx.len(), rx.capacity());
        loop {
            if self.closed {
                return Ok((rx.len() - before, true));
            }
            let step = self.read(socket, hung_up, rx).map_err(|_| Errno::PROTO)?;
            let came = rx.len() - before;
            match step {
                Step::More if rx.len() + CIPHERTEXT_BYTES <= room => {}
                Step::More => return Ok((came, true)),
                Step::Drained if self.closed => {}
                // What it has answered by itself, as new keys.
                Step::Drained if came == 0 => {
                    let _ = self.flush(socket);
                    return Err(Errno::AGAIN);
                }
                Step::Drained => return Ok((came, false)),
                Step::End if came > 0 => return Ok((came, true)),
                Step::End => return Err(Errno::CONNABORTED),
            }
        }
    }

    /// Whether nothing has come but what TLS itself sends, as tickets for other sessions.
    pub(crate) fn is_silent(&mut self, socket: BorrowedFd<'_>) -> bool {
        matches!(self.receive(socket, false, &mut Vec::new()), Err(Errno::AGAIN))
    }

    /// Whether something encrypted waits for the socket.
    pub(crate) fn holds(&self) -> bool {
        self.tls.wants_write()
    }

    fn flush(&mut self, socket: BorrowedFd<'_>) -> Result<bool, Errno> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut SocketWriter(socket)) {
                Ok(_) => {}
                Err(error) => match Errno::from_io_error(&error).unwrap_or(Errno::CONNRESET) {
                    Errno::AGAIN => return Ok(false),
                    Errno::INTR => {}
                    other => return Err(other),
                },
            }
        }
        Ok(true)
    }

    fn send(&mut self, socket: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
        let mut taken = 0;
        while self.flush(socket)? && taken < bytes.len() {
            // The writer writes into memory, and cannot fail.
            match self.tls.writer().write(bytes.get(taken..).unwrap_or_default()).unwrap_or(0) {
                0 => break,
                written => taken += written,
            }
        }
        if taken == 0 && !bytes.is_empty() { Err(Errno::AGAIN) } else { Ok(taken) }
    }
}
