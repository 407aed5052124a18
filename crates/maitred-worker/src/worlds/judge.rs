//! What has to be true in a world: after each turn, when nothing can happen, and at its end.

use maitred_http::h2::StreamKey;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::time;
use super::world::World;
use crate::connection::State;
use crate::connection::table::Phase;
use crate::connection::wire::Wire;
use crate::entry::Entry;
use crate::handoff::RELAY_BIT;
use crate::handoff::link::TAG_BITS;
use crate::keys::ConnKey;
use crate::proxy::List;
use crate::reactor::Reactor;
use crate::shared::Shared;
use crate::upstream::{Attempt, Source};
use maitred_base::passed::Helpers;
use std::sync::atomic::Ordering::Relaxed;

impl World<'_> {
    /// After each turn: the tables of a thread are consistent.
    pub(super) fn check(&self, thread: usize) {
        let Some(reactor) = &self.reactors[thread] else { return };
        if let Err(why) = is_consistent(reactor) {
            self.fail(&format!("thread {thread}: {why}"));
        }
    }

    /// When nothing can happen at this time: no request waits for room that is there.
    pub(super) fn check_quiet(&self) {
        for generation in 0..=self.generation {
            self.check_quiet_process(generation);
        }
        self.check_servers();
    }

    fn check_quiet_process(&self, generation: usize) {
        let shared = self.stage.shared[generation];
        let reactors = &self.reactors[generation * self.stage.kind.threads..][..self.stage.kind.threads];
        if shared.in_transit.load(Relaxed) > 0 {
            self.fail("a connection is on its way, and nobody expects it");
        }
        (0..self.stage.kind.pools.len()).for_each(|pool| self.check_quiet_pool(shared, reactors, pool));
        let helps = shared.disk.queued() > 0 || shared.passed.iter().any(Helpers::has_jobs);
        for reactor in reactors.iter().flatten() {
            let mut all = reactor.connections.iter().map(|(index, _)| index);
            if let Some(index) = all.find(|index| !helps && awaits_helper(reactor, *index)) {
                self.fail(&format!("connection {index} waits for helpers, which have nothing to do"));
            }
            if let Some(index) =
                reactor.connections.iter().map(|(index, _)| index).find(|index| is_forgotten(reactor, *index))
            {
                self.fail(&format!("connection {index} waits for a process that is done with its request"));
            }
            let left = |index: &ConnKey| has_upstream_ended(reactor, *index);
            let mut all = reactor.connections.iter().map(|(index, _)| index);
            if let Some(index) = all.find(left) {
                self.fail(&format!("connection {index} waits for a server that has closed"));
            }
        }
    }

    fn check_quiet_pool(&self, shared: &Shared, reactors: &[Option<Reactor>], pool: usize) {
        let threads = || reactors.iter().flatten();
        let busy = |reactor: &Reactor| {
            let all = reactor.upstreams.connections.iter();
            all.filter(|(_, found)| usize::from(found.at.0) == pool && found.index.is_some()).count()
        };
        let busy = threads().map(busy).sum::<usize>();
        let said: Option<u32> =
            shared.pools[pool].servers.as_ref().map(|servers| servers.loads().iter().sum());
        if let Some(said) = said
            && busy != said as usize
        {
            self.fail(&format!("servers of pool {pool} are said to have {said} requests, and have {busy}"));
        }
        let queued: usize = threads().map(|reactor| reactor.pools.pools[pool].queue.len()).sum();
        if queued as u64 != shared.queued(pool) {
            self.fail(&format!(
                "{} requests are said to wait for pool {pool}, {queued} do",
                shared.queued(pool)
            ));
        }
        let anybody = |reactor: &&Reactor| {
            let any = |index: &ConnKey| reactor.pin_of(*index).is_none();
            reactor.pools.pools[pool].queue.iter().any(any)
        };
        let places = |reactor: &Reactor| reactor.upstreams.list(pool as u16).is_some_and(List::has_place);
        if queued > 0 && threads().any(places) {
            self.fail(&format!("{queued} requests wait for pool {pool}, of which a server has a place"));
        }
        let room: u32 = threads().map(|reactor| reactor.pools.room(pool).0).sum();
        if room > 0 && threads().any(|reactor| anybody(&reactor)) {
            self.fail(&format!("a request waits for pool {pool}, which has room for {room}"));
        }
    }

    /// Judges every client of the world.
    pub(super) fn judge(&self) {
        for (at, client) in self.clients.iter().enumerate() {
            if let Err(why) = client.model.ended(&client.received, client.early) {
                self.fail(&format!(
                    "client {at}: {why}; received {}, left {}, cut {}",
                    client.received.len(),
                    client.model.left,
                    client.model.cut
                ));
            }
        }
    }

    /// The server stops, and has nothing left.
    pub(super) fn close(&mut self) {
        if !self.draining {
            self.drain();
        }
        (0..self.puppets.len()).for_each(|at| self.retire(at));
        let began = time::now();
        loop {
            self.settle();
            if self.work() {
                continue;
            }
            if self.reactors.iter().all(Option::is_none) {
                break;
            }
            self.wait_for_time(began);
        }
        // What the threads had open when they ended, and messages to them that came later.
        self.help(usize::MAX);
        self.stage.shared.iter().flat_map(|shared| &shared.inboxes).for_each(|inbox| drop(inbox.take()));
        self.help(usize::MAX);
        let left = self.stage.leftovers();
        if !left.is_empty() {
            self.fail(&format!("left over: {}", left.join(", ")));
        }
    }
}

/// Whether a response has come through its relay as a whole, the client has taken it, and the connection does not go on.
fn is_forgotten(reactor: &Reactor, index: ConnKey) -> bool {
    let Some(exchange) = reactor.exchange_of(index) else { return false };
    let done = reactor.attempt_of(index).and_then(Attempt::handed).is_some_and(|handed| handed.done);
    let is_out =
        exchange.outgoing.is_empty() && !exchange.outgoing.has_returned() && !reactor.has_output(index);
    done && is_out && !exchange.outgoing.awaits_disk && !reactor.is_tunnel(index)
}

/// Whether everything that a server has sent was read, its connection has ended, and the client has all that there was.
fn has_upstream_ended(reactor: &Reactor, index: ConnKey) -> bool {
    let Some(Source::Server(key)) = reactor.source_of(index) else { return false };
    let Some(socket) = reactor.upstreams.socket(key) else { return false };
    let ended = match recv(socket, &mut [0; 1][..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((bytes, _)) => bytes == 0,
        Err(error) => error != Errno::AGAIN,
    };
    ended && !reactor.has_output(index) && !reactor.is_tunnel(index) && !is_spilling(reactor, index)
}

/// Whether a helper is to read or write something for a connection.
fn awaits_helper(reactor: &Reactor, index: ConnKey) -> bool {
    let at = reactor.connections.get(index).map(|connection| connection.state.phase());
    matches!(at, Some(Phase::Disk | Phase::Spooling))
        || reactor.exchange_of(index).is_some_and(|exchange| exchange.outgoing.awaits_disk)
        || is_spilling(reactor, index)
}

/// Whether a helper is to write what was read last.
fn is_spilling(reactor: &Reactor, index: ConnKey) -> bool {
    let exchange = reactor.exchange_of(index);
    let overflow = exchange.and_then(|exchange| exchange.outgoing.overflow.as_deref());
    overflow.is_some_and(|overflow| overflow.writing.is_some())
}

fn is_consistent(reactor: &Reactor) -> Result<(), String> {
    if reactor.row.panics.get() > 0 {
        return Err("it panicked".into());
    }
    // What a turn has put into frames leaves with it: the thread may wait for an event after that.
    let sessions = reactor.unsent_sessions.iter().filter(|key| reactor.sessions.contains(**key));
    let (sessions, channels) = (sessions.count(), reactor.dirty.len());
    if sessions + channels > 0 {
        return Err(format!("{sessions} HTTP/2 connections and {channels} channels are not flushed"));
    }
    for (index, connection) in reactor.connections.iter() {
        if let Some(what) = connection.stray() {
            return Err(format!("connection {index} holds {what} in state {:?}", connection.state));
        }
        belongs_to(reactor, index, connection)?;
        has_deadline(reactor, index, connection)?;
    }
    is_known(reactor)
}

/// What a connection says about who has it, or what it has, is also said there.
fn belongs_to(reactor: &Reactor, index: ConnKey, connection: &Entry) -> Result<(), String> {
    if let Wire::Stream { session, stream } = connection.wire {
        let streams = reactor.sessions.get(session).map(|http2| &http2.streams);
        let found = streams.and_then(|streams| streams.get(StreamKey(stream).slot()));
        if found.is_none_or(|found| found.index != index) {
            return Err(format!("connection {index} is a stream that its session does not have"));
        }
    }
    match &connection.state {
        State::HandedOff { channel, request, .. } => {
            let channel = reactor.pools.channels.get(*channel);
            let found = channel.and_then(|channel| channel.in_flight.get(request));
            let is_it = |number: u32| number & !TAG_BITS == index.number();
            if found.is_none_or(|found| found.index != Some(index) || !is_it(found.number)) {
                return Err(format!("connection {index} is with a process that does not have it"));
            }
        }
        State::Upstream(attempt) => {
            let has = match attempt.source() {
                Source::Fill => Some(index),
                Source::Relay(key) => reactor.pools.relays.get(key).and_then(|relay| relay.index),
                Source::Server(key) | Source::Thread(key) => {
                    reactor.upstreams.connections.get(key).and_then(|upstream| upstream.index)
                }
            };
            if has != Some(index) {
                return Err(format!("connection {index} has {:?}, which is not its own", attempt.source()));
            }
        }
        State::Queued { pool, .. } if !reactor.pools.pools[usize::from(*pool)].queue.contains(&index) => {
            return Err(format!("connection {index} waits in no queue"));
        }
        _ => {}
    }
    Ok(())
}

/// Whatever waits for a peer has a deadline.
fn has_deadline(reactor: &Reactor, index: ConnKey, connection: &Entry) -> Result<(), String> {
    match connection.state {
        State::Spooling | State::Disk | State::Command => {}
        // A helper has it, whose time does not count against the client.
        State::Writing | State::Upstream(_)
            if reactor.exchange_of(index).is_some_and(|exchange| exchange.outgoing.awaits_disk) => {}
        // The streams of the session have deadlines.
        State::Multiplexed { session }
            if reactor.sessions.get(session).is_some_and(|http2| http2.session.streams() > 0) => {}
        _ if !reactor.wheel.is_armed(index) && !connection.is_stream() => {
            return Err(format!("connection {index} is {:?} without a deadline", connection.state));
        }
        _ => {}
    }
    Ok(())
}

/// What upstreams, processes and queues say about connections is also said by these.
fn is_known(reactor: &Reactor) -> Result<(), String> {
    for (key, upstream) in reactor.upstreams.connections.iter() {
        let Some(index) = upstream.index else { continue };
        let state = reactor.connections.get(index).map(|connection| &connection.state);
        let is_it = |source| source == Source::Server(key) || source == Source::Thread(key);
        if !reactor.source_of(index).is_some_and(is_it) {
            return Err(format!(
                "a connection to a server belongs to connection {index}, which is {state:?}"
            ));
        }
    }
    for (_, channel) in reactor.pools.channels.iter() {
        for (request, found) in &channel.in_flight {
            let (Some(index), false) = (found.index, found.number & RELAY_BIT != 0) else { continue };
            let state = reactor.connections.get(index).map(|connection| &connection.state);
            if !matches!(state, Some(State::HandedOff { request: other, .. }) if *other == *request) {
                return Err(format!("request {request} belongs to connection {index}, which is {state:?}"));
            }
        }
    }
    for pool in &reactor.pools.pools {
        for index in &pool.queue {
            let state = reactor.connections.get(*index).map(|connection| &connection.state);
            if !matches!(state, Some(State::Queued { .. })) {
                return Err(format!("connection {index} is queued, and {state:?}"));
            }
        }
    }
    Ok(())
}
