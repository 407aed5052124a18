//! An application for both sides, by HTTP/1 and by FastCGI: it answers everything alike, and notes what it received.

mod fastcgi;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use memchr::memmem;

use super::request::TOKEN;

/// Connections at a time; further ones are closed. A proxy's pool has fewer.
const CONNECTIONS_MAX: usize = 128;
/// Requests whose tokens nothing has fetched. Only those of other clients, or that a proxy has sent late, stay.
const TOKENS_MAX: usize = 4096;
/// Requests of one token: as often as a proxy may retry.
const PER_TOKEN_MAX: usize = 16;
/// Bytes of a head.
const HEAD_BYTES_MAX: usize = 128 * 1024;
/// Fields of a head.
const FIELDS_MAX: usize = 200;
/// Bytes of a body with its framing, which is hashed and not kept.
const BODY_BYTES_MAX: u64 = 1 << 30;
/// How long a connection waits for the rest of a request. Between requests it waits as long as the proxy likes.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The page that is answered: long enough to be compressed.
const LINES: usize = 100;

/// A request as the application received it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The method.
    pub method: String,
    /// The target.
    pub target: Vec<u8>,
    /// The fields, names in lower case.
    pub fields: Vec<(String, Vec<u8>)>,
    /// Bytes of the content.
    pub body_bytes: u64,
    /// The hash of the content.
    pub body_hash: u64,
}

#[derive(Debug, Default)]
struct State {
    received: HashMap<String, Vec<Received>>,
    /// The connections that are open, by their numbers, to be closed at the end.
    open: HashMap<u64, TcpStream>,
}

/// A server that is stopped when it is dropped.
#[derive(Debug)]
pub struct Echo {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    /// Starts a server at an address; port 0 takes any.
    ///
    /// # Errors
    /// The address cannot be listened at, or there is no thread.
    pub fn start(address: SocketAddr) -> io::Result<Echo> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let (state, stop) = (Arc::<Mutex<State>>::default(), Arc::<AtomicBool>::default());
        let (for_thread, until) = (state.clone(), stop.clone());
        let thread = std::thread::Builder::new()
            .name("application".to_owned())
            .spawn(move || accept(&listener, &for_thread, &until))?;
        Ok(Echo { address, state, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What was received with a token, in order, once.
    pub fn take(&self, token: u64) -> Vec<Received> {
        lock(&self.state).received.remove(&token.to_string()).unwrap_or_default()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        // Wakes the thread, which looks whether it should stop.
        let woken = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
        for stream in lock(&self.state).open.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        if woken.is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(listener: &TcpListener, state: &Arc<Mutex<State>>, stop: &AtomicBool) {
    for (number, stream) in (0..).zip(listener.incoming()) {
        if stop.load(SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let Ok(copy) = stream.try_clone() else { continue };
        {
            let mut state = lock(state);
            if state.open.len() >= CONNECTIONS_MAX {
                continue;
            }
            state.open.insert(number, copy);
        }
        let of_connection = state.clone();
        let spawned = std::thread::Builder::new().name("connection".to_owned()).spawn(move || {
            let _ = serve(stream, &of_connection);
            lock(&of_connection).open.remove(&number);
        });
        if spawned.is_err() {
            lock(state).open.remove(&number);
        }
    }
}

/// Answers the requests of one connection until it ends, or until what comes is no request.
fn serve(mut stream: TcpStream, state: &Mutex<State>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(REQUEST_TIMEOUT))?;
    let mut input = Input { stream: stream.try_clone()?, bytes: Vec::new() };
    if input.more().is_err() {
        return Ok(());
    }
    if input.bytes.first() == Some(&fastcgi::VERSION) {
        return fastcgi::serve(&mut input, &mut stream, state);
    }
    while let Some((mut received, framing, keeps)) = input.head()? {
        if received.fields.iter().any(|(name, value)| name == "expect" && value == b"100-continue") {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        input.body(framing, &mut received)?;
        let is_head = received.method == "HEAD";
        note(state, received);
        stream.write_all(&response(is_head, keeps))?;
        if !keeps {
            return Ok(());
        }
    }
    Ok(())
}

/// Notes a request, before it is answered: once a response is there, so is the note.
fn note(state: &Mutex<State>, received: Received) {
    let token = received.fields.iter().find(|(name, _)| name == TOKEN).map(|(_, value)| value.clone());
    let Some(token) = token.and_then(|token| String::from_utf8(token).ok()) else { return };
    let mut state = lock(state);
    if state.received.len() >= TOKENS_MAX && !state.received.contains_key(&token) {
        state.received.clear();
    }
    let of_token = state.received.entry(token).or_default();
    if of_token.len() < PER_TOKEN_MAX {
        of_token.push(received);
    }
}

fn page() -> String {
    let line = "<p>An application that says the same to each request.</p>\n";
    format!("<!DOCTYPE html>\n<title>Application</title>\n{}", line.repeat(LINES))
}

fn response(is_head: bool, keeps: bool) -> Vec<u8> {
    let page = page();
    let connection = if keeps { "keep-alive" } else { "close" };
    let body = if is_head { "" } else { &page };
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: {connection}\r\n\r\n{body}",
        page.len()
    )
    .into_bytes()
}

#[derive(Debug, Clone, Copy)]
enum Framing {
    Length(u64),
    Chunked,
}

struct Input {
    stream: TcpStream,
    bytes: Vec<u8>,
}

fn wrong(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl Input {
    /// Receives more; an error at the end.
    fn more(&mut self) -> io::Result<()> {
        let start = self.bytes.len();
        self.bytes.resize(start + 16 * 1024, 0);
        let read = self.stream.read(self.bytes.get_mut(start..).unwrap_or_default());
        self.bytes.truncate(start + read.as_ref().copied().unwrap_or(0));
        if read? == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    fn head(&mut self) -> io::Result<Option<(Received, Framing, bool)>> {
        self.stream.set_read_timeout(None)?;
        let end = loop {
            if let Some(at) = memmem::find(&self.bytes, b"\r\n\r\n") {
                break at + 4;
            }
            if self.bytes.len() > HEAD_BYTES_MAX {
                return Err(wrong("the head is too long"));
            }
            if self.bytes.is_empty() {
                // The end between two requests is none of a request.
                return match self.more() {
                    Ok(()) => {
                        self.stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
                        continue;
                    }
                    Err(_) => Ok(None),
                };
            }
            self.more()?;
        };
        self.stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
        let parsed = parse(self.bytes.get(..end).unwrap_or_default())?;
        self.bytes.drain(..end);
        Ok(Some(parsed))
    }

    fn body(&mut self, framing: Framing, received: &mut Received) -> io::Result<()> {
        let mut hasher = DefaultHasher::new();
        let mut total = 0;
        match framing {
            Framing::Length(length) => {
                let mut left = length;
                while left > 0 {
                    if self.bytes.is_empty() {
                        self.more()?;
                    }
                    let count = usize::try_from(left).unwrap_or(usize::MAX).min(self.bytes.len());
                    hasher.write(self.bytes.get(..count).unwrap_or_default());
                    self.bytes.drain(..count);
                    left -= count as u64;
                    total += count as u64;
                    if total > BODY_BYTES_MAX {
                        return Err(wrong("the body is too long"));
                    }
                }
            }
            Framing::Chunked => total = self.chunks(&mut hasher)?,
        }
        received.body_bytes = total;
        received.body_hash = hasher.finish();
        Ok(())
    }

    fn chunks(&mut self, hasher: &mut DefaultHasher) -> io::Result<u64> {
        let (mut total, mut wire) = (0, 0);
        let mut body = crate::client::Body::Chunked(Default::default());
        loop {
            if self.bytes.is_empty() {
                self.more()?;
            }
            wire += self.bytes.len() as u64;
            let taken = body.take_into(&self.bytes, |piece| hasher.write(piece));
            let taken = taken.map_err(|_| wrong("the chunks are wrong"))?;
            self.bytes.drain(..taken.bytes.min(self.bytes.len()));
            total += taken.content;
            if taken.is_complete {
                return Ok(total);
            }
            if wire > BODY_BYTES_MAX {
                return Err(wrong("the body is too long"));
            }
        }
    }
}

fn parse(head: &[u8]) -> io::Result<(Received, Framing, bool)> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    let parsed = request.parse(head).map_err(|_| wrong("no request"))?;
    let (Some(method), Some(target), true) = (request.method, request.path, parsed.is_complete()) else {
        return Err(wrong("no request"));
    };
    let mut received = Received {
        method: method.to_owned(),
        target: target.as_bytes().to_vec(),
        fields: Vec::with_capacity(request.headers.len()),
        body_bytes: 0,
        body_hash: 0,
    };
    let mut framing = Framing::Length(0);
    let mut keeps = request.version == Some(1);
    for field in request.headers.iter() {
        let name = field.name.to_ascii_lowercase();
        let value = field.value.trim_ascii().to_vec();
        let has = |word: &[u8]| value.to_ascii_lowercase() == word;
        match name.as_str() {
            "content-length" => {
                let length = std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok());
                framing = Framing::Length(length.ok_or_else(|| wrong("no length"))?);
            }
            "transfer-encoding" if has(b"chunked") => framing = Framing::Chunked,
            "connection" if has(b"close") => keeps = false,
            "connection" if has(b"keep-alive") => keeps = true,
            _ => {}
        }
        received.fields.push((name, value));
    }
    Ok((received, framing, keeps))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Echo {
        Echo::start(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap()
    }

    /// Sends, and reads to the end.
    fn ask(echo: &Echo, request: &str) -> String {
        let mut stream = TcpStream::connect(echo.address()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    }

    #[test]
    fn what_is_received_is_noted_before_it_is_answered() {
        let echo = start();
        let text = ask(
            &echo,
            "POST //a%20?b HTTP/1.1\r\nHost: A\r\nX-Compare: 7\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
             POST / HTTP/1.0\r\nX-Compare: 8\r\nContent-Length: 3\r\n\r\nabc",
        );
        assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 2, "{text}");
        let (chunked, plain) = (echo.take(7), echo.take(8));
        assert_eq!((chunked[0].method.as_str(), &*chunked[0].target), ("POST", &b"//a%20?b"[..]));
        assert_eq!(chunked[0].fields[0], ("host".to_owned(), b"A".to_vec()));
        assert_eq!((chunked[0].body_bytes, chunked[0].body_hash), (3, plain[0].body_hash));
        assert!(echo.take(7).is_empty());
    }

    #[test]
    fn what_is_no_request_ends_the_connection() {
        let echo = start();
        for request in ["SSH-2.0\r\n\r\n", "GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", "\r\n\r\n"] {
            assert_eq!(ask(&echo, request), "", "{request}");
        }
    }

    #[test]
    fn it_ends_with_connections_open() {
        let echo = start();
        let mut open = TcpStream::connect(echo.address()).unwrap();
        open.write_all(b"GET / HTTP/1.1\r\nX-Compare: 1\r\n\r\n").unwrap();
        let mut start = [0; 8];
        open.read_exact(&mut start).unwrap();
        drop(echo);
        let mut rest = Vec::new();
        let _ = open.read_to_end(&mut rest);
        assert!(rest.len() > 1000);
    }

    #[test]
    fn notes_are_bounded() {
        let state = Mutex::new(State::default());
        let received = |token: usize| {
            parse(format!("GET / HTTP/1.1\r\nx-compare: {token}\r\n\r\n").as_bytes()).unwrap().0
        };
        for token in 0..3 * TOKENS_MAX {
            note(&state, received(token));
        }
        for _ in 0..3 * PER_TOKEN_MAX {
            note(&state, received(3 * TOKENS_MAX - 1));
        }
        let state = state.into_inner().unwrap();
        assert!(state.received.len() <= TOKENS_MAX);
        assert!(state.received.values().all(|of_token| of_token.len() <= PER_TOKEN_MAX));
    }
}
