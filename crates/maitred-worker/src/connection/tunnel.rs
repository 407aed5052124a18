//! A tunnel: the bytes from a client to the upstream after an upgrade, and which side has ended.

/// The bytes from a client to the other end, and which side has ended.
#[derive(Debug, Default)]
pub struct Tunnel {
    /// What the client has sent.
    pub(crate) out: Vec<u8>,
    /// How much of `out` has been sent on.
    pub(crate) sent: usize,
    /// All that the client has to send was read.
    pub(crate) client_ended: bool,
    /// All that the other end has to send was read.
    pub(crate) far_end_ended: bool,
    /// The sending side towards the client was shut down.
    pub(crate) client_told: bool,
    /// So was the sending side towards the other end. Once is enough, and each time makes an event of its own on the socket: it
    /// would never end.
    pub(crate) far_end_told: bool,
}

impl Tunnel {
    /// Memory that the other end has yet to take.
    pub(crate) fn unsent_bytes(&self) -> usize {
        if self.sent < self.out.len() { self.out.capacity() } else { 0 }
    }

    /// What has yet to be sent on.
    pub(crate) fn rest(&self) -> &[u8] {
        self.out.get(self.sent..).unwrap_or_default()
    }

    /// So many bytes of that were sent on.
    pub(crate) fn advance(&mut self, sent: usize) {
        self.sent += sent;
        if self.rest().is_empty() {
            self.out.clear();
            self.sent = 0;
        }
    }

    /// Whether the other end has to be told now that nothing follows: once.
    pub(crate) fn ends_far_end(&mut self) -> bool {
        let ends = self.client_ended && self.rest().is_empty();
        ends && !std::mem::replace(&mut self.far_end_told, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_on_makes_room_and_the_end_comes_after_it_once() {
        let mut tunnel = Tunnel { out: b"frames".to_vec(), client_ended: true, ..Tunnel::default() };
        assert!(!tunnel.ends_far_end(), "bytes come first");
        tunnel.advance(2);
        assert_eq!((tunnel.rest(), tunnel.unsent_bytes() > 0), (&b"ames"[..], true));
        tunnel.advance(4);
        assert_eq!((tunnel.rest(), tunnel.unsent_bytes(), tunnel.sent), (&b""[..], 0, 0));
        assert_eq!((tunnel.ends_far_end(), tunnel.ends_far_end()), (true, false));
        assert!(!Tunnel::default().ends_far_end());
    }
}
