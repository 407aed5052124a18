//! A server that counts what it is asked, and that can hold its responses back until all clients wait for them.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Result;
use crate::bench::peers::said;

/// What its paths end with, and how long the content is then.
pub(super) const LENGTHS: [(&str, usize); 2] = [("1k", 1 << 10), ("100k", 100 << 10)];
/// What a server is asked for to see whether it answers; it is not counted.
pub(super) const READY: &str = "/app/ready";
/// What paths begin with whose responses are held back.
pub(super) const HELD: &str = "/app/held/";
/// Bytes of a request's head.
const HEAD_MAX: usize = 16 << 10;
/// How long a response is held back at most; the scenario is over then.
const HELD_MAX: Duration = Duration::from_secs(30);

/// Whether held responses go out, and when the first of them did.
#[derive(Debug, Default)]
struct Gate {
    open: bool,
    first: Option<Instant>,
}

#[derive(Debug, Default)]
struct Shared {
    requests: AtomicU64,
    ends: AtomicBool,
    gate: Mutex<Gate>,
    opened: Condvar,
}

impl Shared {
    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An origin that listens until it is dropped.
#[derive(Debug)]
pub(super) struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Origin {
    pub(super) fn start() -> Result<Origin> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, shared) = (listener.local_addr()?, Arc::new(Shared::default()));
        let date = said("date", &["-u", "+%a, %d %b %Y %H:%M:%S GMT"]);
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().map_while(|stream| stream.ok()) {
                if of_thread.ends.load(Ordering::Relaxed) {
                    return;
                }
                let (shared, date) = (Arc::clone(&of_thread), date.clone());
                // A connection that breaks off is the server's own affair.
                std::thread::spawn(move || _ = serve(stream, &shared, &date));
            }
        });
        Ok(Origin { address, shared, thread: Some(thread) })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many requests have come.
    pub(super) fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// Holds back what is asked for from now on.
    pub(super) fn hold(&self) {
        *self.shared.gate() = Gate::default();
    }

    /// Lets go of it.
    pub(super) fn release(&self) {
        self.shared.gate().open = true;
        self.shared.opened.notify_all();
    }

    /// When the first held response has gone out since then.
    pub(super) fn first_byte(&self) -> Option<Instant> {
        self.shared.gate().first
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        self.release();
        // The thread waits for a connection.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Answers the requests of one connection.
fn serve(mut stream: TcpStream, shared: &Shared, date: &str) -> io::Result<()> {
    stream.set_nodelay(true)?;
    while let Some(path) = read_path(&mut stream)? {
        if !path.starts_with(READY) {
            shared.requests.fetch_add(1, Ordering::Relaxed);
        }
        let name = path.rsplit('/').next().unwrap_or_default().split('?').next().unwrap_or_default();
        let bytes = LENGTHS.iter().find(|(known, _)| *known == name).map_or(1 << 10, |(_, bytes)| *bytes);
        let head = format!(
            "HTTP/1.1 200 OK\r\nDate: {date}\r\nContent-Type: text/plain\r\nCache-Control: max-age=36000\r\nContent-Length: \
             {bytes}\r\n\r\n"
        );
        let response = [head.as_bytes(), &vec![b'x'; bytes]].concat();
        if path.starts_with(HELD) {
            let gate = shared.gate();
            let (mut gate, _) = shared
                .opened
                .wait_timeout_while(gate, HELD_MAX, |gate| !gate.open)
                .unwrap_or_else(PoisonError::into_inner);
            gate.first.get_or_insert_with(Instant::now);
        }
        stream.write_all(&response)?;
    }
    Ok(())
}

/// The target of the next request; `None` at the end. No server sends the next one before the answer.
fn read_path(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    let mut buffer = [0; 4096];
    while !head.ends_with(b"\r\n\r\n") {
        let got = stream.read(&mut buffer)?;
        if got == 0 {
            return Ok(None);
        }
        head.extend_from_slice(buffer.get(..got).unwrap_or_default());
        if head.len() > HEAD_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    let line = String::from_utf8_lossy(&head);
    Ok(Some(line.split(' ').nth(1).unwrap_or_default().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::client::Client;

    #[test]
    fn requests_are_counted_and_held_back() {
        let origin = Origin::start().unwrap();
        let mut client = Client::connect(origin.address()).unwrap();
        assert_eq!(client.get(READY).unwrap().status, 200);
        assert_eq!(client.get("/app/100k?a").unwrap().status, 200);
        assert_eq!((origin.requests(), origin.first_byte()), (1, None));
        origin.hold();
        client.send("/app/held/1").unwrap();
        let asked = Instant::now();
        origin.release();
        assert_eq!(client.receive().unwrap().status, 200);
        assert_eq!(origin.requests(), 2);
        assert!(origin.first_byte().is_some_and(|first| first >= asked));
    }
}
