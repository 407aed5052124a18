//! What traces say of requests: `traceparent` for pools, and spans for a collector.

use maitred_http::request::{Request, Version};

use super::Clients;
use crate::connection::dispatch::Dispatch;
use crate::keys::ConnKey;
use crate::origin::Client;
use maitred_config::Trace;
use maitred_files::Summary;
use maitred_http::uri::Slashes;
use maitred_log::trace::context::TRACEPARENT;
use maitred_log::trace::{Answered, Context, Parent, Span};
use maitred_policy::target::Target;

impl Clients {
    /// Where a request with this id stands in its trace; `None` without `[trace]`.
    #[inline]
    pub(crate) fn trace_context(
        &self,
        request: &Request<'_, '_>,
        client: &Client,
        id: u128,
    ) -> Option<Context> {
        let settings = self.shared.start.config.trace.as_ref()?;
        Some(context(settings, request, client, id))
    }

    /// Reports a request that has been answered, if it is recorded.
    #[inline]
    pub(crate) fn report_span(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        client: &Client,
        summary: Summary,
    ) {
        if self.shared.spans.is_some() {
            self.report(index, request, client, summary);
        }
    }

    fn report(&mut self, index: ConnKey, request: &Request<'_, '_>, client: &Client, summary: Summary) {
        let shared = self.shared;
        let (Some(exporter), Some(settings)) = (&shared.spans, &shared.start.config.trace) else { return };
        let connection = &self.connections[index];
        if connection.is_admin() || connection.internal {
            return;
        }
        let dispatch = connection.exchange.as_deref().map(|exchange| &exchange.dispatch);
        let id = dispatch.and_then(Dispatch::request_id);
        // What no pool has got has no id yet.
        let began = connection.began;
        let id = id.unwrap_or_else(|| self.forwarded.next_id());
        let context = context(settings, request, client, id);
        if !context.sampled {
            return;
        }
        let connection = &self.connections[index];
        let took_us = self.clock.now.saturating_duration_since(began).as_micros() as u64;
        let dispatch = connection.exchange.as_deref().map(|exchange| &exchange.dispatch);
        let answered = dispatch.and_then(|dispatch| {
            let pool = shared.start.config.pools.get(usize::from(dispatch.pool?))?;
            let given_at = dispatch.handed_off_at?;
            let served = dispatch.served;
            Some(Answered {
                pool: pool.name.clone(),
                queue_us: dispatch.queue_us.into(),
                given_after_us: given_at.saturating_duration_since(began).as_micros() as u64,
                server: shared
                    .servers(dispatch.pool?)
                    .filter(|_| served.attempts > 0)
                    .map(|servers| servers.name(served.server).into_owned()),
                status: (served.status > 0).then_some(served.status),
                attempts: served.attempts.into(),
            })
        });
        let target = Target::asked(request, Slashes::Keep);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        exporter.push(Span {
            context,
            method: request.method_text.to_owned(),
            path: target.canonical_path().into_owned(),
            query: target.query().map(str::to_owned),
            scheme: client.scheme(),
            version: match request.version {
                Version::Http10 => "1.0",
                Version::Http11 => "1.1",
                Version::Http2 => "2",
                Version::Http3 => "3",
            },
            host: request.authority.to_owned(),
            client: text(client.remote.bytes()),
            user_agent: request.known.user_agent.map(text),
            status: summary.status,
            body_bytes: summary.body_bytes,
            began_unix_us: self.clock.unix_us().saturating_sub(took_us),
            took_us,
            answered,
        });
    }
}

fn context(settings: &Trace, request: &Request<'_, '_>, client: &Client, id: u128) -> Context {
    let mut sent = request.fields.iter().filter(|field| field.name.eq_ignore_ascii_case(TRACEPARENT));
    // More than one is none (W3C Trace Context, section 3.2.1).
    let parent = match (sent.next(), sent.next()) {
        (Some(field), None) => Parent::read(field.value),
        _ => None,
    };
    Context::new(settings, id, parent, client.proxied)
}
