//! A server that follows a script, and the program under test.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "the helpers of a test may panic as the test may")]

pub(crate) mod maitred;
pub(crate) mod quic;
pub(crate) mod sites;
#[path = "../../../maitred/tests/support/skip.rs"]
pub(crate) mod skip;
#[path = "../../../maitred/tests/support/wait.rs"]
pub(crate) mod wait;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

/// What the server does with a request.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Sends these bytes and goes on.
    Send(Vec<u8>),
    /// Sends these bytes, with a pause after each piece.
    Pieces(Vec<Vec<u8>>, Duration),
    /// Sends these bytes and closes.
    SendAndClose(Vec<u8>),
    /// Sends these bytes and resets the connection.
    SendAndReset(Vec<u8>),
    /// Says nothing until the client goes.
    Hang,
    /// Answers after this time.
    Late(Duration, Vec<u8>),
}

/// A request as the server saw it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// Number of the connection, from 0.
    pub(crate) connection: usize,
    /// Head of the request.
    pub(crate) head: String,
}

impl Seen {
    pub(crate) fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }
}

/// A listening server; its threads end when their clients do.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    /// `script` is asked for each request: number of the connection, number of the request on it, head.
    pub(crate) fn start(script: impl Fn(usize, usize, &str) -> Act + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (script, record) = (Arc::new(script), seen.clone());
        std::thread::spawn(move || {
            // The first connection is the program's probe, which sends nothing.
            let mut number = 0;
            for stream in listener.incoming() {
                let Ok(stream) = stream else { break };
                let mut first = [0];
                if !matches!(stream.peek(&mut first), Ok(1)) {
                    continue;
                }
                let (script, record) = (script.clone(), record.clone());
                std::thread::spawn(move || serve(stream, number, &*script, &record));
                number += 1;
            }
        });
        Server { address, seen }
    }

    /// A server that answers everything with 200 and these bytes.
    pub(crate) fn answering(body: &'static str) -> Server {
        Server::start(move |_, _, _| Act::Send(response(200, body)))
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

/// An address without a listener, which is given to no other process as long as the socket is there.
pub(crate) fn reserved_address() -> (OwnedFd, SocketAddr) {
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket, sockopt};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = getsockname(&socket).unwrap().try_into().unwrap();
    (socket, address)
}

/// A response with a length.
pub(crate) fn response(status: u16, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} Status\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn serve(
    mut stream: TcpStream,
    connection: usize,
    script: &dyn Fn(usize, usize, &str) -> Act,
    record: &Mutex<Vec<Seen>>,
) {
    let _ = stream.set_nodelay(true);
    for number in 0.. {
        let Some(head) = read_request(&mut stream) else { return };
        record.lock().unwrap().push(Seen { connection, head: head.clone() });
        let sent = match script(connection, number, &head) {
            Act::Send(bytes) => stream.write_all(&bytes),
            Act::Pieces(pieces, pause) => pieces.iter().try_for_each(|piece| {
                stream.write_all(piece)?;
                wait(&stream, pause)
            }),
            Act::Late(pause, bytes) => wait(&stream, pause).and_then(|()| stream.write_all(&bytes)),
            Act::SendAndClose(bytes) => {
                let _ = stream.write_all(&bytes);
                return;
            }
            Act::SendAndReset(bytes) => {
                let _ = stream.write_all(&bytes);
                let _ = rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
                return;
            }
            Act::Hang => {
                let _ = stream.read(&mut [0; 16]);
                return;
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Waits, or less long if the client closes.
fn wait(stream: &TcpStream, pause: Duration) -> std::io::Result<()> {
    stream.set_read_timeout(Some(pause))?;
    let _ = stream.peek(&mut [0]);
    stream.set_read_timeout(None)
}

fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
        match stream.read(&mut piece) {
            Ok(count @ 1..) => bytes.extend_from_slice(&piece[..count]),
            _ => return None,
        }
    }
    let head_end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse::<usize>().ok());
    let mut left = length.unwrap_or(0).saturating_sub(bytes.len() - head_end);
    while left > 0 {
        let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
        left = left.saturating_sub(count);
    }
    Some(head)
}

/// Runs the program and waits for its end.
pub(crate) fn program(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_maitred-load")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Runs the program with `--json`; its exit code and what it printed.
pub(crate) fn json(arguments: &[&str]) -> (i32, Value) {
    let output = program(&[arguments, &["--json"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code().unwrap(), value)
}

/// Runs the program, which must fail; its exit code and message.
pub(crate) fn failing(arguments: &[&str]) -> (i32, String) {
    let output = program(arguments);
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// A line in Common Log Format.
pub(crate) fn line(client: &str, second: u32, request: &str, status: u16, bytes: &str) -> String {
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!(
        "{client} - - [17/May/2015:{hour:02}:{minute:02}:{second:02} +0000] \"{request}\" {status} {bytes}\n"
    )
}

/// A log of `count` requests of one client for `/0`, `/1` and so on.
pub(crate) fn log_of(directory: &Path, count: usize) -> String {
    let text: String =
        (0..count).map(|number| line("192.0.2.1", 0, &format!("GET /{number} HTTP/1.1"), 200, "2")).collect();
    write(directory, "access.log", text.as_bytes())
}

/// Writes a file and returns its path.
pub(crate) fn write(directory: &Path, name: &str, bytes: &[u8]) -> String {
    let path = directory.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}
