//! One request, one answer: chosen, written, counted, logged.

use std::borrow::Cow;

use maitred_http::fields::{FieldEdits, FieldLines};
use maitred_http::h1::Persistence;
use maitred_http::h2::StreamKey;
use maitred_http::request::{HeadRoom, MISDIRECTED, Method, Reject, Request, RequestHead, Version};
use maitred_http::uri;

use super::Clients;
use crate::exchange::{Decision, Field, ReplyContext, ResponseWriter, Routed};
use crate::log::access::{Line, RequestLine};
use crate::plan::Plan;
use crate::serve::files::FileServer;
use crate::serve::fixed::{self, Failure};
use crate::serve::{Served, Summary};
use crate::tls::redirect;
use crate::worker::connection::refusal::RETRY_SOON;
use crate::worker::connection::wire::Wire;
use crate::worker::connection::{After, Exchange, State};
use crate::worker::forward;
use crate::worker::log_line::{line, line_of};
use crate::worker::origin::{self, Client};
use crate::worker::step::{RequestInput, Step};

impl Clients {
    /// Decides what answers a request: once, when its head is there. Gives back the path that goes with it, too.
    pub(in crate::worker) fn route<'p>(
        &self,
        index: u32,
        request: &Request<'p, 'p>,
    ) -> (Routed, Cow<'p, [u8]>) {
        let shared = self.shared;
        let connection = &self.connections[index as usize];
        let root = Cow::Borrowed(b"/".as_slice());
        if connection.admin {
            return (Routed { decision: Decision::Admin, plan: shared.router.admin_plan() }, root);
        }
        let site = shared.router.site(request.authority);
        let plan = shared.router.plan(site);
        let decided = |decision| Routed { decision, plan };
        if request.https && !connection.secure {
            return (decided(Decision::Refused(MISDIRECTED)), root);
        }
        // Their targets are no paths: an asterisk, or an authority.
        let about_no_path = matches!(request.method, Method::Trace | Method::Connect) || request.path == "*";
        let path = match self.judge_path(if about_no_path { "/" } else { request.path }) {
            Ok(path) => path,
            Err(reject) => return (decided(Decision::Refused(reject)), root),
        };
        let listen = shared.start.config.listens.get(usize::from(connection.listen));
        let redirects = listen.is_some_and(|listen| listen.redirect_http) && shared.redirect_port.is_some();
        if redirects && !path.starts_with(redirect::CHALLENGES) {
            return (decided(Decision::ToTls), path);
        }
        if about_no_path {
            return (decided(Decision::NoPath), path);
        }
        let (choice, plan) = shared.router.choose(site, request.method, request.method_text, &path);
        let misleads =
            connection.is_stream() && forward::would_mislead(request, &choice, &shared.start.config.pools);
        let decision = match choice {
            _ if misleads => Decision::Misleading,
            _ if shared.acme.answer(&path).is_some() => Decision::Challenge,
            choice => Decision::Route(choice),
        };
        (Routed { decision, plan }, path)
    }

    /// The context of the response to this request: what its head depends on besides the content.
    pub(in crate::worker) fn reply_context(
        &self,
        index: u32,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
    ) -> ReplyContext<'static> {
        let persistence = self.persistence(index, request, given.last);
        let head_only = request.method == Method::Head;
        self.context_of(index, given.routed.plan, persistence, head_only)
    }

    pub(in crate::worker) fn context_of(
        &self,
        index: u32,
        plan: &'static Plan,
        persistence: Persistence,
        head_only: bool,
    ) -> ReplyContext<'static> {
        let connection = &self.connections[index as usize];
        let date = self.clock.http_date;
        if connection.internal {
            // The client's thread carries them out.
            let edits = FieldEdits::NONE;
            return ReplyContext { date, persistence, head_only, edits, late_edits: edits };
        }
        let (edits, late_edits) = (plan.edits(connection.secure), plan.late_edits(connection.secure));
        ReplyContext { date, persistence, head_only, edits, late_edits }
    }

    /// Where the response of a connection is written; and the files that it may be made of.
    #[inline]
    pub(in crate::worker) fn files_and_writer<'t>(
        &'t mut self,
        index: u32,
        context: ReplyContext<'t>,
    ) -> (&'t mut FileServer, ResponseWriter<'t>) {
        let wire = self.connections[index as usize].wire;
        let stream = match wire {
            Wire::Stream { session, stream } => {
                self.touch_session(session);
                let found = self.sessions.get_mut(session as usize);
                found.map(|http2| (&mut http2.session, StreamKey(stream)))
            }
            Wire::Clear | Wire::Tls { .. } => None,
        };
        (&mut self.files, ResponseWriter::new(&mut self.buffers.tx, stream, &mut self.buffers.lines, context))
    }

    /// Has a part of a response that comes from an upstream written to `tx`, which is empty; for a stream, content goes into its
    /// frames.
    pub(in crate::worker) fn encode<R>(
        &mut self,
        index: u32,
        write: impl FnOnce(&mut Exchange, &mut ResponseWriter<'_>) -> R,
    ) -> R {
        // It waits in the connection's buffers, so that they are there.
        let mut exchange = self.connections[index as usize].exchange.take().unwrap_or_default();
        let plan = exchange.routed.map_or(self.shared.router.bare_plan(), |routed| routed.plan);
        let further = exchange.set_cookie.take();
        let context = self.context_of(index, plan, Persistence::Close, false);
        let (_, writer) = self.files_and_writer(index, context);
        let mut writer = writer.with(further.as_deref().map(FieldLines::all).unwrap_or_default());
        let result = write(&mut exchange, &mut writer);
        if !writer.is_begun() {
            exchange.set_cookie = further;
        }
        self.connections[index as usize].exchange = Some(exchange);
        result
    }

    /// Writes a whole response.
    pub(in crate::worker) fn reply(
        &mut self,
        index: u32,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        write: impl FnOnce(&mut ResponseWriter<'_>) -> Summary,
    ) -> Step {
        let context = self.reply_context(index, request, given);
        let (_, mut writer) = self.files_and_writer(index, context);
        let summary = write(&mut writer);
        self.whole(index, request, summary, context.persistence)
    }

    pub(in crate::worker) fn answer_challenge(
        &mut self,
        index: u32,
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
    pub(in crate::worker) fn redirect_to_tls(
        &mut self,
        index: u32,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
    ) -> Step {
        let port = self.shared.redirect_port;
        match port.and_then(|port| redirect::location(request.authority, request.target, port)) {
            Some(to) => {
                let to = Field::of("Location", to);
                self.plain_error(index, request, given, redirect::STATUS, &[to])
            }
            None => self.plain_error(index, request, given, 400, &[]),
        }
    }

    /// The path that routes and files go by.
    fn judge_path<'p>(&self, path: &'p str) -> Result<Cow<'p, [u8]>, Reject> {
        let server = &self.shared.start.config.server;
        uri::judge(path, server.encoded_slashes.into(), server.path_parameters)
    }

    /// Whether, and how, the connection is kept after this request (9112-9.3).
    pub(in crate::worker) fn persistence(
        &self,
        index: u32,
        request: &Request<'_, '_>,
        last: bool,
    ) -> Persistence {
        let connection = &self.connections[index as usize];
        if connection.is_stream() || connection.internal {
            // A stream ends with its response; HTTP/2 has no `Connection` field for that.
            return Persistence::Close;
        }
        let limit = self.shared.start.config.limits.requests_per_connection_max;
        let kept = request.keep_alive && !last && connection.requests + 1 < limit;
        match request.version {
            _ if !kept || self.ends_soon(index) => Persistence::Close,
            Version::Http11 | Version::Http2 => Persistence::Implied,
            Version::Http10 => Persistence::Stated,
        }
    }

    /// Whether a connection ends with its next response, because this process does: with a successor, a kept connection is
    /// given to it, if it can be.
    pub(in crate::worker) fn ends_soon(&self, index: u32) -> bool {
        let Some(drain) = &self.drain else { return false };
        let connection = &self.connections[index as usize];
        connection.admin || connection.wire != Wire::Clear || !drain.has_successor()
    }

    /// Takes what a file handler gave back.
    pub(in crate::worker) fn served(
        &mut self,
        index: u32,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        persistence: Persistence,
        served: Served,
    ) -> Step {
        match served {
            Served::Whole(summary) => self.whole(index, request, summary, persistence),
            Served::Cached(summary, cached) => {
                self.buffers.tx_cached = Some(cached);
                self.whole(index, request, summary, persistence)
            }
            Served::Streaming(summary, segments) => {
                self.count(index, summary.status);
                self.keep_for_log(index, request);
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
    pub(in crate::worker) fn is_trusted_proxy(&self, index: u32) -> bool {
        let proxies = &self.shared.start.config.server.trusted_proxies;
        let peer = self.connections.get(index as usize).and_then(|connection| connection.remote.address);
        peer.is_some_and(|peer| origin::is_within(peer.ip(), proxies))
    }

    /// Keeps of a request's head what the access log needs once the response has ended.
    pub(in crate::worker) fn keep_for_log(&mut self, index: u32, request: &Request<'_, '_>) {
        let connection = &self.connections[index as usize];
        let logged = self.log.is_on() && !connection.admin && !connection.internal;
        let proxied = self.is_trusted_proxy(index);
        let exchange = self.exchange(index);
        (exchange.routed, exchange.path) = (None, None);
        let head = &mut exchange.head;
        match logged {
            true => head.take_for_log(request, |name| proxied && origin::tells(name)),
            false => head.clear(),
        }
    }

    /// Keeps a request that cannot be answered yet.
    pub(in crate::worker) fn keep(&mut self, index: u32, request: &Request<'_, '_>, given: RequestInput<'_>) {
        self.keep_head(index, request, given);
        let exchange = self.exchange(index);
        exchange.last = given.last;
        exchange.body.clear();
        exchange.body.extend_from_slice(given.body);
    }

    /// Keeps its head, and what was decided about it.
    pub(in crate::worker) fn keep_head(
        &mut self,
        index: u32,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
    ) {
        let exchange = self.exchange(index);
        exchange.routed = Some(given.routed);
        exchange.path = if given.path == request.path.as_bytes() { None } else { Some(given.path.into()) };
        match given.kept {
            Some(head) => exchange.head.copy_from(head),
            None => exchange.head.take(request, given.head),
        }
    }

    /// An error in a line of text.
    pub(in crate::worker) fn plain_error(
        &mut self,
        index: u32,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        status: u16,
        fields: &[Field<'_>],
    ) -> Step {
        self.text_error(index, request, given, &Failure { status, fields, request_id: None })
    }

    pub(in crate::worker) fn text_error(
        &mut self,
        index: u32,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        failure: &Failure<'_>,
    ) -> Step {
        self.reply(index, request, given, |writer| failure.write(writer))
    }

    /// A response that stands in `tx` as a whole.
    pub(in crate::worker) fn whole(
        &mut self,
        index: u32,
        request: &Request<'_, '_>,
        summary: Summary,
        persistence: Persistence,
    ) -> Step {
        self.count(index, summary.status);
        self.row.bytes_sent.add(summary.body_bytes);
        self.log_request(index, request, summary);
        if let Some(exchange) = self.connections[index as usize].exchange.as_deref_mut() {
            exchange.forget_pool();
            // The next request on this connection must not find the body that was kept for a pool.
            exchange.spool = None;
        }
        match after(persistence) {
            After::Keep => Step::Next,
            after => Step::Last(after),
        }
    }

    /// Counts a response, by its class.
    pub(in crate::worker) fn count(&mut self, index: u32, status: u16) {
        let connection = &mut self.connections[index as usize];
        connection.requests = connection.requests.saturating_add(1);
        if connection.admin || connection.internal {
            return;
        }
        let class = usize::from(status / 100).saturating_sub(1);
        if let Some(cell) = self.row.responses.get(class) {
            cell.add(1);
        }
    }

    /// Counts a request that breaks the rules, and logs it in the error log.
    pub(in crate::worker) fn note_refusal(&mut self, index: u32, reject: Reject) {
        self.row.malformed.add(1);
        let remote = self.connections[index as usize].remote;
        self.log_limited(|| {
            tracing::info!(
                peer = remote.text(),
                status = reject.status,
                "request refused: {}",
                reject.reason
            );
        });
    }

    pub(in crate::worker) fn answer_bad_target(
        &mut self,
        index: u32,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        reject: Reject,
    ) -> Step {
        self.note_refusal(index, reject);
        match self.plain_error(index, request, RequestInput { last: true, ..given }, reject.status, &[]) {
            Step::Last(_) => Step::Last(After::Linger),
            step => step,
        }
    }

    /// Answers a head of HTTP/1 that was refused. Only its first line is known, and not even that for certain.
    pub(in crate::worker) fn answer_refused_text(&mut self, index: u32, received: &[u8], reject: Reject) {
        let end = memchr::memchr2(b'\r', b'\n', received).unwrap_or(received.len());
        let first_line = RequestLine::Refused(received.get(..end).unwrap_or_default());
        self.answer_refused_line(index, first_line, reject);
    }

    /// Answers a head that was refused, as far as it is known.
    pub(in crate::worker) fn answer_refused(&mut self, index: u32, head: &RequestHead, reject: Reject) {
        self.answer_refused_line(index, line_of(head), reject);
    }

    fn answer_refused_line(&mut self, index: u32, asked: RequestLine<'_>, reject: Reject) {
        let plan = self.shared.router.bare_plan();
        let context = self.context_of(index, plan, Persistence::Close, false);
        let (_, mut writer) = self.files_and_writer(index, context);
        let summary = fixed::error(reject.status, &[], &mut writer);
        self.count(index, summary.status);
        self.row.bytes_sent.add(summary.body_bytes);
        if self.log.is_on() {
            let connection = &self.connections[index as usize];
            self.log.push(&line(self.shared, &self.base.clock, connection, asked, summary));
        }
    }

    fn log_request(&mut self, index: u32, request: &Request<'_, '_>, summary: Summary) {
        let connection = &self.connections[index as usize];
        if !self.log.is_on() || connection.admin || connection.internal {
            return;
        }
        let asked = RequestLine::Parsed {
            method: request.method_text,
            target: request.target,
            version: request.version,
        };
        let client =
            Client::of(request, &connection.peer(), &self.shared.start.config.server.trusted_proxies);
        let exchange = connection.exchange.as_deref().filter(|exchange| exchange.pool.is_some());
        let id = exchange.and_then(|exchange| exchange.request_id).map(origin::hexadecimal);
        let line = Line {
            remote: client.remote.text(),
            request_id: client.given_request_id(request).or(id.as_ref().map(<[u8; 32]>::as_slice)),
            host: request.authority.as_bytes(),
            referer: request.known.referer,
            user_agent: request.known.user_agent,
            ..line(self.shared, &self.base.clock, connection, asked, summary)
        };
        self.log.push(&line);
    }

    /// Logs in the access log how a response ended whose head was kept; `unsent` bytes of its body did not leave.
    pub(in crate::worker) fn log_kept(&mut self, index: u32, unsent: u64) {
        let Some(exchange) = self.connections[index as usize].exchange.as_deref_mut() else { return };
        let Some(mut summary) = exchange.summary.take() else { return };
        summary.body_bytes = summary.body_bytes.saturating_sub(unsent);
        let head = std::mem::take(&mut exchange.head);
        self.count_aborted(index, summary.status);
        if let Some(request) = head.view(&mut HeadRoom::default()) {
            self.log_request(index, &request, summary);
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
