//! Requests to HTTP servers: which server gets one, what it is sent, and what is done when it fails.
//!
//! The client's connection is `Proxied` from the request to the end of the response, and has one connection to a server
//! meanwhile (`upstream`). Its request was read as a whole before, so that its length is known, and that a slow upload
//! keeps no server waiting. What it is doing:
//!
//! | phase | known by | deadline | when it passes | when the server ends or breaks it |
//! |---|---|---|---|---|
//! | connecting | not `connected` | `connect_timeout` | another server, or 504 | another server, or 502 |
//! | asked | not `begun` | `request_timeout` since the last byte that was sent | 504 | asked again, if that is harmless; or 502 |
//! | head | `begun`, no head written | `request_timeout` since its last byte | 504 | 502 |
//! | content | a head was written | the same, or the client's `write_timeout` | cut off | its end, or cut off |
//! | any of these | | `request_total_timeout` since the first of them began | 504, or cut off | |
//! | tunnel | the filter has `switched` | `tunnel_idle_timeout` | cut off | the end, once the client has all |
//!
//! **Asked again** (the request goes over another connection): one that could not be made has had no byte of the request, so
//! that any request is given to the next server. One that ends without a byte of a response may have been acted on, so that
//! only requests with a safe method (9110-9.2.1) are sent again: over a new connection, if it was an idle one, which the
//! server may close at any time; otherwise to another server. [`ATTEMPTS_MAX`] bounds all of it.
//!
//! **A client that goes away** takes its connection to the server with it: nothing else tells an HTTP server. One that has only
//! stopped sending may still want the response, and cannot be told from one that is gone; [`HALF_CLOSED_TIMEOUT`] is
//! what the server has to begin with its response then, and how long it may be silent after that while the client has all
//! there is: a stream of events without events would stay as long as `request_timeout` allows. Bytes that such a client has
//! not taken tell by themselves whether it is there.

use std::time::{Duration, Instant};

use maitred_handoff::{REQUEST_PREFIX_BYTES, RequestFlags, begin_request};
use maitred_http::h1::Persistence;
use maitred_http::request::Method;
use maitred_http::response::Filter;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown, sockopt};

use super::answer::{RequestInput, Step};
use super::connection::{Feed, Proxied, State};
use super::errors::fields_of;
use super::forward::{append_fields, append_switch, canonical_target, protocol};
use super::hand_off::{append_body, payload_bytes_max};
use super::origin::{Arrival, Client};
use super::reactor::Reactor;
use super::tls_session::TlsLookup;
use crate::config::{Pool, Source, Upstream};
use crate::proxy::Failure;
use crate::serve::RequestContext;

/// Connections that one request may be sent over, or that are tried for it: one that was idle, and three servers.
const ATTEMPTS_MAX: u8 = 4;
/// How long the response may take to begin, or to go on, once the client has stopped sending.
const HALF_CLOSED_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of a body that one server takes in one turn, so that the others get theirs.
const SENT_PER_TURN: u64 = 512 * 1024;

impl Reactor {
    /// Passes a request on to a server of this pool.
    pub(super) fn proxy(
        &mut self,
        index: u32,
        pool: usize,
        context: &RequestContext<'_>,
        given: RequestInput<'_>,
    ) -> Step {
        if !self.register(index) {
            self.close(index);
            return Step::Gone;
        }
        let request = context.request;
        let settings = &self.shared.start.config.pools[pool];
        let Some(out) = self.write_request(index, settings, context, given) else {
            return self.pool_error(index, pool, request, RequestInput { last: true, ..given }, 413);
        };
        let keep = self.persistence(index, request, given.last) != Persistence::Close;
        let filter = Filter::new(self.wanted(index, request, keep, settings));
        let safe = matches!(request.method, Method::Get | Method::Head | Method::Options);
        let now = self.clock.now;
        let hung_up = self.connections[index as usize].hung_up;
        self.keep_head(index, request, given);
        let exchange = self.exchange(index);
        exchange.body.clear();
        (exchange.pool, exchange.queue_us, exchange.handed_off_at) = (Some(pool as u16), 0, Some(now));
        exchange.overdue = false;
        let feed = exchange.spool.take().map(|spool| Feed { spool, sent: 0 });
        exchange.proxied = Some(Box::new(Proxied::new(filter, pool as u16, out, feed, safe, keep, now)));
        self.row.proxied.add(1);
        self.shared.pools[pool].handed[self.number].requests.add(1);
        if let Err(status) = self.attempt(index) {
            self.exchange(index).proxied = None;
            return self.pool_error(index, pool, request, given, status);
        }
        self.send_request(index);
        if hung_up {
            self.on_half_closed(index);
        }
        Step::Waits
    }

    /// The request as the server gets it, behind [`REQUEST_PREFIX_BYTES`] of something else. `None` if it is too large.
    fn write_request(
        &mut self,
        index: u32,
        settings: &Pool,
        context: &RequestContext<'_>,
        given: RequestInput<'_>,
    ) -> Option<Vec<u8>> {
        let request = context.request;
        let id = self.forwarded.next_id();
        self.exchange(index).request_id = Some(id);
        let connection = &self.connections[index as usize];
        let spool = connection.exchange.as_deref().and_then(|exchange| exchange.spool.as_ref());
        let mut out = Vec::with_capacity(given.head.len() + given.body.len() + 1024);
        let flags = RequestFlags {
            keep: false,
            http10: false,
            head: false,
            body_fd: false,
            may_detach: false,
            body_stream: false,
        };
        // A frame without meta lines: what is behind its prefix is the canonical head, which HTTP servers get, too.
        let target = canonical_target(context, &self.shared.start.config.server);
        let mut head = begin_request(&mut out, 0, 0, flags, 0).head(request.method_text, &target);
        let host =
            if request.authority.is_empty() { host_of(settings) } else { request.authority.to_owned() };
        let rules = &given.routed.plan.requests;
        head.field("host", rules.host.as_deref().unwrap_or(host.as_bytes()));
        let switch = protocol(request, settings);
        let peer = &connection.peer();
        let wire = connection.wire;
        let client = &Client::of(request, peer, &self.shared.start.config.server.trusted_proxies);
        append_fields(&mut head, request, (&settings.request_headers, rules), client.proxied);
        append_switch(&mut head, switch);
        let waited = self.clock.now.saturating_duration_since(connection.began).as_micros() as u64;
        let began_unix_us = self.clock.unix_us().saturating_sub(waited);
        let lookup = TlsLookup::new(&self.tls_sessions, &self.sessions, &self.connections);
        lookup.fields(wire, |name, value| head.field(name, value));
        self.forwarded.tell(&mut head, request, Arrival { peer, client, id, began_unix_us });
        const PREFIX: &str = "x-forwarded-prefix";
        let told =
            client.proxied && request.fields.iter().any(|field| field.name.eq_ignore_ascii_case(PREFIX));
        if !settings.mount.is_empty() && !told {
            head.field(PREFIX, settings.mount.as_bytes());
        }
        let most = payload_bytes_max(self.shared.start.config.limits.body_inline_bytes_max);
        append_body(head, request, given.body, spool, most).then_some(out)
    }

    /// Finds the request a connection to a server that it was not given to yet.
    ///
    /// # Errors
    /// The status to answer with.
    fn attempt(&mut self, index: u32) -> Result<(), u16> {
        loop {
            let now = self.clock.now;
            let Some(proxied) = self.exchange(index).proxied.as_deref_mut() else { return Err(500) };
            let (pool, fresh) = (proxied.pool, proxied.fresh_only);
            let tried = std::mem::take(&mut proxied.tried);
            if proxied.attempts >= ATTEMPTS_MAX {
                return Err(proxied.status);
            }
            proxied.attempts += 1;
            (proxied.sent, proxied.any_sent, proxied.send_failed) = (REQUEST_PREFIX_BYTES, false, false);
            if let Some(feed) = &mut proxied.feed {
                feed.sent = 0;
            }
            let load = &self.shared.pools[usize::from(pool)].load;
            let load = |server: usize| {
                load.get(server).map_or(0, |load| load.load(std::sync::atomic::Ordering::Relaxed))
            };
            let balancer = self.upstreams.balancer(pool);
            let chosen = balancer.and_then(|balancer| balancer.choose(now, &tried, load));
            let Some(proxied) = self.exchange(index).proxied.as_deref_mut() else { return Err(500) };
            proxied.tried = tried;
            let Some(server) = chosen else { return Err(proxied.status) };
            let at = (pool, server as u16);
            let idle = if fresh { None } else { self.take_idle(at, index) };
            match idle.map_or_else(|| self.open_upstream(at, index), Ok) {
                Ok(upstream) => {
                    self.enter(index, State::Proxied { upstream });
                    let connected = self.upstreams.get(upstream).is_some_and(|found| found.connected);
                    let settings = &self.shared.start.config.pools[usize::from(pool)];
                    let timeout = if connected { settings.request_timeout } else { settings.connect_timeout };
                    self.arm_proxied(index, timeout);
                    return Ok(());
                }
                Err(error) if is_our_own(&error) => {
                    self.limiter.log(now, || tracing::error!(%error, "no connection to an HTTP server"));
                    self.forgive(at);
                    return Err(503);
                }
                Err(error) => self.note_failure(index, at, Failure::Unreachable, 502, &error.to_string()),
            }
        }
    }

    /// A server has failed this request, which is not given to it again.
    fn note_failure(&mut self, index: u32, at: (u16, u16), failure: Failure, status: u16, why: &str) {
        let now = self.clock.now;
        self.row.upstream_failures.add(1);
        if let Some(proxied) = self.exchange(index).proxied.as_deref_mut() {
            proxied.tried.push(at.1);
            proxied.status = status;
        }
        let settings = self.shared.start.config.pools.get(usize::from(at.0));
        let out =
            self.upstreams.balancer(at.0).and_then(|found| found.failed(usize::from(at.1), failure, now));
        self.limiter.log(now, || {
            let server = settings.map(|settings| name_of(settings, usize::from(at.1))).unwrap_or_default();
            let out_ms = out.map(|out| out.as_millis() as u64);
            tracing::warn!(
                pool = self.shared.pool_name(at.0),
                server,
                out_ms,
                "an HTTP server failed: {why}"
            );
        });
    }

    /// What came of a request says nothing about its server.
    fn forgive(&mut self, at: (u16, u16)) {
        if let Some(balancer) = self.upstreams.balancer(at.0) {
            balancer.unknown(usize::from(at.1));
        }
    }

    /// Sends what the server takes of the request. That it takes nothing any more shows when its response is read, or the
    /// lack of one: it may have answered before it had all.
    pub(super) fn send_request(&mut self, index: u32) {
        let Some(key) = self.upstream_of(index) else { return };
        let Some(upstream) = self.upstreams.get(key).filter(|upstream| !upstream.untried) else { return };
        if !upstream.connected {
            return self.count_unsent(index);
        }
        let exchange = self.connections[index as usize].exchange.as_deref_mut();
        let Some(proxied) = exchange.and_then(|exchange| exchange.proxied.as_deref_mut()) else { return };
        if proxied.send_failed || proxied.filter.switched() {
            return;
        }
        let (before, mut share) = (proxied.any_sent, SENT_PER_TURN);
        let result = loop {
            let rest = proxied.out.get(proxied.sent..).unwrap_or_default();
            let sent = if !rest.is_empty() {
                let more = if proxied.feed.is_some() { SendFlags::MORE } else { SendFlags::empty() };
                let sent = send(upstream.socket(), rest, SendFlags::NOSIGNAL | more);
                sent.inspect(|sent| proxied.sent += sent)
            } else if let Some(feed) = proxied.feed.as_mut().filter(|feed| feed.sent < feed.spool.bytes) {
                let bytes = (feed.spool.bytes - feed.sent).min(share) as usize;
                if bytes == 0 {
                    break Ok(true);
                }
                let sent =
                    rustix::fs::sendfile(upstream.socket(), &feed.spool.file, Some(&mut feed.sent), bytes);
                sent.inspect(|sent| share -= *sent as u64)
            } else {
                break Ok(false);
            };
            match sent {
                // The file is shorter than it was.
                Ok(0) => break Err(()),
                Ok(_) => proxied.any_sent = true,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break Ok(false),
                Err(_) => break Err(()),
            }
        };
        proxied.send_failed = result.is_err();
        let progress = proxied.any_sent && (!before || share < SENT_PER_TURN);
        let (waits, pool) = (!proxied.begun, proxied.pool);
        let held = proxied.unsent_bytes() > 0;
        if result.is_err() {
            // Whatever the reason, nothing more will be sent, and the server must not wait for it.
            let _ = shutdown(upstream.socket(), Shutdown::Write);
        }
        match held {
            true => self.count_unsent(index),
            false => self.recount_unsent(index),
        }
        if progress && waits {
            self.arm_proxied(index, self.request_timeout(pool));
        }
        if result != Ok(false) {
            self.look_again(index);
        }
    }

    pub(super) fn request_timeout(&self, pool: u16) -> Duration {
        self.shared.start.config.pools[usize::from(pool)].request_timeout
    }

    /// Sets the deadline, unless a client that may be gone has set one.
    pub(super) fn arm_proxied(&mut self, index: u32, timeout: Duration) {
        let (leaves, begun) = match self.exchange(index).proxied.as_deref() {
            Some(proxied) => (proxied.half_closed && !proxied.filter.switched(), proxied.begun),
            None => (false, false),
        };
        if leaves && !begun {
            return;
        }
        let until = self.clock.now + if leaves { timeout.min(HALF_CLOSED_TIMEOUT) } else { timeout };
        let until = self.server_total_due(index).map_or(until, |total| total.min(until));
        self.wheel.arm(index, until);
    }

    /// When the server has had all of its time. Another thread knows by itself when its process has.
    fn server_total_due(&self, index: u32) -> Option<Instant> {
        let across = self.upstream_of(index).is_some_and(|key| self.is_remote_thread(key));
        let switched = self.exchange_of(index)?.proxied.as_deref()?.filter.switched();
        self.total_due(index).filter(|_| !across && !switched)
    }

    /// Whether that is over.
    pub(super) fn is_past_server_total(&self, index: u32) -> bool {
        self.server_total_due(index).is_some_and(|due| due <= self.clock.now)
    }

    /// Key of the connection to the server that the client waits for.
    pub(super) fn upstream_of(&self, index: u32) -> Option<u32> {
        match self.connections.get(index as usize)?.state {
            State::Proxied { upstream } => Some(upstream),
            _ => None,
        }
    }

    pub(super) fn on_upstream(&mut self, key: u32, serial: u32, flags: epoll::EventFlags) {
        use epoll::EventFlags as F;
        let Some(upstream) = self.upstreams.current(key, serial) else { return };
        upstream.hung_up |= flags.intersects(F::RDHUP | F::HUP | F::ERR);
        let Some(index) = upstream.index else {
            // An event may be about what was read in this turn already.
            if flags.intersects(F::IN | F::RDHUP | F::HUP | F::ERR) && !self.is_clean(key) {
                self.drop_upstream(key);
            }
            return;
        };
        if upstream.untried {
            // Whatever it is, it came before the request, which is not sent there.
            return;
        }
        if !upstream.connected {
            match sockopt::socket_error(upstream.socket()) {
                Ok(Ok(())) if !flags.intersects(F::ERR | F::HUP) => upstream.connected = true,
                Ok(Ok(())) => return self.fail_proxy(index, Failure::Unreachable, 502, "no connection"),
                Ok(Err(error)) | Err(error) => {
                    let why = error.to_string();
                    return self.fail_proxy(index, Failure::Unreachable, 502, &why);
                }
            }
            let pool = upstream.at.0;
            self.arm_proxied(index, self.request_timeout(pool));
        }
        self.move_proxied(index);
    }

    /// Moves what can be moved, in both directions.
    pub(super) fn move_proxied(&mut self, index: u32) {
        self.send_request(index);
        self.pump_from_client(index);
        self.pump_to_client(index);
    }

    /// What epoll says of the client's socket.
    pub(super) fn on_proxied_client(&mut self, index: u32, flags: epoll::EventFlags) {
        use epoll::EventFlags as F;
        let tunnel = self.is_tunnel(index);
        if flags.contains(F::ERR) || (flags.contains(F::HUP) && !tunnel) {
            self.row.cancelled.add(u64::from(!tunnel));
            return self.abort(index);
        }
        if flags.contains(F::RDHUP) {
            self.on_half_closed(index);
        }
        if flags.contains(F::OUT) || tunnel {
            self.move_proxied(index);
        }
    }

    fn on_half_closed(&mut self, index: u32) {
        if let Some(key) = self.upstream_of(index).filter(|key| self.is_remote_thread(*key)) {
            self.exchange(index).cancelled = true;
            return self.half_close_remote_thread(key);
        }
        // What waits for the client says by itself whether that is gone.
        let waits_for_client = self.has_output(index);
        let now = self.clock.now;
        let Some(proxied) = self.exchange(index).proxied.as_deref_mut() else { return };
        if !std::mem::replace(&mut proxied.half_closed, true)
            && !proxied.filter.switched()
            && !waits_for_client
        {
            let pool = proxied.pool;
            let timeout = HALF_CLOSED_TIMEOUT.min(self.request_timeout(pool));
            self.wheel.arm(index, now + timeout);
        }
    }

    /// The server did not answer: another one is asked, if that is harmless, or the client gets an error. A response that has
    /// begun is cut off.
    pub(super) fn fail_proxy(&mut self, index: u32, failure: Failure, status: u16, why: &str) {
        let Some(key) = self.upstream_of(index) else { return };
        if self.is_remote_thread(key) {
            return self.fail_remote_thread(index, key, status, why);
        }
        let Some(upstream) = self.upstreams.get(key) else { return };
        let (at, used) = (upstream.at, upstream.used);
        let Some(proxied) = self.exchange(index).proxied.as_deref_mut() else { return };
        let unanswered = !proxied.begun && (proxied.safe || !proxied.any_sent);
        let silent = failure == Failure::Broken && status == 504;
        if used && unanswered && !silent {
            // It was closed as idle connections are, and the request may just have met that.
            proxied.fresh_only = true;
            self.forgive(at);
        } else {
            self.note_failure(index, at, failure, status, why);
        }
        self.row.request_timeouts.add(u64::from(silent));
        if self.exchange(index).proxied.as_deref().is_some_and(|proxied| proxied.filter.head_written()) {
            self.exchange(index).overdue = silent;
            return self.abort(index);
        }
        self.drop_upstream(key);
        let answered = match unanswered && !silent {
            true => self.attempt(index),
            false => Err(status),
        };
        match answered {
            Ok(()) => {
                self.row.upstream_retries.add(1);
                self.send_request(index);
            }
            Err(status) => self.give_up_proxying(index, status),
        }
    }

    /// Nobody answers.
    fn give_up_proxying(&mut self, index: u32, status: u16) {
        self.enter(index, State::Head);
        self.exchange(index).proxied = None;
        self.refuse_kept(index, status, fields_of(status));
    }

    /// The idle connection that was chosen for a request is of no use. The others are as old, and a new one tells for sure.
    pub(super) fn replace_upstream(&mut self, index: u32) {
        let Some(key) = self.upstream_of(index) else { return };
        if let Some(at) = self.upstreams.get(key).map(|upstream| upstream.at) {
            self.forgive(at);
        }
        self.drop_upstream(key);
        if let Some(proxied) = self.exchange(index).proxied.as_deref_mut() {
            proxied.attempts = proxied.attempts.saturating_sub(1);
            proxied.fresh_only = true;
        }
        match self.attempt(index) {
            Ok(()) => self.send_request(index),
            Err(status) => self.give_up_proxying(index, status),
        }
    }

    /// The deadline of a request that a server has; the module's table says which one it was.
    pub(super) fn on_proxy_timeout(&mut self, index: u32) {
        let Some(key) = self.upstream_of(index) else { return };
        let connected = self.upstreams.get(key).is_some_and(|upstream| upstream.connected);
        let waits_for_client = self.has_output(index);
        let Some(proxied) = self.exchange(index).proxied.as_deref() else { return };
        let leaves = proxied.half_closed && !proxied.filter.switched();
        let gone = leaves && (!proxied.begun || !waits_for_client);
        if gone {
            self.row.cancelled.add(1);
        }
        let tunnel = self.is_tunnel(index);
        if gone || tunnel {
            return self.abort(index);
        }
        if self.is_past_server_total(index) {
            return self.end_server_total(index, key);
        }
        if waits_for_client {
            return self.abort_stalled(index);
        }
        match connected {
            true => {
                self.fail_proxy(index, Failure::Broken, 504, "it was silent for longer than request_timeout")
            }
            false => self.fail_proxy(index, Failure::Unreachable, 504, "it accepts no connection"),
        }
    }

    /// The server has had all of its time for a request. That says nothing about others.
    pub(super) fn end_server_total(&mut self, index: u32, key: u32) {
        self.row.request_timeouts.add(1);
        let at = self.upstreams.get(key).map(|upstream| upstream.at);
        if let Some(at) = at {
            self.forgive(at);
            let (pool, settings) =
                (self.shared.pool_name(at.0), &self.shared.start.config.pools[usize::from(at.0)]);
            self.limiter.log(self.clock.now, || {
                let server = name_of(settings, usize::from(at.1));
                tracing::warn!(pool, server, "request ended: it took longer than request_total_timeout");
            });
        }
        let written =
            self.exchange(index).proxied.as_deref().is_some_and(|proxied| proxied.filter.head_written());
        if written {
            self.exchange(index).overdue = true;
            return self.abort(index);
        }
        self.drop_upstream(key);
        self.give_up_proxying(index, 504);
    }

    /// The connection goes on, or away, without what the server may still have to say.
    pub(super) fn leave_proxy(&mut self, index: u32) {
        let Some(key) = self.upstream_of(index) else { return };
        self.enter(index, State::Head);
        self.exchange(index).proxied = None;
        if let Some(at) = self.upstreams.get(key).map(|upstream| upstream.at) {
            self.forgive(at);
        }
        self.drop_upstream(key);
    }

    /// After a panic: the connection to the server goes, and the client's with it.
    pub(super) fn lose_upstream(&mut self, key: u32, serial: u32) {
        match self.upstreams.current(key, serial).map(|upstream| upstream.index) {
            Some(Some(index)) => self.close(index),
            Some(None) => self.drop_upstream(key),
            None => {}
        }
    }
}

/// The host that a request names which came without one.
fn host_of(settings: &Pool) -> String {
    match &settings.source {
        Source::Http(servers) => match servers.first() {
            Some(Upstream::Tcp { name, .. }) => name.clone(),
            _ => "localhost".to_owned(),
        },
        _ => "localhost".to_owned(),
    }
}

/// What the log calls a server of a pool.
pub(super) fn name_of(settings: &Pool, server: usize) -> String {
    let Source::Http(servers) = &settings.source else { return String::new() };
    match servers.get(server) {
        Some(Upstream::Tcp { name, .. }) => name.clone(),
        Some(Upstream::Unix(path)) => path.display().to_string(),
        None => String::new(),
    }
}

/// Whether the fault lies here: no descriptors, or no memory, are left.
fn is_our_own(error: &std::io::Error) -> bool {
    let own = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|error| own.contains(&error))
}
