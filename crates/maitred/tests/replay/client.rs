//! A small HTTP/1 client that trusts nothing: it checks framing and bodies, and that nothing comes unasked.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::access_log::Entry;
use crate::site::{Body, Expected, marks};

/// How long any answer may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// One connection of a session.
pub(crate) struct Connection {
    stream: TcpStream,
}

/// A response whose body was read to its end.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// `Content-Length`, where there is one.
    pub(crate) length: Option<u64>,
    /// Bytes of the body that came.
    pub(crate) body_bytes: u64,
    pub(crate) location: Option<String>,
    /// Whether the server leaves the connection open.
    pub(crate) keeps: bool,
    /// Whether the body began as it must.
    pub(crate) right_body: bool,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream })
    }

    /// Makes a request as it was logged, and reads the response.
    pub(crate) fn exchange(&mut self, entry: &Entry, expected: &Expected) -> io::Result<Answer> {
        self.stream.write_all(request(entry, expected).as_bytes())?;
        let (head, rest) = self.read_head()?;
        let mut answer = parse_head(&head, entry)?;
        let has_body = entry.method != "HEAD" && !matches!(answer.status, 100..=199 | 204 | 304);
        let length = match (has_body, answer.length) {
            (false, _) => 0,
            (true, Some(length)) => length,
            (true, None) => {
                return Err(io::Error::new(ErrorKind::InvalidData, "a body without Content-Length"));
            }
        };
        self.read_body(rest, length, expected, &mut answer)?;
        Ok(answer)
    }

    fn read_head(&mut self) -> io::Result<(String, Vec<u8>)> {
        let mut bytes = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let got = self.stream.read(&mut piece)?;
            if got == 0 || bytes.len() > HEAD_BYTES_MAX {
                return Err(io::Error::new(
                    ErrorKind::UnexpectedEof,
                    format!("{} bytes and no head", bytes.len()),
                ));
            }
            bytes.extend_from_slice(&piece[..got]);
            if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                let rest = bytes.split_off(end + 4);
                let head = String::from_utf8(bytes)
                    .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
                return Ok((head, rest));
            }
        }
    }

    /// Reads exactly `length` bytes; more than that were not asked for.
    fn read_body(
        &mut self,
        rest: Vec<u8>,
        length: u64,
        expected: &Expected,
        answer: &mut Answer,
    ) -> io::Result<()> {
        let wanted = match &expected.body {
            Body::Marked(path) => marks(path, length),
            Body::Absent | Body::Any => Vec::new(),
        };
        let mut start = Vec::new();
        let mut keep = |bytes: &[u8]| {
            let missing = wanted.len() - start.len();
            start.extend_from_slice(&bytes[..missing.min(bytes.len())]);
        };
        keep(&rest);
        answer.body_bytes = rest.len() as u64;
        let mut piece = vec![0; 256 * 1024];
        while answer.body_bytes < length {
            match self.stream.read(&mut piece)? {
                0 => {
                    return Err(io::Error::new(
                        ErrorKind::UnexpectedEof,
                        format!("{} of {length}", answer.body_bytes),
                    ));
                }
                got => {
                    keep(&piece[..got]);
                    answer.body_bytes += got as u64;
                }
            }
        }
        answer.right_body = start == wanted;
        if answer.body_bytes > length {
            return Err(io::Error::new(ErrorKind::InvalidData, "bytes after the body"));
        }
        Ok(())
    }

    /// Whether the server closes, without another byte.
    pub(crate) fn ends_here(mut self) -> io::Result<bool> {
        Ok(self.stream.read(&mut [0; 1])? == 0)
    }

    /// Whether the server has sent nothing since the last response, and has not closed.
    pub(crate) fn is_quiet(&self) -> bool {
        let peeked = self.stream.set_nonblocking(true).and_then(|()| self.stream.peek(&mut [0; 1]));
        matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock)
            && self.stream.set_nonblocking(false).is_ok()
    }
}

fn request(entry: &Entry, expected: &Expected) -> String {
    let mut text = format!("{} {} {}\r\n", entry.method, entry.target, entry.version);
    if entry.version == "HTTP/1.1" {
        text.push_str("Host: semicomplete.com\r\n");
    }
    for (name, value) in [("Referer", &entry.referer), ("User-Agent", &entry.agent)] {
        if let Some(value) = value {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    if entry.method == "POST" {
        text.push_str("Content-Length: 7\r\nContent-Type: application/x-www-form-urlencoded\r\n");
    }
    text.push_str(&expected.condition);
    text.push_str("\r\n");
    if entry.method == "POST" {
        text.push_str("a=1&b=2");
    }
    text
}

fn parse_head(head: &str, entry: &Entry) -> io::Result<Answer> {
    let invalid = |why: &str| io::Error::new(ErrorKind::InvalidData, format!("{why}: {head:?}"));
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")).and_then(|rest| rest.get(..3));
    let status = status.and_then(|status| status.parse().ok()).ok_or_else(|| invalid("no status line"))?;
    let mut length = None;
    let mut location = None;
    let mut connection = String::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or_else(|| invalid("no colon"))?;
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" if length.is_some() => return Err(invalid("two lengths")),
            "content-length" => length = Some(value.parse().map_err(|_| invalid("no length"))?),
            "transfer-encoding" => return Err(invalid("a coding that nothing here asks for")),
            "location" => location = Some(value.to_owned()),
            "connection" => connection = value.to_ascii_lowercase(),
            _ => {}
        }
    }
    let keeps = connection != "close" && (entry.version == "HTTP/1.1" || connection == "keep-alive");
    Ok(Answer { status, length, body_bytes: 0, location, keeps, right_body: true })
}
