//! Spooled request bodies for processes that take no files: they are sent through the relay, against the direction of the
//! response, at the speed at which the process reads.

use rustix::io::Errno;

use super::Exchanges;
use crate::keys::{ChannelKey, ConnKey, RelayKey};
use crate::upstream::Feed;
use crate::upstream::failure::Cause;

/// Bytes of a body that one relay takes in one turn, so that the other relays get their turn.
const FED_PER_TURN: u64 = 512 * 1024;

impl Exchanges {
    /// Whether the request's body has to go through a relay.
    pub(crate) fn feeds(&self, index: ConnKey, channel: ChannelKey) -> bool {
        let sockets_only = self.pools.channels.get(channel).is_some_and(|channel| channel.sockets_only);
        let exchange = self.connections.get(index).and_then(|connection| connection.exchange.as_ref());
        sockets_only && exchange.is_some_and(|exchange| exchange.body.spool.is_some())
    }

    /// Begins with the body, if one was kept for this.
    pub(crate) fn start_feed(&mut self, index: ConnKey, relay: RelayKey) {
        let Some(spool) = self.exchange(index).body.spool.take() else { return };
        if let Some(attempt) = self.attempt_mut(index) {
            attempt.feed = Some(Feed { spool, sent: 0 });
        }
        if let Some(found) = self.pools.relays.get_mut(relay) {
            // The process may answer without having read the whole body.
            found.spoilt = true;
        }
        // A new relay has room, so an event comes at once.
        if !self.watch(relay, true) {
            self.fail_upstream(index, Cause::Bad, "its relay cannot be watched");
        }
    }

    /// Sends what the relay takes of the body.
    pub(crate) fn feed_relay(&mut self, index: ConnKey, relay: RelayKey) {
        let Some(attempt) = self.attempt_mut(index) else { return };
        let Some(mut feed) = attempt.feed.take_if(|feed| feed.sent < feed.spool.bytes) else { return };
        let socket = self.pools.relays[relay].socket();
        let before = feed.sent;
        let end = feed.spool.bytes.min(before + FED_PER_TURN);
        while feed.sent < end {
            let (mut offset, bytes) = (feed.sent, (end - feed.sent) as usize);
            match rustix::fs::sendfile(socket, &feed.spool.file, Some(&mut offset), bytes) {
                Ok(sent @ 1..) => feed.sent += sent as u64,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // The file cannot be read, or is shorter than it was.
                Ok(0) | Err(_) => return self.end_feed(relay),
            }
        }
        let moved = feed.sent > before;
        let share_used = feed.sent == end && feed.sent < feed.spool.bytes;
        // A body that was sent is kept as well, until DONE: if no process has read the request, it is sent again.
        if let Some(attempt) = self.attempt_mut(index) {
            attempt.feed = Some(feed);
        }
        if moved {
            // A process that takes the body is not silent.
            self.note_heard(index);
        }
        if share_used {
            self.look_again(index);
        }
    }
}
