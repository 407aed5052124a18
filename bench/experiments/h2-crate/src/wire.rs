//! Two buffers in memory that the crate takes for a socket.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[derive(Default)]
struct Buffers {
    input: Vec<u8>,
    /// How much of `input` the crate has read.
    read: usize,
    output: Vec<u8>,
}

/// The event loop's side.
#[derive(Default)]
pub(crate) struct Wire(Rc<RefCell<Buffers>>);

/// The crate's side.
pub(crate) struct End(Rc<RefCell<Buffers>>);

impl Wire {
    pub(crate) fn end(&self) -> End {
        End(self.0.clone())
    }

    pub(crate) fn receive(&self, bytes: &[u8]) {
        let mut buffers = self.0.borrow_mut();
        if buffers.read == buffers.input.len() {
            buffers.input.clear();
            buffers.read = 0;
        }
        buffers.input.extend_from_slice(bytes);
    }

    pub(crate) fn take_out(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.borrow_mut().output)
    }

    /// Keeps the buffer's memory for the next turn.
    pub(crate) fn give_back(&self, mut out: Vec<u8>) {
        out.clear();
        self.0.borrow_mut().output = out;
    }
}

impl AsyncRead for End {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let buffers = &mut *self.0.borrow_mut();
        let rest = &buffers.input[buffers.read..];
        if rest.is_empty() {
            return Poll::Pending;
        }
        let bytes = rest.len().min(into.remaining());
        into.put_slice(&rest[..bytes]);
        buffers.read += bytes;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for End {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().output.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let output = &mut self.0.borrow_mut().output;
        let before = output.len();
        slices.iter().for_each(|slice| output.extend_from_slice(slice));
        Poll::Ready(Ok(output.len() - before))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
