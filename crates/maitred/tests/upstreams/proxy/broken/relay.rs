//! What stands between Maitred and a server, and passes only so much of what the server says.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::set_socket_linger;

/// What becomes of a connection when so much was passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The server sends no more, and goes on reading.
    Finish,
    /// The connection is closed.
    Close,
    /// The connection is reset.
    Reset,
    /// Nothing more comes.
    Stall,
}

/// Listens until it is dropped.
#[derive(Debug)]
pub(super) struct Relay {
    pub(super) address: SocketAddr,
    plan: Arc<Mutex<(usize, End)>>,
    open: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
}

impl Relay {
    /// Passes so many bytes of each connection of a server to Maitred.
    pub(super) fn start(server: SocketAddr, bytes: usize, end: End) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = Relay {
            address: listener.local_addr().unwrap(),
            plan: Arc::new(Mutex::new((bytes, end))),
            open: Arc::default(),
            over: Arc::default(),
        };
        let (plan, open, over) = (relay.plan.clone(), relay.open.clone(), relay.over.clone());
        std::thread::spawn(move || {
            while let Ok((near, _)) = listener.accept()
                && !over.load(SeqCst)
            {
                let ((bytes, end), open) = (*plan.lock().unwrap(), open.clone());
                open.fetch_add(1, SeqCst);
                std::thread::spawn(move || {
                    // The end of the connection is the test's business, whichever way it comes.
                    let _ = carry(near, server, bytes, end);
                    open.fetch_sub(1, SeqCst);
                });
            }
        });
        relay
    }

    /// For connections from now on.
    pub(super) fn set(&self, bytes: usize, end: End) {
        *self.plan.lock().unwrap() = (bytes, end);
    }

    /// Connections of Maitred that neither side has closed.
    pub(super) fn open(&self) -> usize {
        self.open.load(SeqCst)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.over.store(true, SeqCst);
        // Wakes the thread that accepts, which sees that it is over.
        let _ = TcpStream::connect(self.address);
    }
}

/// Passes what both sides say, until either ends it, or enough of the server's has been passed.
fn carry(mut near: TcpStream, server: SocketAddr, mut left: usize, end: End) -> io::Result<()> {
    let mut far = TcpStream::connect(server)?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let mut piece = vec![0; 64 * 1024];
    loop {
        let mut ready = [
            PollFd::from_borrowed_fd(near.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(far.as_fd(), PollFlags::IN),
        ];
        poll(&mut ready, None)?;
        let [from_near, from_far] = ready.map(|one| !one.revents().is_empty());
        if from_near {
            match near.read(&mut piece)? {
                0 => return Ok(()),
                got => far.write_all(&piece[..got])?,
            }
        }
        if from_far {
            let got = far.read(&mut piece)?;
            near.write_all(&piece[..got.min(left)])?;
            if got == 0 || got > left {
                return finish(near, end);
            }
            left -= got;
        }
    }
}

fn finish(mut near: TcpStream, end: End) -> io::Result<()> {
    match end {
        End::Close => return Ok(()),
        End::Reset => return Ok(set_socket_linger(&near, Some(Duration::ZERO))?),
        End::Finish => near.shutdown(Shutdown::Write)?,
        End::Stall => {}
    }
    io::copy(&mut near, &mut io::sink()).map(drop)
}
