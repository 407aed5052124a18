//! A task per connection on tokio's single-threaded runtime, as economical as tokio's public interface allows: the
//! read and write buffers belong to the thread, so that an idle connection holds its task and nothing else.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

include!("../../answer.rs");

/// What the tasks of the thread share.
struct Shared {
    received: Vec<u8>,
    out: Vec<u8>,
    response: Vec<u8>,
}

async fn serve(mut stream: TcpStream, shared: Rc<RefCell<Shared>>) {
    // Bytes that did not fit this turn: a partial head, and what the socket did not take.
    let mut pending: Vec<u8> = Vec::new();
    let mut unsent: Vec<u8> = Vec::new();
    loop {
        let ended = poll_fn(|context| {
            let mut borrowed = shared.borrow_mut();
            let Shared { received, out, response } = &mut *borrowed;
            let mut buffer = ReadBuf::new(received);
            match Pin::new(&mut stream).poll_read(context, &mut buffer) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(_)) => return Poll::Ready(true),
                Poll::Ready(Ok(())) => {}
            }
            let got = buffer.filled();
            if got.is_empty() {
                return Poll::Ready(true);
            }
            let joined;
            let bytes = if pending.is_empty() {
                got
            } else {
                pending.extend_from_slice(got);
                joined = std::mem::take(&mut pending);
                &joined[..]
            };
            out.clear();
            let Some(consumed) = answer(bytes, response, out) else { return Poll::Ready(true) };
            pending.extend_from_slice(&bytes[consumed..]);
            if !out.is_empty() {
                match Pin::new(&mut stream).poll_write(context, out) {
                    Poll::Ready(Ok(sent)) => unsent.extend_from_slice(&out[sent..]),
                    Poll::Ready(Err(_)) => return Poll::Ready(true),
                    Poll::Pending => unsent.extend_from_slice(out),
                }
            }
            Poll::Ready(false)
        })
        .await;
        if ended {
            return;
        }
        while !unsent.is_empty() {
            match poll_fn(|context| Pin::new(&mut stream).poll_write(context, &unsent)).await {
                Ok(sent) => drop(unsent.drain(..sent)),
                Err(_) => return,
            }
        }
    }
}

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build_local(Default::default())?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("listening {}", listener.local_addr()?.port());
        let shared =
            Rc::new(RefCell::new(Shared { received: vec![0; 65536], out: Vec::new(), response: response() }));
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let _ = stream.set_nodelay(true);
            tokio::task::spawn_local(serve(stream, Rc::clone(&shared)));
        }
    })
}
