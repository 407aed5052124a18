//! The thread that sends spans to a collector: OTLP over HTTP, with protocol buffers as its content.
//!
//! Event loops never wait for it. What finds no room is dropped and counted, as is what no collector takes. A batch is sent
//! when it is full, or [`BATCH_TIME`] after its first span. A batch that a collector cannot take now (429, 502, 503, 504: OTLP
//! specification, "OTLP/HTTP Response"), or that did not reach it, is sent again, up to [`ATTEMPTS_MAX`] times in all.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::span::{self, Span};
use crate::error::Limiter;
use maitred_config::Otlp;

/// Spans that wait for the thread, of all event loops: about a second of a server that records 4,000 requests a second. A span is
/// as large as a request head at most, and mostly below a kilobyte.
pub(crate) const SPANS_QUEUED_MAX: usize = 4096;
/// Spans of one message: what the collectors' own exporters send at most.
pub(crate) const BATCH_SPANS_MAX: usize = 512;
/// How long a span waits for others.
const BATCH_TIME: Duration = Duration::from_secs(1);
/// How often one batch is sent.
const ATTEMPTS_MAX: u32 = 3;
/// Before it is sent again.
const RETRY_DELAY: Duration = Duration::from_secs(2);
/// How long a connection, a write or a read may take.
const STEP_TIMEOUT: Duration = Duration::from_secs(5);
/// What is read of an answer: its status line is at the front.
const ANSWER_BYTES_MAX: usize = 4096;

/// What spans are given to.
#[derive(Debug)]
pub struct Exporter {
    sender: SyncSender<Option<Span>>,
    counts: Arc<Counts>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    dropped: AtomicU64,
    /// The process ends: nothing is tried again.
    stops: Mutex<bool>,
    stopped: Condvar,
}

impl Counts {
    fn stops(&self) -> bool {
        *self.stops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits before a batch is sent again, and not after the end has come.
    fn pause(&self) {
        let stops = self.stops.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.stopped.wait_timeout_while(stops, RETRY_DELAY, |stops| !*stops));
    }
}

/// What became of spans.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpanFacts {
    /// Requests whose spans the collector has taken.
    pub sent: u64,
    /// Requests whose spans were dropped.
    pub dropped: u64,
}

impl Exporter {
    /// Starts the thread.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(otlp: &Otlp, service: &str) -> std::io::Result<Exporter> {
        let (sender, receiver) = sync_channel(SPANS_QUEUED_MAX);
        let counts = Arc::<Counts>::default();
        let worker = Worker { otlp: otlp.clone(), service: service.to_owned(), counts: counts.clone() };
        let thread =
            std::thread::Builder::new().name("spans".to_owned()).spawn(move || worker.run(&receiver))?;
        Ok(Exporter { sender, counts, thread: Some(thread).into() })
    }

    /// Takes a span; never waits.
    pub fn push(&self, span: Span) {
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.sender.try_send(Some(span)) {
            self.counts.dropped.fetch_add(1, Relaxed);
        }
    }

    /// What became of all spans so far.
    pub fn facts(&self) -> SpanFacts {
        SpanFacts { sent: self.counts.sent.load(Relaxed), dropped: self.counts.dropped.load(Relaxed) }
    }

    /// Sends what is left, once, and ends the thread.
    pub fn stop(&self) {
        *self.counts.stops.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.counts.stopped.notify_all();
        // The thread wakes at the end of a batch at the latest, so that it need not get this.
        let _ = self.sender.try_send(None);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

struct Worker {
    otlp: Otlp,
    service: String,
    counts: Arc<Counts>,
}

impl Worker {
    fn run(&self, spans: &Receiver<Option<Span>>) {
        let mut limiter = Limiter::new(1);
        loop {
            let (batch, goes_on) = self.next_batch(spans);
            if !batch.is_empty() {
                self.deliver(&batch, &mut limiter);
            }
            if !goes_on {
                return;
            }
        }
    }

    /// The spans of one message; false when there are no more.
    fn next_batch(&self, spans: &Receiver<Option<Span>>) -> (Vec<Span>, bool) {
        let mut batch = Vec::new();
        let mut due: Option<Instant> = None;
        loop {
            let stops = self.counts.stops();
            let left = due.map_or(BATCH_TIME, |due| due.saturating_duration_since(Instant::now()));
            match spans.recv_timeout(if stops { Duration::ZERO } else { left }) {
                Ok(Some(span)) => {
                    batch.push(span);
                    due.get_or_insert_with(|| Instant::now() + BATCH_TIME);
                }
                Ok(None) => {}
                Err(RecvTimeoutError::Timeout) if stops => return (batch, false),
                Err(RecvTimeoutError::Timeout) if due.is_some() => return (batch, true),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return (batch, false),
            }
            if batch.len() >= BATCH_SPANS_MAX {
                return (batch, true);
            }
        }
    }

    fn deliver(&self, batch: &[Span], limiter: &mut Limiter) {
        let message = span::report(&self.service, batch);
        let mut attempts = 0;
        let why = loop {
            attempts += 1;
            let stops = self.counts.stops();
            match post(&self.otlp, &message) {
                Ok(200..=299) => {
                    self.counts.sent.fetch_add(batch.len() as u64, Relaxed);
                    return;
                }
                Ok(429 | 502..=504) | Err(_) if attempts < ATTEMPTS_MAX && !stops => {
                    self.counts.pause();
                }
                Ok(status) => break format!("it answered with {status}"),
                Err(why) => break why,
            }
        };
        self.counts.dropped.fetch_add(batch.len() as u64, Relaxed);
        let (url, spans) = (&self.otlp.url, batch.len());
        limiter.log(Instant::now(), || tracing::warn!(%url, spans, "spans were dropped: {why}"));
    }
}

/// Sends one message over a connection of its own, and gives back the status of the answer.
///
/// # Errors
/// A text for the operator.
fn post(otlp: &Otlp, message: &[u8]) -> Result<u16, String> {
    let error = |error: std::io::Error| error.to_string();
    let mut stream = connect(otlp.address).map_err(error)?;
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: {}\r\nuser-agent: maitred\r\ncontent-type: application/x-protobuf\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        otlp.path,
        otlp.host,
        message.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(message)).map_err(error)?;
    let mut answer = Vec::new();
    let mut piece = [0_u8; 512];
    while !answer.contains(&b'\n') && answer.len() < ANSWER_BYTES_MAX {
        match stream.read(&mut piece).map_err(error)? {
            0 => break,
            received => answer.extend_from_slice(piece.get(..received).unwrap_or_default()),
        }
    }
    status_of(&answer).ok_or_else(|| "its answer is not HTTP/1.1".to_owned())
}

fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, STEP_TIMEOUT)?;
    stream.set_read_timeout(Some(STEP_TIMEOUT))?;
    stream.set_write_timeout(Some(STEP_TIMEOUT))?;
    Ok(stream)
}

/// The status in a status line (9112-4).
fn status_of(answer: &[u8]) -> Option<u16> {
    let rest = answer.strip_prefix(b"HTTP/1.1 ").or_else(|| answer.strip_prefix(b"HTTP/1.0 "))?;
    let digits = std::str::from_utf8(rest.get(..3)?).ok()?;
    digits.parse().ok().filter(|status| (100..=599).contains(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_at_its_place() {
        assert_eq!(status_of(b"HTTP/1.1 200 OK\r\n"), Some(200));
        assert_eq!(status_of(b"HTTP/1.0 503\r\n"), Some(503));
        for wrong in ["HTTP/2 200", "HTTP/1.1 20", "HTTP/1.1 2x0 ", "HTTP/1.1 999 ", "", "SSH-2.0"] {
            assert_eq!(status_of(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
