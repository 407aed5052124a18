//! Channels that are handed over to the next worker process with the requests that are under way, and links to the worker
//! processes that had them before: [`crate::handoff::link`] describes both sides.

use std::os::fd::{AsFd as _, OwnedFd};

use crate::keys::{ChannelKey, Key, LinkKey, RelayKey};
use maitred_handoff::{FromApp, HEADER_BYTES, Header, RequestFlags, kind};
use rustix::event::epoll;

use super::Processes;
use super::crowded::Waiting;
use crate::handoff::link::{
    CLOSING, FILE_LOST, Frame, HANDED_OVER, HandedOver, JOINED, Link, REFUSED, ROOM, free_tag,
};
use crate::handoff::{Arrival, Channel, DrainMode, Flushed, Phase, Received, Relay};
use crate::processes::reasons::{NO_DESCRIPTOR, STUCK_AFTER};
use crate::shared::Outgoing;
use crate::token::Token;
use maitred_base::passed::Passed;
use maitred_control::{FromWorker, SlotId};

/// Reads from one link in one turn.
const READS_PER_TURN_MAX: u32 = 16;

/// The reason for a process whose former worker process ended before it had sent what is under way.
const NOT_HANDED_OVER: &str = "the worker process that had it before has ended";

/// The reason at the user's side when a link has ended.
pub(crate) const LINK_ENDED: &str = "the link to the worker process that has its channel has ended";

/// Whether the next frame of a channel is a message of its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// The frame is no message of the owner, or not yet known to be one.
    No,
    /// The frame was such a message, and has this many bytes.
    Taken(usize),
    /// The frame has not come as a whole.
    Partial,
    /// The frame waits for helpers that check its descriptor.
    Waits,
}

impl Processes {
    /// The channel of this process goes to another worker process, which passes the messages of the process on over `link`.
    pub(crate) fn hand_on(&mut self, id: SlotId, link: OwnedFd) {
        let Some(key) = self.key_of(id) else { return };
        let channel = &mut self.pools.channels[key];
        if channel.linked {
            // The owner of the channel is another worker process by now, which hands it over.
            return;
        }
        if !matches!(channel.leave, DrainMode::Retires | DrainMode::Told) {
            channel.next_owner = Some(link);
            channel.leave = DrainMode::HandsOver;
        }
        self.settle_process(key);
    }

    /// Hands a channel over, if no frame of it, or of its links, is incomplete.
    pub(crate) fn try_hand_over(&mut self, key: ChannelKey) {
        let now = self.clock.now;
        let Some(channel) = self.pools.channels.get_mut(key) else { return };
        let links = &self.pools.links;
        let quiet = channel.links.iter().all(|link| links.get(*link).is_some_and(Link::is_quiet));
        if channel.phase != Phase::Live || !quiet || !channel.is_between_frames() {
            return;
        }
        let Some(next_owner) = channel.next_owner.take() else { return };
        let (id, epoll) = (channel.id, &self.clients.base.epoll);
        let _ = epoll::delete(epoll, channel.socket());
        let mut others = Vec::new();
        for link in std::mem::take(&mut channel.links) {
            if let Some(found) = self.pools.links.try_remove(link) {
                let _ = epoll::delete(epoll, found.socket());
                others.push((link, found));
            }
        }
        let own = |(_, relay): &(RelayKey, &Relay)| relay.channel == key && !relay.orphan;
        channel.hand_over(next_owner, others, self.pools.relays.iter().filter(own), now);
        channel.leave = DrainMode::Stays;
        let token = Token::Channel { key, epoch: id.epoch as u32 };
        use epoll::EventFlags as F;
        let watched = epoll::add(epoll, channel.socket(), token.pack(), F::IN | F::OUT | F::RDHUP | F::ET);
        self.touch(key);
        self.shared.outbox.send(Outgoing::Tell(FromWorker::SlotReleased(id, true)));
        if let Err(error) = watched {
            self.fail_worker(key, &format!("its link cannot be watched: {error}"));
        }
    }

    /// The link comes before the channel that it belongs to.
    pub(crate) fn on_link_comes(&mut self, id: SlotId, socket: OwnedFd) {
        self.pools.coming.retain(|(epoch, _)| *epoch != id.epoch);
        self.pools.coming.push((id.epoch, socket));
    }

    /// A channel has come that other worker processes use as well. Nothing is read from it before the first frame of its link has
    /// come.
    pub(crate) fn join(&mut self, key: ChannelKey) -> Result<(), String> {
        let channel = &mut self.pools.channels[key];
        channel.joining = true;
        let epoch = channel.id.epoch;
        let at =
            self.pools.coming.iter().position(|(other, _)| *other == epoch).ok_or("its link is missing")?;
        let (_, socket) = self.pools.coming.swap_remove(at);
        self.add_link(key, 0, socket)
    }

    /// Another worker process is to use a process of this one as well. A process that is about to be handed over cannot be
    /// shared: the link ends, and the other worker process retries.
    pub(crate) fn on_guest(&mut self, id: SlotId, socket: OwnedFd) {
        let Some(key) = self.key_of(id) else { return };
        let channel = &self.pools.channels[key];
        if channel.linked
            || channel.joining
            || channel.phase != Phase::Live
            || channel.leave != DrainMode::Stays
        {
            return;
        }
        let used = channel.links.iter().filter_map(|link| Some(self.pools.links.get(*link)?.tag));
        let tag = free_tag(&used.chain([channel.tag]).collect::<Vec<_>>());
        if self.add_link(key, tag, socket).is_err() {
            return;
        }
        let Some(link) = self.pools.channels[key].links.last().copied() else { return };
        self.say_to_user(link, Header { kind: JOINED, connection: tag, ..Header::default() }, &[], None);
    }

    fn add_link(&mut self, key: ChannelKey, tag: u32, socket: OwnedFd) -> Result<(), String> {
        let channel = &mut self.pools.channels[key];
        let link = self.pools.links.insert(Link::new(key, channel.id.epoch, tag, socket));
        channel.links.push(link);
        let token = Token::Link { key: link, epoch: channel.id.epoch as u32 };
        use epoll::EventFlags as F;
        let flags = F::IN | F::OUT | F::RDHUP | F::ET;
        epoll::add(&self.epoll, self.pools.links[link].socket(), token.pack(), flags)
            .map_err(|error| format!("its link cannot be watched: {error}"))
    }

    pub(crate) fn on_link(&mut self, key: LinkKey, epoch: u32, flags: epoll::EventFlags) {
        use epoll::EventFlags as F;
        let Some(link) = self.pools.links.get_mut(key) else { return };
        if Token::epoch(link.epoch) != epoch {
            return;
        }
        let (channel, broken) = (link.channel, link.broken);
        let flushed = if flags.contains(F::OUT) { link.flush().ok() } else { Some(Flushed::Blocked) };
        if flushed == Some(Flushed::Crowded) {
            self.note_crowded(key);
        }
        if broken || flushed.is_none() || channel == ChannelKey::NONE && flushed == Some(Flushed::All) {
            return self.end_link(key);
        }
        for _ in 0..READS_PER_TURN_MAX {
            let Some(link) = self.pools.links.get_mut(key) else { return };
            let received = link.receive(&mut self.heard);
            let taken = self.take_link_frames(key);
            match (received, taken) {
                (Ok(Received::End) | Err(_), _) | (_, Err(_)) => return self.end_link(key),
                (Ok(Received::Drained), _) => return self.settle_process(channel),
                (Ok(_), _) => {}
            }
        }
        // More has come: the other links first.
        self.ready_links.push((key, epoch));
    }

    fn take_link_frames(&mut self, key: LinkKey) -> Result<(), &'static str> {
        let now = self.clock.now;
        while let Some(link) = self.pools.links.get_mut(key) {
            let Some(frame) = link.next_frame()? else { break };
            let channel = link.channel;
            match frame.header.kind {
                HANDED_OVER => self.take_over(channel, key, frame)?,
                kind::REQUEST if !self.takes_from_links(channel) => {
                    self.give_back_refused(key, channel, frame)
                }
                _ => {
                    let Some(link) = self.pools.links.get_mut(key) else { break };
                    let Some(found) = self.pools.channels.get_mut(channel) else { break };
                    let tells = matches!(found.phase, Phase::Live);
                    if tells && found.pass_on((key, link), frame, now) {
                        self.touch(channel);
                        self.show_slot(channel);
                    }
                }
            }
        }
        Ok(())
    }

    fn takes_from_links(&self, channel: ChannelKey) -> bool {
        let found = self.pools.channels.get(channel);
        let has_room = |found: &Channel| found.room() > 0 || found.prefetch_wait(self.clock.now).is_some();
        found.is_some_and(|found| {
            found.leave == DrainMode::Retires && found.phase == Phase::Live || has_room(found)
        })
    }

    /// Returns a request that would wait in the process, or that is not sent to the process any more: its user may have another
    /// process for it.
    fn give_back_refused(&mut self, key: LinkKey, channel: ChannelKey, frame: Frame) {
        let Frame { header, payload, mut descriptors, .. } = frame;
        let Some(found) = self.pools.channels.get(channel) else { return };
        let body_fd = RequestFlags::from_bits(header.flags).is_some_and(|flags| flags.body_fd);
        let body = descriptors.pop().filter(|_| body_fd);
        let body = body.map(|body| Passed::own(body, None, found.lane.clone()));
        if let Some(link) = self.pools.links.get_mut(key) {
            link.waits = true;
        }
        // The header keeps the number of descriptors that came along, whatever goes back.
        self.say_to_user(key, Header { kind: REFUSED, ..header }, &payload, body);
    }

    /// Acts on the next frame of a channel that is a link, if it is a message of the owner.
    pub(crate) fn take_word_of_owner(&mut self, key: ChannelKey, input: &[u8]) -> Result<Word, String> {
        let linked = self.pools.channels.get(key).is_some_and(|channel| channel.linked);
        let head = input.split_first_chunk::<HEADER_BYTES>().filter(|_| linked);
        let Some((head, rest)) = head else { return Ok(Word::No) };
        let header = Header::from_bytes(*head);
        let length = header.payload_bytes as usize;
        let channel = &mut self.pools.channels[key];
        match header.kind {
            ROOM => {
                channel.full = false;
                return Ok(Word::Taken(HEADER_BYTES));
            }
            JOINED => {
                (channel.tag, channel.joining) = (header.connection, false);
                return Ok(Word::Taken(HEADER_BYTES));
            }
            CLOSING => {
                channel.full = true;
                channel.say_closed();
                self.touch(key);
                return Ok(Word::Taken(HEADER_BYTES));
            }
            FILE_LOST => {
                self.break_off_short(key, header.connection, header.request, NO_DESCRIPTOR)?;
                return Ok(Word::Taken(HEADER_BYTES));
            }
            REFUSED => {}
            _ => return Ok(Word::No),
        }
        let Some(payload) = rest.get(..length) else { return Ok(Word::Partial) };
        let body_fd = RequestFlags::from_bits(header.flags).is_some_and(|flags| flags.body_fd);
        if channel.waits_for(body_fd.into()) {
            return Ok(Word::Waits);
        }
        channel.full = true;
        let file = channel.received.pop_front_if(|_| body_fd);
        let file = file.and_then(|arrival| match arrival {
            Arrival::File(passed, _) | Arrival::Other(passed) => passed.as_fd().try_clone_to_owned().ok(),
            Arrival::Judging => None,
        });
        let file = file.zip(self.shared.descriptor().ok());
        let Some(unsent) = self.pools.channels[key].refused(header, payload, file) else {
            return Err(format!("it spoke of request {}, which it does not have", header.request));
        };
        let number = unsent.request.number;
        if let Some(index) = unsent.request.index {
            // No process has got CANCEL: a client that has finished sending may still wait for the response.
            self.exchange(index).dispatch.cancelled = false;
        }
        self.answer_unsent(vec![unsent]);
        if let Some(relay) = RelayKey::of_known(number) {
            self.drop_relay(relay);
        }
        Ok(Word::Taken(HEADER_BYTES + length))
    }

    /// Sends ROOM to the users whose requests were refused.
    pub(crate) fn tell_room(&mut self, pool: usize) {
        if self.pools.links.is_empty() {
            return;
        }
        let roomy = |link: &Link| {
            let channel = self.pools.channels.get(link.channel);
            channel.is_some_and(|channel| usize::from(channel.id.pool) == pool && channel.room() > 0)
        };
        let told = self.pools.links.iter().filter(|(_, link)| link.waits && roomy(link));
        let told: Vec<LinkKey> = told.map(|(key, _)| key).collect();
        for key in told {
            if let Some(link) = self.pools.links.get_mut(key) {
                link.waits = false;
            }
            self.say_to_user(key, Header { kind: ROOM, ..Header::default() }, &[], None);
        }
    }

    /// The former owner has sent what is under way: from here on this worker process owns the channel.
    fn take_over(&mut self, key: ChannelKey, link: LinkKey, frame: Frame) -> Result<(), &'static str> {
        let now = self.clock.now;
        let said: HandedOver = serde_json::from_slice(&frame.payload).map_err(|_| "it is not understood")?;
        if !self.pools.channels.get(key).is_some_and(|channel| channel.joining) {
            return Err("it was said twice");
        }
        if frame.descriptors.len() != said.others.len() {
            return Err("links are missing");
        }
        if let Some(link) = self.pools.links.get_mut(link) {
            link.tag = said.own.tag;
        }
        let mut failed = None;
        for (share, socket) in said.others.iter().zip(frame.descriptors) {
            failed = self.add_link(key, share.tag, socket).err().or(failed);
        }
        let links = self.pools.channels[key].links.clone();
        for (share, link) in std::iter::once(&said.own).chain(&said.others).zip(&links) {
            if let Some(link) = self.pools.links.get_mut(*link) {
                link.kept.extend(&share.kept);
                // The user may have sent PING, or been refused, before: the answer comes to this worker process.
                (link.asks, link.waits) = (true, true);
            }
        }
        self.pools.channels[key].take_over(&said, &links, now);
        if let Err(error) = self.watch_channel(key) {
            failed = Some(error);
        }
        if let Some(why) = failed {
            self.fail_worker(key, &why);
            return Ok(());
        }
        if self.pools.channels[key].leave == DrainMode::Retires {
            // Some of the links were not known when the process was to retire.
            self.close_links(key);
        }
        if let Some(how) = self.pools.channels[key].exited.take() {
            let id = self.pools.channels[key].id;
            self.on_slot_exited(id, &how);
            return Ok(());
        }
        self.show_slot(key);
        self.clients.base.agenda.room(self.pools.channels[key].id.pool, key);
        Ok(())
    }

    /// Passes a frame of the process on to the user that has the request. True if that is another worker process.
    pub(crate) fn pass_to_user(
        &mut self,
        key: ChannelKey,
        frame: &FromApp<'_>,
        bytes: &[u8],
    ) -> Result<bool, String> {
        let now = self.clock.now;
        let (number, ends) = match frame {
            FromApp::Done(done) => (done.request, true),
            FromApp::Detach { request, .. } => (*request, true),
            FromApp::Tail { request, .. } | FromApp::TailFile { request, .. } => (*request, false),
            _ => return Ok(false),
        };
        let channel = &mut self.pools.channels[key];
        let Some(away) = channel.away.get(&number).copied() else { return Ok(false) };
        let Some((head, payload)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return Ok(false) };
        let mut header = Header::from_bytes(*head);
        if header.connection != away.number {
            return Err(format!("it spoke of request {number} for another connection"));
        }
        header.request = away.request;
        let descriptor = match (header.descriptors, channel.received.pop_front_if(|_| header.descriptors > 0))
        {
            // The frames that the descriptors belong to are not known any more.
            (1.., _) if channel.astray => {
                header = Header { kind: FILE_LOST, payload_bytes: 0, descriptors: 0, ..header };
                None
            }
            (1.., Some(Arrival::File(passed, _) | Arrival::Other(passed))) => Some(passed),
            (1.., _) => return Err("it sent a frame without its descriptor".into()),
            _ => None,
        };
        let payload = if header.kind == FILE_LOST { &[] } else { payload };
        if ends {
            channel.away.remove(&number);
            channel.note_done(number);
        }
        if let FromApp::Done(done) = frame {
            channel.learn(done.service_us, now);
            if let Some(row) = self.slot_row(key) {
                row.answered(done.status, done.service_us);
            }
        }
        let Some(link) = away.link else { return Ok(true) };
        if let (FromApp::Detach { .. }, Some(link)) = (frame, self.pools.links.get_mut(link)) {
            link.kept.remove(&away.number);
        }
        self.say_to_user(link, header, payload, descriptor);
        Ok(true)
    }

    /// The process has answered PING: users that have sent one get the answer.
    pub(crate) fn pong_to_users(&mut self, key: ChannelKey) {
        let links = self.pools.channels.get(key).map(|channel| channel.links.clone()).unwrap_or_default();
        for link in links {
            let asks = |link: &mut Link| std::mem::take(&mut link.asks);
            if self.pools.links.get_mut(link).is_some_and(asks) {
                self.say_to_user(link, Header { kind: kind::PONG, ..Header::default() }, &[], None);
            }
        }
    }

    fn note_crowded(&mut self, key: LinkKey) {
        let now = self.clock.now;
        self.crowded.add(Waiting::Link(key), now);
    }

    fn say_to_user(&mut self, key: LinkKey, header: Header, payload: &[u8], descriptor: Option<Passed>) {
        let Some(link) = self.pools.links.get_mut(key).filter(|link| !link.broken) else { return };
        let flushed = if link.pass_on(header, payload, descriptor) { link.flush().ok() } else { None };
        if flushed == Some(Flushed::Crowded) {
            self.note_crowded(key);
        } else if flushed.is_none() {
            // Not at once: while frames of a channel are being read, it would seem to have no links, and could be handed over, or
            // be removed.
            link.broken = true;
            self.ready_links.push((key, Token::epoch(link.epoch)));
        }
    }

    /// A worker process that used a channel of this one has gone, or breaks the rules of the link.
    fn end_link(&mut self, key: LinkKey) {
        let now = self.clock.now;
        let shared = self.shared;
        let Some(link) = self.pools.links.try_remove(key) else { return };
        let _ = epoll::delete(&self.epoll, link.socket());
        let Some(channel) = self.pools.channels.get_mut(link.channel) else { return };
        let pool = shared.start.config.pools.get(usize::from(channel.id.pool));
        let period = pool.map_or(STUCK_AFTER, |pool| pool.request_timeout.max(STUCK_AFTER));
        channel.link_ended(key, &link, now + period);
        let (joining, key) = (channel.joining, link.channel);
        if joining {
            return self.fail_worker(key, NOT_HANDED_OVER);
        }
        self.touch(key);
        self.settle_process(key);
    }

    /// The process is to end: its other users send no more requests. Requests that they have sent before are passed on, and so
    /// are later messages that cancel or orphan them.
    pub(crate) fn close_links(&mut self, key: ChannelKey) {
        let links = self.pools.channels.get(key).map(|channel| channel.links.clone()).unwrap_or_default();
        for key in links {
            let open = self.pools.links.get_mut(key).filter(|link| !link.closing);
            if open.map(|link| link.closing = true).is_some() {
                self.say_to_user(key, Header { kind: CLOSING, ..Header::default() }, &[], None);
            }
        }
    }

    /// Returns requests of other users that the process cannot have read, and never will.
    pub(crate) fn give_back_unsent(&mut self, key: ChannelKey) {
        let Some(channel) = self.pools.channels.get_mut(key) else { return };
        for (link, frame) in channel.take_unsent_of_users() {
            if let Some(link) = self.pools.links.get_mut(link) {
                let body_fd = RequestFlags::from_bits(frame.header.flags).is_some_and(|flags| flags.body_fd);
                if frame.header.descriptors > u16::from(body_fd) {
                    link.kept.remove(&frame.header.connection);
                }
            }
            self.give_back_refused(link, key, frame);
        }
    }

    /// Whether no more requests come from its other users.
    pub(crate) fn are_links_drained(&self, channel: &Channel) -> bool {
        channel.links.iter().all(|link| self.pools.links.get(*link).is_none_or(|link| link.drained))
    }

    /// The process has exited: its other users see the end of their links.
    pub(crate) fn drop_links(&mut self, channel: &mut Channel) {
        for key in std::mem::take(&mut channel.links) {
            let Some(link) = self.pools.links.get_mut(key) else { continue };
            let flushed = link.flush();
            if matches!(flushed, Ok(Flushed::Blocked | Flushed::Crowded)) && !link.broken {
                // The link ends after the bytes that its user has still to take.
                link.channel = ChannelKey::NONE;
                if let Ok(Flushed::Crowded) = flushed {
                    self.note_crowded(key);
                }
                continue;
            }
            let link = self.pools.links.remove(key);
            let _ = epoll::delete(&self.epoll, link.socket().as_fd());
        }
    }
}
