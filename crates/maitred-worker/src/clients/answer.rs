//! One request, one answer: chosen, written, counted, logged.

use std::borrow::Cow;

use maitred_http::fields::{FieldEdits, FieldLines};
use maitred_http::framed::StreamKey;
use maitred_http::grpc;
use maitred_http::h1::Persistence;
use maitred_http::request::{HeadRoom, MISDIRECTED, Method, Reject, Request, RequestHead, Version};
use maitred_http::response::ResponseHead;
use maitred_http::uri;

use super::Clients;
use crate::connection::dispatch::{Dispatch, ResponseTraits};
use crate::connection::refusal::{NOWHERE, PLAIN, PLAIN_TEXT, RETRY_SOON};
use crate::connection::wire::Wire;
use crate::connection::{After, State};
use crate::forward;
use crate::keys::ConnKey;
use crate::log_line::{LoggedFields, line, line_of};
use crate::origin::{self, Client};
use crate::step::{RequestInput, Step};
use crate::upstream::Attempt;
use crate::upstream::server::mapping;
use maitred_config::{LogChoice, Named};
use maitred_files::exchange::{Coding, Decision, Field, ReplyContext, ResponseWriter, Routed, Watch};
use maitred_files::files::FileServer;
use maitred_files::fixed::{self, Failure};
use maitred_files::{Served, Summary};
use maitred_log::access::{Line, RequestLine};
use maitred_policy::arrival::Arrival;
use maitred_policy::compress::{Rules, Wish};
use maitred_policy::filter::cors;
use maitred_policy::plan::Plan;
use maitred_policy::rewrite::{self, Facts, Rewritten};
use maitred_policy::route::Choice;
use maitred_policy::target::Target;
use maitred_status::latency::Took;
use maitred_status::routes::class_of;
use maitred_tls::redirect;

/// How often a request may be sent through the routes again, as nginx bounds its internal redirects.
const REROUTES_MAX: usize = 10;

/// What a route has made of the target cannot be one.
const BAD_REWRITE: Reject =
    Reject { status: 400, reason: "its target cannot be rewritten as the route says" };

/// What was decided about a request.
#[derive(Debug)]
pub(crate) struct Route<'p> {
    /// The decision, and what the route says besides.
    pub(crate) routed: Routed,
    /// The path that files go by, decoded.
    pub(crate) path: Cow<'p, [u8]>,
    /// The target that takes the place of the one that was sent.
    pub(crate) rewritten: Option<Rewritten>,
}

/// The configuration, at the admin address.
pub(crate) const CONFIG_PATH: &str = "/config";

/// Fields of a response, and one more.
fn joined(fields: Option<&FieldLines>, cookie: &FieldLines) -> FieldLines {
    let mut all = fields.cloned().unwrap_or_default();
    all.extend(cookie.all());
    all
}

impl Clients {
    /// The fields of a response that are about its request.
    fn put_further(
        &self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        out: &mut FieldLines,
    ) {
        if let Some(cors) = &given.routed.plan.cors {
            cors.fields(request, matches!(given.routed.decision, Decision::Preflight), out);
        }
        let exchange = self.connections[index].exchange.as_deref();
        if let Some(gated) = exchange.and_then(|exchange| exchange.dispatch.gated.as_deref()) {
            out.extend(gated.cookies.all());
        }
        if !given.routed.plan.filled.is_empty() {
            self.put_filled(index, request, given.routed.plan, out);
        }
    }

    /// Decides what answers a request: once, when its head is there.
    pub(crate) fn route<'p>(&self, index: ConnKey, request: &Request<'p, 'p>) -> Route<'p> {
        let shared = self.shared;
        let connection = &self.connections[index];
        let root = Cow::Borrowed(b"/".as_slice());
        if connection.is_admin() {
            let configures = request.path == CONFIG_PATH && request.method_text == "PUT";
            let decision = if configures { Decision::Configure } else { Decision::Admin };
            let routed = Routed { decision, plan: shared.router.admin_plan() };
            return Route { routed, path: root, rewritten: None };
        }
        let arrival = self.arrival(index);
        let found = shared.router.site(&arrival, request.authority);
        let plan = shared.router.plan(found.site);
        let judge = |path| self.judge_path(path, plan);
        let decided = |decision, path| Route { routed: Routed { decision, plan }, path, rewritten: None };
        if self.is_plain_at_tls(index) {
            return decided(Decision::Refused(PLAIN), root);
        }
        if request.https && !arrival.is_tls() {
            return decided(Decision::Refused(MISDIRECTED), root);
        }
        // The targets of these methods are no paths: an asterisk, or an authority.
        let about_no_path = matches!(request.method, Method::Trace | Method::Connect) || request.path == "*";
        let path = match judge(if about_no_path { "/" } else { request.path }) {
            Ok(path) => path,
            Err(reject) => return decided(Decision::Refused(reject), root),
        };
        let listen = self.listener_of(&arrival);
        let redirects = listen.is_some_and(|listen| listen.redirect_http) && shared.redirect_port.is_some();
        // What is asked of the server itself, or of another one, is answered as everywhere: there is no place to lead to.
        let about_server = request.path == "*" || request.method == Method::Connect;
        if redirects && !about_server && !path.starts_with(redirect::CHALLENGES) {
            return decided(Decision::ToTls, path);
        }
        if shared.acme.answer(&path).is_some() {
            return decided(Decision::Challenge, path);
        }
        if found.named == Named::Elsewhere && self.refuses_misdirected(&arrival) {
            let routed = Routed { decision: Decision::Misdirected, plan: shared.router.bare_plan() };
            return Route { routed, path, rewritten: None };
        }
        if about_no_path {
            return decided(Decision::NoPath, path);
        }
        self.choose(index, (found.site, &arrival), request, path)
    }

    /// Has the routes of a site asked, once more for each `reroute`, and the target rewritten as the chosen one says.
    fn choose<'p>(
        &self,
        index: ConnKey,
        (site, arrival): (usize, &Arrival<'_>),
        request: &Request<'p, 'p>,
        mut path: Cow<'p, [u8]>,
    ) -> Route<'p> {
        let router = &self.shared.router;
        if let Some(routed) = self.preflight(index, (site, arrival), request, &path) {
            return Route { routed, path, rewritten: None };
        }
        let origin = || self.origin(index, request);
        let mut rewritten: Option<Rewritten> = None;
        for _ in 0..=REROUTES_MAX {
            let seen = rewritten.as_ref().map_or(*request, |rewritten| rewritten.over(request));
            let facts = Facts { request: &seen, path: &path, arrival, origin: &origin };
            let (choice, plan) = router.choose(site, &facts);
            let regex = plan.path_regex.as_ref();
            let changed = match (choice, &plan.rewrite) {
                (Choice::Reroute(template), _) => Some(rewrite::target(template, &facts, regex)),
                (_, Some(rewrite)) => {
                    let canonical = Target::routed(&seen, plan.slashes).canonical_path();
                    Some(rewrite.apply(&facts, &canonical, regex))
                }
                (_, None) => None,
            };
            if let Some(changed) = changed {
                let judged = changed.and_then(|changed| {
                    let judged = self.judge_path(&changed.path, plan).ok()?.into_owned();
                    Some((changed, judged))
                });
                let Some((changed, judged)) = judged else {
                    let routed = Routed { decision: Decision::Refused(BAD_REWRITE), plan };
                    return Route { routed, path, rewritten: None };
                };
                path = Cow::Owned(judged);
                rewritten = Some(changed);
            }
            if !matches!(choice, Choice::Reroute(_)) {
                let decision = self.decision(index, request, choice);
                return Route { routed: Routed { decision, plan }, path, rewritten };
            }
        }
        let routed = Routed { decision: Decision::Endless, plan: router.plan(site) };
        Route { routed, path, rewritten: None }
    }

    /// What is decided about a preflight request: the route is asked that the request is for which it announces.
    fn preflight(
        &self,
        index: ConnKey,
        (site, arrival): (usize, &Arrival<'_>),
        request: &Request<'_, '_>,
        path: &[u8],
    ) -> Option<Routed> {
        let method_text = cors::asked_method(request)?;
        let announced = Request { method: Method::from_token(method_text), method_text, ..*request };
        let facts = Facts { request: &announced, path, arrival, origin: &|| self.origin(index, request) };
        let (_, plan) = self.shared.router.choose(site, &facts);
        plan.cors.as_ref()?;
        Some(Routed { decision: Decision::Preflight, plan })
    }

    fn decision(&self, index: ConnKey, request: &Request<'_, '_>, choice: Choice<'static>) -> Decision {
        let pools = &self.shared.start.config.pools;
        match self.connections[index].is_stream() && forward::would_mislead(request, &choice, pools) {
            true => Decision::Misleading,
            false => Decision::Route(choice),
        }
    }

    /// The context of the response to this request: what its head depends on besides the content. Fields that are about the
    /// request are in `buffers`.
    pub(crate) fn reply_context<'r>(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'r>,
    ) -> ReplyContext<'r> {
        let (plan, persistence) = (given.routed.plan, self.persistence(index, request, given.last));
        let context = self.context_of(index, plan, persistence, request.method == Method::Head);
        let connection = &self.connections[index];
        if connection.internal {
            return context;
        }
        // Over HTTP/1 there is none but that for browsers.
        let call = grpc::Form::of(request).filter(|form| form.is_web() || connection.is_stream());
        let context = ReplyContext { call, ..context };
        if !plan.modules.of_responses.is_empty() {
            let mut head = RequestHead::default();
            match given.kept {
                Some(kept) => head.copy_from(kept),
                None => head.take(request, given.head),
            }
            self.note_head_filter(index, plan, head, given.path.into());
        }
        let context = ReplyContext { altered: !plan.modules.of_responses.is_empty(), ..context };
        if !plan.depends_on_requests() {
            return context;
        }
        self.settle_id(index, plan);
        let mut fields = std::mem::take(&mut self.buffers.further);
        fields.clear();
        self.put_further(index, request, given, &mut fields);
        let further = !fields.is_empty();
        self.buffers.further = fields;
        let expiry = plan.expires.as_ref().map(|expires| expires.for_request(request.method, given.path));
        ReplyContext { expiry, further, ..context }
    }

    /// Notes what of a response depends on its request, for one that an upstream sends.
    pub(crate) fn note_traits(&mut self, index: ConnKey, request: &Request<'_, '_>, given: RequestInput<'_>) {
        let plan = given.routed.plan;
        let depends = plan.depends_on_requests() || plan.compress.is_some();
        if depends && !self.connections[index].internal {
            self.settle_id(index, plan);
            let mut fields = FieldLines::default();
            self.put_further(index, request, given, &mut fields);
            let expiry = plan.expires.as_ref().map(|expires| expires.for_later(request.method, given.path));
            let wish = plan.compress.as_ref().map(|rules| self.wish(index, request, rules));
            let traits = ResponseTraits { fields, expiry, wish, coder: None };
            self.exchange(index).dispatch.traits = Some(Box::new(traits));
        }
    }

    /// What a request says of the coding of its response. A proxy that ends TLS in front of this server counts as TLS, if it may
    /// say so.
    fn wish(&self, index: ConnKey, request: &Request<'_, '_>, rules: &'static Rules) -> Wish<'static> {
        let accepted = request.known.accept_encoding.map(|list| list.joined());
        let secret = self.connections[index].secure || self.origin(index, request).https;
        Wish { rules, coding: rules.negotiate(accepted.as_deref()), secret }
    }

    /// Shows what the encoders of the thread have done, once they have done something.
    #[inline]
    pub(crate) fn show_encoders(&self) {
        let counts = self.encoders.counts();
        if counts.zstd + counts.gzip + counts.refused == 0 {
            return;
        }
        let row = self.row;
        row.encoders.set(counts.in_use.into());
        for (cell, count) in row.compressed.iter().zip([counts.zstd, counts.gzip]) {
            cell.set(count);
        }
        row.compress_refused.set(counts.refused);
        row.compress_bytes_in.set(counts.bytes_in);
        row.compress_bytes_out.set(counts.bytes_out);
    }

    pub(crate) fn context_of(
        &self,
        index: ConnKey,
        plan: &'static Plan,
        persistence: Persistence,
        head_only: bool,
    ) -> ReplyContext<'static> {
        let connection = &self.connections[index];
        let date = self.clock.http_date;
        if connection.internal {
            // The client's thread carries them out.
            let edits = FieldEdits::NONE;
            return ReplyContext {
                date,
                persistence,
                head_only,
                edits,
                late_edits: edits,
                expiry: None,
                further: false,
                altered: false,
                may_name_file: false,
                call: None,
            };
        }
        let (edits, late_edits) = (plan.edits(connection.secure), plan.late_edits(connection.secure));
        ReplyContext {
            date,
            persistence,
            head_only,
            edits,
            late_edits,
            expiry: None,
            further: false,
            altered: false,
            may_name_file: false,
            call: None,
        }
    }

    /// Where the response of a connection is written; and the files that it may be made of.
    #[inline]
    pub(crate) fn files_and_writer<'t>(
        &'t mut self,
        index: ConnKey,
        context: ReplyContext<'t>,
    ) -> (&'t mut FileServer, ResponseWriter<'t>) {
        let wire = self.connections[index].wire;
        let stream = match wire {
            Wire::Stream { session, stream } => {
                self.touch_session(session);
                let found = self.sessions.get_mut(session);
                found.map(|http2| (&mut http2.session, StreamKey(stream)))
            }
            Wire::Clear | Wire::Tls { .. } | Wire::Quic => None,
        };
        let buffers = &mut self.buffers;
        let mut writer = ResponseWriter::new(&mut buffers.tx, stream, &mut buffers.lines, context);
        if context.altered
            && let Some(filter) = &buffers.head_filter
        {
            writer = writer.altered_by(&**filter);
        }
        (&mut self.files, if context.further { writer.with(buffers.further.all()) } else { writer })
    }

    /// Has a part of a response that comes from an upstream written to `tx`, which is empty; for a stream, content goes into its
    /// frames. `None` if no upstream answers.
    pub(crate) fn encode<R>(
        &mut self,
        index: ConnKey,
        write: impl FnOnce(&mut Attempt, &mut ResponseWriter<'_>) -> R,
    ) -> Option<R> {
        let mut attempt = self.connections[index].lend_attempt()?;
        let exchange = self.exchange(index);
        let plan = exchange.routed.map(|routed| routed.plan);
        let further = exchange.dispatch.take_further();
        let headless = !attempt.filter.head_written();
        let cookie = attempt.take_cookie();
        let all = cookie.as_ref().map(|cookie| joined(further.as_deref(), cookie));
        let refusing = if headless { attempt.retried_statuses() } else { &[] };
        let names = attempt.call_mut().filter(|_| headless).map(|call| (call.pool, call.take_names()));
        let traits = exchange.dispatch.traits.as_mut();
        let (expiry, wish, mut coder) =
            traits.map_or((None, None, None), |traits| (traits.expiry, traits.wish, traits.coder.take()));
        let plan = plan.unwrap_or(self.shared.router.bare_plan());
        let context = self.context_of(index, plan, Persistence::Close, false);
        let may_name_file = !plan.named_files.is_empty() && !self.connections[index].internal;
        let altered = headless && self.note_kept_head_filter(index, plan);
        let context = ReplyContext { expiry, may_name_file, altered, ..context };
        let encoders = wish.is_some().then(|| self.encoders.clone());
        let pools = &self.shared.start.config.pools;
        let mapping = names.as_ref().and_then(|(pool, (authority, client))| {
            mapping(pools.get(usize::from(*pool))?, plan, (authority, client))
        });
        let mut watched = if headless { self.watched(index, plan) } else { None };
        let watches = watched.is_some();
        let (_, writer) = self.files_and_writer(index, context);
        let coding = wish.zip(encoders.as_ref()).map(|(wish, from)| Coding::new(wish, from, &mut coder));
        let writer =
            writer.with(all.as_ref().or(further.as_deref()).map(FieldLines::all).unwrap_or_default());
        let writer = writer.coding(coding).mapping(mapping).refusing(refusing);
        let mut see = |head: &ResponseHead<'_>| watched.iter_mut().for_each(|watched| watched.see(head));
        let mut writer = writer.watching(watches.then_some(Watch(&mut see)));
        let result = write(&mut attempt, &mut writer);
        if let Some(named) = writer.take_named() {
            attempt.named = Some(named);
        }
        let (is_begun, rate, refused) = (writer.is_begun(), writer.rate(), writer.refused());
        self.finish_watching(watched);
        if let Some(rate) = rate {
            self.throttle_by(index, rate);
        }
        if !is_begun {
            self.exchange(index).dispatch.set_cookie = further;
            if let (Some((_, names)), Some(call)) = (names, attempt.call_mut()) {
                call.put_names_back(names);
                call.refused = refused;
                call.put_cookie_back(cookie);
            }
        }
        if let Some(traits) = self.exchange(index).dispatch.traits.as_mut() {
            traits.coder = coder;
        }
        self.connections[index].state = State::Upstream(attempt);
        Some(result)
    }

    /// Writes a whole response.
    pub(crate) fn reply(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        write: impl FnOnce(&mut ResponseWriter<'_>) -> Summary,
    ) -> Step {
        let context = self.reply_context(index, request, given);
        let (_, mut writer) = self.files_and_writer(index, context);
        let summary = write(&mut writer);
        self.whole(index, request, given, summary, context.persistence)
    }

    pub(crate) fn answer_challenge(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
    ) -> Step {
        let Some(text) = self.shared.acme.answer(given.path) else {
            return self.site_error(index, request, given, (404, &[]));
        };
        self.reply(index, request, given, |writer| {
            fixed::respond(200, &text, "application/octet-stream", writer)
        })
    }

    /// Redirects a client without TLS to TLS.
    pub(crate) fn redirect_to_tls(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
    ) -> Step {
        let port = self.shared.redirect_port;
        let arrival = self.arrival(index);
        let status = self.listener_of(&arrival).map_or(308, |listen| listen.redirect_status);
        let target = Target::asked(request, given.routed.plan.slashes).as_routed();
        match port.and_then(|port| redirect::location(request.authority, &target, port)) {
            Some(to) => {
                let to = Field::of("Location", to);
                self.plain_error(index, request, given, status, &[to])
            }
            None => self.answer_bad_target(index, request, given, NOWHERE),
        }
    }

    /// The path that routes and files of a site go by.
    pub(crate) fn judge_path<'p>(&self, path: &'p str, plan: &Plan) -> Result<Cow<'p, [u8]>, Reject> {
        uri::judge(path, plan.slashes, self.shared.start.config.server.path_parameters)
    }

    /// Whether, and how, the connection is kept after this request (9112-9.3).
    pub(crate) fn persistence(&self, index: ConnKey, request: &Request<'_, '_>, last: bool) -> Persistence {
        let connection = &self.connections[index];
        if connection.is_stream() || connection.internal {
            // A stream ends with its response; HTTP/2 has no `Connection` field for that.
            return Persistence::Close;
        }
        let limit = self.shared.start.config.limits.requests_per_connection_max;
        let kept = request.keep_alive && !last && connection.requests + 1 < limit;
        match request.version {
            _ if !kept || self.ends_soon(index) => Persistence::Close,
            Version::Http11 | Version::Http2 | Version::Http3 => Persistence::Implied,
            Version::Http10 => Persistence::Stated,
        }
    }

    /// Whether a connection ends with its next response, because this process does: with a successor, a kept connection is
    /// given to it, if it can be.
    pub(crate) fn ends_soon(&self, index: ConnKey) -> bool {
        let Some(drain) = &self.drain else { return false };
        let connection = &self.connections[index];
        connection.is_admin() || connection.wire != Wire::Clear || !drain.has_successor()
    }

    /// Takes what a file handler gave back.
    pub(crate) fn served(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        persistence: Persistence,
        served: Served,
    ) -> Step {
        match served {
            Served::Whole(summary) => self.whole(index, request, given, summary, persistence),
            Served::Cached(summary, cached) => {
                self.buffers.tx_cached = Some(cached);
                self.whole(index, request, given, summary, persistence)
            }
            Served::Streaming(summary, segments) => {
                self.count(index, given.routed.plan, summary.status);
                self.keep_for_log(index, request, given.routed);
                let exchange = self.exchange(index);
                exchange.outgoing.follow(segments);
                exchange.summary = Some(summary);
                exchange.after = Some(if given.last { After::Linger } else { after(persistence) });
                self.start_writing(index);
                Step::Waits
            }
            Served::Blocked(_) if !self.buffers.tx.is_empty() => Step::FlushFirst,
            Served::Blocked(job) => {
                if !self.submit(index, job) {
                    return self.plain_error(index, request, given, 503, RETRY_SOON);
                }
                self.keep(index, request, given);
                self.enter(index, State::Disk);
                self.wheel.disarm(index);
                Step::Waits
            }
        }
    }

    /// Whether the peer may name the client that its requests come from.
    pub(crate) fn is_trusted_proxy(&self, index: ConnKey) -> bool {
        let proxies = &self.shared.start.config.server.trusted_proxies;
        let connection = self.connections.get(index);
        connection.is_some_and(|one| proxies.trusts(one.remote.address.map(|address| address.ip())))
    }

    /// Keeps of a request's head what the access log needs once the response has ended.
    pub(crate) fn keep_for_log(&mut self, index: ConnKey, request: &Request<'_, '_>, routed: Routed) {
        let log = routed.plan.overrides.access_log;
        let (logged, proxied) = (self.is_logged(index, log), self.is_trusted_proxy(index));
        let exchange = self.exchange(index);
        (exchange.routed, exchange.path) = (Some(routed), None);
        let mut head = std::mem::take(&mut exchange.head);
        let wanted = self.logged_fields(index);
        match logged {
            true => head.take_for_log(request, |name| wanted.is_wanted(name, proxied)),
            false => head.clear(),
        }
        self.exchange(index).head = head;
    }

    /// Which fields of the request at hand its line in the access log needs.
    pub(crate) fn logged_fields(&self, index: ConnKey) -> LoggedFields<'_> {
        let log = self.overrides(index).and_then(|overrides| overrides.access_log);
        let proxies = &self.shared.start.config.server.trusted_proxies;
        LoggedFields { logs: &self.logs, log, proxies, traced: self.shared.spans.is_some() }
    }

    /// Keeps a request that cannot be answered yet.
    pub(crate) fn keep(&mut self, index: ConnKey, request: &Request<'_, '_>, given: RequestInput<'_>) {
        self.keep_head(index, request, given);
        let exchange = self.exchange(index);
        exchange.last = given.last;
        exchange.body.content.clear();
        exchange.body.content.extend_from_slice(given.body);
    }

    /// Keeps its head, and what was decided about it.
    pub(crate) fn keep_head(&mut self, index: ConnKey, request: &Request<'_, '_>, given: RequestInput<'_>) {
        let exchange = self.exchange(index);
        exchange.routed = Some(given.routed);
        exchange.path = if given.path == request.path.as_bytes() { None } else { Some(given.path.into()) };
        match given.kept {
            Some(head) => exchange.head.copy_from(head),
            None => exchange.head.take(request, given.head),
        }
    }

    /// An error in a line of text.
    pub(crate) fn plain_error(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        status: u16,
        fields: &[Field<'_>],
    ) -> Step {
        self.text_error(index, request, given, &Failure { status, fields, request_id: None })
    }

    pub(crate) fn text_error(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        failure: &Failure<'_>,
    ) -> Step {
        self.reply(index, request, given, |writer| failure.write(writer))
    }

    /// A response that stands in `tx` as a whole.
    pub(crate) fn whole(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        summary: Summary,
        persistence: Persistence,
    ) -> Step {
        let plan = given.routed.plan;
        self.count(index, plan, summary.status);
        self.row.bytes_sent.add(summary.body_bytes);
        let slow = self.count_ended(index, plan, summary.status, summary.body_bytes);
        self.log_request(index, request, given.routed.plan.overrides.access_log, (summary, slow));
        if let Some(exchange) = self.connections[index].exchange.as_deref_mut() {
            exchange.dispatch.note_whole();
            // The next request on this connection must not find the body that was kept for a pool.
            exchange.body.spool = None;
        }
        match after(persistence) {
            After::Keep => Step::Next,
            after => Step::Last(after),
        }
    }

    /// Counts a response, by its class, also for the route that has answered.
    pub(crate) fn count(&mut self, index: ConnKey, plan: &Plan, status: u16) {
        let connection = &mut self.connections[index];
        connection.requests = connection.requests.saturating_add(1);
        if connection.is_admin() || connection.internal {
            return;
        }
        if let Some(cell) = class_of(status).and_then(|class| self.row.responses.get(class)) {
            cell.add(1);
        }
        if let Some(route) = self.routes.get(plan.number) {
            route.answered(status);
        }
    }

    /// Counts the response to the request at hand.
    pub(crate) fn count_answered(&mut self, index: ConnKey, status: u16) {
        let plan = self.plan_of(index);
        self.count(index, plan, status);
    }

    /// The plan of the request at hand.
    fn plan_of(&self, index: ConnKey) -> &'static Plan {
        let routed = self.exchange_of(index).and_then(|exchange| exchange.routed);
        routed.map_or(self.shared.router.bare_plan(), |routed| routed.plan)
    }

    /// Counts a request that breaks the rules, and logs it in the error log.
    pub(crate) fn note_refusal(&mut self, index: ConnKey, reject: Reject) {
        self.row.malformed.add(1);
        let remote = self.connections[index].remote;
        self.log_limited(|| {
            tracing::info!(
                peer = remote.text(),
                status = reject.status,
                "request refused: {}",
                reject.reason
            );
        });
    }

    pub(crate) fn answer_bad_target(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        reject: Reject,
    ) -> Step {
        self.note_refusal(index, reject);
        let given = RequestInput { last: true, ..given };
        let step = match reject == PLAIN {
            true => self.reply(index, request, given, |writer| {
                fixed::respond(PLAIN.status, PLAIN_TEXT, "text/plain; charset=utf-8", writer)
            }),
            false => self.plain_error(index, request, given, reject.status, &[]),
        };
        match step {
            Step::Last(_) => Step::Last(After::Linger),
            step => step,
        }
    }

    /// Answers a head of HTTP/1 that was refused. Only its first line is known, and not even that for certain.
    pub(crate) fn answer_refused_text(&mut self, index: ConnKey, received: &[u8], reject: Reject) {
        let end = memchr::memchr2(b'\r', b'\n', received).unwrap_or(received.len());
        let first_line = RequestLine::Refused(received.get(..end).unwrap_or_default());
        self.answer_refused_line(index, first_line, reject);
    }

    /// Answers a head that was refused, as far as it is known.
    pub(crate) fn answer_refused(&mut self, index: ConnKey, head: &RequestHead, reject: Reject) {
        self.answer_refused_line(index, line_of(head), reject);
    }

    fn answer_refused_line(&mut self, index: ConnKey, asked: RequestLine<'_>, reject: Reject) {
        let plan = self.shared.router.bare_plan();
        let context = self.context_of(index, plan, Persistence::Close, false);
        let (_, mut writer) = self.files_and_writer(index, context);
        let summary = fixed::error(reject.status, &[], &mut writer);
        self.count(index, plan, summary.status);
        self.row.bytes_sent.add(summary.body_bytes);
        if self.logs.is_on(None) {
            let connection = &self.connections[index];
            self.logs.push(None, &line(self.shared, &self.base.clock, connection, asked, summary));
        }
    }

    fn log_request(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        log: Option<LogChoice>,
        (summary, slow): (Summary, Option<Took>),
    ) {
        let logged = self.is_logged(index, log);
        if !logged && self.shared.spans.is_none() && slow.is_none() {
            return;
        }
        let connection = &self.connections[index];
        let client =
            Client::of(request, &connection.peer(), &self.shared.start.config.server.trusted_proxies);
        self.report_span(index, request, &client, summary);
        if let Some(took) = slow {
            self.note_slow(index, request, &client, took, summary.status);
        }
        if !logged {
            return;
        }
        let connection = &self.connections[index];
        let asked = RequestLine::Parsed {
            method: request.method_text,
            target: Target::sent(request),
            version: request.version,
        };
        let dispatch = connection.exchange.as_deref().map(|exchange| &exchange.dispatch);
        let named = dispatch.filter(|dispatch| dispatch.pool.is_some() || dispatch.keeps_id);
        let id = named.and_then(Dispatch::request_id).map(origin::hexadecimal);
        let line = Line {
            remote: client.remote.bytes(),
            request_id: client.given_request_id(request).or(id.as_ref().map(<[u8; 32]>::as_slice)),
            host: request.authority.as_bytes(),
            head: Some(request),
            referer: request.known.referer,
            user_agent: request.known.user_agent,
            ..line(self.shared, &self.base.clock, connection, asked, summary)
        };
        self.logs.push(log, &line);
    }

    /// Whether the requests of a connection have lines in the access log.
    fn is_logged(&self, index: ConnKey, log: Option<LogChoice>) -> bool {
        let connection = &self.connections[index];
        self.logs.is_on(log) && !connection.is_admin() && !connection.internal
    }

    /// Logs in the access log how a response ended whose head was kept; `unsent` bytes of its body did not leave.
    pub(crate) fn log_kept(&mut self, index: ConnKey, unsent: u64) {
        let Some(exchange) = self.connections[index].exchange.as_deref_mut() else { return };
        let Some(mut summary) = exchange.summary.take() else { return };
        summary.body_bytes = summary.body_bytes.saturating_sub(unsent);
        self.count_aborted(index, summary.status);
        let plan = self.plan_of(index);
        let slow = self.count_ended(index, plan, summary.status, summary.body_bytes);
        let log = self.overrides(index).and_then(|overrides| overrides.access_log);
        if !self.is_logged(index, log) && self.shared.spans.is_none() && slow.is_none() {
            return;
        }
        let head = std::mem::take(&mut self.exchange(index).head);
        if let Some(request) = head.view(&mut HeadRoom::default()) {
            self.log_request(index, &request, log, (summary, slow));
        }
        self.exchange(index).head = head;
    }
}

/// What the `Connection` field promised.
fn after(persistence: Persistence) -> After {
    match persistence {
        Persistence::Implied | Persistence::Stated => After::Keep,
        Persistence::Close | Persistence::Switched => After::Close,
    }
}
