//! The loop of one thread: wait, act on each event, then do once per turn what is cheaper done once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use super::admission::Admission;
use super::agenda::{Next, Todo};
use super::base::Base;
use super::clients::Clients;
use super::clock::Environment;
use super::drain::Drain;
use super::exchanges::Exchanges;
use super::inbox::Message;
use super::layers::above;
use super::processes::Processes;
use super::processes::crowded::Waiting;
use super::requests::Requests;
use super::shared::{Outgoing, Shared};
use super::token::Token;
use super::watchdog::{EVENTS_PER_MARK, SLOW, Turn};
use crate::connection::wire::Sent;
use crate::keys::{ConnKey, UpstreamId};
use crate::requests::watchers::{EVENT_EVERY, push_data};
use maitred_files::files::FileServer;
use maitred_log::thread_logs::ThreadLogs;
use maitred_status::scoreboard::ThreadRow;

/// What is done in each turn after its events, in this order.
const ONCE_PER_TURN: [fn(&mut Reactor); 14] = [
    |thread| thread.retry_disk(),
    |thread| thread.watch_relays(),
    |thread| thread.sweep_relays(),
    |thread| thread.retry_crowded(),
    |thread| thread.sweep_upstreams(),
    |thread| thread.tell_watchers(),
    |thread| thread.check_health(),
    |thread| thread.tune_transports(),
    |thread| thread.look_at_rates(),
    |thread| thread.drain_step(),
    |thread| thread.use_idle_upstreams(),
    |thread| thread.resume_http2(),
    |thread| thread.manage_overload(),
    |thread| thread.abort_without_room(),
];

/// Events taken from the kernel at a time.
const EVENTS_PER_TURN: usize = 512;
/// The event loop of one thread, on top of its layers.
pub(super) struct Reactor {
    pub(super) admission: Admission,
}
above!(Reactor, admission: Admission);

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
        logs: ThreadLogs,
        environment: Environment,
    ) -> std::io::Result<Self> {
        let clients = Clients::new(Base::new(shared, number, row, environment)?, files, logs);
        let requests = Requests::new(Exchanges::new(Processes::new(clients)));
        let thread = Reactor { admission: Admission::new(requests) };
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

    /// Runs one turn: acts on each event, and then on what is due. Gives back the time at its end.
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
        self.load.turn_took = now.saturating_duration_since(self.clock.now);
        self.end_watch(turn, now, events);
        now
    }

    /// The thread has drained.
    pub(super) fn end(self) {
        let shared = self.shared;
        drop(self.admission.requests.exchanges.processes.clients.logs);
        shared.outbox.send(Outgoing::Drained);
    }

    /// What is done once per turn: deadlines, postponed connections, the batches to application processes, the log.
    fn end_turn(&mut self) {
        let now = self.clock.now;
        self.expire();
        for connection in std::mem::take(&mut self.again) {
            self.guarded(Token::Connection(connection), |thread| thread.on_again(connection));
        }
        self.read_ready_channels();
        self.read_ready_links();
        for step in ONCE_PER_TURN {
            step(self);
            self.work_off();
        }
        self.flush();
        self.resume_accepting();
        let dropped = self.logs.tick(now);
        if dropped > 0 {
            self.row.log_dropped.add(dropped);
            self.row.log_dropped_at.set(self.clock.unix_secs);
        }
        self.limiter.tick(now);
        self.files.sweep(now);
        if self.files.has_due() {
            self.submit_encoding();
        }
        let cache = self.files.cache_use();
        self.row.cache_bytes.set(cache.bytes);
        self.row.cache_entries.set(cache.entries);
        self.row.cache_hits.set(cache.hits);
        self.row.cache_misses.set(cache.misses);
        self.show_encoders();
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
        self.buffers.tx.clear();
        match token {
            Token::Connection(connection) if self.is_current(connection) => self.close(connection.key),
            Token::Channel { key, .. } => self.fail_worker(key, "a bug in maitred"),
            Token::Upstream(id) => self.lose_upstream(id),
            _ => {}
        }
    }

    /// Sends what the turn has written for HTTP/2 clients and for processes. A process that turns out to have exited makes more
    /// to send: its requests go to another one, or are refused. Each does so once, so the loop ends.
    fn flush(&mut self) {
        while !(self.unsent_sessions.is_empty()
            && self.dirty.is_empty()
            && self.upstreams.unsent_http2.is_empty())
        {
            self.flush_http2_upstreams();
            self.flush_sessions();
            self.flush_channels();
            self.work_off();
        }
    }

    fn on_event(&mut self, token: Token, flags: epoll::EventFlags) {
        match token {
            Token::Connection(connection) => {
                if self.is_current(connection) {
                    self.on_connection(connection.key, flags);
                }
            }
            Token::Listener(which) => self.on_listener(which as usize),
            Token::Channel { key, epoch } => self.on_channel(key, epoch, flags),
            Token::Relay { key, channel } => self.on_relay(key, channel, flags),
            Token::Upstream(id) => self.on_upstream(id, flags),
            Token::Link { key, epoch } => self.on_link(key, epoch, flags),
            Token::Question(id) => self.on_question(id),
            Token::Fill(id) => self.on_fill(id),
            Token::Datagrams(which) => self.on_datagrams(which as usize, flags),
            Token::Inbox => self.on_inbox(),
        }
    }

    /// Works through the agenda, which mostly is empty: this is asked a dozen times per turn.
    #[inline]
    fn work_off(&mut self) {
        if !self.agenda.is_empty() {
            self.work_through();
        }
    }

    /// Works through the agenda until it is empty. In its callers it would have a place a dozen times.
    #[inline(never)]
    fn work_through(&mut self) {
        while let Some(todo) = self.agenda.next() {
            match todo {
                Todo::Connection { connection, next } => {
                    if self.is_current(connection) {
                        let token = Token::Connection(connection);
                        self.contained(token, |thread| thread.on_next(connection.key, next));
                    }
                }
                Todo::Room { pool, channel: key } => {
                    let channel = self.pools.channels.get(key);
                    let epoch = channel.map_or(0, |channel| Token::epoch(channel.id.epoch));
                    self.contained(Token::Channel { key, epoch }, |thread| {
                        thread.serve_queue(usize::from(pool));
                        thread.settle_process(key);
                    });
                }
            }
        }
    }

    fn on_next(&mut self, index: ConnKey, next: Next) {
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

    fn on_inbox(&mut self) {
        // Each by itself: after a panic in one, the others are still read.
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
            Message::ServersChanged(pool) | Message::ServerRoom(pool) => self.serve_line(pool),
            Message::Offer { pool, thread } => self.on_offer(pool, thread),
            Message::DiskDone { connection, result } => self.on_disk_done(connection, result),
            Message::ModuleDone { connection, number, answer } => {
                self.on_module_done(connection, number, answer);
            }
            Message::Checked { connection, check, right } => self.on_checked(connection, check, right),
            Message::Filled { connection } => self.on_filled(connection),
            Message::FillWritten { fill, result } => self.on_fill_written(fill, result),
            Message::Look => self.note_under_way(),
            Message::Encoded(encoding) => self.files.note_encoded(Some(&encoding)),
            Message::Judged { key, epoch, verdicts } => self.on_judged(key, epoch, verdicts),
            Message::Spilled { connection, result } => self.on_spilled(connection, result),
            Message::Fetched { connection, tail, result } => self.on_fetched(connection, tail, result),
            Message::CommandWaits { connection, interim, text } => {
                self.on_command_waits(connection, interim, &text);
            }
            Message::CommandDone { connection, well, text } => {
                self.on_command_done(connection, well, &text);
            }
            Message::CommandDocument { connection, document } => {
                self.on_command_document(connection, &document);
            }
            Message::Certificates => self.on_certificates(),
            Message::Listen => self.on_listen(),
            Message::Drain { time, successor } => self.begin_drain(time, successor),
            Message::ReadDatagrams => self.read_datagram_sockets(),
            Message::LeaveDatagrams(local) => self.leave_datagram_sockets(local),
            Message::Datagrams(forwarded) => self.on_forwarded(&forwarded),
            Message::Hurry(left) => self.hurry(left),
            Message::Successor(successor) => self.follow_to(successor),
        }
    }

    fn expire(&mut self) {
        let now = self.clock.now;
        self.resume_throttled();
        let mut fired = Vec::new();
        self.wheel.expire(now, &mut fired);
        for index in fired {
            // What happened to an earlier one may have given this one another deadline, or ended it.
            if let Some(connection) = self.id_of(index)
                && !self.wheel.is_armed(index)
            {
                self.guarded(Token::Connection(connection), |thread| thread.on_deadline(index));
            }
        }
    }

    /// Tries again what more descriptors were under way for than may be.
    fn retry_crowded(&mut self) {
        let now = self.clock.now;
        for waiting in self.crowded.take(now) {
            match waiting {
                Waiting::Channel(key) => self.touch(key),
                Waiting::Link(key) => {
                    let Some(epoch) = self.pools.links.get(key).map(|link| Token::epoch(link.epoch)) else {
                        continue;
                    };
                    self.on_link(key, epoch, epoll::EventFlags::OUT);
                }
            }
        }
    }

    /// How long to wait: not at all while something is left to do, otherwise until the first thing that is due.
    pub(super) fn timeout(&self, now: Instant) -> Option<Timespec> {
        if !self.again.is_empty()
            || !self.ready_channels.is_empty()
            || !self.ready_links.is_empty()
            || self.upstreams.has_reused()
            || !self.upstreams.later_http2.is_empty()
        {
            return Some(Timespec { tv_sec: 0, tv_nsec: 0 });
        }
        let drain = self.drain.as_ref().map(Drain::next_look);
        let due = [
            self.wheel.next_wake(),
            self.logs.flush_due(),
            self.accept_again_at,
            self.reclaim.next_scan(),
            self.next_look(),
            self.next_relay_sweep(),
            self.crowded.next(),
            drain,
            self.next_watch(),
            self.upstreams.next_sweep(),
            self.watchers.next_event(),
            self.next_health,
            self.load.postponed_until,
            self.resumes.as_ref().and_then(|resumes| resumes.next_wake()),
            self.next_overload_look(now),
        ];
        let first = due.into_iter().flatten().min()?;
        let wait = first.saturating_duration_since(now);
        // Up to the next millisecond: epoll_wait(2) would round down and wake before anything is due.
        let wait = wait + Duration::from_micros(999);
        Timespec::try_from(wait).ok()
    }

    /// Continues to read channels that had more than one turn takes.
    pub(super) fn read_ready_channels(&mut self) {
        use epoll::EventFlags as F;
        for (key, epoch) in std::mem::take(&mut self.ready_channels) {
            let token = Token::Channel { key, epoch };
            self.guarded(token, |thread| thread.on_channel(key, epoch, F::IN | F::RDHUP));
        }
    }

    /// Once per turn: sends what the turn has put into frames.
    pub(super) fn flush_sessions(&mut self) {
        while let Some(key) = self.unsent_sessions.pop() {
            let Some(http2) = self.sessions.get_mut(key) else { continue };
            http2.dirty = false;
            let index = http2.index;
            let Some(connection) = self.id_of(index) else { continue };
            self.guarded(Token::Connection(connection), |thread| match thread.flush_session(index, key) {
                Sent::Broken => thread.close(index),
                sent => thread.settle_session(index, key, sent),
            });
        }
    }

    /// Once per turn: sends what the turn has put into frames for servers. What a connection has left over is for the next turn.
    fn flush_http2_upstreams(&mut self) {
        for id in std::mem::take(&mut self.upstreams.unsent_http2) {
            let Some(http2) = self.upstreams.current(id).and_then(|found| found.http2.as_deref_mut()) else {
                continue;
            };
            http2.dirty = false;
            self.guarded(Token::Upstream(id), |thread| thread.flush_http2(id.key));
        }
    }

    /// Continues to read links that had more than one turn takes.
    pub(super) fn read_ready_links(&mut self) {
        for (key, epoch) in std::mem::take(&mut self.ready_links) {
            let token = Token::Link { key, epoch };
            self.guarded(token, |thread| thread.on_link(key, epoch, epoll::EventFlags::IN));
        }
    }

    /// Once per turn: sends the requests that are to go over connections that were idle, if these are good.
    pub(crate) fn use_idle_upstreams(&mut self) {
        if !self.upstreams.has_reused() {
            return;
        }
        let reused = self.upstreams.take_reused();
        let stale = self.upstreams.stale(&reused);
        for ((key, index), stale) in reused.into_iter().zip(stale) {
            let Some(connection) = self.upstreams.get(key) else { continue };
            let id = UpstreamId { key, serial: connection.serial };
            let stale = std::mem::take(&mut connection.untried) && (stale || connection.hung_up);
            self.guarded(Token::Upstream(id), |thread| match stale {
                true => thread.replace_upstream(index),
                false => thread.pass_request(index),
            });
        }
    }

    /// Once per turn: an event for each watcher, when it is time.
    pub(super) fn tell_watchers(&mut self) {
        if self.watchers.next_event.is_none_or(|at| self.clock.now < at) {
            return;
        }
        let mut watchers = std::mem::take(&mut self.watchers.connections);
        watchers.retain(|connection| self.is_current(*connection));
        self.watchers.next_event = (!watchers.is_empty()).then_some(self.clock.now + EVENT_EVERY);
        if !watchers.is_empty() {
            let mut event = Vec::with_capacity(16 * 1024);
            push_data(&self.status_json(), &mut event);
            for connection in &watchers {
                let token = Token::Connection(*connection);
                self.guarded(token, |thread| thread.tell_watcher(connection.key, &event));
            }
        }
        self.watchers.connections = watchers;
    }

    /// The turn is over: counts and logs it if it was slow.
    pub(super) fn end_watch(&mut self, mut turn: Turn, now: Instant, events: &[epoll::Event]) {
        let took = self.load.turn_took;
        let micros = took.as_micros() as u64;
        if micros > self.row.longest_turn_us.get() {
            self.row.longest_turn_us.set(micros);
        }
        if took < SLOW {
            return;
        }
        turn.mark(now, events.len().saturating_sub(turn.done));
        self.row.slow_turns.add(1);
        let (longest, range) = turn.slowest;
        // The last part is also what is done once per turn.
        let last = range.end == events.len();
        let what = self.describe(events.get(range).unwrap_or_default(), last);
        let (thread, took_ms, part_ms) = (self.number, took.as_millis(), longest.as_millis());
        self.log_limited(|| {
            tracing::warn!(
                thread,
                took_ms,
                part_ms,
                events = events.len(),
                "slow iteration of the event loop: {what}"
            );
        });
    }
}
