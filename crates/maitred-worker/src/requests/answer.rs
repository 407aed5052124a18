//! What answers a request: the one place where the decision of the route is carried out.

use maitred_http::request::{Method, Reject, Request};

use super::Requests;
use crate::connection::{After, State};
use crate::keys::ConnKey;
use crate::step::{RequestInput, Step};
use maitred_config::Template;
use maitred_files::exchange::{Decision, Field, ReplyContext, ResponseWriter};
use maitred_files::fixed::{self};
use maitred_files::{CachedBytes, RequestContext, Served, Summary};
use maitred_policy::rewrite::{self, Facts};
use maitred_policy::route::Choice;

/// With this status, `respond` sends nothing and closes, as in nginx.
const NO_RESPONSE: u16 = 444;

impl Requests {
    /// Answers a request, as was decided.
    pub(crate) fn answer(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
    ) -> Step {
        if !matches!(given.routed.decision, Decision::Admin | Decision::Configure | Decision::Refused(_))
            && self.is_too_early(index, request)
        {
            return self.plain_error(index, request, given, 425, &[]);
        }
        match given.routed.decision {
            Decision::Route(choice) => self.answer_by_route(index, request, given, choice),
            Decision::Admin | Decision::Configure => self.answer_admin(index, request, given),
            Decision::Refused(reject) => self.answer_bad_target(index, request, given, reject),
            Decision::Denied => self.answer_denied(index, request, given),
            Decision::ToTls => self.redirect_to_tls(index, request, given),
            Decision::Preflight => self.reply(index, request, given, fixed::preflight),
            Decision::Endless => self.answer_endless(index, request, given),
            Decision::Misdirected => self.plain_error(index, request, given, 421, &[]),
            Decision::Misleading => self.site_error(index, request, given, (501, &[])),
            Decision::NoPath => {
                self.reply(index, request, given, |writer| answer_for_no_route(request, writer))
            }
            Decision::Challenge => self.answer_challenge(index, request, given),
        }
    }

    /// Whether a request has to come again after the handshake: one in early data may be a replay, and must do no harm (RFC 8470
    /// section 5.2).
    pub(super) fn is_too_early(&self, index: ConnKey, request: &Request<'_, '_>) -> bool {
        let safe = matches!(request.method, Method::Get | Method::Head | Method::Options);
        !safe && self.is_early(index)
    }

    /// Answers a request with what its route names.
    fn answer_by_route(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        choice: Choice<'static>,
    ) -> Step {
        let clock = self.clock.clone();
        let context = RequestContext { request, path: given.path, clock: &clock, warmed: given.warmed };
        match choice {
            Choice::Files(set) => self.answer_files(index, set, &context, given),
            Choice::Pool(pool) => match self.ask_cache(index, pool, &context, given) {
                Some(step) => step,
                None => self.send_to_application(index, pool, &context, given),
            },
            Choice::Modules => self.answer_by_modules(index, request, given),
            Choice::NamedFile(set) => self.answer_named_file(index, set, &context, given),
            Choice::Redirect { to, status } => self.redirect(index, request, given, (to, status)),
            // Followed when the request was routed.
            Choice::Reroute(_) => self.site_error(index, request, given, (500, &[])),
            Choice::Respond { status: NO_RESPONSE, .. } => self.close_unanswered(index, request, given),
            Choice::Respond { status: status @ 400.., body: "", .. } => {
                self.site_error(index, request, given, (status, &[]))
            }
            Choice::Respond { status, body, content_type } => {
                self.respond(index, request, given, (status, body, content_type))
            }
            Choice::Nothing => self.site_error(index, request, given, (404, &[])),
            Choice::NotThisMethod(methods) => {
                let allow = Field::of("Allow", methods.join(", "));
                self.site_error(index, request, given, (405, &[allow]))
            }
        }
    }

    /// Sends a request to a pool, or to one of its scripts.
    fn send_to_application(
        &mut self,
        index: ConnKey,
        pool: usize,
        context: &RequestContext<'_>,
        given: RequestInput<'_>,
    ) -> Step {
        match given.routed.plan.script_set {
            None => self.send_to_pool(index, pool, context, given),
            Some(set) => self.send_to_script(index, (pool, set), context, given),
        }
    }

    /// Answers with what the configuration says, in a coding of that if the route has one for the client.
    fn respond(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        (status, body, content_type): (u16, &'static str, &str),
    ) -> Step {
        let (mut body, mut fields) = (body.as_bytes(), Vec::new());
        if let Some(constant) = &given.routed.plan.constant {
            let accepted = request.known.accept_encoding.map(|list| list.joined());
            if let Some((coding, coded)) = constant.choose(accepted.as_deref()) {
                body = coded;
                fields.push(Field::new("Content-Encoding", coding.token()));
            }
            fields.push(Field::new("Vary", "Accept-Encoding"));
        }
        let reply = fixed::Reply { status, fields: &fields, content_type, body };
        let step = self.reply(index, request, given, |writer| reply.write(writer));
        if !body.is_empty() && self.buffers.tx.ends_with(body) {
            self.buffers.tx_cached = Some(CachedBytes::configured(body));
        }
        step
    }

    fn redirect(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        (to, status): (&Template, u16),
    ) -> Step {
        let origin = || self.origin(index, request);
        let facts = Facts { request, path: given.path, arrival: &self.arrival(index), origin: &origin };
        let location = rewrite::location(to, &facts, given.routed.plan.path_regex.as_ref());
        self.reply(index, request, given, |writer| fixed::redirect(location, status, writer))
    }

    /// Answers with a file; or hands the request to the pool that gets those for what is not among the files.
    fn answer_files(
        &mut self,
        index: ConnKey,
        set: usize,
        context: &RequestContext<'_>,
        given: RequestInput<'_>,
    ) -> Step {
        let (request, fallback) = (context.request, given.routed.plan.fallback);
        let reply = self.reply_context(index, request, given);
        let (files, mut writer) = self.files_and_writer(index, reply);
        let served = match fallback {
            None => files.serve(set, context, &mut writer),
            Some(pool) => match files.serve_if_there(set, context, &mut writer) {
                Some(served) => served,
                None => {
                    return match self.ask_cache(index, pool, context, given) {
                        Some(step) => step,
                        None => self.send_to_application(index, pool, context, given),
                    };
                }
            },
        };
        if fallback.is_some() && !matches!(served, Served::Blocked(_)) {
            // The connection may go on, and its next request must not find this one's body.
            self.drop_spool(index);
        }
        self.served(index, request, given, reply.persistence, served)
    }

    /// Answers with a file that the response of a pool has named. Whatever the method was, the file is read.
    fn answer_named_file(
        &mut self,
        index: ConnKey,
        set: usize,
        context: &RequestContext<'_>,
        given: RequestInput<'_>,
    ) -> Step {
        let edits = self.exchange(index).dispatch.file_edits.take();
        let request = context.request;
        let mut read = *request;
        if read.method != Method::Head {
            (read.method, read.method_text) = (Method::Get, "GET");
        }
        if read.known.range.is_some_and(|range| range.contains(&b',')) {
            // Several ranges have a type of their own, and the application has said another.
            read.known.range = None;
        }
        let context = RequestContext { request: &read, ..*context };
        let reply = self.reply_context(index, &read, given);
        let late_edits = edits.as_deref().unwrap_or(reply.late_edits);
        let (files, mut writer) = self.files_and_writer(index, ReplyContext { late_edits, ..reply });
        let served = files.serve(set, &context, &mut writer);
        if matches!(served, Served::Blocked(_)) {
            self.exchange(index).dispatch.file_edits = edits;
        }
        self.served(index, request, given, reply.persistence, served)
    }

    /// A request whose routes lead to one another without an end.
    #[cold]
    fn answer_endless(&mut self, index: ConnKey, request: &Request<'_, '_>, given: RequestInput<'_>) -> Step {
        self.log_limited(|| {
            tracing::warn!(path = request.path, "500: `reroute` leads to itself, more than ten times");
        });
        self.site_error(index, request, given, (500, &[]))
    }

    /// Ends the connection, or the stream, without a response; the access log has the request.
    #[cold]
    fn close_unanswered(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
    ) -> Step {
        if !self.buffers.tx.is_empty() {
            // What was answered before belongs to other requests.
            return Step::FlushFirst;
        }
        self.keep_for_log(index, request, given.routed);
        self.exchange(index).summary = Some(Summary { status: NO_RESPONSE, body_bytes: 0 });
        self.log_kept(index, 0);
        self.close(index);
        Step::Gone
    }

    /// Answers a request that did not come in time, and closes.
    pub(crate) fn answer_timeout(&mut self, index: ConnKey) {
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
