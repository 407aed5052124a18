//! Where requests to `/wait` of the application stand until the test releases them: a listener that the application
//! connects to.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use super::TIMEOUT;

/// The listener.
#[derive(Debug)]
pub(crate) struct Gate {
    listener: TcpListener,
}

/// One request that stands at the gate. The request goes on when this is dropped.
#[derive(Debug)]
pub(crate) struct Waiting {
    stream: TcpStream,
    /// Process id of the application.
    pub(crate) pid: i32,
}

impl Gate {
    pub(crate) fn new() -> Gate {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Gate { listener }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    /// Waits for the next request to reach the gate.
    pub(crate) fn arrival(&self) -> Waiting {
        let timeout = rustix::event::Timespec::try_from(TIMEOUT).unwrap();
        let mut poll = [rustix::event::PollFd::new(&self.listener, rustix::event::PollFlags::IN)];
        assert_eq!(rustix::event::poll(&mut poll, Some(&timeout)).unwrap(), 1, "no request reached the gate");
        let (stream, _) = self.listener.accept().unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        Waiting { stream, pid: line.trim().parse().unwrap() }
    }

    /// Whether no further request stands at the gate.
    pub(crate) fn is_empty(&self) -> bool {
        self.listener.set_nonblocking(true).unwrap();
        let accepted = self.listener.accept();
        self.listener.set_nonblocking(false).unwrap();
        matches!(accepted, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }
}

impl Waiting {
    /// Lets the request go on.
    pub(crate) fn release(mut self) {
        self.stream.write_all(b"\n").unwrap();
    }
}
