//! A run: threads that send, and one that watches them.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use maitred_http::h3::Code;
use maitred_sys::signals::{Signal, Signals};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::client::{Engine, Rules, Shared, Tls, Workload};
use crate::http3::client::Connector;
use crate::http3::repeat;
use crate::measure::{Measurements, Nanos};
use crate::progress::Progress;
use crate::target::Target;

/// How often progress is drawn and signals are looked at.
const WATCH_EVERY: Duration = Duration::from_millis(100);
/// How long the first connection may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Descriptors beside connections: epoll, log, standard streams and the like.
const OTHER_DESCRIPTORS: u64 = 64;

/// What a run gave.
#[derive(Debug)]
pub struct Outcome<W> {
    /// What all threads saw.
    pub seen: Measurements,
    /// The threads' workloads.
    pub workloads: Vec<W>,
    /// From the start to the end of the last thread.
    pub elapsed: Nanos,
    /// CPU time of this process over the run, in nanoseconds.
    pub cpu: Nanos,
    /// Whether a signal ended it.
    pub was_interrupted: bool,
}

/// Checks that the server is there, before a whole workload fails one by one.
///
/// # Errors
/// Why there is no connection, or no session.
pub fn probe(target: &Target, tls: Option<&Tls>) -> Result<(), String> {
    let stream = TcpStream::connect_timeout(&target.address, PROBE_TIMEOUT);
    let mut stream = stream
        .map_err(|error| format!("no connection to {}: {error}. Is the server running?", target.address))?;
    let Some(tls) = tls else { return Ok(()) };
    let tried = stream
        .set_read_timeout(Some(PROBE_TIMEOUT))
        .and_then(|()| stream.set_write_timeout(Some(PROBE_TIMEOUT)))
        .and_then(|()| tls.try_out(&mut stream));
    tried.map_err(|error| {
        let error = match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => format!("it says nothing within {PROBE_TIMEOUT:?}"),
            _ => error.to_string(),
        };
        format!(
            "no TLS session with {} at {}: {error}. (--ca FILE names an authority, --insecure trusts any certificate)",
            target.host, target.address
        )
    })
}

/// The same for HTTP/3.
///
/// # Errors
/// Why there is no connection.
pub fn probe_http3(target: &Target, tls: &Tls) -> Result<(), String> {
    let tried = Connector::with(target.address, tls, &[b"h3"]).and_then(|mut connector| {
        connector.timeout = PROBE_TIMEOUT;
        connector.connect().map(|mut client| client.close(Code::NoError.number(), ""))
    });
    tried.map_err(|error| {
        format!(
            "no HTTP/3 with {} at {}: {error}. (--ca FILE names an authority, --insecure trusts any certificate)",
            target.host, target.address
        )
    })
}

/// Makes sure that so many connections can be open.
///
/// # Errors
/// When the hard limit of descriptors is too low.
pub fn allow_connections(count: usize) -> Result<(), String> {
    let wanted = count as u64 + OTHER_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    if limit.maximum.is_some_and(|maximum| maximum < wanted) {
        let maximum = limit.maximum.unwrap_or(0);
        return Err(format!(
            "{count} connections need {wanted} descriptors, but the limit is {maximum} (ulimit -n)"
        ));
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum })
        .map_err(|error| format!("raising the limit of descriptors to {wanted}: {error}"))
}

/// Runs one thread for each of `parts` until all have ended. `signals`: one of them ends the run early.
///
/// # Errors
/// When a thread cannot be started, or its loop fails.
pub fn run<W: Workload + Send + 'static>(
    parts: Vec<(Rules, W)>,
    signals: Option<&Signals>,
    progress: &mut Progress,
) -> io::Result<Outcome<W>> {
    threads(parts, signals, progress, |(rules, workload), shared, start| {
        let engine = Engine::new(rules, workload, shared, start)?;
        Ok(move || engine.run())
    })
}

/// The same for HTTP/3: one thread for each of `loads`.
///
/// # Errors
/// When a thread cannot be started, or its loop fails.
pub fn repeat(
    loads: Vec<repeat::Load>,
    signals: Option<&Signals>,
    progress: &mut Progress,
) -> io::Result<Outcome<()>> {
    threads(loads, signals, progress, |load, shared, start| {
        let engine = repeat::Engine::new(load, shared, start)?;
        Ok(move || engine.run().map(|(seen, ended_at)| (seen, (), ended_at)))
    })
}

fn threads<P, W: Send + 'static, R>(
    parts: Vec<P>,
    signals: Option<&Signals>,
    progress: &mut Progress,
    prepare: impl Fn(P, Arc<Shared>, Instant) -> io::Result<R>,
) -> io::Result<Outcome<W>>
where
    R: FnOnce() -> io::Result<(Measurements, W, Nanos)> + Send + 'static,
{
    let shared = Arc::new(Shared::default());
    let cpu_before = cpu_time();
    let start = Instant::now();
    let mut threads = Vec::new();
    for (number, part) in parts.into_iter().enumerate() {
        let job = prepare(part, shared.clone(), start)?;
        threads.push(std::thread::Builder::new().name(format!("client {number}")).spawn(job)?);
    }
    let was_interrupted = watch(&threads, &shared, start, signals, progress);
    let mut outcome =
        Outcome { seen: Measurements::default(), workloads: Vec::new(), elapsed: 0, cpu: 0, was_interrupted };
    for thread in threads {
        let (seen, workload, ended_at) =
            thread.join().map_err(|_| io::Error::other("a client thread panicked"))??;
        outcome.seen.add(&seen);
        outcome.workloads.push(workload);
        outcome.elapsed = outcome.elapsed.max(ended_at);
    }
    outcome.cpu = cpu_time().saturating_sub(cpu_before);
    progress.end();
    Ok(outcome)
}

/// Waits for the threads; returns whether a signal ended the run.
fn watch<T>(
    threads: &[JoinHandle<T>],
    shared: &Shared,
    start: Instant,
    signals: Option<&Signals>,
    progress: &mut Progress,
) -> bool {
    let every = Timespec { tv_sec: 0, tv_nsec: WATCH_EVERY.subsec_nanos().into() };
    while !threads.iter().all(JoinHandle::is_finished) {
        match signals {
            Some(signals) => {
                let mut fds = [PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN)];
                let _ = poll(&mut fds, Some(&every));
                while let Ok(Some(signal)) = signals.next() {
                    if matches!(signal, Signal::Interrupt | Signal::Terminate | Signal::Quit | Signal::Hangup)
                    {
                        shared.stop.store(true, Relaxed);
                    }
                }
            }
            None => {
                let _ = poll(&mut [], Some(&every));
            }
        }
        progress.show(start.elapsed(), shared);
    }
    shared.stop.load(Relaxed)
}

/// CPU time of this process, in nanoseconds.
fn cpu_time() -> Nanos {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}
