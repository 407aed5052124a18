//! Requests to external servers: which server gets one, over which connection, and what is done when it fails. What a server is
//! sent is its dialect's (`http1`).
//!
//! A request was mostly read as a whole before, so that no server waits for a slow upload; with `request_buffering` its body can
//! go on while it comes (`passing`). The phases of its attempt:
//!
//! | phase | known by | deadline | when it passes | when the server ends or breaks it |
//! |---|---|---|---|---|
//! | connecting | not `connected` | `connect_timeout` | another server, or 504 | another server, or 502 |
//! | body | no head written, `waits_for_body` | `body_timeout`, and the rate of a body | 408 | as below |
//! | sent | not `begun` | `request_timeout` since the last byte that was sent | 504 | retried, if that is harmless; or 502 |
//! | head | `begun`, no head written | `request_timeout` since its last byte | 504 | 502 |
//! | content | a head was written | the same, or the client's `write_timeout` | aborted | its end, or aborted |
//! | any of these | a call of gRPC that has one | `grpc-timeout` | DEADLINE_EXCEEDED (`end_call`) | |
//! | any of these | | `request_total_timeout` since the first of them began | 504, or aborted | |
//! | tunnel | the filter has `switched` | `tunnel_idle_timeout` | aborted | the end, once the client has all |
//!
//! **Retried**: a connection that could not be made has had no byte of the request, so that any request is given to the next
//! server. A connection that ends without a byte of a response may have been acted on, so that only requests with a safe method
//! (9110-9.2.1) are sent again: over a new connection, if it was an idle one, which the server may close at any time;
//! otherwise to another server. `retry` of the pool says more: what is retried, which
//! methods, how often, and within which budget of all requests.
//!
//! **A client that goes away** takes its connection to the server with it: there is no other way to cancel a request at a server.
//! A client that has only stopped sending may still wait for the response, and cannot be distinguished from one that is gone;
//! [`HALF_CLOSED_TIMEOUT`] is what the server has to begin with its response then, and how long it may be silent after that while
//! the client has all there is: a stream of events without events would stay as long as `request_timeout` allows. If there are
//! bytes that such a client has not taken, the kernel reports whether it is there.

use std::sync::Arc;
use std::time::Duration;

use maitred_http::h1::Persistence;
use maitred_http::request::{Method, Request};
use maitred_http::response::Filter;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::sockopt;

use super::Exchanges;
use crate::connection::refusal::fields_of;
use crate::handoff::client_of;
use crate::keys::{ConnKey, UpstreamId, UpstreamKey};
use crate::origin::{self, Client};
use crate::proxy::{Choice, Failure, List, Server, Wish, key_of};
use crate::step::{RequestInput, Step};
use crate::upstream::failure::Cause;
use crate::upstream::http2::Http2;
use crate::upstream::passing::Passing;
use crate::upstream::server::{Call, Dialect, Session, Written};
use crate::upstream::{Attempt, By, Feed, HALF_CLOSED_TIMEOUT, Read, Source};
use maitred_config::{Balance, HashKey, Pool, Source as PoolSource};
use maitred_files::RequestContext;
use maitred_http::uri::Slashes;
use maitred_policy::rewrite::cookie;
use maitred_policy::target::Target;

impl Exchanges {
    /// Passes a request on to a server of this pool. `None` if all have as many as they may have: it has to wait.
    pub(crate) fn proxy(
        &mut self,
        index: ConnKey,
        pool: usize,
        context: &RequestContext<'_>,
        given: RequestInput<'_>,
    ) -> Option<Step> {
        if !self.register(index) {
            self.close(index);
            return Some(Step::Gone);
        }
        let request = context.request;
        let claimed = self.claim_place(index, pool, request)?;
        let settings = &self.shared.start.config.pools[pool];
        let mut written = match self.write_request(index, settings, context, given) {
            Ok(written) => written,
            Err(status) => {
                claimed.held.into_iter().for_each(|slot| self.give_back((pool as u16, slot)));
                let given = RequestInput { last: true, ..given };
                return Some(self.pool_error(index, pool, request, given, status));
            }
        };
        let passes = self.passes_body(index);
        // A body that goes on is read to its end, and one that has no server is not.
        let keep = self.persistence(index, request, given.last && !passes) != Persistence::Close;
        let given = RequestInput { last: given.last || passes, ..given };
        let filter = Filter::new(self.wanted(index, request, keep, settings));
        let filter = filter.expecting(written.handshake.take());
        let (now, queue_us) = (self.clock.now, self.waited_us(index));
        let hung_up = self.connections[index].hung_up;
        self.keep_head(index, request, given);
        let exchange = self.exchange(index);
        exchange.body.content.clear();
        exchange.dispatch.begin(pool as u16, queue_us, now);
        let feed = exchange.body.spool.take().map(|spool| Feed { spool, sent: 0 });
        let passing = exchange
            .body
            .incoming
            .is_passed()
            .then(|| Passing::new(written.framed(request.framing), written.is_text()));
        let call = call_of(pool as u16, written, (settings, request), claimed);
        let mut attempt = Box::new(Attempt::new(filter, keep, feed, By::Server(call), now));
        attempt.passing = passing;
        attempt.preface = self.proxy_header(index, settings, request);
        self.row.proxied.add(1);
        let handed = &self.shared.pools[pool].handed[self.number];
        handed.requests.add(1);
        handed.wait_us.add(queue_us);
        if let Err((status, _)) = self.attempt(index, attempt) {
            return Some(self.pool_error(index, pool, request, given, status));
        }
        self.send_request(index);
        if hung_up {
            self.on_client_ended(index);
        }
        Some(Step::Waits)
    }

    /// What a request says of its server, and a place there, if the pool's servers take a limited number each. `None`: they have
    /// none, or other requests wait for one.
    fn claim_place(&mut self, index: ConnKey, pool: usize, request: &Request<'_, '_>) -> Option<Claimed> {
        let key = self.hash_of(index, pool, request);
        let pool = pool as u16;
        let mut claimed = Claimed { key, session: self.session_of(index, pool, request), held: None };
        self.refresh_servers(pool);
        if !self.upstreams.list(pool).is_some_and(List::is_bounded) {
            return Some(claimed);
        }
        // A request that has waited is the first of them.
        let has_waited =
            self.exchange_of(index).is_some_and(|exchange| exchange.dispatch.waits_since.is_some());
        if !has_waited && self.shared.servers(pool).is_some_and(|table| !table.line.is_empty()) {
            return None;
        }
        let sticky = claimed.session.as_deref().and_then(|session| session.server);
        match self.choose_server(pool, &Wish { tried: &[], key, sticky }) {
            Choice::Server(slot) => claimed.held = Some(slot),
            Choice::Full => return None,
            Choice::Nothing => {}
        }
        Some(claimed)
    }

    /// The request as the server gets it.
    ///
    /// # Errors
    /// The status to answer with.
    fn write_request(
        &mut self,
        index: ConnKey,
        settings: &Pool,
        context: &RequestContext<'_>,
        given: RequestInput<'_>,
    ) -> Result<Written, u16> {
        match &settings.source {
            PoolSource::FastCgi(fastcgi) => {
                let out = self.write_fastcgi(index, (settings, fastcgi), context, given)?;
                let dialect = Dialect::FastCgi(Box::default());
                Ok(Written { out, start: 0, dialect, host: None, handshake: None })
            }
            PoolSource::Http(_) if settings.http2 => self.write_http2(index, settings, context, given),
            // Application processes have no dialect: requests reach them over their channels.
            PoolSource::Http(_)
            | PoolSource::Command(_)
            | PoolSource::Listen { .. }
            | PoolSource::Channel(_) => self.write_head(index, settings, context, given, true).ok_or(413),
        }
    }

    /// Finds a connection for the request, to a server that it was not sent to yet.
    ///
    /// # Errors
    /// The status to answer with, and the attempt.
    fn attempt(&mut self, index: ConnKey, mut attempt: Box<Attempt>) -> Result<(), (u16, Box<Attempt>)> {
        loop {
            let now = self.clock.now;
            attempt.renew(now);
            let preface = attempt.preface.clone();
            let Some(call) = attempt.call_mut() else { return Err((500, attempt)) };
            let at = match self.next_server(call) {
                Ok(server) => (call.pool, server),
                Err(status) => return Err((status, attempt)),
            };
            let fresh = call.fresh_only || preface.is_some();
            let found = match call.dialect {
                Dialect::Http2(_) => self.join_http2(at, index),
                Dialect::Http1(_) | Dialect::FastCgi(_) => {
                    self.connect_upstream(at, index, fresh, preface.as_deref())
                }
            };
            match found {
                Ok(upstream) => {
                    if let Some(session) = call.session.as_deref_mut() {
                        self.name_server(at, session);
                    }
                    (call.upstream, call.statuses) = (upstream, self.retried_statuses(call));
                    self.exchange(index).dispatch.served.note_attempt(at.1);
                    self.enter_upstream(index, attempt);
                    if let Some(due) = self.upstream_due(index) {
                        self.wheel.arm(index, due);
                    }
                    return Ok(());
                }
                Err(error) if is_our_own(&error) => {
                    self.limiter.log(now, || tracing::error!(%error, "no connection to a server"));
                    self.give_back(at);
                    self.forgive(at);
                    return Err((503, attempt));
                }
                // The accept queue of a Unix socket is full (connect(2)): the server is busy, and has not failed.
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.give_back(at);
                    self.forgive(at);
                    call.note_tried(at.1, 503);
                }
                Err(error) => {
                    call.note_tried(at.1, 502);
                    self.give_back(at);
                    self.note_failure(at, Failure::Unreachable, &error.to_string());
                }
            }
        }
    }

    /// The server that a request goes to next, where it is counted.
    ///
    /// # Errors
    /// The status to answer with.
    fn next_server(&mut self, call: &mut Call) -> Result<u16, u16> {
        let (pool, held) = (call.pool, call.held.take());
        if self.retry_of(pool).is_none_or(|retry| call.attempts >= retry.attempts) {
            held.into_iter().for_each(|slot| self.give_back((pool, slot)));
            return Err(call.status);
        }
        call.attempts += 1;
        let choice = match held {
            Some(slot) => Choice::Server(slot),
            None => self.choose_server(pool, &call.wish()),
        };
        let server = match choice {
            Choice::Server(server) => server,
            Choice::Full => return Err(503),
            Choice::Nothing if call.tried.is_empty() => return Err(503),
            Choice::Nothing => return Err(call.status),
        };
        if let Some(row) = self.upstreams.row((pool, server)) {
            call.name_host(&row.server.upstream);
        }
        Ok(server)
    }

    /// The server for a request, by the present list of the pool's servers; the request is counted there.
    fn choose_server(&mut self, pool: u16, wish: &Wish<'_>) -> Choice {
        self.refresh_servers(pool);
        let (shared, now) = (self.shared, self.clock.now);
        match shared.servers(pool) {
            Some(table) => self.upstreams.choose((pool, table), now, wish),
            None => Choice::Nothing,
        }
    }

    /// What a request is hashed by, if its pool does that.
    fn hash_of(&self, index: ConnKey, pool: usize, request: &Request<'_, '_>) -> Option<u64> {
        let config = &self.shared.start.config;
        let balancing = &config.pools.get(pool)?.balancing;
        if balancing.balance != Balance::Hash {
            return None;
        }
        let text = match &balancing.hash_key {
            HashKey::Client => None,
            HashKey::Uri => {
                return Some(key_of(Target::asked(request, Slashes::Keep).canonical().as_bytes()));
            }
            HashKey::Header(name) => {
                let mut fields = request.fields.iter();
                fields.find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
            }
            HashKey::Cookie(name) => cookie(request, name),
            HashKey::Query(name) => {
                let mut pairs = request.query.unwrap_or_default().split('&');
                pairs.find_map(|pair| pair.strip_prefix(name.as_str())?.strip_prefix('=')).map(str::as_bytes)
            }
        };
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            return Some(key_of(text));
        }
        let peer = self.connections[index].peer();
        let client = Client::of(request, &peer, &config.server.trusted_proxies);
        Some(client_of(client.remote.address?.ip()))
    }

    /// A server was chosen, and there is no connection to it.
    fn give_back(&self, at: (u16, u16)) {
        self.end_at_server(at.0, self.upstreams.row(at).map(|row| &*row.server));
    }

    /// A server has failed this request, which is not sent to it again.
    fn note_failure(&mut self, at: (u16, u16), failure: Failure, why: &str) {
        let shared = self.shared;
        let now = self.clock.now;
        self.row.upstream_failures.add(1);
        let server = self.upstreams.row(at).map(|row| Arc::clone(&row.server));
        let (Some(server), Some(table)) = (server, shared.servers(at.0)) else { return };
        let out = server.failed(failure, table.moment(now));
        self.limiter.log(now, || {
            let out_ms = out.map(|out| out.as_millis() as u64);
            let (pool, server) = (shared.pool_name(at.0), server.name());
            tracing::warn!(pool, server, out_ms, "a server failed: {why}");
        });
    }

    /// The result of a request says nothing about the health of its server.
    pub(super) fn forgive(&mut self, at: (u16, u16)) {
        if let Some(row) = self.upstreams.row(at) {
            row.server.unknown();
        }
    }

    /// Sends what the server takes of the request. A server that takes nothing any more shows when its response is read, or the
    /// lack of one: it may have answered before it had all.
    pub(crate) fn send_request(&mut self, index: ConnKey) {
        let now = self.clock.now;
        let Some(Source::Server(key)) = self.source_of(index) else { return };
        if self.attempt_of(index).is_some_and(Attempt::speaks_http2) {
            return self.send_stream_request(index, key);
        }
        let Some(upstream) = self.upstreams.get(key).filter(|upstream| !upstream.untried) else { return };
        if !upstream.connected {
            return self.count_unsent(index);
        }
        let connection = &mut self.processes.clients.connections[index];
        let Some(attempt) = connection.attempt_mut() else { return };
        let (body, switched) = ((&mut attempt.feed, &mut attempt.passing), attempt.filter.switched());
        let By::Server(call) = &mut attempt.by else { return };
        if call.send_failed || switched {
            return;
        }
        let mut moved = 0;
        let result = call.send(&mut upstream.far_end(), body, &mut moved);
        call.any_sent |= moved > 0;
        call.send_failed = result.is_err();
        if moved > 0 {
            // A server that takes the request is not silent.
            attempt.note_heard(now);
        }
        if result.is_err() {
            // Whatever the reason, nothing more is sent, and the server must not wait for the rest.
            upstream.far_end().finish();
        }
        match attempt.unsent_bytes() > 0 {
            true => self.count_unsent(index),
            false => self.recount_unsent(index),
        }
        if result != Ok(false) {
            self.look_again(index);
        }
    }

    /// How long the connection to a server of this pool may take.
    pub(crate) fn connect_timeout(&self, pool: u16) -> Duration {
        self.shared.start.config.pools[usize::from(pool)].connect_timeout
    }

    pub(crate) fn on_upstream(&mut self, id: UpstreamId, flags: epoll::EventFlags) {
        use epoll::EventFlags as F;
        let key = id.key;
        let Some(upstream) = self.upstreams.current(id) else { return };
        upstream.hung_up |= flags.intersects(F::RDHUP | F::HUP | F::ERR);
        if upstream.http2.is_some() {
            return self.on_http2(key, flags);
        }
        let Some(index) = upstream.index else {
            // An event may be about what was read in this turn already.
            if flags.intersects(F::IN | F::RDHUP | F::HUP | F::ERR) && !self.is_clean(key) {
                self.drop_upstream(key);
            }
            return;
        };
        if upstream.untried {
            // The server has sent something, or closed, before the request: the request is not sent there.
            return;
        }
        if !upstream.connected {
            let refused = match sockopt::socket_error(upstream.socket()) {
                Ok(Ok(())) if !flags.intersects(F::ERR | F::HUP) => None,
                Ok(Ok(())) => Some("no connection".to_owned()),
                Ok(Err(error)) | Err(error) => Some(error.to_string()),
            };
            if let Some(why) = refused {
                return self.fail_upstream(index, Cause::Unreachable { late: false }, &why);
            }
            match upstream.prepare() {
                Ok(true) => upstream.connected = true,
                Ok(false) => return,
                Err(why) => return self.fail_upstream(index, Cause::Unreachable { late: false }, &why),
            }
            self.note_heard(index);
            let now = self.clock.now;
            let dispatch = &mut self.exchange(index).dispatch;
            dispatch.served.connected_us = dispatch.given_for_us(now);
            self.wait_for_upstream(index);
        }
        self.move_upstream(index);
    }

    /// Logs what a server has done wrong, and reports it to the balancer. Gives back the cause as it counts for the client.
    pub(crate) fn note_failed_server(
        &mut self,
        index: ConnKey,
        key: UpstreamKey,
        cause: Cause,
        why: &str,
    ) -> Cause {
        let Some(connection) = self.upstreams.get(key) else { return cause };
        let (at, used) = (connection.at, connection.used);
        self.row.request_timeouts.add(u64::from(cause == Cause::Late));
        self.exchange(index).dispatch.overdue |= cause == Cause::Late;
        let Some(attempt) = self.attempt_mut(index) else { return cause };
        let (begun, heard_at) = (attempt.begun, attempt.heard_at);
        if cause == Cause::Late
            && let Some(http2) = self.upstreams.http2(key)
        {
            // Nothing has come for any of its requests: the way to the server may be gone, and no other one goes there.
            http2.over |= http2.heard_at <= heard_at;
        }
        let Some(call) = self.attempt_mut(index).and_then(|attempt| attempt.call_mut()) else { return cause };
        if used && cause == Cause::Lost && !begun && !call.fresh_only && (call.harmless || !call.any_sent) {
            // The server may have closed an idle connection while the request was on its way.
            call.fresh_only = true;
            call.attempts = call.attempts.saturating_sub(1);
            call.stays = true;
            self.forgive(at);
            return Cause::Stale;
        }
        if let Cause::Status(status) = cause {
            // A response with this status is an answer: the server can be reached.
            call.note_tried(at.1, status);
            self.forgive(at);
            if let Some(server) = self.upstreams.row(at).map(|row| Arc::clone(&row.server)) {
                self.judge_status(at.0, &server, status);
            }
            return cause;
        }
        if cause == Cause::Unprocessed {
            // A server that ends a connection has not failed: the same server takes the request over another one, if no other
            // has room.
            call.stays = true;
            self.forgive(at);
            return cause;
        }
        let (failure, status) = match cause {
            Cause::Unreachable { late } => (Failure::Unreachable, if late { 504 } else { 502 }),
            Cause::Late => (Failure::Broken, 504),
            Cause::Overloaded => (Failure::Broken, 503),
            Cause::Lost | Cause::Bad | Cause::Unprocessed | Cause::Stale | Cause::Status(_) => {
                (Failure::Broken, 502)
            }
        };
        call.note_tried(at.1, status);
        match self.upstreams.http2(key).is_none_or(Http2::counts_failure) {
            true => self.note_failure(at, failure, why),
            false => self.forgive(at),
        }
        cause
    }

    /// Sends the request over another connection.
    pub(crate) fn retry_server(&mut self, index: ConnKey, key: UpstreamKey) {
        let Some(mut attempt) = self.take_attempt(index) else { return };
        let stays = attempt.call_mut().is_some_and(|call| std::mem::take(&mut call.stays));
        if stays && !self.has_place(&attempt) {
            self.hold_place(key, &mut attempt);
        }
        match attempt.speaks_http2() {
            true => self.leave_stream(index, key, &mut attempt),
            false => self.drop_upstream(key),
        }
        self.attempt_again(index, attempt);
    }

    /// Whether a server of the request's pool takes another one.
    fn has_place(&self, attempt: &Attempt) -> bool {
        let By::Server(call) = &attempt.by else { return false };
        self.upstreams.list(call.pool).is_some_and(List::has_place)
    }

    /// A request leaves its connection for another one to the same server: it keeps its place there.
    pub(super) fn hold_place(&mut self, key: UpstreamKey, attempt: &mut Attempt) {
        let Some(at) = self.upstreams.get(key).map(|connection| connection.at) else { return };
        let (Some(table), Some(call)) = (self.shared.servers(at.0), attempt.call_mut()) else { return };
        // An unlimited one has room anyhow, and another may be better now.
        let row = self.upstreams.row(at).filter(|row| row.listed.max < u32::MAX);
        if let Some(row) = row {
            table.hold(row);
            call.held = Some(at.1);
        }
    }

    /// Sends a request that has no connection any more over another one.
    pub(super) fn attempt_again(&mut self, index: ConnKey, attempt: Box<Attempt>) {
        match self.attempt(index, attempt) {
            Ok(()) => {
                self.row.upstream_retries.add(1);
                self.exchange(index).dispatch.overdue = false;
                self.pass_request(index);
            }
            Err((status, attempt)) => self.refuse_attempt(index, status, *attempt),
        }
    }

    /// The idle connection that was chosen for a request is of no use. The other idle ones are as old, so a new one is made.
    pub(crate) fn replace_upstream(&mut self, index: ConnKey) {
        let Some(Source::Server(key)) = self.source_of(index) else { return };
        if let Some(at) = self.upstreams.get(key).map(|upstream| upstream.at) {
            self.forgive(at);
        }
        let Some(mut attempt) = self.take_attempt(index) else { return };
        self.hold_place(key, &mut attempt);
        self.drop_upstream(key);
        if let Some(call) = attempt.call_mut() {
            call.attempts = call.attempts.saturating_sub(1);
            call.fresh_only = true;
        }
        match self.attempt(index, attempt) {
            Ok(()) => self.pass_request(index),
            Err((status, attempt)) => self.refuse_attempt(index, status, *attempt),
        }
    }

    /// No other server takes the request.
    fn refuse_attempt(&mut self, index: ConnKey, status: u16, attempt: Attempt) {
        self.note_last_words(index, attempt);
        self.refuse_kept(index, status, fields_of(status));
    }

    /// The client has finished sending, and may have gone; the server does not know that.
    pub(crate) fn expect_client_to_leave(&mut self, index: ConnKey) {
        // If bytes wait for the client, the kernel reports whether it has gone.
        let (waits_for_client, now) = (self.has_output(index), self.clock.now);
        let Some(attempt) = self.attempt_mut(index) else { return };
        let switched = attempt.filter.switched();
        let Some(call) = attempt.call_mut() else { return };
        let (known, pool) = (std::mem::replace(&mut call.half_closed, true), call.pool);
        if !known {
            // The short timeout begins now.
            attempt.heard_at = now;
        }
        if known || switched || waits_for_client {
            return;
        }
        let timeout = HALF_CLOSED_TIMEOUT.min(self.request_timeout(index, pool));
        self.wheel.arm(index, now + timeout);
    }

    /// The deadline of a request that a server has; the table at the top of the file has them.
    pub(crate) fn on_server_timeout(&mut self, index: ConnKey, key: UpstreamKey) {
        let waits_for_client = self.has_output(index);
        let Some(attempt) = self.attempt_mut(index) else { return };
        let (begun, switched) = (attempt.begun, attempt.filter.switched());
        let leaves = attempt.call_mut().is_some_and(|call| call.half_closed) && !switched;
        if attempt.filter.complete() && !waits_for_client {
            // The client has everything; only END_REQUEST of the application is missing. The missing frame is no failure.
            return self.settle_upstream(index, Source::Server(key));
        }
        let gone = leaves && (!begun || !waits_for_client);
        self.row.cancelled.add(u64::from(gone));
        if gone || switched {
            return self.abort(index);
        }
        if self.is_past_deadline(index) {
            return self.end_call(index, key);
        }
        if self.is_past_total(index) {
            return self.end_server_total(index, key);
        }
        if waits_for_client {
            return self.abort_stalled(index);
        }
        if self.waits_for_body(index) {
            // The client's delay says nothing about the server.
            return self.refuse_upstream(index, 408);
        }
        match self.upstreams.is_connected(key) {
            true => self.fail_upstream(index, Cause::Late, "it was silent for longer than request_timeout"),
            false => self.fail_upstream(index, Cause::Unreachable { late: true }, "it accepts no connection"),
        }
    }

    /// `request_total_timeout` of a request has passed. The timeout says nothing about the health of the server.
    pub(crate) fn end_server_total(&mut self, index: ConnKey, key: UpstreamKey) {
        self.row.request_timeouts.add(1);
        let at = self.upstreams.get(key).map(|upstream| upstream.at);
        if let Some(at) = at {
            self.forgive(at);
            let pool = self.shared.pool_name(at.0);
            let server = self.upstreams.row(at).map(|row| Arc::clone(&row.server));
            self.log_limited(|| {
                let server = server.map(|server| server.name());
                tracing::warn!(pool, server, "request ended: it took longer than request_total_timeout");
            });
        }
        if self.attempt_of(index).is_some_and(|attempt| attempt.filter.head_written()) {
            self.exchange(index).dispatch.overdue = true;
            return self.abort(index);
        }
        self.refuse_upstream(index, 504);
    }

    /// Reads once from the connection to a server, or to another thread.
    pub(crate) fn receive_from_server(
        &mut self,
        key: UpstreamKey,
        rx: &mut Vec<u8>,
    ) -> Result<Read, (Cause, String)> {
        let Some(upstream) = self.upstreams.get(key) else { return Ok(Read::Drained) };
        if !upstream.connected || upstream.untried {
            return Ok(Read::Drained);
        }
        match upstream.receive(rx) {
            Ok((0, _)) => Ok(Read::Ended),
            Ok((_, false)) => Ok(Read::Drained),
            Ok((_, true)) | Err(Errno::INTR) => Ok(Read::More),
            Err(Errno::AGAIN) => Ok(Read::Drained),
            Err(error) => Err((Cause::Lost, error.to_string())),
        }
    }

    /// Logs messages of applications (`STDERR` of FastCGI).
    pub(crate) fn log_messages(&mut self, index: ConnKey, messages: &[Vec<u8>]) {
        if messages.is_empty() {
            return;
        }
        let id = self.exchange(index).dispatch.request_id().map(origin::hexadecimal).unwrap_or([b'-'; 32]);
        let pool = self.exchange(index).dispatch.pool.map_or("", |pool| self.shared.pool_name(pool));
        let request_id = String::from_utf8_lossy(&id);
        for line in messages {
            tracing::warn!(pool, %request_id, "FastCGI: {}", String::from_utf8_lossy(line));
        }
    }

    /// Logs a message that was not complete when the attempt ended.
    pub(crate) fn note_last_words(&mut self, index: ConnKey, attempt: Attempt) {
        let By::Server(call) = attempt.by else { return };
        if let Dialect::FastCgi(mut spoken) = call.dialect {
            let mut messages = Vec::new();
            let _ = spoken.reply.end(&mut |line| messages.push(line.to_vec()));
            self.log_messages(index, &messages);
        }
    }

    /// The server's connection is of no use for anything else.
    pub(crate) fn leave_server(&mut self, key: UpstreamKey) {
        if let Some(at) = self.upstreams.get(key).map(|connection| connection.at) {
            self.forgive(at);
        }
        self.drop_upstream(key);
    }

    /// The response is out: the connection is kept, if nothing can be in it.
    pub(crate) fn release_server(&mut self, key: UpstreamKey, attempt: &Attempt) {
        let sent = match &attempt.by {
            By::Server(call) => call.is_sent() && attempt.is_fed(),
            By::Process(_) | By::Thread(_) | By::Fill(_) => true,
        };
        let holds =
            self.upstreams.get(key).and_then(|found| found.tls.as_ref()).is_some_and(|tls| tls.holds());
        match attempt.filter.lasts() && sent && !holds && (attempt.drained || self.is_clean(key)) {
            true => self.keep_upstream(key),
            false => self.drop_upstream(key),
        }
    }

    /// A response counts as a success of its server.
    pub(crate) fn note_response(&mut self, index: ConnKey) {
        let Some(Source::Server(key)) = self.source_of(index) else { return };
        let status = self.attempt_of(index).and_then(|attempt| attempt.filter.status());
        self.exchange(index).dispatch.served.status = status.unwrap_or_default();
        let (shared, now) = (self.shared, self.clock.now);
        let Some(upstream) = self.upstreams.get(key) else { return };
        let pool = upstream.at.0;
        let (Some(server), Some(table)) = (&upstream.server, shared.servers(pool)) else { return };
        let moment = table.moment(now);
        let comes_back = server.succeeded(moment);
        let (rule, timed) = (&table.policy.outliers, table.policy.balance == Balance::LeastTime);
        if !comes_back && rule.is_none() && !timed {
            return;
        }
        let server = Arc::clone(server);
        if timed {
            let took = self.exchange(index).dispatch.given_for_us(now);
            server.note_latency(Duration::from_micros(took.into()), moment);
        }
        if comes_back {
            let pool = shared.pool_name(pool);
            self.log_limited(|| tracing::info!(pool, server = server.name(), "a server is available again"));
        }
        self.judge_status(pool, &server, status.unwrap_or_default());
    }

    /// Counts a response for `outliers` of its pool.
    fn judge_status(&mut self, pool: u16, server: &Server, status: u16) {
        let (shared, now) = (self.shared, self.clock.now);
        let Some(table) = shared.servers(pool) else { return };
        let Some(rule) = &table.policy.outliers else { return };
        if let Some(time) = server.judge(status >= 500, rule, table.moment(now)) {
            let (pool, server, out_ms) = (shared.pool_name(pool), server.name(), time.as_millis() as u64);
            self.log_limited(|| {
                tracing::warn!(pool, server, out_ms, "a server is ejected: it answers with errors")
            });
        }
    }

    /// After a panic: the connection to the server is closed, and the client's with it.
    pub(crate) fn lose_upstream(&mut self, id: UpstreamId) {
        if self.upstreams.current(id).is_some_and(|upstream| upstream.http2.is_some()) {
            return self.lose_http2(id.key);
        }
        match self.upstreams.current(id).map(|upstream| upstream.index) {
            Some(Some(index)) => self.close(index),
            Some(None) => self.drop_upstream(id.key),
            None => {}
        }
    }
}

/// What a request says of its server, and where it is counted already.
struct Claimed {
    key: Option<u64>,
    session: Option<Box<Session>>,
    /// The slot.
    held: Option<u16>,
}

/// A request to servers of this pool.
fn call_of(
    pool: u16,
    written: Written,
    (settings, request): (&Pool, &Request<'_, '_>),
    claimed: Claimed,
) -> Call {
    let safe = settings.external.retry.methods.iter().any(|method| method == request.method_text);
    let mut call = Call::new(pool, written, safe);
    call.harmless = matches!(request.method, Method::Get | Method::Head | Method::Options);
    (call.key, call.session, call.held) = (claimed.key, claimed.session, claimed.held);
    call.note_client(settings, request.authority);
    call
}

/// Whether the cause is in this process: no descriptors, or no memory, are left.
fn is_our_own(error: &std::io::Error) -> bool {
    let own = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|error| own.contains(&error))
}
