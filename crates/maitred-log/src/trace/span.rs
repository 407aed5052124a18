//! What is reported of a request: a span of this server, and of a request to a pool one more. Names of attributes are those of
//! OpenTelemetry's semantic conventions for HTTP (version 1.23 and later, which are stable).

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{self as proto, ResourceSpans, ScopeSpans, Status};

use super::context::Context;

/// A request that has been answered. Texts are as long as a request head allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Where it stands in its trace.
    pub context: Context,
    /// The method, as sent.
    pub method: String,
    /// The path, as sent.
    pub path: String,
    /// The query, if there was one.
    pub query: Option<String>,
    /// `http` or `https`.
    pub scheme: &'static str,
    /// `1.0`, `1.1` or `2`.
    pub version: &'static str,
    /// The authority that was asked for; empty for none.
    pub host: String,
    /// The client's address.
    pub client: String,
    /// `User-Agent`, if there was one.
    pub user_agent: Option<String>,
    /// The status of the response; [`499`, 502 and 598](../../../docs/metrics.md) for one that ended early.
    pub status: u16,
    /// Bytes of the response's body.
    pub body_bytes: u64,
    /// When its first byte came: Unix time in microseconds.
    pub began_unix_us: u64,
    /// How long it took to the end of the response, in microseconds.
    pub took_us: u64,
    /// What is known of the pool that answered.
    pub answered: Option<Answered>,
}

/// The request to a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The pool's name.
    pub pool: String,
    /// How long the request waited for a process, in microseconds.
    pub queue_us: u64,
    /// Microseconds from the first byte of the request to its being given away.
    pub given_after_us: u64,
    /// The server that got it, of a pool of servers.
    pub server: Option<String>,
    /// The status of the server's response.
    pub status: Option<u16>,
    /// Servers and connections that were tried.
    pub attempts: u16,
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.to_owned()))
}

fn number(key: &str, value: u64) -> KeyValue {
    attribute(key, Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX)))
}

/// A host and its port, which may be missing.
fn split(authority: &str) -> (&str, Option<u64>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()),
        _ => (authority, None),
    }
}

impl Span {
    /// The spans of this request.
    fn report(&self, out: &mut Vec<proto::Span>) {
        let (context, end) = (&self.context, self.began_unix_us.saturating_add(self.took_us));
        let mut attributes = vec![
            text("http.request.method", &self.method),
            text("url.path", &self.path),
            text("url.scheme", self.scheme),
            text("network.protocol.version", self.version),
            text("client.address", &self.client),
            number("http.response.status_code", self.status.into()),
            number("http.response.body.size", self.body_bytes),
        ];
        attributes.extend(self.query.as_deref().map(|query| text("url.query", query)));
        attributes.extend(self.user_agent.as_deref().map(|agent| text("user_agent.original", agent)));
        let (host, port) = split(&self.host);
        attributes.extend((!host.is_empty()).then(|| text("server.address", host)));
        attributes.extend(port.map(|port| number("server.port", port)));
        attributes.extend(self.answered.as_ref().map(|answered| text("maitred.pool", &answered.pool)));
        out.push(proto::Span {
            trace_id: context.trace_id.to_be_bytes().to_vec(),
            span_id: context.span_id.to_be_bytes().to_vec(),
            parent_span_id: context.parent_id.map(|id| id.to_be_bytes().to_vec()).unwrap_or_default(),
            name: self.method.clone(),
            kind: SpanKind::Server.into(),
            start_time_unix_nano: self.began_unix_us.saturating_mul(1000),
            end_time_unix_nano: end.saturating_mul(1000),
            attributes,
            // The conventions: of a server, only its own failures are errors.
            status: status(self.status >= 500),
            ..proto::Span::default()
        });
        if let Some(answered) = &self.answered {
            out.push(self.report_pool(answered, end));
        }
    }

    fn report_pool(&self, answered: &Answered, end_us: u64) -> proto::Span {
        let context = &self.context;
        let mut attributes = vec![
            text("http.request.method", &self.method),
            text("maitred.pool", &answered.pool),
            number("maitred.queue_us", answered.queue_us),
        ];
        if let Some(server) = &answered.server {
            let (host, port) = split(server);
            attributes.push(text("server.address", host));
            attributes.extend(port.map(|port| number("server.port", port)));
            let again = u64::from(answered.attempts.saturating_sub(1));
            attributes.extend((again > 0).then(|| number("http.request.resend_count", again)));
        }
        let code = answered.status.or(answered.server.is_none().then_some(self.status));
        attributes.extend(code.map(|code| number("http.response.status_code", code.into())));
        let given = self.began_unix_us.saturating_add(answered.given_after_us);
        proto::Span {
            trace_id: context.trace_id.to_be_bytes().to_vec(),
            span_id: context.pool_span_id().to_be_bytes().to_vec(),
            parent_span_id: context.span_id.to_be_bytes().to_vec(),
            name: self.method.clone(),
            kind: SpanKind::Client.into(),
            start_time_unix_nano: given.saturating_mul(1000),
            end_time_unix_nano: end_us.max(given).saturating_mul(1000),
            attributes,
            // Of a client, what it is refused is one too.
            status: status(code.is_none_or(|code| code >= 400)),
            ..proto::Span::default()
        }
    }
}

fn status(failed: bool) -> Option<Status> {
    failed.then(|| Status { code: StatusCode::Error.into(), message: String::new() })
}

/// What a collector is sent (`ExportTraceServiceRequest`), of this service.
pub fn report(service: &str, spans: &[Span]) -> Vec<u8> {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use prost::Message as _;
    let mut reported = Vec::with_capacity(2 * spans.len());
    spans.iter().for_each(|span| span.report(&mut reported));
    let scope = InstrumentationScope {
        name: "maitred".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let scope = ScopeSpans { scope: Some(scope), spans: reported, ..ScopeSpans::default() };
    let attributes = vec![text("service.name", service)];
    let resource = Resource { attributes, ..Resource::default() };
    let spans =
        ResourceSpans { resource: Some(resource), scope_spans: vec![scope], ..ResourceSpans::default() };
    ExportTraceServiceRequest { resource_spans: vec![spans] }.encode_to_vec()
}
