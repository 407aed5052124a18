//! Responses that come through a relay: read from the application, judged, and sent on at the client's speed.
//!
//! Nothing more is read from a relay while anything read before has yet to be sent. So a slow client fills the relay, and
//! the application sees a full socket, as it would on the client's own.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use maitred_http::response::Filter;
use maitred_sys::receive::receive;
use rustix::event::epoll;

use super::connection::{After, Relayed, RetryState, State};
use super::overdue::CANCEL_TIMEOUT;
use super::reactor::{Reactor, Token};
use super::send::Sent;
use super::wire::Then;
use crate::handoff::{RELAY_BIT, Relay};
use crate::serve::passed::Passed;
use crate::serve::{Segment, Summary};

/// Bytes that one connection may relay in one turn, so that the others get theirs.
const RELAYED_PER_TURN: usize = 512 * 1024;
/// Relays that are given back in one turn: each takes a system call, and a frame.
const RELAYS_ENDED_PER_TURN: usize = 256;
/// How long a response may take before it is sent on piece by piece.
const UNWATCHED_FOR: Duration = Duration::from_millis(1);
/// Bytes that are read at a time from a file that has to be judged.
const TAIL_PIECE_BYTES: u64 = 64 * 1024;

/// What a look into a relay brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    /// Bytes, and perhaps more behind them.
    More,
    /// Everything that is there for now.
    Drained,
    /// The application broke the rules; the connection has been dealt with.
    Failed,
}

impl Reactor {
    /// A relay to the process of this channel: a free one, or a new one with the end that has to be passed.
    pub(super) fn take_relay(&mut self, channel: usize) -> io::Result<(u32, Option<OwnedFd>)> {
        if let Some(key) = self.pools.channels[channel].idle_relays.pop() {
            return Ok((key, None));
        }
        let held = self.shared.descriptor()?;
        let lane = self.pools.channels[channel].lane.clone();
        let (relay, far_end) = Relay::new(channel as u32, held, lane)?;
        let key = self.pools.relays.insert(relay);
        Ok((key as u32, Some(far_end)))
    }

    /// The response of the connection at `index` will come through this relay.
    pub(super) fn start_relay(
        &mut self,
        index: u32,
        relay: u32,
        request: (u32, u32),
        filter: Filter,
        keep: bool,
    ) {
        let found = &mut self.pools.relays[relay as usize];
        found.index = Some(index);
        found.uses = found.uses.wrapping_add(1);
        let uses = found.uses;
        let relayed = Relayed {
            filter,
            request,
            done: false,
            broken: false,
            lost: false,
            complete: false,
            drained: false,
            keep,
            feed: None,
            heard_at: self.clock.now,
            ends_at: None,
        };
        self.exchange(index).relayed = Some(Box::new(relayed));
        self.enter(index, State::Relayed { relay });
        self.row.relayed.add(1);
        self.unwatched.push_back((relay, uses, self.clock.now + UNWATCHED_FOR));
    }

    /// When the next relay wants to be watched.
    pub(super) fn next_watch(&self) -> Option<Instant> {
        self.unwatched.front().map(|(_, _, due)| *due)
    }

    /// Watches relays whose responses take longer than a moment. A short response is read when DONE says that it is
    /// there: watching for it would wake this thread for each one, and end the batch.
    pub(super) fn watch_relays(&mut self) {
        while let Some((key, uses, due)) = self.unwatched.front().copied() {
            let relay = self.pools.relays.get(key as usize).filter(|relay| relay.uses == uses);
            let busy = relay.and_then(|relay| relay.index);
            if busy.is_some() && self.clock.now < due {
                return;
            }
            self.unwatched.pop_front();
            if let Some(index) = busy
                && !self.watch(key, false)
            {
                self.fail_relay(index, "its relay cannot be watched");
            }
        }
    }

    /// Has epoll tell when there is something to read; and when there is room again, if something is written to it.
    pub(super) fn watch(&mut self, key: u32, feeds: bool) -> bool {
        let Some(relay) = self.pools.relays.get_mut(key as usize) else { return true };
        if relay.watched {
            return true;
        }
        let token = Token::Relay { key, channel: relay.channel };
        use epoll::EventFlags as F;
        let room = if feeds { F::OUT } else { F::empty() };
        let flags = F::IN | F::RDHUP | F::ET | room;
        relay.watched = epoll::add(&self.epoll, relay.socket(), token.pack(), flags).is_ok();
        relay.watched
    }

    pub(super) fn on_relay(&mut self, key: u32, channel: u32, flags: epoll::EventFlags) {
        use epoll::EventFlags as F;
        let Some(relay) = self.pools.relays.get_mut(key as usize) else { return };
        if relay.channel & 0x00ff_ffff != channel {
            return;
        }
        relay.hung_up |= flags.intersects(F::RDHUP | F::HUP | F::ERR);
        relay.gone |= flags.intersects(F::HUP | F::ERR);
        if let Some(index) = relay.index {
            self.move_relayed(index, key);
        }
    }

    /// What epoll says of the client's socket.
    pub(super) fn on_relayed_client(&mut self, index: u32, flags: epoll::EventFlags) {
        use epoll::EventFlags as F;
        let tunnel = self.is_tunnel(index);
        if flags.contains(F::ERR) || (flags.contains(F::HUP) && !tunnel) {
            return self.abort(index);
        }
        if flags.contains(F::RDHUP) {
            self.cancel(index);
        }
        if tunnel {
            self.pump_from_client(index);
        }
        if flags.contains(F::OUT) || tunnel {
            self.pump_relay(index);
        }
    }

    /// Moves what can be moved, in both directions.
    pub(super) fn move_relayed(&mut self, index: u32, relay: u32) {
        self.feed_relay(index, relay);
        self.pump_from_client(index);
        self.pump_relay(index);
    }

    /// Moves what there is from the application to the client.
    pub(super) fn pump_relay(&mut self, index: u32) {
        let mut moved = 0;
        if self.is_past_all_bounds(index) {
            return self.end_overdue(index);
        }
        while let Some(relay) = self.relay_of(index) {
            let held = self.has_output(index);
            match self.send_rest(index) {
                Sent::All => {
                    self.recount_unsent(index);
                    if held {
                        self.note_heard(index);
                    }
                }
                Sent::Waits => return self.count_unsent(index),
                Sent::Share => return self.look_again(index),
                Sent::Broken => return self.abort(index),
            }
            if self.is_whole(index) {
                return self.settle_relay(index, relay);
            }
            if self.has_far_end_ended(index) {
                return self.half_close_client(index, relay);
            }
            if moved >= RELAYED_PER_TURN {
                return self.look_again(index);
            }
            match self.read_relay(index, relay, &mut moved) {
                Read::More => {}
                Read::Failed => return,
                Read::Drained => {
                    if !self.end_relay(index) {
                        return;
                    }
                }
            }
        }
    }

    /// Key of the relay that the connection waits for.
    pub(super) fn relay_of(&self, index: u32) -> Option<u32> {
        match self.connections.get(index as usize)?.state {
            State::Relayed { relay } => Some(relay),
            _ => None,
        }
    }

    /// Whether nothing more belongs to the response, and nothing else is in the relay.
    fn is_whole(&self, index: u32) -> bool {
        let exchange =
            self.connections.get(index as usize).and_then(|connection| connection.exchange.as_ref());
        let relayed = exchange.and_then(|exchange| exchange.relayed.as_ref());
        relayed.is_some_and(|relayed| relayed.complete && relayed.drained)
    }

    /// Reads once, and sends what became of it; what the client does not take stays in the connection's output.
    fn read_relay(&mut self, index: u32, relay: u32, moved: &mut usize) -> Read {
        let mut rx = self.rx.take();
        let (room, mut passed) = (rx.capacity(), Vec::new());
        let found = &self.pools.relays[relay as usize];
        let received = receive(found.socket(), &mut rx, &mut passed);
        if !passed.is_empty() {
            // They are closed by helpers, as whatever an application passes.
            let lane = found.lane();
            passed.into_iter().for_each(|descriptor| drop(Passed::new(descriptor, None, lane.clone())));
            self.rx.put_back(rx);
            self.fail_relay(index, "it passed descriptors where its response goes");
            return Read::Failed;
        }
        let (bytes, drained) = match received {
            Ok(0) => {
                // It closed its end, or died; what it says on the channel, or its exit, decides.
                self.pools.relays[relay as usize].spoilt = true;
                self.note_relay_end(index, relay);
                (0, true)
            }
            // A short read has emptied the relay; what comes later makes an edge. Only the end, if that was reported
            // together with these bytes, does not.
            Ok(bytes) => (bytes, bytes < room && !self.pools.relays[relay as usize].hung_up),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (0, false),
            Err(_) => (0, true),
        };
        *moved += bytes;
        if let Some(relayed) = self.exchange(index).relayed.as_deref_mut() {
            relayed.drained = drained;
        }
        if bytes > 0 {
            self.note_heard(index);
        }
        let filtered = if bytes > 0 { self.filter(index, &rx) } else { Ok(()) };
        self.rx.put_back(rx);
        match filtered {
            Err(why) => {
                self.fail_relay(index, &why);
                Read::Failed
            }
            Ok(()) if drained && !self.is_whole(index) => Read::Drained,
            Ok(()) => Read::More,
        }
    }

    /// The process is not silent.
    pub(super) fn note_heard(&mut self, index: u32) {
        let now = self.clock.now;
        if let Some(relayed) = self.exchange(index).relayed.as_deref_mut() {
            relayed.heard_at = now;
        }
    }

    /// Puts bytes of the application through the filter, and sends the result.
    fn filter(&mut self, index: u32, input: &[u8]) -> Result<(), String> {
        let ends = self.ends_soon(index);
        let result = self.encode(index, |exchange, writer| {
            let Some(relayed) = exchange.relayed.as_deref_mut() else { return Ok(()) };
            if ends && !relayed.filter.head_written() {
                relayed.filter.say_close();
            }
            let progress = relayed.filter.feed(input, writer).map_err(|bad| bad.to_string())?;
            relayed.complete = progress.complete;
            Ok(())
        });
        let mut tx = std::mem::take(&mut self.tx);
        if result.is_ok() {
            self.send_now(index, &tx);
        }
        tx.clear();
        self.tx = tx;
        self.look_at_detached(index);
        result
    }

    fn spoil_relay(&mut self, index: u32) {
        if let State::Relayed { relay } = self.connections[index as usize].state {
            self.pools.relays[relay as usize].spoilt = true;
        }
    }

    /// Sends at once what fits into the socket; nothing else waits to be sent.
    pub(super) fn send_now(&mut self, index: u32, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let sent = self.send(index, bytes, Then::Perhaps).unwrap_or(0);
        self.progress(index);
        // An error shows again, and is dealt with, when the rest is sent.
        let rest = bytes.get(sent..).unwrap_or_default();
        self.exchange(index).output.extend_from_slice(rest);
    }

    /// Nothing more is in the relay. With DONE, the tail follows, and then the end. True if there is more to send.
    fn end_relay(&mut self, index: u32) -> bool {
        if self.is_tunnel(index) {
            return self.wait_for_far_end(index);
        }
        if self.exchange(index).relayed.as_deref().is_some_and(|relayed| !relayed.done) {
            self.wait_for_process(index);
            return false;
        }
        let exchange = self.exchange(index);
        let Some(relayed) = exchange.relayed.as_deref_mut() else { return false };
        if relayed.broken {
            match exchange.cancelled && !relayed.lost {
                // It was told to; nobody is there to hear anything else.
                true => self.abort(index),
                false => self.fail_relay(index, "it broke the response off"),
            }
            return false;
        }
        match exchange.tail.pop_front() {
            Some(Segment::Bytes(bytes)) => match self.filter(index, &bytes) {
                Ok(()) => true,
                Err(why) => {
                    self.fail_relay(index, &why);
                    false
                }
            },
            // No process returns such bytes.
            Some(Segment::Cached(_)) => true,
            Some(file @ Segment::File { .. }) => self.tail_file(index, file),
            None => self.end_filter(index),
        }
    }

    /// A file in the tail goes to the client as it is, if the response's length was announced. Otherwise it holds framing
    /// of the application's own (chunks, or the rest of a head), and is read piece by piece.
    fn tail_file(&mut self, index: u32, file: Segment) -> bool {
        let exchange = self.exchange(index);
        let Some(relayed) = exchange.relayed.as_deref_mut() else { return false };
        let Segment::File { file: source, offset, end } = file else { return false };
        let bytes = end.saturating_sub(offset);
        if relayed.filter.passthrough().is_some_and(|through| bytes <= through) {
            relayed.filter.skip(bytes);
            relayed.complete = relayed.filter.complete();
            exchange.resident_until = 0;
            exchange.segments.push_back(Segment::File { file: source, offset, end });
            return true;
        }
        let mut piece = vec![0; bytes.min(TAIL_PIECE_BYTES) as usize];
        let read = match source.read_now(&mut piece, offset) {
            Some(Ok(read)) if read > 0 => read,
            Some(_) => {
                self.break_off_file(index);
                return false;
            }
            None => {
                self.exchange(index).tail.push_front(Segment::File { file: Rc::clone(&source), offset, end });
                if !self.fetch(index, &source, offset..end, true) {
                    self.fail_relay(index, "helpers have too much to do with its files");
                }
                return false;
            }
        };
        let offset = offset + read as u64;
        if offset < end {
            self.exchange(index).tail.push_front(Segment::File { file: source, offset, end });
        }
        match self.filter(index, piece.get(..read).unwrap_or_default()) {
            Ok(()) => true,
            Err(why) => {
                self.fail_relay(index, &why);
                false
            }
        }
    }

    /// It is the process's turn again, the client having all that there was.
    fn wait_for_process(&mut self, index: u32) {
        let Some(due) = self.process_due(index).filter(|_| !self.has_output(index)) else { return };
        match due > self.clock.now {
            true => self.wheel.arm(index, due),
            // Each byte that it has sent has put off the deadline of the client, which is not to blame.
            false => self.end_overdue(index),
        }
    }

    /// Whether the process has had all of its time, whatever it goes on to say.
    fn is_past_all_bounds(&self, index: u32) -> bool {
        let exchange =
            self.connections.get(index as usize).and_then(|connection| connection.exchange.as_deref());
        let bounded = exchange.is_some_and(|exchange| exchange.overdue) || self.total_due(index).is_some();
        bounded && self.process_due(index).is_some_and(|due| due <= self.clock.now)
    }

    fn end_overdue(&mut self, index: u32) {
        self.row.timeouts.add(1);
        self.on_relay_timeout(index);
    }

    fn end_filter(&mut self, index: u32) -> bool {
        let ended = self.encode(index, |exchange, writer| {
            let Some(relayed) = exchange.relayed.as_deref_mut() else { return Ok(()) };
            let ended = relayed.filter.end(writer).map_err(|bad| bad.to_string());
            relayed.complete = ended.is_ok();
            ended
        });
        let mut tx = std::mem::take(&mut self.tx);
        if ended.is_ok() {
            self.send_now(index, &tx);
        }
        tx.clear();
        self.tx = tx;
        if let Err(why) = ended {
            self.fail_relay(index, &why);
            return false;
        }
        true
    }

    /// The whole response is out. Once the application has said so too, the relay is free, and the connection goes on.
    pub(super) fn settle_relay(&mut self, index: u32, relay: u32) {
        let exchange = self.exchange(index);
        let Some(mut relayed) = exchange.relayed.take_if(|relayed| relayed.done) else { return };
        exchange.trailers = relayed.filter.take_framed_trailers();
        let excess = relayed.filter.excess() || relayed.broken;
        let after = match exchange.tunnel.take() {
            // What the client may still say has to be read, or it loses what it was told last.
            Some(_) => After::Linger,
            None if relayed.keep && relayed.filter.keeps() => After::Keep,
            None => After::Close,
        };
        let status = relayed.filter.status().unwrap_or(502);
        exchange.summary = Some(Summary { status, body_bytes: relayed.filter.body_bytes() });
        exchange.after = Some(after);
        exchange.tail.clear();
        exchange.tail_bytes = 0;
        exchange.again = RetryState::Never;
        self.count(index, status);
        let body_bytes = relayed.filter.body_bytes();
        self.count_handed_off(index, body_bytes);
        if excess {
            // More than the response was announced to have: the next one could not be told from it.
            self.spoil_relay(index);
        }
        self.free_relay(relay);
        self.enter(index, State::Head);
        self.end_response(index);
    }

    /// A relay has done its duty: it serves the next request, unless something may be left in it.
    fn free_relay(&mut self, key: u32) {
        let Some(relay) = self.pools.relays.get_mut(key as usize) else { return };
        relay.index = None;
        if std::mem::take(&mut relay.watched) {
            let _ = epoll::delete(&self.epoll, relay.socket());
        }
        let (channel, spoilt) = (relay.channel as usize, relay.spoilt);
        if spoilt {
            return self.drop_relay(key);
        }
        if let Some(channel) = self.pools.channels.get_mut(channel) {
            channel.idle_relays.push(key);
            let period = self.shared.start.config.limits.relay_idle_timeout;
            self.relay_sweep.get_or_insert((self.clock.now + period, true));
        }
    }

    /// When relays that nobody needs are looked for.
    pub(super) fn next_relay_sweep(&self) -> Option<Instant> {
        self.relay_sweep.map(|(at, _)| at)
    }

    /// Gives back the relays that nobody has needed for a period: our ends are closed, and the processes are told to forget
    /// theirs.
    pub(super) fn sweep_relays(&mut self) {
        let now = self.clock.now;
        let Some((_, ends)) = self.relay_sweep.filter(|(at, _)| *at <= now) else { return };
        let mut left = RELAYS_ENDED_PER_TURN;
        let mut unneeded = Vec::new();
        for (channel, found) in &mut self.pools.channels {
            if ends {
                found.idle_relays.end_period();
            }
            let keys = found.idle_relays.take_surplus(left);
            left -= keys.len();
            unneeded.extend(keys.into_iter().map(|key| (channel, key)));
        }
        for (channel, key) in unneeded {
            if let Some(relay) = self.pools.relays.try_remove(key as usize) {
                unwatch(&self.epoll, &relay);
            }
            if let Some(found) = self.pools.channels.get_mut(channel) {
                found.forget_number(RELAY_BIT | key);
            }
            self.touch(channel);
        }
        let period = self.shared.start.config.limits.relay_idle_timeout;
        self.relay_sweep = match left {
            // There may be more: in the next turn.
            0 => Some((now, false)),
            _ if self.pools.relays.is_empty() => None,
            _ => Some((now + period, true)),
        };
    }

    /// Ends a relay: the process is told to close its end, too.
    pub(super) fn drop_relay(&mut self, key: u32) {
        let Some(relay) = self.pools.relays.try_remove(key as usize) else { return };
        let channel = relay.channel as usize;
        unwatch(&self.epoll, &relay);
        if let Some(found) = self.pools.channels.get_mut(channel).filter(|_| !relay.orphan) {
            found.idle_relays.remove(key);
            found.forget_number(RELAY_BIT | key);
            self.touch(channel);
        }
    }

    /// The application's response cannot be sent on: an error if nothing was sent yet, otherwise the connection is cut.
    pub(super) fn fail_relay(&mut self, index: u32, why: &str) {
        let Some(relayed) = self.exchange(index).relayed.as_deref() else { return };
        let (written, channel) = (relayed.filter.head_written(), relayed.request.0);
        // As on its own socket, a client that has got anything notices that another process begins anew.
        let lost = relayed.lost && !relayed.filter.informed();
        let id = self.pools.channels.get(channel as usize).map(|channel| channel.id);
        if let Some(id) = id {
            let (pool, slot) = (self.shared.pool_name(id.pool), id.slot);
            self.limiter
                .log(self.clock.now, || tracing::warn!(pool, slot, "bad response of the application: {why}"));
        }
        if written {
            return self.abort(index);
        }
        self.leave_relay(index);
        if lost && self.retry(index) {
            return;
        }
        self.refuse_kept(index, 502, &[]);
    }

    /// The connection goes on, or away, without what may still come through its relay.
    pub(super) fn leave_relay(&mut self, index: u32) {
        let State::Relayed { relay } = self.connections[index as usize].state else { return };
        self.enter(index, State::Head);
        let Some(relayed) = self.exchange(index).relayed.take() else { return };
        if let Some(found) = self.pools.relays.get_mut(relay as usize) {
            found.index = None;
            found.spoilt = true;
        }
        if relayed.done || self.is_detached(relay) {
            return self.drop_relay(relay);
        }
        if relayed.feed.is_some_and(|feed| feed.sent < feed.spool.bytes) {
            self.end_feed(relay);
        }
        let (channel, request) = relayed.request;
        self.orphan_request(channel as usize, request);
    }

    /// Either the client takes nothing, or the application gives nothing, or has had all of its time.
    pub(super) fn on_relay_timeout(&mut self, index: u32) {
        let bounded = self.exchange(index).overdue || self.is_past_total(index);
        let output = self.has_output(index);
        let exchange = self.exchange(index);
        let (waits_for_client, overdue) = (output || !exchange.segments.is_empty(), exchange.overdue);
        let Some(relayed) = exchange.relayed.as_deref() else { return };
        let (written, done, request) = (relayed.filter.head_written(), relayed.done, relayed.request);
        let relay = self.relay_of(index);
        let answering = relay.filter(|relay| !done && !self.is_detached(*relay) && !self.is_tunnel(index));
        if waits_for_client && !(bounded && answering.is_some()) {
            return self.abort_stalled(index);
        }
        if let Some(relay) = answering {
            if overdue {
                return self.end_relayed(index);
            }
            let (key, number) = (request.0 as usize, RELAY_BIT | relay);
            if self.is_unread(key, request.1) {
                return;
            }
            if self.give_notice(index, key, (request.1, number)) && written {
                let ends_at = self.clock.now + CANCEL_TIMEOUT;
                if let Some(relayed) = self.exchange(index).relayed.as_deref_mut() {
                    relayed.ends_at = Some(ends_at);
                }
                return self.wheel.arm(index, ends_at);
            }
        }
        if written {
            return self.abort(index);
        }
        self.leave_relay(index);
        self.refuse_kept(index, 504, &[]);
    }

    /// DONE for a request that was answered through a relay.
    pub(super) fn on_relay_done(&mut self, relay: u32, broken: bool) {
        match self.pools.relays.get(relay as usize).map(|relay| relay.index) {
            Some(Some(index)) => {
                if let Some(relayed) = self.exchange(index).relayed.as_deref_mut() {
                    relayed.done = true;
                    relayed.broken = broken;
                }
                self.pump_relay(index);
            }
            Some(None) => self.drop_relay(relay),
            None => {}
        }
    }

    /// The process of this channel has exited: what it had written is sent on; a response that is not whole by then
    /// never will be.
    pub(super) fn lose_relays(&mut self, channel: usize) {
        let of = |relay: &Relay| relay.channel as usize == channel && !relay.orphan;
        let keys: Vec<(u32, Option<u32>)> = self
            .pools
            .relays
            .iter()
            .filter(|(_, relay)| of(relay))
            .map(|(key, relay)| (key as u32, relay.index))
            .collect();
        for (key, index) in keys {
            if let Some(relay) = self.pools.relays.get_mut(key as usize) {
                relay.orphan = true;
            }
            if let Some(index) = index {
                let row = self.row;
                if let Some(relayed) =
                    self.exchange(index).relayed.as_deref_mut().filter(|relayed| !relayed.done)
                {
                    row.handoff_lost.add(1);
                    // Without DONE nobody knows whether the response was meant to end here.
                    (relayed.broken, relayed.lost, relayed.done) = (true, true, true);
                    relayed.keep = false;
                }
                self.spoil_relay(index);
                self.pump_relay(index);
            } else if let Some(relay) = self.pools.relays.try_remove(key as usize) {
                unwatch(&self.epoll, &relay);
            }
        }
    }
}

/// Helpers close a relay at some time, and until then epoll would report it, by a key that is another one's by then.
pub(super) fn unwatch(epoll: &OwnedFd, relay: &Relay) {
    if relay.watched {
        let _ = epoll::delete(epoll, relay.socket());
    }
}
