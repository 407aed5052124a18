//! A small client for what wrk cannot measure.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

use super::secure;

/// How long any answer may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Cleartext, or TLS.
trait Wire: Read + Write + Send {}

impl<W: Read + Write + Send> Wire for W {}

/// One connection.
pub(super) struct Client {
    stream: Box<dyn Wire>,
}

fn open(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// What came back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Whether the connection stays open.
    pub(super) keeps: bool,
}

impl Client {
    pub(super) fn connect(address: SocketAddr) -> io::Result<Client> {
        Ok(Client { stream: Box::new(open(address)?) })
    }

    /// Over TLS; the handshake comes with the first request.
    pub(super) fn connect_tls(address: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<Client> {
        Ok(Client { stream: Box::new(secure::connect(open(address)?, config)?) })
    }

    pub(super) fn get(&mut self, path: &str) -> io::Result<Answer> {
        self.send(path)?;
        self.receive()
    }

    pub(super) fn send(&mut self, path: &str) -> io::Result<()> {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: xtask\r\nAccept: */*\r\n\r\n");
        self.stream.write_all(request.as_bytes())?;
        self.stream.flush()
    }

    /// Reads one response to its end, and drops its body.
    pub(super) fn receive(&mut self) -> io::Result<Answer> {
        let mut buffer = [0; 16 * 1024];
        let mut filled = 0;
        let head_bytes = loop {
            let free = buffer.get_mut(filled..).unwrap_or_default();
            let got = self.stream.read(free)?;
            if got == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            filled += got;
            let seen = buffer.get(..filled).unwrap_or_default();
            if let Some(at) = seen.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break at + 4;
            }
        };
        let head = String::from_utf8_lossy(buffer.get(..head_bytes).unwrap_or_default()).to_ascii_lowercase();
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, format!("not understood: {head:?}"));
        let status = head.get(9..12).and_then(|status| status.parse().ok()).ok_or_else(invalid)?;
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let keeps = field("connection:") != Some("close");
        if field("transfer-encoding:") == Some("chunked") {
            let begun = buffer.get(head_bytes..filled).unwrap_or_default().to_vec();
            return self.receive_chunks(begun).map(|()| Answer { status, keeps });
        }
        let length: u64 =
            field("content-length:").and_then(|length| length.parse().ok()).ok_or_else(invalid)?;
        let mut missing = length.saturating_sub((filled - head_bytes) as u64);
        while missing > 0 {
            match self.stream.read(&mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                got => missing = missing.saturating_sub(got as u64),
            }
        }
        Ok(Answer { status, keeps })
    }

    /// Reads to the last chunk, which no trailers may follow.
    fn receive_chunks(&mut self, mut received: Vec<u8>) -> io::Result<()> {
        let mut buffer = [0; 16 * 1024];
        while !received.ends_with(LAST_CHUNK) {
            match self.stream.read(&mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                got => received.extend_from_slice(buffer.get(..got).unwrap_or_default()),
            }
        }
        Ok(())
    }
}

/// How a body in chunks ends.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn bodies_are_read_to_their_end_however_they_are_framed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for pieces in [
                &["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab", "c\r\n0\r\n", "\r\n"][..],
                &["HTTP/1.1 404 No\r\nConnection: close\r\nContent-Length: 3\r\n\r\n", "abc"][..],
            ] {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    head.push(byte[0]);
                }
                for piece in pieces {
                    stream.write_all(piece.as_bytes()).unwrap();
                }
            }
        });
        let mut client = Client::connect(address).unwrap();
        let [first, second] = [(); 2].map(|()| client.get("/").unwrap());
        assert_eq!([(first.status, first.keeps), (second.status, second.keeps)], [(200, true), (404, false)]);
        server.join().unwrap();
    }
}
