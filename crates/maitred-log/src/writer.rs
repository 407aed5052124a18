//! Access-log lines of the event-loop threads → one descriptor.
//!
//! Each event-loop thread fills a buffer of its own ([`ThreadLog`]) and hands full ones to the one thread that may
//! block on the descriptor. Emptied buffers come back, so that the steady state allocates nothing. When the descriptor
//! does not keep up, a thread's buffer grows to its bound, and then lines are dropped and counted: an event loop never
//! waits for a log.

mod sink;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::access::{Formatter, Line};
use maitred_config::{AccessFormat, LogFormat};
pub use sink::Framing;
use sink::Sink;

/// A buffer is handed over when it has so many bytes.
pub(crate) const FLUSH_BYTES: usize = 64 * 1024;
/// A buffer is handed over when its oldest line has waited for so long.
pub(crate) const FLUSH_AFTER: Duration = Duration::from_millis(200);
/// Buffers of one thread that the writer can have at a time.
const IN_FLIGHT_MAX: usize = 8;
/// A buffer that grew beyond this is not kept: one burst of long lines must not stay in memory.
const KEPT_CAPACITY_MAX: usize = 4 * FLUSH_BYTES;

/// From this status on a request has a line in any case.
const ALWAYS_LOGGED: u16 = 500;

/// How the access log is written.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The format; [`AccessFormat::Off`] starts no thread.
    pub format: LogFormat,
    /// Whether [`AccessFormat::Human`] is coloured.
    pub colour: bool,
    /// Event-loop threads that will ask for a [`ThreadLog`].
    pub threads: usize,
    /// Per thread: bytes that may wait, in its own buffer and with the writer (`limits.log_buffer_bytes_max`).
    pub buffer_bytes_max: usize,
    /// One request of so many has a line.
    pub sample: u32,
}

/// A buffer on its way, and the way back.
struct Job {
    buffer: Vec<u8>,
    back: Sender<Returned>,
}

/// A buffer on its way back, as it was sent: its length is what the thread's share shrinks by.
struct Returned {
    buffer: Vec<u8>,
    /// Lines of it that could not be written.
    lost: u64,
}

/// The writer thread. One per worker process.
#[derive(Debug)]
pub struct Writer {
    settings: Settings,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    jobs: SyncSender<Job>,
    done: Receiver<()>,
    next: Next,
}

/// The descriptor that the writer thread goes on with, before its next line.
type Next = Arc<Mutex<Option<OwnedFd>>>;

/// Has a [`Writer`] go on with another descriptor, as when its file was moved away.
#[derive(Debug, Clone, Default)]
pub struct Reopener(Next);

impl Reopener {
    /// Lines that are handed over from now on are written there.
    pub fn replace(&self, descriptor: OwnedFd) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(descriptor);
    }
}

impl Writer {
    /// Starts the thread that writes to `descriptor`, or nothing at all when the log is off.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(descriptor: OwnedFd, framing: Framing, settings: Settings) -> io::Result<Writer> {
        if settings.format == LogFormat::Known(AccessFormat::Off) {
            return Ok(Writer { settings, running: None });
        }
        // Each thread's bound, and room for the last buffer of each: what is flushed on shutdown is never refused.
        let (jobs, work) = mpsc::sync_channel::<Job>(settings.threads.max(1) * (IN_FLIGHT_MAX + 1));
        let (finished, done) = mpsc::channel();
        let next = Next::default();
        let taken = Arc::clone(&next);
        std::thread::Builder::new().name("access-log".into()).spawn(move || {
            write_all(&work, Sink::new(descriptor, framing), &taken);
            // The receiver is gone when the end is not waited for; that is no error.
            let _ = finished.send(());
        })?;
        Ok(Writer { settings, running: Some(Running { jobs, done, next }) })
    }

    /// The handle by which it goes on with another descriptor; without effect if the log is off.
    pub fn reopener(&self) -> Reopener {
        Reopener(self.running.as_ref().map(|running| Arc::clone(&running.next)).unwrap_or_default())
    }

    /// The log of one event-loop thread.
    pub fn thread_log(&self) -> ThreadLog {
        let formatter = Formatter::new(self.settings.format.clone());
        let formatter = if self.settings.colour { formatter } else { formatter.plain() };
        ThreadLog {
            formatter,
            bytes_max: self.settings.buffer_bytes_max,
            sample: self.settings.sample.max(1),
            unsampled: 0,
            // With a bound below two buffers, a full one could never be handed over before lines are dropped.
            flush_bytes: FLUSH_BYTES.min(self.settings.buffer_bytes_max / 2),
            link: self.running.as_ref().map(|running| Link::new(running.jobs.clone())),
            buffer: Vec::new(),
            due: None,
            dropped: 0,
        }
    }

    /// Waits until all that was handed over is written; every [`ThreadLog`] must have been dropped before. Returns
    /// after `timeout` at the latest, because the pipe at the other end may never be read.
    ///
    /// # Errors
    /// `TimedOut` when lines were left unwritten.
    pub fn stop(self, timeout: Duration) -> io::Result<()> {
        let Some(Running { jobs, done, .. }) = self.running else { return Ok(()) };
        drop(jobs);
        match done.recv_timeout(timeout) {
            Ok(()) => Ok(()),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the access log takes no more lines")),
        }
    }
}

/// The writer thread's whole life: ends when the last sender is gone and the channel is empty.
fn write_all(work: &Receiver<Job>, mut sink: Sink, next: &Next) {
    while let Ok(Job { buffer, back }) = work.recv() {
        if let Some(descriptor) = next.lock().unwrap_or_else(PoisonError::into_inner).take() {
            sink.go_on_with(descriptor);
        }
        let lost = sink.write(&buffer);
        // The thread may be gone on shutdown.
        let _ = back.send(Returned { buffer, lost });
    }
}

/// The access log as one event-loop thread sees it. What is left is handed over when it is dropped.
#[derive(Debug)]
pub struct ThreadLog {
    formatter: Formatter,
    /// One line of so many is taken.
    sample: u32,
    /// Lines since the last one that was.
    unsampled: u32,
    bytes_max: usize,
    flush_bytes: usize,
    link: Option<Link>,
    buffer: Vec<u8>,
    /// When to hand the buffer over at the latest, or to try again; `None` while it is empty.
    due: Option<Instant>,
    dropped: u64,
}

impl ThreadLog {
    /// Whether lines are wanted at all: the caller need not gather what a line says.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.link.is_some()
    }

    /// Takes one line; never blocks. A line that finds no room is dropped and counted.
    pub(crate) fn push(&mut self, line: &Line<'_>) {
        if self.leaves_out(line.status) {
            return;
        }
        let Some(link) = &mut self.link else { return };
        let before = self.buffer.len();
        if before + link.in_flight_bytes >= self.bytes_max {
            self.dropped += link.reclaim();
            if before + link.in_flight_bytes >= self.bytes_max {
                self.dropped += 1;
                return;
            }
        }
        self.formatter.append(line, &mut self.buffer);
        if self.buffer.len() + link.in_flight_bytes > self.bytes_max {
            self.buffer.truncate(before);
            self.dropped += 1;
            return;
        }
        if self.due.is_none() {
            self.due = Some(line.clock.now + self.timeout());
        }
        if self.buffer.len() >= self.flush_bytes {
            self.flush();
        }
    }

    /// Whether a request of this status has no line because others stand for it.
    fn leaves_out(&mut self, status: u16) -> bool {
        if self.sample == 1 || status >= ALWAYS_LOGGED {
            return false;
        }
        self.unsampled += 1;
        let left_out = self.unsampled < self.sample;
        if !left_out {
            self.unsampled = 0;
        }
        left_out
    }

    /// Whether its lines have this field of the request.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.formatter.format().wants(name)
    }

    /// When [`ThreadLog::tick`] should be called next; `None` while nothing waits.
    pub(crate) fn flush_due(&self) -> Option<Instant> {
        self.due
    }

    /// Hands over what has waited long enough, and gives back how many lines were lost since the last call. To be
    /// called once a turn of the event loop.
    pub(crate) fn tick(&mut self, now: Instant) -> u64 {
        if self.due.is_some_and(|due| now >= due) {
            self.flush();
            // The writer is behind: try again after a while, not at once.
            if !self.buffer.is_empty() {
                self.due = Some(now + FLUSH_AFTER);
            }
        }
        std::mem::take(&mut self.dropped)
    }

    fn timeout(&self) -> Duration {
        match self.formatter.format() {
            LogFormat::Known(AccessFormat::Human) => Duration::ZERO,
            _ => FLUSH_AFTER,
        }
    }

    /// Hands the buffer over if the writer has room for it; otherwise keeps it.
    fn flush(&mut self) {
        let Some(link) = &mut self.link else { return };
        self.dropped += link.reclaim();
        if link.in_flight >= IN_FLIGHT_MAX {
            return;
        }
        self.dropped += link.send(&mut self.buffer);
        if self.buffer.is_empty() {
            self.due = None;
        }
    }
}

impl Drop for ThreadLog {
    fn drop(&mut self) {
        if let Some(link) = &mut self.link
            && !self.buffer.is_empty()
        {
            link.send(&mut self.buffer);
        }
    }
}

/// One thread's way to the writer and back.
#[derive(Debug)]
struct Link {
    jobs: SyncSender<Job>,
    back: Sender<Returned>,
    returned: Receiver<Returned>,
    /// Buffers that the writer has.
    in_flight: usize,
    /// The bytes of those buffers.
    in_flight_bytes: usize,
    spare: Vec<Vec<u8>>,
}

impl Link {
    fn new(jobs: SyncSender<Job>) -> Link {
        let (back, returned) = mpsc::channel();
        Link {
            jobs,
            back,
            returned,
            in_flight: 0,
            in_flight_bytes: 0,
            spare: Vec::with_capacity(IN_FLIGHT_MAX),
        }
    }

    /// Takes back what the writer is done with; gives how many lines it could not write.
    fn reclaim(&mut self) -> u64 {
        let mut lost = 0;
        while let Ok(mut returned) = self.returned.try_recv() {
            self.in_flight = self.in_flight.saturating_sub(1);
            self.in_flight_bytes = self.in_flight_bytes.saturating_sub(returned.buffer.len());
            lost += returned.lost;
            if returned.buffer.capacity() <= KEPT_CAPACITY_MAX && self.spare.len() < IN_FLIGHT_MAX {
                returned.buffer.clear();
                self.spare.push(returned.buffer);
            }
        }
        lost
    }

    /// Hands `buffer` over, and leaves an empty one; leaves it as it is when the channel is full. Gives how many lines
    /// were lost because the writer is gone.
    fn send(&mut self, buffer: &mut Vec<u8>) -> u64 {
        let bytes = buffer.len();
        let full = std::mem::replace(buffer, self.spare.pop().unwrap_or_default());
        match self.jobs.try_send(Job { buffer: full, back: self.back.clone() }) {
            Ok(()) => {
                self.in_flight += 1;
                self.in_flight_bytes += bytes;
                0
            }
            Err(TrySendError::Full(job)) => {
                self.spare.push(std::mem::replace(buffer, job.buffer));
                0
            }
            Err(TrySendError::Disconnected(job)) => sink::lines(&job.buffer),
        }
    }
}
