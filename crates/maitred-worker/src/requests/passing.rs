//! Requests whose bodies go to an upstream while they come (`request_buffering`).
//!
//! | | an HTTP server | a FastCGI application | a process |
//! |---|---|---|---|
//! | `on` | whole | whole | whole |
//! | `auto` | as it comes if it is announced to be too long for memory, otherwise whole | whole | whole |
//! | `off` | as it comes | as it comes if its length is announced, otherwise whole | as it comes, if it takes that¹ |
//!
//! ¹ If it has said STREAMS; otherwise whole.
//!
//! `auto` reads a body for a process as a whole, however long it is: a process that runs one request after another would be held
//! by a slow client. Whether a pool's processes take bodies that come is known when one of them has said so. A request can get to
//! one that has not (its program was changed, say), when its head has been given away already: then the body is read first, and
//! the request is given away anew.
//!
//! A call of gRPC to a server of HTTP/2 always goes on as it comes: its messages may be answers to those of the response.
//!
//! The head is routed and given away at once, with nothing of the body. What answers it otherwise (an error, a file) leaves the
//! rest of the body to be dropped, as after any early answer. What comes then is `exchanges::passing`'s.

use std::sync::atomic::Ordering::Relaxed;

use maitred_http::body::Decoder;
use maitred_http::grpc;
use maitred_http::request::{Framing, Request};

use super::Requests;
use super::receive::{Unread, announces_over};
use crate::connection::incoming::{Coming, Incoming};
use crate::connection::table::Phase;
use crate::connection::{After, State};
use crate::keys::ConnKey;
use crate::step::{RequestInput, Step, Stop};
use crate::upstream::Attempt;
use maitred_config::{Buffering, Source};
use maitred_files::exchange::Routed;

impl Requests {
    /// Whether a body goes to what answers while it comes; the table at the top of the file.
    pub(super) fn may_pass(&self, request: &Request<'_, '_>, routed: Routed) -> bool {
        let framing = request.framing;
        let config = &self.shared.start.config;
        let pool = routed.pool().and_then(|pool| config.pools.get(pool));
        let web = routed.plan.overrides.grpc_web.unwrap_or(false);
        if pool.is_some_and(|pool| pool.http2)
            && grpc::Form::of(request).is_some_and(|form| web || !form.is_web())
        {
            return true;
        }
        let source = pool.map(|pool| &pool.source);
        let overrides = &routed.plan.overrides;
        let memory = overrides.limits.body_memory_bytes_max;
        let in_memory = memory.unwrap_or(config.limits.body_memory_bytes_max.into());
        match (source, overrides.request_buffering.unwrap_or_default()) {
            (Some(Source::Http(_)), Buffering::Off) => true,
            (Some(Source::Http(_)), Buffering::Auto) => announces_over(framing, in_memory),
            // A CGI application learns the length beforehand (RFC 3875 section 4.1.2).
            (Some(Source::FastCgi(_)), Buffering::Off) => matches!(framing, Framing::Length(_)),
            (Some(Source::Command(_) | Source::Channel(_)), Buffering::Off) => {
                let shared = routed.pool().and_then(|pool| self.shared.pools.get(pool));
                shared.is_some_and(|shared| shared.streams.load(Relaxed))
            }
            _ => false,
        }
    }

    /// The process that is to answer takes no body that comes: it is kept, and the request is answered when it is whole.
    #[cold]
    pub(super) fn read_body_first(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
    ) -> Step {
        self.keep(index, request, RequestInput { last: false, ..given });
        self.exchange(index).body.incoming.keep_passed();
        if request.expects_continue && !self.has_input(index) && !given.followed {
            self.ask_for_body(index, given.routed);
        }
        self.enter(index, State::Body);
        self.begin_pace(index);
        Step::ReadsBody
    }

    /// Answers a request whose body has yet to come, and goes on to its upstream as it does.
    pub(super) fn answer_while_body_comes(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        unread: Unread<'_>,
        decoder: Decoder,
        at: &mut usize,
    ) -> Option<Stop> {
        if !self.buffers.tx.is_empty() {
            return Some(Stop::Flush);
        }
        let asks = request.expects_continue && unread.rest.is_empty();
        let exchange = self.exchange(index);
        exchange.body.incoming = Incoming::Passed(Coming::new(decoder, request.framing));
        exchange.body.trailers = None;
        // If it is answered here, a long rest of the body is not read.
        let short = u64::from(self.shared.start.config.limits.body_inline_bytes_max);
        let last = announces_over(request.framing, short);
        let step = self.answer(index, request, unread.given(&[], last));
        if step == Step::FlushFirst {
            self.exchange(index).body.incoming = Incoming::Nothing;
            return Some(Stop::Flush);
        }
        *at += unread.head.len();
        if asks && self.attempt_of(index).is_some_and(Attempt::speaks_fastcgi) {
            // Nothing of FastCGI asks for a body.
            self.ask_for_body(index, unread.routed);
            self.send_encoded(index);
        }
        let step = self.settle_passing(index, step);
        self.follow(index, step)
    }

    /// A request whose body goes on while it comes was answered, or given away: then that begins. What is left of the body of one
    /// that has its answer is dropped.
    pub(super) fn settle_passing(&mut self, index: ConnKey, step: Step) -> Step {
        let Some(connection) = self.connections.get_mut(index) else { return step };
        let phase = connection.state.phase();
        let Some(exchange) = connection.exchange.as_deref_mut() else { return step };
        if !exchange.body.incoming.is_passed() {
            return step;
        }
        match step {
            Step::Waits if phase == Phase::Upstream => self.start_passing(index),
            Step::Waits if phase == Phase::Writing => _ = exchange.body.incoming.drop_passed(),
            Step::Next => _ = exchange.body.incoming.drop_passed(),
            // The client may send the body all the same, and must not lose the response by a reset.
            Step::Last(_) => return Step::Last(After::Linger),
            Step::Waits | Step::ReadsBody | Step::Moves(..) | Step::FlushFirst | Step::Gone => {}
        }
        step
    }
}
