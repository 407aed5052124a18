//! Modules that see requests: what a route answers with, or what is asked before that ([`gates`](super::gates)).
//!
//! | a module says | as the answer of a route | before another one |
//! |---|---|---|
//! | an answer | is sent | is sent (`Denied`) |
//! | pass | the next module; without one, 404 | the next module; then the route goes on |
//! | later | the request is kept, in the state `Gate`, until the answer comes, or `timeout` is over (504) | the same |
//! | that it failed, or what cannot be an answer | 500 | 500 |
//!
//! A module that is turned off ([`maitred_control::modules`]) answers 503. How many have said "pass" is in `Gated`, which goes
//! along where the request waits, so that none is asked twice.

use std::os::unix::fs::FileExt as _;

use maitred_http::fields::FieldLines;
use maitred_http::request::Request;
use maitred_sys::module::host::Outcome;

use super::Requests;
use super::gates::ORDER;
use crate::connection::gated::{Denial, Verdict, Waits};
use crate::connection::table::Phase;
use crate::keys::{ConnId, ConnKey};
use crate::modules::offer::ticket;
use crate::modules::{Answer, Coarse, HELD_MAX, Says, Seen};
use crate::origin::Client;
use crate::step::{RequestInput, Step};
use maitred_http::uri::Slashes;
use maitred_policy::plan::{ModuleCall, Plan};
use maitred_policy::target::Target;

/// What a module has made of a request.
enum Said {
    /// The answer of the module is in `Buffers::module_answer`.
    Answered,
    /// Nothing.
    Pass,
    /// The module answers later; by this number.
    Later(u32),
    /// An error with this status.
    Failed(u16),
}

impl Requests {
    /// Answers with what the modules of the route say.
    pub(super) fn answer_by_modules(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
    ) -> Step {
        let modules = &given.routed.plan.modules;
        if modules.may_wait && !self.buffers.tx.is_empty() {
            // Nothing is asked twice, and a request that waits has nothing before it.
            return Step::FlushFirst;
        }
        let spooled = match modules.body_bytes_max.map(|_| self.spooled_body(index)) {
            None => None,
            Some(Ok(spooled)) => spooled,
            Some(Err(error)) => {
                self.log_limited(|| tracing::error!(%error, "500: a request body cannot be read again"));
                return self.site_error(index, request, given, (500, &[]));
            }
        };
        let body = spooled.as_deref().unwrap_or(given.body);
        let asked = if modules.may_wait { self.modules_asked(index) } else { 0 };
        for call in modules.of_requests.iter().skip(asked) {
            let seen = (request, given.routed.plan.slashes);
            match self.call_module(index, seen, (given.path, body), call) {
                Said::Pass if modules.may_wait => self.gated(index).modules_asked += 1,
                Said::Pass => {}
                Said::Answered => return self.send_module_answer(index, request, given),
                Said::Failed(status) => return self.site_error(index, request, given, (status, &[])),
                Said::Later(number) => {
                    self.keep(index, request, given);
                    let module = Some((number, call.timeout));
                    let waits = Waits { place: ORDER.len(), module, ..Waits::default() };
                    self.gated(index).waits = Some(waits);
                    self.enter_gate(index, true);
                    return Step::Waits;
                }
            }
        }
        self.site_error(index, request, given, (404, &[]))
    }

    fn send_module_answer(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
    ) -> Step {
        let mut answer = self.buffers.module_answer.take().unwrap_or_default();
        let step = self.reply(index, request, given, |writer| answer.write(given.routed.plan, writer));
        self.buffers.module_answer = Some(answer);
        step
    }

    /// Asks the modules of a route that has something else to answer with.
    pub(super) fn ask_modules(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        plan: &'static Plan,
    ) -> Verdict {
        let path = self.judge_path(request.path, plan).unwrap_or_default();
        let modules = &plan.modules;
        for call in modules.of_requests.iter().skip(self.modules_asked(index)) {
            match self.call_module(index, (request, plan.slashes), (&path, b""), call) {
                Said::Pass if modules.may_wait => self.gated(index).modules_asked += 1,
                Said::Pass => {}
                Said::Failed(status) => return Verdict::Refuse(Denial::of(status)),
                Said::Answered => {
                    let answer = self.buffers.module_answer.take().unwrap_or_default();
                    return Verdict::Refuse(answered(*answer));
                }
                Said::Later(number) => {
                    let module = Some((number, call.timeout));
                    self.gated(index).waits = Some(Waits { module, ..Waits::default() });
                    return Verdict::Wait;
                }
            }
        }
        Verdict::Pass
    }

    /// Shows a request to a module.
    fn call_module(
        &mut self,
        index: ConnKey,
        (request, slashes): (&Request<'_, '_>, Slashes),
        (path, body): (&[u8], &[u8]),
        call: &ModuleCall,
    ) -> Said {
        let shared = self.shared;
        let Some(module) = shared.modules.get(call.number) else { return Said::Failed(503) };
        // Of a short request, it is there all the same; and another module of the list may read it.
        let body = if module.reads_body() { body } else { b"" };
        let mut answer = self.buffers.module_answer.take().unwrap_or_default();
        answer.status = 0;
        let mut fields = FieldLines::default();
        let connection = &self.connections[index];
        let number = self.checks.wrapping_add(1);
        let ticket = module.may_answer_later().then(|| ticket(self.number, self.id(index), number));
        let client = || Client::of(request, &connection.peer(), &shared.start.config.server.trusted_proxies);
        let says = Says { call, answer: &mut answer, fields: &mut fields, ticket, taken: false };
        let target = Target::routed(request, slashes).canonical();
        let mut seen = Seen { request, path, body, target: &target, client: &client, says: Some(says) };
        let began = Coarse::now();
        let outcome = module.on_request(&mut seen);
        let held = began.elapsed();
        let taken = seen.says.is_some_and(|says| says.taken);
        let valid = answer.status != 0;
        self.buffers.module_answer = Some(answer);
        if taken {
            self.checks = number;
        }
        if held > HELD_MAX {
            let (module, ms) = (shared.modules.name(call.number), held.as_millis());
            self.row.modules_slow.add(1);
            self.log_limited(|| tracing::warn!(module, ms, "a module holds an event loop"));
        }
        if !fields.is_empty() {
            self.gated(index).fields.extend(fields.all());
        }
        match outcome {
            Outcome::Answered if valid => Said::Answered,
            Outcome::Pass => Said::Pass,
            Outcome::Later if taken => Said::Later(number),
            Outcome::Answered | Outcome::Later | Outcome::Failed => {
                let module = shared.modules.name(call.number);
                self.log_limited(|| match outcome {
                    Outcome::Answered => tracing::error!(module, "500: its answer cannot be one of HTTP"),
                    Outcome::Later => tracing::error!(module, "500: it answers later without a ticket"),
                    _ => tracing::error!(module, "500: the module has failed"),
                });
                Said::Failed(500)
            }
        }
    }

    /// A module has answered that was to do so later; or passes.
    pub(crate) fn on_module_done(&mut self, connection: ConnId, number: u32, answer: Option<Box<Answer>>) {
        let index = connection.key;
        if !self.is_current(connection) || !self.connections[index].is(Phase::Gate) {
            return;
        }
        let waits = self.gated(index).waits.as_ref();
        if waits.and_then(|waits| waits.module).is_none_or(|(own, _)| own != number) {
            // The module has answered before; or the request is another one.
            return;
        }
        let verdict = match answer {
            None => {
                self.gated(index).modules_asked += 1;
                Verdict::Pass
            }
            Some(answer) if answer.status == 500 && answer.content.is_empty() => {
                Verdict::Refuse(Denial::of(500))
            }
            Some(answer) => Verdict::Refuse(answered(*answer)),
        };
        self.on_verdict(index, verdict);
    }

    /// How many modules have let the request at hand pass.
    fn modules_asked(&self, index: ConnKey) -> usize {
        let exchange = self.connections[index].exchange.as_deref();
        exchange
            .and_then(|exchange| exchange.dispatch.gated.as_deref())
            .map_or(0, |gated| gated.modules_asked)
    }

    /// The body of a request, if it was too long to be kept in the buffers. The body stays where it is.
    fn spooled_body(&self, index: ConnKey) -> std::io::Result<Option<Vec<u8>>> {
        let exchange = self.connections[index].exchange.as_deref();
        let Some(spool) = exchange.and_then(|exchange| exchange.body.spool.as_deref()) else {
            return Ok(None);
        };
        // No longer than `body_bytes_max` of the module.
        let mut bytes = vec![0; usize::try_from(spool.bytes).unwrap_or(0)];
        spool.file.read_exact_at(&mut bytes, 0)?;
        Ok(Some(bytes))
    }
}

/// An answer that takes the place of what the route would have said.
fn answered(answer: Answer) -> Denial {
    let whole = Some(Box::new((answer.fields, answer.content)));
    Denial { status: answer.status, fields: Vec::new(), answer: whole }
}

#[cfg(test)]
mod tests;
