//! Distributed tracing: `traceparent` for servers, and spans for a collector.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind};
use prost::Message as _;

use crate::proxy::setup;
use crate::support::upstream::Upstream;
use crate::support::{Server, eventually};

const FROM_CLIENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Fields of a request.
type Fields = Mutex<Vec<(String, String)>>;
/// Spans, each with the name of its service.
type Spans = Mutex<Vec<(String, Span)>>;

/// A server that keeps the fields of its last request.
fn noting() -> (Upstream, Arc<Fields>) {
    let seen = Arc::<Fields>::default();
    let noted = Arc::clone(&seen);
    let upstream = Upstream::start(move |peer| {
        loop {
            let asked = peer.request()?;
            *noted.lock().unwrap() = asked.fields.clone();
            peer.answer("yes")?;
        }
    });
    (upstream, seen)
}

/// The value of a field that came once.
fn field(seen: &Fields, name: &str) -> Option<String> {
    let seen = seen.lock().unwrap();
    let mut values = seen.iter().filter(|(found, _)| found == name).map(|(_, value)| value.clone());
    let value = values.next();
    assert_eq!(values.next(), None, "{name} came twice");
    value
}

fn ask(server: &Server, fields: &str) {
    let request =
        format!("GET /x?a=b HTTP/1.1\r\nHost: site.example:81\r\nUser-Agent: probe\r\n{fields}\r\n");
    assert_eq!(server.connect().ask(request).status, 200);
}

#[test]
fn without_the_table_what_the_client_has_sent_passes() {
    let (upstream, seen) = noting();
    let server = setup(&[&upstream], "").start();
    ask(&server, &format!("traceparent: {FROM_CLIENT}\r\ntracestate: a=b\r\n"));
    assert_eq!(field(&seen, "traceparent").as_deref(), Some(FROM_CLIENT));
    assert_eq!(field(&seen, "tracestate").as_deref(), Some("a=b"));
    ask(&server, "");
    assert_eq!(field(&seen, "traceparent"), None);
    server.stop();
}

#[test]
fn a_trace_begins_here_or_goes_on() {
    let (upstream, seen) = noting();
    let sent = format!("traceparent: {FROM_CLIENT}\r\ntracestate: a=b\r\n");
    let trace = |lines: &str| format!("[trace]\n{lines}\n");
    // Of a stranger, it begins; so it does if what came is no such field, or came twice.
    let server = setup(&[&upstream], "").table(&trace("")).start();
    for fields in [&sent, "", "traceparent: 00-0-0-0\r\n", &format!("{sent}{sent}")] {
        ask(&server, fields);
        let own = field(&seen, "traceparent").unwrap();
        assert!(own.len() == 55 && own.starts_with("00-") && own.ends_with("-01"), "{own}");
        assert!(!own.contains(&FROM_CLIENT[3..35]), "{own}");
        // The request's id is the trace's: one search finds both.
        assert_eq!(field(&seen, "x-request-id").as_deref(), Some(&own[3..35]));
        assert_eq!(field(&seen, "tracestate"), None);
    }
    server.stop();
    for (lines, server_line, recorded) in
        [("parent = \"any\"\nsample = 1000000000", "", "00"), ("", "trusted_proxies = [\"127.0.0.1\"]", "01")]
    {
        let server = setup(&[&upstream], "").table(&trace(lines)).server(server_line).start();
        ask(&server, &sent);
        let own = field(&seen, "traceparent").unwrap();
        assert_eq!((&own[..35], &own[53..]), (&FROM_CLIENT[..35], recorded), "{lines}");
        assert!(!own.contains("b7ad6b7169203331"), "the server's span is another: {own}");
        assert_eq!(field(&seen, "tracestate").as_deref(), Some("a=b"));
        server.stop();
    }
}

/// Takes spans, and answers with this status.
fn collector(status: &'static str) -> (Upstream, Arc<Spans>) {
    let spans = Arc::<Spans>::default();
    let taken = Arc::clone(&spans);
    let upstream = Upstream::start(move |peer| {
        let asked = peer.request()?;
        assert_eq!(asked.line, "POST /v1/traces HTTP/1.1");
        assert_eq!(asked.field("content-type"), Some("application/x-protobuf"));
        let message = ExportTraceServiceRequest::decode(asked.body.as_slice()).unwrap();
        for resource in message.resource_spans {
            let service = text(&resource.resource.unwrap().attributes, "service.name").unwrap();
            for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                taken.lock().unwrap().push((service.clone(), span));
            }
        }
        peer.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"))
    });
    (upstream, spans)
}

fn text(attributes: &[opentelemetry_proto::tonic::common::v1::KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    Some(match found.value.clone()?.value? {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        other => panic!("{other:?}"),
    })
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn traced(upstream: &Upstream, collector: SocketAddr, lines: &str) -> Server {
    setup(&[upstream], "").table(&format!("[trace]\notlp = \"http://{collector}\"\n{lines}\n")).start()
}

#[test]
fn a_collector_gets_a_span_of_each_request_and_one_of_what_its_pool_did() {
    let (upstream, seen) = noting();
    let (collector, spans) = collector("200 OK");
    let server = traced(&upstream, collector.address(), "service = \"front\"\nparent = \"any\"");
    ask(&server, &format!("traceparent: {FROM_CLIENT}\r\n"));
    assert_eq!(server.connect().get("/a.txt").status, 200);
    eventually("all spans are there", || spans.lock().unwrap().len() == 3);
    let spans = spans.lock().unwrap().clone();
    assert!(spans.iter().all(|(service, _)| service == "front"));
    let of = |kind: SpanKind, path: Option<&str>| {
        let is = |span: &&Span| {
            span.kind == i32::from(kind) && text(&span.attributes, "url.path").as_deref() == path
        };
        spans
            .iter()
            .map(|(_, span)| span)
            .find(is)
            .unwrap_or_else(|| panic!("{kind:?} {path:?} in {spans:?}"))
    };
    let (own, pools, files) =
        (of(SpanKind::Server, Some("/x")), of(SpanKind::Client, None), of(SpanKind::Server, Some("/a.txt")));
    let sent = field(&seen, "traceparent").unwrap();
    // Client, this server, the request to the pool: each is the parent of the next.
    assert_eq!(hexadecimal(&own.trace_id), FROM_CLIENT[3..35]);
    assert_eq!(hexadecimal(&own.parent_span_id), FROM_CLIENT[36..52]);
    assert_eq!((&pools.trace_id, &pools.parent_span_id), (&own.trace_id, &own.span_id));
    assert_eq!(hexadecimal(&pools.span_id), sent[36..52]);
    assert!(own.start_time_unix_nano <= pools.start_time_unix_nano, "{own:?} {pools:?}");
    assert!(pools.start_time_unix_nano <= pools.end_time_unix_nano, "{pools:?}");
    assert!(pools.end_time_unix_nano <= own.end_time_unix_nano, "{own:?} {pools:?}");
    for (key, value) in [
        ("http.request.method", "GET"),
        ("url.query", "a=b"),
        ("url.scheme", "http"),
        ("network.protocol.version", "1.1"),
        ("client.address", "127.0.0.1"),
        ("user_agent.original", "probe"),
        ("server.address", "site.example"),
        ("server.port", "81"),
        ("http.response.status_code", "200"),
        ("http.response.body.size", "3"),
        ("maitred.pool", "app"),
    ] {
        assert_eq!(text(&own.attributes, key).as_deref(), Some(value), "{key} of {own:?}");
    }
    let port = upstream.address().port().to_string();
    for (key, value) in [
        ("server.address", "127.0.0.1"),
        ("server.port", port.as_str()),
        ("http.response.status_code", "200"),
    ] {
        assert_eq!(text(&pools.attributes, key).as_deref(), Some(value), "{key} of {pools:?}");
    }
    assert!(files.parent_span_id.is_empty() && files.trace_id != own.trace_id, "{files:?}");
    assert_eq!(text(&files.attributes, "maitred.pool"), None);
    eventually("they are counted", || server.status()["spans"]["sent"] == 2);
    server.stop();
}

#[test]
fn what_is_not_recorded_is_not_sent_and_what_is_refused_is_counted() {
    let (upstream, seen) = noting();
    let (collector, spans) = collector("400 Bad Request");
    let server = traced(&upstream, collector.address(), "sample = 1000000000");
    ask(&server, "");
    assert!(field(&seen, "traceparent").unwrap().ends_with("-00"));
    server.stop();
    assert!(spans.lock().unwrap().is_empty());
    let server = traced(&upstream, collector.address(), "");
    ask(&server, "");
    eventually("it is counted", || server.status()["spans"]["dropped"] == 1);
    server.wait_for("spans were dropped: it answered with 400");
    server.stop();
}

#[test]
fn what_is_left_at_the_end_is_sent() {
    let (upstream, _) = noting();
    let (collector, spans) = collector("200 OK");
    let server = traced(&upstream, collector.address(), "");
    (0..20).for_each(|_| ask(&server, ""));
    server.stop();
    assert_eq!(spans.lock().unwrap().len(), 40);
}
