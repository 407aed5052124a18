//! `add_header`, `expires`, `proxy_set_header`, `proxy_hide_header`.

use super::context::Context;
use crate::import::drafts::{Header, How};
use crate::import::nginx::scope::Scope;
use crate::import::nginx::tree::Directive;
use crate::import::nginx::values::{self, Part};
use crate::import::report::Kind;

/// Header fields of the responses of a location.
#[derive(Debug, Default)]
pub(crate) struct Responses {
    /// For all responses.
    pub(crate) rules: Vec<Header>,
    /// For what is found: fields of caching, which an error must not have.
    pub(crate) files: Vec<(String, String)>,
}

/// Fields of which a response may have several.
const BESIDE: &[&str] = &["set-cookie", "link", "vary", "via", "www-authenticate"];
/// Fields about a response that exists.
const OF_FILES: &[&str] =
    &["cache-control", "expires", "pragma", "content-type", "accept-ranges", "content-disposition"];
/// Fields that delimit messages.
const REFUSED: &[&str] = &[
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
    "trailer",
    "te",
    "date",
    "content-encoding",
];

/// What `add_header`, `expires` and `proxy_hide_header` say.
pub(crate) fn of_responses(cx: &Context<'_>, scope: &Scope<'_>) -> Responses {
    let mut found = Responses::default();
    for name in ["proxy_hide_header", "fastcgi_hide_header"] {
        for directive in scope.all(name) {
            cx.translated(directive);
            let hidden = directive.arg(0).to_owned();
            found.rules.push(Header { how: How::Remove, name: hidden, value: String::new() });
        }
    }
    let mut control: Vec<String> = expires(cx, scope).into_iter().collect();
    for directive in scope.all_of(&["add_header", "more_set_headers", "more_clear_headers"]) {
        for (name, value) in fields(directive) {
            add(cx, scope, directive, (&name, &value), &mut found, &mut control);
        }
    }
    if !control.is_empty() {
        found.files.push(("Cache-Control".to_owned(), control.join(", ")));
    }
    // What is set replaces what was there: nothing has to be removed first.
    let set: Vec<String> =
        found.rules.iter().filter(|rule| rule.how == How::Set).map(|rule| rule.name.clone()).collect();
    let is_set = |name: &str| set.iter().any(|set| set.eq_ignore_ascii_case(name));
    found.rules.retain(|rule| rule.how != How::Remove || !is_set(&rule.name));
    found
}

/// The fields that a directive names: `add_header NAME VALUE`, `more_set_headers "NAME: VALUE" …`.
fn fields(directive: &Directive) -> Vec<(String, String)> {
    if directive.name == "add_header" {
        return vec![(directive.arg(0).to_owned(), directive.arg(1).to_owned())];
    }
    let split = |text: &String| match text.split_once(':') {
        Some((name, value)) => (name.trim().to_owned(), value.trim().to_owned()),
        None => (text.trim().to_owned(), String::new()),
    };
    directive.args.iter().filter(|arg| !arg.starts_with('-')).map(split).collect()
}

fn add(
    cx: &Context<'_>,
    scope: &Scope<'_>,
    directive: &Directive,
    (name, value): (&str, &str),
    found: &mut Responses,
    control: &mut Vec<String>,
) {
    let lower = name.to_ascii_lowercase();
    if lower == "server" {
        let why = "`server_header = false` in [server] takes the field away";
        return cx.say(directive, Kind::Dropped, why);
    }
    if REFUSED.contains(&lower.as_str()) {
        let why = "this field delimits the message, and is the server's own";
        return cx.say(directive, Kind::Dropped, why);
    }
    let Some(value) = header_value(scope, value) else { return variable(cx, scope, directive, value) };
    cx.translated(directive);
    let rule = |how| Header { how, name: name.to_owned(), value: value.clone() };
    match lower.as_str() {
        _ if value.is_empty() && directive.name != "add_header" => found.rules.push(rule(How::Remove)),
        _ if value.is_empty() => {}
        "cache-control" => control.push(value),
        lower if OF_FILES.contains(&lower) => found.files.push((name.to_owned(), value)),
        lower if BESIDE.contains(&lower) => found.rules.push(rule(How::Add)),
        _ => found.rules.push(rule(How::Set)),
    }
}

/// A value without line breaks; of several lines one is made, as old configurations have them.
fn header_value(scope: &Scope<'_>, value: &str) -> Option<String> {
    let fixed = values::fixed(value, scope)?;
    Some(fixed.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn variable(cx: &Context<'_>, scope: &Scope<'_>, directive: &Directive, value: &str) {
    let about_cache = |part: &Part| {
        let Part::Variable(name) = part else { return false };
        name.starts_with("upstream_")
            || ["cache_status", "skip_cache", "request_time"].contains(&name.as_str())
    };
    match values::parts(value, scope).iter().any(about_cache) {
        true => cx.say(directive, Kind::Dropped, "it tells of nginx's own cache and servers, for debugging"),
        false => cx.not_possible(directive, "values of fields are fixed here, without variables"),
    }
}

/// `expires`, as a value of `Cache-Control`.
fn expires(cx: &Context<'_>, scope: &Scope<'_>) -> Option<String> {
    let directive = scope.last("expires")?;
    let text = if directive.arg(0) == "modified" { directive.arg(1) } else { directive.arg(0) };
    let text = values::fixed(text, scope);
    let seconds = |text: &str| values::millis(text.trim_start_matches('+')).map(|millis| millis / 1000);
    let value = match text.as_deref() {
        Some("off") => {
            cx.translated(directive);
            return None;
        }
        Some("max") => Some("max-age=315360000".to_owned()),
        Some("epoch") => Some("no-cache".to_owned()),
        Some(text) if text.starts_with('-') => Some("no-cache".to_owned()),
        Some(text) => seconds(text).map(|seconds| format!("max-age={seconds}")),
        None => None,
    };
    match value {
        Some(_) => cx.translated(directive),
        None => cx.not_possible(directive, "the time is fixed here, without variables and times of day"),
    }
    value
}

/// Fields of requests that every pool gets, or that make no sense here.
const SENT: &str = "x-real-ip x-forwarded-for x-forwarded-proto x-forwarded-host x-forwarded-port x-forwarded-server \
                    x-forwarded-scheme x-scheme x-forwarded-protocol forwarded upgrade connection x-forwarded-ssl \
                    x-original-uri x-original-url x-original-forwarded-for x-request-id x-url-scheme remote-host \
                    x-nginx-proxy x-request-start front-end-https x-forwarded-uri early-data x-forwarded-method x-client-ip \
                    client-ip sec-websocket-extensions sec-websocket-key sec-websocket-version te keep-alive \
                    proxy-connection x-forwarded-path content-length transfer-encoding x-original-host x-forwarded-by";

/// What `proxy_set_header` says.
pub(crate) fn of_requests(cx: &Context<'_>, scope: &Scope<'_>) -> Vec<Header> {
    let mut rules = Vec::new();
    for directive in scope.all("proxy_set_header") {
        let (name, value) = (directive.arg(0), directive.arg(1));
        let lower = name.to_ascii_lowercase();
        let same = format!("$http_{}", lower.replace('-', "_"));
        let rule = |how, value: &str| Header { how, name: name.to_owned(), value: value.to_owned() };
        match values::fixed(value, scope) {
            _ if value == same => cx.automatic(directive, "fields of requests are passed on"),
            _ if SENT.split_whitespace().any(|sent| sent == lower) => {
                cx.automatic(directive, "applications get who the client is, and WebSockets are passed on");
            }
            None if lower == "host" => cx.automatic(directive, "applications get the client's `Host`"),
            Some(fixed) if fixed.is_empty() => {
                cx.translated(directive);
                rules.push(rule(How::Remove, ""));
            }
            Some(fixed) => {
                cx.translated(directive);
                rules.push(rule(How::Set, &fixed));
            }
            None if value.contains("$ssl_client") => {
                cx.automatic(directive, "applications get the client's certificate in `X-SSL-Client-*`");
            }
            None => cx.not_possible(directive, "values of fields are fixed here, without variables"),
        }
    }
    rules
}
