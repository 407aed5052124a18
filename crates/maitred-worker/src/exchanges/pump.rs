//! What comes from an upstream, on its way to the client: read, checked, and sent on at the client's speed.
//!
//! Nothing more is read while anything read before has yet to be sent, unless the route keeps more
//! ([`buffering`](super::buffering)). So a slow client is seen by the upstream as a full socket, and no more than one read is
//! kept here.

use rustix::net::{Shutdown, shutdown};

use super::Exchanges;
use crate::connection::After;
use crate::connection::outgoing::Outgoing;
use crate::connection::retry::RetryState;
use crate::connection::wire::{Sent, Then};
use crate::keys::ConnKey;
use crate::upstream::failure::Cause;
use crate::upstream::server::{Call, Dialect};
use crate::upstream::{Attempt, By, Read, Source};
use maitred_files::Summary;
use maitred_files::exchange::ResponseWriter;

/// Bytes that one client may get in one turn, so that the others get their turn.
const MOVED_PER_TURN: usize = 512 * 1024;

impl Exchanges {
    /// Moves what there is from the upstream to the client.
    pub(crate) fn pump_to_client(&mut self, index: ConnKey) {
        if self.is_past_all_bounds(index) {
            let source = self.source_of(index);
            self.end_past_bounds(index);
            if source.is_some() && self.source_of(index) == source {
                // The process only got CANCEL: what is in its relay makes no further edge.
                self.look_again(index);
            }
            return;
        }
        let (mut moved, mut read) = (0, Read::More);
        while let Some(source) = self.source_of(index) {
            match self.send_what_is_left(index) {
                Left::Nothing => {}
                Left::Something if self.runs_ahead(index) => {}
                Left::Something | Left::NotNow => return,
            }
            if self.is_spilling(index) {
                return;
            }
            if self.is_answered(index) {
                return self.settle_upstream(index, source);
            }
            if self.has_far_end_ended(index) {
                return self.half_close_client(index, source);
            }
            let goes_on = match read {
                Read::More => true,
                Read::Drained => self.on_drained(index, source),
                Read::Ended => self.on_ended(index, source),
                Read::Failed => false,
            };
            if !goes_on {
                return;
            }
            if read != Read::More {
                // What was written may have been the end.
                read = Read::More;
                continue;
            }
            if moved >= MOVED_PER_TURN {
                return self.look_again(index);
            }
            read = self.read_source(index, source, &mut moved);
        }
    }

    /// Sends what is left of what was read before.
    fn send_what_is_left(&mut self, index: ConnKey) -> Left {
        // The rest that TLS had may have been sent since.
        let counted = self.exchange_of(index).is_some_and(|exchange| exchange.outgoing.unsent.is_some());
        let held = self.has_output(index) || counted;
        match self.send_rest(index) {
            Sent::All => {}
            Sent::Waits => {
                self.count_unsent(index);
                return Left::Something;
            }
            Sent::Share => {
                self.look_again(index);
                return Left::NotNow;
            }
            Sent::Broken => {
                self.abort(index);
                return Left::NotNow;
            }
        }
        if held {
            self.recount_unsent(index);
            self.exchange(index).outgoing.existing().into_iter().for_each(Outgoing::leave_file);
            // The time that the upstream waited for the client does not count as its silence.
            self.note_heard(index);
            self.wait_for_upstream(index);
        }
        Left::Nothing
    }

    /// Whether nothing more belongs to the response, and nothing else can come in its place.
    fn is_answered(&self, index: ConnKey) -> bool {
        self.attempt_of(index).is_some_and(Attempt::is_answered)
    }

    /// Something of the response has come, or could have come.
    pub(crate) fn note_heard(&mut self, index: ConnKey) {
        let now = self.clock.now;
        if let Some(attempt) = self.attempt_mut(index) {
            attempt.note_heard(now);
        }
    }

    /// Reads once, and sends what became of it; what the client does not take stays in the connection's output.
    fn read_source(&mut self, index: ConnKey, source: Source, moved: &mut usize) -> Read {
        if let Source::Server(key) = source
            && self.attempt_of(index).is_some_and(Attempt::speaks_http2)
        {
            return self.read_stream(index, key, moved);
        }
        if source == Source::Fill {
            return self.read_from_fill(index, moved);
        }
        let mut rx = self.buffers.rx.take();
        let received = match source {
            Source::Fill => Ok(Read::Drained),
            Source::Relay(relay) => self.receive_from_relay(index, relay, &mut rx),
            Source::Server(key) | Source::Thread(key) => self.receive_from_server(key, &mut rx),
        };
        *moved += rx.len();
        let drained = matches!(received, Ok(Read::Drained));
        if let Some(attempt) = self.attempt_mut(index) {
            attempt.drained = drained;
        }
        let judged = match rx.is_empty() {
            false => self.pass_on(index, &rx),
            true if drained => self.pass_on_held(index),
            true => Ok(()),
        };
        self.buffers.rx.put_back(rx);
        self.let_go_of(index, source);
        match (received, judged) {
            (_, Err((cause, why))) | (Err((cause, why)), Ok(())) => {
                self.fail_upstream(index, cause, &why);
                Read::Failed
            }
            (Ok(read), Ok(())) => read,
        }
    }

    /// A FastCGI application whose response is complete waits until its connection ends. So that is shut down at once, and not
    /// when the client has everything.
    fn let_go_of(&mut self, index: ConnKey, source: Source) {
        let Source::Server(key) = source else { return };
        let is_over = |by: &By| match by {
            By::Server(Call { dialect: Dialect::FastCgi(spoken), .. }) => spoken.reply.is_complete(),
            By::Server(Call { dialect: Dialect::Http1(_) | Dialect::Http2(_), .. })
            | By::Process(_)
            | By::Fill(_)
            | By::Thread(_) => false,
        };
        if self.attempt_of(index).is_some_and(|attempt| is_over(&attempt.by))
            && let Some(socket) = self.upstreams.socket(key)
        {
            let _ = shutdown(socket, Shutdown::Both);
        }
    }

    /// Has bytes of the upstream checked by the filter, and sends what the filter made of them.
    pub(crate) fn pass_on(&mut self, index: ConnKey, input: &[u8]) -> Result<(), (Cause, String)> {
        let (now, ends) = (self.clock.now, self.ends_soon(index));
        let Some(attempt) = self.attempt_mut(index) else { return Ok(()) };
        let (headless, switched) = (!attempt.filter.head_written(), attempt.filter.switched());
        let begins = !std::mem::replace(&mut attempt.begun, true);
        attempt.note_heard(now);
        if headless && ends {
            attempt.filter.say_close();
        }
        if begins && let Some(exchange) = self.connections[index].exchange.as_deref_mut() {
            exchange.dispatch.served.began_us = exchange.dispatch.given_for_us(now).max(1);
        }
        let result = self.encode_attempt(index, |attempt, writer, log| {
            attempt.feed(input, writer, log)?;
            if attempt.pauses() { attempt.flush(writer) } else { Ok(()) }
        });
        let Some(attempt) = self.attempt_mut(index) else { return Ok(()) };
        if attempt.named.is_some() {
            self.answer_with_named_file(index);
            return Ok(());
        }
        if let Some(status) = attempt.call_mut().and_then(|call| call.refused.take()) {
            attempt.filter.renew();
            return Err((Cause::Status(status), format!("it has answered with {status}")));
        }
        let headed = headless && attempt.filter.head_written();
        let switches = !switched && attempt.filter.switched();
        self.send_encoded(index);
        if headed {
            self.note_response(index);
        }
        match self.source_of(index) {
            Some(Source::Relay(_)) => self.look_at_detached(index),
            Some(Source::Server(_) | Source::Thread(_)) if switches => self.begin_tunnel(index),
            _ => {}
        }
        result
    }

    /// The upstream pauses: what an encoder has of its response goes to the client, which may wait for just that.
    fn pass_on_held(&mut self, index: ConnKey) -> Result<(), (Cause, String)> {
        if !self.exchange_of(index).is_some_and(|exchange| exchange.dispatch.holds_content()) {
            return Ok(());
        }
        let result = self.encode_attempt(index, |attempt, writer, _| match attempt.pauses() {
            true => attempt.flush(writer),
            false => Ok(()),
        });
        self.send_encoded(index);
        result
    }

    /// Has something written to the client by the attempt, if there is one.
    fn encode_attempt(
        &mut self,
        index: ConnKey,
        write: impl FnOnce(
            &mut Attempt,
            &mut ResponseWriter<'_>,
            &mut dyn FnMut(&[u8]),
        ) -> Result<(), (Cause, String)>,
    ) -> Result<(), (Cause, String)> {
        let mut messages = Vec::new();
        let mut note = |line: &[u8]| messages.push(line.to_vec());
        let result = self.encode(index, |attempt, writer| write(attempt, writer, &mut note));
        self.log_messages(index, &messages);
        result.unwrap_or(Ok(()))
    }

    /// Sends what was written at once, as far as it goes, behind what waits already.
    pub(crate) fn send_encoded(&mut self, index: ConnKey) {
        let mut tx = std::mem::take(&mut self.buffers.tx);
        self.send_now(index, &tx);
        tx.clear();
        self.buffers.tx = tx;
    }

    fn send_now(&mut self, index: ConnKey, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let waits = self.exchange_of(index).is_some_and(|exchange| !exchange.outgoing.is_empty());
        if waits {
            return self.keep_for_client(index, bytes);
        }
        let sent = self.send(index, bytes, Then::Perhaps).unwrap_or(0);
        self.progress(index);
        // An error is reported again, and handled, when the rest is sent.
        let rest = bytes.get(sent..).unwrap_or_default();
        if !rest.is_empty() {
            self.keep_for_client(index, rest);
        }
    }

    /// Nothing more is there for now. True if there is more to send.
    fn on_drained(&mut self, index: ConnKey, source: Source) -> bool {
        match source {
            Source::Relay(_) => self.end_relay(index),
            Source::Server(_) | Source::Thread(_) | Source::Fill => {
                self.wait_for_upstream(index);
                false
            }
        }
    }

    /// The upstream has finished sending. True if there is more to send to the client.
    fn on_ended(&mut self, index: ConnKey, source: Source) -> bool {
        debug_assert!(!matches!(source, Source::Relay(_)), "what a process has ended, DONE says");
        // A filter that has received nothing is used again for the retry.
        let begun = self.attempt_of(index).is_some_and(|attempt| attempt.begun);
        match begun {
            true => self.end_of_stream(index),
            false => {
                self.fail_upstream(index, Cause::Lost, "it closed the connection without an answer");
                false
            }
        }
    }

    /// Nothing follows: the response is whole, or has failed. True in the first case.
    pub(crate) fn end_of_stream(&mut self, index: ConnKey) -> bool {
        let ended = self.encode_attempt(index, |attempt, writer, log| attempt.end(writer, log));
        self.send_encoded(index);
        if let Err((cause, why)) = ended {
            self.fail_upstream(index, cause, &why);
            return false;
        }
        true
    }

    /// Waits for the upstream, because the client has all that there was.
    pub(crate) fn wait_for_upstream(&mut self, index: ConnKey) {
        if self.has_output(index) {
            return;
        }
        if self.is_tunnel(index) {
            return self.arm_tunnel(index);
        }
        let Some(due) = self.upstream_due(index) else { return };
        match due > self.clock.now {
            true => self.wheel.arm(index, due),
            // Each byte of the upstream has put off the timer, which was set for the client; now the bounds of the upstream
            // apply.
            false => self.end_past_bounds(index),
        }
    }

    /// Whether the time of the upstream is over, even if it goes on sending.
    fn is_past_all_bounds(&self, index: ConnKey) -> bool {
        let bounded = self.exchange_of(index).is_some_and(|exchange| exchange.dispatch.overdue);
        (bounded || self.is_past_total(index) || self.is_past_deadline(index))
            && self.upstream_due(index).is_some_and(|due| due <= self.clock.now)
    }

    fn end_past_bounds(&mut self, index: ConnKey) {
        self.row.timeouts.add(1);
        self.on_upstream_timeout(index);
    }

    /// The whole response is out. Once the upstream has reported the end as well, it is free, and the client's connection goes
    /// on.
    pub(crate) fn settle_upstream(&mut self, index: ConnKey, source: Source) {
        if !self.attempt_of(index).is_some_and(Attempt::is_done) {
            return;
        }
        let now = self.clock.now;
        // Before the connection's next request, which may use the same upstream.
        let Some(mut attempt) = self.take_attempt(index) else { return };
        let exchange = self.exchange(index);
        exchange.body.incoming.drop_passed();
        if let Some(trailers) = attempt.filter.take_framed_trailers() {
            exchange.outgoing.trailers = Some(trailers);
        }
        let (status, body_bytes) = (attempt.filter.status().unwrap_or(502), attempt.filter.body_bytes());
        exchange.summary = Some(Summary { status, body_bytes });
        exchange.after = Some(match &attempt.tunnel {
            // What the client may still send has to be read: otherwise a reset could overtake the last bytes to it.
            Some(_) => After::Linger,
            None if attempt.keep && attempt.filter.keeps() => After::Keep,
            None => After::Close,
        });
        exchange.outgoing.drop_returned();
        exchange.dispatch.retry = RetryState::Never;
        exchange.dispatch.served.ended_us = exchange.dispatch.given_for_us(now);
        self.count_answered(index, status);
        if !matches!(source, Source::Thread(_) | Source::Fill) {
            self.count_handed_off(index, body_bytes);
        }
        match source {
            Source::Fill => {}
            Source::Relay(relay) => self.release_relay(relay, &attempt),
            Source::Server(key) if attempt.speaks_http2() => {
                self.leave_stream(index, key, &mut attempt);
                self.upstreams.recycle(*attempt);
            }
            Source::Server(key) | Source::Thread(key) => {
                self.release_server(key, &attempt);
                self.upstreams.recycle(*attempt);
            }
        }
        match self.has_output(index) {
            true => {
                self.start_writing(index);
                self.count_unsent(index);
            }
            false => self.end_response(index),
        }
    }
}

/// What a look at the client has shown.
enum Left {
    /// The client has everything that was read.
    Nothing,
    /// The client takes no more for now.
    Something,
    /// Nothing else is to be done in this turn.
    NotNow,
}
