//! A worker of one thread in Rust: the smallest complete use of this crate, and the application of the benchmarks.
//!
//! The worker answers without parsing more than the path: `/bytes/N`, `/chunks/N/SIZE`, `/file/N`, `/slow/MS` and `/status/N`
//! as the conformance kit's reference application does (a leading `/app` is the mount), anything else with 404. One
//! `recvmsg` takes whatever has come, one `send` writes a response, one `sendmsg` reports everything that was done.
//!
//! In `maitred.toml`: `command = ["target/release/examples/worker"]`.

#[path = "support/recovery.rs"]
mod recovery;

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use maitred_handoff::{
    CHANNEL_VARIABLE, Done, FromServer, Hello, MESSAGE_DESCRIPTORS_MAX, Outcome, PAYLOAD_BYTES_MAX, Request,
    RequestFlags, TAIL_TOTAL_BYTES_MAX, VERSION, encode_done, encode_hello, encode_limits, encode_pong,
    encode_tail, encode_tail_file,
};
use maitred_sys::signals::{Signal, Signals};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, recvmsg, sendmsg, shutdown,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Bytes that are asked of the channel at a time.
const RECEIVE_BYTES: usize = 64 * 1024;
/// A report waits for company no longer than half of what the protocol allows.
const REPORT_WAIT: Duration = Duration::from_micros(500);
/// Descriptors and bytes that wait with the reports, at most.
const WAITING_FILES_MAX: usize = 64;
const WAITING_BYTES_MAX: usize = 64 * 1024;
/// The largest body that is answered; bounds the shared file of bodies.
const BODY_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// Bodies up to this are sent from memory, which is copied into the socket; a tail of larger ones is a file.
const MEMORY_BYTES: usize = 1024 * 1024;
/// Any value of `Date` is as good as another, and telling the time costs.
const FIELDS: &str = "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nServer: worker\r\nContent-Type: text/plain\r\n";

fn main() -> io::Result<()> {
    let number = std::env::var(CHANNEL_VARIABLE).ok().and_then(|number| number.parse().ok());
    let number = number.ok_or_else(|| refuse(format!("{CHANNEL_VARIABLE} names no descriptor")))?;
    let channel = maitred_sys::inherit::take(number)?;
    // One descriptor is kept per client connection.
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard })?;
    let recovery = recovery::passed()?.map(Arc::new);
    let sockets = Arc::new(Sockets { channel: Mutex::new(Some(channel.try_clone()?)), recovery });
    stop_on_signal(sockets.clone())?;
    let mut worker = Worker::new(channel, sockets.recovery.is_some())?;
    loop {
        worker.hello();
        if worker.run()? == End::Told {
            return Ok(());
        }
        worker.forget_all();
        let Some(channel) = sockets.next_channel()? else { return Ok(()) };
        worker.channel = channel;
    }
}

/// How a channel ended.
#[derive(PartialEq, Eq)]
enum End {
    /// With SHUTDOWN.
    Told,
    /// Without.
    Lost,
}

/// What a signal ends.
struct Sockets {
    /// A duplicate of the present channel; none once the worker is to leave.
    channel: Mutex<Option<OwnedFd>>,
    recovery: Option<Arc<OwnedFd>>,
}

impl Sockets {
    /// Takes no more requests, and no other channel. What the kernel holds is still read.
    fn leave(&self) -> io::Result<()> {
        let channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(recovery) = &self.recovery {
            // A thread that waits there sees the end. Maitred's end may be gone, which is as good.
            let _ = shutdown(recovery, Shutdown::Read);
        }
        let ended = channel.map_or(Ok(()), |channel| shutdown(&channel, Shutdown::Read));
        Ok(ended.or_else(|error| if error == rustix::io::Errno::NOTCONN { Ok(()) } else { Err(error) })?)
    }

    /// Waits for another channel; `None` if there will be none.
    fn next_channel(&self) -> io::Result<Option<OwnedFd>> {
        let Some(recovery) = &self.recovery else { return Ok(None) };
        let mut waiting = [PollFd::new(recovery, PollFlags::IN)];
        let timeout = Timespec::try_from(recovery::TIMEOUT).map_err(|_| refuse("time"))?;
        if poll(&mut waiting, Some(&timeout))? == 0 {
            return Ok(None);
        }
        let Some(channel) = recovery::next_channel(recovery)? else { return Ok(None) };
        let mut present = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        // The worker was asked to leave meanwhile.
        if present.is_none() {
            return Ok(None);
        }
        *present = Some(channel.try_clone()?);
        Ok(Some(channel))
    }
}

fn refuse(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// SIGTERM ends the channel's receiving side: what the kernel holds is still read. SIGINT is Maitred's to act on.
fn stop_on_signal(sockets: Arc<Sockets>) -> io::Result<()> {
    let signals = Signals::block()?;
    std::thread::Builder::new().stack_size(64 * 1024).spawn(move || {
        loop {
            let _ = poll(&mut [PollFd::new(&signals, PollFlags::IN)], None);
            match signals.next() {
                Ok(Some(Signal::Terminate)) => return sockets.leave(),
                Ok(_) => {}
                Err(_) => return Ok(()),
            }
        }
    })?;
    Ok(())
}

/// What a request asks for.
#[derive(Clone, Copy)]
enum Asked {
    Bytes(usize),
    Chunks { count: usize, size: usize },
    File(usize),
    Slow(u64),
    Status(u16),
    Missing,
}

impl Asked {
    fn of(head: &[u8]) -> Self {
        let target = head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
        let path = path.strip_prefix(b"/app").unwrap_or(path);
        let mut parts = path.split(|byte| *byte == b'/').skip(1);
        let name = parts.next().unwrap_or_default();
        let mut number = || -> Option<usize> {
            let number = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
            (number <= BODY_BYTES_MAX).then_some(number)
        };
        let asked = match name {
            b"bytes" => number().map(Self::Bytes),
            b"file" => number().map(Self::File),
            b"slow" => number().map(|ms| Self::Slow(ms as u64)),
            b"chunks" => number().zip(number()).map(|(count, size)| Self::Chunks { count, size }),
            b"status" => number()
                .and_then(|status| u16::try_from(status).ok())
                .filter(|status| (200..600).contains(status))
                .map(Self::Status),
            _ => None,
        };
        asked.unwrap_or(Self::Missing)
    }
}

/// Where a body comes from.
#[derive(Clone, Copy)]
enum Body<'b> {
    None,
    Bytes(&'b [u8]),
    /// So many bytes from the beginning of a shared file.
    Filler(usize),
    Pattern(usize),
}

/// A file whose content any response can use: it grows when a larger one is wanted.
struct Shared {
    file: File,
    length: usize,
    content: fn(usize) -> u8,
}

impl Shared {
    fn new(content: fn(usize) -> u8) -> io::Result<Self> {
        let file = rustix::fs::memfd_create("bodies", rustix::fs::MemfdFlags::CLOEXEC)?;
        Ok(Self { file: file.into(), length: 0, content })
    }

    fn ensure(&mut self, length: usize) -> io::Result<()> {
        while self.length < length {
            let piece: Vec<u8> = (self.length..self.length + MEMORY_BYTES).map(self.content).collect();
            self.file.write_all_at(&piece, self.length as u64)?;
            self.length += piece.len();
        }
        Ok(())
    }
}

/// What the channel has brought and was not looked at yet.
struct Input {
    bytes: Vec<u8>,
    at: usize,
    filled: usize,
}

impl Input {
    fn waiting(&self) -> &[u8] {
        self.bytes.get(self.at..self.filled).unwrap_or_default()
    }

    /// Room for [`RECEIVE_BYTES`] more; what waits moves to the front.
    fn make_room(&mut self) {
        self.bytes.copy_within(self.at..self.filled, 0);
        self.filled -= self.at;
        self.at = 0;
        if self.bytes.len() < self.filled + RECEIVE_BYTES {
            self.bytes.resize(2 * self.bytes.len(), 0);
        }
    }
}

struct Worker {
    channel: OwnedFd,
    recovers: bool,
    payload_bytes_max: u32,
    connections: HashMap<u32, OwnedFd>,
    arrived: VecDeque<OwnedFd>,
    reports: Vec<u8>,
    /// For each file that goes with the reports: whether it is the pattern.
    files: Vec<bool>,
    first_report: Instant,
    head: Vec<u8>,
    memory: Vec<u8>,
    filler: Shared,
    pattern: Shared,
}

impl Worker {
    fn new(channel: OwnedFd, recovers: bool) -> io::Result<Self> {
        Ok(Self {
            channel,
            recovers,
            payload_bytes_max: PAYLOAD_BYTES_MAX,
            connections: HashMap::new(),
            arrived: VecDeque::new(),
            reports: Vec::new(),
            files: Vec::new(),
            first_report: Instant::now(),
            head: Vec::new(),
            memory: vec![b'x'; MEMORY_BYTES],
            filler: Shared::new(|_| b'x')?,
            pattern: Shared::new(|at| (at % 251) as u8)?,
        })
    }

    fn hello(&mut self) {
        let hello = Hello {
            version_min: VERSION,
            version_max: VERSION,
            capacity: 1,
            name: "rust example",
            sockets_only: false,
            recovers: self.recovers,
        };
        encode_hello(&mut self.reports, &hello);
        let open_files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        encode_limits(&mut self.reports, u32::try_from(open_files).unwrap_or(u32::MAX));
    }

    /// Drops all that the channel has brought, and what was to be said on it.
    fn forget_all(&mut self) {
        self.connections.clear();
        self.arrived.clear();
        self.reports.clear();
        self.files.clear();
        self.payload_bytes_max = PAYLOAD_BYTES_MAX;
    }

    /// Answers until the channel ends.
    fn run(&mut self) -> io::Result<End> {
        let mut input = Input { bytes: vec![0; 4 * RECEIVE_BYTES], at: 0, filled: 0 };
        let mut welcomed = false;
        loop {
            let decoded = FromServer::decode(input.waiting(), self.payload_bytes_max);
            let Some((frame, used)) = decoded.map_err(refuse)? else {
                self.report()?;
                if !self.receive(&mut input)? {
                    return Ok(End::Lost);
                }
                continue;
            };
            if welcomed == matches!(frame, FromServer::Welcome(_)) {
                return Err(refuse("WELCOME is not the first frame, or not the only one"));
            }
            match frame {
                FromServer::Welcome(welcome) if welcome.version == VERSION => {
                    self.payload_bytes_max = welcome.payload_bytes_max;
                    welcomed = true;
                }
                FromServer::Welcome(_) => return Err(refuse("a version that was not offered")),
                FromServer::Request(request) => self.answer(&request)?,
                FromServer::Forget { connection } => drop(self.connections.remove(&connection)),
                // Handlers are given what came in time.
                FromServer::Cancel { .. } | FromServer::Trailers(_) => {}
                FromServer::Ping { request } => encode_pong(&mut self.reports, request),
                FromServer::Shutdown => {
                    self.report()?;
                    return Ok(End::Told);
                }
                FromServer::Skipped { descriptors } => {
                    for _ in 0..descriptors {
                        self.take()?;
                    }
                }
            }
            input.at += used;
        }
    }

    /// One recvmsg; false at the end of the channel.
    fn receive(&mut self, input: &mut Input) -> io::Result<bool> {
        input.make_room();
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE_DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut room);
        let received = loop {
            let mut pieces = [IoSliceMut::new(input.bytes.get_mut(input.filled..).unwrap_or_default())];
            match recvmsg(&self.channel, &mut pieces, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::CONNRESET) => return Ok(false),
                other => break other?,
            }
        };
        input.filled += received.bytes;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.arrived.extend(descriptors);
            }
        }
        if received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(refuse("descriptors were lost"));
        }
        Ok(received.bytes > 0)
    }

    fn take(&mut self) -> io::Result<OwnedFd> {
        self.arrived.pop_front().ok_or_else(|| refuse("a descriptor that was announced did not come"))
    }

    fn answer(&mut self, request: &Request<'_>) -> io::Result<()> {
        let began = Instant::now();
        if request.passes_connection() {
            let descriptor = self.take()?;
            self.connections.insert(request.connection, descriptor);
        }
        if request.flags.body_fd {
            self.take()?;
        }
        if !self.connections.contains_key(&request.connection) {
            return Err(refuse(format!("connection {} is not known", request.connection)));
        }
        if self.reports.is_empty() {
            self.first_report = began;
        }
        let (status, outcome, body_bytes) = match Asked::of(request.head) {
            Asked::Bytes(length) => self.plain(request, 200, Body::Filler(length))?,
            Asked::File(length) => self.plain(request, 200, Body::Pattern(length))?,
            Asked::Chunks { count, size } => self.chunks(request, count, size)?,
            Asked::Slow(ms) => {
                // The reports of requests that are done should not wait for this one.
                self.report()?;
                std::thread::sleep(Duration::from_millis(ms));
                self.plain(request, 200, Body::Bytes(b"slow"))?
            }
            Asked::Status(status) => self.plain(request, status, Body::None)?,
            Asked::Missing => self.plain(request, 404, Body::Bytes(b"missing"))?,
        };
        let now = Instant::now();
        let service_us = u32::try_from((now - began).as_micros()).unwrap_or(u32::MAX);
        let Request { connection, request, .. } = *request;
        encode_done(
            &mut self.reports,
            &Done { connection, request, status, outcome, service_us, body_bytes },
        );
        let waiting = self.reports.len() > WAITING_BYTES_MAX || self.files.len() >= WAITING_FILES_MAX;
        if waiting || now - self.first_report > REPORT_WAIT {
            self.report()?;
        }
        Ok(())
    }

    /// A response with a length. Returns what DONE says: status, outcome, bytes of the body.
    fn plain(
        &mut self,
        request: &Request<'_>,
        status: u16,
        body: Body<'_>,
    ) -> io::Result<(u16, Outcome, u64)> {
        let length = match body {
            Body::None => 0,
            Body::Bytes(bytes) => bytes.len(),
            Body::Filler(length) | Body::Pattern(length) => length,
        };
        let bodiless = matches!(status, 204 | 304);
        self.begin_head(status);
        if !bodiless {
            self.head.extend_from_slice(b"Content-Length: ");
            self.head.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
            self.head.extend_from_slice(b"\r\n");
        }
        self.end_head(request.flags);
        let body = if bodiless || request.flags.head { Body::None } else { body };
        let sent_bytes = if matches!(body, Body::None) { 0 } else { length as u64 };
        if self.send(request, body)? {
            Ok((status, Outcome::Clean, sent_bytes))
        } else {
            Ok((status, Outcome::Broken, 0))
        }
    }

    /// A response of unknown length, all of it in one piece of memory.
    fn chunks(
        &mut self,
        request: &Request<'_>,
        count: usize,
        size: usize,
    ) -> io::Result<(u16, Outcome, u64)> {
        let mut flags = request.flags;
        let chunked = !flags.http10;
        flags.keep &= chunked;
        self.begin_head(200);
        if chunked {
            self.head.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        }
        self.end_head(flags);
        let mut body = Vec::new();
        if !flags.head {
            for _ in 0..count {
                if chunked {
                    body.extend_from_slice(format!("{size:x}\r\n").as_bytes());
                }
                body.resize(body.len() + size, b'y');
                if chunked {
                    body.extend_from_slice(b"\r\n");
                }
            }
            if chunked {
                body.extend_from_slice(b"0\r\n\r\n");
            }
        }
        let sent = self.send(request, Body::Bytes(&body))?;
        let outcome = match (sent, chunked || flags.head) {
            (false, _) => Outcome::Broken,
            (true, true) => Outcome::Clean,
            (true, false) => Outcome::Close,
        };
        let body_bytes = if flags.head { 0 } else { (count * size) as u64 };
        Ok((200, outcome, body_bytes))
    }

    fn begin_head(&mut self, status: u16) {
        let reason = match status {
            200 => "OK",
            404 => "Not Found",
            _ => "Chosen",
        };
        self.head.clear();
        self.head.extend_from_slice(b"HTTP/1.1 ");
        self.head.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
        self.head.extend_from_slice(b" ");
        self.head.extend_from_slice(reason.as_bytes());
        self.head.extend_from_slice(b"\r\n");
        self.head.extend_from_slice(FIELDS.as_bytes());
    }

    fn end_head(&mut self, flags: RequestFlags) {
        self.head.extend_from_slice(match (flags.keep, flags.http10) {
            (true, false) => b"\r\n",
            (true, true) => b"Connection: keep-alive\r\n\r\n",
            (false, _) => b"Connection: close\r\n\r\n",
        });
    }

    /// Writes head and body, and leaves to Maitred what the socket does not take. False if the client has gone.
    fn send(&mut self, request: &Request<'_>, body: Body<'_>) -> io::Result<bool> {
        let Some(descriptor) = self.connections.get(&request.connection) else { return Ok(false) };
        let (direct, total): (&[u8], usize) = match body {
            Body::None | Body::Pattern(_) => (b"", 0),
            Body::Bytes(bytes) => (bytes, bytes.len()),
            Body::Filler(length) => (self.memory.get(..length).unwrap_or(&self.memory), length),
        };
        let head_bytes = self.head.len();
        let mut sent = match write(descriptor, &self.head, direct) {
            Some(sent) => sent,
            None => return Ok(false),
        };
        // As long as the socket takes all that it is given, a body that is larger than the memory is sent piece by piece.
        while sent < head_bytes + total && sent >= head_bytes + direct.len() {
            let rest = head_bytes + total - sent;
            let Some(more) = write(descriptor, &[], self.memory.get(..rest).unwrap_or(&self.memory)) else {
                return Ok(false);
            };
            sent += more;
            if more < rest.min(self.memory.len()) {
                break;
            }
        }
        let Request { connection, request, .. } = *request;
        encode_tail(&mut self.reports, connection, request, self.head.get(sent..).unwrap_or_default());
        let rest = total.saturating_sub(sent.saturating_sub(head_bytes));
        match body {
            Body::None => {}
            Body::Pattern(length) => self.tail_file(connection, request, true, length)?,
            Body::Filler(_) => self.tail_file(connection, request, false, rest)?,
            Body::Bytes(bytes) => self.tail_bytes(connection, request, bytes, bytes.len() - rest)?,
        }
        Ok(true)
    }

    /// Leaves so much of a shared file to Maitred.
    fn tail_file(&mut self, connection: u32, request: u32, pattern: bool, length: usize) -> io::Result<()> {
        if length == 0 {
            return Ok(());
        }
        let shared = if pattern { &mut self.pattern } else { &mut self.filler };
        shared.ensure(length)?;
        encode_tail_file(&mut self.reports, connection, request, 0, length as u64);
        self.files.push(pattern);
        Ok(())
    }

    /// Leaves `bytes` from `at` on to Maitred: through a file of their own if they are many.
    fn tail_bytes(&mut self, connection: u32, request: u32, bytes: &[u8], at: usize) -> io::Result<()> {
        let rest = bytes.get(at..).unwrap_or_default();
        if rest.len() <= TAIL_TOTAL_BYTES_MAX - self.head.len() {
            encode_tail(&mut self.reports, connection, request, rest);
            return Ok(());
        }
        let file = rustix::fs::memfd_create("rest", rustix::fs::MemfdFlags::CLOEXEC)?;
        let file = File::from(file);
        file.write_all_at(rest, 0)?;
        // The frame leaves at once, together with what waits: its descriptor need not be kept.
        encode_tail_file(&mut self.reports, connection, request, 0, rest.len() as u64);
        self.report_with(Some(file.as_fd()))
    }

    fn report(&mut self) -> io::Result<()> {
        self.report_with(None)
    }

    /// Sends all that waits in one message, `last` being the descriptor that belongs to its last frame.
    fn report_with(&mut self, last: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let of = |pattern: &bool| if *pattern { self.pattern.file.as_fd() } else { self.filler.file.as_fd() };
        let files: Vec<BorrowedFd<'_>> = self.files.iter().map(of).chain(last).collect();
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(WAITING_FILES_MAX + 1))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        if !files.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&files));
        }
        let mut sent = 0;
        while let Some(rest) = self.reports.get(sent..).filter(|rest| !rest.is_empty()) {
            match sendmsg(&self.channel, &[IoSlice::new(rest)], &mut control, SendFlags::NOSIGNAL) {
                Ok(more) => {
                    sent += more;
                    control.clear();
                }
                Err(rustix::io::Errno::INTR) => {}
                // Maitred is gone; the next receive says so.
                Err(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET) => break,
                Err(error) => return Err(error.into()),
            }
        }
        self.reports.clear();
        self.files.clear();
        Ok(())
    }
}

/// Writes what the socket takes of both pieces; `None` if the client has gone.
fn write(descriptor: &OwnedFd, head: &[u8], body: &[u8]) -> Option<usize> {
    const FLAGS: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);
    loop {
        let result = if body.is_empty() {
            rustix::net::send(descriptor, head, FLAGS)
        } else {
            let pieces = [IoSlice::new(head), IoSlice::new(body)];
            sendmsg(descriptor, &pieces, &mut SendAncillaryBuffer::default(), FLAGS)
        };
        match result {
            Ok(sent) => return Some(sent),
            Err(rustix::io::Errno::AGAIN) => return Some(0),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}
