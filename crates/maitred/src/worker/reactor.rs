//! The loop of one thread: wait, look at each event, then do once per turn what is cheaper done once.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use maitred_http::fields::FieldLines;
use maitred_http::h2::Settings;
use maitred_http::request::{HeadLimits, RequestHead};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use slab::Slab;

use super::accept::Listener;
use super::agenda::{Agenda, Next, Todo};
use super::clock::Environment;
use super::connection::{Connection, Exchange, State};
use super::drain::Drain;
use super::foreign;
use super::http2::{self, Http2Connection};
use super::inbox::Message;
use super::origin::ForwardedHeaders;
use super::rates::Rates;
use super::reclaim::Reclaim;
use super::scratch::Scratch;
use super::shared::{Outgoing, Shared};
use super::timers::Wheel;
use super::tls_session::{CIPHERTEXT_BYTES, TlsSession};
use super::upstream::connections::Upstreams;
use super::watch::Watchers;
use super::watchdog::{EVENTS_PER_MARK, Turn};
use super::wire::FILE_PIECE_BYTES;
use crate::clock::Clock;
use crate::handoff::{Pools, RECEIVE_BYTES as RECEIVED_FROM_CHANNEL};
use crate::log::error::Limiter;
use crate::log::writer::ThreadLog;
use crate::overload::Overload;
use crate::serve::CachedBytes;
use crate::serve::files::FileServer;
use crate::status::scoreboard::ThreadRow;

/// Events taken from the kernel at a time.
const EVENTS_PER_TURN: usize = 512;
/// Bytes of the receive buffer that all connections of a thread share, beyond what a head may have.
const RECEIVE_BYTES: usize = 64 * 1024;
/// Messages per second that peers can cause in one thread's error log.
const PEER_MESSAGES_PER_SECOND: u32 = 10;
/// Buffers of finished requests that are kept for the next ones.
const SPARE_EXCHANGES: usize = 64;

/// Bytes of one connection that are received and not acted on, at most.
pub(super) fn received_bytes_max(limits: &HeadLimits) -> usize {
    RECEIVE_BYTES + 2 * limits.head_bytes_max
}

/// One event loop, and all that belongs to its thread alone.
pub(super) struct Reactor {
    pub(super) shared: &'static Shared,
    /// Its number.
    pub(super) number: usize,
    pub(super) row: &'static ThreadRow,
    pub(super) epoll: OwnedFd,
    pub(super) connections: Slab<Connection>,
    /// How many of them are no clients' own: streams of HTTP/2 connections, and what other threads have sent.
    pub(super) streams: usize,
    /// TLS sessions.
    pub(super) tls_sessions: Slab<Box<TlsSession>>,
    /// HTTP/2 sessions.
    pub(super) sessions: Slab<Box<Http2Connection>>,
    /// Those with something to do at the end of the turn.
    pub(super) unsent_sessions: Vec<u32>,
    /// What HTTP/2 clients may ask for.
    pub(super) http2: Settings,
    pub(super) wheel: Wheel,
    /// What has to follow the present step.
    pub(super) agenda: Agenda,
    pub(super) environment: Environment,
    pub(super) clock: Clock,
    pub(super) head_limits: HeadLimits,
    pub(super) files: FileServer,
    pub(super) log: ThreadLog,
    pub(super) limiter: Limiter,
    pub(super) listeners: Vec<Listener>,
    pub(super) accepting: bool,
    /// Connections of the admin listener, which take no places from clients.
    pub(super) admins: usize,
    /// The admin listener is not watched for now.
    pub(super) admin_paused: bool,
    /// When to try again after the system ran out of something.
    pub(super) accept_again_at: Option<Instant>,
    /// Who is closed for a new connection when all places are taken.
    pub(super) reclaim: Reclaim,
    /// When relays that nobody needs are given back, and whether a period ends then.
    pub(super) relay_sweep: Option<(Instant, bool)>,
    /// Who takes too little of what is sent.
    pub(super) rates: Rates,
    pub(super) pools: Pools,
    /// Connections to HTTP servers.
    pub(super) upstreams: Upstreams,
    /// Channels with frames to send at the end of the turn.
    pub(super) dirty: Vec<usize>,
    /// Relays that are not watched yet: key, which of their uses is meant, and when they shall be.
    pub(super) unwatched: VecDeque<(u32, u32, Instant)>,
    /// Connections whose reads the disk helpers had no room for, and when they are asked again.
    pub(super) postponed: Vec<(u32, u32)>,
    pub(super) postponed_until: Option<Instant>,
    /// When the health of application processes is looked at next.
    pub(super) next_health: Option<Instant>,
    /// When it is looked next at what answering costs.
    pub(super) next_tuning: Instant,
    /// Channels with more to read than one turn takes: key and epoch.
    pub(super) ready_channels: Vec<(usize, u32)>,
    /// The same of links.
    pub(super) ready_links: Vec<(usize, u32)>,
    /// Received bytes, of whichever connection is being looked at.
    pub(super) rx: Scratch,
    /// Where the kernel writes what application processes say.
    pub(super) heard: Box<[u8; RECEIVED_FROM_CHANNEL]>,
    /// What was received from the socket of a TLS connection, still encrypted.
    pub(super) ciphertext: Box<[u8; CIPHERTEXT_BYTES]>,
    /// The head of a request that comes over HTTP/2, while `rx` has the frames of its connection.
    pub(super) head: RequestHead,
    /// A piece of a file on its way.
    pub(super) piece: Scratch,
    /// Bytes to send, likewise. Unlike those before it, it is mostly used in place, and grows when something is written to it:
    /// nothing is lost where it does not come back.
    pub(super) tx: Vec<u8>,
    /// Fields of a response that is being made.
    pub(super) lines: FieldLines,
    /// What `tx` may end with, where that is in the cache of files, or the configuration: if it cannot be sent, it is held there.
    pub(super) tx_cached: Option<CachedBytes>,
    /// Connections that have more to do in this thread's next turn: index and serial.
    pub(super) again: Vec<(u32, u32)>,
    /// Connections whose responses found no room in the budget for what is unsent: index and serial.
    pub(super) without_room: Vec<(u32, u32)>,
    pub(super) overload: Overload,
    /// How long the last turn took.
    pub(super) turn_took: Duration,
    /// `keep_alive_timeout` and `write_timeout` at the present level of overload.
    pub(super) keep_alive_timeout: Duration,
    pub(super) write_timeout: Duration,
    pub(super) serial: u32,
    pub(super) forwarded: ForwardedHeaders,
    pub(super) drain: Option<Drain>,
    /// Connections that are told the status every second.
    pub(super) watchers: Watchers,
    #[expect(clippy::vec_box, reason = "the boxes are what is kept: connections take and return them")]
    pub(super) spare: Vec<Box<Exchange>>,
}

/// What an event is about: eight bits of kind, 24 of serial, 32 of index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    Connection { index: u32, serial: u32 },
    Listener(u32),
    Channel { key: u32, epoch: u32 },
    Relay { key: u32, channel: u32 },
    Upstream { key: u32, serial: u32 },
    Link { key: u32, epoch: u32 },
    Inbox,
}

pub(super) const SERIAL_MASK: u32 = 0x00ff_ffff;

impl Token {
    pub(super) fn pack(self) -> epoll::EventData {
        let (kind, serial, index) = match self {
            Token::Connection { index, serial } => (0u64, serial & SERIAL_MASK, index),
            Token::Listener(index) => (1, 0, index),
            Token::Channel { key, epoch } => (2, epoch & SERIAL_MASK, key),
            Token::Inbox => (3, 0, 0),
            Token::Relay { key, channel } => (4, channel & SERIAL_MASK, key),
            Token::Upstream { key, serial } => (5, serial & SERIAL_MASK, key),
            Token::Link { key, epoch } => (6, epoch & SERIAL_MASK, key),
        };
        epoll::EventData::new_u64(kind << 56 | u64::from(serial) << 32 | u64::from(index))
    }

    pub(super) fn unpack(data: epoll::EventData) -> Token {
        let bits = data.u64();
        let (serial, index) = ((bits >> 32) as u32 & SERIAL_MASK, bits as u32);
        match bits >> 56 {
            0 => Token::Connection { index, serial },
            1 => Token::Listener(index),
            2 => Token::Channel { key: index, epoch: serial },
            4 => Token::Relay { key: index, channel: serial },
            5 => Token::Upstream { key: index, serial },
            6 => Token::Link { key: index, epoch: serial },
            _ => Token::Inbox,
        }
    }

    /// As much of a process's epoch as there is room for.
    pub(super) fn epoch(epoch: u64) -> u32 {
        epoch as u32 & SERIAL_MASK
    }
}

impl Reactor {
    /// A thread that accepts nothing yet.
    ///
    /// # Errors
    /// When the kernel gives no epoll descriptor.
    pub(super) fn new(
        shared: &'static Shared,
        number: usize,
        row: &'static ThreadRow,
        files: FileServer,
        log: ThreadLog,
        environment: Environment,
    ) -> std::io::Result<Self> {
        let limits = &shared.start.config.limits;
        let head_limits = HeadLimits {
            head_bytes_max: limits.head_bytes_max as usize,
            header_count_max: usize::from(limits.header_count_max),
            target_bytes_max: limits.target_bytes_max as usize,
            // What is longer is refused once it is known whom it is for (`Reactor::begin_body`).
            body_bytes_max: u64::MAX,
        };
        let clock = environment.read();
        let thread = Reactor {
            shared,
            number,
            row,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            connections: Slab::new(),
            streams: 0,
            tls_sessions: Slab::new(),
            sessions: Slab::new(),
            unsent_sessions: Vec::new(),
            http2: http2::settings(limits),
            wheel: Wheel::new(clock.now),
            next_tuning: clock.now,
            overload: Overload::new(limits.loop_delay_max, clock.now),
            agenda: Agenda::default(),
            environment,
            clock,
            head_limits,
            files,
            log,
            limiter: Limiter::new(PEER_MESSAGES_PER_SECOND),
            listeners: Vec::new(),
            accepting: false,
            admins: 0,
            admin_paused: false,
            accept_again_at: None,
            reclaim: Reclaim::default(),
            relay_sweep: None,
            rates: Rates::default(),
            pools: Pools::new(shared.start.config.pools.len()),
            upstreams: Upstreams::new(&shared.start.config.pools, number),
            dirty: Vec::new(),
            ready_channels: Vec::new(),
            ready_links: Vec::new(),
            unwatched: VecDeque::new(),
            postponed: Vec::new(),
            postponed_until: None,
            next_health: None,
            rx: Scratch::new(received_bytes_max(&head_limits)),
            heard: Box::new([0; RECEIVED_FROM_CHANNEL]),
            ciphertext: Box::new([0; CIPHERTEXT_BYTES]),
            head: RequestHead::default(),
            piece: Scratch::new(FILE_PIECE_BYTES),
            tx: Vec::with_capacity(RECEIVE_BYTES),
            lines: FieldLines::default(),
            tx_cached: None,
            again: Vec::new(),
            without_room: Vec::new(),
            turn_took: Duration::ZERO,
            keep_alive_timeout: limits.keep_alive_timeout,
            write_timeout: limits.write_timeout,
            serial: 0,
            forwarded: ForwardedHeaders::default(),
            drain: None,
            watchers: Watchers::default(),
            spare: Vec::new(),
        };
        let wakeup_fd = shared.inboxes[number].wakeup_fd();
        epoll::add(&thread.epoll, wakeup_fd, Token::Inbox.pack(), epoll::EventFlags::IN)?;
        Ok(thread)
    }

    /// Runs until the process has drained.
    pub(super) fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS_PER_TURN);
        let mut now = self.clock.now;
        while !self.is_finished() {
            events.clear();
            let timeout = self.timeout(now);
            match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    tracing::error!(%error, "epoll_wait failed; this thread ends");
                    break;
                }
            }
            now = self.turn(&events);
        }
        self.end();
    }

    /// One turn: acts on each event, and then on what is due. Gives back the time at its end.
    pub(super) fn turn(&mut self, events: &[epoll::Event]) -> Instant {
        self.environment.advance(&mut self.clock);
        let mut turn = Turn::begin(self.clock.now);
        for part in events.chunks(EVENTS_PER_MARK) {
            for event in part {
                let (token, flags) = (Token::unpack(event.data), event.flags);
                self.guarded(token, |thread| thread.on_event(token, flags));
            }
            if part.len() == EVENTS_PER_MARK {
                turn.mark((self.environment.now)(), EVENTS_PER_MARK);
            }
        }
        self.end_turn();
        // Read for the timeout anyway, so that the length of a turn costs nothing.
        let now = (self.environment.now)();
        self.turn_took = now.saturating_duration_since(self.clock.now);
        self.end_watch(turn, now, events);
        now
    }

    /// The thread has drained.
    pub(super) fn end(self) {
        drop(self.log);
        self.shared.outbox.send(Outgoing::Drained);
    }

    /// What is done once per turn: deadlines, postponed connections, the batches to application processes, the log.
    fn end_turn(&mut self) {
        self.expire();
        for (index, serial) in std::mem::take(&mut self.again) {
            self.guarded(Token::Connection { index, serial }, |thread| thread.on_again(index, serial));
        }
        self.read_ready_channels();
        self.read_ready_links();
        self.retry_disk();
        self.watch_relays();
        self.sweep_relays();
        self.sweep_upstreams();
        self.work_off();
        self.tell_watchers();
        self.check_health();
        self.tune_transports();
        self.look_at_rates();
        self.drain_step();
        self.use_idle_upstreams();
        self.manage_overload();
        self.abort_without_room();
        self.work_off();
        self.flush_sessions();
        self.flush_all_channels();
        self.resume_accepting();
        let dropped = self.log.tick(self.clock.now);
        if dropped > 0 {
            self.row.log_dropped.add(dropped);
        }
        self.limiter.tick(self.clock.now);
        self.files.sweep(self.clock.now);
        let cache = self.files.cache_use();
        self.row.cache_bytes.set(cache.bytes);
        self.row.cache_entries.set(cache.entries);
        self.row.cache_hits.set(cache.hits);
        self.row.cache_misses.set(cache.misses);
        self.row.turns.add(1);
    }

    /// Runs `step`, and what has to follow it. A panic in one of them ends the connection that it was about, and no other.
    pub(super) fn guarded(&mut self, token: Token, step: impl FnOnce(&mut Self)) {
        self.contained(token, step);
        self.work_off();
    }

    fn contained(&mut self, token: Token, step: impl FnOnce(&mut Self)) {
        if catch_unwind(AssertUnwindSafe(|| step(self))).is_ok() {
            return;
        }
        self.row.panics.add(1);
        tracing::error!(?token, "a bug in maitred: a panic ended this connection; please report it");
        self.tx.clear();
        match token {
            Token::Connection { index, serial } if self.is_current(index, serial) => self.close(index),
            Token::Channel { key, .. } => self.fail_worker(key as usize, "a bug in maitred"),
            Token::Upstream { key, serial } => self.lose_upstream(key, serial),
            _ => {}
        }
    }

    /// Requests of a process that turns out to be gone may go to another one. That ends: each does so once.
    fn flush_all_channels(&mut self) {
        while !self.dirty.is_empty() {
            self.flush_channels();
            self.work_off();
        }
    }

    fn on_event(&mut self, token: Token, flags: epoll::EventFlags) {
        match token {
            Token::Connection { index, serial } => {
                if self.is_current(index, serial) {
                    self.on_connection(index, flags);
                }
            }
            Token::Listener(which) => self.on_listener(which as usize),
            Token::Channel { key, epoch } => self.on_channel(key as usize, epoch, flags),
            Token::Relay { key, channel } => self.on_relay(key, channel, flags),
            Token::Upstream { key, serial } => self.on_upstream(key, serial, flags),
            Token::Link { key, epoch } => self.on_link(key as usize, epoch, flags),
            Token::Inbox => self.on_inbox(),
        }
    }

    /// Has something follow on a connection once the present step has returned.
    pub(super) fn follow_up(&mut self, index: u32, next: Next) {
        if let Some(connection) = self.connections.get(index as usize) {
            self.agenda.connection(index, connection.serial, next);
        }
    }

    /// Does what has to follow, until nothing has.
    fn work_off(&mut self) {
        while let Some(todo) = self.agenda.next() {
            match todo {
                Todo::Connection { index, serial, next } => {
                    if self.is_current(index, serial) {
                        let token = Token::Connection { index, serial };
                        self.contained(token, |thread| thread.on_next(index, next));
                    }
                }
                Todo::Room { pool, channel: key } => {
                    let channel = self.pools.channels.get(key as usize);
                    let epoch = channel.map_or(0, |channel| Token::epoch(channel.id.epoch));
                    self.contained(Token::Channel { key, epoch }, |thread| {
                        thread.serve_queue(usize::from(pool));
                        thread.settle_process(key as usize);
                    });
                }
            }
        }
    }

    fn on_next(&mut self, index: u32, next: Next) {
        match next {
            Next::Resume => self.resume(index),
            Next::Settle => {
                let more = self.has_input(index);
                self.settle(index, more);
            }
            Next::GoOnReading => self.settle(index, true),
            Next::Reclaim(after) => self.reclaim_connection(index, after),
            Next::Send => self.on_writable(index),
            Next::Pump => self.pump_to_client(index),
            Next::NoRoom => self.end_short(index),
            Next::Detached => self.on_detached(index),
            Next::Dismiss => self.dismiss(index),
            Next::Abort => self.abort_any(index),
            Next::Close => self.close(index),
            Next::Drop => drop(self.remove(index)),
        }
    }

    /// Gives a connection a place in the next turn, once.
    pub(super) fn look_again(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        if !std::mem::replace(&mut connection.again, true) {
            let serial = connection.serial;
            self.again.push((index, serial));
        }
    }

    fn on_inbox(&mut self) {
        // Each by itself: a panic over one must not take the others along.
        for message in self.shared.inboxes[self.number].take() {
            self.guarded(Token::Inbox, |thread| thread.on_message(message));
        }
    }

    fn on_message(&mut self, message: Message) {
        match message {
            Message::Adopt(transfer) => self.adopt(*transfer),
            Message::SlotStarted { id, started, channel } => self.open_channel(id, started, channel),
            Message::Retire(id) => self.on_retire(id),
            Message::Release(id, at_once) => self.on_release(id, at_once),
            Message::HandOn(id, link) => self.hand_on(id, link),
            Message::LinkComes(id, link) => self.on_link_comes(id, link),
            Message::GuestComes(id, link) => self.on_guest(id, link),
            Message::SlotExited { id, how } => self.on_slot_exited(id, &how),
            Message::PoolUnavailable(pool) => self.empty_queue(usize::from(pool)),
            Message::Offer { pool, thread } => self.on_offer(pool, thread),
            Message::DiskDone { index, serial, result } => self.on_disk_done(index, serial, result),
            Message::Judged { key, epoch, verdicts } => self.on_judged(key, epoch, verdicts),
            Message::Fetched { index, serial, tail, result } => self.on_fetched(index, serial, tail, result),
            Message::CommandWaits { index, serial, interim, text } => {
                self.on_command_waits(index, serial, interim, &text);
            }
            Message::CommandDone { index, serial, well, text } => {
                self.on_command_done(index, serial, well, &text);
            }
            Message::Listen => self.on_listen(),
            Message::Drain { time, successor } => self.begin_drain(time, successor),
            Message::Hurry(left) => self.hurry(left),
            Message::Successor(successor) => self.follow_to(successor),
        }
    }

    fn expire(&mut self) {
        let mut fired = Vec::new();
        self.wheel.expire(self.clock.now, &mut fired);
        for index in fired {
            // What happened to an earlier one may have given this one another deadline, or ended it.
            if let Some(connection) = self.connections.get(index as usize)
                && !self.wheel.is_armed(index)
            {
                let token = Token::Connection { index, serial: connection.serial };
                self.guarded(token, |thread| thread.on_deadline(index));
            }
        }
    }

    /// How long to wait: not at all while something is left to do, otherwise until the first thing that is due.
    pub(super) fn timeout(&self, now: Instant) -> Option<Timespec> {
        if !self.again.is_empty()
            || !self.ready_channels.is_empty()
            || !self.ready_links.is_empty()
            || self.upstreams.has_reused()
        {
            return Some(Timespec { tv_sec: 0, tv_nsec: 0 });
        }
        let drain = self.drain.as_ref().map(Drain::next_look);
        let due = [
            self.wheel.next_wake(),
            self.log.flush_due(),
            self.accept_again_at,
            self.reclaim.next_scan(),
            self.next_look(),
            self.next_relay_sweep(),
            drain,
            self.next_watch(),
            self.upstreams.next_sweep(),
            self.watchers.next_event(),
            self.next_health,
            self.postponed_until,
            self.next_overload_look(now),
        ];
        let first = due.into_iter().flatten().min()?;
        let wait = first.saturating_duration_since(now);
        // Up to the next millisecond: epoll_wait(2) would round down and wake before anything is due.
        let wait = wait + Duration::from_micros(999);
        Timespec::try_from(wait).ok()
    }

    /// Whether the connection at `index` is still the one that was meant.
    pub(super) fn is_current(&self, index: u32, serial: u32) -> bool {
        self.connections.get(index as usize).is_some_and(|found| found.serial == serial)
    }

    /// Puts a connection into the epoll set, once for its whole life: edge-triggered, so that it never has to be
    /// changed, and both ways, so that no call is needed to wait for room.
    pub(super) fn register(&mut self, index: u32) -> bool {
        use epoll::EventFlags as F;
        let connection = &mut self.connections[index as usize];
        if connection.registered {
            return true;
        }
        let token = Token::Connection { index, serial: connection.serial }.pack();
        let Some(socket) = &connection.socket else { return true };
        match epoll::add(&self.epoll, socket, token, F::IN | F::OUT | F::RDHUP | F::ET) {
            Ok(()) => connection.registered = true,
            Err(error) => {
                self.limiter.log(self.clock.now, || tracing::error!(%error, "cannot watch a connection"));
            }
        }
        connection.registered
    }

    /// Moves a connection to a state, and keeps the scoreboard's gauges in step.
    pub(super) fn enter(&mut self, index: u32, state: State) {
        let row = self.row;
        let gauge = |state: State| match state {
            State::Idle => &row.idle,
            State::Http2 { .. } => &row.multiplexed,
            State::HandedOff { .. } | State::Upstream(_) => &row.handed_off,
            State::Writing | State::Watching => &row.writing,
            State::Queued { .. } => &row.queued,
            State::Head | State::Body | State::Spooling => &row.reading,
            State::Disk | State::Command => &row.waiting,
            State::Linger => &row.lingering,
        };
        let connection = &mut self.connections[index as usize];
        if connection.state == state {
            return;
        }
        gauge(connection.state).sub(1);
        gauge(state).add(1);
        connection.state = state;
    }

    /// Takes a connection in, idle.
    pub(super) fn insert(&mut self, mut connection: Connection) -> u32 {
        self.serial = (self.serial + 1) & SERIAL_MASK;
        connection.serial = self.serial;
        debug_assert_eq!(connection.state, State::Idle);
        let (stream, admin) = (!connection.is_client(), connection.admin);
        let index = self.connections.insert(connection) as u32;
        self.row.idle.add(1);
        if stream {
            self.streams += 1;
        } else {
            self.row.connections.add(1);
            match admin {
                true => self.admins += 1,
                false => self.shared.force_claim(self.number),
            }
        }
        index
    }

    /// Takes a connection out of everything that knows of it. Its socket closes when the value is dropped.
    pub(super) fn remove(&mut self, index: u32) -> Option<Connection> {
        if !self.connections.contains(index as usize) {
            return None;
        }
        if let State::HandedOff { channel, request } = self.connections[index as usize].state {
            self.orphan_request(channel as usize, request);
        }
        if self.connections[index as usize].shared {
            self.forget(index);
            if let Some(socket) = self.socket(index) {
                // The option belongs to the open socket, and an application may have set it: closing what still has to be sent
                // would wait for as long as that says.
                let _ = rustix::net::sockopt::set_socket_linger(socket, None);
            }
        }
        self.forget_unsent(index);
        self.leave_queue(index);
        self.leave_upstream(index);
        let Connection { state, wire, .. } = self.connections[index as usize];
        self.end_session(state);
        self.release_stream(wire);
        self.take_tls_session(wire);
        self.enter(index, State::Linger);
        self.row.lingering.sub(1);
        self.wheel.disarm(index);
        let mut connection = self.connections.remove(index as usize);
        if connection.counted {
            self.uncount(connection.remote.address);
        }
        if let Some(exchange) = connection.exchange.take() {
            self.recycle(exchange);
        }
        if !connection.is_client() {
            self.streams -= 1;
        } else {
            self.row.connections.sub(1);
            match connection.admin {
                true => self.admins -= 1,
                false => self.shared.yield_place(self.number),
            }
        }
        Some(connection)
    }

    /// Connections of clients; streams are parts of them.
    pub(super) fn clients(&self) -> usize {
        self.connections.len() - self.streams
    }

    /// Closes a connection. An application process may hold a copy of the socket, so closing alone would not end it.
    pub(super) fn close(&mut self, index: u32) {
        let Some(mut connection) = self.remove(index) else { return };
        match connection.socket.take() {
            Some(socket) if connection.is_foreign() => foreign::close(socket),
            Some(socket) if connection.shared => {
                let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
            }
            _ => {}
        }
    }

    /// Keeps the buffers of a finished request for a later one.
    pub(super) fn recycle(&mut self, mut exchange: Box<Exchange>) {
        if self.spare.len() < SPARE_EXCHANGES && exchange.capacity() < RECEIVE_BYTES {
            exchange.reset();
            self.spare.push(exchange);
        }
    }

    /// The buffers of a connection, from the spare ones on first use.
    pub(super) fn exchange(&mut self, index: u32) -> &mut Exchange {
        let spare = &mut self.spare;
        let exchange = &mut self.connections[index as usize].exchange;
        exchange.get_or_insert_with(|| spare.pop().unwrap_or_default())
    }

    /// The same, if there are any.
    pub(super) fn exchange_of(&self, index: u32) -> Option<&Exchange> {
        self.connections.get(index as usize)?.exchange.as_deref()
    }

    /// The socket of a connection that has one.
    pub(super) fn socket(&self, index: u32) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.connections.get(index as usize)?.socket.as_ref().map(AsFd::as_fd)
    }

    /// Takes a connection out of the epoll set, because its socket lives on elsewhere.
    pub(super) fn unwatch(&mut self, index: u32) {
        let Some(connection) = self.connections.get_mut(index as usize) else { return };
        if let (true, Some(socket)) = (connection.registered, &connection.socket) {
            let _ = epoll::delete(&self.epoll, socket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_packing() {
        for token in [
            Token::Connection { index: 0, serial: 0 },
            Token::Connection { index: u32::MAX, serial: SERIAL_MASK },
            Token::Listener(3),
            Token::Channel { key: 9, epoch: 77 },
            Token::Relay { key: 5, channel: 1 },
            Token::Upstream { key: 6, serial: 2 },
            Token::Link { key: 8, epoch: 5 },
            Token::Inbox,
        ] {
            assert_eq!(Token::unpack(token.pack()), token);
        }
    }
}
