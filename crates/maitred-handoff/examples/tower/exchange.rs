//! One request: from its frame to an `http::Request`, and from an `http::Response` to the client's socket.

use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::File;
use std::future::poll_fn;
use std::io::{self, IoSlice, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::response::Parts;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use maitred_handoff::{
    Done, INFORMATIONAL_MAX, Outcome, RequestFlags, encode_done, encode_informational, encode_last_chunk,
    encode_tail, encode_tail_file, is_sendable,
};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{Mutex, Notify};
use tower::{Service, ServiceExt};

use crate::channel::Channel;
use crate::named::open_below;

/// Bytes of a body that are read from its file at a time.
const READ_BYTES: usize = 64 * 1024;
/// Smaller files are cheaper to write than to pass.
const FILE_BYTES_MIN: u64 = 64 * 1024;
const EARLY_HINTS: u16 = 103;
/// Names the file that is the body, where Maitred has named a root.
const X_SENDFILE: HeaderName = HeaderName::from_static("x-sendfile");
/// A rest up to this goes back to Maitred as bytes, more as a file.
const TAIL_BYTES_KEPT: usize = 256 * 1024;

/// A response descriptor that is kept. The requests of a connection are answered one after another.
pub(crate) struct Connection {
    number: u32,
    socket: OwnedFd,
    turn: Mutex<()>,
}

impl Connection {
    pub(crate) fn new(number: u32, socket: OwnedFd) -> Self {
        Self { number, socket, turn: Mutex::new(()) }
    }
}

/// How a service says 103 Early Hints: it is in the extensions of its request, and has room for as many as may be sent. What the
/// client may not have is dropped.
pub(crate) type Hints = Sender<HeaderMap>;

/// Content that is all here: in memory or in a file.
enum Content {
    Bytes(Bytes),
    File { file: File, at: u64, end: u64 },
}

/// The body of a request.
pub(crate) struct Incoming {
    content: Content,
    trailers: Option<HeaderMap>,
}

impl Incoming {
    /// What Maitred has sent, as an `http::Request`; its meta part is in the extensions, as a `String`. `None` if the crate
    /// `http` does not take it.
    pub(crate) fn request(
        sent: &maitred_handoff::Request<'_>,
        file: Option<File>,
        trailers: Option<HeaderMap>,
    ) -> Option<Request<Self>> {
        let mut lines = sent.head.split(|byte| *byte == b'\n').map(|line| line.trim_ascii_end());
        let mut first = lines.next()?.split(|byte| *byte == b' ');
        let mut request = Request::builder().method(first.next()?).uri(first.next()?);
        if sent.flags.http10 {
            request = request.version(http::Version::HTTP_10);
        }
        let mut length = 0;
        for line in lines.take_while(|line| !line.is_empty()) {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let (name, value) = line.split_at(colon);
            let value = HeaderValue::from_bytes(value.get(1..)?.trim_ascii()).ok()?;
            if name == b"content-length" {
                length = value.to_str().ok()?.parse().ok()?;
            }
            request = request.header(HeaderName::from_bytes(name).ok()?, value);
        }
        let content = match file {
            Some(file) => Content::File { file, at: 0, end: length },
            // With MAY_DETACH they are no body.
            None if sent.flags.may_detach => Content::Bytes(Bytes::new()),
            None => Content::Bytes(Bytes::copy_from_slice(sent.body)),
        };
        request.extension(sent.meta.to_owned()).body(Self { content, trailers }).ok()
    }

    /// A response of the adapter's own.
    fn outgoing(content: Content) -> Self {
        Self { content, trailers: None }
    }

    fn left(&self) -> u64 {
        match &self.content {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::File { at, end, .. } => end - at,
        }
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.left() == 0 {
            return Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))));
        }
        let data = match &mut self.content {
            Content::Bytes(bytes) => Ok(std::mem::take(bytes)),
            Content::File { file, at, end } => {
                let mut piece = vec![0; READ_BYTES.min(usize::try_from(*end - *at).unwrap_or(READ_BYTES))];
                // A file in memory, or one that was written a moment ago: reading it does not wait for a disk.
                file.read_exact_at(&mut piece, *at).map(|()| {
                    *at += piece.len() as u64;
                    piece.into()
                })
            }
        };
        Poll::Ready(Some(data.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left() == 0 && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left())
    }
}

/// How the client finds the end of a body.
#[derive(Clone, Copy, PartialEq)]
enum Framing {
    None,
    Length(u64),
    Chunks,
    Close,
}

/// A request under way. Dropping it reports what has become of it, also after a panic, or when the client has gone.
pub(crate) struct Exchange {
    channel: Rc<Channel>,
    connection: Rc<Connection>,
    request: u32,
    flags: RequestFlags,
    began: Instant,
    status: u16,
    started: bool,
    body_bytes: u64,
    outcome: Outcome,
    early_hints: bool,
    informed: usize,
    sendfile_root: Option<PathBuf>,
    /// Whether `Server` is added where the service does not say it.
    server_header: bool,
    /// Whether the client takes trailers, and those that there are.
    takes_trailers: bool,
    trailers: HeaderMap,
    /// For waiting; whatever kind of stream socket it is, only readiness is asked of it.
    waiter: Option<UnixStream>,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.channel.ended(self.request);
        let done = Done {
            connection: self.connection.number,
            request: self.request,
            status: if self.started { self.status } else { 0 },
            outcome: self.outcome,
            service_us: u32::try_from(self.began.elapsed().as_micros()).unwrap_or(u32::MAX),
            body_bytes: if self.started { self.body_bytes } else { 0 },
        };
        self.channel.report(|out| encode_done(out, &done));
    }
}

impl Exchange {
    pub(crate) fn new(
        channel: Rc<Channel>,
        connection: Rc<Connection>,
        request: &maitred_handoff::Request<'_>,
    ) -> Self {
        Self {
            channel,
            connection,
            request: request.request,
            flags: request.flags,
            began: Instant::now(),
            status: 0,
            started: false,
            body_bytes: 0,
            outcome: Outcome::Broken,
            early_hints: request.early_hints(),
            informed: 0,
            sendfile_root: request.sendfile_root().map(PathBuf::from),
            takes_trailers: request.trailers(),
            server_header: request.server_header(),
            trailers: HeaderMap::new(),
            waiter: None,
        }
    }

    /// Answers, when those before it on its connection are answered. When the client has gone, the service's future is dropped,
    /// as hyper does.
    pub(crate) async fn run<S, B>(
        mut self,
        service: S,
        request: Option<Request<Incoming>>,
        cancelled: Rc<Notify>,
    ) where
        S: Service<Request<Incoming>, Response = Response<B>>,
        S::Error: Display,
        B: Body<Data = Bytes>,
        B::Error: Display,
    {
        let connection = self.connection.clone();
        tokio::select! {
            biased;
            () = cancelled.notified() => {}
            _turn = connection.turn.lock() => {
                self.began = Instant::now();
                tokio::select! {
                    biased;
                    result = self.answer(service, request) => {
                        if let Err(why) = result {
                            eprintln!("maitred: response aborted: {why}");
                        }
                    }
                    () = cancelled.notified() => {}
                }
            }
        }
    }

    async fn answer<S, B>(&mut self, service: S, request: Option<Request<Incoming>>) -> Result<(), String>
    where
        S: Service<Request<Incoming>, Response = Response<B>>,
        S::Error: Display,
        B: Body<Data = Bytes>,
        B::Error: Display,
    {
        let Some(mut request) = request else { return self.refuse(StatusCode::BAD_REQUEST).await };
        let (hints, mut said): (Hints, _) = channel(INFORMATIONAL_MAX);
        request.extensions_mut().insert(hints);
        let response = {
            let mut service = pin!(service.oneshot(request));
            loop {
                tokio::select! {
                    biased;
                    Some(fields) = said.recv() => self.inform(&fields).await?,
                    response = &mut service => break response,
                }
            }
        };
        self.inform_rest(&mut said).await?;
        match response {
            Ok(response) => {
                let (parts, body) = response.into_parts();
                match self.named(&parts) {
                    None => self.respond(&parts, body).await,
                    Some(Ok((file, size))) => self.respond_with(&parts, file, size).await,
                    Some(Err(why)) => {
                        eprintln!("maitred: X-Sendfile: {why}");
                        self.refuse(StatusCode::INTERNAL_SERVER_ERROR).await
                    }
                }
            }
            Err(error) => {
                eprintln!("maitred: the service failed: {error}");
                self.refuse(StatusCode::INTERNAL_SERVER_ERROR).await
            }
        }
    }

    /// Informational responses from before the final one that were not sent yet.
    async fn inform_rest(&mut self, said: &mut Receiver<HeaderMap>) -> Result<(), String> {
        while let Ok(fields) = said.try_recv() {
            self.inform(&fields).await?;
        }
        Ok(())
    }

    /// 103 Early Hints, if the client may have them.
    async fn inform(&mut self, fields: &HeaderMap) -> Result<(), String> {
        let mut out = Vec::new();
        let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        if self.informed == INFORMATIONAL_MAX
            || !self.early_hints
            || !encode_informational(&mut out, EARLY_HINTS, &fields)
        {
            return Ok(());
        }
        self.informed += 1;
        // What DONE says if only a part of it is written.
        self.status = EARLY_HINTS;
        self.write([&out, b"", b""], false).await?;
        self.started = false;
        Ok(())
    }

    /// The file that the response names.
    fn named(&self, parts: &Parts) -> Option<io::Result<(File, u64)>> {
        let (root, path) = self.sendfile_root.as_deref().zip(parts.headers.get(X_SENDFILE))?;
        Some(open_below(root, Path::new(OsStr::from_bytes(path.as_bytes()))))
    }

    /// A response whose body is a file.
    async fn respond_with(&mut self, parts: &Parts, file: File, size: u64) -> Result<(), String> {
        let bodiless = matches!(parts.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        if size < FILE_BYTES_MIN || self.flags.head || bodiless {
            return self.respond(parts, Incoming::outgoing(Content::File { file, at: 0, end: size })).await;
        }
        let framing = Framing::Length(size);
        let head = self.head(parts, framing, Some(size));
        self.write([&head, b"", b""], false).await?;
        let (connection, request) = (self.connection.number, self.request);
        self.channel.report_file(file.into(), |out| encode_tail_file(out, connection, request, 0, size));
        self.body_bytes = size;
        self.end(framing, Vec::new()).await
    }

    async fn refuse(&mut self, status: StatusCode) -> Result<(), String> {
        let (mut parts, ()) = Response::new(()).into_parts();
        parts.status = status;
        let content = Content::Bytes(Bytes::from_static(b"The request failed.\n"));
        self.respond(&parts, Incoming::outgoing(content)).await
    }

    async fn respond<B>(&mut self, parts: &Parts, body: B) -> Result<(), String>
    where
        B: Body<Data = Bytes>,
        B::Error: Display,
    {
        let mut body = pin!(body);
        let framing = self.framing(parts, &*body);
        let mut out = self.head(parts, framing, body.size_hint().exact());
        let mut left = match framing {
            Framing::None => return self.end(framing, out).await,
            Framing::Length(length) => length,
            Framing::Chunks | Framing::Close => u64::MAX,
        };
        while left > 0 {
            let mut ready = poll_fn(|cx| Poll::Ready(body.as_mut().poll_frame(cx))).await;
            if ready.is_pending() {
                // What is there leaves before the service is waited for.
                self.write([&out, b"", b""], false).await?;
                out.clear();
                ready = Poll::Ready(poll_fn(|cx| body.as_mut().poll_frame(cx)).await);
            }
            let Poll::Ready(Some(frame)) = ready else { break };
            let frame = frame.map_err(|error| error.to_string())?.into_data();
            let mut data = match frame.map_err(Frame::into_trailers) {
                Ok(data) => data,
                Err(trailers) => {
                    self.trailers.extend(trailers.unwrap_or_default());
                    continue;
                }
            };
            data.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            left -= data.len() as u64;
            let last = left == 0 || framing != Framing::Length(left) && body.is_end_stream();
            self.piece(framing, &mut out, &data, last && framing != Framing::Chunks).await?;
        }
        if matches!(framing, Framing::Length(_)) && left > 0 {
            return Err(format!("its body is {left} bytes too short"));
        }
        self.end(framing, out).await
    }

    /// A piece of the body, behind what is in `out`.
    async fn piece(
        &mut self,
        framing: Framing,
        out: &mut Vec<u8>,
        data: &[u8],
        last: bool,
    ) -> Result<(), String> {
        if data.is_empty() {
            return Ok(());
        }
        self.body_bytes += data.len() as u64;
        let mut end: &[u8] = b"";
        if framing == Framing::Chunks {
            // Writing to a vector does not fail.
            let _ = write!(out, "{:x}\r\n", data.len());
            end = b"\r\n";
        }
        self.write([out, data, end], last).await?;
        out.clear();
        Ok(())
    }

    async fn end(&mut self, framing: Framing, mut out: Vec<u8>) -> Result<(), String> {
        if framing == Framing::Chunks && !self.last_chunk(&mut out) {
            eprintln!("maitred: a response has trailers that cannot be sent, or too many: they are left out");
        }
        self.write([&out, b"", b""], true).await?;
        self.outcome = if framing == Framing::Close { Outcome::Close } else { Outcome::Clean };
        Ok(())
    }

    /// The end of a body in chunks; false if what the client would take behind it cannot be sent.
    fn last_chunk(&self, out: &mut Vec<u8>) -> bool {
        let taken = self.trailers.iter().filter(|_| self.takes_trailers);
        let fields: Vec<_> = taken.map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        encode_last_chunk(out, &fields)
    }

    fn framing<B: Body>(&self, parts: &Parts, body: &B) -> Framing {
        let bodiless = matches!(parts.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        match body.size_hint().exact() {
            _ if bodiless || self.flags.head => Framing::None,
            // What has a length has no trailers, and these are announced.
            _ if self.takes_trailers && parts.headers.contains_key(header::TRAILER) => Framing::Chunks,
            Some(length) => Framing::Length(length),
            None if self.flags.http10 => Framing::Close,
            None => Framing::Chunks,
        }
    }

    fn head(&mut self, parts: &Parts, framing: Framing, length: Option<u64>) -> Vec<u8> {
        self.status = parts.status.as_u16();
        let mut out = format!(
            "HTTP/1.1 {} {}\r\n",
            parts.status.as_str(),
            parts.status.canonical_reason().unwrap_or("")
        );
        let has = |name: HeaderName| parts.headers.contains_key(name);
        if !has(header::DATE) {
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec;
            let date = maitred_http::date::format(u64::try_from(now).unwrap_or(0));
            out += &format!("date: {}\r\n", String::from_utf8_lossy(&date));
        }
        if self.server_header && !has(header::SERVER) {
            out += "server: maitred\r\n";
        }
        match framing {
            Framing::Length(length) => out += &format!("content-length: {length}\r\n"),
            Framing::Chunks => out += "transfer-encoding: chunked\r\n",
            Framing::None | Framing::Close => {}
        }
        let length = length.filter(|length| self.flags.head && *length > 0);
        if let Some(length) = length.filter(|_| !has(header::CONTENT_LENGTH)) {
            out += &format!("content-length: {length}\r\n");
        }
        let ends = !self.flags.keep || framing == Framing::Close;
        match (ends, self.flags.http10, parts.status == 426 && has(header::UPGRADE)) {
            (true, _, true) => out += "connection: close, upgrade\r\n",
            (true, _, false) => out += "connection: close\r\n",
            (false, _, true) => out += "connection: upgrade\r\n",
            (false, true, false) => out += "connection: keep-alive\r\n",
            (false, false, false) => {}
        }
        let mut out = out.into_bytes();
        for (name, value) in &parts.headers {
            // Of a response to HEAD only the application knows what GET would bring.
            let framed = name == header::CONTENT_LENGTH && !(self.flags.head && framing == Framing::None);
            let connection = parts.headers.get_all(header::CONNECTION).iter().map(HeaderValue::as_bytes);
            let announces = name == header::TRAILER && self.takes_trailers && framing == Framing::Chunks;
            // An adapter that has a log with levels says at `debug` what it drops.
            if framed || !announces && !is_sendable(name.as_str(), self.status, connection) {
                continue;
            }
            if name == X_SENDFILE && self.sendfile_root.is_some() {
                continue;
            }
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                out.extend_from_slice(part);
            }
        }
        out.extend_from_slice(b"\r\n");
        out
    }

    /// Writes all of it, or leaves the last of a response to Maitred when the socket is full.
    async fn write(&mut self, pieces: [&[u8]; 3], last: bool) -> Result<(), String> {
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut sent = 0;
        while sent < total {
            let rest = behind(pieces, sent);
            match send(&self.connection.socket, rest) {
                Ok(more) => sent += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if last {
                        self.started = true;
                        return self.leave(rest, total - sent).map_err(|error| error.to_string());
                    }
                    sent += self.wait_and_send(rest).await.map_err(|error| error.to_string())?;
                }
                Err(error) => return Err(error.to_string()),
            }
            self.started = true;
        }
        Ok(())
    }

    /// Waits for room; others go on meanwhile.
    async fn wait_and_send(&mut self, rest: [&[u8]; 3]) -> io::Result<usize> {
        if self.waiter.is_none() {
            let copy = self.connection.socket.try_clone()?;
            self.waiter = Some(UnixStream::from_std(copy.into())?);
        }
        let Some(waiter) = &self.waiter else { return Ok(0) };
        waiter.async_io(Interest::WRITABLE, || send(&self.connection.socket, rest)).await
    }

    fn leave(&self, rest: [&[u8]; 3], length: usize) -> io::Result<()> {
        let (connection, request) = (self.connection.number, self.request);
        if length <= TAIL_BYTES_KEPT {
            let rest = rest.concat();
            self.channel.report(|out| encode_tail(out, connection, request, &rest));
            return Ok(());
        }
        let mut file = File::from(rustix::fs::memfd_create("rest", rustix::fs::MemfdFlags::CLOEXEC)?);
        for piece in rest {
            file.write_all(piece)?;
        }
        self.channel
            .report_file(file.into(), |out| encode_tail_file(out, connection, request, 0, length as u64));
        Ok(())
    }
}

fn behind(pieces: [&[u8]; 3], mut sent: usize) -> [&[u8]; 3] {
    pieces.map(|piece| {
        let skipped = sent.min(piece.len());
        sent -= skipped;
        piece.get(skipped..).unwrap_or_default()
    })
}

fn send(socket: &OwnedFd, pieces: [&[u8]; 3]) -> io::Result<usize> {
    const FLAGS: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);
    loop {
        match sendmsg(socket, &pieces.map(IoSlice::new), &mut SendAncillaryBuffer::default(), FLAGS) {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}
