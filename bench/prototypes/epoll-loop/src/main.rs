//! A loop of our own: edge-triggered epoll through rustix, a slab of connections, and one read buffer per thread. A
//! connection is registered once, for both directions.

use std::os::fd::OwnedFd;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net;
use slab::Slab;

include!("../../answer.rs");

const LISTENER: u64 = u64::MAX;

/// An idle connection owns no heap memory beyond its place in the slab.
struct Connection {
    socket: OwnedFd,
    pending: Vec<u8>,
    unsent: Vec<u8>,
}

struct Server {
    epoll: OwnedFd,
    listener: OwnedFd,
    connections: Slab<Connection>,
    received: Vec<u8>,
    out: Vec<u8>,
    response: Vec<u8>,
}

impl Server {
    fn accept(&mut self) {
        let flags = net::SocketFlags::NONBLOCK | net::SocketFlags::CLOEXEC;
        while let Ok(socket) = net::accept_with(&self.listener, flags) {
            let _ = net::sockopt::set_tcp_nodelay(&socket, true);
            let entry = self.connections.vacant_entry();
            let events = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
            let data = epoll::EventData::new_u64(entry.key() as u64);
            if epoll::add(&self.epoll, &socket, data, events).is_ok() {
                entry.insert(Connection { socket, pending: Vec::new(), unsent: Vec::new() });
            }
        }
    }

    /// Whether the connection lives on.
    fn turn(&mut self, key: usize) -> bool {
        let Some(connection) = self.connections.get_mut(key) else { return true };
        if !connection.unsent.is_empty() {
            match net::send(&connection.socket, &connection.unsent, net::SendFlags::NOSIGNAL) {
                Ok(sent) => drop(connection.unsent.drain(..sent)),
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
            if !connection.unsent.is_empty() {
                return true;
            }
        }
        loop {
            let got = match net::recv(&connection.socket, &mut self.received[..], net::RecvFlags::empty()) {
                Ok((0, _)) => return false,
                Ok((got, _)) => got,
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            };
            // With edges, a short read means that the socket is drained.
            let drained = got < self.received.len();
            let joined;
            let bytes = if connection.pending.is_empty() {
                &self.received[..got]
            } else {
                connection.pending.extend_from_slice(&self.received[..got]);
                joined = std::mem::take(&mut connection.pending);
                &joined[..]
            };
            self.out.clear();
            let Some(consumed) = answer(bytes, &self.response, &mut self.out) else { return false };
            connection.pending.extend_from_slice(&bytes[consumed..]);
            if !self.out.is_empty() {
                match net::send(&connection.socket, &self.out, net::SendFlags::NOSIGNAL) {
                    Ok(sent) => connection.unsent.extend_from_slice(&self.out[sent..]),
                    Err(Errno::AGAIN) => connection.unsent.extend_from_slice(&self.out),
                    Err(_) => return false,
                }
            }
            if drained || !connection.unsent.is_empty() {
                return true;
            }
        }
    }
}

fn main() -> std::io::Result<()> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    println!("listening {}", listener.local_addr()?.port());
    let listener = OwnedFd::from(listener);
    net::listen(&listener, 4096)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut server = Server {
        epoll,
        listener,
        connections: Slab::new(),
        received: vec![0; 65536],
        out: Vec::new(),
        response: response(),
    };
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
                key if !server.turn(key as usize) => drop(server.connections.try_remove(key as usize)),
                _ => {}
            }
        }
    }
}
