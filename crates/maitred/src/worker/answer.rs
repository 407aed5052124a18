//! One request, one answer: chosen, written, counted, logged.

use std::borrow::Cow;

use maitred_http::request::{MISDIRECTED, Method, Reject, Request, Version};
use maitred_http::uri;

use super::connection::{After, Connection, State};
use super::event_loop::Thread;
use super::forward;
use super::kept_head;
use super::origin::{self, Client};
use super::shared::Shared;
use super::wire::Wire;
use crate::log::access::{Line, RequestLine};
use crate::route::Choice;
use crate::serve::fixed::{self, Failure, Manner};
use crate::serve::{CachedBytes, Clock, Exchange, Persistence, Served, Summary};
use crate::tls::redirect;

/// What [`Thread::answer`] made of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Answered, whole, in `tx`; the connection is kept.
    Next,
    /// Answered, whole, in `tx`; no other request will be.
    Last(After),
    /// The connection waits for something; its state says for what.
    Waits,
    /// Nothing was done: what is in `tx` has to leave first.
    FlushFirst,
    /// The connection, which keeps its request for this pool, is to move to this thread.
    Moves(u16, usize),
    /// The connection is closed.
    Gone,
}

/// A request's bytes, and how it came to be answered now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given<'a> {
    /// The head as received.
    pub head: &'a [u8],
    /// The body, decoded.
    pub body: &'a [u8],
    /// It was answered with [`Served::Blocked`] before, and the disk has been asked.
    pub warmed: bool,
    /// The connection cannot be kept, whatever the request says.
    pub last: bool,
    /// Bytes came behind it, which nobody has looked at.
    pub followed: bool,
}

impl Thread {
    /// Answers a request.
    pub(super) fn answer(&mut self, index: u32, request: &Request<'_, '_>, given: Given<'_>) -> Step {
        let start = self.tx.len();
        let step = self.choose(index, request, given);
        self.add_site_hsts(index, request, start);
        step
    }

    /// Adds what the site says about TLS to the response that begins at `start` of what is to be sent.
    pub(super) fn add_site_hsts(&mut self, index: u32, request: &Request<'_, '_>, start: usize) {
        if self.tx.len() > start && self.connections.get(index as usize).is_some_and(|found| found.secure) {
            let shared = self.shared;
            shared.tls.hsts.add(shared.router.site(request.authority), start, &mut self.tx);
        }
    }

    /// The one place where it is decided what answers.
    fn choose(&mut self, index: u32, request: &Request<'_, '_>, given: Given<'_>) -> Step {
        let persistence = self.persistence(index, request, given.last);
        if self.connections[index as usize].admin {
            return self.answer_admin(index, request, persistence);
        }
        if request.https && !self.connections[index as usize].secure {
            return self.answer_bad_target(index, request, MISDIRECTED);
        }
        // Their targets are no paths: an asterisk, or an authority.
        let about_no_path = matches!(request.method, Method::Trace | Method::Connect) || request.path == "*";
        let path = match self.judge_path(if about_no_path { "/" } else { request.path }) {
            Ok(path) => path,
            Err(reject) => return self.answer_bad_target(index, request, reject),
        };
        if let Some(step) = self.answer_for_tls(index, request, &path, persistence) {
            return step;
        }
        let shared = self.shared;
        let site = shared.router.site(request.authority);
        let clock = self.clock.clone();
        let exchange = Exchange { request, path: &path, clock: &clock, persistence, warmed: given.warmed };
        let named = shared.start.config.server.server_header;
        if about_no_path {
            let summary = answer_for_no_route(&exchange, named, &mut self.tx);
            return self.whole(index, request, summary, persistence);
        }
        let choice = shared.router.choose(site, request.method, request.method_text, &path);
        if self.connections[index as usize].is_stream()
            && forward::would_mislead(request, &choice, &shared.start.config.pools)
        {
            return self.site_error(index, request, given, (501, b""));
        }
        if let Some(text) = shared.acme.answer(&path) {
            let plain = "application/octet-stream";
            let summary = fixed::respond(200, &text, plain, &exchange, named, &mut self.tx);
            return self.whole(index, request, summary, persistence);
        }
        let summary = match choice {
            Choice::Files(set) => {
                let served = self.files.serve(set, &exchange, &mut self.tx);
                return self.served(index, request, given, persistence, served);
            }
            Choice::Pool(pool) => {
                if self.connections[index as usize].secure {
                    self.work(index).site = site as u16;
                }
                return self.send_to_pool(index, pool, &exchange, given);
            }
            Choice::Redirect { to, status } => fixed::redirect(to, status, &exchange, named, &mut self.tx),
            Choice::Respond { status: status @ 400.., body: "", .. } => {
                return self.site_error(index, request, given, (status, b""));
            }
            Choice::Respond { status, body, content_type } => {
                let summary = fixed::respond(status, body, content_type, &exchange, named, &mut self.tx);
                if summary.body_bytes > 0 {
                    self.tx_cached = Some(CachedBytes::configured(body.as_bytes()));
                }
                summary
            }
            Choice::Nothing => return self.site_error(index, request, given, (404, b"")),
            Choice::NotThisMethod(methods) => {
                let allow = format!("Allow: {}\r\n", methods.join(", "));
                return self.site_error(index, request, given, (405, allow.as_bytes()));
            }
        };
        self.whole(index, request, summary, persistence)
    }

    /// Adds what the site says about TLS to the head of an application's response.
    pub(super) fn add_hsts(&self, index: u32, head: &mut Vec<u8>) {
        let Some(connection) = self.connections.get(index as usize).filter(|found| found.secure) else {
            return;
        };
        let site = connection.work.as_deref().map_or(0, |work| work.site);
        self.shared.tls.hsts.add(usize::from(site), 0, head);
    }

    /// What TLS has to say before anybody is asked: cleartext clients are sent to it, and what may be a request played again
    /// must do no harm (RFC 8470 section 5.2).
    fn answer_for_tls(
        &mut self,
        index: u32,
        request: &Request<'_, '_>,
        path: &[u8],
        persistence: Persistence,
    ) -> Option<Step> {
        let connection = &self.connections[index as usize];
        let listen = self.shared.start.config.listens.get(usize::from(connection.listen))?;
        if self.is_early(index) {
            let safe = matches!(request.method, Method::Get | Method::Head | Method::Options);
            return (!safe).then(|| self.plain_error(index, request, 425, b"", persistence));
        }
        if !listen.redirect_http || path.starts_with(redirect::CHALLENGES) {
            return None;
        }
        let to = redirect::location(request.authority, request.target, self.shared.redirect_port?);
        Some(match to {
            Some(to) => {
                let to = format!("Location: {to}\r\n");
                self.plain_error(index, request, redirect::STATUS, to.as_bytes(), persistence)
            }
            None => self.plain_error(index, request, 400, b"", persistence),
        })
    }

    /// The path that routes and files go by.
    fn judge_path<'p>(&self, path: &'p str) -> Result<Cow<'p, [u8]>, Reject> {
        let server = &self.shared.start.config.server;
        uri::judge(path, server.encoded_slashes.into(), server.path_parameters)
    }

    /// Whether the body of a request has to be kept for whoever answers it: whether [`Self::choose`] will give it to a pool.
    /// Early data is no reason why not, since the handshake may be over when the body has come.
    pub(super) fn wants_body(&self, index: u32, request: &Request<'_, '_>) -> bool {
        let connection = &self.connections[index as usize];
        let about_no_path = matches!(request.method, Method::Trace | Method::Connect) || request.path == "*";
        if connection.admin || about_no_path || request.https && !connection.secure {
            return false;
        }
        let Ok(path) = self.judge_path(request.path) else { return false };
        let shared = self.shared;
        let listen = shared.start.config.listens.get(usize::from(connection.listen));
        let redirects = listen.is_some_and(|listen| listen.redirect_http) && shared.redirect_port.is_some();
        if redirects && !path.starts_with(redirect::CHALLENGES) || shared.acme.answer(&path).is_some() {
            return false;
        }
        let site = shared.router.site(request.authority);
        let choice = shared.router.choose(site, request.method, request.method_text, &path);
        let misleads =
            connection.is_stream() && forward::would_mislead(request, &choice, &shared.start.config.pools);
        matches!(choice, Choice::Pool(_)) && !misleads
    }

    /// Whether, and how, the connection is kept after this request (9112-9.3).
    pub(super) fn persistence(&self, index: u32, request: &Request<'_, '_>, last: bool) -> Persistence {
        let connection = &self.connections[index as usize];
        if connection.is_stream() || connection.internal {
            // It ends with its response, and says so by its own means.
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
    pub(super) fn ends_soon(&self, index: u32) -> bool {
        let Some(drain) = &self.drain else { return false };
        let connection = &self.connections[index as usize];
        connection.admin || connection.wire != Wire::Clear || !drain.has_successor()
    }

    /// Takes what a file handler gave back.
    pub(super) fn served(
        &mut self,
        index: u32,
        request: &Request<'_, '_>,
        given: Given<'_>,
        persistence: Persistence,
        served: Served,
    ) -> Step {
        match served {
            Served::Whole(summary) => self.whole(index, request, summary, persistence),
            Served::Cached(summary, cached) => {
                self.tx_cached = Some(cached);
                self.whole(index, request, summary, persistence)
            }
            Served::Streaming(summary, segments) => {
                self.count(index, summary.status);
                self.keep_for_log(index, request);
                let work = self.work(index);
                work.segments = segments;
                work.resident_until = 0;
                work.summary = Some(summary);
                work.after = Some(if given.last { After::Linger } else { after(persistence) });
                self.start_writing(index);
                Step::Waits
            }
            Served::Blocked(_) if !self.tx.is_empty() => Step::FlushFirst,
            Served::Blocked(job) => {
                if !self.submit(index, job) {
                    return self.plain_error(index, request, 503, b"Retry-After: 1\r\n", persistence);
                }
                self.keep(index, given);
                self.enter(index, State::Disk);
                self.wheel.disarm(index);
                Step::Waits
            }
        }
    }

    /// Whether the peer may say whom its requests come from.
    pub(super) fn is_trusted_proxy(&self, index: u32) -> bool {
        let proxies = &self.shared.start.config.server.trusted_proxies;
        let peer = self.connections.get(index as usize).and_then(|connection| connection.remote.address);
        peer.is_some_and(|peer| origin::is_within(peer.ip(), proxies))
    }

    /// Keeps of a request's head what the log will want once the response has ended.
    pub(super) fn keep_for_log(&mut self, index: u32, request: &Request<'_, '_>) {
        let connection = &self.connections[index as usize];
        let logged = self.log.is_on() && !connection.admin && !connection.internal;
        let proxied = self.is_trusted_proxy(index);
        let head = &mut self.work(index).head;
        head.clear();
        if logged {
            kept_head::write(request, proxied, head);
        }
    }

    /// Keeps a request that cannot be answered yet.
    pub(super) fn keep(&mut self, index: u32, given: Given<'_>) {
        let work = self.work(index);
        work.head.clear();
        work.head.extend_from_slice(given.head);
        work.body.clear();
        work.body.extend_from_slice(given.body);
        work.last = given.last;
    }

    /// An error in a line of text.
    pub(super) fn plain_error(
        &mut self,
        index: u32,
        request: &Request<'_, '_>,
        status: u16,
        fields: &[u8],
        persistence: Persistence,
    ) -> Step {
        self.text_error(index, request, &Failure { status, fields, request_id: None }, persistence)
    }

    pub(super) fn text_error(
        &mut self,
        index: u32,
        request: &Request<'_, '_>,
        failure: &Failure<'_>,
        persistence: Persistence,
    ) -> Step {
        let manner = Manner {
            clock: &self.clock,
            persistence,
            head_only: request.method == Method::Head,
            server_header: self.shared.start.config.server.server_header,
        };
        let summary = failure.write(&manner, &mut self.tx);
        self.whole(index, request, summary, persistence)
    }

    /// A response that stands in `tx` as a whole.
    pub(super) fn whole(
        &mut self,
        index: u32,
        request: &Request<'_, '_>,
        summary: Summary,
        persistence: Persistence,
    ) -> Step {
        self.count(index, summary.status);
        self.row.bytes_sent.add(summary.body_bytes);
        self.log_request(index, request, summary);
        if let Some(work) = self.connections[index as usize].work.as_deref_mut() {
            work.forget_pool();
        }
        match after(persistence) {
            After::Keep => Step::Next,
            after => Step::Last(after),
        }
    }

    /// Counts a response, by its class.
    pub(super) fn count(&mut self, index: u32, status: u16) {
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

    /// Counts a request that breaks the rules, and says in the error log which one.
    pub(super) fn note_refusal(&mut self, index: u32, reject: Reject) {
        self.row.malformed.add(1);
        let remote = self.connections[index as usize].remote;
        self.limiter.log(self.clock.now, || {
            tracing::info!(
                peer = remote.text(),
                status = reject.status,
                "request refused: {}",
                reject.reason
            );
        });
    }

    fn answer_bad_target(&mut self, index: u32, request: &Request<'_, '_>, reject: Reject) -> Step {
        self.note_refusal(index, reject);
        match self.plain_error(index, request, reject.status, b"", Persistence::Close) {
            Step::Last(_) => Step::Last(After::Linger),
            step => step,
        }
    }

    /// Answers a head that was refused. Only its first line is known, and not even that for certain.
    pub(super) fn answer_refused(&mut self, index: u32, received: &[u8], reject: Reject) {
        let named = self.shared.start.config.server.server_header;
        let summary =
            fixed::error(reject.status, Persistence::Close, &self.clock, false, named, &mut self.tx);
        self.count(index, summary.status);
        self.row.bytes_sent.add(summary.body_bytes);
        if self.log.is_on() {
            let end = memchr::memchr2(b'\r', b'\n', received).unwrap_or(received.len());
            let first_line = RequestLine::Refused(received.get(..end).unwrap_or_default());
            let connection = &self.connections[index as usize];
            self.log.push(&line(self.shared, &self.clock, connection, first_line, summary));
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
            version: if connection.is_stream() { Version::Http2 } else { request.version },
        };
        let client =
            Client::of(request, &connection.peer(), &self.shared.start.config.server.trusted_proxies);
        let work = connection.work.as_deref().filter(|work| work.pool.is_some());
        let id = work.and_then(|work| work.request_id).map(origin::hexadecimal);
        let line = Line {
            remote: client.remote.text(),
            request_id: client.given_request_id(request).or(id.as_ref().map(<[u8; 32]>::as_slice)),
            host: request.authority.as_bytes(),
            referer: request.known.referer,
            user_agent: request.known.user_agent,
            ..line(self.shared, &self.clock, connection, asked, summary)
        };
        self.log.push(&line);
    }

    /// Answers a request that did not come in time, and closes.
    pub(super) fn answer_timeout(&mut self, index: u32) {
        let (status, work) = (408, self.work(index));
        if !work.head.is_empty() {
            return self.refuse_kept(index, status, b"");
        }
        let input = std::mem::take(&mut work.input);
        self.answer_refused(index, &input, Reject { status, reason: "the client was too slow" });
        self.enter(index, State::Idle);
        self.send_joined(index, Some(After::Linger));
    }

    /// Says in the access log how a response ended whose head was kept; `unsent` bytes of its body did not leave.
    pub(super) fn log_kept(&mut self, index: u32, unsent: u64) {
        let Some(work) = self.connections[index as usize].work.as_deref_mut() else { return };
        let Some(mut summary) = work.summary.take() else { return };
        summary.body_bytes = summary.body_bytes.saturating_sub(unsent);
        let head = std::mem::take(&mut work.head);
        self.count_cut_off(index, summary.status);
        let mut room = maitred_http::request::field_room();
        if let Ok(Some((request, _))) = maitred_http::request::parse(&head, &mut room, &self.head_limits) {
            self.log_request(index, &request, summary);
        }
        self.work(index).head = head;
    }
}

/// What the `Connection` field promised.
fn after(persistence: Persistence) -> After {
    match persistence {
        Persistence::Implied | Persistence::Stated => After::Keep,
        Persistence::Close => After::Close,
    }
}

/// Requests that no route is asked about: TRACE, which would echo credentials to scripts, CONNECT, since this is no
/// proxy, and the server as a whole (`OPTIONS *`, 9110-9.3.7).
fn answer_for_no_route(exchange: &Exchange<'_>, named: bool, out: &mut Vec<u8>) -> Summary {
    let manner = Manner::of(exchange, named);
    let allow = b"Allow: GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS\r\n";
    if exchange.request.method == Method::Options {
        let reply = fixed::Reply { status: 204, fields: allow, content_type: "", body: b"" };
        return reply.write(&manner, out);
    }
    fixed::error_with(405, allow, &manner, out)
}

/// The parts of a log line that the connection knows.
pub(super) fn line<'a>(
    shared: &'a Shared,
    clock: &'a Clock,
    connection: &'a Connection,
    request: RequestLine<'a>,
    summary: Summary,
) -> Line<'a> {
    let work = connection.work.as_deref();
    let pool = work.and_then(|work| work.pool);
    Line {
        clock,
        remote: connection.remote.text(),
        request,
        host: b"",
        status: summary.status,
        body_bytes: summary.body_bytes,
        referer: None,
        user_agent: None,
        request_id: None,
        duration_us: clock.now.saturating_duration_since(connection.began).as_micros() as u64,
        pool: pool
            .and_then(|pool| shared.start.config.pools.get(usize::from(pool)))
            .map(|pool| pool.name.as_str()),
        queue_us: work.map_or(0, |work| work.queue_us),
    }
}
