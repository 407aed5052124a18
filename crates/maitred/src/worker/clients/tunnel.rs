//! DOC tunnel.rs

use super::Clients;
use crate::worker::tunnel::Tunnel;

impl Clients {
    /// Whether the client speaks another protocol with somebody.
    pub(in crate::worker) fn is_tunnel(&self, index: u32) -> bool {
        self.tunnel(index).is_some()
    }

    pub(in crate::worker) fn tunnel(&self, index: u32) -> Option<&Tunnel> {
        self.connections.get(index as usize)?.exchange.as_deref()?.tunnel.as_deref()
    }

    pub(in crate::worker) fn tunnel_mut(&mut self, index: u32) -> Option<&mut Tunnel> {
        self.connections.get_mut(index as usize)?.exchange.as_deref_mut()?.tunnel.as_deref_mut()
    }
}
