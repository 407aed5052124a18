//! A client of the admin address: one HTTP/1.1 request over a Unix or TCP socket, with one deadline for all of it, which an
//! interim answer puts off.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::exit::Error;
use maitred_config::AdminAddress;

/// The longest answer that is read; a status document of 256 threads and 1024 slots has less than 1 MiB.
const REPLY_BYTES_MAX: u64 = 16 << 20;

/// The field of an interim answer that says what is waited for.
const PROGRESS: &str = "Maitred-Progress: ";

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: String,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The connection could not be made.
    Connect(io::Error),
    /// The connection was made, and then broke or ran into the deadline.
    Exchange(io::Error),
    /// What came back is not an HTTP response.
    Nonsense(&'static str),
}

/// Sends a request without a body, and reads the answer to its end. `timeout` is for the answer, and anew after each interim one,
/// of which `progress` gets what it says.
pub(super) fn exchange(
    address: &AdminAddress,
    method: &str,
    path: &str,
    token: Option<&str>,
    timeout: Duration,
    progress: &mut dyn FnMut(&str),
) -> Result<Reply, Failure> {
    let mut stream = Stream::connect(address, timeout).map_err(Failure::Connect)?;
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{token}Content-Length: 0\r\nConnection: close\r\n\r\n"
    );
    let mut received = Vec::new();
    stream.talk(request.as_bytes(), &mut received, timeout, progress).map_err(Failure::Exchange)?;
    parse(&received).map_err(Failure::Nonsense)
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn connect(address: &AdminAddress, timeout: Duration) -> io::Result<Stream> {
        match address {
            AdminAddress::Unix(path) => connect_unix(path, timeout).map(Stream::Unix),
            AdminAddress::Tcp(address) => TcpStream::connect_timeout(address, timeout).map(Stream::Tcp),
        }
    }

    fn talk(
        &mut self,
        request: &[u8],
        received: &mut Vec<u8>,
        timeout: Duration,
        progress: &mut dyn FnMut(&str),
    ) -> io::Result<()> {
        let mut deadline = Instant::now() + timeout;
        self.set_timeout(deadline)?;
        self.write_all(request)?;
        let mut room = [0; 16 * 1024];
        loop {
            self.set_timeout(deadline)?;
            match self.read(&mut room) {
                Ok(0) => return Ok(()),
                Ok(count) => {
                    received.extend_from_slice(room.get(..count).unwrap_or_default());
                    while let Some(head) = take_interim(received) {
                        deadline = Instant::now() + timeout;
                        let words = head.lines().find_map(|line| line.strip_prefix(PROGRESS));
                        words.into_iter().for_each(&mut *progress);
                    }
                }
                // A server that stops may reset the connection after its answer; whether it is whole is seen later.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset && !received.is_empty() => {
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if received.len() as u64 > REPLY_BYTES_MAX {
                return Err(io::Error::other("the answer does not end"));
            }
        }
    }

    fn set_timeout(&self, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match self {
            Stream::Unix(stream) => {
                stream.set_read_timeout(Some(left)).and(stream.set_write_timeout(Some(left)))
            }
            Stream::Tcp(stream) => {
                stream.set_read_timeout(Some(left)).and(stream.set_write_timeout(Some(left)))
            }
        }
    }
}

impl Read for Stream {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(room),
            Stream::Tcp(stream) => stream.read(room),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The send timeout also bounds connect(2), which waits while the accept queue is full (socket(7), unix(7)).
pub(super) fn connect_unix(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(timeout))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}

/// Takes an interim answer (1xx) from the beginning of what was received, if there is a whole one.
fn take_interim(received: &mut Vec<u8>) -> Option<String> {
    if !received.starts_with(b"HTTP/1.1 1") {
        return None;
    }
    let end = received.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head: Vec<u8> = received.drain(..end).collect();
    Some(String::from_utf8_lossy(&head).into_owned())
}

/// Status and body of a whole response that ended with the connection.
fn parse(received: &[u8]) -> Result<Reply, &'static str> {
    if received.is_empty() {
        return Err("the connection was closed without an answer");
    }
    let head_end = received.windows(4).position(|window| window == b"\r\n\r\n");
    let (head, body) = received.split_at(head_end.ok_or("the answer is not HTTP, or incomplete")?);
    let body = body.get(4..).unwrap_or_default();
    let head = std::str::from_utf8(head).map_err(|_| "the answer is not HTTP")?;
    let mut lines = head.split("\r\n");
    let status_line = lines.next().and_then(|line| line.strip_prefix("HTTP/1."));
    let status = status_line.and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
    let length = lines.filter_map(|line| line.split_once(':')).find_map(|(name, value)| {
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok()).flatten()
    });
    let body = match length {
        Some(length) => body.get(..length).ok_or("the answer is incomplete")?,
        None => body,
    };
    Ok(Reply {
        status: status.ok_or("the answer is not HTTP")?,
        body: String::from_utf8_lossy(body).into_owned(),
    })
}

impl Failure {
    /// What happened, and what to do about it.
    pub(super) fn explained(self, address: &AdminAddress) -> Error {
        match self {
            Failure::Connect(error) => match error.kind() {
                io::ErrorKind::NotFound => Error::failed(
                    format_args!("no server at {address}: there is no such socket"),
                    "start it with `maitred run`, or look whether its configuration names another `admin` address",
                ),
                io::ErrorKind::ConnectionRefused => Error::failed(
                    format_args!("no server at {address}: nothing listens there"),
                    "it has stopped or crashed, or its configuration names another `admin` address",
                ),
                io::ErrorKind::PermissionDenied => Error::failed(
                    format_args!("no permission to talk to the server at {address}"),
                    "the socket belongs to the user who started the server: run this as that user, or as root",
                ),
                kind if is_timeout(kind) => Error::failed(
                    format_args!("the server at {address} does not take connections"),
                    "it may be stopped or overloaded; look at its error log",
                ),
                _ => Error::failed(
                    format_args!("cannot reach the server at {address}: {error}"),
                    "look at its error log",
                ),
            },
            Failure::Exchange(error) if is_timeout(error.kind()) => Error::failed(
                format_args!("the server at {address} did not answer in time"),
                "what was asked may still be done: look at `maitred status` and at its error log",
            ),
            Failure::Exchange(error) => Error::failed(
                format_args!("the connection to the server at {address} broke: {error}"),
                "look at its error log",
            ),
            Failure::Nonsense(why) => {
                Error::failed(format_args!("{address}: {why}"), "look whether another program listens there")
            }
        }
    }
}

/// A socket's timeout shows as `EAGAIN`.
fn is_timeout(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn an_answer_ends_where_its_length_says() {
        let reply = |status, body: &str| Ok(Reply { status, body: body.into() });
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokmore"), reply(200, "ok"));
        assert_eq!(parse(b"HTTP/1.0 500 No\r\n\r\nwhy"), reply(500, "why"));
        for broken in [
            &b""[..],
            b"SSH-2.0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nok",
            b"\xff\r\n\r\n",
        ] {
            assert!(parse(broken).is_err(), "{broken:?}");
        }
    }

    /// Answers one connection with `answer`, and gives back what was asked.
    fn serve_once(mut stream: impl Read + Write, answer: &[u8]) -> Vec<u8> {
        let mut asked = Vec::new();
        let mut byte = [0];
        while !asked.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            asked.push(byte[0]);
        }
        stream.write_all(answer).unwrap();
        asked
    }

    #[test]
    fn both_kinds_of_address_are_asked() {
        let answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\nMaitred-Progress: waits\r\n\r\nHTTP/1.1 409 Conflict\r\n\
                       Content-Length: 3\r\n\r\nbad";
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        let unix = UnixListener::bind(&path).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp_address = AdminAddress::Tcp(tcp.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let first = serve_once(unix.accept().unwrap().0, answer);
            (first, serve_once(tcp.accept().unwrap().0, answer))
        });
        let mut heard = Vec::new();
        for address in [AdminAddress::Unix(path), tcp_address] {
            let reply = exchange(&address, "POST", "/reload", None, Duration::from_secs(20), &mut |what| {
                heard.push(what.to_owned())
            });
            let reply = reply.unwrap();
            assert_eq!(reply, Reply { status: 409, body: "bad".into() });
        }
        assert_eq!(heard, ["waits", "waits"]);
        let (first, second) = server.join().unwrap();
        assert!(first.starts_with(b"POST /reload HTTP/1.1\r\nHost: "), "{first:?}");
        assert_eq!(first, second);
    }

    #[test]
    fn every_failure_says_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        let address = AdminAddress::Unix(path.clone());
        let asked = |timeout| {
            let failure = exchange(&address, "GET", "/", None, timeout, &mut |_| {}).unwrap_err();
            failure.explained(&address).text
        };
        let patient = Duration::from_secs(20);
        assert!(asked(patient).contains("there is no such socket"));
        let listener = UnixListener::bind(&path).unwrap();
        // Connected by the kernel, but not answered.
        assert!(asked(Duration::from_millis(1)).contains("did not answer in time"));
        drop(listener);
        // A process that another test starts has the listener, too, until it executes its program.
        assert!((0..1_000).any(|_| asked(patient).contains("nothing listens there")));
        let denied = Failure::Connect(io::ErrorKind::PermissionDenied.into()).explained(&address);
        assert!(denied.text.contains("run this as that user") && denied.exit.code() == 1);
    }
}
