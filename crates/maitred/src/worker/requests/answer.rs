//! What answers a request: the one place where the decision of the route is carried out.

use maitred_http::request::{Method, Reject, Request};

use super::Requests;
use crate::exchange::{Decision, Field, ResponseWriter};
use crate::route::Choice;
use crate::serve::fixed::{self};
use crate::serve::{CachedBytes, RequestContext, Summary};
use crate::worker::connection::{After, State};
use crate::worker::step::{RequestInput, Step};

impl Requests {
    /// Answers a request, as was decided.
    pub(in crate::worker) fn answer(
        &mut self,
        index: u32,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
    ) -> Step {
        if self.is_early(index) && !matches!(given.routed.decision, Decision::Admin | Decision::Refused(_)) {
            // A request in early data may be a replay, and must do no harm (RFC 8470 section 5.2).
            let safe = matches!(request.method, Method::Get | Method::Head | Method::Options);
            if !safe {
                return self.plain_error(index, request, given, 425, &[]);
            }
        }
        let choice = match given.routed.decision {
            Decision::Route(choice) => choice,
            Decision::Admin => return self.answer_admin(index, request, given),
            Decision::Refused(reject) => return self.answer_bad_target(index, request, given, reject),
            Decision::ToTls => return self.redirect_to_tls(index, request, given),
            Decision::Misleading => return self.site_error(index, request, given, (501, &[])),
            Decision::NoPath => {
                return self.reply(index, request, given, |writer| answer_for_no_route(request, writer));
            }
            Decision::Challenge => return self.answer_challenge(index, request, given),
        };
        let clock = self.clock.clone();
        let context = RequestContext { request, path: given.path, clock: &clock, warmed: given.warmed };
        match choice {
            Choice::Files(set) => {
                let reply = self.reply_context(index, request, given);
                let (files, mut writer) = self.files_and_writer(index, reply);
                let served = files.serve(set, &context, &mut writer);
                self.served(index, request, given, reply.persistence, served)
            }
            Choice::Pool(pool) => match given.routed.plan.script_set {
                None => self.send_to_pool(index, pool, &context, given),
                Some(set) => self.send_to_script(index, (pool, set), &context, given),
            },
            Choice::Redirect { to, status } => {
                self.reply(index, request, given, |writer| fixed::redirect(to, status, &context, writer))
            }
            Choice::Respond { status: status @ 400.., body: "", .. } => {
                self.site_error(index, request, given, (status, &[]))
            }
            Choice::Respond { status, body, content_type } => {
                let step = self.reply(index, request, given, |writer| {
                    fixed::respond(status, body, content_type, writer)
                });
                if !body.is_empty() && self.buffers.tx.ends_with(body.as_bytes()) {
                    self.buffers.tx_cached = Some(CachedBytes::configured(body.as_bytes()));
                }
                step
            }
            Choice::Nothing => self.site_error(index, request, given, (404, &[])),
            Choice::NotThisMethod(methods) => {
                let allow = Field::of("Allow", methods.join(", "));
                self.site_error(index, request, given, (405, &[allow]))
            }
        }
    }

    /// Answers a request that did not come in time, and closes.
    pub(in crate::worker) fn answer_timeout(&mut self, index: u32) {
        let (status, exchange) = (408, self.exchange(index));
        if !exchange.head.is_empty() {
            return self.refuse_kept(index, status, &[]);
        }
        let input = std::mem::take(&mut exchange.input);
        self.answer_refused_text(index, &input, Reject { status, reason: "the client was too slow" });
        self.enter(index, State::Idle);
        self.send_joined(index, Some(After::Linger));
    }
}

/// Requests for which no route is looked up: TRACE, which would echo credentials to scripts, CONNECT, since this is no proxy, and
/// the server as a whole (`OPTIONS *`, 9110-9.3.7).
fn answer_for_no_route(request: &Request<'_, '_>, writer: &mut ResponseWriter<'_>) -> Summary {
    const ALLOW: &[Field<'_>] = &[Field::new("Allow", "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS")];
    if request.method == Method::Options {
        return fixed::Reply { status: 204, fields: ALLOW, content_type: "", body: b"" }.write(writer);
    }
    fixed::error(405, ALLOW, writer)
}
