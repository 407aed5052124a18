//! `health` of a pool.

use super::super::external::HostRule;
use super::super::finding::At;
use super::super::health::{Health, Question};
use super::super::meaning::{Source, Upstream};
use super::super::reader::{Section, shorten};

/// `health`; `http2`: whether the servers are spoken to by HTTP/2.
pub(super) fn of(section: &Section<'_>, source: &Source, http2: bool) -> Option<Health> {
    let span = section.given("health")?;
    if source.servers().is_none() {
        let why = "it is for a pool with `connect` to HTTP or FastCGI servers";
        section.cx.warn(&span, "`health` has no effect".to_owned(), why);
        return None;
    }
    let table = section.section("health");
    Some(Health {
        question: question(&table, source.fastcgi().is_some(), http2),
        port: port(&table, source),
        interval: table.time("interval"),
        timeout: table.time("timeout"),
        healthy_after: table.number("healthy_after").value,
        unhealthy_after: table.number("unhealthy_after").value,
    })
}

fn question(table: &Section<'_>, fastcgi: bool, http2: bool) -> Question {
    let kind = table.choice("kind");
    let kind = kind.unwrap_or(if fastcgi { "tcp" } else { "http" });
    let of_others = match kind {
        "http" => ["service"].as_slice(),
        "tcp" => &["path", "method", "host", "statuses", "body_contains", "service"],
        _ => &["path", "method", "host", "statuses", "body_contains"],
    };
    for (key, span) in of_others.iter().filter_map(|key| Some((key, table.given(key)?))) {
        let why = format!("this check is of the kind \"{kind}\"");
        table.cx.warn(&span, format!("`{key}` has no effect"), why);
    }
    let wrong = match kind {
        "http" if fastcgi => Some("FastCGI applications are checked by `kind = \"tcp\"`"),
        "grpc" if !http2 => Some("these servers do not speak HTTP/2: `h2://…`, or `http2 = true` in `tls`"),
        _ => None,
    };
    if let (Some(hint), Some(span)) = (wrong, table.given("kind")) {
        table.cx.error_with(&span, format!("`kind`: \"{kind}\" is not for these servers"), hint);
    }
    match kind {
        "tcp" => Question::Tcp,
        "grpc" => Question::Grpc { service: service(table) },
        _ => Question::Http {
            method: table.choice("method").unwrap_or("GET").to_owned(),
            path: path(table),
            host: host(table),
            statuses: table.texts("statuses").iter().filter_map(|text| statuses(table, text)).collect(),
            contains: contains(table),
        },
    }
}

/// `port`: of a server on a Unix socket there is none.
fn port(table: &Section<'_>, source: &Source) -> Option<u16> {
    let span = table.given("port")?;
    let unix = |server: &Upstream| matches!(server, Upstream::Unix(_));
    if source.servers().is_some_and(|servers| !servers.is_empty() && servers.iter().all(unix)) {
        let message = "`port`: the servers of this pool have Unix sockets, and no ports";
        table.cx.error_with(&span, message, "its checks go there: leave `port` out");
    }
    Some(table.number("port").value)
}

/// `body_contains`
fn contains(table: &Section<'_>) -> String {
    let Some(text) = table.text("body_contains") else { return String::new() };
    if text.value.len() > Health::CONTAINS_BYTES_MAX {
        let message = format!("`body_contains` has more than {} bytes", Health::CONTAINS_BYTES_MAX);
        table.cx.error(&text.span, message);
    }
    if !text.value.is_empty() && table.choice("method") == Some("HEAD") {
        let message = "`body_contains`: a response to HEAD has no body";
        table.cx.error_with(&text.span, message, "write method = \"GET\"");
    }
    text.value
}

fn path(table: &Section<'_>) -> String {
    let Some(text) = table.text("path") else { return "/".to_owned() };
    let sound = text.value.starts_with('/')
        && text.value.len() <= Health::PATH_BYTES_MAX
        && text.value.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    if !sound {
        let message = format!("`path`: \"{}\" is nothing to ask for", shorten(&text.value));
        table.cx.error_with(&text.span, message, "it starts with `/`, and has no spaces: \"/healthz\"");
    }
    text.value
}

fn host(table: &Section<'_>) -> Option<String> {
    let text = table.text("host")?;
    if !HostRule::is_host(&text.value) {
        let message = format!("`host`: \"{}\" is not a host", shorten(&text.value));
        table.cx.error(&text.span, message);
    }
    Some(text.value)
}

fn service(table: &Section<'_>) -> String {
    let Some(text) = table.text("service") else { return String::new() };
    let sound = text.value.len() <= Health::SERVICE_BYTES_MAX && !text.value.contains(char::is_control);
    if !sound {
        let message = format!("`service`: \"{}\" is not the name of a service", shorten(&text.value));
        table.cx.error(&text.span, message);
    }
    text.value
}

/// `"200"`, `"200-299"`
fn statuses(table: &Section<'_>, text: &At<String>) -> Option<(u16, u16)> {
    let (first, last) = text.value.split_once('-').unwrap_or((&text.value, &text.value));
    let status = |text: &str| text.parse().ok().filter(|status| (100..=599).contains(status));
    let range = status(first).zip(status(last)).filter(|(first, last)| first <= last);
    if range.is_none() {
        let message = format!("`statuses`: \"{}\" is no status", shorten(&text.value));
        table.cx.error_with(&text.span, message, "it takes \"200\" or \"200-299\"");
    }
    range
}
