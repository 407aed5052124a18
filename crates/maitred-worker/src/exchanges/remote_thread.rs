//! Requests that go to another thread without their connection: an HTTP/2 stream cannot leave its connection, and that cannot
//! leave because of one of its streams; and a thread at `connections_per_thread_max` takes no more connections.
//!
//! The other thread gets the request together with one end of a socketpair, as a connection of its own
//! ([`Connection::internal`](crate::connection::Connection::internal)), which it answers as any other: the socket may
//! even be passed to the process. The response is read from the other end. What differs from a server is here.
//!
//! | | an HTTP server's | another thread's |
//! |---|---|---|
//! | logged, counted as a request | here | here, and not there |
//! | deadlines | `request_timeout`, `request_total_timeout` | those of the other thread, and then [`TIMEOUT`] |
//! | ends without an answer | sent again if that is harmless, or 502 | the same, once; 504 after `request_timeout` |
//! | a client that has only finished sending | has a second | the other thread sees it, and sends CANCEL |

use std::time::Duration;

use maitred_http::body::Decoder;
use maitred_http::h1::Persistence;
use maitred_http::request::{Framing, HeadRoom, Method, Request};
use maitred_http::response::Filter;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair};

use super::Exchanges;
use crate::connection::State;
use crate::connection::incoming::{Coming, Incoming};
use crate::connection::refusal::fields_of;
use crate::connection::tls::TlsLookup;
use crate::forward::may_be_informed;
use crate::inbox::ConnectionTransfer;
use crate::keys::{ConnKey, UpstreamKey};
use crate::upstream::failure::Cause;
use crate::upstream::passing::{Framed, Passing};
use crate::upstream::remote_thread::{Heard, Remote, RemoteRequest, TIMEOUT};
use crate::upstream::{Attempt, By};
use maitred_config::Pool;

/// How much shorter than its timeout the silence of an overdue process may look here.
const MARGIN: Duration = Duration::from_millis(250);

impl Exchanges {
    /// Sends the request that a connection keeps to another thread, whose pool of this index shall answer it.
    pub(crate) fn send_to_thread(&mut self, index: ConnKey, pool: u16, thread: usize) {
        if self.try_send_to_thread(index, pool, thread).is_none() {
            self.enter(index, State::Head);
            self.name_for_pool(index, usize::from(pool));
            self.refuse_kept(index, 503, fields_of(503));
        }
    }

    /// `None` if no socketpair can be made. Both ends of the pair are counted as long as the near one is there.
    fn try_send_to_thread(&mut self, index: ConnKey, pool: u16, thread: usize) -> Option<()> {
        let held = self.shared.descriptors.take(2)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (near, far) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
        let exchange = self.exchange(index);
        let (mut sent, retry, last) = (exchange.split_request(), exchange.dispatch.retry, exchange.last);
        let mut room = HeadRoom::default();
        let request = sent.head.view(&mut room)?;
        let safe = matches!(request.method, Method::Get | Method::Head) && request.framing == Framing::None;
        let passes = self.passes_body(index);
        let keep = self.persistence(index, &request, last && !passes) != Persistence::Close;
        let settings = &self.shared.start.config.pools[usize::from(pool)];
        let filter = Filter::new(self.wanted(index, &request, keep, settings));
        let upstream = self.adopt_upstream((near, held), pool, index).ok()?;
        let new_id = self.forwarded.next_id();
        let id = self.exchange(index).dispatch.id_or(new_id);
        let across = self.remote_request(index, &request, settings, id);
        let remote = Remote { upstream, ..Remote::new(across.heard.clone(), across.began) };
        (sent.retry, sent.across) = (retry.of_remote_thread(), Some(Box::new(across)));
        if passes {
            // In chunks, whatever its length: so the other thread gets its trailers, too, and sees if it is not whole. What it
            // may have is checked here.
            let decoder = Decoder::new(Framing::Chunked, u64::MAX);
            sent.body.incoming = Incoming::Passed(Coming::new(decoder, request.framing));
        }
        let connection = &self.connections[index];
        let (address, listen) = (connection.remote.address, connection.listen);
        let transfer = ConnectionTransfer::of_request(far, address, listen, sent);
        let now = self.clock.now;
        let exchange = self.exchange(index);
        // The thread that answers adds the cookie for its process.
        exchange.dispatch.set_cookie = None;
        exchange.dispatch.begin(pool, 0, now);
        exchange.dispatch.set_request_id(id);
        exchange.dispatch.retry = retry.of_attempt(safe);
        let mut attempt = Attempt::new(filter, keep, None, By::Thread(remote), now);
        attempt.passing = passes.then(|| Passing::new(Framed::Chunks, false));
        self.enter_upstream(index, Box::new(attempt));
        let silent = self.request_timeout(index, pool);
        self.wheel.arm(index, now + settings.queue_timeout + silent + TIMEOUT);
        self.row.sent_to_threads.add(1);
        self.shared.transfer(thread, transfer);
        self.start_passing(index);
        Some(())
    }

    /// What the other thread needs besides the request.
    pub(super) fn remote_request(
        &self,
        index: ConnKey,
        request: &Request<'_, '_>,
        settings: &Pool,
        request_id: u128,
    ) -> RemoteRequest {
        let connection = &self.connections[index];
        let mut fields = Vec::new();
        let lookup = TlsLookup::new(&self.tls_sessions, &self.sessions, &self.connections);
        lookup.fields(connection.wire, |name, value| fields.push((name.to_owned(), value.to_vec())));
        RemoteRequest {
            secure: connection.secure,
            request_id,
            began: connection.began,
            heard: Heard::default(),
            may_be_informed: may_be_informed(connection, request, settings),
            fields,
        }
    }

    /// How long a request of this pool may wait for a process.
    pub(crate) fn queue_timeout(&self, pool: u16) -> Duration {
        self.shared.start.config.pools[usize::from(pool)].queue_timeout
    }

    /// The client has finished sending, which may mean that it has gone.
    pub(crate) fn half_close_remote_thread(&mut self, key: UpstreamKey) {
        if let Some(socket) = self.upstreams.socket(key) {
            let _ = shutdown(socket, Shutdown::Write);
        }
    }

    /// Logs that another thread gave no answer, or only a part of one: it has lost the request with a process. `None` if the
    /// client had gone before.
    pub(crate) fn note_failed_thread(&mut self, index: ConnKey, cause: Cause, why: &str) -> Option<Cause> {
        let attempt = self.attempt_of(index)?;
        let (heard_at, written) = (attempt.heard_at, attempt.filter.head_written());
        let (past_total, now) = (self.is_past_total(index), self.clock.now);
        let exchange = self.exchange(index);
        if exchange.dispatch.cancelled {
            return None;
        }
        let pool = exchange.dispatch.pool?;
        let since = if written { Some(heard_at) } else { exchange.dispatch.handed_off_at };
        let (name, timeout) = (self.shared.pool_name(pool), self.request_timeout(index, pool));
        self.limiter.log(now, || tracing::warn!(pool = name, "no response from another thread: {why}"));
        // The process may seem to have been silent for less time here: see `MARGIN`.
        let margin = if written { MARGIN } else { Duration::ZERO };
        let silent = since.is_some_and(|since| now.saturating_duration_since(since) + margin >= timeout);
        self.exchange(index).dispatch.overdue = silent || past_total;
        Some(if silent || past_total { Cause::Late } else { cause })
    }
}
