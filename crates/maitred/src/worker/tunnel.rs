//! After an upgrade: bytes between a client and a server, in both directions, until one of them has enough.
//!
//! What comes from the server goes the way of a response (`pump`), whose filter passes it on as it is. This is the other
//! direction. Each keeps what one read brought, at most, and reads no more until that is out.

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use super::event_loop::Thread;
use super::proxy::TUNNEL_IDLE_TIMEOUT;

/// Reads of one client in one turn, so that the others get theirs.
const READS_PER_TURN: u32 = 8;

impl Thread {
    /// The server has switched to another protocol. What the client has sent already belongs to it.
    pub(super) fn begin_tunnel(&mut self, index: u32) {
        let work = self.work(index);
        let early = std::mem::take(&mut work.input);
        if let Some(proxied) = work.proxied.as_deref_mut() {
            (proxied.out, proxied.sent) = (early, 0);
        }
        // There may be more, whose edge was for nobody.
        self.connections[index as usize].readable = true;
        self.look_again(index);
    }

    /// Whether client and server speak another protocol.
    pub(super) fn is_tunnel(&self, index: u32) -> bool {
        let work = self.connections.get(index as usize).and_then(|connection| connection.work.as_deref());
        work.and_then(|work| work.proxied.as_deref()).is_some_and(|proxied| proxied.filter.switched())
    }

    /// Moves what there is from the client to the server.
    pub(super) fn pump_to_server(&mut self, index: u32) {
        if !self.is_tunnel(index) {
            return;
        }
        for _ in 0..READS_PER_TURN {
            if !self.send_to_server(index) || !self.read_client(index) {
                return;
            }
        }
        self.look_again(index);
    }

    /// Sends what was read. True if that is out, and more may be read.
    fn send_to_server(&mut self, index: u32) -> bool {
        let Some(upstream) = self.upstream_of(index).and_then(|key| self.upstreams.get(key)) else {
            return false;
        };
        let work = self.connections[index as usize].work.as_deref_mut();
        let Some(proxied) = work.and_then(|work| work.proxied.as_deref_mut()) else { return false };
        while let Some(rest) = proxied.out.get(proxied.sent..).filter(|rest| !rest.is_empty()) {
            match send(upstream.socket(), rest, SendFlags::NOSIGNAL) {
                Ok(sent) => proxied.sent += sent,
                Err(Errno::INTR) => {}
                // That it takes nothing any more shows when it is read.
                Err(_) => return false,
            }
        }
        proxied.out.clear();
        proxied.sent = 0;
        if proxied.client_ended {
            let _ = shutdown(upstream.socket(), Shutdown::Write);
        }
        !proxied.client_ended
    }

    /// Reads once. True if there is something to send, or the end to be told.
    fn read_client(&mut self, index: u32) -> bool {
        if !self.connections[index as usize].readable {
            return false;
        }
        let mut rx = std::mem::take(&mut self.rx);
        rx.clear();
        let room = rx.capacity();
        let connection = &mut self.connections[index as usize];
        let received = recv(&connection.socket, spare_capacity(&mut rx), RecvFlags::empty());
        let (ended, goes_on) = match received {
            Ok((_, 0)) => (true, true),
            Ok((_, bytes)) => {
                connection.readable = bytes == room || connection.hung_up;
                (false, true)
            }
            Err(Errno::INTR) => (false, true),
            Err(Errno::AGAIN) => {
                connection.readable = false;
                (false, false)
            }
            Err(_) => {
                self.rx = rx;
                self.abort(index);
                return false;
            }
        };
        if let Some(proxied) = self.work(index).proxied.as_deref_mut() {
            proxied.out.extend_from_slice(&rx);
            proxied.client_ended |= ended;
        }
        rx.clear();
        self.rx = rx;
        if goes_on && !self.has_output(index) {
            self.arm_proxied(index, TUNNEL_IDLE_TIMEOUT);
        }
        goes_on
    }
}
