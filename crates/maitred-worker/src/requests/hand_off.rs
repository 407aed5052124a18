//! Requests on their way to application processes: which process gets a request, by which transport, and the queue of a pool.
//!
//! A connection in `HandedOff` belongs to the application process; only `DONE`, the loss of the process or the request's deadline
//! return it. The socket stays in the epoll set meanwhile, and what epoll reports is noted.
//!
//! | transport | the process writes to | the connection meanwhile |
//! |---|---|---|
//! | direct | the client's own socket | is the process's until DONE (`HandedOff`) |
//! | relay | a socketpair, which it keeps and uses again | is Maitred's (`Upstream`) |
//! | after DETACH | the same as before, for good | is the process's, or a tunnel |
//!
//! Where the client's socket must not be given away and no relay can be had, the answer is 503. Where it may be, `"auto"` takes
//! what costs less CPU time per request ([`handoff::Choice`](crate::handoff::Choice)).
//!
//! A thread that is not home to any process of the pool sends the *connection* to one that is.

use std::os::fd::OwnedFd;
use std::time::Instant;

use maitred_handoff::{HeadPart, META_BYTES_MAX, MetaPart, RequestFlags, begin_request, encode_trailers};
use maitred_http::cache::overridden;
use maitred_http::fields::FieldLines;
use maitred_http::h1::Persistence;
use maitred_http::request::{Framing, Method, Request, Version};
use maitred_http::response::Filter;

use super::Requests;
use crate::clients::forwarded::Outbound;
use crate::connection::incoming::Incoming;
use crate::connection::refusal::RETRY_SOON;
use crate::connection::spool::Spool;
use crate::connection::wire::Wire;
use crate::connection::{After, Connection, State};
use crate::entry::{Entry, SocketKind};
use crate::facts::identity::{USER_BYTES_MAX, User};
use crate::forward::{may_be_informed, protocol, takes_trailers};
use crate::frame::{append_body, append_no_body, payload_bytes_max};
use crate::handoff::{Channel, SentBody};
use crate::inbox::{ConnectionTransfer, Origin};
use crate::keys::{ChannelKey, ConnKey, RelayKey};
use crate::origin::Client;
use crate::processes::Processes;
use crate::shared::Local;
use crate::step::{RequestInput, Step};
use crate::upstream::relay::Handed;
use crate::upstream::remote_thread::RemoteRequest;
use maitred_config::{Address, Mirror, MirrorChoice, Pool, Transport};
use maitred_files::RequestContext;
use maitred_policy::plan::Plan;
use maitred_policy::target::Target;

impl Requests {
    /// Sends a request to a pool: to a process here, to a thread that has one with room, or into the queue.
    pub(crate) fn send_to_pool(
        &mut self,
        index: ConnKey,
        pool: usize,
        context: &RequestContext<'_>,
        given: RequestInput<'_>,
    ) -> Step {
        if !self.buffers.tx.is_empty() {
            // The process writes to the socket itself: what was answered before has to be out first.
            return Step::FlushFirst;
        }
        let target = Target::routed(context.request, given.routed.plan.slashes);
        if let Err(reject) = target.check_for(&self.shared.start.config.pools[pool]) {
            return self.answer_bad_target(index, context.request, given, reject);
        }
        self.note_traits(index, context.request, given);
        if let Some(mirror) = given.routed.plan.overrides.mirror.as_ref().and_then(MirrorChoice::target) {
            self.mirror(index, (context.request, (target, context.path)), given.body, mirror);
        }
        if self.shared.start.config.pools[pool].source.servers().is_some() {
            return match self.proxy(index, pool, context, given) {
                Some(step) => step,
                None => self.wait_for_server(index, pool, context, given),
            };
        }
        if let Some((slot, home)) = self.pinned(index, pool, context.request) {
            if home != self.number {
                self.note_waiting(index);
                self.keep(index, context.request, given);
                // Room of this thread may have been offered to the request while it was not pinned: another request may use it.
                self.publish_room(pool);
                return Step::Moves(pool as u16, home);
            }
            return match self.pools.choose_slot(pool, slot, self.clock.now) {
                Some(key) => self.hand_off(index, key, context, given),
                None => self.enqueue(index, (pool, Some(slot)), context, given),
            };
        }
        if let Some(key) = self.pools.choose(pool, self.clock.now) {
            return self.hand_off(index, key, context, given);
        }
        if let Some(thread) = self.better_home(pool) {
            self.note_waiting(index);
            self.keep(index, context.request, given);
            return Step::Moves(pool as u16, thread);
        }
        self.enqueue(index, (pool, None), context, given)
    }

    /// Sends a copy of a request to another pool, once, if all of its body is at hand.
    fn mirror(
        &mut self,
        index: ConnKey,
        asked: (&Request<'_, '_>, (Target<'_>, &[u8])),
        body: &[u8],
        mirror: &Mirror,
    ) {
        if self.connections[index].internal || std::mem::replace(&mut self.gated(index).mirrored, true) {
            return;
        }
        if !mirror.takes(self.forwarded.next_id()) {
            return;
        }
        let kept = &self.exchange(index).body;
        let whole = kept.spool.is_none() && matches!(kept.incoming, Incoming::Nothing | Incoming::Complete);
        let sent = whole && self.send_copy(index, asked, body, mirror);
        let row = self.row;
        if sent { row.mirrored.add(1) } else { row.mirrors_left_out.add(1) }
    }

    /// Moves a connection to another thread, with the request that it keeps and what was received after that. A thread at
    /// `connections_per_thread_max` gets the request alone.
    pub(crate) fn transfer_connection(&mut self, index: ConnKey, pool: u16, thread: usize) {
        let connection = &self.connections[index];
        if connection.is_stream() || !connection.internal && !self.shared.claim(thread) {
            return self.send_to_thread(index, pool, thread);
        }
        let claimed = !connection.internal;
        self.unwatch(index);
        let connection = &mut self.connections[index];
        let mut exchange = connection.exchange.take().unwrap_or_default();
        let input = std::mem::take(&mut exchange.input);
        let request = exchange.into_request();
        let wire = connection.wire;
        let secure = self.take_tls_session(wire);
        // Counted before it is removed here, so that it is counted at all times.
        self.shared.begin_transfer();
        let Some(Entry { socket: Some(socket), listen, kind, connection, .. }) = self.remove(index) else {
            if claimed {
                self.shared.yield_place(thread);
            }
            return self.shared.end_transfer();
        };
        let transfer = ConnectionTransfer {
            remote: connection.remote.address,
            listen,
            requests: connection.requests,
            idle: connection.idle,
            input,
            request,
            text: Vec::new(),
            origin: Origin::ForSlot,
            awaits_proxy: false,
            foreign: kind == SocketKind::UnixClient,
            secure,
            socket,
        };
        self.shared.send_on(thread, transfer);
    }

    /// Lets a request wait for a process, or for that of one slot, if there is room in the queue.
    fn enqueue(
        &mut self,
        index: ConnKey,
        (pool, pin): (usize, Option<u16>),
        context: &RequestContext<'_>,
        given: RequestInput<'_>,
    ) -> Step {
        let settings = &self.shared.start.config.pools[pool];
        if self.is_unavailable(pool) {
            return self.refuse_queued(index, pool, context, given);
        }
        let Some(before) = self.shared.join_queue(pool, u64::from(settings.queue_max)) else {
            return self.refuse_queued(index, pool, context, given);
        };
        if before == 0 {
            self.report_pressure(pool);
        }
        self.note_waiting(index);
        self.keep(index, context.request, given);
        self.enter(index, State::Queued { pool: pool as u16, pin });
        self.arm_in(index, settings.queue_timeout);
        let local = &mut self.pools.pools[pool];
        local.queue.push_back(index);
        local.pinned += usize::from(pin.is_some());
        self.publish_room(pool);
        // A thread that got room since it was looked at may not have seen yet that a request waits.
        if pin.is_none()
            && let Some(thread) = self.roomy_thread(pool)
        {
            self.leave_queue(index);
            self.publish_room(pool);
            return Step::Moves(pool as u16, thread);
        }
        Step::Waits
    }

    /// Answers all requests that wait for a pool which has become unavailable: each is looked at anew, and refused.
    pub(crate) fn empty_queue(&mut self, pool: usize) {
        while self.is_unavailable(pool) {
            let Some(index) = self.pools.pools[pool].queue.front().copied() else { break };
            self.leave_queue(index);
            self.resume(index);
        }
        self.publish_room(pool);
    }

    /// Answers 503. The reason is in the log and in the status only: it may name commands and files, which are not for clients.
    /// But a person who has started the application by one line, at this machine, is shown what it said.
    pub(super) fn refuse_queued(
        &mut self,
        index: ConnKey,
        pool: usize,
        context: &RequestContext<'_>,
        given: RequestInput<'_>,
    ) -> Step {
        self.row.queue_refused.add(1);
        let why = self.shared.trouble(pool).unwrap_or_else(|| "its queue is full".to_owned());
        if let Some(words) = self.last_words(index, pool, context.request) {
            return self.pool_error_in_words(
                index,
                pool,
                context.request,
                given,
                &format!("{why}\n\n{words}"),
            );
        }
        self.note_unavailable(index, pool, context.request, &why);
        self.pool_error(index, pool, context.request, given, 503)
    }

    /// `queue_timeout` of a request that waits for a process of this pool has passed.
    pub(crate) fn on_queue_timeout(&mut self, index: ConnKey, pool: usize) {
        self.row.queue_refused.add(1);
        self.leave_queue(index);
        self.name_for_pool(index, pool);
        self.refuse_kept(index, 503, RETRY_SOON);
    }

    /// Ends a connection whose client has gone while its request waited.
    pub(crate) fn give_up(&mut self, index: ConnKey) {
        self.leave_queue(index);
        self.abort_unanswered(index);
    }

    /// Writes the request's frame; it leaves with all others of this turn.
    fn hand_off(
        &mut self,
        index: ConnKey,
        key: ChannelKey,
        context: &RequestContext<'_>,
        given: RequestInput<'_>,
    ) -> Step {
        if !self.register(index) {
            self.close(index);
            return Step::Gone;
        }
        let passes = self.passes_body(index);
        if passes && !self.pools.channels[key].streams {
            return self.read_body_first(index, context.request, given);
        }
        let pool = self.pools.channels[key].id.pool;
        let queue_us = self.waited_us(index);
        let cookie = self.cookie_for(index, key, context.request);
        // Fields that Maitred adds need a relay, and so does a connection whose number is still in use on the channel.
        let relayed = cookie.is_some() || self.pools.channels[key].is_taken(index.number());
        let (plan, last) = (given.routed.plan, RequestInput { last: true, ..given });
        let way = if relayed {
            ChosenTransport::Relay
        } else {
            let chosen = self.choose_transport(index, key, context.request, plan);
            self.allow_direct(index, key, context.request, chosen)
        };
        self.exchange(index).dispatch.set_cookie = cookie;
        self.give_up_idle_relay(key, way == ChosenTransport::Direct);
        let relay = if way == ChosenTransport::Direct { None } else { self.take_relay(key).ok() };
        if way == ChosenTransport::Relay && relay.is_none() {
            // A lack of descriptors is no reason to give away what must not be.
            return self.pool_error(index, pool.into(), context.request, last, 503);
        }
        let relay_key = relay.as_ref().map(|(relay, _)| *relay);
        // A body that goes on is read to its end, and one that has no process is not.
        let keep = self.persistence(index, context.request, given.last && !passes) != Persistence::Close;
        let given = RequestInput { last: given.last || passes, ..given };
        let sent = Sent { relay, queue_us, keep };
        let Some((request, may_detach)) = self.write_frame(index, key, context, given, sent) else {
            // The far end of the relay may have been dropped with the frame.
            relay_key.into_iter().for_each(|relay| self.drop_relay(relay));
            return self.pool_error(index, pool.into(), context.request, last, 413);
        };
        self.note_handed_off(index, pool, queue_us, context.request, given);
        match relay_key {
            Some(relay) => {
                let handed = Handed::new(relay, (key, request), may_detach);
                self.start_relayed(index, handed, context.request, keep);
            }
            None => {
                self.exchange(index).after = Some(if keep { After::Keep } else { After::Close });
                self.connections[index].shared = true;
                self.enter(index, State::HandedOff { channel: key, request, may_detach });
            }
        }
        self.count_handoff(index, key, queue_us);
        Step::Waits
    }

    /// The response will come through this relay, and the body goes there, unless it was in the frame.
    fn start_relayed(&mut self, index: ConnKey, handed: Handed, request: &Request<'_, '_>, keep: bool) {
        let relay = handed.relay;
        let pool = self.pools.channels[handed.request.0].id.pool;
        let settings = &self.shared.start.config.pools[usize::from(pool)];
        let filter = Filter::new(self.wanted(index, request, keep, settings));
        self.start_relay(index, handed, filter, keep);
        match self.passes_body(index) {
            true => self.start_relay_body(index, relay, request.framing),
            false => self.start_feed(index, relay),
        }
    }

    /// A process has the request now.
    fn count_handoff(&mut self, index: ConnKey, key: ChannelKey, queue_us: u64) {
        let pool = self.pools.channels[key].id.pool;
        let due = self.first_due(index, pool);
        self.wheel.arm(index, due);
        self.row.handoffs.add(1);
        self.row.queue_us.add(queue_us);
        let handed = &self.shared.pools[usize::from(pool)].handed[self.number];
        handed.requests.add(1);
        handed.wait_us.add(queue_us);
        self.touch(key);
        self.show_slot(key);
    }

    /// A process that has no room for another descriptor closes an unused relay when it gets a connection.
    fn give_up_idle_relay(&mut self, key: ChannelKey, direct: bool) {
        let channel = &self.pools.channels[key];
        let idle = channel.idle_relays.first();
        if let Some(relay) = idle.filter(|_| direct && channel.known.is_empty() && channel.is_full()) {
            self.drop_relay(relay);
        }
    }

    /// Keeps what the log, an error and a retry need.
    fn note_handed_off(
        &mut self,
        index: ConnKey,
        pool: u16,
        queue_us: u64,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
    ) {
        let now = self.clock.now;
        let safe = matches!(request.method, Method::Get | Method::Head) && request.framing == Framing::None;
        // Also for the log, and for the case that no process ever reads the request.
        self.keep_head(index, request, given);
        let exchange = self.exchange(index);
        exchange.dispatch.retry = exchange.dispatch.retry.of_attempt(safe);
        exchange.body.content.clear();
        exchange.last = given.last;
        exchange.dispatch.begin(pool, queue_us, now);
    }

    /// Writes the frame of a request to the channel, and gives back the request's number there, and whether the process may
    /// keep the connection. `None` if it is too large, and
    /// nothing was written.
    fn write_frame(
        &mut self,
        index: ConnKey,
        key: ChannelKey,
        context: &RequestContext<'_>,
        given: RequestInput<'_>,
        sent: Sent,
    ) -> Option<(u32, bool)> {
        let (now, shared, request) = (self.clock.now, self.shared, context.request);
        let settings = &shared.start.config.pools[usize::from(self.pools.channels[key].id.pool)];
        // A process that takes the client's own socket over reads from it, where bytes that were read already are missing.
        let switch = protocol(request, settings).filter(|_| sent.relay.is_some() || !given.followed);
        let streams = self.passes_body(index);
        let (plan, queue_us) = (given.routed.plan, sent.queue_us);
        let rules = &plan.requests;
        let may = ResponseMay::of(&self.connections[index], request, settings, (plan, streams));
        let trailers = self.outbound_trailers(index, request, settings, rules);
        let (across, spool, id) = self.take_for_frame(index);
        let Processes { clients, pools, .. } = &mut self.exchanges.processes;
        let (connection, channel) = (&clients.connections[index], &mut pools.channels[key]);
        let way = BodyWay::of(streams, spool.as_deref(), channel.sockets_only);
        let flags = flags_of(request, sent.keep, way, switch.is_some());
        let (connection_number, number, passes) = sent.enter(channel, index, now);
        let descriptors = u16::from(passes) + u16::from(flags.body_fd);
        let peer = &connection.peer();
        let client = &Client::of(request, peer, &shared.start.config.server.trusted_proxies);
        let local = shared.locals.get(usize::from(connection.listen));
        let tagged = connection_number | channel.tag;
        trailers.iter().for_each(|trailers| append_trailers(channel.out(), tagged, number, trailers));
        let meta = begin_request(channel.out(), tagged, number, flags, descriptors);
        let who = (client, clients.identity(index).user());
        let meta = append_meta(meta, who, local, settings, may).number("queue_us", queue_us);
        let target = Target::routed(request, plan.slashes).for_pool(settings, context.path);
        let mut head = meta.head(request.method_text, &target);
        let outbound = Outbound {
            request,
            rules,
            settings,
            default_host: "localhost",
            switch,
            peer,
            client,
            target: &target,
            id,
            tls_fields: across.as_deref().map_or(&[], |across| &across.fields),
        };
        let _ = clients.append_outbound(index, &mut head, outbound);
        let most = payload_bytes_max(shared.start.config.limits.body_inline_bytes_max);
        let fits = way.end(head, request, (given.body, spool.as_deref()), most);
        channel.note_body(number, way.sent(given.body));
        match (fits, spool) {
            (true, Some(spool)) if flags.body_fd => {
                channel.carry_body((spool.file.into(), spool.held), spool.kept)
            }
            (true, spool) => self.exchange(index).body.spool = spool,
            (false, _) => channel.withdraw(number),
        }
        self.exchange(index).dispatch.across = across;
        fits.then_some((number, switch.is_some()))
    }

    /// What a frame takes along: what another thread has said of the request, its spooled body, and its id.
    fn take_for_frame(&mut self, index: ConnKey) -> (Option<Box<RemoteRequest>>, Option<Box<Spool>>, u128) {
        let new_id = self.forwarded.next_id();
        let exchange = self.exchange(index);
        let (across, spool) = (exchange.dispatch.across.take(), exchange.body.spool.take());
        let id =
            across.as_deref().map_or_else(|| exchange.dispatch.id_or(new_id), |across| across.request_id);
        exchange.dispatch.set_request_id(id);
        (across, spool, id)
    }

    /// What a request is answered on: a relay, where the client's own socket must not, or cannot, be given away, and where
    /// a relay has been found to be cheaper.
    fn choose_transport(
        &self,
        index: ConnKey,
        key: ChannelKey,
        request: &Request<'_, '_>,
        plan: &Plan,
    ) -> ChosenTransport {
        let number = usize::from(self.pools.channels[key].id.pool);
        let pool = &self.shared.start.config.pools[number];
        // A connection that is passed for good costs nothing more afterwards.
        let cheaper = self.pools.pools.get(number).is_some_and(|pool| pool.choice.relays())
            && protocol(request, pool).is_none();
        let connection = &self.connections[index];
        let framed = connection.is_stream();
        let not_tcp = connection.is_foreign() || connection.remote.address.is_none();
        self.row.relayed_isolated.add(u64::from(pool.isolate));
        self.row.relayed_framed.add(u64::from(framed && !pool.isolate));
        self.row.relayed_not_tcp.add(u64::from(not_tcp && !framed && !pool.isolate));
        match pool.transport {
            Transport::Relay => ChosenTransport::Relay,
            _ if plan.needs_response => ChosenTransport::Relay,
            // What is said about responses that the cache keeps.
            _ if plan.site_keeps && !connection.internal && says_of_others(request) => ChosenTransport::Relay,
            _ if pool.isolate || framed || not_tcp => ChosenTransport::Relay,
            _ if self.feeds(index, key) || self.passes_body(index) => ChosenTransport::Relay,
            Transport::Auto if cheaper => ChosenTransport::RatherRelay,
            Transport::Auto | Transport::Direct => ChosenTransport::Direct,
        }
    }

    /// A client's socket of TLS is given away only if the kernel encrypts what is written to it, and if nothing is read from it:
    /// what a client sends is for the session here.
    fn allow_direct(
        &mut self,
        index: ConnKey,
        key: ChannelKey,
        request: &Request<'_, '_>,
        chosen: ChosenTransport,
    ) -> ChosenTransport {
        let Wire::Tls { session } = self.connections[index].wire else { return chosen };
        if chosen == ChosenTransport::Relay {
            return chosen;
        }
        let pool = &self.shared.start.config.pools[usize::from(self.pools.channels[key].id.pool)];
        let direct = chosen == ChosenTransport::Direct
            && protocol(request, pool).is_none()
            && self.send_by_kernel(index, session) == Ok(true);
        if direct {
            return chosen;
        }
        self.row.relayed_framed.add(1);
        ChosenTransport::Relay
    }

    /// Gives waiting requests to processes that have room.
    pub(crate) fn serve_queue(&mut self, pool: usize) {
        while let Some(at) = self.next_served(pool) {
            let Some(index) = self.pools.pools[pool].queue.get(at).copied() else { break };
            self.leave_queue(index);
            self.resume(index);
        }
        self.tell_room(pool);
        self.publish_room(pool);
    }

    /// Another thread has room: the request that waits longest goes there.
    pub(crate) fn on_offer(&mut self, pool: usize, thread: usize) {
        let Some(waiting) = self.pools.pools.get(pool).map(|pool| &pool.queue) else { return };
        let Some(index) = waiting.iter().copied().find(|index| self.pin_of(*index).is_none()) else {
            // The waiting request has gone meanwhile: the offer is passed on to another thread.
            return self.offer(pool, thread);
        };
        self.leave_queue(index);
        self.transfer_connection(index, pool as u16, thread);
        self.publish_room(pool);
    }
}

/// What a request is answered on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChosenTransport {
    /// The client's own socket.
    Direct,
    /// A relay, if there is one.
    RatherRelay,
    /// A relay, and nothing else.
    Relay,
}

/// How a request is sent.
struct Sent {
    /// The relay that the response comes through, with its far end if that has to be passed; `None` for direct.
    relay: Option<(RelayKey, Option<OwnedFd>)>,
    /// How long the request has waited, in microseconds.
    queue_us: u64,
    /// Whether the connection will be kept.
    keep: bool,
}

impl Sent {
    /// Enters the request into the channel: the number of the connection or relay that it is answered on, its own number, and
    /// whether a descriptor has to come along.
    fn enter(self, channel: &mut Channel, index: ConnKey, now: Instant) -> (u32, u32, bool) {
        match self.relay {
            Some((relay, far_end)) => {
                let connection_number = relay.known_as();
                let (number, passes) = channel.enter_relay(connection_number, index, far_end, now);
                (connection_number, number, passes)
            }
            None => {
                let (number, passes) = channel.enter_direct(index, now);
                (index.number(), number, passes)
            }
        }
    }
}

/// What a response may have besides the head and the content that the application makes: the client takes it, or the operator
/// wants it.
#[derive(Clone, Copy)]
struct ResponseMay {
    early_hints: bool,
    trailers: bool,
    /// The client waits for a 100 (Continue) before it sends the body, which is passed on as it comes.
    continues: bool,
    /// The response may say `Server` where the application does not.
    server_header: bool,
}

impl ResponseMay {
    fn of(
        connection: &Connection,
        request: &Request<'_, '_>,
        settings: &Pool,
        (plan, streams): (&Plan, bool),
    ) -> ResponseMay {
        ResponseMay {
            continues: streams && request.expects_continue,
            early_hints: may_be_informed(connection, request, settings),
            trailers: takes_trailers(connection, request),
            server_header: !plan.anonymous,
        }
    }
}

/// How a process gets the body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyWay {
    /// In the frame.
    Inline,
    /// As a file.
    File,
    /// Through the relay: from a file, or while it comes.
    Stream,
}

impl BodyWay {
    /// `streams`: it has yet to come. Otherwise it is whole.
    fn of(streams: bool, spool: Option<&Spool>, sockets_only: bool) -> BodyWay {
        match (streams, spool) {
            (true, _) => BodyWay::Stream,
            (false, None) => BodyWay::Inline,
            (false, Some(_)) if sockets_only => BodyWay::Stream,
            (false, Some(_)) => BodyWay::File,
        }
    }

    /// Ends a head, with what is there of the body if that belongs to the frame. False if all of it is too large.
    fn end(
        self,
        head: HeadPart<'_>,
        request: &Request<'_, '_>,
        (body, spool): (&[u8], Option<&Spool>),
        payload_bytes_max: u32,
    ) -> bool {
        match (self, spool) {
            (BodyWay::Stream, None) => append_no_body(head, request, payload_bytes_max),
            _ => append_body(head, request, body, spool, payload_bytes_max),
        }
    }

    /// Where the body is that has gone that way.
    fn sent(self, body: &[u8]) -> SentBody {
        match self {
            BodyWay::Inline => SentBody::Inline(body.len()),
            BodyWay::File => SentBody::Carried,
            BodyWay::Stream => SentBody::Elsewhere,
        }
    }
}

/// What a process is told of a request besides its head.
fn flags_of(request: &Request<'_, '_>, keep: bool, way: BodyWay, may_detach: bool) -> RequestFlags {
    RequestFlags {
        keep,
        http10: request.version == Version::Http10,
        head: request.method == Method::Head,
        body_fd: way == BodyWay::File,
        may_detach,
        body_stream: way == BodyWay::Stream,
    }
}

/// Appends the frame of the trailers of the request that is appended next. More than the protocol allows are left out: they were
/// within the bounds of HTTP/2, which has none for their number.
#[cold]
fn append_trailers(out: &mut Vec<u8>, connection: u32, request: u32, trailers: &FieldLines) {
    let fields = trailers.all().iter();
    let fields = fields.map(|(name, value)| (std::str::from_utf8(name).unwrap_or_default(), value));
    encode_trailers(out, connection, request, fields);
}

/// The longest name of a user, mount and root of files fit into one meta part, beside all else that stands there: two addresses
/// and numbers.
const _: () = assert!(
    USER_BYTES_MAX + Pool::MOUNT_BYTES_MAX + Pool::SENDFILE_ROOT_BYTES_MAX + 512 <= META_BYTES_MAX as usize
);

/// Appends the meta lines about the client, and the address that it connected to. An end that has no address is `0.0.0.0`: what
/// applications take for an address has to be one, and that is none which they trust.
fn append_meta<'o>(
    mut meta: MetaPart<'o>,
    (client, user): (&Client, Option<&User>),
    local: Option<&Local>,
    pool: &Pool,
    may: ResponseMay,
) -> MetaPart<'o> {
    if let Some(remote) = client.remote.address {
        let (open, close) = if remote.is_ipv6() && client.remote.bytes().contains(&b':') {
            ("remote=[", "]:")
        } else {
            ("remote=", ":")
        };
        let mut port = itoa::Buffer::new();
        meta = meta.prepared(open.as_bytes()).prepared(client.remote.bytes()).prepared(close.as_bytes());
        meta = meta.prepared(port.format(remote.port()).as_bytes()).prepared(b"\n");
    } else {
        meta = meta.line("remote", "0.0.0.0:0");
    }
    match local.map(|local| (&local.address, &local.text)) {
        None => {}
        Some((Some(Address::Unix(_)), _)) => meta = meta.line("local", no_address(client.https)),
        Some((_, text)) => meta = meta.line("local", text),
    }
    meta = meta.line("scheme", client.scheme());
    if !pool.mount.is_empty() {
        meta = meta.line("mount", &pool.mount);
    }
    if may.early_hints {
        meta = meta.line("early_hints", "1");
    }
    if may.trailers {
        meta = meta.line("trailers", "1");
    }
    if may.continues {
        meta = meta.line("continue", "1");
    }
    if !may.server_header {
        meta = meta.line("server_header", "0");
    }
    if let Some(user) = user {
        meta = meta.line("user", user.name()).line("auth_type", user.source().auth_type());
    }
    match &pool.sendfile_root {
        Some(root) => meta.line("sendfile_root", root),
        None => meta,
    }
}

/// What stands for this server's end of a Unix socket.
fn no_address(https: bool) -> &'static str {
    if https { "0.0.0.0:443" } else { "0.0.0.0:80" }
}

/// Whether the response to a request may say something about others that the cache keeps.
fn says_of_others(request: &Request<'_, '_>) -> bool {
    request.method != Method::Get || overridden(request).is_some()
}
