//! `forward_auth`: a gate that asks another server, by a sub-request (`exchanges::ask`).

use maitred_http::fields::{FieldLines, FieldsRef};
use maitred_http::request::Request;

use super::Requests;
use crate::auth_answers::Kept;
use crate::connection::gated::{Denial, Place, Verdict, Waits};
use crate::connection::refusal::RETRY_SOON;
use crate::connection::table::Phase;
use crate::exchanges::ask::Answer;
use crate::facts::identity::Source;
use crate::keys::{ConnKey, QuestionId};
use crate::step::RequestInput;
use maitred_config::{AuthCache, KeyPart};
use maitred_files::Summary;
use maitred_files::exchange::ResponseWriter;
use maitred_files::exchange::Routed;
use maitred_http::uri::Slashes;
use maitred_policy::access::answers::{ANSWER_BYTES_MAX, time_of};
use maitred_policy::access::forward::{Forward, Meaning};
use maitred_policy::access::known::Parts;
use maitred_policy::rewrite::cookie;
use maitred_policy::target::Target;

impl Requests {
    /// Has another server asked about a request.
    pub(super) fn ask_server(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        (forward, target): (&Forward, Target<'_>),
    ) -> Verdict {
        let kept_as = forward.cache.as_ref().and_then(|cache| self.place_of(index, (request, target), cache));
        if let (Some(cache), Some(place)) = (&forward.cache, &kept_as)
            && let Some(kept) = self.shared.auth_answers.get(cache.answers, &place.digest, self.clock.now)
        {
            self.row.auth_cached.add(1);
            return self.judge_kept(index, forward, &kept);
        }
        match self.ask(index, request, (forward, &target.canonical())) {
            Some(key) => {
                self.gated(index).waits = Some(Waits { question: Some(key), kept_as, ..Waits::default() });
                Verdict::Wait
            }
            None => {
                self.log_limited(|| tracing::warn!("503: `forward_auth` could not ask about a request"));
                Verdict::Refuse(Denial::with(503, RETRY_SOON.to_vec()))
            }
        }
    }

    /// Something of an answer to a question has come.
    pub(crate) fn on_question(&mut self, id: QuestionId) {
        let Some((index, answer)) = self.on_answer(id) else { return };
        let Some(connection) = self.connections.get(index).filter(|found| found.is(Phase::Gate)) else {
            return;
        };
        let exchange = connection.exchange.as_deref();
        let waits = exchange.and_then(|exchange| exchange.dispatch.gated.as_deref()?.waits.as_ref());
        let routed = exchange
            .and_then(|exchange| exchange.routed)
            .filter(|_| waits.is_some_and(|waits| waits.question == Some(id.key)));
        let gates = routed.and_then(|routed| routed.plan.gates.as_deref());
        let Some(forward) = gates.and_then(|gates| gates.forward.as_ref()) else { return };
        let kept_as = waits.and_then(|waits| waits.kept_as);
        if let (Some(cache), Some(place)) = (&forward.cache, kept_as)
            && let Some(time) = time_of(cache, answer.status, answer.fields.all(), place.named)
            && let Some(kept) = worth_keeping(forward, &answer)
        {
            self.shared.auth_answers.keep(cache.answers, place.digest, kept, time, self.clock.now);
        }
        let verdict = self.judge_answer(index, forward, answer);
        self.on_verdict(index, verdict);
    }

    /// What a client has asked for, as the pool that it is for would take it.
    pub(super) fn asked<'b>(&self, request: &Request<'_, 'b>, routed: Routed) -> Target<'b> {
        let pool = routed.pool().and_then(|pool| self.shared.start.config.pools.get(pool));
        let own = pool.and_then(|pool| pool.encoded_slashes);
        Target::asked(request, own.map_or(routed.plan.slashes, Slashes::from))
    }

    /// What the answer to a question about this request is found by; `None` if it cannot be kept.
    fn place_of(
        &self,
        index: ConnKey,
        (request, target): (&Request<'_, '_>, Target<'_>),
        cache: &AuthCache,
    ) -> Option<Place> {
        let mut parts = self.shared.auth_answers.begin()?;
        let origin = self.origin(index, request);
        parts.add(&[u8::from(origin.https)]);
        parts.add(&request.authority.as_bytes().to_ascii_lowercase());
        // A trusted proxy may say another host.
        add_fields(&mut parts, request, "x-forwarded-host");
        self.identity(index).certificate_parts(|value| parts.add(value));
        let (mut names, mut named) = (false, false);
        for part in &cache.key {
            match part {
                KeyPart::Client => {
                    parts.add(origin.client.map(|client| client.to_string()).unwrap_or_default().as_bytes());
                }
                KeyPart::Method => parts.add(request.method_text.as_bytes()),
                KeyPart::Uri => parts.add(target.canonical().as_bytes()),
                KeyPart::Path => parts.add(target.canonical_path().as_bytes()),
                KeyPart::Header(name) => {
                    names = true;
                    named |= add_fields(&mut parts, request, name);
                }
                KeyPart::Cookie(name) => {
                    names = true;
                    let value = cookie(request, name);
                    parts.add(&[u8::from(value.is_some())]);
                    parts.add(value.unwrap_or_default());
                    named |= value.is_some();
                }
            }
        }
        Some(Place { digest: parts.digest(), named: named || !names })
    }

    fn judge_kept(&mut self, index: ConnKey, forward: &Forward, kept: &Kept) -> Verdict {
        let answer =
            Answer { status: kept.status, fields: kept.fields.clone(), content: kept.content.clone() };
        self.judge_answer(index, forward, answer)
    }

    fn judge_answer(&mut self, index: ConnKey, forward: &Forward, answer: Answer) -> Verdict {
        match Meaning::of(answer.status) {
            Meaning::Admitted => {
                self.take_fields(index, forward, answer.fields.all());
                Verdict::Pass
            }
            Meaning::PassedOn => {
                let whole = Some(Box::new((answer.fields, answer.content)));
                Verdict::Refuse(Denial { status: answer.status, fields: Vec::new(), answer: whole })
            }
            Meaning::Failed => {
                let (status, pool) = (answer.status, self.shared.pool_name(forward.pool as u16));
                self.base_log(status, pool);
                Verdict::Refuse(Denial::of(if answer.status == 504 { 504 } else { 502 }))
            }
        }
    }

    /// Takes from an answer what the request's own pool gets.
    fn take_fields(&mut self, index: ConnKey, forward: &Forward, fields: FieldsRef<'_>) {
        let gated = self.gated(index);
        gated.decided = true;
        let mut user = None;
        for (name, value) in fields.iter() {
            if forward.set_cookies && name.eq_ignore_ascii_case(b"set-cookie") {
                gated.cookies.push(b"Set-Cookie", value);
            }
            let Some(copied) = forward.copies(name) else { continue };
            gated.fields.push(copied.as_bytes(), value);
            if forward.names_user(copied) {
                user = user.or(Some(value));
            }
        }
        if let Some(name) = user {
            self.identify(index, name, Source::ForwardAuth);
        }
    }

    /// Where a client that another server has refused with 401 can sign in, if it is told so.
    pub(super) fn sign_in(
        &self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
    ) -> Option<Vec<u8>> {
        let forward = given.routed.plan.gates.as_deref()?.forward.as_ref()?;
        let target = self.asked(request, given.routed);
        forward.sign_in((request, &target), || {
            let scheme = if self.origin(index, request).https { "https" } else { "http" };
            format!("{scheme}://{}", request.authority)
        })
    }

    fn base_log(&mut self, status: u16, pool: &str) {
        self.log_limited(|| match status {
            0 => tracing::warn!(pool, "502: no whole answer to `forward_auth`"),
            _ => tracing::warn!(pool, status, "`forward_auth` was answered with an error"),
        });
    }
}

/// Adds all fields of a name, with their number. True if there is one.
fn add_fields(parts: &mut Parts, request: &Request<'_, '_>, name: &str) -> bool {
    let found = || request.fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
    parts.add(&found().count().to_be_bytes());
    found().for_each(|field| parts.add(field.value));
    found().next().is_some()
}

/// What is kept of an answer; `None` if it is too long.
fn worth_keeping(forward: &Forward, answer: &Answer) -> Option<Kept> {
    let admits = Meaning::of(answer.status) == Meaning::Admitted;
    let mut fields = FieldLines::default();
    let mut bytes = 0;
    for (name, value) in answer.fields.all().iter() {
        if !admits || forward.copies(name).is_some() {
            fields.push(name, value);
            bytes += name.len() + value.len();
        }
    }
    let content = if admits { Vec::new() } else { answer.content.clone() };
    (bytes + content.len() <= ANSWER_BYTES_MAX).then_some(Kept { status: answer.status, fields, content })
}

/// Sends a client to a place where it can sign in, with the cookies of the answer that refuses its request.
pub(super) fn send_to(place: &[u8], fields: &FieldLines, writer: &mut ResponseWriter<'_>) -> Summary {
    writer.make(302, false, true, |lines| {
        lines.push_number(b"Content-Length", 0);
        lines.push(b"Location", place);
        lines.push(b"Cache-Control", b"no-store");
        for (name, value) in fields.all().iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"set-cookie"))
        {
            lines.push(name, value);
        }
    });
    Summary { status: 302, body_bytes: 0 }
}
