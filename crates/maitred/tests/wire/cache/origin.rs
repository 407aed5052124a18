//! The server behind the cache: it notes what it is asked, and answers as the test says.

use std::io;
use std::sync::{Arc, Condvar, Mutex};

use crate::support::TIMEOUT;
use crate::support::upstream::{Asked, Peer, Upstream};

/// Listens until it is dropped.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) upstream: Upstream,
    seen: Arc<Mutex<Vec<Asked>>>,
}

impl Origin {
    /// `answer` has each request; what it gives back as an error ends the connection.
    pub(crate) fn start(
        answer: impl Fn(&mut Peer, &Asked) -> io::Result<()> + Send + Sync + 'static,
    ) -> Origin {
        let seen: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let noted = Arc::clone(&seen);
        let upstream = Upstream::start(move |peer| {
            loop {
                let asked = peer.request()?;
                noted.lock().unwrap().push(asked.clone());
                answer(peer, &asked)?;
            }
        });
        Origin { upstream, seen }
    }

    /// All requests are answered with these fields (each with its CRLF), and with the target and which request it is as content.
    pub(crate) fn numbered(fields: &'static str) -> Origin {
        let count = Mutex::new(0);
        Origin::start(move |peer, asked| {
            let number = {
                let mut count = count.lock().unwrap();
                *count += 1;
                *count
            };
            peer.send(response(fields, format!("{} {number}", asked.target())))
        })
    }

    pub(crate) fn name(&self) -> &str {
        self.upstream.name()
    }

    /// What the origin was asked.
    pub(crate) fn seen(&self) -> Vec<Asked> {
        self.seen.lock().unwrap().clone()
    }

    /// How often it was asked.
    pub(crate) fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

/// A 200 with a length.
pub(crate) fn response(fields: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Steps that the server takes when the test lets it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Steps(Arc<(Mutex<usize>, Condvar)>);

impl Steps {
    /// Allows one more step.
    pub(crate) fn allow(&self) {
        *self.0.0.lock().unwrap() += 1;
        self.0.1.notify_all();
    }

    /// Waits until so many were allowed.
    pub(crate) fn wait_for(&self, count: usize) -> io::Result<()> {
        let allowed = self.0.0.lock().unwrap();
        let (allowed, waited) =
            self.0.1.wait_timeout_while(allowed, TIMEOUT, |allowed| *allowed < count).unwrap();
        drop(allowed);
        if waited.timed_out() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}
