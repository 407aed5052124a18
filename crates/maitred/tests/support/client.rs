//! A client that sends exactly the bytes that it is given, and checks all that it receives.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::TIMEOUT;
use super::response::{Framing, Response};

/// Largest head that is accepted.
const HEAD_BYTES_MAX: usize = 2 << 20;

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    stream: Stream,
    /// Received, not yet taken.
    buffer: Vec<u8>,
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<rustls::StreamOwned<rustls::ClientConnection, TcpStream>>),
}

/// How the server ended a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// In order.
    Closed,
    /// With a reset.
    Reset,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream: Stream::Tcp(stream), buffer: Vec::new() }
    }

    /// Speaks TLS: asks for `name`, and completes the handshake.
    pub(crate) fn try_connect_tls(
        address: SocketAddr,
        config: &Arc<rustls::ClientConfig>,
        name: &str,
    ) -> io::Result<Client> {
        let name = rustls::pki_types::ServerName::try_from(name.to_owned()).unwrap();
        let session = rustls::ClientConnection::new(Arc::clone(config), name).unwrap();
        let Stream::Tcp(stream) = Client::connect(address).stream else { panic!("not a TCP connection") };
        let mut stream = rustls::StreamOwned::new(session, stream);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Client::over_tls(stream))
    }

    /// Goes on with a session that has begun.
    pub(crate) fn over_tls(stream: rustls::StreamOwned<rustls::ClientConnection, TcpStream>) -> Client {
        Client { stream: Stream::Tls(Box::new(stream)), buffer: Vec::new() }
    }

    /// The session with its socket, for another protocol.
    pub(crate) fn into_tls(self) -> Box<rustls::StreamOwned<rustls::ClientConnection, TcpStream>> {
        match self.stream {
            Stream::Tls(stream) => stream,
            Stream::Tcp(_) | Stream::Unix(_) => panic!("not a TLS connection"),
        }
    }

    /// The session.
    pub(crate) fn tls(&mut self) -> &mut rustls::ClientConnection {
        match &mut self.stream {
            Stream::Tls(stream) => &mut stream.conn,
            Stream::Tcp(_) | Stream::Unix(_) => panic!("not a TLS connection"),
        }
    }

    pub(crate) fn connect_unix(path: &Path) -> Client {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        Client { stream: Stream::Unix(stream), buffer: Vec::new() }
    }

    /// The TCP socket.
    pub(crate) fn tcp(&self) -> &TcpStream {
        match &self.stream {
            Stream::Tcp(stream) => stream,
            Stream::Tls(stream) => &stream.sock,
            Stream::Unix(_) => panic!("not a TCP connection"),
        }
    }

    #[track_caller]
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).unwrap();
    }

    /// Sends to a server that may close before all of it is taken.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        match &mut self.stream {
            Stream::Tcp(stream) => stream.write_all(bytes.as_ref()),
            Stream::Unix(stream) => stream.write_all(bytes.as_ref()),
            Stream::Tls(stream) => {
                stream.write_all(bytes.as_ref())?;
                stream.flush()
            }
        }
    }

    /// Closes the sending side.
    pub(crate) fn finish_sending(&self) {
        match &self.stream {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write).unwrap(),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write).unwrap(),
            Stream::Tls(_) => panic!("TLS has no half-closed connections here"),
        }
    }

    /// Resets the connection rather than close it.
    pub(crate) fn reset(self) {
        rustix::net::sockopt::set_socket_linger(self.tcp(), Some(Duration::ZERO)).unwrap();
    }

    /// A plain GET.
    #[track_caller]
    pub(crate) fn get(&mut self, target: &str) -> Response {
        self.ask(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    }

    /// Another method without a body, with further field lines (each with its CRLF).
    #[track_caller]
    pub(crate) fn method(&mut self, method: &str, target: &str, fields: &str) -> Response {
        self.ask(format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"))
    }

    /// A POST with `Content-Length`.
    #[track_caller]
    pub(crate) fn post(&mut self, target: &str, body: &[u8]) -> Response {
        let head =
            format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
        self.ask([head.as_bytes(), body].concat())
    }

    /// Sends a request, and reads the response to it.
    #[track_caller]
    pub(crate) fn ask(&mut self, request: impl AsRef<[u8]>) -> Response {
        let request = request.as_ref();
        self.send(request);
        let method = request.split(|byte| *byte == b' ').next().unwrap();
        self.response(&String::from_utf8_lossy(method))
    }

    /// Reads the final response to a request of `method`.
    #[track_caller]
    pub(crate) fn response(&mut self, method: &str) -> Response {
        self.try_response(method).unwrap_or_else(|error| panic!("no response: {error}"))
    }

    /// The same from a server that may abort the response.
    #[track_caller]
    pub(crate) fn try_response(&mut self, method: &str) -> io::Result<Response> {
        let mut interim = Vec::new();
        let mut response = loop {
            let response = self.head()?;
            if response.status >= 200 {
                break response;
            }
            assert_ne!(response.status, 101, "nothing here switches protocols");
            interim.push(response.status);
        };
        response.interim = interim;
        response.body = self.body(response.framing(method))?;
        Ok(response)
    }

    /// Reads one head, of an interim or a final response.
    #[track_caller]
    pub(crate) fn head(&mut self) -> io::Result<Response> {
        Ok(Response::parse_head(&self.raw_head()?))
    }

    /// The same unjudged, up to and with its empty line.
    #[track_caller]
    pub(crate) fn raw_head(&mut self) -> io::Result<Vec<u8>> {
        let end = loop {
            if let Some(at) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.buffer.len() <= HEAD_BYTES_MAX, "no end of a head");
            self.receive()?;
        };
        let rest = self.buffer.split_off(end);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    fn body(&mut self, framing: Framing) -> io::Result<Vec<u8>> {
        match framing {
            Framing::None => Ok(Vec::new()),
            Framing::Length(length) => self.exactly(length),
            Framing::Chunked => self.chunks(),
            Framing::Close => {
                while self.fill()? > 0 {}
                Ok(std::mem::take(&mut self.buffer))
            }
        }
    }

    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let size = usize::from_str_radix(&line, 16).unwrap_or_else(|_| panic!("chunk size {line:?}"));
            body.extend(self.exactly(size)?);
            assert_eq!(self.line()?, "", "the end of a chunk");
            if size == 0 {
                return Ok(body);
            }
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let end = loop {
            if let Some(at) = self.buffer.windows(2).position(|window| window == b"\r\n") {
                break at;
            }
            self.receive()?;
        };
        let rest = self.buffer.split_off(end + 2);
        let line = std::mem::replace(&mut self.buffer, rest);
        Ok(String::from_utf8(line[..end].to_vec()).expect("a line of ASCII"))
    }

    /// Takes so many bytes, no matter what they are.
    pub(crate) fn exactly(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < count {
            self.receive()?;
        }
        let rest = self.buffer.split_off(count);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    /// What was received and not yet taken; a caller that reads from [`Client::tcp`] begins with it.
    pub(crate) fn take_received(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Receives at least one byte.
    fn receive(&mut self) -> io::Result<()> {
        match self.fill()? {
            0 => Err(io::Error::new(
                ErrorKind::UnexpectedEof,
                format!("closed after {:?}", String::from_utf8_lossy(&self.buffer)),
            )),
            _ => Ok(()),
        }
    }

    /// Receives what is there; 0 is the end.
    fn fill(&mut self) -> io::Result<usize> {
        let mut piece = [0; 64 * 1024];
        let got = match &mut self.stream {
            Stream::Tcp(stream) => stream.read(&mut piece)?,
            Stream::Unix(stream) => stream.read(&mut piece)?,
            Stream::Tls(stream) => stream.read(&mut piece)?,
        };
        self.buffer.extend_from_slice(&piece[..got]);
        Ok(got)
    }

    /// Waits until the server ends the connection, and ends it, too. The server may send nothing before that.
    #[track_caller]
    pub(crate) fn end(&mut self) -> End {
        let result = self.fill();
        assert!(self.buffer.is_empty(), "unasked: {:?}", String::from_utf8_lossy(&self.buffer));
        match result {
            Ok(_) => {
                // Fails if the server is gone for good already.
                let _ = self.tcp().shutdown(Shutdown::Both);
                End::Closed
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => End::Reset,
            Err(error) => panic!("the connection stays open: {error}"),
        }
    }

    /// Checks that the other side says everything again: message by message, and what is more than all buffers take.
    #[track_caller]
    pub(crate) fn is_echoed(&mut self) {
        for number in 0..50 {
            self.send(format!("message {number:04}"));
            assert_eq!(self.exactly(12).unwrap(), format!("message {number:04}").as_bytes());
        }
        let large: Vec<u8> = (0..3_000_000).map(|at| (at % 251) as u8).collect();
        let mut sender = self.tcp().try_clone().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| sender.write_all(&large).unwrap());
            assert!(self.exactly(large.len()).unwrap() == large);
        });
    }

    /// Whether nothing comes within `time`.
    pub(crate) fn is_silent_for(&mut self, time: Duration) -> bool {
        self.tcp().set_read_timeout(Some(time)).unwrap();
        let result = self.fill();
        self.tcp().set_read_timeout(Some(TIMEOUT)).unwrap();
        self.buffer.is_empty() && matches!(result, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    /// Whether nothing has come since the last response, and the connection is open.
    pub(crate) fn is_quiet(&self) -> bool {
        let stream = self.tcp();
        stream.set_nonblocking(true).unwrap();
        let peeked = stream.peek(&mut [0; 1]);
        stream.set_nonblocking(false).unwrap();
        self.buffer.is_empty() && matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }
}
