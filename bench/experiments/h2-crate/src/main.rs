//! HTTP/2 by the `h2` crate without a runtime: edge-triggered epoll, one receive and one send for all that a connection
//! has brought, the crate between two buffers in memory, and polled by hand. Every request gets the same response of 1 KiB.
//! It serves nothing but measurements.

mod wire;

use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::server::{self, Handshake};
use http::{HeaderValue, Response, header};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net;
use slab::Slab;

use wire::{End, Wire};

const LISTENER: u64 = u64::MAX;
const BODY_BYTES: usize = 1024;

/// A connection's state in the crate's terms.
enum Protocol {
    Beginning(Handshake<End, Bytes>),
    Open(server::Connection<End, Bytes>),
}

struct Connection {
    socket: OwnedFd,
    wire: Wire,
    protocol: Protocol,
    /// What the socket's buffer had no room for.
    unsent: Vec<u8>,
}

/// What every request gets: a head as files have it, and the body.
struct Answer {
    head: Response<()>,
    body: Bytes,
}

struct Server {
    epoll: OwnedFd,
    listener: OwnedFd,
    connections: Slab<Connection>,
    received: Vec<u8>,
    answer: Answer,
}

impl Answer {
    fn new() -> Answer {
        let mut head = Response::new(());
        let headers = head.headers_mut();
        headers.insert(header::SERVER, HeaderValue::from_static("experiment"));
        headers.insert(header::DATE, HeaderValue::from_static("Fri, 20 Nov 2026 12:00:00 GMT"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("1024"));
        headers.insert(header::LAST_MODIFIED, HeaderValue::from_static("Fri, 20 Nov 2026 10:00:00 GMT"));
        headers.insert(header::ETAG, HeaderValue::from_static("\"65b0f0e2-400\""));
        headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        Answer { head, body: Bytes::from(vec![b'x'; BODY_BYTES]) }
    }
}

impl Connection {
    fn new(socket: OwnedFd) -> Connection {
        let wire = Wire::default();
        let handshake = server::Builder::new().max_concurrent_streams(128).handshake(wire.end());
        Connection { socket, wire, protocol: Protocol::Beginning(handshake), unsent: Vec::new() }
    }

    /// Lets the crate have what was received, answers what it made of it. Whether the connection lives on.
    fn advance(&mut self, answer: &Answer) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        if let Protocol::Beginning(handshake) = &mut self.protocol {
            match Pin::new(handshake).poll(&mut context) {
                Poll::Pending => return true,
                Poll::Ready(Err(_)) => return false,
                Poll::Ready(Ok(connection)) => self.protocol = Protocol::Open(connection),
            }
        }
        let Protocol::Open(connection) = &mut self.protocol else { return true };
        // Each poll_accept advances the whole connection, so all requests are taken before the first is answered.
        let mut requests = Vec::with_capacity(64);
        loop {
            let alive = loop {
                match connection.poll_accept(&mut context) {
                    Poll::Pending => break true,
                    Poll::Ready(Some(Ok((request, respond)))) => {
                        std::hint::black_box(request.uri().path());
                        requests.push(respond);
                    }
                    Poll::Ready(Some(Err(_)) | None) => break false,
                }
            };
            if !alive || requests.is_empty() {
                return alive;
            }
            for mut respond in requests.drain(..) {
                let Ok(mut stream) = respond.send_response(answer.head.clone(), false) else { continue };
                let _ = stream.send_data(answer.body.clone(), true);
            }
        }
    }

    /// Sends what there is; what does not fit waits for the next edge. Whether the connection lives on.
    fn flush(&mut self) -> bool {
        let mut out = self.wire.take_out();
        if !self.unsent.is_empty() {
            self.unsent.extend_from_slice(&out);
            out.clear();
            out = std::mem::replace(&mut self.unsent, out);
        }
        if out.is_empty() {
            self.wire.give_back(out);
            return true;
        }
        match net::send(&self.socket, &out, net::SendFlags::NOSIGNAL) {
            Ok(sent) => self.unsent.extend_from_slice(&out[sent..]),
            Err(Errno::AGAIN) => self.unsent.extend_from_slice(&out),
            Err(_) => return false,
        }
        self.wire.give_back(out);
        true
    }

    /// Whether the connection lives on.
    fn turn(&mut self, received: &mut [u8], answer: &Answer) -> bool {
        loop {
            let got = match net::recv(&self.socket, &mut *received, net::RecvFlags::empty()) {
                Ok((0, _)) => return false,
                Ok((got, _)) => got,
                Err(Errno::AGAIN) => return self.flush(),
                Err(_) => return false,
            };
            self.wire.receive(&received[..got]);
            let alive = self.advance(answer);
            if !self.flush() || !alive {
                return false;
            }
            // With edges, a short read means that the socket is drained.
            if got < received.len() {
                return true;
            }
        }
    }
}

impl Server {
    fn accept(&mut self) {
        let flags = net::SocketFlags::NONBLOCK | net::SocketFlags::CLOEXEC;
        while let Ok(socket) = net::accept_with(&self.listener, flags) {
            let _ = net::sockopt::set_tcp_nodelay(&socket, true);
            let entry = self.connections.vacant_entry();
            let events = epoll::EventFlags::IN
                | epoll::EventFlags::OUT
                | epoll::EventFlags::RDHUP
                | epoll::EventFlags::ET;
            let data = epoll::EventData::new_u64(entry.key() as u64);
            if epoll::add(&self.epoll, &socket, data, events).is_ok() {
                entry.insert(Connection::new(socket));
            }
        }
    }

    fn turn(&mut self, key: usize) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if !connection.turn(&mut self.received, &self.answer) {
            self.connections.remove(key);
        }
    }
}

fn main() -> std::io::Result<()> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "0".to_owned());
    let listener = std::net::TcpListener::bind(format!("127.0.0.1:{port}"))?;
    listener.set_nonblocking(true)?;
    println!("listening {}", listener.local_addr()?.port());
    let listener = OwnedFd::from(listener);
    net::listen(&listener, 4096)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut server =
        Server { epoll, listener, connections: Slab::new(), received: vec![0; 65536], answer: Answer::new() };
    let mut events: Vec<epoll::Event> = Vec::with_capacity(512);
    loop {
        events.clear();
        match epoll::wait(&server.epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            match event.data.u64() {
                LISTENER => server.accept(),
                key => server.turn(key as usize),
            }
        }
    }
}
