//! An HTTP server that does what the test says, one thread per connection.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::net::{AddressFamily, SocketType};

use crate::support::TIMEOUT;

/// Listens until it is dropped.
#[derive(Debug)]
pub(crate) struct Upstream {
    name: String,
    address: Option<SocketAddr>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    connections: AtomicUsize,
    requests: AtomicUsize,
    open: AtomicUsize,
    over: AtomicBool,
}

/// One connection of Maitred's.
#[derive(Debug)]
pub(crate) struct Peer {
    stream: Stream,
    buffer: Vec<u8>,
    counts: Arc<Counts>,
    /// Which connection it is, from 0 on.
    pub(crate) number: usize,
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Tls(Box<rustls::StreamOwned<rustls::ServerConnection, TcpStream>>),
    Unix(UnixStream),
}

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) line: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Asked {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The answer to the key of a WebSocket (6455-4.2.2).
    pub(crate) fn accept(&self) -> String {
        let key = self.field("sec-websocket-key").expect("a key");
        let challenge = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
        let sha1 = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, challenge.as_bytes());
        STANDARD.encode(sha1)
    }

    pub(crate) fn target(&self) -> &str {
        self.line.split(' ').nth(1).unwrap()
    }
}

impl Upstream {
    /// On TCP. `serve` has each connection for its whole life.
    pub(crate) fn start(serve: impl Fn(&mut Peer) -> io::Result<()> + Send + Sync + 'static) -> Upstream {
        Upstream::on(SocketAddr::from(([127, 0, 0, 1], 0)), serve)
    }

    /// At an address that was had before.
    pub(crate) fn on(
        address: SocketAddr,
        serve: impl Fn(&mut Peer) -> io::Result<()> + Send + Sync + 'static,
    ) -> Upstream {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let counts = Arc::new(Counts::default());
        let upstream =
            Upstream { name: format!("http://{address}"), address: Some(address), counts: counts.clone() };
        let streams = move || listener.accept().map(|(stream, _)| Stream::Tcp(stream));
        std::thread::spawn(move || accept(streams, &counts, Arc::new(serve)));
        upstream
    }

    /// On TCP, with TLS.
    pub(crate) fn secure(
        config: Arc<rustls::ServerConfig>,
        serve: impl Fn(&mut Peer) -> io::Result<()> + Send + Sync + 'static,
    ) -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let counts = Arc::new(Counts::default());
        let upstream =
            Upstream { name: format!("https://{address}"), address: Some(address), counts: counts.clone() };
        let streams = move || {
            let session = rustls::ServerConnection::new(config.clone()).map_err(io::Error::other)?;
            let (stream, _) = listener.accept()?;
            Ok(Stream::Tls(Box::new(rustls::StreamOwned::new(session, stream))))
        };
        std::thread::spawn(move || accept(streams, &counts, Arc::new(serve)));
        upstream
    }

    /// On a Unix socket.
    pub(crate) fn unix(
        path: &Path,
        serve: impl Fn(&mut Peer) -> io::Result<()> + Send + Sync + 'static,
    ) -> Upstream {
        let listener = UnixListener::bind(path).unwrap();
        let counts = Arc::new(Counts::default());
        let upstream =
            Upstream { name: format!("http+unix:{}", path.display()), address: None, counts: counts.clone() };
        let streams = move || listener.accept().map(|(stream, _)| Stream::Unix(stream));
        std::thread::spawn(move || accept(streams, &counts, Arc::new(serve)));
        upstream
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address.unwrap()
    }

    /// Connections that were made.
    pub(crate) fn connections(&self) -> usize {
        self.counts.connections.load(SeqCst)
    }

    /// Connections that neither side has closed.
    pub(crate) fn open(&self) -> usize {
        self.counts.open.load(SeqCst)
    }

    /// Requests that came as a whole.
    pub(crate) fn requests(&self) -> usize {
        self.counts.requests.load(SeqCst)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.counts.over.store(true, SeqCst);
        if let Some(address) = self.address {
            // Wakes the thread that accepts, which sees that it is over.
            let _ = TcpStream::connect(address);
        }
    }
}

fn accept<S>(streams: impl Fn() -> io::Result<Stream>, counts: &Arc<Counts>, serve: Arc<S>)
where
    S: Fn(&mut Peer) -> io::Result<()> + Send + Sync + 'static,
{
    while let Ok(stream) = streams() {
        if counts.over.load(SeqCst) {
            return;
        }
        let number = counts.connections.fetch_add(1, SeqCst);
        counts.open.fetch_add(1, SeqCst);
        let (counts, serve) = (counts.clone(), serve.clone());
        std::thread::spawn(move || {
            let mut peer = Peer { stream, buffer: Vec::new(), counts: counts.clone(), number };
            peer.prepare();
            // The end of the connection is the test's business, whichever way it comes.
            let _ = serve(&mut peer);
            // The connection is open as long as its descriptor is.
            drop(peer);
            counts.open.fetch_sub(1, SeqCst);
        });
    }
}

impl Peer {
    /// What a peer reads has to come in time, and what it sends leaves at once.
    fn prepare(&self) {
        let tcp = match &self.stream {
            Stream::Tcp(stream) => stream,
            Stream::Tls(stream) => &stream.sock,
            Stream::Unix(stream) => return stream.set_read_timeout(Some(TIMEOUT)).unwrap(),
        };
        tcp.set_read_timeout(Some(TIMEOUT)).unwrap();
        tcp.set_nodelay(true).unwrap();
    }

    /// The next request. An error at the end of the connection.
    pub(crate) fn request(&mut self) -> io::Result<Asked> {
        let end = loop {
            if let Some(at) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            self.receive()?;
        };
        let head = self.take(end)?;
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let line = lines.next().unwrap().to_owned();
        let field = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_owned(), value.to_owned())
        };
        let fields: Vec<_> = lines.map(field).collect();
        let mut asked = Asked { line, fields, body: Vec::new() };
        let length = asked.field("content-length").map_or(0, |length| length.parse().unwrap());
        asked.body = self.take(length)?;
        self.counts.requests.fetch_add(1, SeqCst);
        Ok(asked)
    }

    /// Takes so many bytes, whatever they are.
    pub(crate) fn take(&mut self, bytes: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < bytes {
            self.receive()?;
        }
        let rest = self.buffer.split_off(bytes);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    /// Whatever comes next; empty at the end.
    pub(crate) fn piece(&mut self) -> io::Result<Vec<u8>> {
        if self.buffer.is_empty() {
            match self.receive() {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
                other => other?,
            }
        }
        Ok(std::mem::take(&mut self.buffer))
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut piece = vec![0; 64 * 1024];
        let received = match &mut self.stream {
            Stream::Tcp(stream) => stream.read(&mut piece)?,
            Stream::Tls(stream) => stream.read(&mut piece)?,
            Stream::Unix(stream) => stream.read(&mut piece)?,
        };
        if received == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.buffer.extend_from_slice(&piece[..received]);
        Ok(())
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        match &mut self.stream {
            Stream::Tcp(stream) => stream.write_all(bytes.as_ref()),
            Stream::Tls(stream) => stream.write_all(bytes.as_ref()).and_then(|()| stream.flush()),
            Stream::Unix(stream) => stream.write_all(bytes.as_ref()),
        }
    }

    /// A response with a length.
    pub(crate) fn answer(&mut self, body: impl AsRef<[u8]>) -> io::Result<()> {
        let body = body.as_ref();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        self.send([head.as_bytes(), body].concat())
    }

    /// Stops sending; the other direction stays.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        match &mut self.stream {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Tls(stream) => {
                stream.conn.send_close_notify();
                stream.flush()
            }
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    /// The session of one that speaks TLS.
    pub(crate) fn tls(&self) -> &rustls::ServerConnection {
        match &self.stream {
            Stream::Tls(stream) => &stream.conn,
            _ => panic!("it does not speak TLS"),
        }
    }

    /// Says everything again, until nothing more comes, and then `bye`.
    pub(crate) fn echo(&mut self) -> io::Result<()> {
        loop {
            let piece = self.piece()?;
            if piece.is_empty() {
                return self.send("bye");
            }
            self.send(piece)?;
        }
    }

    /// Waits until Maitred closes the connection.
    pub(crate) fn wait_for_end(&mut self) -> io::Result<()> {
        while !self.piece()?.is_empty() {}
        Ok(())
    }
}

/// A socket that has a port and does not listen: no other process gets the port, and connections to it are refused.
pub(crate) fn nowhere() -> (OwnedFd, SocketAddr) {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = SocketAddr::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
    (socket, address)
}
