//! Serving: one task reads the channel, one sends reports, and each request has a task of its own.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::fmt::Display;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Request, Response};
use http_body::Body;
use maitred_handoff::{
    CHANNEL_VARIABLE, FromServer, Hello, MESSAGE_DESCRIPTORS_MAX, PAYLOAD_BYTES_MAX, Trailers, VERSION,
    encode_hello, encode_limits, encode_pong,
};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, Shutdown, recvmsg, shutdown,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tower::Service;

use crate::channel::Channel;
use crate::exchange::{Connection, Exchange, Incoming};
use crate::recovery;

/// Bytes that are asked of the channel at a time.
const RECEIVE_BYTES: usize = 64 * 1024;

/// Serves until Maitred ends the channel, then finishes what has begun. A channel that is lost is followed by another.
///
/// # Errors
/// If the channel cannot be used, or Maitred breaks the protocol.
pub(crate) async fn serve<S, B>(service: S, capacity: u32) -> io::Result<()>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + 'static,
    S::Error: Display,
    B: Body<Data = Bytes> + 'static,
    B::Error: Display,
{
    let number = std::env::var(CHANNEL_VARIABLE).ok().and_then(|number| number.parse().ok());
    let number = number.ok_or_else(|| refuse(format!("{CHANNEL_VARIABLE} names no descriptor")))?;
    let mut socket = maitred_sys::inherit::take(number)?;
    let recovery = recovery::passed()?.map(stream).transpose()?;
    // One descriptor is kept per client connection.
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard })?;
    let mut terminate = signal(SignalKind::terminate())?;
    // A terminal sends it to all processes; it is Maitred's to act on.
    let _ignored = signal(SignalKind::interrupt())?;
    loop {
        let lost = serve_one(socket, &service, capacity, recovery.is_some(), &mut terminate).await?;
        let Some(recovery) = recovery.as_ref().filter(|_| lost) else { return Ok(()) };
        let next = tokio::select! {
            next = tokio::time::timeout(recovery::TIMEOUT, next_channel(recovery)) => next.unwrap_or(Ok(None))?,
            _ = terminate.recv() => None,
        };
        let Some(next) = next else { return Ok(()) };
        socket = next;
    }
}

/// Serves one channel; tells whether it was lost, and another may come.
async fn serve_one<S, B>(
    socket: OwnedFd,
    service: &S,
    capacity: u32,
    recovers: bool,
    terminate: &mut Signal,
) -> io::Result<bool>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + 'static,
    S::Error: Display,
    B: Body<Data = Bytes> + 'static,
    B::Error: Display,
{
    let channel = Rc::new(Channel::new(stream(socket)?));
    let hello = Hello {
        version_min: VERSION,
        version_max: VERSION,
        capacity,
        name: "rust tower",
        sockets_only: false,
        recovers,
    };
    channel.report(|out| encode_hello(out, &hello));
    let open_files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    channel.report(|out| encode_limits(out, u32::try_from(open_files).unwrap_or(u32::MAX)));
    let stays = Cell::new(recovers);
    let mut reader = Reader::new(channel.clone(), service.clone());
    let lost = tokio::select! {
        lost = reader.run(&stays) => lost?,
        failed = leave_on(terminate, &channel, &stays) => failed?,
        () = send_reports(&channel) => false,
    };
    if lost {
        // The requests' descriptors go with them.
        reader.requests.shutdown().await;
    } else {
        // If this fails, Maitred is gone, and needs no reports.
        let _ = channel.flush().await;
    }
    Ok(lost)
}

fn stream(socket: OwnedFd) -> io::Result<UnixStream> {
    rustix::io::ioctl_fionbio(&socket, true)?;
    UnixStream::from_std(socket.into())
}

/// Waits for another channel; `None` if there will be none.
async fn next_channel(recovery: &UnixStream) -> io::Result<Option<OwnedFd>> {
    recovery.async_io(Interest::READABLE, || recovery::next_channel(recovery)).await
}

fn refuse(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Never returns.
async fn send_reports(channel: &Channel) {
    loop {
        channel.more.notified().await;
        if channel.flush().await.is_err() {
            // Maitred is gone; the reader finds that out, and ends.
            std::future::pending::<()>().await;
        }
    }
}

/// SIGTERM ends the channel's receiving side: what the kernel holds is still read. There will be no other.
async fn leave_on(terminate: &mut Signal, channel: &Channel, stays: &Cell<bool>) -> io::Result<bool> {
    terminate.recv().await;
    stays.set(false);
    shutdown(&channel.socket, Shutdown::Read)?;
    std::future::pending().await
}

/// What came behind the body of a request, until its REQUEST has come, which is the next frame.
struct Trailed {
    connection: u32,
    request: u32,
    fields: HeaderMap,
}

impl Trailed {
    /// What the crate `http` does not take is left out.
    fn new(trailers: &Trailers<'_>) -> Self {
        let fields = trailers.fields().filter_map(|(name, value)| {
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_bytes(value).ok()?))
        });
        let mut kept = HeaderMap::new();
        for (name, value) in fields {
            kept.append(name, value);
        }
        Self { connection: trailers.connection, request: trailers.request, fields: kept }
    }

    fn belong_to(&self, frame: &FromServer<'_>) -> bool {
        matches!(frame, FromServer::Request(request)
            if (request.connection, request.request) == (self.connection, self.request) && !request.flags.may_detach)
    }
}

/// Reads the channel.
struct Reader<S> {
    channel: Rc<Channel>,
    service: S,
    input: Vec<u8>,
    arrived: VecDeque<OwnedFd>,
    connections: HashMap<u32, Rc<Connection>>,
    requests: JoinSet<()>,
    payload_bytes_max: u32,
    welcomed: bool,
    trailed: Option<Trailed>,
}

impl<S, B> Reader<S>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + 'static,
    S::Error: Display,
    B: Body<Data = Bytes> + 'static,
    B::Error: Display,
{
    fn new(channel: Rc<Channel>, service: S) -> Self {
        Self {
            channel,
            service,
            input: Vec::new(),
            arrived: VecDeque::new(),
            connections: HashMap::new(),
            requests: JoinSet::new(),
            payload_bytes_max: PAYLOAD_BYTES_MAX,
            welcomed: false,
            trailed: None,
        }
    }

    /// Until SHUTDOWN or the end of the channel, and until the last request has ended; `true` at once if the channel is lost
    /// while the process stays.
    async fn run(&mut self, stays: &Cell<bool>) -> io::Result<bool> {
        while self.act()? {
            if !self.receive().await? {
                if stays.get() {
                    return Ok(true);
                }
                break;
            }
            while self.requests.try_join_next().is_some() {}
        }
        while self.requests.join_next().await.is_some() {}
        Ok(false)
    }

    /// One recvmsg; false at the end of the channel.
    async fn receive(&mut self) -> io::Result<bool> {
        let mut bytes = vec![0; RECEIVE_BYTES];
        let arrived = &mut self.arrived;
        let socket = &self.channel.socket;
        let received = socket.async_io(Interest::READABLE, || {
            let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE_DESCRIPTORS_MAX))];
            let mut control = RecvAncillaryBuffer::new(&mut room);
            let mut pieces = [IoSliceMut::new(&mut bytes)];
            let received = recvmsg(socket, &mut pieces, &mut control, RecvFlags::CMSG_CLOEXEC)?;
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                    arrived.extend(descriptors);
                }
            }
            if received.flags.contains(ReturnFlags::CTRUNC) {
                return Err(refuse("descriptors were lost"));
            }
            Ok(received.bytes)
        });
        match received.await {
            Ok(count) => {
                self.input.extend(bytes.iter().take(count));
                Ok(count > 0)
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Acts on every complete frame; false after SHUTDOWN.
    fn act(&mut self) -> io::Result<bool> {
        let input = std::mem::take(&mut self.input);
        let mut rest = input.as_slice();
        while let Some((frame, used)) = FromServer::decode(rest, self.payload_bytes_max).map_err(refuse)? {
            if self.welcomed == matches!(frame, FromServer::Welcome(_)) {
                return Err(refuse("WELCOME is not the first frame, or not the only one"));
            }
            let trailed = self.trailed.take();
            if trailed.as_ref().is_some_and(|trailed| !trailed.belong_to(&frame)) {
                return Err(refuse("TRAILERS that do not stand before their REQUEST"));
            }
            match frame {
                FromServer::Welcome(welcome) if welcome.version == VERSION => {
                    self.payload_bytes_max = welcome.payload_bytes_max;
                    self.welcomed = true;
                }
                FromServer::Welcome(_) => return Err(refuse("a version that was not offered")),
                FromServer::Request(request) => {
                    self.begin(&request, trailed.map(|trailed| trailed.fields))?
                }
                FromServer::Trailers(trailers) => self.trailed = Some(Trailed::new(&trailers)),
                // Requests that run hold it, too.
                FromServer::Forget { connection } => drop(self.connections.remove(&connection)),
                FromServer::Cancel { request, .. } => {
                    if let Some(cancelled) = self.channel.running.borrow().get(&request) {
                        cancelled.notify_one();
                    }
                }
                FromServer::Ping { request } => self.channel.report(|out| encode_pong(out, request)),
                FromServer::Shutdown => return Ok(false),
                FromServer::Skipped { descriptors } => {
                    for _ in 0..descriptors {
                        self.take()?;
                    }
                }
            }
            rest = rest.get(used..).unwrap_or_default();
        }
        self.input = rest.to_vec();
        Ok(true)
    }

    fn take(&mut self) -> io::Result<OwnedFd> {
        self.arrived.pop_front().ok_or_else(|| refuse("a descriptor that was announced did not come"))
    }

    fn begin(
        &mut self,
        request: &maitred_handoff::Request<'_>,
        trailers: Option<HeaderMap>,
    ) -> io::Result<()> {
        if request.passes_connection() {
            let connection = Connection::new(request.connection, self.take()?);
            self.connections.insert(request.connection, Rc::new(connection));
        }
        let file = if request.flags.body_fd { Some(self.take()?.into()) } else { None };
        let connection = self.connections.get(&request.connection).cloned();
        let connection =
            connection.ok_or_else(|| refuse(format!("connection {} is not known", request.connection)))?;
        let cancelled = Rc::new(Notify::new());
        self.channel.running.borrow_mut().insert(request.request, cancelled.clone());
        let exchange = Exchange::new(self.channel.clone(), connection, request);
        let parsed = Incoming::request(request, file, trailers);
        let service = self.service.clone();
        self.requests.spawn_local(exchange.run(service, parsed, cancelled));
        Ok(())
    }
}
