//! The gates of a route: what is asked, once, whether a request may be answered, before its body is read and before what answers
//! it is begun.
//!
//! | in this order | asks | refuses with |
//! |---|---|---|
//! | address | `allow` and `deny` | 403 |
//! | limits | `limit`, each of them | 429 |
//! | users | `basic_auth`, unless the address is enough (`satisfy = "any"`) | 401; 503 if too many wait |
//! | token | `jwt`, likewise | 401; 403 if it does not say enough; 503 if there are no keys yet |
//! | another server | `forward_auth`, likewise | its answer; 502, 503, 504 |
//! | named users | `user` of `match`, whom one of those three has found | 403 |
//! | modules | `module`, where the route has something else to answer with | its answer; 500, 503, 504 |
//! | delay | `delay` ([`delays`](super::delays)) | – |
//!
//! Gates are asked when the head is there and what answers the request is decided ([`Requests::take_request`]); a request of a
//! worker process that was replaced is asked about anew. What a gate says is a [`Verdict`]. A request that is refused becomes one
//! that no body is wanted for ([`Decision::Denied`]): a client that waits for 100 (Continue) gets none, a short body is dropped,
//! and after a long one the connection ends.
//!
//! A gate that has to wait (for a helper thread, another server) keeps the request, of whose body nothing is read meanwhile: the
//! connection is in the state `Gate`, which has a deadline. What the gate says then ([`Requests::on_verdict`]) lets the request
//! go on where it was: the gates behind that one are asked, and nothing is parsed or routed again.
//!
//! A request in early data whose method is not safe gets 425 before any gate is asked. Others are asked about as always: a replay
//! of one is answered with what its sender cannot read (RFC 8470 section 3), and the other server is told (`Early-Data`).
//!
//! Nothing is asked while something that was answered before is still to be sent: a request that has to wait for that
//! (`Step::FlushFirst`) is parsed anew, and would be asked about, and counted, twice. Once it has passed, it has passed: where it
//! is kept, its [`Routed`] and what is known of it (`Gated`) go along, and answering it again asks no gate.
//!
//! A new gate is a field of [`Gates`], a variant of [`Gate`] with its place in [`ORDER`], and an arm in `ask_gate`.

use std::time::Duration;

use maitred_http::request::{HeadRoom, Request};

use super::Requests;
use crate::connection::gated::{Denial, Gated, PasswordCheck, Verdict, Waits};
use crate::connection::refusal::RETRY_SOON;
use crate::connection::table::Phase;
use crate::connection::{After, State};
use crate::facts::identity::{Source, USER_BYTES_MAX, User};
use crate::inbox::Message;
use crate::keys::{ConnId, ConnKey};
use crate::requests::questions::send_to;
use crate::requests::receive::Unread;
use crate::step::{RequestInput, Step, Stop};
use crate::verifier::{Asked, Check};
use maitred_base::rates::AddressKey;
use maitred_files::exchange::{Decision, Field, Routed};
use maitred_files::fixed::pass_on;
use maitred_policy::access::Gates;
use maitred_policy::access::basic::{self, Basic};

/// How long a request waits for the check of its password: longer than all that may wait before it take, with usual hashes.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);

/// What can refuse a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    /// `allow` and `deny`
    Address,
    /// `limit`
    Limits,
    /// `basic_auth`
    Users,
    /// `jwt`
    Token,
    /// `forward_auth`
    Server,
    /// `user` of `match`
    Named,
    /// `module`
    Modules,
    /// `delay`
    Delay,
}

/// The gates in the order in which they are asked: what costs little and says nothing of the site comes first.
pub(super) const ORDER: [Gate; 8] = [
    Gate::Address,
    Gate::Limits,
    Gate::Users,
    Gate::Token,
    Gate::Server,
    Gate::Named,
    Gate::Modules,
    Gate::Delay,
];

impl Requests {
    /// Whether gates have to be asked about a request.
    #[inline]
    pub(crate) fn is_gated(routed: Routed) -> bool {
        routed.plan.gates.is_some() && matches!(routed.decision, Decision::Route(_))
    }

    /// Asks the gates about a request, from this place on: what was decided, or that it is denied. `None`: it has to wait.
    pub(crate) fn ask_gates(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        routed: Routed,
        from: usize,
    ) -> Option<Routed> {
        let Some(gates) = routed.plan.gates.as_deref() else { return Some(routed) };
        if let (0, Some(exchange)) = (from, self.connections[index].exchange.as_deref_mut()) {
            // Nothing that was found out about an earlier request is true of this one.
            exchange.dispatch.gated = None;
        }
        if from == 0 && self.is_too_early(index, request) {
            // Before the request costs a check of a password, or counts for a limit. The refusal stands also if the handshake
            // ends meanwhile.
            return Some(self.deny(index, routed, Denial::of(425)));
        }
        for (place, gate) in ORDER.into_iter().enumerate().skip(from) {
            let verdict = match gate {
                Gate::Modules if gates.asks_modules => {
                    let verdict = self.ask_modules(index, request, routed.plan);
                    if matches!(verdict, Verdict::Pass) && routed.plan.cache.is_some() {
                        self.gated(index).decided = true;
                    }
                    verdict
                }
                _ => self.ask_gate(gate, index, request, (gates, routed)),
            };
            match verdict {
                Verdict::Pass => {}
                Verdict::Refuse(denial) => return Some(self.deny(index, routed, denial)),
                Verdict::Wait => {
                    let gated = self.gated(index);
                    if let Some(waits) = &mut gated.waits {
                        waits.place = place;
                    }
                    return None;
                }
            }
        }
        Some(routed)
    }

    fn ask_gate(
        &mut self,
        gate: Gate,
        index: ConnKey,
        request: &Request<'_, '_>,
        (gates, routed): (&'static Gates, Routed),
    ) -> Verdict {
        let admits = |thread: &Requests| match &gates.addresses {
            Some(addresses) => addresses.admit(thread.origin(index, request).client),
            None => true,
        };
        // Either is enough: the address is looked at once more where the client would have to say who it is.
        let either = gates.satisfy_any && gates.addresses.is_some();
        match gate {
            Gate::Address if either && gates.authenticate() => Verdict::Pass,
            Gate::Address if admits(self) => Verdict::Pass,
            Gate::Address => Verdict::Refuse(Denial::of(403)),
            Gate::Limits => match &gates.limits {
                Some(limits) => self.ask_limits(index, request, limits),
                None => Verdict::Pass,
            },
            Gate::Users | Gate::Token | Gate::Server if either && admits(self) => Verdict::Pass,
            Gate::Users => match &gates.basic {
                Some(basic) => self.ask_for_user(index, request, basic),
                None => Verdict::Pass,
            },
            Gate::Token => match &gates.tokens {
                Some(tokens) => self.ask_for_token(index, request, tokens),
                None => Verdict::Pass,
            },
            Gate::Server => match &gates.forward {
                Some(forward) => self.ask_server(index, request, (forward, self.asked(request, routed))),
                None => Verdict::Pass,
            },
            Gate::Named if gates.users.is_empty() => Verdict::Pass,
            Gate::Named => self.ask_for_named(index, &gates.users),
            Gate::Modules => Verdict::Pass,
            Gate::Delay => gates.delay.map_or(Verdict::Pass, |time| self.delay(index, time)),
        }
    }

    /// Whether the user that the gates before this one have found is one of the route's. Who has passed by its address alone is
    /// none.
    fn ask_for_named(&self, index: ConnKey, users: &[String]) -> Verdict {
        let gated = self.exchange_of(index).and_then(|exchange| exchange.dispatch.gated.as_deref());
        match gated.and_then(Gated::user).map(User::name) {
            Some(user) if users.iter().any(|named| named == user) => Verdict::Pass,
            _ => Verdict::Refuse(Denial::of(403)),
        }
    }

    /// Has the password of a request checked, unless it is known.
    fn ask_for_user(&mut self, index: ConnKey, request: &Request<'_, '_>, basic: &'static Basic) -> Verdict {
        let Some(given) = basic::credentials(request) else { return Verdict::Refuse(unknown_user(basic)) };
        let (hash, exists) = basic.hash_of(&given.user, &self.shared.user_lists.get(basic.file));
        let claimed = User::new(given.user.as_bytes(), Source::BasicAuth);
        let from = self.origin(index, request).client.map(AddressKey::of);
        let (user, password) = (given.user, given.password);
        let check = Check { hash, exists, user, password, cache: basic.cache, from };
        let (inbox, connection) = (&self.shared.inboxes[self.number], self.id(index));
        self.checks = self.checks.wrapping_add(1);
        let number = self.checks;
        let done = Box::new(move |right| inbox.send(Message::Checked { connection, check: number, right }));
        match self.shared.verifier.ask(check, self.clock.now, done) {
            Asked::Known(right) => self.judge_user(index, basic, claimed.filter(|_| right)),
            Asked::Waits => {
                self.gated(index).waits =
                    Some(Waits { check: Some(PasswordCheck { number, claimed }), ..Waits::default() });
                Verdict::Wait
            }
            Asked::Full => self.too_many_checks(),
        }
    }

    fn too_many_checks(&mut self) -> Verdict {
        self.log_limited(|| tracing::warn!("503: too many passwords are being checked"));
        Verdict::Refuse(Denial::with(503, RETRY_SOON.to_vec()))
    }

    /// `user`: who has shown the right password.
    fn judge_user(&mut self, index: ConnKey, basic: &Basic, user: Option<User>) -> Verdict {
        match user {
            Some(user) => {
                let gated = self.gated(index);
                gated.identify(user);
                gated.decided = true;
                Verdict::Pass
            }
            None => Verdict::Refuse(unknown_user(basic)),
        }
    }

    /// A gate that lets a request pass has found out whose it is. An empty name is none (a guest, say); one that cannot be passed
    /// on as it is would be another one in some place, so the request has no user then.
    pub(super) fn identify(&mut self, index: ConnKey, name: &[u8], source: Source) {
        match User::new(name, source) {
            Some(user) => self.gated(index).identify(user),
            None if name.is_empty() => {}
            None => self.log_limited(|| {
                tracing::warn!(
                    by = source.auth_type(),
                    "the name of a user is left out: it is not UTF-8, has control characters or white space at its ends, or \
                     more than {USER_BYTES_MAX} bytes"
                );
            }),
        }
    }

    /// A helper thread has checked a password, or will not (`None`).
    pub(crate) fn on_checked(&mut self, connection: ConnId, check: u32, right: Option<bool>) {
        let index = connection.key;
        if !self.is_current(connection) || !self.connections[index].is(Phase::Gate) {
            return;
        }
        let waits = self.gated(index).waits.as_mut();
        let found = waits.and_then(|waits| waits.check.take_if(|found| found.number == check));
        // Otherwise an earlier request of the connection has not waited for it to its end.
        let Some(PasswordCheck { claimed, .. }) = found else { return };
        let routed = self.exchange(index).routed;
        let basic =
            routed.and_then(|routed| routed.plan.gates.as_deref()).and_then(|gates| gates.basic.as_ref());
        let Some(basic) = basic else { return };
        let verdict = match right {
            Some(right) => self.judge_user(index, basic, claimed.filter(|_| right)),
            None => self.too_many_checks(),
        };
        self.on_verdict(index, verdict);
    }

    /// The deadline of a request that waits for a gate has passed.
    pub(crate) fn on_gate_timeout(&mut self, index: ConnKey) {
        let waits = self.gated(index).waits.as_ref();
        let denial = match waits.is_some_and(|waits| waits.question.is_some() || waits.module.is_some()) {
            true => Denial::of(504),
            false => Denial::with(503, RETRY_SOON.to_vec()),
        };
        self.on_verdict(index, Verdict::Refuse(denial));
    }

    /// Keeps a request until its gate has said something: its head, and of its body what is there of a whole one.
    pub(crate) fn wait_for_gate(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        whole: bool,
    ) {
        self.keep(index, request, given);
        self.enter_gate(index, whole);
    }

    pub(super) fn enter_gate(&mut self, index: ConnKey, whole: bool) {
        if let Some(waits) = &mut self.gated(index).waits {
            waits.whole = whole;
        }
        self.enter(index, State::Gate);
        let (waits, routed) = (self.gated(index).waits.clone(), self.exchange(index).routed);
        if let Some(held) = waits.as_ref().and_then(|waits| waits.held.as_ref()) {
            return self.wheel.arm(index, held.until);
        }
        if let Some((_, timeout)) = waits.as_ref().and_then(|waits| waits.module) {
            return self.arm_in(index, timeout);
        }
        let forward = routed.and_then(|routed| routed.plan.gates.as_deref()?.forward.as_ref());
        let asked = waits.is_some_and(|waits| waits.question.is_some());
        let timeout = forward.filter(|_| asked).map_or(CHECK_TIMEOUT, |forward| forward.timeout);
        self.arm_in(index, timeout);
    }

    /// A gate that a request waits for has said something.
    pub(crate) fn on_verdict(&mut self, index: ConnKey, verdict: Verdict) {
        if !self.connections[index].is(Phase::Gate) {
            return;
        }
        let Some(waits) = self.gated(index).waits.take() else { return };
        waits.question.into_iter().for_each(|key| self.drop_question(key));
        let exchange = self.exchange(index);
        let (head, path) = (std::mem::take(&mut exchange.head), exchange.path.take());
        let (input, routed) = (std::mem::take(&mut exchange.input), exchange.routed.take());
        self.enter(index, State::Head);
        let mut room = HeadRoom::default();
        let (Some(request), Some(decided)) = (head.view(&mut room), routed) else {
            // Cannot be: both were kept.
            return self.close(index);
        };
        let routed = match verdict {
            Verdict::Refuse(denial) => Some(self.deny(index, decided, denial)),
            // Of a module, the next one is asked first.
            Verdict::Pass => {
                let next = waits.place + usize::from(waits.module.is_none());
                self.ask_gates(index, &request, decided, next)
            }
            Verdict::Wait => None,
        };
        let routed = match (routed, waits.whole) {
            (Some(routed), false) => routed,
            (routed, whole) => {
                let exchange = self.exchange(index);
                (exchange.input, exchange.routed, exchange.path) = (input, routed.or(Some(decided)), path);
                exchange.head.copy_from(&head);
                return match routed {
                    // Another gate has to wait.
                    None => self.enter_gate(index, whole),
                    Some(_) => self.resume(index),
                };
            }
        };
        let path = path.as_deref().unwrap_or(request.path.as_bytes());
        let unread = Unread { head: head.bytes(), rest: &input, routed, path, kept: Some(&head) };
        let mut at = 0;
        let stop = self.take_decided(index, &request, unread, &mut at);
        // The head was taken from what was received when the request began to wait.
        let rest = input.get(at.saturating_sub(head.bytes().len())..).unwrap_or_default();
        self.go_on(index, stop, rest);
    }

    /// Goes on with a connection whose request has passed its gates, or was refused.
    fn go_on(&mut self, index: ConnKey, stop: Option<Stop>, rest: &[u8]) {
        let stop = match stop.unwrap_or(Stop::Flush) {
            // Closing with something unread would make the kernel send a reset.
            Stop::Settled(Some(After::Close)) if !rest.is_empty() => Stop::Settled(Some(After::Linger)),
            stop => stop,
        };
        if stop != Stop::Gone && !rest.is_empty() {
            self.exchange(index).input.extend_from_slice(rest);
        }
        self.act_on(index, stop);
    }

    fn deny(&mut self, index: ConnKey, routed: Routed, denial: Denial) -> Routed {
        self.gated(index).denial = Some(denial);
        Routed { decision: Decision::Denied, ..routed }
    }

    pub(super) fn gated(&mut self, index: ConnKey) -> &mut Gated {
        self.exchange(index).dispatch.gated.get_or_insert_default()
    }

    /// Answers a request that a gate has refused.
    pub(crate) fn answer_denied(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
    ) -> Step {
        // The denial stays until the request has its answer, for the case that this has to wait for what is to be sent before.
        let denial = self.gated(index).denial.clone().unwrap_or(Denial::of(403));
        match denial.answer {
            Some(answer) => {
                let place = (denial.status == 401).then(|| self.sign_in(index, request, given)).flatten();
                self.reply(index, request, given, |writer| match place {
                    Some(place) => send_to(&place, &answer.0, writer),
                    None => pass_on(denial.status, &answer.0, &answer.1, writer),
                })
            }
            None => self.site_error(index, request, given, (denial.status, &denial.fields)),
        }
    }
}

fn unknown_user(basic: &Basic) -> Denial {
    Denial::with(401, vec![Field::of("WWW-Authenticate", basic.challenge.as_bytes())])
}

#[cfg(test)]
mod tests;
