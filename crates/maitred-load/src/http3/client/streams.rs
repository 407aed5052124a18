//! Streams as they are: bytes in and out.

use bytes::{Bytes, BytesMut};
use quinn_proto::{Dir, ReadError, StreamId, WriteError};

use super::super::session::code;
use super::{Client, Failed};

/// What has come on a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// Bytes, at least one.
    Bytes(Bytes),
    /// The end of the stream.
    End,
    /// The server has reset it, with this code.
    Reset(u64),
}

/// What has come and was not asked for, and how the stream has ended, if it has.
#[derive(Debug, Default)]
pub(super) struct Held {
    bytes: BytesMut,
    end: Option<Read>,
}

impl Client {
    /// Opens a bidirectional stream, as soon as the server allows it.
    ///
    /// # Errors
    /// When it does not.
    pub fn open_bidi(&mut self) -> Result<StreamId, Failed> {
        let stream = self.wait(|client| client.link.connection.streams().open(Dir::Bi))?;
        // A stream with the same identifier may have been opened before, in 0-RTT that the server has refused.
        self.held.remove(&stream);
        self.stopped.remove(&stream);
        self.finished.remove(&stream);
        Ok(stream)
    }

    /// Opens a unidirectional stream, as soon as the server allows it.
    ///
    /// # Errors
    /// When it does not.
    pub fn open_uni(&mut self) -> Result<StreamId, Failed> {
        self.wait(|client| client.link.connection.streams().open(Dir::Uni))
    }

    /// The next unidirectional stream that the server opens. Only without [`Connector::settings`](super::Connector::settings):
    /// with them it is read here.
    ///
    /// # Errors
    /// When there is none.
    pub fn accept_uni(&mut self) -> Result<StreamId, Failed> {
        self.wait(|client| (!client.opened.is_empty()).then(|| client.opened.remove(0)))
    }

    /// Writes all of this on a stream, as far as windows allow at once and the rest when they do.
    ///
    /// # Errors
    /// When the server stops it, or the stream has ended.
    pub fn write(&mut self, stream: StreamId, bytes: &[u8]) -> Result<(), Failed> {
        let mut left = bytes;
        while !left.is_empty() {
            let written =
                self.wait(|client| match client.link.connection.send_stream(stream).write(left) {
                    Err(WriteError::Blocked) => None,
                    other => Some(other),
                })?;
            match written {
                Ok(count) => left = left.get(count..).unwrap_or_default(),
                Err(WriteError::Stopped(code)) => return Err(Failed::Stopped(code.into_inner())),
                Err(_) => return Err(Failed::NoStream),
            }
        }
        Ok(())
    }

    /// Ends a stream behind what was written.
    ///
    /// # Errors
    /// When it has ended already.
    pub fn finish(&mut self, stream: StreamId) -> Result<(), Failed> {
        let finished = self.link.connection.send_stream(stream).finish();
        self.flush();
        finished.map_err(|_| Failed::NoStream)
    }

    /// Gives up sending on a stream, with this code.
    ///
    /// # Errors
    /// When it has ended already.
    pub fn reset(&mut self, stream: StreamId, with: u64) -> Result<(), Failed> {
        let reset = self.link.connection.send_stream(stream).reset(code(with));
        self.flush();
        reset.map_err(|_| Failed::NoStream)
    }

    /// Asks the server to send no more on a stream, with this code.
    ///
    /// # Errors
    /// When it has ended already.
    pub fn stop_sending(&mut self, stream: StreamId, with: u64) -> Result<(), Failed> {
        let stopped = self.link.connection.recv_stream(stream).stop(code(with));
        self.flush();
        stopped.map_err(|_| Failed::NoStream)
    }

    /// Waits until something comes on a stream. After its end, or a reset, that is said again and again.
    ///
    /// # Errors
    /// When nothing comes.
    pub fn read(&mut self, stream: StreamId) -> Result<Read, Failed> {
        match self.wait(|client| client.try_read(stream)) {
            Err(Failed::Closed(closed)) => self.try_read(stream).ok_or(Failed::Closed(closed)),
            other => other,
        }
    }

    /// What has come on a stream, without waiting.
    pub fn try_read(&mut self, stream: StreamId) -> Option<Read> {
        let held = self.held.entry(stream).or_default();
        if held.end.is_none() {
            held.end = fetch(&mut self.link.connection, stream, &mut held.bytes);
        }
        if held.bytes.is_empty() { held.end.clone() } else { Some(Read::Bytes(held.bytes.split().freeze())) }
    }

    /// All that comes on a stream until its end.
    ///
    /// # Errors
    /// When it does not end, or is reset.
    pub fn read_to_end(&mut self, stream: StreamId) -> Result<Vec<u8>, Failed> {
        let mut all = Vec::new();
        loop {
            match self.read(stream)? {
                Read::Bytes(bytes) => all.extend_from_slice(&bytes),
                Read::End => return Ok(all),
                Read::Reset(code) => return Err(Failed::Reset(code)),
            }
        }
    }

    /// The code with which the server has asked to send no more on a stream, if it has.
    pub fn stopped(&self, stream: StreamId) -> Option<u64> {
        self.stopped.get(&stream).copied()
    }

    /// Waits until the server asks to send no more on a stream, and says with which code.
    ///
    /// # Errors
    /// When it does not.
    pub fn wait_stopped(&mut self, stream: StreamId) -> Result<u64, Failed> {
        self.wait(|client| client.stopped(stream))
    }

    /// Waits until the server has acknowledged all of a stream that was finished.
    ///
    /// # Errors
    /// When it does not.
    pub fn wait_acknowledged(&mut self, stream: StreamId) -> Result<(), Failed> {
        self.wait(|client| client.finished.contains(&stream).then_some(()))
    }
}

/// Moves what has come to `out`; the end of the stream, if it has come.
fn fetch(connection: &mut quinn_proto::Connection, stream: StreamId, out: &mut BytesMut) -> Option<Read> {
    let mut receiving = connection.recv_stream(stream);
    // Nothing comes any more on a stream that was stopped here.
    let Ok(mut chunks) = receiving.read(true) else { return Some(Read::End) };
    let end = loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => out.extend_from_slice(&chunk.bytes),
            Ok(None) => break Some(Read::End),
            Err(ReadError::Blocked) => break None,
            Err(ReadError::Reset(code)) => break Some(Read::Reset(code.into_inner())),
        }
    };
    let _ = chunks.finalize();
    end
}
